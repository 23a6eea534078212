"""How far from optimal: every schedule over the largest proven lower bound, against M/d².

Exact counts with optimal tiles, N = 2¹⁸, d = 32, 64, 128, M from d²/16 to 64 d² words.  The bound
is that of class `once`: one accumulator per sum, every score computed once.  Beside the schedules
of the other experiments stand those that move the fewest words (docs/notes-schedules.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iosim.report.plot import (
    LINES,
    MARKERS,
    PALETTE,
    STYLE,
    WIDTH,
    WORDS,
    draw_legend,
    pyplot,
    save,
)
from iosim.report.table import read_csv

from . import COLORS, SCHEDULES, Experiment, Rows, digits, run_main, swept

N, DS, SHOWN = 2**18, (32, 64, 128), 64
EVERY = (*SCHEDULES, "flash2_log", "flash2_parts", "small_tiles")
FROM = 2.5  # times d²; from there on the gap is small
COLUMNS = ("algorithm", "d", "M_words", "total_words", "lower_bound_words", "gap")


def tables() -> dict[str, Rows]:
    """The gap of every schedule, and of the best one."""
    rows: Rows = []
    for d in DS:
        M = f"{d * d // 16}:{64 * d * d}:x1.15,{d * d}"
        rows += swept(COLUMNS, schedule=EVERY, N=N, d=d, M=M, feasible=True)
    best = []
    for d in DS:
        for M_words in sorted({r["M_words"] for r in rows if r["d"] == d}):
            here = [r for r in rows if (r["d"], r["M_words"]) == (d, M_words)]
            r = min(here, key=lambda r: r["total_words"])
            best.append(
                {
                    "d": d,
                    "M_words": M_words,
                    "M_over_d2": digits(M_words / d**2, 5),
                    "best_algorithm": r["algorithm"],
                    "gap": digits(r["gap"]),
                }
            )
    for r in rows:
        r["lower_bound_words"], r["gap"] = digits(r["lower_bound_words"]), digits(r["gap"])
    return {"gap.csv": rows, "best.csv": best}


def draw(folder: Path, stem: Path) -> list[Path]:
    """Above every schedule at one d, below the best one for each d."""
    rows, best = read_csv(folder / "gap.csv"), read_csv(folder / "best.csv")
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(2, 1, figsize=(WIDTH, 8.4))
        for k, name in enumerate(EVERY):
            turn, same = divmod(k, len(COLORS))
            points = [
                (r["M_words"] / r["d"] ** 2, r["gap"])
                for r in rows
                if (r["algorithm"], r["d"]) == (name, SHOWN)
            ]
            left.plot(
                *zip(*points, strict=True),
                color=COLORS[same],
                marker=MARKERS[same],
                linestyle=LINES[turn],
                label=name,
                markevery=(k, len(EVERY)),
            )
        left.set(
            yscale="log",
            ylim=(0.75, 80),
            title=f"Every schedule, d = {SHOWN}",
            ylabel=f"schedule ÷ lower bound,\n{WORDS}",
        )
        left.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
        draw_legend(left)
        for k, d in enumerate(DS):
            points = [(r["M_over_d2"], r["gap"]) for r in best if r["d"] == d]
            right.plot(
                *zip(*points, strict=True),
                color=PALETTE[k],
                marker=MARKERS[k],
                label=f"d = {d}",
                markevery=(2 * k, 6),
            )
        right.set(
            ylim=(0.97, None),
            title=f"The best schedule, at most {max(r['gap'] for r in best):.2f} at any M",
            ylabel=f"best schedule ÷ lower bound,\n{WORDS}",
        )
        draw_legend(right)
        for axes in (left, right):
            _frame(axes)
        near = max(r["gap"] for r in best if r["M_over_d2"] >= FROM)
        figure.suptitle(
            f"One head, N = {N:,}: from M = {FROM} d² on\n"
            f"the best schedule moves at most {near:.2f} times the lower bound"
        )
        figure.tight_layout()
        return save(figure, stem)


def _frame(axes: Any) -> None:
    axes.axhline(1, color="black", linewidth=1)
    axes.axvline(1, color="grey", linestyle=":", linewidth=1.2)
    axes.annotate(
        "M = d²",
        (1, 0.02),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        color="grey",
    )
    axes.set(xscale="log", xlabel="fast memory M / d²")


EXPERIMENT = Experiment("e02_gap", tables, draw)

if __name__ == "__main__":
    run_main(EXPERIMENT.main)
