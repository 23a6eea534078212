"""How much of L2 a sweep can use: DRAM reads of sweeps in lockstep, in both orders.

n sweeps over L bytes in alternating order read L + (n − 1)(L − C) bytes from DRAM if L2 keeps C of
them for the next sweep (Theorem 2 of proofs/sweep_order.md).  The first run measures C.  The last
one measures how much C is reduced by each byte of the programs' own: bytes that one program reads
or writes once, such as Q and O of attention.  The others check the law at other L and n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from iosim.base.rows import Row, Values
from iosim.gpu.errors import GpuError
from iosim.gpu.l2 import L2_SHARE
from iosim.gpu.records.counters import moved_at, read_report
from iosim.gpu.records.plain import read_json
from iosim.gpu.records.record import COUNTERS, PROFILED, SPEC, read_device
from iosim.gpu.reports._entry import GpuReport, ReportTable, WorkerRun

TOLERANCE = 0.01  # of DRAM reads, against the law
WORD = 4  # bytes: fp32
MOST_SWEEPS, MOST_BYTES = 2**16, 2**50  # of a record that makes sense


@dataclass(frozen=True)
class SweepRun:
    """One launch.

    Attributes:
        sweeps: the number of sweeps.
        share: bytes of a sweep, as a multiple of half of L2.
        alternate: whether every second sweep is reversed.
        own_reads, own_writes: blocks of its own that each program reads and writes per sweep.
    """

    sweeps: int
    share: float
    alternate: bool = True
    own_reads: int = 0
    own_writes: int = 0


# The first measures C, and the last how much a byte of a program's own reduces it.
RUNS = (
    SweepRun(8, 4 / 3),
    SweepRun(8, 4 / 3, alternate=False),
    SweepRun(8, 2, alternate=False),
    SweepRun(4, 4 / 3),
    SweepRun(16, 4 / 3),
    SweepRun(8, 7 / 6),
    SweepRun(8, 5 / 3),
    SweepRun(8, 2),
    SweepRun(8, 3),
    *(SweepRun(8, 4 / 3, own_reads=k) for k in (1, 2, 4)),
    *(SweepRun(8, 4 / 3, own_writes=k) for k in (1, 2, 4)),
    *(SweepRun(8, share, own_reads=2, own_writes=2) for share in (7 / 6, 5 / 3, 2)),
    SweepRun(8, 4 / 3, own_reads=4, own_writes=4),
)


@dataclass(frozen=True)
class SweptBytes:
    """Bytes of one sweep: those that all programs read, and their own."""

    swept_bytes: int
    own_read_bytes: int
    own_written_bytes: int


@dataclass(frozen=True)
class _Answer:
    environment: dict[str, str]
    rows: tuple[SweptBytes, ...]


@dataclass(frozen=True)
class _Asked:
    runs: tuple[SweepRun, ...]


def _launch_all(asked: Row, out: Path) -> Row:
    """Runs in the worker: launch each run once where the profiler sees it."""
    from iosim.gpu.run.cuda import torch_module
    from iosim.gpu.run.tasks import environment

    torch, found = torch_module(), environment()
    rows = [asdict(_launch(torch, SweepRun(**run))) for run in asked["runs"]]
    return {"environment": found, "rows": rows}


def _launch(torch: Any, run: SweepRun) -> SweptBytes:
    from iosim.gpu.run import sweep_kernel
    from iosim.gpu.run.tasks import watch

    device = torch.cuda.get_device_properties(0)
    programs, block = device.multi_processor_count, sweep_kernel.BLOCK
    steps = int(run.share * device.L2_cache_size * L2_SHARE) // (WORD * block)
    blocks = steps // sweep_kernel.EVERY * sweep_kernel.EVERY
    own = programs * sweep_kernel.OWN_BLOCK

    def words(n: int) -> Any:
        return torch.zeros(max(n, 1), dtype=torch.float32, device="cuda")

    tensors = (
        words(blocks * block),
        words(run.sweeps * own * run.own_reads),
        words(run.sweeps * own * run.own_writes),
        words(programs * block),
    )
    gate = torch.zeros(1, dtype=torch.int32, device="cuda")
    sizes = (run.sweeps, blocks, run.own_reads, run.own_writes)

    def go() -> None:
        kernel = sweep_kernel.sweep_words[(programs,)]
        kernel(tensors, gate, sizes, ALTERNATE=run.alternate, num_warps=8)

    go()  # compile before the mark
    gate.zero_()
    watch(torch, [go])
    return SweptBytes(
        WORD * blocks * block, WORD * own * run.own_reads, WORD * own * run.own_writes
    )


@dataclass(frozen=True)
class L2SizeRow:
    """One launch.  Bytes are of one sweep; DRAM reads are of all sweeps."""

    order: str
    sweeps: int
    swept_bytes: int
    own_read_bytes: int
    own_written_bytes: int
    law_bytes: int  # DRAM reads, by the law
    read_bytes: int  # DRAM reads, counter
    off_law: float  # read_bytes / law_bytes − 1
    used_bytes: int  # C by the law, from these reads; 0 in cyclic order
    of_half: float  # C over half of L2

    @property
    def good(self) -> bool:
        """Whether the law predicts what DRAM reads."""
        return abs(self.off_law) <= TOLERANCE


def find_used_bytes(run: SweepRun, launched: SweptBytes, reads: int) -> float:
    """C, by the law, from the DRAM reads of a launch in alternating order."""
    swept = reads - run.sweeps * launched.own_read_bytes
    return launched.swept_bytes - (swept - launched.swept_bytes) / (run.sweeps - 1)


def predict_reads(run: SweepRun, launched: SweptBytes, used: float) -> float:
    """DRAM reads of a launch if a sweep can use `used` bytes of L2."""
    L, kept = launched.swept_bytes, used if run.alternate else 0.0
    if used >= L:
        kept = L
    return run.sweeps * launched.own_read_bytes + L + (run.sweeps - 1) * (L - kept)


@dataclass(frozen=True)
class UsedBytes:
    """Bytes of L2 that a sweep can use: `alone`, less `each` per byte of the programs' own."""

    alone: float
    each: float

    def at(self, launched: SweptBytes) -> float:
        """C of a launch."""
        return self.alone - self.each * (launched.own_read_bytes + launched.own_written_bytes)


def calibrate(
    runs: Sequence[SweepRun], launched: Sequence[SweptBytes], reads: Sequence[int]
) -> UsedBytes:
    """C by the first run, and by the last how much a byte of the programs' own reduces it."""
    first, last = (find_used_bytes(runs[k], launched[k], reads[k]) for k in (0, -1))
    own = launched[-1].own_read_bytes + launched[-1].own_written_bytes
    return UsedBytes(first, (first - last) / own)


def _check_runs(runs: Sequence[SweepRun], launched: Sequence[SweptBytes], folder: Path) -> None:
    """Raise GpuError for runs that can't calibrate the law, or that no launch can have had."""
    if len(runs) < 3 or len(runs) != len(launched):
        raise GpuError(
            f"{folder / PROFILED} has not as many rows as runs, or too few: run it again"
        )
    if not (runs[0].alternate and runs[-1].alternate):
        raise GpuError(f"{folder / SPEC}: the first and the last run alternate: run it again")
    for at, run in enumerate(runs):
        if not 2 <= run.sweeps <= MOST_SWEEPS:
            raise GpuError(f"{folder / SPEC}, run {at}: sweeps must be 2 to {MOST_SWEEPS:,}")
    for at, one in enumerate(launched):
        sizes = (one.swept_bytes, one.own_read_bytes + 1, one.own_written_bytes + 1)
        if not all(1 <= x <= MOST_BYTES for x in sizes):
            raise GpuError(f"{folder / PROFILED}, row {at}: bytes must be 0 to {MOST_BYTES:,}")
    if not launched[-1].own_read_bytes + launched[-1].own_written_bytes:
        raise GpuError(f"{folder / PROFILED}: the last run has no bytes of its own: run it again")


def _table(folder: Path) -> ReportTable:
    runs = read_json(folder / SPEC, _Asked).runs
    launched = read_json(folder / PROFILED, _Answer).rows
    l2_bytes = read_device(folder, "l2_bytes")
    groups = read_report(folder / COUNTERS, ("dram",))
    _check_runs(runs, launched, folder)
    if len(groups) != len(runs):
        raise GpuError(
            f"{folder / COUNTERS} has {len(groups)} launches of {len(runs)}: it is cut off"
        )
    reads = [moved_at("dram", launches).load_bytes for launches in groups]
    used = calibrate(runs, launched, reads)
    half = l2_bytes * L2_SHARE
    rows = [
        _row(run, one, n, used.at(one), half)
        for run, one, n in zip(runs, launched, reads, strict=True)
    ]
    summary = (
        f"a sweep can use {used.alone / 1e6:.2f} MB of L2, {used.alone / half:.1%} of half of it, "
        f"less {used.each:.2f} for each byte that programs read or write of their own; "
        f"{len(rows) - 2} other launches at most {max(abs(r.off_law) for r in rows[1:-1]):.2%} off"
    )
    return ReportTable(
        [asdict(r) | {"good": r.good} for r in rows], summary, all(r.good for r in rows)
    )


def _row(run: SweepRun, launched: SweptBytes, reads: int, used: float, half: float) -> L2SizeRow:
    predicted = round(predict_reads(run, launched, used))
    found = round(find_used_bytes(run, launched, reads)) if run.alternate else 0
    return L2SizeRow(
        order="alternating" if run.alternate else "cyclic",
        sweeps=run.sweeps,
        **asdict(launched),
        law_bytes=predicted,
        read_bytes=reads,
        off_law=round(reads / predicted - 1, 5) if predicted else 0.0,
        used_bytes=found,
        of_half=round(found / half, 4),
    )


def _plan(given: Values) -> tuple[WorkerRun, ...]:
    asked = {"runs": [asdict(run) for run in RUNS]}
    return (WorkerRun("launch", asked, SPEC, PROFILED, COUNTERS, ("dram",)),)


REPORT = GpuReport(
    name="l2size",
    plan=_plan,
    counters=lambda given: "needed",
    tasks={"launch": _launch_all},
    table=_table,
)
