"""The runs behind `iosim gpu`: each leaves one record, from which its table is made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from iosim.gpu.records import counters as ncu
from iosim.gpu.records.record import provenance, record, work
from iosim.gpu.reports import bench, paper
from iosim.gpu.run import job as jobs
from iosim.gpu.run.cuda import torch_module


def run_validate(
    folder: Path, command: str, todo: Sequence[jobs.Job], *, counters: bool = True
) -> str:
    """The three numbers for a sweep; returns a warning where counters are missing."""
    torch_module()
    for job in todo:
        job.emitted()  # what no kernel can hold fails here, in one line
    return record([jobs.gate_job(), *todo], folder, command, counters=counters)


def run_dram(folder: Path, command: str) -> str:
    """DRAM reads, plain and in step."""
    torch_module()
    todo = [jobs.gate_job(), *jobs.dram_sweep()]
    return record(todo, folder, command, levels=("sram", "dram"))


def run_bench(folder: Path, command: str, asked: dict[str, object]) -> None:
    """Speed beside PyTorch: lengths, head sizes and M as `asked`."""
    torch_module()
    for d in bench.HEAD_SIZES:
        bench.candidates(d, int(str(asked["M"])))  # a bad M fails here, in one line
    folder.mkdir(parents=True, exist_ok=True)
    spec, out = folder / "spec.json", folder / "measured.json"
    spec.write_text(json.dumps(asked))
    work("bench", spec, out)
    found = json.loads(out.read_text())["environment"] | provenance(command)
    (folder / "provenance.json").write_text(json.dumps(found, indent=1) + "\n")


def run_paper(folder: Path, command: str) -> str:
    """The FlashAttention paper's comparison; returns a warning where counters are missing."""
    torch_module()
    warning = record(paper.jobs(), folder, command)
    if not warning:
        spec = folder / "torch_spec.json"
        spec.write_text(json.dumps(paper.torch_spec()))
        ncu.profile("torch", spec, folder / "torch.json", folder / "torch_report.csv")
        (folder / "torch.json").unlink(missing_ok=True)
    return warning
