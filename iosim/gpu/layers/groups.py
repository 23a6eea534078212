"""From what a compiler fused to a partition of the graph's operators, and to classes of kernels.

Nodes of Inductor are finer than the graph's operators: a softmax is five of them.  An operator is
put where the last node of its step is computed that has as many words as the operator writes.

`rows`, `record` and the report `iosim.gpu.reports.layers` call it.
``tests/gpu/test_gpu_layers.py`` tests that they are partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iosim.gpu.layers.trace import GRADIENT_SUM, Launch
from iosim.models.layers.graph import Graph
from iosim.models.operators import Operator

# LayerStep, whether it is a gradient, words, place in its graph, target, whether its first input is
# turned (`iosim.gpu.layers.inductor`).
Node = tuple[str, bool, int, int, str, bool]

ATTENTION, COPY, UNKNOWN = "attention", "copy", "unknown"
# What kernels are sorted into; the first four are classes of operators, and fused attention is one
# by itself, since it is a contraction and a normalization.
CLASSES = ("contraction", "normalisation", "elementwise", ATTENTION, COPY, UNKNOWN)
_SDPA = (
    "scaled_dot_product",
    "_attention_forward",
    "_attention_backward",
    "_flash_attention",
    "_efficient_attention",
    "_cudnn_attention",
)
_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "linear", "matmul", "_addmm_activation")
_COPIES = ("copy_", "clone", "contiguous", "_to_copy", "fill_", "zero_", "convert_element_type")


@dataclass(frozen=True)
class CompiledGroup:
    """A kernel, or a call of a library, that a compiler made.

    Attributes:
        kernels: the names of what was generated, or of the library's function.
        generated: whether it was generated.
        backward: whether it is in the backward pass.
        nodes: what it computes.
    """

    kernels: tuple[str, ...]
    generated: bool
    backward: bool
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Fused:
    """A partition of a graph's operators by a compiler's groups.

    Attributes:
        names: of each group, the operators that are computed there; none where it computes only
            part of one.
        absorbed: operators that have no node of their own: they are with what reads them, or with
            what they read, where that was generated.
    """

    names: tuple[tuple[str, ...], ...]
    absorbed: tuple[str, ...]

    @property
    def groups(self) -> list[list[str]]:
        """Those with operators: a partition, as `iosim.models.fusion.fused` reads it."""
        return [list(names) for names in self.names if names]


@dataclass(frozen=True)
class Owner:
    """The step that an operator belongs to, and whether it is of the backward pass."""

    step: str
    backward: bool


def owners(graph: Graph, covers: Mapping[str, Sequence[str]]) -> dict[str, Owner]:
    """The owner of each operator of a graph.

    >>> from iosim.models.layers.architectures import layer
    >>> graph = layer("bert-large", "training", batch=1, N=8)
    >>> found = owners(graph, {"query": ("query", "query bias")})
    >>> found["query bias"], found["query dWQ"], found["dX"].step
    (Owner(step='query', backward=False), Owner(step='query', backward=True), 'gradient sum')
    """
    steps = {name: step for step, names in covers.items() for name in names}
    found = {}
    for op in graph.operators:
        if not any(t.role == "gradient" for t in op.writes):
            found[op.name] = Owner(steps.get(op.name, ""), False)
            continue
        of = [name for name in steps if op.name.startswith(f"{name} d")]
        step = steps[max(of, key=len)] if of else GRADIENT_SUM if op.kind.name == "add" else ""
        found[op.name] = Owner(step, True)
    return found


def fused(
    graph: Graph, covers: Mapping[str, Sequence[str]], groups: Sequence[CompiledGroup]
) -> Fused:
    """Where each operator is computed; every one is in one group, the last for what is nowhere."""
    where: dict[str, int] = {}
    own = owners(graph, covers)
    nodes: dict[Owner, list[tuple[int, Node]]] = {}
    for at, group in enumerate(groups):
        for node in group.nodes:
            step, gradient = node[:2]
            if gradient == group.backward:  # otherwise it is computed a second time
                nodes.setdefault(Owner(step, gradient), []).append((at, node))
    for op in graph.operators:
        if found := _place(graph, op, nodes.get(own[op.name], [])):
            where[op.name] = found[0]
    where |= _sums(graph, own, nodes.get(Owner("", True), []))
    absorbed = [op for op in graph.operators if op.name not in where]
    for op in reversed(absorbed):
        near = [r.name for t in op.writes for r in graph.readers[t.name]]
        near += [graph.writer[t.name].name for t in op.reads if t.name in graph.writer]
        places = [where[name] for name in near if name in where]
        # A library's call computes no more than itself; others of its neighbors need it later.
        places.sort(key=lambda at: (at < len(groups) and not groups[at].generated, at))
        where[op.name] = places[0] if places else len(groups)
    names = tuple(
        tuple(op.name for op in graph.operators if where[op.name] == at)
        for at in range(max([len(groups) - 1, *where.values()]) + 1)
    )
    return Fused(names, tuple(op.name for op in absorbed))


def _place(graph: Graph, op: Operator, nodes: Sequence[tuple[int, Node]]) -> tuple[int] | None:
    """The group of an operator, of those with nodes of its step."""
    if not nodes:
        return None
    found = list(nodes)
    for holds in _marks(graph, op, nodes):
        found = [x for x in found if holds(x[1])] or found
    last = max(x[1][3] for x in found)
    return (min(at for at, node in found if node[3] == last),)


def _marks(
    graph: Graph, op: Operator, nodes: Sequence[tuple[int, Node]]
) -> Iterator[Callable[[Node], bool]]:
    """What tells an operator's node from others of its step, the most telling first."""
    words = op.writes[0].words
    if op.klass == "contraction":
        yield lambda node: _short(node[4]) in _PRODUCTS
    yield lambda node: node[2] == words
    if op.klass == "normalisation":
        # What is only summed up next is on the way to the gradient of a weight.
        sums = {node[3]: node[2] for _, node in nodes if _short(node[4]) == "sum"}
        yield lambda node: sums.get(node[3] + 1, node[2]) >= node[2]
    if op.kind.name == "sum":
        yield lambda node: _short(node[4]) == "sum"
    if op.klass == "contraction" and op.writes[0].role == "gradient":
        of = op.writes[0].name.removeprefix("d").partition(" by ")[0]
        second = any(
            r.klass == "contraction" and len(r.reads) > 1 and r.reads[1].name == of
            for r in graph.readers.get(of, ())
            if op.name.startswith(f"{r.name} d")
        )
        # The gradient of the second factor is the first one turned, times the result's gradient.
        yield lambda node: node[5] == second


def _sums(
    graph: Graph, own: Mapping[str, Owner], nodes: Sequence[tuple[int, Node]]
) -> dict[str, int]:
    """Sums of gradients: additions of two each, in the order of the backward pass."""
    ops = [op for op in graph.operators if own[op.name].step == GRADIENT_SUM]
    seen: dict[int, int] = {}
    for at, node in nodes:
        if _short(node[4]) == "add":
            seen.setdefault(node[3], at)
    places = [seen[order] for order in sorted(seen)]
    if len(places) != sum(len(op.reads) - 1 for op in ops):
        return {}
    found = {}
    for op in ops:
        found[op.name] = places[len(op.reads) - 2]  # the last of its additions
        places = places[len(op.reads) - 1 :]
    return found


def _short(target: str) -> str:
    """An operator of PyTorch without its namespace and overload.

    >>> _short("aten.sum.dim_IntList"), _short("aten::mm"), _short("extern_kernels.addmm")
    ('sum', 'mm', 'addmm')
    """
    parts = target.replace("torch.ops.", "").replace("::", ".").split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def groups_of(launched: Sequence[Launch], groups: Sequence[CompiledGroup]) -> list[int | None]:
    """The group of each launch of a compiled run; None where it is in none that is known.

    What was generated is known by its name, the k-th launch of a name being its k-th group, and
    calls of a library by their order, if there are as many.
    """
    found: list[int | None] = [None] * len(launched)
    for backward in (False, True):
        mine = [k for k, x in enumerate(launched) if x.backward == backward]
        named: dict[str, list[int]] = {}
        extern = []
        for at, group in enumerate(groups):
            if group.backward == backward:
                if group.generated:
                    for name in group.kernels:
                        named.setdefault(name, []).append(at)
                else:
                    extern.append(at)
        met: dict[str, int] = {}
        for k in mine:
            name = str(launched[k].kernel)
            if name in named:
                found[k] = named[name][min(met.get(name, 0), len(named[name]) - 1)]
                met[name] = met.get(name, 0) + 1
        rest = [k for k in mine if found[k] is None and launched[k].outer.startswith("aten::")]
        calls = list(dict.fromkeys(launched[k].call for k in rest))
        if len(calls) == len(extern):
            place = dict(zip(calls, extern, strict=True))
            for k in rest:
                found[k] = place[launched[k].call]
    return found


def klass(launch: Launch, operators: Iterable[Operator], nodes: Sequence[Node] = ()) -> str:
    """The class of a launch: one of `CLASSES`.

    Args:
        launch: what ran, and the operator of PyTorch that it was in.
        operators: of the graph: those of its step and direction, or of its group.
        nodes: of its group, in a compiled run.
    """
    said = {launch.op, launch.outer, *(node[4] for node in nodes if not launch.op)}
    if any(part in name for name in said for part in _SDPA):
        return ATTENTION
    short = _short(launch.op)
    if short in _PRODUCTS:
        return "contraction"
    operators = list(operators)
    if launch.kind != "kernel":
        return COPY
    if short in _COPIES and not any(op.kind.name in ("append", "cast") for op in operators):
        return COPY
    if nodes and all(_short(node[4]) in _COPIES for node in nodes):
        return COPY
    known = [op.klass for op in operators if op.klass != "contraction"]
    return min(known, key=CLASSES.index, default=UNKNOWN) if known else UNKNOWN
