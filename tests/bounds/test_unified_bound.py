"""The constant-tight bound against schedules counted by hand, and against planted errors."""

from __future__ import annotations

import dataclasses
import functools
import math
import random
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from experiments import multiplier_search
from iosim.base.errors import InputError
from iosim.bounds import unified
from iosim.bounds.unified import EXACT_FROM, certificate, lower_bound, lower_bound_many
from iosim.bounds.unified.caps import largest_m2, once_cap, recompute_cap
from iosim.report.proof import load_theorem, run, run_step, statement, steps

pytestmark = pytest.mark.numbers

# ---------------------------------------------------------------- schedules, counted by hand


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def extents(n: int, b: int) -> list[int]:
    return [min(b, n - at) for at in range(0, n, b)]


def q_outer(N: int, d: int, b: int, keep: int = 0) -> tuple[int, int]:
    """Peak and words: b rows of Q and O resident, K and V streamed, `keep` rows of them kept.

    K and V go by word for word; 3 words a row are the score and two statistics.
    """
    words = 2 * keep * d
    for e in extents(N, b):
        words += e * d  # Q
        for _ in range(keep, N):
            words += 2 * d
        words += e * d  # O
    return 2 * b * d + 3 * b + 2 * keep * d + 1, words


def kv_outer(N: int, d: int, b: int) -> tuple[int, int]:
    """b rows of K and V resident; Q, O and two statistics streamed row by row."""
    words = 0
    for part, e in enumerate(extents(N, b)):
        words += 2 * e * d
        words += N * (2 * d + (d if part else 0)) + N * (2 + (2 if part else 0))
    return 2 * b * d + 2 * d + b + 3, words


def first_pass_tiles(N: int, d: int, b_i: int, b_j: int) -> tuple[int, int]:
    """Tiles of scores and the shorter side's column resident, the rest by word; scores stored."""
    words = 0
    for e in extents(N, b_i):
        for f in extents(N, b_j):
            words += (e + f) * d + e * f
    return b_i * b_j + min(b_i, b_j) + 1, words


def first_pass_rows(N: int, d: int, b: int) -> tuple[int, int]:
    """b rows of Q resident, K streamed by row; scores stored."""
    return b * d + min(b, d) + 1, sum(e * d + N * d + e * N for e in extents(N, b))


def second_pass(N: int, d: int, b_i: int, b_o: int) -> tuple[int, int]:
    """Tiles of O and row sums resident; scores by column or by word, V by word or by row."""
    words = 0
    for e in extents(N, b_i):
        for f in extents(d, b_o):
            words += N * (e + f) + e * f
    return b_i * b_o + b_i + min(b_i, b_o) + 2, words


def split_k(N: int, d: int, b: int, parts: int) -> tuple[int, int]:
    """Q-outer in each of `parts` ranges of keys; partial outputs stored, then summed (trees)."""
    peak, words = q_outer(N, d, b)
    if parts == 1:
        return peak, words
    words = 0
    for keys in extents(N, ceil(N, parts)):
        for e in extents(N, b):
            words += 2 * e * d + 2 * e + 2 * keys * d
    return peak, words + parts * N * (d + 2) + N * d


@functools.cache
def best_by_hand(N: int, d: int, M: int) -> int:
    """The least words of the families above over their integer tiles, within M words."""
    found = [math.inf]
    for b in range(1, min(N, 64) + 1) if N <= 64 else ():
        keep = min(N, max(0, (M - q_outer(N, d, b)[0]) // (2 * d)))
        found += [w for p, w in (q_outer(N, d, b, keep), kv_outer(N, d, b)) if p <= M]
    if N > 64:
        most = min(N, (M - 1) // (2 * d + 3))
        for b in {most, ceil(N, ceil(N, most))} if most else ():
            keep = min(N, (M - 1 - b * (2 * d + 3)) // (2 * d))
            found.append(2 * N * d + 2 * keep * d + 2 * ceil(N, b) * (N - keep) * d)
    one, two = [math.inf], [math.inf]
    if N <= 64:
        for b in range(1, N + 1):
            one += [w for p, w in (first_pass_rows(N, d, b),) if p <= M]
            one += [
                w for f in range(1, N + 1) for p, w in (first_pass_tiles(N, d, b, f),) if p <= M
            ]
            two += [w for f in range(1, d + 1) for p, w in (second_pass(N, d, b, f),) if p <= M]
    else:
        for b in range(1, math.isqrt(M) + 1):
            f = (M - b - 1) // b
            if f >= b:
                one.append(N * d * (ceil(N, b) + ceil(N, f)) + N * N)
        b = max((M - 1) // (d + 1), (M - d - 1) // d)
        if b >= 1:
            one.append(N * d + ceil(N, b) * N * d + N * N)
        for f in range(1, d + 1):
            b = max((M - 2 - f) // (f + 1), (M - 2) // (f + 2))
            if b >= 1:
                two.append(N * N * ceil(d, f) + ceil(N, b) * N * d + N * d)
    found.append(min(one) + min(two))
    return min(found)


LARGE = 2**18
GRID = sorted(
    {64, 91, 128, 200, 300, 512, 777, 1024, 1500, 2048, 3000}
    | {round(64 * 64 * 10 ** (e / 8)) for e in range(-4, 15)}
)


def points(d: int, low: int, high: int) -> list[int]:
    return sorted({round(low * (high / low) ** (e / 40)) for e in range(41)} | {low, high})


@pytest.mark.parametrize(("d", "M"), [(d, M) for d in (1, 2, 3, 5) for M in (4, 7, 12, 25, 60)])
def test_below_every_family_on_small_shapes(d: int, M: int) -> None:
    for N in (1, 2, 5, 12, 30, 64):
        words = best_by_hand(N, d, M)
        for klass in EXACT_FROM:
            assert lower_bound(N, d, M, klass=klass) <= words
        for parts in (1, 2, 3):
            for b in range(1, N + 1):
                peak, split = split_k(N, d, b, parts)
                assert peak > M or lower_bound(N, d, M, klass="trees") <= split


@pytest.mark.parametrize("d", [32, 64, 128, 256])
def test_below_every_family_on_large_shapes(d: int) -> None:
    for N in (1000, 2**13, LARGE):
        for M in points(d, 64, N * d // 8):
            words = best_by_hand(N, d, M)
            for klass in EXACT_FROM:
                assert lower_bound(N, d, M, klass=klass) <= words, (N, d, M, klass)


def theorem_1(klass: str, N: int, d: Any, M: Any, S: Any, m: tuple[Any, ...]) -> Any:
    """The theorem's words with any multipliers, 0 where it says nothing; arrays of points."""
    x, s = M / d**2, S / d**2
    if klass == "once":
        weight, cap = 2 - m[0], once_cap(x, s, m[0], m[1])
    else:
        m = (m[0], m[1], np.minimum(m[2], largest_m2(x, s, m[0], m[1])))
        weight, cap = 2.0, recompute_cap(x, s, *m)
    n = weight * N * N / (cap * d * d)
    return np.where(n > 1, S * (n - 1) + M, 0.0)


def test_any_multipliers_are_valid() -> None:
    rng, n = np.random.default_rng(6), 20_000
    d = rng.choice([32.0, 64.0, 128.0], n)
    M = np.rint(10 ** (rng.integers(40, 121, n) / 20))
    S = np.maximum(1, np.floor(M * rng.uniform(0.3, 4, n)))
    m1, m2, a0 = rng.uniform(0, 1, n), rng.uniform(0, 0.6, n) * rng.integers(0, 2, n), rng.random(n)
    words = np.array([best_by_hand(LARGE, int(x), int(y)) for x, y in zip(d, M, strict=True)])
    once = theorem_1("once", LARGE, d, M, S, (m1, m2))
    again = theorem_1("recompute", LARGE, d, M, S, (a0, m1, m2))
    assert (once <= words).all()
    assert (again <= words).all()
    # Some of them come near.
    assert (words / np.maximum(once, 1)).min() < 1.1
    assert (words / np.maximum(again, 1)).min() < 1.2


@pytest.mark.parametrize("one", multiplier_search.SEARCHES, ids=lambda one: one.name)
def test_the_stored_multipliers_can_hardly_be_better(one: multiplier_search.Searched) -> None:
    for root in (0.3, 0.99, 1.4):
        stored, best = multiplier_search.compare(one, root, starts=1)
        assert 0.9998 * best <= stored <= best * (1 + 1e-12)
    # The search would notice poorer ones.
    poor = dataclasses.replace(one, stored=lambda x: [0.8 * v for v in one.stored(x)])
    stored, best = multiplier_search.compare(poor, 0.99, starts=1)
    assert stored < 0.99 * best


def test_queries_and_keys_of_different_numbers() -> None:
    for klass in EXACT_FROM:
        assert lower_bound(500, 8, 100, keys=500, klass=klass) == lower_bound(
            500, 8, 100, klass=klass
        )
        swapped = [
            lower_bound(a, 16, 700, keys=b, klass=klass) for a, b in ((90, 7000), (7000, 90))
        ]
        assert swapped[0] == swapped[1]
    near = math.inf
    for N, keys in ((1, 10**5), (1000, 10**6), (10**6, 1000), (10**5, 10**5)):
        for d, M in ((64, 20000), (64, 200000), (16, 4000), (128, 10**5)):
            b = min(N, (M - 1) // (2 * d + 3))
            words = 2 * N * d + 2 * ceil(N, b) * keys * d
            for klass in EXACT_FROM:
                bound = lower_bound(N, d, M, keys=keys, klass=klass)
                assert 2 * d * (N + keys) <= bound <= words
                near = min(near, words / bound)
    assert near < 1.03
    with pytest.raises(InputError, match="keys = 0"):
        lower_bound(5, 5, 5, keys=0)


# ---------------------------------------------------------------- random executions


@functools.cache
def random_executions(drop: float, count: int) -> tuple[tuple[int, int, int, int], ...]:
    """(N, d, M, words) of random valid executions, simulated word by word."""
    runs = load_theorem("constant_tight").accounting.executions
    rng, out = random.Random(7), []
    for _ in range(count):
        N, d = rng.choice([(3, 2), (4, 3), (6, 1), (9, 1), (8, 2), (5, 3), (12, 1), (10, 2)])
        M = rng.randint(3, 24)
        policy = rng.choice(["lru", "random"] if drop else ["belady", "lru", "random"])
        log = runs.execute(runs.random_order(N, d, rng), M, rng, policy, drop)
        out.append((N, d, M, sum(what in ("load", "store") for what, _, _ in log)))
    return tuple(out)


@pytest.mark.parametrize("count", [600, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("classes", "drop"), [(("once", "trees"), 0.0), (("recompute",), 0.5)])
def test_below_random_executions(classes: tuple[str, ...], drop: float, count: int) -> None:
    seen = np.array(random_executions(drop, count))
    for klass in classes:
        bound = lower_bound_many(*seen[:, :3].T, klass=klass)
        assert (bound <= seen[:, 3]).all()
        # The check could fail: some are near the bound where it is not the compulsory one.
        near = seen[:, 3] / bound
        assert near[bound > 4 * seen[:, 0] * seen[:, 1]].min() < (3 if drop == 0.0 else 4)


# ---------------------------------------------------------------- shape of the function


@pytest.mark.parametrize("klass", EXACT_FROM)
def test_monotone(klass: str) -> None:
    Ms = np.unique(np.round(10 ** np.linspace(0, 7, 3000)).astype(np.int64))
    sizes = np.unique(np.round(10 ** np.linspace(0, 4, 400)).astype(np.int64))
    for N, d in ((1, 1), (7, 3), (300, 8), (1000, 64), (5000, 128), (LARGE, 64), (LARGE, 128)):
        assert (np.diff(lower_bound_many(N, d, Ms, klass=klass)) <= 0).all()
    for M in (1, 8, 64, 1000, 16384, 10**6):
        for fixed in (3, 100, 5000):
            assert (np.diff(lower_bound_many(sizes, fixed, M, klass=klass)) >= 0).all()
            assert (np.diff(lower_bound_many(fixed, sizes, M, klass=klass)) >= 0).all()


def test_monotone_at_every_M() -> None:
    for klass in EXACT_FROM:
        for N, d in ((400, 12), (3000, 48)):
            assert (np.diff(lower_bound_many(N, d, np.arange(1, 30000), klass=klass)) <= 0).all()


def test_classes_are_ordered_and_compulsory_words_included() -> None:
    rng = np.random.default_rng(8)
    N, d, M, H = (np.round(10 ** rng.uniform(0, top, 5000)).astype(int) for top in (5, 3, 7, 2))
    once, again, trees, both = (lower_bound_many(N, d, M, heads=H, klass=k) for k in EXACT_FROM)
    assert (both <= again).all()
    assert (again <= once).all()
    assert (trees == once).all()
    assert (again >= 4 * H * N * d).all()


def test_two_matrix_products_where_M_is_small() -> None:
    """As M/d² → 0 the bound tends to that of two products, 2·2N²d/√M, from below."""
    N, d = 2**20, 2**14
    for M, least in ((64, 0.995), (2**12, 0.98), (2**16, 0.95)):
        two = 2 * (2 * N * N * d / math.sqrt(M))
        for klass in EXACT_FROM:
            ratio = lower_bound(N, d, M, klass=klass) / two
            if klass == "recompute-trees":  # one of the products
                assert least / 2 < ratio < 0.5 / least
            else:
                assert least < ratio < 1


def test_the_constant_of_theorem_2() -> None:
    for N, d in ((4096, 64), (LARGE, 128), (1000, 1)):
        for ratio in (2.5, 3.0, 4.5, 7.0, 20.0):
            M = math.ceil(ratio * d * d)
            exact = max(4 * N * N * d * d / M, 4 * N * d)
            for klass, least in unified.EXACT_FROM.items():
                if least * d * d <= M:
                    assert exact * (1 - 1e-14) <= lower_bound(N, d, M, klass=klass) <= exact


def test_heads_add_up() -> None:
    one, ten = certificate(4096, 64, 3000), certificate(4096, 64, 3000, heads=10)
    assert ten.words + ten.segment - 3000 == pytest.approx(10 * (one.words + one.segment - 3000))
    assert lower_bound(4096, 64, 3000, heads=10) <= 10 * lower_bound(4096, 64, 3000) + 5 * 10**4


# ------------------------------------------------------------ thresholds, and planted errors

# class, from, to, largest gap between the best family and the bound
THRESHOLDS = [
    ("once", lambda N, d: (4 * d * d, N * d // 64), 1.04),
    ("once", lambda N, d: (64, N * d // 16), 1.31),
    ("once", lambda N, d: (d * d // 2, d * d), 1.26),
    ("recompute", lambda N, d: (8 * d * d, N * d // 64), 1.04),
    ("recompute", lambda N, d: (64, N * d // 16), 1.40),
]


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize(("klass", "span", "threshold"), THRESHOLDS)
def test_thresholds(d: int, klass: str, span, threshold: float) -> None:
    for M in points(d, *span(LARGE, d)):
        gap = best_by_hand(LARGE, d, M) / lower_bound(LARGE, d, M, klass=klass)
        assert 1 <= gap <= threshold, (M, gap)


def violated(factor: float, klass: str) -> bool:
    """Whether the checks above would notice a bound that is too large by `factor`."""
    return any(
        factor * lower_bound(LARGE, d, M, klass=klass) > best_by_hand(LARGE, d, M)
        for d in (64, 128)
        for M in points(d, 4 * d * d, LARGE * d // 64)
    )


@pytest.mark.parametrize("klass", ["once", "recompute"])
def test_a_wrong_constant_is_caught(klass: str) -> None:
    assert not violated(1.0, klass)
    assert violated(1.1, klass)  # 4.4 in place of 4
    assert violated(1.03, klass)


def test_a_wrong_cap_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caps too small by a quarter contradict schedules just below the exact range."""
    original = unified.once_cap
    monkeypatch.setattr(unified, "once_cap", lambda *a: 0.75 * original(*a))
    with pytest.raises(AssertionError):
        test_below_every_family_on_large_shapes(128)


PLANTED = [
    ("SHARP", 1.3, {"accounting-once", "one-column", "sharpened-loomis-whitney"}),
    ("SHARP", 1.3, {"sharpened-loomis-whitney-larger"}),
    ("CONSTANT", 4.4, {"four-once", "four-recompute", "small-memory"}),
    ("CONSTANT", 9, {"few-segments"}),
    ("FROM", {"once": 2.3, "recompute": 4.0}, {"four-once", "four-recompute"}),
    ("SHARP", 1.3, {"trees"}),
    ("STAY", 2.5, {"stays"}),
    ("RECOMPUTING", Fraction(8, 100), {"recomputation"}),
]


@pytest.mark.parametrize(("constant", "wrong", "noticing"), PLANTED)
def test_the_proof_notices_a_wrong_constant(constant: str, wrong, noticing: set[str]) -> None:
    pytest.importorskip("z3")
    module = load_theorem("constant_tight")
    if isinstance(wrong, dict):
        wrong = {k: Fraction(v) for k, v in wrong.items()}
    assert getattr(module.constants, constant) != wrong
    setattr(module.constants, constant, wrong)
    results = {s.name: run_step("constant_tight", s) for s in steps(module) if s.name in noticing}
    assert set(results) == noticing
    assert {n for n, r in results.items() if r.status != "failed"} == set()


# module, its function, what is done to its result, the step that must notice
TAMPERED = [
    ("caps", "once_cap", lambda c: 0.9 * c, "caps-against-shapes"),
    ("caps", "recompute_cap", lambda c: 0.9 * c, "caps-against-shapes"),
    ("executions", "segments", lambda parts: parts[:1] + parts[2:], "accounting-once"),
    ("executions", "segments", lambda parts: parts + parts[-1:], "accounting-once"),
    ("executions", "segments", lambda parts: parts + parts[:1], "accounting-recompute"),
    (
        "executions",
        "execute",
        lambda log: [e for e in log if e[0] != "load"],
        "accounting-recompute",
    ),
    ("tree_executions", "tree_segments", lambda parts: parts[:1] + parts[2:], "trees"),
    ("tree_executions", "execute_trees", lambda log: log[: len(log) // 2], "trees"),
    ("tree_executions", "tree_segments", lambda parts: [nothing_held(s) for s in parts], "trees"),
    ("caps", "once_cap", lambda c: 0.98 * c, "caps-against-search"),
    ("caps", "recompute_cap", lambda c: 0.98 * c, "caps-against-search"),
    ("unified", "certificate", lambda c: type(c)(*c_fields(c)), "evaluator"),
]


def nothing_held(segment):
    """Free starts that do not outlive their segment."""
    segment.held = set()
    return segment


def c_fields(c: unified.Certificate) -> tuple[object, ...]:
    return (c.klass, c.segment, c.multipliers, c.weight, c.cap, c.words * (1 + 1e-6) + 1)


@pytest.mark.parametrize(("where", "name", "spoil", "noticing"), TAMPERED)
def test_the_proof_notices_tampering(
    monkeypatch: pytest.MonkeyPatch, where: str, name: str, spoil, noticing: str
) -> None:
    module = load_theorem("constant_tight")
    places = {"caps": unified.caps, "unified": unified}
    target = places[where] if where in places else getattr(module.accounting, where)
    original = getattr(target, name)
    monkeypatch.setattr(target, name, lambda *a, **k: spoil(original(*a, **k)))
    (one,) = (s for s in steps(module) if s.name == noticing)
    assert run_step("constant_tight", one).status == "failed"


def test_the_text_names_every_step() -> None:
    text = statement("constant_tight")
    assert [
        s.name for s in steps(load_theorem("constant_tight")) if f"`{s.name}`" not in text
    ] == []


@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_every_step_of_the_proof_passes(share: int) -> None:
    """Every step, with an eighth of the random cases; with all of them in the long version."""
    pytest.importorskip("z3")
    module = load_theorem("constant_tight")
    for name in ("EXECUTIONS", "TREE_EXECUTIONS", "SETS", "SHAPES", "SEARCHES", "CERTIFICATES"):
        setattr(module.constants, name, getattr(module.constants, name) // share)
    results = run(module)
    assert [(r.step, r.detail) for r in results if r.status != "passed"] == []
    assert len(results) == len(steps(load_theorem("constant_tight")))


# ---------------------------------------------------------------- the interface


def test_many_agrees_with_one() -> None:
    N, d, M = np.meshgrid([1, 50, 4096], [1, 16, 128], [1, 64, 5000, 10**6], indexing="ij")
    for klass in EXACT_FROM:
        many = lower_bound_many(N, d, M, heads=3, klass=klass)
        assert many.shape == N.shape
        for at in np.ndindex(N.shape):
            one = lower_bound(int(N[at]), int(d[at]), int(M[at]), heads=3, klass=klass)
            assert many[at] == one
    assert lower_bound_many(5, 5, np.zeros(0, dtype=int)).shape == (0,)
    assert lower_bound_many(2**40, 2**40, 2**40).shape == ()


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 1, 1), "N = 0"),
        ((1, 2.5, 1), "d must be a whole number"),
        ((1, 1, 2**41), "M = "),
        ((1, True, 1), "d must be"),
    ],
)
def test_bad_sizes(sizes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        lower_bound(*sizes)
    with pytest.raises(InputError):
        certificate(*sizes)


@pytest.mark.parametrize("klass", EXACT_FROM)
def test_certificates_know_keys(klass: str) -> None:
    N, d, M = 4096, 64, 8192
    square = certificate(N, d, M, klass=klass)
    assert certificate(N, d, M, klass=klass, keys=N) == square
    one, other = (
        certificate(N, d, M, klass=klass, keys=512),
        certificate(512, d, M, klass=klass, keys=N),
    )
    assert one == other
    assert one.words < square.words
    assert one.words <= lower_bound(N, d, M, klass=klass, keys=512)
    with pytest.raises(InputError, match="keys = 0"):
        certificate(N, d, M, keys=0)


def test_bad_arrays_and_classes() -> None:
    with pytest.raises(InputError, match="give integers"):
        lower_bound_many(10, 10, np.array([1.5]))
    with pytest.raises(InputError, match="outside 1"):
        lower_bound_many(10, 10, np.array([0, 5]))
    with pytest.raises(InputError, match="do not broadcast"):
        lower_bound_many(np.array([1, 2]), 10, np.array([1, 2, 3]))
    for call in (lower_bound, lower_bound_many, certificate):
        with pytest.raises(InputError, match="did you mean 'recompute'"):
            call(10, 10, 10, klass="recomputed")


def test_a_million_points_take_seconds() -> None:
    M = np.arange(1, 10**5 + 1)
    start = time.perf_counter()
    lower_bound_many(LARGE, 128, M)
    assert time.perf_counter() - start < 5


def test_a_part_of_a_class_has_its_bound() -> None:
    at = (1000, 16, 500)
    assert lower_bound(*at, klass="stationary") == lower_bound(*at, klass="once")
    assert certificate(*at, klass="stationary") == certificate(*at, klass="once")
