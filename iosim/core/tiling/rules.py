"""Choosing tiles by the name of a rule or by value: what the command line and sweeps share.

A rule that every algorithm has is a line of `RULES`; an algorithm brings its published ones itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.base.arrays import Bools, Floats, Ints
from iosim.base.errors import CapacityError, InputError
from iosim.base.rows import Values
from iosim.core.algorithms import Algorithm, all_algorithms
from iosim.core.counting.numbers import peak
from iosim.core.problem import Family
from iosim.core.program.block_masks import masks as masks_of
from iosim.core.program.ir import Program
from iosim.core.program.walk import Instance, bind
from iosim.core.tiling import optimal_tiles, optimal_tiles_many
from iosim.core.tiling.gpu import gpu_tiles
from iosim.core.units import parse_tiles, tiles_like

Many = Callable[[Program, Values, Ints], tuple[dict[str, Ints], Bools]]


@dataclass(frozen=True)
class TileRule:
    """A way to choose all tiles of an algorithm.

    Attributes:
        name: by which it is chosen.
        one: ``(algorithm, problem, M)`` → tiles; raises CapacityError where none fit.
        many: ``(program, columns, M)`` → tiles in arrays, and where there are any; None where
            points are evaluated one by one.
        exceeds: its tiles may need more than M, which is said in a remark.
    """

    name: str
    one: Callable[[Algorithm, Any, int], dict[str, int]]
    many: Many | None = None
    exceeds: bool = False


RULES: dict[str, TileRule] = {
    rule.name: rule
    for rule in (
        TileRule(
            "auto",
            lambda a, problem, M: optimal_tiles(a.program_for(problem), problem, M).tiles,
            lambda program, columns, M: optimal_tiles_many(program, columns, M),
        ),
        TileRule("gpu", lambda a, problem, M: gpu_tiles(a.program_for(problem), problem, M).tiles),
    )
}


def rule_of(algorithm: Algorithm, name: str) -> TileRule:
    """A rule of all algorithms, or one that was published for this one.

    Raises InputError for an unknown name, with those there are.
    """
    if name in RULES:
        return RULES[name]
    if name in algorithm.rules:
        published = algorithm.rules[name]
        return TileRule(name, lambda _, problem, M: published(problem, M), exceeds=True)
    having = [a.name for a in all_algorithms() if name in a.rules]
    where = f"{' and '.join(having)} have it; here " if having else ""
    known = ", ".join([*RULES, *algorithm.rules])
    like = tiles_like([p.name for p in algorithm.program.params], name)
    raise InputError(f"{algorithm.name} has no tile rule {name!r}: {where}use {known}, or {like}")


@dataclass(frozen=True)
class Choice:
    """Tiles, the program bound to them, and a remark for the user where one is due."""

    instance: Instance
    tiles: dict[str, int]
    remark: str = ""


def choose_tiles(
    algorithm: Algorithm,
    problem: Any,
    M: int,
    how: str = "auto",
    masks: Values | None = None,
) -> Choice:
    """Tiles by name or by value.

    Args:
        how: ``auto`` (the optimum), ``gpu`` (powers of two), the name of one of the algorithm's
            published rules (``paper``), or values (``B_r=64,B_c=64``; parameters left out are
            chosen optimally).
        masks: block masks, for `bind`; all tiles must be given with them.

    Raises:
        CapacityError: the tiles don't fit, or none would; the smallest M that works is named.
        InputError: unknown rules, parameters or values; the problem has options that the
            algorithm doesn't support.

    A published rule is taken at its word: where its tiles need more than M words (the papers
    leave out the small buffers) the choice says so in its remark instead of raising.
    """
    program = algorithm.program_for(problem)
    if masks and not masks_of(program):
        raise InputError(f"{program.name} takes no block mask: leave {', '.join(masks)} out")
    if "=" not in how:
        rule = rule_of(algorithm, how)
        instance = bind(program, problem.sizes, rule.one(algorithm, problem, M))
        need = peak(instance)
        if not rule.exceeds or need <= M:
            return Choice(instance, _clipped(instance))
        return Choice(
            instance,
            _clipped(instance),
            (
                f"the {how} tiles of {algorithm.name} hold {need} words, {need / M:.2f} M: the "
                "published rule leaves some buffers out"
            ),
        )
    names = [p.name for p in program.params]
    fixed = parse_tiles(how, names)
    if set(fixed) == set(names):
        # Nothing is left to choose: no search, whatever the sizes.
        instance = bind(program, problem.sizes, fixed, masks)
        if (need := peak(instance)) <= M:
            return Choice(instance, _clipped(instance))
        if instance.masks:
            raise CapacityError(
                f"{program.name} needs {need} words with these tiles and this mask, and M is {M}: "
                f"use M >= {need}"
            )
    best = optimal_tiles(program, problem, M, fixed=fixed)
    instance = bind(program, problem.sizes, best.tiles)
    return Choice(instance, _clipped(instance))


def _clipped(instance: Instance) -> dict[str, int]:
    """Tiles as they are used: clipped to their axis."""
    env = instance.env
    return {p.name: env[p.name] for p in instance.program.params}


def choose_many(
    algorithm: Algorithm, how: str, family: Family, columns: Values, M: Ints
) -> tuple[dict[str, Ints], Bools, Floats]:
    """Tiles at many points, clipped to their axes.

    Args:
        how: the name of a rule, or values, which the columns hold then.
        family: the problems.
        columns: an int64 array for every size of the family, and for each tile that is given.

    Returns:
        ``{parameter: values}``, where there are any tiles, and the seconds that each point took.
    """
    program, n = algorithm.program_for(family.form), len(M)
    names = [p.name for p in program.params]
    extents = family.extents(columns)
    used = {x: columns.get(x, np.zeros(n, np.int64)) for x in names}
    found, seconds = np.ones(n, bool), np.zeros(n)
    rule = RULES["auto"] if "=" in how else rule_of(algorithm, how)
    start = time.perf_counter()
    if used.keys() <= columns.keys():
        pass  # tiles that are all given are taken whether they fit or not
    elif rule.many is not None:
        given = {x: columns[x] for x in names if x in columns}
        used, found = rule.many(program, extents | given, M)
        seconds += (time.perf_counter() - start) / max(1, n)
    else:
        for k in range(n):
            start = time.perf_counter()
            problem = family.at({x: int(columns[x][k]) for x in family.names})
            try:
                for name, value in rule.one(algorithm, problem, int(M[k])).items():
                    used[name][k] = value
            except CapacityError:
                found[k] = False
            seconds[k] = time.perf_counter() - start
    clipped = {p.name: np.minimum(used[p.name], p.most(extents)) for p in program.params}
    return clipped, found, seconds
