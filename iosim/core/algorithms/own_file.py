"""Schedules in users' files: ``FILE.py:FUNCTION`` wherever a schedule is named."""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from iosim.base.errors import InputError, IosimError, ProgramError, closest
from iosim.base.python_file import run_statements
from iosim.core.algorithms._entry import Algorithm
from iosim.core.problem import PROBLEMS, Problem
from iosim.core.program.build import build

# What may be any schedule at all: its sums in any order, its terms computed again.
ANY = ("recompute-trees",)
_PLACE = re.compile(r"(?P<file>.+\.py)(?:::?(?P<name>\w+))?")
# (file as typed, when it was changed, name) → what is there.
_loaded: dict[tuple[str, int, str], Algorithm] = {}


def names_file(name: str) -> bool:
    """Whether a name is a place in a file.

    >>> names_file("mine.py:rows"), names_file("mine.py"), names_file("flash2")
    (True, True, False)
    """
    return isinstance(name, str) and _PLACE.fullmatch(name) is not None


def load_schedule(place: str) -> Algorithm:
    """The schedule at ``FILE.py:NAME``: a function of a builder, or an `Algorithm`.

    A function's problem is the file's ``PROBLEM``, or else the first one that it can be traced for:
    one whose tensors and axes it names.  It supports no options, and no class of lower bounds is
    known for it but the widest; an `Algorithm` says more.

    Raises:
        InputError: no such file or name, or something that is no schedule.
        ProgramError: the schedule is malformed.

    >>> load_schedule("docs/examples/panels.py:panels").problem.kind
    'matmul'
    """
    match = _PLACE.fullmatch(place)
    assert match is not None
    path = Path(match["file"])
    changed = path.stat().st_mtime_ns if path.is_file() else 0
    key = (place, changed, match["name"] or "")
    if key not in _loaded:
        _loaded[key] = _read(place, path, match["name"] or "")
    return _loaded[key]


def _read(place: str, path: Path, name: str) -> Algorithm:
    names, failures = run_statements(path)
    if name not in names:
        why = f" ({failures[name]})" if name in failures else ""
        functions = [n for n, x in names.items() if _is_schedule(x) and not n.startswith("_")]
        if not name:
            raise InputError(
                f"{place} doesn't name a schedule: write {path}:FUNCTION, with one of "
                f"{', '.join(functions)}"
            )
        raise InputError(f"{path} has no {name!r}{why}: {closest(name, functions)}")
    value = names[name]
    if hasattr(value, "fn"):
        raise InputError(f"{name} of {path} is a Triton kernel: iosim kernel count {path}::{name}")
    if isinstance(value, Algorithm):
        return value.at(place)
    if not _is_schedule(value):
        raise InputError(f"{name} of {path} isn't a schedule: give a function of one builder")
    value = _guarded(place, value)
    problem = _register(names["PROBLEM"]) if "PROBLEM" in names else _find_problem(name, value)
    title = (value.__doc__ or name).strip().splitlines()[0].rstrip(".")
    lacks = tuple(one.name for one in problem.options())
    return Algorithm(place, title, problem, value, "", str(path), lacks=lacks, classes=ANY)


def _guarded(place: str, schedule: Callable[..., None]) -> Callable[..., None]:
    """The function, whose own mistakes are the schedule's, each in one line."""

    @functools.wraps(schedule)
    def trace(*given: Any) -> None:
        try:
            return schedule(*given)
        except IosimError:
            raise
        except Exception as error:
            line = next(
                (
                    f.lineno
                    for f in reversed(traceback.extract_tb(error.__traceback__))
                    if f.filename == schedule.__code__.co_filename
                ),
                "?",
            )
            raise ProgramError(f"{place}, line {line}: {type(error).__name__}: {error}") from None

    return trace


def _register(problem: type[Problem]) -> type[Problem]:
    """The file's own problem, which commands then find by its kind, as they find iosim's.

    Raises:
        InputError: it is no problem, or has the kind of one of iosim's.
    """
    kind = getattr(problem, "kind", None)
    if not isinstance(kind, str) or not hasattr(problem, "inputs"):
        raise InputError(f"PROBLEM = {problem!r} is no problem: give a class with kind and inputs")
    known = PROBLEMS.get(kind, problem)
    if known is not problem and known.__module__.startswith("iosim."):
        raise InputError(f"PROBLEM has the kind {kind!r} of one of iosim's: choose another kind")
    PROBLEMS[kind] = problem
    return problem


def _is_schedule(value: Any) -> bool:
    return isinstance(value, Algorithm) or (callable(value) and not isinstance(value, type))


def _find_problem(name: str, schedule: Callable[..., None]) -> type[Problem]:
    """The first problem that a function can be traced for; of none, what the first one says."""
    errors: list[IosimError] = []
    for problem in PROBLEMS.values():
        try:
            build(name, problem, schedule)
        except IosimError as error:
            errors.append(error)
        else:
            return problem
    raise errors[0]
