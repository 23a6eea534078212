"""Counts any Triton kernel from its own IR, without a GPU: TTIR, or in Gluon TTGIR.

``iosim kernel`` and `trace` (a kernel's own launch in Python) call it.  `source` finds the function
in a file, `launch` has its arguments, `compiler` and `ir` give the IR, `slicing`, `semantics` and
`evaluate` find all references, and `words`, `reuse`, `flop`, `footprint` and `findings` add them up
into the value of `count`, which `show` prints.  `roles` and `distance` compare with lower bounds
and schedules, `stream` replays caches.  An operation of the IR goes to `semantics`, or, if it
refers to memory, to `evaluate` and `slicing`.

Changing files here: a count is exact, or the kernel is refused with its line and the reason.
``tests/kernel`` compares each kernel of its corpus with Triton's interpreter word by word, emitted
schedules with their programs, and sectors with recorded counters of an H200.  Messages are compared
in ``tests/kernel/test_refused.py``; keys of ``--json`` stay.  Import Triton only inside functions.
"""

from __future__ import annotations

from iosim.kernel.count import KernelCount, count_kernel
from iosim.kernel.evaluate import UnsupportedKernel
from iosim.kernel.formula import KernelFormula, derive_formula
from iosim.kernel.launch import KernelCall, describe_launch
from iosim.kernel.source import KernelSource, load_kernel
from iosim.kernel.tracer import trace

__all__ = [
    "KernelCall",
    "KernelCount",
    "KernelFormula",
    "KernelSource",
    "UnsupportedKernel",
    "count_kernel",
    "derive_formula",
    "describe_launch",
    "load_kernel",
    "trace",
]
