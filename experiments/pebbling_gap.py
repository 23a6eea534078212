"""Attention's optima against the lower bounds, on the largest instances that can be solved.

``python -m experiments.pebbling_gap`` writes gap.csv, gap.json (the command, and what it ran on)
and the figure to `data/pebbling/`; ``--draw`` draws the figure from the committed table.  The game
is *words* of `experiments.pebbling_table`: what the bounds count.  One row is one instance at one
M, from the least that allows a game to the least at which only compulsory transfers are left.

An optimum is proved where a schedule moves as few words as a lower bound says: by annealing and the
bounds of `iosim.pebbling.bounds`, else in the table optima.csv, else by a search.  What stays open
is an interval.  A table that is there is carried on; ``--again`` tries what is open in it again.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from iosim.base.writing import out_dir
from iosim.bounds import BOUNDS, CLASSES, exact_lower_bounds
from iosim.core.problem import Attention
from iosim.pebbling.annealing import Annealing
from iosim.pebbling.bounds import root_bounds
from iosim.pebbling.solve import optimum
from iosim.report.plot import MARKERS, PALETTE, STYLE, WIDTH, WORDS, draw_legend, pyplot, save
from iosim.report.table import read_csv

from . import DATA, digits, run_main
from ._pebbling_tables import command, options, write_table
from .pebbling_table import GAMES, graph

NAME = "pebbling_gap"
GAME = GAMES["words"]
INSTANCES = (
    Attention(2, 1),
    Attention(2, 2),
    Attention(2, 3),
    Attention(3, 1),
    Attention(3, 2),
    Attention(4, 1),
    Attention(5, 1),
)
THEOREM = "constant-tight-once"


@functools.cache
def recorded() -> dict[tuple[str, int], int]:
    """The optima of `experiments.pebbling_table` that are proved, by instance and M."""
    return {
        (r["instance"], r["M_words"]): r["optimum_words"]
        for r in read_csv(DATA / "pebbling" / "optima.csv")
        if r["game"] == GAME.name and r["optimal"]
    }


def theorems(problem: Attention, M: int) -> dict[str, float]:
    """The bounds of ``iosim bounds`` that hold for the game: its row sums take no word."""
    found = exact_lower_bounds(problem, M, CLASSES["once"])
    return {b.name: digits(b.words or 0.0) for b in found if not b.row_sums}


def row(problem: Attention, M: int, seconds: float) -> dict[str, Any]:
    """What is known of one instance at one M."""
    dag, name = graph(problem, GAME), f"N={problem.N} d={problem.d}"
    began = time.monotonic()
    bounds = root_bounds(dag, M, partial=True, seconds=seconds / 4)
    root = max(bounds, key=lambda b: b.value)
    annealing = Annealing(dag, M, partial=True)
    annealing.run(seconds / 4, enough=root.value)
    low, high, by = root.value, annealing.cost, root.name
    if low < high and (searched := recorded().get((f"attention {name}", M))) is not None:
        low = high = searched
        by = "optima.csv"
    elif low < high:
        found = optimum(dag, M, partial=True, seconds=seconds)
        high = high if found.cost is None else min(high, found.cost)
        if found.lower_bound > low:
            low, by = found.lower_bound, "search"
    return {
        "instance": name,
        "vertices": len(dag.preds),
        "M_words": M,
        "optimum_words": high,
        "proved_words": low,
        "optimal": low == high,
        "proved_by": by,
        "seconds": round(time.monotonic() - began, 1),
        "moments": next((b.value for b in bounds if b.name == "moments"), bounds[0].value),
        **theorems(problem, M),
    }


def rows(seconds: float, before: Path, again: bool) -> Iterator[dict[str, Any]]:
    """All rows; those of a table are kept, or tried again where they are open."""
    old = {(r["instance"], r["M_words"]): r for r in (read_csv(before) if before.exists() else [])}
    for problem in INSTANCES:
        dag = graph(problem, GAME)
        M = dag.least_memory(partial=True)
        while True:
            made = old.get((f"N={problem.N} d={problem.d}", M))
            if made is None or (again and not made["optimal"]):
                made = merged(row(problem, M, seconds), made)
            made = {k: v for k, v in made.items() if k not in BOUNDS} | theorems(problem, M)
            yield made
            if made["optimum_words"] == made["compulsory"]:
                break
            M += 1


def merged(new: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
    """What two rows of one game know together."""
    if old is None:
        return new
    if old["proved_words"] > new["proved_words"]:
        new |= {key: old[key] for key in ("proved_words", "proved_by")}
    new["optimum_words"] = min(new["optimum_words"], old["optimum_words"])
    new["optimal"] = new["optimum_words"] == new["proved_words"]
    return new


def ratio(row: dict[str, Any], name: str) -> float:
    """The optimum over a bound."""
    return float(row["optimum_words"] / row[name])


def draw(table: Sequence[dict[str, Any]], stem: Path) -> list[Path]:
    """Above the words of one solved instance, below the optimum over the theorem, of all."""
    names = list(dict.fromkeys(r["instance"] for r in table))
    solved = [n for n in names if all(r["optimal"] for r in table if r["instance"] == n)]
    shown = max(solved, key=lambda n: sum(r["instance"] == n for r in table))
    here = [r for r in table if r["instance"] == shown]
    M = [r["M_words"] for r in here]
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, (top, low) = plt.subplots(2, 1, figsize=(WIDTH, 8.4))
        top.plot(M, [r["optimum_words"] for r in here], color="black", marker="o", label="optimum")
        lines = ("moments", "stays", THEOREM, "compulsory", "score-roots", "compression")
        for k, name in enumerate(lines):
            top.plot(
                M,
                [r[name] for r in here],
                color=PALETTE[k],
                marker=MARKERS[k + 1],
                linestyle="--",
                label=name,
            )
        top.set(
            title=f"{shown}: the optimum, proved at every M, and the lower bounds",
            ylabel=WORDS,
            ylim=(0, None),
        )
        draw_legend(top)
        for k, name in enumerate(names):
            some = [r for r in table if r["instance"] == name]
            proved = [(r["M_words"], ratio(r, THEOREM)) for r in some if r["optimal"]]
            low.plot(*zip(*proved, strict=True), color=PALETTE[k], marker=MARKERS[k], label=name)
            for r in some:
                if not r["optimal"]:
                    ends = (r["proved_words"] / r[THEOREM], ratio(r, THEOREM))
                    low.plot(
                        [r["M_words"] + 0.08 * (k - 3)] * 2,
                        ends,
                        color=PALETTE[k],
                        marker="_",
                        alpha=0.7,
                    )
        worst = max((r for r in table if r["optimal"]), key=lambda r: ratio(r, THEOREM))
        closed = sum(r["optimal"] for r in table)
        low.axhline(1, color="black", linewidth=1)
        title = f"Proved optima: at most {ratio(worst, THEOREM):.2f} times the theorem"
        if closed < len(table):
            title += "\nUpright lines, not proved: best lower bound to best schedule"
        low.set(title=title, ylabel=f"optimum ÷ {THEOREM},\n{WORDS}", ylim=(0.9, None))
        draw_legend(low)
        for axes, some in ((top, here), (low, table)):
            axes.set_xlabel("fast memory M, words (model)")
            axes.set_xticks(sorted({r["M_words"] for r in some}))
        figure.suptitle(
            f"Attention where everything is small: {closed} of {len(table)} optima proved"
        )
        figure.tight_layout()
        return save(figure, stem)


def main(argv: list[str] | None = None) -> None:
    """Make the table and the figure."""
    parser = options(NAME, __doc__)
    parser.add_argument("--again", action="store_true", help="try the open rows of a table again")
    parser.add_argument("--draw", action="store_true", help="only the figure, from the table")
    args = parser.parse_args(argv)
    stem = out_dir(args.out) / "gap"
    before = stem.with_suffix(".csv")
    if args.draw:
        draw(read_csv(before), stem)
        return
    line = "{instance}, M = {M_words}: {proved_words}..{optimum_words} by {proved_by}"
    about = command(NAME, argv)
    write_table(stem, rows(args.seconds, before, args.again), line, about, draw)


if __name__ == "__main__":
    run_main(main)
