"""What a kernel for Hopper takes in place of pointers: descriptors of boxes in tensors."""

from __future__ import annotations

import importlib.util
from typing import Any

from iosim.base.rows import Values
from iosim.core.program.walk import Instance
from iosim.gpu.emitter import layout
from iosim.gpu.emitter.kernel import Kernel
from iosim.gpu.errors import GpuError

SWIZZLE = 128  # bytes of a row that lie side by side in shared memory, at most


def descriptors(kernel: Kernel, instance: Instance, memory: Values) -> list[Any]:
    """The arguments of a kernel before ``words_ptr``, from flat tensors by name.

    Raises GpuError where Triton has no Gluon for Hopper.
    """
    if importlib.util.find_spec("triton.experimental.gluon.nvidia.hopper") is None:
        raise GpuError(
            "this Triton has no Gluon for Hopper: install triton 3.6 or later, or take the plain "
            "target"
        )
    from triton.experimental.gluon.language import NVMMASharedLayout
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    found = []
    for box in kernel.boxes:
        tensor = instance.program.tensor(box.tensor)
        inner = NVMMASharedLayout(min(SWIZZLE, 2 * box.sides[-1]), 16, len(box.sides))
        shape, strides = layout.shape(tensor, instance), layout.strides(tensor, instance)
        base = memory[box.tensor]
        found.append(TensorDescriptor(base, list(shape), list(strides), list(box.sides), inner))
    return found
