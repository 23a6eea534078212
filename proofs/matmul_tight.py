"""The tight bound for matrix products, step by step: see matmul_tight.md."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not reversed)

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import numpy as np

from iosim.report.proof import identity, require, step, unsat

# The constants of the theorem: loads + stores ≥ LEADING·mnk/√M − LOST·M.
LEADING = 2
LOST = 2
LOST_COLD = 1  # where fast memory is empty at first
SEGMENT = 2  # loads in a segment, × M


@step(
    "loomis-whitney",
    how="exhaustive",
    says="Lemma 1: |V|² ≤ |V_A|·|V_B|·|V_C| for a set V of triples (i, j, l) and its projections",
)
def loomis_whitney() -> str:
    """Every subset of a box, as the bits of an integer."""
    cases = 0
    for box in ((2, 2, 2), (1, 3, 4), (2, 2, 3), (2, 3, 3)):
        cells = list(itertools.product(*map(range, box)))
        sets = np.arange(1 << len(cells), dtype=np.int64)
        bit = [(sets >> c) & 1 for c in range(len(cells))]
        size = sum(bit)
        product = np.ones_like(sets)
        for gone in range(3):
            shadow: dict[tuple[int, ...], np.ndarray] = {}
            for c, cell in enumerate(cells):
                key = cell[:gone] + cell[gone + 1 :]
                shadow[key] = shadow.get(key, np.zeros_like(sets)) | bit[c]
            product = product * sum(shadow.values())
        require(np.all(size * size <= product), f"a subset of the box {box} has more cells")
        cases += len(sets)
    return f"every subset of the boxes 2×2×2, 1×3×4, 2×2×3, 2×3×3: {cases} sets"


@step("am-gm", how="proved", says="Lemma 2: 27abc ≤ (a + b + c)³ for a, b, c ≥ 0")
def am_gm() -> str:
    """(a+b+c)³ − 27abc is a sum of terms that are non-negative for a, b, c ≥ 0."""
    import sympy

    a, b, c = sympy.symbols("a b c", nonnegative=True)
    half = Fraction(1, 2)
    certificate = half * (a + b + c) * ((a - b) ** 2 + (b - c) ** 2 + (c - a) ** 2) + 3 * (
        a * (b - c) ** 2 + b * (c - a) ** 2 + c * (a - b) ** 2
    )
    identity((a + b + c) ** 3 - 27 * a * b * c, certificate)
    return "all reals a, b, c ≥ 0, by an explicit non-negative certificate"


@step(
    "products-per-segment",
    how="proved",
    says="Lemma 3, given Lemma 1: at most M^{3/2} products in a segment of 2M loads",
)
def products_per_segment() -> str:
    """V² ≤ abc with a + b + c ≤ M + 2M forces V² ≤ M³."""
    import z3

    a, b, c, V, M = z3.Reals("a b c V M")
    # Lemma 2 with the sum replaced by its bound: 27abc ≤ (a+b+c)³ ≤ (3M)³, i.e. abc ≤ M³.
    s = z3.Real("s")
    unsat(s >= 0, M > 0, s <= (1 + SEGMENT) * M, s * s * s > (1 + SEGMENT) ** 3 * M * M * M)
    unsat(
        a >= 0,
        b >= 0,
        c >= 0,
        M > 0,
        V >= 0,
        27 * a * b * c <= (1 + SEGMENT) ** 3 * M * M * M,
        V * V <= a * b * c,
        V * V > M * M * M,
    )
    return "all reals a, b, c, V ≥ 0 and M > 0"


@step(
    "segment-length",
    how="proved",
    says="Remark: S = 2M loads is the best segment length for the leading constant",
)
def segment_length() -> str:
    """S/((M+S)/3)^{3/2} ≤ 2/√M: squared, 27·M·(S/2)² ≤ (M + S/2 + S/2)³, which is Lemma 2."""
    import sympy

    M, S = sympy.symbols("M S", positive=True)
    rate = S / ((M + S) / 3) ** sympy.Rational(3, 2)
    require(sympy.simplify(sympy.diff(rate, S).subs(S, SEGMENT * M)) == 0, "2M is not stationary")
    require(
        sympy.simplify(rate.subs(S, SEGMENT * M) - LEADING / sympy.sqrt(M)) == 0,
        "the rate at 2M is not 2/√M",
    )
    identity(
        (M + S) ** 3 - 27 * M * (S / 2) ** 2,
        (M - S / 2) ** 2 * (M + 4 * S),
    )
    return "all reals M, S > 0"


@step(
    "loads-and-stores",
    how="proved",
    says="Conclusion, given Lemmas 3 and 4: loads + stores ≥ 2mnk/√M − 2M",
)
def loads_and_stores() -> str:
    """F products, segs segments of S = 2M loads, the last one perhaps short; w = √M."""
    import z3

    F, w, segs, L, loads, fresh, stores = z3.Reals("F w segs L loads fresh stores")
    M = w * w
    S = SEGMENT * M
    unsat(
        w > 0,
        F >= 0,
        fresh >= 0,
        segs >= 1,
        segs * w * M >= F,  # Lemma 3, over all segments
        L >= S * (segs - 1),  # every segment but the last has S loads, loads of zeros included
        L == loads + fresh,  # a fresh accumulator is a load of a zero that is not paid
        stores >= fresh,  # each entry of C is stored at least once: fresh = mn
        (loads + stores) * w < LEADING * F - LOST * M * w,
    )
    return "all reals; mnk = F ≥ 0, √M = w > 0, any number of segments and fresh accumulators"


@step(
    "cold-start",
    how="proved",
    says="Corollary, given Lemmas 3 and 4, memory empty at first: loads + stores ≥ 2mnk/√M − M",
)
def cold_start() -> str:
    """The first segment may hold M loads more; with one segment only, the compulsory words do."""
    import z3

    F, w, segs, L, T = z3.Reals("F w segs L T")
    M = w * w
    unsat(
        w > 0,
        F >= 0,
        segs >= 2,
        segs * w * M >= F,
        L >= M + SEGMENT * M * (segs - 1),  # M + S, then S each; the last one may be short
        L * w < LEADING * F - LOST_COLD * M * w,
    )
    # One segment: F ≤ M^{3/2}.  T = mk + kn + mn, and 27F² = 27·mk·kn·mn ≤ T³ by Lemma 2.
    unsat(
        w > 0,
        F >= 0,
        T >= 0,
        F <= w * M,
        27 * F * F <= T * T * T,
        T * w < LEADING * F - LOST_COLD * M * w,
    )
    return "all reals; mnk = F ≥ 0, √M = w > 0, any number of segments"


def _random_tree_run(rng: random.Random, k: int) -> tuple[int, int, int, int]:
    """One output entry summed by a random tree with random spills.

    Returns loads and stores of partial sums in it, and in the single-accumulator run that Lemma 4
    makes of it.
    """
    left, fast, slow = k, [], []  # products not yet made; values by the products they hold
    loads = stores = 0
    one_loads = one_stores = intervals = 0
    touched = False  # has the present interval changed anything?

    def closes() -> None:
        nonlocal intervals, one_stores, touched
        if touched:
            intervals += 1
            one_stores += 1
        touched = False

    def last() -> bool:
        return left == 0 and len(fast) + len(slow) == 1

    while not (last() and fast):
        moves = []
        if left:
            moves += ["product"] * 3
        if len(fast) >= 2:
            moves += ["add"] * 2
        if slow:
            moves.append("load")
        if fast:
            moves.append("spill")
        move = rng.choice(moves)
        if move == "product":
            left -= 1
            if fast and rng.random() < 0.5:  # straight into an accumulator that is there
                at = rng.randrange(len(fast))
                fast[at] = (fast[at][0] + 1, True)
            else:
                fast.append((1, True))
            touched = True
        elif move == "add":
            a, b = fast.pop(rng.randrange(len(fast))), fast.pop(rng.randrange(len(fast)))
            fast.append((a[0] + b[0], True))
            touched = True
        elif move == "load":
            fast.append((slow.pop(rng.randrange(len(slow)))[0], False))
            loads += 1
        else:
            value, dirty = fast.pop(rng.randrange(len(fast)))
            slow.append((value, False))
            stores += dirty
            if not fast:
                closes()
    stores += fast[0][1]
    closes()
    one_loads = max(0, intervals - 1)
    return loads, stores, one_loads, one_stores


@step(
    "one-accumulator",
    how="sampled",
    says="Lemma 4, transfers only (space is by hand): trees need no fewer than one accumulator",
)
def one_accumulator() -> str:
    """Random trees with random spills, against the single accumulator of the exchange."""
    rng = random.Random(0)
    for _ in range(20_000):
        loads, stores, one_loads, one_stores = _random_tree_run(rng, rng.randint(1, 8))
        require(one_loads <= loads, f"{one_loads} loads instead of {loads}")
        require(one_stores <= stores, f"{one_stores} stores instead of {stores}")
    return "20000 random summations of up to 8 products, seed 0"


class _Pebbles:
    """The red–blue pebble game, rules enforced: red pebbles only where the rules allow."""

    def __init__(self, M: int) -> None:
        self.M, self.red, self.blue, self.moves = M, set[object](), set[object](), 0

    def _place(self, v: object) -> None:
        self.red.add(v)
        require(len(self.red) <= self.M, f"{len(self.red)} red pebbles, {self.M} allowed")

    def load(self, v: object) -> None:
        require(v in self.blue, f"{v} has no blue pebble")
        self.moves += 1
        self._place(v)

    def store(self, v: object) -> None:
        require(v in self.red, f"{v} has no red pebble")
        self.moves += 1
        self.blue.add(v)

    def compute(self, v: object, parents: list[object]) -> None:
        require(self.red.issuperset(parents), f"{v} lacks a parent")
        self._place(v)


def a_stationary(m: int, n: int, k: int, rows: int, M: int) -> int:
    """Moves of the schedule that keeps `rows` × k of A and streams B, in the chained CDAG."""
    game = _Pebbles(M)
    game.blue |= {("A", i, p) for i in range(m) for p in range(k)}
    game.blue |= {("B", p, j) for p in range(k) for j in range(n)}
    for top in range(0, m, rows):
        block = range(top, min(top + rows, m))
        for i, p in itertools.product(block, range(k)):
            game.load(("A", i, p))
        for j in range(n):
            for p in range(k):
                game.load(("B", p, j))
                for i in block:
                    chain = [("C", i, j, p - 1)] if p else []
                    game.compute(("C", i, j, p), [("A", i, p), ("B", p, j), *chain])
                    game.red.difference_update(chain)
                game.red.discard(("B", p, j))
            for i in block:
                game.store(("C", i, j, k - 1))
                game.red.discard(("C", i, j, k - 1))
        game.red.difference_update([("A", i, p) for i in block for p in range(k)])
    done = {("C", i, j, k - 1) for i in range(m) for j in range(n)}
    require(game.blue >= done, "C is not finished")
    return game.moves


@step(
    "cosma-needs-long-k",
    how="exhaustive",
    says="Remark: 2mnk/√M + mn is not a lower bound where k < 2√M; 2mnk/√M − 2M stays below",
)
def cosma_needs_long_k() -> str:
    """Pebble it: m = n = 30, k = 4, M = 17, three rows of A held fast."""
    m, n, k, M = 30, 30, 4, 17
    moves = a_stationary(m, n, k, 3, M)
    require(moves == m * k + n * k * m // 3 + m * n, f"{moves} moves")
    cosma, tight = 2 * m * n * k / M**0.5 + m * n, LEADING * m * n * k / M**0.5 - LOST * M
    require(tight <= moves < cosma, f"{tight} ≤ {moves} < {cosma} does not hold")
    return f"1 schedule, pebble by pebble: {moves} moves, against {cosma:.0f}"


@step(
    "attained",
    how="exhaustive",
    says="Remark 3: the bound is never above the exact count of C-stationary tiles",
)
def attained() -> str:
    """The exact count of C-stationary tiles of every side, for every small shape and M."""
    cases = 0
    for m, n, k in itertools.product(range(1, 13), repeat=3):
        for a, b in itertools.product(range(1, m + 1), range(1, n + 1)):
            M = a * b + min(a, b) + 1
            words = m * n + k * (m * -(-n // b) + n * -(-m // a))
            need = words + LOST * M
            require(need * need * M >= (LEADING * m * n * k) ** 2, f"{(m, n, k, M)}: {words}")
            cases += 1
    return f"all m, n, k ≤ 12 and all tiles: {cases} cases"[4:]
