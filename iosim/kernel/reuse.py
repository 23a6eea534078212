"""Distinct words of each argument, and how often each of them is read or written.

Programs and iterations that refer to the same tile, at other bases, are kept as one set of runs
with many bases.  In the end the runs of an argument are swept once: cost follows the number of
distinct runs, not of words.

`iosim.kernel.count`, `counters` and `stream` call it.  ``tests/kernel/test_counters.py`` compares
with counters of an H200.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from iosim.base.arrays import Ints
from iosim.kernel.evaluate import Reference
from iosim.kernel.values import GRID, Array, check_size, lift, spread

SECTOR = 32  # bytes
# A tile → where it is, and how often there.
_Bases = dict[bytes, list[tuple[Array, Array]]]


@dataclass(frozen=True)
class WordReuse:
    """How often the words of an argument are referred to.

    Attributes:
        distinct: words that are referred to at least once.
        times: number of references → words with that many.
        sectors: of 32 bytes that references touch, each tile's once.
    """

    distinct: int
    times: dict[int, int]
    sectors: int = 0

    @property
    def most(self) -> int:
        """References to the word that has the most."""
        return max(self.times, default=0)


@dataclass(frozen=True)
class _Runs:
    """Addresses as runs: of each its start, its length, and references to each word of it."""

    starts: Ints
    lengths: Ints
    weights: Ints


class ReuseCounter:
    """Collects references; an observer for `iosim.kernel.evaluate.evaluate`.

    Args:
        key: what distinguishes references: by default their kind and their argument.
    """

    def __init__(
        self, key: Callable[[Reference], tuple[str, str]] = lambda r: (r.kind, r.argument)
    ) -> None:
        self.key = key
        self.runs: dict[bytes, _Runs] = {}
        self.bases: dict[tuple[str, str], _Bases] = defaultdict(lambda: defaultdict(list))
        self.widths: dict[tuple[str, str], int] = {}

    def __call__(self, reference: Reference) -> None:
        """Collect one reference."""
        base, shared, mixed = separate_tile(reference)
        masks = [m for m in reference.masks if not m.all()]
        fixed = [m for m in masks if m.shape[:GRID] == (1,) * GRID]
        varying = [m for m in masks if m.shape[:GRID] != (1,) * GRID]
        active = lift(reference.active, len(reference.tile))
        for mask in varying:
            if mask.size == np.prod(mask.shape[:GRID]):
                active = active & mask
        varying = [m for m in varying if m.size != np.prod(m.shape[:GRID])]
        own = AddressTile(reference.tile, shared, fixed)
        bases = self.bases[self.key(reference)]
        self.widths[self.key(reference)] = reference.width
        grid = reference.grid
        if not mixed and not varying:
            where, times = _count_programs(base, active, [], grid)
            self.add(bases, own, base.reshape(-1)[where], times[where])
            return
        arrays = [*mixed, *varying]
        where, times = _count_programs(base, active, arrays, grid)
        programs = np.broadcast_shapes(*(x.shape[:GRID] for x in (base, *arrays)))
        for x in arrays:
            check_size(x, np.empty((*programs, *(1,) * len(reference.tile)), np.void))
        rows = [
            np.broadcast_to(x, programs + x.shape[GRID:]).reshape(len(times), -1)[where]
            for x in arrays
        ]
        starts = np.broadcast_to(base, programs + base.shape[GRID:]).reshape(-1)[where]
        times = times[where]
        for first, members in group_rows(rows):
            tiles = [x[first].reshape(a.shape[GRID:]) for x, a in zip(rows, arrays, strict=True)]
            lifted = [t.reshape((1,) * GRID + t.shape) for t in tiles]
            own = AddressTile(
                reference.tile, shared + lifted[: len(mixed)], fixed + lifted[len(mixed) :]
            )
            self.add(bases, own, starts[members], times[members])

    def merge(self, other: ReuseCounter) -> None:
        """Add what another one has collected."""
        self.runs |= other.runs
        self.widths |= other.widths
        for key, tiles in other.bases.items():
            for tile, bases in tiles.items():
                self.bases[key][tile] += bases

    def add(self, bases: _Bases, tile: AddressTile, at: Array, times: Array) -> None:
        """A tile at some bases, so many times each."""
        key = tile.key()
        if key not in self.runs:
            self.runs[key] = tile.to_runs()
        bases[key].append((at, times))

    def count(self) -> dict[tuple[str, str], WordReuse]:
        """Key → how often its words are referred to."""
        return {
            key: replace(self.count_together([key]), sectors=self.count_sectors(key))
            for key in self.bases
        }

    def count_repeated(self, key: tuple[str, str]) -> int:
        """References beyond the first to a word of one tile, in all tiles together."""
        return sum(
            int(((self.runs[tile].weights - 1) * self.runs[tile].lengths).sum()) * int(n.sum())
            for tile, collected in self.bases[key].items()
            for _, n in collected
        )

    def count_sectors(self, key: tuple[str, str]) -> int:
        """Sectors that references touch, tile by tile.

        A tile touches each of its sectors once, however many threads and instructions that takes;
        every tensor begins at a sector.
        """
        words, total = SECTOR // self.widths[key], 0
        for tile, collected in self.bases[key].items():
            runs = self.runs[tile]
            bases = np.concatenate([b for b, _ in collected]) % words
            times = np.concatenate([n for _, n in collected])
            for residue in np.unique(bases):
                first = (runs.starts + residue) // words
                last = (runs.starts + residue + runs.lengths - 1) // words
                shared = int(np.count_nonzero(first[1:] == last[:-1]))
                sectors = int((last - first + 1).sum()) - shared
                total += sectors * int(times[bases == residue].sum())
        return total

    def count_unstored_sectors(self) -> int:
        """Different sectors that are read, and that nothing stores."""
        total = 0
        for name in {argument for _, argument in self.bases}:
            every = [key for key in self.bases if key[1] == name]
            stored = [key for key in every if key[0] == "store"]
            total += self.count_together(every, SECTOR).distinct
            total -= self.count_together(stored, SECTOR).distinct if stored else 0
        return total

    def find_line(self, most: int) -> int:
        """The longest line of bytes, up to `most`, of which tiles touch each one whole or not.

        At least a sector; every tensor begins at a multiple of it.
        """
        line = most
        for key, tiles in self.bases.items():
            for tile, collected in tiles.items():
                runs = self.runs[tile]
                ends = [runs.starts, runs.lengths, *(base for base, _ in collected)]
                line = math.gcd(line, *(int(np.gcd.reduce(x)) * self.widths[key] for x in ends))
        return max(line, SECTOR)

    def count_together(
        self, keys: Iterable[tuple[str, str]], width: int | None = None
    ) -> WordReuse:
        """How often words are referred to by any of some keys.

        Args:
            width: bytes of what counts as one word, such as a sector; by default a word's own.
        """
        starts, lengths, weights = [], [], []
        found = [(key, *pair) for key in keys for pair in self.bases[key].items()]
        for key, tile, collected in found:
            runs, words = self.runs[tile], width // self.widths[key] if width else 1
            at, inverse = np.unique(np.concatenate([b for b, _ in collected]), return_inverse=True)
            times = np.zeros(len(at), np.int64)
            np.add.at(times, inverse.reshape(-1), np.concatenate([n for _, n in collected]))
            first = at[:, None] + runs.starts
            last = (first + runs.lengths - 1) // words
            starts.append((first // words).reshape(-1))
            lengths.append((last - first // words + 1).reshape(-1))
            weights.append((times[:, None] * runs.weights).reshape(-1))
        return sweep_runs(*(np.concatenate(x) for x in (starts, lengths, weights)))


def sweep_runs(starts: Ints, lengths: Ints, weights: Ints) -> WordReuse:
    """The words that runs cover, by how often.

    >>> sweep_runs(np.array([0, 2]), np.array([4, 4]), np.array([1, 2])).times
    {1: 2, 3: 2, 2: 2}
    """
    edges, inverse = np.unique(np.concatenate([starts, starts + lengths]), return_inverse=True)
    change = np.zeros(len(edges), np.int64)
    np.add.at(change, inverse.reshape(-1), np.concatenate([weights, -weights]))
    depth, width = np.cumsum(change)[:-1], np.diff(edges)
    levels, first, at = np.unique(depth, return_index=True, return_inverse=True)
    words = np.zeros(len(levels), np.int64)
    np.add.at(words, at.reshape(-1), width)
    times = {int(levels[i]): int(words[i]) for i in np.argsort(first) if levels[i]}
    return WordReuse(sum(times.values()), times)


@dataclass(frozen=True)
class AddressTile:
    """The addresses of a tile, from its base on: a sum of arrays, under a product of masks."""

    shape: tuple[int, ...]
    offsets: list[Array]
    masks: list[Array]

    def key(self) -> bytes:
        """Equal for equal tiles."""
        parts = [repr(self.shape).encode()]
        for x in (*self.offsets, *self.masks):
            parts += [repr((x.shape, x.dtype.str)).encode(), x.tobytes()]
        return b"|".join(parts)

    def to_words(self) -> Ints:
        """Addresses of its elements that no mask hides."""
        address: Array = np.zeros((1,) * (GRID + len(self.shape)), np.int64)
        for x in self.offsets:
            address = address + x
        address = spread(address, self.shape)
        kept: Array = np.ones((1,) * address.ndim, bool)
        for mask in self.masks:
            kept = kept & mask
        words: Ints = address[np.broadcast_to(kept, address.shape)]
        return words

    def to_runs(self) -> _Runs:
        """Its runs of consecutive addresses."""
        each, times = np.unique(self.to_words(), return_counts=True)
        begins = np.ones(len(each), bool)
        begins[1:] = (np.diff(each) != 1) | (np.diff(times) != 0)
        at = np.flatnonzero(begins)
        return _Runs(each[at], np.diff(np.append(at, len(each))), times[at])


def separate_tile(reference: Reference) -> tuple[Array, list[Array], list[Array]]:
    """Offsets as bases of programs, arrays that all programs share, and the others."""
    rank = len(reference.tile)
    base = np.zeros((1,) * (GRID + rank), np.int64)
    shared, mixed = [], []
    corner = (slice(None),) * GRID + (slice(0, 1),) * rank
    for x in reference.offsets.arrays:
        base = base + x[corner]
        rest = x - x[corner]
        if not rest.any():
            continue
        one = rest[(slice(0, 1),) * GRID]
        if rest.shape[:GRID] == (1,) * GRID or (rest == one).all():
            shared.append(one)
        else:
            mixed.append(rest)
    return base, shared, mixed


def _count_programs(
    base: Array, active: Array, others: list[Array], grid: tuple[int, int, int]
) -> tuple[Array, Array]:
    """Of each different base: whether any program has it, and how many do.

    Programs along an axis that nothing depends on count as one base, so many times.
    """
    arrays = (base, *others)
    times = active.reshape(active.shape[:GRID]).astype(np.int64)
    shape = np.broadcast_shapes(*(x.shape[:GRID] for x in arrays))
    for axis in range(GRID):
        if shape[axis] == 1:
            repeat = grid[axis] // times.shape[axis]
            times = times.sum(axis, keepdims=True) * repeat
    flat: Array = np.broadcast_to(times, shape).reshape(-1)
    return np.flatnonzero(flat), flat


def group_rows(rows: list[Array]) -> list[tuple[int, Array]]:
    """Programs whose rows are equal: the first one's index, and all of them."""
    packed = np.concatenate([_as_bytes(x) for x in rows], axis=1)
    packed = np.ascontiguousarray(packed)
    keys = packed.view([("", f"V{packed.shape[1]}")]).reshape(-1)
    groups: dict[bytes, list[int]] = defaultdict(list)
    for i, key in enumerate(keys):
        groups[key.tobytes()].append(i)
    return [(members[0], np.array(members)) for members in groups.values()]


def _as_bytes(x: Array) -> Array:
    """Each row as bytes."""
    if x.dtype == bool:
        return np.packbits(x, axis=1)
    return np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1)
