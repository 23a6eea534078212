"""Formulas of random kernels, and of kernels made to be hard: equal to what evaluating counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_kernels import SIZES, draw_kernel
from sizes import draws

from iosim.base.errors import InputError
from iosim.kernel import KernelFormula, count_kernel, derive_formula, describe_launch, load_kernel
from iosim.kernel.closing import NoClosedForm
from iosim.kernel.launch import KernelCall, read_grid

pytest.importorskip("triton")
TRAPS = Path(__file__).parent / "formula_traps.py"
# The grid of each kernel that has a formula; of the others, and why they have none.
GRIDS = {
    "fewer_programs": "min(P, M)",
    "steps_of_tiles": "min(M, N)",
    "twice_a_quotient": "cdiv(N, B)",
    "quotient_of_quotient": "cdiv(N, B)",
    "plus_a_program": "cdiv(N, B)",
    "cut_tiles": "cdiv(N, B)",
    "tensors_in_turn": "N",
    "window_of_none": "cdiv(N, B)",
    "lone_lane": "cdiv(N, B)",
    "huge_products": "3",
    "falling_loop": "cdiv(N, B)",
    "otherwise": "N",
    "columns_first": "M*N",
    "shares_of_rows": "M",
}
REFUSED = {
    "taken_twice": ("M", "depends on which program takes a tile"),
    "rounded_up": ("cdiv(N, B)", "a loop whose bound is"),
    "at_least_a_quotient": ("cdiv(N, B)", "a loop whose bound is"),
    "from_zero_or_later": ("cdiv(N, B)", "a value that a loop carries"),
    "counts_down": ("cdiv(N, B)", "a value that a condition chooses"),
    "least_of_falling": ("cdiv(N, B)", "one condition or another"),
    "masks_in_turn": ("cdiv(N, B)", "a value that a loop carries"),
    "returns_early": ("cdiv(N, B)", "several ends"),
    "calls_that_return": ("cdiv(N, B)", "a value that a condition chooses"),
    "turned_by": ("N", "arith.remsi by N"),
    "wrapped_at": ("N", "arith.remsi by M"),
    "share_and_number": ("M", "a loop whose bound is a product of sizes"),
    "far_programs": ("N", "a value that a condition chooses"),
}


def launch_trap(name: str, grid: str, sizes: Mapping[str, int]) -> KernelCall:
    kernel = load_kernel(f"{TRAPS}::{name}")
    known = {n: x for n, x in sizes.items() if n in kernel.arguments}
    return describe_launch(kernel, grid, known, {}, {"B": 8} if "B" in kernel.constants else {})


def check_formula(
    formula: KernelFormula, call: KernelCall, draw: Callable[[], Any], times: int
) -> None:
    """Compare a formula with evaluations at other sizes, none of them 1, which is compiled in."""
    for _ in range(times):
        sizes = {n: int(draw()) for n in call.values}
        grid = read_grid(call.grid_text, {**sizes, **call.constants})
        there = replace(call, values=sizes, grid=grid)
        counted = {
            key: t.words for key, t in count_kernel(there, reuse=False).traffic.items() if t.words
        }
        words = formula.count_many({n: sizes[n] for n in formula.sizes})
        assert {key: int(x) for key, x in words.items() if x} == counted, sizes


@pytest.mark.numbers
@pytest.mark.parametrize("name", GRIDS)
def test_a_hard_kernel_has_the_words_of_its_evaluation(name: str) -> None:
    rng = np.random.default_rng(len(name))
    sizes = {"N": 35, "M": 7, "W": 6, "P": 4}
    call = launch_trap(name, GRIDS[name], sizes)
    check_formula(derive_formula(call), call, partial(rng.integers, 2, 60), draws(60, 12))


@pytest.mark.parametrize("name", REFUSED)
def test_a_hard_kernel_has_no_formula(name: str) -> None:
    grid, why = REFUSED[name]
    with pytest.raises(NoClosedForm, match=why):
        derive_formula(launch_trap(name, grid, {"N": 35, "M": 7, "W": 6}))


@pytest.mark.numbers
def test_random_kernels_have_the_words_of_their_evaluation(tmp_path: Path) -> None:
    kernels = draws(1500, 36)
    found = 0
    for seed in range(kernels):
        rng = np.random.default_rng(seed)
        text, grid, constants = draw_kernel(rng)
        path = tmp_path / f"drawn{seed}.py"
        path.write_text(text)
        given = dict(zip(SIZES, (13, 7, 6), strict=True))
        call = describe_launch(load_kernel(f"{path}::kernel"), grid, given, {}, constants)
        try:
            formula = derive_formula(call)
        except NoClosedForm:
            continue
        found += 1
        check_formula(formula, call, partial(rng.integers, 2, 12), 4)
    assert found > kernels / 8


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ({"N": -1, "M": 2}, "size N must hold integers in 0"),
        ({"N": [3.5], "M": 2}, "size N must hold integers in 0"),
        ({"N": 3, "M": 2, "K": 2}, "no size 'K'"),
        ({"N": 3}, "sizes of M"),
        ({"N": [3, 4], "M": [1, 2, 3]}, "don't fit together"),
        ({"N": np.array([2**32]), "M": 2**32}, "product exceeds"),
        ([3, 4], "sizes by name"),
    ],
)
def test_sizes_that_a_formula_does_not_take(sizes: Any, why: str) -> None:
    formula = derive_formula(launch_trap("huge_products", "1", {"N": 35, "M": 7}))
    with pytest.raises(InputError, match=why):
        formula.count_many(sizes)
