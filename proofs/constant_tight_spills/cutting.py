"""The events of constant_tight_spills.md on simulated executions, and the segments they make.

`once_items` and `tree_items` turn a log of `constant_tight.executions` and `.tree_executions` into
a list of items (weight, what, which): an event of that weight, with the product, if any, that goes
with it.  `cut` makes segments of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..constant_tight.executions import Entry
from . import constants

# (weight, "load" or "stay" or "E" or "F" or "", product or word)
Item = tuple[int, str, tuple[int, ...]]
Pair = tuple[int, ...]


def once_items(log: list[Entry]) -> tuple[list[Item], set[Pair]]:
    """The items of an execution with one accumulator for each sum, and the pairs that are spilled.

    A pair is spilled if a word of it is loaded.  A stay of an output entry is counted where it
    begins, with a load or a first product, if it has a product; its loads are not counted.
    """
    spilled = {word[1:] for what, word, _ in log if what == "load" and word[0] == "s"}
    useful: set[int] = set()
    since: dict[Any, int] = {}
    for at, (what, item, _) in enumerate(log):
        if what == "load" and item[0] == "o":
            since[item[1:]] = at
        elif what == "F":
            useful.add(since.setdefault((item[0], item[2]), at))
    items: list[Item] = []
    started: set[Any] = set()
    for at, (what, item, _) in enumerate(log):
        if what == "load":
            if item[0] != "o":
                items.append((1, "load", item[1:]))  # type: ignore[arg-type]
            elif at in useful:
                items.append((constants.STAY, "stay", item[1:]))  # type: ignore[arg-type]
        elif what in "EF":
            i, j, c = item
            if what == "E" and (i, j) in spilled and (i, j) not in started:
                items.append((1, "", ()))
            started.add((i, j))
            if what == "F" and at in useful:
                items.append((constants.STAY, "stay", (i, c)))
            items.append((0, what, item))  # type: ignore[arg-type]
    return items, spilled  # type: ignore[return-value]


@dataclass
class _Stay:
    """A stay of a sum in a log of `execute_trees`."""

    key: Any
    at: int
    fresh: bool
    stored: bool = False
    loads: list[int] = field(default_factory=list)
    products: int = 0


def _stays(log: list[Entry]) -> Iterator[_Stay]:
    count: dict[Any, int] = {}
    now: dict[Any, _Stay] = {}
    for at, (what, item, new) in enumerate(log):
        if what in "EF":
            key: Any = ("s", *item[:2]) if what == "E" else ("o", item[0], item[2])
            grows = new
        else:
            key, grows = item, {"load": 1, "gone": -1, "store": 0}[what]
        if key[0] not in "so":
            continue
        if not count.get(key) and grows > 0:
            now[key] = _Stay(key, at, what != "load")
            yield now[key]
        stay = now[key]
        count[key] = count.get(key, 0) + grows
        stay.stored |= what == "store"
        stay.products += what in "EF"
        if what == "load":
            stay.loads.append(at)


def tree_items(log: list[Entry]) -> tuple[list[Item], set[Pair]]:
    """The same for sums by trees: stays of scores, and the first load of a closed one moved."""
    stays = list(_stays(log))
    spilled = {stay.key[1:] for stay in stays if stay.key[0] == "s" and stay.loads}
    before: dict[int, list[Item]] = {}
    gone: set[int] = set()
    for stay in stays:
        if stay.key[0] == "o":
            if stay.products:
                before[stay.at] = [(constants.STAY, "stay", stay.key[1:])]
            gone.update(stay.loads)
        elif stay.fresh and stay.key[1:] in spilled:
            before[stay.at] = [(1, "", ())]
            if not stay.stored:  # its first load counts where it starts
                gone.add(stay.loads[0])
    items: list[Item] = []
    for at, (what, item, _) in enumerate(log):
        items += before.get(at, [])
        if what == "load" and at not in gone:
            items.append((1, "load", item[1:]))  # type: ignore[arg-type]
        elif what in "EF":
            items.append((0, what, item))  # type: ignore[arg-type]
    return items, spilled


@dataclass
class Part:
    """One segment: products, and entries of O whose stays begin in it."""

    events: int = 0
    first: set[Pair] = field(default_factory=set)
    second: set[Pair] = field(default_factory=set)
    stays: set[Pair] = field(default_factory=set)

    def pairs(self, kind: str) -> set[Pair]:
        """Pairs with a product of the kind E or F."""
        return {item[:2] for item in (self.first if kind == "E" else self.second)}

    def words(self) -> tuple[int, int, int, int]:
        """Words of Q, K, V and entries of O that its products touch."""
        q, k = ({(item[n], item[2]) for item in self.first} for n in (0, 1))
        v, o = ({(item[n], item[2]) for item in self.second} for n in (1, 0))
        return len(q), len(k), len(v), len(o)


def cut(items: list[Item], M: int, S: int) -> list[Part]:
    """Segments of at most M + S, then S; each ends where the next event is too much."""
    parts = [Part()]
    for weight, what, which in items:
        if weight and parts[-1].events + weight > (M + S if len(parts) == 1 else S):
            parts.append(Part())
        parts[-1].events += weight
        if what == "stay":
            parts[-1].stays.add(which)
        elif what == "E":
            parts[-1].first.add(which)
        elif what == "F":
            parts[-1].second.add(which)
    return parts
