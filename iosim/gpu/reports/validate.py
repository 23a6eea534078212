"""Three numbers for every program: the model's bytes, the kernel's own, and the hardware's.

The bar is zero unexplained bytes between the SM and L2, reads and writes.  What may be explained
is a last sector that a ragged row fills only partly (`sector_bytes`); it has a column of its
own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from iosim.counting.numbers import count, peak
from iosim.counts import Counts, Direction, Key
from iosim.gpu.emitter import layout
from iosim.gpu.errors import GpuError
from iosim.gpu.records import counters as ncu
from iosim.gpu.records.record import Record
from iosim.gpu.run.job import Job
from iosim.problem import word_bytes

# The largest error that rounding may leave, relative to the largest output.
TOLERANCE = {"fp16": 6e-3, "bf16": 5e-2, "fp32": 2e-5}


@dataclass(frozen=True)
class Row:
    """One configuration.  Bytes unless a name says otherwise; −1 where nothing was read."""

    algorithm: str
    sizes: str
    dtype: str
    M_words: int
    tiles: str
    model_load: int
    kernel_load: int
    sram_load: int
    difference_load: int
    explained_load: int
    model_store: int
    kernel_store: int
    sram_store: int
    difference_store: int
    explained_store: int
    l2_load: int
    dram_load: int
    dram_store: int
    error: float
    time_s: float
    model_gb_per_s: float
    peak_bytes: int
    shared_bytes: int
    register_bytes: int
    spills: int
    failed: str = ""

    @property
    def unexplained(self) -> int:
        """Bytes at the SM↔L2 boundary that neither the model nor its sectors account for."""
        load = self.difference_load - self.explained_load
        store = self.difference_store - self.explained_store
        return abs(load) + abs(store)

    @property
    def good(self) -> bool:
        """Right output, in-kernel counts equal to the model's, no unexplained byte."""
        counted = (self.model_load, self.model_store) == (self.kernel_load, self.kernel_store)
        hardware = self.sram_load < 0 or self.unexplained == 0
        return not self.failed and counted and hardware and self.error <= TOLERANCE[self.dtype]


def rows(record: Record) -> list[Row]:
    """The table of a record; the first job is the gate, which must be exact.

    Raises GpuError if the counters get the copy of known size wrong.
    """
    found = [
        _row(job, row, launches)
        for job, row, launches in zip(record.jobs, record.rows, record.launches, strict=True)
    ]
    gate = found[0]
    if gate.sram_load >= 0 and gate.difference_load | gate.difference_store:
        raise GpuError(
            f"the counters cannot be believed: a copy of {gate.model_load} bytes showed "
            f"{gate.sram_load} read and {gate.sram_store} written; is another program running?"
        )
    return found


def _row(job: Job, row: dict[str, Any], launches: tuple[ncu.Launch, ...]) -> Row:
    instance = job.instance
    words = count(instance)
    model = _ways(layout.model_bytes(words, instance, job.dtype))
    sectors = _ways(layout.sector_bytes(instance, job.dtype))
    if job.clock:  # two readings per item, each in a sector of its own
        sectors["store"] += sum(2 * k.items * layout.SECTOR for k in job.emitted().kernels)
    kernel: dict[Direction, int] = {"load": -1, "store": -1}
    if "words" in row:
        own = Counts.of({_key(name): n for name, n in row["words"].items()})
        # Equal totals could hide a swap, so tensors are compared one by one.
        if own == words:
            kernel = model
        else:
            kernel = _ways(layout.model_bytes(own, instance, job.dtype))
    hard = {level: ncu.total(launches, level)["load", "*"] for level in ncu.LEVELS}
    hard_store = {level: ncu.total(launches, level)["store", "*"] for level in ncu.LEVELS}
    if not launches:
        hard = hard_store = dict.fromkeys(ncu.LEVELS, -1)
    kernels = row.get("kernels", [])
    time_s = row.get("time_s", float("nan"))
    moved = model["load"] + model["store"]
    return Row(
        algorithm=job.algorithm,
        sizes=_text(job.sizes),
        dtype=job.dtype,
        M_words=job.M,
        tiles=_text(job.tiles),
        model_load=model["load"],
        kernel_load=kernel["load"],
        sram_load=hard["sram"],
        difference_load=hard["sram"] - model["load"] if launches else 0,
        explained_load=sectors["load"] - model["load"] if launches else 0,
        model_store=model["store"],
        kernel_store=kernel["store"],
        sram_store=hard_store["sram"],
        difference_store=hard_store["sram"] - model["store"] if launches else 0,
        explained_store=sectors["store"] - model["store"] if launches else 0,
        l2_load=hard["l2"],
        dram_load=hard["dram"],
        dram_store=hard_store["dram"],
        error=row.get("error", float("nan")),
        time_s=time_s,
        model_gb_per_s=round(moved / time_s / 1e9, 1),
        peak_bytes=peak(instance) * word_bytes(job.dtype),
        shared_bytes=max((k["shared_bytes"] for k in kernels), default=0),
        register_bytes=max((k["registers"] * k["warps"] * 128 for k in kernels), default=0),
        spills=sum(k["spills"] for k in kernels),
        failed=row.get("failed", ""),
    )


def _ways(table: Mapping[Key, int]) -> dict[Direction, int]:
    ways: tuple[Direction, Direction] = ("load", "store")
    return {way: sum(n for (w, _), n in table.items() if w == way) for way in ways}


def _key(name: str) -> Key:
    way, tensor = name.split()
    return ("load" if way == "load" else "store", tensor)


def _text(numbers: Mapping[str, int]) -> str:
    return " ".join(f"{name}={n}" for name, n in sorted(numbers.items()))


def summary(found: list[Row]) -> str:
    """One line: how many configurations, how many bytes, what is wrong."""
    ran = [row for row in found if not row.failed]
    counted = [row for row in ran if row.sram_load >= 0]
    bad = [row for row in found if not row.good]
    moved = sum(row.model_load + row.model_store for row in counted)
    ragged = sum(1 for row in counted if row.explained_load or row.explained_store)
    text = (
        f"{len(found)} configurations, {len(counted)} with hardware counters, "
        f"{moved / 1e9:.1f} GB between SM and L2; unexplained bytes: "
        f"{sum(row.unexplained for row in counted)}; {ragged} with partly filled sectors, "
        f"explained to the byte"
    )
    return text + (f"; NOT GOOD: {len(bad)}" if bad else "; all good")
