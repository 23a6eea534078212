"""Experiments: each a table, a figure and a paragraph (README.md).

An experiment is a module ``eNN_….py`` with an `EXPERIMENT`: a function that makes its tables from
nothing (or from recorded measurements) and one that draws its figure from the tables alone.
``python -m experiments.e01_words`` makes them again in `data/`; ``iosim reproduce`` makes them in a
temporary directory and compares.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iosim.base import provenance
from iosim.base.errors import IosimError
from iosim.base.writing import publish
from iosim.report.plot import PALETTE
from iosim.report.table import write_csv
from iosim.sweep import Folder, Sweep, collect, processes, query, serial

DATA = Path(__file__).parent / "data"
# Okabe and Ito's colors for schedules; black is for bounds.
COLORS = (*PALETTE[:6], "#7F7F7F")
Rows = list[dict[str, Any]]

# What these experiments were run with; a schedule that is registered later has to be added here.
SCHEDULES = (
    "naive",
    "flash1",
    "flash2",
    "flash2_chunked",
    "flash2_keep",
    "small_cache",
    "spill_rows",
)


@dataclass(frozen=True)
class Experiment:
    """What an experiment is.

    Attributes:
        name: the module's, and the folder's in `data/`.
        tables: makes the tables, file name → rows.
        draw: draws the figure from the tables in a folder: ``draw(folder, stem)``.
    """

    name: str
    tables: Callable[[], Mapping[str, Rows]]
    draw: Callable[[Path, Path], list[Path]]

    def tabulate(self, folder: Path) -> list[Path]:
        """Make the tables in a folder; the paths."""
        made = []
        for name, rows in self.tables().items():
            made.append(folder / name)
            write_csv(made[-1], rows)
        return made

    def run(self, folder: Path) -> list[Path]:
        """Make everything in a folder; the paths."""
        return [*self.tabulate(folder), *self.draw(folder, folder / self.name)]

    def main(self) -> None:
        """Make everything in `data/`, with its provenance: all files at the end, or none."""
        # Before anything is written, which would make the commit a dirty one.
        about = provenance.of(f"python -m experiments.{self.name}")
        start = time.perf_counter()

        def make(part: Path) -> list[Path]:
            made = self.run(part)
            about["seconds"] = f"{time.perf_counter() - start:.1f}"
            return [*made, write_provenance(part / "provenance.json", about)]

        for path in publish(DATA / self.name, make):
            print(path)


def write_provenance(path: Path, about: Mapping[str, str]) -> Path:
    """Write provenance as JSON; the path."""
    path.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return path


def run_main(main: Callable[[], None]) -> None:
    """Run a module's `main`; bad input or an interrupt is one line, and exit code 2 or 130."""
    try:
        main()
    except IosimError as error:
        print(f"experiments: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("experiments: interrupted, nothing was written", file=sys.stderr)
        sys.exit(130)


def swept(columns: Sequence[str], **options: Any) -> Rows:
    """The rows of a sweep, on all cores: chosen columns, in the grid's order."""
    with tempfile.TemporaryDirectory() as folder:
        sweep = Sweep.of(**options)
        store = Folder.declare(Path(folder) / "sweep", sweep)
        collect(store, processes() if sweep.shards > 4 else serial())
        table = query(f"SELECT {', '.join(columns)} FROM rows", [store.path])
    return [dict(row) for row in table.to_pylist()]


def digits(value: float, many: int = 6) -> float:
    """A float with the digits that a table needs."""
    return float(f"{value:.{many}g}")
