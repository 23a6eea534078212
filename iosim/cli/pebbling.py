"""The command ``iosim optimal``: the optimum of the pebble game on a small graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iosim.base.errors import InputError
from iosim.cli import options as opt
from iosim.cli.watching import watching
from iosim.core.units import parse_range, parse_words, problem_cells

if TYPE_CHECKING:
    from iosim.pebbling import Dag, Known, Optimum
    from iosim.pebbling.graphs import GraphKind

SINKS = ("blue", "any")  # what outputs must end with: as a rule, and with --any-sinks


@click.command()
@click.argument(
    "what",
    metavar="KIND|FILE",
    help="matmul, attention, attention-backward, or a file: .hdag, GraphML, node-link JSON, or an "
    "edge 'a b' per line",
)
@opt.memory("one, or 3,4,5, or 3:9:+1", metavar="WORDS,…")
@opt.sizes("N", "d", "heads", "m", "n", "k")
@opt.problem_options("attention")
@click.option("--format", help="hdag, graphml, node-link or edges, where the file does not say it")
@click.option("--unit-weights", is_flag=True, help="ignore a file's weights: one word per vertex")
@click.option("--recompute/--no-recompute", help="values may be computed again")
@click.option("--partial/--no-partial", help="sums take their terms one at a time")
@click.option("--sliding", is_flag=True, help="a result may take an operand's pebble")
@click.option("--free-sources", is_flag=True, help="sources are computed, from nothing")
@click.option("--any-sinks", is_flag=True, help="outputs may end in fast memory")
@click.option("--sums", help="chain or vertex (the default with --partial)")
@click.option("--softmax", help="fused, exp (a vertex of its own) or free (as bounds count)")
@click.option("--show", is_flag=True, help="print the schedule: move by move")
@click.option(
    "--seconds",
    type=opt.Real("a time above 0", lambda x: x > 0),
    default=60.0,
    help="time limit: for each M",
)
@click.option(
    "--memory", metavar="SIZE", default="4GiB", help="bytes that the process may take: 4GiB, 500MB"
)
@opt.path("--replay", "check a game, as --json prints it, and count its words: no search")
@opt.as_json
def optimal(
    what: str,
    M: str | None,
    sizes: opt.Sizes,
    format: str | None,
    unit_weights: bool,
    recompute: bool,
    partial: bool,
    sliding: bool,
    free_sources: bool,
    any_sinks: bool,
    sums: str | None,
    softmax: str | None,
    show: bool,
    seconds: float,
    memory: str,
    replay: Path | None,
    as_json: bool,
) -> None:
    """Solve the red-blue pebble game: the fewest I/Os of any schedule, proved.

    For small graphs, like those of a 2×2×2 matmul, of attention with N = 3, d = 1, or of its
    gradients with N = 2, d = 1; with options a graph has the scores that a row sees, and a group's
    heads share their rows of K and V.
    When the time is up, or on Ctrl-C, what is known is printed: a schedule and a lower bound.
    """
    if M is None:
        raise InputError("M is missing: give --M in words, like 4, or 3:9:+1")
    Ms = parse_range("M", M)
    limits = {"seconds": seconds, "memory": _bytes(memory)}
    wide = replay is not None or any((sliding, free_sources, any_sinks))
    dag = _dag(
        what,
        sizes,
        sums or ("vertex" if partial else "chain"),
        sums,
        softmax,
        partial,
        format,
        unit_weights,
        wide,
    )
    variants = {"sliding": sliding, "free_sources": free_sources, "sinks": SINKS[any_sinks]}
    if replay is not None:
        for words in Ms:
            _replay(dag, words, replay, recompute, partial, variants, as_json)
        return
    for name, given in (
        ("sliding", sliding),
        ("free-sources", free_sources),
        ("any-sinks", any_sinks),
    ):
        if given:
            raise InputError(
                f"the search can't play with --{name}: leave it out, or check a game of your own "
                "with --replay"
            )
    found: list[Optimum] = []
    try:
        for words in Ms:
            found.append(_solve(dag, words, recompute, partial, limits, not as_json))
            if not as_json:
                _print(found[-1], show)
            if found[-1].stopped == "interrupted":
                raise click.exceptions.Exit(130)
    finally:
        if as_json and found:
            rows = [f.as_dict() for f in found]
            opt.print_json(rows[0] if len(Ms) == 1 else rows)


def _solve(
    dag: Dag, M: int, recompute: bool, partial: bool, limits: dict[str, float], aloud: bool
) -> Optimum:
    """The optimum; where an interrupt leaves none, the last interval that was known is printed."""
    from iosim.pebbling import optimum

    last: list[Known] = []
    try:
        with watching() as show_line:

            def tell(known: Known) -> None:
                last[:] = [known]
                show_line(_format_progress(known))

            return optimum(dag, M, recompute, partial, **limits, progress=tell)
    except KeyboardInterrupt:
        if aloud and last:
            known = last[0]
            most = "" if known.cost is None else f", and {known.cost} were found"
            click.echo(f"{dag.name}, M = {M}: at least {known.lower_bound} I/Os{most}; interrupted")
        raise


def _replay(
    dag: Dag,
    M: int,
    path: Path,
    recompute: bool,
    partial: bool,
    variants: dict[str, Any],
    as_json: bool,
) -> None:
    from iosim.pebbling import replay
    from iosim.pebbling.readers.moves import moves_from

    moves = moves_from(path)
    game = replay(dag, M, moves, recompute, partial, **variants)
    cost = game.loads + game.stores
    if as_json:
        told = {"dag": dag.name, "M": M, "recompute": recompute, "partial": partial, **variants}
        counts = {"loads": game.loads, "stores": game.stores, "moves": game.moves}
        opt.print_json({**told, "cost": cost, **counts})
    else:
        click.echo(f"{dag.name}, {len(dag.vertices)} vertices, M = {M}")
        moved = f"{game.loads} loads, {game.stores} stores"
        click.echo(f"  a game of {cost} I/Os: {moved}; each of its {game.moves} moves is allowed")


def _bytes(text: str) -> int:
    """Bytes, as a word of one byte has them: 4GiB, 500MB or a bare number."""
    return parse_words("memory", text, "int8")


def _dag(
    what: str,
    sizes: opt.Sizes,
    style: str,
    sums: str | None,
    softmax: str | None,
    partial: bool,
    format: str | None,
    unit: bool,
    wide: bool,
) -> Dag:
    from iosim.pebbling import from_file
    from iosim.pebbling.graphs import KINDS

    kind = KINDS.get(what)
    if softmax is not None and not (kind and kind.softmax):
        having = " and ".join(name for name, each in KINDS.items() if each.softmax)
        raise InputError(f"--softmax is for {having}, not {what}: leave it out")
    if kind is None:
        for name in sizes:
            raise InputError(f"{what} has no size {name}: leave it out")
        if sums is not None:
            raise InputError(f"--sums is for {' and '.join(KINDS)}: mark sums in the file itself")
        if not what or not Path(what).exists():
            raise InputError(f"{what!r} is neither {', '.join(KINDS)} nor a file: give one of them")
        return from_file(Path(what), format, unit)
    for name, given in (("format", format), ("unit-weights", unit)):
        if given:
            raise InputError(f"--{name} is for files, not {what}: leave it out")
    problem = opt.problem_from(what, sizes)
    if wide:
        return kind.make(problem, style, softmax or "fused")
    return _within_reach(kind, problem, style, softmax or "fused", partial)


def _within_reach(kind: GraphKind, problem: Any, style: str, softmax: str, partial: bool) -> Dag:
    """The graph, unless it is far beyond reach; then an error with the sizes that would do."""
    from iosim.pebbling.rules import LARGEST as most
    from iosim.pebbling.rules import search_size

    def graph(problem: Any) -> Dag | None:
        if max(kind.least(problem)) > most:
            return None
        made = kind.make(problem, style, softmax)
        return made if search_size(made, partial) <= most else None

    found = graph(problem)
    if found is not None:
        return found
    told = problem.as_dict
    at = {x: min(told[x], most) for x, value in told.items() if type(value) is int}
    while True:
        largest = max(at, key=lambda x: (at[x], x))
        at[largest] -= 1
        try:  # smaller sizes may not fit together, or leave rows that see nothing
            smaller = dataclasses.replace(problem, **at)
            if graph(smaller) is not None:
                break
        except InputError:
            continue
    raise InputError(
        f"{problem.kind} {_typed(problem)} is far beyond reach: the search takes {most} vertices "
        f"at most; {_typed(smaller)} would do"
    )


def _typed(problem: Any) -> str:
    """A problem's sizes and options as people type them; a head alone is not said."""
    said = {
        x: v
        for x, v in problem_cells(problem).items()
        if x in problem.as_dict and (x, v) != ("heads", 1)
    }
    return " ".join(opt.spelt(x)[0] + ("" if v is True else f" {v}") for x, v in said.items())


def _format_progress(known: Known) -> Callable[[float], str]:
    return lambda seconds: (
        f"best {known.cost}, proved {known.lower_bound}, {known.states:,} states, {seconds:.0f} s"
    )


def _print(found: Optimum, show: bool) -> None:
    variant = ", recomputation" * found.recompute + ", partial computations" * found.partial
    click.echo(f"{found.dag.name}, {len(found.dag.vertices)} vertices, M = {found.M}{variant}")
    moved = f"{found.loads} loads, {found.stores} stores"
    if found.optimal:
        click.echo(f"  optimum {found.cost} I/Os: {moved}; proved, no schedule moves fewer")
    elif found.cost is None:
        click.echo(f"  at least {found.lower_bound} I/Os, no schedule found: {found.stopped}")
    else:
        gap = 100 * (found.cost / found.lower_bound - 1)
        click.echo(
            f"  between {found.lower_bound} and {found.cost} I/Os ({gap:.1f} %): {moved}; "
            f"{found.stopped}"
        )
    if found.stopped != "interrupted":  # which is a line on its own
        click.echo(f"  {found.states:,} states, {found.seconds:.2f} s", err=True)
    if show:
        for number, move in enumerate(found.schedule, 1):
            click.echo(f"  {number:4}  {move}")
