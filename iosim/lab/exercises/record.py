"""What an exercise is: a question, and how an answer is judged.

An answer is never a stored number: it is a formula over sizes, over numbers that are
computed (`iosim.lab.exercises.quantities`), or what the engine finds of a program.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from fractions import Fraction
from typing import Any

from iosim.base.errors import InputError, IosimError, closest
from iosim.base.rows import Values
from iosim.core.algorithms import algorithm
from iosim.lab.columns import Json
from iosim.lab.exercises.expression import evaluate, names_in
from iosim.lab.exercises.quantities import amount, best, bound, problem_of, quantity, smallest

HIDES = ("view", "counts", "nothing")
# Points at which a formula and a count have to agree.
POINTS = 150


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One exercise of a view.

    Attributes:
        view: where it is asked.
        question: the text; a blank line makes a paragraph.
        ask: what is typed: a ``number``, a ``formula`` over `names`, one of the `choices`, or
            ``tiles``.
        answer: a formula over `names` and `values`, or one of the choices; "" where the engine
            finds it.
        unit: what a number counts.
        names: of a formula: the sizes and tiles that it may use, each with what it is.
        values: name → number, for the answer; texts may use them: ``{words/2}``.
        count: of a formula: what it counts, ``{program, key}`` and sizes that are not requested.
        least: of choices, which are schedules: the sizes and M at which the answer moves the
            fewest words, each schedule with its best tiles.
        fit: of tiles: ``{program, M}`` and sizes; with ``best = true`` only the fewest words are
            right.
        tolerance: the share of a number by which it may differ.
        hints: shown one by one.
        reveal: why the answer is what it is.
        hides: what of the view would tell the answer, and is hidden until it is predicted: ``view``
            for all of it, ``counts`` for those of a run, or ``nothing``.
        see: settings of the view that show it, as in a link: ``algo=flash2&N=64``.
    """

    view: str
    question: str
    ask: str
    answer: str = ""
    unit: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    values: Values = field(default_factory=dict)
    count: Values = field(default_factory=dict)
    choices: tuple[str, ...] = ()
    least: Values = field(default_factory=dict)
    fit: Values = field(default_factory=dict)
    tolerance: float = 0.0
    hints: tuple[str, ...] = ()
    reveal: str = ""
    hides: str = "view"
    see: str = ""

    def data(self) -> Json:
        """The exercise as a JSON value, everything computed.

        Raises InputError where its answer makes no sense, or isn't what it counts.
        """
        values = {name: Fraction(quantity(told)) for name, told in self.values.items()}
        found = _ASKS[self.ask](self, values)
        return {
            "question": filled(self.question, values).strip(),
            "ask": self.ask,
            "answer": self.answer,
            "unit": self.unit,
            "names": dict(self.names),
            "values": {k: str(v) for k, v in values.items()},
            "choices": list(self.choices),
            "tolerance": self.tolerance,
            "hints": [filled(x, values) for x in self.hints],
            "reveal": filled(self.reveal, values),
            "hides": self.hides,
            "see": self.see,
        } | found


def filled(text: str, values: Mapping[str, Fraction]) -> str:
    """A text whose formulas in braces are numbers: whole ones exact, others of four digits.

    Raises InputError for what is not a formula.

    >>> filled("{n} words, {n/8} KiB", {"n": Fraction(4100)})
    '4,100 words, 512.5 KiB'
    """

    def number(found: re.Match[str]) -> str:
        value = evaluate(found[1], values)
        return f"{value.numerator:,}" if value.denominator == 1 else f"{float(value):.4g}"

    return re.sub(r"\{([^{}]+)\}", number, text)


def exercise(told: Values, view: str = "") -> Exercise:
    """An exercise by its table in a file.

    Args:
        view: where it is asked if it doesn't say so itself.

    Raises InputError for unknown and missing fields, and values of another type.
    """
    known = {x.name: x for x in fields(Exercise)}
    told = {"view": view} | dict(told) if view else dict(told)
    for name, value in told.items():
        if name not in known:
            raise InputError(f"unknown field {name!r}: {closest(name, known)}")
        types, what = _TYPES[str(known[name].type)]
        if not isinstance(value, types) or isinstance(value, bool):
            raise InputError(f"{name} is {value!r}: give {what}")
        if isinstance(value, list):
            if not all(isinstance(x, str) for x in value):
                raise InputError(f"{name} is {value!r}: give a list of strings")
            told[name] = tuple(value)
    needed = [x for x, f in known.items() if f.default is MISSING and f.default_factory is MISSING]
    for name in needed:
        if name not in told:
            raise InputError(f"it has no {name}: give one")
    for name, ways in (("ask", tuple(_ASKS)), ("hides", HIDES)):
        if told.get(name, ways[0]) not in ways:
            raise InputError(f"{name} is {told[name]!r}: give {', '.join(ways)}")
    return Exercise(**told)


_TYPES: dict[str, tuple[tuple[type[Any], ...], str]] = {
    "str": ((str,), "a string"),
    "float": ((int, float), "a number"),
    "tuple[str, ...]": ((list,), "a list of strings"),
    "Mapping[str, str]": ((dict,), "a table"),
    "Values": ((dict,), "a table"),
}


def _number(of: Exercise, values: Mapping[str, Fraction]) -> Json:
    if not 0 <= of.tolerance < 1:
        raise InputError(f"tolerance is {of.tolerance}: give a share, from 0 up to 1")
    if not of.answer:
        raise InputError(
            "an exercise that asks for a number has no answer: give a formula over its values"
        )
    evaluate(of.answer, values)
    return {}


def _formula(of: Exercise, values: Mapping[str, Fraction]) -> Json:
    if not of.names:
        raise InputError("an exercise that asks for a formula has no names: give a table of them")
    if not of.answer:
        raise InputError("an exercise that asks for a formula has no answer: give it")
    if unknown := names_in(of.answer) - {*of.names, *values}:
        raise InputError(
            f"the answer has an unknown name {min(unknown)!r}: {closest(min(unknown), of.names)}"
        )
    if not of.count:
        return {"count": None}
    counted = CountedBy.of(of)
    rng = random.Random(0)
    for _ in range(POINTS):
        at = counted.point(rng)
        said, is_ = evaluate(of.answer, {**values, **at}), counted.amount(at)
        if said != is_:
            where = ", ".join(f"{k} = {v}" for k, v in at.items())
            raise InputError(
                f"the answer {of.answer!r} is {said} at {where}, and {counted.program} counts "
                f"{is_} ({counted.key}): fix the answer"
            )
    return {"count": {"program": counted.program, "key": counted.key, "fixed": counted.fixed}}


@dataclass(frozen=True)
class CountedBy:
    """What a formula counts: a key of a registered schedule, over names that are requested.

    Attributes:
        tiles: names of tiles, each with its axis.
        fixed: sizes that are not requested.
    """

    program: str
    key: str
    sizes: tuple[str, ...]
    tiles: Mapping[str, str]
    fixed: Mapping[str, int]

    @classmethod
    def of(cls, asked: Exercise) -> CountedBy:
        """Raises InputError for other names than the sizes and tiles of the schedule."""
        told = dict(asked.count)
        program, key = _pop_field(told, "program"), _pop_field(told, "key")
        tiles = {p.name: p.axis for p in algorithm(program).program.params}
        sizes = tuple(x for x in asked.names if x not in tiles)
        if missing := [x for x in tiles if x not in asked.names]:
            raise InputError(f"{program} has the tile {missing[0]}, which is not in names: add it")
        axes = {a.name: a.default for a in algorithm(program).problem.axes()}
        for name in sizes:
            if name not in axes:
                raise InputError(f"{program} has no size {name!r}: {closest(name, axes)}")
        fixed = {x: told.get(x, axes[x]) for x in axes if x not in sizes}
        if missing := [x for x, value in fixed.items() if value is None]:
            raise InputError(f"{program} has the size {missing[0]}, which is not in names: add it")
        return cls(program, key, sizes, tiles, fixed)

    def point(self, rng: random.Random) -> dict[str, int]:
        """Sizes, and tiles of at most their axes."""
        most = 2 ** rng.randint(1, 12)
        at = {x: rng.randint(1, most) for x in self.sizes}
        for name, axis in self.tiles.items():
            at[name] = rng.randint(1, (at | dict(self.fixed)).get(axis, most))
        return at

    def amount(self, at: Mapping[str, int]) -> int:
        """What is counted at a point."""
        sizes = {x: at[x] for x in self.sizes} | dict(self.fixed)
        return amount(bound(self.program, {x: at[x] for x in self.tiles}, sizes), self.key)


def _choice(of: Exercise, values: Mapping[str, Fraction]) -> Json:
    if len(of.choices) < 2:
        raise InputError(f"choices are {list(of.choices)}: give two or more")
    if not of.least:
        if of.answer not in of.choices:
            raise InputError(f"the answer {of.answer!r} is not a choice: give one of the choices")
        return {"least": None}
    told = dict(of.least)
    M = evaluate(str(_pop_field(told, "M")), told)
    if M.denominator != 1 or M < 1:
        raise InputError(f"least has M = {M}: give a whole number from 1 on")
    moved = {name: _fewest(name, int(M), told) for name in of.choices}
    winners = [x for x in of.choices if moved[x] == min(moved.values())]
    if len(winners) > 1 or math.isinf(moved[winners[0]]):
        raise InputError(f"{', '.join(winners)} move equally few words at M = {M}: leave one out")
    sizes = {x: problem_of(x, told).sizes for x in of.choices}
    return {"answer": winners[0], "least": {"sizes": sizes, "M": int(M)}}


def _fewest(program: str, M: int, sizes: Values) -> float:
    """The words with the best tiles; none fit: infinitely many."""
    return math.inf if smallest(program, **sizes) > M else best(program, M, sizes).total_words


def _tiles(of: Exercise, values: Mapping[str, Fraction]) -> Json:
    told = dict(of.fit)
    program, M, only = _pop_field(told, "program"), _pop_field(told, "M"), told.pop("best", False)
    problem = problem_of(program, told)
    found = best(program, M, told)  # raises where nothing fits
    params = [p.name for p in algorithm(program).program.params]
    return {
        "fit": {
            "program": program,
            "M": M,
            "sizes": problem.sizes,
            "best": bool(only),
            "params": params,
            "tiles": found.tiles,
        }
    }


def _pop_field(told: Json, name: str) -> Any:
    if name not in told:
        raise InputError(f"{told} has no {name}: give it")
    return told.pop(name)


_ASKS: dict[str, Callable[[Exercise, Mapping[str, Fraction]], Json]] = {
    "number": _number,
    "formula": _formula,
    "choice": _choice,
    "tiles": _tiles,
}


def told_of(what: str, table: Any, view: str) -> tuple[str, Json]:
    """The view and the JSON value of a table; errors begin with what it is."""
    try:
        if not isinstance(table, Mapping):
            raise InputError(f"{table!r} is not a table: write [[exercise]] above its fields")
        one = exercise(table, view)
        return one.view, one.data()
    except IosimError as error:
        raise InputError(f"{what}: {error}") from None
