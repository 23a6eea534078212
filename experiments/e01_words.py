"""I/O against M for every schedule: slopes −1 and −1/2, and the crossover at M = d².

Exact counts with optimal tiles, N = 4096, d = 32, 64, 128, M from 64 words to 2 Mi.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from iosim.report.exponents import fit_exponent
from iosim.report.plot import MARKERS, STYLE, WIDTH, WORDS, pyplot, save
from iosim.report.table import read_csv

from . import COLORS, SCHEDULES, Experiment, Rows, digits, run_main, swept

N, DS = 4096, (32, 64, 128)
COLUMNS = (
    "algorithm",
    "N",
    "d",
    "M_words",
    "load_words",
    "store_words",
    "total_words",
    "load_K_words + load_V_words AS KV_words",
    "lower_bound_words",
)
TWO_PASSES = ("naive", "small_cache", "spill_rows")
# Schedules with a power law: −1 above d², −1/2 below d²/4.
LAWS = (("flash2", -1.0), ("flash2_chunked", -1.0), ("small_cache", -0.5))


def tables() -> dict[str, Rows]:
    """Words of every schedule, and the fitted exponents."""
    rows = swept(COLUMNS, schedule=SCHEDULES, N=N, d=DS, M="64:2Mi:x1.3", feasible=True)
    for row in rows:
        row["lower_bound_words"] = digits(row["lower_bound_words"])
    return {"words.csv": rows, "slopes.csv": slopes(rows), "crossover.csv": crossover(rows)}


def slopes(rows: Rows) -> Rows:
    """Exponents of M: of K and V above d², of the score tiles' traffic below d²/4.

    Below, edges and statistics take O(√M) of a tile's M words: log w = a + b·log M + c/√M.
    """
    found = []
    for name, expected in LAWS:
        for d in DS:
            small = expected > -1
            low, high = (64, d * d // 4) if small else (d * d, N * d // 4)
            mine = [r for r in rows if (r["algorithm"], r["d"]) == (name, d)]
            mine = [r for r in mine if low <= r["M_words"] <= high]
            if high < 8 * low:  # too short a range to tell an exponent
                continue
            M = np.array([r["M_words"] for r in mine], np.float64)
            y = np.array([r["KV_words"] for r in mine], np.float64)
            if small:  # what is not moved per tile: S once out
                y = np.array([r["total_words"] - r["N"] ** 2 for r in mine], np.float64)
            fit = fit_exponent(M, y, edges=small)
            found.append(
                {
                    "algorithm": name,
                    "d": d,
                    "M_from_words": int(M.min()),
                    "M_to_words": int(M.max()),
                    "points": len(mine),
                    "expected": expected,
                    "fitted": digits(fit.value, 4),
                }
            )
    return found


def crossover(rows: Rows) -> Rows:
    """The M from which the best one-pass schedule moves no more than the best two-pass one."""
    found = []
    for d in DS:
        best: dict[int, dict[str, int]] = {}
        for r in rows:
            if r["d"] == d:
                kind = "two" if r["algorithm"] in TWO_PASSES else "one"
                here = best.setdefault(r["M_words"], {})
                here[kind] = min(here.get(kind, r["total_words"]), r["total_words"])
        both = sorted(M for M, here in best.items() if len(here) == 2)
        last = max((M for M in both if best[M]["one"] > best[M]["two"]), default=0)
        first = next(M for M in both if last < M)
        found.append(
            {
                "d": d,
                "two_passes_better_up_to_words": last,
                "one_pass_better_from_words": first,
                "ratio_to_d2_from": digits(last / d**2, 3),
                "ratio_to_d2_to": digits(first / d**2, 3),
            }
        )
    return found


def draw(folder: Path, stem: Path) -> list[Path]:
    """A panel for each d."""
    rows = read_csv(folder / "words.csv")
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(1, 3, figsize=(WIDTH, 4.9), sharey=True, layout="constrained")
        for axes, d in zip(panels, DS, strict=True):
            _panel(axes, [r for r in rows if r["d"] == d], d)
        panels[0].set_ylabel(f"loads + stores,\n{WORDS}")
        handles, labels = panels[-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        figure.suptitle(
            _describe(read_csv(folder / "crossover.csv"), read_csv(folder / "slopes.csv"))
        )
        return save(figure, stem)


def _describe(crossings: Rows, fits: Rows) -> str:
    """What the figure shows: where one pass becomes best, and the fitted exponents."""
    low = min(r["ratio_to_d2_from"] for r in crossings)
    high = max(r["ratio_to_d2_to"] for r in crossings)
    one, two = (sorted(r["fitted"] for r in fits if r["expected"] == law) for law in (-1.0, -0.5))
    return (
        f"One head, N = {N:,}: from M = {low} to {high} d² on one pass moves the fewest words,\n"
        f"with slope {one[0]:.2f} to {one[-1]:.2f}; below it two passes, with slope {two[0]:.2f}"
    ).replace("-", "−")


def _panel(axes: Any, rows: Rows, d: int) -> None:
    for k, name in enumerate(SCHEDULES):
        points = [(r["M_words"], r["total_words"]) for r in rows if r["algorithm"] == name]
        axes.plot(
            *zip(*points, strict=True),
            color=COLORS[k],
            marker=MARKERS[k],
            label=name,
            markevery=(k, len(SCHEDULES)),
        )
    bound = {r["M_words"]: r["lower_bound_words"] for r in rows}
    M = sorted(bound)
    axes.plot(M, [bound[m] for m in M], "--", color="black", label="proven lower bound")
    axes.fill_between(M, [1] * len(M), [bound[m] for m in M], color="black", alpha=0.06)
    axes.axvline(d * d, color="grey", linestyle=":", linewidth=1.2)
    axes.annotate(
        "M = d²",
        (d * d, 0.03),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        color="grey",
    )
    _guide(axes, [d * d * 1.5, d * d * 12], -1, 4 * N * N * d * d * 0.4, "∝ 1/M")
    _guide(axes, [max(120, d * d / 60), d * d / 2], -0.5, 4 * N * N * d * 0.4, "∝ 1/√M")
    axes.set(xscale="log", yscale="log", xlabel="fast memory M (words)", title=f"d = {d}")
    axes.set_ylim(2.5e5, 1.2e10)


def _guide(axes: Any, M: Sequence[float], power: float, scale: float, text: str) -> None:
    """A straight line under the bound, with its exponent."""
    axes.plot(M, [scale * m**power for m in M], color="dimgrey", linewidth=1)
    axes.annotate(
        text,
        (M[1], scale * M[1] ** power),
        xytext=(0, -3),
        ha="right",
        va="top",
        textcoords="offset points",
        color="dimgrey",
        fontsize=9,
    )


EXPERIMENT = Experiment("e01_words", tables, draw)

if __name__ == "__main__":
    run_main(EXPERIMENT.main)
