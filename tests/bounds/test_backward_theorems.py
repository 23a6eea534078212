"""The backward pass's bounds are the words of the theorems: each written again from its text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from iosim.bounds import BOUNDS, bound, sym
from iosim.bounds.charges import AGAIN, MIXTURES, ONCE
from iosim.core.problem import Attention, AttentionBackward

ROOT = math.sqrt(3)
M = np.unique(np.geomspace(4, 4000, 700).astype(int))
PROBLEMS = [
    AttentionBackward(60, 4, 2),
    AttentionBackward(60, 4, 2, d_v=2),
    AttentionBackward(50, 3, d_v=7),
    AttentionBackward(50, 8, d_v=5, N_k=70, causal=True),
    # Columns that no row sees, and rows that see nothing.
    AttentionBackward(40, 5, 4, kv_heads=2, N_k=90, window=(6, 2)),
    AttentionBackward(90, 5, 4, kv_heads=2, N_k=40, causal=True),
]


def pairs_of(p: AttentionBackward) -> list[tuple[int, int, int]]:
    """Head, row and column of each score that is seen, one at a time."""
    return [
        (h, i, j) for h in range(p.heads) for i in range(p.N) for j in range(p.keys) if p.sees(i, j)
    ]


def sums_of(p: AttentionBackward) -> int:
    """Entries of dQ, dK and dV whose row or column has a pair."""
    seen, shared = pairs_of(p), p.heads // p.groups
    rows = {(h, i) for h, i, _ in seen}
    columns = {(h // shared, j) for h, _, j in seen}
    return (len(rows) + 2 * len(columns)) * p.d


def segments(p: AttentionBackward) -> tuple[float, float]:
    """Theorem 2: the least T, and its factor of Π/T²."""
    delta = (p.d + min(p.d, p.values)) / 2
    return 24 * delta**2, 16 * delta * (2 * p.d + p.values)


def kinds(p: AttentionBackward) -> tuple[float, float]:
    """Theorem 3: the same."""
    d, d_v = p.d, p.values
    D = d + d_v
    L, R, s = (
        2 * D * (2 * d + d_v),
        D * (3 * d + d_v) / (2 * d + d_v),
        (2 * d + d_v) / (3 * d + d_v),
    )
    q2 = 1 / (4 - s * s)
    mu = max(1, (1 + s) ** 2 * (2 + s) / (4 + 6 * s))
    u0 = mu**2 * (math.sqrt(1 + 32 * q2 / mu) - 1) / (16 * q2)
    return R**2 * (2 * mu - u0), 4 * L


def check_bound(name: str, p: AttentionBackward, want: Any, says: Any) -> None:
    """`bound(name)` applies where `says` and has the words `want`, at every M."""
    b = bound(name)
    sizes = {x: np.full(len(M), v) for x, v in p.sizes.items()}
    found = np.broadcast_to(b.where(p.form, sizes, M), M.shape)
    clear = ~np.isnan(want)
    assert (found[clear] == says[clear]).all(), (name, p)
    here = found & clear
    assert here.any(), (name, p)
    got = b.curve(p.form, **{x: v[here] for x, v in sizes.items()}, M=M[here])
    np.testing.assert_allclose(got, np.maximum(0, want[here]), rtol=1e-9, err_msg=f"{name} {p}")


@pytest.mark.parametrize("p", PROBLEMS, ids=str)
@pytest.mark.parametrize(("name", "theorem"), [("segments", segments), ("kinds", kinds)])
def test_theorems_2_and_3(p: AttentionBackward, name: str, theorem: Any) -> None:
    """S = M where 2M ≥ T, and T − M below; nothing where that is less than two segments."""
    n = len(pairs_of(p))
    least, factor = theorem(p)
    least = math.ceil(least * (1 - 1e-12)) if name == "kinds" else least
    for suffix, S, covered in (("", M, least <= 2 * M), ("-short", least - M, least > 2 * M)):
        segments_in_all = factor * n / (M + S) ** 2
        # Rounding decides where it is two to the last bit.
        words = np.where(abs(segments_in_all - 2) < 1e-9, np.nan, S * (segments_in_all - 1) + M)
        check_bound(f"backward-{name}{suffix}", p, words, covered & (segments_in_all >= 2))


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("p", PROBLEMS, ids=str)
def test_theorem_4_has_no_more(p: AttentionBackward, again: bool) -> None:
    """What the evaluator says is of some S and m that the theorem allows.

    That its choice is the best where there are many pairs is tested in test_backward_bounds.
    """
    n, d, d_v = len(pairs_of(p)), p.d, p.values
    W = 2 * d_v + 1.5 * ROOT * d
    b = bound("backward-products-recompute" if again else "backward-products")
    tried = 0
    for m in (10, 30, 80, 200, 500, 1200):
        if not b.applies(p, m):
            continue
        S = np.unique(np.geomspace(1, 60 * m, 3000).astype(int))[:, None]
        charge = np.linspace(0, min(ROOT / 2 * d, d_v) if again else W / 2, 800)[None, 1:]
        c = np.maximum((m + S) ** 2 / (16 * charge), (m + S) ** 1.5 / (3 * ROOT))
        best = (S * ((W - 2 * charge) * n / c - 1) + m).max()
        assert 0 < b.words(p, m) <= best * 1.002, (p, m)
        tried += 1
    assert tried >= 3


@pytest.mark.parametrize(
    ("name", "records"),
    [("charges", (*AGAIN[:2], *ONCE)), ("charges-recompute", AGAIN)],
)
def test_theorem_5(name: str, records: Any) -> None:
    """The best of the records whose T is beyond M."""
    p = PROBLEMS[0]
    n, d = len(pairs_of(p)), p.d
    best, last = np.zeros(len(M)), records[-1]
    for one in records:
        s, v, pp, r, m, c = map(float, (one.s, one.v, one.p, one.r, one.m, one.c))
        S = np.floor(float(one.T) * d * d + 1e-9) - M
        words = S * ((s + v + pp + 2 * r - 2 * m) * n / (c * d * d) - 1) + M
        best = np.maximum(best, np.where(S >= 1, words, 0))
    assert float(last.work) * n >= 2 * float(last.c) * d * d
    check_bound(f"backward-{name}", p, best, float(last.T) * d * d >= M + 1)
    # In few pairs: two segments are needed with the last record.
    few = [AttentionBackward(N, d) for N in range(1, 40)]
    enough = [float(last.work) * q.N**2 >= 2 * float(last.c) * d * d for q in few]
    assert [bound(f"backward-{name}").applies(q, 20) for q in few] == enough
    assert set(enough) == {False, True}  # the lengths reach to both sides of the condition


def test_theorem_5_for_large_memory() -> None:
    p = PROBLEMS[0]
    words = 12 * len(pairs_of(p)) * p.d**2 / M
    check_bound("backward-charges-long", p, words, (7.25 * p.d**2 <= M) & (words >= 2 * M))


@pytest.mark.parametrize("p", [x for x in PROBLEMS if x.values == x.d], ids=str)
def test_theorem_6(p: AttentionBackward) -> None:
    """Less the sums that are never loaded: rows and columns that have a pair."""
    n, d, sums = len(pairs_of(p)), p.d, sums_of(p)
    words = 14 * n * d * d / (M + 1) - sums - 1
    enough = 14 * n * d * d >= 2 * (M + 1) ** 2
    check_bound("backward-meets", p, words, (15.25 * d * d <= M + 1) & enough)
    pairs = [(float(x.T), float(x.share)) for x in MIXTURES]
    assert (pairs[0], pairs[-1], len(pairs)) == ((11.75, 1 / 8), (30.5, 1), 8)
    best = np.zeros(len(M))
    for T, theta in pairs:
        S = np.floor(T * d * d) - M - 1
        line = S * (n / ((7 - theta) * T**2 / 336 * d * d) - 1) + M - sums
        best = np.maximum(best, np.where(S >= 1, line, 0))
    assert n >= 2 * 30.5**2 / 56 * d * d
    check_bound("backward-meets-short", p, best, 30.5 * d * d >= M + 2)


@pytest.mark.parametrize(
    "p",
    [
        AttentionBackward(150, 2),
        AttentionBackward(100, 2, 4, kv_heads=2, causal=True),
        AttentionBackward(150, 1, N_k=90, window=(50, 9)),
    ],
    ids=str,
)
def test_theorem_7(p: AttentionBackward) -> None:
    n, d, sums = len(pairs_of(p)), p.d, sums_of(p)
    S = np.array([math.isqrt(2 * d * d * m - 1) + 1 for m in M.tolist()])  # d√(2M), up
    u = 14 * d**2 * (1 / S + 1 / M)
    c = ((1 - u) * (M + S) / 16 + u * M / 14) * S / d**2
    there = (200 * d * d <= M) & (n >= 2 * c)
    c = np.where(there, c, 1)
    assert (u[there] <= 1).all()
    assert (S[there] <= M[there]).all()
    check_bound("backward-weighed", p, (S - 1) * (n / c - 1) - sums, there)


def test_theorem_8() -> None:
    p = PROBLEMS[0]
    n, d, one = len(pairs_of(p)), p.d, AGAIN[0]
    S = np.floor(3.45 * d * d) - M
    work = 3.488 + 0.42 * float(one.s + one.v + one.p + 2 * one.r - 2 * one.m)
    words = np.where(S >= 1, S * (work * n / (1.79271 * d * d) - 1) + M, 0)
    check_bound("backward-products-charges", p, words, 3.45 * d * d >= M + 1)


@pytest.mark.parametrize("p", PROBLEMS, ids=str)
def test_compulsory_words_one_by_one(p: AttentionBackward) -> None:
    """Rows and columns of pairs are read; all of dQ, dK and dV is written."""
    shared = p.heads // p.groups
    seen = pairs_of(p)
    read = {("Q", h, i) for h, i, _ in seen} | {("K", h // shared, j) for h, _, j in seen}
    written = p.heads * p.N * p.d + p.groups * p.keys * (p.d + p.values)
    want = len(read) * (p.d + p.values) + written
    assert bound("backward-compulsory").words(p, 10) == want


@pytest.mark.parametrize("klass", ["once", "recompute", "trees"])
@pytest.mark.parametrize("p", PROBLEMS, ids=str)
def test_theorem_1_is_the_forward_pass_s_bound(p: AttentionBackward, klass: str) -> None:
    mine, theirs = bound(f"backward-as-forward-{klass}"), bound(f"constant-tight-{klass}")
    forward = Attention(**p.as_dict)
    # Outputs of rows that see nothing are stored in the forward pass, and count there.
    alone = p.heads * p.N - len({(h, i) for h, i, _ in pairs_of(p)})
    for m in (8, 60, 700):
        words = theirs.words(forward, m) - alone * p.values
        assert mine.words(p, m) == pytest.approx(max(0, words), rel=1e-12)
    # What they print has the same leading term.
    if p.form.mask is None:
        values = []
        for b, q in ((mine, p), (theirs, forward)):
            at = {sym(x): v for x, v in (q.sizes | {"M": 100}).items()}
            values.append(float(b.expression_for(q).subs(at)))
        assert values[0] == pytest.approx(values[1])


def test_li_et_al_with_constants() -> None:
    for N, d, heads in ((64, 8, 1), (200, 6, 3)):
        p = AttentionBackward(N, d, heads)
        for m in (1, 5, 30, 100, 900):
            large = heads * N**2 * d**2 / (m + 4 * d**2) - m
            small = heads * (2 * N**2 * d / math.sqrt(m) - N**2 + 5 * N * d) - m
            order = heads * min((N**2 * d**2 + N * d**3) / m, (N**2 * d + N * d**2) / math.sqrt(m))
            assert bound("li-large").words(p, m) == pytest.approx(max(0, large))
            assert bound("li-small").words(p, m) == pytest.approx(max(0, small))
            assert bound("li").words(p, m) == pytest.approx(order)


def test_classes_are_those_of_the_theorems() -> None:
    once, recompute, trees = "once", "recompute", "trees"
    want = {
        "as-forward-once": {once},
        "as-forward-recompute": {recompute},
        "as-forward-trees": {trees},
        "as-forward-recompute-trees": {"recompute-trees"},
        "segments": {once, recompute},
        "kinds": {once, trees},
        "products": {once, trees},
        "products-recompute": {recompute},
        "charges": {once, trees},
        "charges-recompute": {recompute},
        "charges-long": {recompute},
        "meets": {once, trees},
        "weighed": {once, trees},
        "products-charges": {once, recompute, trees},
    }
    want |= {f"{x}-short": want[x] for x in ("segments", "kinds", "meets")}
    own = [b for b in BOUNDS.values() if b.proof == "attention_backward" and b.name[:2] != "li"]
    assert {b.name.removeprefix("backward-"): {k.name for k in b.classes} for b in own} == want
