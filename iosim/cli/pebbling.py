"""optimal."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from iosim.cli import options as opt
from iosim.errors import InputError
from iosim.units import parse_int, parse_range

if TYPE_CHECKING:
    from iosim.pebbling import Dag, Known, Optimum

app = typer.Typer()

WHAT = typer.Argument(
    metavar="WHAT", help="matmul, attention, or a file: node-link JSON, or an edge 'a b' per line"
)


@app.command("optimal")
def optimal_(
    what: Annotated[str, WHAT],
    M: Annotated[str | None, typer.Option("--M", metavar="LIST", help="one, or 3,4,5, or 3:9:+1")]
    = None,
    N: opt.N = None, d: opt.D = None, m: opt.Mm = None, n: opt.Nn = None, k: opt.Kk = None,
    recompute: Annotated[bool, typer.Option(help="values may be computed again")] = False,
    partial: Annotated[bool, typer.Option(help="sums take their terms one at a time")] = False,
    sums: Annotated[
        str | None, typer.Option(help="chain or vertex (the default with --partial)")
    ] = None,
    softmax: Annotated[
        str | None, typer.Option(help="fused, exp (a vertex of its own) or free (as bounds count)")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="print the schedule, move by move")] = False,
    seconds: Annotated[str, typer.Option(help="time for each M")] = "60",
    as_json: opt.Json = False,
) -> None:  # fmt: skip
    """Solve the red-blue pebble game: the fewest I/Os of any schedule, proved.

    Small graphs only: all M of 2×2×2 matmul take a second, attention with N = 3, d = 1 a few.
    When the time is up, or on Ctrl-C, what is known is printed: a schedule and a lower bound.
    """
    from iosim.pebbling import optimum

    if M is None:
        raise InputError("M is missing: give --M in words, like 4, or 3:9:+1")
    Ms = parse_range("M", M)
    sizes = {"N": N, "d": d, "m": m, "n": n, "k": k}
    dag = _dag(what, sizes, sums or ("vertex" if partial else "chain"), sums, softmax, partial)
    found = []
    for words in Ms:
        with _Progress() as progress:
            found.append(optimum(dag, words, recompute, partial, _seconds(seconds),
                                 progress=progress))  # fmt: skip
        if not as_json:
            _print(found[-1], show)
        if found[-1].stopped == "interrupted":
            break
    if as_json:
        rows = [f.as_dict() for f in found]
        opt.print_json(rows[0] if len(Ms) == 1 else rows)
    if found[-1].stopped == "interrupted":
        raise typer.Exit(130)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0:
        raise InputError(f"seconds = {text!r} is no time to search: give a number above 0")
    return value


def _dag(
    what: str, sizes: Mapping[str, str | None], style: str, sums: str | None,
    softmax: str | None, partial: bool,
) -> Dag:  # fmt: skip
    from iosim.pebbling import attention, from_file, matmul

    need = {"matmul": ("m", "n", "k"), "attention": ("N", "d")}.get(what, ())
    for name, text in sizes.items():
        if text is not None and name not in need:
            wanted = ", ".join("--" + x for x in need) or "no size"
            raise InputError(f"{what} has no size {name}: give {wanted}")
    if softmax is not None and what != "attention":
        raise InputError(f"--softmax is for attention, not {what}: leave it out")
    if not need:
        if sums is not None:
            raise InputError("--sums is for matmul and attention: mark sums in the file itself")
        if not Path(what).exists():
            raise InputError(f"{what} is neither matmul, attention nor a file: give one of them")
        return from_file(Path(what))
    missing = [x for x in need if sizes[x] is None]
    if missing:
        raise InputError(f"{what} needs {', '.join('--' + x for x in missing)}: give them")
    given = {x: parse_int(x, sizes[x] or "") for x in need}

    def build(at: Mapping[str, int]) -> Dag:
        if what == "matmul":
            return matmul(at["m"], at["n"], at["k"], style)
        return attention(at["N"], at["d"], style, softmax or "fused")

    return _within_reach(what, given, build, partial)


def _within_reach(
    what: str, given: Mapping[str, int], build: Callable[[Mapping[str, int]], Dag], partial: bool
) -> Dag:
    """The graph, unless it is far beyond reach; then an error with the size that would do."""
    from iosim.pebbling.bits import WIDTH as most
    from iosim.pebbling.rules import search_size

    at = {x: min(size, most) for x, size in given.items()}
    while math.prod(at.values()) > most or search_size(build(at), partial) > most:
        largest = max(at, key=lambda x: (at[x], x))
        at[largest] -= 1
    if at != dict(given):
        asked, would = (" ".join(f"--{x} {v}" for x, v in sizes.items()) for sizes in (given, at))
        raise InputError(
            f"{what} {asked} is far beyond reach: the search takes {most} vertices at most; "
            f"{would} would do"
        )
    return build(at)


class _Progress:
    """Best so far and proved so far, on stderr while somebody watches."""

    def __init__(self) -> None:
        self.watched = sys.stderr.isatty()
        self.began = self.last = time.monotonic()
        self.width = 0

    def __enter__(self) -> Callable[[Known], None]:
        return self.tell

    def tell(self, known: Known) -> None:
        now = time.monotonic()
        if not self.watched or now - self.last < 0.2:
            return
        self.last = now
        text = (
            f"best {known.cost}, proved {known.lower_bound}, {known.states:,} states, "
            f"{now - self.began:.0f} s"
        )
        print("\r" + text.ljust(self.width), end="", file=sys.stderr, flush=True)
        self.width = len(text)

    def __exit__(self, *_: object) -> None:
        if self.width:
            print("\r" + " " * self.width + "\r", end="", file=sys.stderr, flush=True)


def _print(found: Optimum, show: bool) -> None:
    variant = ", recomputation" * found.recompute + ", partial computations" * found.partial
    typer.echo(f"{found.dag.name}, {len(found.dag.vertices)} vertices, M = {found.M}{variant}")
    moved = f"{found.loads} loads, {found.stores} stores"
    if found.optimal:
        typer.echo(f"  optimum {found.cost} I/Os: {moved}; proved, no schedule moves fewer")
    elif found.cost is None:
        typer.echo(f"  at least {found.lower_bound} I/Os, no schedule found: {found.stopped}")
    else:
        gap = 100 * (found.cost / found.lower_bound - 1)
        typer.echo(
            f"  between {found.lower_bound} and {found.cost} I/Os ({gap:.1f} %): {moved}; "
            f"{found.stopped}"
        )
    typer.echo(f"  {found.states:,} states, {found.seconds:.2f} s", err=True)
    if show:
        for number, move in enumerate(found.schedule, 1):
            typer.echo(f"  {number:4}  {move}")
