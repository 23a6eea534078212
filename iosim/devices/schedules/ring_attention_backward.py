"""The backward pass of ring attention: dK and dV go round with K and V, and home in the last round.

K and V cross P − 1 links, dK and dV all P of them: (4P − 2)·N·d words for each head of K and V.
"""

from __future__ import annotations

from iosim.core.problem import AttentionBackward
from iosim.devices.builder import DeviceBuilder
from iosim.devices.program import Sharded
from iosim.devices.schedules._entry import DeviceSchedule


def build(b: DeviceBuilder) -> None:
    """The schedule."""
    q, k, v = b.holds("Q", "N"), b.holds("K", "N"), b.holds("V", "N")
    o, do, L = b.holds("O", "N"), b.holds("dO", "N"), b.holds("L", "N")
    rows, keys = ("kv_heads", "group", Sharded("N")), ("kv_heads", Sharded("N"), "d")
    D, dq = b.make("D", *rows), b.make("dQ", *rows, "d")
    dk, dv = b.make("dK", *keys), b.make("dV", *keys)
    b.op("row_sums", D, o, do)
    for _ in b.rounds(k, v, dk, dv):
        b.op("attend_back", dq, dk, dv, q, do, L, D, k, v)
        for x in (k, v, dk, dv):
            b.pass_on(x)
    b.op("attend_back", dq, dk, dv, q, do, L, D, k, v)
    for x, name in ((dk, "dK"), (dv, "dV")):
        b.pass_on(x)
        b.output(x, name)
    b.output(dq, "dQ")


SCHEDULE = DeviceSchedule(
    name="ring-attention-backward",
    title="the backward pass of ring attention: dK and dV go round with K and V",
    problem=AttentionBackward,
    build=build,
    options=("kv_heads", "causal"),
    sharded="N",
    source="Liu, Zaharia and Abbeel, arXiv 2310.01889",
)
