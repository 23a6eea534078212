"""Upper bounds from the exact formulas of the schedules themselves: see upper_bounds.md."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not reversed)

from __future__ import annotations

import itertools
from math import isqrt
from typing import Any

from iosim.bounds import bound
from iosim.core.problem import Attention
from iosim.report.proof import identity, require, step, unsat

# words ≤ FLASH2·N²d²/M, words ≤ FLASH1·N²d²/M, words ≤ SMALL·N²d/√M
FLASH2 = 34
FLASH1 = 40
SMALL = 34


def _formula(name: str) -> tuple[Any, Any, Any]:
    """Total words and peak of a schedule, derived from its program, and the symbol maker."""
    import iosim
    from iosim.core.counting.symbols import count, sym

    formula = count(iosim.algorithm(name).program)
    return formula.total_words, formula.peak_words, sym


def _over_reals(expression: Any, values: dict[Any, Any]) -> Any:
    """A polynomial in sympy symbols as a z3 term, symbol by symbol."""
    import sympy

    require(expression.free_symbols <= set(values), f"{expression.free_symbols} are not all given")
    symbols = list(values)
    return sympy.lambdify(symbols, sympy.expand(expression), "math")(*values.values())


@step(
    "flash2-formula",
    how="proved",
    says="Lemma 1: Q outside, K/V inside: heads(2Nd + 2⌈N/B_r⌉Nd) words, peak 2B_r·d + 3B_r + d",
)
def flash2_formula() -> str:
    """The formula derived from the program, with B_c = 1, against the closed form."""
    import sympy

    total, peak, sym = _formula("flash2")
    N, d, heads, B_r, B_c = (sym(x) for x in ("N", "d", "heads", "B_r", "B_c"))
    identity(total, heads * (2 * N * d + 2 * sympy.ceiling(N / B_r) * N * d))
    identity(peak.subs(B_c, 1), 2 * B_r * d + 3 * B_r + d)
    return "all N, d, heads and tiles, ragged ones included"


@step(
    "flash2-order",
    how="proved",
    says="Theorem 1: with B_r = min(N, ⌊(M−d)/(2d+3)⌋), words ≤ 34·heads·N²d²/M for 3d+3 ≤ M ≤ Nd",
)
def flash2_order() -> str:
    """In three moves: the tile is at least M/15d, ⌈N/B⌉ < N/B + 1, and Nd ≤ N²d²/M."""
    import sympy
    import z3

    total, peak, sym = _formula("flash2")
    N, d, heads, B_r, B_c = (sym(x) for x in ("N", "d", "heads", "B_r", "B_c"))
    n, e, h, B, c, M, x = z3.Reals("n e h B c M x")
    # (a) the tile fits
    fits = _over_reals(peak.subs(B_c, 1), {d: e, B_r: B})
    unsat(e >= 1, B >= 1, B * (2 * e + 3) <= M - e, fits > M)
    # (b) B > x − 1 and B ≥ 1 give B ≥ x/2, with x = (M − d)/(2d + 3) ≥ 2M/15d
    unsat(B >= 1, B > x - 1, 2 * B < x)
    unsat(e >= 1, M >= 3 * e + 3, x * (2 * e + 3) == M - e, 15 * e * x < 2 * M)
    # (c) the count, with ⌈N/B⌉ replaced by c < N/B + 1; or B = N, and c = 1
    ceiling = sympy.Symbol("c")
    count = total.subs(sympy.ceiling(N / B_r), ceiling)
    words = _over_reals(count, {N: n, d: e, heads: h, ceiling: c})
    # Linear in the products p = N²d²h/M, s = Ndh and r = N²dh/B.
    p, s, r = z3.Reals("p s r")
    unsat(h >= 1, n >= 1, e >= 1, B >= 1, c * B < n + B, words * B > h * n * e * (4 * B + 2 * n))
    unsat(s <= p, r <= 15 * p, 4 * s + 2 * r > FLASH2 * p)
    unsat(s <= p, s >= 0, 4 * s > FLASH2 * p)
    unsat(h >= 1, n >= 1, e >= 1, M > 0, M <= n * e, s == n * e * h, p * M == s * n * e, s > p)
    unsat(
        h >= 1,
        n >= 1,
        e >= 1,
        M > 0,
        B > 0,
        15 * e * B >= M,
        r * B == n * n * e * h,
        p * M == n * n * e * e * h,
        r > 15 * p,
    )
    return "all reals N, d, heads ≥ 1 and 3d + 3 ≤ M ≤ Nd"


@step(
    "flash1-order",
    how="proved",
    says="Theorem 2: FlashAttention, B_c = ⌈M/4d⌉, words ≤ 40·heads·N²d²/M, peak ≤ M + 6d, M ≤ Nd",
)
def flash1_order() -> str:
    """The derived formula is heads(3Nd + 2N + ⌈N/B_c⌉(3Nd + 4N))."""
    import sympy
    import z3

    total, peak, sym = _formula("flash1")
    N, d, heads, B_r, B_c = (sym(x) for x in ("N", "d", "heads", "B_r", "B_c"))
    c = sympy.Symbol("c")
    count = total.subs(sympy.ceiling(N / B_c), c)
    identity(count, heads * (3 * N * d + 2 * N + c * (3 * N * d + 4 * N)))
    n, e, h, r, B, M, k = z3.Reals("n e h r B M k")
    top = _over_reals(peak, {d: e, B_r: r, B_c: B})
    unsat(e >= 1, M > 0, r >= 1, B >= 1, r <= e, r <= B, 4 * e * B <= M + 4 * e, top > M + 6 * e)
    words = _over_reals(count, {N: n, d: e, heads: h, c: k})
    # k ≤ 4Nd/M + 1; d ≥ 1, so N ≤ Nd: at most heads(5Nd + (4Nd/M + 1)·7Nd) = heads·Nd(12 + 28Nd/M)
    y = z3.Real("y")  # Nd/M ≥ 1
    unsat(h >= 1, n >= 1, e >= 1, k >= 0, y >= 1, k <= 4 * y + 1, words > h * n * e * (12 + 28 * y))
    unsat(y >= 1, 12 + 28 * y > FLASH1 * y)
    return "all reals N, d, heads ≥ 1 and 0 < M ≤ Nd"


@step(
    "small-cache-formula",
    how="proved",
    says="Lemma 2: square tiles: heads(3Nd⌈N/B⌉ + N²⌈d/B⌉ + N² + Nd) words, peak 3B² + 2B",
)
def small_cache_formula() -> str:
    """The two-pass program with all tiles equal and no resident columns of Q."""
    import sympy

    total, peak, sym = _formula("small_cache")
    N, d, heads = (sym(x) for x in ("N", "d", "heads"))
    B = sympy.Symbol("B", integer=True, positive=True)
    names = ("B_r1", "B_c1", "B_d1", "B_r2", "B_c2", "B_d2")
    square = {sym(x): B for x in names} | {sym("W1", least=0): 0}
    ceiling = sympy.ceiling
    want = 3 * N * d * ceiling(N / B) + N**2 * ceiling(d / B) + N**2 + N * d
    identity(total.subs(square), heads * want)
    wide = 2 * B + sympy.Symbol("extra", integer=True, nonnegative=True)  # d ≥ B: a full tile
    require(
        sympy.simplify(peak.subs(square).subs(d, wide).doit() - (3 * B**2 + 2 * B)) == 0,
        "the peak is not 3B² + 2B",
    )
    return "all N, heads and tiles B with d ≥ 2B, ragged ones included"


@step(
    "small-cache-order",
    how="proved",
    says="Theorem 3: with B = ⌊√(M/4)⌋, words ≤ 34·heads·N²d/√M for 5 ≤ M ≤ min(d², N²)",
)
def small_cache_order() -> str:
    """B ≥ √M/4, ⌈N/B⌉ ≤ 2N/B, ⌈d/B⌉ ≤ 2d/B, N² ≤ N²d/√M and Nd ≤ N²d/√M; w = √M."""
    import z3

    n, e, h, B, c, k, w, y = z3.Reals("n e h B c k w y")
    b = z3.Int("b")
    unsat(b >= 2, 3 * b * b + 2 * b > 4 * b * b)  # the tile fits: 4B² ≤ M; and 5 ≤ M if B = 1
    unsat(B >= 1, B > y - 1, 2 * B < y)  # B > y − 1 with y = √M/2 gives B ≥ √M/4
    for size in (n, e):  # w ≤ N and w ≤ d; B ≤ w/2
        unsat(w >= 2, B >= 1, 2 * B <= w, w <= size, c * B < size + B, c * B > 2 * size)
    # words·B ≤ h(8N²d + (N² + Nd)B)
    unsat(
        h >= 1,
        n >= 1,
        e >= 1,
        B >= 1,
        c >= 0,
        k >= 0,
        c * B <= 2 * n,
        k * B <= 2 * e,
        3 * n * e * c * B + n * n * k * B > 8 * n * n * e,
    )
    # 8N²d/B ≤ 32N²d/√M and the two others are at most N²d/√M each
    f, p, q, r = z3.Reals("f p q r")  # N²d/√M, N²d/B, N², Nd
    unsat(f >= 0, p <= 4 * f, q <= f, r <= f, 8 * p + q + r > SMALL * f)
    unsat(
        n >= 1, e >= 1, w > 0, B > 0, 4 * B >= w, f * w == n * n * e, p * B == n * n * e, p > 4 * f
    )
    unsat(n >= 1, e >= 1, w > 0, w <= e, f * w == n * n * e, n * n > f)
    unsat(n >= 1, e >= 1, w > 0, w <= n, f * w == n * n * e, n * e > f)
    return "all reals N, d, heads ≥ 1 and 5 ≤ M ≤ min(d², N²)"


def square_tiling(N: int, d: int, M: int) -> int:
    """Words of Saha and Ye's Algorithm 1, line by line, ragged blocks included."""
    B = isqrt(M // 4)

    def blocks(n: int) -> list[int]:
        return [min(B, n - at) for at in range(0, n, B)]

    words = 0
    for r in blocks(N):
        for c in blocks(N):
            for x in blocks(d):
                words += r * x + x * c  # read Q and K
            words += r * c  # write A
        words += r  # write the row sums
    for r in blocks(N):
        words += r  # read the row sums
        for x in blocks(d):
            for c in blocks(N):
                words += r * c + c * x  # read A and V
            words += r * x  # write O
    return words


@step(
    "catalogue-counts",
    how="exhaustive",
    says="The catalogue's exact upper bounds are the counts of the algorithms that they name",
)
def catalogue_counts() -> str:
    """Saha and Ye's Algorithm 1 executed; AttenIO's closed form never above its count."""
    import iosim

    cases = 0
    tiles, closed, counted = (
        bound(x) for x in ("saha-ye-square-tiles", "attenio-closed-form", "attenio")
    )
    for N, d, M in itertools.product(range(1, 14), range(1, 10), range(4, 90, 3)):
        problem = Attention(N, d)
        require(tiles.words(problem, M) == square_tiling(N, d, M), f"{problem}, M = {M}")
        if counted.applies(problem, M):
            a = min(N, (M - d) // (2 * d + 4))
            instance = iosim.bind(
                iosim.algorithm("flash2").program, problem.sizes, {"B_r": a, "B_c": 1}
            )
            words = iosim.count(instance).total_words
            require(counted.words(problem, M) == words, f"AttenIO, {problem}, M = {M}")
            require(iosim.peak(instance) <= M, f"AttenIO, {problem} needs more than {M}")
            if closed.applies(problem, M):
                tight = (M - d) % (2 * d + 4) == 0 and N % a == 0
                value = closed.exact(problem, M)
                require(value == words if tight else value <= words, f"closed form, M = {M}")
        cases += 1
    return f"N ≤ 13, d ≤ 9, M < 90 in steps of 3: {cases} cases"
