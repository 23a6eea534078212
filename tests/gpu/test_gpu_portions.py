"""Portions of a loop on Hopper: masks are in the tiles that need them, and in no others."""

from __future__ import annotations

import numpy as np
import pytest
from gluon_machine import ran, run_instance

import iosim
from iosim.core.algorithms._passes import finish, heads, statistics


def masks_by_hand(problem, tiles):
    """Of each row block, in order: masks of a tile that is its first, hides a pair or is short."""
    B_r, B_c = tiles["B_r"], tiles["B_c"]
    left, right = problem.window or (None, None)
    right = 0 if problem.causal else right
    spans = [
        (
            i,
            0 if left is None else max(i - left, 0),
            problem.N if right is None else min(min(i + B_r, problem.N) + right, problem.N),
        )
        for i in range(0, problem.N, B_r)
    ]
    each = (left is not None) + (right is not None)
    each += any((stop - start) % B_c for _, start, stop in spans)
    found = []
    for i, start, stop in spans:
        n = 0
        for j in range(start, stop, B_c):
            away = np.arange(j, j + B_c) - np.arange(i, i + B_r)[:, None]
            hides = left is not None and (away < -left).any()
            hides |= right is not None and (away > right).any()
            n += each * bool(hides or j == start or j + B_c > stop)
        found.append(n * -(-B_r // 64))  # of each warpgroup
    return found


@pytest.mark.parametrize("N", [191, 192, 193, 255])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True},
        *({"window": (w, None), "causal": True} for w in (64, 65, 94, 158)),
        *({"window": w} for w in [(31, 0), (32, 1), (33, 31), (96, 32), (97, 33), (150, 30)]),
    ],
)
@pytest.mark.parametrize("tiles", [{"B_r": 64, "B_c": 16}, {"B_r": 128, "B_c": 32}])
def test_masks_are_applied_to_the_tiles_that_need_them_and_no_others(N, options, tiles):
    """The ends of a loop's portions: a tile early hides too little, a tile late costs time."""
    problem = iosim.Attention(N=N, d=16, **options)
    masks = []
    instance, words, _ = ran(problem, tiles, masks=masks)
    assert words == dict(iosim.count(instance))
    assert sorted(masks) == sorted(masks_by_hand(problem, tiles))


def test_a_loop_may_end_with_tiles_that_no_mask_changes():
    """Every key is seen twice, which changes no output; each loop's last portion has no mask."""

    def twice(b):
        B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
        for h in heads(b):
            for i in b.grid("N", B_r):
                q = b.load("Q", *h.q, i, "d")
                o, m, l = statistics(b, i, "d")
                for _ in range(2):
                    for j in b.tiles("N", B_c):
                        k, s = b.load("K", *h.k, j, "d"), b.zeros("s", i, j)
                        b.op("matmul_nt", s, q, k)
                        b.op("mask_before", s, a=i.start - j.start - 40)
                        b.free(k)
                        v = b.load("V", *h.k, j, "d")
                        b.op("online_softmax", o, m, l, s, v)
                        b.free(v, s)
                finish(b, h, i, o, m, l)
                b.free(q, o, m, l)

    problem, masks = iosim.Attention(N=192, d=16, window=(40, None)), []
    program = iosim.build("twice", problem.form, twice)
    instance = iosim.bind(program, problem.sizes, {"B_r": 64, "B_c": 32})
    _, words, _ = run_instance(instance, problem, masks)
    assert words == dict(iosim.count(instance))
    # Rows i to i + 63 hide keys in tiles before i + 23: 1 of 6, 3 and 5; the first has its mask.
    assert sorted(masks) == [2 * 1, 2 * 3, 2 * 5]
