"""Any Triton kernel, counted from its own IR without a GPU."""

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
