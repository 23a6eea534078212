"""Records to tables: one function per kind of record, the same after a run and in a replay.

Each returns rows for a CSV, and the sentence that says whether the bars are met.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from iosim.gpu.errors import GpuError
from iosim.gpu.records.record import read
from iosim.gpu.reports import dram as dram_table
from iosim.gpu.reports import paper, validate

BENCH_BAR = 0.5  # of the fused kernel's speed, from N = 4k on


@dataclass(frozen=True)
class Table:
    """Rows with their verdict."""

    kind: str
    rows: list[dict[str, Any]]
    summary: str
    good: bool


def validate_table(folder: Path) -> Table:
    """Model, kernel and counters, byte for byte."""
    record = read(folder)
    rows = validate.rows(record)
    plain = [asdict(r) | {"unexplained": r.unexplained, "good": r.good} for r in rows]
    return Table("validate", plain, validate.summary(rows), all(r.good for r in rows))


def dram_rows(folder: Path) -> Table:
    """Predicted and measured DRAM reads."""
    record = read(folder)
    validate.rows(record)  # the gate, and the exact boundary above
    rows = dram_table.rows(record, folder)
    kept = [abs(r.off) for r in rows if r.in_step]
    plain = [r for r in rows if not r.in_step]
    together = [r for r in plain if abs(r.off) <= dram_table.IN_STEP_TOLERANCE]
    apart = [r for r in plain if r not in together]
    text = (
        f"in step: {len(kept)} runs, at most {max(kept, default=0):.2%} off the wave model; plain: "
        f"{len(together)} stayed together and are at most "
        f"{max((abs(r.off) for r in together), default=0):.2%} off it, "
        f"{len(apart)} drifted apart and read "
        f"{min((r.off + 1 for r in apart), default=1):.2f} to "
        f"{max((r.off + 1 for r in apart), default=1):.1f} times as much"
    )
    return Table("dram", [asdict(r) | {"good": r.good} for r in rows], text,
                 all(r.good for r in rows))  # fmt: skip


def bench_rows(folder: Path) -> Table:
    """Speed beside PyTorch."""
    try:
        rows = json.loads((folder / "measured.json").read_text())["rows"]
    except (OSError, ValueError, KeyError) as error:
        raise GpuError(f"{folder} is not a bench record: {error}") from None
    long = [r["of_fused"] for r in rows if r["N"] >= 4096]
    least = min(long, default=0.0)
    text = f"from N = 4k on at least {least:.2f} of the fused kernel's speed (bar: {BENCH_BAR})"
    return Table("bench", rows, text, least >= BENCH_BAR)


def paper_rows(folder: Path) -> Table:
    """The FlashAttention paper's traffic, repeated."""
    record = read(folder)
    gate = validate.rows(record)
    rows = paper.rows(record, folder)
    by_name = {(r.implementation, r.passes): r.dram_gb for r in rows}
    both = "forward + backward"
    text = (
        f"standard {by_name['PyTorch standard', both]:.1f} GB against fused "
        f"{by_name['PyTorch fused', both]:.1f} GB, forward and backward; published: "
        "40.3 or 35.3 against 4.4"
    )
    return Table("paper", [asdict(r) for r in rows], text, all(r.good for r in gate))


TABLES: dict[str, Callable[[Path], Table]] = {
    "validate": validate_table,
    "dram": dram_rows,
    "bench": bench_rows,
    "paper": paper_rows,
}


def replay(folder: Path) -> dict[Path, Table]:
    """Tables of every record in a folder, by the part of its name before a dash.

    Raises GpuError if there is none.
    """
    kinds = {path: path.name.split("-")[0] for path in sorted(folder.glob("*")) if path.is_dir()}
    found = {path: TABLES[kind](path) for path, kind in kinds.items() if kind in TABLES}
    if not found:
        raise GpuError(f"{folder} holds no record ({', '.join(TABLES)}): give the folder above")
    return found
