"""Which schedule of the backward pass is best at which M, beside the lower bounds of two classes.

Exact counts with optimal tiles of all its schedules, one head, d = 64 and 128, N = 2¹⁴, 2¹⁷, 2²⁰,
M from d²/16 to 64d² words, and at most Nd/8; beside them the best in leading order for M ≪ Nd.  In
class `once` every score is computed once; `recompute` has the schedules that compute scores twice,
too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from iosim.bounds import best_lower_bound
from iosim.core.problem import AttentionBackward
from iosim.report.plot import MARKERS, STYLE, WIDTH, WORDS, draw_legend, pyplot, save
from iosim.report.table import read_csv

from . import COLORS, Experiment, Rows, digits, run_main, swept

DS, NS, SHOWN = (64, 128), (2**14, 2**17, 2**20), (2**20, 64)
FROM, TO, BELOW = 1 / 16, 64, 8  # M from d²/16 to 64d², and at most Nd/8
STEPS = 240  # of the leading order
CLASSES = ("once", "recompute")
TWICE = "two_kernels"  # computes scores twice
SCHEDULES = (
    "small_backward",
    "spill_weights",
    "spill_gradient",
    "flash2_backward",
    "two_kernels",
    "flash1_backward",
    "naive_backward",
)
# Words ÷ N² for d² ≪ N² and M ≪ Nd, x = M/d², where a schedule is best (docs/backward.md).
LEADING: dict[str, Callable[[float], float]] = {
    "small_backward": lambda x: 10 / x**0.5 + 3,
    "spill_weights": lambda x: min(4 / x + 7, 5 / x + 5),
    "spill_gradient": lambda x: 9 / x + 2,
    "flash2_backward": lambda x: 16 / x,
    "two_kernels": lambda x: 14 / x,
}
IN_LEADING_ORDER = "in leading order"


def tables() -> dict[str, Rows]:
    """Words of every schedule; by class the best one and the largest bound; the leading order."""
    rows: Rows = []
    for d in DS:
        for N in NS:
            to = min(TO * d * d, N * d // BELOW)
            M = f"{int(FROM * d * d)}:{to}:x1.15,{d * d}"
            rows += swept(
                ("algorithm", "N", "d", "M_words", "total_words"),
                schedule=SCHEDULES,
                N=N,
                d=d,
                M=M,
                feasible=True,
            )
    return {"words.csv": rows, "best.csv": list(_best(rows)), "leading.csv": list(_leading())}


def _able(name: str, klass: str) -> bool:
    return klass == "recompute" or name != TWICE


def _best(rows: Rows) -> Iterator[dict[str, Any]]:
    def at(r: dict[str, Any]) -> tuple[int, int, int]:
        return r["N"], r["d"], r["M_words"]

    for (N, d, M), here in groupby(sorted(rows, key=at), at):
        found = list(here)
        for klass in CLASSES:
            able = [r for r in found if _able(r["algorithm"], klass)]
            r = min(able, key=lambda r: r["total_words"])
            bound = best_lower_bound(AttentionBackward(N, d), M, klass)
            yield {
                "class": klass,
                "N": N,
                "d": d,
                "M_words": M,
                "M_over_d2": digits(M / d**2, 5),
                "best_algorithm": r["algorithm"],
                "total_words": r["total_words"],
                "lower_bound": bound.name,
                "lower_bound_words": digits(bound.words),
                "gap": digits(r["total_words"] / bound.words),
            }


def _leading() -> Iterator[dict[str, Any]]:
    """The best for any d, on a grid of M/d²."""
    for klass in CLASSES:
        for k in range(STEPS + 1):
            x = FROM * (TO / FROM) ** (k / STEPS)
            able = {name: words(x) for name, words in LEADING.items() if _able(name, klass)}
            name = min(able, key=lambda name: able[name])
            yield {
                "class": klass,
                "M_over_d2": digits(x, 5),
                "best_algorithm": name,
                "words_over_N2": digits(able[name]),
            }


def draw(folder: Path, stem: Path) -> list[Path]:
    """Words at one N and d; which schedule is best at each; words of the best over the bound."""
    words, best, leading = (read_csv(folder / f"{x}.csv") for x in ("words", "best", "leading"))
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(3, 1, figsize=(WIDTH, 12.2), height_ratios=(1.25, 1, 1))
        _words(panels[0], words, best, leading)
        _strips(panels[1], best, leading)
        _gaps(panels[2], best)
        for axes in panels:
            axes.set(xscale="log", xlim=(FROM, TO), xlabel="fast memory M / d²")
            axes.set_xticks([1 / 16, 1 / 4, 1, 4, 16, 64], ["1/16", "1/4", "1", "4", "16", "64"])
        N, d = SHOWN
        here = [r for r in best if (r["N"], r["d"], r["class"]) == (N, d, "recompute")]
        other = max(r["M_over_d2"] for r in here if r["best_algorithm"] != TWICE)
        since = min(r["M_over_d2"] for r in here if r["M_over_d2"] > other)
        figure.suptitle(
            f"The backward pass, one head: from M = {since:.1f} d² on (N = {N:,}, d = {d})\n"
            f"{TWICE} moves the fewest words; below, schedules that store N² words do"
        )
        figure.tight_layout()
        return save(figure, stem)


def _words(axes: Any, words: Rows, best: Rows, leading: Rows) -> None:
    N, d = SHOWN
    for k, name in enumerate(SCHEDULES):
        points = [
            (r["M_words"] / d**2, r["total_words"] / N**2)
            for r in words
            if (r["algorithm"], r["N"], r["d"]) == (name, N, d)
        ]
        axes.plot(
            *zip(*points, strict=True),
            color=COLORS[k],
            marker=MARKERS[k],
            label=name,
            markevery=(k, len(SCHEDULES)),
        )
    for klass, line in zip(CLASSES, ("-", "--"), strict=True):
        points = [
            (r["M_over_d2"], r["lower_bound_words"] / N**2)
            for r in best
            if (r["class"], r["N"], r["d"]) == (klass, N, d)
        ]
        axes.plot(
            *zip(*points, strict=True), color="black", linestyle=line, label=f"lower bound, {klass}"
        )
    points = [(r["M_over_d2"], r["words_over_N2"]) for r in leading if r["class"] == "recompute"]
    axes.plot(
        *zip(*points, strict=True),
        color="black",
        linestyle=":",
        linewidth=1.2,
        label=f"the best {IN_LEADING_ORDER}",
    )
    axes.set(
        yscale="log",
        ylim=(0.1, 100),
        ylabel=f"÷ N²: {WORDS}",
        title=f"Every schedule, N = {N:,}, d = {d}",
    )
    axes.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    draw_legend(axes)


def _strips(axes: Any, best: Rows, leading: Rows) -> None:
    """A strip for each class, d and N: the color of the schedule that is best."""
    labels, high = [], 0.0
    for klass in CLASSES:
        strips = {IN_LEADING_ORDER: [r for r in leading if r["class"] == klass]}
        for d in DS:
            for N in NS:
                strips[f"d = {d}, N = {_power(N)}"] = [
                    r for r in best if (r["class"], r["d"], r["N"]) == (klass, d, N)
                ]
        for label, rows in strips.items():
            rows = sorted(rows, key=lambda r: r["M_over_d2"])
            ends = [r["M_over_d2"] for r in rows[1:]] + [rows[-1]["M_over_d2"] * 1.0001]
            for r, end in zip(rows, ends, strict=True):
                color = COLORS[SCHEDULES.index(r["best_algorithm"])]
                axes.barh(
                    high,
                    end - r["M_over_d2"],
                    left=r["M_over_d2"],
                    height=0.8,
                    color=color,
                    linewidth=0,
                )
            labels.append((high, label))
            high -= 1
        labels.append((high, ""))
        high -= 0.8
    axes.set_yticks(*zip(*[x for x in labels if x[1]], strict=True))
    for k, klass in enumerate(CLASSES):
        axes.text(1.01, 1 - 0.53 * k, f"class {klass}", transform=axes.transAxes, va="top")
    switch = [
        r["M_over_d2"] for r in leading if (r["class"], r["best_algorithm"]) == ("recompute", TWICE)
    ]
    axes.set(
        title=f"The best schedule, by color; {TWICE} from {min(switch):.2g} d² on "
        f"{IN_LEADING_ORDER}"
    )
    axes.grid(False)


def _gaps(axes: Any, best: Rows) -> None:
    for k, (klass, d) in enumerate((klass, d) for klass in CLASSES for d in DS):
        points = [
            (r["M_over_d2"], r["gap"])
            for r in best
            if (r["class"], r["N"], r["d"]) == (klass, SHOWN[0], d)
        ]
        axes.plot(
            *zip(*points, strict=True),
            color=COLORS[k],
            marker=MARKERS[k],
            label=f"{klass}, d = {d}",
            markevery=(k, 6),
        )
    worst = max(r["gap"] for r in best if r["N"] == SHOWN[0])
    axes.axhline(1, color="black", linewidth=1)
    axes.set(
        ylim=(0.97, None),
        ylabel=f"best schedule ÷ lower bound,\n{WORDS}",
        title=f"Over its class's bound, N = {SHOWN[0]:,}: at most {worst:.2f}",
    )
    draw_legend(axes)


def _power(N: int) -> str:
    return f"2{str(N.bit_length() - 1).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


EXPERIMENT = Experiment("e11_backward", tables, draw)

if __name__ == "__main__":
    run_main(EXPERIMENT.main)
