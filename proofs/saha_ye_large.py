"""Saha and Ye's bound for M ≥ d², with its constants: see saha_ye_large.md."""

from __future__ import annotations

import itertools

import numpy as np

from iosim.report.proof import identity, require, step, unsat

# Loads of Q, K and scores ≥ min(LARGE·N²d²/M, MIDDLE·N²), in segments of M loads.
LARGE = 1
MIDDLE = 0.5


def _ratio(x: float) -> object:
    """A z3 rational of a decimal constant."""
    import z3

    return z3.Q(round(x * 1000), 1000)


@step(
    "whole-rows",
    how="proved",
    says="Lemma 1: (I + J)d ≤ y words of whole rows serve at most (y/2d)² pairs",
)
def whole_rows() -> str:
    """((I+J)/2)² − IJ is a square, and (I + J)/2 ≤ y/2d."""
    import sympy
    import z3

    I, J = sympy.symbols("I J")
    identity(((I + J) / 2) ** 2 - I * J, ((I - J) / 2) ** 2)
    i, j, d, y = z3.Reals("i j d y")
    unsat(i >= 0, j >= 0, d > 0, (i + j) * d <= y, 4 * d * d * i * j > y * y)
    return "all reals I, J, y ≥ 0 and d > 0"


@step(
    "convexity",
    how="proved",
    says="Lemma 2: t + ((X − t)/2d)² ≤ max(X²/4d², X) for 0 ≤ t ≤ X",
)
def convexity() -> str:
    """The chord minus the function is t(X − t)/4d², which is not negative."""
    import sympy

    t, X, d = sympy.symbols("t X d", positive=True)
    f = t + ((X - t) / (2 * d)) ** 2
    chord = (1 - t / X) * f.subs(t, 0) + (t / X) * f.subs(t, X)
    identity(chord - f, t * (X - t) / (4 * d**2))
    identity(f.subs(t, 0), X**2 / (4 * d**2))
    identity(f.subs(t, X), X)
    return "all reals 0 ≤ t ≤ X and d > 0"


@step(
    "completed-scores",
    how="exhaustive",
    says="Lemma 3: from any set of X words at most max(X²/4d², X) scores can be completed",
)
def completed_scores() -> str:
    """Every set of words of Q, of K and of unfinished scores, as the bits of an integer."""
    cases = 0
    for rows, cols, d in ((2, 2, 2), (3, 3, 1), (2, 3, 2), (2, 2, 3), (2, 4, 1)):
        words = (rows + cols) * d + rows * cols
        sets = np.arange(1 << words, dtype=np.int64)
        size = np.zeros(len(sets), dtype=np.int64)
        for b in range(words):
            size += (sets >> b) & 1
        row = ((1 << d) - 1) << np.arange(0, (rows + cols) * d, d)
        whole = [(sets & r) == r for r in row]
        done = np.zeros(len(sets), dtype=np.int64)
        for i, j in itertools.product(range(rows), range(cols)):
            begun = (sets >> ((rows + cols) * d + i * cols + j)) & 1 == 1
            done += begun | (whole[i] & whole[rows + j])
        limit = np.maximum(size * size / (4 * d * d), size)
        require(np.all(done <= limit), f"{rows}×{cols}, d = {d}: a set completes more")
        cases += len(sets)
    return f"grids up to 3×3 (d = 1), 2×3 (d = 2), 2×2 (d = 3): {cases} sets of words"


@step(
    "segments",
    how="proved",
    says="Conclusion, given Lemma 3: loads of Q, K and scores ≥ heads·min(N²d²/M, N²/2)",
)
def segments() -> str:
    """Segments of M loads, the first of 2M, the last perhaps short, see X ≤ 2M words each."""
    import z3

    pairs, d, M, segs, loads, most = z3.Reals("pairs d M segs loads most")
    large, middle = _ratio(LARGE), _ratio(MIDDLE)
    common = [
        M > 0,
        d > 0,
        segs >= 2,
        pairs >= 0,
        z3.Or(most * d * d == M * M, most == 2 * M),
        most * d * d >= M * M,
        most >= 2 * M,  # max(X²/4d², X) at X = 2M
        segs * most >= pairs,
        loads >= M * segs,
    ]
    unsat(*common, loads < large * pairs * d * d / M, loads < middle * pairs)
    # One segment only: pairs ≤ most; then the 2Nd loads of Q and K for each head are enough.
    N, h = z3.Reals("N h")
    one = [M > 0, d > 0, N >= 1, h >= 1, h * N * N <= most, loads >= 2 * h * N * d]
    unsat(*one, most * d * d == M * M, loads * M < large * h * N * N * d * d)
    unsat(*one, most == 2 * M, 2 * M * d * d >= M * M, loads < middle * h * N * N)
    return "all reals; pairs = heads·N² ≥ 0, d, M > 0, any number of segments"


@step(
    "heads",
    how="proved",
    says="Lemma 4: heads share the words: Σ(y_h/2d)² ≤ (Σ y_h/2d)², so M is subtracted once",
)
def heads() -> str:
    """By induction from two heads."""
    import z3

    x, y = z3.Reals("x y")
    unsat(x >= 0, y >= 0, x * x + y * y > (x + y) * (x + y))
    return "all reals x, y ≥ 0, hence all numbers of heads by induction"


@step(
    "paper-constant",
    how="proved",
    says="The 2M-partition form N²d²/(M + 4d²) − M follows, and is the weaker one",
)
def paper_constant() -> str:
    """A part meets 4M trees at its borders and M²/d² others: N²/(M²/d² + 4M) parts, times M."""
    import sympy
    import z3

    N, d, M = sympy.symbols("N d M", positive=True)
    identity(M * N**2 / (M**2 / d**2 + 4 * M), N**2 * d**2 / (M + 4 * d**2))
    n, e, m = z3.Reals("n e m")  # n = N², e = d²
    weak = n * e / (m + 4 * e)
    unsat(n > 0, e > 0, m > 0, weak > _ratio(LARGE) * n * e / m)
    unsat(n > 0, e > 0, m > 0, weak > _ratio(MIDDLE) * n)
    return "all reals N, d, M > 0"


@step(
    "below-a-schedule",
    how="exhaustive",
    says="The bound stays below the Q/O-stationary schedule, whose leading constant is 4",
)
def below_a_schedule() -> str:
    """The exact count 2Nd + 2Nd⌈N/a⌉ with memory 2ad + 4a + d, for every tile a."""
    cases = 0
    for N, d in itertools.product((*range(1, 31), 128, 512), range(1, 17)):
        for a in range(1, N + 1):
            M = 2 * a * d + 4 * a + d
            count = 2 * N * d + 2 * N * d * -(-N // a)
            bound = min(LARGE * N * N * d * d / M, MIDDLE * N * N) + 2 * N * d
            require(bound <= count, f"N = {N}, d = {d}, M = {M}: {bound} > {count}")
            cases += 1
    return f"N ≤ 30, 128 and 512, d ≤ 16 and every tile: {cases} cases"
