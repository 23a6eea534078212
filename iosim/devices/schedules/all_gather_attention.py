"""All-gather attention: every device gets all of K and V first, then attends with its rows of Q.

As many words as ring attention, but all of K and V are in every memory, and no product overlaps
the transfers.
"""

from __future__ import annotations

from iosim.core.problem import Attention
from iosim.devices.builder import DeviceBuilder
from iosim.devices.collectives import all_gather
from iosim.devices.ops import LOWEST
from iosim.devices.program import Sharded
from iosim.devices.schedules._entry import DeviceSchedule


def build(b: DeviceBuilder) -> None:
    """The schedule."""
    q, k, v = b.holds("Q", "N"), b.holds("K", "N"), b.holds("V", "N")
    keys, values = all_gather(b, k, "N", "all K"), all_gather(b, v, "N", "all V")
    rows = ("kv_heads", "group", Sharded("N"))
    o, m, l = b.make("O", *rows, "d"), b.make("m", *rows, fill=LOWEST), b.make("l", *rows)
    b.op("attend", o, m, l, q, keys, values)
    b.op("finish", o, l)
    b.output(o, "O")


SCHEDULE = DeviceSchedule(
    name="all-gather-attention",
    title="all-gather attention: all of K and V to every device, then one attention",
    problem=Attention,
    build=build,
    options=("kv_heads", "causal"),
    sharded="N",
    source="context parallelism of Llama 3: arXiv 2407.21783, section 3.3.2",
)
