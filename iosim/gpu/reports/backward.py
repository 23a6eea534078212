"""Backward passes beside PyTorch's: speed, and what its kernels move at SM↔L2.

The emitted schedules get the tiles, warps and stages that are fastest at the shortest length, and
are timed in turn with the two fused backward passes of PyTorch on the same tensors.  The profiler
then counts what these two move: they are FlashAttention-2's loop order (columns outside), whose
additions to dQ are the hardware's reductions.  What the model says of that schedule with B_c =
128 stands beside their counters: loads of Q, dO, K, V, L and D, reductions of dQ in fp32, stores of
dK and dV.  `_compare` and `_watch` run in the worker; the rest only reads what they wrote.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from iosim.algorithms import ALGORITHMS, algorithm
from iosim.counting.numbers import count, peak
from iosim.errors import InputError
from iosim.gpu.errors import GpuError
from iosim.gpu.layers.counted import BYTES, STREAM_WORDS, Counted, read_counted
from iosim.gpu.layers.counted import COUNTERS as KINDS
from iosim.gpu.records.plain import read_json
from iosim.gpu.records.record import COUNTERS, MEASURED, PROFILED, SPEC
from iosim.gpu.reports._cases import CASES
from iosim.gpu.reports._entry import (
    GpuReport,
    ReportOption,
    ReportTable,
    WorkerRun,
    integers,
)
from iosim.gpu.reports.bench import MASKS, heads_of, interleaved, mask_named, timed
from iosim.gpu.run.job import Job
from iosim.problem import AttentionBackward, word_bytes
from iosim.program.walk import bind
from iosim.units import parse_words

BAR = 0.5  # of the faster fused pass, at d = 64
SCHEDULES = ("two_kernels",)
# PyTorch's names of the two fused passes.
BACKENDS = {"FlashAttention-2": "FLASH_ATTENTION", "cuDNN": "CUDNN_ATTENTION"}
LIKE, LIKE_TILES = "flash2_backward", {"B_r": 128, "B_c": 128}
LENGTHS, HEAD_SIZES = (4096, 8192, 16384), (64, 128)
# N, d, heads of what the profiler watches: two of 8 heads, and the FlashAttention paper's GPT-2.
WATCHED = ((4096, 64, 8), (4096, 128, 8), (1024, 64, 1024))
WORD = word_bytes("fp16")


def _problem(case: str, N: int, d: int) -> Any:
    return CASES[case].problem(AttentionBackward, N, d, heads_of(N, d))


def candidates(name: str, case: str, N: int, d: int, M: int) -> list[Job]:
    """The kernels of a schedule within M words that are timed: tiles × warps × stages.

    What stays in a program has 64 or 128 lines, what streams past 32 to 128.

    Raises InputError if none fits.
    """
    problem = _problem(case, N, d)
    params = algorithm(name).program_for(problem).params
    found: dict[tuple[Any, ...], tuple[Job, int]] = {}
    every = itertools.product((64, 128), (32, 64, 128), (4, 8), (2, 3))
    for stays, streams, warps, stages in every:
        sides = {"B_c": stays, "B_c1": stays, "B_r2": stays,
                 "B_r": streams, "B_r1": streams, "B_c2": streams}  # fmt: skip
        # Row sums, and what is cleared, have tiles of 64 rows.
        tiles = {p.name: sides.get(p.name, min(64, problem.sizes[p.axis])) for p in params}
        job = Job.of(name, problem, tiles, M=M, warps=warps, stages=stages, extra={"time_only": 1})
        found[(*tiles.items(), warps, stages)] = job, peak(job.instance)
    fit = [job for job, words in found.values() if words <= M]
    if not fit:
        least = min(words for _, words in found.values())
        raise InputError(f"M = {M} words holds no tile of {name} at d = {d}: use M >= {least}")
    return fit


@dataclass(frozen=True)
class BackwardRow:
    """One schedule at one length.  Times are medians of D and the gradients, without the forward
    pass; TFLOP/s counts the five products once, 10d for each score that is needed."""

    algorithm: str
    case: str
    N: int
    d: int
    heads: int
    M_words: int
    tiles: str
    warps: int
    stages: int
    emitted_s: float
    flash_s: float
    cudnn_s: float
    emitted_tflops: float
    flash_tflops: float
    cudnn_tflops: float
    of_flash: float  # emitted speed / FlashAttention-2's in PyTorch
    of_cudnn: float
    difference: float  # largest |emitted − FlashAttention-2's| / largest |FlashAttention-2's|
    launches: int  # timed, per median


def _flop(problem: Any) -> float:
    """Multiplications and additions of the five products."""
    return float(10 * problem.pairs * problem.d)


@contextmanager
def _only(torch: Any, backend: str) -> Iterator[None]:
    from torch.nn import attention

    with attention.sdpa_kernel(getattr(attention.SDPBackend, BACKENDS[backend])):
        yield


def _fused(
    torch: Any, backend: str, given: Mapping[str, Any], causal: bool = False
) -> Callable[[], Any]:
    """One of PyTorch's backward passes: gradients of Q, K and V, after one forward pass."""
    q, k, v = (given[x][None].detach().requires_grad_() for x in "QKV")
    with _only(torch, backend):
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0, is_causal=causal)
    do = given["dO"][None].contiguous()
    return functools.partial(torch.autograd.grad, o, (q, k, v), do, retain_graph=True)


def _compare(asked: dict[str, Any], out: Path) -> dict[str, Any]:
    """Runs in the worker: tune, then time all in turn on the same tensors."""
    from iosim.gpu.run.cuda import Cuda, torch_module
    from iosim.gpu.run.launch import prepare
    from iosim.gpu.run.tasks import compile_all, environment

    case, at = asked["case"], min(asked["lengths"])
    tried = {
        (name, d): candidates(name, case, at, d, asked["M"])
        for name in asked["schedules"] for d in asked["head_sizes"]
    }  # fmt: skip
    compile_all([job for some in tried.values() for job in some])
    torch, rows = torch_module(), []
    for (name, d), some in tried.items():
        tuned = min(some, key=timed)
        for N in asked["lengths"]:
            problem = _problem(case, N, d)
            job = Job.of(
                name, problem, tuned.tiles, M=tuned.M, warps=tuned.warps, stages=tuned.stages
            )
            device = Cuda(job)
            memory = device.tensors()
            kernels = prepare(job.emitted(), memory, device, count=False)

            def go(kernels: Any = kernels) -> None:
                for kernel in kernels:
                    kernel.go()

            go()
            views = {x: device.window(memory[x], x) for x in ("Q", "K", "V", "dO")}
            runs = {x: _fused(torch, x, views, case == "causal") for x in BACKENDS}
            want = runs["FlashAttention-2"]()
            differences = [
                float((device.window(memory[x], x) - w[0]).abs().max() / w.abs().max())
                for x, w in zip(("dQ", "dK", "dV"), want, strict=True)
            ]
            times, launches = interleaved(torch, {"emitted": go, **runs})
            own, flash, cudnn = (times[x] for x in ("emitted", *BACKENDS))
            of_own, of_flash, of_cudnn = (_flop(problem) / t / 1e12 for t in (own, flash, cudnn))
            row = BackwardRow(
                name, case, N, d, problem.heads, tuned.M,
                " ".join(f"{x}={n}" for x, n in sorted(tuned.tiles.items())),
                tuned.warps, min(x.stages for x in device.resources.values()),
                own, flash, cudnn, round(of_own, 1), round(of_flash, 1), round(of_cudnn, 1),
                round(flash / own, 3), round(cudnn / own, 3), max(differences), launches,
            )  # fmt: skip
            rows.append(asdict(row))
            del memory, kernels, go, views, runs, want
            torch.cuda.empty_cache()
    return {"environment": environment(), "rows": rows}


def _watch(asked: dict[str, Any], out: Path) -> dict[str, Any]:
    """Runs in the worker: what is of known size, then each backward pass, each after a mark."""
    from iosim.gpu.layers.tasks import stream
    from iosim.gpu.run.cuda import torch_module
    from iosim.gpu.run.tasks import watch

    torch = torch_module()
    gate = stream(torch)
    gate()
    torch.cuda.synchronize()
    watch(torch, [gate])
    del gate
    generator = torch.Generator("cuda").manual_seed(0)
    for (N, d, heads), backend in itertools.product(asked["watched"], BACKENDS):
        given = {
            x: torch.randn(heads, N, d, generator=generator, device="cuda").half()
            for x in ("Q", "K", "V", "dO")
        }
        given["Q"].mul_(d**-0.5)
        go = _fused(torch, backend, given)
        go()
        torch.cuda.synchronize()
        watch(torch, [go])
        del given, go
        torch.cuda.empty_cache()
    return {"watched": asked["watched"]}


@dataclass(frozen=True)
class Modelled:
    """Bytes that FlashAttention-2's loop order moves, dQ and the rows' L and D being fp32.

    Attributes:
        rows: loads of Q, dO, K and V.
        statistics: loads of L and D.
        reduced: what is added to dQ.
        stored: dK and dV.
    """

    rows: int
    statistics: int
    reduced: int
    stored: int


def modelled(N: int, d: int, heads: int) -> Modelled:
    """What flash2_backward moves with blocks of 128 columns, without what makes D.

    >>> found = modelled(4096, 128, 8)
    >>> found.reduced == 32 * 4096 * 128 * 4 * 8, found.stored == 2 * 4096 * 128 * 2 * 8
    (True, True)
    """
    problem = AttentionBackward(N, d, heads)
    program = algorithm(LIKE).program_for(problem)
    tiles = {p.name: LIKE_TILES.get(p.name, 64) for p in program.params}
    words = count(bind(program, problem.sizes, tiles))
    loads, stores = words.by_tensor("load"), words.by_tensor("store")
    # Row sums read dO once more, in a kernel of its own.
    rows = sum(loads[x] for x in ("Q", "dO", "K", "V")) - problem.heads * N * d
    wide = word_bytes("fp32")
    return Modelled(
        rows=rows * WORD,
        statistics=(loads["L"] + loads["D"]) * wide,
        reduced=loads["dQ"] * wide,
        stored=(stores["dK"] + stores["dV"]) * WORD,
    )


@dataclass(frozen=True)
class MovedRow:
    """One of PyTorch's backward passes, all its kernels.  Bytes at SM↔L2 if no name says otherwise.

    ``model_`` is what `modelled` says.  ``main_`` is the kernel with the most loads; the others
    make the row sums D, clear the fp32 dQ and convert it.  ``bulk_load`` is the part of the main
    kernel's loads that bulk copies bring; ``reduced`` is no part of ``store``.
    """

    implementation: str
    N: int
    d: int
    heads: int
    kernels: int
    model_rows: int
    bulk_load: int
    model_load: int  # rows and statistics
    main_load: int
    model_reduced: int
    reduced: int
    model_store: int
    main_store: int
    load: int
    store: int
    dram_load: int
    dram_store: int
    main: str


def moved_rows(folder: Path) -> list[MovedRow]:
    """What the profiler saw; () where it was not run.

    Raises GpuError for a record that is damaged, or whose gate is wrong.
    """
    report = folder / COUNTERS
    if not report.exists():
        return []
    watched = read_json(folder / PROFILED, _ProfiledFile).watched
    gate, *groups = read_counted(report)
    runs = list(itertools.product(watched, BACKENDS))
    if len(groups) != len(runs):
        raise GpuError(
            f"{report} has {len(groups)} marks after the gate and {PROFILED} {len(runs)} runs: "
            "they are of different runs"
        )
    size = STREAM_WORDS * WORD
    seen = (_total(gate, "sm_l2_load"), _total(gate, "sm_l2_store"))
    if seen != (size, size):
        raise GpuError(
            f"{report}: the counters are wrong: x + 1 of {size} bytes showed {seen[0]} read and "
            f"{seen[1]} written; was another program running?"
        )
    return [
        _moved(name, *sizes, group)
        for (sizes, name), group in zip(runs, groups, strict=True)
    ]  # fmt: skip


def _total(group: tuple[Counted, ...], what: str) -> int:
    return sum(getattr(kernel, what) or 0 for kernel in group)


def _moved(name: str, N: int, d: int, heads: int, group: tuple[Counted, ...]) -> MovedRow:
    main = max(group, key=lambda kernel: kernel.sm_l2_load or 0)
    model, alone = modelled(N, d, heads), (main,)
    return MovedRow(
        name, N, d, heads, len(group),
        model.rows, _total(alone, "bulk_load"),
        model.rows + model.statistics, _total(alone, "sm_l2_load"),
        model.reduced, _total(group, "reduced"),
        model.stored, _total(alone, "sm_l2_store") - _total(alone, "reduced"),
        _total(group, "sm_l2_load"), _total(group, "sm_l2_store") - _total(group, "reduced"),
        _total(group, "dram_load"), _total(group, "dram_store"), main.kernel,
    )  # fmt: skip


def _plan(given: Mapping[str, Any]) -> tuple[WorkerRun, ...]:
    for name, d in itertools.product(given["schedules"], given["d"]):
        candidates(name, given["case"], min(given["N"]), d, given["M"])  # raises
    asked = {
        "M": given["M"], "lengths": given["N"], "head_sizes": given["d"], "case": given["case"],
        "schedules": given["schedules"], "watched": WATCHED,
    }  # fmt: skip
    compare = WorkerRun("compare", asked, SPEC, MEASURED)
    if given["case"] != "dense":
        return (compare,)
    others = tuple(KINDS[x] for x in BYTES)
    watched = WorkerRun(
        "watch", asked, SPEC, PROFILED, COUNTERS, (), others=others, needed=False
    )  # fmt: skip
    return (compare, watched)


@dataclass(frozen=True)
class _MeasuredFile:
    rows: tuple[BackwardRow, ...]
    environment: dict[str, str]


@dataclass(frozen=True)
class _ProfiledFile:
    watched: tuple[tuple[int, int, int], ...]


def _table(folder: Path) -> ReportTable:
    rows = read_json(folder / MEASURED, _MeasuredFile).rows
    moved = moved_rows(folder)
    best: dict[tuple[int, int], float] = {}
    for row in rows:
        of_fused = min(row.of_flash, row.of_cudnn)
        best[row.N, row.d] = max(best.get((row.N, row.d), 0.0), of_fused)
    least = {
        d: min(x for (_, e), x in best.items() if e == d) for d in sorted({d for _, d in best})
    }
    text = "; ".join(f"d {d}: at least {x:.2f} of the faster fused pass" for d, x in least.items())
    exact = [
        row
        for row in moved
        if row.reduced == row.model_reduced and row.bulk_load in (0, row.model_rows)
    ]
    if moved:
        text += (
            "; reductions of dQ, and bulk copies where there are any, as modelled in "
            f"{len(exact)} of {len(moved)} fused passes"
        )
    good = bool(rows) and least.get(64, BAR) >= BAR and len(exact) == len(moved)
    files = {"moved.csv": [asdict(row) for row in moved]} if moved else {}
    told = [asdict(row) for row in rows]
    return ReportTable(told, f"{text} (bar: {BAR} at d 64)", good,
                       "" if rows else "nothing ran", files)  # fmt: skip


def _schedules(text: str) -> tuple[str, ...]:
    found = tuple(map(algorithm, text.split(",")))
    for entry in found:
        if entry.problem is not AttentionBackward:
            known = [x for x in ALGORITHMS if algorithm(x).problem is AttentionBackward]
            raise InputError(f"{entry.name} is no backward pass: give of {', '.join(known)}")
    return tuple(entry.name for entry in found)


REPORT = GpuReport(
    name="backward",
    options=(
        ReportOption("schedules", ",".join(SCHEDULES), "names", _schedules),
        ReportOption("M", "64Ki", "fast memory", lambda text: parse_words("M", text, "fp16")),
        ReportOption("N", ",".join(map(str, LENGTHS)), "sequence lengths", integers("N")),
        ReportOption("d", ",".join(map(str, HEAD_SIZES)), "head dimensions", integers("d")),
        ReportOption("case", "dense", " or ".join(MASKS), mask_named),
    ),
    plan=_plan,
    tasks={"compare": _compare, "watch": _watch},
    table=_table,
)
