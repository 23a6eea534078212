"""Caches that differ in capacity alone, and which methods can count what they move.

``iosim cache`` makes a `CacheFamily` and gives it to `iosim.cache.methods`.  An option of caches is
a field here and in `record.Cache`; which methods count it is decided here.
``tests/cache/test_cache_cli.py`` compares messages for what doesn't fit together.
"""

from __future__ import annotations

from dataclasses import dataclass

from iosim.base.errors import InputError, closest
from iosim.cache.curves import STACKS
from iosim.cache.layouts import Layouts
from iosim.cache.policies import POLICIES
from iosim.cache.record import Write

# From this many capacities on the pass for every one is quicker.
SEVERAL = 8


@dataclass(frozen=True, kw_only=True)
class CacheFamily:
    """Caches of several capacities, or of all.

    Attributes:
        capacities: in words; None for every one at which something changes.
        policy, line_words, ways, write, bypass, seed: as of `iosim.cache.Cache`.
        sample: a share of the lines, from which LRU's loads are estimated; None for all.
        layouts: by tensor, as `iosim.cache.touches` takes them.

    Raises InputError for an unknown policy, one that can't bypass, and a sample of anything but
    LRU at chosen capacities, fully associative and writing back.

    >>> CacheFamily(capacities=[4096, 65536]).policy
    'lru'
    """

    capacities: list[int] | None = None
    policy: str = "lru"
    line_words: int = 1
    ways: int | None = None
    write: Write = "back"
    bypass: bool = False
    seed: int = 0
    sample: float | None = None
    layouts: Layouts | None = None

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise InputError(f"unknown policy {self.policy!r}: {closest(self.policy, POLICIES)}")
        if self.bypass and not POLICIES[self.policy].foresees:
            raise InputError(
                f"policy {self.policy} can't bypass: leave out --bypass, or take --policy opt"
            )
        if self.sample is None:
            return
        if self.policy != "lru" or self.ways is not None or self.write != "back":
            raise InputError(
                "a sample estimates fully associative LRU, writing back: leave out the rest"
            )
        if self.capacities is None:
            raise InputError("a sample needs capacities: give --capacity, like 4096,65536")

    @property
    def times(self) -> int:
        """How many caches the accesses go through."""
        if self.capacities is None or self.sample is not None:
            return 1
        return SEVERAL if self.at_once else len(self.capacities)

    @property
    def at_once(self) -> bool:
        """Whether the pass for every capacity is quicker than one cache after the other.

        It takes addresses that are words, and OPT's tells no write-backs.
        """
        return (
            len(self.capacities or ()) >= SEVERAL
            and self.sample is None
            and self.ways is None
            and self.write == "back"
            and self.policy in STACKS
            and not POLICIES[self.policy].foresees
        )

    @property
    def leaps(self) -> bool:
        """Whether a replay may leap over iterations (`iosim.cache.leaps`)."""
        return self.plain and self.policy == "lru" and bool(self.capacities) and not self.at_once

    @property
    def plain(self) -> bool:
        """Whether lines are of one word, in any place, row-major, and written back."""
        return not self._beyond

    @property
    def _beyond(self) -> list[str]:
        """What the quick methods can't do, whatever the policy."""
        found = {
            f"lines of {self.line_words:,} words": self.line_words != 1,
            f"sets of {self.ways} lines": self.ways is not None,
            "write-through": self.write != "back",
            "a layout": bool(self.layouts),
            "a sample": self.sample is not None,
        }
        return [what for what, there in found.items() if there]

    @property
    def slow(self) -> str:
        """Why a quick method can't do this, of whatever schedule; empty where each can."""
        beyond = self._beyond
        if self.policy == "opt" and self.bypass and not beyond:
            return "OPT has no closed form"
        if self.policy != "lru":
            beyond = [self.policy + (" without --bypass" if self.policy == "opt" else ""), *beyond]
        if not beyond:
            return ""
        return f"there is no closed form, and no replay of whole tiles, for {', '.join(beyond)}"

    def quick(self, method: str = "auto") -> list[str]:
        """The methods that need no stream for this; InputError for one that can't do it.

        >>> CacheFamily().quick(), CacheFamily(policy="opt", bypass=True).quick()
        (['formula', 'tiles'], ['tiles'])
        """
        can = {
            "formula": self.plain and self.policy == "lru",
            "tiles": self.plain
            and (self.policy == "lru" or (self.policy == "opt" and self.bypass)),
        }
        if not can.get(method, True):
            also = " or OPT with bypass" if method == "tiles" else ""
            raise InputError(
                f"method {method} is of LRU{also} with lines of one word, fully associative, in "
                "row-major layout, writing back: leave out the rest, or take --method stream"
            )
        return [name for name, able in can.items() if able]
