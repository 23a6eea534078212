"""Saved reports of a GPU, replayed once in a run of the tests: a replay takes seconds."""

from __future__ import annotations

import fcntl
import pickle
from pathlib import Path

from iosim.gpu.reports import SavedReport, gpu_report, replay


def replayed(folder: Path, run_folder: Path) -> tuple[SavedReport, ...]:
    """What `replay` gives, from the first process of the run that asks."""
    kept = run_folder / f"{folder.name}.replayed"
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_bytes(pickle.dumps([(one.folder, one.table) for one in replay(folder)]))
    return tuple(
        SavedReport(path, gpu_report(path.name.split("-")[0]), table)
        for path, table in pickle.loads(kept.read_bytes())
    )
