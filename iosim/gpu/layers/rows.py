"""What a record says: rows of kernels, of classes and of runs, compared with the model.

The report `iosim.gpu.reports.layers` prints and draws it.  ``tests/gpu/test_gpu_layers.py`` sends a
made-up record through table and figure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from iosim.base.errors import InputError
from iosim.base.rows import Row, Rows, Values
from iosim.gpu.layers import groups as g
from iosim.gpu.layers.launch_counters import COLUMNS, Counted, aligned, total
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

# Share of a V100's time in training, percent, of BERT-large's encoder layer in PyTorch (Ivanov et
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


def run_row(one: Told, eager: Told | None) -> Row:
    """A run: times, shares, bytes.  Shares are of 1; NaN where nothing was counted."""
    seconds = by_class(one)
    flop = flop_by_class(one.graph.operators)
    least = math.fsum(x.time_s for x in one.least)
    model = {at: sum(x.work.bytes[at] for x in one.least) for at in (L2_DRAM, SM_L2)}
    of_kernels = [k for k in one.kernels if k.launch.kind == "kernel"]
    row: Row = {
        **_case_of(one.run),
        "wall_us": _us(one.wall_s),
        "busy_us": _us(one.busy_s),
        "overhead_share": round(max(0.0, 1 - one.busy_s / one.wall_s), 4),
        "launches": len(one.kernels),
        "model_kernels": len(one.least),
        "model_overhead_bound": sum(x.bound == "overhead" for x in one.least),
        "least_us": _us(least),
        "of_least": round(one.wall_s / least, 3),
        **{f"time_{c}": round(seconds[c] / one.busy_s, 4) for c in g.CLASSES},
        **{f"flop_{c}": round(flop[c] / sum(flop.values()), 6) for c in g.CLASSES[:3]},
        "flop": sum(flop.values()),
    }
    for name, value in _counts(of_kernels if one.seen else ()).items():
        if name in _MODELED:
            boundary = _MODELED[name]
            row[f"{name.removesuffix('_load_bytes')}_model_bytes"] = model[boundary]
        row[name] = float(value)
    row |= {
        "counted": sum(k.counted is not None for k in of_kernels),
        "uncounted": one.uncounted,
        "absorbed": len(one.fused.absorbed) if one.fused else 0,
        "beside_eager": one.measured.beside_eager,
    }
    speed = eager.wall_s / one.wall_s if eager else math.nan
    said = math.fsum(x.time_s for x in eager.least) / least if eager else math.nan
    return row | {"speedup": round(speed, 3), "model_speedup": round(said, 3)}


def failed_row(like: Values, run: LayerRun, failed: str) -> Row:
    """A run that has nothing but a reason."""
    own = {**_case_of(run), "failed": failed}
    return {name: own.get(name, math.nan) for name in like}


def by_class(one: Told) -> dict[str, float]:
    """Seconds of kernels of each class."""
    return {c: math.fsum(k.launch.time_s for k in one.kernels if k.klass == c) for c in g.CLASSES}


def flop_by_class(operators: Sequence[Operator]) -> dict[str, int]:
    """Of the graph's operators, by iosim's counting rule."""
    return {c: sum(op.flop for op in operators if op.klass == c) for c in g.CLASSES}


def class_rows(one: Told) -> Rows:
    """The classes of a run: measured time and bytes, and the model's flop, bytes and least time."""
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


def kernel_rows(one: Told) -> Rows:
    """Each kernel of a run with all its launches for one step, or group, and direction."""
    together: dict[Any, list[LayerKernel]] = {}
    for k in one.kernels:
        x = k.launch
        key = (x.kernel, x.step, x.backward, k.names, k.klass, x.op)
        together.setdefault(key, []).append(k)
    found = []
    for mine in together.values():
        x = mine[0].launch
        told = {
            "step": x.step,
            "pass": "backward" if x.backward else "forward",
            "pytorch_operator": x.op,
            "launches": len(mine),
            "time_us": _us(math.fsum(k.launch.time_s for k in mine)),
        }
        found.append(_kernel_row(one, mine, told))
    matched = {id(k.counted) for k in one.kernels}
    told = {"step": "", "pass": "only counted", "pytorch_operator": "", "launches": 1}
    for seen in one.seen or ():
        if id(seen) not in matched:
            only = LayerKernel(Launch(seen.kernel, 0.0), g.UNKNOWN, (), seen)
            found.append(_kernel_row(one, [only], told | {"time_us": math.nan}))
    return found


def _kernel_row(one: Told, mine: Sequence[LayerKernel], told: Values) -> Row:
    first, name = mine[0], str(mine[0].launch.kernel)
    return {
        **_head(one),
        "kernel": function(name),
        "full_name": name,
        "class": first.klass,
        "operators": "; ".join(first.names),
        **told,
        **_counts(mine),
    }


def _case_of(run: LayerRun) -> Row:
    case = run.case
    sizes = {"model": case.model, "phase": case.phase, "batch": case.batch, "N": case.N}
    return sizes | {"variant": run.variant}


def _head(one: Told) -> Row:
    return {x: n for x, n in _case_of(one.run).items() if x not in ("batch", "N")}


# Columns of counters that come after the model's bytes, and at which boundary these are.
_MODELED = {"dram_load_bytes": L2_DRAM, "sm_l2_load_bytes": SM_L2}


def _counts(mine: Sequence[LayerKernel]) -> Row:
    """What was counted, flop first; NaN unless it was of every kernel."""
    seen = [k.counted for k in mine if k.launch.kind == "kernel"]
    known = [x for x in seen if x is not None]
    whole = bool(known) and len(known) == len(seen)
    found: Row = {}
    for name in sorted(COLUMNS, key=lambda name: not name.endswith("flop")):
        value = total(known, name) if whole else None
        column = name if name.endswith("flop") else f"{name}_bytes"
        found[column] = math.nan if value is None else value
    return found


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)
