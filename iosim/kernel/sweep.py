"""A kernel at many sizes and with many constants: by formulas, or else by evaluations.

``iosim kernel sweep`` calls it.  ``tests/kernel/test_kernel_formulas.py`` compares formulas with
evaluations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iosim.base.errors import InputError
from iosim.base.progress import track
from iosim.base.rows import Table
from iosim.kernel.closing import NoClosedForm
from iosim.kernel.count import KernelCount, count_kernel
from iosim.kernel.formula import derive_formula
from iosim.kernel.launch import KernelCall

Describe = Callable[[Mapping[str, Any], Mapping[str, Any]], KernelCall]


@dataclass(frozen=True)
class KernelSweep:
    """The words of a kernel at each point.

    Attributes:
        table: a row for each point: what varies, words by reference and argument, and bytes.
        remarks: which constants have no formula, and why.
    """

    table: Table
    remarks: list[str] = field(default_factory=list)


def sweep_kernel(
    describe: Describe, sizes: Mapping[str, Sequence[int]], constants: Mapping[str, Sequence[Any]]
) -> KernelSweep:
    """Count a kernel at all combinations of sizes and constants.

    The kernel is compiled once for each choice of constants.  Its formulas are compared with an
    evaluation at the first sizes; a kernel without formulas is evaluated at each point.

    Args:
        describe: a launch from arguments and constants.
        sizes: values of arguments.
        constants: values of constants.

    Raises:
        InputError: a launch that Triton refuses, or a size that isn't positive.
    """
    rows: list[dict[str, Any]] = []
    remarks: dict[str, None] = {}
    choices = list(itertools.product(*constants.values()))
    for choice in track(choices, "constants"):
        chosen = dict(zip(constants, choice, strict=True))
        try:
            rows += list(_count_by_formula(describe, sizes, chosen))  # all of them, or none
        except NoClosedForm as error:
            remarks[f"no formula, so each point is evaluated: {error}"] = None
            rows += _evaluate_each(describe, sizes, chosen)
    return KernelSweep(Table(tuple(rows), "words of a kernel"), list(remarks))


def _points(sizes: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    return [dict(zip(sizes, x, strict=True)) for x in itertools.product(*sizes.values())]


def _count_by_formula(
    describe: Describe, sizes: Mapping[str, Sequence[int]], constants: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Rows by formula.

    A size that is 1 is a constant for the compiler, so such points are another kernel.
    """
    points = _points(sizes)
    kinds = dict.fromkeys(tuple(n for n, x in point.items() if x == 1) for point in points)
    for kind in kinds:
        same = [p for p in points if tuple(n for n, x in p.items() if x == 1) == kind]
        launch = describe(same[0], constants)
        formula = derive_formula(launch)
        first = count_kernel(launch, reuse=False)
        columns = {
            n: np.array([p[n] for p in same]) if n in sizes else launch.values[n]
            for n in formula.sizes
        }
        words = {k: np.broadcast_to(x, len(same)) for k, x in formula.count_many(columns).items()}
        at_first = {k: int(x[0]) for k, x in words.items() if x[0]}
        if at_first != {k: t.words for k, t in first.traffic.items() if t.words}:
            raise AssertionError(f"the formula of {launch.source.name} differs from its evaluation")
        widths = {name: t.width for (_, name), t in first.traffic.items()}
        for i, point in enumerate(same):
            yield _row({**point, **constants}, {k: int(x[i]) for k, x in words.items()}, widths)


def _evaluate_each(
    describe: Describe, sizes: Mapping[str, Sequence[int]], constants: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Rows by evaluation."""
    for point in track(_points(sizes), "points"):
        count: KernelCount = count_kernel(describe(point, constants), reuse=False)
        words = {key: t.words for key, t in count.traffic.items()}
        widths = {name: t.width for (_, name), t in count.traffic.items()}
        yield _row({**point, **constants}, words, widths)


def _row(
    point: Mapping[str, Any], words: Mapping[tuple[str, str], int], widths: Mapping[str, int]
) -> dict[str, Any]:
    total = sum(
        n * widths.get(name, 0) * (2 if way == "atomic" else 1) for (way, name), n in words.items()
    )
    return {
        **point,
        **{f"{kind} {name}": n for (kind, name), n in words.items()},
        "words": sum(words.values()),
        "bytes": total,
    }


def split_varied(
    varied: Mapping[str, Sequence[Any]], constants: Sequence[str], arguments: Sequence[str]
) -> tuple[dict[str, Sequence[int]], dict[str, Sequence[Any]]]:
    """What varies, as sizes and as constants.

    Raises:
        InputError: a size that is no whole number, or at least 1.
    """
    sizes = {n: x for n, x in varied.items() if n not in constants}
    for name, values in sizes.items():
        if name not in arguments:
            continue
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"--vary {name}={value}: a size is a whole number from 1 on")
    return sizes, {n: x for n, x in varied.items() if n in constants}
