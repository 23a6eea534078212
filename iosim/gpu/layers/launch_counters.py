"""Counters of each kernel: bytes at both boundaries, and flop by unit.

SM↔L2 is counted at the crossbar: all that the L1s read from L2 and write to it, by whatever path
(load-store units, bulk copies, reductions).  L2↔DRAM is counted with caches flushed before each
kernel: what an earlier kernel left in L2 is read again, and what is still in L2 at the end is not
written.  docs/gpu.md has the evidence for each counter.

Before the runs there are x + 1 and a product, both of known size, which say what the counters are
worth.

`tasks` and reports call it.  ``tests/gpu/test_gpu_layers.py`` compares with a record made by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import SequenceMatcher
from pathlib import Path

from iosim.gpu.errors import GpuError
from iosim.gpu.layers.trace import Launch
from iosim.gpu.records.counters import counter_value, read_launches
from iosim.gpu.records.names import function

_XBAR_READ, _XBAR_WRITE = "l1tex__m_xbar2l1tex_read_bytes", "l1tex__m_l1tex2xbar_write_bytes"
_TENSOR = "sm__ops_path_tensor"
_SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
# What is counted → names of which the first that the machine has is read.
COUNTERS: dict[str, tuple[str, ...]] = {
    "dram_load": ("dram__bytes_read.sum",),
    "dram_store": ("dram__bytes_write.sum",),
    "sm_l2_load": (f"{_XBAR_READ}.sum",),
    "sm_l2_store": (f"{_XBAR_WRITE}.sum",),
    "bulk_load": (f"{_XBAR_READ}_mem_global_op_tma_ld.sum",),
    "bulk_store": (f"{_XBAR_WRITE}_mem_global_op_tma_st.sum",),
    "reduced": (f"{_XBAR_WRITE}_mem_global_op_red.sum",),
    "bulk_reduced": (f"{_XBAR_WRITE}_mem_global_op_tma_red.sum",),
    # Hopper counts products of a warp and of a group of warps separately; others have one sum.
    "warp_flop": (
        f"{_TENSOR}_op_hmma_src_fp16_dst_fp32_sparsity_off.sum",
        f"{_TENSOR}_src_fp16_dst_fp32_sparsity_off.sum",
        f"{_TENSOR}_src_fp16_dst_fp32.sum",
    ),
    "group_flop": (f"{_TENSOR}_op_hgmma_src_fp16_sparsity_off.sum",),
    **{f"{op}_fp32": (_SASS.format(f"f{op}"),) for op in ("add", "mul", "fma")},
    **{f"{op}_fp16": (_SASS.format(f"h{op}"),) for op in ("add", "mul", "fma")},
}
# FLOP of one of each: an instruction of fp16 works on two words.
_FLOP = {"add_fp32": 1, "mul_fp32": 1, "fma_fp32": 2, "add_fp16": 2, "mul_fp16": 2, "fma_fp16": 4}
ORDINARY = tuple(_FLOP)  # these are counted by patching kernels, which takes a while
# Columns that are sums of several counters, each of those that the machine has.
_SUMS = {"reduced": ("reduced", "bulk_reduced"), "tensor_flop": ("warp_flop", "group_flop")}
BYTES = tuple(x for x in COUNTERS if x not in (*_FLOP, *_SUMS["tensor_flop"]))

# What runs before all else: x + 1 of this many words of 2 bytes, a product of n × n by n × n.
STREAM_WORDS, PRODUCT_N = 2**26, 4096
GATES = ("stream", "product")


@dataclass(frozen=True)
class Counted:
    """What the counters say of one kernel; None where one was not read.

    Attributes:
        kernel: its name, as `ncu` has it.
        dram_load, dram_store: bytes at L2↔DRAM.
        sm_l2_load, sm_l2_store: bytes at SM↔L2, by all paths.
        bulk_load, bulk_store: of these those of bulk copies (TMA).
        reduced: of the bytes stored those of reductions, by both paths.
        tensor_flop: of fp16 products with fp32 sums, on matrix units.
        other_flop: additions and multiplications in fp32 and fp16, on the ordinary units.
    """

    kernel: str
    dram_load: int | None = None
    dram_store: int | None = None
    sm_l2_load: int | None = None
    sm_l2_store: int | None = None
    bulk_load: int | None = None
    bulk_store: int | None = None
    reduced: int | None = None
    tensor_flop: int | None = None
    other_flop: int | None = None


COLUMNS = tuple(f.name for f in fields(Counted) if f.name != "kernel")


def read_counted(path: Path) -> list[tuple[Counted, ...]]:
    """A saved report, one tuple for each mark.

    Raises GpuError, naming the file, as `iosim.gpu.records.counters.read_launches` does, for a
    value that is none, and for bytes in other units.
    """
    units, groups = read_launches(path)
    there = {what: next((x for x in names if x in units), "") for what, names in COUNTERS.items()}
    for what in BYTES:
        if there[what] and units[there[what]] != "byte":
            raise GpuError(
                f"{path} has {there[what]} in {units[there[what]]!r}: save the report "
                "with --print-units base"
            )
    return [tuple(_one(there, *launch) for launch in group) for group in groups]


def _one(there: Mapping[str, str], kernel: str, row: Mapping[str, str], where: str) -> Counted:
    values = {x: _value(row[name], f"{where}, {name}") for x, name in there.items() if name}
    plain = {x: values.get(x) for x in COLUMNS}
    for what, parts in _SUMS.items():
        known = [x for x in map(values.get, parts) if x is not None]
        plain[what] = sum(known) if known else None
    ordinary = [(n, values.get(x)) for x, n in _FLOP.items()]
    if all(x is not None for _, x in ordinary):
        plain["other_flop"] = sum(n * (x or 0) for n, x in ordinary)
    return Counted(kernel, **plain)


def _value(text: str, where: str) -> int | None:
    return None if text in ("n/a", "") else counter_value(text, where)


def total(launches: Sequence[Counted], what: str) -> int | None:
    """The sum of one column; None where a kernel has none."""
    values = [getattr(x, what) for x in launches]
    return None if None in values else sum(values)


def aligned(launches: Sequence[Launch], counted: Sequence[Counted]) -> list[Counted | None]:
    """What was counted of each launch; None where the profiler saw another kernel in its place.

    Both are in the order of launches, and say kernels' names in different ways: their functions
    are compared.
    """
    mine = [k for k, x in enumerate(launches) if x.kind == "kernel"]
    ours = [function(str(launches[k].kernel)) for k in mine]
    theirs = [function(x.kernel) for x in counted]
    found: list[Counted | None] = [None] * len(launches)
    for block in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        for k in range(block.size):
            found[mine[block.a + k]] = counted[block.b + k]
    return found
