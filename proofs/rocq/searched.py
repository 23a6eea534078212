"""The least cost of any schedule of the model of model.v, by a search over all its states."""

from __future__ import annotations

from . import twin


def least(t: twin.Task, M: int, over: bool = False) -> int | None:
    """Loads plus stores of the best schedule in M words; None where there is none.

    Every state, by rising cost; words and products are bits.

    Args:
        over: whether results may take the place of operands.
    """
    bit = {w: 1 << k for k, w in enumerate(sorted({w for ws in t.operands.values() for w in ws}))}
    products = list(t.operands)
    made = [tuple(bit[w] for w in t.operands[p]) for p in products]
    terms = {w: sum(1 << products.index(p) for p in ps) for w, ps in t.terms.items()}
    before = [terms.get(a, 0) | terms.get(b, 0) for a, b, _ in t.operands.values()]
    same = [terms[total] for _, _, total in t.operands.values()]
    outputs = sum(bit[w] for w in t.outputs)
    words = list(bit.values())
    full = (1 << len(products)) - 1
    level, seen, cost = {(0, sum(bit[w] for w in t.inputs), 0)}, set(), 0
    while level:
        todo, costly = list(level), set()
        while todo:
            state = todo.pop()
            if state in seen:
                continue
            seen.add(state)
            fast, slow, done = state
            if done == full and slow & outputs == outputs:
                return cost
            room = fast.bit_count() < M
            for w in words:
                if fast & w:
                    todo.append((fast ^ w, slow, done))
                    if not slow & w:
                        costly.add((fast, slow | w, done))
                elif slow & w and room:
                    costly.add((fast | w, slow, done))
            for p, (left, right, total) in enumerate(made):
                if done >> p & 1 or before[p] & ~done or not fast & left or not fast & right:
                    continue
                starts = not fast & total and not same[p] & done
                after = slow & ~total, done | 1 << p
                if fast & total or (starts and room):
                    todo.append((fast | total, *after))
                if over and starts:
                    todo += [(fast ^ gone | total, *after) for gone in (left, right)]
        level, cost = costly - seen, cost + 1
    return None
