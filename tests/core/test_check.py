"""Grid loops whose iterations depend on each other are refused, each by its rule; no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import iosim
from iosim.base.errors import ProgramError, ResidencyError
from iosim.core.counting import symbols
from iosim.core.problem import Attention, Copy
from iosim.core.program.build import Builder
from iosim.core.program.ops import OPS
from iosim.core.trace import tally


def load_between_iterations(b: Builder) -> None:
    """Reads what another iteration stores."""
    (B,) = b.tile_sizes("n", "B")
    for i in b.grid("n", B):
        x = b.load("X", i)
        b.store(x, "Y", i)
        whole = b.load("Y", "n")
        b.free(x, whole)


def other_place(b: Builder) -> None:
    """Stores D[i, :] and reads D[:, i]."""
    b.scratch("D", "n", "n")
    (B,) = b.tile_sizes("n", "B")
    for i in b.grid("n", B):
        x = b.zeros("x", i, "n")
        b.store(x, "D", i, "n")
        y = b.load("D", "n", i)
        b.free(x, y)


def inner_grid(b: Builder) -> None:
    """The race is in a grid loop below a sequential one."""
    B, C = b.tile_sizes("n", "B", "C")
    for _ in b.tiles("n", B):
        for _ in b.grid("n", C):
            x = b.load("X", "n")
            b.store(x, "Y", "n")
            b.free(x)


def sum_over_grid(b: Builder) -> None:
    """Adds into a buffer that all iterations share, and stores it inside."""
    b.scratch("T", "n", "n")
    (B,) = b.tile_sizes("n", "B")
    total = b.zeros("total", "n", "n")
    for i in b.grid("n", B):
        p, q = b.zeros("p", "n", i), b.zeros("q", i, "n")
        b.op("matmul_nn", total, p, q)
        b.free(p, q)
    b.store(total, "T", "n", "n")
    b.free(total)


def second_write(b: Builder) -> None:
    """The second of the operands that an operation changes is shared."""
    (B,) = b.tile_sizes("N", "B")
    for h in b.grid("heads"):
        l = b.zeros("l", "N")
        for _ in b.grid("N", B):
            m = b.lowest("m", "N")
            s = b.zeros("s", "N", "N")
            b.op("row_stats", m, l, s)
            b.free(m, s)
        b.free(l)
        q = b.load("Q", h, "N", "d")
        b.store(q, "O", h, "N", "d")
        b.free(q)


def part_by_grid(b: Builder) -> None:
    """Cuts a part by a grid tile."""
    (B,) = b.tile_sizes("d", "B")
    for h in b.grid("heads"):
        q = b.load("Q", h, "N", "d")
        for x in b.grid("d", B):
            s = b.zeros("s", "N", "N")
            k = b.load("K", h, "N", x)
            b.op("matmul_nt", s, q[x], k)
            b.free(s, k)
        b.free(q)


def twice(b: Builder) -> None:
    """Takes a buffer that it changes a second time."""
    for h in b.grid("heads"):
        m, s = b.lowest("m", "N"), b.zeros("s", "N", "N")
        b.op("row_stats", m, m, s)
        b.free(m, s)
        q = b.load("Q", h, "N", "d")
        b.store(q, "O", h, "N", "d")
        b.free(q)


@pytest.mark.parametrize(
    ("schedule", "problem", "message"),
    [
        (load_between_iterations, Copy, "not parallel: Y is stored inside"),
        (other_place, Copy, "not parallel: D is stored inside and must always be indexed by i"),
        (inner_grid, Copy, "grid loop j is not parallel: Y is stored inside"),
        (sum_over_grid, Copy, "not parallel: matmul_nn changes total, which outlives"),
        (second_write, Attention, "not parallel: row_stats changes l, which outlives"),
        (part_by_grid, Attention, "grid loop x cuts a part of a buffer"),
        (twice, Attention, "row_stats changes m and takes it twice: use two buffers"),
    ],
)
def test_races_are_refused(
    schedule: Callable[[Builder], None], problem: type, message: str
) -> None:
    with pytest.raises(ProgramError) as error:
        iosim.build("race", problem, schedule)
    assert message in str(error.value)


def test_storing_a_shared_buffer_does_not_make_it_private() -> None:
    def schedule(b: Builder) -> None:
        o = b.zeros("o", "N", "d")
        for h in b.grid("heads"):
            q = b.load("Q", h, "N", "d")
            p = b.zeros("p", "N", "N")
            b.op("matmul_nt", p, q, q)
            b.op("matmul_nn", o, p, q)
            b.store(o, "O", h, "N", "d")
            b.free(p, q)
        b.free(o)

    with pytest.raises(ProgramError, match="matmul_nn changes o, which outlives an iteration"):
        iosim.build("race", Attention, schedule)


def test_a_store_does_not_change_what_is_resident() -> None:
    """A loaded buffer is a copy in fast memory: a later store doesn't change it."""

    def schedule(b: Builder) -> None:
        x = b.load("X", "n")
        b.store(x, "Y", "n")
        old = b.load("Y", "n", name="old")
        b.op("zero", x)
        b.store(x, "Y", "n")
        b.store(old, "Y", "n")
        b.free(x, old)

    program = iosim.build("window", Copy, schedule)
    hbm = Copy(3).random()
    run = iosim.simulate(iosim.bind(program, {"n": 3}, {}), iosim.Machine(6), hbm)
    np.testing.assert_array_equal(run.outputs["Y"], hbm["X"])


def test_inputs_that_a_schedule_overwrites_stay_the_caller_s() -> None:
    def schedule(b: Builder) -> None:
        x = b.zeros("x", "n")
        b.store(x, "X", "n")
        b.store(x, "Y", "n")
        b.free(x)

    program = iosim.build("overwrite", Copy, schedule)
    hbm = Copy(3).random()
    before = hbm["X"].copy()
    run = iosim.simulate(iosim.bind(program, {"n": 3}, {}), iosim.Machine(3), hbm)
    np.testing.assert_array_equal(hbm["X"], before)
    np.testing.assert_array_equal(run.outputs["X"], 0)


def parts(low: str | int, high: str | int | None, start: str | int, stop: str | int | None):
    """Scores from columns ``low:high`` of Q, cut by tiles over ``start:stop``."""

    def schedule(b: Builder) -> None:
        b.scratch("S", "heads", "N", "N")
        b.stationary("d", "W")
        (B,) = b.tile_sizes("d", "B")
        for h in b.grid("heads"):
            q = b.load("Q", h, "N", b.span("d", low, high))
            s = b.zeros("s", "N", "N")
            for x in b.tiles("d", B, start, stop):
                k = b.load("K", h, "N", x)
                b.op("matmul_nt", s, q[x], k)
                b.free(k)
            b.store(s, "S", h, "N", "N")
            b.free(s, q)

    return iosim.build("parts", Attention, schedule)


@pytest.mark.parametrize("lanes", [1, 2**18])
def test_parts_of_a_span_that_does_not_start_at_zero(lanes: int) -> None:
    problem = Attention(4, 7, heads=2)
    hbm = problem.random()
    instance = iosim.bind(parts("W", None, "W", None), problem.sizes, {"W": 3, "B": 2})
    run = iosim.simulate(instance, iosim.Machine(99), hbm, lanes=lanes)
    want = hbm["Q"][:, :, 3:] @ hbm["K"][:, :, 3:].swapaxes(1, 2)
    np.testing.assert_allclose(run.outputs["S"], want, rtol=1e-12)


@pytest.mark.parametrize(
    ("low", "high", "start", "stop"), [("W", None, 0, "W"), (0, "W", "W", None), (0, "W", 0, None)]
)
def test_columns_that_are_not_resident(low, high, start, stop) -> None:
    problem = Attention(4, 7)
    instance = iosim.bind(parts(low, high, start, stop), problem.sizes, {"W": 3, "B": 2})
    with pytest.raises(ResidencyError, match=r"q\[x\] is d\[\d:\d\], and q holds \d:\d: load it"):
        iosim.simulate(instance, iosim.Machine(99), problem.random())


def test_writing_a_part_of_a_loaded_buffer() -> None:
    """The loaded columns are read-only views of HBM until a part of them changes."""

    def schedule(b: Builder) -> None:
        (B,) = b.tile_sizes("d", "B")
        for h in b.grid("heads"):
            q = b.load("Q", h, "N", "d")
            for x in b.tiles("d", B):
                b.op("zero", q[x])
            b.store(q, "O", h, "N", "d")
            b.free(q)

    problem = Attention(3, 5, heads=2)
    program = iosim.build("wipe", Attention, schedule)
    hbm = problem.random()
    before = hbm["Q"].copy()
    instance = iosim.bind(program, problem.sizes, {"B": 2})
    run = iosim.simulate(instance, iosim.Machine(99), hbm)
    np.testing.assert_array_equal(run.outputs["O"], 0)
    np.testing.assert_array_equal(hbm["Q"], before)


LETTERS = {"i": 3, "j": 4, "x": 5}


@pytest.mark.parametrize("name", list(OPS))
def test_every_operation_reads_and_changes_what_it_says(name: str) -> None:
    """`reads` is exactly the operands that matter; `writes` those that come back, in order."""
    spec = OPS[name]
    rng = np.random.default_rng(0)
    shapes = [[LETTERS[c] for c in d] if d != "*" else [3, 4] for d in spec.dims]
    operands = [rng.uniform(0.5, 2, shape) for shape in shapes]
    scalars = [1] * len(spec.scalars)
    out = spec.numpy(*operands, *scalars)
    assert len(out) == len(spec.writes)
    for position, new in zip(spec.writes, out, strict=True):
        assert new.shape == operands[position].shape
        assert not np.shares_memory(new, operands[position])
    for position, operand in enumerate(operands):
        other = [x.copy() for x in operands]
        other[position] = operand + rng.uniform(0.1, 0.3, operand.shape)
        changed = any(
            not np.allclose(a, b) for a, b in zip(out, spec.numpy(*other, *scalars), strict=True)
        )
        assert changed == (position in spec.reads), (name, position)


@pytest.mark.parametrize("name", list(OPS))
def test_every_operation_reduces_what_it_says(name: str) -> None:
    """Along a letter that is not in `over`, slices are independent; along one in `over`, not."""
    spec = OPS[name]
    rng = np.random.default_rng(3)
    dims = ["ij" if d == "*" else d for d in spec.dims]
    operands = [rng.uniform(0.5, 2, [LETTERS[c] for c in d]) for d in dims]
    scalars = [9] * len(spec.scalars)  # no mask, which knows positions
    whole = spec.numpy(*operands, *scalars)
    for letter in sorted(set("".join(dims))):

        def take_first(x: Any, d: str, letter: str = letter) -> Any:
            return np.take(x, [0], axis=d.index(letter)) if letter in d else x

        parts = (take_first(x, d) for x, d in zip(operands, dims, strict=True))
        slices = spec.numpy(*parts, *scalars)
        same = all(
            np.allclose(take_first(a, dims[k]), b)
            for a, b, k in zip(whole, slices, spec.writes, strict=True)
        )
        assert same == (letter not in spec.over), letter


@pytest.mark.parametrize("name", list(OPS))
def test_empty_extents_that_are_not_reduced_are_no_trouble(name: str) -> None:
    """NumPy's form takes them, and leaves what is not empty as with one more column."""
    spec = OPS[name]
    rng = np.random.default_rng(4)
    dims = ["ij" if d == "*" else d for d in spec.dims]
    for letter in sorted(set("".join(dims)) - set(spec.over)):
        shapes = [[0 if c == letter else LETTERS[c] for c in d] for d in dims]
        operands = [rng.uniform(0.5, 2, shape) for shape in shapes]
        for k, new in zip(
            spec.writes, spec.numpy(*operands, *[1] * len(spec.scalars)), strict=True
        ):
            assert list(new.shape) == shapes[k]
            assert np.isfinite(new).all() or name == "lowest"


def test_the_lowest_value_is_minus_infinity() -> None:
    (x,) = OPS["lowest"].numpy(np.zeros(2))
    assert np.isneginf(x).all()


def test_weights_that_come_back_are_weights() -> None:
    """The operations that consume scores leave exp(s − m) in their place."""
    rng = np.random.default_rng(1)
    o, s, v = rng.normal(size=(3, 5)), rng.normal(size=(3, 4)), rng.normal(size=(4, 5))
    m, l = np.full(3, -np.inf), np.zeros(3)
    for name in ("online_softmax", "online_mean", "online_weights"):
        operands = (o, m, l, s, v)[: len(OPS[name].dims)]
        top, total, p = OPS[name].numpy(*operands)[1:4]
        np.testing.assert_allclose(top, s.max(axis=1))
        np.testing.assert_allclose(p, np.exp(s - s.max(axis=1, keepdims=True)))
        np.testing.assert_allclose(total, p.sum(axis=1))


def test_one_statistic_says_what_two_do() -> None:
    """Tile by tile, log_mean and log_weights give softmax, its mean of V, and log Σ exp."""
    rng = np.random.default_rng(5)
    s, v = 700 * rng.normal(size=(3, 6)), rng.normal(size=(6, 5))  # exp would overflow
    p = np.exp(s - s.max(axis=1, keepdims=True))
    sums = np.log(p.sum(axis=1)) + s.max(axis=1)
    p /= p.sum(axis=1, keepdims=True)
    for start in (-np.inf, -1e30):
        o, L, o2, L2 = np.zeros((3, 5)), np.full(3, start), np.zeros((3, 5)), np.full(3, start)
        for part in (slice(0, 1), slice(1, 4), slice(4, 6)):
            o, L, weights = OPS["log_mean"].numpy(o, L, s[:, part], v[part])
            assert (weights <= 1).all()
            o2, L2, weights = OPS["log_weights"].numpy(o2, L2, s[:, part])
            (o2,) = OPS["matmul_nn"].numpy(o2, weights, v[part])
        np.testing.assert_allclose(o, p @ v)
        np.testing.assert_allclose(o2, p @ v)
        np.testing.assert_allclose(L, sums)
        np.testing.assert_allclose(L2, sums)


def test_rows_that_have_seen_nothing_stay_as_they_are() -> None:
    hidden, v = np.full((2, 3), -np.inf), np.ones((3, 4))
    o, L, p = OPS["log_mean"].numpy(np.zeros((2, 4)), np.full(2, -1e30), hidden, v)
    assert not o.any()
    assert not p.any()
    assert (L == -1e30).all()
    (L,) = OPS["seen"].numpy(np.array([-1e30, -5.0]))
    assert L.tolist() == [0, -5]


def shared_keys(b: Builder) -> None:
    """A buffer made at the top level, read by every iteration of a grid loop, and freed after."""
    b.scratch("T", "n", "n")
    (B,) = b.tile_sizes("n", "B")
    keys = b.zeros("keys", "n", "n")
    for i in b.grid("n", B):
        p, q = b.zeros("p", i, "n"), b.zeros("q", i, "n")
        b.op("matmul_nn", p, q, keys)
        b.store(p, "T", i, "n")
        x = b.load("X", i)
        b.store(x, "Y", i)
        b.free(p, q, x)
    b.store(keys, "T", "n", "n")
    b.free(keys)


def peak_between_loops(b: Builder) -> None:
    """The peak is between two loops, one of which may not run at all."""
    B, C = b.tile_sizes("n", "B", "C")
    W = b.stationary("n", "W")
    for i in b.tiles("n", B, 0, W):
        x = b.load("X", i)
        b.store(x, "Y", i)
        b.free(x)
    first, second = b.load("X", "n", name="first"), b.load("X", "n", name="second")
    b.free(first)
    for i in b.tiles("n", C, W):
        x = b.load("X", i)
        b.store(x, "Y", i)
        b.free(x)
    b.free(second)


def empty_outside(b: Builder) -> None:
    """A loop that would hold most, inside a loop that may not run at all."""
    (B,) = b.tile_sizes("n", "B")
    W = b.stationary("n", "W")
    x = b.load("X", "n")
    b.store(x, "Y", "n")
    b.free(x)
    for i in b.tiles("n", B, W):
        for _ in b.tiles("n", B, 0, W):
            y = b.load("X", "n", name="y")
            z, u = b.load("X", i, name="z"), b.load("X", "n", name="u")
            b.free(y, z, u)


def one_step_twice(b: Builder) -> None:
    """Two nested loops with one tile size: their extents are equal where both tiles are full."""
    b.scratch("T", "n", "n")
    (B,) = b.tile_sizes("n", "B")
    W = b.stationary("n", "W")
    for i in b.grid("n", B):
        rest = b.zeros("rest", i, b.span("n", W))
        x = b.load("X", i)
        for j in b.tiles("n", B):
            y = b.zeros("y", j, b.span("n", 0, W))
            z = b.zeros("z", i, j)
            b.free(y, z)
        b.store(rest, "T", i, b.span("n", W))
        b.store(x, "Y", i)
        b.free(rest, x)


@pytest.mark.parametrize(
    "schedule", [shared_keys, peak_between_loops, empty_outside, one_step_twice]
)
@pytest.mark.parametrize("n", [1, 4, 7])
def test_buffers_outside_loops_are_counted_and_held(schedule, n: int) -> None:
    program = iosim.build("outside", Copy, schedule)
    hbm = Copy(n).random()
    for B, W in ((1, 0), (2, 3), (5, n), (9, 1)):
        names = {p.name for p in program.params}
        tiles = {k: v for k, v in {"B": B, "C": B + 1, "W": W}.items() if k in names}
        instance = iosim.bind(program, {"n": n}, tiles)
        top = iosim.peak(instance)
        runs = [
            iosim.simulate(instance, iosim.Machine(top), hbm, lanes=lanes)
            for lanes in (1, 2, 2**18)
        ]
        for run in runs:
            assert run.counts == iosim.count(instance) == tally(instance)
            assert run.peak_words == top
            np.testing.assert_array_equal(run.outputs["Y"], hbm["X"])
        many = iosim.count_many(program, {"n": n, **tiles})
        assert {k: int(v) for k, v in many.items()} == dict(runs[0].counts)
        assert int(iosim.peak_many(program, {"n": n, **tiles})) == top
        assert symbols.count(program).at({"n": n}, tiles) == (runs[0].counts, top)
