"""Lower bounds for the backward pass of attention: see attention_backward.md."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not turned round)

from __future__ import annotations

from iosim.checks.proof import step, unsat


@step("inner-pairs", how="proved", says="Theorem 2: |I||J| ≤ U²/4αβ, and a segment has c pairs")
def inner_pairs() -> str:
    """A product of two parts of a sum; then a convex function at its ends."""
    import z3

    rows, columns, alpha, beta, U, T = z3.Reals("rows columns alpha beta U T")
    sizes = [alpha > 0, beta > 0, rows >= 0, columns >= 0]
    unsat(*sizes, U == alpha * rows + beta * columns, 4 * alpha * beta * rows * columns > U * U)
    four = 4 * alpha * beta
    unsat(
        *sizes, 0 <= U, U <= T,
        U * U + four * (T - U) > T * T, U * U + four * (T - U) > four * T,
    )  # fmt: skip
    return "all reals |I|, |J|, U ≥ 0 and α, β > 0"


@step("words", how="proved", says="Theorem 2: S(Π/c − 1) + M is αβΠ/M, or Π(1 − M/4αβ) − 4αβ + 2M")
def words() -> str:
    """The two choices of S."""
    import z3

    ab, M, S, c, pairs = z3.Reals("ab M S c pairs")
    sizes = [ab > 0, M > 0, pairs > 0]
    cap = [4 * ab * c >= (M + S) * (M + S), c >= M + S]
    least = z3.Or(4 * ab * c == (M + S) * (M + S), c == M + S)
    unsat(*sizes, *cap, least, S == M, M >= 2 * ab, S * (pairs - c) + M * c < ab * pairs / M * c)
    unsat(
        *sizes, *cap, least, S == 4 * ab - M, M < 4 * ab,
        S * (pairs - c) + M * c < (pairs - pairs * M / (4 * ab) - 4 * ab + 2 * M) * c,
    )  # fmt: skip
    return "all reals αβ, M, Π > 0"
