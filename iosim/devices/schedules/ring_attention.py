"""Ring attention: every device keeps its rows of Q and O, and K and V go round.

In each of P − 1 rounds a device sends the rows of K and V that it has to the next device, while its
own rows of Q attend to them; online softmax merges.  Every row of K and V crosses P − 1 links:
2(P − 1)·N·d words for each head of K and V.
"""

from __future__ import annotations

from iosim.core.problem import Attention
from iosim.devices.builder import DeviceBuilder
from iosim.devices.ops import LOWEST
from iosim.devices.program import Sharded
from iosim.devices.schedules._entry import DeviceSchedule


def build(b: DeviceBuilder) -> None:
    """The schedule."""
    q, k, v = b.holds("Q", "N"), b.holds("K", "N"), b.holds("V", "N")
    rows = ("kv_heads", "group", Sharded("N"))
    o, m, l = b.make("O", *rows, "d"), b.make("m", *rows, fill=LOWEST), b.make("l", *rows)
    for _ in b.rounds(k, v):
        with b.together():
            b.op("attend", o, m, l, q, k, v)
            b.pass_on(k)
            b.pass_on(v)
    b.op("attend", o, m, l, q, k, v)
    b.op("finish", o, l)
    b.output(o, "O")


SCHEDULE = DeviceSchedule(
    name="ring-attention",
    title="ring attention: K and V go round, Q and O stationary",
    problem=Attention,
    build=build,
    options=("kv_heads", "causal"),
    sharded="N",
    source="Liu, Zaharia and Abbeel, arXiv 2310.01889",
)
