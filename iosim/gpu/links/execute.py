"""A schedule of `iosim.devices` on one of P real devices: another fold over the same program.

Each process holds what its device holds.  A `Send` is a send and a receive of PyTorch's process
group; what is `Together` is started together.  Axes that are sharded are kept part after part and
outermost, so that a part is one run of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from iosim.base.rows import Row, Values
from iosim.devices import OnDevices
from iosim.devices.ops import OPS
from iosim.devices.program import Compute, Dim, Drop, Make, Send, Sharded, Slab, Way
from iosim.devices.walk import dim_of
from iosim.gpu.errors import GpuError

Run = tuple[int, int, int]


class Rank:
    """One device of P, with its tensors.

    Args:
        instance: the schedule.
        rank: this device's number.
        torch: the module.
        device: where tensors are: ``cuda:0`` or ``cpu``.
        dtype: of PyTorch, of the problem's words; sums of attention are fp32.
    """

    def __init__(self, instance: OnDevices, rank: int, torch: Any, device: str, dtype: Any) -> None:
        self.instance, self.rank, self.torch = instance, rank, torch
        self.device, self.dtype = device, dtype
        self.memory: Row = {}
        self.whole: dict[str, tuple[bool, ...]] = {}
        self.steps = list(instance.steps())
        self.split = {
            axis: instance.sharding_of(axis).runs(n, instance.P)
            for axis, n in instance.sizes.items()
        }
        # Of each axis, where its parts begin, and how long they are, as they are kept.
        self.places: dict[str, list[tuple[int, int]]] = {}
        for axis, parts in self.split.items():
            lengths = [sum(many for _, many, _ in runs) for runs in parts]
            self.places[axis] = [(sum(lengths[:k]), n) for k, n in enumerate(lengths)]
        self.ways: dict[tuple[Way, int], tuple[int, list[int]]] = {}
        sends = [x for step in self.steps for x in step.nodes if isinstance(x, Send)]
        sharded = [d.axis for x in sends for d in x.source.dims if isinstance(d, Sharded)]
        self.first = sharded[0] if sharded else ""
        if len(set(sharded)) > 1:
            raise GpuError(
                f"{instance.schedule.name} sends parts of two axes: it can't be run here"
            )
        if instance.causal and instance.sharding.name == "striped":
            raise GpuError("striped rows have no form on a GPU here: shard them zigzag")
        if lacking := {
            x.name
            for s in self.steps
            for x in s.nodes
            if isinstance(x, Compute) and x.name not in TORCH_OPS
        }:
            raise GpuError(f"{lacking.pop()} has no form on a GPU: choose another schedule")

    def part(self, dim: Dim, t: int) -> int:
        """Which part of its axis a dimension is; −1 for all."""
        if isinstance(dim, str):
            return -1
        return (self.rank + dim.shift + dim.turn * t) % self.instance.P

    def runs(self, dim: Dim, t: int) -> list[Run]:
        """The runs of positions along a dimension, in the order in which they are kept."""
        axis, part = (dim, -1) if isinstance(dim, str) else (dim.axis, self.part(dim, t))
        every = self.split[axis]
        return [run for runs in every for run in runs] if part < 0 else every[part]

    def positions(self, dim: Dim, t: int) -> Any:
        """Positions along a dimension."""
        runs = self.runs(dim, t)
        return np.concatenate([start + step * np.arange(many) for start, many, step in runs])

    def empty(self, slab: Slab, t: int, dtype: Any) -> Any:
        """A tensor of a slab's shape, the sharded axis outermost in memory."""
        names = [dim if isinstance(dim, str) else dim.axis for dim in slab.dims]
        shape = [
            self.instance.sizes[dim]
            if isinstance(dim, str)
            else self.places[dim.axis][self.part(dim, t)][1]
            for dim in slab.dims
        ]
        order = sorted(range(len(names)), key=lambda k: names[k] != self.first)
        x = self.torch.empty([shape[k] for k in order], dtype=dtype, device=self.device)
        return x.permute(*(order.index(k) for k in range(len(order))))

    def way(self, to: Way, t: int) -> tuple[int, list[int]]:
        """To whom this device sends, and from whom it receives: itself, and nobody, for none."""
        if (to, t) not in self.ways:
            targets = [int(x) for x in self.instance.targets(to, t)]
            senders = [p for p, q in enumerate(targets) if q == self.rank != p]
            self.ways[to, t] = targets[self.rank], senders
        return self.ways[to, t]

    def view(self, slab: Slab, t: int) -> Any:
        """A slab of a tensor that is held."""
        x = self.memory[slab.name]
        for k, (dim, whole) in enumerate(zip(slab.dims, self.whole[slab.name], strict=True)):
            if whole and isinstance(dim, Sharded):
                x = x.narrow(k, *self.places[dim.axis][self.part(dim, t)])
        return x

    def load(self, inputs: Values) -> None:
        """Take this device's part of the problem's inputs, which are PyTorch's tensors."""
        for slab in self.instance.schedule.program.inputs:
            x = inputs[slab.name]
            for k, dim in enumerate(slab.dims):
                if isinstance(dim, Sharded) or dim == self.first:
                    at = self.torch.from_numpy(self.positions(dim, 0)).to(x.device)
                    x = x.index_select(k, at)
            held = self.empty(slab, 0, self.dtype)
            held.copy_(x)
            self.memory[slab.name] = held
            self.whole[slab.name] = tuple(isinstance(dim, str) for dim in slab.dims)

    def go(self, *, compute: bool = True, send: bool = True, overlap: bool = True) -> None:
        """One pass.  Inputs that are passed on are back where they were after it.

        Args:
            compute, send: without one of them only the other is done, on whatever is there.
            overlap: what is together starts together; otherwise transfers end before products.
        """
        inputs = {x.name: self.memory[x.name] for x in self.instance.schedule.program.inputs}
        whole = dict(self.whole)
        for step in self.steps:
            self._step(step.nodes, step.t, compute, send, overlap)
        self.results = {
            name: self.view(slab, 0) for name, slab in self.instance.schedule.program.outputs
        }
        self.memory, self.whole = inputs, whole

    def _step(
        self, nodes: tuple[Any, ...], t: int, compute: bool, send: bool, overlap: bool
    ) -> None:
        sends = [x for x in nodes if isinstance(x, Send)]
        arrived: list[tuple[Send, Any]] = []
        pending: list[Any] = []
        if sends and send:
            arrived, pending = self._start(sends, t)
            if not overlap:
                _wait(pending)
        for node in nodes:
            match node:
                case Make():
                    kind = self.torch.float32 if node.slab.name in _WIDE else self.dtype
                    x = self.empty(node.slab, t, kind)
                    self.memory[node.slab.name] = x.fill_(node.fill) if compute else x
                    self.whole[node.slab.name] = tuple(isinstance(d, str) for d in node.slab.dims)
                case Drop():
                    del self.memory[node.slab.name]
                case Compute() if compute or node.name == "copy":
                    TORCH_OPS[node.name](self, node, t)
        if sends and send:
            if overlap:
                _wait(pending)
            for node, x in arrived:
                if node.passed:
                    self.memory[node.into.name] = x
                elif node.add:
                    self.view(node.into, t).add_(x)

    def _start(self, sends: list[Send], t: int) -> tuple[list[tuple[Send, Any]], list[Any]]:
        """Start sends and receives; what arrives goes to its place, or to a new tensor."""
        dist = self.torch.distributed
        arrived, operations = [], []
        for node in sends:
            to, senders = self.way(node.to, t)
            if to != self.rank:
                operations.append(dist.P2POp(dist.isend, _flat(self.view(node.source, t)), to))
            if senders:
                fresh = node.passed or node.add
                # what is sent and what arrives may differ by a row
                x = (
                    self.empty(node.into, t, self.memory[node.source.name].dtype)
                    if fresh
                    else (self.view(node.into, t))
                )
                operations.append(dist.P2POp(dist.irecv, _flat(x), senders[0]))
                arrived.append((node, x))
        return arrived, dist.batch_isend_irecv(operations) if operations else []


# Kept in fp32, whatever the words are.
_WIDE = {"O", "m", "l"}


def _flat(x: Any) -> Any:
    """A tensor as it lies in memory; it has to be one run."""
    order = sorted(range(x.dim()), key=lambda k: -x.stride(k))
    flat = x.permute(*order)
    if not flat.is_contiguous():
        raise GpuError(f"a part of shape {tuple(x.shape)} is not a run of memory: it can't be sent")
    return flat


def _wait(pending: list[Any]) -> None:
    for one in pending:
        one.wait()


def _attention(torch: Any, q: Any, k: Any, v: Any, causal: bool) -> tuple[Any, Any]:
    """Normalized output, and log Σ exp of the scores, of (heads, rows, d) tensors."""
    ops, args = torch.ops.aten, (q[None], k[None], v[None], 0.0, causal)
    if q.is_cuda:
        out = ops._scaled_dot_product_flash_attention(*args, False, scale=1.0)
    else:
        out = ops._scaled_dot_product_flash_attention_for_cpu(*args, scale=1.0)
    return out[0][0], out[1][0]


def _attend(rank: Rank, node: Compute, t: int) -> None:
    """Attention of blocks by the library, merged by log Σ exp: l stays 1, m is that of all."""
    o, m, l, q, k, v = (rank.view(slab, t) for slab in node.slabs)
    torch, causal = rank.torch, rank.instance.causal
    l.fill_(1.0)
    group = q.shape[1]
    q, o, m = (x.flatten(0, 1) for x in (q, o, m))
    if group > 1:
        k, v = (x.repeat_interleave(group, 0) for x in (k, v))
    rows, keys = (dim_of(node.slabs[x], "N") for x in (3, 4))
    if not causal:
        _merge(torch, o, m, *_attention(torch, q, k, v, False))
        return
    at = 0
    for start, many, _ in rank.runs(rows, t):
        mine = slice(at, at + many)
        for low, high, masked in _visible_runs(start, many, rank.runs(keys, t)):
            block = _attention(torch, q[:, mine], k[:, low:high], v[:, low:high], masked)
            _merge(torch, o[:, mine], m[:, mine], *block)
        at += many


def _visible_runs(start: int, many: int, keys: list[Run]) -> list[tuple[int, int, bool]]:
    """What a run of rows sees of runs of keys: where they are kept, and whether it is masked.

    >>> _visible_runs(4, 4, [(0, 4, 1), (4, 4, 1), (8, 4, 1)])
    [(0, 4, False), (4, 8, True)]
    """
    found: list[tuple[int, int, bool]] = []
    at = 0
    for low, n, _ in keys:
        if low == start and n == many:
            found.append((at, at + n, True))
        elif low + n <= start and n:
            if found and found[-1][1] == at and not found[-1][2]:
                found[-1] = (found[-1][0], at + n, False)
            else:
                found.append((at, at + n, False))
        at += n
    return found


def _merge(torch: Any, o: Any, m: Any, block: Any, lse: Any) -> None:
    top = torch.logaddexp(m, lse)
    o.mul_((m - top).exp_().unsqueeze(-1))
    o.addcmul_(block.to(o.dtype), (lse - top).exp_().unsqueeze(-1))
    m.copy_(top)


def _matmul(rank: Rank, node: Compute, t: int) -> None:
    y, a, b = (rank.view(slab, t) for slab in node.slabs)
    y.addmm_(a.T if node.name == "matmul_tn" else a, b)


def _copy(rank: Rank, node: Compute, t: int) -> None:
    y, x = (rank.view(slab, t) for slab in node.slabs)
    y.copy_(x[0] if node.name == "squeeze" else x)


def _relu(rank: Rank, node: Compute, t: int) -> None:
    rank.view(node.slabs[0], t).relu_()


def _finish(rank: Rank, node: Compute, t: int) -> None:
    """Nothing: blocks are normalized as they are merged."""


TORCH_OPS: dict[str, Callable[[Rank, Compute, int], None]] = {
    "attend": _attend,
    "finish": _finish,
    "matmul": _matmul,
    "matmul_tn": _matmul,
    "relu": _relu,
    "copy": _copy,
    "squeeze": _copy,
}
assert set(TORCH_OPS) <= set(OPS)
