"""A cache, and what it moves: the two records that a replay takes and gives.

Numbers of this package are at the cache's two sides, in words of the model.

Replays take a `Cache` and give a `Traffic`; both are public.  An option of caches is a field here
and of `family.CacheFamily`, which says which methods count it; a number that is moved is a field of
`Traffic` and in `methods.MOVED`.  A policy is not added here but in `iosim.cache.policies`.
``tests/cache/test_cache_replay.py`` compares messages.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from iosim.base.errors import InputError, closest
from iosim.base.validate import whole_number
from iosim.cache.policies import POLICIES, Policy

Write = Literal["back", "through"]


@dataclass(frozen=True, kw_only=True)
class Cache:
    """A cache that manages itself.

    A miss fills a line.  Lines of one word are not read before they are written (Jouppi 1993,
    write-validate); longer ones are fetched first.  What is written stays until its line is
    evicted (`back`), or goes to slow memory at once, and misses around the cache (`through`).

    Attributes:
        capacity: words that it holds.
        policy: a key of `POLICIES`.
        line_words: words in a line.
        ways: lines in a set; none: one set of all lines, fully associative.  A line's set is its
            number modulo the sets.
        write: "back" or "through".
        bypass: whether a missing line may pass without staying; of policies that know the future.
            With lines of several words, a line that passes serves the words that follow one
            another in a stream of lines; in a stream of words each of these misses again.
        seed: of policies that draw.

    Raises InputError for a policy that is not there, a capacity that is not a whole number of lines
    or less than one, ways that don't divide the lines or don't suit the policy.

    >>> Cache(capacity=4096, line_words=32, ways=8).sets
    16
    >>> Cache(capacity=100, ways=8)
    Traceback (most recent call last):
    ...
    iosim.base.errors.InputError: 8 ways don't divide 100 lines (100 words): give a capacity of 96 \
or 104 words, or other ways
    """

    capacity: int
    policy: str = "lru"
    line_words: int = 1
    ways: int | None = None
    write: Write = "back"
    bypass: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        self._as_int("line_words")
        self._as_int("capacity", least=None)
        self._as_int("seed", least=None)
        if self.policy not in POLICIES:
            raise InputError(f"unknown policy {self.policy!r}: {closest(self.policy, POLICIES)}")
        if self.write not in ("back", "through"):
            raise InputError(f"write {self.write!r}: give 'back' or 'through'")
        if self.capacity < self.line_words:
            raise InputError(
                f"capacity {self.capacity} is under one line of {self.line_words} words: "
                f"give {self.line_words} or more"
            )
        self._divides(self.capacity, self.line_words, "words")
        if self.ways is not None:
            self._as_int("ways")
            self._divides(self.lines, self.ways, "ways")
        self._suits(POLICIES[self.policy])

    def _as_int(self, name: str, least: int | None = 1) -> None:
        """A field as a Python int."""
        number = whole_number(value := getattr(self, name))
        if number is None:
            raise InputError(f"{name}={value!r} is not a whole number: give one")
        if least is not None and number < least:
            raise InputError(f"{name}={value}: give {least} or more")
        object.__setattr__(self, name, number)

    def _divides(self, whole: int, part: int, what: str) -> None:
        if whole % part == 0:
            return
        step = part * (1 if what == "words" else self.line_words)
        near = self.capacity // step * step
        choice = " or ".join(str(c) for c in (near, near + step) if c)
        said = (
            f"lines of {part} words don't divide a capacity of {whole} words"
            if what == "words"
            else f"{part} ways don't divide {whole} lines ({self.capacity} words)"
        )
        other = "lines" if what == "words" else "ways"
        raise InputError(f"{said}: give a capacity of {choice} words, or other {other}")

    def _suits(self, policy: Policy) -> None:
        of = self.lines if self.ways is None else self.ways
        if policy.binary and of & (of - 1):
            raise InputError(
                f"{policy.name} needs a power of two of ways, not {of}: "
                f"give {1 << of.bit_length() - 1} or {1 << of.bit_length()}"
            )
        if policy.foresees and self.sets > 1:
            raise InputError(
                f"{policy.name} is fully associative: leave out ways={self.ways}, "
                f"or take another policy"
            )
        if self.bypass and not policy.foresees:
            can = ", ".join(name for name, p in POLICIES.items() if p.foresees)
            raise InputError(f"{policy.name} can't bypass: leave out bypass, or take {can}")

    @property
    def lines(self) -> int:
        """How many lines it holds."""
        return self.capacity // self.line_words

    @property
    def sets(self) -> int:
        """How many sets its lines are in."""
        return 1 if self.ways is None else self.lines // self.ways


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What a cache saw and moved.  Traffics add up.

    Attributes:
        accesses: reads and writes that came in.
        misses: those whose line was not there.
        loads: words read from slow memory.
        write_backs: words written to slow memory before the end.
        flush: words that were dirty in the cache at the end, and are written then.

    >>> Traffic(accesses=3, misses=2, loads=2) + Traffic(accesses=1, flush=1)
    Traffic(accesses=4, misses=2, loads=2, write_backs=0, flush=1)
    """

    accesses: int = 0
    misses: int = 0
    loads: int = 0
    write_backs: int = 0
    flush: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        if not isinstance(other, Traffic):
            return NotImplemented
        return Traffic(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        )

    @property
    def words(self) -> int:
        """All words that crossed to or from slow memory, the flush included."""
        return self.loads + self.write_backs + self.flush


def check_cache(given: Any) -> None:
    """Raise InputError for what is not a `Cache`."""
    if not isinstance(given, Cache):
        like = "Cache(capacity=4096, policy='lru')"
        raise InputError(f"{given!r} is not a cache: give one like {like}")
