"""The figure of a roofline, from its tables: both roofs, and each kernel at both boundaries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from iosim.base.rows import Row
from iosim.report.plot import PALETTE, STYLE, figure_rows, pyplot, save
from iosim.report.table import read_csv, write_csv

FILES = ("operators.csv", "machine.csv", "roofline.png", "roofline.svg")
# Boundary → the columns of its bytes and its intensity, a color, and whether its points are full.
_DRAWN = {
    "L2↔DRAM": ("dram_bytes", "intensity", PALETTE[0], True),
    "SM↔L2": ("sm_l2_bytes", "sm_l2_intensity", PALETTE[1], False),
}
_MARKERS = {"contraction": "o", "normalisation": "s", "elementwise": "^", "communication": "D"}


def write_figure(folder: Path, operators: Sequence[Row], machine: Sequence[Row]) -> list[Path]:
    """Write the tables of a roofline into a folder, and draw its figure; the paths."""
    tables = (folder / FILES[0], folder / FILES[1])
    for path, rows in zip(tables, (operators, machine), strict=True):
        write_csv(path, rows)
    return [*tables, *draw(folder, folder / "roofline")]


def draw(folder: Path, stem: Path) -> list[Path]:
    """Draw the figure of ``operators.csv`` and ``machine.csv``; a PNG and an SVG.

    A point is a kernel's FLOP/s at its least time over its FLOP per byte at one boundary.  Kernels
    without flop have no point.
    """
    operators = [r for r in figure_rows(read_csv(folder / FILES[0])) if r["flop"]]
    machine = figure_rows(read_csv(folder / FILES[1]))
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8.6, 5), layout="constrained")
        points = [
            (r[column], r["flop"] / r["time_s"] / 1e12, at, r["class"])
            for r in operators
            for at, (_, column, *_) in _DRAWN.items()
            if r[column]
        ]
        for x, y, at, klass in points:
            _, _, color, full = _DRAWN[at]
            axes.plot(
                x,
                y,
                _MARKERS[klass],
                color=color,
                markersize=6,
                alpha=0.85,
                zorder=3,
                markerfacecolor=color if full else "none",
            )
        xs = [x for x, *_ in points] or [1.0]
        ys = [y for _, y, *_ in points] or [1.0]
        peaks = {r["what"]: r["value"] / 1e12 for r in machine if r["unit"] == "FLOP/s"}
        speeds = {
            r["what"]: r["value"] / 1e12 for r in machine if r["unit"] == "B/s" and r["value"]
        }
        high = max(peaks.values())
        low = min([*xs, *(high / s / 4 for s in speeds.values())]) / 3
        far = max([*xs, *(high / s for s in speeds.values())]) * 3
        for at, speed in speeds.items():
            said = f"{at}: {speed * 1e3:,.0f} GB/s, ridge {high / speed:,.3g} FLOP/B"
            axes.plot(
                [low, high / speed], [low * speed, high], color=_DRAWN[at][2], zorder=1, label=said
            )
        start = min((high / s for s in speeds.values()), default=low)
        for (what, peak), line in zip(peaks.items(), ("-", "--"), strict=False):
            axes.plot(
                [start if peak == high else low, far],
                [peak, peak],
                line,
                color="black",
                linewidth=1.1,
                zorder=1,
                label=f"{what}: {peak:,.4g} TFLOP/s",
            )
        for at in _DRAWN:
            _, _, color, full = _DRAWN[at]
            axes.plot(
                [],
                [],
                "o",
                color=color,
                markerfacecolor=color if full else "none",
                label=f"kernels, by their bytes at {at}",
            )
        for klass, marker in _MARKERS.items():
            if any(k == klass for *_, k in points):
                axes.plot([], [], marker, color="grey", label=klass)
        axes.set(
            xscale="log",
            yscale="log",
            xlim=(low, far),
            ylim=(min([*ys, *peaks.values()]) / 3, high * 2),
            xlabel="FLOP per byte (full points: at L2↔DRAM; open: at SM↔L2)",
            ylabel="TFLOP/s at the least time",
            title=f"{machine[0]['of']}\n{machine[0]['title']}",
        )
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return save(figure, stem)
