"""The inequalities of Theorems 2 to 4."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not reversed)

from __future__ import annotations

from iosim.report.proof import identity, step, unsat

from . import constants


@step("inner-pairs", how="proved", says="Theorem 2: 4δw ≤ αβ for an inner pair, all d and d_v")
def inner_pairs() -> str:
    """V alone: f products; with Q and K: y of V and K, g of Q."""
    import z3

    d, d_v, f, y, g = z3.Reals("d d_v f y g")
    least = z3.If(d <= d_v, d, d_v)
    four = 2 * (d + least)
    sizes = [d > 0, d_v > 0]
    inner = constants.INNER
    unsat(*sizes, 0 <= f, f <= d_v, four * f > inner * (d + f) * (d + f))
    rows, columns = d + d_v + g, d + d_v + y
    unsat(*sizes, 0 <= g, g <= d, 0 <= y, y <= d + d_v, four * (y + g) > inner * rows * columns)
    return "all reals d, d_v > 0, 0 ≤ f ≤ d_v, 0 ≤ g ≤ d, 0 ≤ y ≤ d + d_v"


@step("excess", how="proved", says="Theorem 2: w ≤ αβ/4δ + δ where w ≤ α and w ≤ β")
def excess() -> str:
    """Completing a square."""
    import z3

    mean, w, alpha, beta = z3.Reals("mean w alpha beta")
    most = alpha * beta + 4 * constants.EXCESS * mean * mean
    unsat(mean > 0, 0 <= w, w <= alpha, w <= beta, 4 * mean * w > most)
    return "all reals δ > 0, 0 ≤ w ≤ α, β"


@step(
    "free-starts", how="proved", says="Theorem 2: the charged work is largest without free starts"
)
def free_starts() -> str:
    """h² = a, k² = a + y, δ = 1: min(k², kU/2) − y ≤ min(h², hU/2)."""
    import z3

    h, k, U = z3.Reals("h k U")

    def most(root: z3.ArithRef) -> z3.ArithRef:
        return z3.If(root * root <= root * U / 2, root * root, root * U / 2)

    unsat(0 <= h, h <= k, U >= 0, most(k) - (k * k - h * h) > most(h))
    return "all reals U ≥ 0 and 0 ≤ a ≤ a + y"


@step("largest-work", how="proved", says="Theorem 2: a segment's charged work is at most T²/16δ")
def largest_work() -> str:
    """δ = 1 and a = h²: both branches, for T ≥ 2·WHOLE."""
    import z3

    h, T = z3.Reals("h T")
    U = T - h * h
    enough = [T >= 2 * constants.WHOLE, h >= 0, U >= 0]
    # h ≤ U/2: all of z pays; otherwise Loomis and Whitney's inequality.
    unsat(*enough, h <= U / 2, U * U / 16 + 2 * h * h > T * T / 16)
    unsat(*enough, h >= U / 2, U * U / 16 + h * U / 2 + h * h > T * T / 16)
    return f"all reals T ≥ {2 * constants.WHOLE} and 0 ≤ a ≤ T"


@step("kinds", how="proved", says="Theorem 3: weights of inner kinds and of one crossing kind")
def kinds() -> str:
    """κ = 1/L; weights s of S and V, r of P, Q and K, all times L; e·L = (rL)²/4·LOSS."""
    import z3

    d, d_v, n, y, w = z3.Reals("d d_v n y w")
    both, sizes = d + d_v, [d > 0, d_v > 0]
    rows = d + both
    of_delta = both * (d + rows)  # W_δ·L, and rL = of_delta/rows
    unsat(*sizes, both * both + of_delta != 2 * both * rows)
    unsat(*sizes, of_delta > rows * rows)
    excess = constants.LOSS * of_delta * of_delta  # 4e·L·rows²
    scale = 4 * rows * rows
    # One kind alone, with w products: s ≤ r, and a square.
    unsat(*sizes, both * rows > of_delta)
    unsat(*sizes, w >= 0, scale * w * (of_delta - rows * w) > excess * rows)
    # σ inner, δ crossing: n of dQ, y of V and dK.
    words = (both + n) * (both + y)
    part = scale * (both * both - words) + 4 * rows * of_delta * (n + y)
    unsat(*sizes, 0 <= n, n <= d, 0 <= y, y <= both, part > excess)
    # δ inner, σ crossing: w of dV.
    part = scale * (of_delta + both * (d + w) - rows * (rows + w))
    unsat(*sizes, 0 <= w, w <= d_v, part > excess)
    return "all reals d, d_v > 0 and all numbers of words up to whole rows"


@step("both-kinds", how="proved", says="Theorem 3: a pair both of whose kinds cross: G − AB ≤ 2E")
def both_kinds() -> str:
    """a, b, c, u, w for S, Q, K, P, V; A and B words of the row and the column; ς = s/r ≤ 1."""
    import z3

    a, b, c, u, w, A, B, share, G = z3.Reals("a b c u w A B share G")
    touched = [x >= 0 for x in (a, b, c, u, w)]
    touched += [A >= x + b + y for x in (a, c) for y in (u, w)]
    touched += [B >= x + c + u + w for x in (a, b)]
    work = share * (a + w) + b + c + u
    shares = [share >= 0, share <= 1]
    caps = [((1 + share), A), ((1 + share), B), ((2 + share) / 4, A + B)]
    for slope, words in caps:
        unsat(*touched, *shares, work > slope * words)
    most = constants.BOTH * (1 + share) * (1 + share) * (2 + share)
    limits = [G <= slope * words for slope, words in caps]
    unsat(*shares, A >= 0, B >= 0, *limits, 4 * (2 + 3 * share) * (G - A * B) > most)
    return "all nonnegative numbers of products and words, 0 ≤ ς ≤ 1"


@step("from-T", how="proved", says="Theorem 3: from its T on the charged work is at most T²/4L")
def from_T() -> str:
    """ν, υ, τ for √a, U and T in units of rL; q = 1/√(4 − ς²), μ as in the text."""
    import z3

    share, nu, up, q, mu = z3.Reals("share nu up q mu")
    # μ ≤ 4q² on the shares that there are, 2/3 to 1.
    most = (1 + share) * (1 + share) * (2 + share) * (4 - share * share)
    unsat(3 * share >= 2, share <= 1, most > 8 * (2 + 3 * share))
    unsat(3 * share >= 2, share <= 1, 4 - share * share > 4)
    sizes = [nu >= 0, up >= 0, q > 0, mu > 0, mu <= 4 * q * q]
    far = nu * nu / 2 + mu * nu / (4 * q) >= constants.FROM * mu
    work = mu * nu / 4 + q * up
    unsat(*sizes, mu * nu >= 4 * q * up, far, work > up * nu / 2 + nu * nu * nu / 4)
    # At the border of the two branches, and the printed 5.43d².
    unsat(*sizes, mu * nu == 4 * q * up, far, up**2 / 4 + mu * nu**2 / 2 > (up + nu**2) ** 2 / 4)
    unsat(up > 0, 256 * up * up + 110 * up == 110, 64 * (2 - up) > 9 * 2 * z3.Q(543, 100))
    return "all reals a and U, 2/3 ≤ ς ≤ 1"


@step("two-trees", how="proved", says="Lemma 1: weighted work is at most hU/2·√(P_σ² + P_δ²)")
def two_trees() -> str:
    """Squares, for the path dK-q-k-dQ and the star v-dO-dV; words are the squares of z's."""
    import sympy

    R, A, z1, z2, z3, z4, s, r = sympy.symbols("R A z1 z2 z3 z4 s r", positive=True)
    D = sympy.sqrt(R**2 - A**2)
    h = 2 * r**2 / sympy.sqrt(4 * r**2 - s**2)
    path = 2 * (constants.STEEP * s * z1 * z2 * A + r * (z1 * z3 + z2 * z4) * D)
    squares = (
        h * R * (z3 - r * D * z1 / (h * R)) ** 2
        + h * R * (z4 - r * D * z2 / (h * R)) ** 2
        + (h * R - r**2 * D**2 / (h * R)) * (z1 - z2) ** 2
        + 2 * z1 * z2 * (r * A - s * h * R / (2 * r)) ** 2 / (h * R)
    )
    identity(h * R * (z1**2 + z2**2 + z3**2 + z4**2), path + squares)
    star = R * (z1**2 + z2**2 + z3**2) - 2 * z1 * (z2 * A + z3 * D)
    identity(star, R * (z1 - (z2 * A + z3 * D) / R) ** 2 + (z2 * D - z3 * A) ** 2 / R)
    # h ≥ r, as the star needs it and hR ≥ r²D²/hR; and h = 1 in Theorem 4.
    identity(h**2 - r**2, r**2 * s**2 / (4 * r**2 - s**2))
    half = sympy.sqrt(3) / 2
    identity(h.subs({s: half, r: half}), 1)
    return "all nonnegative numbers of words, 0 ≤ s < 2r"


@step(
    "charged-products", how="proved", says="Theorem 4: (T − a)√N/2 − m(N − a) ≤ the larger of two"
)
def charged_products() -> str:
    """Affine in a at fixed N; both ends, with N = n² and T = 3t²."""
    import sympy

    T, a, n, m, t = sympy.symbols("T a n m t", positive=True)
    ell = (T - a) * n / 2 - m * (n**2 - a)
    identity(sympy.diff(ell, a, 2), 0)
    identity(T**2 / (16 * m) - ell.subs(a, 0), m * (n - T / (4 * m)) ** 2)
    most = constants.ROOT * t**3
    identity(most - ell.subs(a, n**2).subs(T, 3 * t**2), (t - n) ** 2 * (2 * t + n) / 2)
    return "all reals T, m > 0 and 0 ≤ a ≤ N"
