"""Lemmas 6 and 7: the most charged work of a segment, face by face."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not reversed)

from __future__ import annotations

from typing import Any

import numpy as np

from iosim.bounds.unified import caps
from iosim.report.proof import identity, require, step, unsat

from . import constants


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
    for _ in range(constants.SHAPES):
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
            first = np.minimum(P * P, gE * (P + p) - constants.SHARP * p * P)
            if klass == "once":
                second = np.minimum(P * P, gF * (P + p) - constants.SHARP * p * P)
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
    return f"{constants.SHAPES} points, 6000 shapes each, seed 4"
