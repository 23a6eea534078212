"""Figures of tables: functions from rows to a matplotlib Figure.  They compute no count.

Imports matplotlib: `iosim.base.rows.Table.plot` and `iosim.report.plot` import it when they draw.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from iosim.base.errors import InputError
from iosim.report.drawing import drawing, styled
from iosim.report.plot import LINES, MARKERS, MODEL, PALETTE, WIDTH, WORDS, draw_legend

Rows = Sequence[Mapping[str, Any]]


@styled
def words(rows: Rows) -> Any:
    """Words against M, log-log: runs on formula lines, bounds, the crossover; of `iosim verify`.

    Beneath them, how far each run is from its formula.
    """
    figure, (axes, below) = drawing(
        nrows=2, sharex=True, height_ratios=(5, 1), figsize=(WIDTH, 5.6)
    )
    differ: list[float] = []
    names = list(dict.fromkeys(r["name"] for r in rows if r["kind"] in ("run", "formula")))
    for k, name in enumerate(names):
        # Colors that come again have another marker and another line.
        again, k = divmod(k, len(PALETTE))
        color, marker = PALETTE[k], MARKERS[(k + again) % len(MARKERS)]
        line = LINES[again % len(LINES)]
        axes.plot(*_xy(rows, "formula", name), color=color, linestyle=line)
        axes.plot(*_xy(rows, "run", name), marker, color=color)
        axes.plot([], [], color=color, marker=marker, linestyle=line, label=name)
        formula = dict(zip(*_xy(rows, "formula", name), strict=True))
        off = [
            (m, y - formula[m])
            for m, y in zip(*_xy(rows, "run", name), strict=True)
            if m in formula
        ]
        below.plot([m for m, _ in off], [y for _, y in off], marker, color=color)
        differ += [abs(y) for _, y in off]
    for k, name in enumerate(dict.fromkeys(r["name"] for r in rows if r["kind"] == "upper")):
        label = "published upper bounds" if k == 0 else None
        axes.plot(
            *_xy(rows, "upper", name),
            color="grey",
            linewidth=0.9,
            linestyle="-.",
            zorder=1,
            label=label,
        )
    lower = list(dict.fromkeys(r["name"] for r in rows if r["kind"] == "lower"))
    moved = [r["total_words"] for r in rows if r["kind"] != "lower"]
    best: dict[Any, float] = {}
    for r in rows:
        if r["kind"] == "lower":
            best[r["M_words"]] = max(best.get(r["M_words"], 0.0), r["total_words"])
    if lower:
        x, y = sorted(best), [best[m] for m in sorted(best)]
        axes.plot(x, y, color="black", linestyle="--", label=_largest("once"))
        axes.fill_between(x, [min(*moved, *y) / 2] * len(x), y, color="black", alpha=0.06)
    runs = [r for r in rows if r["kind"] == "run"]
    above = bool(best) and all(r["total_words"] >= best.get(r["M_words"], 0) for r in runs)
    d2 = rows[0]["d"] ** 2
    spread = [r["M_words"] for r in rows]
    if min(spread) < d2 < max(spread):
        axes.axvline(d2, color="grey", linestyle=":", linewidth=1.2)
        axes.annotate(
            "M = d²",
            (d2, 0.02),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            color="grey",
        )
    axes.set(
        xscale="log",
        yscale="log",
        ylabel=f"loads + stores,\n{WORDS}",
        title=f"{_problem(rows[0])}:\n{_describe_errors(differ, above)}",
    )
    below.set(xlabel="fast memory M (words)", ylabel="run − formula,\nslow ↔ fast\n(words)")
    if not any(differ):
        below.set(ylim=(-1, 1), yticks=(-1, 0, 1))
    low = min([*best.values(), *moved])
    axes.set_ylim(bottom=low / 1.6)
    # Next to the axes, where it hides no line.
    draw_legend(axes, title="lines: formulas; points: runs")
    return figure


def _describe_errors(differ: Sequence[float], above: bool) -> str:
    """What the figure shows, in a sentence: how far runs are from their formulas."""
    if not differ:
        return "words moved against M"
    most = max(differ)
    equal = (
        "every run moves the words of its formula"
        if not most
        else (f"runs are up to {most:,.0f} words from their formulas")
    )
    return equal + (", above the proven lower bound" if above and not most else "")


def _problem(row: Mapping[str, Any]) -> str:
    """Attention of a row's sizes; with options, in two lines."""
    columns = list(row)
    given = {x: row[x] for x in columns[: columns.index("M_words")]}
    options = {x: given[x] for x in given.keys() - {"kind", "name", "N", "d", "heads", "pass"}}
    told = [x if options[x] is True else f"{x} = {options[x]}" for x in given if x in options]
    heads = f", heads = {row['heads']}" if row.get("heads", 1) != 1 else ""
    what = f"Attention, {row['pass']} pass" if "pass" in row else "Attention"
    sizes = f"{what}, N = {row['N']:,}, d = {row['d']}{heads}"
    return f"{sizes},\n{', '.join(told)}" if told else sizes


def _xy(rows: Rows, kind: str, name: str) -> tuple[list[Any], list[Any]]:
    found = sorted(
        (r["M_words"], r["total_words"]) for r in rows if r["kind"] == kind and r["name"] == name
    )
    return [x for x, _ in found], [y for _, y in found]


@styled
def slope(rows: Rows) -> Any:
    """Words against capacity: a schedule at its best tiles, a program in caches, the bound."""
    figure, axes = drawing(figsize=(WIDTH, 4.6))
    series = (
        ("lru", "words", "cache, LRU", PALETTE[1], "-"),
        ("opt", "words", "cache, OPT", PALETTE[2], "-"),
        ("opt", "loads", "cache, OPT, loads alone", PALETTE[2], ":"),
        ("explicit", "words", "schedule, its best tiles", PALETTE[0], "-"),
        ("bound", "words", "proven lower bound", "black", "--"),
    )
    for name, column, label, color, line in series:
        some = [(r["capacity"], r[column]) for r in rows if r["series"] == name and r[column]]
        if some:
            # OPT is replayed at few capacities, which its marks show.
            axes.plot(
                *zip(*some, strict=True),
                color=color,
                linestyle=line,
                label=label,
                marker="." if name == "opt" else "",
            )
    axes.set_xscale("log", base=2)
    held = textwrap.fill(f"tiles in the caches: {rows[0]['tiles']}", 70)
    axes.set(
        yscale="log",
        xlabel="capacity in words: fast memory, or the cache",
        ylabel=f"loads + stores,\n{WORDS}",
    )
    axes.set_title(
        f"{rows[0]['program']}\n{rows[0]['problem']}\n{held}{_in_a_cache(rows)}", fontsize=10
    )
    draw_legend(axes)
    return figure


def _in_a_cache(rows: Rows) -> str:
    """How many times the words of the schedule LRU moves, at most, in a line of its own."""
    words = {
        series: {r["capacity"]: r["words"] for r in rows if r["series"] == series}
        for series in ("explicit", "lru")
    }
    times = [w / words["explicit"][c] for c, w in words["lru"].items() if words["explicit"].get(c)]
    return f"\nLRU moves up to {max(times):.1f} times the words of the schedule" if times else ""


@styled
def gap(rows: Rows) -> Any:
    """Best schedule over lower bound against M/d², a line for each d and class."""
    figure, axes = drawing(figsize=(WIDTH, 4.6))
    most = max(r["gap"] for r in rows)
    what = f"{rows[0]['pass']} pass" if "pass" in rows[0] else "schedule"
    lines = list(dict.fromkeys((r["class"], r["d"]) for r in rows))
    for k, (klass, d) in enumerate(lines):
        mine = sorted(
            (r["M_words"] / d**2, r["gap"]) for r in rows if (r["class"], r["d"]) == (klass, d)
        )
        axes.plot(
            *zip(*mine, strict=True),
            color=PALETTE[k % len(PALETTE)],
            marker=MARKERS[k % len(MARKERS)],
            markevery=max(1, len(mine) // 12),
            label=f"d = {d}, {klass}",
        )
    axes.axvline(1, color="grey", linestyle=":", linewidth=1.2)
    axes.annotate(
        "M = d²",
        (1, 0.02),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        color="grey",
    )
    axes.axhline(1, color="black", linewidth=1)
    axes.set(
        xscale="log",
        xlabel="fast memory M / d²",
        ylabel=f"best schedule ÷ lower bound,\n{WORDS}",
        # Room for what is written below the line at 1.
        ylim=(min(0.97, 1 - 0.07 * (most - 1)), None),
        title=f"N = {rows[0]['N']:,}{_several(rows)}: the best {what} moves at most\n"
        f"{most:.2f} times what is proven necessary",
    )
    draw_legend(axes)
    return figure


def _several(rows: Rows) -> str:
    """The heads, where there are several."""
    heads = rows[0].get("heads", 1)
    return f", heads = {heads}" if heads != 1 else ""


def _largest(klass: str | None) -> str:
    """What a figure calls the largest lower bound of a class; older tables don't name it."""
    return f"largest lower bound{f', class {klass}' * bool(klass)}"


def _near(rows: Rows) -> str:
    """How far the schedules stay from their bounds: the least times one of them, the most."""
    times = [r["total_words"] / r["lower_bound_words"] for r in rows if r["lower_bound_words"]]
    if not times:
        return "Words moved against M"
    return f"{min(times):.2f} to {max(times):.2f} times the lower bound"


def _common_sizes(rows: Rows, names: Sequence[str]) -> str:
    """The sizes that all rows have in common."""
    fixed = [x for x in names if x != "algorithm" and len({row.get(x) for row in rows}) == 1]
    told = [f"{x} = {rows[0][x]}" for x in fixed if rows[0].get(x) is not None]
    return f": {', '.join(told)}" if told else ""


@styled
def counts(rows: Rows) -> Any:
    """Words by tensor, loads and stores side by side."""
    figure, axes = drawing(figsize=(7.2, 1.2 + 0.45 * max(1, len(rows))))
    names = [row["tensor"] for row in rows]
    before = [0] * len(rows)
    for column, label, color in (
        ("load_words", "loads", PALETTE[0]),
        ("store_words", "stores", PALETTE[1]),
    ):
        moved = [row[column] for row in rows]
        axes.barh(names, moved, left=before, color=color, label=label, height=0.6)
        before = [a + b for a, b in zip(before, moved, strict=True)]
    for name, total in zip(names, before, strict=True):
        axes.annotate(f" {total:,}", (total, name), va="center")
    axes.invert_yaxis()
    axes.set_xlim(0, 1.25 * max(before, default=1))
    title = "No words moved"
    if total := sum(before):
        first = names[before.index(max(before))]
        title = f"{total:,} words moved: {first} has {max(before) / total:.0%} of them"
    axes.set(xlabel=WORDS, title=title)
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    # Few enough that long numbers stay apart.
    axes.locator_params(axis="x", nbins=4)
    draw_legend(axes)
    return figure


@styled
def bounds(rows: Rows) -> Any:
    """The best schedule and every lower bound, on a logarithmic scale."""
    figure, axes = drawing(figsize=(7.6, 1.2 + 0.42 * len(rows)))
    shown = [row for row in rows if row["words"] > 0]
    for row in shown:
        schedule = row["kind"] == "schedule"
        color, marker = (PALETTE[0], "D") if schedule else ("black", "o")
        axes.plot(row["words"], row["name"], marker, color=color, markersize=7)
        axes.annotate(f"   {row['words']:,.0f}", (row["words"], row["name"]), va="center")
    axes.invert_yaxis()
    axes.margins(x=0.3)
    title = "Schedules (diamonds), and lower bounds"
    best, proven = (
        [r["words"] for r in shown if (r["kind"] == "schedule") is own] for own in (True, False)
    )
    if best and proven:
        title = (
            f"The best schedule (diamond) moves {min(best) / max(proven):.2f} times\n"
            f"the {_largest(rows[0].get('class'))}"
        )
    axes.set(xscale="log", xlabel=WORDS, title=title)
    axes.grid(visible=False, axis="y")
    return figure


@styled
def pebbles(rows: Rows) -> Any:
    """Red pebbles and I/Os after each move of a schedule."""
    figure, (above, below) = drawing(nrows=2, sharex=True)
    moves = [row["move"] for row in rows]
    above.step(moves, [row["red_words"] for row in rows], where="post", color=PALETTE[1])
    above.axhline(rows[0]["M_words"], color="black", linewidth=1, linestyle="--", label="M")
    above.set(ylabel="red pebbles", ylim=(0, None), title=_pebbled(rows))
    draw_legend(above)
    loads, stores = ([row[x] for row in rows] for x in ("loads", "stores"))
    below.stackplot(
        moves,
        loads,
        stores,
        labels=["loads", "stores"],
        step="post",
        colors=[PALETTE[0], PALETTE[4]],
    )
    below.set(xlabel="move", ylabel="I/Os so far", ylim=(0, None))
    draw_legend(below)
    return figure


def _pebbled(rows: Rows) -> str:
    most, last = max(row["red_words"] for row in rows), rows[-1]
    return (
        f"{last['loads']:,} loads and {last['stores']:,} stores, "
        f"with {most:,} of {last['M_words']:,} red pebbles"
    )


@styled
def sweep(rows: Rows) -> Any:
    """Words against M, log-log: a line for each schedule and each set of sizes, and the bound."""
    if not rows:
        raise InputError("the sweep has no rows that were counted: nothing to plot")
    figure, axes = drawing(figsize=(WIDTH, 4.6))
    words = ("M_words", "total_words", "lower_bound_words", "lower_bound_class")
    keys = [x for x in rows[0] if x not in words]
    vary = [x for x in keys if x == "algorithm" or len({row.get(x) for row in rows}) > 1]
    lines: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        lines.setdefault(tuple(row.get(x) for x in vary), []).append(row)
    for k, (at, mine) in enumerate(lines.items()):
        again, k = divmod(k, len(PALETTE))
        mine = sorted(mine, key=lambda row: row["M_words"])
        label = ", ".join(
            str(v) if x == "algorithm" else f"{x} = {v}"
            for x, v in zip(vary, at, strict=True)
            if v is not None
        )
        axes.plot(
            [r["M_words"] for r in mine],
            [r["total_words"] for r in mine],
            label=label,
            color=PALETTE[k],
            marker=MARKERS[(k + again) % len(MARKERS)],
            linestyle=LINES[again % len(LINES)],
            markevery=max(1, len(mine) // 12),
        )
    bound: dict[tuple[Any, ...], dict[int, float]] = {}
    for row in rows:
        at = tuple(row.get(x) for x in keys if x != "algorithm")
        bound.setdefault(at, {})[row["M_words"]] = row["lower_bound_words"]
    classes = ", ".join(dict.fromkeys(row.get("lower_bound_class") or "" for row in rows))
    for number, found in enumerate(bound.values()):
        axes.plot(
            sorted(found),
            [found[M] for M in sorted(found)],
            color="black",
            zorder=1,
            linestyle="--",
            label=None if number else _largest(classes),
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="fast memory M (words)",
        ylabel=f"loads + stores,\n{WORDS}",
        title=f"{_near(rows)}{_common_sizes(rows, keys)}",
    )
    draw_legend(axes)
    return figure


@styled
def front(rows: Rows) -> Any:
    """Bytes against what a program takes, a point for each choice of a kernel's constants.

    The line is the least that a choice of at most this room moves.
    """
    names = list(rows[0])[: list(rows[0]).index("words")]
    room, what = (
        ("shared", "shared memory") if "shared" in rows[0] else ("live_bytes", "live tiles")
    )
    kinds = {
        "*": ("on the front", PALETTE[0], MARKERS[0]),
        "": ("another choice is better", PALETTE[4], MARKERS[1]),
        "doesn't run": ("doesn't run", "grey", "x"),
    }
    found = {k: sorted((r for r in rows if r["front"] == k), key=lambda r: r[room]) for k in kinds}
    best = found["*"]
    figure, axes = drawing(figsize=(WIDTH, 4.4 + 0.12 * len(best)))
    for kind, (label, colour, marker) in kinds.items():
        at = [r[room] / 1024 for r in found[kind]], [r["bytes"] for r in found[kind]]
        if kind == "*":
            axes.plot(*at, color=colour, drawstyle="steps-post")
        if found[kind]:
            axes.plot(*at, marker, color=colour, label=label, zorder=4 if kind == "*" else 3)
    title = "No choice of constants runs"
    if best:
        more = best[0]["bytes"] / (best[-1]["bytes"] or 1)
        title = f"{len(best)} of {len(rows)} choices are on the front: the one that takes\n"
        title += f"the least room moves {more:.3g} times the bytes of the last"
    if min(r[room] for r in rows) > 0:
        axes.set_xscale("log", base=2)
    axes.set(
        yscale="log" if min(r["bytes"] for r in rows) > 0 else "linear",
        xlabel=f"fast memory of a program: KiB of {what}",
        ylabel=f"loads + stores,\nbytes, {MODEL}",
        title=title,
    )
    axes.xaxis.set_major_formatter("{x:,.4g}")
    draw_legend(axes, title=f"labels: {', '.join(names)}" if names else None)
    texts = [", ".join(str(r.get(x, "")) for x in names) for r in best]
    _label_front(axes, [(r[room] / 1024, r["bytes"]) for r in best], texts)
    return figure


def _label_front(axes: Any, points: Sequence[tuple[float, float]], texts: Sequence[str]) -> None:
    """Write below and to the left of points that fall to the right; nothing else is there.

    A label that would meet the one above it moves down, and a line leads to it.
    """
    figure = axes.figure
    labels = [
        axes.annotate(
            text,
            at,
            xytext=(-5, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=8.5,
            arrowprops={"arrowstyle": "-", "color": "grey", "linewidth": 0.6},
        )
        for at, text in zip(points, texts, strict=True)
    ]
    if not labels:
        return
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in labels]
    high = max(box.height for box in boxes)
    area, pixel = axes.get_window_extent(), figure.dpi / 72
    for axis, room in (
        ("x", [(box.width + 12 * pixel) / area.width for box in boxes]),
        ("y", [(len(labels) + 1) * high / area.height] * len(labels)),
    ):
        _make_room(axes, axis, [at["xy".index(axis)] for at in points], room)
    lowest = float("inf")
    for label, at in zip(labels, points, strict=True):
        y = axes.transData.transform(at)[1]
        lowest = min(lowest, y - 4 * pixel)
        label.set_position((-5, (lowest - y) / pixel))
        lowest -= high


def _make_room(axes: Any, axis: str, values: Sequence[float], shares: Sequence[float]) -> None:
    """Lower an axis's lower limit until each value has its share of the axis below it."""
    transform = getattr(axes, f"{axis}axis").get_transform()
    low, high = transform.transform(getattr(axes, f"get_{axis}lim")())
    for x, share in zip(transform.transform(values), shares, strict=True):
        share = min(share, 0.6)
        low = min(low, (x - share * high) / (1 - share))
    limits = transform.inverted().transform([low, high])
    getattr(axes, f"set_{axis}lim")(*limits)
