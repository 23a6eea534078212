"""The strict machine refuses what a real fast memory could not do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from strategies import bound_programs

import iosim
from iosim.base.errors import CapacityError, InputError, LeakError, ProgramError, ResidencyError
from iosim.core.problem import Copy
from iosim.core.program.index import Affine, Span, Tile
from iosim.core.program.ir import Alloc, Free, Load, Loop, Node, Op, Program, Ref, Store, Tensor

WHOLE = Span("n", Affine(), Affine.of("n"))
TENSORS = (Tensor("X", ("n",)), Tensor("Y", ("n",)))


def run(*body: Node, M: int = 100, n: int = 4) -> iosim.Run:
    """Run a tree written by hand, which the builder would refuse."""
    program = Program("hand", "copy", (), TENSORS, body)
    return iosim.simulate(iosim.bind(program, {"n": n}, {}), iosim.Machine(M), Copy(n).random())


LOAD, STORE, FREE = Load("x", "X", (WHOLE,)), Store("x", "Y", (WHOLE,)), Free("x")


def test_a_right_program_runs() -> None:
    result = run(LOAD, STORE, FREE)
    np.testing.assert_array_equal(result.outputs["Y"], Copy(4).random()["X"])
    assert result.peak_words == 4
    assert result.counts == iosim.Counts((("load", "X"), 4), (("store", "Y"), 4))


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ((STORE,), ResidencyError, "store of x, which is not resident: load it first"),
        ((LOAD, FREE, STORE), ResidencyError, "store of x, which is not resident"),
        ((FREE,), ResidencyError, "free of x, which is not resident"),
        ((LOAD, FREE, FREE), ResidencyError, "free of x, which is not resident"),
        ((LOAD, LOAD), ResidencyError, "x is already resident (4 words): free it"),
        ((Op("zero", (Ref("x"),)),), ResidencyError, "zero reads x, which is not resident"),
        ((LOAD, FREE, Op("zero", (Ref("x"),))), ResidencyError, "zero reads x, which is not"),
        ((LOAD, STORE), LeakError, "x (4 words) still resident at the end of program"),
        (
            (Loop(Tile("i", "n", True), WHOLE, None, False, (LOAD,)),),
            LeakError,
            "x (4 words) still resident at the end of loop i",
        ),
        (
            (Loop(Tile("i", "n", True), WHOLE, None, True, (LOAD, STORE, FREE)),),
            ProgramError,
            "grid loop i is not parallel",
        ),
    ],
)
def test_what_the_machine_refuses(body: tuple[Node, ...], error: Any, message: str) -> None:
    with pytest.raises(error) as caught:
        run(*body)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_capacity_names_the_buffer_its_size_and_what_is_free() -> None:
    with pytest.raises(CapacityError) as error:
        run(Alloc("a", (WHOLE,)), LOAD, M=7)
    assert str(error.value) == (
        "buffer x needs 4 words and 3 of M = 7 are free: choose smaller tiles or a larger M"
    )


def test_scratch_is_nan_until_written() -> None:
    result = run(Alloc("x", (WHOLE,)), STORE, FREE)
    assert np.isnan(result.outputs["Y"]).all()
    result = run(Load("x", "Y", (WHOLE,)), STORE, FREE)
    assert np.isnan(result.outputs["Y"]).all()


def test_an_output_that_is_never_written_is_not_right() -> None:
    result = run(LOAD, FREE)
    assert iosim.max_error(result.outputs, Copy(4).reference(Copy(4).random())) == np.inf


@given(bound_programs(most=6))
def test_one_word_less_than_the_peak_is_too_little(case: Any) -> None:
    algorithm, problem, tiles = case
    instance = iosim.bind(algorithm.program, problem.sizes, tiles)
    top, hbm = iosim.peak(instance), problem.random()
    assert iosim.simulate(instance, iosim.Machine(top), hbm).peak_words == top
    if top > 1:
        with pytest.raises(CapacityError):
            iosim.simulate(instance, iosim.Machine(top - 1), hbm)


@given(bound_programs(most=6))
def test_forgetting_to_free_is_reported(case: Any) -> None:
    """Drop the last `Free` of every algorithm's first nest: the leak is named."""
    algorithm, problem, tiles = case
    program = algorithm.program

    def without_last_free(body: tuple[Node, ...]) -> tuple[Node, ...]:
        for k in reversed(range(len(body))):
            node = body[k]
            if isinstance(node, Free):
                return body[:k] + body[k + 1 :]
            if isinstance(node, Loop):
                inner = Loop(
                    node.tile, node.span, node.step, node.parallel, without_last_free(node.body)
                )
                return (*body[:k], inner, *body[k + 1 :])
        raise AssertionError("nothing is freed")

    broken = Program(
        program.name,
        program.problem,
        program.params,
        program.tensors,
        without_last_free(program.body),
    )
    instance = iosim.bind(broken, problem.sizes, tiles)
    with pytest.raises((LeakError, ResidencyError)):
        iosim.simulate(instance, iosim.Machine(10**6), problem.random())


def test_inputs_are_checked() -> None:
    program = iosim.algorithm("copy").program
    instance = iosim.bind(program, {"n": 4}, {"B": 2})
    with pytest.raises(InputError, match=r"X has shape \(3,\), the problem needs \(4,\)"):
        iosim.simulate(instance, iosim.Machine(9), {"X": np.zeros(3)})
    with pytest.raises(InputError, match="M = 0 is outside"):
        iosim.Machine(0)
    with pytest.raises(InputError, match="copy needs X in HBM: give the arrays"):
        iosim.simulate(instance, iosim.Machine(9), {})
    with pytest.raises(InputError, match="lanes = 0 runs nothing"):
        iosim.simulate(instance, iosim.Machine(9), {"X": np.zeros(4)}, lanes=0)
    with pytest.raises(InputError, match="bind takes a program, got Algorithm"):
        iosim.bind(iosim.algorithm("copy"), {"n": 4}, {"B": 2})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="count takes an instance, got Program"):
        iosim.count(program)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="copy solves copy, not attention"):
        iosim.optimal_tiles(program, iosim.Attention(4, 4), 9)
    with pytest.raises(KeyError, match="is not a direction"):
        iosim.count(instance)["laod", "X"]  # type: ignore[index]
    with pytest.raises(KeyError, match="is not a direction"):
        iosim.count(instance).by_tensor("loads")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="show takes a program, got Instance"):
        iosim.show(instance)  # type: ignore[arg-type]


@pytest.mark.parametrize("array", [np.ones(4, complex), np.array(list("abcd")), [None] * 4])
def test_inputs_that_are_no_real_numbers_lose_no_part(array: Any) -> None:
    instance = iosim.bind(iosim.algorithm("copy").program, {"n": 4}, {"B": 2})
    with pytest.raises(InputError, match=r"X is of dtype .*: give real numbers"):
        iosim.simulate(instance, iosim.Machine(9), {"X": array})


def test_heads_may_be_given_in_one_axis() -> None:
    """Q is (kv_heads, group, N, d) in the program, and (heads, N, d) where people have it."""
    problem = iosim.Attention(5, 3, 6, N_k=7, d_v=2, kv_heads=2, causal=True)
    program = iosim.algorithm("flash2").program_for(problem)
    instance = iosim.bind(program, problem.sizes, {"B_r": 2, "B_c": 3})
    hbm = problem.random()
    assert hbm["Q"].shape == (2, 3, 5, 3)
    apart = iosim.simulate(instance, iosim.Machine(99), hbm)
    in_one = hbm | {"Q": hbm["Q"].reshape(6, 5, 3)}
    run = iosim.simulate(instance, iosim.Machine(99), in_one)
    assert (run.counts, run.outputs["O"].shape) == (apart.counts, (6, 5, 2))
    np.testing.assert_array_equal(run.outputs["O"].reshape(2, 3, 5, 2), apart.outputs["O"])
    for inputs, got in ((in_one, run), (hbm, apart)):
        assert iosim.max_error(got.outputs, problem.reference(inputs)) < 1e-12
    with pytest.raises(InputError, match=r"Q has shape \(3, 5, 3\), the problem needs \(2, 3, 5"):
        iosim.simulate(instance, iosim.Machine(99), hbm | {"Q": np.zeros((3, 5, 3))})
    with pytest.raises(InputError, match=r"K has shape \(14, 3\), the problem needs \(2, 7, 3\)"):
        iosim.simulate(instance, iosim.Machine(99), hbm | {"K": hbm["K"].reshape(14, 3)})


def test_misuse_is_one_line() -> None:
    program = iosim.algorithm("copy").program
    instance = iosim.bind(program, {"n": 4}, {"B": 2})
    hbm = Copy(4).random()
    with pytest.raises(InputError, match="peak takes an instance, got Program: bind"):
        iosim.peak(program)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="simulate takes an instance, got Program"):
        iosim.simulate(program, iosim.Machine(9), hbm)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"simulate takes a machine, got 1000: give Machine\(M\)"):
        iosim.simulate(instance, 1000, hbm)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="bind takes sizes by name, got Copy: give a dict"):
        iosim.bind(program, Copy(4), {"B": 2})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="bind takes tiles by name, got list"):
        iosim.bind(program, {"n": 4}, [2])  # type: ignore[arg-type]
    algorithm: Any = iosim.algorithm("copy")
    with pytest.raises(InputError, match=r"for a program, got Algorithm: pass its \.program"):
        iosim.optimal_tiles(algorithm, Copy(4), 9)
    with pytest.raises(InputError, match="for a program, got Algorithm"):
        iosim.smallest_capacity(algorithm, Copy(4))
    with pytest.raises(InputError, match="for a problem, got dict"):
        iosim.optimal_tiles(program, {"n": 4}, 9)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="show takes a program, got Algorithm"):
        iosim.show(algorithm)
    with pytest.raises(InputError, match="show takes an instance, got int"):
        iosim.show(program, 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown algorithm 3"):
        iosim.algorithm(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="lanes must be a whole number"):
        iosim.simulate(instance, iosim.Machine(9), hbm, lanes=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("lanes", [1, 2**18])
def test_buffers_of_one_word(lanes: int) -> None:
    """A buffer whose every index is a single position is an array, with or without lanes."""

    def schedule(b: iosim.Builder) -> None:
        for i in b.grid("n"):
            x = b.load("X", i)
            y = b.zeros("y", i)
            b.op("lowest", y)
            b.store(x, "Y", i)
            b.free(x, y)

    program = iosim.build("words", Copy, schedule)
    hbm = Copy(5).random()
    result = iosim.simulate(iosim.bind(program, {"n": 5}, {}), iosim.Machine(2), hbm, lanes=lanes)
    np.testing.assert_array_equal(result.outputs["Y"], hbm["X"])
    assert result.peak_words == 2


def split_columns(b: iosim.Builder) -> None:
    """FlashAttention-2 whose O is two buffers: its first W columns, and the others."""
    W = b.stationary("d", "W")
    B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
    left, right = b.span("d", 0, W), b.span("d", W)
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            q = b.load("Q", h, i, "d")
            o, p = b.zeros("o", i, left), b.zeros("p", i, right)
            m, l = b.lowest("m", i), b.zeros("l", i)
            for j in b.tiles("N", B_c):
                k = b.load("K", h, j, "d")
                s = b.zeros("s", i, j)
                b.op("matmul_nt", s, q, k)
                v, w = b.load("V", h, j, left, name="v"), b.load("V", h, j, right, name="w")
                # The weights are made by the operation on the left part, which may be empty.
                b.op("online_softmax", o, m, l, s, v)
                b.op("matmul_nn", p, s, w)
                b.free(k, s, v, w)
            b.op("finish", o, l)
            b.op("finish", p, l)
            b.store(o, "O", h, i, left)
            b.store(p, "O", h, i, right)
            b.free(q, o, p, m, l)


@pytest.mark.parametrize("W", range(5))
@pytest.mark.parametrize("lanes", [1, 2**18])
def test_an_operation_with_an_empty_operand_still_does_the_rest(W: int, lanes: int) -> None:
    """Where the left part of O is empty, the row statistics and the weights are made all the same.

    One tile covers all columns of the scores, so that the right part needs no rescaling.
    """
    problem = iosim.Attention(5, 4, 2)
    program = iosim.build("split", iosim.Attention, split_columns)
    hbm = problem.random()
    for B_r in (1, 2, 5):
        instance = iosim.bind(program, problem.sizes, {"W": W, "B_r": B_r, "B_c": 5})
        result = iosim.simulate(instance, iosim.Machine(999), hbm, lanes=lanes)
        assert iosim.max_error(result.outputs, problem.reference(hbm)) < 1e-12
        assert result.counts == iosim.count(instance)


def test_inputs_are_not_changed() -> None:
    problem = iosim.Attention(6, 3)
    program = iosim.algorithm("flash1").program
    hbm = problem.random()
    before = {k: v.copy() for k, v in hbm.items()}
    instance = iosim.bind(program, problem.sizes, {"B_r": 2, "B_c": 2})
    iosim.simulate(instance, iosim.Machine(100), hbm)
    for name, value in before.items():
        np.testing.assert_array_equal(hbm[name], value)
