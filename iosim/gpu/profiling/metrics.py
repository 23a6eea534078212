"""Quantities of a kernel, and the counters that each comes from.

`QUANTITIES` are read from counters; `RATIOS` are made of two of them.  A quantity has one or more
`forms`, each a sum of counters with factors: the first whose counters are all in the report is
taken.  If none is, the quantity is absent, and the counters of its first form would be needed.

That a counter is exact, or what it misses, is said in docs/gpu.md.  A sector is 32 bytes; the data
pipe of L1 and shared memory moves up to 32 banks of 4 bytes in a wavefront (CUDA C++ Programming
Guide, Shared Memory).

>>> QUANTITIES["local_read"].needs
('l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum',)
>>> QUANTITIES["local_read"].of({"l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": 10.0})
320.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from iosim.gpu.emitter.layout import SECTOR

WAVEFRONT = 128  # bytes: 32 banks × 4
# How the launches of one kernel are put together: added, or averaged by their time.
Fold = Literal["sum", "mean"]
Form = Mapping[str, float]


@dataclass(frozen=True)
class Quantity:
    """A number of a kernel.

    Attributes:
        name: the registry's key, and the key in JSON.
        unit: byte, ns, flop, %, or what is counted.
        says: what it is, for a table.
        forms: counter → factor; the first form whose counters are there is summed.
        fold: over launches.
    """

    name: str
    unit: str
    says: str
    forms: tuple[Form, ...]
    fold: Fold = "sum"

    @property
    def needs(self) -> tuple[str, ...]:
        """The counters that it is best read from."""
        return tuple(self.forms[0])

    def form(self, metrics: Mapping[str, float]) -> Form | None:
        """The form that a report has; None where it has none."""
        for form in self.forms:
            if all(map(metrics.__contains__, form)):
                return form
        return None

    def of(self, metrics: Mapping[str, float]) -> float | None:
        """Its value in one launch; None where the report has none of its forms."""
        form = self.form(metrics)
        if form is None:
            return None
        if len(form) == 1:
            ((counter, factor),) = form.items()
            return metrics[counter] * factor
        return sum(metrics[x] * n for x, n in form.items())


@dataclass(frozen=True)
class Ratio:
    """One quantity over another.

    Attributes:
        name, unit, says: as of a `Quantity`.
        top, bottom: names of quantities.
        factor: of the ratio.
    """

    name: str
    unit: str
    says: str
    top: str
    bottom: str
    factor: float = 1.0


_READ, _WRITE = "l1tex__m_xbar2l1tex_read_bytes", "l1tex__m_l1tex2xbar_write_bytes"
_LSU = "l1tex__t_{}_pipe_lsu_mem_{}_op_{}.sum"
_TENSOR, _SASS = "sm__ops_path_tensor", "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
_USED = "smsp__sass_data_bytes_mem_global_op"
PEAK = ".pct_of_peak_sustained_elapsed"


def _each(
    unit: str, *, factor: float = 1.0, fold: Fold = "sum", **rows: tuple[str | tuple[str, ...], ...]
) -> tuple[Quantity, ...]:
    """Quantities of one unit, by name: what each is, then its forms, a counter or several."""
    found = []
    for name, (says, *forms) in rows.items():
        each = ((form,) if isinstance(form, str) else form for form in forms)
        told = tuple(dict.fromkeys(counters, factor) for counters in each)
        found.append(Quantity(name, unit, str(says), told, fold))
    return tuple(found)


def _vector(dtype: str, letter: str, words: int) -> Quantity:
    """Of one instruction of a thread: a fused one does two flop on each of its words."""
    each = {"add": words, "mul": words, "fma": 2 * words}
    form = {_SASS.format(letter + op): float(n) for op, n in each.items()}
    return Quantity(f"vector_{dtype}", "flop", f"{dtype}, ordinary units", (form,))


# What a warp waits for, as the Profiling Guide of Nsight Compute has it (Metrics Reference, Warp
# Scheduler States); warps that are chosen, or ready and not chosen, do not wait.
STALLS = {
    "long_scoreboard": "loads from L1, L2 or DRAM",
    "short_scoreboard": "shared memory or exp",
    "barrier": "a barrier of the block",
    "membar": "a memory barrier",
    "wait": "a fixed latency",
    "gmma": "products of groups of warps",
    "math_pipe_throttle": "a busy arithmetic unit",
    "lg_throttle": "the queue of global memory",
    "mio_throttle": "the queue of shared memory",
    "tex_throttle": "the queue of L1",
    "no_instruction": "instructions",
    "branch_resolving": "a branch",
    "dispatch_stall": "the dispatcher",
    "drain": "its last stores",
    "imc_miss": "constants",
    "sleeping": "its own sleep",
    "misc": "something else",
}


_ALL: tuple[Quantity, ...] = (
    *_each("ns", time=("time", "gpu__time_duration.sum")),
    *_each(
        "cycle",
        cycles=("cycles of the SMs", "sm__cycles_elapsed.max", "gpc__cycles_elapsed.max"),
    ),
    # flop on matrix units, by dtype; chips and versions of ncu name them in several ways.
    *_each(
        "flop",
        tensor_fp16=(
            "fp16, tensor cores",
            f"{_TENSOR}_src_fp16.sum",
            f"{_TENSOR}_src_fp16_dst_fp32.sum",
            (
                f"{_TENSOR}_op_hmma_src_fp16_dst_fp32_sparsity_off.sum",
                f"{_TENSOR}_op_hgmma_src_fp16_sparsity_off.sum",
            ),
            f"{_TENSOR}_src_fp16_dst_fp32_sparsity_off.sum",
        ),
        tensor_fp16_groups=(
            "of these by groups of warps (WGMMA)",
            f"{_TENSOR}_op_hgmma_src_fp16.sum",
            f"{_TENSOR}_op_hgmma_src_fp16_sparsity_off.sum",
        ),
        tensor_bf16=("bf16, tensor cores", f"{_TENSOR}_src_bf16_dst_fp32.sum"),
        tensor_tf32=("tf32, tensor cores", f"{_TENSOR}_src_tf32_dst_fp32.sum"),
        tensor_fp8=("fp8, tensor cores", f"{_TENSOR}_src_fp8.sum"),
        tensor_fp64=("fp64, tensor cores", f"{_TENSOR}_src_fp64.sum"),
    ),
    _vector("fp32", "f", 1),
    _vector("fp16", "h", 2),
    _vector("fp64", "d", 1),
    *_each(
        "byte",
        # L2↔DRAM, and how busy its pins were.
        dram_read=("L2↔DRAM, read", "dram__bytes_read.sum"),
        dram_write=("L2↔DRAM, written", "dram__bytes_write.sum"),
        # SM↔L2: all paths, then each of its own; the load-store units have the rest.
        l2_read=("SM↔L2, read", f"{_READ}.sum"),
        l2_write=("SM↔L2, written", f"{_WRITE}.sum"),
        bulk_read=("of it by bulk copies (TMA)", f"{_READ}_mem_global_op_tma_ld.sum"),
        multicast_read=(
            "of these by multicast",
            f"{_READ}_mem_global_op_tma_ld_dest_multicast.sum",
        ),
        atom_read=("of it answers of atomics (ATOM)", f"{_READ}_mem_global_op_atom.sum"),
        bulk_write=("of it by bulk copies (TMA)", f"{_WRITE}_mem_global_op_tma_st.sum"),
        reduced=("of it reductions (RED)", f"{_WRITE}_mem_global_op_red.sum"),
        bulk_reduced=("of it reductions by bulk copies", f"{_WRITE}_mem_global_op_tma_red.sum"),
    ),
    # What the load-store units asked L1 for.
    *_each(
        "byte",
        factor=SECTOR,
        asked_read=("loads that L1 is asked for", _LSU.format("sectors", "global", "ld")),
        asked_write=("stores that L1 was asked for", _LSU.format("sectors", "global", "st")),
    ),
    *_each(
        "requests",
        read_requests=("requests of loads", _LSU.format("requests", "global", "ld")),
        write_requests=("requests of stores", _LSU.format("requests", "global", "st")),
    ),
    # Copies to shared memory that no register holds (cp.async) are loads, and counted separately.
    *_each(
        "byte",
        used_read=("bytes that loads use", (f"{_USED}_ld.sum", f"{_USED}_ldgsts.sum")),
        used_write=("bytes that stores wrote", f"{_USED}_st.sum"),
    ),
    *_each(
        "byte",
        factor=SECTOR,
        local_read=("spilled registers, read", _LSU.format("sectors", "local", "ld")),
        local_write=("spilled registers, written", _LSU.format("sectors", "local", "st")),
    ),
    *_each("byte", factor=WAVEFRONT, shared=("shared memory", f"{_SHARED}.sum")),
    *_each(
        "wavefronts",
        shared_wavefronts=("wavefronts of shared memory", f"{_SHARED}.sum"),
        conflicts=(
            "of these for bank conflicts",
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
        ),
    ),
    *_each(
        "sectors",
        l2_lookups=("sectors that L2 was asked for", "lts__t_sectors_srcunit_tex.sum"),
        l2_hits=("of these found in L2", "lts__t_sectors_srcunit_tex_lookup_hit.sum"),
    ),
    *_each(
        "%",
        fold="mean",
        # How busy each unit was, in percent of what it can do.
        tensor_busy=(
            "tensor cores",
            f"sm__pipe_tensor_cycles_active.avg{PEAK}",
            f"sm__pipe_tensor_op_hmma_cycles_active.avg{PEAK}",
            f"sm__inst_executed_pipe_tensor.avg{PEAK}",
        ),
        fma_busy=(
            "FMA units",
            f"sm__pipe_fma_cycles_active.avg{PEAK}",
            f"sm__inst_executed_pipe_fma.avg{PEAK}",
        ),
        alu_busy=(
            "ALUs",
            f"sm__pipe_alu_cycles_active.avg{PEAK}",
            f"sm__inst_executed_pipe_alu.avg{PEAK}",
        ),
        xu_busy=(
            "special functions (exp, conversions)",
            f"sm__inst_executed_pipe_xu.avg{PEAK}",
        ),
        issue_busy=("issue slots", f"sm__inst_issued.avg{PEAK}"),
        sm_busy=("the busiest part of the SMs", f"sm__throughput.avg{PEAK}"),
        dram_busy=(
            "DRAM (L2↔DRAM)",
            f"dram__bytes.sum{PEAK}",
            f"dram__throughput.avg{PEAK}",
            f"gpu__dram_throughput.avg{PEAK}",
        ),
        l2_busy=("L2", f"lts__t_sectors.sum{PEAK}", f"lts__throughput.avg{PEAK}"),
        l2_read_busy=("reads at SM↔L2", f"{_READ}.sum{PEAK}"),
        l2_write_busy=("writes at SM↔L2", f"{_WRITE}.sum{PEAK}"),
        l1_busy=(
            "L1 and shared memory",
            f"l1tex__data_pipe_lsu_wavefronts.sum{PEAK}",
            f"l1tex__data_pipe_lsu_wavefronts.avg{PEAK}",
            f"l1tex__throughput.avg{PEAK}",
            "l1tex__throughput.avg.pct_of_peak_sustained_active",
        ),
        # What keeps warps ready.
        occupancy=("occupancy, achieved", "sm__warps_active.avg.pct_of_peak_sustained_active"),
        occupancy_limit=("occupancy, at most", "sm__maximum_warps_per_active_cycle_pct"),
    ),
    *_each("waves", fold="mean", waves=("waves of blocks", "launch__waves_per_multiprocessor")),
    *_each("per thread", fold="mean", registers=("registers", "launch__registers_per_thread")),
    *_each(
        "byte",
        fold="mean",
        shared_held=(
            "shared memory of a block",
            "launch__shared_mem_per_block",
            "launch__shared_mem_per_block_allocated",
        ),
    ),
    *_each(
        "SMs",
        fold="mean",
        sms=("SMs", "launch__sm_count", "device__attribute_multiprocessor_count"),
    ),
    *_each(
        "blocks",
        fold="mean",
        blocks_by_registers=(
            "blocks of an SM that registers allow",
            "launch__occupancy_limit_registers",
        ),
        blocks_by_shared=(
            "blocks of an SM that shared memory allows",
            "launch__occupancy_limit_shared_mem",
        ),
        blocks_by_warps=("blocks of an SM that warps allow", "launch__occupancy_limit_warps"),
    ),
    *(
        Quantity(
            f"stall_{x}",
            "warps",
            says,
            ({f"smsp__average_warps_issue_stalled_{x}_per_issue_active.ratio": 1.0},),
            "mean",
        )
        for x, says in STALLS.items()
    ),
    *_each("passes", fold="mean", passes=("passes of the profiler", "profiler__replayer_passes")),
)
QUANTITIES: dict[str, Quantity] = {x.name: x for x in _ALL}
_WAYS = (("read", "loads"), ("write", "stores"))
RATIOS: dict[str, Ratio] = {
    x.name: x
    for x in (
        *(
            Ratio(
                f"{way}_sectors",
                "sectors",
                f"sectors of a request, {what}",
                f"asked_{way}",
                f"{way}_requests",
                1 / SECTOR,
            )
            for way, what in _WAYS
        ),
        *(
            Ratio(
                f"{way}_used",
                "%",
                f"of the sectors' bytes used, {what}",
                f"used_{way}",
                f"asked_{way}",
                100,
            )
            for way, what in _WAYS
        ),
        Ratio("l2_hit", "%", "found in L2", "l2_hits", "l2_lookups", 100),
        Ratio(
            "conflict_share",
            "%",
            "of the wavefronts for bank conflicts",
            "conflicts",
            "shared_wavefronts",
            100,
        ),
    )
}
# By what a path of SM↔L2 is known; what is left goes through the load-store units.
READ_PATHS, WRITE_PATHS = ("bulk_read", "atom_read"), ("bulk_write", "reduced", "bulk_reduced")
TENSOR = ("tensor_fp16", "tensor_bf16", "tensor_tf32", "tensor_fp8", "tensor_fp64")
VECTOR = ("vector_fp32", "vector_fp16", "vector_fp64")
# Reading these patches the kernel's instructions: a pass or more of its own.
PATCHED = "sass"


def list_counters(patched: bool = True) -> list[list[str]]:
    """The counters to ask `ncu` for: of each quantity its forms, the first that a chip has is read.

    Args:
        patched: with those that patch the kernel.
    """
    return [
        list(form)
        for one in QUANTITIES.values()
        for form in one.forms[:1]
        if patched or not any(PATCHED in x for x in form)
    ]
