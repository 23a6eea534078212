"""What Watch shows of a Triton kernel's launch: source, tensors as grids of words, and steps."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from iosim.base.errors import InputError
from iosim.kernel.count import count_kernel
from iosim.kernel.launch import KernelCall
from iosim.kernel.steps import KernelStep, list_steps
from iosim.kernel.values import Array

# Rectangles of all steps together: each is drawn, and travels with the page.
MOST_BOXES = 100_000


def launch_data(call: KernelCall) -> dict[str, Any]:
    """One launch for the view; see ``launch.ts`` next to the view.

    A step is its program, its line of the listing, its key, its words, and the rectangles of the
    words that it refers to: first and last row, first and last column, each last one not included.

    Raises:
        InputError: too many steps or rectangles; also as `iosim.kernel.count_kernel`.

    >>> from iosim.kernel import describe_launch, load_kernel
    >>> softmax = load_kernel("docs/examples/softmax.py::softmax_row")
    >>> told = launch_data(describe_launch(softmax, "2", {"columns": 3}, {}, {"BLOCK": 4}))
    >>> told["tensors"][0], told["keys"], told["totals"]
    ({'name': 'x', 'rows': 2, 'columns': 3}, ['load x', 'store y'], [6, 6])
    >>> told["steps"][2]
    [1, 5, 0, 3, 1, 2, 0, 3]
    """
    listed, counted = list_steps(call), count_kernel(call, reuse=False)
    keys = [f"{kind} {name}" for kind, name in counted.traffic]
    lines = _list_lines(call, listed.steps)
    tensors, first = [], {}
    for name, width in listed.widths.items():
        places = [x.places for x in listed.steps if x.argument == name and x.words]
        low, high = (
            (min(int(x[0]) for x in places), max(int(x[-1]) for x in places)) if places else (0, 0)
        )
        first[name] = min(0, low // width) * width
        rows = (high - first[name]) // width + 1
        columns = width if rows > 1 else high - first[name] + 1
        tensors.append({"name": name, "rows": rows, "columns": columns})
    at = {place: k for k, (place, _, _) in enumerate(lines)}
    steps, boxes = [], 0
    for one in listed.steps:
        covered = cover(one.places - first[one.argument], listed.widths[one.argument])
        boxes += len(covered)
        if boxes > MOST_BOXES:
            raise InputError(
                f"the words of {call.source.name} lie in more than {MOST_BOXES:,} rectangles here, "
                "and Watch shows no more: choose smaller sizes"
            )
        key = keys.index(f"{one.kind} {one.argument}")
        steps.append([one.program, at[one.location], key, one.words, *covered.reshape(-1).tolist()])
    x, y, z = call.grid
    return {
        "name": name_launch(call),
        "title": f"grid {x:,} x {y:,} x {z:,}; " + format_values({**call.values, **call.constants}),
        "programs": x * y * z,
        "listing": [{"number": number, "code": code} for _, number, code in lines],
        "tensors": tensors,
        "keys": keys,
        "totals": [t.words for t in counted.traffic.values()],
        "steps": steps,
    }


def name_launch(call: KernelCall) -> str:
    """A name that no schedule has: ``softmax.py::softmax``."""
    return f"{Path(inspect.getfile(call.source.function.fn)).name}::{call.source.name}"


def format_values(values: Mapping[str, Any]) -> str:
    """``N = 64, BLOCK = 32``."""
    return ", ".join(f"{k} = {v:,}" if type(v) is int else f"{k} = {v}" for k, v in values.items())


def cover(places: Array, width: int) -> Array:
    """Rectangles that cover words, each once: rows of first row, last row, first and last column.

    Args:
        places: indices of words, sorted, each once.
        width: words in a row.

    >>> cover(np.array([1, 2, 5, 6, 7, 12]), 4).tolist()
    [[0, 1, 1, 3], [1, 2, 1, 4], [3, 4, 0, 1]]
    >>> cover(np.arange(4, 16), 4).tolist()
    [[1, 4, 0, 4]]
    """
    if not len(places):
        return np.zeros((0, 4), np.int64)
    begins = np.ones(len(places), bool)
    begins[1:] = (np.diff(places) != 1) | (places[1:] % width == 0)
    start = np.flatnonzero(begins)
    rows, left = np.divmod(places[start], width)
    right = left + np.diff(np.append(start, len(places)))
    # Runs of the same columns in rows that follow each other are one rectangle.
    order = np.lexsort((rows, right, left))
    runs = np.stack([rows, left, right], 1)[order]
    new = np.ones(len(runs), bool)
    new[1:] = (np.diff(runs, axis=0) != [1, 0, 0]).any(1)
    at = np.flatnonzero(new)
    top, height = runs[at, 0], np.diff(np.append(at, len(runs)))
    boxes = np.stack([top, top + height, runs[at, 1], runs[at, 2]], 1)
    return boxes[np.lexsort((boxes[:, 2], boxes[:, 0]))]


def _list_lines(call: KernelCall, steps: list[KernelStep]) -> list[tuple[str, int, str]]:
    """Location, number and text of lines: those of the kernel, then those of functions it calls."""
    function = call.source.function.fn
    file = inspect.getfile(function)
    code, first = inspect.getsourcelines(function)
    lines = {f"{file}:{first + k}": (first + k, x.rstrip()) for k, x in enumerate(code)}
    for place in dict.fromkeys(x.location for x in steps):
        if place not in lines:
            other, _, number = place.rpartition(":")
            lines[place] = int(number or 0), linecache.getline(other, int(number or 0)).rstrip()
    return [(place, number, text) for place, (number, text) in lines.items()]
