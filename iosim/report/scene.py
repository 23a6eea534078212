"""What a schedule's animation shows, as plain numbers: a scene that stays, and frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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


# Colors of a theme; tensors have those of the lab's page.
SIGNS = "QKVOSPABCXY"
THEMES: dict[str, dict[str, str]] = {
    "light": {
        "background": "#ffffff",
        "panel": "#f5f6f8",
        "text": "#16181d",
        "muted": "#565c68",
        "line": "#c9cdd5",
        "accent": "#0b5cad",
        "mark": "#fff1c2",
        "wrong": "#b3261e",
        "Q": "#0072b2",
        "K": "#d55e00",
        "V": "#009e73",
        "O": "#b4548f",
        "S": "#b87a00",
        "P": "#2a86b8",
        "A": "#0072b2",
        "B": "#d55e00",
        "C": "#b4548f",
        "X": "#0072b2",
        "Y": "#b4548f",
        "other": "#6b7280",
    },
    "dark": {
        "background": "#14161a",
        "panel": "#1e2127",
        "text": "#eceef2",
        "muted": "#a6adba",
        "line": "#3a3f49",
        "accent": "#6cb2ff",
        "mark": "#4a3d12",
        "wrong": "#ff9b91",
        "Q": "#4ba3e3",
        "K": "#f0803c",
        "V": "#2fc79b",
        "O": "#dd92bd",
        "S": "#e69f00",
        "P": "#79c6f0",
        "A": "#4ba3e3",
        "B": "#f0803c",
        "C": "#dd92bd",
        "X": "#4ba3e3",
        "Y": "#dd92bd",
        "other": "#9ca3af",
    },
}
