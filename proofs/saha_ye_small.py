"""Saha and Ye's bound for M < d², with its constants: see saha_ye_small.md."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not reversed)

from __future__ import annotations

import itertools

from iosim.report.proof import identity, require, step, unsat

# loads + stores ≥ heads·(LEADING·N²d/√M − N² + 2Nd) − LOST·M
LEADING = 2
LOST = 1


@step(
    "reduction",
    how="proved",
    says="Conclusion, given matmul_tight: loads + stores ≥ heads(2N²d/√M − N² + 2Nd) − M",
)
def reduction() -> str:
    """Loads of Q, K and scores by segments, fresh accumulators granted; then V and O."""
    import z3

    N, d, w, heads = z3.Reals("N d w heads")
    F, segs, paid, fresh, loads_V, stores = z3.Reals("F segs paid fresh loads_V stores")
    M = w * w
    unsat(
        N >= 1,
        d >= 1,
        heads >= 1,
        w > 0,
        segs >= 2,
        F == heads * N * N * d,
        segs * w * M >= F,  # Lemma 3 of matmul_tight
        paid + fresh >= M + 2 * M * (segs - 1),  # the first segment has M loads more
        fresh <= heads * N * N,
        loads_V >= heads * N * d,
        stores >= heads * N * d,
        (paid + loads_V + stores) * w
        < heads * (LEADING * N * N * d - N * N * w + 2 * N * d * w) - LOST * M * w,
    )
    # One segment: F ≤ M^{3/2}; T = heads(2Nd + N²) loads of Q, K and zeros, 27F² ≤ T³.
    T, t, u, v = z3.Reals("T t u v")
    unsat(u >= 0, v >= 0, t == 2 * u + v, 27 * u * u * v > t * t * t)  # u = Nd, v = N²
    c = z3.Real("c")  # t³; with F² = heads²u²v: 27F² ≤ heads²·t³ ≤ heads³·t³ = T³
    unsat(heads >= 1, c >= 0, heads * heads * c > heads * heads * heads * c)
    unsat(
        w > 0,
        F >= 0,
        T >= 0,
        F <= w * M,
        27 * F * F <= T * T * T,
        T * w < LEADING * F - LOST * M * w,
    )
    return "all reals N, d, heads ≥ 1 and √M > 0"


@step(
    "heads",
    how="proved",
    says="Lemma: heads share the words: x^{3/2} + y^{3/2} ≤ (x + y)^{3/2}",
)
def heads() -> str:
    """With x = u², y = v², z² = u² + v²: u³ + v³ ≤ z³, since u ≤ z and v ≤ z."""
    import z3

    u, v, z = z3.Reals("u v z")
    unsat(u >= 0, v >= 0, z >= 0, z * z == u * u + v * v, z < u)
    unsat(u >= 0, v >= 0, z >= 0, z * z == u * u + v * v, z < v)
    # u³ + v³ ≤ z·u² + z·v² = z³
    unsat(u >= 0, v >= 0, z >= u, z >= v, u * u * u + v * v * v > z * u * u + z * v * v)
    import sympy

    U, V, Z = sympy.symbols("U V Z")
    identity((Z * U**2 + Z * V**2) - Z**3, Z * (U**2 + V**2 - Z**2))
    return "all reals u, v ≥ 0, hence all numbers of heads by induction"


@step(
    "order",
    how="proved",
    says="Where M ≤ d², 2N²d/√M − N² ≥ N²d/√M: the bound has the order that the theorem states",
)
def order() -> str:
    """N²·w ≤ N²·d where w = √M ≤ d."""
    import z3

    N, d, w = z3.Reals("N d w")
    unsat(N > 0, d > 0, w > 0, w <= d, LEADING * N * N * d - N * N * w < (LEADING - 1) * N * N * d)
    return "all reals N > 0 and 0 < √M ≤ d"


@step(
    "crossover",
    how="proved",
    says="N²d/√M and N²d²/M are equal at M = d², and each is the smaller on its side",
)
def crossover() -> str:
    """With w = √M: N²d/w against N²d²/w²."""
    import z3

    N, d, w = z3.Reals("N d w")
    small, large = N * N * d * w, N * N * d * d  # both times w²
    unsat(N > 0, d > 0, w > 0, w < d, small >= large)
    unsat(N > 0, d > 0, w > d, large >= small)
    unsat(N > 0, d > 0, w == d, small != large)
    return "all reals N, d, √M > 0"


@step(
    "below-a-schedule",
    how="exhaustive",
    says="The bound stays below the two-pass schedule with rectangular tiles",
)
def below_a_schedule() -> str:
    """Scores spilled once; a C tile of r × c, its operands streamed, in both passes."""
    cases = 0
    for N, d in itertools.product(range(2, 33, 3), range(2, 33, 3)):
        for r, c in itertools.product(range(1, 13), repeat=2):
            M = r * c + r + c
            first = N * d * (-(-N // r) + -(-N // c)) + N * N
            second = N * N * -(-d // c) + N * d * -(-N // r) + N * d
            need = N * N - 2 * N * d + LOST * M + first + second
            ok = need >= 0 and need * need * M >= (LEADING * N * N * d) ** 2
            require(ok, f"N = {N}, d = {d}, M = {M}: the bound exceeds {first + second}")
            cases += 1
    return f"N, d ≤ 32 in steps of 3, tiles up to 12 × 12: {cases} cases"
