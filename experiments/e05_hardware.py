"""Predicted against hardware, at both boundaries: SM↔L2 and L2↔DRAM of an H200.

The recorded runs of `iosim gpu validate` and `iosim gpu dram` are replayed: today's model against
the counters' reports, with no GPU.  At the upper boundary the model is an SM's own traffic; at DRAM
it is the wave model, in which programs that run together read K and V once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iosim.gpu.reports import gpu_report
from iosim.report.plot import MARKERS, PALETTE, STYLE, WIDTH, draw_legend, pyplot, save
from iosim.report.table import read_csv

from . import DATA, Experiment, Rows, digits, run_main

RECORDS = DATA / "gpu" / "h200"
# Dense attention; docs/gpu.md has the runs with masks, windows and pages.
DENSE = ("validate", "validate-dtypes")


def tables() -> dict[str, Rows]:
    """One row for each kernel at the upper, and each run at the lower boundary."""
    upper: Rows = []
    for folder in DENSE:
        for r in gpu_report("validate").table(RECORDS / folder).rows:
            if r["failed"]:
                continue
            row = {x: r[x] for x in ("algorithm", "sizes", "dtype", "M_words", "tiles")}
            for way in ("load", "store"):
                row |= {
                    f"model_{way}_bytes": r[f"model_{way}"],
                    f"hardware_{way}_bytes": r[f"sram_{way}"],
                    f"explained_{way}_bytes": r[f"explained_{way}"],
                }
            upper.append(row | {"unexplained_bytes": r["unexplained"]})
    lower = [
        {
            "N": r["N"],
            "d": r["d"],
            "B_r": r["B_r"],
            "stages": r["stages"],
            "in_step": r["in_step"],
            "programs": r["programs"],
            "predicted_read_bytes": r["predicted"],
            "hardware_read_bytes": r["measured"],
            "drift_least_bytes": r["drift_least"],
            "drift_most_bytes": r["drift_most"],
            "ratio": digits(r["measured"] / r["predicted"], 5),
        }
        for r in gpu_report("dram").table(RECORDS / "dram").rows
        if not r["failed"]
    ]
    return {"sm_l2.csv": upper, "dram.csv": lower}


def draw(folder: Path, stem: Path) -> list[Path]:
    """Both boundaries: what the counters show over what is predicted."""
    upper, lower = read_csv(folder / "sm_l2.csv"), read_csv(folder / "dram.csv")
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(2, 1, figsize=(WIDTH, 7.8))
        _upper(left, upper)
        _lower(right, lower)
        figure.suptitle(
            f"{len(upper) + len(lower)} kernels and runs on an H200: "
            "what its counters show, less or over what is predicted"
        )
        figure.tight_layout()
        return save(figure, stem)


def _upper(axes: Any, rows: Rows) -> None:
    names = list(dict.fromkeys(r["algorithm"] for r in rows))
    colors = (*PALETTE, "#7F7F7F", "#882255")
    marks = MARKERS + "*h"
    for k, name in enumerate(names):
        mine = [r for r in rows if r["algorithm"] == name]
        for way in ("load", "store"):
            axes.plot(
                [r[f"model_{way}_bytes"] for r in mine],
                [_unexplained(r, way) for r in mine],
                marks[k % len(marks)],
                color=colors[k % len(colors)],
                markerfacecolor=colors[k % len(colors)] if way == "load" else "none",
                label=name if way == "load" else None,
            )
    every = [r[f"model_{way}_bytes"] for r in rows for way in ("load", "store")]
    _equal(axes, 0, every)
    axes.set(ylim=(-1, 1), yticks=(-1, 0, 1))
    off = sum(r["unexplained_bytes"] for r in rows)
    axes.set(
        title=f"SM↔L2: {len(rows)} kernels, {off} unexplained bytes",
        xlabel="the model's bytes at SM↔L2 (filled: loads; open: stores)",
        ylabel="counted − predicted, bytes at SM↔L2",
    )
    draw_legend(axes)


def _lower(axes: Any, rows: Rows) -> None:
    kinds = (
        (True, "programs in lockstep", "o", PALETTE[0]),
        (False, "plain launches", "s", PALETTE[1]),
    )
    drift = ("drift_least_bytes", "drift_most_bytes")
    for in_step, label, mark, color in kinds:
        mine = [r for r in rows if r["in_step"] == in_step]
        axes.plot(
            [r["predicted_read_bytes"] for r in mine],
            [r["ratio"] for r in mine],
            mark,
            color=color,
            markerfacecolor=color if in_step else "none",
            markersize=6,
            label=label,
        )
        if not in_step:
            for r in mine:
                axes.plot(
                    [r["predicted_read_bytes"]] * 2,
                    [r[x] / r["predicted_read_bytes"] for x in drift],
                    color=color,
                    linewidth=3,
                    alpha=0.3,
                    solid_capstyle="butt",
                )
    axes.plot([], [], color=PALETTE[1], linewidth=3, alpha=0.3, label="explained by their drift")
    every = [r["predicted_read_bytes"] for r in rows]
    _equal(axes, 1, every)
    axes.set(yscale="log")
    worst = max(abs(r["ratio"] - 1) for r in rows if r["in_step"])
    axes.set(
        title=f"L2↔DRAM, reads: in lockstep within {worst:.2%} of the model",
        xlabel="the wave model's bytes at L2↔DRAM",
        ylabel="counted ÷ predicted, bytes at L2↔DRAM",
    )
    draw_legend(axes)


def _unexplained(row: dict[str, Any], way: str) -> int:
    """Bytes that the hardware counted and that neither the model nor its sectors explain."""
    told = row[f"model_{way}_bytes"] + row[f"explained_{way}_bytes"]
    return int(row[f"hardware_{way}_bytes"] - told)


def _equal(axes: Any, at: float, over: list[Any]) -> None:
    """The line on which nothing differs."""
    axes.axhline(at, color="black", linewidth=0.9, zorder=0)
    axes.set(xscale="log", xlim=(min(over) / 1.5, max(over) * 1.5))


EXPERIMENT = Experiment("e05_hardware", tables, draw)

if __name__ == "__main__":
    run_main(EXPERIMENT.main)
