"""Count a kernel: words by argument, distinct words, FLOP, footprint, and what a GPU gives it.

``iosim kernel count`` and users call `count_kernel`; `configs`, `sweep`, `tracer` and the lab, too.
A new number is a field of `KernelCount`, and a row in `iosim.kernel.show`; its ``--json`` keys
stay.  ``tests/kernel/test_corpus.py`` compares counts with Triton's interpreter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from iosim.base.display import Tabled
from iosim.base.errors import InputError
from iosim.kernel.boxes import COPIES, BoxCounter
from iosim.kernel.compiler import (
    DEFAULT_CAPABILITY,
    CompiledResources,
    compile_resources,
    lower_kernel,
)
from iosim.kernel.evaluate import Reference, UnsupportedKernel, evaluate
from iosim.kernel.findings import (
    RepeatedRead,
    WrappedRead,
    find_repeated_reads,
    find_wrapped_reads,
)
from iosim.kernel.flop import FloatOperations
from iosim.kernel.footprint import Footprint, find_footprint
from iosim.kernel.ir import IrFunction, parse_module
from iosim.kernel.launch import KernelCall
from iosim.kernel.reuse import SECTOR, ReuseCounter, WordReuse
from iosim.kernel.sectors import Traffic, WarpTraffic, add_traffic, count_warp_traffic
from iosim.kernel.words import ArgumentTraffic, WordCounter


@dataclass(frozen=True)
class KernelCount(Tabled):
    """What a launch of a kernel moves and computes, by its IR.

    Attributes:
        kernel: its name.
        grid: programs along each axis.
        traffic: (kind, argument) → words; kinds are ``load``, ``store`` and ``atomic``.
        reuse: (kind, argument) → distinct words, and how often each is referred to.
        work: floating-point operations.
        footprint: tiles of one program that are live at once.
        resources: of a named GPU, or None.
        remarks: what was assumed.
        repeated: what one program reads more often than once.
        wrapped: what one program reads beyond an edge, where a remainder wraps its tile.
        ir: which IR was read: TTIR, or of a Gluon kernel TTGIR.
        crossing: (kind, argument) → bytes over SM↔L2, by the PTX for a named GPU; else empty.

    >>> from iosim.kernel import count_kernel, describe_launch, load_kernel
    >>> softmax = load_kernel("docs/examples/softmax.py::softmax")
    >>> call = describe_launch(softmax, "100", {"columns": 1000}, {}, {"BLOCK": 256})
    >>> count = count_kernel(call)
    >>> count.words("load"), count.words("store"), count.programs
    ({'x': 200000}, {'y': 100000}, 100)
    >>> count.reuse["load", "x"].times
    {2: 100000}
    """

    kernel: str
    grid: tuple[int, int, int]
    traffic: dict[tuple[str, str], ArgumentTraffic]
    reuse: dict[tuple[str, str], WordReuse]
    work: FloatOperations
    footprint: Footprint
    resources: CompiledResources | None = None
    remarks: list[str] = field(default_factory=list)
    repeated: list[RepeatedRead] = field(default_factory=list)
    wrapped: list[WrappedRead] = field(default_factory=list)
    ir: str = "TTIR"
    crossing: Traffic = field(default_factory=dict)

    html_by = "iosim.kernel.show:to_html"
    table_by = "iosim.kernel.show:to_table"

    def __repr__(self) -> str:
        words = sum(t.words for t in self.traffic.values())
        return f"<KernelCount {self.kernel}: {self.programs:,} programs move {words:,} words>"

    @property
    def programs(self) -> int:
        """Programs of the launch."""
        x, y, z = self.grid
        return x * y * z

    def words(self, kind: str) -> dict[str, int]:
        """Argument → words that references of a kind move."""
        return {name: t.words for (k, name), t in self.traffic.items() if k == kind}

    def least_crossing(self, kind: str, argument: str) -> int:
        """The least bytes over SM↔L2, however programs share L1: each word at least once."""
        key = kind, argument
        distinct = self.reuse[key].distinct * self.traffic[key].width if key in self.reuse else 0
        return self.crossing[key].least(kind, distinct)

    @property
    def total_bytes(self) -> int:
        """Bytes that all references ask for; an atomic operation's are read and written."""
        return sum(
            t.words * t.width * (2 if kind == "atomic" else 1)
            for (kind, _), t in self.traffic.items()
        )

    @property
    def intensity(self) -> float | None:
        """Floating-point operations for each byte."""
        return (
            (self.work.products + self.work.rest) / self.total_bytes if self.total_bytes else None
        )

    def to_dict(self) -> dict[str, Any]:
        """For scripts: ``load``, ``store`` and ``atomic`` map arguments to words."""
        kinds = ("load", "store", "atomic")
        out: dict[str, Any] = {
            "kernel": self.kernel,
            "grid": list(self.grid),
            "programs": self.programs,
            **{kind: self.words(kind) for kind in kinds},
            "hidden": {
                kind: {n: t.hidden for (k, n), t in self.traffic.items() if k == kind}
                for kind in kinds
            },
            "word_bytes": {name: t.width for (_, name), t in self.traffic.items()},
            "distinct": {
                kind: {n: r.distinct for (k, n), r in self.reuse.items() if k == kind}
                for kind in kinds
            },
            "times": {
                kind: {n: r.times for (k, n), r in self.reuse.items() if k == kind}
                for kind in kinds
            },
            "sector_bytes": {
                kind: {n: r.sectors * SECTOR for (k, n), r in self.reuse.items() if k == kind}
                for kind in kinds
            },
            "flop": {"products": self.work.products, "rest": self.work.rest},
            "bytes": self.total_bytes,
            "flop_per_byte": self.intensity,
            "footprint": {"words": self.footprint.words, "bytes": self.footprint.bytes},
            "repeated": [{**vars(one), "says": str(one)} for one in self.repeated],
            "wrapped": [{**vars(one), "says": str(one)} for one in self.wrapped],
            "remarks": self.remarks,
        }
        if self.crossing:
            out["sm_l2"] = {
                what: {
                    kind: {n: getattr(t, name) for (k, n), t in self.crossing.items() if k == kind}
                    for kind in (*kinds, "descriptor")
                }
                for what, name in (("bytes", "crossing"), ("asked", "asked"), ("past_l1", "past"))
            }
            out["sm_l2"]["least"] = {
                kind: {n: self.least_crossing(k, n) for k, n in self.crossing if k == kind}
                for kind in kinds
            }
        if self.resources is not None:
            out["gpu"] = {
                "capability": self.resources.capability,
                "shared_bytes": self.resources.shared,
                "registers": self.resources.registers,
                "spill_bytes": self.resources.spills,
                "warps": self.resources.warps,
            }
        return out


def count_kernel(
    launch: KernelCall, capability: int | None = None, reuse: bool = True
) -> KernelCount:
    """Count a launch.

    Args:
        launch: the kernel with its grid and arguments.
        capability: of the GPU to compile for; by default nothing is compiled to machine code.
        reuse: whether to count distinct words, too.

    Raises:
        InputError: Triton refuses the kernel.
        UnsupportedKernel: an address, a mask or a bound depends on what isn't known.

    >>> from iosim.kernel import describe_launch, load_kernel
    >>> softmax = load_kernel("docs/examples/softmax.py::softmax")
    >>> count_kernel(describe_launch(softmax, "8", {"columns": 64}, {}, {"BLOCK": 64})).total_bytes
    6144
    """
    functions = lower_call(launch, capability)
    words, again, boxes = WordCounter(), ReuseCounter(), BoxCounter()

    def observe(references: list[Reference]) -> None:
        counted, collected = WordCounter(), ReuseCounter()
        for reference in references:
            counted(reference)
            if reuse:
                collected(reference)
        if capability is not None:
            boxes(references)
        words.merge(counted)
        again.merge(collected)

    work = evaluate(functions, launch.to_evaluate(), observe)
    kernel = next(f for f in functions.values() if f.public)
    resources, crossing = None, {}
    if capability is not None:
        resources, texts = compile_resources(*compiler_arguments(launch), capability)
        if reuse and "ptx" in texts:
            crossing = count_crossing(texts["ptx"], launch, boxes)
    return KernelCount(
        launch.source.name,
        launch.grid,
        words.traffic,
        again.count(),
        work,
        find_footprint(kernel),
        resources,
        launch.remarks,
        find_repeated_reads(functions, launch.to_evaluate()) if reuse else [],
        find_wrapped_reads(functions, launch.to_evaluate()) if reuse else [],
        launch.source.ir,
        crossing,
    )


def count_crossing(ptx: str, launch: KernelCall, boxes: BoxCounter) -> Traffic:
    """Kind and argument → bytes over SM↔L2; empty, with a remark, where the PTX doesn't say them.

    Args:
        ptx: of the compiled kernel.
        launch: of the kernel; takes the remark.
        boxes: what has observed its references.
    """
    try:
        found = count_warp_traffic(ptx, launch.to_evaluate())
    except UnsupportedKernel as error:
        launch.remarks.append(f"what crosses SM↔L2 isn't known: {error}")
        return {}
    for key, moved in boxes.traffic.items() if COPIES in ptx else ():
        add_traffic(found.setdefault(key, WarpTraffic()), moved)
    return found


def compiler_arguments(
    launch: KernelCall,
) -> tuple[Any, dict[str, str], dict[str, Any], dict[str, int], dict[str, Any]]:
    """What `iosim.kernel.compiler` takes of a launch."""
    return (
        launch.source.function,
        launch.types,
        launch.constants,
        launch.divisible,
        launch.options,
    )


def lower_call(launch: KernelCall, capability: int | None = None) -> dict[str, IrFunction]:
    """The functions of a launch's TTIR, for an H100 where no GPU is given.

    Raises:
        InputError: Triton refuses the kernel.
    """
    try:
        return parse_module(_lower(launch, capability or DEFAULT_CAPABILITY))
    except InputError as error:
        name = re.search(r"(\w+) is not defined", str(error))
        why = launch.source.failures.get(name[1]) if name else None
        if why is None:
            raise
        raise InputError(f"{error}, since {why}") from None


def _lower(launch: KernelCall, capability: int) -> str:
    """The TTIR; numbers without a value are floating-point numbers, or else integers."""
    try:
        return lower_kernel(*compiler_arguments(launch), capability)
    except InputError:
        if not launch.assumed:
            raise
        before = dict(launch.types)
        launch.types.update(dict.fromkeys(launch.assumed, "i32"))
        try:
            return lower_kernel(*compiler_arguments(launch), capability)
        except InputError:
            launch.types = before
        raise
