"""The command ``iosim fuse``: which operators should be one kernel."""

from __future__ import annotations

import re
from typing import Any

import click

from iosim.base.errors import InputError, closest
from iosim.cli import options as opt
from iosim.cli.renames import option
from iosim.core.problem import MarkedTiles
from iosim.core.units import parse_int, parse_range, parse_words
from iosim.models.fusion import fused, partition
from iosim.models.fusion.chain import chain
from iosim.models.fusion.report import rows, totals
from iosim.models.hardware import Hardware
from iosim.models.hardware import machine as find_machine
from iosim.models.layers.blocks import PHASES
from iosim.models.layers.files import Written
from iosim.models.layers.graph import Graph, opaque
from iosim.models.layers.routing import Routing
from iosim.models.layers.workload import workload

# Where M comes from, by the boundary's name as it is typed.
BOUNDARIES = {"dram": ("L2↔DRAM", "chip_words"), "sm": ("SM↔L2", "sm_words")}
STAGES = ("layer", "embedding", "head")
MACHINE = "h200"
# Operators of a chain, at most.
LONGEST = 65_536
# What may be typed for any graph, and for a model's.
_SEARCH = ("fusion", "within", "no_online_softmax", "intermediate_tiles")
_MODEL = ("model", "phase", "batch", "N", "tokens", "part", "attention", "experts", *_SEARCH)


@click.command()
@click.argument("what", required=False, metavar="[chain]")
@opt.model_option("like bert-large, or a file: .toml or config.json")
@opt.graph()
@click.option("--phase", help="phase: training, prefill or decode")
@opt.sizes("N", metavar="INT", N="sequence length: tokens of context")
@click.option("--batch", metavar="INT", help="sequences; 1 by default")
@click.option("--tokens", metavar="INT", help="new tokens of each sequence, in decoding")
@click.option("--part", help="layer (by default), embedding or head")
@click.option(
    "--attention", help="attention: unfused (by default), or fused: one operator from the start"
)
@click.option(
    "--fusion",
    metavar="NAME|FILE.json",
    help="fusion: none, paper, inductor-cpu, best (by default), file (the graph's own), or .json",
)
@opt.memory()
@click.option(
    "--within",
    metavar="SIZE",
    help="words of a second fast memory, in "
    "which kernels of best fit and move no more than their operators alone",
)
@opt.machine()
@click.option(
    "--boundary", help="whose M a machine gives: dram (L2↔DRAM, by default) or sm (SM↔L2)"
)
@opt.online_softmax
@opt.experts
@opt.mask
@opt.mask_tiles
@click.option("--intermediate-tiles", is_flag=True, hidden=True)
@option("--length", old=("--k",), metavar="INT,…", help="operators of a chain, like 1:16")
@click.option("--words", metavar="SIZE", help="words of each tensor of a chain, like 4Mi")
@opt.dtype
@opt.as_json
def fuse(
    what: str | None,
    M: str | None,
    machine: Hardware | None,
    boundary: str | None,
    dtype: str | None,
    as_json: bool,
    graph: Written | None,
    **given: Any,
) -> None:
    """Choose which operators to fuse into kernels, and count the words that this saves."""
    if graph is not None and dtype is not None:
        raise InputError("--dtype is what the graph's file says: leave it out")
    held, named = _memory(M, machine, boundary, dtype or (graph.graph.dtype if graph else "fp16"))
    where = {"boundary": named, "M": held}
    sizes = given.pop("sizes")
    blocks = opt.marked_tiles(given.pop("mask"), given.pop("tiles"))
    typed = {x: v for x, v in {**given, **sizes}.items() if v not in (None, False)}
    if blocks is not None and "model" not in typed:
        raise InputError("--mask is of a model: give --model; a graph's file has masks of its own")
    if what == "chain":
        _of_chain(typed | ({"graph": graph} if graph else {}), where, as_json)
    elif graph is not None and what is None:
        _of_file(graph, typed, where, as_json)
    elif what is not None:
        raise InputError(f"unknown graph {what!r}: {closest(what, ['chain'])}, or give --model")
    else:
        _of_model(typed, dtype or "fp16", where, as_json, blocks)


def _memory(
    M: str | None, machine: Hardware | None, boundary: str | None, dtype: str
) -> tuple[int, str]:
    """M in words, and the name of its boundary."""
    if M is not None:
        if machine is not None:
            raise InputError("--M and --machine both say how much fits: give one")
        if boundary is not None:
            raise InputError("--boundary says whose M a machine gives: leave out --M, or it")
        return parse_words("M", M, dtype), "the boundary of M"
    boundary = boundary or "dram"
    if boundary not in BOUNDARIES:
        raise InputError(f"unknown boundary {boundary!r}: {closest(boundary, BOUNDARIES)}")
    said, words = BOUNDARIES[boundary]
    found = machine or find_machine(MACHINE)
    return getattr(found, words)(dtype), f"{said} of {found.name}"


def _of_chain(typed: dict[str, Any], where: dict[str, Any], as_json: bool) -> None:
    opt.check_options(typed, ("length", "words"), "a chain")
    if missing := [x for x in ("length", "words") if x not in typed]:
        raise InputError(f"a chain needs --{missing[0]}: give --length 1:16 --words 4Mi")
    n = parse_int("words", typed["words"])
    text = re.sub(r"^\s*(\w+)\s*:\s*(\w+)\s*$", r"\1:\2:+1", typed["length"])
    found = []
    for k in parse_range("length", text):
        if k > LONGEST:
            raise InputError(f"a chain of {k:,} operators is too long: give at most {LONGEST:,}")
        graph = chain(k, n)
        none, best = (fused(graph, how, where["M"]).words for how in ("none", "best"))
        found.append({"k": k, "words_none": none, "words_best": best, "ratio": none / best})
    if as_json:
        opt.print_json(where | {"words": n, "chains": found})
        return
    _title(f"{n:,} words", where)
    opt.print_rows(found)


def _of_model(
    typed: dict[str, Any],
    dtype: str,
    where: dict[str, Any],
    as_json: bool,
    blocks: MarkedTiles | None,
) -> None:
    opt.check_options(typed, _MODEL, "a model")
    for needed in ("model", "phase", "N"):
        if needed not in typed:
            raise InputError(
                f"a model's graph needs --{needed}: give --model bert-large --phase training "
                f"(or {' or '.join(PHASES[1:])}) --N 512, or --graph FILE, or chain"
            )
    graph, routing = _layer(typed, dtype, blocks)
    unfused = None
    if "attention" in typed:
        unfused, _ = _layer(typed | {"attention": "unfused"}, dtype, blocks)
    title = f"{graph.name}, {typed['phase']}{opt.format_blocks(blocks)}"
    more: dict[str, Any] = {"experts": None}
    if routing is not None:
        title += f", {routing.says}"
        more = {"experts": routing.to_dict()}
    _of_graph(graph, title, None, typed, where | more, as_json, unfused)


def _of_file(written: Written, typed: dict[str, Any], where: dict[str, Any], as_json: bool) -> None:
    opt.check_options(typed, _SEARCH, "a graph of one's own")
    graph = written.graph
    opt.remark(opaque(graph))
    _of_graph(graph, graph.name, written.kernels() or None, typed, where, as_json)


def _of_graph(
    graph: Graph,
    title: str,
    own: list[Any] | None,
    typed: dict[str, Any],
    where: dict[str, Any],
    as_json: bool,
    unfused: Graph | None = None,
) -> None:
    if "intermediate_tiles" in typed:
        opt.remark("--intermediate-tiles is the default now, --no-online-softmax the switch")
    online = "no_online_softmax" not in typed
    how, M = typed.get("fusion", "best"), where["M"]
    within = None
    if "within" in typed:
        if how != "best":
            raise InputError(f"--within is what best chooses by, not {how}: leave it out")
        within = where["within"] = parse_words("within", typed["within"], graph.dtype)
    mine = None
    if own is not None:
        mine = partition(graph, own, M, "file", online_softmax=online)
    if how == "file" and mine is None:
        raise InputError("fusion file is the groups of a graph's file: give --graph FILE with some")
    found = (
        mine
        if how == "file" and mine is not None
        else fused(graph, how, M, online_softmax=online, within=within)
    )
    groups = rows(graph, found)
    for k in found.groups:
        if k.crossing.least is not None:
            name = " + ".join(k.names)
            opt.remark(opt.least_words(name, {where["boundary"]: k.crossing.least}))
    every = totals(
        graph, [found, *([mine] if mine else [])], online_softmax=online, unfused=unfused
    )
    if as_json:
        opt.print_json(
            {
                "graph": graph.name,
                "phase": typed.get("phase"),
                "dtype": graph.dtype,
                **where,
                "online_softmax": online,
                "intermediate_tiles": online,
                "fusion": found.how,
                "groups": [
                    r | {"loads": k.crossing.loads, "stores": k.crossing.stores}
                    for r, k in zip(groups, found.groups, strict=True)
                ],
                "totals": every,
            }
        )
        return
    _title(f"{title}, {graph.dtype}, fusion {found.how}", where)
    opt.print_table(
        ["operators", "words in", "words out", "words saved", "schedule"],
        [
            [
                " + ".join(r["operators"]),
                r["words_in"],
                r["words_out"],
                r["words_saved"],
                r["schedule"],
            ]
            for r in groups
        ],
    )
    click.echo()
    if found.family:
        click.echo(f"{found.how}: {found.family}")
    opt.print_table(
        ["fusion", "kernels", "words", "of none" + ", attention unfused" * (unfused is not None)],
        [[r["fusion"], r["kernels"], r["words"], r["of_none"]] for r in every if not r["note"]],
    )
    for r in every:
        opt.remark(r["note"] and f"fusion {r['fusion']}: {r['note']}")


def _layer(
    typed: dict[str, Any], dtype: str, blocks: MarkedTiles | None
) -> tuple[Graph, Routing | None]:
    part = typed.get("part", "layer")
    if part not in STAGES:
        raise InputError(f"unknown part {part!r}: {closest(part, STAGES)}")
    numbers: dict[str, Any] = {
        x: parse_int(x, typed[x]) for x in ("batch", "N", "tokens") if x in typed
    }
    if "experts" in typed:
        numbers["experts"] = opt.experts_from(typed["experts"])
    opt.remark_assumed(typed["model"])
    whole = workload(
        typed["model"],
        typed["phase"],
        dtype=dtype,
        attention=typed.get("attention", "unfused"),
        blocks=blocks,
        **({"batch": 1} | numbers),
    )
    (found,) = (s.graph for s in whole.parts if s.graph.name == f"{whole.name} {part}")
    return found, whole.routing


def _title(text: str, where: dict[str, Any]) -> None:
    click.echo(f"{text}; words at {where['boundary']}, M = {where['M']:,} words")
