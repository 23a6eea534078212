"""The command ``iosim cache``: replays a schedule's accesses, or a trace, through caches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from iosim.base.errors import InputError
from iosim.base.progress import count_done
from iosim.base.rows import Row, Rows
from iosim.base.writing import out_dir, publish
from iosim.cache import POLICIES, CacheFamily, CacheWords, Stream, count_words, touches
from iosim.cache.files import check_target, form_of, read_trace, write_trace
from iosim.cache.methods import LONG, check_time, report_accesses
from iosim.cli import options as opt
from iosim.cli.renames import option
from iosim.core.algorithms import Algorithm, algorithm
from iosim.core.program.walk import Instance, bind
from iosim.core.tiling.rules import choose_tiles
from iosim.core.units import parse_words, split_list
from iosim.report.plot import with_table
from iosim.report.slope import FILES, slope

# What tells the numbers that a method leaves out.
ELSEWHERE = {
    "formula": "the closed form counts loads only; for the rest, --method tiles at smaller sizes",
    "sample": "a sample estimates loads only; leave out --sample for the rest",
    "stream": "OPT at every capacity counts loads only; give --capacity 4Ki,64Ki for the rest",
}

policy = click.option(
    "--policy",
    metavar="NAME",
    default="lru",
    help=f"what decides which lines stay: {', '.join(POLICIES)}",
)


@click.command()
@click.argument("schedule", required=False, type=opt.SCHEDULE)
@opt.memory(
    "what the tiles are chosen for; without it, and without --tiles, every tile is one word"
)
@opt.sizes()
@opt.model
@opt.tile_sizes("auto, gpu, a paper's rule: paper, or B_r=64,B_c=64")
@opt.mask
@click.option(
    "--capacity", metavar="WORDS,…|all", help="capacity of the cache; by default M, or all"
)
@click.option("--line", "line_words", default="1", metavar="WORDS", help="words in a line")
@policy
@click.option("--ways", metavar="INT", help="lines per set; by default all: fully associative")
@click.option(
    "--write",
    type=click.Choice(["back", "through"]),
    default="back",
    help="when written words leave",
)
@click.option("--bypass", is_flag=True, help="of opt: a word that misses need not enter")
@click.option(
    "--layout", metavar="TENSOR=HOW,…", help="row-major, column-major or tiled:AxB; else row-major"
)
@option(
    "--method",
    old=("--engine",),
    default="auto",
    help="stream replays words, tiles whole tiles (LRU, and OPT with bypass), formula is "
    "LRU's closed form; auto takes one where it is quicker",
)
@click.option(
    "--sample",
    type=opt.Real("a share of the lines, above 0 and up to 1", lambda x: 0 < x <= 1),
    help="follow this share of the lines, and estimate LRU's loads",
)
@click.option(
    "--seed", type=opt.Integer(0, 2**128), default=0, help="seed: of policy random, and of --sample"
)
@opt.path("--trace", "replay this file in place of a schedule: .iosim, .oracleGeneral or .csv")
@opt.save("the accesses as well: .iosim, .oracleGeneral or .csv")
@opt.out(
    "slope.csv and a figure: words against capacity of the schedule at "
    "its best tiles, of LRU and OPT, and the lower bound",
)
@opt.as_json
def cache(
    schedule: str | None,
    trace: Path | None,
    sizes: opt.Sizes,
    method: str,
    save: Path | None,
    out: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Replay one schedule's accesses through a cache that manages itself.

    Nothing is loaded explicitly: every operand is read and written where it lies, and the cache
    decides what stays.  Words are between the cache and what is behind it, in the model.
    """
    if "," in given["policy"]:
        raise InputError(f"--policy takes one policy, got {given['policy']!r}: run each by itself")
    if (schedule is None) == (trace is None):
        raise InputError("give a schedule, or --trace FILE: one of the two is replayed")
    chosen = [sizes, *(given[x] for x in ("model", "tiles", "mask", "layout"))]
    if trace is not None and (any(chosen) or method not in ("auto", "stream")):
        raise InputError("a trace has its sizes, tiles and layout: leave out what chooses them")
    if trace is not None and out is not None:
        raise InputError("the figure is of a schedule: give one in place of --trace")
    if save is not None:
        check_target(save)
    words = None if given["M"] is None else opt.words_from(given["M"], None)
    family = _family(words, given)
    told = {"policy": family.policy, "line_words": family.line_words, "M": words}
    made: list[Path] = []
    if trace is not None:
        head = f"trace {trace}"
        told = {"algorithm": None, "problem": None} | told | {"trace": str(trace)}
        stream = _read(trace, family.line_words)
        found = count_words(stream, family, method)
    else:
        entry = algorithm(str(schedule))
        problem = opt.problem_from(entry.problem.kind, sizes, given["model"])
        instance = _instance(entry, problem, words, given["tiles"], given["mask"])
        head = f"{entry.title}: {opt.format_problem(problem)}"
        named = {p.name: instance.env[p.name] for p in instance.program.params}
        told = {"algorithm": schedule, "problem": problem.as_dict} | told | {"tiles": named}
        stream = touches(instance, line_words=family.line_words, layouts=family.layouts)
        if save is not None and method != "stream":
            check_time(stream.length, 1, "--save writes each of them")
        if out is not None:
            _check_figure(family, given["mask"], out)
        found = count_words(instance, family, method)
        opt.remark(found.why)
        if out is not None:
            rows = _slope(entry, problem, instance)
            made = publish(out, lambda part: with_table(part / FILES[0], rows))
    if save is not None:
        write_trace(report_accesses(stream), save)
        opt.remark(f"wrote {save}")
    result = told | _to_dict(found)
    if as_json:
        opt.print_json(result)
        return
    click.echo(head)
    _print(result)
    opt.print_written(made)


def _family(words: int | None, given: dict[str, Any]) -> CacheFamily:
    ways = given["ways"]
    return CacheFamily(
        capacities=_capacities(given["capacity"], words),
        policy=given["policy"],
        line_words=parse_words("line", given["line_words"]),
        ways=None if ways is None else parse_words("ways", ways),
        write=given["write"],
        bypass=given["bypass"],
        seed=given["seed"],
        sample=given["sample"],
        layouts=_layouts(given["layout"]),
    )


def _read(trace: Path, line: int) -> Stream:
    """A file that says what its addresses are is replayed as it is, in lines of the cache."""
    stream = read_trace(trace, line_words=1 if form_of(trace).magic else line)
    if not stream.length:
        raise InputError(f"{trace} has 0 accesses, and at least 1 is needed: write it again")
    return stream


def _to_dict(found: CacheWords) -> Row:
    """For scripts."""
    names = ("capacities", "loads", "write_backs", "flush")
    more = ("loads_error", "lines") if found.method == "sample" else ("misses",)
    first = {"accesses": found.accesses, "engine": found.method}
    return first | {x: getattr(found, x) for x in (*names, *more)}


def _check_figure(family: CacheFamily, mask: str | None, out: Path) -> None:
    if mask is not None or not family.plain:
        raise InputError(
            "the figure is of LRU and OPT with lines of one word, fully associative, in "
            "row-major layout, writing back, and of no block mask: leave out the rest"
        )
    out_dir(out, keep=False, files=FILES)


def _slope(found: Algorithm, problem: Any, instance: Instance) -> Rows:
    """The rows of the figure, with what it says of the schedule."""
    stream = touches(instance)
    if stream.length > LONG:
        raise InputError(
            f"the figure replays all {stream.length:,} accesses at many capacities, more than "
            f"{LONG:,}: choose smaller sizes"
        )
    tiles = ", ".join(f"{p.name} = {instance.env[p.name]:,}" for p in instance.program.params)
    told = {"program": found.title, "problem": opt.format_problem(problem), "tiles": tiles}
    with count_done(None, "curves") as report:

        def tick(done: int, of: int) -> None:
            report.of = of
            report(done)

        made = slope(found, problem, instance, stream=stream, tick=tick)
    return [told | row for row in made]


def _instance(
    found: Algorithm, problem: Any, words: int | None, tiles: str | None, mask: str | None
) -> Instance:
    """The schedule that is replayed: with the best tiles for M, tiles as given, or of one word."""
    masks = opt.masks(mask)
    if tiles is None and words is None:
        program = found.program_for(problem)
        opt.remark("without --M and --tiles every tile is one word, and nothing is held")
        least = {p.name: p.least for p in program.params}
        return bind(program, problem.sizes, least, masks)
    if words is None and tiles in ("auto", "gpu", "paper"):
        raise InputError(f"--tiles {tiles} needs --M: give the words that they are chosen for")
    choice = choose_tiles(found, problem, words or 2**62, tiles or "auto", masks)
    opt.remark(choice.remark)
    return choice.instance


def _capacities(text: str | None, words: int | None) -> list[int] | None:
    """Capacities as typed; None where all are requested."""
    if text is None:
        return None if words is None else [words]
    if text == "all":
        return None
    return [parse_words("capacity", one) for one in split_list("capacity", text)]


def _layouts(text: str | None) -> dict[str, str]:
    found = {}
    for one in (text or "").split(",") if text else ():
        name, equals, how = one.partition("=")
        if not (name and equals and how):
            raise InputError(f"layout {one!r}: write it like K=column-major or Q=tiled:8x4")
        if name in found:
            raise InputError(f"a layout of {name} twice: give one")
        found[name] = how
    return found


def _print(result: Row) -> None:
    if "tiles" in result:
        tiles = ", ".join(f"{name} = {value:,}" for name, value in result["tiles"].items())
        click.echo(f"tiles  {tiles}")
    click.echo(
        f"{result['accesses']:,} accesses of words, policy {result['policy']}, lines of "
        f"{result['line_words']:,}; words between the cache and what is behind it, in the model"
    )
    capacities = result["capacities"]
    names = [
        x
        for x in ("loads", "loads_error", "write_backs", "flush", "misses")
        if result.get(x) is not None
    ]
    at = list(range(len(capacities)))
    if len(at) > 64:
        # The steps in force at powers of two; the rest is in the JSON.
        first, last = capacities[0], capacities[-1]
        powers = [2**k for k in range(63) if first <= 2**k < 2 * last]
        at = [max(k for k in at if capacities[k] <= power) for power in powers]
        rows = [
            [power, *(result[x][k] for x in names)] for power, k in zip(powers, at, strict=True)
        ]
    else:
        rows = [[capacities[k], *(result[x][k] for x in names)] for k in at]
    opt.print_table(["capacity", *names], rows)
    if missing := [x for x in ("write_backs", "flush") if result.get(x) is None]:
        click.echo(f"left out: {', '.join(missing)}; {ELSEWHERE[result['engine']]}")
    if len(capacities) > 64:
        click.echo(f"{len(capacities):,} steps in all: --json has every one")
