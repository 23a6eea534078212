"""Choosing tiles by the name of a rule or by value: what the command line and sweeps share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iosim.algorithms import Algorithm, all_algorithms
from iosim.counting.numbers import peak
from iosim.errors import InputError
from iosim.program.walk import Instance, bind
from iosim.tiling import Lattice, optimal_tiles
from iosim.units import parse_tiles


@dataclass(frozen=True)
class Choice:
    """Tiles, the program bound to them, and a remark for the user where one is due."""

    instance: Instance
    tiles: dict[str, int]
    remark: str = ""


def choose_tiles(
    algorithm: Algorithm, problem: Any, M: int, how: str = "auto", lattice: Lattice = "all"
) -> Choice:
    """Tiles by name or by value.

    Args:
        how: ``auto`` (the optimum), the name of one of the algorithm's published rules
            (``paper``), or values (``B_r=64,B_c=64``; parameters left out are chosen optimally).

    Raises:
        CapacityError: the tiles don't fit, or none would; the smallest M that works is named.
        InputError: unknown rules, parameters or values.

    A published rule is taken at its word: where its tiles need more than M words (the papers
    leave out the small buffers) the choice says so in its remark instead of raising.
    """
    program = algorithm.program
    if how in algorithm.rules:
        tiles = algorithm.rules[how](problem, M)
        instance = bind(program, problem.sizes, tiles)
        need = peak(instance)
        remark = (
            f"the {how} tiles of {algorithm.name} hold {need} words, {need / M:.2f} M: the "
            "published rule leaves some buffers out"
        )
        return Choice(instance, _kept(instance), remark if need > M else "")
    if "=" not in how and how != "auto":
        having = [a.name for a in all_algorithms() if how in a.rules]
        where = f"{' and '.join(having)} have it; here " if having else ""
        known = ", ".join(["auto", *algorithm.rules])
        raise InputError(
            f"{algorithm.name} has no tile rule {how!r}: {where}use {known} or values like B_r=64"
        )
    fixed = {} if how == "auto" else parse_tiles(how)
    if set(fixed) == {p.name for p in program.params}:
        # Nothing is left to choose: no search, whatever the sizes.
        instance = bind(program, problem.sizes, fixed)
        if peak(instance) <= M:
            return Choice(instance, _kept(instance))
    best = optimal_tiles(program, problem, M, lattice=lattice, fixed=fixed)
    instance = bind(program, problem.sizes, best.tiles)
    return Choice(instance, _kept(instance))


def _kept(instance: Instance) -> dict[str, int]:
    """Tiles as they are used: clipped to their axis."""
    env = instance.env
    return {p.name: env[p.name] for p in instance.program.params}
