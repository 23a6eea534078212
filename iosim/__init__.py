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

import sys

TYPE_CHECKING = False  # not imported: typing takes longer to import than the rest of this file
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import Any

    from iosim.base.errors import (
        CapacityError,
        InputError,
        IosimError,
        LeakError,
        ProgramError,
        ResidencyError,
    )
    from iosim.base.revision import __version__ as __version__
    from iosim.core.algorithms import ALGORITHMS, algorithm, all_algorithms
    from iosim.core.algorithms._entry import Algorithm
    from iosim.core.counting.numbers import count, count_many, peak, peak_many
    from iosim.core.counting.show import show
    from iosim.core.counts import Counts
    from iosim.core.machine import Machine, Run, simulate
    from iosim.core.problem import Attention, AttentionBackward, Copy, MatMul, max_error
    from iosim.core.program.build import Builder, build
    from iosim.core.program.ir import Program
    from iosim.core.program.walk import Instance, bind
    from iosim.core.tiling import Tiling, optimal_tiles, optimal_tiles_many, smallest_capacity
    from iosim.core.trace import transfers
    from iosim.lab.widget import watch

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
    "iosim.base.revision": "__version__",
    "iosim.core.algorithms": "ALGORITHMS algorithm all_algorithms",
    "iosim.core.algorithms._entry": "Algorithm",
    "iosim.core.counting.numbers": "count count_many peak peak_many",
    "iosim.core.counting.show": "show",
    "iosim.core.counts": "Counts",
    "iosim.base.errors": "CapacityError InputError IosimError LeakError ProgramError "
    "ResidencyError",
    "iosim.lab.widget": "watch",
    "iosim.core.machine": "Machine Run simulate",
    "iosim.core.problem": "Attention AttentionBackward Copy MatMul max_error",
    "iosim.core.program.build": "Builder build",
    "iosim.core.program.ir": "Program",
    "iosim.core.program.walk": "Instance bind",
    "iosim.core.tiling": "Tiling optimal_tiles optimal_tiles_many smallest_capacity",
    "iosim.core.trace": "transfers",
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


# The wings of what was directly under iosim in version 0.1.0.
_MOVED = {
    old: wing
    for wing, names in {
        "base": "display errors progress reading registry renamed revision writing",
        "core": "algorithms counting counts engines machine problem program tiling trace units",
        "models": "fusion hardware layers operators roofline",
        "report": "checks output",
    }.items()
    for old in names.split()
}


class _MovedModules:
    """Imports what is requested by an old place from its new one, and warns."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        top, _, place = name.partition(".")
        if top != "iosim" or place.partition(".")[0] not in _MOVED:
            return None
        from iosim.base.moved import find_moved

        return find_moved(place, _MOVED)


sys.meta_path.insert(0, _MovedModules)  # before a file is looked for in a package by its old place
