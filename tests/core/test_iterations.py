"""Loops whose iterations run together do what the plain interpreter does, and refuse what it does.

`lanes=1` runs every loop in order, one iteration after the other: it is the oracle.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from sizes import examples
from strategies import attention_programs, bound_programs, plain_algorithms, random_schedules

import iosim
from iosim.base.errors import IosimError
from iosim.core.problem import MatMul
from iosim.core.program.index import Affine, Dim, Span, Tile, dims
from iosim.core.program.ir import Alloc, Free, Load, Loop, Node, Op, Ref, nodes
from iosim.core.program.iterations import may_merge
from iosim.core.program.ops import OPS

LANES = (1, 40, 2**18)


def outcome(program: Any, sizes: Any, tiles: Any, M: int, hbm: Any, lanes: int) -> Any:
    """What a run counts, holds and computes, or what it is refused for."""
    try:
        instance = iosim.bind(program, sizes, tiles)
        with np.errstate(all="ignore"):
            run = iosim.simulate(instance, iosim.Machine(M), hbm, lanes=lanes)
    except IosimError as error:
        return type(error), str(error)
    return run.counts, run.peak_words, run.outputs


def check_alike(program: Any, sizes: Any, tiles: Any, M: int, hbm: Any) -> Any:
    """The oracle's outcome, which is that of every other number of lanes."""
    want, *others = (outcome(program, sizes, tiles, M, hbm, lanes) for lanes in LANES)
    for found in others:
        assert found[:2] == want[:2]
        for name, value in want[2].items() if len(want) == 3 else ():
            np.testing.assert_allclose(found[2][name], value, rtol=1e-11, atol=1e-12)
    return want


@given(bound_programs(most=9) | attention_programs(most=9), st.integers(0, 2))
@examples(3 / 2)
def test_schedules_run_as_the_plain_interpreter_runs_them(case: Any, less: int) -> None:
    algorithm, problem, tiles = case
    program = algorithm.program_for(problem)
    instance = iosim.bind(program, problem.sizes, tiles)
    M = max(1, iosim.peak(instance) - less)
    want = check_alike(program, problem.sizes, tiles, M, problem.random(seed=less))
    assert (want[0] is iosim.base.errors.CapacityError) == (iosim.peak(instance) > M)


@given(random_schedules())
@examples(3 / 2)
def test_random_schedules_run_as_the_plain_interpreter_runs_them(case: Any) -> None:
    program, sizes, tiles = case
    top = iosim.peak(iosim.bind(program, sizes, tiles))
    hbm = MatMul(**sizes).random() | {"C": np.zeros((sizes["m"], sizes["n"]))}
    check_alike(program, sizes, tiles, max(1, top), hbm)


def changed(
    body: tuple[Node, ...], seed: random.Random, names: list[str], tiles: list[Tile]
) -> Any:
    """One node of a tree dropped, doubled, moved, or with another operand."""
    k = seed.randrange(len(body))
    node = body[k]
    if isinstance(node, Loop) and (len(body) == 1 or seed.random() < 0.8):
        inner = changed(node.body, seed, names, [*tiles, node.tile])
        return (*body[:k], dataclasses.replace(node, body=inner), *body[k + 1 :])
    kind = seed.choice(["drop", "double", "move", "operand", "operand"])
    if kind == "move":
        rest = [*body[:k], *body[k + 1 :]]
        rest.insert(seed.randrange(len(body)), node)
        return tuple(rest)
    if kind == "operand" and isinstance(node, Op):
        at = seed.randrange(len(node.operands))
        old = node.operands[at]
        new = seed.choice(
            [Ref(seed.choice(names), old.part), Ref(old.buffer, seed.choice([None, *tiles]))]
        )
        operands = (*node.operands[:at], new, *node.operands[at + 1 :])
        return (*body[:k], dataclasses.replace(node, operands=operands), *body[k + 1 :])
    return (*body[:k], *[node] * (2 * (kind == "double")), *body[k + 1 :])


@examples(4)
@given(bound_programs(most=6), st.integers(1, 2), st.integers(0, 1), st.integers(0, 2**32))
def test_wrong_programs_are_refused_alike(case: Any, times: int, less: int, number: int) -> None:
    """With the same message, or run alike where a change happens to be none or a right one."""
    algorithm, problem, tiles = case
    seed = random.Random(number)
    program = algorithm.program
    M = max(1, iosim.peak(iosim.bind(program, problem.sizes, tiles)) - less)
    names = [node.buffer for node in nodes(program.body) if isinstance(node, Load)]
    body = program.body
    for _ in range(times):
        if body:
            body = changed(body, seed, names, [])
    broken = dataclasses.replace(program, body=body)
    want = check_alike(broken, problem.sizes, tiles, M, problem.random(seed=1))
    event(want[0].__name__ if len(want) == 2 else "runs")


def along(letter: str, dims: str, values: np.ndarray, part: slice) -> np.ndarray:
    """A part of an operand along a letter; all of it where it hasn't the letter."""
    return values[tuple(part if x == letter else slice(None) for x in dims)]


@pytest.mark.parametrize("name", [x for x, spec in OPS.items() if not spec.placed])
def test_operations_work_position_by_position_or_add_sums(name: str) -> None:
    """What `may_merge` takes from a record, `over` and `sums`, is what the operation does."""
    spec = OPS[name]
    dims = tuple("ij" if x == "*" else x for x in spec.dims)
    size = {"i": 5, "j": 4, "x": 3}
    rng = np.random.default_rng(0)
    values = [rng.uniform(0.5, 2, [size[x] for x in own]) for own in dims]
    whole = spec.numpy(*values)
    for letter in sorted(set("".join(dims)) - set("" if "*" in spec.dims else spec.over)):
        for part in (slice(0, 2), slice(2, None)):
            cut = [along(letter, own, a, part) for own, a in zip(dims, values, strict=True)]
            for at, new, want in zip(spec.writes, spec.numpy(*cut), whole, strict=True):
                np.testing.assert_allclose(new, along(letter, dims[at], want, part), rtol=1e-13)
    if not spec.sums:
        return
    assert (spec.writes, len(spec.over)) == ((0,), 1)
    total = values[0]
    for part in (slice(0, 2), slice(2, None)):
        cut = [along(spec.over, own, a, part) for own, a in zip(dims, values, strict=True)]
        total = spec.numpy(total, *cut[1:])[0]
    np.testing.assert_allclose(total, whole[0], rtol=1e-13)


def test_which_loops_of_the_schedules_merge() -> None:
    """Loops over chunks of a product, and over parts of a block; those of online softmax don't."""
    found = {
        algorithm.name: Counter(
            (loop.tile.axis, may_merge(loop, resident))
            for loop, resident in sequential(algorithm.program.body, {})
        )
        for algorithm in plain_algorithms()
    }
    assert found["matmul"] == {("k", True): 1}
    assert found["flash2"] == {("N", False): 1}
    assert found["flash2_chunked"] == {("N", False): 1, ("d", True): 2}
    assert found["flash2_parts"] == {("N", False): 2, ("N", True): 2}
    assert found["small_tiles"] == {("N", False): 1, ("N", True): 2, ("d", True): 3}
    assert found["naive"] == {("N", False): 1, ("N", True): 2, ("d", True): 2}


def sequential(
    body: tuple[Node, ...], resident: dict[str, tuple[Dim, ...]]
) -> Iterator[tuple[Loop, dict[str, tuple[Dim, ...]]]]:
    """Each loop in order, with what is resident before it."""
    resident = dict(resident)
    for node in body:
        match node:
            case Loop():
                if not node.parallel:
                    yield node, dict(resident)
                yield from sequential(node.body, resident)
            case Load() | Alloc():
                resident[node.buffer] = dims(node.index)
            case Free():
                del resident[node.buffer]


def products(change: Callable[..., None]) -> Callable[[iosim.Builder], None]:
    """C += A B over tiles of k, with something else in each iteration."""

    def schedule(b: iosim.Builder) -> None:
        b.tile_sizes("k", "B")
        c, e = b.zeros("c", "m", "n"), b.zeros("e", "m", "n")
        for x in b.tiles("k", "B"):
            p, q = b.load("A", "m", x, name="p"), b.load("B", x, "n", name="q")
            change(b, x, c, e, p, q)
            b.free(p, q)
        b.store(c, "C", "m", "n")
        b.free(c, e)

    return schedule


def adds(b: Any, x: Any, c: Any, e: Any, p: Any, q: Any) -> None:
    b.op("matmul_nn", c, p, q)


def adds_twice(b: Any, x: Any, c: Any, e: Any, p: Any, q: Any) -> None:
    b.op("matmul_nn", c, p, q)
    b.op("matmul_nn", e, p, q)


def changes_a_factor(b: Any, x: Any, c: Any, e: Any, p: Any, q: Any) -> None:
    b.op("zero", p)
    b.op("matmul_nn", c, p, q)


def reads_its_sum(b: Any, x: Any, c: Any, e: Any, p: Any, q: Any) -> None:
    b.op("matmul_nn", c, p, q)
    b.op("multiply", e, c)


def multiplies_its_sum(b: Any, x: Any, c: Any, e: Any, p: Any, q: Any) -> None:
    b.op("matmul_nn", c, p, q)
    b.op("multiply", c, e)


def stores_its_sum(b: Any, x: Any, c: Any, e: Any, p: Any, q: Any) -> None:
    b.op("matmul_nn", c, p, q)
    b.store(c, "C", "m", "n")


def adds_a_sum_of_sums(b: Any, x: Any, c: Any, e: Any, p: Any, q: Any) -> None:
    b.op("matmul_nn", c, p, q)
    b.op("row_dots", l := b.zeros("l", "m"), c, e)
    b.free(l)


def adds_the_same_each_time(b: Any, x: Any, c: Any, e: Any, p: Any, q: Any) -> None:
    whole, right = b.load("A", "m", "k", name="whole"), b.load("B", "k", "n", name="right")
    b.op("matmul_nn", c, whole, right)
    b.free(whole, right)


def sums_inside(b: Any, x: Any, c: Any, e: Any, p: Any, q: Any) -> None:
    t = b.zeros("t", "m", "n")
    b.op("matmul_nn", t, p, q)
    b.free(t)


def changes_a_part_of_its_own(b: Any, x: Any, c: Any, e: Any, p: Any, q: Any) -> None:
    t = b.zeros("t", "m", "k")
    b.op("zero", t[x])
    b.free(t)


def weighs_its_own_columns(b: Any, x: Any, c: Any, e: Any, p: Any, q: Any) -> None:
    t, L = b.zeros("t", "m", x), b.lowest("L", "m")
    b.op("log_weights", t, L, p)
    b.free(t, L)


def masks(b: Any, x: Any, c: Any, e: Any, p: Any, q: Any) -> None:
    b.op("mask_after", p, a=0)
    b.op("matmul_nn", c, p, q)


def loops_over_the_tile(b: Any, x: Any, c: Any, e: Any, p: Any, q: Any) -> None:
    for _ in b.tiles("k", "B", x.start, x.stop):
        pass
    b.op("matmul_nn", c, p, q)


def reads_beside_the_tile(b: Any, x: Any, c: Any, e: Any, p: Any, q: Any) -> None:
    b.free(b.load("A", "m", b.span("k", x.start - 1, x.stop), name="more"))
    b.op("matmul_nn", c, p, q)


@pytest.mark.parametrize(
    ("change", "merged"),
    [
        (adds, True),
        (adds_twice, True),
        (changes_a_factor, True),
        (reads_its_sum, False),
        (multiplies_its_sum, False),
        (stores_its_sum, False),
        (adds_a_sum_of_sums, False),
        (adds_the_same_each_time, False),
        (sums_inside, False),
        (changes_a_part_of_its_own, False),
        (weighs_its_own_columns, False),
        (masks, False),
        (loops_over_the_tile, False),
        (reads_beside_the_tile, False),
    ],
)
def test_what_merges(change: Any, merged: bool) -> None:
    """A loop that merges runs as fewer iterations; every loop runs as in order."""
    program = iosim.build("loop", MatMul, products(change))
    loop, resident = next(x for x in sequential(program.body, {}))
    assert may_merge(loop, resident) is merged
    sizes, tiles = {"m": 3, "n": 2, "k": 7}, {"B": 2}
    top = iosim.peak(iosim.bind(program, sizes, tiles))
    check_alike(program, sizes, tiles, top, MatMul(**sizes).random())


def sees_other_parts(b: iosim.Builder) -> None:
    """Each iteration sees the parts of all before it."""
    b.tile_sizes("k", "B")
    w = b.zeros("w", "m", "k")
    for x in b.tiles("k", "B"):
        p, t = b.load("A", "m", x), b.zeros("t", "m", "k")
        b.op("multiply", w[x], p)
        b.op("multiply", t, w)
        b.free(p, t)
    b.free(w)


def points(b: iosim.Builder) -> None:
    """Single columns, which have no dimension to be longer in."""
    for x in b.points("n"):
        c = b.load("C", "m", x)
        b.op("one", c)
        b.store(c, "C", "m", x)
        b.free(c)


def columns_beyond(b: iosim.Builder) -> None:
    """A part that isn't resident, from the second iteration on."""
    b.tile_sizes("k", "B2")
    c, first = b.zeros("c", "m", "n"), b.load("A", "m", b.span("k", 0, 3), name="first")
    for x in b.tiles("k", "B2"):
        q = b.load("B", x, "n", name="q")
        b.op("matmul_nn", c, first[x], q)
        b.free(q)
    b.free(c, first)


def masks_by_rows(b: iosim.Builder) -> None:
    """Rows of tiles of tiles, which lanes have at places of their own."""
    b.tile_sizes("m", "B", "B2")
    for i in b.grid("m", "B"):
        c, v = b.zeros("c", i, "n"), b.load("B", "k", "n", name="v")
        for y in b.tiles("m", "B2", i.start, i.stop):
            p = b.load("A", y, "k")
            b.op("drop_after", p, a=y.start)
            b.op("matmul_nn", c[y], p, v)
            b.free(p)
        b.store(c, "C", i, "n")
        b.free(c, v)


def spans_by_rows(b: iosim.Builder) -> None:
    """Inner tiles that bound a span make lanes of unequal shapes."""
    b.tile_sizes("m", "B", "B2")
    for i in b.grid("m", "B"):
        c = b.zeros("c", i, "n")
        for y in b.tiles("m", "B2", i.start, i.stop):
            row = b.span("k", y.start - 1, y.stop)
            p, q = b.load("A", y, row), b.load("B", row, "n", name="q")
            b.op("matmul_nn", c[y], p, q)
            b.free(p, q)
        b.store(c, "C", i, "n")
        b.free(c)


def parts_of_all_rows(b: iosim.Builder) -> None:
    """Each lane cuts its own part of a buffer that all share."""
    b.tile_sizes("m", "B", "B2")
    whole, v = b.load("A", "m", "k"), b.load("B", "k", "n", name="v")
    for i in b.grid("m", "B"):
        c = b.zeros("c", i, "n")
        for y in b.tiles("m", "B2", i.start, i.stop):
            b.op("matmul_nn", c[y], whole[y], v)
        b.store(c, "C", i, "n")
        b.free(c)
    b.free(whole, v)


@pytest.mark.parametrize(
    ("schedule", "merged"),
    [
        (sees_other_parts, False),
        (points, False),
        (columns_beyond, True),
        (masks_by_rows, False),
        (spans_by_rows, False),
        (parts_of_all_rows, True),
    ],
)
def test_loops_that_run_as_in_order(
    schedule: Callable[[iosim.Builder], None], merged: bool
) -> None:
    program = iosim.build("loop", MatMul, schedule)
    assert [may_merge(*loop) for loop in sequential(program.body, {})] == [merged]
    sizes = {"m": 11, "n": 2, "k": 7}
    tiles = {p.name: {"B": 4, "B2": 2}[p.name] for p in program.params}
    hbm = MatMul(**sizes).random()
    if "C" in {n.tensor for n in nodes(program.body) if isinstance(n, Load)}:
        hbm["C"] = np.full((11, 2), 2.0)
    check_alike(program, sizes, tiles, 500, hbm)


def test_a_name_that_is_made_twice_is_looked_at_each_time() -> None:
    """The same buffer's name stands for all columns, then for those of a tile."""

    def schedule(b: iosim.Builder) -> None:
        b.tile_sizes("k", "B")
        c = b.zeros("c", "m", "n")
        for x in b.tiles("k", "B"):
            p, q = b.load("A", "m", "k", name="p"), b.load("B", "k", "n", name="q")
            b.op("matmul_nn", c, p, q)
            b.free(p, q)
            p, q = b.load("A", "m", x, name="p"), b.load("B", x, "n", name="q")
            b.op("matmul_nn", c, p, q)
            b.free(p, q)
        b.store(c, "C", "m", "n")
        b.free(c)

    program = iosim.build("loop", MatMul, schedule)
    sizes = {"m": 3, "n": 2, "k": 7}
    check_alike(program, sizes, {"B": 2}, 500, MatMul(**sizes).random())


def test_what_is_resident_before_a_loop_may_change() -> None:
    """In the second iteration around it a loop meets another buffer of the name."""

    def schedule(b: iosim.Builder) -> None:
        b.tile_sizes("k", "B")
        b.tile_sizes("n", "B2")
        c, w = b.zeros("c", "m", "n"), b.load("A", "m", "k", name="w")
        for _ in b.tiles("n", "B2"):
            for x in b.tiles("k", "B"):
                q = b.load("B", x, "n", name="q")
                b.op("matmul_nn", c, w[x], q)
                b.free(q)
        b.store(c, "C", "m", "n")
        b.free(c, w)

    program = iosim.build("loop", MatMul, schedule)
    zero, one, load, outer, *rest = program.body
    assert isinstance(outer, Loop)
    assert isinstance(load, Load)
    other = Load("w", "B", (load.index[1], rest[0].index[1]))  # type: ignore[union-attr]
    again = dataclasses.replace(outer, body=(*outer.body, Free("w"), other))
    broken = dataclasses.replace(program, body=(zero, one, load, again, *rest))
    sizes = {"m": 3, "n": 2, "k": 7}
    want = check_alike(broken, sizes, {"B": 2, "B2": 1}, 500, MatMul(**sizes).random())
    assert "dimension 'i' is 3 and 2 words long" in want[1]


def test_only_operations_that_add_sums_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    program = iosim.build("loop", MatMul, products(adds))
    ((loop, resident),) = sequential(program.body, {})
    assert may_merge(loop, resident)
    monkeypatch.setitem(OPS, "matmul_nn", dataclasses.replace(OPS["matmul_nn"], sums=False))
    assert not may_merge(loop, resident)


def test_an_operand_that_is_as_long_as_a_tile_but_not_it() -> None:
    """The builder refuses it: the first rows of B, as many as a tile has, each time."""
    program = iosim.build("loop", MatMul, products(adds))
    loop, resident = next(sequential(program.body, {}))
    load = next(n for n in loop.body if isinstance(n, Load) and n.buffer == "q")
    first = Load("q", "B", (Span("k", Affine(), Affine.of("B")), load.index[1]))
    body = tuple(first if node is load else node for node in loop.body)
    wrong = dataclasses.replace(loop, body=body)
    assert not may_merge(wrong, resident)
    nodes_ = tuple(wrong if node is loop else node for node in program.body)
    same = dataclasses.replace(program, body=nodes_)
    sizes = {"m": 3, "n": 2, "k": 8}
    check_alike(same, sizes, {"B": 2}, 500, MatMul(**sizes).random())
