"""The best fusion of operators in a row, beside the search for any graph, and of many operators.

``pytest benchmarks/test_fusion.py -s``: processor seconds of each.  At the end stands which
thresholds hold (`thresholds.py`).
"""

from __future__ import annotations

import time

import pytest
import thresholds

from iosim.models.fusion import best as best_module
from iosim.models.fusion.best import best
from iosim.models.fusion.chain import chain
from iosim.models.fusion.groups import Groups

M = 31_457_280


def measure_seconds(n: int) -> float:
    """Of one search, for a chain of n operators."""
    groups = Groups(chain(n, 2**22), M)
    began = time.process_time()
    assert len(best(groups)) == 1
    return time.process_time() - began


def test_in_a_row_beside_any_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    n = thresholds.size(40, 4)
    row = measure_seconds(n)
    monkeypatch.setattr(best_module, "in_a_row", lambda groups: False)
    every = measure_seconds(n)
    print(f"\n{n} operators: {1e3 * row:.1f} ms in a row, {1e3 * every:,.0f} ms as any graph")
    thresholds.at_least("40 operators: any graph / in a row", every / row, 5, "times")


def test_in_proportion_to_the_length() -> None:
    few, many = (
        measure_seconds(thresholds.size(1_000, 5)),
        measure_seconds(thresholds.size(10_000, 50)),
    )
    print(f"\nfew operators: {few:.2f} s, ten times as many: {many:.2f} s")
    thresholds.at_least("10,000 operators: least of 20 times 1,000", 20 * few / many, 1, "times")
