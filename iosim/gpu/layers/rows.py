"""What a record says: rows of kernels, of classes and of runs, beside what the model says."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from iosim.base.errors import InputError
from iosim.gpu.layers import groups as g
from iosim.gpu.layers.launch_counters import Counted, aligned, total
from iosim.gpu.layers.record import LayerRun, LayersRecord, MeasuredRun
from iosim.gpu.layers.trace import Launch
from iosim.gpu.records.names import function
from iosim.models.fusion import kernel
from iosim.models.hardware import Hardware
from iosim.models.layers.graph import Graph
from iosim.models.layers.traffic import Crossing
from iosim.models.operators import Operator
from iosim.models.roofline.roof import Roof, Timed
from iosim.models.roofline.work import BOUNDARIES, L2_DRAM, SM_L2, work_of

# Share of a V100's time in training, per cent, of BERT-large's encoder layer in PyTorch (Ivanov et
# al., arXiv 2007.00072, Table I), and of the flop there.
PUBLISHED = {
    "contraction": (61.0, 99.80),
    "normalisation": (25.5, 0.17),
    "elementwise": (13.5, 0.03),
}
PUBLISHED_CASE = "bert-large training"


@dataclass(frozen=True)
class LayerKernel:
    """One launch, with all that is known of it.

    Attributes:
        launch: what ran.
        klass: one of `iosim.gpu.layers.groups.CLASSES`.
        names: of the graph's operators: those of its group, or of its step and direction.
        counted: what the counters say; None where they say nothing of it.
    """

    launch: Launch
    klass: str
    names: tuple[str, ...]
    counted: Counted | None


@dataclass(frozen=True)
class Told:
    """A run: what was measured, and what the model says of the same kernels."""

    run: LayerRun
    measured: MeasuredRun
    seen: tuple[Counted, ...] | None
    machine: Hardware

    @property
    def graph(self) -> Graph:
        """The layer's operators."""
        return self.run.case.graph(self.run.how)

    @cached_property
    def fused(self) -> g.Fused | None:
        """What a compiler fused, as a partition; None where none was at work."""
        if not self.measured.groups:
            return None
        return g.fused(self.graph, self.measured.covers, self.measured.groups)

    @cached_property
    def partition(self) -> tuple[tuple[str, ...], ...]:
        """The operators that are one kernel.

        In eager runs that is what a step covers, forward, and each operator alone, backward.
        """
        if self.fused is not None:
            return tuple(tuple(names) for names in self.fused.groups)
        owner = g.owners(self.graph, self.measured.covers)
        found: dict[Any, list[str]] = {}
        for op in self.graph.operators:
            of = owner[op.name]
            key = op.name if of.backward or not of.step else (of.step,)
            found.setdefault(key, []).append(op.name)
        return tuple(map(tuple, found.values()))

    @cached_property
    def least(self) -> tuple[Timed, ...]:
        """The least time of each kernel of the partition."""
        return tuple(_timed(self.run, names, self.machine) for names in self.partition)

    @cached_property
    def kernels(self) -> tuple[LayerKernel, ...]:
        """All launches."""
        launched = self.measured.launches
        counted = aligned(launched, self.seen) if self.seen else [None] * len(launched)
        known = {op.name: op for op in self.graph.operators}
        owner = g.owners(self.graph, self.measured.covers)
        by_owner: dict[g.Owner, list[str]] = {}
        for name, of in owner.items():
            by_owner.setdefault(of, []).append(name)
        fused = self.fused
        groups: Sequence[int | None] = [None] * len(launched)
        if fused is not None:
            groups = g.groups_of(launched, self.measured.groups)
        found = []
        for launch, at, seen in zip(launched, groups, counted, strict=True):
            nodes: Sequence[g.Node] = ()
            if at is not None and fused is not None:
                nodes = self.measured.groups[at].nodes
                names = fused.names[at] if at < len(fused.names) else ()
                steps = {g.Owner(node[0], node[1]) for node in nodes}
                near = names or tuple(x for of in steps for x in by_owner.get(of, ()))
            else:
                names = tuple(by_owner.get(g.Owner(launch.step, launch.backward), ()))
                near = names if launch.step else ()
                names = near
            ops = [known[name] for name in near]
            found.append(LayerKernel(launch, g.klass(launch, ops, nodes), names, seen))
        return tuple(found)

    @property
    def uncounted(self) -> int:
        """Kernels of the counters' run that are none of the timed run's."""
        matched = sum(x.counted is not None for x in self.kernels)
        return len(self.seen) - matched if self.seen else 0

    @property
    def wall_s(self) -> float:
        """A pass, the median of its rounds."""
        return statistics.median(self.measured.walls)

    @property
    def busy_s(self) -> float:
        """The sum of what runs on the GPU in a pass."""
        return math.fsum(x.time_s for x in self.measured.launches)


@lru_cache(maxsize=8192)
def _timed(run: LayerRun, names: tuple[str, ...], machine: Hardware) -> Timed:
    graph = run.case.graph(run.how)
    inside = [op for op in graph.operators if op.name in names]
    loads, stores = graph.part(names)
    stream = Crossing(loads, stores, "stream")
    crossings = {}
    for at, boundary in BOUNDARIES.items():
        try:
            M = boundary.M(machine, graph.dtype)
            crossings[at] = kernel(graph, names, M).crossing
        except InputError:  # no kernel of iosim's: each tensor crosses once
            crossings[at] = stream
    work = work_of(inside, crossings, graph)
    return Roof.of(machine).timed(work)


def list_runs(record: LayersRecord) -> list[Told]:
    """The runs of a record that have been measured."""
    return [
        Told(run, measured, seen, record.machine)
        for run, measured, seen in zip(record.runs, record.measured, record.counted, strict=True)
        if not measured.failed
    ]


def run_row(one: Told, eager: Told | None) -> dict[str, Any]:
    """A run: times, shares, bytes.  Shares are of 1; NaN where nothing was counted."""
    case = one.run.case
    seconds = by_class(one)
    flop = flop_by_class(one.graph.operators)
    least = math.fsum(x.time_s for x in one.least)
    model = {at: sum(x.work.bytes[at] for x in one.least) for at in (L2_DRAM, SM_L2)}
    of_kernels = [k for k in one.kernels if k.launch.kind == "kernel"]
    seen = [k.counted for k in of_kernels if k.counted is not None]
    whole = bool(one.seen) and len(seen) == len(of_kernels)

    def count(*names: str) -> float:
        values = [total(seen, name) if whole else None for name in names]
        return math.nan if None in values else float(sum(x or 0 for x in values))

    row: dict[str, Any] = {
        "model": case.model,
        "phase": case.phase,
        "batch": case.batch,
        "N": case.N,
        "variant": one.run.variant,
        "wall_us": _us(one.wall_s),
        "busy_us": _us(one.busy_s),
        "overhead_share": round(max(0.0, 1 - one.busy_s / one.wall_s), 4),
        "launches": len(one.kernels),
        "model_kernels": len(one.least),
        "model_overhead_bound": sum(x.bound == "overhead" for x in one.least),
        "least_us": _us(least),
        "of_least": round(one.wall_s / least, 3),
    }
    row |= {f"time_{c}": round(seconds[c] / one.busy_s, 4) for c in g.CLASSES}
    row |= {f"flop_{c}": round(flop[c] / sum(flop.values()), 6) for c in g.CLASSES[:3]}
    row |= {
        "flop": sum(flop.values()),
        "tensor_flop": count("tensor_flop"),
        "other_flop": count("other_flop"),
        "dram_model_bytes": model[L2_DRAM],
        "dram_load_bytes": count("dram_load"),
        "dram_store_bytes": count("dram_store"),
        "sm_l2_model_bytes": model[SM_L2],
        "sm_l2_load_bytes": count("sm_l2_load"),
        "sm_l2_store_bytes": count("sm_l2_store"),
        "bulk_load_bytes": count("bulk_load"),
        "bulk_store_bytes": count("bulk_store"),
        "reduced_bytes": count("reduced"),
        "counted": len(seen),
        "uncounted": one.uncounted,
        "absorbed": len(one.fused.absorbed) if one.fused else 0,
        "beside_eager": one.measured.beside_eager,
    }
    speed = eager.wall_s / one.wall_s if eager else math.nan
    said = math.fsum(x.time_s for x in eager.least) / least if eager else math.nan
    return row | {"speedup": round(speed, 3), "model_speedup": round(said, 3)}


def failed_row(like: Mapping[str, Any], run: LayerRun, failed: str) -> dict[str, Any]:
    """A run that has nothing but a reason."""
    case = run.case
    own = {
        "model": case.model,
        "phase": case.phase,
        "batch": case.batch,
        "N": case.N,
        "variant": run.variant,
        "failed": failed,
    }
    return {name: own.get(name, math.nan) for name in like}


def by_class(one: Told) -> dict[str, float]:
    """Seconds of kernels of each class."""
    return {c: math.fsum(k.launch.time_s for k in one.kernels if k.klass == c) for c in g.CLASSES}


def flop_by_class(operators: Sequence[Operator]) -> dict[str, int]:
    """Of the graph's operators, by iosim's counting rule."""
    return {c: sum(op.flop for op in operators if op.klass == c) for c in g.CLASSES}


def class_rows(one: Told) -> list[dict[str, Any]]:
    """The classes of a run: measured time and bytes beside the model's flop, bytes, least time."""
    seconds, flop = by_class(one), flop_by_class(one.graph.operators)
    whole = sum(flop.values())
    found = []
    for c in g.CLASSES:
        mine = [k for k in one.kernels if k.klass == c]
        model = [x for x in one.least if x.work.klass == c]
        if not mine and not model:
            continue
        published = PUBLISHED.get(c) if one.run.case.name == PUBLISHED_CASE else None
        found.append(
            {
                **_head(one),
                "class": c,
                "launches": len(mine),
                "time_us": _us(seconds[c]),
                "time_share": round(seconds[c] / one.busy_s, 4),
                "published_time_share": round(published[0] / 100, 4) if published else math.nan,
                "model_flop": flop[c],
                "model_flop_share": round(flop[c] / whole, 6),
                "published_flop_share": round(published[1] / 100, 6) if published else math.nan,
                "least_us": _us(math.fsum(x.time_s for x in model)),
                **_counts(mine),
                "dram_model_bytes": sum(x.work.bytes[L2_DRAM] for x in model),
            }
        )
    return found


def kernel_rows(one: Told) -> list[dict[str, Any]]:
    """Each kernel of a run with all its launches for one step, or group, and direction."""
    together: dict[Any, list[LayerKernel]] = {}
    for k in one.kernels:
        x = k.launch
        key = (x.kernel, x.step, x.backward, k.names, k.klass, x.op)
        together.setdefault(key, []).append(k)
    found = []
    for mine in together.values():
        first = mine[0]
        x = first.launch
        found.append(
            {
                **_head(one),
                "kernel": function(str(x.kernel)),
                "full_name": str(x.kernel),
                "class": first.klass,
                "operators": "; ".join(first.names),
                "step": x.step,
                "pass": "backward" if x.backward else "forward",
                "pytorch_operator": x.op,
                "launches": len(mine),
                "time_us": _us(math.fsum(k.launch.time_s for k in mine)),
                **_counts(mine),
            }
        )
    if one.seen and one.uncounted:
        matched = {id(k.counted) for k in one.kernels if k.counted is not None}
        for seen in one.seen:
            if id(seen) not in matched:
                only = LayerKernel(Launch(seen.kernel, 0.0), g.UNKNOWN, (), seen)
                found.append(
                    {
                        **_head(one),
                        "kernel": function(seen.kernel),
                        "full_name": seen.kernel,
                        "class": g.UNKNOWN,
                        "operators": "",
                        "step": "",
                        "pass": "only counted",
                        "pytorch_operator": "",
                        "launches": 1,
                        "time_us": math.nan,
                        **_counts([only]),
                    }
                )
    return found


def _head(one: Told) -> dict[str, Any]:
    return {"model": one.run.case.model, "phase": one.run.case.phase, "variant": one.run.variant}


def _counts(mine: Sequence[LayerKernel]) -> dict[str, Any]:
    seen = [k.counted for k in mine if k.launch.kind == "kernel"]
    known = [x for x in seen if x is not None]
    found: dict[str, Any] = {}
    for name in ("tensor_flop", "other_flop"):
        value = total(known, name) if known and len(known) == len(seen) else None
        found[name] = math.nan if value is None else value
    for name in (
        "dram_load",
        "dram_store",
        "sm_l2_load",
        "sm_l2_store",
        "bulk_load",
        "bulk_store",
        "reduced",
    ):
        value = total(known, name) if known and len(known) == len(seen) else None
        found[f"{name}_bytes"] = math.nan if value is None else value
    return found


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)
