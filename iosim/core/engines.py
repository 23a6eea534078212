"""Engines: who counts an instance.  One record each; commands and sweeps look them up here.

An engine that can count arrays of instances has `many`; sweeps then use that, and otherwise count
point by point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from iosim.base.arrays import Ints
from iosim.base.errors import InputError, closest
from iosim.core.counting.numbers import count, count_many, peak, peak_many
from iosim.core.counts import Counts, Key
from iosim.core.machine import LANES, Machine, simulate
from iosim.core.program.ir import Alloc, Load, Program, Store
from iosim.core.program.walk import Instance

# The most bytes that the simulating engine takes: 4 GiB.
LARGEST_RUN = 2**32
# From these bytes, or these words moved, a run is worth a note beforehand.
LARGE_RUN, LONG_RUN = 2**29, 10**9

# Called with the words moved so far and the words in all.
Tick = Callable[[int, int], object]


class CountOne(Protocol):
    """``(instance, problem, M)`` → counts and peak in words; may report its progress."""

    def __call__(
        self, instance: Instance, problem: Any, M: int, tick: Tick | None = None
    ) -> tuple[Counts, int]:
        """Count one instance."""
        ...


@dataclass(frozen=True)
class Engine:
    """A way to count.

    Attributes:
        name: the registry's key.
        one: counts one instance.
        many: ``(program, columns)`` → ``{(direction, tensor): words}`` and peaks, in arrays; None
            where points are counted one by one.
        cost: instance → what counting it takes, as a sentence; "" where that is not worth one.
    """

    name: str
    one: CountOne
    many: Callable[[Program, Mapping[str, Ints]], tuple[dict[Key, Ints], Ints]] | None = None
    cost: Callable[[Instance], str] = lambda instance: ""


def by_formula(
    instance: Instance, problem: Any, M: int, tick: Tick | None = None
) -> tuple[Counts, int]:
    """Counts and peak from the closed form."""
    return count(instance), peak(instance)


def by_formula_many(program: Program, columns: Mapping[str, Ints]) -> tuple[dict[Key, Ints], Ints]:
    """Counts and peaks of arrays of instances, from the closed form."""
    return count_many(program, columns), peak_many(program, columns)


def run_bytes(instance: Instance) -> int:
    """About how many bytes a simulation takes at most: float64 tensors, inputs twice, and buffers.

    The machine copies its inputs.  Its buffers are its peak, or for each buffer as many words as
    it processes at once; an operation makes up to two more arrays of a buffer's size.
    """
    program, env = instance.program, instance.env
    stored = {n.tensor for n in program.nodes if isinstance(n, Store)}
    words = sum(
        math.prod(env[axis] for axis in tensor.axes) * (1 if tensor.name in stored else 2)
        for tensor in program.tensors
    )
    buffers = {n.buffer for n in program.nodes if isinstance(n, (Load, Alloc))}
    return 8 * (words + 3 * max(peak(instance), len(buffers) * LANES))


def check_run(instance: Instance) -> None:
    """Raise InputError for what takes more than `LARGEST_RUN` bytes to simulate."""
    need = run_bytes(instance)
    if need > LARGEST_RUN:
        raise InputError(
            f"simulating {instance.program.name} takes about {need / 2**30:,.1f} GiB, more than "
            f"{LARGEST_RUN / 2**30:g} GiB: use --engine formula, which gives the same counts"
        )


def by_simulation(
    instance: Instance, problem: Any, M: int, tick: Tick | None = None
) -> tuple[Counts, int]:
    """Counts and peak from a run on random numbers."""
    check_run(instance)
    of = count(instance).total_words
    run = simulate(
        instance, Machine(M), problem.random(), tick=tick and (lambda words: tick(words, of))
    )
    return run.counts, run.peak_words


def _cost_of_simulation(instance: Instance) -> str:
    need, words = run_bytes(instance), count(instance).total_words
    if need > LARGEST_RUN or (need < LARGE_RUN and words < LONG_RUN):
        return ""
    return (
        f"simulating moves {words:,} words and takes about {need / 2**30:.1f} GiB; "
        "--engine formula gives the same counts at once"
    )


ENGINES: dict[str, Engine] = {
    e.name: e
    for e in (
        Engine("formula", by_formula, by_formula_many),
        Engine("simulate", by_simulation, cost=_cost_of_simulation),
    )
}


def engine(name: str) -> Engine:
    """A registered engine, or InputError with the closest name."""
    if name not in ENGINES:
        raise InputError(f"unknown engine {name!r}: {closest(name, ENGINES)}")
    return ENGINES[name]
