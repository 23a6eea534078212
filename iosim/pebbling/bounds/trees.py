"""Trees: the optimum itself, at any size.

Every value is used once, so without recomputation it is evicted at most once: inputs never (a load
waits until its use), and another value for a store and a load.  Let X be the evicted values.  Cut
the tree above each of them: the pieces have |X| more roots and |X| more leaves.  What a schedule
plays on one piece is a pebbling of it without an eviction, so M is at least its pebbling number;
and if M is that for all pieces, they can be played one after the other, from the leaves up.  So

    optimum = inputs + roots + 2 · the fewest cuts after which no piece needs more than M pebbles.

A leaf needs 1 pebble.  A vertex of k operands needs k + 1 or, in the best order of its operands,
most needed first, the largest of (what the i-th needs) + i − 1 (Sethi and Ullman 1970; Liu 1987).
Let f(v, p) be the fewest cuts below v after which v needs at most p.  Its operands get p, p − 1, …
pebbles in some order; one that is cut costs f(operand, M) + 1.  That is an assignment problem.

The certificate is the table of f, which is checked vertex by vertex.
"""

from __future__ import annotations

from iosim.pebbling.bounds.order import Certified, PartialOrder

NEVER = 10**6


def bound(order: PartialOrder, seconds: float) -> Certified | None:
    """The optimum of a forest of unit words whose outputs are its roots."""
    dag, ops = order.dag, order.ops
    once = all(after.bit_count() <= 1 for after in order.after)
    whole = all(op.term is None for op in ops)
    inner = all(
        (v in dag.outputs) != bool(after)
        for v, into, after in zip(order.names, order.into, order.after, strict=True)
        if into
    )
    if not (once and whole and inner and dag.unit) or order.recompute:
        return None
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    M = order.M
    f = [[0] * M for _ in range(order.values)]  # of a value, with 1 … M pebbles
    for op in ops:
        x, reads = op.target, op.reads
        k = len(reads)
        f[x] = [NEVER] * M
        for p in range(k + 1, M + 1):
            price = np.array(
                [[_price(f[r], p - j, bool(order.into[r])) for j in range(k)] for r in reads]
            )
            rows, columns = linear_sum_assignment(price)
            f[x][p - 1] = min(int(price[rows, columns].sum()), NEVER)
    cuts = sum(f[v][M - 1] for v in range(order.values) if order.into[v] and not order.after[v])
    table = {order.names[v]: f[v] for v in range(order.values) if order.into[v]}
    return order.compulsory + 2 * cuts, {"cuts": table}


def _price(f: list[int], pebbles: int, made: bool) -> int:
    """The cuts at and below an operand that gets this many pebbles."""
    return min(f[pebbles - 1], f[-1] + 1) if made else 0
