"""Tiles that a GPU can hold: powers of two, holds whole or empty."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

from iosim.errors import CapacityError
from iosim.program.ir import Loop, Op, Param, Program, nodes
from iosim.tiling import Tiling, optimal_tiles


def gpu_tiles(program: Program, problem: Any, M: int) -> Tiling:
    """The tiles of powers of two (16 or more) that move the fewest words within M words.

    A stationary part whose blocks are known only when the kernel runs stays empty.
    A tile that is an operand is never taken in blocks.
    A buffer that is used block by block becomes that many blocks, in an unrolled loop; of the
    tilings that move the fewest words, one whose stationary parts are single blocks is preferred.

    Raises CapacityError, with the smallest M that works, if nothing fits.
    """
    empty = dict.fromkeys(_never_held(program), 0)
    empty |= {x: problem.sizes[axis] for x, axis in _over_tiles(program)}
    try:
        best = optimal_tiles(program, problem, M, lattice="pow2", fixed=empty)
    except CapacityError as error:
        raise CapacityError(f"{error}; a GPU tile has sides of at least 16") from None
    holds = [p for p in program.params if p.least == 0 and p.name not in empty]
    for whole in itertools.product((False, True), repeat=len(holds)) if holds else ():
        fixed = dict(empty)
        for hold, full in zip(holds, whole, strict=True):
            fixed[hold.name] = problem.sizes[hold.axis] if full else 0
            if full:
                fixed |= dict.fromkeys(_over(program, hold), problem.sizes[hold.axis])
        with contextlib.suppress(CapacityError):
            found = optimal_tiles(program, problem, M, lattice="pow2", fixed=fixed)
            if found.total_words <= best.total_words:
                best = found
    return best


def _never_held(program: Program) -> set[str]:
    """Holds whose parts are cut by a loop that follows another tile: no block is cut so."""
    cut = {ref.part for op in nodes(program.body) if isinstance(op, Op) for ref in op.operands}
    found = {
        name
        for loop in nodes(program.body)
        if isinstance(loop, Loop) and loop.span.edges and loop.span.within and loop.tile in cut
        for name, _ in loop.span.within[1].terms
    }
    return {p.name for p in program.params if p.least == 0 and p.name in found}


def _over_tiles(program: Program) -> set[tuple[str, str]]:
    """The steps of loops over an outer tile, and their axes: a block value cannot be cut."""
    loops = (n for n in nodes(program.body) if isinstance(n, Loop))
    return {(x.step, x.tile.axis) for x in loops if x.tile.of is not None and x.step is not None}


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
