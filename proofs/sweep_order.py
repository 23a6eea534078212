"""The order of sweeps over more items than a cache holds, step by step: see sweep_order.md."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterator, Sequence

from iosim.report.proof import require, step

# How many misses each of the C items in the cache saves when a sweep begins.
SAVED = 1
SEED = 36

Sets = Sequence[frozenset[int]]


def least_misses(sets: Sets, C: int) -> int:
    """Theorem 1: Σ (|S_k| − min(C, |S_k ∩ (S_1 ∪ … ∪ S_{k−1})|))."""
    seen: frozenset[int] = frozenset()
    total = 0
    for items in sets:
        total += len(items) - min(SAVED * C, len(items & seen))
        seen |= items
    return total


def search_misses(sets: Sets, C: int) -> int:
    """The fewest misses over all orders and policies, prefetching and bypass included.

    A breadth-first search over states: what the cache holds, the number of the sweep, and what the
    sweep has still to access.  It shares no formula with `least_misses`.
    """
    everything = sorted(frozenset().union(*sets))
    start = (frozenset[int](), 0, sets[0])
    costs, queue = {start: 0}, deque([start])
    while queue:
        state = cache, k, left = queue.popleft()
        cost = costs[state]
        if not left:
            if k + 1 == len(sets):
                return cost
            moves = [((cache, k + 1, sets[k + 1]), 0)]
        else:
            moves = [((cache, k, left - cache), 0)] if left & cache else []
            moves += [((cache, k, left - {x}), 1) for x in left - cache]  # bypass
            moves += [((cache - {x}, k, left), 0) for x in cache]
            if len(cache) < C:
                moves += [((cache | {x}, k, left), 1) for x in everything if x not in cache]
        for after, price in moves:
            if cost + price < costs.get(after, 1 << 30):
                costs[after] = cost + price
                (queue.append if price else queue.appendleft)(after)
    raise AssertionError("no end was reached")


def lru_misses(sweeps: Sequence[Sequence[int]], C: int) -> int:
    """The misses of a cache of C items that evicts the least recently used one."""
    cache: list[int] = []
    misses = 0
    for item in itertools.chain.from_iterable(sweeps):
        if item in cache:
            cache.remove(item)
        else:
            misses += 1
            if len(cache) == C:
                cache.pop(0)
        cache.append(item)
    return misses


def cyclic_order(n: int, L: int) -> list[list[int]]:
    """n sweeps over L items, all in the same direction."""
    return [list(range(L))] * n


def reverse_every_second(sweeps: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The same sweeps, with the second, the fourth, … reversed."""
    return [x[:: 1 - 2 * (k % 2)] for k, x in enumerate(sweeps)]


def alternating_order(n: int, L: int) -> list[Sequence[int]]:
    """n sweeps over L items, with every second sweep reversed."""
    return reverse_every_second(cyclic_order(n, L))


def prefixes(n: int, first: int, more: int) -> list[list[int]]:
    """What the rows of a causal mask sweep: `more` items more each time."""
    return [list(range(first + k * more)) for k in range(n)]


def new_last_order(sweeps: Sequence[Sequence[int]]) -> list[list[int]]:
    """Each sweep is the one before it reversed, then what is new."""
    order = [list(sweeps[0])]
    for items in sweeps[1:]:
        before = set(order[-1])
        order.append([*order[-1][::-1], *(x for x in items if x not in before)])
    return order


def _families(rng: random.Random) -> Iterator[tuple[str, Sets]]:
    for L, n in itertools.product(range(1, 5), range(1, 4)):
        yield "equal", [frozenset(range(L))] * n
    for first, more in itertools.product((1, 2), (1, 2)):
        growing = [frozenset(x) for x in prefixes(3, first, more)]
        yield "growing", growing
        yield "shrinking", growing[::-1]
    for width, shift in ((2, 1), (3, 1), (3, 2)):
        yield "windows", [frozenset(range(k * shift, k * shift + width)) for k in range(3)]
    for _ in range(20):
        yield "random", [frozenset(rng.sample(range(5), rng.randint(1, 4))) for _ in range(3)]


@step(
    "any-order",
    how="sampled",
    says="Theorem 1: no order or policy misses less than Σ (|S_k| − min(C, |S_k ∩ seen|))",
)
def any_order() -> str:
    """A search over all orders and policies; equality for equal, growing and shrinking sets."""
    cases = 0
    for kind, sets in _families(random.Random(SEED)):
        for C in range(1, 4):
            found, bound = search_misses(sets, C), least_misses(sets, C)
            require(found >= bound, f"{kind} sets {sets}, C = {C}: {found} misses, not {bound}")
            if kind in ("equal", "growing", "shrinking"):
                require(found == bound, f"{kind} sets {sets}, C = {C}: {found}, not {bound}")
            cases += 1
    return (
        f"equal, nested, shifted and random sets of at most 6 items, C ≤ 3, seed {SEED}: "
        f"{cases} cases, all orders and policies of each"
    )


@step(
    "lru-law",
    how="exhaustive",
    says="Theorem 2: LRU misses nL in cyclic order, L + (n − 1)(L − C) in alternating order",
)
def lru_law() -> str:
    """A cache that is a list of the most recent items."""
    largest, most = 12, 6
    for L, n in itertools.product(range(1, largest + 1), range(1, most + 1)):
        for C in range(1, L + 1):
            cyclic = lru_misses(cyclic_order(n, L), C)
            require(cyclic == (L if C == L else n * L), f"cyclic, L = {L}, C = {C}, n = {n}")
            alternating = lru_misses(alternating_order(n, L), C)
            law = L + (n - 1) * (L - SAVED * C)
            require(alternating == law, f"alternating, L = {L}, C = {C}, n = {n}")
    return f"L ≤ {largest}, C ≤ L, n ≤ {most}"


GROWING = tuple(itertools.product(range(1, 9), range(4), range(1, 6)))  # first, more, sweeps
SCOPE = "first sets of at most 8 items, at most 3 more each time, at most 5 sweeps, C ≤ first"


def require_misses(sweeps: Sequence[Sequence[int]], C: int, extra: int = 0) -> None:
    """Require that LRU misses the least, and `extra` more."""
    found, bound = lru_misses(sweeps, C), least_misses([frozenset(x) for x in sweeps], C) + extra
    require(found == bound, f"{sweeps}, C = {C}: {found} misses, not {bound}")


@step(
    "new-items-last",
    how="exhaustive",
    says="Theorem 3: growing sets, each sweep the one before reversed, then what is new: the least",
)
def new_items_last() -> str:
    """And in reverse, for sets that shrink."""
    for first, more, n in GROWING:
        order = new_last_order(prefixes(n, first, more))
        for sweeps in (order, [x[::-1] for x in order[::-1]]):
            for C in range(1, first + 1):
                require_misses(sweeps, C)
    return SCOPE


@step(
    "from-the-diagonal",
    how="exhaustive",
    says="Remark: sweeps that begin at the diagonal every second time miss min(δ, C) more there",
)
def from_the_diagonal() -> str:
    """Causal rows in order, odd sweeps up, even sweeps down from the diagonal."""
    for first, more, n in GROWING:
        sweeps = reverse_every_second(prefixes(n, first, more))
        for C in range(1, first + 1):
            require_misses(sweeps, C, extra=(n // 2) * min(more, C))
    return SCOPE
