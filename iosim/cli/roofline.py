"""The command ``iosim roofline``: the least time of operators, graphs and models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click

from iosim.base.dtypes import word_bytes
from iosim.base.errors import InputError, closest
from iosim.base.rows import Row, Rows, Values
from iosim.cli import options as opt
from iosim.cli.renames import option
from iosim.core.problem import MarkedTiles
from iosim.core.units import parse_int
from iosim.models.fusion.partitions import family
from iosim.models.hardware import Hardware
from iosim.models.layers.blocks import PHASES
from iosim.models.layers.files import Written
from iosim.models.layers.graph import opaque
from iosim.models.operators import OPERATORS
from iosim.models.roofline.report import Roofline
from iosim.models.roofline.roof import LIMITS, Roof
from iosim.models.roofline.single import ATTENTIONS, SINGLE

_SHOWN = {
    "operator": "name",
    "class": "class",
    "flop": "flop",
    "L2↔DRAM bytes": "dram_bytes",
    "SM↔L2 bytes": "sm_l2_bytes",
}


@dataclass(frozen=True)
class _Answer:
    """What is printed, and what scripts get in addition."""

    title: str
    found: Roofline
    sentence: str = ""
    more: Values = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@click.command()
@click.argument("operator", required=False)
@opt.model_option("a whole transformer, like llama3-8b, or a file (.toml, .json)")
@click.option("--phase", help=f"phase: {', '.join(PHASES)}")
@opt.graph()
@click.option("--batch", metavar="INT", help="sequences; of one operator, as many of it")
@opt.sizes(
    "N",
    "m",
    "n",
    "k",
    "d",
    "heads",
    m="rows of C, or of what is read",
    n="columns of C, or words of a row",
    k="inner size of a matrix product; of embedding, the table's rows",
)
@opt.problem_options("attention")
@opt.machine()
@click.option("--tokens", metavar="INT", help="new tokens of each sequence, in decoding")
@click.option("--attention", help="attention: unfused, or fused as one operator")
@click.option(
    "--fusion",
    metavar="NAME|FILE.json",
    help="fusion: none, paper, best, file (groups in the graph's file), or a .json of groups",
)
@opt.online_softmax
@opt.experts
@opt.mask
@opt.mask_tiles
@click.option("--operators", is_flag=True, help="print a row for each operator, too; of a model")
@option(
    "--P", "P", old=("--devices",), metavar="INT", help="devices: each trains on data of its own"
)
@opt.schedule("of a product or an attention; by default, the fewest words")
@click.option(
    "--launch-us",
    type=opt.MICROSECONDS,
    help="µs from one kernel to the next, instead of the machine's",
)
@opt.dtype_option("fp16 (if not given), bf16, fp32, …")
@opt.out("tables and a figure of both roofs")
@opt.as_json
def roofline(
    operator: str | None,
    model: str | None,
    graph: Any,
    sizes: opt.Sizes,
    machine: Hardware | None,
    launch_us: float | None,
    dtype: str | None,
    out: Path | None,
    operators: bool,
    as_json: bool,
    mask: str | None,
    tiles: str | None,
    **asked: str | None,
) -> None:
    """Find the least time of operators on a machine, and what sets it, by both boundaries.

    For OPERATOR (attention, matmul, softmax, …) of given sizes, for a whole model in a phase, or
    for a graph.
    """
    from iosim.base import writing
    from iosim.models.roofline import figure

    if sum(x is not None for x in (operator, model, graph)) != 1:
        known = ", ".join((*ATTENTIONS, *SINGLE))
        raise InputError(f"name an operator ({known}), or give --model or --graph: one of them")
    if machine is None:
        raise InputError("roofline needs a machine: give --machine, like --machine h200")
    if graph is not None and dtype is not None:
        raise InputError(
            f"--dtype does not apply to a graph, which has its own: {graph.graph.dtype}"
        )
    dtype = dtype or (graph.graph.dtype if graph is not None else "fp16")
    word_bytes(dtype)
    machine.peak(dtype)
    roof = Roof.of(machine, None if launch_us is None else launch_us * 1e-6)
    if out is not None:
        writing.out_dir(out, keep=False, files=figure.FILES)
    typed = {name: value for name, value in asked.items() if value}
    blocks = opt.marked_tiles(mask, tiles)
    if blocks is not None and (graph is not None or operator not in (None, *ATTENTIONS)):
        of = operator or "a graph, whose operators have their own: settings = { blocks = … }"
        raise InputError(f"--mask does not apply to {of}: leave it out")
    if operator is not None:
        answer = _of_operator(operator, {**sizes, **typed}, roof, dtype, blocks)
    elif graph is not None:
        answer = _of_graph(graph, {**sizes, **typed}, roof)
    else:
        answer = _of_model(str(model), {**sizes, **typed}, roof, dtype, blocks)
    made: list[Path] = []
    if out is not None:
        rows = answer.found.rows()
        roofs = [{"of": answer.title} | row for row in answer.found.machine_rows()]
        made = writing.publish(out, lambda part: figure.write_figure(part, rows, roofs))
    if as_json:
        opt.print_json(_to_dict(answer))
    else:
        _print(answer, operators=operators or model is None)
        opt.print_written(made)
    for note in (*answer.notes, *_bounds(answer.found)):
        opt.remark(note)


def _bounds(found: Roofline) -> Iterator[str]:
    """What is known of kernels under a block mask that no schedule moves fewer words than."""
    for x in found.kernels:
        if x.work.least:
            yield opt.least_words(x.work.name, x.work.least)


def _of_operator(
    name: str, given: Mapping[str, str], roof: Roof, dtype: str, blocks: MarkedTiles | None
) -> _Answer:
    from iosim.models.roofline import single
    from iosim.models.roofline.work import works

    told = dict(given)
    for x in ("phase", "tokens", "attention", "fusion", "no_online_softmax", "experts"):
        if x in told:
            raise InputError(
                f"{opt.spelt(x)[0]} applies to a model, not one operator: leave it out"
            )
    schedule = told.pop("schedule", None)
    if name in ATTENTIONS:
        problem = opt.problem_from(name, told)
        graph, title = single.attention(problem, dtype, blocks), opt.format_problem(problem)
        title += opt.format_blocks(blocks)
    else:
        if name not in SINGLE:
            raise InputError(f"unknown operator {name!r}: {closest(name, (*SINGLE, *ATTENTIONS))}")
        batch, settings = told.pop("batch", None), _settings(name, told)
        numbers = {x: parse_int(x, text) for x, text in told.items()}
        if batch is not None:
            numbers["b"] = parse_int("batch", batch)
        graph = single.single(name, numbers, dtype, **settings)
        title = ", ".join(f"{x} = {n:,}" for x, n in graph.operators[0].sizes.items())
    kernels = roof.timed_all(works(graph, roof.machine, schedule=schedule))
    return _Answer(f"{name}: {title}", Roofline(roof, dtype, kernels), notes=_unknown(roof))


def _settings(name: str, told: dict[str, str]) -> dict[str, int]:
    """What is typed and is not a size, taken out."""
    has = "devices" in OPERATORS[SINGLE[name][0]].settings
    if has and "P" not in told:
        raise InputError(f"{name} needs --P: give it")
    if not has and "P" in told:
        raise InputError(f"--P does not apply to {name}: leave it out")
    return {"devices": parse_int("P", told.pop("P"))} if has else {}


def _fused(how: str) -> str:
    """Of a title: the fusion, where there is one."""
    return "" if how == "none" else f", fusion {how}"


def _unknown(roof: Roof) -> tuple[str, ...]:
    return tuple(roof.unknown())


def _of_graph(written: Written, given: Mapping[str, str], roof: Roof) -> _Answer:
    from iosim.models.roofline.work import works

    opt.check_options(given, ("fusion", "no_online_softmax", "schedule"), "a graph")
    graph, schedule = written.graph, given.get("schedule")
    fusion: Any = given.get("fusion", "none")
    if fusion == "file" and not (fusion := written.kernels()):
        raise InputError("fusion file is the groups of a graph's file: give --graph FILE with some")
    online, notes = _searched(fusion, given)
    kernels = roof.timed_all(
        works(graph, roof.machine, schedule=schedule, fusion=fusion, online_softmax=online)
    )
    title = graph.name + _fused(given.get("fusion", "none"))
    return _Answer(
        title,
        Roofline(roof, graph.dtype, kernels),
        notes=tuple(filter(None, (opaque(graph), *notes, *_unknown(roof)))),
    )


def _searched(fusion: Any, given: Mapping[str, str]) -> tuple[bool, tuple[str, ...]]:
    """Whether attention may be one kernel, and a note on what the best are among."""
    online = "no_online_softmax" not in given
    if fusion == "none" and not online:
        raise InputError("--no-online-softmax is of fused kernels: add --fusion, or leave it out")
    if fusion != "best":
        return online, ()
    more = "at L2↔DRAM; none of these kernels moves more at SM↔L2 than its operators alone"
    return online, (f"fusion best: {family(online)}, {more}",)


_OF_MODEL = (
    "phase",
    "batch",
    "N",
    "tokens",
    "attention",
    "P",
    "fusion",
    "no_online_softmax",
    "experts",
)


def _of_model(
    name: str, given: Mapping[str, str], roof: Roof, dtype: str, blocks: MarkedTiles | None
) -> _Answer:
    from iosim.models.layers.workload import Workload, workload
    from iosim.models.roofline.capacity import resident_bytes
    from iosim.models.roofline.ridge import reached
    from iosim.models.roofline.sentence import does_not_fit, sentence
    from iosim.models.roofline.work import L2_DRAM, works_of

    opt.remark_assumed(name)
    opt.check_options(given, _OF_MODEL, "a model")
    if missing := [x for x in ("phase", "N") if x not in given]:
        them = "it" if len(missing) == 1 else "them"
        choices = f" (phases: {', '.join(PHASES)})" * ("phase" in missing)
        raise InputError(
            f"{name} needs {', '.join(f'--{x}' for x in missing)}: give {them}{choices}"
        )
    numbers = {x: parse_int(x, given.get(x, "1")) for x in ("batch", "N", "tokens", "P")}
    numbers["devices"] = numbers.pop("P")
    phase, batch = given["phase"], numbers.pop("batch")
    options: dict[str, Any] = {**numbers, "dtype": dtype}
    if "attention" in given:
        options["attention"] = given["attention"]
    if "experts" in given:
        options["experts"] = opt.experts_from(given["experts"])
    fusion = given.get("fusion", "none")

    def at(batch: int) -> Workload:
        return workload(name, phase, batch=batch, blocks=blocks, **options)

    online, notes = _searched(fusion, given)
    works: Callable[..., Any] = partial(
        works_of, machine=roof.machine, fusion=fusion, online_softmax=online
    )
    step = at(batch)
    found = Roofline(roof, dtype, roof.timed_all(works(step)))
    ridge = reached(lambda b: works(at(b), boundaries=(L2_DRAM,)), roof.machine.ridge_for(dtype))
    ahead = ridge.batch if found.of_weights() < ridge.ridge else None
    then = None
    if ahead is not None and ahead > batch:
        then = Roofline(roof, dtype, roof.timed_all(works(at(ahead))))
    holds = resident_bytes(step)
    more = {
        "model": name,
        "phase": phase,
        "batch": batch,
        **options,
        "fusion": fusion,
        "experts": step.routing and step.routing.to_dict(),
        "kept_bytes": holds | {"all": sum(holds.values())},
        "capacity_bytes": roof.machine.capacity_bytes,
        "fits": sum(holds.values()) <= roof.machine.capacity_bytes,
        "ridge": {
            "flop_per_byte": ridge.ridge,
            "batch": ridge.batch,
            "there": ridge.there,
            "one_less": ridge.before,
            "here": found.of_weights(),
        },
    }
    title = (
        f"{name}, {phase}, batch {batch:,}, N = {numbers['N']:,}"
        + (f", {numbers['tokens']:,} tokens a step" if numbers["tokens"] > 1 else "")
        + (f", {numbers['devices']:,} devices" if numbers["devices"] > 1 else "")
    )
    title += opt.format_blocks(blocks) + _fused(fusion)
    notes = (*notes, does_not_fit(holds, roof.machine), *_unknown(roof))
    if ahead is not None and ahead > batch:
        notes = (*notes, does_not_fit(resident_bytes(at(ahead)), roof.machine, ahead))
    text = sentence(phase, batch, found, ridge, then, step.routing)
    return _Answer(title, found, text, more, tuple(x for x in notes if x))


def _to_dict(answer: _Answer) -> Row:
    """For scripts."""
    found = answer.found
    return {
        "title": answer.title,
        **answer.more,
        "gpu": found.roof.machine.name,
        "dtype": found.dtype,
        "launch_s": found.roof.launch_s,
        "boundaries": found.boundaries(),
        "operators": found.rows(),
        "classes": found.classes(),
        "totals": found.totals() | {"time_s_by_limit": found.by_limit()},
        "sentence": answer.sentence or None,
        "notes": list(answer.notes),
    }


def _print(answer: _Answer, *, operators: bool) -> None:
    found = answer.found
    if answer.sentence:
        click.echo(f"{answer.sentence}\n")
    machine = found.roof.machine
    vector = found.roof.vector_peak
    click.echo(answer.title)
    click.echo(
        f"{machine.title}: {machine.peak(found.dtype) / 1e12:,.4g} TFLOP/s {found.dtype}"
        + (f", vector units {vector / 1e12:,.4g} TFLOP/s" if vector else "")
        + f", {found.roof.launch_s * 1e6:.4g} µs from kernel to kernel"
    )
    opt.print_table(
        ["boundary", "M_words", "GB/s", "ridge FLOP/B"],
        [
            [
                b["boundary"],
                b["M_words"],
                _digits(b["bytes_per_s"], 1e9) or "no source",
                _digits(b["ridge_flop_per_byte"]),
            ]
            for b in found.boundaries()
        ],
    )
    rows = found.rows()
    if operators:
        _print_operators(rows)
    if len(rows) == 1:
        (only,) = found.kernels
        opt.print_table(
            ["limit", "least µs"], [[x, _digits(s, 1e-6)] for x, s in only.limits.items()]
        )
        for at, how in only.work.how.items():
            click.echo(f"{at}  {how}")
    else:
        _print_sums(found)


def _print_operators(rows: Rows) -> None:
    """A table for each part."""
    parts = dict.fromkeys((r["part"], r["times"]) for r in rows)
    for part, times in parts:
        if len(parts) > 1:
            click.echo(f"{part}{f', summed over {times:,} layers' if times > 1 else ''}:")
        mine = [r for r in rows if (r["part"], r["times"]) == (part, times)]
        opt.print_table(
            [*_SHOWN, "L2↔DRAM FLOP/B", "bound by", "least µs"],
            [
                [
                    *(r[x] for x in _SHOWN.values()),
                    _digits(r["intensity"]),
                    _named(r["limit"]),
                    _digits(r["time_s"], 1e-6),
                ]
                for r in mine
            ],
        )


def _print_sums(found: Roofline) -> None:
    whole = found.totals()
    opt.print_table(
        ["class", "flop", "flop %", "L2↔DRAM bytes", "bytes %", "least µs", "time %"],
        [
            *(
                [
                    c["class"],
                    c["flop"],
                    _percent(c["flop_share"]),
                    c["dram_bytes"],
                    _percent(c["dram_bytes_share"]),
                    _digits(c["time_s"], 1e-6),
                    _percent(c["time_share"]),
                ]
                for c in found.classes()
            ),
            ["all", whole["flop"], "", whole["dram_bytes"], "", _digits(whole["time_s"], 1e-6), ""],
        ],
    )
    opt.print_table(
        ["bound by", "least µs", "time %"],
        [
            [_named(limit), _digits(seconds, 1e-6), _percent(seconds / whole["time_s"])]
            for limit, seconds in found.by_limit().items()
        ],
    )


def _named(limit: str) -> str:
    return f"{LIMITS[limit]}: {limit}"


def _percent(share: float) -> str:
    return f"{100 * share:.4g}"


def _digits(value: float | None, unit: float = 1) -> str:
    """Four digits are enough for what is derived; of a large number all before the point."""
    if value is None:
        return ""
    return f"{value / unit:,.4g}" if value / unit < 9999.5 else f"{value / unit:,.0f}"
