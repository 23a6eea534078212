"""Types of arrays, and what NumPy has slower for few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def clip(values: Any, least: Any, most: Any) -> Any:
    """`np.clip`, whose checks take several times as long as its work on a hundred numbers.

    >>> clip(np.array([1, 5, 9]), 2, 6).tolist()
    [2, 5, 6]
    """
    return np.minimum(np.maximum(values, least), most)
