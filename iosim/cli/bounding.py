"""The commands ``iosim bounds``, ``tightness`` and ``prove``."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import click

from iosim.base.errors import InputError
from iosim.base.rows import Rows, Values
from iosim.bounds import CLASSES, bound_class
from iosim.bounds.classes import WIDE, covers
from iosim.cli import options as opt
from iosim.cli.kinds import known_kind, problem_kind
from iosim.cli.watching import part_done, watching
from iosim.core.algorithms import Algorithm, algorithm
from iosim.core.problem import PROBLEMS
from iosim.core.units import parse_int, parse_range
from iosim.report import proof

_memories = opt.memory("one, a list, or 256:1Mi:x1.2", metavar="WORDS,…")


def _klass(default: str | None) -> Callable[[opt.F], opt.F]:
    """``--class``, as ``klass``."""
    says = ", ".join(f"{klass.name} ({klass.says})" for klass in CLASSES.values())
    return click.option(
        "--class", "klass", default=default, help=f"algorithms covered by the bound: {says}"
    )


@click.command()
@problem_kind(*PROBLEMS)
@_memories
@_klass(None)
@opt.sizes()
@opt.model
@opt.dtype
@opt.as_json
def bounds(
    kind: str | None,
    M: str | None,
    klass: str | None,
    sizes: opt.Sizes,
    model: str | None,
    dtype: str | None,
    as_json: bool,
) -> None:
    """List upper and lower bounds on the words that any schedule moves.

    A lower bound holds for classes of algorithms.  The first table has the largest of each class;
    --class keeps the lower bounds of one class.  Asymptotic bounds hold up to a constant that is
    not named: compare them with slopes, never with words.

    "in Coq" names the statement in proofs/rocq that gives these words, where there is one.
    """
    from iosim.bounds import bounds_for, largest_of

    chosen = opt.kind_of(sizes) if kind is None else known_kind(kind, PROBLEMS)
    problem = opt.problem_from(chosen, sizes, model)
    classes = list(CLASSES) if klass is None else [bound_class(klass).name]
    rows: Rows = []
    for words in opt.memories_from(M, dtype):
        found = bounds_for(problem, words)
        largest = largest_of(found, classes)
        rows += [
            {"M": words, **b.as_dict(), "largest_of": largest.get(b.name, [])}
            for b in found
            if klass is None or covers(b.classes, klass)
        ]
    if as_json:
        opt.print_json(rows)
        return
    several = len({row["M"] for row in rows}) > 1
    for title, which in _GROUPS.items():
        if some := [row for row in rows if which(row)]:
            click.echo(title)
            _print_bounds(some, several)


def _exact(row: Values, kind: str) -> bool:
    return (row["strength"], row["kind"]) == ("exact", kind)


# How bounds are listed: the title of a table, and which bounds are in it.
_GROUPS: dict[str, Callable[[Values], bool]] = {
    "the largest lower bound of each class, in words (stationary is part of once):": (
        lambda row: bool(row["largest_of"])
    ),
    "upper bounds, in words: a named schedule moves at most so many:": (
        lambda row: _exact(row, "upper")
    ),
    "other lower bounds, in words:": (lambda row: _exact(row, "lower") and not row["largest_of"]),
    "asymptotic bounds: up to a constant that is not named, so no number of words:": (
        lambda row: row["strength"] == "asymptotic"
    ),
}


def _print_bounds(rows: Sequence[Values], several: bool) -> None:
    """A table of bounds of one group; the values of asymptotic ones are inside Ω or O."""
    largest = bool(rows[0]["largest_of"])
    exact, classed = rows[0]["strength"] == "exact", not _exact(rows[0], "upper")
    cells = []
    for b in rows:
        value = "" if b["words"] is None else f"{b['words']:,.0f}"
        if value and not exact:
            value = f"{'Ω' if b['kind'] == 'lower' else 'O'}({value})"
        source = f"{b['source']}; in Coq: {b['checked']}" if b["checked"] else b["source"]
        cells.append(
            [b["M"]] * several
            + [b["name"]]
            + [_classes(b["largest_of"] if largest else b["class"])] * classed
            + [value, source if b["applies"] else f"no: {b['reason']}"]
        )
    columns = ["bound", *["largest of" if largest else "class"] * classed]
    columns += ["words" if exact else "growth", "source, or why it does not apply"]
    opt.print_table(["M"] * several + columns, cells)


def _classes(names: Collection[str]) -> str:
    """Names of classes; "all" where they are all wide ones, which the others are within."""
    every = {klass.name for klass in WIDE} <= set(names)
    return "all" if every else ", ".join(names)


@click.command()
@problem_kind(*opt.ATTENTIONS, default="attention")
@opt.sizes("N", "heads", "batch")
@opt.sizes("d", metavar="INT,…", d="head dimension: one, or 32,64,128")
@opt.problem_options("attention")
@opt.model
@_memories
@_klass("once")
@opt.schedule("compare this one, FILE.py:FUNCTION too, in place of the best one")
@opt.out("tightness.csv and a figure")
@opt.dtype
@opt.as_json
def tightness(
    kind: str,
    sizes: opt.Sizes,
    model: str | None,
    M: str | None,
    klass: str,
    schedule: str | None,
    out: Path | None,
    dtype: str | None,
    as_json: bool,
) -> None:
    """Compare a class's best schedule with its largest lower bound: how far from optimal?

    With options (--causal, --kv-heads 8, …) it is the best of the schedules that support them.
    One point prints one object with --json, several print a list.
    """
    from iosim.base import writing
    from iosim.report import plot
    from iosim.report import tightness as best

    entry = _compared(schedule, klass)
    if entry is not None:
        kind = entry.problem.kind
    problem_of = PROBLEMS[known_kind(kind, opt.ATTENTIONS)]
    sizes = opt.batched(kind, opt.of_model(model, kind, sizes))
    N, d = sizes.get("N"), sizes.get("d")
    if N is None or d is None or M is None:
        raise InputError("tightness needs --N, --d and --M: give all three")
    ds = parse_range("d", d)
    told = opt.parsed(kind, {x: v for x, v in sizes.items() if x not in ("N", "d")})
    opt.noted(problem_of(parse_int("N", N), ds[0], **told))
    if out is not None:
        writing.out_dir(out, keep=False, files=best.FILES)
    with watching() as show:
        points = best.sweep(
            parse_int("N", N),
            ds,
            parse_range("M", M, dtype),
            klass,
            kind=problem_of,
            schedule=entry,
            **told,
            tick=lambda done, of: show(part_done(done, of, "points")),
        )
    if not points:
        # Say why as a single point does: with the smallest M that works.
        problem = problem_of(parse_int("N", N), ds[0], **told)
        best.best_schedule(problem, parse_range("M", M, dtype)[-1], klass, entry)
    made: list[Path] = []
    if out is not None:
        made = writing.publish(
            out, lambda part: plot.with_table(part / best.FILES[0], best.table(points))
        )
    if as_json:
        rows = [p.as_dict() for p in points]
        opt.print_json(rows[0] if len(rows) == 1 else rows)
        return
    _print_points(points, klass, of_class=entry is None)
    opt.print_written(made)


def _compared(schedule: str | None, klass: str) -> Algorithm | None:
    """The schedule that is compared with bounds, with a note where they need not hold for it."""
    if schedule is None:
        return None
    entry = algorithm(schedule)
    if bound_class(klass).name not in entry.classes:
        own = ", ".join(entry.classes)
        opt.remark(
            f"bounds of class {klass} need not hold for {entry.name}, which is known to be in "
            f"{own}: --class {entry.classes[0]}"
        )
    return entry


def _print_points(points: Sequence[Any], klass: str, of_class: bool = True) -> None:
    """A row for each point; of a single one a sentence, its tiles and every bound, too."""
    if len(points) == 1:
        more = math.ceil(100 * (points[0].gap - 1))
        best = f"the best possible schedule of class {klass}"
        click.echo(f"{points[0].best.algorithm} moves at most {more}% more words than {best}")
    opt.print_table(
        [
            "d",
            "M",
            "M/d²",
            "best schedule" if of_class else "schedule",
            "words",
            f"bound of class {klass}",
            "bound words",
            "gap",
        ],
        [
            [
                p.problem.d,
                p.M,
                _ratio(p.M / p.problem.d**2),
                p.best.algorithm,
                p.best.words,
                p.binding.name,
                f"{p.binding.words or 0:,.0f}",
                f"{p.gap:.3f}",
            ]
            for p in points
        ],
    )
    if len(points) == 1:
        p = points[0]
        click.echo("tiles  " + ", ".join(f"{k} = {v}" for k, v in p.best.tiles.items()))
        click.echo(f"every lower bound that applies (class {klass}), the largest first:")
        ranked = sorted(p.bounds, key=lambda b: b.words or 0, reverse=True)
        opt.print_table(
            ["bound", "words", "source"],
            [[b.name, f"{b.words or 0:,.0f}", b.source] for b in ranked],
        )


def _ratio(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


@click.command()
@click.argument("theorem", required=False)
@opt.workers("processes, 0 for all cores")
@opt.as_json
def prove(theorem: str | None, workers: int, as_json: bool) -> None:
    """Run the machine-checked steps of the proofs, and say how far each was checked.

    Exit code 1 if a step fails or could not be run; steps for Coq are left out where it is missing.
    """
    names = proof.theorems() if theorem is None else (theorem,)
    results = []
    with watching() as show:
        found = proof.run_all(
            names, workers or None, lambda done, of: show(part_done(done, of, "steps"))
        )
        for name, own in found:
            results += own
            if not as_json:
                show.clear()
                _print_steps(name, own)
    bad = [r for r in results if r.status != "passed"]
    failed = sum(r.status == "failed" for r in bad)
    if as_json:
        opt.print_json([r.as_dict() for r in results])
    else:
        by = ", ".join(
            f"{sum(r.how == how and r.status == 'passed' for r in results)} {text}"
            for how, text in proof.HOW.items()
        )
        click.echo(f"{len(results)} steps: {by}; {failed} failed, {len(bad) - failed} not run")
    if any(not r.optional for r in bad):
        raise click.exceptions.Exit(1)


def _print_steps(theorem: str, results: Sequence[proof.StepResult]) -> None:
    click.echo(theorem)
    for r in results:
        what = f"{proof.HOW[r.how]}: {r.scope}" if r.status == "passed" else r.detail
        click.echo(f"  {r.status:7} {r.step}: {r.says}")
        click.echo(f"          {what} ({r.seconds:.1f} s)")
