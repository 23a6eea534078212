"""The partition of a graph into legal kernels that moves the fewest words.

Every operator is in one kernel, and kernels can run one after another: none waits for another that
waits for it.  Among partitions that move equally many words, one with the fewest kernels is taken,
and of these the first: the one whose first kernel has the most operators, and so on.

Operators in a row are searched by dynamic programming (`iosim.models.fusion.intervals`).

The search for other graphs goes through the operators in order. The first that is in no kernel yet
gets each legal kernel in turn that has it and none that is taken. What it prunes by are *prices*: a
number for each operator, such that no legal kernel costs less than the prices of its operators add
up to. Whatever is still open costs at least its prices. The best prices are the dual solution of a
linear program (scipy's HiGHS); they are rounded, and lowered until integers show that no kernel
costs less, so the result is exact whatever floating point did. Prices are nearly always tight for
layers, so a few hundred steps are enough. Shortest paths over downsets would not do: the updates of
a training step hang free of each other, and k of them have 2ᵏ downsets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from iosim.base.errors import InputError
from iosim.models.fusion.groups import Groups, bits, ordered
from iosim.models.fusion.intervals import best_in_a_row, in_a_row
from iosim.models.fusion.kernels import FusedKernel

# Steps of a search before it gives up.
STEPS = 2_000_000


def best(groups: Groups) -> list[FusedKernel]:
    """The kernels of the best partition, in an order in which they can run.

    Raises InputError where a graph has too many legal kernels, or the search takes too long.
    """
    if in_a_row(groups):
        return best_in_a_row(groups)
    words = {m: sum(k.words for k in kernels) for m, kernels in groups.choices.items()}
    kernels = {groups.mask(k): k for choice in groups.choices.values() for k in choice}
    return [kernels[mask] for mask in cheapest(groups, words)]


def cheapest(groups: Groups, words: Mapping[int, int]) -> list[int]:
    """The kernels of the best partition, as sets, in an order in which they can run.

    Args:
        groups: the operators.
        words: what each set of them moves, as a kernel or as a pair of `groups`; every operator
            alone is among them.

    Raises InputError where the search takes too long.
    """
    unit = math.gcd(*words.values()) or 1
    pairs = groups.pairs
    cost = {
        mask: moved // unit * (groups.n + 1) + len(pairs.get(mask, "1"))
        for mask, moved in words.items()
    }
    search = _Search(groups, cost, _prices(groups.n, cost))
    least = search.run(sum(cost[1 << k] for k in range(groups.n)) + 1, search.by_loss)
    found = search.run(sum(cost[m] for m in least) + 1, _by_size, first=True)
    masks = [one for mask in found for one in search.kernels(mask)]
    return [masks[at] for at in ordered([list(bits(mask)) for mask in masks], groups.needs)]


def _prices(n: int, cost: Mapping[int, int]) -> list[int]:
    """A price for each operator; those of a kernel add up to no more than its cost."""
    import numpy as np
    from scipy.optimize import linprog
    from scipy.sparse import csc_array

    columns = [list(bits(mask)) for mask in cost]
    rows = np.concatenate([np.array(c) for c in columns])
    starts = np.cumsum([0, *map(len, columns)])
    table = csc_array((np.ones(len(rows)), rows, starts), shape=(n, len(cost)))
    costs = [float(c) for c in cost.values()]
    solved = linprog(costs, A_eq=table, b_eq=np.ones(n))  # type: ignore[call-overload]
    prices = [round(x) for x in solved.eqlin.marginals] if solved.status == 0 else [0] * n
    for mask, most in cost.items():
        over = sum(prices[k] for k in bits(mask)) - most
        if over > 0:
            prices[next(bits(mask))] -= over
    return prices


def _by_size(mask: int) -> tuple[int, tuple[int, ...]]:
    """The most operators first, then those that come first."""
    return -mask.bit_count(), tuple(bits(mask))


@dataclass
class _Search:
    groups: Groups
    cost: Mapping[int, int]
    prices: Sequence[int]

    def __post_init__(self) -> None:
        self.loss = {m: c - sum(self.prices[k] for k in bits(m)) for m, c in self.cost.items()}
        self.starting: list[list[int]] = [[] for _ in range(self.groups.n)]
        for mask in self.cost:
            self.starting[next(bits(mask))].append(mask)

    def by_loss(self, mask: int) -> tuple[int, tuple[int, tuple[int, ...]]]:
        """What costs the least over its prices first."""
        return self.loss[mask], _by_size(mask)

    def run(self, below: int, key: Callable[[int], object], first: bool = False) -> list[int]:
        """The cheapest partition that costs less; or the first, where any is the cheapest."""
        order = [sorted(masks, key=key) for masks in self.starting]  # type: ignore[arg-type]
        every = (1 << self.groups.n) - 1
        # Losses add up to the cost over all prices.
        room = below - sum(self.prices)
        found: list[int] = []
        steps = 0
        chosen: list[int] = []
        stack: list[tuple[int, int, int, int]] = [(0, 0, 0, 0)]  # covered, loss, depth, next
        while stack:
            covered, loss, depth, at = stack.pop()
            del chosen[depth:]
            if covered == every:
                if loss < room:
                    room, found = loss, list(chosen)
                    if first:
                        break
                continue
            options = order[next(bits(every & ~covered))]
            while at < len(options):
                mask = options[at]
                at += 1
                if mask & covered or loss + self.loss[mask] >= room:
                    continue
                chosen.append(mask)
                if mask.bit_count() > 1 and not self._runs(chosen, covered | mask):
                    chosen.pop()
                    continue
                steps += 1
                if steps > STEPS:
                    raise InputError(
                        f"{self.groups.graph.name}: the best of its {len(self.cost):,} legal "
                        f"kernels aren't found in {STEPS:,} steps: search its layers one at a time"
                    )
                stack.append((covered, loss, depth, at))
                stack.append((covered | mask, loss + self.loss[mask], depth + 1, 0))
                break
        return found

    def _runs(self, chosen: Sequence[int], covered: int) -> bool:
        """Whether kernels can run in some order, with every other operator by itself."""
        kernels = [list(bits(one)) for mask in chosen for one in self.kernels(mask)]
        kernels += [[k] for k in bits(((1 << self.groups.n) - 1) & ~covered)]
        return len(ordered(kernels, self.groups.needs)) == len(kernels)

    def kernels(self, mask: int) -> list[int]:
        """The operators of each kernel of a set: of one, or of a pair."""
        return [self.groups.mask(k) for k in self.groups.pairs.get(mask, ())] or [mask]
