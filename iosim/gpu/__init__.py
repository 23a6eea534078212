"""The GPU backend: a program compiled to Triton, run, and counted by itself and by the hardware.

`emit` turns a bound program into text and needs neither Triton nor PyTorch; `interpret` runs the
text on a CPU with Triton alone; a GPU needs PyTorch as well, and counters need Nsight Compute.

>>> import iosim
>>> from iosim.gpu import emit
>>> flash2 = iosim.algorithm("flash2").program
>>> instance = iosim.bind(flash2, {"N": 1024, "d": 64, "heads": 2}, {"B_r": 64, "B_c": 32})
>>> emit(instance).kernels[0].grid
32
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iosim.gpu.emitter.kernels import Emitted, Kernel, Lockstep, emit
    from iosim.gpu.errors import EmitError, GpuError
    from iosim.gpu.run.interpreter import interpret

__all__ = ["EmitError", "Emitted", "GpuError", "Kernel", "Lockstep", "emit", "interpret"]

_HOME = {
    "EmitError": "iosim.gpu.errors",
    "Emitted": "iosim.gpu.emitter.kernels",
    "GpuError": "iosim.gpu.errors",
    "Lockstep": "iosim.gpu.emitter.kernels",
    "Kernel": "iosim.gpu.emitter.kernels",
    "emit": "iosim.gpu.emitter.kernels",
    "interpret": "iosim.gpu.run.interpreter",
}


def __getattr__(name: str) -> Any:
    """Names are imported when they are used: the list of reports needs none of them."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
