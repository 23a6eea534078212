"""Quantities of a kernel, and the counters that each comes from.

`QUANTITIES` are read from counters; `RATIOS` are made of two of them.  A quantity has one or more
`forms`, each a sum of counters with factors: the first whose counters are all in the report is
taken.  Where none is, the quantity is absent, and the counters of its first form would be needed.

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
PEAK = ".pct_of_peak_sustained_elapsed"


def _one(
    name: str, unit: str, says: str, *counters: str, factor: float = 1.0, fold: Fold = "sum"
) -> Quantity:
    return Quantity(name, unit, says, tuple({x: factor} for x in counters), fold)


def _share(name: str, says: str, *counters: str) -> Quantity:
    return _one(name, "%", says, *counters, fold="mean")


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
    _one("time", "ns", "time", "gpu__time_duration.sum"),
    _one(
        "cycles", "cycle", "cycles of the SMs", "sm__cycles_elapsed.max", "gpc__cycles_elapsed.max"
    ),
    # flop on matrix units, by dtype; chips and versions of ncu name them in several ways.
    Quantity(
        "tensor_fp16",
        "flop",
        "fp16, tensor cores",
        (
            {f"{_TENSOR}_src_fp16.sum": 1},
            {f"{_TENSOR}_src_fp16_dst_fp32.sum": 1},
            {
                f"{_TENSOR}_op_hmma_src_fp16_dst_fp32_sparsity_off.sum": 1,
                f"{_TENSOR}_op_hgmma_src_fp16_sparsity_off.sum": 1,
            },
            {f"{_TENSOR}_src_fp16_dst_fp32_sparsity_off.sum": 1},
        ),
    ),
    Quantity(
        "tensor_fp16_groups",
        "flop",
        "of these by groups of warps (WGMMA)",
        (
            {f"{_TENSOR}_op_hgmma_src_fp16.sum": 1},
            {f"{_TENSOR}_op_hgmma_src_fp16_sparsity_off.sum": 1},
        ),
    ),
    _one("tensor_bf16", "flop", "bf16, tensor cores", f"{_TENSOR}_src_bf16_dst_fp32.sum"),
    _one("tensor_tf32", "flop", "tf32, tensor cores", f"{_TENSOR}_src_tf32_dst_fp32.sum"),
    _one("tensor_fp8", "flop", "fp8, tensor cores", f"{_TENSOR}_src_fp8.sum"),
    _one("tensor_fp64", "flop", "fp64, tensor cores", f"{_TENSOR}_src_fp64.sum"),
    _vector("fp32", "f", 1),
    _vector("fp16", "h", 2),
    _vector("fp64", "d", 1),
    # L2↔DRAM, and how busy its pins were.
    _one("dram_read", "byte", "L2↔DRAM, read", "dram__bytes_read.sum"),
    _one("dram_write", "byte", "L2↔DRAM, written", "dram__bytes_write.sum"),
    # SM↔L2: all paths, then each of its own; the load-store units have the rest.
    _one("l2_read", "byte", "SM↔L2, read", f"{_READ}.sum"),
    _one("l2_write", "byte", "SM↔L2, written", f"{_WRITE}.sum"),
    _one("bulk_read", "byte", "of it by bulk copies (TMA)", f"{_READ}_mem_global_op_tma_ld.sum"),
    _one(
        "multicast_read",
        "byte",
        "of these by multicast",
        f"{_READ}_mem_global_op_tma_ld_dest_multicast.sum",
    ),
    _one("atom_read", "byte", "of it answers of atomics (ATOM)", f"{_READ}_mem_global_op_atom.sum"),
    _one("bulk_write", "byte", "of it by bulk copies (TMA)", f"{_WRITE}_mem_global_op_tma_st.sum"),
    _one("reduced", "byte", "of it reductions (RED)", f"{_WRITE}_mem_global_op_red.sum"),
    _one(
        "bulk_reduced",
        "byte",
        "of it reductions by bulk copies",
        f"{_WRITE}_mem_global_op_tma_red.sum",
    ),
    # What the load-store units asked L1 for.
    _one(
        "asked_read",
        "byte",
        "loads that L1 is asked for",
        _LSU.format("sectors", "global", "ld"),
        factor=SECTOR,
    ),
    _one(
        "asked_write",
        "byte",
        "stores that L1 was asked for",
        _LSU.format("sectors", "global", "st"),
        factor=SECTOR,
    ),
    _one("read_requests", "requests", "requests of loads", _LSU.format("requests", "global", "ld")),
    _one(
        "write_requests", "requests", "requests of stores", _LSU.format("requests", "global", "st")
    ),
    # Copies to shared memory that no register holds (cp.async) are loads, and counted apart.
    Quantity(
        "used_read",
        "byte",
        "bytes that loads use",
        (
            {
                "smsp__sass_data_bytes_mem_global_op_ld.sum": 1,
                "smsp__sass_data_bytes_mem_global_op_ldgsts.sum": 1,
            },
        ),
    ),
    _one(
        "used_write",
        "byte",
        "bytes that stores wrote",
        "smsp__sass_data_bytes_mem_global_op_st.sum",
    ),
    _one(
        "local_read",
        "byte",
        "spilled registers, read",
        _LSU.format("sectors", "local", "ld"),
        factor=SECTOR,
    ),
    _one(
        "local_write",
        "byte",
        "spilled registers, written",
        _LSU.format("sectors", "local", "st"),
        factor=SECTOR,
    ),
    _one("shared", "byte", "shared memory", f"{_SHARED}.sum", factor=WAVEFRONT),
    _one("shared_wavefronts", "wavefronts", "wavefronts of shared memory", f"{_SHARED}.sum"),
    _one(
        "conflicts",
        "wavefronts",
        "of these for bank conflicts",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    ),
    _one(
        "l2_lookups", "sectors", "sectors that L2 was asked for", "lts__t_sectors_srcunit_tex.sum"
    ),
    _one("l2_hits", "sectors", "of these found in L2", "lts__t_sectors_srcunit_tex_lookup_hit.sum"),
    # How busy each unit was, in percent of what it can do.
    _share(
        "tensor_busy",
        "tensor cores",
        f"sm__pipe_tensor_cycles_active.avg{PEAK}",
        f"sm__pipe_tensor_op_hmma_cycles_active.avg{PEAK}",
        f"sm__inst_executed_pipe_tensor.avg{PEAK}",
    ),
    _share(
        "fma_busy",
        "FMA units",
        f"sm__pipe_fma_cycles_active.avg{PEAK}",
        f"sm__inst_executed_pipe_fma.avg{PEAK}",
    ),
    _share(
        "alu_busy",
        "ALUs",
        f"sm__pipe_alu_cycles_active.avg{PEAK}",
        f"sm__inst_executed_pipe_alu.avg{PEAK}",
    ),
    _share(
        "xu_busy", "special functions (exp, conversions)", f"sm__inst_executed_pipe_xu.avg{PEAK}"
    ),
    _share("issue_busy", "issue slots", f"sm__inst_issued.avg{PEAK}"),
    _share("sm_busy", "the busiest part of the SMs", f"sm__throughput.avg{PEAK}"),
    _share(
        "dram_busy",
        "DRAM (L2↔DRAM)",
        f"dram__bytes.sum{PEAK}",
        f"dram__throughput.avg{PEAK}",
        f"gpu__dram_throughput.avg{PEAK}",
    ),
    _share("l2_busy", "L2", f"lts__t_sectors.sum{PEAK}", f"lts__throughput.avg{PEAK}"),
    _share("l2_read_busy", "reads at SM↔L2", f"{_READ}.sum{PEAK}"),
    _share("l2_write_busy", "writes at SM↔L2", f"{_WRITE}.sum{PEAK}"),
    _share(
        "l1_busy",
        "L1 and shared memory",
        f"l1tex__data_pipe_lsu_wavefronts.sum{PEAK}",
        f"l1tex__data_pipe_lsu_wavefronts.avg{PEAK}",
        f"l1tex__throughput.avg{PEAK}",
        "l1tex__throughput.avg.pct_of_peak_sustained_active",
    ),
    # What keeps warps ready.
    _share("occupancy", "occupancy, achieved", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    _share("occupancy_limit", "occupancy, at most", "sm__maximum_warps_per_active_cycle_pct"),
    _one("waves", "waves", "waves of blocks", "launch__waves_per_multiprocessor", fold="mean"),
    _one("registers", "per thread", "registers", "launch__registers_per_thread", fold="mean"),
    _one(
        "shared_held",
        "byte",
        "shared memory of a block",
        "launch__shared_mem_per_block",
        "launch__shared_mem_per_block_allocated",
        fold="mean",
    ),
    _one(
        "sms",
        "SMs",
        "SMs",
        "launch__sm_count",
        "device__attribute_multiprocessor_count",
        fold="mean",
    ),
    _one(
        "blocks_by_registers",
        "blocks",
        "blocks of an SM that registers allow",
        "launch__occupancy_limit_registers",
        fold="mean",
    ),
    _one(
        "blocks_by_shared",
        "blocks",
        "blocks of an SM that shared memory allows",
        "launch__occupancy_limit_shared_mem",
        fold="mean",
    ),
    _one(
        "blocks_by_warps",
        "blocks",
        "blocks of an SM that warps allow",
        "launch__occupancy_limit_warps",
        fold="mean",
    ),
    *(
        _one(
            f"stall_{x}",
            "warps",
            says,
            f"smsp__average_warps_issue_stalled_{x}_per_issue_active.ratio",
            fold="mean",
        )
        for x, says in STALLS.items()
    ),
    _one("passes", "passes", "passes of the profiler", "profiler__replayer_passes", fold="mean"),
)
QUANTITIES: dict[str, Quantity] = {x.name: x for x in _ALL}
RATIOS: dict[str, Ratio] = {
    x.name: x
    for x in (
        Ratio(
            "read_sectors",
            "sectors",
            "sectors of a request, loads",
            "asked_read",
            "read_requests",
            1 / SECTOR,
        ),
        Ratio(
            "write_sectors",
            "sectors",
            "sectors of a request, stores",
            "asked_write",
            "write_requests",
            1 / SECTOR,
        ),
        Ratio(
            "read_used", "%", "of the sectors' bytes used, loads", "used_read", "asked_read", 100
        ),
        Ratio(
            "write_used",
            "%",
            "of the sectors' bytes used, stores",
            "used_write",
            "asked_write",
            100,
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
