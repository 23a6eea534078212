"""What a schedule's animation shows, as plain numbers: a scene that stays, and frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iosim.base.reading import read_toml

# Rows and columns of a matrix: (first row, last row, first column, last column), ends left out.
Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class Panel:
    """A tensor as a matrix: `rows` by `columns`, and what its axes are called."""

    name: str
    rows: int
    columns: int
    axes: str


@dataclass(frozen=True)
class Scene:
    """What stays the same in all frames.

    Attributes:
        title, subtitle: what runs, and with which numbers.
        panels: the tensors in slow memory.
        listing: lines of the schedule.
        M: words of fast memory.
        peak: the most words that are resident at once.
        keys: what is counted, (direction, tensor).
        total: words moved in the end.
    """

    title: str
    subtitle: str
    panels: tuple[Panel, ...]
    listing: tuple[str, ...]
    M: int
    peak: int
    keys: tuple[tuple[str, str], ...]
    total: int


@dataclass(frozen=True)
class Frame:
    """What one frame shows.

    Attributes:
        line: the current line of the listing.
        moved: (direction, tensor, boxes) of the step; None where it moves nothing.
        trail: (tensor, boxes) of the transfers before, oldest first.
        resident: (buffer, words, tensor or "", boxes) in fast memory, in order.
        counts: words moved so far, by (direction, tensor).
        last: whether nothing comes after it.
    """

    line: int
    moved: tuple[str, str, tuple[Box, ...]] | None
    trail: tuple[tuple[str, tuple[Box, ...]], ...]
    resident: tuple[tuple[str, int, str, tuple[Box, ...]], ...]
    counts: Mapping[Any, int]
    last: bool = False


# Tensors with colors of their own, by the first letter of their names.
SIGNS = "QKVOSPABCXY"
THEMES: dict[str, dict[str, str]] = read_toml(Path(__file__).with_name("themes.toml"))
