"""What a kernel refers to, lane by lane, in Triton's interpreter: an oracle for `iosim.kernel`.

Every access of the interpreter ends in one of a few methods of its builder.  Here each of them
first notes the address and the mask of each lane; an address belongs to the argument whose memory
has it.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from iosim.base.python_file import run_statements
from iosim.gpu.run.interpreter import HostArray, interpreted_triton
from iosim.kernel.count import KernelCount

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


@dataclass(frozen=True)
class Addresses:
    """Tensors of one type that a kernel finds by their addresses; a count calls them ``*``."""

    tensors: list[Any]

    def list_addresses(self) -> Any:
        """Where they lie."""
        return np.array([x.ctypes.data for x in self.tensors])


@dataclass
class Seen:
    """What a launch refers to.

    Attributes:
        words: (kind, argument) → word → how often it is referred to.
        hidden: kind → lanes that a mask hides.
        products: floating-point operations of matrix products.
    """

    words: dict[tuple[str, str], Counter[int]] = field(default_factory=dict)
    hidden: Counter[str] = field(default_factory=Counter)
    products: int = 0


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
        arguments: NumPy arrays, `Described` ones, `Addresses`, numbers, and constants.
    """
    with interpreted_triton():
        fill_stubs()
        kernel = run_statements(path)[0][name]
        given: dict[str, Any] = {}
        arrays: list[tuple[str, Any]] = []
        for key, value in arguments.items():
            if isinstance(value, Described):
                given[key] = value.describe()
                arrays.append((key, value.array))
            elif isinstance(value, Addresses):
                where = value.list_addresses()
                given[key] = HostTensor(where)
                arrays += [(key, where), *(("*", x) for x in value.tensors)]
            elif isinstance(value, np.ndarray):
                given[key] = HostTensor(value)
                arrays.append((key, value))
            else:
                given[key] = value
        while hasattr(kernel.fn, "fn"):  # an autotuner's first config and heuristics, as in counts
            if hasattr(kernel, "configs"):
                given = kernel.configs[0].kwargs | given
            else:
                given = {k: f(given) for k, f in kernel.values.items()} | given
            kernel = kernel.fn
        given = widen_numbers(kernel, given)
        seen = Seen()
        with _watched(arrays, seen), np.errstate(all="ignore"):
            kernel[grid](**given)
    return seen


def fill_stubs() -> None:
    """Functions of the GPU's own library, which the interpreter lacks, give their first operand.

    Addresses, masks and shapes are those of the kernel; these numbers aren't.
    """
    from triton.language.extra import libdevice
    from triton.language.extra.cuda import libdevice as of_cuda

    for module in (libdevice, of_cuda):
        for name, function in vars(module).items():
            if inspect.isfunction(function):
                setattr(module, name, lambda first, *_, **__: first)


def widen_numbers(kernel: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Floating-point numbers as values that can be cast; the interpreter leaves them plain."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    typed = inspect.get_annotations(kernel.fn)
    return {
        name: tl.tensor(TensorHandle(np.array([value], np.float32), tl.float32), tl.float32)
        if isinstance(value, float) and name not in typed
        else value
        for name, value in given.items()
    }


def list_differences(count: KernelCount, seen: Seen) -> list[str]:
    """In what a count isn't what the interpreter referred to, a sentence each."""
    hidden: Counter[str] = Counter()
    for (kind, _), traffic in count.traffic.items():
        hidden[kind] += traffic.hidden
    reuse = {key: r for key, r in count.reuse.items() if r.times}
    pairs: list[tuple[str, Any, Any]] = [
        (
            "words",
            {key: t.words for key, t in count.traffic.items() if t.words},
            {key: w.total() for key, w in seen.words.items()},
        ),
        (
            "times",
            {key: r.times for key, r in reuse.items()},
            {key: Counter(w.values()) for key, w in seen.words.items()},
        ),
        (
            "distinct",
            {key: r.distinct for key, r in reuse.items()},
            {key: len(w) for key, w in seen.words.items()},
        ),
        ("hidden", +hidden, +seen.hidden),
        ("products", count.work.products, seen.products),
    ]
    return [
        f"{what}: {mine}, interpreted {theirs}" for what, mine, theirs in pairs if mine != theirs
    ]


@contextmanager
def _watched(arrays: list[tuple[str, Any]], seen: Seen) -> Iterator[None]:
    """The builder's methods, each noting what it is asked for."""
    from triton.runtime.interpreter import InterpreterBuilder

    before = {name: getattr(InterpreterBuilder, name) for name in ACCESSES}

    def watch(name: str) -> Any:
        kind, where, mask = ACCESSES[name]

        def method(self: Any, *operands: Any, **more: Any) -> Any:
            if mask is not None:  # the interpreter makes a Boolean scalar a tile of bytes
                operands[mask].data = np.asarray(operands[mask].data, bool)
            kept = None if mask is None else operands[mask].data
            _note(arrays, seen, kind, operands[where].data, kept)
            return before[name](self, *operands, **more)

        return method

    multiply = InterpreterBuilder.create_dot

    def dot(self: Any, a: Any, b: Any, *more: Any) -> Any:
        seen.products += 2 * a.data.size * b.data.shape[-1]
        return multiply(self, a, b, *more)

    changed = {name: watch(name) for name in ACCESSES} | {"create_dot": dot}
    for name, method in changed.items():
        setattr(InterpreterBuilder, name, method)
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(InterpreterBuilder, name, method)
        InterpreterBuilder.create_dot = multiply


def _note(arrays: list[tuple[str, Any]], seen: Seen, kind: str, at: Any, mask: Any) -> None:
    """The words of some addresses, argument by argument."""
    at = np.asarray(at).astype(np.int64)
    kept = np.ones(at.shape, bool) if mask is None else np.broadcast_to(mask, at.shape)
    seen.hidden[kind] += int((~kept).sum())
    left = at[kept].reshape(-1)
    for name, array in arrays:
        begin = array.ctypes.data
        own = (left >= begin) & (left < begin + array.nbytes)
        if own.any():
            first = begin if name != "*" else 0
            words = (left[own] - first) // array.itemsize
            seen.words.setdefault((kind, name), Counter()).update(words.tolist())
        left = left[~own]
    if left.size:
        raise AssertionError(f"{left.size} lanes of a {kind} are outside of every argument")
