"""The FlashAttention paper's comparison of HBM traffic, repeated with DRAM counters.

Dao et al. 2022, Figure 2 (table): GPT-2 medium's attention, N 1024, d 64, 16 heads, batch 64,
forward and backward on an A100: 40.3 GB for standard attention (arXiv v2; 35.3 in the NeurIPS
proceedings, with a key-padding mask) against 4.4 GB for FlashAttention.  The model covers the
forward pass; what PyTorch adds is measured.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iosim.algorithms import algorithm
from iosim.gpu.l2 import footprint_bytes
from iosim.gpu.records import counters as ncu
from iosim.gpu.records.record import Record
from iosim.gpu.run.job import Job, gate_job
from iosim.problem import Attention
from iosim.tiling.gpu import gpu_tiles

SIZES = {"N": 1024, "d": 64, "heads": 16 * 64}
RUNS: tuple[tuple[str, bool], ...] = (
    ("standard", False),
    ("standard", True),
    ("standard_masked", False),
    ("standard_masked", True),
    ("fused", False),
    ("fused", True),
)
PUBLISHED = {"standard": "40.3 or 35.3 (A100)", "fused": "4.4 (A100)"}

# What must move per head, in passes over N² words and in tensors of Nd words.  Standard attention,
# forward: S out and in, P out and in.  Backward: P in for dV; dP out; dP, P in and their product
# out (PyTorch does this in a pass of its own); P and the product in, dS out; dS in for dQ and for
# dK.  The masked version adds S in and out for the mask, P in and out and a byte of mask out for
# dropout, and as much again backward.  Fused: inputs and outputs; backward, all of them and three
# gradients.  What is beyond that, PyTorch adds (docs/gpu.md).
PASSES: dict[tuple[str, bool], tuple[float, int]] = {
    ("standard", False): (4, 4),
    ("standard", True): (14, 4 + 8),
    ("standard_masked", False): (8.5, 4),
    ("standard_masked", True): (23, 4 + 8),
    ("fused", False): (0, 4),
    ("fused", True): (0, 4 + 8),
}


def jobs(M: int = 65536) -> list[Job]:
    """The gate, then the emitted forward passes."""
    problem = Attention(**SIZES)
    return [
        gate_job(),
        *(
            Job(name, SIZES, gpu_tiles(algorithm(name).program, problem, M).tiles, M=M)
            for name in ("naive", "flash2")
        ),
    ]


def torch_spec() -> dict[str, Any]:
    """What the worker is asked to run for PyTorch's side."""
    return {**SIZES, "runs": RUNS}


@dataclass(frozen=True)
class Row:
    """One implementation.  GB is 10⁹ bytes."""

    implementation: str
    passes: str
    predicted_gb: float
    dram_read_gb: float
    dram_written_gb: float
    dram_gb: float
    published_gb: str
    kernels: int


def rows(record: Record, folder: Path) -> list[Row]:
    """The table: emitted kernels, then PyTorch."""
    found = []
    for job, launches in list(zip(record.jobs, record.launches, strict=True))[1:]:
        need = footprint_bytes(job.instance, job.dtype)
        found.append(_row(f"emitted {job.algorithm}", False, sum(need.values()), launches, ""))
    spec = json.loads((folder / "torch_spec.json").read_text())
    groups = ncu.parse((folder / "torch_report.csv").read_text())
    for (variant, backward), group in zip(spec["runs"], groups, strict=True):
        published = PUBLISHED.get(variant, "") if backward else ""
        predicted = _predicted(variant, backward)
        found.append(_row(f"PyTorch {variant}", backward, predicted, tuple(group), published))
    return found


def _predicted(variant: str, backward: bool) -> float:
    """Bytes in fp16."""
    N, d, heads = SIZES["N"], SIZES["d"], SIZES["heads"]
    squares, tensors = PASSES[variant, backward]
    return 2.0 * heads * (squares * N * N + tensors * N * d)


def _row(
    name: str, backward: bool, predicted: float, launches: tuple[ncu.Launch, ...], published: str
) -> Row:
    moved = ncu.total(launches, "dram")
    read, written = moved["load", "*"] / 1e9, moved["store", "*"] / 1e9
    return Row(
        implementation=name,
        passes="forward + backward" if backward else "forward",
        predicted_gb=round(predicted / 1e9, 3),
        dram_read_gb=round(read, 3),
        dram_written_gb=round(written, 3),
        dram_gb=round(read + written, 3),
        published_gb=published,
        kernels=len(launches),
    )
