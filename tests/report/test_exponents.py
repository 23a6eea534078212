"""Fitted exponents: known laws come out, against the normal equations solved by hand."""

from __future__ import annotations

import numpy as np
import pytest

from iosim.report.exponents import fit_exponent

pytestmark = pytest.mark.numbers


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("power", [-1.0, -0.5, 0.0, 0.7])
def test_a_pure_power_is_found_without_error(power: float, edges: bool) -> None:
    M = np.array([16.0, 40, 100, 300, 1000, 5000])
    fit = fit_exponent(M, 3.5 * M**power, edges=edges)
    assert fit.value == pytest.approx(power, abs=1e-9)
    assert fit.error == pytest.approx(0, abs=1e-6)


def test_the_edges_of_tiles_are_no_exponent() -> None:
    M = np.geomspace(16, 4096, 12)
    words = 2 * M**-0.5 * np.exp(3 / np.sqrt(M))
    assert fit_exponent(M, words, edges=True).value == pytest.approx(-0.5, abs=1e-9)
    assert fit_exponent(M, words).value < -0.55


@pytest.mark.parametrize("edges", [False, True])
def test_value_and_error_are_those_of_the_normal_equations(edges: bool) -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        n = int(rng.integers(6, 30))
        M = np.sort(np.exp(rng.uniform(2, 12, n)))
        words = 100 * M ** rng.uniform(-1.5, 0) * np.exp(rng.normal(0, 0.1, n))
        A = np.column_stack([np.ones(n), np.log(M), *([1 / np.sqrt(M)] if edges else [])])
        inverse = np.linalg.inv(A.T @ A)
        value = inverse @ A.T @ np.log(words)
        rest = np.log(words) - A @ value
        spread = rest @ rest / (n - A.shape[1])
        fit = fit_exponent(M, words, edges=edges)
        assert fit.value == pytest.approx(value[1], rel=1e-6, abs=1e-8)
        assert fit.error == pytest.approx(np.sqrt(spread * inverse[1, 1]), rel=1e-6)
