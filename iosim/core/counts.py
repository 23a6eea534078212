"""Counts: words moved between the two levels, by direction and tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from iosim.base.display import Tabled

Direction = Literal["load", "store"]
Key = tuple[Direction, str]


@dataclass(frozen=True, slots=True)
class Counts(Tabled):
    """Words moved, as sorted ``((direction, tensor), words)`` pairs.

    Frozen, hashable and addable; ``eval(repr(c)) == c``.

    >>> a = Counts.of({("load", "Q"): 3, ("store", "O"): 2})
    >>> a + a
    Counts((('load', 'Q'), 6), (('store', 'O'), 4))
    >>> (a.load_words, a.store_words, a.total_words)
    (3, 2, 5)
    """

    items: tuple[tuple[Key, int], ...]
    html_by = "iosim.report.views:counts"
    table_by = "iosim.report.views:counts_table"

    def __init__(self, *items: tuple[Key, int]) -> None:
        if len(dict(items)) < len(items):
            raise ValueError(f"a key is counted twice in {items}: add Counts instead")
        object.__setattr__(self, "items", tuple(sorted(items)))

    @classmethod
    def of(cls, words: Mapping[Key, int]) -> Counts:
        """Build from a mapping; keys whose count is zero are kept."""
        return cls(*words.items())

    def __iter__(self) -> Iterator[tuple[Key, int]]:
        return iter(self.items)

    def __getitem__(self, key: Key) -> int:
        _check_direction(key[0])
        return dict(self.items).get(key, 0)

    def __add__(self, other: Counts) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        total = dict(self.items)
        for key, words in other.items:
            total[key] = total.get(key, 0) + words
        return Counts.of(total)

    def __repr__(self) -> str:
        return f"Counts({', '.join(map(repr, self.items))})"

    def by_tensor(self, direction: Direction) -> dict[str, int]:
        """Return ``{tensor: words}`` of one direction; KeyError where it is none."""
        _check_direction(direction)
        return {tensor: words for (way, tensor), words in self.items if way == direction}

    @property
    def load_words(self) -> int:
        """Words read from slow memory."""
        return sum(self.by_tensor("load").values())

    @property
    def store_words(self) -> int:
        """Words written to slow memory."""
        return sum(self.by_tensor("store").values())

    @property
    def total_words(self) -> int:
        """Words moved in either direction."""
        return self.load_words + self.store_words


def _check_direction(direction: str) -> None:
    if direction not in ("load", "store"):
        raise KeyError(f"{direction!r} is not a direction: load or store")
