"""Theorem 6: pairs of words that meet, visits with and without incidents, and a mixture."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from iosim.bounds.charges import MIXTURES
from iosim.report.proof import require, step, unsat

from . import accounting, constants, executions

WEIGHTS = {"S": 1.5, "V": 1.5, "P": 3.0, "Q": 4.0, "K": 4.0}


@dataclass
class Segment:
    """Words at its beginning and those that come, incidents, products, and what it cost."""

    old: set[executions.Word]
    incidents: set[executions.Word]
    new: set[executions.Word] = field(default_factory=set)
    products: list[executions.Task] = field(default_factory=list)
    cost: int = 0


def segments(log: list[executions.Entry], M: int, S: int) -> list[Segment]:
    """Cut a log where the next item of cost would exceed M + S + 1, or S + 1 later on."""
    of_use = {
        (x[0], *x[1:]) if what in ("load", "store") else _summed(what, x): k
        for k, (what, x, _) in enumerate(log)
        if what != "drop"
    }
    fast: set[Any] = set()
    out = [Segment(set(), set())]

    def pay(cost: int, k: int) -> None:
        if out[-1].cost + cost > S + 1 + (M if len(out) == 1 else 0):
            pairs = {w for w in fast if w[0] in executions.MAKES and of_use[w] >= k}
            out.append(Segment({w for w in fast if w[0] not in executions.MAKES}, pairs))
        out[-1].cost += cost

    def begin(word: Any, k: int) -> None:
        if word in fast:
            return
        if word[0] not in executions.MAKES:
            pay(2 if word[0] in executions.OUTPUTS else 1, k)
            if word not in out[-1].old:
                out[-1].new.add(word)
        fast.add(word)

    for k, (what, item, _) in enumerate(log):
        if what == "drop":
            fast.discard(item)
        elif what in ("load", "store"):
            if item[0] in executions.MAKES:
                pay(1, k)
                out[-1].incidents.add(item)  # type: ignore[arg-type]
            if what == "store":
                fast.discard(item)
            else:
                begin(item, k)
        elif what == "use":
            begin(("t", *item[:2]), k)
        else:
            i, j, c = item
            one, row, column = executions.WORDS[what]
            for word in ((row, i, c), (column, j, c), (one, i, j)):
                begin(word, k)
            out[-1].products.append((what, i, j, c))  # type: ignore[arg-type]
    return out


def _summed(what: str, item: Any) -> Any:
    return ("s" if what == "use" else executions.WORDS[what][0], *item[:2])


def meetings(words: set[executions.Word], pair: executions.Pair) -> int:
    """Σ min(γ(w), γ(u)) over words w of a row and u of a column."""
    count: Counter[tuple[bool, int]] = Counter()
    for name, x, _ in words:
        row = name in executions.OF_ROWS
        if x == pair[0 if row else 1]:
            count[row, 2 if name in executions.OUTPUTS else 1] += 1
    one, two = count[False, 1], count[False, 2]
    return count[True, 1] * (one + two) + count[True, 2] * (one + 2 * two)


def _visits(work: dict[int, float], met: list[float], k: list[int], at: str) -> list[float]:
    """The x's of a pair, with the choice that fulfils the inequality."""
    for chosen in (None, *work):
        x = {t: max(w - met[t], 0) if t == chosen else w for t, w in work.items()}
        free = sum(w for t, w in x.items() if not k[t])
        if free <= constants.FREE * sum(k) + 1e-9 and all(
            w <= constants.VISIT * k[t] + 1e-9 for t, w in x.items() if k[t]
        ):
            return [x.get(t, 0.0) if k[t] else 0.0 for t in range(len(k))]
    raise AssertionError(f"{at}: work {work}, meetings {met}, incidents {k}")


def _case(case: accounting.Drawn, S: int, at: str) -> int:
    """Costs, (5), meetings, x's and X of one execution; how many pairs have incidents."""
    log, d = accounting.log_of(case, 0.0), case.d
    parts = segments(log, case.M, S)
    words = sum(what in ("load", "store") for what, _, _ in log)
    sums = {w for s in parts for w in s.new if w[0] in executions.OUTPUTS}
    require(sum(s.cost for s in parts) <= words + len(sums), f"{at}: costs above Q + E")
    T = case.M + S + 1
    gained: dict[executions.Pair, float] = dict.fromkeys(case.pairs, 0.0)
    met: dict[executions.Pair, list[float]] = {pair: [] for pair in case.pairs}
    for s in parts:
        a = len(s.incidents)
        cost = sum(2 if w[0] in executions.OUTPUTS else 1 for w in s.new)
        require(len(s.old) + cost + a <= T, f"{at}: {len(s.old)} words, cost {cost}, {a} incidents")
        fresh = 0.0
        for pair in case.pairs:
            m = meetings(s.old | s.new, pair) / d**2
            n = m - meetings(s.old, pair) / d**2
            fresh += n
            gained[pair] += n
            met[pair].append(m)
            require(m <= gained[pair] + 1e-9, f"{at}: {m} meetings, {gained[pair]} gained")
        require(fresh * d**2 <= (T - a) ** 2 / 4, f"{at}: {fresh} new meetings")
    crossing, X = 0, [0.0] * len(parts)
    for i, j in case.pairs:
        k = [len({("s", i, j), ("t", i, j)} & s.incidents) for s in parts]
        work: dict[int, float] = {}
        for t, s in enumerate(parts):
            done = sum(WEIGHTS[p[0]] for p in s.products if p[1:3] == (i, j))
            if done:
                work[t] = done / d
        crossing += any(k)
        X = [x + y for x, y in zip(X, _visits(work, met[i, j], k, at), strict=True)]
    for t, s in enumerate(parts):
        a, U = len(s.incidents), len(s.old | s.new)
        most = min(constants.VISIT * a, constants.NORM * U * math.sqrt(a) / 2 / d)
        require(X[t] <= most + 1e-9, f"{at}: X = {X[t]} in segment {t}, {most} allowed")
    return crossing


@step(
    "accounting-meetings",
    how="sampled",
    says="Theorem 6: costs, words that meet, what visits bring, on executions word by word",
)
def accounting_meetings() -> str:
    """Executions that make each sum once; masks and shared heads among them."""
    crossing = pairs = 0
    for drawn in accounting.draw_pairs(3, constants.EXECUTIONS):
        case = replace(drawn, d_v=drawn.d)
        S = case.rng.choice([case.rng.randint(1, 4), case.rng.randint(1, 3 * case.M)])
        crossing += _case(case, S, f"{case}, S = {S}")
        pairs += len(case.pairs)
    require(pairs // 10 < crossing < pairs, f"{crossing} of {pairs} pairs have incidents")
    return f"{constants.EXECUTIONS} random executions, {crossing} pairs with incidents, seed 3"


@step("visits", how="proved", says="Theorem 6: work ω ≤ m + 8; ω ≤ m + 3 without incidents")
def visits() -> str:
    """Parts a, b, c, u, w of S, Q, K, P, V; `do` words of dO, as part of d."""
    import z3

    a, b, c, u, w, do = z3.Reals("a b c u w do")
    parts = [z3.And(x >= 0, x <= 1) for x in (a, b, c, u, w)]
    visit, free = constants.VISIT, constants.FREE
    work = (3 * a + 3 * w + 6 * u + 8 * b + 8 * c) / 2
    unsat(*parts, work - (a * a + w * w + u * u + (b + c) * (b + c)) > visit)
    # Without incidents: with Q or K, all S and P; with V, all S; or S and P alone.
    met = (2 + b) * (2 + c + w) + b * (c + w)
    unsat(*parts, a == 1, u == 1, work - met > free)
    met = (1 + do) * (1 + u + w)
    unsat(*parts, a == 1, b == 0, c == 0, do >= u, do >= w, work - met > free)
    unsat(*parts, b == 0, c == 0, w == 0, work - (a * a + u * u) > free)
    # Whole pairs; without the part u of P and of v; without dv.
    rows, columns = {"q": 1, "do": 1, "dq": 2}, {"k": 1, "v": 1, "dk": 2, "dv": 2}
    met_by = {y: sum(min(g, of) for g in rows.values()) for y, of in columns.items()}
    require(sum(met_by.values()) == sum(WEIGHTS.values()) == 14, f"meetings {met_by}")
    require(met_by["v"] == WEIGHTS["P"] <= free, "a part of P in the segment before")
    require(met_by["dv"] <= visit, "ω ≤ 14 and m ≥ 10")
    require(WEIGHTS["S"] + WEIGHTS["V"] <= free, "S and V in the segment before")
    require(WEIGHTS["Q"] + WEIGHTS["K"] <= visit, "Q and K alone")
    require(14 - visit <= 2 * free, "one visit with more than its incidents bring")
    require(sum(WEIGHTS[x] for x in "SVP") <= 2 * free, "two visits without incidents")
    return "all visits, by the parts of the five products that they have"


@step("mixed", how="proved", says="Theorem 6: θb₁₄ + (1 − θ)b₁₂ is at most (7 − θ)T²/336")
def mixed() -> str:
    """a = n² incidents, U = T − a, both branches of each part, by record."""
    import z3

    n, more = z3.Reals("n more")
    h = z3.Q(round(100 * constants.NORM), 100)
    g = z3.Q(288, 100)
    # Eigenvalues: of the weights, and of Theorem 3's.
    root = z3.Real("root")
    unsat(root >= 0, root * root == z3.Q(265, 4), z3.Q(3, 2) + root > 2 * h)
    unsat(g * g * z3.Q(55, 16) < 4 * z3.Q(64, 9))
    for one in MIXTURES:
        share, T = (z3.Q(x.numerator, x.denominator) for x in (one.share, one.T))
        last = one is MIXTURES[-1]
        length = T + more if last else T
        U = length - n * n
        most = length * length * (7 - share) / 336
        by_words = ((constants.VISIT * n * n, h * U * n / 2), (16 * n * n / 9, g * U * n / 2))
        for paid, crossing in itertools.product(*by_words):
            b14 = (U * U / 4 + paid + constants.FREE * n * n) / 14
            b12 = (U * U / 4 + crossing + 16 * n * n / 9) / 12
            least = [paid <= x for x in by_words[0]] + [crossing <= x for x in by_words[1]]
            mixture = b14 if last else share * b14 + (1 - share) * b12
            unsat(n >= 0, U >= 0, more >= 0, *least, mixture > most)
    return f"all a from 0 to T, {len(MIXTURES)} records, and all T from the last one's on"
