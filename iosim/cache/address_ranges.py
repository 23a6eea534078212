"""What passes over boxes are made of: ranges of words that every pass covers whole, in order.

A pass covers a box row by row, so it is a few *runs* of neighboring words.  All runs that occur
are cut wherever one of them starts or stops; then every run is made of whole pieces.  Two pieces of
which the second follows the first in every box that has either are one, even where they are no
neighbors, and so on: such a chain is an *atom*.  Where boxes are equal or have no word in common,
as of dense schedules, each box is one atom.

`iosim.cache.tiles` makes its tiles of atoms, and `iosim.cache.shared` uses `spread`.  Other work on
arrays of ranges goes here, too.

Changing this file: all functions are exact and know only arrays, no program.
``tests/cache/test_cache_parts.py`` compares atoms and runs with lists of words;
``tests/cache/test_cache_tiles.py`` compares what tiles move.
"""

from __future__ import annotations

import numpy as np

from iosim.base.arrays import Ints
from iosim.cache.progress import Watch, parts


def spread(first: Ints, count: Ints) -> Ints:
    """The numbers first, first + 1, …, this many of each, one after the other.

    >>> spread(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    found: Ints = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
    return found


def runs_of(offset: Ints) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where runs of neighboring words start, and how long they are.

    >>> runs_of(np.array([0, 1, 8, 9]))
    ((0, 8), (2, 2))
    """
    first = np.flatnonzero(np.diff(offset, prepend=offset[0] - 2) != 1)
    long = np.diff(first, append=offset.size)
    return tuple(offset[first].tolist()), tuple(long.tolist())


def distinct(numbers: Ints, watch: Watch) -> tuple[Ints, Ints]:
    """The distinct numbers, ascending, and how many there are of each.

    >>> from iosim.cache.progress import unwatched
    >>> [x.tolist() for x in distinct(np.array([5, 0, 5]), unwatched)]
    [[0, 5], [1, 2]]
    """
    each = [np.unique(numbers[part], return_counts=True) for part in parts(numbers.size, watch)]
    found, at = np.unique(np.concatenate([x for x, _ in each]), return_inverse=True)
    many = np.zeros(found.size, np.int64)
    np.add.at(many, at, np.concatenate([x for _, x in each]))
    return found, many


def atoms(start: Ints, stop: Ints, count: Ints) -> tuple[Ints, Ints, Ints]:
    """The atoms of some distinct boxes.

    Args:
        start, stop: of the runs of all boxes, in each box's order.
        count: of each box, how many runs it has.

    Returns:
        The atoms of all boxes, in each one's order; how many each box has; the words of each atom.

    >>> atom, each, words = atoms(np.array([0, 2, 4]), np.array([2, 6, 6]), np.array([1, 1, 1]))
    >>> atom.tolist(), each.tolist(), words.tolist()
    ([0, 1, 2, 2], [1, 2, 1], [2, 2, 2])
    """
    cuts = np.unique(np.concatenate([start, stop]))
    low, high = np.searchsorted(cuts, start), np.searchsorted(cuts, stop)
    piece = spread(low, high - low)
    box = np.repeat(np.repeat(np.arange(count.size), count), high - low)
    # What follows each piece in each box; −1: it is the last there.
    follows = np.full(piece.size, -1, np.int64)
    inside = box[1:] == box[:-1]
    follows[:-1][inside] = piece[1:][inside]
    boxes = np.bincount(piece, minlength=cuts.size)
    least, most = np.full(cuts.size, cuts.size), np.full(cuts.size, -1)
    np.minimum.at(least, piece, follows)
    np.maximum.at(most, piece, follows)
    # In as many boxes as its follower is: so in the same ones.
    joined = (least == most) & (most >= 0) & (boxes == boxes[most])
    head = np.ones(piece.size, bool)
    head[1:][inside] = ~joined[piece[:-1]][inside]
    at = np.flatnonzero(head)
    long = np.add.reduceat(np.diff(cuts, append=cuts[-1])[piece], at)
    number, atom = np.unique(piece[at], return_inverse=True)
    words = np.zeros(number.size, np.int64)
    words[atom] = long
    return atom, np.bincount(box[at], minlength=count.size), words
