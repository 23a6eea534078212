"""The strict machine refuses what a real fast memory could not do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from strategies import bound_programs

import iosim
from iosim.errors import CapacityError, InputError, LeakError, ProgramError, ResidencyError
from iosim.problem import Copy
from iosim.program.ir import (
    Affine,
    Alloc,
    Free,
    Load,
    Loop,
    Node,
    Op,
    Program,
    Ref,
    Span,
    Store,
    Tensor,
    Tile,
)

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
                inner = Loop(node.tile, node.span, node.step, node.parallel,
                             without_last_free(node.body))  # fmt: skip
                return (*body[:k], inner, *body[k + 1 :])
        raise AssertionError("nothing is freed")

    broken = Program(program.name, program.problem, program.params, program.tensors,
                     without_last_free(program.body))  # fmt: skip
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
    with pytest.raises(KeyError, match="is no direction"):
        iosim.count(instance)["laod", "X"]  # type: ignore[index]


def test_inputs_are_not_changed() -> None:
    problem = iosim.Attention(6, 3)
    program = iosim.algorithm("flash1").program
    hbm = problem.random()
    before = {k: v.copy() for k, v in hbm.items()}
    instance = iosim.bind(program, problem.sizes, {"B_r": 2, "B_c": 2})
    iosim.simulate(instance, iosim.Machine(100), hbm)
    for name, value in before.items():
        np.testing.assert_array_equal(hbm[name], value)
