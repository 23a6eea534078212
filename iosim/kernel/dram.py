"""What DRAM has to deliver for a kernel, before a run: its references behind the L2 of a machine.

As in `iosim.gpu.dram_prediction`, resident programs run in lockstep, wave after wave in the order
of their numbers, and half of L2 holds the data that programs share.  It evicts by LRU, is empty at
first, and writes back what is dirty at the end.

If programs drift apart, they read at least every sector that is read and never stored, once, and at
most all that each program loads.  A drift from a seed is replayed twice, through all of L2 and
through half of it.  If half of L2 holds all that a launch touches, drift reads nothing more.

`iosim.kernel.configs` calls it.  ``tests/kernel/test_dram.py`` compares with loops and a dictionary
of sectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iosim.base.errors import InputError
from iosim.cache import CacheFamily, count_words
from iosim.cache.shared import drifting, interleaved
from iosim.gpu.l2 import L2_SHARE
from iosim.kernel import stream
from iosim.kernel.evaluate import CallValues, Reference, evaluate
from iosim.kernel.ir import IrFunction
from iosim.kernel.reuse import SECTOR, ReuseCounter


@dataclass(frozen=True)
class DramForecast:
    """Bytes at L2↔DRAM, in lockstep, and the range of reads if programs drift.

    Attributes:
        reads: that DRAM delivers.
        writes: that it takes, including those that are in L2 at the end.
        least, most: reads if programs drift.
        resident: programs that run at once.
        line: bytes of a line that was replayed: tiles touch such lines whole, or they are sectors.
    """

    reads: int
    writes: int
    least: int
    most: int
    resident: int
    line: int

    @property
    def bytes(self) -> int:
        """Both ways together."""
        return self.reads + self.writes


def forecast_dram(
    functions: Mapping[str, IrFunction],
    call: CallValues,
    resident: int,
    l2_bytes: int,
    drift: int | None = None,
    seed: int = 0,
) -> DramForecast:
    """Forecast the traffic between L2 and DRAM.

    Args:
        functions: of the module, as `iosim.kernel.ir.parse_module` gives them.
        call: the grid and the arguments.
        resident: programs that run at once on all SMs.
        l2_bytes: that L2 has.
        drift: per mille by which programs differ in speed, 0 to 1000; None: it isn't known.
        seed: of the drift.

    Raises:
        InputError: more lines than `iosim.kernel.stream.MOST_ACCESSES`.
        UnsupportedKernel: as `iosim.kernel.evaluate.evaluate`.
    """
    counter = ReuseCounter()

    def observe(references: list[Reference]) -> None:
        for reference in references:
            counter(reference)

    evaluate(functions, call, observe)
    # Where tiles touch lines whole, all of their sectors are as recent, and stay or leave together.
    line = counter.find_line(stream.ALIGN)
    accesses = sum(map(counter.count_sectors, counter.bases)) * SECTOR // line
    if accesses > stream.MOST_ACCESSES:
        raise InputError(
            f"{accesses:,} lines of {line} bytes are more than {stream.MOST_ACCESSES:,}"
        )
    whole, lines = (max(1, int(l2_bytes * share) // line) for share in (1, L2_SHARE))
    replayed = stream.to_stream(functions, call, resident, line)
    found = count_words(replayed, CacheFamily(capacities=[lines]))
    writes = sum(x[0] for x in (found.write_backs, found.flush) if x)
    reads = found.loads[0] * line
    loads = (counter.count_sectors(key) for key in counter.bases if key[0] != "store")
    least, most = counter.count_unstored_sectors() * SECTOR, sum(loads) * SECTOR
    touched = counter.count_together(list(counter.bases), SECTOR).distinct * SECTOR
    if touched <= l2_bytes * L2_SHARE:
        least = most = reads
    elif drift is not None:
        items = stream.to_streams(functions, call, resident, line)
        drifted = interleaved(items, drifting(resident, drift, seed)).stream
        half, all_ = count_words(drifted, CacheFamily(capacities=[lines, whole])).loads
        least, most = all_ * line, half * line
    low, high = min(least, reads), max(most, reads)
    return DramForecast(reads, writes * line, low, high, resident, line)
