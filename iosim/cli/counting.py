"""The commands ``iosim schedules``, ``show``, ``count``, ``step`` and ``tiles``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from iosim.base.dtypes import word_bytes
from iosim.base.errors import InputError, IosimError, closest
from iosim.base.rows import Row, Values
from iosim.base.validate import check_size
from iosim.cli import options as opt
from iosim.cli.watching import part_done, watching
from iosim.core.algorithms import Algorithm, algorithm, all_algorithms
from iosim.core.counting.numbers import PeakAt, peak, peak_at, peak_moves
from iosim.core.counting.show import show as listing
from iosim.core.engines import engine as find_engine
from iosim.core.problem import Form, size_names
from iosim.core.program.ir import Program
from iosim.core.program.walk import Instance, bind
from iosim.core.tiling import optimal_tiles
from iosim.core.tiling.rules import choose_tiles
from iosim.core.units import bytes_of, parse_tiles, tiles_like


@click.command()
@opt.as_json
def schedules(as_json: bool) -> None:
    """List the schedules, with the options of their problem that they lack or need."""
    found = [
        {
            "algorithm": a.name,
            "title": a.title,
            "problem": a.problem.kind,
            "tiles": [p.name for p in a.program.params],
            "cost": a.cost,
            "source": a.source,
            "lacks": list(a.lacks),
            "needs": list(a.needs),
        }
        for a in all_algorithms()
    ]
    if as_json:
        opt.print_json(found)
        return
    opt.print_table(
        ["schedule", "problem", "tiles", "cost (words)", "source", "options"],
        [
            [
                a["algorithm"],
                a["problem"],
                " ".join(a["tiles"]),
                a["cost"],
                a["source"],
                ", ".join([*(f"no {x}" for x in a["lacks"]), *(f"needs {x}" for x in a["needs"])]),
            ]
            for a in found
        ],
    )


@click.command()
@opt.schedule_argument
@opt.tile_sizes("like B_r=64,B_c=64")
@opt.sizes()
@opt.model
def show(schedule: str, tiles: str | None, sizes: opt.Sizes, model: str | None) -> None:
    """Print a schedule as pseudo-code with the words that each load and store moves."""
    found = algorithm(schedule)
    instance: Instance | None = None
    axes = size_names(found.problem)
    bound = model is not None or any(name in axes for name in sizes)
    if tiles is None and bound:
        like = tiles_like([p.name for p in found.program.params])
        raise InputError(f"sizes alone don't bind a schedule, tiles are missing: {like}")
    if bound:
        problem = opt.problem_from(found.problem.kind, sizes, model)
        program = found.program_for(problem)
    else:
        program = found.program_for(_without_sizes(found, sizes))
    if tiles is not None:
        params = {p.name: p for p in program.params}
        values = parse_tiles(tiles, tuple(params))
        for name, value in values.items():
            if name not in params:
                raise InputError(f"{schedule} has no tile size {name!r}: {closest(name, params)}")
            check_size(name, value, least=params[name].least)
        if not bound:
            # Without sizes the words stay symbolic; with them, they are numbers.
            click.echo(_with_tiles(program, values), nl=False)
            return
        instance = bind(program, problem.sizes, values)
    click.echo(listing(program, instance), nl=False)


def _without_sizes(found: Algorithm, options: opt.Sizes) -> Form:
    """The form that the options say; the values of those that are sizes don't matter to it."""
    told = dict.fromkeys(found.needs, 1) | opt.parsed(found.problem.kind, options)
    whole = {one.name for one in found.problem.options() if one.kind == "size"}
    told |= dict.fromkeys((*size_names(found.problem), *whole.intersection(told)), 1)
    form: Form = opt.noted(found.problem(**told)).form
    return form


def _with_tiles(program: Program, tiles: Mapping[str, int]) -> str:
    """A listing with some tile sizes replaced by their numbers, sizes still symbolic."""

    text = listing(program)
    for name, value in tiles.items():
        text = re.sub(rf"(?<![\w]){re.escape(name)}(?![\w])", str(value), text)
    return text


# More tiles than these are a line that nobody reads: --details prints them.
FEW_TILES = 4


@dataclass(frozen=True)
class _Counted:
    """What one schedule moves, for scripts and for people."""

    algorithm: Algorithm
    result: Row
    at: PeakAt | None


@click.command()
@click.argument("schedules", metavar="SCHEDULE,…", type=opt.SCHEDULE)
@opt.memory()
@opt.sizes()
@opt.model
@opt.tile_sizes(
    "auto, gpu (powers of two), a paper's rule: paper, or B_r=64,B_c=64", default="auto"
)
@opt.mask
@click.option("--engine", default="formula", help="engine: formula or simulate")
@click.option("--details", is_flag=True, help="print more: every tile size, and where the peak is")
@opt.dtype
@opt.as_json
def count(
    schedules: str,
    M: str | None,
    sizes: opt.Sizes,
    model: str | None,
    tiles: str,
    mask: str | None,
    engine: str,
    details: bool,
    dtype: str | None,
    as_json: bool,
) -> None:
    """Count the words that a schedule moves, or compare several: naive,flash2.

    Each has the best tiles of its own.  One that doesn't fit M, or lacks an option, is named and
    left out.
    """
    names = schedules.split(",")
    entries = [algorithm(name) for name in dict.fromkeys(names)]
    for name in dict.fromkeys(x for x in names if names.count(x) > 1):
        opt.remark(f"{name} is named {names.count(name)} times, and counted once")
    kinds = {one.problem.kind: one.name for one in reversed(entries)}
    if len(kinds) > 1:
        which = ", ".join(f"{name} solves {kind}" for kind, name in kinds.items())
        raise InputError(f"schedules of different problems can't be compared: {which}")
    problem = opt.problem_from(next(iter(kinds)), sizes, model)
    if dtype:
        word_bytes(dtype)  # an unknown one is said before anything is counted
    words, masks = opt.words_from(M, dtype), opt.masks(mask)
    found, left_out = list[_Counted](), dict[str, IosimError]()
    for one in entries:
        try:
            found.append(_count_schedule(one, problem, words, tiles, masks, engine, dtype))
        except IosimError as error:
            if len(entries) == 1:
                raise
            left_out[one.name] = error
    if not found:
        raise next(iter(left_out.values()))
    fewest = min(one.result["total_words"] for one in found)
    if as_json and len(entries) == 1:
        opt.print_json(found[0].result)
    elif as_json:
        opt.print_json(
            [
                *(one.result | {"ratio": one.result["total_words"] / fewest} for one in found),
                *({"algorithm": name, "error": str(why)} for name, why in left_out.items()),
            ]
        )
    elif len(entries) == 1:
        _print_count(found[0], problem, details)
    else:
        _print_counts(found, problem, details)
    for name, why in left_out.items():
        opt.remark(f"{name} is left out: {why}")


def _count_schedule(
    entry: Algorithm,
    problem: Any,
    words: int,
    tiles: str,
    masks: Values,
    engine: str,
    dtype: str | None,
) -> _Counted:
    chosen_engine = find_engine(engine)
    choice = choose_tiles(entry, problem, words, tiles, masks)
    opt.remark(choice.remark)
    opt.remark(chosen_engine.cost(choice.instance))
    with watching() as show_line:
        counts, top = chosen_engine.one(
            choice.instance,
            problem,
            max(words, peak(choice.instance)),
            tick=lambda done, of: show_line(part_done(done, of, "words")),
        )
    result: Row = {
        "algorithm": entry.name,
        "engine": engine,
        "problem": problem.as_dict,
        "M": words,
        "tiles": choice.tiles,
        "load_words": counts.load_words,
        "store_words": counts.store_words,
        "total_words": counts.total_words,
        "peak_words": top,
        "by_tensor": {"load": counts.by_tensor("load"), "store": counts.by_tensor("store")},
    }
    where = peak_at(choice.instance) if peak_moves(choice.instance.program) else None
    if where is not None:
        result["peak_at"] = {"tiles": where.tiles, "buffers": where.buffers}
    if dtype:
        result["dtype"] = dtype
        tensors = choice.instance.program.tensors
        result["total_bytes"] = sum(bytes_of(counts, tensors, dtype).values())
    return _Counted(entry, result, where)


def _print_count(one: _Counted, problem: Any, details: bool) -> None:
    result = one.result
    click.echo(
        f"{one.algorithm.title}: {opt.format_problem(problem)}, M = {result['M']:,} words, by "
        f"{result['engine']}"
    )
    if details or len(result["tiles"]) <= FEW_TILES:
        click.echo(f"tiles  {_tiles(result)}")
    else:
        click.echo(f"tiles  {len(result['tiles'])} sizes: --details prints them")
    load, store = (result["by_tensor"][way] for way in ("load", "store"))
    rows = [[x, load.get(x, 0), store.get(x, 0)] for x in sorted({*load, *store})]
    rows.append(["total", result["load_words"], result["store_words"]])
    opt.print_table(["tensor", "load_words", "store_words"], rows)
    click.echo(
        f"total  {result['total_words']:,} words"
        + (f", {result['total_bytes']:,} bytes ({result['dtype']})" if "dtype" in result else "")
    )
    click.echo(f"peak   {result['peak_words']:,} of {result['M']:,} words")
    if details and one.at is not None:
        click.echo(f"       {_at(one.at)}")


def _print_counts(found: list[_Counted], problem: Any, details: bool) -> None:
    first = found[0].result
    fewest = min(found, key=lambda one: int(one.result["total_words"])).result
    click.echo(f"{opt.format_problem(problem)}, M = {first['M']:,} words, by {first['engine']}")
    in_bytes = "dtype" in first
    opt.print_table(
        ["schedule", "load_words", "store_words", "words", *["bytes"] * in_bytes, "peak", "ratio"],
        [
            [
                x["algorithm"],
                x["load_words"],
                x["store_words"],
                x["total_words"],
                *[x.get("total_bytes")] * in_bytes,
                x["peak_words"],
                f"{x['total_words'] / fewest['total_words']:.3f}",
            ]
            for x in (one.result for one in found)
        ],
    )
    click.echo(f"ratio: words over those of {fewest['algorithm']}, the fewest of these schedules")
    if details:
        for one in found:
            click.echo(f"tiles of {one.result['algorithm']}: {_tiles(one.result)}")


def _tiles(result: Values) -> str:
    return ", ".join(f"{name} = {value}" for name, value in result["tiles"].items())


def _at(where: PeakAt) -> str:
    """Which iteration has the peak, and what it holds."""

    def one(name: str, start: int, stop: int) -> str:
        return f"{name} = {start:,}" + (f" to {stop - 1:,}" if stop - start > 1 else "")

    at = ", ".join(one(name, *covered) for name, covered in where.tiles.items())
    return f"at {at}, with {', '.join(where.buffers)}"


@click.command()
@opt.memory()
@opt.problem_options("attention")
@opt.sizes("N", "d", "heads", "batch")
@opt.model
@click.option(
    "--forward",
    metavar="SCHEDULE",
    type=opt.SCHEDULE,
    help="schedule of the forward pass (default: fewest words)",
)
@click.option(
    "--backward",
    metavar="SCHEDULE",
    type=opt.BACKWARD,
    help="schedule of the backward pass (default: fewest words); flash2 is flash2_backward",
)
@click.option("--forward-tiles", default="auto", help="tile sizes forward: as --tiles of count")
@click.option("--backward-tiles", default="auto", help="tile sizes backward: as --tiles of count")
@opt.dtype
@opt.as_json
def step(
    M: str | None,
    sizes: opt.Sizes,
    model: str | None,
    forward: str | None,
    backward: str | None,
    forward_tiles: str,
    backward_tiles: str,
    dtype: str | None,
    as_json: bool,
) -> None:
    """Count the words of a training step: a forward pass that stores L, then the backward pass."""
    from iosim.report.step import training_step

    problem = opt.problem_from("attention", sizes, model)
    words = opt.words_from(M, dtype)
    found = training_step(
        problem, words, forward or "", backward or "", forward_tiles, backward_tiles
    )
    for one in found.passes.values():
        opt.remark(one.remark)
    moved = {} if dtype is None else {x: y.moved_bytes(dtype) for x, y in found.passes.items()}
    if as_json:
        told = {"dtype": dtype, "total_bytes": sum(moved.values())} if dtype else {}
        passes = {x: one.as_dict() for x, one in found.passes.items()}
        opt.print_json(
            {"problem": problem.as_dict, "M": words, **passes, "total_words": found.words, **told}
        )
        return
    click.echo(f"{opt.format_problem(problem)}, M = {words:,} words")
    for which, one in found.passes.items():
        tiles = ", ".join(f"{name} = {value}" for name, value in one.tiles.items())
        click.echo(f"{which:<8}  {one.algorithm.title}")
        click.echo(f"          {one.algorithm.name}, {tiles}; peak {one.peak:,}")
    opt.print_rows(found.rows())
    click.echo(
        f"total  {found.words:,} words"
        + (f", {sum(moved.values()):,} bytes ({dtype})" if moved else "")
    )


@click.command()
@opt.schedule_argument
@opt.memory()
@opt.sizes()
@opt.model
@click.option("--lattice", default="all", help="all, or pow2 (powers of two ≥ 16)")
@opt.dtype
@opt.as_json
def tiles(
    schedule: str,
    M: str | None,
    sizes: opt.Sizes,
    model: str | None,
    lattice: str,
    dtype: str | None,
    as_json: bool,
) -> None:
    """Find the tile sizes that move the fewest words in M."""
    found = algorithm(schedule)
    problem = opt.problem_from(found.problem.kind, sizes, model)
    words = opt.words_from(M, dtype)
    best = optimal_tiles(
        found.program_for(problem),
        problem,
        words,
        lattice=lattice,  # type: ignore[arg-type]
    )
    result = {
        "algorithm": schedule,
        "problem": problem.as_dict,
        "M": words,
        "lattice": lattice,
        "tiles": best.tiles,
        "total_words": best.total_words,
        "peak_words": best.peak_words,
    }
    if as_json:
        opt.print_json(result)
        return
    click.echo(f"{found.name}: {opt.format_problem(problem)}, M = {words:,} words")
    click.echo("tiles  " + ",".join(f"{name}={value}" for name, value in best.tiles.items()))
    click.echo(f"moves {best.total_words:,} words, peak {best.peak_words:,} of {words:,} words")
