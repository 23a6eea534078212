"""Quantities of a kernel, and the counters that each comes from.

``quantities.toml`` has all of them.  `QUANTITIES` are read from counters; `RATIOS` are made of two
of them.  A quantity has one or more
`forms`, each a sum of counters with factors: the first whose counters are all in the report is
taken.  If none is, the quantity is absent, and the counters of its first form would be needed.

That a counter is exact, or what it misses, is said in docs/gpu.md.  A sector is 32 bytes; the data
pipe of L1 and shared memory moves up to 32 banks of 4 bytes in a wavefront (CUDA C++ Programming
Guide, Shared Memory).

`kernels`, `verdict`, `running`, `saving`, `show` and `iosim.kernel.counters` read it.
``tests/gpu/test_profile.py`` computes every share again.

>>> QUANTITIES["local_read"].needs
('l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum',)
>>> QUANTITIES["local_read"].of({"l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": 10.0})
320.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from iosim.base.reading import read_toml

WAVEFRONT = 128  # bytes: 32 banks × 4
# How the launches of one kernel are put together: added, or averaged by their time.
Fold = Literal["sum", "mean"]
Form = Mapping[str, float]


@dataclass(frozen=True)
class Quantity:
    """A number of a kernel.

    Attributes:
        name: the registry's key, and the key in JSON.
        unit: byte, ns, flop, %, or what is counted.
        says: what it is, for a table.
        forms: counter → factor; the first form whose counters are there is summed.
        fold: over launches.
    """

    name: str
    unit: str
    says: str
    forms: Sequence[Form]
    fold: Fold = "sum"

    @property
    def needs(self) -> tuple[str, ...]:
        """The counters that it is best read from."""
        return tuple(self.forms[0])

    def form(self, metrics: Mapping[str, float]) -> Form | None:
        """The form that a report has; None where it has none."""
        for form in self.forms:
            if all(map(metrics.__contains__, form)):
                return form
        return None

    def of(self, metrics: Mapping[str, float]) -> float | None:
        """Its value in one launch; None where the report has none of its forms."""
        form = self.form(metrics)
        if form is None:
            return None
        if len(form) == 1:
            ((counter, factor),) = form.items()
            return metrics[counter] * factor
        return sum(metrics[x] * n for x, n in form.items())


@dataclass(frozen=True)
class Ratio:
    """One quantity over another.

    Attributes:
        name, unit, says: as of a `Quantity`.
        top, bottom: names of quantities.
        factor: of the ratio.
    """

    name: str
    unit: str
    says: str
    top: str
    bottom: str
    factor: float


_TABLES = read_toml(Path(__file__).with_name("quantities.toml"))
QUANTITIES = {name: Quantity(name, **known) for name, known in _TABLES["quantities"].items()}
RATIOS = {name: Ratio(name, **known) for name, known in _TABLES["ratios"].items()}
# What a kernel's table shows, in the order of the method; what is 0 of these is left out.
SHOWN: list[str] = _TABLES["shown"]
# What a warp waits for.
STALLS = {
    name.removeprefix("stall_"): one.says
    for name, one in QUANTITIES.items()
    if name.startswith("stall_")
}
# By what a path of SM↔L2 is known; what is left goes through the load-store units.
READ_PATHS, WRITE_PATHS = ("bulk_read", "atom_read"), ("bulk_write", "reduced", "bulk_reduced")
TENSOR = ("tensor_fp16", "tensor_bf16", "tensor_tf32", "tensor_fp8", "tensor_fp64")
VECTOR = ("vector_fp32", "vector_fp16", "vector_fp64")
# Reading these patches the kernel's instructions: a pass or more of its own.
PATCHED = "sass"
