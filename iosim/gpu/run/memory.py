"""Tensors in the GPU's memory: padded and typed, NaN where nothing is; on the host or on a GPU.

A run allocates every tensor of the program with padded rows (`iosim.gpu.emitter.layout`), copies
the inputs in, and fills all the rest (scratch, outputs and padding) with NaN, so that a wrong mask
or an unwritten element shows in the output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from iosim.base.errors import InputError
from iosim.base.rows import Row, Values
from iosim.core.problem import Tensor, check_positions
from iosim.core.program.walk import Instance
from iosim.gpu.emitter import layout
from iosim.gpu.emitter.kernels import Kernel

Array = NDArray[Any]

DTYPES = ("fp16", "bf16", "fp32")
# What PyTorch calls each type.
TORCH_NAMES = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
    "int32": "int32",
    "int64": "int64",
}


def check_dtype(dtype: str) -> str:
    """`dtype`, or InputError for one that kernels are not emitted for."""
    if dtype not in DTYPES:
        raise InputError(f"dtype {dtype!r} has no GPU form: choose {', '.join(DTYPES)}")
    return dtype


class Device(Protocol):
    """What a run needs of a place to run: two implementations, NumPy and torch."""

    def copy_to_device(self, flat: NDArray[Any], dtype: str) -> Any:
        """Copy a flat array to the device as `dtype`."""
        ...

    def get(self, buffer: Any, dtype: str) -> Array:
        """Copy a flat buffer back, as float64 (or int64 for ``dtype="int64"``)."""
        ...

    def zeros(self, n: int, dtype: str) -> Any:
        """A flat buffer of zeros; `dtype` is ``int64`` or ``int32``."""
        ...

    def boxes(self, kernel: Kernel, instance: Instance, memory: Values) -> list[Any]:
        """What describes the boxes of a kernel for Hopper."""
        ...

    def launch(self, kernel: Kernel, function: Any, pointers: list[Any], count: bool) -> None:
        """Run one kernel to its end."""
        ...


def dtype_of(tensor: Tensor, dtype: str) -> str:
    """Statistics are fp32 and positions int32, whatever the data is."""
    if tensor.positions:
        return "int32"
    return "fp32" if tensor.wide else dtype


def pack(tensor: Tensor, instance: Instance, data: Array | None) -> NDArray[Any]:
    """Lay a tensor out flat with padded rows; what is not data is NaN, or no position.

    Raises InputError for positions outside their axis.
    """
    shape = layout.shape(tensor, instance)
    if data is not None and np.shape(data) != shape:
        raise InputError(f"{tensor.name} has shape {np.shape(data)}, the problem needs {shape}")
    size = layout.allocation(tensor, instance)
    flat = np.full(size, -1 if tensor.positions else np.nan, np.float32)
    if data is not None:
        if tensor.positions:
            check_positions(tensor, np.asarray(data, float), instance.env[tensor.positions])
            flat = flat.astype(np.int32)
        _window(flat, tensor, instance)[...] = data
    return flat


def unpack(flat: Array, tensor: Tensor, instance: Instance) -> Array:
    """The tensor without its padding."""
    return np.array(_window(flat, tensor, instance), np.float64)


def _window(flat: Array, tensor: Tensor, instance: Instance) -> Array:
    shape = layout.shape(tensor, instance)
    steps = [s * flat.itemsize for s in layout.strides(tensor, instance)]
    return np.lib.stride_tricks.as_strided(flat, shape, steps)


def allocate(instance: Instance, inputs: Mapping[str, Array], dtype: str, device: Device) -> Row:
    """Every tensor of the program on the device, by name."""
    return {
        t.name: device.copy_to_device(pack(t, instance, inputs.get(t.name)), dtype_of(t, dtype))
        for t in instance.program.tensors
    }
