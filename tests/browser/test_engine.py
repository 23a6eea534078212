"""The page's engine against Python: equal counts, peaks, transfers and errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import test_block_options
import test_blocks
import test_paged
from engine import Engine, speed
from hypothesis import assume, given
from hypothesis import strategies as st
from sizes import examples
from strategies import (
    Square,
    algorithms,
    attention_options,
    attention_programs,
    bound_programs,
    dependent_schedules,
    random_schedules,
    split_schedules,
    stacked_copies,
)

import iosim
from iosim.base.errors import InputError, ProgramError
from iosim.core.counting.closed import close
from iosim.core.counting.poly import Sum
from iosim.core.program.ir import Program
from iosim.core.trace import transfers
from iosim.lab.programs import program_data

Case = tuple[Program, dict[str, int], dict[str, int], dict[str, Any]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A registered schedule with any options and tiles, or a random program; with masks if any."""
    kind = draw(
        st.sampled_from(
            [
                "plain",
                "options",
                "options",
                "paged",
                "blocks",
                "marked",
                "random",
                "mixed",
                "split",
                "dependent",
                "dependent",
                "lanes",
                "stacked",
            ]
        )
    )
    match kind:
        case "plain" | "options":
            strategy = bound_programs() if kind == "plain" else attention_programs()
            algorithm, problem, tiles = draw(strategy)
            return algorithm.program_for(problem), problem.sizes, tiles, {}
        case "paged":
            problem, tiles, _ = draw(test_paged.caches())
            return iosim.algorithm("paged").program_for(problem), problem.sizes, tiles, {}
        case "blocks":
            problem, tiles, mask = draw(test_block_options.cases())
            program = iosim.algorithm("block_sparse").program_for(problem)
            return program, problem.sizes, tiles, {"blocks": mask}
        case "marked":
            name, problem, tiles, masks = draw(test_blocks.cases())
            program = test_blocks.PROGRAMS[name]
            tiles = {p.name: tiles[p.name] for p in program.params}
            return program, problem.sizes, tiles, masks
        case "random" | "mixed":
            return (*draw(random_schedules(mixed=kind == "mixed")), {})
        case "split":
            return (*draw(split_schedules()), {})
        case "stacked":
            return (*draw(stacked_copies()), {})
        case _:
            return (*draw(dependent_schedules(lanes=kind == "lanes")), {})


def refusal(answer: dict[str, Any]) -> str:
    """What an answer that is an error says; without one the test fails."""
    assert "error" in answer, answer
    return str(answer["error"])


def same_refusal(answer: dict[str, Any], error: Exception) -> None:
    """Both say the same, but for what Python adds to be of help with names."""
    said = refusal(answer)
    assert str(error).startswith(said.removesuffix(": give them")), (said, str(error))


def words(counts: Any) -> dict[str, str]:
    """Counts as the engine says them."""
    return {f"{way} {tensor}": str(n) for (way, tensor), n in counts}


def assert_same(answer: dict[str, Any], ask: Callable[[Any], Any], instance: Any) -> None:
    """An answer is what Python says of an instance, an error too."""
    try:
        python = ask(instance)
    except ProgramError as error:
        same_refusal(answer, error)
    else:
        assert answer["is"] == (str(python) if isinstance(python, int) else words(python))


def agree(engine: Engine, case: Case) -> None:
    """Counts, peak, transfers in order, and lines of the listing."""
    program, sizes, tiles, masks = case
    counted, peak, walked = engine.ask(
        program, "count", "peak", "walk", sizes=sizes, tiles=tiles, masks=masks
    )
    try:
        instance = iosim.bind(program, sizes, tiles, masks)
    except InputError as error:
        for answer in (counted, peak, walked):
            same_refusal(answer, error)
        return
    assert_same(counted, iosim.count, instance)
    assert_same(peak, iosim.peak, instance)
    moved = [
        [t.direction, t.tensor, [list(r) for r in t.ranges], t.words] for t in transfers(instance)
    ]
    assert walked["is"]["transfers"] == moved
    assert walked["is"]["left"] == 0
    assert str(walked["is"]["peak"]) == peak.get("is", str(walked["is"]["peak"]))
    listing = program_data(program)["listing"]
    for line in walked["is"]["lines"]:
        kind, number = line.split()
        code = listing[int(number)]["code"].strip()
        starts = {"turn": r"grid|for", "op": r"\w+\("}.get(kind, kind)
        assert re.match(starts, code), (line, code)


@examples(8)
@given(cases())
def test_random_instances(engine: Engine, case: Any) -> None:
    try:
        close(case[0])
    except ProgramError:
        assume(False)
    agree(engine, case)


@st.composite
def followers(draw: st.DrawFn) -> Program:
    """Loops in a loop, all of which follow the outer tile: sums of roundings of several kinds."""
    kinds = [draw(st.sampled_from("nm")) for _ in range(3)]
    slopes, offsets = st.sampled_from([-2, -1, 1, 1, 2, 3]), st.integers(-4, 4)

    def bound(tile: Any, axis: str) -> Any:
        end = draw(st.sampled_from([tile.start, tile.stop])) * draw(slopes) + draw(offsets)
        return end + axis if draw(st.booleans()) else end

    def indices(b: Any, tiles: list[Any]) -> list[Any]:
        found = []
        for axis in "nm":
            mine = [t for t in tiles if t.axis == axis]
            found.append(draw(st.sampled_from([b.span(axis), *mine])))
        return found

    def nest(b: Any, tiles: list[Any], rest: list[str]) -> None:
        x = b.load("A", *indices(b, tiles), name=f"x{len(rest)}")
        if rest:
            axis, tile = rest[0], tiles[0]
            ends = draw(st.sampled_from([(0, 1), (1, 0), (1, 1)]))
            start = bound(tile, axis) if ends[0] else 0
            stop = bound(tile, axis) if ends[1] else None
            for inner in b.tiles(axis, f"B{axis}{len(rest)}", start, stop):
                nest(b, [*tiles, inner], rest[1:])
        b.free(x)

    def schedule(b: Any) -> None:
        for axis in "nm":
            b.tile_sizes(axis, *(f"B{axis}{k}" for k in range(3)))
        for tile in b.tiles(kinds[0], f"B{kinds[0]}0"):
            nest(b, [tile], kinds[1:])

    return iosim.build("followers", Square, schedule)


@st.composite
def large(draw: st.DrawFn) -> Case:
    """A schedule of attention with any options, or a random one whose spans follow tiles, at sizes
    that no walk can go through."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        program, sizes, _ = draw(dependent_schedules())
    elif kind == 1:
        program, sizes = draw(followers()), {"n": 1, "m": 1}
    else:
        algorithm = draw(algorithms("attention"))
        problem = draw(attention_options(7, algorithm.lacks, algorithm.needs))
        program, sizes = algorithm.program_for(problem), problem.sizes
    most = 2 ** draw(st.integers(3, 40))
    sizes = {x: draw(st.integers(1, most)) for x in sizes}
    tiles = {}
    for p in program.params:
        part = sizes[p.axis] // 2 ** draw(st.integers(0, 30))
        tiles[p.name] = draw(st.integers(p.least, max(1, part)))
    return program, sizes, tiles, {}


@examples(4)
@given(large())
def test_large_instances(engine: Engine, case: Any) -> None:
    program, sizes, tiles, _ = case
    try:
        instance = iosim.bind(program, sizes, tiles)
    except InputError as error:
        (answer,) = engine.ask(program, "count", sizes=sizes, tiles=tiles)
        same_refusal(answer, error)
        return
    assume(not walks(instance))
    counted, peak = engine.ask(program, "count", "peak", sizes=sizes, tiles=tiles)
    assert_same(counted, iosim.count, instance)
    assert_same(peak, iosim.peak, instance)


def walks(instance: Any) -> bool:
    """Whether a closed form goes through many tiles one by one: those of sums that are in sums."""
    closed = close(instance.program)
    atoms = {x for poly in closed.counts.values() for x in poly.atoms()}
    inner = [x for x in atoms if isinstance(x, Sum) and any(isinstance(y, Sum) for y in x.factors)]
    loops = [x.span.axis for x in inner]
    loops += [loop.span.axis for level in closed.peak for loop in level.over[:-1]]
    return any(instance.env[axis] > 200 for axis in loops)


@given(bound_programs(), st.data())
@examples(3 / 2)
def test_what_cannot_be_bound(engine: Engine, case: Any, data: Any) -> None:
    """Names that are missing or unknown, and values that are no sizes."""
    algorithm, problem, tiles = case
    program, sizes = algorithm.program, problem.sizes
    for given_ in (sizes, tiles):
        for name in list(given_):
            match data.draw(st.sampled_from(["as it is"] * 6 + ["gone", "renamed", "wrong"])):
                case "gone":
                    del given_[name]
                case "renamed":
                    given_[name + "x"] = given_.pop(name)
                case "wrong":
                    wrong = [0, -1, 2**40, 2**40 + 1, 2.5, -0.5]
                    given_[name] = data.draw(st.sampled_from(wrong))
    (answer,) = engine.ask(program, "peak", sizes=sizes, tiles=tiles)
    try:
        instance = iosim.bind(program, sizes, tiles)
    except InputError as error:
        same_refusal(answer, error)
        return
    assert answer["is"] == str(iosim.peak(instance))


def test_masks_that_do_not_fit(engine: Engine) -> None:
    program = iosim.algorithm("block_sparse").program
    sizes, tiles = {"N": 6, "N_k": 6, "d": 2, "heads": 1}, {"B_r": 2, "B_c": 2}
    for mask in (np.ones((3, 2), bool), np.ones((2, 3), bool), None):
        masks = {} if mask is None else {"blocks": mask}
        (answer,) = engine.ask(program, "count", sizes=sizes, tiles=tiles, masks=masks)
        with pytest.raises(InputError) as found:
            iosim.bind(program, sizes, tiles, masks)
        same_refusal(answer, found.value)
    (answer,) = engine.ask(
        program, "count", sizes=sizes, tiles=tiles, masks={"block": np.ones((3, 3), bool)}
    )
    assert refusal(answer) == "block_sparse has no block mask 'block'"


@pytest.mark.timed
@pytest.mark.parametrize("seen", [{}, {"causal": True}, {"window": (512, 64)}], ids=str)
def test_fast_enough(engine: Engine, seen: dict[str, Any]) -> None:
    """A frame is 33 ms and a slider is answered within 100; measured are fractions of these."""
    for M in (300, 2**14, 2**18):
        for row in speed(engine, 4096, 64, M, **seen):
            assert row["count"] + row["peak"] < 1, row
            assert row["bind"] < 2, row
            # Under a mask small_tiles has tiles of both passes to search, and is late.
            assert row["best"] < (2000 if seen and row["schedule"] == "small_tiles" else 50), row
            assert row["walk"] / row["events"] < 2e-3, row
