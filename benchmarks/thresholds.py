"""Thresholds: what a benchmark is meant to reach, and which of them hold at the end of a run.

``pytest benchmarks`` and the scripts here end with one line for each threshold, and with status 1
where one doesn't hold; with ``--only-print`` the status says nothing of thresholds.  Times depend
on what else a machine does, so the load is told, too: a threshold that fails on a busy machine is
measured again on a quiet one.

``pytest benchmarks --tiny`` runs everything once at a tiny size and judges no threshold: CI runs
it, so that no benchmark breaks unseen.

>>> speed = Threshold("reads", 49.0, 50.0, "M/s", True)
>>> wait = Threshold("start", 0.2, 0.25, "s", False)
>>> speed.holds, wait.holds
(False, True)
>>> print(format_lines([speed, wait], 0.5, 2))
fails  reads: 49 M/s, at least 50 M/s
holds  start: 0.2 s, at most 0.25 s
1 of 2 thresholds holds, at a load of 0.5 on 2 processors
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

ONLY_PRINT = "--only-print"
HELP = "the status doesn't say whether the thresholds hold"
TINY_OPTION = "--tiny"
T = TypeVar("T")


@dataclass(frozen=True)
class Threshold:
    """What was measured, and the threshold: the least it may be where `least`, or the most."""

    what: str
    measured: float
    threshold: float
    unit: str
    least: bool

    @property
    def holds(self) -> bool:
        """Whether the measurement reaches the threshold."""
        return self.measured >= self.threshold if self.least else self.measured <= self.threshold

    def __str__(self) -> str:
        side = "at least" if self.least else "at most"
        verdict = "holds" if self.holds else "fails"
        measured = f"{self.measured:.4g} {self.unit}".strip()
        return f"{verdict}  {self.what}: {measured}, {side} {self.threshold:g} {self.unit}".rstrip()


MEASURED: list[Threshold] = []
tiny = False  # set by conftest.py, before benchmarks are imported


def size(full: T, small: T) -> T:
    """What a benchmark takes: the first, or with ``--tiny`` the second."""
    return small if tiny else full


def rounds(count: int) -> int:
    """How often something is measured: once with ``--tiny``."""
    return size(count, 1)


def least_seconds(benchmark: Any) -> float:
    """Of pytest-benchmark's rounds; not a number where it measures nothing."""
    return math.nan if benchmark.stats is None else float(benchmark.stats.stats.min)


def note(threshold: Threshold) -> None:
    """Keep a threshold for the end, unless nothing was measured."""
    if not tiny and not math.isnan(threshold.measured):
        MEASURED.append(threshold)


def at_least(what: str, measured: float, threshold: float, unit: str = "") -> None:
    """Note a measurement that should be no less than its threshold."""
    note(Threshold(what, measured, threshold, unit, True))


def at_most(what: str, measured: float, threshold: float, unit: str = "") -> None:
    """Note a measurement that should be no more than its threshold."""
    note(Threshold(what, measured, threshold, unit, False))


def format_lines(thresholds: Sequence[Threshold], load: float, processors: int) -> str:
    """A line for each threshold, and how many hold at which load."""
    good = sum(threshold.holds for threshold in thresholds)
    where = f"at a load of {load:.1f} on {processors} processors"
    counted = f"{good} of {len(thresholds)} thresholds {'holds' if good == 1 else 'hold'}, {where}"
    return "\n".join([*map(str, thresholds), counted])


def report(loaded: float, only_print: bool = False) -> tuple[str, int]:
    """What to print at the end, nothing where no threshold was measured, and the status.

    Args:
        loaded: the load when the run began, of which a benchmark's own is no part.
        only_print: whether the status is 0 in any case.
    """
    if not MEASURED:
        return "", 0
    missed = not all(threshold.holds for threshold in MEASURED)
    return format_lines(MEASURED, loaded, os.cpu_count() or 1), int(missed and not only_print)


def script(what: str | None, run: Callable[[], None]) -> NoReturn:
    """Run a script that notes thresholds, print which hold, and exit with the status.

    Args:
        what: says what the script does; ``--only-print`` is all that its command line may have.
        run: the script.
    """
    parser = argparse.ArgumentParser(
        description=what, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(ONLY_PRINT, action="store_true", help=HELP)
    only_print, loaded = bool(parser.parse_args().only_print), os.getloadavg()[0]
    run()
    text, status = report(loaded, only_print)
    print(text)
    sys.exit(status)
