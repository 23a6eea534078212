"""Count a kernel by its own launch: ``iosim.kernel.trace(fn)[grid](*args, **meta)``.

Users call `trace` in place of a launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from iosim.base.errors import InputError
from iosim.kernel.compiler import load_triton, read_capability
from iosim.kernel.count import KernelCount, count_kernel
from iosim.kernel.launch import (
    COMPILER_OPTIONS,
    DTYPES,
    KernelCall,
    _complete_constants,
    check_grid,
    check_names,
    specialize,
)
from iosim.kernel.source import KernelSource, is_kernel, unwrap_kernel


class _Launcher:
    """A kernel that counts where it would run."""

    def __init__(self, source: KernelSource, gpu: str | None) -> None:
        self.source, self.gpu = source, gpu

    def __getitem__(self, grid: Any) -> Callable[..., KernelCount]:
        return lambda *values, **meta: self.launch(grid, values, meta)

    def __call__(self, *_: Any, **__: Any) -> None:
        """Refuse a launch without a grid."""
        raise InputError("the launch has no grid: write iosim.kernel.trace(kernel)[grid](...)")

    def launch(self, grid: Any, values: tuple[Any, ...], meta: Mapping[str, Any]) -> KernelCount:
        """Count a launch with these arguments."""
        call = self.describe(grid, values, meta)
        return count_kernel(call, read_capability(self.gpu) if self.gpu else None)

    def describe(self, grid: Any, values: tuple[Any, ...], meta: Mapping[str, Any]) -> KernelCall:
        """The launch itself, not counted yet."""
        names = self.source.arguments
        if len(values) > len(names):
            raise InputError(f"{self.source.name} takes {len(names)} arguments, not {len(values)}")
        given = {**self.source.defaults, **dict(zip(names, values, strict=False))}
        options = {k: v for k, v in meta.items() if k in COMPILER_OPTIONS}
        left = options.keys() - set(names) | {"grid", "warmup"}
        given |= {k: v for k, v in meta.items() if k not in left}
        launch = read_arguments(self.source, given, options)
        sizes = grid({**given, **launch.constants}) if callable(grid) else grid
        launch.grid = check_grid(sizes if isinstance(sizes, (tuple, list)) else (sizes,))
        return specialize(launch)


def trace(kernel: Any, gpu: str | None = None) -> _Launcher:
    """A kernel to launch without a GPU; a launch gives its `KernelCount`.

    Args:
        kernel: what ``@triton.jit`` or ``@gluon.jit`` gave, perhaps with an autotuner or heuristics
            around it, or what `load_kernel` found.
        gpu: a GPU to compile for, such as ``h100``.

    Raises:
        InputError: not a kernel, or Triton is missing.

    >>> import numpy as np, triton, triton.language as tl, iosim.kernel
    >>> @triton.jit
    ... def double(x, y, n, B: tl.constexpr):
    ...     at = tl.program_id(0) * B + tl.arange(0, B)
    ...     tl.store(y + at, tl.load(x + at, at < n) * 2, at < n)
    >>> x = np.zeros(100, np.float32)
    >>> iosim.kernel.trace(double)[(4,)](x, x, 100, B=32).words("load")
    {'x': 100}
    """
    load_triton()
    if isinstance(kernel, KernelSource):
        return _Launcher(kernel, gpu)
    if not is_kernel(kernel):
        name = getattr(kernel, "__name__", kernel)
        raise InputError(f"{name!r} isn't a @triton.jit or @gluon.jit function")
    return _Launcher(unwrap_kernel(kernel), gpu)


def read_arguments(
    source: KernelSource, given: Mapping[str, Any], options: dict[str, Any]
) -> KernelCall:
    """A launch, without its grid, from the values of its arguments.

    Raises:
        InputError: an argument is missing, or isn't known.
    """
    check_names(source, given)
    constants = {k: v for k, v in given.items() if k in source.constants}
    launch = KernelCall(source, (1, 1, 1), {}, constants, {}, options=options)
    _complete_constants(source, constants, dict(given), options, launch.remarks)
    missing = [n for n in source.arguments if n not in constants and n not in given]
    if missing:
        raise InputError(f"{source.name} needs {', '.join(missing)}")
    for name in source.arguments:
        if name not in constants:
            _add_argument(launch, name, given[name])
    return launch


def _add_argument(launch: KernelCall, name: str, value: Any) -> None:
    """The type of an argument, and its value where it is a number."""
    if value is None:
        launch.constants[name] = None
    elif isinstance(value, (bool, np.bool_)):
        launch.types[name], launch.values[name] = "i1", bool(value)
    elif isinstance(value, (int, np.integer)):
        kind = "i32" if -(2**31) <= value < 2**31 else "i64"
        launch.types[name], launch.values[name] = kind, int(value)
    elif isinstance(value, (float, np.floating)):
        launch.types[name], launch.values[name] = "fp32", float(value)
    elif hasattr(value, "block_shape"):
        dtype = _format_dtype(value.base)
        block = ",".join(map(str, value.block_shape))
        layout = f",{value.layout!r}" if hasattr(value, "layout") else ""  # a Gluon kernel's
        launch.types[name] = f"tensordesc<{dtype}[{block}]{layout}>"
        launch.descriptors[name] = (tuple(value.shape), tuple(value.strides))
    elif hasattr(value, "dtype"):
        launch.types[name] = f"*{_format_dtype(value)}"
        if data := _steering_data(value):
            launch.data[name] = data[0]
    else:
        raise InputError(f"{name} is a {type(value).__name__}: give a tensor or a number")


def _format_dtype(value: Any) -> str:
    name = str(value.dtype).rpartition(".")[2]
    if name not in DTYPES:
        raise InputError(f"a tensor of {name} isn't known to Triton")
    return DTYPES[name]


def _steering_data(value: Any) -> tuple[Any, ...]:
    """The numbers of a tensor, where it has any, as they lie in memory."""
    if isinstance(value, np.ndarray):
        return (value.ravel(order="K"),)
    if getattr(value, "is_meta", False) or type(value).__name__ == "FakeTensor":
        return ()
    try:
        flat = value.detach().cpu().reshape(-1) if value.is_contiguous() else None
        return (
            ()
            if flat is None
            else (flat.float().numpy() if flat.is_floating_point() else flat.numpy(),)
        )
    except (AttributeError, RuntimeError, TypeError):
        return ()
