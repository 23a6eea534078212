"""What DRAM has to deliver for a kernel, before a run: its references behind the L2 of a machine.

As in `iosim.gpu.dram_prediction`: programs that are resident run in lockstep, wave after wave in
the order of their numbers, and what L2 holds of data that programs share is half of its bytes.
What is least recently used leaves; L2 is empty at first, and what is written leaves it in the end.

`iosim.kernel.configs` calls it.  ``tests/kernel/test_dram.py`` compares with loops and a dictionary
of sectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iosim.base.errors import InputError
from iosim.cache import CacheFamily, count_words
from iosim.gpu.l2 import L2_SHARE
from iosim.kernel import stream
from iosim.kernel.evaluate import CallValues, Reference, evaluate
from iosim.kernel.ir import IrFunction
from iosim.kernel.reuse import SECTOR, ReuseCounter


@dataclass(frozen=True)
class DramForecast:
    """Bytes at L2↔DRAM, in lockstep.

    Attributes:
        reads: that DRAM delivers.
        writes: that it takes, those that are in L2 at the end with them.
        resident: programs at once.
        line: bytes of a line that was replayed: tiles touch such lines whole, or they are sectors.
    """

    reads: int
    writes: int
    resident: int
    line: int

    @property
    def bytes(self) -> int:
        """Both ways together."""
        return self.reads + self.writes


def forecast_dram(
    functions: Mapping[str, IrFunction], call: CallValues, resident: int, l2_bytes: int
) -> DramForecast:
    """Forecast the traffic between L2 and DRAM.

    Args:
        functions: of the module, as `iosim.kernel.ir.parse_module` gives them.
        call: the grid and the arguments.
        resident: programs that run at once on all SMs.
        l2_bytes: that L2 has.

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
    lines = max(1, int(l2_bytes * L2_SHARE) // line)
    replayed = stream.to_stream(functions, call, resident, line)
    found = count_words(replayed, CacheFamily(capacities=[lines]))
    writes = sum(x[0] for x in (found.write_backs, found.flush) if x)
    return DramForecast(found.loads[0] * line, writes * line, resident, line)
