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

from iosim.gpu.emitter.kernels import EmitError, Emitted, InStep, Kernel, emit
from iosim.gpu.errors import GpuError
from iosim.gpu.run.interpreter import interpret

__all__ = ["EmitError", "Emitted", "GpuError", "InStep", "Kernel", "emit", "interpret"]
