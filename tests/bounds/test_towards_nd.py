"""Bounds for M towards Nd: the catalogue's entry, its proof, and what planted errors do to it."""

from __future__ import annotations

from fractions import Fraction
from types import ModuleType

import numpy as np
import pytest
from planted import noticed, rewritten, set_wrong

from iosim.bounds import BOUNDS, best_lower_bound, best_lower_bound_many, bound
from iosim.bounds import left_over as words_left_over
from iosim.bounds import parts as evaluated
from iosim.bounds import stays as words_of_stays
from iosim.core.problem import Attention
from iosim.report.proof import load_theorem, run_step, statement, steps
from iosim.report.tightness import best_schedule, tightness

pytestmark = pytest.mark.numbers
N = 2**18
PARTS, SUMS = bound("parts"), bound("parts-sums")
STAYS, STAYS_SUMS = bound("stays"), bound("stays-sums")


@pytest.mark.parametrize("d", [64, 128])
def test_leading_order(d: int) -> None:
    """j + 2 + 1/j − (j + 1)/β rows of 2d words, but for a share of j·2d/N."""
    for beta in (2, 2.1, 2.5, 2.99, 3.1, 3.7, 4.5, 8.3, 17.5):
        M = round(N * 2 * d / beta)
        j = max(1, int(np.ceil(N * 2 * d / M)) - 1)
        rows = PARTS.words(Attention(N, d), M) / (2 * N * d)
        assert rows == pytest.approx(j + 2 + 1 / j - (j + 1) / beta, rel=0.02 if j == 1 else 0.004)


def test_six_at_nd() -> None:
    """6Nd at M = Nd is the optimum: the bound comes up to it as N grows."""
    d = 8
    for rows in (2**14, 2**18, 2**22, 2**26):
        words = PARTS.words(Attention(rows, d), rows * d)
        assert 0 < 6 - words / (rows * d) < 8 * np.sqrt(d / rows)
        # With row sums N/2 words are missing for two blocks, and it is 6.5Nd; with them 6Nd again.
        least = best_lower_bound(Attention(rows, d), rows * d)
        assert least.name == "stays-sums"
        assert 0 < 6.5 - least.words / (rows * d) < 8 * np.sqrt(d / rows) + 1 / d
        words = SUMS.words(Attention(rows, d), rows * d + rows // 2 + 2 * d + 1)
        assert 0 < 6 - words / (rows * d) < 8 * np.sqrt(d / rows)


@pytest.mark.parametrize("d", [1, 2, 8, 64])
def test_a_statistic_a_row_is_optimal(d: int) -> None:
    """Theorem 2: 1 + 1/2d times 4N²d²/M, which flash2_parts comes up to."""
    rows = 2**22
    for M in (max(4 * d * d + 2 * d, 2**10 * (2 * d + 1)), 2**12 * (2 * d + 1)):
        problem = Attention(rows, d)
        words, name = best_lower_bound(problem, M)
        assert name == "parts-sums"
        assert words * M / (2 * rows * d) ** 2 == pytest.approx(1 + 1 / (2 * d), rel=0.01)
        best = best_schedule(problem, M)
        assert best.algorithm == "flash2_parts"
        assert best.words / words < 1.01


def test_the_step_is_where_a_sweep_begins() -> None:
    """Above M = 2Nd/n the words-only bound has one sweep less than the schedule needs."""
    for n in (3, 4, 5):
        problem, M = Attention(N, 64), (N - 3 * 128) * 129 // n - 1000
        best = best_schedule(problem, M).words
        with_sums, without = (best / one.words(problem, M) for one in (SUMS, PARTS))
        assert with_sums < 1.23 < without


def test_recomputing_is_not_covered() -> None:
    assert [klass.name for klass in PARTS.classes] == ["once", "trees"]
    assert SUMS.classes == PARTS.classes
    assert (SUMS.row_sums, PARTS.row_sums) == (True, False)
    assert best_lower_bound(Attention(N, 64), N * 64, "recompute").name == "compulsory"


def test_rows_and_columns_may_change_places() -> None:
    for M in (1000, 2500, 4500):
        long, wide = Attention(5000, 3, N_k=900), Attention(900, 3, N_k=5000)
        assert PARTS.words(long, M) == PARTS.words(wide, M) > 0


def test_heads_add_up() -> None:
    """Each head with K and V of its own needs what it needs alone with all of M."""
    for M in (N * 32, N * 64 * 101 // 100):
        for low in (PARTS, SUMS):
            one, many = (low.words(Attention(N, 64, heads), M) for heads in (1, 8))
            assert 0 < many == pytest.approx(8 * one)
    # Theorem 3 for the one head, in exact numbers, with the best of a few K.
    M, D = N * 64 * 101 // 100, 128
    best = Fraction(0)
    for K in range(N // 2, N - 3 * D, 997):
        left, few = N - K, 2 * N * D + (K * D - M)
        a, b, other = left - D, 2 * D, 2 * N * D + 2 * ((N - D) * D - M)
        words = min(
            2 * (N * D + K * D - M),
            Fraction(b * few + a * other, a + b),
            few + a * (N - D - Fraction(M, D)),
        )
        best = max(best, Fraction(words) * (K * D >= M))
    assert PARTS.words(Attention(N, 64, 8), M) == pytest.approx(float(8 * best), rel=3e-3)
    # A group that shares K and V is one rectangle of rows below each other.
    group = Attention(N, 64, 4, kv_heads=1)
    assert PARTS.words(group, N * 32) == PARTS.words(Attention(4 * N, 64, N_k=N), N * 32)


@pytest.mark.parametrize(
    "options", [{"window": (5, 0)}, {"window": (N - 2, 0)}, {"causal": True, "N_k": N - 1}]
)
def test_other_masks_get_nothing(options: dict) -> None:
    assert PARTS.words(Attention(N, 64, **options), N * 32) == 0


def test_a_pair_hidden_is_not_rounded_away() -> None:
    """2⁶⁰ − 1 pairs are 2⁶⁰ as floats, but no rectangle."""
    rows = 2**30
    assert PARTS.words(Attention(rows, 64), rows * 64) > 0
    assert PARTS.words(Attention(rows, 64, window=(rows - 2, rows)), rows * 64) == 0
    # Where numbers are exact, a window that hides nothing is none.
    small = Attention(5000, 3, window=(5000, 5000))
    assert PARTS.words(small, 15000) == PARTS.words(Attention(5000, 3), 15000) > 0


def test_a_rectangle_with_few_columns_has_what_any_pairs_have() -> None:
    """Theorem 1 holds for one head as well, where Theorem 3's CG ≥ KA does not."""
    D, M, rows, columns = 58, 1112827, 32768, 16607
    j, K = 1, rows - 2 * D
    words = columns * D * (j + 1) + rows * (D - Fraction(M, K))
    problem = Attention(rows, 29, N_k=columns)
    assert PARTS.words(problem, M) >= words * (1 - Fraction(1, 10**9)) > 0


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (300, 0)}])
def test_no_bound_is_less_for_several_heads_than_for_each(options: dict) -> None:
    for low in BOUNDS.values():
        if (low.problem, low.kind, low.strength) != ("attention", "lower", "exact"):
            continue
        for M in (5, 300, 4000, 9000, 33000, 66000, 70000, 140000):
            one, many = (low.words(Attention(2**12, 16, n, **options), M) for n in (1, 8))
            assert many >= 8 * one * (1 - 1e-9), (low.name, M)


def test_under_a_causal_mask() -> None:
    """Half a row of K and V for each column on top of 4Πd²/M."""
    problem = Attention(N, 64, causal=True)
    same = Attention(N, 64, window=(N - 1, 0))
    assert PARTS.words(same, N * 4) == PARTS.words(problem, N * 4) > 0
    for share in (4, 8, 16):
        M = N * 64 // share
        more = PARTS.words(problem, M) - bound("constant-tight-once").words(problem, M)
        assert more == pytest.approx(N * 64, rel=0.07)


def test_curves_are_words() -> None:
    M = np.unique(np.geomspace(N * 4, N * 64 * 2, 40).astype(np.int64))
    sizes = {"N": np.full_like(M, N), "d": np.full_like(M, 64), "heads": np.ones_like(M)}
    for low in (PARTS, SUMS, STAYS, STAYS_SUMS):
        curve = low.curve(**sizes, M=M)
        assert curve.tolist() == [low.words(Attention(N, 64), int(x)) for x in M]
        assert (np.diff(curve) <= 0).all()
    names = best_lower_bound_many("attention", sizes, M)[1]
    assert {"parts-sums", "stays-sums"} <= set(names)


# ---------------------------------------------------------------- stays


@pytest.mark.parametrize("d", [8, 64])
def test_stays_in_leading_order(d: int) -> None:
    """N·(2nβ + (n − 1)/β)/(β + n − 1) rows of 2d words, but for a share of 5nd/N."""
    rows = 2**24
    for beta in (1.5, 2.02, 2.5, 2.98, 3.1, 3.7, 4.5, 7.3):
        M = round(rows * 2 * d / beta)
        n = int(np.ceil(beta))
        leading = (2 * n * beta + (n - 1) / beta) / (beta + n - 1)
        words = STAYS.words(Attention(rows, d), M) / (2 * rows * d)
        assert leading * (1 - 10 * n * d / rows) < words < leading


def test_stays_close_most_of_the_gap() -> None:
    """The largest bound is within 1.15 of the best schedule, but in windows at 2Nd/n."""
    for part in (0.3, 0.45, 0.6, 0.65, 0.8, 0.98):
        problem, M = Attention(N, 64), int(part * N * 64)
        least = best_lower_bound(problem, M)
        assert least.name == "stays-sums"
        gap = best_schedule(problem, M).words / least.words
        assert 1 < gap < 1.15 < best_schedule(problem, M).words / SUMS.words(problem, M) + 0.05


@pytest.mark.parametrize("d", [64, 128])
def test_the_gap_where_n_sweeps_do_not_fit(d: int) -> None:
    """Rows with their sums leave N words over at M = 2Nd/n: d² are enough for Theorem 6."""
    problem, A = Attention(N, d), 2 * d + 1
    for n in (2, 3, 4, 5, 8, 16, 31):
        for M in (2 * N * d // n, A * N // n - d * d // n):
            if N * d >= M:
                assert 1 < tightness(problem, M).gap < 1.15, (n, M)
    # With fewer words the columns are not seen to be loaded once more.
    assert tightness(problem, A * N // 3 - d * d // 8).gap > 1.15


def test_six_and_a_half_where_the_sums_do_not_fit() -> None:
    """Theorem 6: X is M/2 in leading order, d² words are as good as N, and 2√D where it is less."""
    d = 64
    A, rows = 2 * d + 1, 2.0**40
    for n in (2, 3, 5):
        for over, loaded in ((0.0, 0.0), (d * d / 4, 0.5), (d * d, 1.0), (9.0 * d * d, 1.0)):
            M = (A * rows - over) / n
            found = words_left_over.left_over(M, A, 2 * d, d, rows, rows) / (2 * d * rows)
            assert found > n + loaded - 0.01
            if loaded == 1:
                assert found == pytest.approx(n + 1 + 1 / (2 * n), abs=0.03)


def test_stays_are_of_two_classes() -> None:
    assert STAYS.classes == STAYS_SUMS.classes == PARTS.classes
    assert (STAYS_SUMS.row_sums, STAYS.row_sums) == (True, False)
    assert best_lower_bound(Attention(N, 64), N * 48, "trees").name == "stays-sums"


def test_stays_of_rows_and_columns_may_change_places() -> None:
    for M in (1000, 2500, 4500):
        shapes = ((5000, 1900), (1900, 5000))
        either = max(words_of_stays.stays(M, 4, 4, *x) for x in shapes)
        assert either > 0
        for rows, columns in shapes:
            assert STAYS.words(Attention(rows, 2, N_k=columns), M) >= either * (1 - 1e-9)


def test_stays_of_heads_add_up() -> None:
    one, many = (STAYS_SUMS.words(Attention(N, 64, heads), N * 48) for heads in (1, 20))
    assert many == pytest.approx(20 * one)
    group = Attention(N, 64, 4, kv_heads=1)
    assert STAYS.words(group, N * 48) == STAYS.words(Attention(4 * N, 64, N_k=N), N * 48) > 0


@pytest.mark.parametrize("options", [{"window": (5, 0)}, {"causal": True}])
def test_stays_say_nothing_of_masks(options: dict) -> None:
    assert STAYS.words(Attention(N, 64, **options), N * 48) == 0
    small = Attention(5000, 2, window=(5000, 5000))
    assert STAYS.words(small, 7500) == STAYS.words(Attention(5000, 2), 7500) > 0
    # 2⁶⁰ − 1 pairs are 2⁶⁰ as floats, but no rectangle.
    rows = 2**30
    assert STAYS.words(Attention(rows, 64, window=(rows - 2, rows)), rows * 48) == 0


def test_blocks_by_turns_move_a_block_more_for_each_block_of_columns() -> None:
    plays, m = load_theorem("towards_nd").plays, 3
    for turns, more in (("rr", 0), ("rcr", 1), ("crr", 1), ("rrr", 0), ("rcrcr", 2)):
        n = turns.count("r")
        play = plays.Play(n * m, n * m)
        left = {"r": list(play.rows), "c": list(play.columns)}
        for turn in turns:
            block, left[turn] = left[turn][:m], left[turn][m:]
            for item in block:
                play.load(item)
            for item in left["c" if turn == "r" else "r"]:
                play.load(item)
                play.leave(item)
            for item in block:
                play.leave(item)
        assert len(play.met) == (n * m) ** 2
        assert play.loads == (n * (n + 1) + more) * m


# ---------------------------------------------------------------- the proof


@pytest.fixture
def fewer(request: pytest.FixtureRequest) -> ModuleType:
    """The theorem with fewer executions and sizes; `iosim prove` and --slow take all of them."""
    module = load_theorem("towards_nd")
    own = module.constants
    if not request.config.getoption("--slow"):
        assert (own.EXECUTIONS, own.SIZES, own.STEP) == (300, 250, 1)
        own.EXECUTIONS, own.SIZES, own.STEP = 100, 60, 4
    return module


def test_every_step_passes_and_is_named(fewer: ModuleType) -> None:
    pytest.importorskip("z3")
    module, text = fewer, statement("towards_nd")
    assert [s.name for s in steps(module) if f"`{s.name}`" not in text] == []
    results = [run_step("towards_nd", s) for s in steps(module)]
    assert [(r.step, r.detail) for r in results if r.status != "passed"] == []


@pytest.mark.parametrize(
    ("constant", "wrong", "noticing"),
    [
        ("CARRIED", 0.9, {"parts-once", "parts-trees", "sums-schedules", "heads-apart"}),
        ("CROSSING", 1.5, {"parts-once", "sums-schedules"}),
        ("SUM", 1.1, {"sums-once", "sums-trees", "sums-schedules"}),
        ("STARTS", 0.5, {"sums-once", "sums-trees", "sums-schedules"}),
        ("STARTS", 1.1, {"rows-alone"}),
        ("WIDE", 0.9, {"few-parts"}),
        ("ALONE", Fraction(11, 10), {"columns-alone"}),
        ("LEAST_ALONE", 0.9, {"columns-alone"}),
        ("WHOLE", 1.05, {"parts-once", "parts-trees"}),
        ("SHARE", Fraction(3, 5), {"columns", "rows-alone"}),
        ("LEAST", 1, {"columns", "few-parts"}),
        ("LEFT", 2.5, {"few-parts"}),
        ("TWICE", 2.2, {"second-cut"}),
        ("SAVED", 0.5, {"whole-rows-game"}),
        ("BUSY", 1, {"stays-once", "stays-trees"}),
        ("AT_ONCE", Fraction(6, 5), {"stays-once", "stays-trees", "stays-game"}),
        ("CLAIM", Fraction(11, 10), {"stays-game", "stays-pieces"}),
        ("SPARE", 2, {"stays-floors"}),
        ("STORED", 3, {"stays-once"}),
        ("SPILLED", 1, {"both-sides", "again-words"}),
        ("STORED", 1, {"again-words"}),
        ("STORED", Fraction(11, 5), {"again-once", "again-trees"}),
        ("AGAIN_SAVES", Fraction(9, 10), {"again-words"}),
        ("SPARE", 2, {"again-game"}),
        ("CROSSED", -2, {"again-once"}),
        ("RESULT", 9, {"stays-evaluator"}),
        ("SAME_MOMENT", Fraction(6, 5), {"stays-game", "both-sides"}),
        ("CROSSED", 3, {"stays-once"}),
        ("CROSSED", 5, {"stays-evaluator"}),
        ("WIDEST", Fraction(2, 3), {"stays-game"}),
        ("MOMENT", Fraction(6, 5), {"moments-once", "moments-trees", "moments-game"}),
        ("ONE_MORE", Fraction(11, 10), {"moments-game", "columns-pay"}),
        ("ROOTS", Fraction(21, 10), {"columns-pay"}),
        ("MORE_MOVES", 2, {"moments-once"}),
        ("MOMENT", Fraction(1, 2), {"stays-evaluator"}),
        ("ENDS", 3, {"stays-evaluator", "left-over-evaluator"}),
        ("ENDS", Fraction(1, 2), {"one-stay"}),
        ("WIDEST", Fraction(1, 2), {"one-stay"}),
        ("ROOTS", Fraction(19, 10), {"left-over-evaluator"}),
        ("SUM", 2, {"left-over-evaluator"}),
        ("SPARE", 2, {"whole-game", "whole-once", "whole-trees"}),
        ("ENDS", 0, {"whole-once", "whole-trees"}),
        ("LEFT_OUT", Fraction(1, 20), {"whole-game"}),
        ("ALL_LEFT_OUT", 5, {"whole-words"}),
        ("ALL_LEFT_OUT", 0, {"whole-sizes"}),
        ("SPILLED", Fraction(1, 2), {"whole-words"}),
    ],
)
def test_a_planted_error_is_caught(constant: str, wrong, noticing: set[str]) -> None:
    pytest.importorskip("z3")
    module = load_theorem("towards_nd")
    set_wrong(module, constant, wrong)
    assert noticed("towards_nd", module, noticing) == noticing


class Cheaper:
    """A count of a tenth less."""

    def __init__(self, counts) -> None:
        self.total_words = counts.total_words * 9 // 10


@pytest.mark.parametrize(
    ("where", "name", "spoil", "noticing"),
    [
        ("parts", "one_rectangle", lambda words: 1.02 * words, {"evaluator", "sweeps"}),
        ("parts", "any_pairs", lambda words: 1.02 * words, {"evaluator"}),
        ("parts", "each_column", lambda words: 1.02 * words, {"evaluator", "sweeps"}),
        ("parts", "streamed_triangles", lambda words: 1.01 * words + 1, {"evaluator"}),
        ("schedules", "count", Cheaper, {"sums-schedules"}),
        ("parts", "_triangle_columns", lambda words: 1.01 * words, {"evaluator"}),
        ("accounting", "by_cap", lambda parts: parts[:-1], {"parts-once"}),
        ("game", "optimum", lambda loads: loads - 2, {"whole-rows-game"}),
        ("numbers", "keep", lambda words: words * 97 // 100, {"sweeps"}),
        ("more", "at_a_moment", lambda words: 1.5 * words, {"stays-evaluator"}),
        ("more", "at_a_moment", lambda words: 0.9 * words, {"left-over-evaluator"}),
        ("moments", "by_row_words", lambda cuts: cuts[:-1], {"moments-once", "moments-trees"}),
        (
            "moments",
            "stays_of",
            lambda runs: {w: (2 * a, b) for w, (a, b) in runs.items()},
            {"moments-once", "moments-trees"},
        ),
        ("game", "optimum", lambda loads: loads - 1, {"whole-rows-room"}),
        ("words", "either_side", lambda words: 1.02 * words, {"stays-evaluator", "sweeps"}),
        ("stays", "recorded", lambda log: log[: len(log) * 3 // 4], {"stays-once"}),
        ("stays", "recorded_trees", lambda log: log[: len(log) * 3 // 4], {"stays-trees"}),
        ("stays", "runs_of", lambda runs: runs * 2, {"stays-once"}),
        ("game", "optimum", lambda loads: loads - 1, {"stays-game"}),
        (
            "full_memory",
            "split_stays",
            lambda parts: [[*parts[0], *parts[1]], []],
            {"halves", "whole-game"},
        ),
        ("full_memory", "groups", lambda parts: [*parts[1:], []], {"whole-once", "whole-trees"}),
    ],
)
def test_tampering_is_caught(monkeypatch, where: str, name: str, spoil, noticing: set[str]) -> None:
    module = load_theorem("towards_nd")
    module.constants.STEP = 2
    target = {"parts": evaluated, "words": words_of_stays, "more": words_left_over}.get(where)
    target = target or getattr(module, where)
    original = getattr(target, name)
    monkeypatch.setattr(target, name, lambda *a, **k: spoil(original(*a, **k)))
    assert noticed("towards_nd", module, noticing) == noticing


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("n * G + 2 * np.sqrt(over) - sums", "n * G + 2.2 * np.sqrt(over) - sums"),
        ("2 * np.sqrt(over) - sums", "2 * np.sqrt(over)"),
        ("np.minimum(one_more, 2 * np.sqrt(A * rows) - sums)", "one_more"),
        ("2 * np.sqrt(A * rows) - sums", "2 * np.sqrt(A * rows)"),
        ("(2 * held >= B * G)", "(B > 0)"),
        ("more = 1 + A * held / B", "more = 1 + G * held / B"),
        ("more = 1 + A * held / B", "more = A * held / B"),
        ("(columns - 2 * B - A)", "(columns - B - A)"),
        ("(columns - 2 * B - A)", "(columns - 2 * B)"),
        ("- 2 * A * rows - held", "- 2 * A * rows - 2 * held"),
        ("n = np.floor(A * rows / M)", "n = np.ceil(A * rows / M)"),
        ("swept + X - sums * rows", "swept + X"),
    ],
)
def test_a_wrong_evaluator_is_caught(monkeypatch, right: str, wrong: str) -> None:
    spoilt = rewritten(words_left_over, right, wrong)
    module = load_theorem("towards_nd")
    monkeypatch.setattr(module.left_over, "evaluated", spoilt)
    assert noticed("towards_nd", module, {"left-over-evaluator"})
