"""A schedule step by step: which programs travel, with which fields.

A schedule is traced for each set of options that the view offers.  Those programs share most of
their text, so they travel packed: JSON, compressed, in base64.  Plain ones are the page's own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iosim.base.reading import read_toml
from iosim.core.algorithms import ALGORITHMS, Algorithm, algorithm
from iosim.core.counting.closed import close
from iosim.core.counting.numbers import peak
from iosim.core.problem import LIMITS_SAY, PROBLEMS
from iosim.core.problem.form import LIMITS
from iosim.core.program.ir import Program
from iosim.core.program.walk import Instance
from iosim.kernel.launch import KernelCall
from iosim.lab.columns import Json
from iosim.lab.data.launch import launch_data
from iosim.lab.data.traced import traced_sizes
from iosim.lab.packed import pack
from iosim.lab.programs import algorithm_data, program_data


@dataclass(frozen=True)
class Field:
    """A number of the view: where its slider begins and ends, and what it is at first."""

    first: int
    least: int
    most: int


_KNOWN = read_toml(Path(__file__).with_suffix(".toml"))
FIELDS = {name: Field(**known) for name, known in _KNOWN["fields"].items()}
# Moments worth a link: a name, and what the link says.
EXAMPLES: dict[str, dict[str, str]] = _KNOWN["examples"]
# What is seen of the scores: the choices, and the options that each one gives.
MASKS: dict[str, tuple[str, ...]] = {
    "all columns": (),
    "causal": ("causal",),
    "causal window": ("causal", "left"),
    "window": ("left", "right"),
}
# Options that have programs of their own, both and, but in a window, each; others come with all
# sizes, or alone.
EXACT = ("N_k", "kv_heads")
# Blocks of a side of the block masks that can be chosen.
SQUARE = 16
# Of these kinds of problems a program needs no data to be bound but a block mask.
KINDS = ("attention", "attention-backward", "block-sparse", "matmul", "paged", "copy")
# Of these there are programs without options and with all, for each mask: others are filled, which
# keeps the page small.
FILLED = ("attention-backward",)


def data(own: Sequence[str] = (), launches: Sequence[KernelCall] = ()) -> Json:
    """What the view shows; it begins with the first launch, or the first schedule of a file.

    Args:
        own: schedules in files, ``FILE.py:FUNCTION``.
        launches: of Triton kernels.

    ``options`` are what problems declare.  ``schedules`` are those of `KINDS`, each with the
    options that it can be watched with, and for sets of them where its program is (a name of the
    page's programs, or a place among the ``packed`` ones) and how its sizes follow from the fields.
    A set that has no program of its own is watched with one that is given more: those options of
    the schedule that are ``fills``, which change no word where each is what it follows, or 0.
    ``blocks`` are block masks to choose from, row by row.
    """
    packed: list[Json] = []
    schedules = [
        _schedule(algorithm(name), packed)
        for name in (*ALGORITHMS, *own)
        if algorithm(name).problem.kind in KINDS
    ]
    shown = [launch_data(x) for x in launches]
    first = [*(x["name"] for x in shown), *own, "flash2"][0]
    return {
        "fields": {name: vars(field) for name, field in FIELDS.items()},
        "says": _says(),
        "masks": {name: list(given) for name, given in MASKS.items()},
        "options": _options(),
        "blocks": patterns(),
        "schedules": schedules,
        "packed": pack(packed),
        "examples": [{"name": name, "params": said} for name, said in EXAMPLES.items()],
        "launches": shown,
        "start": {"algorithm": first, "sizes": {}, "tiles": None},
    }


def data_of(instance: Instance, M: int | None = None) -> Json:
    """What the view shows of one instance: its program, with its sizes and tiles to begin with.

    Args:
        instance: a program whose sizes and tiles are numbers.
        M: words of fast memory; by default what the instance holds at most.

    >>> from iosim import Attention, algorithm, bind
    >>> program = algorithm("flash2").program
    >>> told = data_of(bind(program, Attention(64, 8).sizes, {"B_r": 16, "B_c": 4}))
    >>> told["start"]["sizes"], told["start"]["tiles"]
    ({'heads': 1, 'N': 64, 'd': 8, 'M': 384}, {'B_r': 16, 'B_c': 4})
    """
    program, env = instance.program, instance.env
    told = program_data(program)
    tiles = {p.name: env[p.name] for p in program.params}
    sizes = {name: env[name] for name in told["sizes"]}
    held = peak(instance)
    fields = {
        name: Field(value, 0 if name in program.limits else 1, max(FIELDS["N"].most, value))
        for name, value in sizes.items()
    }
    fields["M"] = Field(held if M is None else M, 1, max(FIELDS["M"].most, held, M or 0))
    return {
        "fields": {name: vars(field) for name, field in fields.items()},
        "says": _says(),
        "masks": {},
        "options": {},
        "blocks": {},
        "schedules": [
            {
                "name": program.name,
                "title": told["says"],
                "fields": list(sizes),
                "options": [],
                "needs": [],
                "fills": [],
                "forms": {
                    "": {
                        "program": 0,
                        "sizes": {name: name for name in sizes},
                        "totals": _totals(program),
                    }
                },
            }
        ],
        "packed": pack([told]),
        "examples": [],
        "launches": [],
        "start": {
            "algorithm": program.name,
            "tiles": tiles,
            "sizes": sizes | {"M": fields["M"].first},
            "blocks": {name: mask.array.tolist() for name, mask in instance.masks},
        },
    }


def data_of_launch(call: KernelCall) -> Json:
    """What the view shows of one launch of a Triton kernel, and nothing else."""
    shown = launch_data(call)
    empty: Json = {key: {} for key in ("fields", "says", "masks", "options", "blocks")}
    start = {"algorithm": shown["name"], "sizes": {}, "tiles": None}
    lists: Json = {"schedules": [], "examples": [], "packed": pack([])}
    return empty | lists | {"launches": [shown], "start": start}


def _schedule(of: Algorithm, packed: list[Json]) -> Json:
    """A schedule with its fields, the options that it takes, and its forms."""
    forms = dict(_forms(of, packed))
    return {
        "name": of.name,
        "title": of.title,
        "fields": [axis.name for axis in of.problem.axes()],
        "options": sorted({option for key in forms for option in key.split()}),
        "needs": list(of.needs),
        "fills": _fills(of),
        "forms": forms,
    }


def _fills(of: Algorithm) -> list[str]:
    """The numbers that may be given without a change: with them it has the same tiles."""
    known = [x.name for x in of.problem.options() if x.follows or x.kind == "count"]
    tiles = {p.name for p in of.program.params}
    return [
        x
        for x in known
        if x not in of.lacks
        and tiles == {p.name for p in of.program_for(_example(of, {*of.needs, x})).params}
    ]


def _forms(of: Algorithm, packed: list[Json]) -> Iterator[tuple[str, Json]]:
    """Options, joined, and what the page needs to bind the program that is traced for them."""
    for given in _list_options(of):
        form = _example(of, set(given)).form
        if not of.supports(form):
            continue
        plain = form == of.plain_form
        if not plain:
            packed.append(algorithm_data(of, form))
        yield (
            " ".join(given),
            {
                "program": of.name if plain else len(packed) - 1,
                "sizes": traced_sizes(of.problem, form),
                "totals": _totals(of.program_for(form)),
            },
        )


def _list_options(of: Algorithm) -> Iterable[tuple[str, ...]]:
    """The sets of options for which a program travels, each sorted and once."""
    options = {x.name: x for x in of.problem.options() if x.name not in of.lacks}
    masks = MASKS.values() if "window" in options else list(MASKS.values())[: 2 if options else 1]
    sizes = [x for x in options if options[x].kind == "size"]
    fills = _fills(of)
    found: dict[tuple[str, ...], None] = {}
    for mask in masks:
        sinks = ["sinks"] if "left" in mask and "sinks" in options else []
        turned = ["align"] if mask and "align" in options else []
        extra = tuple(x for x in EXACT if x in options)
        windowed, filled = bool({*mask} & {*LIMITS}), of.problem.kind in FILLED
        some: list[tuple[str, ...]] = [] if windowed and filled else [()]
        if not filled:
            some += [*((x,) for x in extra if not windowed), extra]
            some += [(x,) for x in (*sinks, *(() if mask else sizes))]
        apart = [x for x in sizes if x not in fills]
        for without in ((), *((x,) for x in apart)):
            wide = [x for x in sizes if x not in without] + sinks
            some += [tuple(wide), *([(*wide, *turned)] if turned else [])]
        found |= dict.fromkeys(tuple(sorted({*mask, *more})) for more in some)
    return found


def _example(of: Algorithm, given: set[str]) -> Any:
    """Any problem with these options."""
    told: Json = {axis.name: 8 for axis in of.problem.axes()}
    of_kind = {"size": 8, "count": 1, "flag": True}
    for x in of.problem.options():
        if x.name in given:
            told[x.name] = x.choices[-1] if x.kind == "choice" else of_kind[x.kind]
    if given & {*LIMITS}:
        told["window"] = tuple(1 if x in given else None for x in LIMITS)
    return of.problem(**told)


def _options() -> Json:
    """Name → what a problem declares of an option that has a field of its own."""
    return {
        x.name: {
            "kind": x.kind,
            "follows": x.follows,
            "divides": x.divides,
            "choices": list(x.choices),
        }
        for problem in PROBLEMS.values()
        if problem.kind in KINDS
        for x in problem.options()
        if x.kind in ("size", "count", "choice")
    }


def patterns() -> dict[str, list[str]]:
    """Block masks to choose from: name → rows of a square, a 1 for each block that is marked.

    A mask of another shape takes its blocks from the same places of the square.

    >>> [row[:6] for row in patterns()["band"][:3]]
    ['110000', '111000', '011100']
    """
    i, j = np.indices((SQUARE, SQUARE))
    band = np.abs(i - j) <= 1
    random = np.random.default_rng(0).random((SQUARE, SQUARE)) < 0.25
    found = {
        "band": band,
        "band, first row and column": band | (i == 0) | (j == 0),
        "band, every fourth column": band | (j % 4 == 0),
        "every fourth diagonal": (i - j) % 4 == 0,
        "random, one in four": random,
        "lower triangle": j <= i,
        "all": band | True,
    }
    return {
        name: ["".join("01"[x] for x in row) for row in marks.astype(int)]
        for name, marks in found.items()
    }


def _totals(program: Program) -> dict[str, str]:
    """The closed form of every counter, as people read it."""
    return {f"{way} {x}": str(words) for (way, x), words in close(program).counts.items()}


@functools.cache
def _says() -> Mapping[str, str]:
    """What each field is."""
    found = {"M": "words of fast memory"} | dict(LIMITS_SAY)
    for kind in PROBLEMS.values():
        found |= {option.name: option.says for option in kind.options()}
        found = {axis.name: axis.says for axis in kind.axes()} | found
    return found
