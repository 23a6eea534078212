"""Bounds on attention with options: what masks leave, below every schedule; thresholds."""

from __future__ import annotations

import functools
import itertools
import json
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from planted import noticed, set_wrong
from test_cli import iosim_, ok

import iosim
from iosim.base.errors import CapacityError, InputError
from iosim.bounds import (
    BOUNDS,
    CLASSES,
    best_lower_bound,
    best_lower_bound_many,
    bound,
    bounds_for,
    exact_lower_bounds,
    sym,
)
from iosim.bounds.base import EVERY_OPTION
from iosim.bounds.unified import (
    certificate,
    lower_bound,
    lower_bound_many,
    pattern_bound,
    pattern_bound_many,
)
from iosim.bounds.unified.caps import bowed, largest_m2, recompute_cap
from iosim.bounds.unified.multipliers import recompute
from iosim.core.counting.numbers import count_many
from iosim.core.problem import Attention
from iosim.core.tiling import optimal_tiles_many
from iosim.report import tightness
from iosim.report.proof import load_theorem, run, run_step, statement, steps

pytestmark = pytest.mark.numbers

OPTIONS: list[dict[str, Any]] = [
    {},
    {"causal": True},
    {"window": (5, 0)},
    {"window": (3, 2), "sinks": 2},
    {"N_k": 11},
    {"N_k": 4, "causal": True},
    {"N_k": 23, "causal": True, "align": "upper left"},
    {"d_v": 3},
    {"d_v": 9, "causal": True},
    {"kv_heads": 2},
    {"kv_heads": 1, "N_k": 40, "d_v": 2, "window": (9, None)},
]


def problem(N: int, d: int, heads: int, options: dict[str, Any]) -> Attention:
    return Attention(N, d, heads * options.get("kv_heads", 1), **options)


# ---------------------------------------------------------------- what a mask leaves


def test_pairs_rows_and_columns_are_those_of_the_mask_itself() -> None:
    """Closed forms, for numbers and in arrays, against the mask written out."""
    kinds = itertools.product(
        (False, True), (None, (0, 0), (2, None), (None, 1), (1, 3)), (0, 1, 4)
    )
    for causal, window, sinks in kinds:
        for N, K, align in itertools.product(
            (1, 3, 8), (None, 1, 5, 9), ("lower right", "upper left")
        ):
            p = Attention(N, 2, 3, N_k=K, align=align, causal=causal, window=window, sinks=sinks)
            mask = p.sees(np.arange(N)[:, None], np.arange(p.keys))
            mask = np.broadcast_to(mask, (N, p.keys))
            want = (3 * mask.sum(), mask.any(axis=1).sum(), mask.any(axis=0).sum())
            assert (p.pairs, p.rows_used, p.columns_used) == want, p
            words = (want[1] + want[2]) * 3 * 2 * 2 + 3 * (N - want[1]) * 2
            assert bound("compulsory").words(p, 9) == words, p
            curve = bound("compulsory").curve(p.form, **p.sizes, M=np.array([9, 10]))
            assert curve.tolist() == [words, words]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_words_expression_and_curve_agree(options: dict[str, Any]) -> None:
    p = problem(13, 4, 2, options)
    covering = [b for b in BOUNDS.values() if b.problem == "attention" and b.covers_form(p.form)]
    assert len(covering) >= 9
    for b in covering:
        if not b.applies(p, 50):
            continue
        curve = b.curve(p.form, **{x: np.array([v]) for x, v in p.sizes.items()}, M=np.array([50]))
        assert curve[0] == pytest.approx(b.words(p, 50), rel=1e-12)
        # With windows sympy is slow.
        if b.numeric is None and (b.name == "compulsory" or "window" not in options):
            at = {sym(x, x not in p.form.limits): v for x, v in (p.sizes | {"M": 50}).items()}
            value = float(b.expression_for(p).subs(at))
            assert max(0, value) == pytest.approx(b.words(p, 50), rel=1e-12), b.name


def draw_problems(options: dict[str, Any], count: int, most: int, rng: Any) -> list[Attention]:
    """Random problems of one form: the options given, with other numbers."""

    def number(upto: int) -> int:
        return int(np.exp(rng.uniform(0, np.log(upto))))

    found = []
    for _ in range(count):
        told = {x: v if isinstance(v, (bool, str)) else number(most) for x, v in options.items()}
        if "window" in told:
            told["window"] = tuple(v if v in (None, 0) else number(most) for v in options["window"])
        if "kv_heads" in told:
            told["kv_heads"] = number(8)
        heads = number(8) * told.get("kv_heads", 1)
        found.append(Attention(number(most), number(64), heads, **told))
    return found


def columns(problems: list[Attention]) -> dict[str, Any]:
    return {x: np.array([p.sizes[x] for p in problems], np.int64) for x in problems[0].form.sizes}


@pytest.mark.parametrize("klass", CLASSES)
def test_many_points_with_options_are_single_points(klass: str) -> None:
    """Also where numbers leave the range of 64 bits, and a mask leaves few of many pairs."""
    rng = np.random.default_rng(3)
    for options, most in itertools.product(OPTIONS, (60, 2**40)):
        problems = draw_problems(options, 6, most, rng)
        M = np.exp(rng.uniform(0, 20, 6)).astype(np.int64)
        words, names = best_lower_bound_many(problems[0].form, columns(problems), M, klass)
        for k, p in enumerate(problems):
            assert words[k] == pytest.approx(best_lower_bound(p, int(M[k]), klass).words, rel=1e-12)
            assert bound(names[k]).words(p, int(M[k])) == pytest.approx(words[k], rel=1e-12)


def test_options_that_change_nothing_change_no_bound() -> None:
    for N, d, heads, M in itertools.product((7, 500), (4, 64), (1, 6), (9, 300, 20_000)):
        plain = {r.name: r for r in exact_lower_bounds(Attention(N, d, heads), M)}
        for same in (
            {"N_k": N},
            {"d_v": d},
            {"kv_heads": heads},
            {"window": (N, None)},
            {"N_k": N, "d_v": d, "kv_heads": heads, "window": (N, N), "sinks": 3},
        ):
            p = Attention(N, d, heads, **same)
            for row in exact_lower_bounds(p, M):
                assert row.words == plain[row.name].words, (row.name, p)


def test_a_bound_that_is_only_for_dense_attention_says_so() -> None:
    p = Attention(64, 8, 4, causal=True, kv_heads=2)
    rows = {row.name: row for row in bounds_for(p, 100)}
    assert rows["flash-attention"].reason == "its theorem does not cover causal and kv_heads"
    assert rows["attenio"].words is None
    assert not bound("attenio").where(
        p.form, {x: np.array([9]) for x in p.form.sizes}, np.array([99])
    )
    for call in (
        lambda: bound("attenio").words(p, 100),
        lambda: bound("attenio").curve(p.form),
        lambda: bound("attenio").expression_for(p),
    ):
        with pytest.raises(InputError, match="attenio does not apply: its theorem does not cover"):
            call()
    assert {r.name for r in rows.values() if r.applies} == {
        b.name
        for b in BOUNDS.values()
        if b.problem == "attention" and set(b.options) == set(EVERY_OPTION)
    }
    assert {one.name for one in Attention.options()} == set(EVERY_OPTION)


def test_sources_name_the_theorems_that_cover_the_options() -> None:
    """Who cites a bound needs the statement's number: a file has several."""
    dense, causal = Attention(64, 8), Attention(64, 8, causal=True)
    carries = {
        "parts": "towards_nd.md, Theorem 1",
        "sweeps": "towards_nd.md, Theorem 8",
        "stays": "",
        "constant-tight-once": "attention_options.md, Theorem B",
        "constant-tight-trees": "attention_options.md, Theorem B",
        "constant-tight-recompute": "attention_options.md, Theorem C",
        "constant-tight-recompute-trees": "attention_options.md, Theorem D",
    }
    for before, row in zip(bounds_for(dense, 100), bounds_for(causal, 100), strict=True):
        carried = row.applies and row.name != "compulsory"  # which needs no proof
        by = carries.get(row.name.removesuffix("-sums"), "attention_options.md, section 7")
        assert row.source == before.source + f"; with options proofs/{by}" * bool(carried and by)
        assert "attention_options" not in before.source
        assert not before.source.startswith("iosim") or re.search(r"md, Theorem \d", before.source)
    said = ok("tightness", "--N", "64", "--d", "8", "--M", "100", "--causal", "--json")
    rows = {row["name"]: row for row in json.loads(said)["bounds"]}
    assert rows["constant-tight-once"]["proof"] == "attention_options"
    assert rows["constant-tight-once"]["theorems"] == [
        "proofs/constant_tight.md#theorem-1",
        "proofs/attention_options.md#theorem-b",
    ]
    assert rows["stays"]["theorems"] == ["proofs/towards_nd.md#theorem-5"]


def test_the_printed_formulas() -> None:
    N, d, e, heads, M = (sym(x) for x in ("N", "d", "d_v", "heads", "M"))
    once, again = bound("constant-tight-once"), bound("constant-tight-recompute")
    half = sympy.expand(once.expression_for(Attention(9, 4, causal=True)) * M)
    assert half == sympy.expand(4 * d**2 * heads * N * (N + 1) / 2)
    wide = Attention(9, 4, d_v=7)
    assert once.expression_for(wide) == heads * N**2 * (d + e) ** 2 / M
    for values in ({d: 4, e: 7}, {d: 7, e: 4}):
        value = again.expression_for(wide).subs(values | {N: 1, heads: 1, M: 1})
        assert value == (4 * 4 * 7 if values[d] == 4 else 121)


# ---------------------------------------------------------------- d and d_v


def test_two_widths_are_their_mean_where_scores_are_made_once() -> None:
    for d, d_v in ((96, 32), (32, 96), (60, 68)):
        for M in (200, 3000, 9000, 12000, 50_000):
            same = certificate(5000, 64, M, klass="once")
            assert certificate(5000, d, M, d_v=d_v, klass="once") == same
    assert lower_bound(2**18, 192, 70_000, d_v=128) == pytest.approx(2**36 * 320**2 / 70_000)
    assert lower_bound(2**18, 64, 10**6, d_v=128, klass="recompute") == pytest.approx(
        2**36 * 4 * 64 * 128 / 10**6
    )
    assert lower_bound(2**18, 128, 10**6, d_v=64, klass="recompute") == pytest.approx(
        2**36 * 192**2 / 10**6
    )


def test_caps_are_used_only_where_they_hold() -> None:
    """At every share of the two kinds the multipliers fulfil the conditions of Lemma 7′."""
    from iosim.bounds.unified import _THEOREMS

    x, share = (
        v.ravel() for v in np.meshgrid(10 ** np.linspace(-4, 3, 200), np.linspace(0.01, 1.99, 100))
    )
    d = 1000.0
    M, square = np.rint(x * d * d), np.full_like(x, d * d)
    S, (a0, m1, m2), weight, cap = _THEOREMS["recompute"].numbers(M / square, M, square, share)
    s = S / square
    assert np.min([a0, m1, m2]) >= 0
    assert (m1 <= 2 - a0).all()
    assert (m2 <= largest_m2(M / square, s, a0, m1, share) + 1e-12).all()
    assert bowed(M / square, s, a0, m2, share).all()
    assert (weight == 2).all()
    assert (cap > 0).all()
    # Without the last resort some would not.
    ratio, a0, m1, m2 = recompute(x, share)
    m2 = np.minimum(m2, largest_m2(x, ratio * x, a0, m1, share))
    assert not bowed(x, ratio * x, a0, m2, share).all()


def test_equal_widths_are_the_caps_of_before() -> None:
    """λ = 1 written out as Lemma 7 has it: two faces, and the cap is at least each."""
    rng = np.random.default_rng(0)
    x = 10 ** rng.uniform(-3, 2, 500)
    ratio, a0, m1, m2 = recompute(x)
    s = ratio * x
    T, b = x + s, a0 + m1
    m2 = np.minimum(m2, largest_m2(x, s, a0, m1))
    cap = recompute_cap(x, s, a0, m1, m2)
    P = T / 4
    assert (cap * (1 + 1e-12) >= 2 * P * P).all()  # inside, at its left end
    P = np.sqrt(1 + T) - 1
    assert (b * (T - P * P) * P / 2 + m2 * P * P <= cap * (1 + 1e-12)).all()  # C, paid
    assert (recompute_cap(x, s, a0, m1, m2, 1.0) == cap).all()


# ---------------------------------------------------------------- any pattern


def test_patterns() -> None:
    N, d, M = 4096, 64, 16384
    assert pattern_bound(N * N, N, N, d, M) == lower_bound(N, d, M)
    causal = Attention(N, d, causal=True)
    assert pattern_bound(causal.pairs, N, N, d, M) == best_lower_bound(causal, M).words
    many = pattern_bound_many([N, N * N], N, N, d, M, d_v=np.array([64, 32]))
    assert many[1] == lower_bound(N, d, M, d_v=32)
    assert many[0] == 4 * N * d  # a diagonal: compulsory
    for bad, message in (
        ((5, 2, 2, 4, 9), "pairs = 5 of rows = 2 and columns = 2: give between 2 and 4"),
        ((1, 2, 2, 4, 9), "give between 2 and 4"),
        ((True, 1, 1, 4, 9), "pairs must be a whole number"),
        ((2, 2.5, 1, 4, 9), "rows must be a whole number"),
        ((4, 2, 2, 0, 9), "d = 0"),
    ):
        with pytest.raises(InputError, match=message) as error:
            pattern_bound(*bad)  # type: ignore[arg-type]
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("klass", CLASSES)
def test_monotone_in_pairs_and_memory(klass: str) -> None:
    M = np.unique(np.rint(10 ** np.linspace(0, 7, 1500)))
    for d, d_v in ((64, 64), (64, 32), (64, 96), (192, 128)):
        words = pattern_bound_many(10**8, 10**4, 10**4, d, M, d_v=d_v, klass=klass)
        assert (np.diff(words) <= 1e-9 * words[1:]).all()
        words = pattern_bound_many(
            10 ** np.linspace(4, 8, 300), 10**4, 10**4, d, 5000, d_v=d_v, klass=klass
        )
        assert (np.diff(words) >= 0).all()
    wide = [lower_bound_many(5000, 64, 3000, d_v=e, klass=klass) for e in range(32, 97, 4)]
    assert (np.diff(wide) >= 0).all()


# ---------------------------------------------------------------- against real schedules


@functools.cache
def count_best() -> tuple[tuple[str, Any, Any, Any], ...]:
    """(schedule, form, sizes and M, words of its best tiles), all schedules and options."""
    rng, found = np.random.default_rng(5), []
    for options in OPTIONS:
        problems = draw_problems(options, 10, 20, rng)
        problems = [
            replace(p, d=min(p.d, 9), heads=p.groups * min(4, p.heads // p.groups))
            for p in problems
        ]
        form, sizes = problems[0].form, columns(problems)
        M = (6 * 1.3 ** rng.integers(0, 18, len(problems))).astype(np.int64)
        for entry in iosim.all_algorithms("attention"):
            if not entry.supports(form):
                continue
            program = entry.program_for(form)
            tiles, fits = optimal_tiles_many(program, sizes, M)
            words = sum(count_many(program, sizes | tiles).values())
            found.append((entry.name, form, (sizes, M), np.where(fits, words, 2**60)))
    return tuple(found)


def test_no_schedule_moves_less_than_any_bound() -> None:
    attained = 0
    for name, form, (sizes, M), words in count_best():
        for b in BOUNDS.values():
            if (b.problem, b.kind, b.strength) == ("attention", "lower", "exact"):
                low = b.curve(form, **sizes, M=M)
                assert (low <= words).all(), (b.name, name, form.options)
                attained += int((low == words).sum())
    assert attained > 20  # compulsory words are reached


def test_a_bound_that_is_too_high_would_be_noticed() -> None:
    """Compulsory words a hundredth higher are above some schedule."""
    assert any(
        (1.01 * bound("compulsory").curve(form, **sizes, M=M) > words).any()
        for _, form, (sizes, M), words in count_best()
        if form.options
    )


# ---------------------------------------------------------------- the thresholds

LARGE = 2**18


@pytest.mark.parametrize("d", [64, 128])
def test_causal_bar(d: int) -> None:
    """Gap at most 1.06 for 4d² ≤ M ≤ Nd/64: two of the schedules suffice."""
    form = Attention(LARGE, d, causal=True).form
    M = np.unique(np.rint(np.geomspace(4 * d * d, LARGE * d // 64, 24))).astype(np.int64)
    sizes = {"N": np.full_like(M, LARGE), "d": np.full_like(M, d), "heads": np.ones_like(M)}
    best = np.full(len(M), 2**62)
    for name in ("flash2", "flash2_chunked"):
        program = iosim.algorithm(name).program_for(form)
        tiles, fits = optimal_tiles_many(program, sizes, M)
        words = sum(count_many(program, sizes | tiles).values())
        best = np.where(fits, np.minimum(best, words), best)
    gap = best / best_lower_bound_many(form, sizes, M)[0]
    assert gap.min() >= 1
    assert gap.max() <= 1.06
    # Half of the dense bound, but for the diagonal.
    leading = bound("constant-tight-once")
    half = leading.curve(form, **sizes, M=M) / leading.curve(**sizes, M=M)
    assert np.allclose(half, 0.5, rtol=1e-5)


@pytest.mark.parametrize(
    ("N", "d", "heads", "kv_heads"),
    [
        (1, 128, 32, 8),
        (4, 128, 32, 8),
        (16, 64, 32, 4),
        (1, 64, 8, 1),
        (16, 128, 8, 8),
    ],
)
def test_decode_bar(N: int, d: int, heads: int, kv_heads: int) -> None:
    """Within 1.001 of the compulsory words from the M on in which the rows of a group fit."""
    p = Attention(N, d, heads, N_k=16384, kv_heads=kv_heads, causal=True)
    rows = heads // kv_heads * N
    shared = bound("compulsory").words(p, 1)
    alone = bound("compulsory").words(Attention(N, d, heads, N_k=16384, causal=True), 1)
    assert alone / shared == pytest.approx(heads / kv_heads, rel=0.02)
    for M in (rows * (2 * d + 8) + 4 * d, 4 * rows * d + 8 * d, 10**6):
        best = best_lower_bound(p, M)
        assert best.words == pytest.approx(shared)
        schedules = [iosim.algorithm(name).program_for(p) for name in ("grouped_rows", "decode")]
        words = min(iosim.optimal_tiles(program, p, M).total_words for program in schedules)
        assert best.words <= words <= 1.001 * best.words


def test_grouping_saves_nothing_of_the_leading_term() -> None:
    leading = bound("constant-tight-once")
    for M in (4 * 64**2, 40 * 64**2):
        plain = leading.words(Attention(2**14, 64, 32), M)
        assert leading.words(Attention(2**14, 64, 32, kv_heads=4), M) == plain


# ---------------------------------------------------------------- commands


def test_tightness_takes_options() -> None:
    words = (
        "tightness",
        "--N",
        "4",
        "--N-k",
        "512",
        "--d",
        "16",
        "--heads",
        "8",
        "--causal",
        "--kv-heads",
        "2",
        "--M",
        "1024",
        "--json",
    )
    row = json.loads(ok(*words))
    given = {"N": 4, "N_k": 512, "d": 16, "heads": 8, "kv_heads": 2, "causal": True}
    assert {name: row[name] for name in given} == given
    assert row["gap"] == pytest.approx(1)
    done = iosim_(*words[:-1], "--kv-heads", "3")
    assert done.returncode == 2
    assert "kv_heads = 3 does not divide heads = 8" in done.stderr
    done = iosim_("tightness", "--N", "64", "--d", "8", "--M", "2", "--causal")
    assert done.returncode == 2
    assert "no schedule runs in M = 2 words: use M >=" in done.stderr


def test_tightness_writes_options(tmp_path) -> None:
    out = tmp_path / "out"
    ok("tightness", "--N", "64", "--d", "8", "--M", "64,256", "--window", "9,0", "--out", str(out))
    head, first, *_ = (out / "tightness.csv").read_text().splitlines()
    assert "window" in head.split(",")
    assert "9" in first
    with pytest.raises(CapacityError, match="no schedule runs in M = 2"):
        tightness.best_schedule(Attention(9, 9, kv_heads=1), 2)


# ---------------------------------------------------------------- the proof

PLANTED = [
    ("LEADING", 4.3, {"few-pairs", "leading-order", "schedules", "blocks"}),
    ("BEND", 2.3, {"arcs"}),
    ("CHUNKS", Fraction(30, 1000), {"chunks"}),
    ("TWICE", 1.9, {"mean-width"}),
]


@pytest.mark.parametrize(("constant", "wrong", "noticing"), PLANTED)
def test_the_proof_notices_a_wrong_constant(
    constant: str, wrong: float, noticing: set[str]
) -> None:
    pytest.importorskip("z3")
    module = load_theorem("attention_options")
    set_wrong(module, constant, wrong)
    assert noticed("attention_options", module, noticing) == noticing


@pytest.mark.parametrize(
    ("where", "name", "spoil", "noticing"),
    [
        ("caps", "recompute_cap", lambda c: 0.97 * c, "weighted-caps"),
        ("accounting", "check", None, "pairs-once"),
    ],
)
def test_the_proof_notices_tampering(
    monkeypatch, where: str, name: str, spoil, noticing: str
) -> None:
    module = load_theorem("attention_options")
    (one,) = (s for s in steps(module) if s.name == noticing)
    if where == "caps":
        original = module.widths.caps.recompute_cap
        monkeypatch.setattr(module.widths.caps, name, lambda *a: spoil(original(*a)))
    else:  # pairs outside the mask that count as pairs of it
        monkeypatch.setattr(
            module.pairs.check.__globals__["executions"], "segments", lambda log, M, S: []
        )
    assert run_step("attention_options", one).status == "failed"


def test_the_text_names_every_step_and_every_step_passes() -> None:
    pytest.importorskip("z3")
    module, text = load_theorem("attention_options"), statement("attention_options")
    assert [s.name for s in steps(module) if f"`{s.name}`" not in text] == []
    for name in ("EXECUTIONS", "SEARCHES", "PATTERNS"):
        setattr(module.constants, name, getattr(module.constants, name) // 4)
    assert [(r.step, r.detail) for r in run(module) if r.status != "passed"] == []
