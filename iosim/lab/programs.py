"""A program as the lab's page takes it: one JSON value, which is evaluated there.

The value holds what Python knows of a program, so that the page needs no formula of its own:

* ``tree``: the program as `iosim.core.program.canonical` tells it;
* ``listing``: the lines of `iosim show`, each with the path of its node in the tree;
* ``closed``: the closed forms of words and of the peak, as polynomials over a table of ``atoms``;
* ``plans``: what is proven of the search for tiles, by which the page searches too.

A polynomial is a list of terms ``[coefficient, [atom, …]]``, whose atoms are numbers of entries in
the table: names of sizes and tiles, or records of `iosim.core.counting.poly`.

`page` and `iosim.lab.data.watch` call it.  Keys are typed in ``front/``;
``tests/browser/test_engine.py`` compares what the page makes of them with Python.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iosim.base.errors import InputError
from iosim.base.rows import Values
from iosim.core.algorithms import ALGORITHMS, Algorithm, algorithm
from iosim.core.counting.closed import Level, close
from iosim.core.counting.legend import legend
from iosim.core.counting.poly import Atom, Poly
from iosim.core.counting.show import in_columns, listing
from iosim.core.problem import PROBLEMS, Form, Problem
from iosim.core.program.block_masks import masks
from iosim.core.program.canonical import as_data
from iosim.core.program.ir import Load, Loop, Node, Program, Store
from iosim.core.program.space import axes
from iosim.core.tiling.candidates import DistinctTrips, candidates_of
from iosim.core.tiling.endpoint_bounds import Ends, Leaning
from iosim.core.tiling.lines import OccupancyLine, tilted
from iosim.core.tiling.plan import Plan, plans
from iosim.core.tiling.stationary_bounds import filled_holds, hold_lines
from iosim.lab.columns import Json

# Of the value below; it rises when a page that reads it would have to change.
VERSION = 1


def program_data(program: Program, says: str = "", options: tuple[str, ...] = ()) -> Json:
    """A program with its closed forms as a JSON value.

    Args:
        says: what it is, in one line; by default what the registry says of its name.
        options: names of the problem's options that it was traced for.

    Raises:
        InputError: it is no program.
        ProgramError: it has no closed form.

    >>> from iosim import algorithm
    >>> told = program_data(algorithm("copy").program)
    >>> told["sizes"], told["closed"]["counts"], told["atoms"]
    (['n'], {'load X': [[1, [0]]], 'store Y': [[1, [0]]]}, ['n', 'B'])
    >>> told["listing"][2]
    {'code': '    load  x ← X[i]', 'note': '# |i| words, in all n', 'path': [0, 0]}
    """
    if not isinstance(program, Program):
        raise InputError(
            f"the lab takes a program, got {type(program).__name__}: pass its .program"
        )
    if not says and program.name in ALGORITHMS:
        says = algorithm(program.name).title
    table = _Atoms()
    closed = close(program)
    lines = list(listing(program))
    told = {
        "version": VERSION,
        "name": program.name,
        "says": says,
        "options": list(options),
        "sizes": _sizes(program),
        "roles": _roles(program),
        "tree": as_data(program),
        "listing": _listing(program, lines),
        "signs": [list(line) for line in legend(program, in_columns(lines))],
        "masks": {
            name: [{"axis": side.axis, "step": side.step} for side in sides]
            for name, sides in masks(program).items()
        },
        "closed": {
            "counts": {f"{way} {x}": table.poly(p) for (way, x), p in closed.counts.items()},
            "peak": [table.level(level) for level in closed.peak],
        },
        "plans": _plans(program, table),
    }
    return told | {"atoms": table.told}


def algorithm_data(of: Algorithm, problem: Problem | Form | None = None) -> Json:
    """The program of an algorithm for a problem, or for all problems of one form.

    Raises InputError for options that it doesn't support.

    >>> from iosim import Attention, algorithm
    >>> told = algorithm_data(algorithm("flash2"), Attention(64, 8, causal=True))
    >>> told["options"], told["plans"][0]["searched"]
    (['causal'], ['B_r'])
    """
    form = of.plain_form if problem is None else problem
    options = form.options if isinstance(form, Form) else form.form.options
    return program_data(of.program_for(form), of.title, options)


@dataclass
class _Atoms:
    """The table of atoms: each is written once, and polynomials give its number."""

    told: list[Any] = field(default_factory=list)
    _places: dict[Atom, int] = field(default_factory=dict)

    def poly(self, poly: Poly) -> list[Any]:
        """The terms of a polynomial."""
        return [[c, [self.atom(x) for x in monomial]] for monomial, c in poly.terms.items()]

    def atom(self, atom: Atom) -> int:
        """The number of an atom."""
        if atom not in self._places:
            self._places[atom] = len(self.told)
            self.told.append(as_data(atom))
        return self._places[atom]

    def level(self, level: Level) -> Json:
        """A candidate for the peak."""
        return {
            "words": self.poly(level.words),
            "runs": [as_data(x) for x in level.conditions],
            "over": [_head(loop) for loop in level.over],
            "held": list(level.held),
        }

    def line(self, line: OccupancyLine, plan: Plan) -> Json:
        """An occupancy as a line in a tile."""
        base, tilt = tilted(line, plan.ends.hold if plan.ends else None)
        return {
            "base": self.poly(base),
            "tilt": self.poly(tilt),
            "slope": self.poly(line.slope),
            "atom": None if line.atom is None else self.atom(line.atom),
            "runs": sorted((as_data(x) for x in line.runs), key=str),
            "level": None if line.level is None else plan.levels.index(line.level),
        }

    def leaning(self, words: Leaning) -> list[Any]:
        """Words by a stationary part: flat, by the part, and by the rest of its axis."""
        return [self.poly(x) for x in (words.flat, words.by_hold, words.by_rest)]

    def add_edge_bounds(self, ends: Ends) -> Json:
        """Bounds at the ends of a stationary part."""
        return {
            "hold": ends.hold,
            "axis": ends.axis,
            "words": self.leaning(ends.words),
            "shared": {k: [self.leaning(x) for x in two] for k, two in ends.shared.items()},
        }


def _head(loop: Loop) -> Json:
    return {"tile": as_data(loop.tile), "span": as_data(loop.span), "step": loop.step}


def _sizes(program: Program) -> list[str]:
    """What binding takes besides tiles: the tensors' axes in their order, others, and limits."""
    known = axes(program)
    ordered = dict.fromkeys(x for t in program.tensors for x in t.axes if x in known)
    return [*ordered, *(x for x in known if x not in ordered), *program.limits]


def _roles(program: Program) -> dict[str, str]:
    """Whether a tensor is an input, an output or scratch."""
    made: dict[type[Any], set[str]] = {Load: set(), Store: set()}
    for node in program.nodes:
        if isinstance(node, (Load, Store)):
            made[type(node)].add(node.tensor)
    outputs = made[Store] - made[Load]
    if program.problem in PROBLEMS:
        outputs = {t.name for t in PROBLEMS[program.problem].outputs}
    return {
        t.name: "output" if t.name in outputs else "scratch" if t.name in made[Store] else "input"
        for t in program.tensors
    }


def _listing(program: Program, lines: list[tuple[str, str]]) -> list[Json]:
    places: Iterator[list[int]] = itertools.chain([[]], _paths(program.body, []))
    return [
        {"code": code, "note": note, "path": path}
        for (code, note), path in zip(lines, places, strict=True)
    ]


def _paths(body: tuple[Node, ...], at: list[int]) -> Iterator[list[int]]:
    """The path of every node, parents first: positions in the bodies that lead to it."""
    for k, node in enumerate(body):
        yield [*at, k]
        if isinstance(node, Loop):
            yield from _paths(node.body, [*at, k])


def _plans(program: Program, table: _Atoms) -> list[Json] | None:
    """What the search for tiles may rely on; None with a block mask, whose tiles are given."""
    if masks(program):
        return None
    return [_plan(program, plan, table) for plan in plans(program, frozenset())]


def _plan(program: Program, plan: Plan, table: _Atoms) -> Json:
    names = {*plan.searched, *plan.spare}
    lines: Values = plan.lines
    return {
        "total": table.poly(plan.total),
        "peak": [table.level(level) for level in plan.levels],
        "constraints": [as_data(x) for x in plan.constraints],
        "searched": list(plan.searched),
        "spare": list(plan.spare),
        "solvable": list(plan.solvable),
        "lowest": sorted(plan.lowest),
        "falls": sorted(plan.falls),
        "candidates": {
            p.name: "trips"
            if isinstance(candidates_of(program, p, np.ones(1, np.int64), "all"), DistinctTrips)
            else "every"
            for p in program.params
            if p.name in names
        },
        "lines": {
            name: None if found is None else [table.line(line, plan) for line in found]
            for name, found in lines.items()
        },
        "reaches": {
            hold: [
                {"flat": table.poly(flat), "tilt": table.poly(tilt), "level": k}
                for k, flat, tilt in hold_lines(plan.levels, hold)
            ]
            for hold in filled_holds(plan)
        },
        "ends": None if plan.ends is None else table.add_edge_bounds(plan.ends),
    }
