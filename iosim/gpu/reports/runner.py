"""Running a report: each of its worker's runs in turn, into one folder, which is its record."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from iosim.base.rows import Values
from iosim.base.writing import write_text
from iosim.gpu.errors import GpuError
from iosim.gpu.records.checksums import CHECKSUMS, write_checksums
from iosim.gpu.records.record import FILES, PROVENANCE
from iosim.gpu.reports._entry import GpuReport, WorkerRun
from iosim.gpu.reports._targets import INSTEAD
from iosim.gpu.run import profiler
from iosim.gpu.run.requirements import machine, no_counters, no_gpu
from iosim.gpu.targets import PLAIN, chosen


def run_report(
    report: GpuReport,
    options: Values,
    folder: Path,
    origin: Mapping[str, str],
    remark: Callable[[str], None],
) -> None:
    """Run a report into `folder`; what the machine lacks is said before anything else is done.

    Args:
        options: values by name.
        origin: where the numbers come from; of it, date, commit and command are kept.
        remark: called with a line for each of two things: why counters that the report can do
            without are missing, and why another target runs than was requested.

    Raises GpuError without a GPU, for a worker that fails, and for counters that are needed, and
    IosimError for options that no GPU could run.
    """
    counters = report.counters(options)
    if missing := no_gpu():
        raise GpuError(missing)
    missing = no_counters() if counters else ""
    if missing and counters == "needed":
        raise GpuError(missing)
    remark(missing)
    options, ran = settled(options)
    if INSTEAD in ran:
        remark(ran[INSTEAD])
    runs = report.plan(options)
    folder.mkdir(parents=True, exist_ok=True)
    stale = {
        *FILES,
        CHECKSUMS,
        *(name for run in runs for name in (run.spec, run.found, run.counters)),
    }
    for name in stale - {""}:
        (folder / name).unlink(missing_ok=True)
    for run in runs:
        if run.counters and missing:
            continue
        try:
            _one(report.name, run, folder)
        except GpuError as error:
            if counters != "wanted" or not run.counters:
                raise
            remark(str(error))
        _keep_provenance(folder, run, origin, ran)
    write_checksums(folder)


def settled(options: Values) -> tuple[Values, dict[str, str]]:
    """The options with the target that this machine can run, and what a record says of it.

    >>> settled({"N": 1024})
    ({'N': 1024}, {})
    >>> settled({"target": "triton"})
    ({'target': 'triton'}, {'target': 'triton'})
    """
    asked = options.get("target")
    if asked is None:
        return options, {}
    name, why = (asked, "") if asked == PLAIN else chosen(asked, machine())
    found = {**options, "target": name}
    if name == PLAIN != asked and "style" in options:
        found["style"] = ""  # which is of the other target
    return found, {"target": name} | ({INSTEAD: why} if why else {})


def _one(report: str, run: WorkerRun, folder: Path) -> None:
    spec, found = folder / run.spec, folder / run.found
    write_text(spec, json.dumps(run.asked))
    try:
        if run.counters:
            counters = folder / run.counters
            profiler.profile(report, run.task, spec, found, counters, run.boundaries, run.others)
        else:
            profiler.work(report, run.task, spec, found)
    finally:
        if not run.keep:
            found.unlink(missing_ok=True)


def _keep_provenance(
    folder: Path, run: WorkerRun, origin: Mapping[str, str], ran: Mapping[str, str]
) -> None:
    """Where the numbers come from, as the first run that says its environment tells it."""
    path = folder / PROVENANCE
    if path.exists() or not (folder / run.found).exists():
        return
    environment = json.loads((folder / run.found).read_text()).get("environment")
    if environment:
        found = environment | {name: origin[name] for name in ("date", "commit", "command")}
        found |= ran
        write_text(path, json.dumps(found, indent=1) + "\n")
