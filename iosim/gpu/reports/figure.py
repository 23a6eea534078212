"""The figure: predicted against measured at both boundaries, and the law at DRAM."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from iosim.errors import InputError
from iosim.gpu.reports.tables import Table

COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999",
    "#5D3A9B",
)  # fmt: skip
MARKS = "osD^vPX*h"


def draw(tables: Iterable[Table], stem: Path) -> list[Path]:
    """Write ``stem.png`` and ``stem.svg`` from tables of the kinds `validate` and `dram`.

    Raises InputError if one of them is missing or the figure cannot be written.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for table in tables:
        rows.setdefault(table.kind, []).extend(table.rows)
    if missing := {"validate", "dram"} - set(rows):
        raise InputError(f"the figure needs the records {', '.join(sorted(missing))}: record them")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    style: Any = {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "font.size": 9,
        "svg.hashsalt": "iosim",
    }
    with plt.rc_context(style):
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13.5, 4.4))
        _boundary(left, rows["validate"])
        _dram(middle, rows["dram"])
        _law(right, rows["dram"])
        figure.tight_layout()
        paths = [stem.with_suffix(suffix) for suffix in (".png", ".svg")]
        try:
            stem.parent.mkdir(parents=True, exist_ok=True)
            for path in paths:
                meta = {"Date": None} if path.suffix == ".svg" else {}
                figure.savefig(path, dpi=150, metadata=meta)
        except OSError as error:
            raise InputError(f"cannot write {stem} ({error.strerror}): choose another") from error
        plt.close(figure)
    return paths


def _diagonal(axes: Any, low: float, high: float) -> None:
    axes.plot([low, high], [low, high], color="#888888", linewidth=0.8, zorder=0)
    axes.set_xscale("log")
    axes.set_yscale("log")


def _boundary(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Every configuration's loads and stores between the SM and L2."""
    names = list(dict.fromkeys(r["algorithm"] for r in rows))
    for k, name in enumerate(names):
        mine = [r for r in rows if r["algorithm"] == name]
        mark, colour = MARKS[k % len(MARKS)], COLOURS[k % len(COLOURS)]
        for way, filled in (("load", True), ("store", False)):
            axes.plot(
                [r[f"model_{way}"] for r in mine], [r[f"sram_{way}"] for r in mine], mark,
                color=colour, markersize=5, markeredgewidth=0.9,
                markerfacecolor=colour if filled else "none",
                label=name if filled else None,
            )  # fmt: skip
    every = [r[f"model_{way}"] for r in rows for way in ("load", "store")]
    _diagonal(axes, min(every), max(every))
    off = sum(r["unexplained"] for r in rows)
    axes.set_title(f"SM ↔ L2: {len(rows)} programs, {off} unexplained bytes", fontsize=9.5)
    axes.set_xlabel("the model's bytes (filled: loads, open: stores)")
    axes.set_ylabel("bytes counted by the hardware")
    axes.legend(fontsize=7.5)


def _dram(axes: Any, rows: list[dict[str, Any]]) -> None:
    """DRAM reads against the wave model; a bar is the drift bracket."""
    for in_step, label, colour in ((True, "in step", COLOURS[0]), (False, "plain", COLOURS[1])):
        mine = [r for r in rows if r["in_step"] == in_step]
        axes.plot(
            [r["predicted"] for r in mine], [r["measured"] for r in mine],
            "o" if in_step else "s", color=colour, label=label, markersize=6,
            markerfacecolor=colour if in_step else "none",
        )  # fmt: skip
        if not in_step:
            for r in mine:
                axes.plot([r["predicted"]] * 2, [r["drift_least"], r["drift_most"]],
                          color=colour, linewidth=2.4, alpha=0.35)  # fmt: skip
    axes.plot([], [], color=COLOURS[1], linewidth=2.4, alpha=0.35, label="explained by drift")
    every = [r["predicted"] for r in rows]
    _diagonal(axes, min(every), max(every))
    worst = max(abs(r["off"]) for r in rows if r["in_step"])
    axes.set_title(f"DRAM reads: in step within {worst:.2%} of the model", fontsize=9.5)
    axes.set_xlabel("predicted bytes (waves of resident programs)")
    axes.set_ylabel("bytes counted by the hardware")
    axes.legend(fontsize=7.5)


def _law(axes: Any, rows: list[dict[str, Any]]) -> None:
    """DRAM reads against the rows resident on the chip: 2N²d words over rows."""
    kept = [r for r in rows if r["in_step"] and r["d"] == 64]
    for k, N in enumerate(sorted({r["N"] for r in kept})):
        mine = [r for r in kept if r["N"] == N]
        held = [r["programs"] * r["B_r"] for r in mine]
        span = [min(held) * 0.8, max(held) * 1.25]
        axes.plot(span, [2 * 2 * N * N * 64 / x for x in span], color=COLOURS[k], linewidth=0.9,
                  label=f"2N²d / rows, in words of 2 bytes, N = {N:,}")  # fmt: skip
        for B_r, mark in zip((32, 64, 128), "^os", strict=True):
            points = [(r["programs"] * r["B_r"], r["measured"]) for r in mine if r["B_r"] == B_r]
            if points:
                axes.plot(*zip(*points, strict=True), mark, color=COLOURS[k], markersize=6,
                          label=f"B_r = {B_r}")  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title("The law at DRAM: N²d²/M, M the rows on the chip", fontsize=9.5)
    axes.set_xlabel("rows of Q and O resident at once")
    axes.set_ylabel("DRAM bytes read, in step")
    axes.legend(fontsize=7.5, loc="lower left")
    axes.set_ylim(bottom=0.35 * min(r["measured"] for r in kept))
