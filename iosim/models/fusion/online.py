"""Kernels with an online softmax: scores, softmax and their product with V are attention.

A contraction before another would have to keep a tile of its output in fast memory until the second
has used it.  There is one such kernel: QKᵀ, then factors, a causal mask and a block mask, softmax
along the columns, dropout, then the product with V.  It is one operator, attention, and its words
are those of the attention schedule that moves the fewest; under a block mask, of `block_sparse`.

Nothing between them may be read elsewhere, with one exception: the backward pass of the same
operators.  It may read the weights, which then stay outside of any such kernel; or one kernel
computes them again from L, the log of each row's sum, as FlashAttention does.  These two kernels
come together or not at all: the first stores L, the second loads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from iosim.base.errors import CapacityError, InputError
from iosim.base.rows import Row
from iosim.models.fusion.members import Axes, Illegal, Members
from iosim.models.layers.backward import backward
from iosim.models.layers.graph import Graph
from iosim.models.layers.traffic import Crossing, moved
from iosim.models.operators import Operand, Operator, operator
from iosim.models.operators.contraction import CONTRACTION

# Kinds of operators between scores and weights.
_BETWEEN = ("scale", "causal", "block_mask", "softmax", "dropout")


@dataclass(frozen=True)
class Recomputation:
    """Attention and its gradients, with the weights computed again from L.

    Attributes:
        parts: the operators of the two kernels: forward, and backward.
        operators: what each kernel computes, as one operator.
    """

    parts: tuple[Members, Members]
    operators: tuple[Operator, Operator]


def crossing(op: Operator, M: int) -> Crossing:
    """The words of attention, or of its gradients, across the boundary.

    Raises Illegal where nothing fits.
    """
    try:
        found = moved(op, M)
    except (CapacityError, InputError) as error:
        raise Illegal(str(error)) from None
    wide = frozenset(t.name for t in op.tensors if t.dtype == "fp32" and t.name.endswith(_SUMS))
    how = "weights again from L" if op.kind.name == "attention_back" else "online softmax"
    return replace(found, how=f"{how}: {found.how}", wide=found.wide | wide)


# How the name of L ends, of attention that keeps it for its gradients.
_SUMS = ": L"


def chains(graph: Graph, outputs: Iterable[Operator]) -> Iterator[tuple[Operator, ...]]:
    """Operators from scores to their product with V, one of some, where a softmax is between."""
    for output in outputs:
        if output.kind is not CONTRACTION:
            continue
        for t in output.reads:
            path, op = [output], graph.writer.get(t.name)
            while op is not None and op.kind.name in _BETWEEN:
                path.append(op)
                op = graph.writer.get(op.reads[0].name)
            softmax = any(one.kind.name == "softmax" for one in path)
            if softmax and op is not None and op.kind is CONTRACTION:
                yield (op, *reversed(path))


def recomputations(graph: Graph) -> Iterator[Recomputation]:
    """Each attention of a graph whose backward pass is there, too, and alone reads its weights."""
    for chain in chains(graph, graph.operators):
        written = {t.name for op in chain[:-1] for t in op.writes}
        if not any(r not in chain for x in written for r in graph.readers[x]):
            continue
        try:
            yield _recomputation(graph, chain)
        except Illegal:
            continue


def _recomputation(graph: Graph, chain: tuple[Operator, ...]) -> Recomputation:
    forward = Members.of(graph, {op.name for op in chain})
    back = _gradients(graph, chain)
    behind = Members.of(graph, {op.name for op in back.operators})
    whole = Members.of(graph, forward.names | behind.names)
    one = as_operator(forward, whole, back.gradients)
    Q, K, V = one.reads
    (O,) = one.writes
    if one.setting("blocks") is not None:
        raise Illegal("no schedule gives the gradients of attention under a block mask")
    name = f"{chain[0].name} … {chain[-1].name}"
    rows = tuple(a for a in O.axes if a[0] in Q.names)
    L = Operand(f"{name}{_SUMS}", rows, "activation", "fp32")

    def gradient(t: Operand) -> Operand:
        found = graph.tensors[back.names[f"d{t.name}"]]
        return Operand(found.name, t.axes, found.role, found.dtype)

    again = operator(
        f"{name} dX",
        "attention_back",
        [gradient(O), Q, K, V, O, L],
        [*map(gradient, (Q, K, V))],
        over=" ".join(one.over),
        **dict(one.settings),
    )
    return Recomputation((forward, behind), (replace(one, writes=(O, L)), again))


@dataclass(frozen=True)
class _Gradients:
    """A graph's gradients of some operators: which they are, and the names of its tensors."""

    operators: tuple[Operator, ...]
    names: dict[str, str]
    gradients: frozenset[str]


def _gradients(graph: Graph, chain: tuple[Operator, ...]) -> _Gradients:
    """Raises Illegal where the graph's gradients of operators are others than their rules give."""
    Q, K, V, O = _contraction_tensors(chain)
    try:
        rules = backward(Graph("attention", chain, frozenset({O})), [O], [Q, K, V])
    except InputError as error:
        raise Illegal(str(error)) from None
    names = {t.name: t.name for op in chain for t in op.tensors}
    operators: list[Operator] = []
    for want in rules.operators:
        if want in chain:
            continue
        near = [r for t in want.reads if t.name in names for r in graph.readers[names[t.name]]]
        for op in near:
            if op not in chain and op not in operators and _matches_operator(op, want, names):
                break
        else:
            raise Illegal(f"{graph.name} has no {want.name} as its rule gives it")
        operators.append(op)
        mine, theirs = (*op.reads, *op.writes), (*want.reads, *want.writes)
        names |= {x.name: y.name for x, y in zip(theirs, mine, strict=True)}
    return _Gradients(tuple(operators), names, frozenset(names[f"d{x}"] for x in (Q, K, V)))


def _contraction_tensors(chain: Sequence[Operator]) -> tuple[str, str, str, str]:
    """The names of the inputs of both contractions, and of the output."""
    made = {t.name for op in chain for t in op.writes}
    first, last = chain[0], chain[-1]
    (V,) = {t.name for t in last.reads} - made or {""}
    a, b = (t.name for t in first.reads)
    if len({a, b, V}) < 3:
        raise Illegal("Q, K and V aren't three tensors")
    return a, b, V, last.writes[0].name


def _matches_operator(op: Operator, want: Operator, names: dict[str, str]) -> bool:
    """Whether an operator does to a graph's tensors what another does to tensors of these names."""
    if (op.kind, op.over, op.settings) != (want.kind, want.over, want.settings):
        return False
    sides = [(op.reads, want.reads), (op.writes, want.writes)]
    return all(
        len(mine) == len(theirs)
        and all(
            x.axes == y.axes and names.get(y.name, x.name) == x.name
            for x, y in zip(mine, theirs, strict=True)
        )
        for mine, theirs in sides
    )


def as_operator(
    part: Members, whole: Members | None = None, stored: frozenset[str] = frozenset()
) -> Operator:
    """The operators as one, which has the names of their first axes' numbers.

    Args:
        part: the operators from scores to their product with V.
        whole: all operators that may read what is between them.
        stored: tensors that these write for others.

    Raises Illegal where the operators are not attention.
    """
    whole = whole or part
    if len(part.contractions) != 2:
        raise Illegal("attention has two contractions")
    scores, output = part.contractions
    settings: Row = {"factor": 1.0}
    hides: list[Operator] = []
    softmax = None
    (s,) = scores.writes
    (o,) = output.writes
    for op in (x for x in part.operators if x not in part.contractions):
        what, after = op.kind.name, softmax is not None
        if op.reads[0].name != s.name or what not in _BETWEEN or after != (what == "dropout"):
            raise Illegal(f"{op.name} is not what comes between scores and weights")
        if what == "scale":
            settings["factor"] *= op.setting("factor")
        elif what == "causal" or what == "block_mask":
            if "blocks" in settings and what == "block_mask":
                raise Illegal(f"{op.name} is a second block mask")
            hides.append(op)
            settings |= {"causal": True} if what == "causal" else {"blocks": op.setting("blocks")}
        elif what == "softmax":
            softmax = op
        elif "p" in settings:
            raise Illegal(f"{op.name} drops weights a second time")
        else:
            settings |= {x: op.setting(x) for x in ("p", "seed")}
        s = op.writes[0]
    if softmax is None or s.name not in (t.name for t in output.reads):
        raise Illegal("scores become attention by a softmax")
    if more := whole.stored - stored - {o.name}:
        raise Illegal(f"{', '.join(sorted(more))} is read elsewhere, or kept")
    (V,) = (t for t in output.reads if t.name != s.name)
    return _attention(whole, (scores, softmax, output), hides, V, settings)


def _attention(
    part: Members,
    operators: tuple[Operator, Operator, Operator],
    hides: Sequence[Operator],
    V: Operand,
    settings: Row,
) -> Operator:
    scores, softmax, output = operators
    columns = part.axes_of(softmax, softmax.over)
    first, second = scores.reads
    Q, K = (first, second) if not columns <= part.has[first.name] else (second, first)
    summed = part.has[V.name] - part.has[output.writes[0].name]
    if len(columns) != 1 or summed != columns or not columns <= part.has[K.name]:
        raise Illegal("the softmax runs along other axes than those that the weights meet V by")
    rows: Axes = part.has[Q.name] - part.has[K.name]
    for hide in hides:
        down, across = (part.axes_of(hide, [a]) for a in hide.over)
        if across != columns or not down <= rows:
            raise Illegal(f"{hide.name} hides along other axes than the softmax")
        rows = down
    if not rows:
        raise Illegal("each row has keys of its own")
    (column,) = columns
    row = max(rows, key=lambda a: (part.size[a], a))

    def rename_axes(t: Operand, op: Operator) -> Operand:
        axes = tuple((f"a{part.axis[op.name, a]}", n) for a, n in t.axes)
        return Operand(t.name, axes, t.role, t.dtype)

    reads = [rename_axes(Q, scores), rename_axes(K, scores), rename_axes(V, output)]
    return operator(
        f"{scores.name} … {output.name}",
        "attention",
        reads,
        [rename_axes(output.writes[0], output)],
        over=f"a{row} a{column}",
        **({"causal": False} | settings),
    )
