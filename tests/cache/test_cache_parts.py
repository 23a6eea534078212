"""Parts of the cache package by themselves, on seeded cases, against what goes by hand."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from strategies import Square
from touch_oracle import Walker

import iosim
from iosim.base.errors import InputError
from iosim.cache import (
    Tiled,
    address_map,
    address_ranges,
    boxes,
    of_program,
    opt_stack,
    phases,
    touches,
    trace_length,
)
from iosim.cache.of_program import count
from iosim.cache.stream import Accesses
from iosim.core.problem import BlockSparse
from iosim.core.program.block_masks import masks

SEEDS = range(30)


def kept_by_belady(uses: list[int], room: int, bypass: bool) -> list[bool]:
    """Which accesses find what they touch, of lines that are known by when they are next used."""
    held: list[int] = []
    found = []
    for now, use in enumerate(uses):
        found.append(now in held)
        if now in held:
            held.remove(now)
        if use < opt_stack.NEVER or not bypass:
            if len(held) == room and (not bypass or max(held) > use):
                held.remove(max(held))
            if len(held) < room:
                held.append(use)
    return found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bypass", [False, True])
def test_depths_are_the_least_rooms_in_which_belady_keeps_a_line(
    seed: int, bypass: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain text, with blocks of few entries: carries wait, and are settled."""
    monkeypatch.setattr(opt_stack, "built", lambda function, **_: function)
    monkeypatch.setattr(opt_stack, "ENTRIES", 1 + seed % 5)
    rng = np.random.default_rng(seed)
    lines, write = rng.integers(0, 3 + seed, 90), rng.random(90) < 0.3
    uses = opt_stack.follows(lines, write, seed % 2 == 0, 3 + seed)
    for at in range(90):
        later = [k for k in range(at + 1, 90) if lines[k] == lines[at]]
        costs = later and not (seed % 2 == 0 and write[later[0]])
        assert uses[at] == (later[0] if costs else opt_stack.NEVER)
    depth = opt_stack.depths(uses, bypass=bypass)
    for room in range(1, 4 + seed):
        found = kept_by_belady(uses.tolist(), room, bypass)
        assert [0 < x <= room for x in depth.tolist()] == found, room


def chains(many: list[list[int]]) -> list[list[tuple[int, ...]]]:
    """Boxes as chains: words of which the next is the same in every box, and the one before too."""
    after: dict[int, set[int | None]] = {}
    before: dict[int, set[int | None]] = {}
    for box in many:
        for one, other in itertools.pairwise([None, *box, None]):
            if one is not None:
                after.setdefault(one, set()).add(other)
            if other is not None:
                before.setdefault(other, set()).add(one)
    found = []
    for box in many:
        mine = [[box[0]]]
        for one, other in itertools.pairwise(box):
            if len(after[one]) == len(before[other]) == 1:
                mine[-1].append(other)
            else:
                mine.append([other])
        found.append([tuple(x) for x in mine])
    return found


@pytest.mark.parametrize("seed", range(300))
def test_atoms_are_chains_of_words(seed: int) -> None:
    """In boxes whose runs follow one another in any order."""
    rng = random.Random(seed)
    some = set()
    for _ in range(rng.randint(1, 4 + seed % 5)):
        ends = sorted(rng.sample(range(6 + seed % 9), 2 * rng.randint(1, 3)))
        box = list(zip(ends[::2], ends[1::2], strict=True))
        rng.shuffle(box)
        some.add(tuple(box))
    runs = sorted(some)
    many = [[k for low, high in box for k in range(low, high)] for box in runs]
    start, stop = (np.array([run[end] for box in runs for run in box]) for end in (0, 1))
    atom, each, words = address_ranges.atoms(start, stop, np.array([len(box) for box in runs]))
    expected = chains(many)
    assert each.tolist() == [len(box) for box in expected]
    named = list(zip(atom.tolist(), itertools.chain(*expected), strict=True))
    assert len(set(named)) == len({x for x, _ in named}) == len({x for _, x in named})
    assert all(words[x] == len(chain) for x, chain in named)
    assert len(words) == len({x for x, _ in named})
    for box in many:
        firsts, longs = address_ranges.runs_of(np.array(box))
        joined = list(zip(firsts, longs, strict=True))
        assert [k for first, n in joined for k in range(first, first + n)] == box
        assert all(x + n != y for (x, n), (y, _) in itertools.pairwise(joined))


@pytest.mark.parametrize("seed", SEEDS)
def test_units_of_boxes_compiled_or_not_are_those_of_words(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One kind at some places, in several runs with little room, against one word after another."""
    monkeypatch.setattr(boxes, "compiled", lambda function, **_: function)
    monkeypatch.setattr(boxes, "POOL", 40)
    monkeypatch.setattr(boxes, "PHASES", 8)
    rng = random.Random(seed)
    kinds, expanding = boxes.Kinds(), boxes.Expanding()
    shape = rng.randint(4, 9), rng.randint(4, 9)
    of: list[tuple[boxes.BoxKind, list[int]]] = []
    for _ in range(rng.randint(1, 4)):
        tiled = rng.random() < 0.5
        how = Tiled(rng.randint(1, 3), rng.randint(1, 4)) if tiled else None
        own = how.shift(shape) if how else boxes.IN_ORDER
        extents = rng.randint(1, 4), rng.randint(1, 4)
        words = extents[0] * extents[1]
        low = rng.choice([0, 0, rng.randrange(words)])
        kind = boxes.BoxKind(
            extents,
            (1 << own if how else shape[1], 1),
            low,
            rng.randint(low + 1, words),
            rng.random() < 0.5,
            rng.randint(1, 5),
            how,
            how.wide(shape) if how else 0,
            own,
            rng.randint(0, 9) if how else 0,
        )
        row, column = rng.randint(0, shape[0] - extents[0]), rng.randint(0, shape[1] - extents[1])
        at = [
            (((row + y) << own) + column + x if how else (row + y) * shape[1] + column + x)
            for y in range(extents[0])
            for x in range(extents[1])
        ]
        of.append((kind, at))
    moves, times = rng.randint(0, 2), rng.randint(1, 5)
    value = np.array([[rng.randint(0, 3) for _ in range(times)] for _ in range(moves)], np.int64)
    value = value.reshape(moves, times)
    by = np.array(
        [
            [rng.choice([0, 1, k.how.a << k.shift if k.how else 7]) for k, _ in of]
            for _ in range(moves)
        ],
        np.int64,
    ).reshape(moves, len(of))
    base = np.array([at[0] for _, at in of])
    numbers = np.array([kinds.number(kind) for kind, _ in of])
    expected: list[tuple[int, bool]] = []
    for t in range(times):
        for e, (kind, at) in enumerate(of):
            far = sum(int(by[m, e] * value[m, t]) for m in range(moves))
            mine = [one_unit(kind, shape, x + far) for x in at]
            for k in range(kind.low, kind.high):
                if kind.line == 1 or k == 0 or mine[k] != mine[k - 1]:
                    expected.append((mine[k], kind.write))
            plain, new = kind.units(np.array([at[0] + far]))
            assert plain[0].tolist() == mine[kind.low : kind.high]
            kept = [
                mine[k]
                for k in range(kind.low, kind.high)
                if kind.line == 1 or k == 0 or mine[k] != mine[k - 1]
            ]
            assert plain[new].tolist() == kept
    given = boxes.Boxes(base, numbers, by, value)
    state, found = np.zeros(3, np.int64), []
    while state[0] < times:
        room = rng.randint(1, 9)
        address, write = np.full(room, -1), np.zeros(room, bool)
        n = expanding.run(kinds, given, state, Accesses(address, write))
        assert n == room or state[0] == times
        found += zip(address[:n].tolist(), write[:n].tolist(), strict=True)
    assert found == expected


def one_unit(kind: boxes.BoxKind, shape: tuple[int, int], place: int) -> int:
    """The unit of a word."""
    if kind.how is None:
        return place // kind.line
    y, x = divmod(place, 1 << kind.shift)
    a, b = kind.how.a, kind.how.b
    wide = -(-shape[1] // b)
    block = y // a * wide + x // b
    return (block * a * b + y % a * b + x % b) // kind.line + kind.start


def nest(seed: int) -> iosim.Instance:
    """Loops in one another, some of which follow outer ones, around copies and local arrays."""
    rng = random.Random(seed)

    def around(x: Any) -> list[Any]:
        return [(0, None), (0, x.stop), (x.start, "n"), (x.start, x.stop), (x.start - 1, x.stop)]

    def schedule(b: Any) -> None:
        b.tile_sizes("n", "B", "C")
        b.tile_sizes("m", "D", "E")
        for i in b.tiles("n", "B"):
            for j in b.tiles("n", "C", *rng.choice(around(i))):
                for x in b.tiles("m", "D"):
                    a = b.load("A", j, rng.choice([x, "m"]))
                    if rng.random() < 0.5:
                        o = b.zeros("o", *rng.choice([(i, x), (j, x), ("n", x), (j, i)]))
                        b.free(o)
                    if rng.random() < 0.5:
                        b.op("mask_after", a, a=i.start)
                    b.free(a)
                for z in b.tiles("n", "B", *rng.choice([*around(j), (0, 0)])):
                    d = b.load("A", z, "m")
                    b.free(d)
            for y in b.tiles("m", "E"):
                c = b.load("A", i, y)
                b.store(c, "B", i, y)
                b.free(c)

    program = iosim.build("nest", Square, schedule)
    sizes = {axis: rng.randint(3, 15) for axis in "nm"}
    return iosim.bind(program, sizes, {p.name: rng.randint(1, 4) for p in program.params})


@pytest.mark.numbers
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fast", [False, True])
def test_nests_are_measured_as_they_are_walked(
    seed: int, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lengths in lines, by phases where tiles lie anywhere; in one piece or few lanes at once."""
    instance = nest(seed)

    def refuse(*_: Any, **__: Any) -> int:
        raise AssertionError("the stream is made to be counted")

    monkeypatch.setattr(of_program, "length_of", refuse)
    if fast:
        monkeypatch.setattr(trace_length, "LANES", 3)
    layouts: dict[str, Any] = [{}, {"A": Tiled(2, 3)}, {"A": "column-major"}][seed % 3]
    for line in (2, 3 + seed % 3):
        stream = touches(instance, unit="lines", line_words=line, layouts=layouts)
        assert stream.length == len(Walker(instance, False, layouts, "lines", line).found)
    words = touches(instance)
    walked = Walker(instance)
    assert words.length == len(walked.found)
    assert {r.name: r.words for r in words.regions if r.scratch} == walked.largest
    assert count(instance) > 0


@pytest.mark.parametrize("seed", range(12))
def test_marked_iterations_are_measured_as_they_are_walked(seed: int) -> None:
    """Of a block mask, whose last blocks are short or whole."""
    rng = random.Random(seed)
    problem = BlockSparse(N=rng.randint(3, 9), d=2, heads=1, N_k=rng.randint(3, 9))
    program = iosim.algorithm("block_sparse").program_for(problem)
    tiles = {p.name: rng.randint(1, 4) for p in program.params}
    env = problem.sizes | {
        p.name: min(tiles[p.name], problem.sizes[p.axis]) for p in program.params
    }
    (shape,) = (tuple(side.count(env) for side in sides) for sides in masks(program).values())
    mask = np.random.default_rng(seed).random(shape) < 0.6
    instance = iosim.bind(program, problem.sizes, tiles, {"blocks": mask})
    for unit, line in (("words", 1), ("lines", 3), ("rows", 1)):
        stream = touches(instance, unit=unit, line_words=line)  # type: ignore[arg-type]
        assert stream.length == len(Walker(instance, False, {}, unit, line).found)
    assert count(instance) == sum(at.size for at, _, _ in of_program.boxes(instance))


def test_phases_that_are_too_many_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then lines are made to be counted, and are as many."""
    instance = iosim.bind(
        iosim.algorithm("flash2").program, iosim.Attention(7, 5).sizes, {"B_r": 2, "B_c": 3}
    )
    asked: dict[str, Any] = {"unit": "lines", "line_words": 4, "layouts": {"K": Tiled(2, 3)}}
    length = touches(instance, **asked).length
    calls = []
    made = of_program.length_of
    monkeypatch.setattr(of_program, "length_of", lambda *a, **k: calls.append(1) or made(*a, **k))
    for work, expected in ((2**22, 0), (1, 1)):
        monkeypatch.setattr(phases, "MOST_WORK", work)
        calls.clear()
        assert touches(instance, **asked).length == length
        assert len(calls) == expected


def test_weights_beyond_what_floats_hold_are_summed_exactly() -> None:
    big = np.array([2**53, 1, 2**60 + 1])
    assert trace_length.total(big, 1) == 2**53 + 2**60 + 2
    assert trace_length.total(big, np.array([1, 3, 4])) == 2**53 + 2**62 + 7
    assert trace_length.total(2**70, 3) == 3 * 2**70
    counted = phases.Phased(nothing(), frozenset())
    for times in (big, big.astype(object) * 2**20, np.array([3, 4, 5])):
        found = counted._starts(np.array([1, 1, 2]), times, (1, 4))
        assert found.tolist() == [[0, int(times[0]) + int(times[1]), int(times[2]), 0]]


def nothing() -> Any:
    """A ground on which nothing lies."""
    return address_map.Ground("lines", 3, {}, {})


def test_words_and_times_beyond_64_bits_are_refused() -> None:
    """Of numbers and of arrays; up to 2⁶² they are taken."""
    lanes = np.array([1, 2**31])
    assert trace_length.words_of((2**31, 2**31)) == 2**62
    assert trace_length.words_of((lanes, 2**31)).tolist() == [2**31, 2**62]
    for shape in ((2**31, 2**31 + 1), (lanes, 2**31 + 1)):
        with pytest.raises(InputError, match="words at once are more than addresses have room"):
            trace_length.words_of(shape)
    assert trace_length._multiplied(lanes, np.array([2**31, 2**31])).tolist() == [2**31, 2**62]
    assert trace_length._multiplied(2**40, 2**40) == 2**80
    with pytest.raises(InputError, match="more iterations than numbers of 64 bits can say"):
        trace_length._multiplied(lanes, 2**31 + 1)
