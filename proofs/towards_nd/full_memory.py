"""Theorem 9: where rows and columns fill the fast memory n times, at any two families of stays."""

from __future__ import annotations

import bisect
import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from iosim.bounds import stays as evaluated
from iosim.report.proof import require, step, unsat

from . import constants, plays
from .chain import streaming
from .plays import Item, Side, Stay
from .stays import Counted, executions


def split_stays(stays: Sequence[Stay]) -> list[list[int]]:
    """Two halves of the stays, so that of those with any step each half has as many, or one more.

    Their ends, in order of time, are joined two by two; along each ring of stays that this makes
    one half is walked forward in time, the other one backward.
    """
    ends = sorted(
        [(a, 0, x) for x, (a, _) in enumerate(stays)]
        + [(b, 1, x) for x, (_, b) in enumerate(stays)]
    )
    mate = {}
    for one, two in zip(ends[::2], ends[1::2], strict=True):
        mate[one[1:]], mate[two[1:]] = two[1:], one[1:]
    parts: list[list[int]] = [[], []]
    seen: set[int] = set()
    for first in range(len(stays)):
        at = (0, first)
        while at[1] not in seen:
            seen.add(at[1])
            parts[at[0]].append(at[1])  # it is entered by its begin, or by its end
            at = mate[1 - at[0], at[1]]
    return parts


def groups(stays: Sequence[Stay], t: int) -> list[list[int]]:
    """The stays in t groups, t a power of two, by halving again and again."""
    parts = [list(range(len(stays)))]
    while len(parts) < t:
        parts = [
            [part[x] for x in half]
            for part in parts
            for half in split_stays([stays[x] for x in part])
        ]
    return parts


@dataclass(frozen=True)
class Sizes:
    """W words at a step; n fast memories, but for k words; t groups of stays."""

    W: int
    n: int
    k: int
    t: int

    @property
    def few(self) -> int:
        """The κ of the text."""
        return self.t * self.k


@dataclass(frozen=True)
class Piece:
    """Stays of the other family that end one after the other, by their number, in a stay."""

    stay: int
    first: int
    after: int


class Family:
    """The words of one side and those of the other one, and what Lemma 5 says of them."""

    def __init__(self, own: Side, other: Side, sizes: Sizes, says: str) -> None:
        self.sizes, self.says = sizes, f"{says}, {sizes}"
        self.words = [(word, tuple(runs)) for word, runs in sorted(own.stays.items())]
        self.stays = [stay for _, runs in self.words for stay in runs]
        others = [stay for runs in other.stays.values() for stay in runs]
        self.begins, self.ends = sorted(a for a, _ in others), sorted(b for _, b in others)
        last = max(b for _, b in [*self.stays, *others]) + 1
        self.own, self.other = ([0] * last, [0] * last)
        for there, stays in ((self.own, self.stays), (self.other, others)):
            for a, b in stays:
                for at in range(a, b + 1):
                    there[at] += 1
        most = max(map(sum, zip(self.own, self.other, strict=True)))
        require(most <= sizes.W, f"{self.says}: {most} words at a step")
        self.short: list[Item] = []  # words that meet fewer than nW − k
        self.late: list[Item] = []
        self.bad: list[tuple[Item, tuple[Stay, ...]]] = []
        self.pieces: list[Piece] = []
        self.good = 0
        number = itertools.count()
        for word, runs in self.words:
            self.sort(word, runs, [next(number) for _ in runs])

    def ended(self, stay: Stay) -> tuple[int, int]:
        """Which of the other family's stays end in a stay before its last step, by their ends."""
        return bisect.bisect_left(self.ends, stay[0]), bisect.bisect_left(self.ends, stay[1])

    def meets(self, stay: Stay) -> int:
        """How many of the other family's stays have a step with it."""
        return bisect.bisect_right(self.begins, stay[1]) - bisect.bisect_left(self.ends, stay[0])

    def sort(self, word: Item, runs: Sequence[Stay], numbers: Sequence[int]) -> None:
        """Give a word the pieces that it needs, or call it late or bad."""
        (W, n, k), few = (self.sizes.W, self.sizes.n, self.sizes.k), self.sizes.few
        needs, met = n + constants.SPARE - len(runs), [self.meets(stay) for stay in runs]
        if needs <= 0:
            return
        if sum(met) < n * W - k:
            self.short.append(word)
            return
        there = [self.own[b] for _, b in runs]
        if any(x < few and p >= 2 * W - k for x, p in zip(there, met, strict=True)):
            self.late.append(word)
            return
        found: list[Piece] = []
        for number, stay, x, p in zip(numbers, runs, there, met, strict=True):
            first, after = self.ended(stay)
            require(after - first == p - self.other[stay[1]], f"{self.says}: ends in {stay}")
            count, length = (p + k) // W, x - k
            if x < few:
                count, length = int(after - first >= x), x
            for _ in range(count):
                require(after - length >= first, f"{self.says}: no room in {word}, {stay}")
                found.append(Piece(number, after - length, after))
                after, length = after - length, W
        if len(found) >= needs:
            self.good += 1
            self.pieces += found[:needs]
            return
        require(len(runs) == n, f"{self.says}: {word} is bad with {runs}")
        for stay, x, p in zip(runs, there, met, strict=True):
            full = self.other[stay[1]] > W - k - few
            require(x < few and W - k <= p < W and full, f"{self.says}: {word} is bad, {stay}")
        self.bad.append((word, tuple(runs)))

    def served(self) -> int:
        """Each piece takes a stay of its own, but for a group of stays; how many do."""
        k, few, t = self.sizes.k, self.sizes.few, self.sizes.t
        each = Counter(piece.stay for piece in self.pieces)
        parts = groups(self.stays, t)
        for at, there in enumerate(self.own):
            shares = [sum(self.stays[x][0] <= at <= self.stays[x][1] for x in p) for p in parts]
            require(
                min(shares) >= there // t and max(shares) <= -(-there // t),
                f"{self.says}: {there} stays are in groups of {shares}",
            )
        fewest = min(parts, key=lambda part: sum(each[x] for x in part))
        gone = set(fewest)
        lost = sum(each[x] for x in gone)
        require(lost * t <= len(self.pieces), f"{self.says}: {lost} pieces of {len(self.pieces)}")
        taken: set[int] = set()
        for piece in sorted(self.pieces, key=lambda p: (-p.after, -self.stays[p.stay][1])):
            if piece.stay in gone:
                continue
            end = self.stays[piece.stay][1]
            deleted = sum(self.stays[x][0] <= end <= self.stays[x][1] for x in gone)
            require(self.own[end] < few or deleted >= k, f"{self.says}: {deleted} deleted at {end}")
            free = [u for u in range(piece.first, piece.after) if u not in taken]
            require(bool(free), f"{self.says}: {piece} finds nothing")
            taken.add(free[-1])
        require(len(taken) == len(self.pieces) - lost, f"{self.says}: {len(taken)} are taken")
        return len(taken)

    def left_out(self, level: Fraction) -> tuple[list[Item], list[Item]]:
        """Bad words that are not filling, and those that are not steep; their numbers are few."""
        W, k, few = self.sizes.W, self.sizes.k, self.sizes.few
        times = constants.LEFT_OUT * few
        require(len(self.late) * (W - k) <= times * len(self.ends), f"{self.says}: late")
        calm, flat = [], []
        for word, runs in self.bad:
            steps = [at for a, b in runs for at in range(a, b + 1)]
            if all(self.other[at] >= level for at in steps):
                calm.append(word)
            if all(self.own[at] < level for at in steps):
                flat.append(word)
        filling, steep = len(self.bad) - len(calm), len(self.bad) - len(flat)
        room = W - k - few - level
        require(
            room <= 0 or filling * room <= (k + times) * len(self.ends),
            f"{self.says}: {filling} filling",
        )
        require(
            level <= few or steep * (level - few) <= times * len(self.stays),
            f"{self.says}: {steep} steep",
        )
        return calm, flat


@step(
    "halves",
    how="sampled",
    says="Lemma 5: stays in groups that share what is there at each step evenly",
)
def halves_step() -> str:
    """Random stays, many of them with the same first or last step."""
    rng, count = random.Random(71), 2 * constants.EXECUTIONS
    for _ in range(count):
        last = rng.randint(1, 30)
        stays = [tuple(sorted(rng.choices(range(last), k=2))) for _ in range(rng.randint(1, 40))]
        for t in (2, 4, 8):
            parts = groups(stays, t)  # type: ignore[arg-type]
            require(sorted(itertools.chain(*parts)) == list(range(len(stays))), f"{stays}: {parts}")
            for at in range(last):
                there = sum(a <= at <= b for a, b in stays)
                shares = [sum(stays[x][0] <= at <= stays[x][1] for x in part) for part in parts]
                require(min(shares) >= there // t, f"{stays}, step {at}: {shares}")
                require(max(shares) <= -(-there // t), f"{stays}, step {at}: {shares}")
    return f"{count} random families in 2, 4 and 8 groups, seed 71"


def some_plays(seed: int, count: int) -> Iterator[tuple[str, int, int, int, Side, Side]]:
    """Random plays, sweeps of blocks, and alternating blocks of rows and of columns."""
    rng = random.Random(seed)
    for draw in range(count):
        m, n = rng.randint(1, 22), rng.randint(1, 3)
        R, C = (n * m + rng.choice([0, 0, n, n + 1, n + 3]) for _ in range(2))
        how = rng.choice([plays.at_random, plays.in_sweeps, plays.by_turns, plays.one_by_one])
        if how is plays.at_random:
            m = min(m, 6)
            R, C = n * (m + 1) + rng.randint(0, 1), n * (m + 1)
        play = how(R, C, m, rng)
        for item in list(play.there):
            play.leave(item)
        require(len(play.met) == R * C and play.most <= m + 1, f"{len(play.met)}, {play.most}")
        says = f"{R} rows, {C} columns, m = {m}, draw {draw} of seed {seed}"
        yield says, R, C, m + 1, *play.sides


@step(
    "whole-game",
    how="sampled",
    says="Lemmas 5 and 6 in the game of whole rows, and Theorem 9",
)
def whole_game() -> str:
    """A word is a whole row, no pair is lost."""
    seen: Counter[str] = Counter()
    rng, nearest, count = random.Random(72), Fraction(0), 3 * constants.EXECUTIONS
    for says, R, C, W, rows, columns in some_plays(73, count):
        n = max(1, min(R, C) // W)
        k = max(1, n * W - min(R, C) + rng.choice([0, 0, 1, 2]))
        t = rng.choice([2, 4])
        level = Fraction(W, 3)
        if k >= W:
            continue
        one, two = (
            Family(*sides, Sizes(W, n, k, t), says) for sides in ((rows, columns), (columns, rows))
        )
        loads, least = len(one.stays) + len(two.stays), n + constants.SPARE
        for family in (one, two):
            require(not family.short, f"{family.says}: {family.short} meet too few")
            found = family.served()
            seen["good"] += family.good
            seen["late"] += len(family.late)
            seen["bad"] += len(family.bad)
            lost = n * len(family.late) + len(family.bad)
            low = (least - Fraction(n, t)) * len(family.words) - lost
            require(loads >= low and found <= len(family.ends), f"{family.says}: {loads} < {low}")
            if not lost:
                nearest = max(nearest, Fraction(len(family.stays) + found, loads))
        (calm, steady), (settled, flat) = one.left_out(level), two.left_out(level)
        require(not (calm and flat) and not (settled and steady), f"{one.says}: both are bad")
        seen["filling"] += len(one.bad) - len(calm)
        seen["steep"] += len(two.bad) - len(flat)
        if 6 * (k + t * k) <= W:
            seen["plays"] += 1
            low = (least - Fraction(n, t)) * min(R, C)
            times = constants.ALL_LEFT_OUT * n
            require(loads * (1 + Fraction(times * t * k, W)) >= low, f"{says}: {loads} loads")
    require(
        min(seen[x] for x in ("good", "late", "bad", "filling", "steep", "plays")) > 0,
        f"seen: {dict(seen)}",
    )
    return (
        f"{count} plays, {seen['good']} good words, {seen['late']} late, {seen['bad']} bad, "
        f"{seen['filling']} filling, {seen['steep']} steep; pieces and stays at most "
        f"{float(nearest):.0%} of the loads, seeds 72 and 73"
    )


def check_execution(seed: int, trees: bool) -> str:
    """What the stays of a word meet whole, and Lemmas 5 and 6 for the stays that there are."""
    said = bad = count = 0
    rng = random.Random(seed)
    some = executions(seed, constants.EXECUTIONS // 2, trees)
    long = streaming(seed + 1, constants.EXECUTIONS // 4, trees)
    for says, M, run in itertools.chain(some, long):
        sides, W = (run.side(0), run.side(1)), M + constants.RESULT
        for which in (0, 1):
            check_word(run, which, sides[which], says)
        for own, other in (sides, sides[::-1]):
            met = sum(map(len, other.stays.values()))
            n = max(1, met // W)
            family = Family(own, other, Sizes(W, n, rng.randint(1, max(1, W // 3)), 2), says)
            family.left_out(Fraction(W, 3))
            for (word, stay), pairs in own.met.items():
                require(family.meets(stay) >= other.words * pairs, f"{says}: {word} in {stay}")
            said, bad = said + family.served(), bad + len(family.bad)
        count += 1
    require(said > count and bad > 0, f"{said} pieces, {bad} bad words")
    return f"{count} executions, {said} pieces that take a stay, {bad} bad words, seed {seed}"


def check_word(run: Counted, which: int, side: Side, says: str) -> None:
    """Check how many pairs a word's stays meet whole, and what they meet of the other side."""
    spilled = Counter(word[1 + which] for word in run.spilled if word[0] == "s")
    pairs = Counter(pair[which] for pair in run.made)
    for word, runs in side.stays.items():
        met = sum(side.met[word, stay] for stay in runs)
        lost = constants.ENDS * len(runs) * (constants.BUSY * side.words - 1) + spilled[word[1]]
        require(met >= pairs[word[1]] - lost, f"{says}: {word} meets {met} whole in {runs}")


@step(
    "whole-once",
    how="sampled",
    says="Lemmas 5 and 6 and what goes before them, on executions of class once",
)
def whole_once() -> str:
    """With row sums and without."""
    return check_execution(74, False)


@step("whole-trees", how="sampled", says="the same with sums by random trees")
def whole_trees() -> str:
    """A sum is there if any word of it is."""
    return check_execution(76, True)


@step("whole-words", how="proved", says="Theorem 9: what late, bad and spoiled words take")
def whole_words() -> str:
    """In units of W; `least` is (n + 1 − n/t)·m, `x` 5nAG; words of rows or those of columns."""
    import z3

    n, k, few, rows, columns, pairs, least, x, late, bad, words = z3.Reals(
        "n k kappa L L1 S least x late bad Q"
    )
    third, times = z3.Q(1, 3), z3.Q(round(1000 * constants.ALL_LEFT_OUT), 1000)
    spilled = z3.Q(round(1000 * constants.SPILLED), 1000)
    left_out = (
        z3.And(late * (1 - k) <= few * columns, bad * (1 - k - few - third) <= (k + few) * columns),
        z3.And(late * (1 - k) <= few * rows, bad * (third - few) <= few * columns),
    )
    for case in left_out:
        unsat(
            n >= 1,
            k > 0,
            few >= 2 * k,
            6 * (k + few) <= 1,
            rows >= 0,
            columns >= 0,
            pairs >= 0,
            x >= 0,
            case,
            rows + columns >= least - pairs - n * late - bad - x,
            words >= rows + columns + spilled * pairs,
            words * (1 + times * n * few) < least - x,
        )
    return "all reals n ≥ 1, κ ≥ 2k, 6(k + κ) ≤ W"


def theorem_9(N: int, d: int, n: int, sums: int, M: int) -> Fraction:
    """Its words for one head with d_v = d at the best t; 0 where it says nothing."""
    A, G, W, best = 2 * d + sums, 2 * d, M + constants.RESULT, Fraction(0)
    ends = (constants.CROSSED + 1) * n
    k = max(1, n * W - G * (N - ends * A), n * W - A * (N - ends * G))
    t = 2
    while 6 * (k + t * k) <= W:
        words = (n + constants.SPARE - Fraction(n, t)) * G * N - ends * A * G
        taken = 1 + Fraction(constants.ALL_LEFT_OUT * n * t * k, W)
        best, t = max(best, words / taken - sums * N), 2 * t
    return best


@step(
    "whole-sizes",
    how="exhaustive",
    says="Theorem 9 is below Theorem 5 at real sizes, and above it for a larger N",
)
def whole_sizes() -> str:
    """Where n sweeps just fit."""
    said = 0
    for N, d, sums in itertools.product((2**18, 2**30), (64, 128), (0, 1)):
        for n in range(1, 32):
            A = 2 * d + sums
            M = A * -(-N // n) + 2 * d + 1
            low, other = theorem_9(N, d, n, sums, M), float(evaluated.stays(M, A, 2 * d, N, N))
            other = max(other, 4.0 * d * N)  # with t = 0
            if N == 2**18:
                require(low <= other, f"d = {d}, n = {n}: {float(low)} words, not {other}")
            said += low > other
    require(said > 0, "it is never above")
    return f"N = 2^18, n ≤ 31, d = 64 and 128; at N = 2^30 it is above it for {said} of these sizes"
