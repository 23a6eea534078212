"""Bounds: values, order, monotony, slopes, and what is said where one does not apply."""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples
from strategies import plain_algorithms

import iosim.bounds as B
from iosim.base.errors import InputError
from iosim.bounds import (
    BOUNDS,
    CLASSES,
    best_lower_bound,
    best_lower_bound_many,
    bound,
    bound_class,
    bounds_for,
    exact_lower_bounds,
    sym,
)
from iosim.bounds.base import Bound, axis_names
from iosim.bounds.unified import EXACT_FROM
from iosim.core.counting.numbers import count_many
from iosim.core.problem import PROBLEMS, Attention, Copy, MatMul, Problem
from iosim.core.tiling import optimal_tiles_many

pytestmark = pytest.mark.numbers

EXACT = [b for b in BOUNDS.values() if b.strength == "exact"]
CLOSED = [b for b in BOUNDS.values() if b.numeric is None]


def problems(kind: str) -> st.SearchStrategy[Problem]:
    side = st.integers(1, 300)
    if kind == "attention":
        return st.builds(Attention, side, st.integers(1, 80), st.integers(1, 3))
    if kind == "matmul":
        return st.builds(MatMul, side, side, side)
    return st.builds(Copy, side)


def any_problem() -> st.SearchStrategy[Problem]:
    return st.sampled_from(sorted(PROBLEMS)).flatmap(problems)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("name", "problem", "M", "words"),
    [
        ("compulsory", Attention(10, 4, 3), 7, 4 * 3 * 10 * 4),
        ("saha-ye-large", Attention(4096, 64), 16384, 4096**2 * 64**2 / (2 * 16384) - 16384),
        ("score-roots", Attention(4096, 64), 16384, 4096**2 / 4 + 2 * 4096 * 64),
        ("score-roots", Attention(4096, 64, 2), 4096, 4096**2 + 4 * 4096 * 64),
        ("saha-ye-small", Attention(100, 50), 25, 2 * 10**4 * 10 - 10**4 + 10**4 - 25),
        ("saha-ye-compression", Attention(100, 10), 200, 10**6 / 1600 - 200),
        ("compression", Attention(100, 10), 200, 10**6 / 800 + 2000),
        ("any-matmul", Attention(100, 10), 50, 10**4),
        ("any-matmul-binary", Attention(1024, 10), 2**20, 1.0),
        ("standard-attention", Attention(100, 10), 50, 1000 + 10**4),
        ("flash-attention", Attention(100, 10), 50, 10**6 / 50),
        ("attenio", Attention(100, 10), 10 + 24 * 7, 2000 + 2000 * 15),
        ("attenio", Attention(100, 10), 10**6, 4000),
        ("attenio-closed-form", Attention(100, 10), 10 + 24 * 10, 2000 + 2000 * 10),
        ("saha-ye-square-tiles", Attention(5, 3), 16, 2 * 15 * 3 + 25 + 5 + 25 * 2 + 45 + 20),
        ("matmul-compulsory", MatMul(2, 3, 5), 9, 10 + 15 + 6),
        ("matmul-tight", MatMul(8, 8, 8), 16, 2 * 512 / 4 - 32),
        ("matmul-cold", MatMul(8, 8, 8), 16, 2 * 512 / 4 - 16),
        ("cosma-attained", MatMul(8, 8, 8), 16, 2 * 512 / 4 + 64),
        ("matmul-square-tiles", MatMul(9, 10, 4), 13, 90 + 4 * (9 * 4 + 10 * 3)),
        ("hong-kung-matmul", MatMul(8, 8, 8), 16, 512 / 4),
        ("copy-lower", Copy(7), 1, 14),
        ("copy-upper", Copy(7), 1, 14),
    ],
)
def test_known_values(name: str, problem: Problem, M: int, words: float) -> None:
    assert bound(name).words(problem, M) == pytest.approx(words, rel=1e-12)


def test_rational_where_no_root_is_involved() -> None:
    assert bound("saha-ye-large").exact(Attention(10, 2), 1) == Fraction(400, 17) - 1
    assert bound("matmul-tight").exact(MatMul(8, 8, 8), 16) == Fraction(224)
    assert isinstance(bound("matmul-tight").exact(MatMul(8, 8, 8), 17), float)


def build_problem(kind: str, sizes: dict[str, int]) -> Problem:
    """A problem of these sizes; heads are so many for each head of K, where that is a size."""
    return PROBLEMS[kind](
        **sizes | {"heads": sizes["heads"] * sizes["kv_heads"]} if "kv_heads" in sizes else sizes
    )


@pytest.mark.parametrize("b", CLOSED, ids=lambda b: b.name)
def test_expression_curve_and_words_agree(b: Bound) -> None:
    names = axis_names(b.problem)
    points = list(itertools.product((3, 40, 96), repeat=len(names)))
    for point, M in itertools.product(points[:: -(-len(points) // 90)], (16, 130, 2000)):
        problem = build_problem(b.problem, dict(zip(names, point, strict=True)))
        if not b.applies(problem, M):
            continue
        # All at once: sympy would compare the parts of a maximum again after each size.
        values = {sym(x): sympy.Integer(v) for x, v in (problem.sizes | {"M": M}).items()}
        want = max(0.0, float(b.expression.xreplace(values)))
        assert b.words(problem, M) == pytest.approx(want, rel=1e-9)
        curve = b.curve(**problem.sizes, M=np.array([M, M]))
        assert curve.shape == (2,)
        assert curve == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("b", CLOSED, ids=lambda b: b.name)
def test_expressions_use_the_shared_symbols(b: Bound) -> None:
    allowed = {sym(name) for name in (*PROBLEMS[b.problem].plain_form().sizes, "M")}
    assert b.expression.free_symbols <= allowed
    assert isinstance(b.expression, sympy.Expr)


# ---------------------------------------------------------------- order


@examples(3)
@given(any_problem(), st.integers(1, 30_000))
def test_exact_lower_bounds_stay_below_exact_upper_bounds(problem: Problem, M: int) -> None:
    rows = [row for row in bounds_for(problem, M) if row.applies and row.strength == "exact"]
    lower = [row for row in rows if row.kind == "lower"]
    upper = [row for row in rows if row.kind == "upper"]
    assert lower
    for low, up in itertools.product(lower, upper):
        assert low.words is not None
        assert up.words is not None
        assert low.words <= up.words * (1 + 1e-12), (low.name, up.name)


def test_a_lower_bound_that_is_too_large_would_be_caught() -> None:
    """1.1 times 4Nd exceeds what AttenIO attains once everything fits."""
    problem, M = Attention(100, 10), 10**6
    assert 1.1 * bound("compulsory").words(problem, M) > bound("attenio").words(problem, M)


@given(any_problem(), st.integers(1, 30_000), st.integers(1, 30_000))
@examples(2)
def test_words_never_grow_with_memory(problem: Problem, M: int, more: int) -> None:
    for b in BOUNDS.values():
        if b.problem == problem.kind and b.applies(problem, M) and b.applies(problem, M + more):
            assert b.words(problem, M + more) <= b.words(problem, M) * (1 + 1e-12), b.name


@given(problems("attention"), st.integers(1, 30_000))
def test_the_sharper_form_is_never_below_the_paper_s(problem: Problem, M: int) -> None:
    for sharp, paper in (("score-roots", "saha-ye-large"), ("compression", "saha-ye-compression")):
        assert bound(sharp).words(problem, M) >= bound(paper).words(problem, M)
    assert bound("score-roots").words(problem, M) >= bound("compression").words(problem, M)


@given(problems("attention"), st.integers(1, 30_000))
def test_heads_are_at_least_additive(problem: Attention, M: int) -> None:
    one = Attention(problem.N, problem.d)
    for row in exact_lower_bounds(problem, M):
        b = bound(row.name)
        assert row.words is not None
        assert row.words >= problem.heads * b.words(one, M) * (1 - 1e-12)


@given(any_problem(), st.integers(1, 10**6))
def test_best_is_the_largest_exact_lower_bound(problem: Problem, M: int) -> None:
    best = best_lower_bound(problem, M)
    assert bound(best.name).words(problem, M) == best.words
    assert best.words == max(row.words or 0 for row in exact_lower_bounds(problem, M))
    assert best.words > 0


def test_nothing_beats_the_compulsory_traffic_when_all_fits() -> None:
    assert best_lower_bound(Attention(64, 8), 10**6) == (4 * 64 * 8, "compulsory")
    assert best_lower_bound(MatMul(8, 8, 8), 10**6).name == "matmul-compulsory"


# ---------------------------------------------------------------- against real schedules


@functools.cache
def worst_ratio() -> float:
    """Largest exact lower bound ÷ exact count, over algorithms, shapes and M."""
    rng, worst, n = np.random.default_rng(0), 0.0, 300
    largest = {"N": 60, "d": 24, "heads": 2, "n": 50}
    for entry in plain_algorithms():
        kind, program = entry.problem.kind, entry.program
        sizes = {x: rng.integers(1, largest.get(x, 40) + 1, n) for x in axis_names(kind)}
        M = (5 * 1.15 ** rng.integers(0, 51, n)).astype(np.int64)
        tiles, found = optimal_tiles_many(program, sizes, M)
        words = sum(count_many(program, sizes | tiles).values())
        bounds, _ = best_lower_bound_many(kind, sizes, M)
        worst = max(worst, float((bounds / words)[found].max()))
    return worst


def test_no_schedule_beats_an_exact_lower_bound() -> None:
    assert worst_ratio() == 1.0  # and the compulsory one is attained


def test_schedules_catch_a_bound_that_is_a_tenth_too_large() -> None:
    assert 1.1 * worst_ratio() > 1.0


# ---------------------------------------------------------------- the constant-tight bound


@pytest.mark.parametrize("klass", EXACT_FROM)
def test_constant_tight_is_its_expression_where_that_is_stated(klass: str) -> None:
    b, problem = bound(f"constant-tight-{klass}"), Attention(2**16, 64, 2)
    first = math.ceil(EXACT_FROM[klass] * 64**2)
    for M in (first, 2 * first, 10 * first):
        at = {sym("N"): 2**16, sym("d"): 64, sym("heads"): 2, sym("M"): M}
        assert b.words(problem, M) == pytest.approx(float(b.expression.subs(at)), rel=1e-12)
    assert b.words(problem, first // 2) < 4 * 2 * 2**32 * 64**2 / (first // 2)


@given(problems("attention"), st.integers(1, 30_000))
def test_a_smaller_class_has_a_larger_bound(problem: Attention, M: int) -> None:
    once = best_lower_bound(problem, M, "once").words
    for klass in ("recompute", "trees"):
        assert best_lower_bound(problem, M, klass).words <= once * (1 + 1e-12)


def test_unknown_class() -> None:
    line = {x: np.array([8]) for x in ("N", "d", "heads")}
    for call in (
        lambda: bound_class("tree"),
        lambda: best_lower_bound(Attention(8, 4), 9, "tree"),
        lambda: best_lower_bound_many("attention", line, np.array([9]), "tree"),
    ):
        with pytest.raises(InputError, match="unknown class 'tree': did you mean 'trees'") as error:
            call()
        assert "\n" not in str(error.value)


def test_a_class_is_said_once() -> None:
    """A class is given as a record or by name; the catalogue's prose is the record's sentence."""
    for name, klass in CLASSES.items():
        assert klass.name == name
        assert bound_class(name) is bound_class(klass) is klass
        entry = bound("sweeps" if klass.within else f"constant-tight-{name}")
        assert (entry.covers, entry.classes) == (klass.says, (klass,))
        problem = Attention(500, 16)
        assert best_lower_bound(problem, 300, name) == best_lower_bound(problem, 300, klass)


# ---------------------------------------------------------------- many points at once


@pytest.mark.parametrize("klass", CLASSES)
@pytest.mark.parametrize("kind", PROBLEMS)
def test_many_points_are_single_points(kind: str, klass: str) -> None:
    rng = np.random.default_rng(3)
    drawn = {x: rng.integers(1, 400, 150) for x in axis_names(kind)}
    M = rng.integers(1, 3000, 150)
    points = [build_problem(kind, {x: int(v[k]) for x, v in drawn.items()}) for k in range(150)]
    sizes = {x: np.array([p.sizes[x] for p in points]) for x in points[0].sizes}
    words, names = best_lower_bound_many(kind, sizes, M, klass)
    assert words.shape == (150,)
    for k, problem in enumerate(points):
        want = best_lower_bound(problem, int(M[k]), klass)
        assert words[k] == pytest.approx(want.words, rel=1e-12)
        assert names[k] == want.name


def test_many_points_ask_where_a_bound_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound too high to hold, but only for n above 10: it rules there and nowhere else."""
    high = dataclasses.replace(
        bound("copy-lower"),
        name="high",
        formula=lambda t: 9 * t.n,
        outside=lambda t: "n is at most 10" if t.n <= 10 else None,
    )
    monkeypatch.setitem(BOUNDS, "high", high)
    words, names = best_lower_bound_many("copy", {"n": np.array([10, 11])}, np.array([5, 5]))
    assert (words.tolist(), names) == ([20, 99], ["copy-lower", "high"])
    monkeypatch.delitem(BOUNDS, "copy-lower")
    with pytest.raises(InputError, match="no exact lower bound for copy at M = 7"):
        best_lower_bound_many("copy", {"n": np.array([11, 10])}, np.array([5, 7]))
    with pytest.raises(InputError, match="unknown problem 'copi': did you mean 'copy'"):
        best_lower_bound_many("copi", {"n": np.array([10])}, np.array([5]))


@pytest.mark.parametrize("klass", EXACT_FROM)
def test_curves_without_a_closed_form(klass: str) -> None:
    b, M = bound(f"constant-tight-{klass}"), np.array([[30, 400], [3000, 16384]])
    curve = b.curve(N=1024, d=64, M=M)
    assert curve.shape == (2, 2)
    problem = Attention(1024, 64)
    assert curve.ravel().tolist() == [b.words(problem, int(m)) for m in M.ravel()]


# ---------------------------------------------------------------- asymptotic ones: slopes only


def slope(b: Bound, N: int, d: int, Ms: list[int]) -> float:
    words = [b.words(Attention(N, d), M) for M in Ms]
    return float(np.polyfit(np.log(Ms), np.log(words), 1)[0])


@pytest.mark.parametrize("name", ["saha-ye", "saha-ye-attained"])
def test_slopes_on_the_two_sides_of_d_squared(name: str) -> None:
    large = [2**e for e in range(14, 20)]
    small = [2**e for e in range(4, 12)]
    assert slope(bound(name), 2**18, 64, large) == pytest.approx(-1)
    assert slope(bound(name), 2**18, 64, small) == pytest.approx(-1 / 2)


@pytest.mark.parametrize("name", ["flash-attention", "flash-proposition-3", "any-matmul"])
def test_slope_minus_one(name: str) -> None:
    assert slope(bound(name), 2**18, 64, [2**e for e in range(14, 20)]) == pytest.approx(-1)


def test_the_regimes_meet_at_d_squared() -> None:
    N, d, M = sym("N"), sym("d"), sym("M")
    large, small = N**2 * d**2 / M, N**2 * d / sympy.sqrt(M)
    assert sympy.solve(sympy.Eq(large, small), M) == [d**2]


@pytest.mark.parametrize(("N", "d", "M"), [(2**20, 64, 2**16), (2**20, 128, 2**18)])
def test_leading_constants_for_large_memory(N: int, d: int, M: int) -> None:
    unit = N * N * d * d / M
    assert bound("score-roots").words(Attention(N, d), M) / unit == pytest.approx(1, rel=0.02)
    assert bound("compression").words(Attention(N, d), M) / unit == pytest.approx(0.25, rel=0.02)
    assert bound("attenio").words(Attention(N, d), M) / unit == pytest.approx(4, rel=0.1)


# ---------------------------------------------------------------- where a bound does not apply


@pytest.mark.parametrize(
    ("name", "problem", "M", "reason"),
    [
        (
            "attenio",
            Attention(100, 10),
            33,
            "M = 33 is below 3d + 4 = 34, which one",
        ),
        ("flash-attention", Attention(100, 10), 9, "M = 9 is below d = 10"),
        ("flash-attention", Attention(100, 10), 1001, "M = 1001 exceeds Nd = 1000"),
        ("saha-ye-square-tiles", Attention(9, 9), 3, "M = 3 is below 4"),
        ("cosma-attained", MatMul(3, 9, 9), 10, "M = 10 exceeds the square of min(m, n) = 3"),
        ("any-matmul-binary", Attention(1, 9), 10, "N = 1 has log N = 0"),
    ],
)
def test_reasons(name: str, problem: Problem, M: int, reason: str) -> None:
    b = bound(name)
    assert not b.applies(problem, M)
    assert (b.why_not(problem, M) or "").startswith(reason)
    with pytest.raises(InputError, match="does not apply") as error:
        b.words(problem, M)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)
    row = next(row for row in bounds_for(problem, M) if row.name == name)
    assert (row.words, row.applies) == (None, False)
    assert row not in exact_lower_bounds(problem, M)


@pytest.mark.parametrize("M", [0, -1, 2.5, True, "8", 2**41])
def test_bad_memory(M: object) -> None:
    for call in (bounds_for, best_lower_bound, exact_lower_bounds):
        with pytest.raises(InputError, match="M"):
            call(Attention(8, 4), M)  # type: ignore[arg-type]


def test_wrong_kind_and_unknown_name() -> None:
    with pytest.raises(InputError, match="bounds matmul, got Attention"):
        bound("matmul-tight").words(Attention(8, 4), 9)
    with pytest.raises(InputError, match="did you mean 'compulsory'"):
        bound("compulsary")
    with pytest.raises(InputError, match="needs"):
        bound("compulsory").curve(N=8)


# ---------------------------------------------------------------- the catalogue itself


@pytest.mark.parametrize("b", BOUNDS.values(), ids=lambda b: b.name)
def test_entries_are_complete(b: Bound) -> None:
    assert b.kind in ("lower", "upper")
    assert b.strength in ("exact", "asymptotic")
    assert b.problem in PROBLEMS
    for sentence in (b.covers, b.validity, b.source):
        assert len(sentence) > 4
    assert bool(b.classes) == (b.kind == "lower")
    assert set(b.classes) <= set(CLASSES.values())
    assert hash(b)


def test_rows_are_plain_data() -> None:
    import json

    rows = [row.as_dict() for row in bounds_for(Attention(64, 8), 100)]
    assert json.loads(json.dumps(rows)) == rows
    assert {"name", "kind", "strength", "words", "applies", "source", "covers"} <= set(rows[0])
    classes = {row["name"]: row["class"] for row in rows}
    assert classes["compulsory"] == [name for name, klass in CLASSES.items() if not klass.within]
    assert classes["constant-tight-trees"] == ["trees"]
    assert classes["flash-attention"] == []


def test_rows_name_what_is_checked_in_coq() -> None:
    folder = Path(__file__).parents[2] / "proofs/rocq"
    statements = "".join((folder / f"theorems{x}.v").read_text() for x in ("", "_classes"))
    named = {b.name: b.checked_by.partition(",")[0] for b in BOUNDS.values() if b.checked}
    each_once = {"constant-tight-once", "constant-tight-trees"}
    every = {*each_once, "constant-tight-recompute", "constant-tight-recompute-trees"}
    assert set(named) == {*every, "matmul-tight", "matmul-cold"}
    for theorem in named.values():
        assert f"\nTheorem {theorem} " in statements
    assert not [b.name for b in BOUNDS.values() if b.checked_by and not b.checked]

    def marked(problem: Problem, M: int) -> set[str]:
        return {row.name for row in bounds_for(problem, M) if row.checked}

    N, d = 4096, 64
    # From M = 5(d + d_v)²/8, or 2d(d + d_v), until every word is moved once, any set of pairs.
    for M in (5 * d**2 // 2, 4 * d**2 - 1):
        assert marked(Attention(N, d), M) == each_once
    for M in (4 * d**2, N * d):
        assert marked(Attention(N, d), M) == every
    for problem in (
        Attention(N, d, 8, kv_heads=2, causal=True),
        Attention(N, d, N_k=2 * N, d_v=d),
        Attention(N, d, causal=True, window=(2000, 0), sinks=4),
    ):
        assert marked(problem, 16384) == every
    assert not marked(Attention(N, d), 5 * d**2 // 2 - 1)
    assert not marked(Attention(N, d), 2 * N * d)
    assert marked(Attention(N, d, d_v=32), 5 * 96**2 // 8) == each_once
    assert not marked(Attention(N, d, d_v=32), 5 * 96**2 // 8 - 1)
    assert marked(Attention(N, d, d_v=32), 2 * d * 96) == every
    assert marked(Attention(N, d, d_v=32), 2 * d * 96 - 1) == each_once
    assert marked(Attention(N, d, d_v=96), 5 * 160**2 // 8) == each_once
    assert marked(Attention(N, d, d_v=96), 2 * d * 160 - 1) == each_once
    assert marked(Attention(N, d, d_v=96), 2 * d * 160) == every
    assert not marked(Attention(N, d, statistics=True), 16384)
    assert marked(MatMul(64, 64, 64), 100) == {"matmul-tight", "matmul-cold"}
    # A bound above the statement is not marked.
    more = dataclasses.replace(
        bound("matmul-cold"), formula=lambda t: 2 * t.m * t.n * t.k / t.sqrt(t.M)
    )
    assert more.machine_checked(MatMul(64, 64, 64), 100) is None


def test_largest_sizes_stay_finite() -> None:
    big = 2**40
    for problem in (Attention(big, big, big), MatMul(big, big, big), Copy(big)):
        for row in bounds_for(problem, big):
            assert row.words is None or math.isfinite(row.words)


def test_numbers_need_no_sympy() -> None:
    code = (
        "import sys; from iosim.bounds import bounds_for; from iosim.core.problem import Attention;"
        "bounds_for(Attention(64, 8), 100); sys.exit('sympy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_no_bound_has_seen_an_algorithm() -> None:
    """The sources import base, problem and each other, and of third parties numpy and sympy."""
    allowed = ("iosim.base", "iosim.core.problem", "iosim.bounds", "numpy", "sympy")
    for path in Path(B.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                known = name.split(".")[0] in sys.stdlib_module_names
                assert known or name.startswith(allowed), f"{path.name} imports {name}"


def test_public_names_exist() -> None:
    for name in B.__all__:
        assert hasattr(B, name)


@pytest.mark.parametrize(
    ("name", "problem", "first", "last"),
    [
        ("attenio", Attention(100, 8), 28, None),  # 3d + 4
        ("attenio-closed-form", Attention(100, 8), 28, 2008),  # … d + N(2d + 4)
        ("flash-attention", Attention(100, 8), 8, 800),  # d … Nd
        ("standard-attention", Attention(100, 8), 8, 800),
        ("flash-proposition-3", Attention(100, 8), 8, 800),
        ("saha-ye-square-tiles", Attention(100, 8), 4, None),
        ("cosma-attained", MatMul(9, 12, 5), 3, 81),  # … min(m, n)²
        ("matmul-square-tiles", MatMul(9, 12, 5), 3, None),
    ],
)
def test_domains_end_where_they_say(name: str, problem, first: int, last: int | None) -> None:
    """A bound applies at the first and last M of its domain, and nowhere outside."""
    assert bound(name).applies(problem, first)
    assert not bound(name).applies(problem, first - 1)
    if last is not None:
        assert bound(name).applies(problem, last)
        assert not bound(name).applies(problem, last + 1)
    else:
        assert bound(name).applies(problem, 2**40)


def test_asymptotic_bounds_know_heads_and_powers() -> None:
    """Twice the heads is twice the words; twice N is four times, in either regime."""
    for name in ("saha-ye", "saha-ye-attained", "flash-attention", "flash-proposition-3"):
        one = bound(name).words(Attention(4096, 64), 16384)
        assert bound(name).words(Attention(4096, 64, 2), 16384) == 2 * one
        assert bound(name).words(Attention(8192, 64), 16384) == 4 * one
