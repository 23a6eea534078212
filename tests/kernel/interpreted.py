"""What a kernel refers to, lane by lane, in Triton's interpreter: an oracle for `iosim.kernel`.

Every access of the interpreter ends in one of a few methods of its builder.  Here each of them
first notes the address and the mask of each lane; an address belongs to the argument whose memory
has it.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from iosim.gpu.run.interpreter import HostArray, interpreted_triton

# Method of the builder → kind, and which of its operands are the addresses and the mask.
ACCESSES = {
    "create_masked_load": ("load", 0, 1),
    "create_masked_store": ("store", 0, 2),
    "create_atomic_rmw": ("atomic", 1, 3),
    "create_atomic_cas": ("atomic", 0, None),
}


class DtypeName(str):
    """A dtype as PyTorch writes it, with the bytes of an element."""

    itemsize: int


class HostTensor(HostArray):
    """A NumPy array as the interpreter and descriptors take it."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.dtype = DtypeName(f"torch.{array.dtype}")
        self.dtype.itemsize = array.itemsize


@dataclass(frozen=True)
class Described:
    """A tensor that a kernel is given as a descriptor, with the shape of a tile."""

    array: Any
    block: tuple[int, ...]

    def describe(self) -> Any:
        """The descriptor, of the Triton that is in use."""
        from triton.tools.tensor_descriptor import TensorDescriptor

        steps = [step // self.array.itemsize for step in self.array.strides]
        return TensorDescriptor(
            HostTensor(self.array), list(self.array.shape), steps, list(self.block)
        )


@dataclass
class Seen:
    """What a launch refers to.

    Attributes:
        words: (kind, argument) → word → how often it is referred to.
        hidden: kind → lanes that a mask hides.
    """

    words: dict[tuple[str, str], Counter[int]] = field(default_factory=dict)
    hidden: Counter[str] = field(default_factory=Counter)


def import_file(path: Path) -> ModuleType:
    """A file as a new module, whatever was imported before."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def watch_kernel(
    path: Path, name: str, grid: tuple[int, ...], arguments: Mapping[str, Any]
) -> Seen:
    """Interpret a launch of a kernel of a file; what it refers to.

    Args:
        arguments: NumPy arrays, `Described` ones, numbers, and constants.
    """
    with interpreted_triton():
        kernel = getattr(import_file(path), name)
        given: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        for key, value in arguments.items():
            if isinstance(value, Described):
                given[key], arrays[key] = value.describe(), value.array
            elif isinstance(value, np.ndarray):
                given[key], arrays[key] = HostTensor(value), value
            else:
                given[key] = value
        if hasattr(kernel, "configs"):  # of an autotuner: the first one, as in counts
            given |= kernel.configs[0].kwargs
            kernel = kernel.fn
        seen = Seen()
        with _watched(arrays, seen), np.errstate(all="ignore"):
            kernel[grid](**given)
    return seen


@contextmanager
def _watched(arrays: Mapping[str, Any], seen: Seen) -> Iterator[None]:
    """The builder's methods, each noting what it is asked for."""
    from triton.runtime.interpreter import InterpreterBuilder

    before = {name: getattr(InterpreterBuilder, name) for name in ACCESSES}

    def watch(name: str) -> Any:
        kind, where, mask = ACCESSES[name]

        def method(self: Any, *operands: Any, **more: Any) -> Any:
            kept = None if mask is None else operands[mask].data
            _note(arrays, seen, kind, operands[where].data, kept)
            return before[name](self, *operands, **more)

        return method

    for name in ACCESSES:
        setattr(InterpreterBuilder, name, watch(name))
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(InterpreterBuilder, name, method)


def _note(arrays: Mapping[str, Any], seen: Seen, kind: str, at: Any, mask: Any) -> None:
    """The words of some addresses, argument by argument."""
    at = np.asarray(at).astype(np.int64)
    kept = np.ones(at.shape, bool) if mask is None else np.broadcast_to(mask, at.shape)
    seen.hidden[kind] += int((~kept).sum())
    left = at[kept].reshape(-1)
    for name, array in arrays.items():
        begin = array.ctypes.data
        own = (left >= begin) & (left < begin + array.nbytes)
        if own.any():
            words = (left[own] - begin) // array.itemsize
            seen.words.setdefault((kind, name), Counter()).update(words.tolist())
        left = left[~own]
    if left.size:
        raise AssertionError(f"{left.size} lanes of a {kind} are outside of every argument")
