"""Three numbers for every program: the model's bytes, the kernel's own, and the hardware's.

The threshold is zero unexplained bytes between the SM and L2, reads and writes.  What may be
explained is a last sector that a ragged row fills only partly (`sector_bytes`), and what the
program loads and never reads, which the compiler leaves out (`iosim.gpu.emitter.dead`): each has a
column of its own.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iosim.base.dtypes import word_bytes
from iosim.base.errors import CapacityError, InputError
from iosim.base.rows import Row, Rows, Values
from iosim.core.algorithms import ALGORITHMS
from iosim.core.counting.numbers import count, peak
from iosim.core.counts import Direction
from iosim.core.program.block_masks import masks
from iosim.core.units import bytes_of, parse_int
from iosim.gpu.emitter import layout
from iosim.gpu.emitter.dead import live
from iosim.gpu.errors import GpuError
from iosim.gpu.probes import probe
from iosim.gpu.records.counters import BOUNDARIES, Moved, moved_at
from iosim.gpu.records.record import COUNTERS, Record, boundaries_of, naming, read_record
from iosim.gpu.reports import _axes
from iosim.gpu.reports._cases import CASES, cases, least_capacity
from iosim.gpu.reports._draw import drawn_jobs
from iosim.gpu.reports._entry import (
    COUNTERS_OPTION,
    JOB_TASKS,
    GpuReport,
    ReportOption,
    ReportTable,
    WorkerRun,
    choose_counters,
    integers,
    job_runs,
    job_sizes,
    listed,
    schedule_option,
    sizes_option,
)
from iosim.gpu.reports._targets import (
    copied_of,
    formed,
    ran_instead,
    sectors_of,
    style_option,
    target_option,
    ways_of,
)
from iosim.gpu.run.job import Job
from iosim.gpu.run.memory import check_dtype
from iosim.gpu.targets import PLAIN
from iosim.gpu.targets import target as target_of
from iosim.report.plot import draw_legend

# The largest error that rounding may leave, relative to the largest output.
TOLERANCE = {"fp16": 6e-3, "bf16": 5e-2, "fp32": 2e-5}

HEAD_SIZES = (64, 128, 256)
CAPACITIES = (8192, 16384, 32768, 65536)  # words; the last is 128 KiB of fp16
LENGTHS = (1024, 1000, 1001, 4096)  # whole tiles; ragged by sectors; ragged to the word; long


@dataclass(frozen=True)
class JobGrid:
    """Every algorithm × case × d × M × N for which tiles fit, in its regime, each once."""

    names: tuple[str, ...] = tuple(ALGORITHMS)
    head_sizes: tuple[int, ...] = HEAD_SIZES
    capacities: tuple[int, ...] = CAPACITIES
    lengths: tuple[int, ...] = LENGTHS
    dtypes: tuple[str, ...] = ("fp16",)
    heads: int = 2
    cases: tuple[str, ...] = ("dense",)
    target: str = PLAIN
    style: str = ""

    def __iter__(self) -> Iterator[Job]:  # one after another: to choose tiles takes time
        found: set[Any] = set()
        how: Row = {"target": self.target, "style": self.style}
        known = target_of(self.target).dtypes
        dtypes = [x for x in self.dtypes if self.target == PLAIN or x in known]
        every = itertools.product(
            dtypes, self.names, self.cases, self.head_sizes, self.capacities, self.lengths
        )
        for dtype, name, case, d, M, N in every:
            entry, pattern = probe(name), CASES[case].pattern
            problem = CASES[case].problem(entry.problem, N, d, self.heads)
            if problem is None or not entry.supports(problem.form):
                continue
            if bool(masks(entry.program)) != bool(pattern) or not entry.regime.holds(problem, M):
                continue
            try:
                tiles = CASES[case].tiles(entry, problem, M)
            except CapacityError:
                continue
            job = formed(Job.of(name, problem, tiles, dtype=dtype, M=M, pattern=pattern, **how))
            key = job and (dtype, name, problem, pattern, *sorted(job.tiles.items()))
            if job is not None and key not in found:  # a larger M may change nothing
                found.add(key)
                yield job


def validate_jobs(*given: Any, **others: Any) -> list[Job]:
    """The jobs of a `JobGrid`, whose fields these are."""
    return list(JobGrid(*given, **others))


def _plan(given: Values) -> tuple[WorkerRun, ...]:
    if isinstance(given["case"], int):
        return _plan_drawn(given)
    names, head_sizes, capacities = given["schedule"], given["d"], given["M"]
    target, style = given.get("target", PLAIN), given.get("style", "")
    target_of(target).styled(style)
    grid = JobGrid(names, head_sizes, capacities, given["N"], given["dtype"], cases=given["case"])
    jobs = list(replace(grid, target=target, style=style))
    if not jobs:
        for job in grid if target != PLAIN else ():
            replace(job, target=target).emitted()  # says why it has no form
        least = least_capacity(names, given["case"], head_sizes)
        raise InputError(
            f"M = {','.join(map(str, capacities))} words holds no 16 x 16 tile of "
            f"{','.join(names)}: use M >= {least}"
        )
    return job_runs(jobs, boundaries_of(jobs), counters=given["counters"])


def _plan_drawn(given: Values) -> tuple[WorkerRun, ...]:
    """Programs that are drawn: of the options, these are the schedules' names and the seed."""
    for option in REPORT.options:
        alone = option.name not in ("d", "M", "N", "dtype", "target")
        if not alone and given[option.name] != option.parse(option.default):
            raise InputError(
                f"--case {given['case']} chooses {option.name}: leave out --{option.name}, "
                f"or give --case names ({', '.join(CASES)})"
            )
    seed, number = given["seed"], given["case"]
    jobs = drawn_jobs(given["schedule"], seed, number)
    drawn = {"seed": seed, "number": number}
    return job_runs(jobs, counters=given["counters"], drawn=drawn)


@dataclass(frozen=True)
class ValidateRow:
    """One configuration.  Bytes unless a name says otherwise; −1 where nothing was read.

    ``dead_load`` is what the model and the kernel count and the hardware doesn't move: all sectors
    of loads that nothing reads.  ``mask_load`` is the other way round: sectors of a block mask,
    whose words the model doesn't have.
    """

    algorithm: str
    sizes: str
    dtype: str
    M_words: int
    tiles: str
    model_load: int
    kernel_load: int
    sram_load: int
    difference_load: int
    explained_load: int
    model_store: int
    kernel_store: int
    sram_store: int
    difference_store: int
    explained_store: int
    l2_load: int
    dram_load: int
    dram_store: int
    error: float
    time_s: float
    model_gb_per_s: float
    peak_bytes: int
    shared_bytes: int
    register_bytes: int
    spills: int
    failed: str = ""
    beside_fused: float = math.nan
    dead_load: int = 0
    mask_load: int = 0

    @property
    def unexplained(self) -> int:
        """Bytes at SM↔L2 that neither the model, its sectors nor dead loads explain."""
        load = self.difference_load - self.explained_load + self.dead_load - self.mask_load
        store = self.difference_store - self.explained_store
        return abs(load) + abs(store)

    @property
    def good(self) -> bool:
        """Right output, in-kernel counts equal to the model's, no unexplained byte."""
        counted = (self.model_load, self.model_store) == (self.kernel_load, self.kernel_store)
        hardware = self.sram_load < 0 or self.unexplained == 0
        near = self.error <= TOLERANCE[self.dtype]
        # Both round.
        alike = math.isnan(self.beside_fused) or self.beside_fused <= 2 * TOLERANCE[self.dtype]
        return not self.failed and counted and hardware and near and alike

    @property
    def too_large(self) -> bool:
        """Whether the chip can't hold what M holds: no tiles are to blame, where they are drawn."""
        return "is too large for the chip" in self.failed


def validate_rows(record: Record) -> list[ValidateRow]:
    """The rows of a record; the first job is the gate, which must be exact.

    Raises GpuError if the counters get the copy of known size wrong.
    """
    found = []
    for at in range(len(record.jobs)):
        with naming(f"{record.folder}, job {at}"):
            found.append(_row(record, at))
    gate = found[0]
    if gate.sram_load >= 0 and gate.difference_load | gate.difference_store:
        raise GpuError(
            f"{record.folder / COUNTERS}: the counters are wrong: a copy of "
            f"{gate.model_load} bytes showed {gate.sram_load} read and {gate.sram_store} written; "
            "was another program running?"
        )
    return found


def _row(record: Record, at: int) -> ValidateRow:
    job, measured, launches = record.jobs[at], record.measured[at], record.launches[at]
    instance = job.instance
    words = count(instance)
    model = ways_of(bytes_of(words, instance.program.tensors, job.dtype))
    sectors, alive = sectors_of(job, instance), live(instance)
    dead = 0
    if launches and alive.program != instance.program:
        dead = sectors["load"] - sectors_of(job, alive)["load"]
    if job.clock:  # two readings per item, each in a sector of its own
        sectors["store"] += 2 * record.items(at) * layout.SECTOR
    kernel: dict[Direction, int] = {"load": -1, "store": -1}
    own = measured.counts(job)
    if own is not None:
        # Equal totals could hide a swap, so tensors are compared one by one.
        same = own == words
        kernel = model if same else ways_of(bytes_of(own, instance.program.tensors, job.dtype))
    unread = dict.fromkeys(BOUNDARIES, Moved("", -1, -1))
    hard = {name: moved_at(name, launches) for name in BOUNDARIES} if launches else unread
    sram, dram = hard["sram"], hard["dram"]
    sram += Moved(sram.boundary, *copied_of(job, launches))
    columns: dict[str, int] = {}
    for way in model:
        seen = sram.load_bytes if way == "load" else sram.store_bytes
        columns |= {
            f"model_{way}": model[way],
            f"kernel_{way}": kernel[way],
            f"sram_{way}": seen,
            f"difference_{way}": seen - model[way] if launches else 0,
            f"explained_{way}": sectors[way] - model[way] if launches else 0,
        }
    return ValidateRow(
        **columns,
        algorithm=job.algorithm,
        sizes=listed(job_sizes(vars(job))),
        dtype=job.dtype,
        M_words=job.M,
        tiles=listed(job.tiles),
        l2_load=hard["l2"].load_bytes,
        dram_load=dram.load_bytes,
        dram_store=dram.store_bytes,
        error=measured.error,
        time_s=measured.time_s,
        model_gb_per_s=round(sum(model.values()) / measured.time_s / 1e9, 1),
        peak_bytes=peak(instance) * word_bytes(job.dtype),
        shared_bytes=max((k.shared_bytes for k in measured.kernels), default=0),
        register_bytes=max((k.registers * k.warps * 128 for k in measured.kernels), default=0),
        spills=sum(k.spills for k in measured.kernels),
        beside_fused=measured.beside_fused,
        dead_load=dead,
        mask_load=layout.mask_bytes(instance, record.warps(at))
        if launches and measured.kernels
        else 0,
        failed=measured.failed or (record.profiled[at].failed if record.profiled else ""),
    )


def _summary(found: list[ValidateRow], drawn: Mapping[str, int]) -> str:
    """One line: how many configurations, how many bytes, what is wrong."""
    ran = [row for row in found if not row.failed]
    counted = [row for row in ran if row.sram_load >= 0]
    large = sum(row.too_large for row in found) if drawn else 0
    bad = [row for row in found if not row.good and not (drawn and row.too_large)]
    moved = sum(row.model_load + row.model_store for row in counted)
    ragged = sum(1 for row in counted if row.explained_load or row.explained_store)
    text = (
        f"{len(found)} configurations, {len(counted)} with hardware counters, "
        f"{moved / 1e9:.1f} GB between SM and L2; unexplained bytes: "
        f"{sum(row.unexplained for row in counted)}; {ragged} with partly filled sectors, "
        f"explained to the byte"
    )
    if dead := [row.dead_load for row in counted if row.dead_load]:
        text += f"; {len(dead)} with dead loads, {sum(dead)} bytes that hardware doesn't move"
    if masked := [row.mask_load for row in counted if row.mask_load]:
        text += f"; {len(masked)} under block masks, of which {sum(masked)} bytes were read"
    if drawn:
        text = f"seed {drawn['seed']}, {drawn['number']} drawn: {text}"
    if large:
        text += f"; {large} too large for the chip"
    return text + (f"; NOT GOOD: {len(bad)}" if bad else "; all good")


def _table(folder: Path) -> ReportTable:
    record = read_record(folder, needed=False)
    found, drawn = validate_rows(record), record.drawn
    rows = [vars(r) | {"unexplained": r.unexplained, "good": r.good} for r in found]
    shown = {
        "beside_fused": any(not math.isnan(r.beside_fused) for r in found),  # not in older records
        "dead_load": any(r.dead_load for r in found),
        "mask_load": any(r.mask_load for r in found),
    }
    rows = [{k: v for k, v in row.items() if shown.get(k, True)} for row in rows]
    tried = found[1:] or found  # the gate always runs
    failed = "" if any(not r.failed for r in tried) else tried[-1].failed
    good = all(r.good or (drawn and r.too_large) for r in found)
    return ReportTable(rows, _summary(found, drawn) + ran_instead(folder), bool(good), failed)


def _point(row: Values, way: str) -> tuple[float, float]:
    """Bytes of the model, and those that nothing explains, loaded or stored."""
    model = row[f"model_{way}"]
    more = row.get("mask_load", 0) - row.get("dead_load", 0) if way == "load" else 0
    return model, row[f"sram_{way}"] - model - row[f"explained_{way}"] - more


def _panel(axes: Any, rows: Rows) -> None:
    """Loads and stores between the SM and L2 of every configuration with hardware counters."""
    rows = [r for r in rows if r["sram_load"] >= 0]
    points = [functools.partial(_point, way=way) for way in ("load", "store")]
    _axes.scatter(axes, rows, "algorithm", points, markeredgewidth=0.9)
    _axes.level(axes, 0)
    off = sum(r["unexplained"] for r in rows)
    if not off:
        axes.set(ylim=(-1, 1), yticks=(-1, 0, 1))
    axes.set_title(f"SM↔L2: {len(rows):,} programs, {off:,} unexplained bytes")
    axes.set_xlabel("predicted bytes at SM↔L2 (filled: loads, open: stores)")
    axes.set_ylabel("counted − predicted,\nbytes at SM↔L2")
    draw_legend(axes, ncols=2, columnspacing=0.6, handletextpad=0.1)


def _names(text: str) -> tuple[str, ...]:
    return tuple(ALGORITHMS) if text == "all" else tuple(probe(x).name for x in text.split(","))


def _cases_or_number(text: str) -> tuple[str, ...] | int:
    """Names of cases; or how many programs are drawn."""
    return parse_int("case", text) if text[:1].isdigit() else cases(text)


def _dtypes(text: str) -> tuple[str, ...]:
    return tuple(check_dtype(x) for x in text.split(","))


REPORT = GpuReport(
    name="validate",
    options=(
        schedule_option("all", "names, or all", _names, old="--algorithms"),
        sizes_option("d", HEAD_SIZES),
        ReportOption("M", ",".join(map(str, CAPACITIES)), "fast memory", integers("M"), "WORDS,…"),
        sizes_option("N", LENGTHS),
        ReportOption(
            "case",
            "dense",
            f"case: {', '.join(CASES)}, or all; or how many to draw with --seed",
            _cases_or_number,
            old=("--cases",),
        ),
        ReportOption(
            "seed", "0", "seed: of a draw", lambda text: parse_int("seed", text, least=0), "INT"
        ),
        ReportOption("dtype", "fp16", "type of a word: fp16, bf16, fp32, or several", _dtypes),
        target_option(),
        style_option(),
        COUNTERS_OPTION,
    ),
    plan=_plan,
    counters=choose_counters,
    tasks=JOB_TASKS,
    table=_table,
    columns=(
        "algorithm",
        "sizes",
        "dtype",
        "M_words",
        "model_load",
        "kernel_load",
        "sram_load",
        "difference_load",
        "explained_load",
        "dead_load",
        "mask_load",
        "model_store",
        "kernel_store",
        "sram_store",
        "difference_store",
        "explained_store",
        "error",
        "time_s",
        "model_gb_per_s",
        "peak_bytes",
        "shared_bytes",
        "register_bytes",
        "failed",
    ),
    panels=(_panel,),
)
