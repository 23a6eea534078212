"""What a game computes: its values and operations, listed once for search, annealing and bounds.

*Values* are what a pebble can lie on, *operations* what places one without a transfer: one per
vertex that is not an input, or one per term of a sum where sums are taken term by term.

A *fused* term t (`Dag.fused`) of a sum s may be made apart, which takes a red pebble of w(t) words
next to its operands P, or be added on the fly, with P and s red.  How it is listed depends on the
weights.

If w(t) ≥ w(s), t is *folded*: it is not a value, and its one operation adds it on the fly.  No
optimum is lost.  Take a schedule that makes t at a and adds it at b.  Change it: add t to s on the
fly at a, and until b keep s red whenever s or t was red.

- It fits: where only t was red, s takes w(s) ≤ w(t) words; at a and b there is less to hold.
- It loads no more.  From a to b let t be red in k intervals, the first of which begins at a, and
  let m intervals of s begin after a.  The given schedule has k − 1 loads of t and m of s, or m − 1
  where s has not begun at a.  The changed one has a load at the beginning of each part of the
  union; not of the first part, unless s has begun and is not red at a.  If s is red at a, that
  interval overlaps the first of t, so there are at most k + m parts: k + m − 1 loads.  If not, the
  last intervals overlap at b, so there are at most k + m − 1 parts: as many loads if s has begun,
  and one fewer if not.
- It stores no more.  Where s leaves at the end of the first part, t left too and was stored.  Where
  s leaves at the end of a later part and has grown in it, the given schedule stored it there.

If w(t) < w(s), no rule about the weights alone can drop either way.  Let t have one operand, s be
t + b with b of one word, and M be too small for three of the values.  If the operand has w(s) words
and M = w(s) + w(t), only the way apart fits; if it has one and M = w(s) + 1 < w(s) + w(t), only the
way on the fly.  So such a term is a value with two operations, one that makes it and one that adds
it, and a *flying* operation stands for both at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from iosim.pebbling.bits import mask
from iosim.pebbling.dag import Dag


@dataclass(frozen=True)
class Operation:
    """Reads values, writes one.

    `term` is the term that it adds to a sum, if it adds one.  `does` are the two operations that a
    flying one stands for.
    """

    target: int
    reads: tuple[int, ...]
    vertex: str
    term: str | None = None
    does: tuple[int, ...] = ()

    @property
    def touches(self) -> int:
        """The values that are red when it is done."""
        return mask((*self.reads, self.target))


@dataclass(frozen=True)
class Operations:
    """The values and operations that the outputs need, by number, in an order that is legal.

    A schedule does each of `ops` once, itself or by one of `flying`.
    """

    values: tuple[str, ...]
    ops: tuple[Operation, ...]
    flying: tuple[Operation, ...]

    @property
    def into(self) -> tuple[int, ...]:
        """By value, the set of the operations that write it."""
        into = [0] * len(self.values)
        for u, op in enumerate(self.ops):
            into[op.target] |= 1 << u
        return tuple(into)

    @property
    def surely_held(self) -> tuple[int, ...]:
        """By operation, the values that are red when it is done, whichever way it is done."""
        held = [op.touches for op in self.ops]
        for both in self.flying:
            for u in both.does:
                held[u] &= both.touches
        return tuple(held)


def operations(dag: Dag, partial: bool) -> Operations:
    """List the values and operations of a graph.

    >>> from iosim.pebbling import chain
    >>> [op.reads for op in operations(chain(3), False).ops]
    [(0,), (1,)]
    >>> dag = Dag("light", {"a": (), "t": ("a",), "s": ("t", "a")}, sums=frozenset("s"),
    ...           words=(1, 1, 2))
    >>> [(op.vertex, op.term, op.does) for op in operations(dag, True).flying]
    [('s', 't', (0, 1))]
    """
    gone = dag.folded if partial else frozenset()
    values = tuple(v for v in dag.vertices if v in dag.output_ancestors and v not in gone)
    number = {v: k for k, v in enumerate(values)}
    ops: list[Operation] = []
    place: dict[tuple[str, str | None], int] = {}
    for v in values:
        terms = dag.preds[v] if partial and v in dag.sums else (None,)
        for t in terms:
            reads = dag.preds[v] if t is None else dag.preds[t] if t in gone else (t,)
            if reads:
                place[v, t] = len(ops)
                ops.append(Operation(number[v], tuple(number[p] for p in reads), v, t))
    flying = tuple(
        Operation(
            number[s], tuple(number[p] for p in dag.preds[t]), s, t, (place[t, None], place[s, t])
        )
        for s, t in place
        if t is not None and t in dag.fused and t not in gone
    )
    return Operations(values, tuple(ops), flying)
