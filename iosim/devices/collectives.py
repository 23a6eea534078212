"""Collectives as parts of schedules: each is a few lines in the language of `DeviceBuilder`."""

from __future__ import annotations

from iosim.devices.builder import DeviceBuilder, Tracked, tree_send
from iosim.devices.program import Around, Sharded


def all_gather(b: DeviceBuilder, x: Tracked, axis: str, name: str) -> Tracked:
    """All of a tensor on every device, from one that is sharded along an axis: a ring.

    Every device sends P − 1 parts.
    """
    dims = tuple(axis if dim == Sharded(axis) else dim for dim in x.slab.dims)
    whole = b.make(name, *dims)
    b.op("copy", whole.part(axis), x)
    _gather_parts(b, whole, axis)
    return whole


def _gather_parts(b: DeviceBuilder, whole: Tracked, axis: str) -> None:
    for _ in b.rounds():
        b.send(whole.part(axis, 0, -1), Around(1), whole.part(axis, -1, -1))


def reduce_scatter(b: DeviceBuilder, x: Tracked, axis: str) -> None:
    """Leave in part p of x the sum over devices of that part: a ring.

    Every device sends P − 1 parts.  The other parts are partial sums.
    """
    for _ in b.rounds():
        b.send(x.part(axis, -1, -1), Around(1), x.part(axis, -2, -1), add=True)


def all_reduce(b: DeviceBuilder, x: Tracked, axis: str) -> None:
    """Leave in x its sum over devices: a reduce-scatter, then an all-gather."""
    reduce_scatter(b, x, axis)
    _gather_parts(b, x, axis)


def tree_all_reduce(b: DeviceBuilder, x: Tracked) -> None:
    """Leave in x its sum over devices: up a binomial tree to device 0, and down again."""
    for up in (True, False):
        for _ in b.levels(up):
            tree_send(b, x, up)


def all_to_all(b: DeviceBuilder, x: Tracked, sharded: str, axis: str, name: str) -> Tracked:
    """A tensor sharded along `axis` and whole along `sharded`, from the other way round."""
    dims = tuple(
        Sharded(axis) if dim == axis else sharded if dim == Sharded(sharded) else dim
        for dim in x.slab.dims
    )
    y = b.make(name, *dims)
    b.op("copy", y.part(sharded), x.part(axis))
    for _ in b.rounds():
        b.send(x.part(axis, 1, 1), Around(1, 1), y.part(sharded, -1, -1))
    return y
