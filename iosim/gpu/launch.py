"""Running emitted kernels: load the text, launch every nest in order, collect what they counted."""

from __future__ import annotations

import itertools
import linecache
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.counts import Counts, Key
from iosim.gpu.emit import Emitted
from iosim.gpu.memory import Device, allocate, dtype_of, unpack

_serial = itertools.count()


@dataclass(frozen=True)
class Outcome:
    """What a run left behind.

    Attributes:
        outputs: every tensor that is not an input, float64, padding removed.
        counts: what the kernels' own counters say, in words; None if they were off.
    """

    outputs: dict[str, NDArray[np.float64]]
    counts: Counts | None


def load(emitted: Emitted) -> dict[str, Any]:
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


def run(
    emitted: Emitted,
    inputs: Mapping[str, NDArray[Any]],
    dtype: str,
    device: Device,
    *,
    count: bool = True,
) -> Outcome:
    """Run a program once and bring everything back."""
    instance = emitted.instance
    functions = load(emitted)
    memory = allocate(instance, inputs, dtype, device)
    total: dict[Key, int] = {}
    for kernel in emitted.kernels:
        words = device.zeros(kernel.grid * len(kernel.keys) if count else 1, "int64")
        gate = [device.zeros(1, "int32")] if kernel.in_step else []
        pointers = [*(memory[t] for t in kernel.tensors), *gate, words]
        device.launch(kernel, functions[kernel.name], pointers, count)
        if count:
            sums = device.get(words, "int64").reshape(kernel.grid, len(kernel.keys)).sum(axis=0)
            for key, n in zip(kernel.keys, sums, strict=True):
                total[key] = total.get(key, 0) + int(n)
    outputs = {
        t.name: unpack(device.get(memory[t.name], dtype_of(t, dtype)), t, instance)
        for t in instance.program.tensors
        if t.name not in inputs
    }
    if count:  # a tensor that no kernel touches (an empty hold's) still has its row
        keys = instance.program.keys()
        total = {key: total.get(key, 0) for key in keys}
    return Outcome(outputs, Counts.of(total) if count else None)
