"""How much of L2 a sweep can use: the law against a simulated cache, and what a run says."""

from __future__ import annotations

from pathlib import Path

import pytest

from iosim.gpu.errors import GpuError
from iosim.gpu.reports.l2size import (
    REPORT,
    RUNS,
    SweepRun,
    SweptBytes,
    UsedBytes,
    calibrate,
    find_used_bytes,
    predict_reads,
)
from proofs.sweep_order import alternating_order, cyclic_order, lru_misses


def simulate_reads(run: SweepRun, L: int, own: int, C: int) -> int:
    """Misses of a simulated LRU cache of C items, and `own` items before each sweep."""
    order = alternating_order if run.alternate else cyclic_order
    return run.sweeps * own + lru_misses(order(run.sweeps, L), C)


@pytest.mark.parametrize("alternate", [False, True])
@pytest.mark.parametrize(("L", "C"), [(20, 12), (20, 3), (7, 6), (20, 25), (9, 9)])
def test_the_law_is_what_a_simulated_cache_reads(alternate: bool, L: int, C: int) -> None:
    for n in (2, 3, 8):
        run, launched = SweepRun(n, 1.0, alternate), SweptBytes(L, 5, 0)
        reads = simulate_reads(run, L, 5, C)
        assert predict_reads(run, launched, C) == reads
        if alternate and C <= L:
            assert find_used_bytes(run, launched, reads) == C


def test_the_first_and_the_last_run_calibrate() -> None:
    used = UsedBytes(1000, 0.75)
    launched = [SweptBytes(1500, 100 * run.own_reads, 100 * run.own_writes) for run in RUNS]
    reads = [
        round(predict_reads(run, one, used.at(one)))
        for run, one in zip(RUNS, launched, strict=True)
    ]
    found = calibrate(RUNS, launched, reads)
    assert found.alone == pytest.approx(used.alone)
    assert found.each == pytest.approx(used.each)


def test_a_record_that_lacks_launches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GpuError, match="is it a record"):
        REPORT.table(tmp_path)
