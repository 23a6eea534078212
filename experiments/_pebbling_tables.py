"""What the tables of optima share: options, a line for each row, provenance, and the files."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from iosim.base import provenance
from iosim.base.writing import publish
from iosim.report.table import write_csv

from . import DATA, Rows, write_provenance


def options(module: str, doc: str | None, each: str = "row") -> argparse.ArgumentParser:
    """A parser for a module of this folder, described by the first line of its docstring.

    It has ``--out``, the folder for the files, and ``--seconds``, the time for `each` of them.

    >>> options("pebbling_gap", "A table.").parse_args(["--seconds", "4"]).seconds
    4.0
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m experiments.{module}", description=(doc or "").split("\n")[0]
    )
    parser.add_argument("--out", default=DATA / "pebbling", type=Path)
    parser.add_argument("--seconds", default=60.0, type=float, help=f"time for each {each}")
    return parser


def command(module: str, argv: Sequence[str] | None) -> dict[str, str]:
    """The provenance of a run with these arguments; those of the process if they are None.

    To be asked before anything is written, which would make the commit a dirty one.
    """
    words = sys.argv[1:] if argv is None else argv
    return provenance.of(" ".join([f"python -m experiments.{module}", *words]))


def write_table(
    stem: Path,
    rows: Iterable[dict[str, Any]],
    line: str,
    about: dict[str, str],
    draw: Callable[[Rows, Path], list[Path]] | None = None,
) -> Rows:
    """Take the rows as they come, then write all files together, or none; the rows.

    Args:
        stem: where: ``STEM.csv`` has the rows, ``STEM.json`` the provenance.
        rows: the rows, each with a column ``optimal``.
        line: what is said of a row on stderr, with its columns as fields.
        about: the provenance; the seconds, the rows and how many are proved are added to it.
        draw: draws the figure of the rows at a stem, and returns its files.

    Raises InputError where the files cannot be written.
    """
    began, found = time.monotonic(), Rows()
    for row in rows:
        found.append(row)
        print(line.format(**row), file=sys.stderr, flush=True)
    about |= {
        "seconds": f"{time.monotonic() - began:.0f}",
        "rows": str(len(found)),
        "proved": str(sum(row["optimal"] for row in found)),
    }

    def make(part: Path) -> list[Path]:
        table = write_csv(part / f"{stem.name}.csv", found)
        figure = draw(found, part / stem.name) if draw else []
        return [table, *figure, write_provenance(part / f"{stem.name}.json", about)]

    publish(stem.parent, make)
    return found
