"""Adds up the words that a kernel's references move, argument by argument.

`iosim.kernel.count` passes it each `Reference` that `iosim.kernel.evaluate` reports.

``tests/kernel/test_corpus.py`` compares with Triton's interpreter.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from iosim.kernel.evaluate import Reference
from iosim.kernel.values import GRID, Array, check_size, lift


@dataclass
class ArgumentTraffic:
    """What one kind of reference moves of one argument.

    Attributes:
        words: elements that no mask hides, in all programs together.
        hidden: elements that a mask or a bound hides.
        width: bytes of a word.
        tile: the largest shape that one reference has.
        lines: places of the source that refer to it, with their words.
    """

    words: int = 0
    hidden: int = 0
    width: int = 0
    tile: tuple[int, ...] = ()
    lines: Counter[str] = field(default_factory=Counter)


class WordCounter:
    """Adds up references; an observer for `iosim.kernel.evaluate.evaluate`.

    Attributes:
        traffic: (kind, argument) → what it moves.
    """

    def __init__(self) -> None:
        self.traffic: dict[tuple[str, str], ArgumentTraffic] = {}

    def __call__(self, reference: Reference) -> None:
        """Count one reference."""
        words, lanes = count_words(reference)
        lines = Counter({reference.operation.location: words})
        traffic = ArgumentTraffic(words, lanes - words, reference.width, reference.tile, lines)
        self._add((reference.kind, reference.argument), traffic)

    def merge(self, other: WordCounter) -> None:
        """Add what another one has counted."""
        for key, traffic in other.traffic.items():
            self._add(key, traffic)

    def _add(self, key: tuple[str, str], traffic: ArgumentTraffic) -> None:
        entry = self.traffic.setdefault(key, ArgumentTraffic())
        entry.words += traffic.words
        entry.hidden += traffic.hidden
        entry.width = traffic.width
        entry.tile = max(entry.tile, traffic.tile, key=math.prod)
        entry.lines += traffic.lines


def count_words(reference: Reference) -> tuple[int, int]:
    """Elements that no mask hides, and all elements, in all programs that run the reference.

    Masks of different axes are multiplied as counts: only those that share an axis are multiplied
    out.
    """
    rank = len(reference.tile)
    active = lift(reference.active, rank)
    programs = count_grid([active], reference.grid)
    lanes = programs * math.prod(reference.tile)
    masks = [m for m in reference.masks if not m.all()]
    if not masks:
        return lanes, lanes
    groups: list[tuple[set[int], Array]] = []
    for mask in masks:
        axes = {i for i in range(rank) if mask.shape[GRID + i] > 1}
        for other in [g for g in groups if g[0] & axes]:
            groups.remove(other)
            check_size(mask, other[1])
            mask, axes = mask & other[1], axes | other[0]
        groups.append((axes, mask))
    free = set(range(rank)) - set().union(*(axes for axes, _ in groups))
    counts = [m.sum(axis=tuple(range(GRID, GRID + rank)), keepdims=True) for _, m in groups]
    words = count_grid([active.astype("int64"), *counts], reference.grid)
    return words * math.prod(reference.tile[i] for i in free), lanes


def count_grid(arrays: Sequence[Array], grid: tuple[int, int, int]) -> int:
    """The sum over all programs of a product of arrays that depend on programs only."""
    total = arrays[0]
    for x in arrays[1:]:
        total = total * x
    repeat = 1
    for i in range(GRID):
        repeat *= grid[i] // total.shape[i]
    return int(total.sum()) * repeat
