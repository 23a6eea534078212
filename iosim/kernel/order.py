"""Orders of tiles: which integers of a kernel count the rows and the columns of its tiles.

A program finds its tile by quotients and remainders of its number: row by row, in groups of rows,
or in an order of its own.  For words only one thing matters: that each pair of row and column comes
equally often.  That is no formula, so kernels are evaluated at small sizes, and integers that count
like this there count as rows and columns.

`iosim.kernel.closing` calls it.  ``tests/kernel/test_kernel_formulas.py`` compares formulas with
evaluations.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.base.errors import InputError
from iosim.kernel.evaluate import evaluate
from iosim.kernel.ir import IrFunction
from iosim.kernel.launch import KernelCall, read_grid
from iosim.kernel.linear import LinearSum, NamedSizes

# Tiles along each axis, at each size that is tried; the last ones have many divisors.
TRIALS = ((3, 5, 2), (4, 2, 3), (7, 3, 5), (30, 11, 2))


def find_order(
    functions: Mapping[str, IrFunction],
    launch: KernelCall,
    lengths: Sequence[LinearSum],
    sizes: NamedSizes,
) -> dict[str, int | None]:
    """Integers of the kernel by name → which of some loops they count; None: they are 0.

    Args:
        lengths: of the loops, each ⌈size/step⌉, a size, or a number.
        sizes: those that follow from arguments.

    Returns:
        Nothing where no integers count all of the loops.
    """
    found: dict[tuple[str, ...], int] | None = None
    values: dict[str, list[NDArray[Any]]] = {}
    zero: set[str] | None = None
    for trial in TRIALS:
        wanted, arguments = _choose_sizes(lengths, sizes, trial)
        if wanted is None:
            return {}
        values = _watch(functions, launch, arguments)
        here = _find_counters(values, wanted)
        found = here if found is None else {k: v for k, v in found.items() if k in here}
        zeros = {name for name, x in values.items() if not any(map(np.any, x))}
        zero = zeros if zero is None else zero & zeros
    if not found:
        return {}
    names = list(values)
    last = max(found, key=lambda x: sorted(names.index(n) for n in x))
    return dict.fromkeys(zero or (), None) | {
        name: k
        for k, chosen in enumerate(last)
        for name in names
        if _are_equal(values[name], values[chosen])
    }


def _choose_sizes(
    lengths: Sequence[LinearSum], sizes: NamedSizes, trial: Sequence[int]
) -> tuple[list[int] | None, dict[str, int]]:
    """Small arguments, and the lengths that they give; None where a length is something else."""
    arguments: dict[str, int] = {}
    wanted = []
    for length, tiles in zip(lengths, trial, strict=False):
        tiled = sizes.tiled(length)
        if length.number is not None:
            wanted.append(length.number)
            continue
        name, step = tiled if tiled is not None else (str(length), 1)
        if name in arguments:
            wanted.append(-(-arguments[name] // step))
            continue
        arguments[name] = tiles * step - (step > 1)
        wanted.append(tiles)
    return (wanted if len(wanted) == len(lengths) else None), arguments


def _watch(
    functions: Mapping[str, IrFunction], launch: KernelCall, arguments: Mapping[str, int]
) -> dict[str, list[NDArray[Any]]]:
    """The values of all integers, in the order in which they are computed."""
    values: dict[str, list[NDArray[Any]]] = defaultdict(list)
    numbers = {**launch.values, **arguments}
    try:
        grid = read_grid(launch.grid_text, {**numbers, **launch.constants})
        call = replace(launch.to_evaluate(), grid=grid, values=numbers)
        evaluate(functions, call, lambda _: None, lambda name, x: values[name].append(x))
    except InputError:
        return {}
    return values


def _find_counters(
    values: Mapping[str, list[NDArray[Any]]], lengths: Sequence[int]
) -> dict[tuple[str, ...], int]:
    """Integers, one for each loop, whose combinations come equally often, and all of them."""
    flat = {name: np.concatenate(x) for name, x in values.items()}
    choices = [
        [name for name, x in flat.items() if x.size and np.array_equal(np.unique(x), np.arange(n))]
        for n in lengths
    ]
    found = {}
    for names in itertools.product(*choices):
        if len({tuple(map(len, values[n])) for n in names}) > 1 or len(set(names)) < len(names):
            continue
        number = np.ravel_multi_index([flat[n] for n in names], tuple(lengths))
        times = np.bincount(number, minlength=int(np.prod(lengths)))
        if times.min() == times.max():
            found[names] = int(times[0])
    return found


def _are_equal(a: Sequence[NDArray[Any]], b: Sequence[NDArray[Any]]) -> bool:
    return len(a) == len(b) and all(map(np.array_equal, a, b))
