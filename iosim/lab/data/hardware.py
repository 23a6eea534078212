"""What view 6 of the lab shows: records of GPUs compared with the model, and what the drift is
made of.

All of it is computed from the records in ``experiments/data/gpu`` with today's model, as
``iosim gpu replay`` does, and kept in ``hardware.json.gz`` next to this file, since the records of
some machines do not travel with the package.  It is made again, from a source tree, by
``python -m iosim.lab.data.hardware``.
"""

from __future__ import annotations

import base64
import functools
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from iosim.base.arrays import Ints
from iosim.base.dtypes import word_bytes
from iosim.base.reading import read_toml
from iosim.core.counting.numbers import count
from iosim.gpu import l2, sweeps
from iosim.gpu.records.counters import BOUNDARIES
from iosim.gpu.records.plain import read_json
from iosim.gpu.records.record import PROVENANCE, Measured, read_measured, read_record
from iosim.gpu.reports import REPORTS, SavedReport, replay
from iosim.gpu.run.job import Job
from iosim.lab.columns import Columns, Json, by_column, pack
from iosim.lab.data import committed
from iosim.report.shipped import shipped

MADE = Path(__file__).with_suffix(".json.gz")
PIECES = 128  # that the page cuts a sweep into where it draws the drift itself
RECORDED_PIECES = 256  # as `l2.drift_bytes` does
TICK_NS = 32  # the resolution of the clocks in the records

# Runs whose recorded sweeps travel with the page: machine, N, d, B_r, stages; without a barrier.
SWEEPS = (
    ("h200", 524288, 64, 64, 2),
    ("h200", 1048576, 64, 128, 2),
    ("h200", 1048576, 64, 64, 2),
)


def data() -> Json:
    """The view's part of the payload, as `build_data` gave it.

    ``machines``: id → device, L2 in bytes, multiprocessors.  ``columns``: name → what it says, its
    unit, the boundary that its number is of; ``pairs``, those that are loads and stores of one
    thing.  ``records``: of each its machine, name, what it is, the replay's sentence, provenance,
    scatters (``points``), ``table`` and ``tensors`` packed as `iosim.lab.columns.pack` has it.
    ``drift``: shapes, runs and recorded sweeps.
    """
    return committed.read(MADE)


@functools.cache
def settings() -> Json:
    """What columns are, and what is drawn of each report: ``hardware_columns.toml``."""
    return read_toml(Path(__file__).with_name("hardware_columns.toml"))


def is_shown(one: SavedReport) -> bool:
    """Whether a record is on the page: draws, of hundreds of unlike programs, are not."""
    return one.report.name in settings()["shown"] and not one.folder.name.startswith(
        "validate-drawn"
    )


def build_data(folder: Path) -> Json:
    """The view's data from the records of all machines under `folder`, of reports that it shows.

    Raises GpuError for a record that is damaged.
    """
    saved = [
        (machine.name, one)
        for machine in sorted(folder.iterdir(), reverse=True)
        if machine.is_dir()
        and any(path.name.split("-")[0] in REPORTS for path in machine.iterdir())
        for one in sorted(replay(machine), key=lambda one: list(REPORTS).index(one.report.name))
        if is_shown(one)
    ]
    records: list[Json] = []
    first: dict[str, tuple[int, Columns, Columns]] = {}  # where a record of this name came first
    for at, (machine, one) in enumerate(saved):
        rows, moved = one.table.rows, tensors(one)
        earlier = first.setdefault(one.folder.name, (at, by_column(rows), by_column(moved)))
        like = earlier[1:] if earlier[0] != at else (None, None)
        records.append(
            {
                "machine": machine,
                "name": one.folder.name,
                "report": one.report.name,
                "says": REPORTS[one.report.name][1],
                "summary": one.table.summary,
                "good": one.table.good,
                "provenance": read_json(one.folder / PROVENANCE, dict[str, str]),
                "points": _list_scatters(one),
                "rows": len(rows),
                "table": pack(rows, like[0], earlier[0]),
                "tensors": pack(moved, like[1], earlier[0]),
            }
        )
    known = settings()
    used = {name for _, one in saved for row in one.table.rows[:1] for name in row}
    return {
        "machines": _machines(records),
        "boundaries": {b.name: {"load": b.load, "store": b.store} for b in BOUNDARIES.values()},
        "columns": {
            name: {"unit": "", "boundary": ""} | column
            for name, column in known["columns"].items()
            if name in used
        },
        "pairs": known["pairs"],
        "records": records,
        "drift": _drift(saved),
    }


def tensors(one: SavedReport) -> list[Json]:
    """Row by row of a report of jobs, what each tensor moves between SM and L2; [] for others.

    ``moves`` has direction, tensor and bytes in a word of each; ``model`` and ``kernel`` are words
    in this order, ``kernel`` None where the kernel did not count.
    """
    skipped = settings()["shown"][one.report.name].get("skipped")
    if skipped is None:
        return []
    pairs = list(zip(*read_measured(one.folder), strict=True))
    return [_moved(job, row) for job, row in pairs[skipped:]]


def _moved(job: Job, row: Measured) -> Json:
    instance = job.instance
    wide = {t.name: t.wide for t in instance.program.tensors}
    model, kernel = count(instance), row.counts(job)
    return {
        "moves": [[way, name, word_bytes(job.dtype, wide[name])] for (way, name), _ in model],
        "model": [words for _, words in model],
        "kernel": None if kernel is None else [kernel[key] for key, _ in model],
    }


def _list_scatters(one: SavedReport) -> list[Json]:
    keys = ("x", "y", "says", "where", "bars", "plus")
    return [
        scatter
        | {"series": [{key: series.get(key) for key in keys} for series in scatter["series"]]}
        for scatter in settings()["shown"][one.report.name]["points"]
    ]


def _machines(records: Iterable[Json]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for record in records:
        said = record["provenance"]
        found.setdefault(
            record["machine"],
            {
                "device": said["device"],
                "l2_bytes": int(said["l2_bytes"]),
                "multiprocessors": int(said["multiprocessors"]),
            },
        )
    return found


def _drift(saved: list[tuple[str, SavedReport]]) -> Json:
    """Shapes, each with what l2's models say of it, and runs with where their row is."""
    shapes: dict[tuple[int, int], Json] = {}
    runs, kept = [], {}
    for at, (machine, one) in enumerate(saved):
        if one.report.name != "dram":
            continue
        record = read_record(one.folder, ("sram", "dram"))
        for row, job in enumerate(record.jobs[1:]):
            told = one.table.rows[row]
            shapes.setdefault((told["N"], told["d"]), _shape(job))
            runs.append(
                {
                    "machine": machine,
                    "record": at,
                    "row": row,
                    "every": job.every if job.programs else 0,
                }
            )
            key = (machine, told["N"], told["d"], told["B_r"], told["stages"])
            ticks = record.ticks(row + 1)
            if key in SWEEPS and not job.programs and ticks is not None:
                kept[key] = {"run": len(runs) - 1, "items": len(ticks), "clock": clock_text(ticks)}
    return {
        "share": l2.L2_SHARE,
        "pieces": PIECES,
        "recorded_pieces": RECORDED_PIECES,
        "tick_ns": TICK_NS,
        "pace": sweeps.PACE,
        "most_drift": sweeps.MOST_DRIFT,
        "shapes": [shapes[key] for key in sorted(shapes)],
        "runs": runs,
        "sweeps": [kept[key] for key in SWEEPS if key in kept],
    }


def _shape(job: Any) -> Json:
    """What all items of a shape sweep, and what is read next to it, in bytes."""
    swept = l2.swept_bytes(job)
    return {
        "N": job.sizes["N"],
        "d": job.sizes["d"],
        "swept": swept,
        "own": l2.footprint_bytes(job.instance, job.dtype)["load"] - swept,
        "blocks": sweeps.Sweeps.of(job, 1, 0).blocks,
        "B_c": job.tiles["B_c"],
    }


def clock_text(ticks: Ints) -> str:
    """Clock readings as text: all starts, then all ends, in units of `TICK_NS` after the first.

    Each is its difference to the one before; 2n, or −2n − 1 for n below zero; seven bits a byte,
    low ones first, the eighth says that more follow; deflated; in base64.
    """
    found = (ticks - ticks.min()) // TICK_NS
    steps = np.concatenate([np.diff(found[:, k], prepend=0) for k in (0, 1)])
    text = bytearray()
    for number in np.where(steps >= 0, 2 * steps, -2 * steps - 1).tolist():
        while number > 127:
            text.append(number & 127 | 128)
            number >>= 7
        text.append(number)
    return base64.b64encode(zlib.compress(bytes(text), 9)).decode()


if __name__ == "__main__":
    size = committed.write(MADE, build_data(shipped("experiments") / "data" / "gpu"))
    print(f"{MADE.name}: {size:,} bytes", file=sys.stderr)
