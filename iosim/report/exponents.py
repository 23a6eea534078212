"""Exponents of M, fitted to counted words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Exponent:
    """A fitted exponent and its standard error, which tells how straight the points lie."""

    value: float
    error: float


def fit_exponent(M: Any, words: Any, *, edges: bool = False) -> Exponent:
    """The b of log words = a + b·log M by least squares; with `edges`, + c/√M.

    Args:
        M: words of fast memory, of one dimension; at least 3 points, 4 with `edges`.
        words: what was moved at each, positive.
        edges: whether edges and statistics take O(√M) of the M words, the first term by which a
            tile in a finite memory differs from the power law.

    >>> M = np.array([64, 256, 1024])
    >>> round(fit_exponent(M, 5 / M).value, 9)
    -1.0
    """
    from scipy.optimize import curve_fit

    M = np.asarray(M, np.float64)
    columns = [np.ones_like(M), np.log(M)] + ([M**-0.5] if edges else [])
    terms = np.stack(columns, axis=1)
    values, covariance = curve_fit(
        lambda _, *given: terms @ given,
        M,
        np.log(np.asarray(words, np.float64)),
        p0=np.zeros(len(columns)),
        jac=lambda *_: terms,
    )
    return Exponent(float(values[1]), float(np.sqrt(covariance[1, 1])))
