"""Each threshold of `iosim profile` from both sides: a verdict and a hint change there, not before.

Numbers are written out here, so that a threshold that moves is seen.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from iosim.gpu.profiling.kernels import L2_DRAM, SHARED, ProfiledKernel, kernels, positions
from iosim.gpu.profiling.launch import KernelLaunch
from iosim.gpu.profiling.metrics import QUANTITIES
from iosim.gpu.profiling.verdict import HINTS, UNITS, judge
from iosim.models.hardware import machine


def kernel(**values: float) -> ProfiledKernel:
    """A kernel of 10 µs whose units are idle, but for what is given."""
    metrics = {"gpu__time_duration.sum": 10_000.0}
    for unit in UNITS:
        metrics |= dict.fromkeys(QUANTITIES[unit.quantity].forms[0], 1.0)
    for name, value in values.items():
        form = QUANTITIES[name].forms[0]
        metrics |= {x: value / factor / len(form) for x, factor in form.items()}
    (found,) = kernels([KernelLaunch(name="f", grid=(132, 1, 1), metrics=metrics)], machine("h200"))
    return found


@pytest.mark.parametrize(
    ("values", "bound", "unit"),
    [
        ({"dram_busy": 59.9}, "latency", ""),
        ({"dram_busy": 60.0}, "memory", "DRAM (L2↔DRAM)"),
        ({"tensor_busy": 59.9}, "latency", ""),
        ({"tensor_busy": 60.0}, "compute", "tensor cores"),
        # below 80% the busiest is named, from there on the first of those of its kind
        ({"dram_busy": 79.9, "l1_busy": 85.0}, "memory", "L1 and shared memory"),
        ({"dram_busy": 80.0, "l1_busy": 85.0}, "memory", "DRAM (L2↔DRAM)"),
        ({"dram_busy": 85.0, "tensor_busy": 90.0}, "compute", "tensor cores"),
        ({"time": 2600.0, "tensor_busy": 90.0}, "overhead", "launch"),
        ({"time": 2601.0, "tensor_busy": 90.0}, "compute", "tensor cores"),
    ],
)
def test_verdicts_change_at_their_thresholds(
    values: dict[str, float], bound: str, unit: str
) -> None:
    judged = judge(kernel(**values))
    assert (judged.bound, judged.unit) == (bound, unit)


def test_what_is_close_is_said() -> None:
    assert "almost by memory" in judge(kernel(dram_busy=80.5, tensor_busy=90.0)).against
    assert "not by memory" in judge(kernel(dram_busy=79.5, tensor_busy=90.0)).against
    assert "not by memory" in judge(kernel(dram_busy=59.0, tensor_busy=65.0)).against


HELD = {
    # hint → values without it, and with it
    "spills": ({"local_read": 0, "local_write": 0}, {"local_read": 0, "local_write": 32}),
    "bank conflicts": (
        {"conflicts": 9, "shared_wavefronts": 100},
        {"conflicts": 10, "shared_wavefronts": 100},
    ),
    "reuse": ({"l2_read": 399, "dram_read": 100}, {"l2_read": 400, "dram_read": 100}),
    "fewer bytes": ({"l2_read": 400, "dram_read": 100}, {"l2_read": 399, "dram_read": 100}),
    "grains": ({"l2_read": 100, "dram_read": 149}, {"l2_read": 100, "dram_read": 150}),
    "grid": ({"sms": 132}, {"sms": 133}),
    "occupancy": ({"occupancy_limit": 51, "occupancy": 51}, {"occupancy_limit": 50}),
    "matrix units": (
        {"tensor_fp16": 8, "tensor_fp16_groups": 8},
        {"tensor_fp16": 8, "tensor_fp16_groups": 0},
    ),
    "arithmetic": ({"tensor_busy": 79.9}, {"tensor_busy": 80}),
}


@pytest.mark.parametrize("name", HELD)
def test_hints_come_at_their_thresholds(name: str) -> None:
    (hint,) = (x for x in HINTS if x.name == name)
    without, held = HELD[name]
    assert not hint.says(kernel(**without))
    assert hint.says(kernel(**held))


def test_loads_that_use_little_are_told_only_where_they_are_many() -> None:
    """Of 1,000 bytes at SM↔L2 those of load-store units are 100, or 99; of these 49 are used."""
    (hint,) = (x for x in HINTS if x.name == "coalescing")

    def with_others(moved: float) -> ProfiledKernel:
        asked = {"asked_read": moved, "read_requests": 1, "used_read": 0.49 * moved}
        return kernel(**asked, l2_read=1000, l2_write=0, bulk_read=1000 - moved, atom_read=0)

    assert hint.says(with_others(100)).startswith("loads use 49% of the bytes")
    assert not hint.says(with_others(99))


_OP = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_LSU = "l1tex__t_sectors_pipe_lsu_mem_{}_op_{}.sum"
# What one of a counter is worth: flop of a thread's instruction, bytes of a sector or wavefront.
WORTH = {
    **{("vector_fp32", _OP.format(x)): n for x, n in {"fadd": 1, "fmul": 1, "ffma": 2}.items()},
    **{("vector_fp16", _OP.format(x)): n for x, n in {"hadd": 2, "hmul": 2, "hfma": 4}.items()},
    **{("vector_fp64", _OP.format(x)): n for x, n in {"dadd": 1, "dmul": 1, "dfma": 2}.items()},
    ("asked_read", _LSU.format("global", "ld")): 32,
    ("asked_write", _LSU.format("global", "st")): 32,
    ("local_read", _LSU.format("local", "ld")): 32,
    ("local_write", _LSU.format("local", "st")): 32,
    ("shared", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"): 128,
}


def test_one_of_a_counter_is_worth_so_much() -> None:
    """`kernel` divides by the factors that are looked at, so they are written out here."""
    told = {
        (name, x): n
        for name, one in QUANTITIES.items()
        for form in one.forms
        for x, n in form.items()
        if n != 1 or name.startswith("vector")
    }
    assert told == WORTH


def test_the_peak_is_that_of_what_does_most() -> None:
    others = (
        "tensor_bf16",
        "tensor_tf32",
        "tensor_fp8",
        "tensor_fp64",
        "vector_fp16",
        "vector_fp64",
    )
    zeros = dict.fromkeys(others, 0)
    assert kernel(**zeros, tensor_fp16=1001, vector_fp32=1000).dtype == "fp16"
    assert kernel(**zeros, tensor_fp16=1000, vector_fp32=1000).dtype == "fp32"
    assert kernel(**zeros | {"tensor_bf16": 9}, tensor_fp16=8, vector_fp32=0).dtype == "bf16"


def test_what_warps_wait_for_is_a_share_of_all_waiting() -> None:
    said = judge(kernel(stall_barrier=3, stall_wait=1, stall_long_scoreboard=1)).because
    assert "60% is for a barrier of the block" in said


def test_what_is_left_of_a_direction_is_the_load_store_units() -> None:
    """Of 1,000 bytes each way, without what each path with a counter of its own has."""
    paths = {
        "bulk_read": 300,
        "atom_read": 100,
        "bulk_write": 200,
        "reduced": 50,
        "bulk_reduced": 7,
    }
    one = kernel(l2_read=1000, l2_write=1000, **paths)
    assert (one.ordinary("read"), one.ordinary("write")) == (600, 743)
    assert kernel(l2_read=1000, bulk_read=1000, atom_read=9).ordinary("read") == 0
    assert kernel(l2_read=1000, bulk_read=300).ordinary("read") is None


def test_a_position_under_the_roof_of_shared_memory_by_hand() -> None:
    """132 SMs move 128 bytes in a clock: 20,000 clocks in 10 µs are 33.8 TB/s."""
    one = kernel(shared=3.3792e6, sms=132, cycles=20_000)
    (at,) = (p for p in positions(one) if p.boundary == SHARED)
    assert at.peak_bytes_per_s == pytest.approx(132 * 128 * 20_000 / 10e-6)
    assert at.bytes_per_s == pytest.approx(3.3792e6 / 10e-6)


def test_a_position_on_the_roofline_by_hand() -> None:
    """10 µs, 10⁹ flop of fp16 products, 10⁶ bytes each way: 500 FLOP/B, 100 TFLOP/s of 989.4."""
    known = {"tensor_fp16": 1e9, "vector_fp32": 0, "dram_read": 1e6, "dram_write": 1e6}
    others = (
        "tensor_bf16",
        "tensor_tf32",
        "tensor_fp8",
        "tensor_fp64",
        "vector_fp16",
        "vector_fp64",
    )
    one = kernel(**known, **dict.fromkeys(others, 0))
    (at,) = (p for p in positions(one) if p.boundary == L2_DRAM)
    assert at.bytes_per_s == pytest.approx(2e6 / 10e-6)
    assert at.intensity == pytest.approx(500)
    assert at.roof == pytest.approx(989.4e12)
    assert at.attained == pytest.approx(100 * 100 / 989.4)
    # 20 FLOP/B: the roof is 4.8 TB/s × 20
    few = kernel(**(known | {"tensor_fp16": 4e7}), **dict.fromkeys(others, 0))
    (at,) = (p for p in positions(few) if p.boundary == L2_DRAM)
    assert at.roof == pytest.approx(96e12)
    assert at.attained == pytest.approx(100 * 4 / 96)
    # 10⁹ on the ordinary units: the peak of fp32
    plain = kernel(**(known | {"tensor_fp16": 0, "vector_fp32": 1e9}), **dict.fromkeys(others, 0))
    assert plain.dtype == "fp32"
    assert replace(plain, machine=None).machine is None
    assert all(p.roof is None for p in positions(replace(plain, machine=None)))
