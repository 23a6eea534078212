"""The class `stationary` and its bounds, `sweeps`: who is in it, what holds, planted errors."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from planted import noticed, rewritten, set_wrong

from iosim.base.errors import CapacityError, InputError
from iosim.bounds import CLASSES, best_lower_bound, bound, exact_lower_bounds
from iosim.bounds import sweeps as words_of_sweeps
from iosim.core.algorithms import Algorithm, all_algorithms
from iosim.core.counting.numbers import count
from iosim.core.problem import Attention, AttentionBackward
from iosim.core.program.walk import bind
from iosim.core.tiling import optimal_tiles, smallest_capacity
from iosim.report.proof import load_theorem
from iosim.report.tightness import best_schedule, sweep, tightness

SWEEPS, SUMS = bound("sweeps"), bound("sweeps-sums")
N = 2**18


def stays(entry: Algorithm, problem: Attention, M: int) -> bool:
    """Whether the counts say that rows stay and no score is stored, with optimal tiles."""
    program = entry.program_for(problem)
    tiles = optimal_tiles(program, problem, M).tiles
    moved = count(bind(program, problem.sizes, tiles))
    loads, stores = (
        {tensor: words for tensor, words in moved.by_tensor(way).items() if words}
        for way in ("load", "store")
    )
    rows = problem.heads * problem.N
    return (
        set(loads) == {"Q", "K", "V"}
        and loads["Q"] == rows * problem.d
        and {"O": stores.pop("O", 0)} == {"O": rows * problem.d}
        and set(stores) <= {"L"}
    )


@pytest.mark.parametrize("entry", all_algorithms("attention"), ids=lambda entry: entry.name)
def test_the_class_is_what_the_counts_say(entry: Algorithm) -> None:
    """At any M a schedule of the class keeps rows; each other one does not at some M."""
    seen = []
    for options in ({}, {"heads": 4, "kv_heads": 2}, {"causal": True}, {"N_k": 13}):
        problem = Attention(9, 4, **options)
        if entry.supports(problem):
            least = smallest_capacity(entry.program_for(problem), problem)
            seen += [stays(entry, problem, least + more) for more in (0, 7, 30, 150, 600)]
    assert seen
    assert all(seen) == ("stationary" in entry.classes), seen


def test_no_schedule_of_the_class_moves_less() -> None:
    """Random sizes, groups and M."""
    rng = np.random.default_rng(5)
    said = 0
    for _ in range(100):
        rows, keys = (int(x) for x in np.exp(rng.uniform(np.log(30), np.log(3000), 2)))
        d, d_v, kv_heads, share = (int(x) for x in rng.integers(1, [9, 9, 3, 3]))
        problem = Attention(rows, d, kv_heads * share, N_k=keys, d_v=d_v, kv_heads=kv_heads)
        M = int(np.exp(rng.uniform(np.log(3 * (d + d_v)), np.log(rows * (d + d_v)))))
        low = best_lower_bound(problem, M, "stationary")
        for entry in all_algorithms(problem.form):
            if "stationary" in entry.classes:
                try:
                    words = optimal_tiles(entry.program_for(problem), problem, M).total_words
                except CapacityError:
                    continue
                assert words >= low.words, (problem, M, entry.name)
        said += low.name.startswith("sweeps")
    assert said > 60, said


def test_others_move_less() -> None:
    """The class matters: below d² storing scores moves fewer words than its bound."""
    problem = Attention(2**14, 64)
    low = SWEEPS.words(problem, 512)
    best = best_schedule(problem, 512)
    assert best.words < low < best_schedule(problem, 512, "stationary").words
    assert best.algorithm in ("small_cache", "small_tiles")


@pytest.mark.numbers
@pytest.mark.parametrize("d", [64, 128])
def test_the_best_schedule_is_near(d: int) -> None:
    """Within 1.05 from d² to Nd, but where no column fits beside the rows."""
    A = 2 * d + 1
    sizes = [d * d + k * d // 2 for k in range(40)]
    sizes += [int(d * d * 1.1**k) for k in range(150)]
    sizes = [M for M in sizes if all(M - A * N // n not in range(-1, 4 * d) for n in range(1, 99))]
    sizes += [M for n in range(3, 16) for M in (A * N // n - 2 * n, A * N // n + 4 * d)]
    points = sweep(N, [d], [M for M in sizes if N * d >= M], "stationary")
    assert len(points) > 100
    assert 1 < max(p.gap for p in points) < 1.05
    between = sweep(N, [d], [A * N // n + d for n in (3, 4, 5, 6)], "stationary")
    assert [round(p.gap, 2) for p in between] == [1.19, 1.16, 1.14, 1.12]


def test_leading_order() -> None:
    """n + 2 − n/β rows of 2d words, at every M; and with row sums 1 + 1/2d times 4N²d²/M."""
    rows, d = 2**26, 8
    for beta in (1.5, 2.02, 2.98, 3.1, 7.3, 40.2, 4000.3):
        M = round(rows * 2 * d / beta)
        n = int(np.ceil(beta))
        words = SWEEPS.words(Attention(rows, d), M) / (2 * rows * d)
        assert words == pytest.approx(n + 2 - n / beta, rel=1e-4)
    for d in (1, 8, 64):
        problem, M = Attention(rows, d), 300 * (2 * d + 1)
        words = SUMS.words(problem, M) * M / (2 * rows * d) ** 2
        assert words == pytest.approx(1 + 1 / (2 * d), rel=0.01)


def test_words_of_masks_by_hand() -> None:
    """Theorem 8 with each row's pairs: heads that share K and V, other numbers of keys, both d."""
    problem = Attention(700, 5, 6, N_k=900, d_v=3, kv_heads=2, causal=True)
    M = 400
    for one, sums in ((SWEEPS, 0), (SUMS, 1)):
        A, G = 8 + sums, 8
        pairs = [i + 201 for i in range(700)] * 6  # the last row sees all keys
        over = sum(G * (n - 2 * (A - 1)) - (M + 1) for n in pairs)
        words = G * len(pairs) + 2 * (M + 1) + A * over / (M + 1)  # of two heads of K and V
        assert one.words(problem, M) == pytest.approx(words)
        assert words > 1.2 * bound("compulsory").words(problem, M)


def test_the_formula_of_the_catalogue() -> None:
    """The printed formula is the words without what is left out."""
    problem = Attention(2**22, 8, N_k=2**23, d_v=4)
    for one in (SWEEPS, SUMS):
        for M in (2**12, 2**16, 2**23):
            at = {"N": 2**22, "d": 8, "N_k": 2**23, "d_v": 4, "heads": 1, "M": M}
            shown = one.expression_for(problem)
            shown = shown.subs({x: at[x.name] for x in shown.free_symbols})
            assert one.words(problem, M) == pytest.approx(float(shown), rel=0.1 / 8)


def test_what_it_covers() -> None:
    for one in (SWEEPS, SUMS):
        assert [klass.name for klass in one.classes] == ["stationary"]
        assert one.covers_class(CLASSES["stationary"])
        assert not one.covers_class(CLASSES["once"])
    assert (SUMS.row_sums, SWEEPS.row_sums) == (True, False)
    problem = Attention(4096, 64)
    of_once = {row.name for row in exact_lower_bounds(problem, 5000, "once")}
    of_rows = {row.name for row in exact_lower_bounds(problem, 5000, "stationary")}
    assert of_rows - of_once == {"sweeps", "sweeps-sums"}
    assert of_once < of_rows


def test_heads_add_up() -> None:
    one, many = (SUMS.words(Attention(N, 64, heads), N * 3) for heads in (1, 20))
    assert many == pytest.approx(20 * one)
    group = Attention(N, 64, 4, kv_heads=1)
    assert SWEEPS.words(group, N * 3) == SWEEPS.words(Attention(4 * N, 64, N_k=N), N * 3) > 0


@pytest.mark.parametrize("options", [{"causal": True}, {"window": (2**15, 0)}, {"heads": 4}])
def test_any_mask(options: dict) -> None:
    """Theorem 8: 4Πd²/M·(1 + 1/2d) in leading order, and the best schedule is near."""
    problem = Attention(N, 64, **options)
    for M in (64 * 64, 4 * 64 * 64, 16 * 64 * 64):
        assert 1 < tightness(problem, M, "stationary").gap < 1.05
    assert tightness(problem, 64 * 64, "stationary").binding.name == "sweeps-sums"


def test_no_row_has_enough_pairs() -> None:
    """A window of fewer columns than fit: then rows of Q are read and rows of O written."""
    problem = Attention(N, 64, window=(100, 0))
    assert SUMS.words(problem, 2**16) == pytest.approx(2 * 64 * N)


def test_curves_are_words_and_fall() -> None:
    M = np.unique(np.geomspace(100, N * 64 * 3, 300).astype(np.int64))
    sizes = {"N": np.full_like(M, N), "d": np.full_like(M, 64), "heads": np.ones_like(M)}
    for one in (SWEEPS, SUMS):
        curve = one.curve(**sizes, M=M)
        assert curve.tolist() == [one.words(Attention(N, 64), int(x)) for x in M]
        assert (np.diff(curve[curve > 2 * N * 2 * 64]) <= 0).all()


def test_no_schedule_in_the_class() -> None:
    with pytest.raises(InputError, match="no schedule of attention-backward is in class station"):
        best_schedule(AttentionBackward(64, 8), 4096, "stationary")


@pytest.mark.numbers
@pytest.mark.parametrize(
    ("constant", "wrong", "noticing"),
    [
        ("CHAIN", Fraction(11, 10), {"chain-game", "sweeps-evaluator"}),
        ("CHAIN", Fraction(5, 4), {"chain-once"}),
        ("AGAIN", 2, {"chain-once"}),
        ("CHAIN", 2, {"chain-masks"}),
        ("ENDS", 1, {"chain-once", "chain-trees", "chain-masks", "sweeps-evaluator"}),
        ("RESULT", 0, {"sweeps-evaluator"}),
    ],
)
def test_a_planted_error_is_caught(constant: str, wrong, noticing: set[str]) -> None:
    module = load_theorem("towards_nd")
    set_wrong(module, constant, wrong)
    assert noticed("towards_nd", module, noticing) == noticing


@pytest.mark.numbers
@pytest.mark.parametrize(
    ("name", "spoil", "noticing"),
    [
        ("chained", lambda chain: chain[:-1], "chain-once"),
        ("chained", lambda chain: chain * 2, "chain-once"),
        ("recorded", lambda log: log[: len(log) * 3 // 4], "chain-once"),
        ("colored", lambda colors: [[w for x in colors for w in x]], "chain-masks"),
        ("colored", lambda colors: [[w] for x in colors for w in x], "chain-masks"),
    ],
)
def test_tampering_is_caught(monkeypatch, name: str, spoil, noticing: str) -> None:
    module = load_theorem("towards_nd")
    original = getattr(module.chain, name)
    monkeypatch.setattr(module.chain, name, lambda *a: spoil(original(*a)))
    assert noticed("towards_nd", module, {noticing})


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("held = M + 1", "held = M"),
        ("columns - 2 * (A - 1)", "columns - (A - 1)"),
        ("columns - 2 * (A - 1)", "columns"),
        ("np.ceil(", "np.floor("),
        ("(A + G) * rows", "2 * A * rows"),
        ("(G * met - held)", "G * met"),
        ("G * met >= held", "G > 0"),
        ("2 * (A - 1) * G + held", "(A - 1) * G + held"),
        ("2 * (A - 1) * G + held", "2 * (A - 1) * G"),
        ("G * rows + np.where(over", "A * rows + np.where(over"),
        ("held + A * over / held", "2 * held + A * over / held"),
        ("(over > 0,", "(over > -9e99,"),
    ],
)
def test_a_wrong_evaluator_is_caught(monkeypatch, right: str, wrong: str) -> None:
    spoilt = rewritten(words_of_sweeps, right, wrong)
    module = load_theorem("towards_nd")
    monkeypatch.setattr(module.chain, "evaluated", spoilt)
    assert noticed("towards_nd", module, {"sweeps-evaluator"})
