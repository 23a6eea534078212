"""Collectives: every word has to come to each device that lacks it, and every summand to its sum.

- Gather: a device that has at most some of n words and is to have all receives the others:
  (P − 1)·n words over all links, where each word is on one device at first.
- Sum: P summands of an entry are on P devices.  Each message of a partial sum lowers the number of
  devices whose summand is not yet in the result by one at most, so P − 1 messages are needed until
  one device has the sum: (P − 1)·n words.  If all are to have it, then no other device has it
  before, and each receives it later: 2(P − 1)·n (Patarasuk and Yuan, JPDC 69, 2009).
"""

from __future__ import annotations

from iosim.devices.bounds._entry import LinkBound, Setting


def _gather(setting: Setting) -> int:
    return (setting.P - 1) * int(setting.problem.n)


def _sum(setting: Setting) -> int:
    (output,) = setting.problem.form.outputs
    words = 1
    for axis in output.axes:
        words *= setting.problem.sizes[axis]
    times = 1 if setting.placement[output.name] else 2
    return times * (setting.P - 1) * words


def _summands(setting: Setting) -> str | None:
    """Whether every device has a summand of every entry of the output."""
    contracted = {"sum-over-devices": "devices", "weight-gradient": "rows"}
    axis = contracted[setting.problem.kind]
    inputs = [setting.placement[t.name] for t in setting.problem.form.inputs]
    if any(sharded != axis for sharded in inputs):
        return "not every device has summands"
    if setting.problem.sizes[axis] < setting.P:
        return "some devices have no rows"
    return None


GATHER = LinkBound(
    name="gathered",
    of="total",
    kinds=("gather",),
    words=_gather,
    outside=lambda setting: None,
    says="each word is on one device at first and on all at last",
    source="elementary",
)

SUM = LinkBound(
    name="summed",
    of="total",
    kinds=("sum-over-devices", "weight-gradient"),
    words=_sum,
    outside=_summands,
    says="every device adds up its own products, and words are partial sums of an entry",
    source="elementary; for all devices Patarasuk and Yuan, JPDC 69, 2009",
)
