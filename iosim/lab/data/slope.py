"""The ski-slope: words against M for every schedule, with bounds.

A preset is a table: the exact words of every schedule with its optimal tiles, and every bound, at
the sizes of M where the page's cursor stops.  Between them the page searches for tiles itself, and
for a problem that is typed everywhere: bounds, marks and sizes of M travel as formulas for that.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from iosim.bounds import BOUNDS, Bound
from iosim.bounds.classes import WIDE, covers_wide
from iosim.core.algorithms import Algorithm, all_algorithms
from iosim.core.counting.numbers import count_many, peak_many
from iosim.core.problem import Attention
from iosim.core.problem.form import LIMITS
from iosim.core.program.ir import Program
from iosim.core.tiling import optimal_tiles_many, smallest_capacity
from iosim.lab.columns import Json
from iosim.lab.data.traced import Formulas, TracedTerms, traced_bound
from iosim.report.shipped import shipped
from iosim.report.table import read_csv

# The table of the README's figure, which `iosim verify` writes.
FIGURE = Path("img") / "verify.csv"
# This many M of a table are in equal ratios, from its first to its last.
LADDER = 161
# Sizes that can be typed: the first value, the least and the most.
FIELDS = {
    "N": (2048, 1, 2**20),
    "d": (64, 1, 1024),
    "heads": (1, 1, 1024),
    "N_k": (2048, 1, 2**20),
    "d_v": (64, 1, 1024),
    "kv_heads": (1, 1, 1024),
    "left": (256, 0, 2**20),
    "right": (256, 0, 2**20),
    "sinks": (0, 0, 2**20),
}
# Any form with options.
MASKED = Attention(8, 8, causal=True).form
# Of these options a formula gets whether they are given.
FLAGS = (*LIMITS, "causal", "align")
# Into this many parts a range of M is cut where the crossover is looked for.
PARTS = 256


@dataclass(frozen=True)
class Preset:
    """One problem of the view: its name, N and d; with `figure`, runs are read from that table."""

    name: str
    N: int
    d: int
    figure: Path | None = None


PRESETS: tuple[Preset, ...] = (
    Preset("README's figure, GPT-2 medium", 1024, 64, FIGURE),
    Preset("Llama 3 8B at 8,192 tokens", 8192, 128),
    Preset("Experiment E01", 4096, 32),
    Preset("Experiment E01", 4096, 64),
    Preset("Experiment E01", 4096, 128),
    Preset("By hand", 16, 4),
)

# Marks on the axis of M: their name, where they are, and what happens there.
MARKS: tuple[tuple[str, Any, str], ...] = (
    (
        "d²",
        lambda p: p.d**2,
        "Below M = d² it is cheapest to store the N² scores once, between two matrix products: "
        "words fall like N²d/√M. Above, a block of rows of Q and of O is long enough that K and V "
        "can stream past it again and again, and no score leaves fast memory: words fall like "
        "N²d²/M. Near d² the two cost the same.",
    ),
    (
        "4d²",
        lambda p: 4 * p.d**2,
        "At M = 4d² a separate product QKᵀ needs 2N²d/√M = N² words, as many as it has scores: "
        "the bound that pays N² to store them becomes 0, and from here on only the bound for "
        "large M is left. FlashAttention's rule ⌈M/4d⌉ is d here, so above it the min with d "
        "begins to matter.",
    ),
    (
        "Nd",
        lambda p: p.N * p.d,
        "Nd words are one of the matrices Q, K, V, O. From a little above 2Nd on, two of them "
        "stay, every matrix crosses once, and the fewest words are at their floor, 4Nd.",
    ),
)


def data() -> Json:
    """What the view shows: presets with curves, bounds and marks; what schedules and classes are.

    Words are whole numbers below 2⁵³, which JSON and a browser keep exactly.
    """
    form = Attention.plain_form()
    return {
        "classes": {klass.name: klass.says for klass in WIDE},
        "schedules": [_to_dict(a) for a in all_algorithms(form.kind)],
        "bounds": [_stated(b) for b in _bounds()],
        "presets": [preset_data(preset) for preset in PRESETS],
        "own": own_data(),
    }


def own_data() -> Json:
    """What the page needs to make a table for sizes and options that a reader types.

    ``entries`` are those of `Formulas`; ``bounds``, ``marks``, ``points`` (sizes of M that are
    worth a row) and ``most`` (the largest one) are places there.  They may name every field, M, and
    ``given x`` for every x of ``flags``; what is not given is what it ``follows``.  A bound holds
    with its ``options``.
    """
    table = Formulas()
    typed = SimpleNamespace(**{x: table.name(x) for x in FIELDS})
    plain, told = TracedTerms(Attention.plain_form(), table), TracedTerms.of_any(table)
    return {
        "fields": {
            name: dict(zip(("first", "least", "most"), values, strict=True))
            for name, values in FIELDS.items()
        },
        "flags": FLAGS,
        "follows": {x.name: x.follows for x in Attention.options() if x.follows},
        "bounds": {
            b.name: traced_bound(b, told if b.options else plain) | {"options": b.options}
            for b in _bounds()
        },
        "marks": [{"name": name, "M": at(typed).place, "says": says} for name, at, says in MARKS],
        "points": [M.place for M in _points(typed)],
        "most": _most(typed).place,
        "ladder": LADDER,
        "entries": table.entries,
    }


def preset_data(preset: Preset) -> Json:
    """One preset: sizes of the table, curves and bounds at them, marks, the crossover, and runs.

    A curve has words, peak and optimal tiles at the sizes from number `first` on, which are those
    in which the schedule runs; bounds have None where they don't apply.
    """
    problem = Attention(preset.N, preset.d)
    entries = all_algorithms(problem.form)
    rows = [] if preset.figure is None else read_csv(shipped("docs") / preset.figure)
    sizes = _sizes(preset, entries, [row["M_words"] for row in rows])
    return {
        "name": preset.name,
        "N": preset.N,
        "d": preset.d,
        "heads": 1,
        "sizes": sizes,
        "marks": [{"name": name, "M": at(preset), "says": says} for name, at, says in MARKS],
        "crossover": crossover(problem, preset.d**2 // 4, 4 * preset.d**2),
        "curves": {a.name: _curve(a.program, problem, sizes) for a in entries},
        "bounds": {b.name: _words(b, problem, sizes) for b in _bounds()},
        "runs": _runs(rows),
    }


def crossover(problem: Attention, low: int, high: int) -> dict[str, int]:
    """Where schedules that store no score overtake those that do, among M in low … high.

    Returns ``last``, the largest M at which the best that stores them moves fewer words, and
    ``first``, the least at which the best that doesn't moves fewer; `low` and `high` where there is
    none.  Every M counts.  Whatever fits in M fits in M + 1, so words never rise with M, and what
    they are at two M bounds them between.

    >>> crossover(Attention(1024, 64), 1024, 16384)
    {'last': 4160, 'first': 4161}
    """
    entries = all_algorithms(problem.form)
    kinds = [[a.program for a in entries if stores_scores(a.program) is x] for x in (True, False)]
    stored: dict[int, float] = {}
    kept: dict[int, float] = {}
    asked = {low, high}
    while asked:
        at = sorted(asked)
        for words, programs in zip((stored, kept), kinds, strict=True):
            words |= zip(at, _fewest(programs, problem, at), strict=True)
        last = max((M for M in stored if stored[M] < kept[M]), default=low)
        first = min((M for M in stored if kept[M] < stored[M]), default=high)
        asked = {
            a + (b - a) * k // PARTS
            for a, b in itertools.pairwise(sorted(stored))
            if (last < b and stored[b] < kept[a]) or (a < first and kept[b] < stored[a])
            for k in range(1, PARTS)
        } - set(stored)
    return {"last": last, "first": first}


@functools.cache
def _least(program: Program, problem: Attention) -> int:
    """The least M in which a program runs."""
    return smallest_capacity(program, problem)


def _fewest(programs: Sequence[Program], problem: Attention, at: Sequence[int]) -> list[float]:
    """The fewest words of any of the programs at every M, rising; infinite where none runs."""
    found = np.full(len(at), np.inf)
    for program in programs:
        runs = bisect.bisect_left(at, _least(program, problem))
        if runs < len(at):
            found[runs:] = np.minimum(found[runs:], _best(program, problem, at[runs:])["words"])
    return found.tolist()


def _best(program: Program, problem: Attention, Ms: Sequence[int]) -> Json:
    """Words, peak and optimal tiles at every M, in each of which some fit."""
    tiles, found = optimal_tiles_many(program, problem.sizes, np.array(Ms))
    assert found.all()
    columns = problem.sizes | tiles
    return {
        "words": np.broadcast_to(sum(count_many(program, columns).values()), len(Ms)),
        "peak": np.broadcast_to(peak_many(program, columns), len(Ms)),
        "tiles": tiles,
    }


def _curve(program: Program, problem: Attention, sizes: Sequence[int]) -> Json:
    first = bisect.bisect_left(sizes, _least(program, problem))
    best = _best(program, problem, sizes[first:])
    return {
        "first": first,
        "words": best["words"].tolist(),
        "peak": best["peak"].tolist(),
        "tiles": {name: values.tolist() for name, values in best["tiles"].items()},
    }


def stores_scores(program: Program) -> bool:
    """Whether some tensor in slow memory has a word for every score.

    >>> from iosim.core.algorithms import algorithm
    >>> [name for name in ("naive", "flash1") if stores_scores(algorithm(name).program)]
    ['naive']
    """
    return any(sum(axis in ("N", "N_k") for axis in t.axes) > 1 for t in program.tensors)


def _sizes(preset: Preset, entries: Sequence[Algorithm], told: Sequence[int]) -> list[int]:
    """The M of a preset's table: marks, their halves and neighbors, and a ladder between."""
    problem = Attention(preset.N, preset.d)
    least = [_least(a.program, problem) for a in entries]
    most = _most(preset)
    found = {round(M) for M in np.geomspace(min(least), most, LADDER)}
    found |= {*_points(preset), *least, *told}
    return sorted(M for M in found if min(least) <= M <= most)


def _points(p: Any) -> list[Any]:
    """Sizes of M that are worth a row of their own: marks, their halves and neighbors."""
    d2, Nd = p.d**2, p.N * p.d
    return [d2 // 4, d2 // 2, d2 - 1, d2, d2 + 1, 2 * d2, 4 * d2, Nd // 2, Nd, 2 * Nd]


def _most(p: Any) -> Any:
    """The largest M of a table."""
    return 4 * (p.N * p.d)


def _bounds() -> list[Bound]:
    """Those that hold for all schedules of the view, or for a single algorithm."""
    return [b for b in BOUNDS.values() if b.problem == "attention" and covers_wide(b.classes)]


def _words(b: Bound, problem: Attention, sizes: Sequence[int]) -> list[float | None]:
    """A bound at every size, to a thousandth as in `iosim verify`'s table; None: doesn't apply."""
    M = np.array(sizes)
    columns = {x: np.full(len(M), v) for x, v in problem.sizes.items()}
    where = b.where(problem.form, columns, M)
    words: list[float | None] = [None] * len(M)
    curve = b.curve(problem.form, **{x: v[where] for x, v in columns.items()}, M=M[where])
    for k, value in zip(np.flatnonzero(where), np.broadcast_to(curve, where.sum()), strict=True):
        words[k] = round(float(value), 3)
    return words


def _to_dict(a: Algorithm) -> Json:
    """What the view says of a schedule."""
    return {
        "name": a.name,
        "title": a.title,
        "cost": a.cost,
        "source": a.source,
        "stores_scores": stores_scores(a.program),
    }


def _stated(b: Bound) -> Json:
    """What the view says of a bound."""
    return {
        "name": b.name,
        "kind": b.kind,
        "strength": b.strength,
        "covers": b.covers,
        "classes": [klass.name for klass in b.classes] if b.kind == "lower" else [],
        "validity": b.validity,
        "source": b.source,
        "source_with_options": b.source_for(MASKED) if b.options else b.source,
        "published": not b.source.startswith(("iosim", "elementary")),
    }


def _runs(rows: Sequence[Json]) -> dict[str, dict[str, list[Any]]]:
    """The runs of a figure's table by schedule: M, words, and the output's largest error."""
    found: dict[str, dict[str, list[Any]]] = {}
    for row in rows:
        if row["kind"] == "run":
            mine = found.setdefault(row["name"], {"M": [], "words": [], "max_error": []})
            mine["M"].append(row["M_words"])
            mine["words"].append(row["total_words"])
            mine["max_error"].append(float(row["max_error"]))
    return found
