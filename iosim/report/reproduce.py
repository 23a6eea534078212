"""Experiments from scratch: whether the committed numbers come out again.

Experiments are in `experiments/`, one module each; see its `__init__.py`.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iosim.base.errors import InputError, IosimError, closest
from iosim.report.shipped import PACKAGE, shipped
from iosim.report.table import read_csv

FOLDER = shipped("experiments")
# Floats are committed with the digits that are sure; the last of them may round either way.
RELATIVE = 1e-6


@dataclass(frozen=True)
class Reproduction:
    """What became of an experiment: `verdict` says it in words."""

    name: str
    same: bool
    verdict: str
    seconds: float


def find(names: Sequence[str]) -> list[Path]:
    """The modules of the named experiments (``e01``, or the full name); all for none.

    Raises InputError for an unknown name, IosimError if there are no experiments.
    """
    known = {p.stem: p for p in sorted(FOLDER.glob("e[0-9]*.py"))}
    if not known:
        raise IosimError(
            f"no experiments at {FOLDER}: install iosim again, or run from a source tree"
        )
    if not names:
        return list(known.values())
    found = []
    for name in names:
        match = [p for stem, p in known.items() if name in (stem, stem.split("_")[0])]
        if not match:
            raise InputError(f"unknown experiment {name!r}: {closest(name, known)}")
        found += match
    return found


def load(path: Path) -> Any:
    """Import an experiment: ``experiments.e01_words``, or from a wheel ``iosim.experiments.…``."""
    folder = path.parent
    if folder.parent == PACKAGE:
        return importlib.import_module(f"{PACKAGE.name}.{folder.name}.{path.stem}")
    root = str(folder.parent)
    if root not in sys.path:
        sys.path.insert(0, root)
    return importlib.import_module(f"{folder.name}.{path.stem}")


def reproduce(path: Path) -> Reproduction:
    """Make an experiment's tables in a temporary directory; hold them against the committed ones.

    A figure comes from the tables alone, so none is drawn.
    """
    start = time.perf_counter()
    module = load(path)
    name = path.stem
    with tempfile.TemporaryDirectory() as folder:
        tables = module.EXPERIMENT.tabulate(Path(folder))
        found = [difference(p, path.parent / "data" / name / p.name) for p in tables]
        rows = sum(len(read_csv(p)) for p in tables)
    wrong = [text for text in found if text]
    verdict = wrong[0] if wrong else f"reproduced, {rows:,} rows as committed"
    return Reproduction(name, not wrong, verdict, time.perf_counter() - start)


def difference(got: Path, want: Path) -> str | None:
    """The first place where two tables differ, in words, or None.

    Integers and text must be equal, other numbers to 1e-6.
    """
    if not want.exists():
        return f"NOT reproduced: {want} is missing"
    if got.read_bytes() == want.read_bytes():
        return None
    new, old = read_csv(got), read_csv(want)
    if len(new) != len(old) or list(new[0]) != list(old[0]):
        return (
            f"NOT reproduced: {want.name} has {len(old)} rows and {len(old[0])} columns, "
            f"now {len(new)} and {len(new[0])}"
        )
    for k, (a, b) in enumerate(zip(new, old, strict=True)):
        for column in a:
            x, y = a[column], b[column]
            both = isinstance(x, (int, float)) and isinstance(y, (int, float))
            exact = type(x) is type(y) is int or not both
            if (x != y) if exact else abs(x - y) > RELATIVE * max(abs(x), abs(y)):
                return f"NOT reproduced: {want.name} row {k + 1}, {column}: {y!r}, now {x!r}"
    return None
