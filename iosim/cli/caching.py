"""cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from iosim.base.errors import InputError
from iosim.base.writing import out_dir, publish
from iosim.cache import POLICIES, Accesses, Cache, Stream, replay_many, touches
from iosim.cache.curves import STACKS, curve
from iosim.cache.files import check_target, form_of, read_trace, write_trace
from iosim.cache.sampling import sampled
from iosim.cli import options as opt
from iosim.cli.cache_asked import Asked
from iosim.cli.cache_engines import (
    ELSEWHERE,
    MOVED,
    by_formula,
    by_tiles,
    check_time,
    quickest,
)
from iosim.cli.renames import option
from iosim.cli.watching import part_done, watching
from iosim.core.algorithms import Algorithm, algorithm
from iosim.core.program.walk import Instance, bind
from iosim.core.tiling.rules import choose_tiles
from iosim.core.units import parse_words, split_list
from iosim.report.plot import with_table
from iosim.report.slope import FILES, slope

# From so many accesses on LRU's formula is taken where there is one.
LONG = 2 * 10**8


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
@click.option(
    "--policy", metavar="NAME", default="lru", help=f"who decides what stays: {', '.join(POLICIES)}"
)
@click.option("--ways", metavar="INT", help="lines in a set; by default all: fully associative")
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
@opt.save("the references as well: .iosim, .oracleGeneral or .csv")
@opt.out(
    "slope.csv and a figure: words against capacity of the schedule at "
    "its best tiles, of LRU and OPT, and the lower bound",
)
@opt.as_json
def cache(
    schedule: str | None,
    M: str | None,
    sizes: opt.Sizes,
    model: str | None,
    tiles: str | None,
    mask: str | None,
    capacity: str | None,
    line_words: str,
    policy: str,
    ways: str | None,
    write: str,
    bypass: bool,
    layout: str | None,
    method: str,
    sample: float | None,
    seed: int,
    trace: Path | None,
    save: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Put one schedule's references through a cache that manages itself.

    Nothing is loaded explicitly: every operand is read and written where it lies, and the cache
    decides what stays.  Words are between the cache and what is behind it, in the model.
    """
    engine = method
    line, words = parse_words("line", line_words), None if M is None else opt.words_from(M, None)
    if (schedule is None) == (trace is None):
        raise InputError("give a schedule, or --trace FILE: one of the two is replayed")
    if trace is not None and (
        sizes or model or tiles or mask or layout or engine not in ("auto", "stream")
    ):
        raise InputError("a trace has its sizes, tiles and layout: leave out what chooses them")
    if trace is not None and out is not None:
        raise InputError("the figure is of a schedule: give one in place of --trace")
    if save is not None:
        check_target(save)
    asked = Asked(
        policy,
        line,
        None if ways is None else parse_words("ways", ways),
        write,
        bypass,
        seed,
        sample,
        _capacities(capacity, words),
        layout,
    )
    result: dict[str, Any] = {
        "algorithm": schedule,
        "problem": None,
        "policy": policy,
        "line_words": line,
        "M": words,
    }
    if trace is not None:
        head, result["trace"] = f"trace {trace}", str(trace)
        # A file that says what its addresses are is replayed as it is, in lines of the cache.
        stream = read_trace(trace, line_words=1 if form_of(trace).magic else line)
        if not stream.length:
            raise InputError(f"{trace} has 0 accesses, and at least 1 is needed: write it again")
        if engine == "auto":
            check_time(stream.length, asked.times, whole=POLICIES[policy].foresees, trace=True)
        answer = _replayed(stream, asked)
    else:
        assert schedule is not None
        found = algorithm(schedule)
        problem = opt.problem_from(found.problem.kind, sizes, model)
        instance = _instance(found, problem, words, tiles, mask)
        named = {p.name: instance.env[p.name] for p in instance.program.params}
        head = f"{found.title}: {opt.format_problem(problem)}"
        result |= {"problem": problem.as_dict, "tiles": named}
        quick = asked.quick(engine)
        if out is not None:
            if mask is not None or not asked.plain:
                raise InputError(
                    "the figure is of LRU and OPT with lines of one word, fully associative, in "
                    "row-major layout, writing back, and of no block mask: leave out the rest"
                )
            out_dir(out, keep=False, files=FILES)
            rows = _slope(found, problem, instance)
        if engine not in ("formula", "tiles") or save is not None:
            stream = touches(instance, line_words=line, layouts=_layouts(layout))
            if save is not None and engine != "stream":
                check_time(stream.length, 1, "--save writes each of them")
            if engine == "auto":
                engine, why = "stream", ""
                if stream.length > LONG:
                    engine, why = quickest(instance, quick)
                    why = "; ".join(x for x in (asked.slow, why) if x)
                if engine == "stream":
                    check_time(stream.length, asked.times, why, whole=POLICIES[policy].foresees)
                opt.remark(why)
        if engine == "formula":
            answer = by_formula(instance, asked.capacities)
        elif engine == "tiles":
            answer = by_tiles(instance, policy, asked.capacities)
        else:
            answer = _replayed(stream, asked)
    if save is not None:
        with _shown(stream) as seen:
            write_trace(seen, save)
        opt.remark(f"wrote {save}")
    made = [] if out is None else publish(out, lambda part: with_table(part / FILES[0], rows))
    result |= {"accesses": answer["accesses"]} | answer
    if as_json:
        opt.print_json(result)
        return
    click.echo(head)
    _print(result)
    if made:
        click.echo(f"wrote {', '.join(map(str, made))}")


def _slope(found: Algorithm, problem: Any, instance: Instance) -> list[dict[str, Any]]:
    """The rows of the figure, with what it says of the schedule."""
    stream = touches(instance)
    if stream.length > LONG:
        raise InputError(
            f"the figure replays all {stream.length:,} accesses at many capacities, more than "
            f"{LONG:,}: choose smaller sizes"
        )
    tiles = ", ".join(f"{p.name} = {instance.env[p.name]:,}" for p in instance.program.params)
    told = {"program": found.title, "problem": opt.format_problem(problem), "tiles": tiles}
    with watching() as show:
        made = slope(
            found,
            problem,
            instance,
            stream=stream,
            tick=lambda done, of: show(part_done(done, of, "curves")),
        )
    return [told | row for row in made]


def _replayed(stream: Stream, asked: Asked) -> dict[str, Any]:
    """What a stream gives, word by word or line by line."""
    line, rooms = asked.line, asked.capacities
    answer: dict[str, Any] = {"engine": "stream", "accesses": stream.length}
    if stream.unit != "words" and (rooms is None or asked.sample is not None):
        raise InputError(
            f"a trace whose addresses are {stream.unit} is replayed at chosen capacities: give "
            "--capacity, like 4096,65536, and no --sample"
        )
    if rooms is None:
        return answer | _every(stream, asked)
    with (shown := _shown(stream)) as seen:
        if asked.sample is not None:
            some = sampled(
                seen,
                rooms,
                rate=asked.sample,
                line_words=line,
                seed=asked.seed,
                watch=lambda done, of: shown.show(part_done(done, of, "lines chosen from")),
            )
            return answer | {
                "engine": "sample",
                "capacities": rooms,
                "loads": [round(x) for x in some.loads],
                "write_backs": None,
                "flush": None,
                "loads_error": [round(x) for x in some.error],
                "lines": some.lines,
            }
        caches = [
            Cache(
                capacity=room,
                policy=asked.policy,
                line_words=line,
                ways=asked.ways,
                write=asked.write,  # type: ignore[arg-type]
                bypass=asked.bypass,
                seed=asked.seed,
            )
            for room in rooms
        ]
        if asked.at_once and stream.unit == "words":
            found = curve(seen, asked.policy, line_words=line)
            return (
                answer
                | {"capacities": rooms}
                | {
                    name: getattr(found, name)[[found.step(room) for room in rooms]].tolist()
                    for name in MOVED
                }
            )
        moved = replay_many(seen, caches)
    return (
        answer
        | {"capacities": rooms}
        | {name: [getattr(one, name) for one in moved] for name in MOVED}
    )


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
    """Capacities as typed; None where all are asked for."""
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


def _every(stream: Stream, asked: Asked) -> dict[str, Any]:
    """Every capacity in one pass."""
    name = f"{asked.policy}-bypass" if asked.bypass else asked.policy
    if name not in STACKS or asked.ways is not None or asked.write != "back":
        raise InputError(
            f"every capacity in one pass is for {', '.join(STACKS)}, fully associative, writing "
            "back: give --capacity, like 4096,65536"
        )
    with _shown(stream) as seen:
        found = curve(seen, name, line_words=asked.line)
    return {
        "capacities": found.capacities.tolist(),
        "loads": found.loads.tolist(),
        "write_backs": None if found.write_backs is None else found.write_backs.tolist(),
        "flush": None if found.flush is None else found.flush.tolist(),
        "misses": found.misses.tolist(),
    }


class _shown:
    """A stream that shows how much of it has been made."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.line = stream, watching()

    def __enter__(self) -> Stream:
        self.show = show = self.line.__enter__()

        def chunks() -> Iterator[Accesses]:
            done = 0
            if self.stream.length > LONG:
                # Here what would not fit into memory has been refused.
                opt.remark(
                    f"{self.stream.length:,} accesses are taken one by one, which takes long: "
                    "larger tiles or smaller sizes make fewer"
                )
            for chunk in self.stream.chunks():
                yield chunk
                done += chunk.address.size
                show(part_done(done, self.stream.length, "accesses"))

        return replace(self.stream, chunks=chunks)

    def __exit__(self, *error: Any) -> None:
        self.line.__exit__(*error)


def _print(result: dict[str, Any]) -> None:
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
