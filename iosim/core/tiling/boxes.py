"""Boxes of candidates at many points, the best candidate found, and what makes a box valid.

A box is a range of positions for every parameter that is branched on: `(at, low, high)`, where
`at` says which point each box belongs to, in ascending order.

`search` and its bounds use it.  `Best` decides ties, so that recorded tiles stay
(``tests/core/test_tiling.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import numpy as np

from iosim.base.arrays import Bools, Ints, clip
from iosim.core.program.index import Affine
from iosim.core.tiling.candidates import Candidates

Where: TypeAlias = Mapping[str, Any]

Boxes: TypeAlias = tuple[Ints, dict[str, Ints], dict[str, Ints]]

NEVER = 2**400  # more than any count


class Best:
    """The cheapest candidate that was seen at every point.

    Args:
        names: parameters that are branched on: the first of equal candidates is taken.
    """

    def __init__(self, points: int, names: Collection[str], dtype: Any) -> None:
        never = NEVER if dtype is object else np.iinfo(np.int64).max
        self.words = np.full(points, never, dtype)
        self.position = {k: np.zeros(points, np.int64) for k in names}
        self.found = np.zeros(points, bool)
        self.last = np.zeros(points, np.int64)  # of the tile that is solved for

    def may_improve(self, boxes: Boxes, bound: Any) -> Bools:
        """Whether boxes may hold something cheaper, or as cheap at earlier positions."""
        at, low, _ = boxes
        return self._is_better(at, bound, low)

    def _is_better(self, at: Ints, words: Any, position: Where) -> Bools:
        best = self.words[at]
        earlier, same = np.asarray(words < best, bool), words == best
        for name, here in self.position.items():
            mine, its = position[name], here[at]
            earlier |= same & (mine < its)
            same = same & (mine == its)
        return earlier

    def learn(self, at: Ints, words: Any, position: Where, last: Ints) -> None:
        """Take in candidates, ordered by their points.

        Args:
            last: positions of the tile that is solved for.
        """
        if not len(at):
            return
        starts, runs = _runs(at)
        points = at[starts]
        least = np.minimum.reduceat(words, starts)
        same = words == least[runs]
        first = {}
        for name, mine in position.items():
            first[name] = np.minimum.reduceat(np.where(same, mine, np.iinfo(np.int64).max), starts)
            same = same & (mine == first[name][runs])
        # All that are still the same have the same last.
        last = np.minimum.reduceat(np.where(same, last, np.iinfo(np.int64).max), starts)
        better = self._is_better(points, least, first)
        self.last[points[better]] = last[better]
        self.words[points[better]] = least[better]
        for name, mine in first.items():
            self.position[name][points[better]] = mine[better]
        self.found[points[better]] = True


class Constraints:
    """Affine expressions that are at least 0 where a tiling is valid.

    Args:
        needed: the expressions.
        candidates: of the parameters that are not given.
        base: sizes and given parameters, int64, with one entry for each point.
    """

    def __init__(
        self, needed: Collection[Affine], candidates: Mapping[str, Candidates], base: Where
    ) -> None:
        self.candidates = candidates
        names = {name for value in needed for name, _ in value.sizes}
        self.free = [name for name in candidates if name in names]
        self.needed = [
            (
                value.const + sum(c * base[x] for x, c in value.sizes if x not in candidates),
                {x: c for x, c in value.sizes if x in candidates},
            )
            for value in needed
        ]

    def narrow(self, boxes: Boxes) -> Boxes:
        """Without the boxes in which nothing is valid, and the others cut to what may be.

        What is left of a box is cut on every side by what the other sides allow at most, until
        nothing changes, or as often as there are parameters.
        """
        if not self.needed:
            return boxes
        at, low, high = boxes
        low, high = dict(low), dict(high)
        alive = np.ones(len(at), bool)
        for _ in range(len(self.free) + 1):
            before = [*(low[x] for x in self.free), *(high[x] for x in self.free)]
            for const, terms in self.needed:
                alive &= self._cut(const, terms, at, low, high)
            after = [*(low[x] for x in self.free), *(high[x] for x in self.free)]
            if all(np.array_equal(a, b) for a, b in zip(before, after, strict=True)):
                break
        for x in self.free:
            alive &= low[x] <= high[x]
        return keep((at, low, high), np.flatnonzero(alive))

    def _cut(
        self,
        const: Any,
        terms: Mapping[str, int],
        at: Ints,
        low: dict[str, Ints],
        high: dict[str, Ints],
    ) -> Bools:
        """Cut boxes in place by one constraint; whether it can hold in them."""
        top = {x: c * self._values(x, high[x] if c > 0 else low[x], at) for x, c in terms.items()}
        most = take(const, at) + sum(top.values())
        for x, c in terms.items():
            each, extent = self.candidates[x], self.candidates[x].extent[at]
            rest = most - top[x]
            if c > 0:
                limit = clip(-(rest // c) - 1, -1, extent)
                low[x] = np.maximum(low[x], each.floor(limit, at) + 1)
            else:
                limit = clip(rest // -c, -1, extent)
                high[x] = np.minimum(high[x], each.floor(limit, at))
        return np.asarray(most >= 0)

    def hold(self, at: Ints, position: Where) -> Bools:
        """Whether candidates are valid."""
        valid = np.ones(len(at), bool)
        for const, terms in self.needed:
            values = (c * self._values(x, position[x], at) for x, c in terms.items())
            valid &= take(const, at) + sum(values) >= 0
        return valid

    def _values(self, name: str, position: Ints, at: Ints) -> Ints:
        each = self.candidates[name]
        return np.asarray(each.clipped(clip(position, 0, each.count[at] - 1), at), np.int64)


def take(values: Any, at: Any) -> Any:
    """The entries for some points, of an array or of what all share."""
    return values[at] if getattr(values, "ndim", 0) else values


def keep(boxes: Boxes, which: Ints) -> Boxes:
    """Boxes by their numbers: with them NumPy is much faster than with a mask."""
    at, low, high = boxes
    return (
        at[which],
        {k: v[which] for k, v in low.items()},
        {k: v[which] for k, v in high.items()},
    )


def join(*parts: Boxes) -> Boxes:
    """All of some boxes, in the order of their points."""
    at = np.concatenate([at for at, _, _ in parts])
    order = np.argsort(at, kind="stable")
    names = parts[0][1]
    low = {k: np.concatenate([low[k] for _, low, _ in parts])[order] for k in names}
    high = {k: np.concatenate([high[k] for _, _, high in parts])[order] for k in names}
    return at[order], low, high


def divisible(boxes: Boxes) -> Bools:
    """Boxes of more than one candidate."""
    at, low, high = boxes
    return np.any([high[k] > low[k] for k in low], axis=0) if low else np.zeros(len(at), bool)


def first_least(at: Ints, bound: Any) -> Ints:
    """Of the boxes of every point, the first with the least bound."""
    if not len(at):
        return at
    starts, runs = _runs(at)
    least = bound == np.minimum.reduceat(bound, starts)[runs]
    return np.minimum.reduceat(np.where(least, np.arange(len(at)), len(at)), starts)


def within_runs(lengths: Ints) -> Ints:
    """0, 1, … of every run."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _runs(at: Ints) -> tuple[Ints, Ints]:
    """Where each point's boxes start, and which run each box is in."""
    new = np.ones(len(at), bool)
    new[1:] = at[1:] != at[:-1]
    return np.flatnonzero(new), np.cumsum(new) - 1
