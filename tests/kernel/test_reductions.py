"""Reductions and scans whose results steer a kernel, compared with NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

from iosim.kernel import trace

ROWS, SIDE = 5, 16


@triton.jit
def reductions(summed, largest, place, running, backwards, x, B: tl.constexpr):
    """Each output has as many words as a reduction says, or as a scan lets through."""
    at = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * B + at)
    tl.store(summed + at, v, mask=at < tl.sum(v, 0))
    tl.store(largest + at, v, mask=at < tl.max(v, 0))
    tl.store(place + at, v, mask=at < tl.argmax(v, 0))
    tl.store(running + at, v, mask=tl.cumsum(v, 0) <= 3)
    tl.store(backwards + at, v, mask=tl.cumsum(v, 0, reverse=True) <= 2)


@pytest.mark.parametrize("seed", range(4))
def test_against_numpy(seed):
    x = np.random.default_rng(seed).integers(-2, 4, (ROWS, SIDE)).astype(np.int32)
    x[0] = 1  # a tie: the first place is meant
    out = np.zeros(SIDE, np.int32)
    stored = trace(reductions)[ROWS,](out, out, out, out, out, x, B=SIDE).words("store")
    within = np.clip(x.sum(1), 0, SIDE), np.clip(x.max(1), 0, SIDE), x.argmax(1)
    scans = x.cumsum(1) <= 3, x[:, ::-1].cumsum(1) <= 2
    want = [int(y.sum()) for y in (*within, *scans)]
    names = ["summed", "largest", "place", "running", "backwards"]
    assert [stored.get(name, 0) for name in names] == want
