"""iosim: the I/O of attention, written once, run, counted, bounded, proved, measured.

The names below are the public surface.  Importing the package imports nothing else: each name
loads its module when it is first used, and sympy, matplotlib, torch and triton load when something
that needs them is called.

>>> import iosim
>>> problem = iosim.Attention(N=1024, d=64)
>>> flash2 = iosim.algorithm("flash2")
>>> best = iosim.optimal_tiles(flash2.program, problem, M=24_576)
>>> instance = iosim.bind(flash2.program, problem.sizes, best.tiles)
>>> iosim.count(instance).total_words
917504
>>> sorted(iosim.ALGORITHMS)[:4]
['block_sparse', 'copy', 'decode', 'flash1']
"""

from __future__ import annotations

TYPE_CHECKING = False  # not imported: typing takes longer to import than the rest of this file
if TYPE_CHECKING:
    from typing import Any

    from iosim.algorithms import ALGORITHMS, algorithm, all_algorithms
    from iosim.algorithms._entry import Algorithm
    from iosim.counting.numbers import count, count_many, peak, peak_many
    from iosim.counting.show import show
    from iosim.counts import Counts
    from iosim.errors import (
        CapacityError,
        InputError,
        IosimError,
        LeakError,
        ProgramError,
        ResidencyError,
    )
    from iosim.lab.widget import watch
    from iosim.machine import Machine, Run, simulate
    from iosim.problem import Attention, AttentionBackward, Copy, MatMul, max_error
    from iosim.program.build import Builder, build
    from iosim.program.ir import Program
    from iosim.program.walk import Instance, bind
    from iosim.tiling import Tiling, optimal_tiles, optimal_tiles_many, smallest_capacity
    from iosim.trace import transfers

__version__ = "0.1.0"

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Attention",
    "AttentionBackward",
    "Builder",
    "CapacityError",
    "Copy",
    "Counts",
    "InputError",
    "Instance",
    "IosimError",
    "LeakError",
    "Machine",
    "MatMul",
    "Program",
    "ProgramError",
    "ResidencyError",
    "Run",
    "Tiling",
    "algorithm",
    "all_algorithms",
    "bind",
    "build",
    "count",
    "count_many",
    "max_error",
    "optimal_tiles",
    "optimal_tiles_many",
    "peak",
    "peak_many",
    "show",
    "simulate",
    "smallest_capacity",
    "transfers",
    "watch",
]

# Where each name is; tests hold this to the imports above.
_NAMES = {
    "iosim.algorithms": "ALGORITHMS algorithm all_algorithms",
    "iosim.algorithms._entry": "Algorithm",
    "iosim.counting.numbers": "count count_many peak peak_many",
    "iosim.counting.show": "show",
    "iosim.counts": "Counts",
    "iosim.errors": "CapacityError InputError IosimError LeakError ProgramError ResidencyError",
    "iosim.lab.widget": "watch",
    "iosim.machine": "Machine Run simulate",
    "iosim.problem": "Attention AttentionBackward Copy MatMul max_error",
    "iosim.program.build": "Builder build",
    "iosim.program.ir": "Program",
    "iosim.program.walk": "Instance bind",
    "iosim.tiling": "Tiling optimal_tiles optimal_tiles_many smallest_capacity",
    "iosim.trace": "transfers",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
