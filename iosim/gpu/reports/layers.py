"""One layer of BERT-large, GPT-2 and Llama 3 8B in PyTorch, kernel by kernel, compared with the
model.

Each is run eager, compiled, and both with fused attention: training, prefill and decoding.  Times
are of runs without a profiler, and of kernels by PyTorch's; bytes and flop are Nsight Compute's.
docs/gpu.md says how kernels are mapped to operators.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from iosim.base.errors import InputError
from iosim.base.rows import Row, Rows, Values
from iosim.core.units import parse_int
from iosim.gpu.layers import cases
from iosim.gpu.layers.groups import ATTENTION, CLASSES, COPY, UNKNOWN
from iosim.gpu.layers.launch_counters import COUNTERS, ORDINARY, PRODUCT_N, STREAM_WORDS, total
from iosim.gpu.layers.record import LayerRun, LayersRecord, Spec, read_layers
from iosim.gpu.layers.rows import (
    PUBLISHED,
    PUBLISHED_CASE,
    Told,
    class_rows,
    failed_row,
    kernel_rows,
    list_runs,
    run_row,
)
from iosim.gpu.records import record as names
from iosim.gpu.reports import _axes
from iosim.gpu.reports._entry import (
    COUNTERS_OPTION,
    GpuReport,
    ReportOption,
    ReportTable,
    WorkerRun,
    choose_counters,
)
from iosim.report.plot import draw_legend

# Share of the seconds that times may take; counters have the rest.
MEASURING = 0.55
# Of the counters at what is of known size, relative.
GATE_TOLERANCE = 0.01


def _measure(asked: Any, out: Path) -> Row:
    from iosim.gpu.layers import tasks

    return tasks.measure(asked, out)


def _watched(asked: Any, out: Path) -> Row:
    from iosim.gpu.layers import tasks

    return tasks.watched(asked, out)


def _plan(given: Values) -> tuple[WorkerRun, ...]:
    found = cases.chosen(given["model"], given["phase"], given["quick"])
    if not found:
        raise InputError(
            f"no case of {', '.join(given['model'])} in {', '.join(given['phase'])}: choose others"
        )
    runs = tuple(LayerRun(case, variant) for case in found for variant in given["variant"])
    for run in runs:
        run.case.graph(run.how)
    seconds = given["seconds"]
    spec = Spec(
        runs, seconds * MEASURING, seconds * (1 - MEASURING), f"iosim-{secrets.token_hex(8)}"
    )
    asked = asdict(spec)
    measure = WorkerRun("measure", asked, names.SPEC, names.MEASURED)
    profile = WorkerRun(
        "profile",
        asked,
        names.SPEC,
        names.PROFILED,
        names.COUNTERS,
        (),
        tuple(x for what, x in COUNTERS.items() if given["vector_flop"] or what not in ORDINARY),
    )
    return (measure, profile) if given["counters"] else (measure,)


def _gate(record: LayersRecord) -> tuple[str, bool]:
    """What the counters say of what is of known size, and whether that is right."""
    if not record.gates:
        return "no counters", True
    stream, product = (record.gates[x] for x in ("stream", "product"))
    half, flop = STREAM_WORDS * 2, 2 * PRODUCT_N**3
    wants = (
        ("SM↔L2 loads", stream, "sm_l2_load", half),
        ("SM↔L2 stores", stream, "sm_l2_store", half),
        ("DRAM reads", stream, "dram_load", half),
        ("flop on matrix units", product, "tensor_flop", flop),
    )
    wrong = []
    for what, launches, name, want in wants:
        got = total(launches, name)
        if got is None:
            wrong.append(f"{what} not read")
        elif abs(got / want - 1) > GATE_TOLERANCE:
            wrong.append(f"{what} {got} where {want} are known")
    text = "; ".join(wrong) or f"counters right to {GATE_TOLERANCE:.0%} at what is of known size"
    return text, not wrong


def _table(folder: Path) -> ReportTable:
    record = read_layers(folder)
    runs = list_runs(record)
    if not runs:
        return ReportTable([], "nothing ran", False, record.measured[0].failed)
    with names.naming(f"{folder / names.MEASURED}"):
        eager = {one.run.case: one for one in runs if one.run.variant == "eager"}
        rows = {one.run: run_row(one, eager.get(one.run.case)) | {"failed": ""} for one in runs}
        like = next(iter(rows.values()))
        every = [
            rows.get(run) or failed_row(like, run, row.failed)
            for run, row in zip(record.runs, record.measured, strict=True)
        ]
        files: Row = {
            "classes.csv": [row for one in runs for row in class_rows(one)],
            "kernels.csv": [row for one in runs for row in kernel_rows(one)],
        }
        for one in runs:
            if one.fused is not None:
                files[f"groups-{one.run.name}.json"] = _groups(one)
    text, good = _gate(record)
    return ReportTable(every, _summary(record, runs, text), good, "", files)


def _groups(one: Told) -> Row:
    """What was fused: a partition for `iosim.models.fusion.fused`, and what it doesn't say."""
    fused, launched = one.fused, one.measured.groups
    assert fused is not None
    partial = [x for x, own in zip(launched, fused.names, strict=False) if not own and x.kernels]
    return {
        "graph": one.graph.name,
        "groups": fused.groups,
        "absorbed": list(fused.absorbed),
        "kernels": len(one.kernels),
        "kernels_of_parts_of_operators": [list(x.kernels) for x in partial],
    }


def _summary(record: LayersRecord, runs: Sequence[Told], gates: str) -> str:
    """One line: how many runs, the class shares of the published case, how much is unknown."""
    counted = sum(one.seen is not None for one in runs)
    text = f"{len(record.runs)} runs, {len(runs)} measured, {counted} with counters; {gates}"
    for one in runs:
        if one.run.case.name == PUBLISHED_CASE and one.run.variant == "eager":
            row = run_row(one, None)
            shares = [100 * row[f"time_{c}"] for c in PUBLISHED]
            said = " / ".join(f"{x:.1f}" for x in shares)
            was = " / ".join(str(x) for x, _ in PUBLISHED.values())
            text += f"; {PUBLISHED_CASE}, eager: {said} % of the time of kernels (V100: {was})"
    unknown = sum(k.klass == UNKNOWN for one in runs for k in one.kernels)
    return text + f"; {unknown} launches of unknown operators"


_COLOR = dict(
    zip(CLASSES, ("#0072B2", "#009E73", "#E69F00", "#5D3A9B", "#999999", "#000000"), strict=True)
)


def _measured_rows(rows: Rows) -> Rows:
    return [row for row in rows if not row["failed"]]


def _once(rows: Rows) -> Rows:
    """Of runs that several records have, each where it was measured first."""
    found: dict[str, Row] = {}
    for row in _measured_rows(rows):
        found.setdefault(_label(row), row)
    return list(found.values())


def _label(row: Values) -> str:
    return f"{row['model']} {row['phase']}, {row['variant']}"


def _shares(axes: Any, rows: Rows) -> None:
    """Share of time by class, each run a bar; the flop's and the published ones next to them."""
    own = _once(rows)
    bars = [(_label(r), {c: r[f"time_{c}"] for c in CLASSES}) for r in own]
    for r in own:
        if f"{r['model']} {r['phase']}" == PUBLISHED_CASE and r["variant"] == "eager":
            bars.insert(0, ("the same: flop of the model", {c: r[f"flop_{c}"] for c in PUBLISHED}))
            bars.insert(
                0, ("the same, V100 (published)", {c: x / 100 for c, (x, _) in PUBLISHED.items()})
            )
    for y, (_, share) in enumerate(bars):
        left = 0.0
        for c in CLASSES:
            axes.barh(y, share.get(c, 0.0), left=left, color=_COLOR[c], label=c if y == 0 else None)
            left += share.get(c, 0.0)
    for y, r in enumerate(own, start=len(bars) - len(own)):
        axes.text(1.01, y, f"{r['overhead_share']:.0%} no kernel", fontsize=8.5, va="center")
    axes.set_yticks(range(len(bars)), [name for name, _ in bars], fontsize=8.5)
    axes.invert_yaxis()
    axes.set_xlabel(
        "share of the time of kernels; beside it, the share of a pass in which none runs"
    )
    axes.set_title(
        f"Contractions: {_axes.span([r['time_contraction'] for r in own], '.0%')} "
        "of the time of kernels",
        pad=32,
    )
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=6, columnspacing=1)


def _least(axes: Any, rows: Rows) -> None:
    """Measured time of a pass, and of its kernels, over the least."""
    own = _once(rows)
    times_of = [
        lambda r: (r["least_us"], r["wall_us"] / r["least_us"]),
        lambda r: (r["least_us"], r["busy_us"] / r["least_us"]),
    ]
    _axes.scatter(axes, own, "variant", times_of)
    _axes.level(axes, 1)
    axes.set_yscale("log")
    times = _axes.span([r["busy_us"] / r["least_us"] for r in own], ".1f")
    axes.set_title(f"Time of kernels: {times} times the roofline's least")
    axes.set_xlabel("least time by the roofline, µs (bytes at SM↔L2 and at L2↔DRAM)")
    axes.set_ylabel("measured ÷ least time:\na pass (filled), its kernels (open)")
    draw_legend(axes)


def _bytes(axes: Any, rows: Rows) -> None:
    """Bytes at L2↔DRAM of all records, measured over the model's for the same fusion."""
    own = [r for r in _measured_rows(rows) if not math.isnan(r["dram_load_bytes"])]
    _axes.scatter(axes, own, "variant", [lambda r: (r["dram_model_bytes"], _over_model(r))])
    if own:
        _axes.level(axes, 1)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")  # they would overlap over a single decade
        draw_legend(axes)
    times = _axes.span([_over_model(r) for r in own], ".2f")
    axes.set_title(
        f"Bytes at L2↔DRAM, caches flushed before each kernel:\n{times} times the model's"
    )
    axes.set_xlabel("predicted bytes at L2↔DRAM, same kernels")
    axes.set_ylabel("counted ÷ predicted,\nbytes at L2↔DRAM, read and written")


def _over_model(row: Values) -> float:
    """Bytes at L2↔DRAM that were counted over those of the model."""
    moved: float = row["dram_load_bytes"] + row["dram_store_bytes"]
    return moved / float(row["dram_model_bytes"])


def _speedups(axes: Any, rows: Rows) -> None:
    """Speed compared with eager: measured, and by the model for the same fusion."""
    own = [r for r in _once(rows) if r["variant"] != "eager"]
    own = [r for r in own if not math.isnan(r["speedup"])]
    for y, r in enumerate(own):
        axes.barh(y - 0.2, r["speedup"], 0.4, color="#0072B2", label=None if y else "measured")
        axes.barh(
            y + 0.2,
            r["model_speedup"],
            0.4,
            color="#E69F00",
            label=None if y else "the model, same fusion",
        )
    axes.axvline(1, color="#888888", linewidth=0.8)
    axes.set_yticks(range(len(own)), [_label(r) for r in own], fontsize=8.5)
    axes.invert_yaxis()
    axes.set_xlabel("times the speed of eager")
    measured, model = (_axes.span([r[x] for r in own], ".1f") for x in ("speedup", "model_speedup"))
    axes.set_title(f"Times the speed of eager: {measured} measured, {model} by the model")
    if own:
        draw_legend(axes)


def _parse_seconds(text: str) -> int:
    return parse_int("seconds", text)


def _several(
    name: str, known: Iterable[str], parse: Callable[[str], Any], metavar: str | None = None
) -> ReportOption:
    says = f"{name}: {', '.join(known)}, or all"
    return ReportOption(name, "all", says, parse, metavar, (f"--{name}s",))


REPORT = GpuReport(
    name="layers",
    options=(
        _several("model", cases.MODELS, cases.models, "NAME,…"),
        _several("phase", cases.PHASES, cases.phases),
        _several("variant", cases.VARIANTS, cases.variants),
        ReportOption(
            "seconds", "380", "time limit: then no more runs are started", _parse_seconds, "NUMBER"
        ),
        ReportOption("quick", False, "small sizes, to see that everything works", bool),
        ReportOption(
            "vector_flop",
            True,
            "count FLOP outside of matrix units, too",
            bool,
            old=("--ordinary/--no-ordinary",),
        ),
        COUNTERS_OPTION,
    ),
    plan=_plan,
    counters=choose_counters,
    tasks={"measure": _measure, "profile": _watched},
    table=_table,
    columns=(
        "model",
        "phase",
        "variant",
        "wall_us",
        "busy_us",
        "overhead_share",
        "launches",
        "least_us",
        "of_least",
        *(f"time_{c}" for c in (*PUBLISHED, ATTENTION, COPY, UNKNOWN)),
        "dram_model_bytes",
        "dram_load_bytes",
        "dram_store_bytes",
        "speedup",
        "model_speedup",
        "failed",
    ),
    panels=(_shares, _least, _bytes, _speedups),
    apart=True,
)
