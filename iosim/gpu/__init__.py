"""The GPU backend: a program as Triton kernels, which run, and are counted by the hardware, too.

`emit` turns a bound program into text and needs neither Triton nor PyTorch; `interpret` runs the
text on a CPU with Triton alone; a GPU needs PyTorch as well, and counters need Nsight Compute.
``iosim gpu``, ``iosim profile``, ``iosim l2`` and the lab's hardware view call this wing.
`emitter` and `targets` make text, `run` runs it, `records` keeps what was measured, `reports`
judges it; `l2`, `launch_trace`, `sweeps` and `dram_prediction` predict what DRAM delivers.  A
report is one file in `iosim.gpu.reports`, a target one in `iosim.gpu.targets`.

Changing files here: records of runs on real GPUs (``experiments/data/gpu``) can't be made again
without the GPU, and ``tests/gpu/test_gpu_records.py`` replays them: a change in emitted text,
counts or predictions must still meet every threshold there.  Import torch and triton only inside
functions, except in `layers.modules`, which only the worker imports.  Emitted text is compared with
``tests/golden/gpu``.

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
