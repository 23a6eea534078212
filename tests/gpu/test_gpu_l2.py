"""What DRAM has to deliver: the models by hand."""

from __future__ import annotations

import numpy as np
import pytest

import iosim
from iosim.gpu import l2
from iosim.gpu.reports.validate import validate_jobs
from iosim.gpu.run.job import Job


def _flash2(N, B_r, heads=1, **more):
    return Job("flash2", {"N": N, "d": 64, "heads": heads}, {"B_r": B_r, "B_c": 64}, **more)


def test_the_wave_model_by_hand():
    sweep = 2 * 2 * 524288 * 64  # K and V in bytes
    assert l2.swept_bytes(_flash2(524288, 64)) == sweep
    # 8192 items of 64 rows, 264 at a time: 32 waves; Q once.
    assert l2.wave_bytes(_flash2(524288, 64), 264) == 32 * sweep + sweep // 2
    # Two heads of 16 items: waves of 12 see heads {0}, {0, 1}, {1}.
    small = 2 * 2 * 1024 * 64
    assert l2.wave_bytes(_flash2(1024, 64, heads=2), 12) == 4 * small + small
    # What fits in L2 is read once.
    assert l2.predicted_bytes(_flash2(1024, 64, heads=2), 12, 60 * 2**20) == 2 * small + small


def test_footprints_by_hand():
    job = validate_jobs(("naive",), (64,), (8192,), (1024,))[0]
    N, d, heads = 1024, 64, 2
    assert l2.footprint_bytes(job.instance, "fp16") == {
        "load": 2 * heads * (3 * N * d + 2 * N * N),
        "store": 2 * heads * (N * d + 2 * N * N),
    }


def test_drift_of_programs_in_step_is_the_wave_model():
    job = _flash2(4096, 64)
    ticks = np.repeat(np.array([[0, 100], [100, 200], [200, 300], [300, 400]]), 16, axis=0)
    room = l2.swept_bytes(job) // 4
    (together,) = l2.drift_bytes(ticks, job, [room])
    assert together == l2.wave_bytes(job, 16)
    assert l2.spread(ticks) == 0
    # Half a sweep behind, with a quarter's room: the followers read everything again.
    late = ticks.copy()
    late[8::16] += 50
    for k in range(9, 16):
        late[k::16] += 50
    (apart,) = l2.drift_bytes(late, job, [room])
    assert apart - together == 4 * l2.swept_bytes(job)
    assert l2.spread(late) == pytest.approx(0.5, abs=0.01)
    # Eleven programs, each a hundredth of a sweep before the next: without the outer two 0.08.
    eleven = np.array([[-10 * k, 1000 - 10 * k] for k in range(11)])
    assert l2.spread(eleven) == pytest.approx(0.08)
    with pytest.raises(iosim.IosimError, match="heads = 1"):
        l2.drift_bytes(ticks, _flash2(4096, 64, heads=2), [room])


def test_drift_of_any_sequence_against_a_cache_without_shortcuts():
    """Every access of every item, in order of time, through a cache kept as a list."""
    rng = np.random.default_rng(2)
    job, pieces = _flash2(1024, 64), 16
    start = np.sort(rng.integers(0, 300, 16))
    ticks = np.stack([start, start + rng.integers(50, 200, 16)], axis=1)
    when = sorted(
        (a + (b - a) * (k + 0.5) / pieces, item, k)
        for item, (a, b) in enumerate(ticks.tolist())
        for k in range(pieces)
    )
    swept = l2.swept_bytes(job)
    own = l2.footprint_bytes(job.instance, "fp16")["load"] - swept
    rooms = (1, 3, 8, pieces)
    want = []
    for room in rooms:
        kept, misses = [], 0
        for _, _, piece in when:
            misses += piece not in kept
            kept = [piece, *(x for x in kept if x != piece)][:room]
        want.append(misses * swept // pieces + own)
    assert l2.drift_bytes(ticks, job, [swept * room / pieces for room in rooms], pieces) == want
    assert len(set(want)) == len(rooms)
