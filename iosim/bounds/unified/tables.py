"""Tables of numbers that searches found, in files of this folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from iosim.base.arrays import Floats


def read_table(name: str) -> Floats:
    """The numbers of a table in this folder, a row for each row, without its head.

    >>> read_table("spills")[0, :3]
    array([0.01849 , 0.058353, 0.9951  ])
    """
    path = Path(__file__).with_name(f"{name}.csv")
    table: Floats = np.loadtxt(path, delimiter=",", skiprows=1, encoding="utf-8")
    return table
