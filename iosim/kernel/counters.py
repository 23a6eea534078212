"""Hardware counters of a kernel's launches, compared with the sectors that it asks for.

Over SM↔L2, stores and atomic operations send what the kernel's PTX says, or where no PTX says it
the sectors of tiles.  Loads bring at most the sectors of tiles, since L1 keeps some.  DRAM has to
deliver every sector that is read and never stored, once.  `REASONS` has known differences.

``iosim profile --expect`` calls it.  ``tests/kernel/test_profile_counters.py`` compares with
launches of a record; reasons in `REASONS` hold for recorded launches only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from iosim.base.errors import InputError
from iosim.gpu.profiling.kernels import L2_DRAM, SM_L2, ProfiledKernel
from iosim.gpu.profiling.metrics import QUANTITIES
from iosim.kernel.boxes import BoxCounter
from iosim.kernel.compiler import DEFAULT_CAPABILITY, compile_resources
from iosim.kernel.count import compiler_arguments, count_crossing, lower_call
from iosim.kernel.evaluate import Reference, evaluate
from iosim.kernel.launch import KernelCall
from iosim.kernel.reuse import SECTOR, ReuseCounter
from iosim.kernel.sectors import Traffic, sum_traffic

Relation = Literal["equal", "at most", "at least"]


@dataclass(frozen=True)
class ExpectedBytes:
    """Bytes of sectors that a launch moves.

    Attributes:
        kernel: its name.
        grid: programs along each axis.
        written: of stores and atomic operations, by the PTX, or else tile by tile.
        read: of loads and atomic operations, tile by tile.
        distinct: of sectors that are read and that nothing stores, each once.
        atomic: whether there are atomic operations.
        written_between: the least and the most that may be written, as L1 merges stores.
        most_read: what instructions of warps ask for; L1 may keep none of it.
    """

    kernel: str
    grid: tuple[int, int, int]
    written: int
    read: int
    distinct: int
    atomic: bool
    written_between: tuple[int, int]
    most_read: int


@dataclass(frozen=True)
class ComparedBytes:
    """What is expected of one boundary in one direction, and what was counted.

    Attributes:
        boundary: SM↔L2 or L2↔DRAM.
        what: which bytes.
        relation: of what is measured to what is expected.
        expected: bytes of a launch.
        spilled: bytes of spilled registers, which a counter of their own says; expected, too.
        measured: by the counter, of one launch on average; None where the report lacks it.
        says: the difference in words, and what may be the reason.
        least, most: bytes between which L1 decides, as its PTX says; the others of the relation's.
    """

    boundary: str
    what: str
    relation: Relation
    expected: int
    spilled: int
    measured: int | None
    says: str = ""
    least: int | None = None
    most: int | None = None

    @property
    def more(self) -> int:
        """What was measured and is not expected, or where it is negative the other way around."""
        return (self.measured or 0) - self.expected - self.spilled

    @property
    def unexplained(self) -> int | None:
        """Bytes by which the relation fails; None where nothing was measured."""
        if self.measured is None:
            return None
        moved = self.measured - self.spilled
        if self.least is not None and self.most is not None and self.least <= moved <= self.most:
            return 0
        allowed = {"at most": self.more < 0, "at least": self.more > 0}
        return 0 if allowed.get(self.relation) else self.more

    def to_dict(self) -> dict[str, Any]:
        """For scripts."""
        return {**vars(self), "unexplained": self.unexplained}


@dataclass(frozen=True)
class Reason:
    """Why counters may differ from sectors of tiles.

    Attributes:
        what: the row that it is about: stores, loads or reads.
        more: whether there are more bytes for it, or fewer.
        says: it, as a part of a sentence.
        holds: whether it may be so for a launch.
    """

    what: str
    more: bool
    says: str
    holds: Callable[[ExpectedBytes, ProfiledKernel], bool] = lambda expected, kernel: True


STORES, LOADS, READS = "stores and atomics", "loads", "reads"
_EXPECTED = {
    STORES: "the expected bytes",
    LOADS: "the sectors of tiles",
    READS: "the distinct sectors",
}
_ROUNDED = "; the report's values are rounded: save it with --print-units base"
_OTHER = "the launch has other arguments or constants"


def _is_atomic(expected: ExpectedBytes, _: ProfiledKernel) -> bool:
    return expected.atomic


def _lacks(quantity: str) -> Callable[[ExpectedBytes, ProfiledKernel], bool]:
    return lambda _, kernel: kernel.values[quantity] is None


# tests/kernel/test_counters.py names launches on an H200 for those of stores.
REASONS = (
    Reason(STORES, True, "a sector is written by several instructions of one tile"),
    Reason(
        STORES, True, "lanes of an atomic operation have one word, and each is sent", _is_atomic
    ),
    Reason(STORES, True, "registers spill, which wasn't counted", _lacks("local_write")),
    Reason(STORES, True, _OTHER),
    Reason(STORES, False, "L1 merges what two tiles write into a sector"),
    Reason(STORES, False, _OTHER),
    Reason(
        LOADS, True, "lanes of an atomic operation have one word, and each is answered", _is_atomic
    ),
    Reason(
        LOADS,
        True,
        "bulk copies (TMA) count whole boxes, also beyond the tensor",
        lambda _, kernel: bool(kernel.values["bulk_read"]),
    ),
    Reason(LOADS, True, "registers spill, which wasn't counted", _lacks("local_read")),
    Reason(LOADS, True, _OTHER),
    Reason(READS, False, "L2 held some before the launch (ncu --cache-control none)"),
    Reason(READS, False, "two arguments are the same memory"),
    Reason(READS, False, _OTHER),
)


def expect_bytes(call: KernelCall, capability: int | None = None) -> ExpectedBytes:
    """The bytes of sectors that a launch moves.

    Args:
        call: the kernel with its grid and arguments.
        capability: of the GPU whose TTIR is counted; by default an H100's.

    Raises:
        InputError: Triton refuses the kernel.
        UnsupportedKernel: an address, a mask or a bound depends on what isn't known.

    >>> from iosim.kernel import describe_launch, load_kernel
    >>> softmax = load_kernel("docs/examples/softmax.py::softmax")
    >>> found = expect_bytes(describe_launch(softmax, "8", {"columns": 65}, {}, {"BLOCK": 64}))
    >>> found.written, found.read, found.distinct
    (2528, 5056, 2080)
    """
    collected, boxes = ReuseCounter(), BoxCounter()

    def observe(references: list[Reference]) -> None:
        part = ReuseCounter()
        for reference in references:
            part(reference)
        boxes(references)
        collected.merge(part)

    evaluate(lower_call(call, capability), call.to_evaluate(), observe)
    sectors = {key: collected.count_sectors(key) * SECTOR for key in list(collected.bases)}
    written, read = (
        sum(n for (kind, _), n in sectors.items() if kind != other) for other in ("load", "store")
    )
    between, most = (written, written), read
    if found := _compile_crossing(call, capability or DEFAULT_CAPABILITY, boxes):
        sent = sum_traffic(found, "atomic descriptor", "crossing")
        answers = sum_traffic(found, "atomic descriptor", "answered")
        written = sum_traffic(found, "store", "crossing") + sent
        stored = [key for key in sectors if key[0] == "store"]
        least = collected.count_together(stored, SECTOR).distinct * SECTOR if stored else 0
        between = min(least + sent, written), sum_traffic(found, "store", "asked") + sent
        most = max(read, sum_traffic(found, "load", "asked") + answers)
    return ExpectedBytes(
        call.source.name,
        call.grid,
        written,
        read,
        collected.count_unstored_sectors() * SECTOR,
        any(kind == "atomic" for kind, _ in sectors),
        between,
        most,
    )


def _compile_crossing(call: KernelCall, capability: int, boxes: BoxCounter) -> Traffic:
    """What crosses SM↔L2 by the PTX; empty where the kernel doesn't compile to any that says so."""
    try:
        _, texts = compile_resources(*compiler_arguments(call), capability)
    except InputError:
        return {}
    return count_crossing(texts["ptx"], call, boxes) if "ptx" in texts else {}


def compare_bytes(expected: ExpectedBytes, kernel: ProfiledKernel) -> list[ComparedBytes]:
    """What is expected of a launch, and what the counters of launches say, by boundary.

    Args:
        kernel: launches of it with the same grid (`iosim.gpu.profiling.kernels.kernels`).
    """

    def measure(quantity: str) -> int | None:
        total = kernel.values.get(quantity)
        return None if total is None else round(total / kernel.launches)

    rows: tuple[tuple[str, str, Relation, int, str, str], ...] = (
        (SM_L2, STORES, "equal", expected.written, "local_write", "l2_write"),
        (SM_L2, LOADS, "at most", expected.read, "local_read", "l2_read"),
        (L2_DRAM, READS, "at least", expected.distinct, "", "dram_read"),
    )
    bounds = {STORES: expected.written_between, LOADS: (0, expected.most_read)}
    found = []
    for boundary, what, relation, n, spills, quantity in rows:
        row = ComparedBytes(boundary, what, relation, n, measure(spills) or 0, measure(quantity))
        if what in bounds:
            row = replace(row, least=bounds[what][0], most=bounds[what][1])
        says = f"not measured: the report lacks {' and '.join(QUANTITIES[quantity].needs)}"
        if row.measured is not None:
            says = _describe(row, expected, kernel) + _ROUNDED * (quantity in kernel.rounded)
        found.append(replace(row, says=says))
    return found


def _describe(row: ComparedBytes, expected: ExpectedBytes, kernel: ProfiledKernel) -> str:
    """The difference, and what may be the reason."""
    base = row.expected + row.spilled
    n = f"{abs(row.more):,} bytes{f' ({abs(row.more) / base:.1%})' if base else ''}"
    than = _EXPECTED[row.what]
    than += f" and {row.spilled:,} bytes of spilled registers" if row.spilled else ""
    if not row.more:
        return f"exactly {than}"
    n += f" {'more' if row.more > 0 else 'fewer'} than {than}"
    if row.unexplained:
        reasons = [
            one.says
            for one in REASONS
            if (one.what, one.more) == (row.what, row.more > 0) and one.holds(expected, kernel)
        ]
        return f"{n}: unexplained; it may be that {', or '.join(reasons)}"
    if row.what == READS:
        return f"{n}: DRAM delivers the rest of a line, or again what L2 gave up"
    if row.what == STORES:
        between = f"{row.least:,} to {row.most:,} bytes"
        return f"{n}: L1 merges stores that follow each other if it gets them in time: {between}"
    if row.more > 0:
        return f"{n}: warps ask for up to {row.most:,} bytes, and L1 doesn't keep all"
    unanswered = ", or atomic operations have no answer" if expected.atomic else ""
    return f"{n}: L1 kept them{unanswered}"
