"""The same kernels on a CPU, in Triton's interpreter, with NumPy arrays: no PyTorch needed.

The interpreter asks of an argument only what `HostArray` answers.  It stores bf16 as 16-bit
integers and would multiply those; `_dot` widens them first, which is what the hardware does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.base.errors import IosimError, install
from iosim.base.rows import Values
from iosim.core.program.walk import Instance
from iosim.gpu.emitter.kernels import Emitted, Kernel
from iosim.gpu.run.launch import Outcome, run_once
from iosim.gpu.run.memory import TORCH_NAMES

# NumPy has no bf16: its bits are kept.
_NUMPY = {name: getattr(np, name) for name in TORCH_NAMES.values() if name != "bfloat16"}
_NUMPY["bfloat16"] = np.uint16


class InterpreterError(IosimError):
    """Triton is missing, or a kernel is one that it can't interpret."""


class HostArray:
    """A NumPy array with the few attributes that the interpreter asks of a tensor."""

    def __init__(self, array: NDArray[Any], dtype: str) -> None:
        self.array, self.dtype = array, f"torch.{TORCH_NAMES[dtype]}"

    def data_ptr(self) -> int:
        """Where the array lies."""
        return self.array.ctypes.data

    # The interpreter copies tensors to the host and back; these are on the host already.
    def untyped_storage(self, *_: Any, **__: Any) -> HostArray:
        """The memory itself, a handle to it, and where it stays."""
        return self

    cpu = new_empty = set_ = untyped_storage

    def copy_(self, _: Any) -> None:
        """Nothing to copy."""

    def storage_offset(self) -> int:
        """Always at the start."""
        return 0

    def size(self) -> tuple[int, ...]:
        """The shape."""
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        """One word."""
        return (1,)


class Interpreter:
    """A `Device` that is this CPU."""

    def copy_to_device(self, flat: NDArray[Any], dtype: str) -> HostArray:
        """Round to `dtype`, to nearest even."""
        kind = _NUMPY[TORCH_NAMES[dtype]]
        return HostArray(to_bf16(flat) if dtype == "bf16" else flat.astype(kind), dtype)

    def get(self, buffer: HostArray, dtype: str) -> NDArray[Any]:
        """Widen to float64."""
        if dtype == "bf16":
            return from_bf16(buffer.array).astype(np.float64)
        return buffer.array.astype(np.int64 if dtype.startswith("int") else np.float64)

    def zeros(self, n: int, dtype: str) -> HostArray:
        """Zeros of an integer type."""
        return HostArray(np.zeros(n, _NUMPY[TORCH_NAMES[dtype]]), dtype)

    def boxes(self, kernel: Kernel, instance: Instance, memory: Values) -> list[Any]:
        """Raises InterpreterError: bulk copies and warps of two kinds need the hardware."""
        raise InterpreterError(
            f"{kernel.name} is a kernel for Hopper, which Triton's interpreter can't run: emit it "
            "for the plain target"
        )

    def launch(self, kernel: Kernel, function: Any, pointers: list[Any], count: bool) -> None:
        """Run one program instance after another."""
        if kernel.lockstep and kernel.grid > 1:
            raise InterpreterError(
                f"{kernel.name} waits for {kernel.grid} programs at a gate and the interpreter "
                "runs one after another: emit it in lockstep with programs=1"
            )
        with np.errstate(all="ignore"):  # rows beyond a ragged edge may divide by zero
            function[(kernel.grid,)](*pointers, COUNT=count)


def interpret(
    emitted: Emitted, inputs: Mapping[str, NDArray[Any]], dtype: str = "fp32", *, count: bool = True
) -> Outcome:
    """Run emitted kernels on the CPU.

    Raises InterpreterError where Triton is missing.

    >>> import iosim
    >>> from iosim.gpu import emit
    >>> problem = iosim.Copy(n=100)
    >>> copy = iosim.bind(iosim.algorithm("copy").program, problem.sizes, {"B": 64})
    >>> interpret(emit(copy), problem.random()).counts == iosim.count(copy)
    True
    """
    with interpreted_triton():
        return run_once(emitted, inputs, dtype, Interpreter(), count=count)


@contextmanager
def interpreted_triton() -> Iterator[None]:
    """Triton in interpreted mode, within the block.

    Triton decides once, when it is imported.  So there are two copies of its Python modules, and
    the block sees the one that interprets; kernels that were compiled before, or are later, never
    see it.

    Raises:
        InterpreterError: Triton is missing.
    """
    switch = os.environ.get("TRITON_INTERPRET")
    if switch == "1":
        _prepare()
        yield
        return
    _exchange(_COMPILED, _INTERPRETED)
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        _prepare()
        yield
    finally:
        _exchange(_INTERPRETED, _COMPILED)
        os.environ.pop("TRITON_INTERPRET")
        if switch is not None:
            os.environ["TRITON_INTERPRET"] = switch


# What the names of modules begin with while the other copy is in use.  They stay in `sys.modules`,
# so that Python takes them apart at its end as it does all others.
_COMPILED, _INTERPRETED = "compiled:", "interpreted:"


def _exchange(away: str, back: str) -> None:
    """Put Triton's Python modules away, and get the other copy back; both share the C++."""
    names = [x for x in sys.modules if x.partition(".")[0] == "triton" and "._C" not in x]
    for name in names:
        sys.modules[away + name] = sys.modules.pop(name)
    for name in [x for x in sys.modules if x.startswith(back)]:
        sys.modules[name.removeprefix(back)] = sys.modules.pop(name)


def _prepare() -> None:
    """Import the interpreter, let it multiply bf16, and prepare each function once a launch."""
    try:
        from triton.runtime import interpreter
    except ImportError as error:
        raise InterpreterError(
            f"the interpreter needs the triton package ({error}): {install('gpu')}"
        ) from None
    builder = interpreter.InterpreterBuilder
    if builder.create_dot is not _dot:
        builder.create_dot = _dot
        interpreter._patch_lang = _patch_once(interpreter)


def _patch_once(interpreter: Any) -> Callable[[Any], Any]:
    """What puts the interpreter's operations into `tl` for a function of a kernel.

    Triton does that again at each call of such a function, which takes a third of the time.  Here
    each function has it once in a launch: a launch begins, and ends, with Triton's own operations.
    """
    patch, language, done = interpreter._patch_lang, interpreter.tl, set[Any]()

    def patch_lang(function: Any) -> Any:
        if language.core.is_builtin(language.load):
            done.clear()
        if function in done:
            return interpreter._LangPatchScope()
        done.add(function)
        return patch(function)

    return patch_lang


def _dot(_: Any, a: Any, b: Any, d: Any, *__: Any) -> Any:
    """a b + d in d's type; NumPy has no bf16, so its bits are widened."""
    from triton.runtime.interpreter import TensorHandle

    wide = [_widened(x).astype(d.data.dtype) for x in (a, b)]
    return TensorHandle(np.matmul(*wide) + d.data, d.dtype.scalar)


def _widened(x: Any) -> NDArray[Any]:
    return from_bf16(x.data) if str(x.dtype.scalar) in ("bf16", "bfloat16") else x.data


def to_bf16(x: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The nearest bf16, ties to even, as bits; NaN stays NaN."""
    bits = x.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), np.uint32(0x7FC0), rounded).astype(np.uint16)


def from_bf16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """The value of bf16 bits, exact in float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
