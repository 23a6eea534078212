"""Loads the text of emitted kernels, launches every nest in order, and collects its counts.

The worker's tasks launch on a GPU with it, and `iosim.gpu.run.interpreter` on a CPU.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.base.rows import Row, Values
from iosim.core.counts import Counts, Key
from iosim.gpu.emitter.kernels import Emitted, Kernel
from iosim.gpu.run.memory import Device, allocate, dtype_of, unpack

_serial = itertools.count()


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Attributes:
        outputs: every tensor that is not an input, float64, padding removed.
        counts: what the kernels' own counters say, in words; None if they were off.
    """

    outputs: dict[str, NDArray[np.float64]]
    counts: Counts | None


def load_kernels(emitted: Emitted) -> Row:
    """Execute the emitted text; returns the kernels by name.

    Triton reads a kernel's text back through `inspect`, so the text is given a file name that
    only `linecache` knows.
    """
    name = f"<iosim kernel {next(_serial)}>"
    linecache.cache[name] = (len(emitted.source), None, emitted.source.splitlines(True), name)
    module = types.ModuleType("iosim_kernels")
    module.__file__ = name
    exec(compile(emitted.source, name, "exec"), module.__dict__)
    return {kernel.name: getattr(module, kernel.name) for kernel in emitted.kernels}


@dataclass(frozen=True)
class Prepared:
    """One kernel with its arguments: `go` launches it, `words` is where it leaves its counts."""

    kernel: Kernel
    go: Callable[[], Any]
    words: Any
    clock: Any


def prepare(emitted: Emitted, memory: Values, device: Device, *, count: bool) -> list[Prepared]:
    """Give every kernel its memory; launch them in order, each after the one before has ended."""
    functions = load_kernels(emitted)
    masks = {
        name: device.copy_to_device(mask.array.astype(np.int32).ravel(), "int32")
        for name, mask in emitted.instance.masks
    }
    found = []
    for kernel in emitted.kernels:
        words = device.zeros(kernel.grid * len(kernel.keys) if count else 1, "int64")
        gate = [device.zeros(1, "int32")] if kernel.lockstep else []
        clock = [device.zeros(2 * kernel.items, "int64")] if kernel.clock else []
        given = [*(memory[t] for t in kernel.tensors), *(masks[name] for name in kernel.masks)]
        if kernel.boxes:
            given = device.boxes(kernel, emitted.instance, memory)
        pointers = [*given, *gate, *clock, words]
        launch = functools.partial(device.launch, kernel, functions[kernel.name], pointers, count)
        found.append(Prepared(kernel, launch, words, clock[0] if clock else None))
    return found


def sum_counters(emitted: Emitted, prepared: list[Prepared], device: Device) -> Counts:
    """Add up what the kernels' own counters say, in words."""
    # A tensor that no kernel touches (an empty stationary part's) still has its row.
    keys = emitted.instance.program.keys()
    total: dict[Key, int] = dict.fromkeys(keys, 0)
    for p in prepared:
        table = device.get(p.words, "int64").reshape(p.kernel.grid, len(p.kernel.keys))
        for key, n in zip(p.kernel.keys, table.sum(axis=0), strict=True):
            total[key] += int(n)
    return Counts.of(total)


def run_once(
    emitted: Emitted,
    inputs: Mapping[str, NDArray[Any]],
    dtype: str,
    device: Device,
    *,
    count: bool = True,
) -> Outcome:
    """Run a program once and bring everything back."""
    instance = emitted.instance
    memory = allocate(instance, inputs, dtype, device)
    prepared = prepare(emitted, memory, device, count=count)
    for p in prepared:
        p.go()
    outputs = {
        t.name: unpack(device.get(memory[t.name], dtype_of(t, dtype)), t, instance)
        for t in instance.program.tensors
        if t.name not in inputs
    }
    return Outcome(outputs, sum_counters(emitted, prepared, device) if count else None)
