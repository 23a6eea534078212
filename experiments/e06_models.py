"""Real models on real machines: a roofline at each boundary, and what an H200 measured beside them.

One layer's attention, forward, fp16, at the model's longest context, causal and with grouped heads
where the model is; and a product of 1024 × 1024 × 4096.  At SM↔L2 the fast memory is an SM's own,
at L2↔DRAM what the chip holds, and the bytes of a boundary meet the bandwidth of that boundary
only.  FLOP are those of the matrix products; a least time also has what the vector units do, and a
launch.

A model's point is at its least time, so it is on a roof or below it.  Measured points are recorded
runs on an H200 (`iosim gpu`), of the shapes that they name.  Times are by the clock.  Bytes are
those that hardware counted; else, at SM↔L2, those that the model counts for the tiles that ran, and
at L2↔DRAM the compulsory ones, or for standard attention naive's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iosim.base.dtypes import word_bytes
from iosim.core.algorithms import algorithm
from iosim.core.counting.numbers import count
from iosim.core.problem import Attention, model
from iosim.core.program.walk import bind
from iosim.core.units import bytes_of, parse_tiles
from iosim.gpu.reports import gpu_report
from iosim.models.hardware import MACHINES, Hardware
from iosim.models.layers.graph import Graph
from iosim.models.roofline.roof import Roof, Timed
from iosim.models.roofline.single import attention, single
from iosim.models.roofline.work import BOUNDARIES, L2_DRAM, SM_L2, Work, works
from iosim.report.plot import MARKERS, PALETTE, STYLE, WIDTH, pyplot, save
from iosim.report.table import read_csv

from . import DATA, Experiment, Rows, digits, run_main

DTYPE = "fp16"
GPUS = ("v100", "a100", "h100", "h200", "b200")
DRAWN = ("a100", "h100", "h200")
NAMES = {
    "gpt2": "GPT-2",
    "bert-large": "BERT-large",
    "llama3-8b": "Llama-3 8B",
    "llama3-70b": "Llama-3 70B",
}
SCHEDULES = ("naive", "small_cache", "flash1", "flash2", "grouped_rows")
# m, n, k: by the bytes of SM↔L2 over the bandwidth of DRAM it would be bound by memory.
PRODUCT = {"m": 1024, "n": 1024, "k": 4096}
FEED_FORWARD = "product 1024 × 1024 × 4096"
RECORDS = DATA / "gpu" / "h200"
MEASURED = "h200"
COLUMN = {L2_DRAM: "dram", SM_L2: "sm_l2"}


def tables() -> dict[str, Rows]:
    """Models, what was measured, and the roofs of the machines."""
    rows: Rows = []
    for name in GPUS:
        machine = MACHINES[name]
        for model_name in NAMES:
            problem = model(model_name)
            for schedule in SCHEDULES:
                if algorithm(schedule).supports(problem.form):
                    found = _timed(machine, attention(problem, DTYPE), schedule)
                    rows.append(_row(machine, model_name, problem.as_dict, schedule, found))
        found = _timed(machine, single("matmul", PRODUCT, DTYPE), "matmul")
        rows.append(_row(machine, FEED_FORWARD, {}, "matmul", found))
    return {
        "roofline.csv": rows,
        "measured.csv": list(_measured()),
        "machines.csv": [_machine(MACHINES[name]) for name in GPUS],
    }


def _timed(machine: Hardware, graph: Graph, schedule: str) -> Timed:
    (work,) = works(graph, machine, schedule=schedule)
    return Roof.of(machine).timed(work)


def _row(
    machine: Hardware, name: str, told: dict[str, Any], schedule: str, found: Timed
) -> dict[str, Any]:
    work = found.work
    row = {
        "gpu": machine.name,
        "model": name,
        **{x: told.get(x) for x in ("N", "d", "heads", "kv_heads")},
        "causal": told.get("causal", False),
        "schedule": schedule,
        "product_flop": work.products,
    }
    for at, column in COLUMN.items():
        row |= {
            f"{column}_M_words": BOUNDARIES[at].M(machine, DTYPE),
            f"{column}_bytes": work.bytes[at],
            f"{column}_flop_per_byte": digits(work.products / work.bytes[at]),
        }
    return row | {
        "least_time_us": digits(found.time_s * 1e6),
        "limit": found.limit,
        "tflop_per_s": digits(work.products / found.time_s / 1e12),
        "of_peak": digits(work.products / found.time_s / machine.peak(DTYPE), 4),
        # By the words of SM↔L2 against the bandwidth of L2↔DRAM, which are of two boundaries.
        "of_peak_if_mixed": digits(_mixed(machine, work), 4),
    }


def _mixed(machine: Hardware, work: Work) -> float:
    """What E06 showed before: as if L2 served nothing."""
    ridge = machine.ridge_for(DTYPE)
    return min(1.0, work.products / work.bytes[SM_L2] / ridge)


def _machine(machine: Hardware) -> dict[str, Any]:
    fields = (
        "cores",
        "sram_bytes",
        "cache_bytes",
        "dram_bytes_per_s",
        "l2_bytes_per_s",
        f"peak {DTYPE}",
        "peak fp32",
        "launch_s",
    )
    row: dict[str, Any] = {"gpu": machine.name, "title": machine.title, "year": machine.year}
    row |= {
        "sms": machine.cores,
        "sram_bytes_per_sm": machine.sram_bytes,
        "l2_bytes": machine.cache_bytes,
        "peak_tflop_per_s": digits(machine.peak(DTYPE) / 1e12),
    }
    for at, column in COLUMN.items():
        speed = BOUNDARIES[at].bytes_per_s(machine)
        row[f"{column}_gb_per_s"] = speed and digits(speed / 1e9)
        row[f"{column}_ridge_flop_per_byte"] = speed and digits(machine.peak(DTYPE) / speed, 4)
    return row | {"source": "; ".join(dict.fromkeys(machine.source(x) for x in fields))}


def _measured() -> Iterator[dict[str, Any]]:
    """Recorded runs, each of its own shape."""
    for folder in ("bench", "bench-causal"):
        for r in gpu_report("bench").table(RECORDS / folder).rows:
            problem = Attention(r["N"], r["d"], r["heads"], causal=r.get("case") == "causal")
            yield _run(folder, "flash2", problem, r["emitted_s"], _of_tiles("flash2", problem, r))
            yield _run(folder, "PyTorch's fused", problem, r["fused_s"])
            if r["standard_s"] == r["standard_s"] and not problem.causal:
                standard = (_naive(problem), "model, naive")
                yield _run(folder, "PyTorch's standard", problem, r["standard_s"], dram=standard)
    for r in gpu_report("decode").table(RECORDS / "decode").rows:
        sizes = {k: int(v) for k, v in (x.split("=") for x in r["sizes"].split())}
        batch = sizes["batch"]
        problem = Attention(
            1,
            sizes["d"],
            batch * sizes["heads"],
            N_k=sizes["N_k"],
            kv_heads=batch * sizes["kv_heads"],
        )
        own = _of_tiles(r["algorithm"], problem, r)
        yield _run("decode", r["algorithm"], problem, r["emitted_s"], own)
        yield _run("decode", "PyTorch's fused", problem, r["fused_s"])
    for r in gpu_report("dram").table(RECORDS / "dram").rows:
        if not r["failed"]:
            problem = Attention(r["N"], r["d"])
            how = "flash2, in step" if r["in_step"] else "flash2"
            # Loads of the hardware; what is stored is O, once.
            stored = problem.N * problem.d * word_bytes(DTYPE)
            yield _run(
                "dram",
                how,
                problem,
                r["time_s"],
                (r["sram_load"] + stored, "hardware"),
                (r["measured"] + r["written"], "hardware"),
            )


def _naive(problem: Attention) -> int:
    """What standard attention moves at L2↔DRAM, which E03 holds against counters."""
    (work,) = works(
        attention(problem, DTYPE), MACHINES[MEASURED], schedule="naive", boundaries=(L2_DRAM,)
    )
    return work.bytes[L2_DRAM]


def _of_tiles(name: str, problem: Attention, row: dict[str, Any]) -> tuple[int, str]:
    """The bytes of a schedule with the tiles that ran, at SM↔L2."""
    program = algorithm(name).program_for(problem)
    instance = bind(program, problem.sizes, parse_tiles(row["tiles"].replace(" ", ",")))
    return sum(bytes_of(count(instance), program.tensors, DTYPE).values()), "model, its tiles"


def _run(
    record: str,
    who: str,
    problem: Attention,
    seconds: float,
    sm_l2: tuple[int | None, str] = (None, ""),
    dram: tuple[int, str] | None = None,
) -> dict[str, Any]:
    graph = attention(problem, DTYPE)
    (op,) = graph.operators
    flop, compulsory = op.products, (op.words_in + op.words_out) * word_bytes(DTYPE)
    dram_bytes, dram_from = dram or (compulsory, "compulsory")
    machine = MACHINES[MEASURED]
    least = max(flop / machine.peak(DTYPE), dram_bytes / machine.dram_bytes_per_s)
    return {
        "record": record,
        "who": who,
        "N": problem.N,
        "N_k": problem.keys,
        "d": problem.d,
        "heads": problem.heads,
        "kv_heads": problem.groups,
        "causal": problem.causal,
        "product_flop": flop,
        "time_us": digits(seconds * 1e6),
        "tflop_per_s": digits(flop / seconds / 1e12),
        "of_peak": digits(flop / seconds / machine.peak(DTYPE), 4),
        "sm_l2_bytes": sm_l2[0],
        "sm_l2_bytes_from": sm_l2[1],
        "sm_l2_flop_per_byte": sm_l2[0] and digits(flop / sm_l2[0]),
        "dram_bytes": dram_bytes,
        "dram_bytes_from": dram_from,
        "dram_flop_per_byte": digits(flop / dram_bytes),
        "least_time_us": digits(least * 1e6),
        "time_over_least": digits(seconds / least, 4),
    }


# -- the figure ------------------------------------------------------------------------------------


def draw(folder: Path, stem: Path) -> list[Path]:
    """A row of rooflines for each machine, a column for each boundary; the legend beneath."""
    rows, runs = read_csv(folder / "roofline.csv"), read_csv(folder / "measured.csv")
    machines = {m["gpu"]: m for m in read_csv(folder / "machines.csv")}
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(3, 2, figsize=(WIDTH, 12.5), sharex=True, sharey=True)
        for gpu, line in zip(DRAWN, grid, strict=True):
            for (at, column), axes in zip(COLUMN.items(), line, strict=True):
                _roofline(axes, at, column, machines[gpu], [r for r in rows if r["gpu"] == gpu])
                if gpu == MEASURED:
                    _points(axes, column, runs)
                axes.set_xlabel(f"FLOP per byte at {at}")
                axes.tick_params(labelbottom=True)
            line[0].set_ylabel("TFLOP/s of matrix products, fp16")
        figure.suptitle(f"One layer's attention with each model's heads:\n{_describe(rows)}")
        figure.tight_layout(rect=(0, 0.085, 1, 1))
        _legends(figure, grid[0][0])
        return save(figure, stem)


def _describe(rows: Rows) -> str:
    """What the figure shows: which schedules are always limited at L2↔DRAM, and which never."""
    limits: dict[str, set[str]] = {}
    for r in rows:
        if r["gpu"] in DRAWN and r["model"] in NAMES:
            limits.setdefault(r["schedule"], set()).add(r["limit"])
    always = [name for name, found in limits.items() if found == {L2_DRAM}]
    never = [name for name, found in limits.items() if L2_DRAM not in found]
    return (
        f"{' and '.join(always) or 'none'} are always limited at {L2_DRAM}, "
        f"{' and '.join(never) or 'none'} never"
    )


_COLORS = dict(zip((*SCHEDULES, "matmul"), PALETTE, strict=False))
_MARKS = dict(zip((*NAMES, FEED_FORWARD), MARKERS, strict=False))
# What ran → how it is drawn: emitted kernels in black, PyTorch's in grey.
_RUNS = {
    "flash2": ("+", "black"),
    "flash2, in step": ("x", "black"),
    "decode": ("*", "black"),
    "split_kv": ("|", "black"),
    "PyTorch's fused": ("^", "grey"),
    "PyTorch's standard": ("v", "grey"),
}


def _roofline(axes: Any, at: str, column: str, machine: dict[str, Any], rows: Rows) -> None:
    peak, speed = machine["peak_tflop_per_s"], machine[f"{column}_gb_per_s"]
    if speed:
        ridge = peak / speed * 1e3
        axes.plot([1, ridge, 3e5], [speed / 1e3, peak, peak], color="black", linewidth=1.1)
        said = f"{speed:,.0f} GB/s, ridge {ridge:,.0f} FLOP/B"
    else:
        axes.plot([1, 3e5], [peak, peak], color="black", linewidth=1.1)
        said = "no bandwidth with a source: no slope"
    for r in rows:
        axes.plot(
            r[f"{column}_flop_per_byte"],
            r["tflop_per_s"],
            _MARKS[r["model"]],
            color=_COLORS[r["schedule"]],
            markersize=7,
            alpha=0.85,
            zorder=3,
        )
    axes.set(xscale="log", yscale="log", xlim=(1, 3e5), ylim=(1, 2000))
    axes.set_title(f"{machine['title']}, {at}\n{said}", fontsize=10)


def _points(axes: Any, column: str, runs: Rows) -> None:
    for r in runs:
        if r[f"{column}_flop_per_byte"]:
            mark, color = _RUNS[r["who"]]
            axes.plot(
                r[f"{column}_flop_per_byte"],
                r["tflop_per_s"],
                mark,
                color=color,
                markersize=6,
                markerfacecolor="none",
                zorder=4,
            )


def _legends(figure: Any, axes: Any) -> None:
    """What colors say, what shapes say, and how measured runs are drawn."""
    schedules = [axes.plot([], [], "o", color=c, label=x)[0] for x, c in _COLORS.items()]
    models = [
        axes.plot([], [], m, color="grey", label=NAMES.get(x, "product"))[0]
        for x, m in _MARKS.items()
    ]
    runs = [
        axes.plot(
            [], [], m, color=c, markerfacecolor="none", label=x.replace("in step", "in lockstep")
        )[0]
        for x, (m, c) in _RUNS.items()
    ]
    for handles, title, place, columns in (
        (schedules, "color: schedule", 0.155, 2),
        (models, "shape: model", 0.465, 2),
        (runs, "measured on an H200", 0.81, 2),
    ):
        figure.legend(
            handles=handles,
            title=title,
            loc="lower center",
            ncols=columns,
            bbox_to_anchor=(place, 0),
            columnspacing=1,
        )


EXPERIMENT = Experiment("e06_models", tables, draw)

if __name__ == "__main__":
    run_main(EXPERIMENT.main)
