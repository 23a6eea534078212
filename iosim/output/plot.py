"""Tables to figures.  Nothing here computes a count."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from iosim.errors import InputError
from iosim.output.table import read_csv, replacing, target, write_csv

# Okabe and Ito's palette, which people with any colour vision can tell apart.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
LINES = ("-", ":", (0, (3, 1, 1, 1)))

STYLE: Any = {
    "figure.figsize": (7.2, 4.8),
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "savefig.bbox": "tight",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": True,
    "legend.edgecolor": "none",
    "legend.framealpha": 0.9,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "svg.hashsalt": "iosim",
}


# Both kinds of file, without a date: the same table gives the same file.
META: dict[str, Any] = {"png": {"Software": None}, "svg": {"Date": None}}


def plot_words(table: str | os.PathLike[str], stem: str | os.PathLike[str]) -> list[Path]:
    """Words against M, log-log: measured points on formula lines, bounds, the crossover.

    Args:
        table: a CSV that `iosim verify` wrote.
        stem: where to write, without a suffix; a PNG and an SVG are made.

    Raises:
        InputError: the table is unreadable or empty, or the figure cannot be written.
    """
    rows = read_csv(table, ("kind", "name"), ("N", "d", "M_words", "total_words"))
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8.6, 4.6), layout="constrained")
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
        return save(figure, stem)


def _problem(row: dict[str, Any]) -> str:
    """Attention of a row's sizes; with options, in two lines."""
    columns = list(row)
    given = {x: row[x] for x in columns[: columns.index("M_words")]}
    options = {x: given[x] for x in given.keys() - {"kind", "name", "N", "d", "heads"}}
    told = [x if options[x] is True else f"{x} = {options[x]}" for x in given if x in options]
    if not told:
        return f"Attention, N = {row['N']:,}, d = {row['d']}"
    heads = f", heads = {row['heads']}" if "heads" in row else ""
    return f"Attention, N = {row['N']:,}, d = {row['d']}{heads},\n{', '.join(told)}"


def plot_gap(table: str | os.PathLike[str], stem: str | os.PathLike[str]) -> list[Path]:
    """Best schedule over lower bound against M/d², a line for each d and class.

    Args:
        table: a CSV that `iosim tightness --out` wrote.
        stem: where to write, without a suffix; a PNG and an SVG are made.

    Raises:
        InputError: the table is unreadable or empty, or the figure cannot be written.
    """
    rows = read_csv(table, ("class",), ("N", "d", "M_words", "gap"))
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots()
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
        return save(figure, stem)


def plot_table(table: str | os.PathLike[str], stem: str | os.PathLike[str]) -> list[Path]:
    """Draw the figure that belongs to a table that iosim wrote.

    Raises InputError where it is none.
    """
    columns = read_csv(table)[0]
    draw = plot_words if "kind" in columns else plot_gap if "gap" in columns else None
    if draw is None:
        raise InputError(
            f"{str(table)!r} has no column kind or gap: give a table that iosim verify or "
            "iosim tightness wrote"
        )
    return draw(table, stem)


def with_table(
    path: Path, rows: Sequence[dict[str, Any]], draw: Callable[[Path, Path], list[Path]]
) -> list[Path]:
    """Write rows as CSV and draw their figure beside it; returns all the paths."""
    return [write_csv(path, rows), *draw(path, path.with_suffix(""))]


def pyplot() -> Any:
    """Matplotlib's pyplot, drawing to files only."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def _xy(rows: Sequence[dict[str, Any]], kind: str, name: str) -> tuple[list[Any], list[Any]]:
    found = sorted(
        (r["M_words"], r["total_words"]) for r in rows if r["kind"] == kind and r["name"] == name
    )
    return [x for x, _ in found], [y for _, y in found]


def figure_name(text: str | os.PathLike[str]) -> Path:
    """A figure's name as typed, without its suffix.

    Raises InputError where it is empty or that of a directory.
    """
    name = os.fspath(text)
    if not name:
        raise InputError("the name of the figure is empty: name it, without a suffix")
    if Path(name).is_dir() or name.endswith(os.sep):
        raise InputError(
            f"{name!r} is a directory: name the figure in it, like {str(Path(name) / 'figure')!r}"
        )
    return Path(name)


def save(figure: Any, stem: str | os.PathLike[str]) -> list[Path]:
    """Write a figure as PNG and SVG, both whole or neither, and close it.

    Returns where they were written.  Raises InputError if that is impossible.
    """
    from matplotlib import pyplot as plt

    paths = [Path(f"{os.fspath(stem)}.{suffix}") for suffix in META]
    try:
        with replacing(*paths) as parts:
            for (suffix, meta), part in zip(META.items(), parts, strict=True):
                figure.savefig(part, format=suffix, metadata=meta)
    finally:
        plt.close(figure)
    return [target(path) for path in paths]
