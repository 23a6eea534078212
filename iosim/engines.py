"""Engines: who counts an instance.  One record each; commands and sweeps look them up here.

An engine that can count arrays of instances has `many`; sweeps then use that, and otherwise count
point by point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.counting.numbers import count, count_many, peak, peak_many
from iosim.counts import Counts, Key
from iosim.errors import InputError, closest
from iosim.machine import Machine, simulate
from iosim.program.ir import Program
from iosim.program.walk import Instance

Ints = NDArray[np.int64]

# The largest tensor that the simulating engine will make: 2**28 words are 2 GiB of float64.
LARGEST_TENSOR = 2**28


@dataclass(frozen=True)
class Engine:
    """A way to count.

    Attributes:
        name: the registry's key.
        one: ``(instance, problem, M)`` → counts and peak in words.
        many: ``(program, columns)`` → ``{(direction, tensor): words}`` and peaks, in arrays; None
            where points are counted one by one.
    """

    name: str
    one: Callable[[Instance, Any, int], tuple[Counts, int]]
    many: Callable[[Program, Mapping[str, Ints]], tuple[dict[Key, Ints], Ints]] | None = None


def by_formula(instance: Instance, problem: Any, M: int) -> tuple[Counts, int]:
    """Counts and peak from the closed form."""
    return count(instance), peak(instance)


def by_formula_many(program: Program, columns: Mapping[str, Ints]) -> tuple[dict[Key, Ints], Ints]:
    """Counts and peaks of arrays of instances, from the closed form."""
    return count_many(program, columns), peak_many(program, columns)


def by_simulation(instance: Instance, problem: Any, M: int) -> tuple[Counts, int]:
    """Counts and peak from a run on random numbers."""
    env = instance.env
    for tensor in instance.program.tensors:
        words = 1
        for axis in tensor.axes:
            words *= env[axis]
        if words > LARGEST_TENSOR:
            raise InputError(
                f"simulating needs {tensor.name} of {words} words, more than {LARGEST_TENSOR}: "
                "use --engine formula, which gives the same counts"
            )
    run = simulate(instance, Machine(M), problem.random())
    return run.counts, run.peak_words


ENGINES: dict[str, Engine] = {
    e.name: e
    for e in (
        Engine("formula", by_formula, by_formula_many),
        Engine("simulate", by_simulation),
    )
}


def engine(name: str) -> Engine:
    """A registered engine, or InputError with the closest name."""
    if name not in ENGINES:
        raise InputError(f"unknown engine {name!r}: {closest(name, ENGINES)}")
    return ENGINES[name]
