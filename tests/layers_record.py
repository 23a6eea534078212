"""A record of layers that a test makes up: no GPU has run it, and its numbers mean nothing.

Each operator of a graph is a kernel of an eager run, and pairs of neighbors are kernels of a
compiled one.  Times are multiples of microseconds, bytes and flop those of the operators.
"""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from iosim.gpu.layers.cases import QUICK, VARIANTS
from iosim.gpu.layers.groups import GRADIENT_SUM, owners
from iosim.gpu.layers.launch_counters import COUNTERS, PRODUCT_N, STREAM_WORDS
from iosim.gpu.layers.record import LayerRun, Spec
from iosim.models.layers.graph import Graph

SAID = "made up by a test: no GPU ran this"
PYTORCH = {"contraction": "aten::mm", "normalisation": "aten::sum", "elementwise": "aten::mul"}
UNITS = {
    what: "byte" if what.split("_")[0] in ("dram", "sm", "bulk", "reduced") else "inst"
    for what in COUNTERS
}


def covers(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Steps as the modules have them."""
    known = [op.name for op in graph.operators if not any(t.role == "gradient" for t in op.writes)]
    return {
        name: tuple(x for x in (name, f"{name} bias") if x in known)
        for name in known
        if not name.endswith(" bias")
    }


def launches(graph: Graph, names: dict[str, int]) -> list[dict[str, Any]]:
    """An eager run: a kernel of each operator."""
    own = owners(graph, covers(graph))
    found = []
    for k, op in enumerate(graph.operators):
        sdpa = "aten::_scaled_dot_product_flash_attention"
        said = sdpa if op.kind.name.startswith("attention") else PYTORCH[op.klass]
        kernel = f"void at::native::{said.split(':')[-1]}_{k % 5}<c10::Half, {k}>(int)"
        found.append(
            {
                "kernel": names.setdefault(kernel, len(names)),
                "time_s": 1e-6 * (1 + k % 7),
                "step": own[op.name].step,
                "backward": own[op.name].backward,
                "op": said,
                "call": k + 1,
                "outer": said,
            }
        )
    return found


def compiled(graph: Graph, names: dict[str, int]) -> tuple[list[Any], list[Any]]:
    """A compiled run: products by a library, others in pairs; launches and groups."""
    own = owners(graph, covers(graph))
    made: list[list[Any]] = []
    for op in graph.operators:
        of = own[op.name]
        extern = op.klass == "contraction"
        last = made[-1] if made else None
        same = last and last[1] == of.backward
        if not extern and same and not last[2] and len(last[0]) < 2:
            last[0].append(op)
        else:
            made.append([[op], of.backward, extern])
    launched, groups = [], []
    for k, (ops, backward, extern) in enumerate(made):
        name = f"extern_kernels.mm_{k}" if extern else f"triton_poi_fused_{k}"
        seen = f"gemm_{k}" if extern else name
        nodes = []
        for op in ops:
            step = own[op.name].step
            step = "" if step == GRADIENT_SUM else step
            target = (
                "aten.mm.default"
                if extern
                else "aten.sum.dim"
                if op.kind.name == "sum"
                else "aten.add.Tensor"
            )
            turned = (
                op.writes[0].role == "gradient"
                and op.writes[0].name[1:] in graph.tensors
                and graph.tensors[op.writes[0].name[1:]].role == "weight"
            )
            nodes += [
                [step, backward, op.writes[0].words, len(nodes) + 10 * k + i, target, turned]
                for i in range(len(op.reads) - 1 if step == "" else 1)
            ]
        groups.append(
            {"kernels": [name], "generated": not extern, "backward": backward, "nodes": nodes}
        )
        launched.append(
            {
                "kernel": names.setdefault(seen, len(names)),
                "time_s": 2e-6,
                "backward": backward,
                "op": "aten::mm" if extern else name,
                "call": k + 1,
                "outer": "aten::mm" if extern else name,
            }
        )
    return launched, groups


def write_record(
    folder: Path, cases: Any = QUICK[:2], *, counters: bool = True, variants: Any = tuple(VARIANTS)
) -> Path:
    """A whole record of some variants of some cases."""
    folder.mkdir(parents=True)
    runs = tuple(LayerRun(case, variant) for case in cases for variant in variants)
    (folder / "spec.json").write_text(json.dumps(asdict(Spec(runs, 9.0, 9.0, "none"))))
    names: dict[str, int] = {}
    rows, report = [], [_header(), _units(), *_gates()]
    for run in runs:
        graph = run.case.graph(run.how)
        groups: list[Any] = []
        if run.how.compiled:
            launched, groups = compiled(graph, names)
        else:
            launched = launches(graph, names)
        busy = sum(x["time_s"] for x in launched)
        rows.append(
            {
                "walls": [1.25 * busy, 1.5 * busy, 1.3 * busy],
                "launches": launched,
                "passes": 5,
                "covers": covers(graph),
                "groups": groups,
            }
        )
        said = list(names)
        report.append(_row("cuda::<unnamed>::spin_kernel(long)", {}))
        for x in launched:
            kernel = said[x["kernel"]].replace("at::", "")
            report.append(
                _row(
                    kernel,
                    {
                        "dram_load": 4096,
                        "dram_store": 2048,
                        "sm_l2_load": 8192,
                        "sm_l2_store": 2048,
                        "warp_flop": 300,
                        "group_flop": 700,
                    },
                )
            )
    environment = {"device": "NVIDIA H200", "torch": SAID}
    (folder / "measured.json").write_text(
        json.dumps({"rows": rows, "names": list(names), "environment": environment})
    )
    (folder / "provenance.json").write_text(json.dumps(environment | {"command": SAID}))
    if counters:
        profiled = [{"run": k} for k in range(len(runs))]
        (folder / "profiled.json").write_text(json.dumps({"rows": profiled}))
        with (folder / "report.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(report)
    return folder


def _header() -> list[str]:
    return ["Kernel Name", *(names[0] for names in COUNTERS.values())]


def _units() -> list[str]:
    return ["", *(UNITS[what] for what in COUNTERS)]


def _row(kernel: str, values: dict[str, int]) -> list[str]:
    return [kernel, *(f"{values.get(what, 0):,}" for what in COUNTERS)]


def _gates() -> list[list[str]]:
    half = 2 * STREAM_WORDS
    mark = _row("cuda::<unnamed>::spin_kernel(long)", {})
    stream = {"sm_l2_load": half, "sm_l2_store": half, "dram_load": half, "dram_store": half // 2}
    return [mark, _row("add", stream), mark, _row("gemm", {"group_flop": 2 * PRODUCT_N**3})]
