"""Plays of the game of whole rows, and the stays of their items, for Lemma 3."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from iosim.report.proof import require

Stay = tuple[int, int]  # its first and last step
Item = tuple[str, int, int]


@dataclass
class Side:
    """Rows or columns: their words' stays, and how many pairs each stay meets whole."""

    words: int  # of a row, or of a column
    stays: dict[Item, list[Stay]]
    met: dict[tuple[Item, Stay], int]

    def there(self, steps: Iterable[int]) -> dict[int, int]:
        """How many words have a stay, at each of these steps."""
        runs = [stay for own in self.stays.values() for stay in own]
        first, last = (sorted(ends) for ends in zip(*runs, strict=True)) if runs else ([], [])
        return {at: bisect_right(first, at) - bisect_left(last, at) for at in steps}

    def number(self) -> int:
        """How many stays there are."""
        return sum(map(len, self.stays.values()))


class Play:
    """The game of whole rows: what is loaded meets all of the other side that is there."""

    def __init__(self, R: int, C: int) -> None:
        self.rows = [("row", i, 0) for i in range(R)]
        self.columns = [("column", j, 0) for j in range(C)]
        self.there: list[Item] = []
        self.began: dict[Item, int] = {}
        self.meets: dict[Item, set[int]] = {}  # in its present stay
        self.met: set[tuple[int, int]] = set()
        self.sides = (Side(1, {}, {}), Side(1, {}, {}))
        self.loads = self.most = 0

    def load(self, item: Item) -> None:
        """One item more is there."""
        self.began[item], self.meets[item] = self.loads, set()
        for other in self.there:
            if other[0] != item[0]:
                self.met.add((item[1], other[1]) if item[0] == "row" else (other[1], item[1]))
                self.meets[item].add(other[1])
                self.meets[other].add(item[1])
        self.there.append(item)
        self.loads += 1
        self.most = max(self.most, len(self.there))

    def leave(self, item: Item) -> None:
        """One item fewer."""
        self.there.remove(item)
        side, stay = self.sides[item[0] == "column"], (self.began[item], self.loads - 1)
        side.stays.setdefault(item, []).append(stay)
        side.met[item, stay] = len(self.meets[item])

    def lacking(self, item: Item) -> int:
        """How many it would meet that it has not met."""
        new = [x[1] for x in self.there if x[0] != item[0]]
        pairs = [(item[1], x) if item[0] == "row" else (x, item[1]) for x in new]
        return sum(pair not in self.met for pair in pairs)


def at_random(R: int, C: int, m: int, rng: random.Random) -> Play:
    """Mostly what meets most is loaded; what leaves is the oldest, any, or now this, now that."""
    play, old = Play(R, C), rng.choice([0.0, 0.5, 1.0])
    while len(play.met) < R * C:
        out = [x for x in (*play.rows, *play.columns) if x not in play.there]
        best = max(out, key=lambda x: (play.lacking(x), rng.random()))
        play.load(best if rng.random() < 0.9 else rng.choice(out))
        if len(play.there) > m:
            play.leave(play.there[0] if rng.random() < old else rng.choice(play.there))
    return play


def in_sweeps(R: int, C: int, m: int, rng: random.Random) -> Play:
    """Blocks of some side stay, with items of the other side that are kept for all of them."""
    play, width = Play(R, C), rng.randint(1, m)
    stay, stream = rng.sample([play.rows, play.columns], 2)
    kept = stream[: rng.randint(0, m - width)]
    for item in kept:
        play.load(item)
    for first in range(0, len(stay), width):
        # The last of a sweep is the first of the next one.
        others, stream = stream, stream[::-1]
        for item in stay[first : first + width]:
            play.load(item)
        for item in others:
            if item not in kept and play.lacking(item):
                play.load(item)
                play.leave(item)
        for item in stay[first : first + width]:
            play.leave(item)
    return play


def by_turns(R: int, C: int, m: int, rng: random.Random) -> Play:
    """Now a block of rows stays while all columns stream past that lack it, now one of columns."""
    play = Play(R, C)
    left = [list(play.rows), list(play.columns)]
    while len(play.met) < R * C:
        which = rng.randrange(2) if all(left) else int(not left[0])
        stay, stream = left[which], left[1 - which]
        block = [stay.pop(0) for _ in range(min(len(stay), rng.choice([m, m, rng.randint(1, m)])))]
        for item in block:
            play.load(item)
        for item in stream:
            play.load(item)
            play.leave(item)
        for item in block:
            play.leave(item)
    return play


def one_by_one(R: int, C: int, m: int, rng: random.Random) -> Play:
    """One side streams past in a ring; of the other one an item goes when it has met all of it."""
    play = Play(R, C)
    stay, stream = rng.sample([play.rows, play.columns], 2)
    waiting, ring = list(stay), itertools.cycle(stream)
    meets = rng.randint(1, 3)
    while len(play.met) < R * C:
        for item in [x for x in play.there if len(play.meets[x]) == len(stream)]:
            play.leave(item)
        for _ in range(meets):
            if waiting and len(play.there) < m:
                play.load(waiting.pop(0))
        other = next(ring)
        play.load(other)
        play.leave(other)
    return play


# Rows 0 to 4 and columns 5 to 9, two of which stay: what is loaded, and what then leaves.
FIVE = (
    (0, None),
    (1, None),
    (5, 0),
    (2, 5),
    (6, 1),
    (7, 2),
    (0, 0),
    (3, 3),
    (4, 6),
    (1, 7),
    (8, 4),
    (9, 1),
    (0, 0),
    (2, 2),
    (3, 8),
    (4, 9),
    (5, None),
)


def five() -> int:
    """The loads of that play, once all rows have met all columns."""
    play = Play(5, 5)
    items = (*play.rows, *play.columns)
    for item, gone in FIVE:
        require(len(play.there) <= 2, f"{play.there} stay")
        play.load(items[item])
        if gone is not None:
            play.leave(items[gone])
    require(len(play.met) == 25, f"{len(play.met)} pairs")
    return play.loads


def played(R: int, C: int, m: int, rng: random.Random) -> tuple[Side, Side, int]:
    """A play with m items and the one that is loaded: rows, columns and loads."""
    play = rng.choice([at_random, in_sweeps])(R, C, m, rng)
    for item in list(play.there):
        play.leave(item)
    require(len(play.met) == R * C and play.most <= m + 1, f"{len(play.met)} pairs, {play.most}")
    return *play.sides, play.loads
