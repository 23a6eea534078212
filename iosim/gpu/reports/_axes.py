"""What the panels of the GPU figure share.

The reports `validate`, `dram` and `layers` draw their panels with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from iosim.base.rows import Values

COLORS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#999999",
    "#5D3A9B",
)
MARKS = "osD^vPX*h<>pd8"  # more than there are colors, so that no pair comes twice


def level(axes: Any, at: float) -> None:
    """The horizontal line on which nothing differs, on a logarithmic axis of predictions."""
    axes.axhline(at, color="#888888", linewidth=0.8, zorder=0)
    axes.set_xscale("log")


def span(values: Sequence[float], form: str) -> str:
    """The least and the largest of `values` in words, each by a format."""
    if not values:
        return "none measured"
    return f"{min(values):{form}} to {max(values):{form}}"


Point = Callable[[Values], tuple[float, float]]


def scatter(
    axes: Any, rows: Sequence[Values], by: str, points: Sequence[Point], **how: Any
) -> None:
    """Rows as points, with a mark and a color for each value of the column `by`.

    Args:
        points: a row → where it is; the first is filled, another open.
    """
    for k, name in enumerate(dict.fromkeys(row[by] for row in rows)):
        mine = [row for row in rows if row[by] == name]
        mark, color = (x[k % len(x)] for x in (MARKS, COLORS))
        for point, face in zip(points, (color, "none"), strict=False):
            axes.plot(
                *zip(*map(point, mine), strict=True),
                mark,
                color=color,
                markersize=5,
                markerfacecolor=face,
                label=name if face == color else None,
                **how,
            )
