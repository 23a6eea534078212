"""Problems that are declared wrongly; how an output is held against the reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import iosim
from iosim.base.errors import InputError, IosimError
from iosim.core.problem import (
    BaseProblem,
    BlockSparse,
    Copy,
    MatMul,
    PagedAttention,
    Tensor,
    axis,
    max_error,
)


def test_a_field_or_a_tensor_that_names_no_axis_is_one_line() -> None:
    @dataclass(frozen=True)
    class Plain(BaseProblem):
        n: int
        kind: ClassVar[str] = "plain"
        inputs: ClassVar[tuple[Tensor, ...]] = (Tensor("X", ("n",)),)
        outputs: ClassVar[tuple[Tensor, ...]] = ()

    @dataclass(frozen=True)
    class Misspelt(Plain):
        n: int = axis("entries")
        inputs: ClassVar[tuple[Tensor, ...]] = (Tensor("X", ("m",)),)

    with pytest.raises(InputError, match=r"Plain\.n is not an axis: declare it as n: int = axis"):
        Plain(3)
    for problem, said in (
        (Plain, r"Plain\.n is not an axis"),
        (Misspelt, "tensor X has an axis 'm' that problem plain doesn't have: known: n"),
    ):
        with pytest.raises(IosimError, match=said):
            iosim.build("none", problem, lambda b: None)


@pytest.mark.parametrize(
    ("got", "want", "error"),
    [
        # Large values: relative to the largest of them, whatever its sign and place.
        ([100.0, 4.0], [100.0, 5.0], 1 / 100),
        ([101.0, 5.0], [100.0, 5.0], 1 / 100),
        ([3.0, -200.0], [2.0, -200.0], 1 / 200),
        # Small ones: absolute.
        ([0.25, 0.0], [0.125, 0.0], 0.125),
        ([0.5], [0.0], 0.5),
        ([1.0], [1.5], 0.5 / 1.5),
        ([7.0, -8.0], [7.0, -8.0], 0.0),
        # What can't be compared.
        ([np.nan, 1.0], [1.0, 1.0], np.inf),
        ([1.0, 1.0, 1.0], [1.0, 1.0], np.inf),
        ([[1.0, 1.0]], [1.0, 1.0], np.inf),
    ],
)
def test_the_scale_of_an_error(got: list[float], want: list[float], error: float) -> None:
    assert max_error({"O": np.array(got)}, {"O": np.array(want)}) == pytest.approx(error, rel=1e-15)


def test_an_imaginary_part_is_an_error() -> None:
    assert max_error({"O": np.array([3 + 4j])}, {"O": np.array([3.0])}) == 4 / 3


def test_each_output_has_its_own_scale() -> None:
    want = {"A": np.array([1000.0]), "B": np.array([2.0])}
    assert max_error({"A": np.array([1001.0]), "B": np.array([2.0])}, want) == 1 / 1000
    assert max_error({"A": np.array([1001.0]), "B": np.array([2.5])}, want) == 1 / 4
    assert max_error({"A": np.array([1500.0]), "B": np.array([2.5])}, want) == 1 / 2


MASKED = [
    {"causal": True},
    {"causal": True, "align": "upper left"},
    {"window": (2, 1), "sinks": 3},
    {"window": (2, 1), "sinks": 3, "align": "upper left"},
    {"window": (0, None)},
]


@pytest.mark.parametrize("options", MASKED)
def test_columns_that_no_row_sees_are_not_loaded(options: dict[str, Any]) -> None:
    """The sizes say how many there are, for arrays of problems too."""
    problems = [iosim.Attention(4, 3, 2, N_k=N_k, **options) for N_k in range(1, 14)]
    given = {
        "N": np.full(13, 4),
        "d": 3,
        "heads": 2,
        "N_k": np.arange(1, 14),
        "left": problems[0].limits[0],
        "right": problems[0].limits[1],
        "sinks": problems[0].sinks,
    }
    found = iosim.Attention.extents(problems[0].form, given)
    flash1 = iosim.algorithm("flash1")
    for k, problem in enumerate(problems):
        assert problem.sizes == {x: np.broadcast_to(v, 13)[k] for x, v in found.items()}
        assert all(type(v) is int for v in problem.sizes.values())
        instance = iosim.bind(flash1.program_for(problem), problem.sizes, {"B_r": 3, "B_c": 2})
        assert iosim.count(instance)["load", "K"] == 2 * problem.columns_used * 3


PROBLEMS: list[Any] = [
    iosim.Attention(6, 4),
    iosim.Attention(6, 4, 4, kv_heads=2, N_k=5, d_v=3),
    MatMul(3, 4, 5),
    Copy(7),
    BlockSparse(6, 8, 4),
    PagedAttention(N_k=10, d=4, heads=4, kv_heads=2, page=4),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_arrays_of_another_shape_are_one_line(problem: Any) -> None:
    more = (np.ones((6, 8), bool),) if isinstance(problem, BlockSparse) else ()
    hbm = problem.random()
    problem.reference(hbm, *more)
    for name, array in hbm.items():
        wrong: list[tuple[Any, str]] = [
            (array[..., :-1], rf"{name} has shape .*, the problem needs "),
            (array[None], rf"{name} has shape .*, the problem needs "),
            (array.astype(str), f"{name} is of dtype .*: give real numbers"),
            ([[1.0], [2.0, 3.0]], f"{name} has rows of unequal lengths"),
        ]
        for given, says in wrong:
            with pytest.raises(InputError, match=says) as error:
                problem.reference(hbm | {name: given}, *more)
            assert "\n" not in str(error.value)
        with pytest.raises(InputError, match=f"needs {name}: give the arrays"):
            problem.reference({x: y for x, y in hbm.items() if x != name}, *more)


def test_a_reference_has_the_leading_axes_of_what_is_given() -> None:
    problem = iosim.Attention(6, 4, 4, kv_heads=2)
    hbm = problem.random()
    joined = hbm | {"Q": hbm["Q"].reshape(4, 6, 4)}
    O, same = (problem.reference(x)["O"] for x in (hbm, joined))
    assert (O.shape, same.shape) == ((2, 2, 6, 4), (4, 6, 4))
    assert np.array_equal(O.reshape(4, 6, 4), same)


@pytest.mark.parametrize(
    ("mask", "tiles", "says"),
    [
        (np.ones((3, 1), bool), (2, 4), r"shape \(3, 1\), .* need booleans of shape \(3, 2\)"),
        (np.ones((2, 2), bool), (2, 4), r"shape \(2, 2\), .* need booleans of shape \(3, 2\)"),
        (np.ones(6, bool), (2, 4), r"shape \(6,\), and tiles of 2 rows and 4 keys"),
        (np.ones((3, 2), int), (2, 4), "array of int64 .* need booleans"),
        ([[True], [True, False]], (2, 4), "rows of unequal lengths"),
        (np.ones((3, 2), bool), (0, 4), "B_r = 0 is outside 1.."),
        (np.ones((3, 2), bool), (2, 4.0), "B_c must be a whole number, got 4.0"),
    ],
)
def test_a_block_mask_that_does_not_fit_its_tiles_is_one_line(
    mask: Any, tiles: Any, says: str
) -> None:
    problem = BlockSparse(6, 8, 4)
    assert problem.scores(np.ones((3, 2), bool), 2, 4).shape == (6, 8)
    assert problem.scores(np.ones((1, 1), bool), 99, 8).all()
    with pytest.raises(InputError, match=says):
        problem.scores(mask, *tiles)


def test_what_is_no_problem_is_not_supported_in_one_line() -> None:
    flash2 = iosim.algorithm("flash2")
    problem = iosim.Attention(6, 4, causal=True)
    assert flash2.supports(problem)
    assert flash2.supports(problem.form)
    assert not flash2.supports(Copy(3))
    assert not iosim.algorithm("flash2_keep").supports(iosim.Attention(6, 4, window=(1, 0)))
    wrong: list[Any] = [None, "attention", {"N": 6}, iosim.Attention]
    for given in wrong:
        with pytest.raises(InputError, match=r"flash2 is traced for a problem, got .*: give one"):
            flash2.supports(given)
