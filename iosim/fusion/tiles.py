"""Kernels with intermediate tiles: scores, softmax and their product are attention.

A contraction before another would have to keep a tile of its output in fast memory until the second
has used it.  There is one such kernel: QKᵀ, then factors and a causal mask, then softmax along the
columns, then the product with V, with nothing between them read elsewhere.  It is one operator,
attention, and its words are those of the attention schedule that moves the fewest.
"""

from __future__ import annotations

from iosim.errors import CapacityError, InputError
from iosim.fusion.members import Axes, Illegal, Members
from iosim.layers.traffic import Crossing, moved
from iosim.operators import Operand, Operator, operator

# What each kind between the scores and the weights says of attention: its setting, and the value.
_BETWEEN = {"scale": "factor", "causal": "causal"}


def attention(part: Members, M: int) -> Crossing:
    """The words that cross the boundary.

    Raises Illegal where the operators are no attention, or nothing fits in M words.
    """
    try:
        return moved(as_operator(part), M)
    except Illegal:
        raise
    except (CapacityError, InputError) as error:
        raise Illegal(str(error)) from None


def as_operator(part: Members) -> Operator:
    """The operators as one, which has the names of their first axes' numbers.

    Raises Illegal where they are no attention.
    """
    if len(part.contractions) != 2:
        raise Illegal("attention has two contractions")
    scores, output = part.contractions
    factor, causal, softmax = 1.0, None, None
    (s,) = scores.writes
    (o,) = output.writes
    between = [op for op in part.operators if op not in part.contractions]
    for op in between:
        if len(op.reads) != 1 or op.reads[0].name != s.name or softmax is not None:
            raise Illegal(f"{op.name} is not what comes between scores and weights")
        if op.kind.name == "scale":
            factor *= op.setting("factor")
        elif op.kind.name == "causal":
            causal = op
        elif op.kind.name == "softmax":
            softmax = op
        else:
            raise Illegal(f"{op.name} is not what comes between scores and weights")
        (s,) = op.writes
    if softmax is None or s.name not in (t.name for t in output.reads):
        raise Illegal("scores become attention by a softmax")
    if part.stored != {o.name}:
        raise Illegal(f"{', '.join(sorted(part.stored - {o.name}))} is read elsewhere, or kept")
    return _attention(part, scores, softmax, causal, output, factor)


def _attention(
    part: Members, scores: Operator, softmax: Operator, causal: Operator | None, output: Operator,
    factor: float,
) -> Operator:  # fmt: skip
    columns = part.axes_of(softmax, softmax.over)
    weights = {t.name for t in softmax.writes}
    (V,) = (t for t in output.reads if t.name not in weights)
    first, second = scores.reads
    Q, K = (first, second) if not columns <= part.has[first.name] else (second, first)
    summed = part.has[V.name] - part.has[output.writes[0].name]
    if len(columns) != 1 or summed != columns or not columns <= part.has[K.name]:
        raise Illegal("the softmax runs along other axes than those that the weights meet V by")
    rows: Axes = part.has[Q.name] - part.has[K.name]
    if causal is not None:
        down, across = (part.axes_of(causal, [a]) for a in causal.over)
        if across != columns or not down <= rows:
            raise Illegal(f"{causal.name} hides along other axes than the softmax")
        rows = down
    if not rows:
        raise Illegal("each row has keys of its own")
    (column,) = columns
    row = max(rows, key=lambda a: (part.size[a], a))

    def called(t: Operand, op: Operator) -> Operand:
        axes = tuple((f"a{part.axis[op.name, a]}", n) for a, n in t.axes)
        return Operand(t.name, axes, t.role, t.dtype)

    reads = [called(Q, scores), called(K, scores), called(V, output)]
    return operator(
        f"{scores.name} … {output.name}", "attention", reads, [called(output.writes[0], output)],
        over=f"a{row} a{column}", factor=factor, causal=causal is not None,
    )  # fmt: skip
