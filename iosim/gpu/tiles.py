"""Tiles that a GPU can hold: powers of two, holds whole or empty, parts of a held tile whole."""

from __future__ import annotations

import itertools
from typing import Any

from iosim.errors import CapacityError
from iosim.program.ir import Loop, Param, Program, nodes
from iosim.tiling import Tiling, optimal_tiles


def gpu_tiles(program: Program, problem: Any, M: int) -> Tiling:
    """The tiles of powers of two (16 or more) that move the fewest words within M words.

    A block value cannot be cut, so every hold is either 0 or its whole axis, and then the loop
    over it takes one step: each combination is searched, and the one with the fewest words wins.

    Raises CapacityError, with the smallest M that works, if no combination fits.
    """
    holds = [p for p in program.params if p.least == 0]
    best: Tiling | None = None
    reasons: list[CapacityError] = []
    for whole in itertools.product((False, True), repeat=len(holds)):
        fixed: dict[str, int] = {}
        for hold, full in zip(holds, whole, strict=True):
            fixed[hold.name] = problem.sizes[hold.axis] if full else 0
            if full:
                fixed |= dict.fromkeys(_over(program, hold), problem.sizes[hold.axis])
        try:
            found = optimal_tiles(program, problem, M, lattice="pow2", fixed=fixed)
        except CapacityError as error:
            reasons.append(error)
            continue
        if best is None or found.total_words < best.total_words:
            best = found
    if best is None:
        raise CapacityError(f"{reasons[0]}; a GPU tile has sides of at least 16")
    return best


def _over(program: Program, hold: Param) -> list[str]:
    """The steps of the loops that run over the held part of the axis."""
    return [
        loop.step
        for loop in nodes(program.body)
        if isinstance(loop, Loop)
        and loop.step is not None
        and loop.span.axis == hold.axis
        and any(name == hold.name for name, _ in loop.span.stop.terms)
    ]
