"""Attention between two all-to-alls: from rows of all heads to all rows of some heads, and back.

Q, K, V and O each cross once, except for what is in place: (1 − 1/P) of 2·N·d words for every head
of Q and as many for every head of K and V.  Devices beyond the number of heads of K and V have
nothing to do in between.
"""

from __future__ import annotations

from iosim.core.problem import Attention
from iosim.devices.builder import DeviceBuilder
from iosim.devices.collectives import all_to_all
from iosim.devices.ops import LOWEST
from iosim.devices.program import Sharded
from iosim.devices.schedules._entry import DeviceSchedule


def build(b: DeviceBuilder) -> None:
    """The schedule."""
    q, k, v = (
        all_to_all(b, b.holds(name, "N"), "N", "kv_heads", f"heads of {name}") for name in "QKV"
    )
    rows = (Sharded("kv_heads"), "group", "N")
    o, m, l = b.make("heads of O", *rows, "d"), b.make("m", *rows, fill=LOWEST), b.make("l", *rows)
    b.op("attend", o, m, l, q, k, v)
    b.op("finish", o, l)
    b.output(all_to_all(b, o, "kv_heads", "N", "O"), "O")


SCHEDULE = DeviceSchedule(
    name="ulysses-attention",
    title="attention between two all-to-alls: each device has all rows of some heads",
    problem=Attention,
    build=build,
    options=("kv_heads", "causal"),
    source="DeepSpeed-Ulysses: Jacobs et al., arXiv 2309.14509",
)
