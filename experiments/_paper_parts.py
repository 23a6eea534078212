"""What the paper is made of: parts, each a function with the names of what it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Made:
    """What a part makes: macros (name → LaTeX), files (name → text, or what saves it)."""

    numbers: Mapping[str, str]
    files: Mapping[str, str | Callable[[Path], None]]


@dataclass(frozen=True)
class Part:
    """Names of a part's macros and files, known without computing them, and what makes them."""

    numbers: tuple[str, ...]
    files: tuple[str, ...]
    make: Callable[[], Made]


PARTS: dict[str, Part] = {}


def part(*numbers: str, files: Sequence[str] = ()) -> Callable[[Callable[[], Made]], Part]:
    """Register a function as the part of its own name."""

    def register(make: Callable[[], Made]) -> Part:
        PARTS[make.__name__] = Part(numbers, tuple(files), make)
        return PARTS[make.__name__]

    return register
