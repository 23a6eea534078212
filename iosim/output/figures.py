"""Figures of tables: functions from rows to a matplotlib Figure.  They compute no count.

Imports matplotlib: `iosim.output.rows.Table.plot` and `iosim.output.plot` import it when they draw.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from iosim.errors import InputError
from iosim.output.drawing import drawing, styled
from iosim.output.plot import LINES, MARKERS, PALETTE

Rows = Sequence[Mapping[str, Any]]


@styled
def words(rows: Rows) -> Any:
    """Words against M, log-log: runs on formula lines, bounds, the crossover; of `iosim verify`."""
    figure, axes = drawing(figsize=(8.6, 4.6))
    names = list(dict.fromkeys(r["name"] for r in rows if r["kind"] in ("run", "formula")))
    for k, name in enumerate(names):
        # Colours that come again have another marker and another line.
        again, k = divmod(k, len(PALETTE))
        colour, marker = PALETTE[k], MARKERS[(k + again) % len(MARKERS)]
        line = LINES[again % len(LINES)]
        axes.plot(*_xy(rows, "formula", name), color=colour, linestyle=line)
        axes.plot(*_xy(rows, "run", name), marker, color=colour)
        axes.plot([], [], color=colour, marker=marker, linestyle=line, label=name)
    for k, name in enumerate(dict.fromkeys(r["name"] for r in rows if r["kind"] == "upper")):
        label = "published upper bounds" if k == 0 else None
        axes.plot(*_xy(rows, "upper", name), color="grey", linewidth=0.9, linestyle="-.",
                  zorder=1, label=label)  # fmt: skip
    lower = list(dict.fromkeys(r["name"] for r in rows if r["kind"] == "lower"))
    moved = [r["total_words"] for r in rows if r["kind"] != "lower"]
    best: dict[Any, float] = {}
    for r in rows:
        if r["kind"] == "lower":
            best[r["M_words"]] = max(best.get(r["M_words"], 0.0), r["total_words"])
    if lower:
        x, y = sorted(best), [best[m] for m in sorted(best)]
        axes.plot(x, y, color="black", linestyle="--", label="largest proven lower bound")
        axes.fill_between(x, [min(*moved, *y) / 2] * len(x), y, color="black", alpha=0.06)
    d2 = rows[0]["d"] ** 2
    spread = [r["M_words"] for r in rows]
    if min(spread) < d2 < max(spread):
        axes.axvline(d2, color="grey", linestyle=":", linewidth=1.2)
        axes.annotate("M = d²", (d2, 0.02), xycoords=("data", "axes fraction"),
                      xytext=(4, 0), textcoords="offset points", color="grey")  # fmt: skip
    axes.set(
        xscale="log", yscale="log", xlabel="fast memory M (words)",
        ylabel="words moved in the model, loads + stores",
        title=f"{_problem(rows[0])}: words moved against M",
    )  # fmt: skip
    low = min([*best.values(), *moved])
    axes.set_ylim(bottom=low / 1.6)
    # Beside the axes, where it hides no line.
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0),
                title="lines: formulas; points: runs")  # fmt: skip
    return figure


def _problem(row: Mapping[str, Any]) -> str:
    """Attention of a row's sizes; with options, in two lines."""
    columns = list(row)
    given = {x: row[x] for x in columns[: columns.index("M_words")]}
    options = {x: given[x] for x in given.keys() - {"kind", "name", "N", "d", "heads"}}
    told = [x if options[x] is True else f"{x} = {options[x]}" for x in given if x in options]
    if not told:
        return f"Attention, N = {row['N']:,}, d = {row['d']}"
    heads = f", heads = {row['heads']}" if "heads" in row else ""
    return f"Attention, N = {row['N']:,}, d = {row['d']}{heads},\n{', '.join(told)}"


def _xy(rows: Rows, kind: str, name: str) -> tuple[list[Any], list[Any]]:
    found = sorted(
        (r["M_words"], r["total_words"]) for r in rows if r["kind"] == kind and r["name"] == name
    )
    return [x for x, _ in found], [y for _, y in found]


@styled
def slope(rows: Rows) -> Any:
    """Words against capacity: a schedule at its best tiles, a program in caches, the bound."""
    figure, axes = drawing(figsize=(8.6, 4.6))
    series = (
        ("lru", "words", "cache, LRU", PALETTE[1], "-"),
        ("opt", "words", "cache, OPT", PALETTE[2], "-"),
        ("opt", "loads", "cache, OPT, loads alone", PALETTE[2], ":"),
        ("explicit", "words", "schedule, its best tiles", PALETTE[0], "-"),
        ("bound", "words", "proven lower bound", "black", "--"),
    )
    for name, column, label, colour, line in series:
        some = [(r["capacity"], r[column]) for r in rows if r["series"] == name and r[column]]
        if some:
            # OPT is replayed at few capacities, which its marks show.
            axes.plot(*zip(*some, strict=True), color=colour, linestyle=line, label=label,
                      marker="." if name == "opt" else "")  # fmt: skip
    axes.set_xscale("log", base=2)
    held = textwrap.fill(f"tiles in the caches: {rows[0]['tiles']}", 70)
    axes.set(
        yscale="log", xlabel="capacity in words: fast memory, or the cache",
        ylabel="words moved in the model, loads + stores",
    )  # fmt: skip
    axes.set_title(f"{rows[0]['program']}\n{rows[0]['problem']}\n{held}", fontsize=10)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


@styled
def gap(rows: Rows) -> Any:
    """Best schedule over lower bound against M/d², a line for each d and class."""
    figure, axes = drawing(layout=None)
    lines = list(dict.fromkeys((r["class"], r["d"]) for r in rows))
    for k, (klass, d) in enumerate(lines):
        mine = sorted((r["M_words"] / d**2, r["gap"]) for r in rows
                      if (r["class"], r["d"]) == (klass, d))  # fmt: skip
        axes.plot(*zip(*mine, strict=True), color=PALETTE[k % len(PALETTE)],
                  marker=MARKERS[k % len(MARKERS)], markevery=max(1, len(mine) // 12),
                  label=f"d = {d}, {klass}")  # fmt: skip
    axes.axvline(1, color="grey", linestyle=":", linewidth=1.2)
    axes.annotate("M = d²", (1, 0.02), xycoords=("data", "axes fraction"), xytext=(4, 0),
                  textcoords="offset points", color="grey")  # fmt: skip
    axes.axhline(1, color="black", linewidth=1)
    axes.set(
        xscale="log", xlabel="M / d²", ylabel="best schedule ÷ proven lower bound",
        ylim=(0.97, None), title=f"How far from optimal: N = {rows[0]['N']:,}",
    )  # fmt: skip
    axes.legend()
    return figure


@styled
def counts(rows: Rows) -> Any:
    """Words by tensor, loads and stores side by side."""
    figure, axes = drawing(figsize=(7.2, 1.2 + 0.45 * max(1, len(rows))))
    names = [row["tensor"] for row in rows]
    before = [0] * len(rows)
    for column, label, colour in (
        ("load_words", "loads", PALETTE[0]),
        ("store_words", "stores", PALETTE[1]),
    ):
        moved = [row[column] for row in rows]
        axes.barh(names, moved, left=before, color=colour, label=label, height=0.6)
        before = [a + b for a, b in zip(before, moved, strict=True)]
    for name, total in zip(names, before, strict=True):
        axes.annotate(f" {total:,}", (total, name), va="center")
    axes.invert_yaxis()
    axes.set_xlim(0, 1.25 * max(before, default=1))
    axes.set(xlabel="words moved in the model", title="Words moved, by tensor")
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


@styled
def bounds(rows: Rows) -> Any:
    """The best schedule and every lower bound, on a logarithmic scale."""
    figure, axes = drawing(figsize=(7.6, 1.2 + 0.42 * len(rows)))
    shown = [row for row in rows if row["words"] > 0]
    for row in shown:
        schedule = row["kind"] == "schedule"
        colour, marker = (PALETTE[0], "D") if schedule else ("black", "o")
        axes.plot(row["words"], row["name"], marker, color=colour, markersize=7)
        axes.annotate(f"   {row['words']:,.0f}", (row["words"], row["name"]), va="center")
    axes.invert_yaxis()
    axes.margins(x=0.3)
    axes.set(xscale="log", xlabel="words moved in the model",
             title="The best schedule (diamond), and lower bounds")  # fmt: skip
    axes.grid(visible=False, axis="y")
    return figure


@styled
def pebbles(rows: Rows) -> Any:
    """Red pebbles and I/Os after each move of a schedule."""
    figure, (above, below) = drawing(nrows=2, sharex=True)
    moves = [row["move"] for row in rows]
    above.step(moves, [row["red_words"] for row in rows], where="post", color=PALETTE[1])
    above.axhline(rows[0]["M_words"], color="black", linewidth=1, linestyle="--", label="M")
    above.set(ylabel="red pebbles", ylim=(0, None), title="A schedule, move by move")
    above.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    loads, stores = ([row[x] for row in rows] for x in ("loads", "stores"))
    below.stackplot(moves, loads, stores, labels=["loads", "stores"], step="post",
                    colors=[PALETTE[0], PALETTE[4]])  # fmt: skip
    below.set(xlabel="move", ylabel="I/Os so far", ylim=(0, None))
    below.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


@styled
def sweep(rows: Rows) -> Any:
    """Words against M, log-log: a line for each schedule and each set of sizes, and the bound."""
    if not rows:
        raise InputError("the sweep has no rows that were counted: nothing to plot")
    figure, axes = drawing(figsize=(8.6, 4.6))
    keys = [x for x in rows[0] if x not in ("M_words", "total_words", "lower_bound_words")]
    vary = [x for x in keys if x == "algorithm" or len({row.get(x) for row in rows}) > 1]
    lines: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        lines.setdefault(tuple(row.get(x) for x in vary), []).append(row)
    for k, (at, mine) in enumerate(lines.items()):
        again, k = divmod(k, len(PALETTE))
        mine = sorted(mine, key=lambda row: row["M_words"])
        label = ", ".join(str(v) if x == "algorithm" else f"{x} = {v}"
                          for x, v in zip(vary, at, strict=True) if v is not None)  # fmt: skip
        axes.plot([r["M_words"] for r in mine], [r["total_words"] for r in mine], label=label,
                  color=PALETTE[k], marker=MARKERS[(k + again) % len(MARKERS)],
                  linestyle=LINES[again % len(LINES)],
                  markevery=max(1, len(mine) // 12))  # fmt: skip
    bound: dict[tuple[Any, ...], dict[int, float]] = {}
    for row in rows:
        at = tuple(row.get(x) for x in keys if x != "algorithm")
        bound.setdefault(at, {})[row["M_words"]] = row["lower_bound_words"]
    for number, found in enumerate(bound.values()):
        axes.plot(sorted(found), [found[M] for M in sorted(found)], color="black", zorder=1,
                  linestyle="--", label="largest lower bound" if not number else None)  # fmt: skip
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="fast memory M (words)",
        ylabel="words moved in the model, loads + stores",
        title="Words moved against M",
    )
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
