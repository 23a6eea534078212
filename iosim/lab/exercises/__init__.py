"""Exercises of the lab, predict and then reveal: TOML files, read and checked in one place.

The project's are the TOML files in this folder, one for each view; ``iosim lab --exercises FILE``
adds a lecturer's own.  `exercises` returns them as JSON values for `iosim.lab.page`.  `record`
checks one exercise, `quantities` computes its answer from the other wings, `expression` evaluates
formulas as readers type them, and `judge` checks answers of the tutorials.

Changing files here: texts in TOML are free, but an answer is a formula or is computed, and never a
stored number (``tests/lab/test_lab_exercises.py`` counts them again by commands).  Fields of an
exercise are documented for lecturers in docs/lab.md and typed in the front end: add, and rename
none.  Messages name the file and the exercise, and are compared in tests.  A new kind of answer
takes a function in `quantities`.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from iosim.base.errors import InputError, closest
from iosim.base.reading import read_toml
from iosim.lab.columns import Json
from iosim.lab.data import DATA
from iosim.lab.exercises.record import told_of


def exercises(own: str | Path | None = None) -> dict[str, list[Json]]:
    """View → its exercises as JSON values; those of a user's file come first.

    Args:
        own: a TOML file.

    Raises InputError, in one line that says where, for a file that can't be read and for an
    exercise that makes no sense.

    >>> [x["answer"] for x in exercises()["watch"]][0]
    'N*d'
    """
    found: dict[str, list[Json]] = {}
    folder = resources.files(__name__)
    files = [] if own is None else [Path(own)]
    files += sorted(Path(str(x)) for x in folder.iterdir() if x.name.endswith(".toml"))
    for path in files:
        for view, told in _read(path):
            found.setdefault(view, []).append(told)
    return found


def _read(path: Path) -> list[tuple[str, Json]]:
    told = read_toml(path)
    view = told.pop("view", "")
    tables = told.pop("exercise", None)
    if told or not isinstance(tables, list) or not tables:
        what = f"an unknown field {min(told)!r}" if told else "no exercise"
        raise InputError(f'{path} has {what}: give view = "…" and tables [[exercise]]')
    found = []
    for k, table in enumerate(tables, 1):
        where = f"{path}, exercise {k}"
        of, data = told_of(where, table, view)
        if of not in DATA:
            raise InputError(f"{where}: unknown view {of!r}: {closest(of, DATA)}")
        found.append((of, data))
    return found
