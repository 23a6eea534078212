"""Saha and Ye's compression bound, run for real over a finite field: see compression.md."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not reversed)

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from math import isqrt

import numpy as np

from iosim.report.proof import identity, require, step, unsat

from .programs import Instruction, by_chunks, by_spills, by_tiles

# Lemma 4: max(r_rows, r_columns) ≥ min(ROOT·d√B, LINEAR·B).
ROOT = 1.0
LINEAR = 0.5
# Theorem: loads ≥ min(LARGE·N²d²/M, MIDDLE·N²).
LARGE = 0.25
MIDDLE = 0.25

Matrix = list[list[int]]


def vandermonde(N: int, d: int, q: int) -> Matrix:
    """Rows (1, a, a², …) for a = 1 … N, over F_q with q > N prime."""
    return [[pow(a, e, q) for e in range(d)] for a in range(1, N + 1)]


def rank(rows: Iterable[list[int]], q: int) -> int:
    """The rank of a matrix over F_q, by elimination."""
    m = [list(r) for r in rows]
    done = 0
    for c in range(len(m[0]) if m else 0):
        pivot = next((i for i in range(done, len(m)) if m[i][c] % q), None)
        if pivot is None:
            continue
        m[done], m[pivot] = m[pivot], m[done]
        inverse = pow(m[done][c], -1, q)
        m[done] = [x * inverse % q for x in m[done]]
        for i in range(len(m)):
            if i != done and m[i][c] % q:
                factor = m[i][c]
                m[i] = [(x - factor * y) % q for x, y in zip(m[i], m[done], strict=True)]
        done += 1
    return done


def minimum(B: int, d: int) -> float:
    """Lemma 4: the fewest words that determine B entries of QKᵀ."""
    return min(ROOT * d * B**0.5, LINEAR * B)


def fewest_words(chosen: Iterable[tuple[int, int]], d: int) -> int:
    """max(r_rows, r_columns): Σ min(d, entries in a line), over rows and over columns."""
    rows: dict[int, int] = {}
    columns: dict[int, int] = {}
    for i, j in chosen:
        rows[i] = rows.get(i, 0) + 1
        columns[j] = columns.get(j, 0) + 1
    return max(sum(min(d, x) for x in side.values()) for side in (rows, columns))


@step(
    "vandermonde",
    how="exhaustive",
    says="Lemma 1: any d rows of the Vandermonde matrix are independent over F_q, q > N",
)
def independent_rows() -> str:
    """The determinant as a product of differences, and every choice of d rows."""
    import sympy

    for d in range(1, 5):
        x = sympy.symbols(f"x0:{d}")
        det = sympy.Matrix(d, d, lambda i, j, x=x: x[i] ** j).det()
        product = sympy.prod(x[j] - x[i] for i, j in itertools.combinations(range(d), 2))
        identity(det, product)
    cases = 0
    for N, q in ((4, 5), (6, 7), (8, 11), (10, 11)):
        for d in range(1, 6):
            K = vandermonde(N, d, q)
            for chosen in itertools.combinations(range(N), min(d, N)):
                require(rank([K[j] for j in chosen], q) == min(d, N), f"rows {chosen} depend")
                cases += 1
    return f"determinants for d ≤ 4; every choice of rows for N ≤ 10, d ≤ 5: {cases} choices"


@step(
    "rank-of-entries",
    how="exhaustive",
    says="Lemma 2: with K fixed, the entries of QKᵀ in a set I have rank Σ_i min(d, |R_i|) in Q",
)
def rank_of_entries() -> str:
    """The linear map Q ↦ (QKᵀ)_I, eliminated over F_q, for every I."""
    cases = 0
    for N, d, q in ((2, 1, 3), (2, 2, 3), (3, 1, 5), (3, 2, 5), (3, 3, 5)):
        K = vandermonde(N, d, q)
        cells = list(itertools.product(range(N), repeat=2))
        for chosen in range(1, 1 << len(cells)):
            I = [c for b, c in enumerate(cells) if chosen >> b & 1]
            functionals = [[0] * (i * d) + K[j] + [0] * ((N - 1 - i) * d) for i, j in I]
            want = sum(min(d, sum(a == i for a, _ in I)) for i in range(N))
            require(rank(functionals, q) == want, f"the entries {I} have another rank")
            cases += 1
    return f"every set of entries for N ≤ 3, d ≤ 3: {cases} sets"


@step(
    "messages-by-counting",
    how="exhaustive",
    says="Lemma 3: over all Q the entries take q^r values, so no message has fewer than r words",
)
def messages_by_counting() -> str:
    """Compute QKᵀ for every Q over F_q and count the distinct values on every I."""
    cases = 0
    for N, d, q in ((2, 1, 3), (2, 2, 3), (3, 1, 5), (3, 2, 5)):
        K = np.array(vandermonde(N, d, q))
        Q = np.array(list(itertools.product(range(q), repeat=N * d))).reshape(-1, N, d)
        entries = (Q @ K.T % q).reshape(len(Q), N * N)
        weights = q ** np.arange(N * N)
        for chosen in range(1, 1 << (N * N)):
            at = [b for b in range(N * N) if chosen >> b & 1]
            distinct = len(np.unique(entries[:, at] @ weights[at]))
            r = sum(min(d, sum(b // N == i for b in at)) for i in range(N))
            require(distinct == q**r, f"{distinct} values of {at}, not {q}^{r}")
            cases += 1
    return f"every Q and every set of entries for N ≤ 3, d ≤ 2, q ≤ 5: {cases} sets"


@step(
    "lemma-minimum",
    how="exhaustive",
    says="Lemma 4: max(r_rows, r_columns) ≥ min(d√B, B/2) ≥ min(d√(B/2), B/4)",
)
def lemma_minimum() -> str:
    """Every set of entries of a 4 × 4 and a 3 × 5 matrix; Saha and Ye's minimum is no larger."""
    cases = 0
    for rows, columns in ((4, 4), (3, 5)):
        cells = list(itertools.product(range(rows), range(columns)))
        sets = np.arange(1 << len(cells), dtype=np.int64)
        bit = [(sets >> b) & 1 for b in range(len(cells))]
        B = sum(bit)
        for d in range(1, 6):
            sides = []
            for axis in (0, 1):
                lines: dict[int, np.ndarray] = {}
                for b, cell in enumerate(cells):
                    lines[cell[axis]] = lines.get(cell[axis], 0) + bit[b]
                sides.append(sum(np.minimum(d, x) for x in lines.values()))
            r = np.maximum(*sides)
            least = np.minimum(ROOT * d * np.sqrt(B), LINEAR * B)
            require(np.all(r >= least - 1e-9), f"d = {d}: a set needs fewer words")
            paper = np.minimum(d * np.sqrt(B / 2), B / 4)
            require(np.all(least >= paper - 1e-9), "the paper's minimum is larger")
            cases += len(sets)
    return f"every set of entries of 4 × 4 and 3 × 5 matrices, d ≤ 5: {cases} cases"


@step(
    "lemma-concave",
    how="proved",
    says="Lemma 4: dx + (B − x²)/2 ≥ min(d√B, B/2) for 0 ≤ x ≤ √B, with x = √(|L_R||L_C|)",
)
def lemma_concave() -> str:
    """The mean of r_rows and r_columns, then the chord of a concave function; b = √B."""
    import sympy
    import z3

    x, b, d = sympy.symbols("x b d", positive=True)
    g = d * x + (b**2 - x**2) / 2
    chord = (1 - x / b) * g.subs(x, 0) + (x / b) * g.subs(x, b)
    identity(g - chord, x * (b - x) / 2)
    identity(g.subs(x, 0), b**2 / 2)
    identity(g.subs(x, b), d * b)
    u, v, s, t, e, B, y = z3.Reals("u v s t e B y")
    # u = |L_R|, v = |L_C|, s = |S_R|, t = |S_C|: u·v + s + t ≥ B, y = √(uv) ≤ (u + v)/2
    unsat(
        u >= 0,
        v >= 0,
        s >= 0,
        t >= 0,
        e > 0,
        y >= 0,
        y * y == u * v,
        u * v + s + t >= B,
        2 * y > u + v,
    )
    # max(e·u + s, e·v + t) ≥ (e(u + v) + s + t)/2 ≥ e·y + (B − y²)/2
    unsat(
        e > 0,
        y >= 0,
        u + v >= 2 * y,
        s + t >= B - y * y,
        e * u + s < e * y + (B - y * y) / 2,
        e * v + t < e * y + (B - y * y) / 2,
    )
    # beyond x = √B the bound r ≥ d·x ≥ d√B holds by itself
    r = z3.Real("r")
    unsat(e > 0, r >= 0, y > r, e * y < e * r)
    return "all reals; any sizes of the long and short lines"


# ---------------------------------------------------------------- a machine over F_q


class Bob:
    """Replays instructions from a message only: the words in memory, and the words to be loaded."""

    def __init__(self, memory: dict[object, int], buffer: list[int], q: int) -> None:
        self.memory, self.buffer, self.q = dict(memory), list(buffer), q
        self.found: dict[tuple[int, int], int] = {}
        self.peak = len(memory)

    def do(self, kind: str, what: tuple[object, ...]) -> None:
        """One instruction; a word that is neither in memory nor in the buffer is a KeyError."""
        m = self.memory
        if kind == "load":
            m[what] = self.buffer.pop(0)
        elif kind == "free":
            del m[what]
        elif kind == "fma":
            i, j, p = what
            s = m.get(("S", i, j), 0) + m[("Q", i, p)] * m[("K", j, p)]
            m[("S", i, j)] = s % self.q
        elif kind == "entry":
            self.found[what] = m[("S", *what)]  # type: ignore[index]
        self.peak = max(self.peak, len(m))


def epochs(program: list[Instruction], M: int) -> list[list[Instruction]]:
    """Cut a program before an epoch's load too many: 2M in the first epoch, M in each later one."""
    cuts: list[list[Instruction]] = [[]]
    loads = 0
    for kind, what in program:
        if kind == "load" and loads == (M if len(cuts) > 1 else 2 * M):
            cuts.append([])
            loads = 0
        loads += kind == "load"
        cuts[-1].append((kind, what))
    return cuts


def compress(program: list[Instruction], Q: Matrix, K: Matrix, q: int) -> list[tuple[int, int]]:
    """Alice sends one message an epoch and Bob recovers its entries: (words, entries) of each."""
    N = len(Q)
    whole = Bob({}, [], q)  # the true run: its slow memory is below
    slow: dict[object, int] = {("Q", i, p): x for i, r in enumerate(Q) for p, x in enumerate(r)}
    slow |= {("K", j, p): x for j, r in enumerate(K) for p, x in enumerate(r)}
    trial = 0
    size = 0
    for kind, what in program:  # the least M that the program needs
        if kind == "load":
            trial += 1
        elif kind == "free":
            trial -= 1
        elif kind == "fma" and what[2] == 0:
            trial += 1
        size = max(size, trial)
    sent = []
    for epoch in epochs(program, size):
        memory, buffer = dict(whole.memory), []
        for kind, what in epoch:
            if kind == "load":
                buffer.append(slow[what])
                whole.buffer.append(slow[what])
            whole.do(kind, what)
            if kind == "store":
                slow[what] = whole.memory[what]
        require(whole.peak <= size, f"{whole.peak} words in a memory of {size}")
        bob = Bob(memory, buffer, q)
        for kind, what in epoch:
            bob.do(kind, what)
        for (i, j), value in bob.found.items():
            true = sum(x * y for x, y in zip(Q[i], K[j], strict=True)) % q
            require(value == true, f"Bob's entry ({i}, {j}) is {value}, not {true}")
        words, B = len(memory) + len(buffer), len(bob.found)
        require(words <= 2 * size, f"a message of {words} words, memory {size}")
        if B:
            need = fewest_words(bob.found, len(Q[0]))
            require(need <= words, f"{B} entries of rank {need} from {words} words")
            require(minimum(B, len(Q[0])) <= words, f"{B} entries from {words} words")
        sent.append((words, B))
    require(sum(B for _, B in sent) >= N * N, "an entry was never computed")
    # The theorem, for this very program: loads of Q, K and scores against the bound.
    loads = sum(kind == "load" for kind, _ in program)
    d = len(Q[0])
    bound = min(LARGE * N * N * d * d / size, MIDDLE * N * N)
    require(bound <= loads, f"{loads} loads with {size} words, against a bound of {bound}")
    return sent


@step(
    "protocol",
    how="sampled",
    says="Step 1: from at most 2M words Bob recovers every entry computed in an epoch",
)
def protocol() -> str:
    """Three schedules over F_q, random Q, Vandermonde K: message, entries, and their minimum."""
    rng = random.Random(0)
    messages = best = 0
    for N, d, q in ((6, 2, 7), (9, 3, 11), (12, 4, 13), (10, 1, 11)):
        K = vandermonde(N, d, q)
        for _ in range(5):
            Q = [[rng.randrange(q) for _ in range(d)] for _ in range(N)]
            for a in (1, 2, 3, 4):
                for program in (
                    by_tiles(N, d, a, 1),
                    by_tiles(N, d, a, a),
                    by_chunks(N, d, a),
                    by_spills(N, d, a),
                ):
                    sent = compress(program, Q, K, q)
                    messages += len(sent)
                    best = max(best, *(B for _, B in sent))
    return f"4 schedules at 16 shapes, random Q, seed 0: {messages} messages, up to {best} entries"


@step(
    "entries-per-epoch",
    how="proved",
    says="Step 2, given Lemma 4: min(d√B, B/2) ≤ 2M gives B ≤ max(4M²/d², 4M)",
)
def entries_per_epoch() -> str:
    """b = √B."""
    import z3

    b, d, M = z3.Reals("b d M")
    two = 2 * M
    unsat(b >= 0, d > 0, M > 0, ROOT * d * b <= two, b * b * d * d > 4 * M * M)
    unsat(b >= 0, d > 0, M > 0, LINEAR * b * b <= two, b * b > 4 * M)
    return "all reals B ≥ 0 and d, M > 0"


@step(
    "epochs",
    how="proved",
    says="Step 3, given Step 2: loads ≥ min(N²d²/4M, N²/4); the paper's min(N²d²/8M, N²/8) − M",
)
def count_epochs() -> str:
    """At most max(4M²/d², 4M) entries an epoch; the first has 2M loads, the last may be short."""
    import z3

    pairs, d, M, T, loads, B = z3.Reals("pairs d M T loads B")
    large, middle = z3.Q(round(LARGE * 1000), 1000), z3.Q(round(MIDDLE * 1000), 1000)
    common = [d > 0, M > 0, pairs >= 0, T * B >= pairs]
    for case in (B * d * d == 4 * M * M, B == 4 * M):
        most = [case, B * d * d >= 4 * M * M, B >= 4 * M]
        less = [loads < large * pairs * d * d / M, loads < middle * pairs]
        unsat(*common, *most, T >= 2, loads >= M * T, *less)
        # One epoch: the message is the loads, and f(pairs) ≥ (pairs/B)·f(B) = 2M·pairs/B.
        unsat(*common, *most, T == 1, loads * B >= 2 * M * pairs, *less)
    for case in (B * d * d == 8 * M * M, B == 8 * M):
        unsat(
            *common,
            case,
            B * d * d >= 8 * M * M,
            B >= 8 * M,
            T >= 1,
            loads >= M * (T - 1),
            loads + M < pairs * d * d / (8 * M),
            loads + M < pairs / 8,
        )
    return "all reals; pairs = heads·N² ≥ 0, d, M > 0"


@step(
    "heads",
    how="proved",
    says="Heads share the message: f(B) = min(d√B, B/2) is subadditive, f(x + y) ≤ f(x) + f(y)",
)
def heads() -> str:
    """f is concave with f(0) = 0; directly: with roots u, v of x, y and w of x + y, w ≤ u + v."""
    import z3

    u, v, w, d = z3.Reals("u v w d")
    base = [u >= 0, v >= 0, w >= 0, d > 0, w * w == u * u + v * v]
    unsat(*base, w > u + v)  # d√(x+y) ≤ d√x + d√y, and x/2 + y/2 is additive
    # mixed: x on the root's side (d·u ≤ u²/2), y on the line's (v²/2 ≤ d·v)
    unsat(*base, 2 * d <= u, v <= 2 * d, d * w > d * u + v * v / 2)
    return "all reals x, y ≥ 0 and d > 0, hence all numbers of heads by induction"


@step(
    "oblivious",
    how="exhaustive",
    says="Remark: the index set must not follow the input: with K known, d words give N entries",
)
def oblivious() -> str:
    """With K fixed and known, one row of Q gives a whole row: fewer words than min(d√B, B/2)."""
    N, d, q = 25, 3, 29
    K = vandermonde(N, d, q)
    row = [7, 11, 13]
    entries = [sum(x * y for x, y in zip(row, k, strict=True)) % q for k in K]
    require(len(entries) == N and d < minimum(N, d), "one row of Q is not a counterexample")
    require(isqrt(N) ** 2 == N, "N is a square")
    return f"1 instance: {d} words give {N} entries, the lemma's minimum is {minimum(N, d):.0f}"
