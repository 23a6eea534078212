"""What torch.compile fused: the nodes that each kernel of Inductor computes.

Inductor's scheduler has a list of groups, one for each kernel, and each group knows the nodes of
the traced graph that it computes.  A node keeps the module that it came from; one of the backward
pass keeps the module of the node that it is the gradient of.  So each node is mapped to a step
(`LayerStep` in `gpu/layers/modules.py`), forward or backward.  `watching` notes them while a
compiler works; what a cache answers, no compiler sees.

`tasks` calls it on the GPU.  What it finds is kept in records, and ``tests/gpu/test_gpu_layers.py``
reads examples from ``tests/golden``.
"""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any

from iosim.base.rows import Row, Rows

# Nodes that only look at words otherwise.
VIEWS = (
    "reshape",
    "view",
    "_unsafe_view",
    "permute",
    "transpose",
    "expand",
    "unsqueeze",
    "squeeze",
    "slice",
    "select",
    "alias",
    "t",
    "as_strided",
    "inductor_lookup_seed",
    "getitem",
)
_DEFINERS = (
    ("torch._inductor.codegen.simd", "SIMDScheduling"),
    ("torch._inductor.codegen.triton", "TritonScheduling"),
    ("torch._inductor.codegen.cpp", "CppScheduling"),
)


@contextlib.contextmanager
def watching(step_of: Callable[[str], str]) -> Iterator[Rows]:
    """Collect the groups of everything that is compiled meanwhile, as JSON data.

    Args:
        step_of: the path of a module → its step, empty where it is in none.

    Each group has ``kernels``, names of what is generated for it, or of the library's function;
    ``generated``; ``backward``, whether it is in the backward pass's graph; and ``nodes``: of each
    the step, whether it is a gradient, the words of its result, its place in its graph, its target,
    and whether its first input is turned.
    """
    from torch._inductor.graph import GraphLowering

    found: Rows = []
    names: dict[str, list[str]] = {}
    codegen = GraphLowering.codegen

    def noted(self: Any) -> Any:
        names.clear()
        made = codegen(self)
        found.extend(_groups(self, names, step_of))
        return made

    with contextlib.ExitStack() as stack:
        GraphLowering.codegen = noted
        stack.callback(setattr, GraphLowering, "codegen", codegen)
        for module, name in _DEFINERS:
            one = getattr(importlib.import_module(module), name)
            if "define_kernel" in vars(one):
                stack.callback(setattr, one, "define_kernel", one.define_kernel)
                one.define_kernel = _naming(one.define_kernel, names)
        yield found


def _naming(define: Any, names: dict[str, list[str]]) -> Any:
    def defined(self: Any, source: Any, nodes: Any, *more: Any, **others: Any) -> Any:
        name = define(self, source, nodes, *more, **others)
        for node in nodes:
            if hasattr(node, "get_name"):
                names.setdefault(node.get_name(), []).append(str(name))
        return name

    return defined


def _groups(graph: Any, names: dict[str, list[str]], step_of: Callable[[str], str]) -> Rows:
    """Of one compiled graph, in the order in which its kernels run."""
    backward = bool(getattr(graph, "is_backward", False))
    found: Rows = []
    for group in graph.scheduler.nodes:
        parts = [part for part in group.get_nodes() if getattr(part, "node", None) is not None]
        extern = [p for p in parts if type(p).__name__.startswith("Extern")]
        nodes: Row = {}
        for part in parts:
            origin = getattr(part.node, "origin_node", None)
            own = list(part.node.origins)
            # What a library computes is one node; others that it names made its inputs.
            for node in own if part not in extern else [origin or own[0]] if own or origin else []:
                nodes.setdefault(node.name, node)
        seen = [_node(node, step_of) for node in nodes.values()]
        own_nodes = [node for node in seen if node is not None]
        if parts and all(type(p.node).__name__ == "MultiOutput" for p in parts):
            # One of several results of the call before: no call.
            last = next((one for one in reversed(found) if not one["generated"]), None)
            if last is not None:
                last["nodes"] += [node for node in own_nodes if node not in last["nodes"]]
            continue
        called = [str(getattr(p.node, "python_kernel_name", "") or "") for p in extern]
        kernels = called or list(
            dict.fromkeys(n for part in parts for n in names.get(part.get_name(), []))
        )
        found.append(
            {"kernels": kernels, "generated": not extern, "backward": backward, "nodes": own_nodes}
        )
    return found


def _node(node: Any, step_of: Callable[[str], str]) -> list[Any] | None:
    target = str(node.target)
    short = target.split(".")[1] if "." in target else target
    if node.op != "call_function" or short in VIEWS:
        return None
    gradient = node.meta.get("fwd_nn_module_stack")
    # Views between steps have no module of their own.
    stack = gradient or node.meta.get("nn_module_stack") or {}
    path = [*stack.values()][-1][0] if stack else ""
    is_gradient = bool(gradient) or node.meta.get("partitioner_tag") == "is_backward"
    first = node.args[0] if node.args else None
    turned = "permute" in str(getattr(first, "target", "")) or ".t." in str(
        getattr(first, "target", "")
    )
    order = list(node.graph.nodes).index(node)
    return [
        step_of(path) if path else "",
        is_gradient,
        _words(node.meta.get("val")),
        order,
        target,
        turned,
    ]


def _words(value: Any) -> int:
    """Of a result; of several, the first tensor's."""
    if isinstance(value, tuple | list):
        value = next((x for x in value if hasattr(x, "shape")), None)
    shape = getattr(value, "shape", None)
    return 0 if shape is None else math.prod(int(n) for n in shape)
