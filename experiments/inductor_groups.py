"""Which operators of BERT-large's layer PyTorch's Inductor puts into one kernel: records it.

The operators of `iosim.models.layers`, forward and backward, are written in PyTorch's own (ATen) as
two graphs, as torch.compile has them, and lowered by Inductor for a CPU up to where it would write
code: nothing is computed.  Inductor's scheduler then says which buffers one kernel computes, and
each buffer from which operators it comes.  (Its kernels on a GPU are read off runs there, by
`iosim gpu layers`.)

An operator is counted to the first kernel that computes its last value; where a pass of Inductor
has put something else in that value's place, to the first kernel that any of its values comes into.
Inductor may compute an element-wise operator again in a later kernel, and writes copies of tensors
in other layouts, and random numbers, by kernels of their own; these are recorded as a number and
have no operator.

    python -m experiments.inductor_groups [--out FILE]

Needs PyTorch: `pip install torch` beside iosim.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iosim.models.fusion.named_fusions import RECORDED
from iosim.models.layers.architectures import layer
from iosim.models.layers.graph import Graph
from iosim.models.operators import Operand, Operator

MODEL, PHASE, BATCH, N = "bert-large", "training", 8, 512
DEVICE = "cpu"
VIEWS = (
    "view",
    "permute",
    "expand",
    "reshape",
    "unsqueeze",
    "squeeze",
    "slice",
    "alias",
    "t",
    "transpose",
    "getitem",
)


class _Enough(Exception):
    """The scheduler has fused, and no code is wanted."""


def main(argv: Sequence[str] | None = None) -> None:
    """Record the groups of both graphs in one file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(argv)
    import torch

    graph = layer(MODEL, PHASE, batch=BATCH, N=N)
    told: dict[str, Any] = {
        "says": "PyTorch's Inductor on cpu, as recorded",
        "torch": torch.__version__,
        "device": DEVICE,
        "graph": f"{graph.name}, {PHASE}, batch {BATCH}, N = {N}, {graph.dtype}",
        "groups": [],
        "kernels_without_operators": 0,
    }
    for part in _passes(graph):
        for names in _groups(graph, part):
            if names:
                told["groups"].append(names)
            else:
                told["kernels_without_operators"] += 1
    out = given.out or RECORDED / f"inductor-{DEVICE}.json"
    lines = ",\n".join(f"    {json.dumps(x, ensure_ascii=False)}" for x in told.pop("groups"))
    head = json.dumps(told, indent=2, ensure_ascii=False).removesuffix("\n}")
    out.write_text(f'{head},\n  "groups": [\n{lines}\n  ]\n}}\n', encoding="utf-8")
    print(f"{out}: {lines.count(chr(10)) + 1} kernels with operators")


def _passes(graph: Graph) -> list[list[Operator]]:
    """Forward and backward: what Y depends on, and the rest."""
    wanted, forward = {"Y"}, list[Operator]()
    for op in reversed(graph.operators):
        if any(t.name in wanted for t in op.writes):
            forward.insert(0, op)
            wanted |= {t.name for t in op.reads}
    return [forward, [op for op in graph.operators if op not in forward]]


def _groups(graph: Graph, ops: Sequence[Operator]) -> list[list[str]]:
    """The operators of each kernel, in Inductor's order."""
    import torch
    from torch._inductor import scheduler
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes
    from torch._inductor.virtualized import V
    from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx

    made = {t.name for op in ops for t in op.writes}
    inputs = {t.name: t for op in ops for t in op.reads if t.name not in made}
    kept = {t.name for t in graph.outputs}
    kept |= {t.name for op in graph.operators if op not in ops for t in op.reads}
    last: dict[str, str] = {}
    every: dict[str, str] = {}

    def both(*arrays: Any) -> list[Any]:
        nodes = get_proxy_mode().tracer.graph.nodes
        there = dict(zip(inputs, arrays, strict=True))
        for op in ops:
            before = len(nodes)
            found = _run(op, [there[t.name] for t in op.reads])
            there.update(zip((t.name for t in op.writes), found, strict=True))
            new = list(nodes)[before:]
            last[[n for n in new if _computes(n)][-1].name] = op.name
            every.update((n.name, op.name) for n in new)
        return [
            there[x] for x in dict.fromkeys(t.name for op in ops for t in op.writes) if x in kept
        ]

    given = [torch.empty(t.shape, dtype=_dtype(graph, t), device=DEVICE) for t in inputs.values()]
    traced = make_fx(both, decomposition_table=select_decomp_table(), tracing_mode="fake")(*given)
    fake = [n.meta["val"] for n in traced.graph.nodes if n.op == "placeholder"]
    with V.set_fake_mode(fake[0].fake_mode):
        joint_graph_passes(traced)
    seen: list[list[str]] = []

    def stop(self: Any, *_: Any, **__: Any) -> None:
        for kernel in self.nodes:
            parts = [part.node for part in kernel.get_nodes() if part.node is not None]
            seen.append([n.name for part in parts for n in part.origins])
        raise _Enough

    usual, scheduler.Scheduler.codegen = scheduler.Scheduler.codegen, stop
    try:
        compile_fx_inner(traced, fake)
    except Exception:
        if not seen:
            raise
    finally:
        scheduler.Scheduler.codegen = usual
    where: dict[str, int] = {}
    for known in (last, every):  # a pass may have put another node in the place of the last one
        for at, names in enumerate(seen):
            for name in {known[x] for x in names if x in known} - where.keys():
                where[name] = at
    if missing := [op.name for op in ops if op.name not in where]:
        raise SystemExit(f"no kernel computes {', '.join(missing)}: is this another PyTorch?")
    return [[op.name for op in ops if where[op.name] == at] for at in range(len(seen))]


def _computes(node: Any) -> bool:
    """Whether a node of a trace is more than a view."""
    name = getattr(node.target, "__name__", str(node.target)).split(".")[0]
    return node.op == "call_function" and name not in VIEWS


def _dtype(graph: Graph, t: Operand) -> Any:
    """Masks are booleans and statistics fp32, as PyTorch keeps them."""
    import torch

    writer = graph.writer.get(t.name)
    if writer is not None and writer.writes[0].name != t.name:
        return {"dropout": torch.bool, "layer_norm": torch.float32}[writer.kind.name]
    return torch.float16


def _run(op: Operator, arrays: Sequence[Any]) -> list[Any]:
    """An operator of the layer in ATen."""
    import torch

    aten = torch.ops.aten
    letters = dict(zip(op.sizes, "abcdefghijklmnop", strict=False))
    spelt = ["".join(letters[a] for a in t.names) for t in (*op.reads, *op.writes)]
    if op.kind.name == "contraction":
        return [torch.einsum(f"{spelt[0]},{spelt[1]}->{spelt[2]}", *arrays)]
    x = list(arrays)
    if op.kind.name == "layer_norm_dw":
        dy, x0, mean, rstd = x
        like = dy.new_empty(dy.shape[-1:])
        return list(
            aten.native_layer_norm_backward(
                dy,
                x0,
                like.shape,
                mean[..., None],
                rstd[..., None],
                like,
                like,
                [False, True, True],
            )
        )[1:]
    order = [*(a for a in op.sizes if a not in op.over), *op.over]
    x = [_aligned(t, a, order) for t, a in zip(op.reads, x, strict=True)]
    match op.kind.name:
        case "bias" | "add":
            found = [sum(x[1:], x[0])]
        case "multiply":
            found = [x[0] * x[1]]
        case "scale":
            found = [x[0] * op.setting("factor")]
        case "sum":
            found = [x[0].sum(list(range(-len(op.over), 0)), keepdim=True)]
        case "softmax":
            found = [aten._softmax(x[0], -1, False)]
        case "softmax_back":
            found = [aten._softmax_backward_data(x[0], x[1], -1, x[0].dtype)]
        case "dropout":
            found = list(aten.native_dropout(x[0], op.setting("p"), True))
        case "gelu":
            found = [aten.gelu(x[0])]
        case "gelu_back":
            found = [aten.gelu_backward(x[0], x[1])]
        case "layer_norm":
            weights = [w.reshape(-1) for w in x[1:]]
            found = list(
                aten.native_layer_norm(x[0], weights[0].shape, *weights, op.setting("epsilon"))
            )
        case "layer_norm_dx":
            dy, x0, weight, mean, rstd = x
            weight = weight.reshape(-1)
            found = list(
                aten.native_layer_norm_backward(
                    dy, x0, weight.shape, mean, rstd, weight, weight, [True, False, False]
                )
            )[:1]
        case _:
            raise SystemExit(f"no ATen for {op.kind.name}: add it here")
    return [_reorder_axes(t, y, order) for t, y in zip(op.writes, found, strict=True)]


def _aligned(t: Operand, x: Any, order: Sequence[str]) -> Any:
    """With the axes in one order, those that it lacks of length 1."""
    sizes = dict(t.axes)
    turned = x.permute([t.names.index(a) for a in order if a in t.names])
    return turned.reshape([sizes.get(a, 1) for a in order])


def _reorder_axes(t: Operand, x: Any, order: Sequence[str]) -> Any:
    there = [a for a in order if a in t.names]
    sizes = dict(t.axes)
    return x.reshape([sizes[a] for a in there]).permute([there.index(a) for a in t.names])


if __name__ == "__main__":
    main()
