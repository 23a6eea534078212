"""Theorems 7 and 8: row words that leave one after the other, and the columns that each meets."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from math import ceil, inf

from iosim.bounds import sweeps as evaluated
from iosim.report.proof import require, step

from ..constant_tight.executions import Task, order_of
from . import constants, game, plays
from .moments import fewest
from .plays import Item, Stay
from .stays import Counted, by_blocks, recorded, recorded_trees


def chained(stays: dict[Item, Stay]) -> list[Item]:
    """What leaves first, then of what comes after that what leaves first, and so on."""
    chain: list[Item] = []
    end = -1
    for word in sorted(stays, key=lambda word: (stays[word][1], word)):
        if stays[word][0] > end:
            chain.append(word)
            end = stays[word][1]
    return chain


def colored(stays: dict[Item, Stay]) -> list[list[Item]]:
    """The stays in as few colors as possible, those of one color one after the other."""
    colors: list[list[Item]] = []
    free: list[tuple[int, int]] = []  # the last steps of colors' last stays
    for word in sorted(stays, key=lambda word: (stays[word], word)):
        if free and free[0][0] < stays[word][0]:
            _, color = heapq.heappop(free)
        else:
            color = len(colors)
            colors.append([])
        colors[color].append(word)
        heapq.heappush(free, (stays[word][1], color))
    return colors


def columns_loaded(A: int, G: int, R: int, C: int, M: int, E: int, S: int, points: int = 0) -> int:
    """Theorem 7: loads of column words at least, with E row words left out; 0 where it says none.

    With at least so many points.
    """
    free = G * (C - constants.ENDS * (A - 1) - S) - (M + constants.RESULT)
    points = max(points, ceil(Fraction(A * R - E, M + constants.RESULT)))
    return A * R - E + constants.CHAIN * points * free if free >= 0 else 0


def streaming(
    seed: int, count: int, trees: bool, masked: bool = False
) -> Iterator[tuple[str, int, Counted]]:
    """Random executions with few rows and many columns; in most of them blocks of rows fit."""
    rng = random.Random(seed)
    for draw in range(count):
        N, K, d, d_v = rng.randint(2, 5), rng.randint(8, 30), rng.randint(1, 2), rng.randint(1, 2)
        sums = int(d_v > 1 and rng.random() < 0.5)
        width = rng.randint(1, N)
        M = rng.randint(3, N * (d + d_v) + 4)
        if draw % 4 == 0:
            order = order_of([(range(N), range(K))], d, d_v, rng)
        elif draw % 4 == 1:
            order = by_blocks(N, K, d, d_v, rng)
        else:
            order = in_blocks(N, K, d, d_v, width, rng.choice([1, 1, 2]))
            M = width * (d + d_v) + 1 + rng.choice([1, d, d + d_v])
            M += trees * rng.choice([2, 6]) * (d_v * width + 2)
        if masked:
            first = [rng.randint(0, K // 2) for _ in range(N)]
            last = [rng.randint(x, K) for x in first]
            order = [task for task in order if first[task[1]] <= task[2] <= last[task[1]]]
        if trees:
            log = recorded_trees(order, M, rng)
        else:
            log = recorded(order, M, rng, rng.choice(["lru", "belady", "belady", "belady"]))
        says = f"N = {N}, N_k = {K}, d = {d}, d_v = {d_v}, M = {M}, draw {draw} of seed {seed}"
        yield says, M, Counted(log, d, d_v, sums, trees)


def in_blocks(N: int, K: int, d: int, d_v: int, width: int, few: int) -> list[Task]:
    """Blocks of rows stay while columns stream past them, the scores of a few at a time."""
    order: list[Task] = []
    for first, start in itertools.product(range(0, N, width), range(0, K, few)):
        some = range(start, min(K, start + few))
        for i in range(first, min(N, first + width)):
            order += [("E", i, j, c) for j in some for c in range(d)]
            order += [("F", i, j, c) for j in some for c in range(d_v)]
    return order


class Rows:
    """An execution's row words that have one stay and are in no spoiled row, and what they meet.

    At most S pairs of a row that is not spoiled are spilled; E row words are left out.
    """

    def __init__(self, run: Counted, M: int, S: int, says: str) -> None:
        self.run, self.S, self.says = run, S, f"{says}, S = {S}"
        (self.A, self.G), self.held = run.width, M + constants.RESULT
        self.stays = run.side(0, self.A).stays
        self.pairs = Counter(i for i, _ in run.made)
        spilled = Counter(int(word[1]) for word in run.spilled if word[0] == "s")
        self.single = {
            w: x[0] for w, x in self.stays.items() if len(x) == 1 and spilled[int(w[1])] <= S
        }
        self.E = self.A * len(self.pairs) - len(self.single)
        loads = run.moved(["load"])
        self.loads = sum(n for word, n in loads.items() if word[0] in "kv")

    def least_columns(self, i: int) -> int:
        """How many columns a row meets whole at least, in a stay of one of its words."""
        return self.pairs[i] - constants.ENDS * (self.A - 1) - self.S

    def meets(self, word: Item) -> None:
        """Check that in a word's stay its row meets as many columns whole."""
        first, last = self.single[word]
        row = [steps for (i, _), steps in self.run.made.items() if i == word[1]]
        whole = sum(all(first <= at <= last for at in steps) for steps in row)
        least = self.least_columns(int(word[1]))
        require(whole >= least, f"{self.says}: {word} meets {whole} columns whole, not {least}")

    def all_fit(self) -> None:
        """Check at all ends of stays that what counts as there fits, of all row words."""
        for at in {x for runs in self.stays.values() for stay in runs for x in stay}:
            X = sum(a <= at <= b for runs in self.stays.values() for a, b in runs)
            Y = sum(word[0] in "kv" for word in self.run.held[at])
            require(self.held >= X + Y, f"{self.says}: {X} and {Y} words at step {at}")

    def fits(self, at: int) -> int:
        """How many of the words have their stay at a step; check that columns' words fit, too."""
        X = sum(a <= at <= b for a, b in self.single.values())
        Y = sum(word[0] in "kv" for word in self.run.held[at])
        require(self.held >= X + Y, f"{self.says}: {X} and {Y} words at step {at}, {self.held} fit")
        return X

    def moves(self) -> None:
        """Check what rows and pairs move, and each row word."""
        moved, A = self.run.moved(), self.A
        of_rows = sum(n for word, n in moved.items() if word[0] in "qos")
        least = (A - self.run.sums) * len(self.pairs)
        least += constants.AGAIN * self.E * (2 * (self.S + 1) >= A)
        require(of_rows >= least, f"{self.says}: rows and pairs move {of_rows} words, not {least}")
        for word, runs in self.stays.items():
            fewer = fewest(self.run, word, len(runs), len(runs))
            require(moved[word] >= fewer, f"{self.says}: {word} moves {moved[word]}, not {fewer}")


def theorem_7(rows: Rows, M: int) -> int:
    """All that it counts; returns the loads of column words beyond it, -1 where it says nothing."""
    A, R, C = rows.A, len(rows.pairs), len({j for _, j in rows.run.made})
    chain = chained(rows.single)
    for word in chain:
        rows.meets(word)
    there = sum(rows.fits(rows.single[word][1]) for word in chain)
    require(there >= A * R - rows.E, f"{rows.says}: {there} words are there at a point")
    rows.moves()
    low = columns_loaded(A, rows.G, R, C, M, rows.E, rows.S, len(chain))
    require(rows.loads >= low, f"{rows.says}: {rows.loads} loads of column words, not {low}")
    return rows.loads - low if low else -1


def theorem_8(rows: Rows) -> Fraction:
    """All that it counts; returns the loads of column words beyond it, -1 where it says nothing."""
    colors = colored(rows.single)
    require(len(colors) <= rows.held, f"{rows.says}: {len(colors)} colors, M + 1 = {rows.held}")
    worth = {w: max(0, rows.G * rows.least_columns(int(w[1])) - rows.held) for w in rows.single}
    best = max(colors, key=lambda words: sum(worth[w] for w in words), default=[])
    chain = [w for w in best if worth[w]]
    for word in chain:
        rows.meets(word)
        rows.fits(rows.single[word][1])
    require(
        all(rows.single[a][1] < rows.single[b][0] for a, b in itertools.pairwise(chain)),
        f"{rows.says}: stays of one color overlap",
    )
    own = sum(worth[w] for w in chain) + rows.held if chain else 0
    low = Fraction(constants.CHAIN * sum(worth.values()), rows.held) + rows.held if chain else 0
    require(rows.loads >= own >= low, f"{rows.says}: {rows.loads} loads, {own}, {low}")
    return rows.loads - Fraction(low) if chain else Fraction(-1)


def check_execution(seed: int, trees: bool, masked: bool = False) -> str:
    """Each execution with S = 0, S = A/2 and a larger S."""
    rng, said, stay, nearest = random.Random(seed), 0, 0, inf
    count = constants.EXECUTIONS // 2
    for says, M, run in streaming(seed, count, trees, masked):
        A = run.width[0]
        for S in (0, A // 2, rng.randint(A // 2, 2 * A)):
            rows = Rows(run, M, S, says)
            rows.all_fit()
            over = float(theorem_8(rows) if masked else theorem_7(rows, M))
            if over >= 0:
                said, stay, nearest = said + 1, stay + (rows.E == 0), min(nearest, over)
    require(said > count // 3, f"{said} say something")
    require(trees or stay > count // 6, f"{stay} where all rows stay")
    return (
        f"{count} executions, {said} times it says something, {stay} of them where all rows stay, "
        f"at the nearest {nearest:.1f} loads, seed {seed}"
    )


@step("chain-once", how="sampled", says="Theorem 7 and all that is counted for it, class once")
def chain_once() -> str:
    """With row sums and without; blocks of rows or columns, or any order."""
    return check_execution(51, False)


@step("chain-trees", how="sampled", says="the same with sums by random trees")
def chain_trees() -> str:
    """A sum is there if any word of it is."""
    return check_execution(52, True)


@step("chain-masks", how="sampled", says="Theorem 8 and all that is counted for it, class once")
def chain_masks() -> str:
    """Each row has some columns that follow each other."""
    return check_execution(55, False, masked=True)


def in_game(R: int, C: int, held: int, E: int) -> int:
    """Loads of columns at least in the game of whole rows, where E rows come more than once.

    `held` items are there at most when one is loaded.
    """
    points = -(-(R - E) // held)
    return R - E + constants.CHAIN * points * (C - held) if held <= C else 0


@step(
    "chain-game",
    how="sampled",
    says="Theorem 7 in the game of whole rows, and the fewest loads where each row is loaded once",
)
def chain_game() -> str:
    """Random plays and sweeps; and optima by breadth-first search where room is made first."""
    rng, near, count = random.Random(53), 0, 4 * constants.EXECUTIONS
    for _ in range(count):
        R, C = rng.randint(2, 12), rng.randint(2, 12)
        m = rng.randint(1, max(R, C))
        rows, columns, _ = plays.played(R, C, m, rng)
        E = sum(len(x) > 1 for x in rows.stays.values())
        low, loads = in_game(R, C, m + 1, E), columns.number()
        require(loads >= low, f"{R} rows, {C} columns, m = {m}: {loads} columns, not {low}")
        near += loads <= low + 2 and low > 0
    require(near > count // 100, f"within 2 loads {near} times only")
    found = []
    for N, m in game.GAMES:
        best = game.optimum(N, N, m, room_first=True, rows_once=True)
        low = N + in_game(N, N, m, 0)
        require(low <= best <= low + (N % m > 0), f"N = {N}, m = {m}: {best}, not {low}")
        found.append(f"{N}/{m}: {low} of {best}")
    return (
        f"{count} random plays, {near} times within 2 loads, seed 53; each row once, N/m: "
        f"{', '.join(found)}"
    )


def masked_words(M: int, A: int, G: int, pairs: list[int]) -> Fraction:
    """Theorem 8's words, for the numbers of pairs of all rows that have some; 0 over none."""
    held = M + constants.RESULT
    worth = [max(0, G * (n - constants.ENDS * (A - 1)) - held) for n in pairs]
    words = (A - constants.STARTS * (A - G)) * len(pairs)
    return words + (held + Fraction(A * sum(worth), held) if any(worth) else Fraction(0))


@step(
    "sweeps-evaluator",
    how="sampled",
    says="the words of `sweeps` are Theorem 7's in exact numbers, and at most Theorem 8's",
)
def sweeps_evaluator() -> str:
    """Sizes at which rows fill a whole number of fast memories, and others; rows of all lengths."""
    rng, whole, alike = random.Random(54), 0, 0
    for _ in range(constants.SIZES):
        G, sums = rng.randint(2, 300), rng.randint(0, 1)
        A = G + constants.SUM * sums
        rows, columns = rng.randint(1, 2**20), rng.randint(1, 2**20)
        M = max(1, A * rows // rng.randint(1, 40) - rng.choice([0, 0, 1, 2, A]))
        low = columns_loaded(A, G, rows, columns, M, 0, 0)
        low += (A - constants.STARTS * sums) * rows if low else 0
        found = float(evaluated.sweeps(M, A, G, rows, columns))
        says = f"A = {A}, G = {G}, {rows} rows, {columns} columns, M = {M}"
        require(abs(found - low) <= 1e-9 * low, f"{says}: {found}, not {low}")
        whole += low > 0 == A * rows % (M + 1)
        least = rng.choice([0, 4 * A])
        pairs = [rng.randint(1, 40 * A) + least for _ in range(rng.randint(1, 60))]
        M = rng.randint(1, 20 * A * G)
        low = masked_words(M, A, G, pairs)
        found = float(evaluated.any_pairs(M, A, G, len(pairs), sum(pairs)))
        says = f"A = {A}, G = {G}, M = {M}, {pairs} pairs"
        require(found <= low * (1 + Fraction(1, 10**12)), f"{says}: {found}, not {float(low)}")
        if G * (min(pairs) - 2 * (A - 1)) > M + 1:
            require(abs(found - low) <= 1e-9 * low, f"{says}: {found}, not {float(low)}")
            alike += 1
    require(min(whole, alike) > 0, f"{whole} with rows that fill fast memories, {alike} long rows")
    return (
        f"{constants.SIZES} random sizes, {whole} with rows that fill fast memories, {alike} with "
        "long rows only, seed 54"
    )
