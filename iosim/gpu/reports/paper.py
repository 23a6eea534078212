"""The FlashAttention paper's comparison of HBM traffic (L2↔DRAM), measured again.

Dao et al. 2022, Figure 2 (table): GPT-2 medium's attention, N 1024, d 64, 16 heads, batch 64,
forward and backward on an A100: 40.3 GB for standard attention (arXiv v2; 35.3 in the NeurIPS
proceedings, with a key-padding mask) against 4.4 GB for FlashAttention.  What is predicted is that
each kernel reads and writes once what it touches, of the schedules in `iosim.gpu.libraries`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from iosim.base.rows import Values
from iosim.core.algorithms import algorithm
from iosim.core.problem import Attention
from iosim.core.tiling.gpu import gpu_tiles
from iosim.gpu.errors import GpuError
from iosim.gpu.l2 import footprint_bytes
from iosim.gpu.libraries import StandardStep, fused_bytes, standard_bytes
from iosim.gpu.records.counters import BOUNDARIES, KernelTraffic, moved_at, read_report
from iosim.gpu.records.plain import read_json
from iosim.gpu.records.record import Record, read_record
from iosim.gpu.reports._entry import JOB_TASKS, GpuReport, ReportTable, WorkerRun, job_runs
from iosim.gpu.reports.validate import validate_rows
from iosim.gpu.run.baselines import profile_variants
from iosim.gpu.run.job import Job

SIZES = {"N": 1024, "d": 64, "heads": 16 * 64}
RUNS: tuple[tuple[str, bool], ...] = (
    ("standard", False),
    ("standard", True),
    ("standard_masked", False),
    ("standard_masked", True),
    ("fused", False),
    ("fused", True),
)
FORWARD, BOTH = "forward", "forward + backward"
PUBLISHED = {"standard": "40.3 or 35.3 (A100)", "fused": "4.4 (A100)"}

# What PyTorch's variants add to standard attention; a mask is filled in, not added.
STANDARD: dict[str, dict[str, bool]] = {
    "standard": {},
    "standard_masked": {"masked": True, "filled": True, "dropout": True},
}


def predicted_bytes(variant: str, backward: bool) -> int:
    """Bytes in fp16 that must cross L2↔DRAM, of one of `RUNS`.

    >>> predicted_bytes("standard", backward=False)
    9126805504
    """
    sizes = SIZES["N"], SIZES["d"], SIZES["heads"]
    if variant == "fused":
        found = fused_bytes(Attention(*sizes), "fp16", backward=backward)
    else:
        problem = StandardStep(*sizes, **STANDARD[variant])
        found = standard_bytes(problem, "fp16", backward=backward)
    return sum(found.values())


def paper_jobs(M: int = 65536) -> list[Job]:
    """The emitted forward passes."""
    problem = Attention(SIZES["N"], SIZES["d"], SIZES["heads"])
    return [
        Job(name, SIZES, gpu_tiles(algorithm(name).program, problem, M).tiles, M=M)
        for name in ("naive", "flash2")
    ]


@dataclass(frozen=True)
class TorchSpec:
    """What the worker is asked to run for PyTorch's side: variants, and with backward or not."""

    N: int
    d: int
    heads: int
    runs: tuple[tuple[str, bool], ...]


def _plan(given: Values) -> tuple[WorkerRun, ...]:
    torch = WorkerRun(
        "torch",
        asdict(TorchSpec(**SIZES, runs=RUNS)),
        "torch_spec.json",
        "torch.json",
        "torch_report.csv",
        keep=False,
    )
    return (*job_runs(paper_jobs()), torch)


@dataclass(frozen=True)
class PaperRow:
    """One implementation.  GB is 10⁹ bytes."""

    implementation: str
    passes: str
    predicted_gb: float
    dram_read_gb: float
    dram_written_gb: float
    dram_gb: float
    published_gb: str
    kernels: int


def paper_rows(record: Record) -> list[PaperRow]:
    """Emitted kernels, then PyTorch.  Raises GpuError for a file that is damaged or missing."""
    found = []
    for job, launches in list(zip(record.jobs, record.launches, strict=True))[1:]:
        need = footprint_bytes(job.instance, job.dtype)
        found.append(_row(f"emitted {job.algorithm}", False, sum(need.values()), launches, ""))
    path, report = record.folder / "torch_spec.json", record.folder / "torch_report.csv"
    spec, groups = read_json(path, TorchSpec), read_report(report, BOUNDARIES)
    if len(groups) != len(spec.runs):
        raise GpuError(
            f"{report} has {len(groups)} marks and {path.name} {len(spec.runs)} runs: "
            "they are of different runs"
        )
    for run, group in zip(spec.runs, groups, strict=True):
        if run not in RUNS:
            raise GpuError(f"{path} has the unknown run {run}: is it of a newer iosim?")
        variant, backward = run
        published = PUBLISHED.get(variant, "") if backward else ""
        predicted = predicted_bytes(variant, backward)
        found.append(_row(f"PyTorch {variant}", backward, predicted, group, published))
    return found


def _row(
    name: str, backward: bool, predicted: float, launches: Sequence[KernelTraffic], published: str
) -> PaperRow:
    moved = moved_at("dram", launches)
    read, written = moved.load_bytes / 1e9, moved.store_bytes / 1e9
    return PaperRow(
        implementation=name,
        passes=BOTH if backward else FORWARD,
        predicted_gb=round(predicted / 1e9, 3),
        dram_read_gb=round(read, 3),
        dram_written_gb=round(written, 3),
        dram_gb=round(read + written, 3),
        published_gb=published,
        kernels=len(launches),
    )


def _table(folder: Path) -> ReportTable:
    record = read_record(folder, BOUNDARIES)
    gate = validate_rows(record)
    rows = paper_rows(record)
    gb = {r.implementation: r.dram_gb for r in rows if r.passes == BOTH}
    if missing := {"PyTorch standard", "PyTorch fused"} - set(gb):
        raise GpuError(f"{folder} has no run of {', '.join(sorted(missing))}: record it again")
    text = (
        f"standard {gb['PyTorch standard']:.1f} GB against fused "
        f"{gb['PyTorch fused']:.1f} GB, forward and backward; published: "
        "40.3 or 35.3 against 4.4"
    )
    return ReportTable([asdict(r) for r in rows], text, all(r.good for r in gate))


REPORT = GpuReport(
    name="paper",
    plan=_plan,
    counters=lambda given: "needed",
    tasks={**JOB_TASKS, "torch": profile_variants},
    table=_table,
)
