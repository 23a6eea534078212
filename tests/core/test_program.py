"""The builder, the printer, the check of parallel loops, and the closing rule."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import plain_algorithms

import iosim
from iosim.base.errors import InputError, ProgramError
from iosim.bounds import best_lower_bound, bounds_for
from iosim.core.counting.closed import close
from iosim.core.problem import Attention, AttentionBackward, Copy
from iosim.core.program.build import Builder
from iosim.core.program.handles import SymbolicValue
from iosim.core.program.index import Affine, Edge, Span, Tile
from iosim.core.program.ir import Free, Load, Loop, Op, Param, Program, Ref, Store, Tensor, nodes
from iosim.devices import all_schedules
from iosim.devices import program as devices


def trace(schedule: Callable[[Any], None], problem: Any = Attention) -> Program:
    return iosim.build("test", problem, schedule)


@pytest.mark.parametrize("name", list(iosim.ALGORITHMS))
def test_listing(name: str, golden: Any) -> None:
    golden(f"{name}.txt", iosim.show(iosim.algorithm(name).program))


OPTIONS: tuple[dict[str, Any], ...] = (
    {"causal": True},
    {"window": (40, 0), "sinks": 4},
    {"causal": True, "N_k": 2000, "kv_heads": 2},
)


def listings() -> dict[str, str]:
    """Every schedule as text: all algorithms, some with options, and those of several devices."""
    found = {name: iosim.show(iosim.algorithm(name).program) for name in iosim.ALGORITHMS}
    for kind in (Attention, AttentionBackward):
        for options in OPTIONS:
            problem = kind(1000, 64, 4, **options)
            for one in iosim.all_algorithms(problem.form):
                found[f"{one.name} {options}"] = iosim.show(one.program_for(problem))
    return found | {x.name: devices.show(x.program) for x in all_schedules()}


def test_no_column_of_a_listing_touches_the_next() -> None:
    """Two spaces before each note, and one between the words of a line and its tensors."""
    texts = listings()
    assert max(len(x) for text in texts.values() for x in text.splitlines()) > 100
    for name, text in texts.items():
        for line in text.splitlines():
            assert not re.search(r"[^ ] ?(# |▷)", line), (name, line)
    for one in all_schedules():
        for line in devices.show(one.program).splitlines():
            first, *rest = line.split()
            assert "[" not in first, (one.name, line)
            assert first.endswith(":") or rest


def test_listing_with_numbers(golden: Any) -> None:
    program = iosim.algorithm("flash2").program
    sizes = Attention(1000, 64, 2).sizes
    golden(
        "flash2_bound.txt", iosim.show(program, iosim.bind(program, sizes, {"B_r": 64, "B_c": 48}))
    )


@pytest.mark.parametrize("name", list(iosim.ALGORITHMS))
def test_programs_are_values(name: str) -> None:
    """Frozen, hashable, comparable: tracing twice gives the same value."""
    algorithm = iosim.algorithm(name)
    again = iosim.build(name, algorithm.plain_form, algorithm.schedule)
    assert again == algorithm.program
    assert hash(again) == hash(algorithm.program)
    assert again != iosim.algorithm("copy" if name != "copy" else "matmul").program
    with pytest.raises(AttributeError):
        algorithm.program.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("name", [a.name for a in plain_algorithms("attention")])
def test_heads_are_the_outermost_grid_loop(name: str) -> None:
    for nest in iosim.algorithm(name).program.body:
        assert isinstance(nest, Loop)
        assert nest.parallel
        assert nest.tile.axis == "heads"


def broken_break(b: Builder) -> None:
    (B,) = b.tile_sizes("n", "B")
    for i in b.grid("n", B):
        b.free(b.load("X", i))
        break


def broken_leak(b: Builder) -> None:
    (B,) = b.tile_sizes("n", "B")
    for i in b.grid("n", B):
        b.load("X", i)


def broken_twice(b: Builder) -> None:
    (B,) = b.tile_sizes("n", "B")
    for i in b.grid("n", B):
        b.load("X", i)
        b.load("X", i)


def broken_freed(b: Builder) -> None:
    (B,) = b.tile_sizes("n", "B")
    for i in b.grid("n", B):
        x = b.load("X", i)
        b.free(x)
        b.store(x, "Y", i)


def broken_outside(b: Builder) -> None:
    (B,) = b.tile_sizes("n", "B")
    for i in b.grid("n", B):
        x = b.load("X", i)
        b.store(x, "Y", i)
        b.free(x)
    b.load("X", i)


def broken_axis(b: Builder) -> None:
    b.tile_sizes("m", "B")


def broken_step(b: Builder) -> None:
    for _ in b.grid("n", "B"):
        pass


def broken_tensor(b: Builder) -> None:
    b.load("x", "n")


def broken_op(b: Builder) -> None:
    x = b.load("X", "n")
    b.op("zer", x)


def broken_arity(b: Builder) -> None:
    x = b.load("X", "n")
    b.op("zero", x, x)


def broken_race(b: Builder) -> None:
    (B,) = b.tile_sizes("n", "B")
    for _ in b.grid("n", B):
        x = b.load("X", "n")
        b.store(x, "Y", "n")
        b.free(x)


def broken_sum(b: Builder) -> None:
    (B,) = b.tile_sizes("n", "B")
    total = b.alloc("total", "n")
    for _ in b.grid("n", B):
        b.op("zero", total)
    b.free(total)


def broken_hold(b: Builder) -> None:
    W = b.stationary("n", "W")
    for i in b.grid("n", W):
        b.free(b.load("X", i))


def broken_steps(b: Builder) -> None:
    for i in b.tiles("n", None):  # type: ignore[arg-type]
        b.free(b.load("X", i))


def broken_part_after(b: Builder) -> None:
    (B,) = b.tile_sizes("n", "B")
    x = b.load("X", "n")
    part = None
    for i in b.tiles("n", B):
        part = x[i]
        b.op("zero", part)
    b.op("zero", part)


def broken_part_of_a_tile(b: Builder) -> None:
    B, C = b.tile_sizes("n", "B", "C")
    for i in b.grid("n", B):
        x = b.load("X", i)
        for j in b.tiles("n", C):
            b.op("zero", x[j])


def broken_part_of_a_part(b: Builder) -> None:
    (B,) = b.tile_sizes("n", "B")
    x = b.load("X", "n")
    for j in b.tiles("n", B):
        b.op("zero", x[j][j])


def broken_point_part(b: Builder) -> None:
    x = b.load("X", "n")
    for i in b.grid("n"):
        b.op("zero", x[i])


def broken_part_index(b: Builder) -> None:
    x = b.load("X", "n")
    b.op("zero", x[0])  # type: ignore[index]


def broken_tile_bound(b: Builder) -> None:
    B, C = b.tile_sizes("n", "B", "C")
    for i in b.tiles("n", B):
        for j in b.tiles("n", C, stop=i):  # type: ignore[arg-type]
            b.free(b.load("X", j))


def broken_float_bound(b: Builder) -> None:
    (B,) = b.tile_sizes("n", "B")
    for i in b.tiles("n", B, stop=2.5):  # type: ignore[arg-type]
        b.free(b.load("X", i))


def broken_bool_bound(b: Builder) -> None:
    (B,) = b.tile_sizes("n", "B")
    for i in b.tiles("n", B, stop=True):
        b.free(b.load("X", i))


def broken_edge_bound(b: Builder) -> None:
    (B,) = b.tile_sizes("n", "B")
    for i in b.tiles("n", B):
        for _ in b.tiles("n", B, stop=i.stop + 2.5):  # type: ignore[operator]
            pass


def broken_edge_name(b: Builder) -> None:
    (B,) = b.tile_sizes("n", "B")
    for i in b.tiles("n", B):
        for _ in b.tiles("n", B, stop=i.stop + None):  # type: ignore[operator]
            pass


def broken_edge_factor(b: Builder) -> None:
    (B,) = b.tile_sizes("n", "B")
    for i in b.tiles("n", B):
        for _ in b.tiles("n", B, start=i.start * 0.5):  # type: ignore[operator]
            pass


def broken_handle(b: Builder) -> None:
    """Another buffer has the name of one that was freed."""
    old = b.load("X", "n")
    b.free(old)
    b.load("X", b.span("n", 0, 1))
    b.store(old, "Y", "n")


def broken_buffer_name(b: Builder) -> None:
    b.load("X", "n", name="x y")


def broken_parameter_name(b: Builder) -> None:
    b.tile_sizes("n", "B=r")


def broken_index(b: Builder) -> None:
    b.free(b.load("X", 3))  # type: ignore[arg-type]


def broken_names(b: Builder) -> None:
    b.tile_sizes(3, "B")  # type: ignore[arg-type]


def broken_tensor_name(b: Builder) -> None:
    b.load(3, "n")  # type: ignore[arg-type]


def broken_buffer(b: Builder) -> None:
    b.op("zero", "x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (broken_hold, "W is a stationary part, which may be 0, and no loop advances by 0"),
        (broken_steps, "tiles over n need a step"),
        (broken_part_after, "x[i] is used after loop i has ended: move the use inside"),
        (broken_part_of_a_tile, "x[j]: i is a tile already"),
        (broken_part_of_a_part, "x[i]: i is a tile already"),
        (broken_point_part, "x[i]: i is a single position"),
        (broken_part_index, "x[0]: a part is what a tile covers; give a tile"),
        (broken_tile_bound, "tile i bounds a span of n: give a size, a whole number, or an edge"),
        (broken_float_bound, "2.5 bounds a span of n: give a size, a whole number"),
        (broken_bool_bound, "True bounds a span of n"),
        (broken_edge_bound, "2.5 in a bound: give a whole number"),
        (broken_edge_name, "None in a bound: give a size, a whole number, or an edge"),
        (broken_edge_factor, "i.start times 0.5 in a bound: give a whole number"),
        (broken_handle, "x is used after it was freed: load it again"),
        (broken_buffer_name, "'x y' is not a name: give letters, digits and _, like x0"),
        (broken_parameter_name, "'B=r' is not a name"),
        (broken_index, "X is indexed by 3: give a tile, an axis, or b.span"),
        (broken_names, "3 is not an axis: give its name, like 'n'"),
        (broken_tensor_name, "3 is not a tensor: give its name"),
        (broken_buffer, "'x' is not a buffer: load or allocate one"),
        (broken_break, "break, return or next() left a loop"),
        (broken_leak, "x not freed at the end of loop i: free them"),
        (broken_twice, "buffer 'x' is already resident: free it or choose a name"),
        (broken_freed, "x is used after it was freed: load it again"),
        (broken_outside, "tile i is used outside its loop"),
        (broken_axis, "unknown axis 'm': known: n"),
        (broken_step, "'B' is not a tile size along n: declare it with tile_sizes()"),
        (broken_tensor, "unknown tensor 'x': copy has X[n], Y[n]; b.scratch"),
        (broken_op, "unknown operation 'zer': did you mean zero(x): x = 0"),
        (broken_arity, "zero(x): x = 0, and it got 2 operands: x[n], x[n]"),
        (broken_race, "grid loop i is not parallel: Y is stored inside"),
        (broken_sum, "grid loop i is not parallel: zero changes total"),
    ],
)
def test_malformed_schedules_say_what_is_wrong(schedule: Any, message: str) -> None:
    with pytest.raises(ProgramError) as error:
        trace(schedule, Copy)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def in_a_loop(use: Callable[[Any, Any, Any, Any, Any], Any]) -> Program:
    """A schedule that does one thing with its builder, a head, tiles i and j, and a buffer q."""

    def schedule(b: Any) -> None:
        B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
        for h in b.grid("heads"):
            for i in b.grid("N", B_r):
                q = b.load("Q", h, i, "d")
                for j in b.tiles("N", B_c):
                    use(b, h, i, j, q)
                b.free(q)

    return trace(schedule)


BRANCH = "is in a condition: the body of a loop is traced once, for all its tiles"
VALUE = "is used as a number: it has no value until sizes are bound"
SUMS = "is used in arithmetic: bounds are sums, differences and whole multiples"
COMPUTE = "operations compute, b.op(name, *buffers), with one of zero"


def test_which_tile_or_buffer_a_handle_is_of_is_known() -> None:
    """Functions that write schedules may ask whether they have one already."""

    def schedule(b: Any) -> None:
        (B,) = b.tile_sizes("n", "B")
        for i in b.grid("n", B):
            x = b.load("X", i)
            assert (i == i, i != i, x == x, x in [x], i in [i]) == (True, False, True, True, True)
            assert (x == i, hash(x) == hash(i)) == (False, False)
            assert len({x, i, x}) == 2
            b.store(x, "Y", i)
            b.free(x)
            y = b.load("X", i, name="x")
            assert y not in [x]
            b.free(y)

    assert len(iosim.build("twice", iosim.Copy, schedule).body) == 1


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda b, h, i, j, q: 1 if i else 0, f"tile i {BRANCH}"),
        (lambda b, h, i, j, q: not i.start, f"i.start {BRANCH}"),
        (lambda b, h, i, j, q: i != 0, f"tile i {BRANCH}"),
        (lambda b, h, i, j, q: i in (0, 1), f"tile i {BRANCH}"),
        (lambda b, h, i, j, q: i.start == j.start, f"i.start {BRANCH}"),
        (lambda b, h, i, j, q: i.start + 1 < j.stop, f"i.start + 1 {BRANCH}"),
        (lambda b, h, i, j, q: min(i.stop, 8), f"i.stop {BRANCH}"),
        (lambda b, h, i, j, q: bool(q), f"buffer q {BRANCH}"),
        (lambda b, h, i, j, q: q > 0, f"buffer q {BRANCH}"),
        (lambda b, h, i, j, q: int(i), f"tile i {VALUE}"),
        (lambda b, h, i, j, q: float(i.stop), f"i.stop {VALUE}"),
        (lambda b, h, i, j, q: range(i), f"tile i {VALUE}"),
        (lambda b, h, i, j, q: [1, 2][i], f"tile i {VALUE}"),
        (lambda b, h, i, j, q: list(i), f"tile i {VALUE}"),
        (lambda b, h, i, j, q: len(i), f"tile i {VALUE}"),
        (lambda b, h, i, j, q: abs(i.start), f"i.start {VALUE}"),
        (lambda b, h, i, j, q: np.zeros(i), f"tile i {VALUE}"),
        (lambda b, h, i, j, q: b.load("K", h, i + 1, "d"), f"tile i {SUMS}"),
        (lambda b, h, i, j, q: i.start // 2, f"i.start {SUMS}"),
        (lambda b, h, i, j, q: i.start / 2, f"i.start {SUMS}"),
        (lambda b, h, i, j, q: i.start % 2, f"i.start {SUMS}"),
        (lambda b, h, i, j, q: i.start * i.stop, "i.start times i.stop in a bound"),
        (lambda b, h, i, j, q: i.start + i, "tile i in a bound: give a size"),
        (lambda b, h, i, j, q: np.exp(q), COMPUTE),
        (lambda b, h, i, j, q: np.dot(q, q), COMPUTE),
        (lambda b, h, i, j, q: np.asarray(q), COMPUTE),
        (lambda b, h, i, j, q: q @ q, COMPUTE),
        (lambda b, h, i, j, q: 2 * q, COMPUTE),
        (lambda b, h, i, j, q: -q, COMPUTE),
        (lambda b, h, i, j, q: q.T, "buffer q is asked for its T: operations compute"),
        (lambda b, h, i, j, q: q.shape, "buffer q is asked for its shape"),
        (lambda b, h, i, j, q: len(q), COMPUTE),
        (lambda b, h, i, j, q: sum(q), COMPUTE),
        (lambda b, h, i, j, q: b.matmul(q, q), "the builder has no 'matmul'"),
        (
            lambda b, h, i, j, q: b.op("matmul", b.zeros("s", i, j), q, b.load("K", h, j, "d")),
            "unknown operation 'matmul': did you mean matmul_tn(v[j, x], p[i, j], o[i, x])",
        ),
        (
            lambda b, h, i, j, q: b.op("matmul_nn", b.zeros("s", i, j), q, b.load("K", h, j, "d")),
            "matmul_nn(o[i, x], p[i, j], v[j, x]): o += p v, and it got s[i, j], q[i, d], k[j, d]; "
            "its dimension j is d and, in k, j: use matmul_nt, or index alike",
        ),
        (
            lambda b, h, i, j, q: b.op("matmul_nt", q, b.load("K", h, j, "d")),
            "matmul_nt(s[i, j], q[i, x], k[j, x]): s += q kᵀ, and it got 2 operands: q[i, d], k[j",
        ),
        (lambda b, h, i, j, q: b.op(q, q), "unknown operation buffer q: there are zero, one"),
        (
            lambda b, h, i, j, q: b.load("dO", h, i, "d"),
            "unknown tensor 'dO': attention has Q[heads, N, d], K[heads, N, d], V[heads, N, d], "
            "O[heads, N, d]; b.scratch(name, *axes) declares an intermediate one",
        ),
        (lambda b, h, i, j, q: b.load("K", i, "d"), "K[heads, N, d] is indexed by [N, d]"),
        (lambda b, h, i, j, q: b.load("K", h, 0, "d"), "K is indexed by 0: give a tile"),
        (lambda b, h, i, j, q: b.load("K", h, i, "D"), "unknown axis 'D': did you mean 'd'?"),
        (lambda b, h, i, j, q: b.load(q, h, i, "d"), "buffer q is not a tensor: give its name"),
        (lambda b, h, i, j, q: b.free("q"), "'q' is not a buffer: load or allocate one"),
        (lambda b, h, i, j, q: b.zeros("x", i), "x not freed at the end of loop j: free them"),
        (lambda b, h, i, j, q: next(b.tiles("N", "B_c")), "next() left a loop of the schedule"),
        (lambda b, h, i, j, q: b.number(3), "number of 3: give an open tile"),
    ],
)
def test_what_a_schedule_cannot_do_is_refused_with_what_it_can(use: Any, message: str) -> None:
    with pytest.raises(ProgramError) as error:
        in_a_loop(use)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert "Affine(" not in str(error.value)
    assert "TileHandle(" not in str(error.value)


def test_what_is_no_schedule_is_refused() -> None:
    def returns(b: Any) -> int:
        return 3

    def generates(b: Any) -> Any:
        yield b.tile_sizes("n", "B")

    def nothing() -> None:
        pass

    for wrong, message in (
        (returns, "test returned 3: a schedule is recorded by calls of its builder"),
        (generates, "test returned <generator object"),
        (nothing, "cannot be traced (too many positional arguments): give a function of one"),
        (3, "3 cannot be traced (3 is not a callable object)"),
    ):
        with pytest.raises(ProgramError, match=re.escape(message)):
            trace(wrong, Copy)  # type: ignore[arg-type]


def test_programs_hold_no_handles() -> None:
    """What the builder hands out refuses comparisons; programs are compared all the time."""

    def walk_values(value: object) -> Iterator[object]:
        yield value
        if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                yield from walk_values(getattr(value, field.name))
        elif isinstance(value, tuple):
            for x in value:
                yield from walk_values(x)

    for kind in (Attention, AttentionBackward):
        for options in ({}, *OPTIONS):
            problem = kind(1000, 64, 4, **options)
            for one in iosim.all_algorithms(problem.form):
                found = [
                    x for x in walk_values(one.program_for(problem)) if isinstance(x, SymbolicValue)
                ]
                assert not found, (one.name, options, found[0])


def test_shapes_are_checked() -> None:
    def schedule(b: Builder) -> None:
        B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
        for h in b.grid("heads"):
            for i in b.grid("N", B_r):
                for j in b.tiles("N", B_c):
                    q = b.load("Q", h, i, "d")
                    s = b.zeros("s", j, i)  # transposed
                    b.op("matmul_nt", s, q, q)

    with pytest.raises(ProgramError, match="its dimension i is j and, in q, i: index alike"):
        trace(schedule)


def test_a_square_of_an_extent_has_no_closed_form() -> None:
    def schedule(b: Builder) -> None:
        b.scratch("D", "n", "n")
        (B,) = b.tile_sizes("n", "B")
        for i in b.grid("n", B):
            x = b.load("D", i, i)
            b.free(x)

    with pytest.raises(ProgramError, match="D is indexed by one tile twice: use two loops"):
        trace(schedule, Copy)
    # A tree written by hand gets as far as the closing rule, which has no sum for e².
    i, n = Tile("i", "n"), Affine.of("n")
    whole = Span("n", Affine(), n)
    load, free = Load("x", "D", (i, i)), Free("x")
    tree = (Loop(i, whole, "B", False, (load, free)),)
    tensors = (Tensor("D", ("n", "n")),)
    program = Program("diagonal", "copy", (Param("B", "n"),), tensors, tree)
    with pytest.raises(ProgramError, match="degree 2 in tile"):
        close(program)


I, J, P = Tile("i", "n"), Tile("j", "n"), Tile("i", "n", point=True)
WHOLE = Span("n", Affine(), Affine.of("n"))


def looped(tile: Tile, step: str | None, *body: Any, span: Span = WHOLE) -> Loop:
    return Loop(tile, span, step, False, body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ((looped(I, "W"),), "W is a stationary part, which may be 0, and loop i advances"),
        ((looped(I, "B"), Load("x", "X", (I,))), "tile i is used outside its loop"),
        ((looped(I, "B", Load("x", "X", (J,))),), "tile j is used outside its loop"),
        ((looped(I, "B"), Op("zero", (Ref("x", I),))), "tile i is used outside its loop"),
        ((looped(I, "B", looped(I, "B")),), "loop i is inside a loop of the same tile"),
        ((looped(P, "B"),), "loop i does not run over its tile"),
        ((looped(I, None),), "loop i does not run over its tile"),
        ((looped(I, "C"),), "'C' is not a tile size along n"),
    ],
)
def test_trees_written_by_hand_are_checked_too(body: Any, message: str) -> None:
    tensors = (Tensor("X", ("n",)), Tensor("Y", ("n",)))
    params = (Param("B", "n"), Param("W", "n", least=0))
    program = Program("hand", "copy", params, tensors, body)
    with pytest.raises(ProgramError) as error:
        iosim.simulate(
            iosim.bind(program, {"n": 4}, {"B": 2, "W": 0}), iosim.Machine(9), Copy(4).random()
        )
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 60), st.integers(0, 60))
def test_the_closing_rule_on_a_part_of_an_axis(n: int, B: int, C: int, W: int) -> None:
    def schedule(b: Builder) -> None:
        (B_,) = b.tile_sizes("n", "B")
        W_ = b.stationary("n", "W")
        for i in b.tiles("n", B_, W_):
            x = b.load("X", i)
            whole = b.load("Y", "n")
            b.free(x, whole)

    program = trace(schedule, Copy)
    instance = iosim.bind(program, {"n": n}, {"B": B, "W": W})
    W = min(W, n)
    tiles = [range(at, min(at + B, n)) for at in range(W, n, B)]
    counts = iosim.count(instance)
    assert counts["load", "X"] == sum(map(len, tiles))
    assert counts["load", "Y"] == n * len(tiles)
    assert iosim.peak(instance) == max((len(t) + n for t in tiles), default=0)


@given(st.integers(1, 9), st.integers(0, 9), st.booleans())
def test_a_loop_over_positions_of_an_empty_part_holds_nothing(n: int, W: int, all_: bool) -> None:
    """A level of the peak counts where its loop runs, whether or not the loop has a step."""

    def schedule(b: Builder) -> None:
        W_ = b.stationary("n", "W")
        for i in b.grid("n", None, W_):
            x = b.load("X", "n" if all_ else i)
            b.free(x)

    program = trace(schedule, Copy)
    W = min(W, n)
    instance = iosim.bind(program, {"n": n}, {"W": W})
    words = n if all_ else 1
    run = iosim.simulate(instance, iosim.Machine(words), Copy(n).random())
    assert iosim.count(instance) == run.counts
    assert iosim.count(instance).total_words == words * (n - W)
    assert iosim.peak(instance) == run.peak_words == (words if n > W else 0)


def test_a_program_that_moves_nothing_is_shown() -> None:
    def schedule(b: Builder) -> None:
        b.free(b.zeros("x", "n"))

    assert (
        iosim.show(trace(schedule, Copy))
        == """\
test(n; )
  alloc x[:]
  zero(x)  ▷ x = 0
  free  x
"""
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Affine(2.5), "2.5 in a bound"),  # type: ignore[arg-type]
        (lambda: Affine(True), "True in a bound"),
        (lambda: Affine(0, (("n", 0.5),)), "0.5 in a bound"),  # type: ignore[arg-type]
        (lambda: Affine(0, (("n", 1), ("n", 1))), "a bound names n twice"),
        (lambda: Affine(0, ((3, 1),)), "3 in a bound"),  # type: ignore[arg-type]
        (lambda: Edge(Tile("i", "n"), "middle"), "'middle' is not an end of tile i"),  # type: ignore[arg-type]
    ],
)
def test_a_bound_written_by_hand_is_one_that_can_be_counted(make: Any, message: str) -> None:
    with pytest.raises(ProgramError, match=re.escape(message)):
        make()


def test_affine_prints_and_evaluates() -> None:
    length = Affine.of("d") - Affine.of("W")
    assert str(length) == "d - W"
    assert length.at({"d": 5, "W": 2}) == 3
    assert str(Affine.of(3) - Affine.of(3)) == "0"


@pytest.mark.parametrize(
    ("sizes", "tiles", "message"),
    [
        ({"n": 4}, {}, "copy needs the tile sizes B: give them"),
        ({"n": 4}, {"B": 0}, "B = 0 is outside 1"),
        ({"n": 4}, {"B": 2, "C": 1}, "copy has no tile size 'C': known: B"),
        ({"n": 4, "m": 2}, {"B": 2}, "copy is over the sizes n, got m, n"),
        ({"n": 0}, {"B": 2}, "n = 0 is outside 1"),
        ({"n": 2.5}, {"B": 2}, "n must be a whole number, got 2.5"),
        ({"n": 2**50}, {"B": 2}, f"n = {2**50} is outside 1..{2**40}"),
    ],
)
def test_binding_says_what_is_wrong(sizes: Any, tiles: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        iosim.bind(iosim.algorithm("copy").program, sizes, tiles)
    assert message in str(error.value)


def test_numpy_sizes_do_not_overflow() -> None:
    program = iosim.algorithm("flash2").program
    sizes = {"N": np.int32(2**16), "d": np.int32(64), "heads": np.int32(1)}
    instance = iosim.bind(program, sizes, {"B_r": np.int32(1), "B_c": np.int32(1)})
    assert iosim.count(instance).total_words == 2 * 2**16 * 64 * (1 + 2**16)


@pytest.mark.parametrize(("start", "stop", "n"), [("W", "V", 9), (5, None, 3), (0, "V", 9)])
def test_spans_lie_in_their_axis(start: Any, stop: Any, n: int) -> None:
    """An inverted or overlong span has no words to count: bind() refuses it, for all engines."""

    def schedule(b: Builder) -> None:
        W, V = b.stationary("n", "W"), b.tile_sizes("n", "V")[0]
        del W, V
        b.free(b.load("X", b.span("n", start, stop)))

    program = trace(schedule, Copy)
    tiles = {"W": 4, "V": 2}
    if (start, stop) == (0, "V"):
        assert iosim.count(iosim.bind(program, {"n": n}, tiles)).total_words == 2
        return
    with pytest.raises(InputError, match="choose sizes and tiles for which it lies inside"):
        iosim.bind(program, {"n": n}, tiles)
    with pytest.raises(InputError, match="does not lie inside for some rows"):
        iosim.count_many(program, {"n": [n, n], **tiles})


def test_names_of_sizes_are_checked() -> None:
    def clash(b: Builder) -> None:
        b.tile_sizes("n", "n")

    def typo(b: Builder) -> None:
        b.span("n", 0, "Q")

    with pytest.raises(ProgramError, match="tile size 'n' has the name of another size"):
        trace(clash, Copy)
    with pytest.raises(ProgramError, match="unknown size 'Q' in a span of n: known: n"):
        trace(typo, Copy)


def test_tiles_are_clipped_to_their_axis() -> None:
    program = iosim.algorithm("copy").program
    assert iosim.bind(program, {"n": 4}, {"B": 99}) == iosim.bind(program, {"n": 4}, {"B": 4})


def test_columns_say_what_is_wrong() -> None:
    program = iosim.algorithm("copy").program
    with pytest.raises(InputError, match="needs the columns B"):
        iosim.count_many(program, {"n": 4})
    with pytest.raises(InputError, match="column B must hold integers in 1"):
        iosim.count_many(program, {"n": 4, "B": [1, 0]})
    with pytest.raises(InputError, match="column B must hold integers in 1"):
        iosim.count_many(program, {"n": 4, "B": np.array([2**63], np.uint64)})
    with pytest.raises(InputError, match="copy has no size 'C': known: B, n"):
        iosim.count_many(program, {"n": 4, "B": 1, "C": 1})
    for count in (iosim.count_many, iosim.peak_many):
        with pytest.raises(InputError, match=r"do not fit together \(n \(2,\), B \(3,\)\)"):
            count(program, {"n": [4, 5], "B": [1, 2, 3]})
        with pytest.raises(InputError, match="column B has rows of unequal lengths"):
            count(program, {"n": 4, "B": [[1], [2, 3]]})
        with pytest.raises(InputError, match="copy takes columns by name, got Copy"):
            count(program, Copy(4))  # type: ignore[arg-type]


def test_what_is_no_problem_is_refused() -> None:
    entry = iosim.algorithm("copy")
    for bad in ("copy", None):
        said = f"got {type(bad).__name__}"
        with pytest.raises(InputError, match=f"copy is traced for a problem, {said}"):
            entry.program_for(bad)  # type: ignore[arg-type]
        for ask in (best_lower_bound, bounds_for):
            with pytest.raises(InputError, match=f"bounds are for a problem, {said}"):
                ask(bad, 9)  # type: ignore[operator]
    flash2 = iosim.algorithm("flash2").program
    huge = {"N": 2**40, "d": 1, "heads": 1, "B_r": 2**40, "B_c": 2**40}
    with pytest.raises(InputError, match="exceed 2\\*\\*62"):
        iosim.peak_many(flash2, huge)
    with pytest.raises(InputError, match="exceed 2\\*\\*62"):
        iosim.count_many(flash2, {"N": 2**40, "d": 1, "heads": 1, "B_r": 1, "B_c": 1})


def test_a_tensor_of_each_kind_is_declared() -> None:
    for algorithm in iosim.all_algorithms():
        program = algorithm.program
        names = {n.tensor for n in nodes(program.body) if isinstance(n, (Load, Store))}
        assert names == {t.name for t in program.tensors}
        assert all(isinstance(t, Tensor) for t in program.tensors)
        stored = {n.tensor for n in nodes(program.body) if isinstance(n, Store)}
        assert {t.name for t in algorithm.problem.outputs} <= stored
        assert not stored & {t.name for t in algorithm.problem.inputs}


def test_a_new_algorithm_takes_a_few_lines() -> None:
    """The example of docs/extending.md: Y = X in two strides, every step of the pipeline."""

    def schedule(b: Builder) -> None:
        outer, inner = b.tile_sizes("n", "B", "C")
        for i in b.grid("n", outer):
            x = b.load("X", i)
            b.store(x, "Y", i)
            b.free(x)
        del inner

    program = trace(schedule, Copy)
    assert iosim.count(iosim.bind(program, {"n": 9}, {"B": 2, "C": 1})).total_words == 18


def test_ragged_tiles_are_what_makes_counting_hard() -> None:
    """A count that pretends all tiles are full is wrong on most shapes."""
    program = iosim.algorithm("flash2").program
    wrong = 0
    for N, B in itertools.product(range(2, 12), range(2, 6)):
        counts = iosim.count(iosim.bind(program, Attention(N, 3).sizes, {"B_r": B, "B_c": B}))
        trips = -(-N // B)
        wrong += counts["load", "Q"] != trips * B * 3
        assert counts["load", "K"] == trips * N * 3
    assert wrong > 20
