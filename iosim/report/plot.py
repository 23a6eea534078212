"""Tables to figures.  Nothing here computes a count."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from iosim.base.cells import printable
from iosim.base.errors import InputError, pip
from iosim.base.writing import replacing, target
from iosim.report.svg import compact_svg
from iosim.report.table import Row, read_csv, write_csv

# Okabe and Ito's palette, which people with any color vision can tell apart.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
LINES = ("-", ":", (0, (3, 1, 1, 1)))

# Inches.  A page shows a figure 800 pixels wide, and text of 8.5 points is then 11 pixels high.
WIDTH = 8.6

STYLE: Any = {
    "figure.figsize": (WIDTH, 4.8),
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
    # Words as words: a reader can search them, and they need a tenth of the bytes.  Verdana is as
    # wide as DejaVu Sans, which few browsers have.
    "svg.fonttype": "none",
    "font.sans-serif": ["DejaVu Sans", "Verdana"],
}


# The boundary of every axis on which the model's words are.
MODEL = "slow ↔ fast memory (model)"
WORDS = f"words, {MODEL}"


def draw_legend(axes: Any, **said: Any) -> Any:
    """The legend of axes to their right, where it hides nothing; `said` goes to matplotlib."""
    return axes.legend(**{"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)} | said)


# Both kinds of file, without a date: the same table gives the same file.
META: dict[str, Any] = {"png": {"Software": None}, "svg": {"Date": None}}


def load_matplotlib() -> Any:
    """Matplotlib, or InputError where the environment names a backend that there is not."""
    try:
        import matplotlib
    except ValueError as error:
        raise InputError(
            f"matplotlib doesn't start ({str(error).partition(';')[0]}): unset MPLBACKEND"
        ) from None
    return matplotlib


def figure_text(value: Any) -> Any:
    r"""A text as figures may have it: printable, and with no formula between dollars.

    >>> figure_text("cost: $x$"), figure_text(3)
    ('cost: \\$x\\$', 3)
    """
    return printable(value).replace("$", r"\$") if isinstance(value, str) else value


def figure_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows of a table whose texts, and names of columns, may be in a figure."""
    return [{figure_text(name): figure_text(x) for name, x in row.items()} for row in rows]


def save_styled(figure: Any, stem: str | os.PathLike[str]) -> list[Path]:
    """Save a figure of `iosim.report.figures` in the style of all figures; returns the files."""
    with load_matplotlib().rc_context(STYLE):
        return save(figure, stem)


# The column by which a table is known → its figure, and its columns of text and of numbers.
_DRAWN: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "kind": ("words", ("kind", "name"), ("N", "d", "M_words", "total_words")),
    "class": ("gap", ("class",), ("N", "d", "M_words", "gap")),
    "series": ("slope", ("series", "program", "problem", "tiles"), ("capacity",)),
}


def plot_table(table: str | os.PathLike[str], stem: str | os.PathLike[str]) -> list[Path]:
    """Draw the figure that belongs to a table that iosim wrote.

    Args:
        table: a CSV that `iosim verify`, `iosim tightness` or `iosim cache` wrote, or what a sweep
            exports, as CSV or as Parquet.
        stem: where to write, without a suffix; a PNG and an SVG are made.

    Raises:
        InputError: the table is unreadable or empty or has no figure, or the figure cannot be
            written.
    """
    rows = _parquet(table) if str(table).endswith(".parquet") else read_csv(table)
    from iosim.report import figures  # imports matplotlib

    if rows[0].keys() >= _SWEPT:
        return save_styled(figures.sweep(_swept(table, rows)), stem)
    known = next((_DRAWN[name] for name in _DRAWN if name in rows[0]), None)
    if known is None:
        raise InputError(
            f"{str(table)!r} has no column kind, class or series, and not those of a sweep "
            f"({', '.join(sorted(_SWEPT))}): give a table that iosim verify, iosim tightness, "
            "iosim cache or a sweep's --csv wrote"
        )
    name, texts, numbers = known
    return save_styled(getattr(figures, name)(read_csv(table, texts, numbers)), stem)


_SWEPT = frozenset({"algorithm", "M_words", "total_words", "lower_bound_words"})
# What a sweep's rows have next to their sizes; `iosim query` may write the columns in any order.
_OTHER = re.compile(
    r"hash|task|program.*|engine|policy|version|revision|seconds|time_s|feasible|gap|lower_bound|lower_bound_class"
    r"|tiles"
    r"|.*_words|tile_.*|asked_.*"
)


def _swept(table: str | os.PathLike[str], rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The columns that a sweep's figure is drawn from, of the rows that were counted."""
    sizes = [x for x in rows[0] if x not in _SWEPT and not _OTHER.fullmatch(x)]
    of = ["lower_bound_class"] * ("lower_bound_class" in rows[0])
    names = ["algorithm", *sizes, *of, "M_words", "total_words", "lower_bound_words"]
    counted = [{x: row[x] for x in names} for row in rows if row["total_words"] is not None]
    for row in counted:
        if any(not isinstance(row[x], int | float) or row[x] < 0 for x in names[-3:]):
            raise InputError(f"{str(table)!r} has the row {row}: its words are not numbers")
    return counted


def _parquet(table: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The rows of a Parquet file, as a sweep's shards are."""
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError as error:
        raise InputError(
            f"{str(table)!r} needs {error.name}: install it with {pip('pyarrow')}"
        ) from None
    try:
        rows: list[dict[str, Any]] = parquet.ParquetFile(os.fspath(table)).read().to_pylist()
    except (OSError, ArrowException) as error:
        raise InputError(
            f"cannot read {str(table)!r} as Parquet ({str(error)[:120]}): give a shard of a sweep"
        ) from error
    if not rows:
        raise InputError(f"{str(table)!r} has no rows: nothing to plot")
    return rows


def with_table(path: Path, rows: Sequence[Row]) -> list[Path]:
    """Write rows as CSV and draw their figure next to it; returns all the paths."""
    return [write_csv(path, rows), *plot_table(path, path.with_suffix(""))]


def pyplot() -> Any:
    """Matplotlib's pyplot, drawing to files only."""
    load_matplotlib().use("Agg")
    from matplotlib import pyplot as plt

    return plt


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


@contextlib.contextmanager
def _undated() -> Iterator[None]:
    """Without SOURCE_DATE_EPOCH, which matplotlib reads for a date that is not written."""
    epoch = os.environ.pop("SOURCE_DATE_EPOCH", None)
    try:
        yield
    finally:
        if epoch is not None:
            os.environ["SOURCE_DATE_EPOCH"] = epoch


def write_figure(figure: Any, path: Path, suffix: str) -> Path:
    """Write a figure as one kind of file, in its style; returns the path."""
    with _undated():
        figure.savefig(path, format=suffix, metadata=META[suffix])
    if suffix == "svg":
        path.write_text(compact_svg(path.read_text("utf-8")), "utf-8")
    return path


def save(figure: Any, stem: str | os.PathLike[str]) -> list[Path]:
    """Write a figure as PNG and SVG, both whole or neither, and close it.

    Returns where they were written.  Raises InputError if that is impossible.
    """
    from matplotlib import pyplot as plt

    paths = [Path(f"{os.fspath(stem)}.{suffix}") for suffix in META]
    try:
        with replacing(*paths) as parts:
            for suffix, part in zip(META, parts, strict=True):
                write_figure(figure, part, suffix)
    finally:
        plt.close(figure)
    return [target(path) for path in paths]
