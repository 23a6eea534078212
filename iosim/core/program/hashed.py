"""Hashes that are computed once per object, since indices and atoms are keys of many tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T", bound="Hashed")
_Value = TypeVar("_Value")


class Hashed:
    """A base of frozen dataclasses with slots, for `hashed`: where the hash is kept.

    It is not a field, so that copies in other processes, where hashes of strings differ, take their
    own.
    """

    __slots__ = ("_hash", "_value")
    _hash: int
    _value: Any

    def keep(self, find: Callable[[Any], _Value]) -> _Value:
        """What a function finds of it, kept like the hash: one function for each class."""
        if not hasattr(self, "_value"):
            object.__setattr__(self, "_value", find(self))
        found: _Value = self._value
        return found


def hashed(made: type[_T]) -> type[_T]:
    """A frozen dataclass whose hash, of all that lies in it, is computed when it is first needed.

    >>> from dataclasses import dataclass
    >>> @hashed
    ... @dataclass(frozen=True, slots=True)
    ... class Point(Hashed):
    ...     x: int
    >>> hash(Point(3)) == hash(Point(3)) == hash((3,)), {Point(3), Point(3)}
    (True, {Point(x=3)})
    """
    fresh = made.__hash__

    def cached_hash(self: _T) -> int:
        try:
            return self._hash
        except AttributeError:
            found = fresh(self)
            object.__setattr__(self, "_hash", found)
            return found

    made.__hash__ = cached_hash  # type: ignore[method-assign,assignment]
    return made
