"""``iosim profile --schedule``: compares kernels of a report with a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from iosim.base.errors import CapacityError, InputError
from iosim.base.rows import Rows
from iosim.cli import options as opt
from iosim.core.tiling.gpu import gpu_tiles
from iosim.core.units import parse_tiles, parse_words
from iosim.gpu.probes import probe
from iosim.gpu.profiling.expected import Expected, expect
from iosim.gpu.profiling.kernels import ProfiledKernel
from iosim.gpu.run.memory import check_dtype
from iosim.models.hardware import Hardware

INFER = "infer"


@dataclass(frozen=True)
class Expectation:
    """A schedule as typed, checked before anything is read or run.

    Attributes:
        algorithm: its name.
        problem: what it solves.
        tiles: its tiles; None where those of the kernels are taken, by name and grid.
        dtype: of its words.
    """

    algorithm: str
    problem: Any
    tiles: Mapping[str, int] | None
    dtype: str


def parse_expectation(
    algorithm: str,
    sizes: opt.Sizes,
    *,
    tiles: str | None,
    M: str | None,
    dtype: str | None,
) -> Expectation:
    """What is typed.  Raises InputError for a schedule, a size or tiles that can't be.

    Args:
        tiles: ``infer`` (or None), ``search`` for the best in `M`, or sizes.
        M: as typed; None for 64Ki words.
        dtype: None for fp16.
    """
    dtype = dtype or "fp16"
    entry = probe(algorithm)
    problem = opt.problem_from(entry.problem.kind, sizes, None)
    check_dtype(dtype)
    given: Mapping[str, int] | None = None
    if tiles == "search":
        program = entry.program_for(problem)
        try:
            given = gpu_tiles(program, problem, parse_words("M", M or "64Ki", dtype)).tiles
        except CapacityError as error:
            raise InputError(str(error)) from None
    elif tiles not in (None, INFER):
        given = parse_tiles(tiles, [p.name for p in entry.program_for(problem).params])
    if M is not None and tiles != "search":
        raise InputError("--M is of --tiles search, which chooses tiles for it: leave --M out")
    return Expectation(algorithm, problem, given, dtype)


def expected(
    found: Sequence[ProfiledKernel], what: Expectation, *, machine: Hardware | None, chosen: bool
) -> list[Expected]:
    """The kernels that have a schedule.

    Args:
        chosen: whether the kernels were chosen by name, so that unknown ones are taken to have it.

    Raises InputError where none has it.
    """
    rows, unclear = list[Expected](), list[InputError]()
    for k in found:
        try:
            one = expect(
                k, what.algorithm, what.problem, what.tiles, what.dtype, machine, unknown=chosen
            )
        except InputError as error:
            unclear.append(error)
            continue
        rows += [one] if one is not None else []
    if not rows and unclear:
        raise unclear[0]
    for why in unclear:
        opt.remark(str(why))
    if not rows:
        names = ", ".join(dict.fromkeys(k.short for k in found))
        raise InputError(
            f"no kernel is known to be {what.algorithm} of {opt.format_problem(what.problem)}: "
            f"check the sizes, or choose one with --kernel and give --tiles; there are {names}"
        )
    return rows


def print_expected(what: Expectation, found: Sequence[Expected], others: int) -> None:
    """A table for each kernel."""
    click.echo(f"{probe(what.algorithm).title}: {opt.format_problem(what.problem)}")
    for number, one in enumerate(found, 1):
        launches = f", {one.kernel.launches:,} launches" if one.kernel.launches > 1 else ""
        tiles = ", ".join(f"{name} = {side:,}" for name, side in one.tiles.items())
        click.echo(f"\n{number}. {one.title}: {one.kernel.short}, grid {one.kernel.grid}{launches}")
        click.echo(f"   {tiles} ({one.source})")
        columns = [
            "boundary",
            "what",
            "words",
            "model",
            "more",
            "expected",
            "measured",
            "unexplained",
        ]
        opt.print_table(
            columns,
            [
                [
                    r.boundary,
                    r.what,
                    r.words,
                    r.model,
                    r.more,
                    r.expected,
                    r.measured,
                    r.unexplained,
                ]
                for r in one.rows
            ],
        )
        click.echo(f"unexplained at SM↔L2: {one.unexplained:,} bytes of a launch")
        for remark in one.remarks:
            opt.remark(remark)
    if others:
        click.echo(f"\nof other schedules, sizes or libraries: {others:,}")


def to_dicts(found: Sequence[Expected]) -> Rows:
    """For scripts."""
    return [
        {
            "kernel": one.kernel.name,
            "title": one.title,
            "launches": one.kernel.launches,
            "tiles": dict(one.tiles),
            "source": one.source,
            "unexplained_bytes": one.unexplained,
            "rows": [asdict(row) | {"unexplained": row.unexplained} for row in one.rows],
            "remarks": list(one.remarks),
        }
        for one in found
    ]
