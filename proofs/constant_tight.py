"""The constant-tight bound for attention, step by step: see constant_tight.md."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not turned round)

from __future__ import annotations

import importlib.util
import itertools
import random
import sys
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np

from iosim.bounds import unified
from iosim.bounds.unified import caps
from iosim.checks.proof import FOLDER, identity, require, step, unsat

# Lemma 3: E ≤ g(P + p) − SHARP·d·pP.
SHARP = 1
# Theorem 2: Q ≥ CONSTANT·Πd²/M from FROM·d² on, with these multipliers.
CONSTANT = 4
FROM: dict[str, Fraction] = {"once": Fraction(5, 2), "recompute": Fraction(9, 2)}
ONCE: tuple[Fraction, Fraction] = (Fraction(11, 100), Fraction(36, 100))
RECOMPUTE: tuple[Fraction, Fraction] = (Fraction(8, 5), Fraction(1, 25))
# Section 7, remark: a sum made in J stays costs at least STAY·J − 1 transfers.
STAY = 2


def _runs() -> ModuleType:
    """proofs/_attention_runs.py, which is not a theorem."""
    name = "iosim_proofs._attention_runs"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, FOLDER / "_attention_runs.py")
        require(spec is not None and spec.loader is not None, "no _attention_runs.py")
        module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        sys.modules[name] = module
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    return sys.modules[name]


def _q(value: Fraction) -> Any:
    import z3

    return z3.Q(value.numerator, value.denominator)


# ---------------------------------------------------------------- segments


@step(
    "cutting",
    how="exhaustive",
    says="K events, the first M + S in one segment, then S each: K ≥ M + S(n − 1) if n ≥ 2",
)
def cutting() -> str:
    """Cut and count."""
    for M, S in itertools.product(range(1, 9), repeat=2):
        for K in range(60):
            n, left = 1, K - (M + S)
            while left > 0:
                n, left = n + 1, left - S
            require(n == 1 or K >= M + S * (n - 1), f"M = {M}, S = {S}, K = {K}: n = {n}")
            require(n <= max(1, -(-(K - M) // S)), f"M = {M}, S = {S}, K = {K}: n = {n}")
    return "every M, S ≤ 8 and K < 60"


def _executions(seed: int, count: int, kind: str) -> Any:
    """Random executions: N, d, H, M, the random generator, the log."""
    runs = _runs()
    rng = random.Random(seed)
    for _ in range(count):
        H = rng.choice([1, 1, 2, 3])
        N, d = rng.randint(1, 5 if H == 1 else 3), rng.randint(1, 4)
        M = rng.randint(3, 30)
        order = runs.random_order(N, d, rng, H)
        if kind == "trees":
            log = runs.execute_trees(order, N, d, M, rng, H)
        else:
            drop = 0.5 if kind == "recompute" else 0.0
            policy = rng.choice(["lru", "random"] if drop else ["lru", "random", "belady"])
            log = runs.execute(order, N, d, M, rng, policy, drop)
        yield N, d, H, M, rng, log


def _accounting(seed: int, count: int, kind: str) -> tuple[int, int]:
    """Lemmas 1 to 5 and 8 on random executions; the numbers of segments and of free starts seen."""
    runs = _runs()
    seen = free = 0
    again = kind == "recompute"
    for N, d, H, M, rng, log in _executions(seed, count, kind):
        cost = sum(what in ("load", "store") for what, _, _ in log)
        S = rng.choice([rng.randint(1, 4), rng.randint(1, 3 * M)])
        if kind == "trees":
            parts = runs.tree_segments(log, M, S, d)
        else:
            parts = runs.segments(log, M, S)
        at = f"N = {N}, d = {d}, H = {H}, M = {M}, S = {S}"
        require(sum(s.events for s in parts) <= cost, f"{at}: more events than transfers")
        totals = [0] * 9
        for s in parts:
            seen += 1
            q, k, v, o, C, a, y, E, F = counts = s.counts
            totals = [x + z for x, z in zip(totals, counts, strict=True)]
            require(q + k + v + o + a <= M + S, f"{at}: Lemma 1 fails, {counts}")
            require(y <= M, f"{at}: {y} free starts")
            require(kind != "trees" or s.free <= s.held, f"{at}: a free stay ends too early")
            require(C * d * d <= q * k, f"{at}: Lemma 2 fails for Q and K, {counts}")
            require(again or C * d * d <= o * v, f"{at}: Lemma 2 fails for O and V, {counts}")
            p, P = C**0.5, (C + a + y) ** 0.5
            for work, g, inner in (
                (E, (q * k) ** 0.5, p),
                (F, (o * v) ** 0.5, 0.0 if again else p),
            ):
                most = min(d * P * P, g * (P + inner) - SHARP * d * P * inner)
                require(work <= most + 1e-9, f"{at}: {work} products, Lemma 3 allows {most}")
        C, a, y, E, F = totals[4:]
        free += y
        pairs = H * N * N
        enough = E >= pairs * d and F >= pairs * d if again else E == F == pairs * d
        require(enough, f"{at}: {E} and {F} products")
        require(y <= a, f"{at}: {y} free starts, {a} paid visits")
        require(d * (y + C) <= E if again else y + C <= pairs, f"{at}: Lemma 4, 5 or 8 fails")
    require(free > count // 10, f"only {free} free starts were seen")
    return seen, free


@step(
    "accounting-once",
    how="sampled",
    says="Lemmas 1 to 4: paid words, inner pairs, free starts and their sums, scores made once",
)
def accounting_once() -> str:
    """Executions simulated word by word, cut at random lengths."""
    seen, free = _accounting(1, 600, "once")
    return f"600 random executions, H ≤ 3, {seen} segments, {free} free starts, seed 1"


@step(
    "accounting-recompute",
    how="sampled",
    says="Lemmas 1 to 3 and 5 with scores forgotten and made again, runs of a pair one by one",
)
def accounting_recompute() -> str:
    """The same where a score may be dropped rather than stored."""
    seen, free = _accounting(2, 600, "recompute")
    return f"600 random executions, H ≤ 3, {seen} segments, {free} free starts, seed 2"


@step(
    "trees",
    how="sampled",
    says="Lemmas 1 to 3 and 8: stays in place of runs, sums by random trees, merged and spilled",
)
def trees() -> str:
    """Sums by random trees, results in words of their own or over operands."""
    seen, free = _accounting(6, 800, "trees")
    return f"800 random executions, H ≤ 3, {seen} segments, {free} free starts, seed 6"


def _overlapping_lives() -> int:
    """Every order of two unspilled runs' products whose lives overlap contradicts (∗).

    A run has d products of the first kind and a last use, after which its word may go; d ≤ 4.
    """
    overlaps = 0
    for d in (1, 2, 3, 4):
        for places in itertools.combinations(range(2 * d + 2), d + 1):
            runs = [list(places), [at for at in range(2 * d + 2) if at not in places]]
            if runs[0][-1] < runs[1][0] or runs[1][-1] < runs[0][0]:
                continue
            overlaps += 1
            # Finished words are there from a half after the last product to before the last use.
            moments = [
                (run, at - 0.5)
                for run in (0, 1)
                for at in range(runs[run][0], runs[run][d - 1] + 1)
                if runs[1 - run][d - 1] < at <= runs[1 - run][d]
            ]
            require(len(moments) > 0, f"(∗) allows overlapping lives, d = {d}: {runs}")
    return overlaps


@step(
    "two-runs",
    how="exhaustive",
    says="Lemma 5: (∗) keeps unspilled runs' lives apart; then charges and next visits all differ",
)
def two_runs() -> str:
    """All ways to place up to three unspilled runs of one pair, d = 2, in up to 4 segments, or up
    to two and a spilled one, which may be alive at any time, in up to 3.

    A run is a life [start, end] in half-segment ticks and the tick of each of its 2 + 1 products;
    tick τ lies in segment τ // 2.  What (∗) itself rests on, the exchange, is not checked here.
    """
    overlaps = _overlapping_lives()
    d, cases, spilling = 2, 0, 0

    def lives(ticks: int) -> list[tuple[tuple[int, ...], int]]:
        return [
            (ticks_of, tail)
            for ticks_of in itertools.combinations_with_replacement(range(ticks), d)
            for tail in range(ticks_of[-1], ticks)
        ]

    def apart(count: int, ticks: int) -> Any:
        for chosen in itertools.combinations(lives(ticks), count):
            if all(x[1] < y[0][0] for x, y in itertools.pairwise(sorted(chosen))):
                yield chosen

    plain = ((8, chosen, ()) for count in (1, 2, 3) for chosen in apart(count, 8))
    mixed = (
        (6, chosen, (one,)) for count in (0, 1, 2) for chosen in apart(count, 6) for one in lives(6)
    )
    for ticks, unspilled, spilled in itertools.chain(plain, mixed):
        chosen = [(run, False) for run in unspilled] + [(run, True) for run in spilled]
        cases += 1
        spilling += len(spilled)
        charged: list[tuple[int, int]] = []
        nexts: list[int] = []
        made = {(c, at // 2) for (made_at, _), _ in chosen for c, at in enumerate(made_at)}
        for t in range(ticks // 2):
            visits = [
                (run, put, {at // 2 for at in (*run[0], run[1])})
                for run, put in chosen
                if any(at // 2 == t for at in (*run[0], run[1]))
            ]
            crossing = [(run, put, where) for run, put, where in visits if len(where) > 1]
            paid = [run for run, put, where in crossing if put or min(where) < t]
            if crossing and not paid:
                require(len(crossing) == 1, f"two free starts in one segment: {chosen}")
                run, _, where = crossing[0]
                charged += [(c, at // 2) for c, at in enumerate(run[0])]
                nexts.append(min(w for w in where if w > t))
            elif visits and not crossing:
                charged += [(c, t) for c in range(d)]
        require(len(set(charged)) == len(charged), f"charged twice: {chosen}")
        require(set(charged) <= made, f"charged to no product: {chosen}")
        require(len(set(nexts)) == len(nexts), f"two next visits coincide: {chosen}")
    return f"up to 3 runs, {cases} cases, {spilling} with a spilled run; {overlaps} overlaps"


# ---------------------------------------------------------------- Lemma 3


@step(
    "one-column",
    how="proved",
    says="Lemma 3: min(P², g²) ≤ g(P + p) − pP for g ≥ p ≥ 0, P ≥ p",
)
def one_column() -> str:
    """Two factorisations, and the inequality itself by the solver."""
    import sympy
    import z3

    g, p, P = sympy.symbols("g p P")
    chord = g * (P + p) - SHARP * p * P
    identity(chord - g**2, (P - g) * (g - p))
    identity(chord - P**2, (g - P) * (P + p))
    a, b, c = z3.Reals("g p P")
    line = a * (c + b) - SHARP * b * c
    unsat(b >= 0, a >= b, c >= b, a * a > line, c * c > line)
    return "all reals g ≥ p, P ≥ p, p ≥ 0"


@step(
    "columns-together",
    how="proved",
    says="Lemma 3: √(q₁k₁) + √(q₂k₂) ≤ √((q₁ + q₂)(k₁ + k₂)), the step of the sum over columns",
)
def columns_together() -> str:
    """With q = α², k = β²: Lagrange's identity."""
    import sympy

    a, b, c, e = sympy.symbols("a b c e")
    identity((a**2 + b**2) * (c**2 + e**2) - (a * c + b * e) ** 2, (a * e - b * c) ** 2)
    return "all reals, and by induction any number of columns"


def _sharp_on(products: set[tuple[int, int, int]], d: int, extra: int) -> None:
    """Lemma 3 for a set of products, every choice of inner pairs, `extra` idle pairs."""
    q = len({(i, c) for i, _, c in products})
    k = len({(j, c) for _, j, c in products})
    pairs: dict[tuple[int, int], int] = {}
    for i, j, _ in products:
        pairs[i, j] = pairs.get((i, j), 0) + 1
    whole = sum(n == d for n in pairs.values())
    g, P = (q * k) ** 0.5, (len(pairs) + extra) ** 0.5
    for C in range(whole + 1):
        p = C**0.5
        most = min(d * P * P, g * (P + p) - SHARP * d * p * P)
        require(len(products) <= most + 1e-9, f"{len(products)} > {most}: {sorted(products)}")


@step(
    "sharpened-loomis-whitney",
    how="exhaustive",
    says="Lemma 3: E ≤ min(dP², g(P + p) − dpP), for each number of inner pairs",
)
def sharpened_loomis_whitney() -> str:
    """Every set of products on small grids."""
    cases = 0
    for rows, columns, d in ((2, 2, 2), (3, 2, 2), (2, 2, 3), (4, 3, 1), (1, 4, 3)):
        grid = list(itertools.product(range(rows), range(columns), range(d)))
        for chosen in range(1 << len(grid)):
            cases += 1
            _sharp_on({w for b, w in enumerate(grid) if chosen >> b & 1}, d, 0)
    return f"grids of up to 12 products, {cases} sets"


@step(
    "sharpened-loomis-whitney-larger",
    how="sampled",
    says="Lemma 3 on larger grids, for sets that are whole rows, few columns, or mixed",
)
def sharpened_larger() -> str:
    """Unions of boxes come closest to equality."""
    rng = random.Random(3)
    for _ in range(1500):
        n, d = rng.randint(2, 8), rng.randint(1, 8)
        products: set[tuple[int, int, int]] = set()
        for _ in range(rng.randint(1, 3)):
            I, J = (rng.sample(range(n), rng.randint(1, n)) for _ in "IJ")
            cs = range(d) if rng.random() < 0.5 else rng.sample(range(d), rng.randint(1, d))
            products |= set(itertools.product(I, J, cs))
        if rng.random() < 0.3:
            products -= set(rng.sample(sorted(products), rng.randint(0, len(products) // 3)))
        _sharp_on(products, d, rng.choice([0, 0, rng.randint(0, 9)]))
    return "1500 sets on grids up to 8 × 8 × 8, seed 3"


# ---------------------------------------------------------------- Lemmas 6 and 7


def _symbols() -> Any:
    import sympy

    return sympy.symbols("u w P p a y T x m1 m2 a0 g f", real=True)


def _once_charge() -> tuple[Any, Any]:
    """ℓ of Lemma 6 and the substitution to u and w."""
    u, w, P, p, a, y, T, _, m1, m2, _, g, _ = _symbols()
    ell = 2 * (g * (P + p) - p * P) - m1 * (y + p**2) + m2 * (a - y)
    return ell.subs(g, (T - a) / 4), {P: (u + w) / 2, p: (u - w) / 2}


@step(
    "once-affine",
    how="proved",
    says="Lemma 6 (i)–(iii): ℓ is affine in y; at g = p and g = P it is a convex quadratic",
)
def once_affine() -> str:
    """Second derivatives."""
    import sympy

    u, w, P, p, a, y, T, _, m1, m2, _, _, _ = _symbols()
    ell, wide = _once_charge()
    line = ell.subs(a, u * w - y).subs(wide)
    identity(sympy.diff(line, y, 2), 0)
    # g = p: a = T − 4p; the bound drops −(m1 + m2)y.
    low = ell.subs({P: p}).subs(a, T - 4 * p)
    identity(low, (2 - m1) * p**2 + m2 * (T - 4 * p) - (m1 + m2) * y)
    identity(ell.subs(T, a + 4 * p), 2 * p**2 - m1 * (y + p**2) + m2 * (a - y))
    # g = P: p² = P² − a − y, and ℓ = 2P² − m1(y + p²) + m2(a − y).
    high = ell.subs(T, a + 4 * P)
    identity(high, 2 * P**2 - m1 * (y + p**2) + m2 * (a - y))
    identity(
        (2 * P**2 - m1 * (P**2 - a) + m2 * (a - y)).subs(a, T - 4 * P),
        (2 - m1) * P**2 + (m1 + m2) * (T - 4 * P) - m2 * y,
    )
    root = sympy.sqrt(4 + T) - 2
    identity(sympy.expand(root**2 + 4 * root - T), 0)
    return "all reals; the leading coefficient is 2 − m1 both times"


@step(
    "once-faces",
    how="proved",
    says="Lemma 6 (iv)–(vi): on y = 0, a = 0, y = x the coefficient of w² is ½ − m1/4; the ends",
)
def once_faces() -> str:
    """The faces' values are those of the table."""
    import sympy

    u, w, P, p, a, y, T, x, m1, m2, _, _, _ = _symbols()
    ell, wide = _once_charge()
    A = T + x
    faces = {
        "y = 0": {y: 0, a: P**2 - p**2},
        "a = 0": {a: 0, y: P**2 - p**2},
        "y = x": {y: x, a: P**2 - p**2 - x},
    }
    for at in faces.values():
        curve = sympy.expand(ell.subs(at, simultaneous=True).subs(wide, simultaneous=True))
        identity(curve.coeff(w, 2), sympy.Rational(1, 2) - m1 / 4)
        require(sympy.Poly(curve, w).degree() == 2, "not a quadratic in w")
    paid, free, full = (ell.subs(at, simultaneous=True).subs(p, 0) for at in faces.values())
    identity(paid, (T - P**2) * P / 2 + m2 * P**2)
    identity(free, T * P / 2 - (m1 + m2) * P**2)
    identity(full, (A - P**2) * P / 2 + m2 * P**2 - (m1 + 2 * m2) * x)
    mixed = ell.subs({a: 0, y: x}).subs(wide).subs(w, x / u)
    identity(
        mixed,
        T * u / 2 - (2 + m1) * u**2 / 4 + (2 - m1) * x**2 / (4 * u**2) - (m1 / 2 + m2) * x,
    )
    return "all reals u, w, T, x, m1, m2"


@step(
    "affine-constraints",
    how="proved",
    says="Lemmas 6 and 7: at fixed u the constraints are affine in w on each face",
)
def affine_constraints() -> str:
    """p, P, n = uw and the widths g of every face."""
    import sympy

    u, w, _, _, _, _, T, x, _, _, _, _, _ = _symbols()
    P, p, n = (u + w) / 2, (u - w) / 2, u * w
    identity(P**2 - p**2, n)
    for a in (n, 0 * u, n - x):
        for g in ((T - a) / 4, (T - a) / 2, (T - a) / 2 - P):
            for constraint in (g - p, P - g, g, a, p, P):
                identity(sympy.diff(constraint, w, 2), 0)
    return "all reals u, w, T, x"


def _recompute_charge() -> tuple[Any, Any, dict[str, dict[Any, Any]]]:
    """ℓ of Lemma 7, the substitution to u and w, and its faces A to D."""
    u, w, P, p, a, y, T, _, m1, m2, a0, g, f = _symbols()
    b, c = a0 + m1, 2 - a0
    ell = b * (g * (P + p) - p * P) + c * f * P - m1 * (y + p**2) + m2 * (a - y)
    half = (T - a) / 2
    faces = {
        "A": {g: p, f: half - p},
        "B": {g: P, f: half - P},
        "C": {g: half, f: 0},
        "D": {g: half - P, f: P},
    }
    return ell, {P: (u + w) / 2, p: (u - w) / 2}, faces


@step(
    "recompute-edges",
    how="proved",
    says="Lemma 7: B and the edges AC, AD: affine or convex along each line used",
)
def recompute_edges() -> str:
    """Each line's quadratic, and its leading coefficient."""
    import sympy

    u, w, P, p, a, y, T, x, m1, m2, a0, g, f = _symbols()
    b, c = a0 + m1, 2 - a0
    ell, wide, faces = _recompute_charge()
    identity(sympy.diff(ell.subs(f, (T - a) / 2 - g), g, 2), 0)
    for face in "ACD":
        at = {k: v.subs(a, u * w - y) for k, v in faces[face].items() if k is not None and v != 0}
        at = {**faces[face], **at}
        curve = ell.subs(at, simultaneous=True).subs(a, u * w - y).subs(wide, simultaneous=True)
        identity(sympy.diff(curve, y, 2), 0)
    # B, with y + p² = P² − a.
    on_b = ell.subs(faces["B"], simultaneous=True) + m1 * (y + p**2) - m1 * (P**2 - a)
    identity(on_b, a0 * P**2 + (m1 + m2) * a + c * ((T - a) / 2 - P) * P - m2 * y)
    identity(on_b.subs({a: P**2, y: 0}), -c * P**3 / 2 + (b + m2 - c) * P**2 + c * T * P / 2)
    identity(on_b.subs({a: 0, y: 0}), (a0 - c) * P**2 + c * T * P / 2)
    identity(on_b.subs(y, 0).subs(a, T - 2 * P), a0 * P**2 + (m1 + m2) * (T - 2 * P))
    identity(on_b.subs(y, 0).subs(a, T - 4 * P), 2 * P**2 + (m1 + m2) * (T - 4 * P))
    # AC.
    ac = ell.subs({g: p, f: 0})
    identity(ac, a0 * p**2 - m1 * y + m2 * (a - y))
    # AD.
    ad = (
        ell.subs({g: p, f: P}, simultaneous=True)
        .subs(y, P**2 - p**2 - a)
        .subs(a, T - 2 * P - 2 * p)
    )
    identity(
        ad,
        (a0 + m1 + m2) * p**2 + (c - m1 - m2) * P**2 + (m1 + 2 * m2) * (T - 2 * P - 2 * p),
    )
    identity(sympy.expand(ad.subs(wide, simultaneous=True)).coeff(w, 2), sympy.Rational(1, 2))
    identity(sympy.diff(ad.subs(p, 0), P, 2), 2 * (c - m1 - m2))
    for words, held in ((T, 0), (T + x, x)):  # y = 0 and y = x
        arc = ell.subs({g: p, f: P}, simultaneous=True).subs(
            {y: held, a: T - 2 * P - 2 * p}, simultaneous=True
        )
        arc = arc.subs(wide, simultaneous=True).subs(w, words / u - 2)
        rest = sympy.expand(arc - (u**2 + (words / u - 2) ** 2) / 2)
        identity(sympy.diff(rest, u, 2), 0)
        curvature = sympy.diff((words / u - 2) ** 2, u, 2)
        identity(curvature, 2 * words**2 / u**4 + 4 * words * (words / u - 2) / u**3)
    return "all reals; convex where m1 + m2 ≤ 2 − a0 and w ≥ 0"


@step(
    "recompute-faces",
    how="proved",
    says="Lemma 7: A is convex in p, C and D in w; the ends are the values of the table",
)
def recompute_faces() -> str:
    """Second derivatives, and all twelve ends."""
    import sympy

    u, w, P, p, a, y, T, x, m1, m2, a0, _, _ = _symbols()
    b, c, A = a0 + m1, 2 - a0, T + x
    ell, wide, faces = _recompute_charge()
    n = P**2 - p**2
    lines = {"paid": {y: 0, a: n}, "free": {a: 0, y: n}, "full": {y: x, a: n - x}}
    start, both = (m1 + 2 * m2) * x, (m1 + m2) * x
    cubic = {
        "A": lambda z: c * (z - P**2) * P / 2 + m2 * P**2,
        "C": lambda z: b * (z - P**2) * P / 2 + m2 * P**2,
        "D": lambda z: -b * P**3 / 2 + (c - b + m2) * P**2 + b * z * P / 2,
    }
    free = {
        "A": c * T * P / 2 - (m1 + m2) * P**2,
        "C": b * T * P / 2 - (m1 + m2) * P**2,
        "D": (c - b - m1 - m2) * P**2 + b * T * P / 2,
    }
    mixed = {
        "A": a0 * p**2 + c * (T / 2 - p) * P - both,
        "C": b * (T * u / 2 - p * P) - m1 * (p**2 + x) - m2 * x,
        "D": c * P**2 + b * ((T / 2 - P) * u - p * P) - m1 * (p**2 + x) - m2 * x,
    }
    bend = {"C": a0 / 4, "D": sympy.Rational(1, 2)}
    for face in "ACD":
        on = ell.subs(faces[face], simultaneous=True)
        for name, line in lines.items():
            curve = on.subs(line, simultaneous=True)
            if face == "A":
                half = (a0 + m1 + m2) if name == "free" else (a0 - m2 + c * P / 2)
                identity(sympy.diff(curve, p, 2), 2 * half)
            else:
                wide_curve = sympy.expand(curve.subs(wide, simultaneous=True))
                identity(wide_curve.coeff(w, 2), bend[face])
                require(sympy.Poly(wide_curve, w).degree() <= 2, f"{face}, {name}: not quadratic")
            end = curve.subs(p, 0)
            want = {"paid": cubic[face](T), "free": free[face], "full": cubic[face](A) - start}
            identity(end, want[name])
        corner = on.subs({a: 0, y: x}).subs(wide, simultaneous=True).subs(w, x / u)
        identity(corner, mixed[face].subs(wide, simultaneous=True).subs(w, x / u))
    # The powers of u that the evaluator uses for the mixed faces: k, κ, β, ε, constant.
    ridges = {
        "A": (c * T / 4, (c - a0) / 4, x**2 / 2, c * T * x / 4, -a0 * x / 2 - both),
        "C": (b * T / 2, (b + m1) / 4, a0 * x**2 / 4, 0, m1 * x / 2 - both),
        "D": (
            b * T / 2,
            (3 * b + m1 - c) / 4,
            x**2 / 2,
            0,
            (c - b + m1) * x / 2 - both,
        ),
    }
    for face, (k, kappa, beta, eps, rest) in ridges.items():
        value = k * u - kappa * u**2 + beta / u**2 + eps / u + rest
        identity(mixed[face].subs(wide, simultaneous=True).subs(w, x / u), value)
    return "all reals u, w, T, x, a0, m1, m2; A where m2 ≤ a0 + (2 − a0)P/2"


@step(
    "one-maximum",
    how="proved",
    says="evaluator: h = f′ of a mixed face is concave, so f ≤ its ends or f(u) + |h(u)|u",
)
def one_maximum() -> str:
    """h″ ≤ 0; and a cubic face has at most one inner maximum."""
    import sympy
    import z3

    u, k, kappa, beta, eps = sympy.symbols("u k kappa beta epsilon", positive=True)
    f = k * u - kappa * u**2 + beta / u**2 + eps / u
    identity(sympy.diff(f, u, 3), -24 * beta / u**5 - 6 * eps / u**4)
    # 3a₃P² + 2a₂P + a₁ = 0 with a₃ < 0 ≤ a₁: two positive roots would have a positive product.
    a3, a2, a1, r, t = z3.Reals("a3 a2 a1 r t")
    slope = [3 * a3 * z * z + 2 * a2 * z + a1 == 0 for z in (r, t)]
    unsat(a3 < 0, a1 >= 0, r > 0, t > r, *slope)
    # For concave h, falling at z and negative there, Newton's step from z does not pass a root
    # to its left: the tangent lies above h.
    z, root, h, dh = z3.Reals("z root h dh")
    unsat(h < 0, dh < 0, root <= z, 0 <= root, h + dh * (root - z) < 0, z - h / dh >= root)
    unsat(h < 0, dh < 0, root <= z, h + dh * (root - z) >= 0, z - h / dh < root)
    return "all reals with beta, epsilon ≥ 0 and u > 0"


@step(
    "caps-against-shapes",
    how="sampled",
    says="Lemmas 6 and 7: no segment, whatever its nine sizes, has more charged work than the cap",
)
def caps_against_shapes() -> str:
    """Random and extreme sizes; equality is approached, so that a smaller cap would be noticed."""
    rng = np.random.default_rng(4)
    closest = {"once": 0.0, "recompute": 0.0}
    for _ in range(400):
        x = 10 ** rng.uniform(-3, 2)
        s = x * rng.uniform(0.4, 3)
        m1, m2 = rng.uniform(0, 1.2), rng.choice([0.0, rng.uniform(0, 0.8)])
        a0 = rng.choice([0.0, rng.uniform(0, 0.8)])
        n = 6000
        share = rng.dirichlet([0.3] * 6, size=n) * (x + s) * rng.choice([1, 0.9], size=(n, 1))
        sizes = share[:, :4].copy()
        even = rng.random(n) < 0.7
        sizes[even, 0:2] = sizes[even, 0:2].mean(axis=1, keepdims=True)
        sizes[even, 2:4] = sizes[even, 2:4].mean(axis=1, keepdims=True)
        level = rng.random(n) < 0.4
        sizes[level] = sizes[level].mean(axis=1, keepdims=True)
        gE, gF = np.sqrt(sizes[:, 0] * sizes[:, 1]), np.sqrt(sizes[:, 2] * sizes[:, 3])
        a = share[:, 4] * (rng.random(n) < 0.7)
        y = x * rng.choice([0.0, 1.0, 0.5], size=n)
        part = rng.choice([0.0, 1.0, 0.7], size=n) ** 2
        for klass in closest:
            C = part * (np.minimum(gE, gF) if klass == "once" else gE) ** 2
            p, P = np.sqrt(C), np.sqrt(C + a + y)
            first = np.minimum(P * P, gE * (P + p) - SHARP * p * P)
            if klass == "once":
                second = np.minimum(P * P, gF * (P + p) - SHARP * p * P)
                work = first + second - m1 * (y + C) + m2 * (a - y)
                cap = float(caps.once_cap(x, s, m1, m2))
            else:
                fee = min(m1, 2 - a0)
                rise = min(m2, float(caps.largest_m2(x, s, a0, fee)))
                second = np.minimum(P * P, gF * P)
                work = (a0 + fee) * first + (2 - a0) * second - fee * (y + C) + rise * (a - y)
                cap = float(caps.recompute_cap(x, s, a0, fee, rise))
            ratio = float(work.max()) / cap
            closest[klass] = max(closest[klass], ratio)
            require(ratio <= 1 + 1e-9, f"{klass}: x = {x}, s = {s}: {ratio} of the cap")
    require(min(closest.values()) > 0.9, f"the shapes tried reach only {closest} of the caps")
    return "400 points, 6000 shapes each, seed 4"


# ---------------------------------------------------------------- Theorems 1 to 3


def _over(r: Any, faces: list[tuple[list[Any], Any]], cap: Any, least: Fraction) -> None:
    for where, value in faces:
        unsat(r > 0, r * r >= _q(least), *where, value > cap)


@step(
    "four-once",
    how="proved",
    says="Theorem 2: for S = M ≥ (5/2)d² every face of Lemma 6 is at most (2 − m1)x²/4",
)
def four_once() -> str:
    """With r = √x, T = 2x, A = 3x; then S·W/c = 4Πd²/M."""
    import sympy
    import z3

    m1, m2 = map(_q, ONCE)
    r, P, u = z3.Reals("r P u")
    x = r * r
    T, A, cap = 2 * x, 3 * x, (2 - m1) * x * x / 4
    faces = [
        ([P >= 0, P * P <= T], (T - P * P) * P / 2 + m2 * P * P),
        ([P >= T / 4, P <= r], T * P / 2 - (m1 + m2) * P * P),
        (
            [P >= r, P * P <= A, (P + 2) * (P + 2) >= 4 + A],
            (A - P * P) * P / 2 + m2 * P * P - (m1 + 2 * m2) * x,
        ),
    ]
    _over(r, faces, cap, FROM["once"])
    off = (u - x / 2) * (u - x / 2)  # (u − T/4)²
    mixed = x * u**3 - (2 + m1) * u**4 / 4 + (2 - m1) * x * x / 4 - (m1 / 2 + m2) * x * u * u
    low = z3.Or(T <= 4 * r, z3.And(u >= x / 2, off >= x * x / 4 - x))
    unsat(r > 0, x >= _q(FROM["once"]), u >= r, low, off <= x * x / 4 + x, mixed > cap * u * u)
    Pi, d, M, m = sympy.symbols("Pi d M m", positive=True)
    X = M / d**2
    identity(M * (2 - m) * Pi * d / ((2 - m) * X**2 / 4 * d**3), CONSTANT * Pi * d**2 / M)
    return "all reals M/d² ≥ 5/2"


@step(
    "four-recompute",
    how="proved",
    says="Theorem 2: for S = M ≥ (9/2)d² every face of Lemma 7 is at most x²/2",
)
def four_recompute() -> str:
    """a0 = 0, so that b = m1 and γ = 2; then S·W/c = 4Πd²/M."""
    import sympy
    import z3

    b, m2 = map(_q, RECOMPUTE)
    r, P, u = z3.Reals("r P u")
    x = r * r
    T, A, cap, least = 2 * x, 3 * x, x * x / 2, FROM["recompute"]

    def at_least(z: Any, by: int) -> Any:  # P ≥ √(by² + z) − by
        return (P + by) * (P + by) >= by * by + z

    def at_most(z: Any, by: int) -> Any:
        return (P + by) * (P + by) <= by * by + z

    start, both = (b + 2 * m2) * x, (b + m2) * x
    up = P >= 0
    faces: list[tuple[list[Any], Any]] = [
        ([], m2 * T),
        ([P >= T / 4, P <= T / 2], -2 * P * P + T * P),
        ([up, P * P <= T, at_least(T, 1)], (T - P * P) * P + m2 * P * P),
        ([P >= T / 2, P <= r], T * P - (b + m2) * P * P),
        ([P >= r, at_least(A, 1), P * P <= A], (A - P * P) * P + m2 * P * P - start),
        ([up, at_least(T, 2), at_most(T, 1)], -(P**3) + (b + m2 - 2) * P * P + T * P),
        ([up, P * P <= T, at_least(T, 1)], b * (T - P * P) * P / 2 + m2 * P * P),
        ([P >= T / 2, P <= r], b * T * P / 2 - (b + m2) * P * P),
        ([P >= r, at_least(A, 1), P * P <= A], b * (A - P * P) * P / 2 + m2 * P * P - start),
        (
            [up, at_least(T, 2), at_most(T, 1)],
            -b * P**3 / 2 + (2 - b + m2) * P * P + b * T * P / 2,
        ),
        ([P >= T / 4, P <= r, P <= T / 2], (2 - 2 * b - m2) * P * P + b * T * P / 2),
        (
            [P >= r, at_least(A, 2), at_most(A, 1)],
            -b * P**3 / 2 + (2 - b + m2) * P * P + b * A * P / 2 - start,
        ),
    ]
    _over(r, faces, cap, least)
    square, off = u * u, (u - x) * (u - x)
    quarter = (u - x / 2) * (u - x / 2)
    mixed: list[tuple[list[Any], Any]] = [
        (
            [u >= r, u >= x, off <= x * x + x],
            x * u**3 - u**4 / 2 + x * x / 2 + x * x * u - both * square,
        ),
        (
            [u >= r, z3.Or(x <= r, z3.And(u >= x, off >= x * x - x)), off <= x * x + x],
            b * x * u**3 - b * u**4 / 2 - (both - b * x / 2) * square,
        ),
        (
            [u >= r, u <= x, z3.Or(x <= 2 * r, z3.And(u >= x / 2, quarter >= x * x / 4 - x))],
            b * x * u**3 - (4 * b - 2) * u**4 / 4 + x * x / 2 - (both - x) * square,
        ),
    ]
    _over(r, mixed, cap * square, least)
    # The conditions of Lemma 7.
    unsat(r > 0, x >= _q(least), P >= 0, at_least(T, 2), m2 > P)
    require(sum(RECOMPUTE) <= 2, "m1 + m2 > 2 − a0")
    Pi, d, M = sympy.symbols("Pi d M", positive=True)
    identity(M * 2 * Pi * d / ((M / d**2) ** 2 / 2 * d**3), CONSTANT * Pi * d**2 / M)
    return "all reals M/d² ≥ 9/2"


@step(
    "few-segments",
    how="proved",
    says="Theorem 2: where one segment may do all, 4Πd²/M ≤ 4HNd",
)
def few_segments() -> str:
    """W ≤ cd³ reads M² ≥ 4Πd² in both classes, with Π = HN²."""
    import z3

    M, N, d, h = z3.Reals("M N d h")  # H = h² ≥ 1
    bound = CONSTANT * h * h * N * N * d * d
    unsat(M > 0, N > 0, d > 0, h >= 1, M >= 2 * h * N * d, bound > 4 * h * h * N * d * M)
    return "all reals M, N, d > 0 and H ≥ 1"


@step(
    "small-memory",
    how="proved",
    says="Theorem 3, leading order: x^(3/2) at y = 0 and y = x; an inequality for a = 0; 4Πd/√M",
)
def small_memory() -> str:
    """With δ = 0, γ = 1, r = √x; at a = 0 only m1/√x = (4/3)^(3/2) − 1 < 3/4: ℓ rises with y."""
    import sympy

    r, P = sympy.symbols("r P", positive=True)
    x = r**2
    m1 = (sympy.Rational(4, 3) ** sympy.Rational(3, 2) - 1) * r
    for words, charge in ((3 * x, 0), (4 * x, m1 * x)):
        value = (words - P**2) * P / 2 - charge
        top = sympy.sqrt(words / 3)
        identity(sympy.simplify(sympy.diff(value, P).subs(P, top)), 0)
        identity(sympy.simplify(value.subs(P, top) - r**3), 0)
        identity(sympy.diff(value, P, 2), -3 * P)
    require(sympy.Rational(4, 3) ** 3 < (1 + sympy.Rational(3, 4)) ** 2, "m1 is too large")
    Pi, d = sympy.symbols("Pi d", positive=True)
    identity(2 * x * d**2 * 2 * Pi * d / (r**3 * d**3), CONSTANT * Pi * d / (r * d))
    return "all reals x > 0; the remainders O(√x) are by hand"


@step(
    "stays",
    how="exhaustive",
    says="Section 7, remark: a sum made by any tree in J stays costs 2J − 1 transfers or more",
)
def stays() -> str:
    """All sequences of stays, by the number of partial sums that wait in slow memory.

    A stay loads some of them, has products or not, merges as it likes, and stores what it keeps.
    The sum is done when one word is left in slow memory; a single accumulator costs 2J − 1 then.
    """
    cases = 0
    states = {(0, 0, 0): 1}  # waiting, stays with products, cost → ways
    for length in range(1, 8):
        after: dict[tuple[int, int, int], int] = {}
        for (waiting, J, cost), ways in states.items():
            for loads, product in itertools.product(range(waiting + 1), (0, 1)):
                for stores in range(1, loads + product + 1):
                    key = (waiting - loads + stores, J + product, cost + loads + stores)
                    after[key] = after.get(key, 0) + ways
        states = after
        cases += sum(states.values())
        for waiting, J, cost in states:
            require(waiting != 1 or cost >= STAY * J - 1, f"{J} of {length} stays cost {cost}")
        least = min(cost for waiting, J, cost in states if waiting == 1 and length == J)
        require(least == STAY * length - 1, f"{length} stays cost {least} at least")
    return f"up to 7 stays, {cases} sequences"


def _climb(klass: str, x: float, rng: np.random.Generator) -> float:
    """The most charged work that a multistart search over all sizes finds, as a share of the cap.

    Sizes are q, k, o, v, a, y, C; C and y are cut to their limits, and the words scaled to T.
    """
    at = np.array([x])
    if klass == "once":
        ratio, m1, m2 = (float(z[0]) for z in unified.once(at))
        a0, s = 0.0, ratio * x
        cap = float(caps.once_cap(x, s, m1, m2))
    else:
        ratio, a0, m1, m2 = (float(z[0]) for z in unified.recompute(at))
        s = ratio * x
        m2 = min(m2, float(caps.largest_m2(x, s, a0, m1)))
        cap = float(caps.recompute_cap(x, s, a0, m1, m2))

    def value(z: Any) -> Any:
        words = z[:, :5] * ((x + s) / z[:, :5].sum(axis=1, keepdims=True))
        q, k, o, v, a = words.T
        g, f, y = np.sqrt(q * k), np.sqrt(o * v), np.minimum(z[:, 5], x)
        C = np.minimum(z[:, 6], g**2 if klass == "recompute" else np.minimum(g, f) ** 2)
        p, P = np.sqrt(C), np.sqrt(C + a + y)
        first = np.minimum(P * P, g * (P + p) - SHARP * p * P)
        if klass == "recompute":
            work = (a0 + m1) * first + (2 - a0) * np.minimum(P * P, f * P)
        else:
            work = first + np.minimum(P * P, f * (P + p) - SHARP * p * P)
        return work - m1 * (y + C) + m2 * (a - y)

    n = 300
    z = np.exp(rng.normal(0, 2, (n, 7))) * np.array([x] * 6 + [x * x])
    z[: n // 2, 1], z[: n // 2, 3] = z[: n // 2, 0], z[: n // 2, 2]
    best = value(z)
    for round_ in range(400):
        width = 0.985**round_
        move = np.exp(width * rng.normal(size=(n, 7)) * (rng.random((n, 7)) < 0.4))
        trial = z * move
        even = rng.random(n) < 0.5
        trial[even, 1], trial[even, 3] = trial[even, 0], trial[even, 2]
        found = value(trial)
        better = found > best
        z[better], best[better] = trial[better], found[better]
        if round_ in (100, 200, 300):  # the worse half begins anew from the better
            order = np.argsort(best)
            z[order[: n // 2]], best[order[: n // 2]] = z[order[-n // 2 :]], best[order[-n // 2 :]]
    return float(best.max()) / cap


@step(
    "caps-against-search",
    how="sampled",
    says="Lemmas 6 and 7: at the table's multipliers a search over all sizes stays below the caps",
)
def caps_against_search() -> str:
    """Random multistart with shrinking moves; it comes close, so that the caps are sharp."""
    rng = np.random.default_rng(7)
    least = {"once": 1.0, "recompute": 1.0}
    for x in 10 ** rng.uniform(-2.5, 1.5, 30):
        for klass in least:
            ratio = _climb(klass, float(x), rng)
            least[klass] = min(least[klass], ratio)
            require(ratio <= 1 + 1e-9, f"{klass}: x = {x}: the search finds {ratio} of the cap")
    require(min(least.values()) > 0.97, f"the search reaches only {least} of the caps")
    return f"30 points, 300 starts each, seed 7: at least {min(least.values()):.4f} of the cap"


@step(
    "evaluator",
    how="sampled",
    says="the bound, made again in exact fractions from its certificate; two faces (`once`)",
)
def evaluator() -> str:
    """Each certificate's cap dominates its faces at rational points, and its words follow."""
    rng = random.Random(5)
    for _ in range(300):
        klass = rng.choice(["once", "recompute"])
        N, d = rng.randint(1, 2**18), rng.randint(1, 256)
        M = max(3, round(d * d * 10 ** rng.uniform(-3, 1)))
        proof = unified.certificate(N, d, M, klass=klass)
        weight, cap = Fraction(proof.weight), Fraction(proof.cap)
        exact = Fraction(proof.segment) * (weight * N * N * d / (cap * d**3) - 1) + M
        require(Fraction(proof.words) <= exact, f"{proof}: rounded up")
        require(float(exact) - proof.words <= 1e-8 * (float(exact) + M), f"{proof}: far below")
        if weight * N * N > cap * d * d:
            value = unified.lower_bound(N, d, M, klass=klass)
            require(value >= proof.words, f"{proof}: the bound is {value}")
        x, s = Fraction(M, d * d), Fraction(proof.segment, d * d)
        if klass == "once":
            m1, m2 = map(Fraction, proof.multipliers)
            T = x + s
            for at in range(1, 40):
                # faces "inside" and "paid" at rational points, by exact comparison
                P = Fraction(at, 20) * Fraction(float(T) ** 0.5)
                if P * P <= T and P * P + 4 * P >= T:
                    paid = (T - P * P) * P / 2 + m2 * P * P
                    require(paid <= cap * (1 + Fraction(1, 10**10)), f"{proof}: face paid")
            require((2 - m1) * T * T / 16 <= cap * (1 + Fraction(1, 10**10)), f"{proof}: inside")
    return "300 certificates, seed 5"
