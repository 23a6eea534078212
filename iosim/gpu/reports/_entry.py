"""`GpuReport`, the record of a report of the GPU: its command, its runs and its replay.

Each report is one; `iosim.gpu.reports.runner` and ``iosim gpu`` read it.  A new field needs a
default (``tests/gpu/test_gpu_cli.py``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from iosim.base.rows import Row, Rows, Values
from iosim.core.problem import every_axis
from iosim.core.units import parse_int, parse_words, split_list
from iosim.gpu.records import record
from iosim.gpu.records.counters import BOUNDARIES
from iosim.gpu.run import tasks
from iosim.gpu.run.job import Job, gate_job
from iosim.gpu.targets import PLAIN

# What is asked (JSON), where its output will lie → what the worker writes there as JSON.
Task = Callable[[Any, Path], Row]
Panel = Callable[[Any, Rows], None]
# Whether a report reads hardware counters: not at all; where it can; or it makes no sense without.
Counters = Literal["", "wanted", "needed"]


@dataclass(frozen=True)
class ReportOption:
    """An option of a report's command.

    Attributes:
        name: as it is typed after ``--``, with - for _, and the key of its value.
        default: as it is typed; True or False for a switch.
        help: one line.
        parse: what is typed → the value; raises InputError.
        metavar: what the help calls a value.
        old: spellings that were renamed, each as ``--x``.
    """

    name: str
    default: str | bool
    help: str
    parse: Callable[[Any], Any]
    metavar: str | None = None
    old: tuple[str, ...] = ()


@dataclass(frozen=True)
class WorkerRun:
    """One run of the worker, and the files that it leaves in the record.

    Attributes:
        task: a key of the report's `tasks`.
        asked: what is to be done, as JSON data; written to the file `spec`.
        spec, found: file names: what was asked, what the worker answered.
        counters: file name of the hardware's counters; "" runs without them.
        boundaries: where the counters are read.
        others: counters in addition to those of the boundaries; of each, names of which the first
            that the machine has is read.
        keep: whether the answer stays in the record.
    """

    task: str
    asked: Any
    spec: str
    found: str
    counters: str = ""
    boundaries: tuple[str, ...] = tuple(BOUNDARIES)
    others: tuple[tuple[str, ...], ...] = ()
    keep: bool = True


@dataclass(frozen=True)
class ReportTable:
    """The rows of a record with their verdict.

    Attributes:
        rows: column → value; the same columns in each.
        summary: the sentence that says how far the thresholds are met.
        good: whether they are.
        failed: why nothing ran, if nothing did.
        files: what else is written next to the table, by file name: rows for ``.csv``, JSON data
            for ``.json``.
    """

    rows: Rows
    summary: str
    good: bool
    failed: str = ""
    files: Values = field(default_factory=dict)


@dataclass(frozen=True)
class GpuReport:
    """A report: what is run on a GPU, and what is said about it.

    Attributes:
        name: the registry's key, the command, and the folder of the record.
        plan: values of the options by name → the worker's runs, in order; raises IosimError for
            what no GPU could run.
        tasks: what the worker can do for it, by name.
        table: a record's folder → its table; raises GpuError for a folder that is no such record.
        options: of the command.
        counters: values of the options → whether hardware counters are read, and whether the
            report makes no sense without them.
        columns: those that a terminal shows; () for all.  The CSV has every column.
        panels: the axes that it has in the figure: each draws rows of the table.
        apart: whether these are a figure of their own.
    """

    name: str
    plan: Callable[[Values], tuple[WorkerRun, ...]]
    tasks: Mapping[str, Task]
    table: Callable[[Path], ReportTable]
    options: tuple[ReportOption, ...] = ()
    counters: Callable[[Values], Counters] = lambda given: ""
    columns: tuple[str, ...] = ()
    panels: tuple[Panel, ...] = ()
    apart: bool = False


# The tasks of a report that runs jobs.
JOB_TASKS: dict[str, Task] = {"measure": tasks.measure, "profile": tasks.profile}


def job_runs(
    jobs: list[Job],
    boundaries: tuple[str, ...] = tuple(BOUNDARIES),
    *,
    counters: bool = True,
    drawn: Mapping[str, int] | None = None,
) -> tuple[WorkerRun, ...]:
    """Measure jobs, then read their counters; the copy of known size comes first.

    Args:
        drawn: the seed and the number of jobs that were drawn, which the record is to say.

    Raises EmitError for a job that no kernel can hold.
    """
    for job in jobs:
        job.emitted()
    asked: Row = {"jobs": [job.as_dict() for job in (gate_job(), *jobs)]}
    asked |= {"drawn": dict(drawn)} if drawn else {}
    measure = WorkerRun("measure", asked, record.SPEC, record.MEASURED)
    profile = WorkerRun("profile", asked, record.SPEC, record.PROFILED, record.COUNTERS, boundaries)
    return (measure, profile) if counters else (measure,)


def planned(runs: Iterable[WorkerRun]) -> Rows:
    """Rows of what a report would run: its jobs, each once, or else what it asks of the worker."""
    asked = {json.dumps(run.asked, sort_keys=True): run for run in runs}
    found: Rows = []
    for text, run in asked.items():
        if not isinstance(run.asked, Mapping) or "jobs" not in run.asked:
            found.append({"task": run.task, "asked": text})
            continue
        for job in run.asked["jobs"]:
            found.append(
                {
                    "algorithm": job["algorithm"],
                    "sizes": listed(job_sizes(job)),
                    "dtype": job["dtype"],
                    "M_words": job["M"],
                    "tiles": listed(job["tiles"]),
                    "target": job["target"],
                }
            )
    if all(row.get("target", PLAIN) == PLAIN for row in found):
        return [{name: x for name, x in row.items() if name != "target"} for row in found]
    return found


def job_sizes(job: Values) -> Row:
    """Sizes and options of a job, with the pattern of its block mask where it has one."""
    blocks = {"blocks": job["pattern"]} if job["pattern"] else {}
    return {**job["sizes"], **job["variant"], **blocks}


MEMORY_OPTION = ReportOption(
    "M", "64Ki", "fast memory", lambda text: parse_words("M", text, "fp16"), "WORDS|SIZE"
)
COUNTERS_OPTION = ReportOption("counters", True, "read hardware counters with ncu", bool)


def sizes_option(name: str, default: Iterable[int]) -> ReportOption:
    """One or more sizes of problems.

    >>> sizes_option("d", (64, 128)).help
    'head dimension'
    """
    typed = ",".join(map(str, default))
    return ReportOption(name, typed, every_axis()[name].says, integers(name), "INT,…")


def schedule_option(default: str, says: str, parse: Callable[[Any], Any], old: str) -> ReportOption:
    """One or more schedules; `old` is how the option was spelled.

    >>> schedule_option("all", "names", str, "--names").old
    ('--names',)
    """
    return ReportOption("schedule", default, f"schedule: {says}", parse, "SCHEDULE,…", (old,))


def listed(values: Values) -> str:
    """Names and values in one cell of a table; a window is LEFT,RIGHT, a limit that is none "".

    >>> listed({"window": [3, None], "N": 8})
    'N=8 window=3,'
    """
    return " ".join(f"{name}={_plain(x)}" for name, x in sorted(values.items()))


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ",".join("" if x is None else str(x) for x in value)
    return str(value).replace(" ", "-")


def choose_counters(given: Values) -> Counters:
    """Of a report whose switch ``--counters`` is on if nothing is typed."""
    return "wanted" if given["counters"] else ""


def integers(name: str) -> Callable[[str], tuple[int, ...]]:
    """Reads a list of sizes, in the order in which they are typed."""
    return lambda text: tuple(parse_int(name, part) for part in split_list(name, text))
