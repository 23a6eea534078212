"""Sweeps whose drift is drawn: their times, and what they read."""

from __future__ import annotations

import numpy as np
import pytest

import iosim
from iosim.gpu import l2
from iosim.gpu.run.job import Job
from iosim.gpu.sweeps import MOST_DRIFT, PACE, Sweeps

L2 = 60 * 2**20


def _flash2(N, B_r, **more):
    return Job("flash2", {"N": N, "d": 64, "heads": 1}, {"B_r": B_r, "B_c": 64}, **more)


def _moment_by_moment(s, pieces):
    """When each item is in the middle of each piece: items walk half a block after another."""
    paces = s.paces().tolist()
    found = np.full((s.items, pieces), -1)
    per = s.blocks // pieces
    middles = {(2 * k + 1) * per: k for k in range(pieces)}

    def walk(items, begin, half):
        """One stretch of halves; when each of these items is through it."""
        return {i: begin + paces[i] * (half + 1) for i in items}

    if not s.every:
        free = [(0, lane) for lane in range(s.programs)]
        for item in range(s.items):
            begin, lane = min(free)
            free.remove((begin, lane))
            for half in range(2 * s.blocks):
                if half + 1 in middles:
                    found[item, middles[half + 1]] = walk([item], begin, half)[item]
            free.append((begin + paces[item] * 2 * s.blocks, lane))
        return found
    clock = 0
    for first in range(0, s.items, s.programs):
        wave, since, at_gate = range(first, min(first + s.programs, s.items)), 0, clock
        for half in range(2 * s.blocks):
            here = walk(wave, at_gate, since)
            since += 1
            if since == 2 * s.every:  # at the gate all wait for the last
                at_gate, since = max(here.values()), 0
                here = dict.fromkeys(wave, at_gate) if half + 1 in middles else here
            if half + 1 in middles:
                for item in wave:
                    found[item, middles[half + 1]] = here[item]
        clock = max(here.values()) if since else at_gate
    return found


def test_times_of_any_sweeps_against_a_walk_by_halves_of_blocks():
    rng = np.random.default_rng(5)
    for _ in range(120):
        pieces = int(rng.choice([1, 2, 4, 8]))
        s = Sweeps(
            items=int(rng.integers(1, 20)),
            programs=int(rng.integers(1, 9)),
            blocks=pieces * int(rng.integers(1, 6)),
            drift=int(rng.integers(0, MOST_DRIFT + 1)),
            every=int(rng.choice([0, 0, 1, 2, 3, 7, 50])),
            seed=int(rng.integers(0, 2**32)),
        )
        assert s.when(pieces).tolist() == _moment_by_moment(s, pieces).tolist(), s


def test_draws_fill_the_range_evenly_and_follow_the_seed():
    found = Sweeps(20000, 1, 1, drift=500, seed=3).paces()
    assert found.min() >= PACE
    assert found.max() < PACE + 500
    counts, _ = np.histogram(found, 10, (PACE, PACE + 500))
    assert abs(counts - 2000).max() < 200
    other = Sweeps(20000, 1, 1, drift=500, seed=4).paces()
    assert abs(np.corrcoef(found, other)[0, 1]) < 0.03
    assert (Sweeps(9, 1, 1, drift=0).paces() == PACE).all()


@pytest.mark.parametrize(("N", "B_r", "programs"), [(524288, 64, 528), (1048576, 128, 264)])
def test_without_drift_or_with_a_gate_sweeps_read_what_the_wave_model_says(N, B_r, programs):
    plain = _flash2(N, B_r)
    want = l2.predicted_bytes(plain, programs, L2)

    def read(job, drift):
        when = Sweeps.of(job, programs, drift, seed=1).when(128)
        return l2.read_bytes(when, job, [L2 * l2.L2_SHARE])[0]

    assert read(plain, 0) == want
    assert read(plain, 100) > 10 * want
    kept = _flash2(N, B_r, programs=programs, every=64)
    assert read(kept, 100) == want
    # A gate for each wave is too seldom for programs of very different speed.
    assert read(_flash2(N, B_r, programs=programs, every=N // 64), 1000) > want


def test_reads_of_even_sweeps_are_those_of_their_clocks():
    job = _flash2(131072, 64)
    s = Sweeps.of(job, 100, 200, seed=9)
    half = s.blocks * s.paces()
    middle = s.when(1)[:, 0]
    ticks = np.stack([middle - half, middle + half], axis=1)
    rooms = (L2 / 8, L2 / 4, L2)
    assert l2.drift_bytes(ticks, job, rooms, 64) == l2.read_bytes(s.when(64), job, rooms)


def test_what_cannot_be_said():
    with pytest.raises(iosim.IosimError, match="drift = 1001 is out of range: give 0 to 1000"):
        Sweeps(1, 1, 1, drift=1001)
    with pytest.raises(iosim.IosimError, match=r"6 blocks are not a whole number .* 4 pieces"):
        Sweeps(1, 1, 6, drift=0).when(4)
    two = Job("flash2", {"N": 256, "d": 64, "heads": 2}, {"B_r": 64, "B_c": 64})
    with pytest.raises(iosim.IosimError, match="heads = 1"):
        l2.read_bytes(np.zeros((8, 4)), two, [L2])
