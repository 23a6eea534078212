"""Kernels as rows: one for each kernel, and one for each quantity of a kernel with its counters.

``iosim profile`` prints them.  ``tests/gpu/test_profile.py`` tests them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from iosim.base.rows import Row, Rows
from iosim.gpu.profiling.kernels import ProfiledKernel, positions
from iosim.gpu.profiling.metrics import (
    QUANTITIES,
    RATIOS,
    SHOWN,
    TENSOR,
    VECTOR,
    Quantity,
    Ratio,
)
from iosim.gpu.profiling.verdict import Judged, judge

ABSENT = "absent: needs "
_KNOWN: dict[str, Quantity | Ratio] = {**QUANTITIES, **RATIOS}
_IF_ANY = (*TENSOR[1:], *VECTOR[1:], "atom_read", "bulk_reduced", "multicast_read")
# Of these only the part that was read is shown: the other is its substitute.
_EITHER = {"sm_busy": "issue_busy"}


def overview(found: Sequence[ProfiledKernel]) -> Rows:
    """One row for each kernel: its time, what bounds it, and the busiest unit."""
    whole = sum(k.time_s or 0 for k in found)
    rows = []
    for number, k in enumerate(found, 1):
        judged = judge(k)
        time = k.time_s
        rows.append(
            {
                "#": number,
                "kernel": k.short,
                "launches": k.launches,
                "time_us": None if time is None else figure(time * 1e6),
                "time_%": None if time is None or not whole else figure(100 * time / whole),
                "bound by": judged.bound,
                "most used": judged.unit,
                "DRAM_%": figure(k.values["dram_busy"]),
                "tensor_%": figure(k.values["tensor_busy"]),
                "occupancy_%": figure(k.values["occupancy"]),
            }
        )
    return rows


def details(kernel: ProfiledKernel) -> list[tuple[str, str, str]]:
    """Each quantity of a kernel, its value, and the counters it is from or would need."""
    rows = []
    for name in SHOWN:
        value = kernel.values[name]
        if name in _IF_ANY and not value:
            continue
        if name in _EITHER and (value is None or kernel.values[_EITHER[name]] is not None):
            continue
        rows.append((_KNOWN[name].says, _valued(kernel, name), _source(kernel, name)))
        way = {"l2_read": "read", "l2_write": "write"}.get(name)
        if way and (own := kernel.ordinary(way)) is not None:
            rows.append(("of it by load-store units", f"{figure(own)} byte", "the rest"))
    return rows


def roofs(kernel: ProfiledKernel) -> Rows:
    """One row for each boundary: bytes, bandwidth, intensity, and how near its roof."""
    return [
        {
            "boundary": p.boundary,
            "bytes": figure(p.bytes),
            "GB/s": figure(p.bytes_per_s / 1e9),
            "FLOP/B": figure(p.intensity),
            "peak GB/s": figure(p.peak_bytes_per_s and p.peak_bytes_per_s / 1e9),
            "roof TFLOP/s": figure(p.roof and p.roof / 1e12),
            "of the roof %": figure(p.attained),
        }
        for p in positions(kernel)
    ]


def sentences(kernel: ProfiledKernel, judged: Judged) -> list[str]:
    """The verdict in words: because of what, against what, what is not known, what is next."""
    said = [
        f"{judged.bound}-bound: {judged.because}"
        if judged.bound != "unknown"
        else f"what bounds it can't be told: {judged.because}"
    ]
    if judged.against:
        said.append(judged.against)
    said += [f"next: {x}" for x in judged.next]
    if judged.absent:
        said.append(f"not read, and could change this: {', '.join(judged.absent)}")
    return said


def to_dict(kernel: ProfiledKernel, judged: Judged) -> Row:
    """A kernel for scripts: values in base units, None where absent, with counters."""
    return {
        "kernel": kernel.short,
        "full_name": kernel.name,
        "grid": kernel.grid,
        "block": kernel.block,
        "launches": kernel.launches,
        "machine": kernel.machine.name if kernel.machine else None,
        "verdict": asdict(judged),
        "values": dict(kernel.values),
        "counters": {x: list(c) for x, c in kernel.counters.items() if c},
        "needs": {x: list(q.needs) for x, q in QUANTITIES.items() if kernel.values[x] is None},
        "rounded": sorted(kernel.rounded),
        "flop": kernel.flop,
        "load_store_read": kernel.ordinary("read"),
        "load_store_write": kernel.ordinary("write"),
        "roofline": [asdict(p) for p in positions(kernel)],
    }


def figure(value: float | None) -> str:
    """A number for a person: whole ones in full, others to four digits.

    >>> figure(1234567.0), figure(31.25), figure(0.012345), figure(None), figure(4337.1)
    ('1,234,567', '31.25', '0.01235', '', '4,337')
    """
    if value is None:
        return ""
    if value == float("inf"):
        return "inf"
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _valued(kernel: ProfiledKernel, name: str) -> str:
    value = kernel.values[name]
    if value is None:
        return ABSENT.partition(":")[0]
    unit = _KNOWN[name].unit
    if name == "time":
        each = (kernel.each_s or 0) * 1e6
        many = f", {figure(each)} each" if kernel.launches > 1 else ""
        return f"{figure(value / 1e3)} µs{many}"
    if unit == "flop" and kernel.time_s:
        return f"{figure(value)} flop, {figure(value / kernel.time_s / 1e12)} TFLOP/s"
    about = "about " if name in kernel.rounded else ""
    return f"{about}{figure(value)} {unit}"


def _source(kernel: ProfiledKernel, name: str) -> str:
    if found := kernel.counters[name]:
        if name not in RATIOS:
            return " + ".join(found)
        return " / ".join(_source(kernel, x) for x in (RATIOS[name].top, RATIOS[name].bottom))
    if name in QUANTITIES:
        return f"needs {' and '.join(QUANTITIES[name].needs)}"
    parts = (RATIOS[name].top, RATIOS[name].bottom)
    lacking = [x for part in parts for x in QUANTITIES[part].needs if kernel.values[part] is None]
    return f"needs {' and '.join(lacking)}" if lacking else "there were none"
