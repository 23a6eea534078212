"""What bounds a kernel, and the counters that say so.

The order of the method: a kernel that takes no longer than a launch is bound by launching; of the
others the busiest unit says what bounds them, if it is busy at all; if none is, warps wait.

Thresholds, and where each is from:

- `BUSY`: the rule SpeedOfLight of Nsight Compute, which `ncu` prints, looks for latency where both
  compute and memory do less than 60% of their peak.
- `FULL`: above 80% the same rule says that the unit in use the most has to get less work.
- `CLOSE` is a choice of this project: between two passes of `ncu` shares differ by less.
- a launch takes what the machine's record says, 2.6 µs unless a source gives another.

``iosim profile`` and `show` call it.  ``tests/gpu/test_profile_thresholds.py`` has each threshold
from both sides; a new one has a source.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from iosim.gpu.profiling.kernels import SM_L2, ProfiledKernel
from iosim.gpu.profiling.metrics import QUANTITIES, STALLS
from iosim.models.hardware.record import LAUNCH_S

Verdict = Literal["memory", "compute", "latency", "overhead", "unknown"]
BUSY, FULL = 60.0, 80.0
CLOSE = 10.0  # so near to each other, two units may both be what bounds a kernel
_KINDS = {"memory": "memory", "compute": "arithmetic"}


@dataclass(frozen=True)
class BusyUnit:
    """A unit whose share of its peak is counted.

    Attributes:
        quantity: the share's name.
        bound: what a kernel is bound by, where this unit is the busiest.
        needed: whether no verdict of latency is given without it.
        instead: another quantity that covers it, where that one was read.
        whole: whether it is such a one: it is left out where its parts are known.
    """

    quantity: str
    bound: Verdict
    needed: bool = False
    instead: str = ""
    whole: bool = False

    @property
    def says(self) -> str:
        """What it is called."""
        return QUANTITIES[self.quantity].says


UNITS: tuple[BusyUnit, ...] = (
    BusyUnit("dram_busy", "memory", needed=True),
    BusyUnit("l2_busy", "memory", needed=True),
    BusyUnit("l2_read_busy", "memory"),
    BusyUnit("l2_write_busy", "memory"),
    BusyUnit("l1_busy", "memory", needed=True),
    BusyUnit("tensor_busy", "compute", needed=True, instead="sm_busy"),
    BusyUnit("fma_busy", "compute", needed=True, instead="sm_busy"),
    BusyUnit("alu_busy", "compute"),
    BusyUnit("xu_busy", "compute", needed=True, instead="sm_busy"),
    BusyUnit("issue_busy", "compute", needed=True, instead="sm_busy"),
    BusyUnit("sm_busy", "compute", whole=True),
)


@dataclass(frozen=True)
class Judged:
    """A verdict and what it rests on.

    Attributes:
        bound: by what.
        unit: the busiest unit, if one was read.
        because: the sentence with the numbers.
        against: what it is not bound by, with the numbers.
        absent: counters that were not read and could change it.
        next: what to look at, in the order of the method.
    """

    bound: Verdict
    unit: str = ""
    because: str = ""
    against: str = ""
    absent: tuple[str, ...] = ()
    next: tuple[str, ...] = field(default=())


def judge(kernel: ProfiledKernel) -> Judged:
    """The verdict on a kernel."""
    busy = {u: x for u in UNITS if (x := kernel.values[u.quantity]) is not None}
    if any(u.instead and u in busy for u in UNITS):  # the parts are known
        busy = {u: x for u, x in busy.items() if not u.whole}
    absent = tuple(
        QUANTITIES[u.quantity].needs[0]
        for u in UNITS
        if u.needed and u not in busy and not (u.instead and kernel.values[u.instead] is not None)
    )
    launch_s = kernel.machine.launch_s if kernel.machine else LAUNCH_S
    unit, others = _busiest(busy), busy
    bound: Verdict
    if kernel.each_s is not None and kernel.each_s <= launch_s:
        bound, name = "overhead", "launch"
        because = (
            f"one launch takes {kernel.each_s * 1e6:.2f} µs (gpu__time_duration.sum), no more than "
            f"the {launch_s * 1e6:g} µs from one launch to the next"
        )
    elif unit is not None and busy[unit] >= BUSY:
        bound, name = unit.bound, unit.says
        full = "" if busy[unit] >= FULL else f", above {BUSY:g}% and below {FULL:g}%"
        because = f"{_format_unit(unit, busy[unit], kernel)}{full}"
    elif unit is None or absent:
        seen = f"what was read is below {BUSY:g}%; {_format_busy_units(busy, 'unknown')}"
        because = seen if busy else "no unit's share of its peak was read"
        return Judged("unknown", "", because, "", absent)
    else:
        bound, name = "latency", ""
        because = (
            f"no unit does {BUSY:g}% of what it can: the busiest is "
            f"{_format_unit(unit, busy[unit], kernel)}{_waits(kernel)}"
        )
        others = {u: x for u, x in busy.items() if u != unit}
    against = _format_busy_units(others, bound)
    return Judged(bound, name, because, against, absent, _next(kernel, bound))


def _busiest(busy: dict[BusyUnit, float]) -> BusyUnit | None:
    """Of what the most is used; of several units of a kind that are full, the first of `UNITS`."""
    most = max(busy, key=busy.__getitem__, default=None)
    if most is None or busy[most] < FULL:
        return most
    return next(u for u in busy if u.bound == most.bound and busy[u] >= FULL)


def _format_unit(unit: BusyUnit, share: float, kernel: ProfiledKernel) -> str:
    return f"{unit.says} {share:.1f}% ({kernel.counters[unit.quantity][0]})"


def _waits(kernel: ProfiledKernel) -> str:
    """What warps wait for most, if that was counted."""
    found = {x: n for x in STALLS if (n := kernel.values[f"stall_{x}"]) is not None}
    most = max(found, key=found.__getitem__, default="")
    if not most or not found[most]:
        return ""
    share = 100 * found[most] / sum(found.values())
    return (
        f"; of the time that warps wait, {share:.0f}% is for {STALLS[most]} "
        f"({kernel.counters[f'stall_{most}'][0]})"
    )


def _format_busy_units(busy: dict[BusyUnit, float], bound: Verdict) -> str:
    """The busiest units of the kind that it is not bound by; of both where it is bound by none."""
    kinds = [kind for kind in _KINDS if kind != bound]
    mine = {u: x for u, x in busy.items() if u.bound in kinds}
    ranked = sorted(mine, key=lambda u: -mine[u])
    if not ranked:
        return ""
    shares = ", ".join(f"{u.says} {mine[u]:.1f}%" for u in ranked[:4])
    if len(kinds) > 1:
        return f"units: {shares}"
    near = mine[ranked[0]] >= BUSY and mine[ranked[0]] > max(busy.values()) - CLOSE
    said = "almost by {}" if near else "not by {}, which does less"
    return f"{said.format(_KINDS[kinds[0]])}: {shares}"


@dataclass(frozen=True)
class Hint:
    """What to do, where the counters say so.

    Attributes:
        name: what it is about.
        bounds: the verdicts with which it is given.
        says: a kernel → the sentence, or "" where there is nothing to say.
    """

    name: str
    bounds: tuple[Verdict, ...]
    says: Callable[[ProfiledKernel], str]


def _spills(k: ProfiledKernel) -> str:
    moved = k.total(("local_read", "local_write"))
    if not moved:
        return ""
    held = f" (it has {k.values['registers']:g} of 255)" if k.values["registers"] else ""
    return (
        f"registers spill: {moved:,.0f} bytes of loads and stores are of local memory; give a "
        f"thread less to hold{held}"
    )


def _coalescing(k: ProfiledKernel) -> str:
    """Where more than half of the bytes that cross SM↔L2 for loads or stores are not requested.

    Of a request of 32 threads with at most 16 bytes each, 16 sectors are enough.  What a thread's
    next request finds in L1 is not wasted, and spilled registers are not loads of the program.
    """
    said = []
    whole = k.bytes[SM_L2]
    for way, what in (("read", "loads"), ("write", "stores")):
        used, sectors = k.values[f"used_{way}"], k.values[f"{way}_sectors"]
        ordinary, asked = k.ordinary(way), k.values[f"asked_{way}"]
        if not (ordinary and asked and sectors and whole):
            continue
        crossed = min(ordinary, asked)
        how = f"({sectors:.1f} sectors a request): let threads side by side take words side by side"
        if crossed < whole / 10:
            continue
        if used is None and sectors > 16 and crossed > 0.9 * asked:
            said.append(f"{what} move more sectors than 32 threads can use {how}")
        elif used is not None and crossed > 2 * used:
            said.append(f"{what} use {100 * used / crossed:.0f}% of the bytes that they move {how}")
    return "; ".join(said)


def _conflicts(k: ProfiledKernel) -> str:
    share = k.values["conflict_share"]
    if share is None or share < 10:
        return ""
    return f"{share:.0f}% of the wavefronts of shared memory are for bank conflicts: swizzle or pad"


def _times_of_dram(k: ProfiledKernel) -> float:
    """Bytes read at SM↔L2 over those at L2↔DRAM; NaN where one is not known."""
    l2, dram = k.values["l2_read"], k.values["dram_read"]
    return math.nan if not l2 or dram is None else l2 / max(dram, 1)


def _describe_rereads(k: ProfiledKernel) -> str:
    if not (times := _times_of_dram(k)) >= 4:
        return ""
    return (
        f"SM↔L2 reads {times:.3g} times what L2↔DRAM does: larger tiles, or SMs "
        "that share one load (multicast), lower it"
    )


def _compulsory(k: ProfiledKernel) -> str:
    if not 0.5 < _times_of_dram(k) < 4:
        return ""
    return (
        "L2 is asked for little more than DRAM delivers: fuse the kernel with its neighbors; "
        "`iosim fuse` says what that saves"
    )


def _grains(k: ProfiledKernel) -> str:
    if not 1.5 * (times := _times_of_dram(k)) <= 1:
        return ""
    return (
        f"L2↔DRAM reads {1 / times:.3g} times what SM↔L2 does: DRAM delivers more than the "
        "sectors that are asked for, and the rest is not used"
    )


def _small(k: ProfiledKernel) -> str:
    blocks, sms = None if k.grid is None else k.grid[0] * k.grid[1] * k.grid[2], k.values["sms"]
    if blocks is None or sms is None or blocks >= sms:
        return ""
    return f"{_plural(blocks, 'block')} for {sms:.0f} SMs: split the work further"


def _occupancy(k: ProfiledKernel) -> str:
    most, got = k.values["occupancy_limit"], k.values["occupancy"]
    if most is None or most > 50:
        return "" if got is None or got > 50 else f"of the warps of an SM {got:.0f}% are active"
    limits = {
        "registers": k.values["blocks_by_registers"],
        "sizes of shared memory": k.values["blocks_by_shared"],
        "warps": k.values["blocks_by_warps"],
    }
    known = {x: n for x, n in limits.items() if n is not None}
    least = min(known, key=known.__getitem__, default="")
    why = (
        f": what {least} allow is {_plural(round(known[least]), 'block')} in an SM" if known else ""
    )
    return f"at most {most:.0f}% of an SM's warps can be active{why}"


def _groups(k: ProfiledKernel) -> str:
    all_of, groups = k.values["tensor_fp16"], k.values["tensor_fp16_groups"]
    hopper = k.machine is not None and k.machine.name in ("h100", "h200")
    if not all_of or groups is None or groups or not hopper:
        return ""
    return (
        "its products are of single warps (mma.sync); products of groups of warps (wgmma) do "
        "more in the same time on this chip"
    )


def _full(k: ProfiledKernel) -> str:
    if (k.values["tensor_busy"] or 0) < FULL:
        return ""
    return "matrix units are full: only fewer FLOP, or a smaller dtype, take less time"


def _fuse(k: ProfiledKernel) -> str:
    return (
        f"put its work ({_plural(k.launches, 'launch')}) into fewer kernels, or into a CUDA graph"
    )


def _plural(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 'es' if what.endswith('h') else 's'}"


# In the order of the method: what moves data for nothing, then the data, then the rest.
HINTS: tuple[Hint, ...] = (
    Hint("fewer launches", ("overhead",), _fuse),
    Hint("spills", ("memory", "compute", "latency"), _spills),
    Hint("coalescing", ("memory", "latency"), _coalescing),
    Hint("bank conflicts", ("memory", "latency", "compute"), _conflicts),
    Hint("fewer bytes", ("memory",), _compulsory),
    Hint("reuse", ("memory",), _describe_rereads),
    Hint("grains", ("memory",), _grains),
    Hint("grid", ("latency",), _small),
    Hint("occupancy", ("latency",), _occupancy),
    Hint("matrix units", ("compute", "latency"), _groups),
    Hint("arithmetic", ("compute",), _full),
)


def _next(kernel: ProfiledKernel, bound: Verdict) -> tuple[str, ...]:
    return tuple(said for x in HINTS if bound in x.bounds and (said := x.says(kernel)))
