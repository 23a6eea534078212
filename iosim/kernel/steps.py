"""What each program of a launch refers to, one step after the other, for the lab to show.

Programs come in the order of their numbers, one by one; a step is a load, a store or an atomic
operation of one program's tile.

The lab calls it; ``tests/lab/test_lab_launch.py`` compares steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from iosim.base.errors import InputError
from iosim.kernel.count import lower_call
from iosim.kernel.evaluate import CallValues, Reference, evaluate, evaluate_waves
from iosim.kernel.ir import IrFunction
from iosim.kernel.launch import KernelCall
from iosim.kernel.reuse import AddressTile
from iosim.kernel.values import GRID, Array

# Steps that are listed: each is drawn.
MOST_STEPS = 10_000
# Words in a row of a tensor where no argument says how long its rows are.
PLAIN_WIDTH = 64


@dataclass(frozen=True)
class KernelStep:
    """What one operation of one program refers to.

    Attributes:
        program: its number in launch order.
        kind: ``load``, ``store`` or ``atomic``.
        argument: the tensor.
        location: file and line of the source.
        words: elements that no mask hides.
        places: their indices in the tensor, sorted, each once.
    """

    program: int
    kind: str
    argument: str
    location: str
    words: int
    places: Array


@dataclass(frozen=True)
class LaunchSteps:
    """The steps of a launch.

    Attributes:
        steps: in launch order.
        widths: argument → words in a row.
    """

    steps: list[KernelStep]
    widths: dict[str, int]


def list_steps(launch: KernelCall) -> LaunchSteps:
    """Every step of a launch.

    Raises:
        InputError: more than `MOST_STEPS`, or Triton refuses the kernel.
        UnsupportedKernel: as `iosim.kernel.evaluate.evaluate`.

    >>> from iosim.kernel import describe_launch, load_kernel
    >>> softmax = load_kernel("docs/examples/softmax.py::softmax_row")
    >>> listed = list_steps(describe_launch(softmax, "2", {"columns": 3}, {}, {"BLOCK": 4}))
    >>> [(x.program, x.kind, x.argument, x.places.tolist()) for x in listed.steps[1:3]]
    [(0, 'store', 'y', [0, 1, 2]), (1, 'load', 'x', [3, 4, 5])]
    >>> listed.widths
    {'x': 3, 'y': 3}
    """
    functions, call = lower_call(launch), launch.to_evaluate()
    steps: list[KernelStep] = []
    x, y, z = call.grid
    if x * y * z <= MOST_STEPS:
        for step in _walk(functions, call):
            steps.append(step)
            if len(steps) > MOST_STEPS:
                break
    if x * y * z > MOST_STEPS or len(steps) > MOST_STEPS:
        raise InputError(
            f"{launch.source.name} has more than {MOST_STEPS:,} steps here, one for each load and "
            "store of a program, and Watch shows no more: choose smaller sizes"
        )
    known = {n for n in (*launch.values.values(), *launch.constants.values()) if type(n) is int}
    known |= {n for _, strides in launch.descriptors.values() for n in strides}
    return LaunchSteps(steps, find_widths(functions, call, known - {0, 1}))


def _walk(functions: Mapping[str, IrFunction], call: CallValues) -> Iterator[KernelStep]:
    x, y, z = call.grid
    numbers = (np.array([n]) for n in range(x * y * z))
    waves = ((n % x, n // x % y, n // (x * y)) for n in numbers)
    for program, references in enumerate(evaluate_waves(functions, call, waves)):
        for one in references:
            if one.active.all():
                offsets = AddressTile(one.tile, list(one.offsets.arrays), list(one.masks))
                places = offsets.to_words()
                location = one.operation.location
                told = (program, one.kind, one.argument, location, places.size)
                yield KernelStep(*told, np.unique(places))


def find_widths(
    functions: Mapping[str, IrFunction], call: CallValues, known: set[int]
) -> dict[str, int]:
    """Argument → words in a row of it.

    A row is the least stride of its tiles that an argument or a constant of the launch has, or
    else the least one from program to program; without any it is `PLAIN_WIDTH`.

    Args:
        functions: of the module.
        call: the grid and the arguments.
        known: strides that arguments and constants have.
    """
    found: dict[str, dict[bool, set[int]]] = {}

    def observe(references: list[Reference]) -> None:
        for one in references:
            strides = found.setdefault(one.argument, {True: set(), False: set()})
            for axis in range(GRID + len(one.tile)):
                strides[axis >= GRID].add(_find_stride(one, axis))

    evaluate(functions, call, observe)
    return {
        name: min(inside & known or between & known or {PLAIN_WIDTH})
        for name, (inside, between) in ((n, (x[True], x[False])) for n, x in found.items())
    }


def _find_stride(reference: Reference, axis: int) -> int:
    """Words from one position of an axis to the next; 0 where they differ, or there is no next."""
    total = 0
    for x in reference.offsets.arrays:
        steps = np.unique(np.diff(x, axis=axis))
        if len(steps) > 1:
            return 0
        total += int(steps[0]) if len(steps) else 0
    return abs(total)
