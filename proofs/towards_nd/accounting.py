"""Lemmas 1 and 2 on executions simulated word by word, cut anywhere and by rows or columns."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from iosim.report.proof import require, step

from ..attention_options.pairs import draw_pairs
from ..constant_tight.accounting import Drawn
from ..constant_tight.executions import Entry, order_of, random_order, sizes
from . import constants

Pair = tuple[int, int]


@dataclass(frozen=True)
class Case:
    """An execution: its products in order, and what it costs.

    With row sums a pair has a product more, a row a word more.
    """

    says: str
    products: list[Pair]  # the pair of each product
    each: int  # products of a pair
    D: int
    M: int
    cost: int
    sums: int = 0

    @property
    def pairs(self) -> Counter[Pair]:
        """How many products a pair has."""
        return Counter(self.products)


def inner(products: list[Pair], each: int) -> set[Pair]:
    """The pairs all of whose products are among these."""
    return {pair for pair, made in Counter(products).items() if made == each}


def by_cap(case: Case, cap: int, side: int) -> list[list[Pair]]:
    """Cut each time that one more product would make more than `cap` rows (side 0) or columns."""
    parts: list[list[Pair]] = [[]]
    made: Counter[Pair] = Counter()
    whole: set[int] = set()
    for pair in case.products:
        if made[pair] + 1 == case.each and pair[side] not in whole and len(whole) == cap:
            parts.append([])
            made, whole = Counter(), set()
        parts[-1].append(pair)
        made[pair] += 1
        if made[pair] == case.each:
            whole.add(pair[side])
    return parts


def anywhere(case: Case, cuts: int, rng: random.Random) -> list[list[Pair]]:
    """Cut at random places."""
    at = sorted(rng.randint(0, len(case.products)) for _ in range(cuts))
    edges = [0, *at, len(case.products)]
    return [case.products[a:b] for a, b in itertools.pairwise(edges)]


def sums(case: Case, parts: list[list[Pair]]) -> tuple[list[set[int]], list[set[int]], int]:
    """The rows and the columns of inner pairs in each part, and how many pairs are crossing."""
    found = [inner(part, case.each) for part in parts]
    rows = [{i for i, _ in pairs} for pairs in found]
    columns = [{j for _, j in pairs} for pairs in found]
    return rows, columns, len(case.pairs) - sum(map(len, found))


def executed(draws: Iterator[Drawn], kind: str) -> Iterator[Case]:
    """Executions of a class; products of a pair are counted once each."""
    for one in draws:
        d, d_v, _ = sizes(one.order)
        log: list[Entry] = one.log(kind)
        cost = sum(what in ("load", "store") for what, _, _ in log)
        made = (item for what, item, _ in log if what in ("E", "F"))
        products = [(int(item[0]), int(item[1])) for item in made]
        yield Case(one.says, products, d + d_v, d + d_v, one.M, cost)


def with_sums(draws: Iterator[Drawn], kind: str) -> Iterator[Case]:
    """Executions with row sums: the last column of V is all ones, which needs no loads.

    What is computed with it is a row's sum.  It is stored once at the end, which is not needed.
    """
    for one in draws:
        d, d_v, terms = sizes(one.order)
        if d_v == 1:
            continue
        log: list[Entry] = one.log(kind)
        cost = sum(what in ("load", "store") for what, _, _ in log)
        ones = sum(
            what == "load" and item[0] == "v" and item[-1] == d_v - 1 for what, item, _ in log
        )
        products = [(int(item[0]), int(item[1])) for what, item, _ in log if what in ("E", "F")]
        words = cost - ones - len(terms)
        yield Case(f"{one.says}, ones", products, d + d_v, d + d_v - 1, one.M, words, 1)


def large_memory(seed: int, count: int) -> Iterator[Drawn]:
    """One head whose words all fit, or nearly: what is carried over a cut is all of use."""
    rng = random.Random(seed)
    for _ in range(count):
        N, K, d, d_v = rng.randint(2, 5), rng.randint(2, 5), rng.randint(1, 2), rng.randint(1, 2)
        M = (N + K) * (d + d_v) + rng.randint(-2, 2)
        order = order_of([(range(N), range(K))], d, d_v, rng)
        yield Drawn(order, max(3, M), rng, f"N = {N}, N_k = {K}, d = {d}, d_v = {d_v}")


def pair_by_pair(seed: int, count: int) -> Iterator[Drawn]:
    """The same, with pairs in any order, each made at once."""
    rng = random.Random(seed)
    for one in large_memory(seed + 1, count):
        d, d_v, _ = sizes(one.order)
        pairs = sorted({task[1:3] for task in one.order})
        rng.shuffle(pairs)
        order = [
            t
            for i, j in pairs
            for t in [*[("E", i, j, c) for c in range(d)], *[("F", i, j, c) for c in range(d_v)]]
        ]
        yield Drawn(order, one.M, rng, f"{one.says}, pair by pair")


def lemma(case: Case, parts: list[list[Pair]]) -> None:
    """Lemma 1: Q ≥ D·(Σ|I| + Σ|J|) + z − cM; with row sums D + 1 words a row, less one for each."""
    rows, columns, crossing = sums(case, parts)
    whole = constants.WHOLE * case.D * sum(map(len, (*rows, *columns)))
    if case.sums:
        whole += constants.SUM * sum(map(len, rows))
        whole -= constants.STARTS * len({i for i, _ in case.pairs})
    least = whole + constants.CROSSING * crossing - constants.CARRIED * (len(parts) - 1) * case.M
    require(
        case.cost >= least,
        f"{case.says}, M = {case.M}: {case.cost} words, Lemma 1 says {least} in {len(parts)} parts",
    )


def second_cut(case: Case, parts: list[list[Pair]]) -> int:
    """Lemma 2: where all but e columns are in each part, cuts by columns are as many as parts."""
    _, columns, _ = sums(case, parts)
    every = {j for _, j in case.pairs}
    missing = len(every) - min(len(part) for part in columns)
    cap = len(every) - missing - 1
    if cap < 1:
        return 0
    again = by_cap(case, cap, 1)
    require(len(again) - 1 >= len(parts), f"{case.says}: {len(again) - 1} cuts, {len(parts)} parts")
    return 1


def rows_twice(case: Case) -> int:
    """Theorem 3: cut by columns, D fewer than a row has pairs, a row pays for two parts."""
    degree = Counter(i for i, _ in case.pairs)
    seen = 0
    for cap in range(1, max(degree.values()) - case.D + 1):
        parts = by_cap(case, cap, 1)
        found = [inner(part, case.each) for part in parts]
        whole = Counter(i for pairs in found for i in {i for i, _ in pairs})
        kept = Counter(i for pairs in found for i, _ in pairs)
        for i, pairs in degree.items():
            if pairs >= max(cap + case.D, 2 * case.D):
                pays = case.D * whole[i] + pairs - kept[i]
                require(pays >= constants.TWICE * case.D, f"{case.says}: row {i} pays {pays}")
                seen += 1
    return seen


def _check(
    kind: str,
    seed: int,
    cutter: Callable[[Case, random.Random], None],
    executions: Callable[[Iterator[Drawn], str], Iterator[Case]] = executed,
) -> int:
    rng = random.Random(seed)
    sources = (
        draw_pairs(seed, constants.EXECUTIONS),
        large_memory(seed, constants.EXECUTIONS),
        pair_by_pair(seed, constants.EXECUTIONS),
    )
    count = 0
    for source in sources:
        for case in executions(source, kind):
            cutter(case, rng)
            count += 1
    return count


def cut(case: Case, rng: random.Random) -> None:
    """Lemma 1 at random cuts, and in parts of every number of rows or columns."""
    for cuts in (0, 1, 1, 2, 5):
        lemma(case, anywhere(case, cuts, rng))
    for side in (0, 1):
        most = len({pair[side] for pair in case.pairs})
        for cap in range(1, most + 1):
            parts = by_cap(case, cap, side)
            lemma(case, parts)
            rows, columns, _ = sums(case, parts)
            held = [len(part) for part in (rows, columns)[side]]
            require(all(n == cap for n in held[:-1]), f"{case.says}: {held} in parts of {cap}")
            require(held[-1] <= cap, f"{case.says}: {held[-1]} in the last part of {cap}")


@step("parts-once", how="sampled", says="Lemma 1 and cuts by rows or columns, scores made once")
def parts_once() -> str:
    """Masks, shared heads, d ≠ d_v; cut at random and by every number of rows and columns."""
    return f"{_check('once', 21, cut)} random executions, seed 21"


@step("parts-trees", how="sampled", says="the same with sums by random trees")
def parts_trees() -> str:
    """As above."""
    return f"{_check('trees', 22, cut)} random executions, seed 22"


@step("sums-once", how="sampled", says="Lemma 1 with row sums, cut anywhere, scores made once")
def sums_once() -> str:
    """A row's sum is what a column of ones in V gives; it starts at no cost and isn't stored."""
    return f"{_check('once', 24, cut, with_sums)} random executions, seed 24"


@step("sums-trees", how="sampled", says="the same with sums by random trees, row sums, too")
def sums_trees() -> str:
    """As above."""
    return f"{_check('trees', 25, cut, with_sums)} random executions, seed 25"


def heads_of(log: list[Entry], N: int) -> list[list[Entry]]:
    """The entries of each head, in order; the N rows and columns of heads follow each other."""
    found: dict[int, list[Entry]] = {}
    for entry in log:
        found.setdefault(int(entry[1][1 if isinstance(entry[1][0], str) else 0]) // N, []).append(
            entry
        )
    return list(found.values())


@step(
    "heads-apart",
    how="sampled",
    says="Lemma 1 for each of several heads: its own words, and all of M",
)
def heads_apart() -> str:
    """Heads one after another, and mixed; each head's entries are an execution of its own."""
    rng, count = random.Random(27), 0
    for kind in ("once", "trees"):
        for _ in range(constants.EXECUTIONS):
            H, N, d = rng.randint(2, 3), rng.randint(2, 4), rng.randint(1, 2)
            M = max(3, rng.choice([4 * N * d + rng.randint(-2, 2), rng.randint(3, 4 * N * d)]))
            says = f"{H} heads, N = {N}, d = {d}, {kind}"
            log = Drawn(random_order(N, d, rng, H), M, rng, says).log(kind)
            apart = heads_of(log, N)
            require(len(apart) == H, f"{says}: {len(apart)} heads have entries")
            for own in apart:
                cost = sum(what in ("load", "store") for what, _, _ in own)
                pairs = [(int(x[0]), int(x[1])) for what, x, _ in own if what in ("E", "F")]
                require(len(pairs) == 2 * d * N * N, f"{says}: {len(pairs)} products of a head")
                cut(Case(says, pairs, 2 * d, 2 * d, M, cost), rng)
                count += 1
    return f"{count} heads of random executions, seed 27"


@step(
    "second-cut",
    how="sampled",
    says="Lemma 2: cut by columns there are as many cuts as parts by rows; rows pay for two parts",
)
def check_second_cut() -> str:
    """Cut by rows; then by one column fewer than the fewest of a part."""
    seen = rows = 0

    def cutter(case: Case, rng: random.Random) -> None:
        nonlocal seen, rows
        rows += rows_twice(case)
        for cap in range(1, len({i for i, _ in case.pairs}) + 1):
            seen += second_cut(case, by_cap(case, cap, 0))

    count = _check("once", 23, cutter)
    require(seen > count and rows > count // 2, f"only {seen} cuts, {rows} rows")
    return f"{count} random executions, {seen} cuts, {rows} rows, seed 23"
