"""Whole tiles in place of words: a pass over a tile is one access with a weight, exactly.

What a schedule references is a sequence of passes over boxes of tensors, and over local arrays,
each row by row.  Cut at where they start and stop, they are passes over *tiles*
(`iosim.cache.address_ranges`): any two tiles have no word in common, and each pass covers its tile
from the first word to the last.  This holds for every program, also under masks and with positions
that are read; where boxes overlap, tiles are smaller, and there are more passes.  Some caches of
words can then be replayed by tiles.

**LRU.**  Between two passes over a tile lie whole passes over others.  A word of it was followed,
in the earlier pass, by the rest of the tile, and is preceded in the later one by what comes before
it: all of the tile's words, and all words of the tiles between.  So all its words have one stack
distance, the weight of the distinct tiles since, the tile itself included.

A pass that writes writes all of its tile.  So all its words are dirty in the same caches, those of
at least this many words (Thompson and Smith 1989), and where the tile is found again they have been
written back by the same ones.  At the end the words of the last tile are the first of the list, the
last word first, and so on: a tile below S words of later ones has its words at depths S + 1 to
S + n, and a cache of C holds C − S of them, and has written the others back.

**OPT with bypass.**  The words of a tile are next used in one pass, in order, so that of two tiles
the words of one are all used before those of the other, and of one tile the first words first.
OPT therefore drops the last words of the tile that is used last, and what it holds of a tile is a
*prefix*.  A pass over a tile of n words finds r of them.  The others enter as long as there is
room, or words of tiles that are next used later than this one; when there are none for one word
there are none for those after it.  So it then holds min(n, r + free + held of those later) words.
A tile whose next pass writes it is dead until then, and its words go before all that are read
again.  Before these go words that are in no later pass, of which only counts matter: clean ones
first.  The dirty words of a tile are a prefix of those held: a pass that writes makes all of them
dirty, one that reads appends clean ones, and the last ones go first.  A word that is written and
does not enter is written back at once.

OPT without bypass has no such form here: the last word to miss is always in, and prefixes break.

`iosim.cache.methods` and `iosim.gpu` call it.  ``tests/cache/test_cache_tiles.py`` compares with
replays of words at every capacity.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from iosim.base.arrays import Bools, Ints
from iosim.base.compiled import built, interruptible
from iosim.base.errors import InputError
from iosim.base.memory import check_room
from iosim.base.rows import Values
from iosim.base.validate import check_size
from iosim.cache.address_ranges import atoms, distinct, runs_of, spread
from iosim.cache.boxes import BoxKind, offsets
from iosim.cache.curves import Curve
from iosim.cache.of_program import boxes, count
from iosim.cache.progress import Watch, parts, stage, unwatched
from iosim.cache.record import Traffic
from iosim.core.program.walk import Instance

# Passes that are held at once, at most, and about how many bytes of each.
MOST_PASSES = 5 * 10**7
OF_PASS = 60
# This many entries of OPT's heap beyond twice its tiles may be out of date before they are removed.
STALE = 2**16
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Passes:
    """The passes of an instance in order.

    Attributes:
        tile: of each pass, the number of its tile.
        write: whether it writes.
        words: of each tile.
    """

    tile: Ints
    write: Bools
    words: Ints

    @property
    def accesses(self) -> int:
        """How many words are accessed in all."""
        return int(self.words[self.tile].sum())


def passes(
    instance: Instance, *, positions: Values | None = None, watch: Watch = unwatched
) -> Passes:
    """The passes of an instance over whole tiles.

    Args:
        instance: a program with its sizes, tiles and masks.
        positions: as `touches` has it.
        watch: called now and then with how many boxes of how many are done.

    Raises InputError where there are more than `MOST_PASSES`, and where positions are needed.

    >>> import iosim
    >>> found = passes(iosim.bind(iosim.algorithm("copy").program, {"n": 5}, {"B": 2}))
    >>> found.tile.tolist(), found.words.tolist()
    ([0, 3, 1, 4, 2, 5], [2, 2, 1, 2, 2, 1])
    """
    if not isinstance(instance, Instance):
        raise InputError(f"passes of {type(instance).__name__}: bind() a program first")
    many, done = count(instance), 0
    _check(instance, many)
    place, shape, write = [_NONE], [_NONE], [_NONE > 0]
    shapes: dict[Any, int] = {}
    for at, kinds, times in boxes(instance, positions=positions):
        numbers, marks = np.zeros(len(kinds), np.int64), np.zeros(len(kinds), bool)
        for k, kind in enumerate(kinds):
            numbers[k] = shapes.setdefault(_runs(replace(kind, write=False)), len(shapes))
            marks[k] = kind.write
        place.append(at)
        shape.append(np.tile(numbers, times))
        write.append(np.tile(marks, times))
        done += at.size
        stage(0, 3, watch)(done, many)
    where, which = np.concatenate(place), np.concatenate(shape)
    if not where.size:
        return Passes(_NONE, _NONE > 0, _NONE)
    code = where * len(shapes) + which
    codes, often = distinct(code, stage(1, 3, watch))
    where, which = codes // len(shapes), codes % len(shapes)
    runs = np.array([len(starts) for starts, _ in shapes])
    first = np.concatenate([starts for starts, _ in shapes])
    long = np.concatenate([lengths for _, lengths in shapes])
    run = spread((np.cumsum(runs) - runs)[which], runs[which])
    start = np.repeat(where, runs[which]) + first[run]
    atom, each, words = atoms(start, start + long[run], runs[which])
    _check(instance, int((each * often).sum()))
    known, marks = np.cumsum(each) - each, np.concatenate(write)
    tile, marked = [], []
    for part in parts(code.size, stage(2, 3, watch)):
        box = np.searchsorted(codes, code[part])
        tile.append(atom[spread(known[box], each[box])])
        marked.append(np.repeat(marks[part], each[box]))
    return Passes(np.concatenate(tile), np.concatenate(marked), words)


@functools.lru_cache(maxsize=2**12)
def _runs(kind: BoxKind) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return runs_of(offsets(kind.extents, kind.strides, np.arange(kind.low, kind.high)))


def _check(instance: Instance, many: int) -> None:
    if many > MOST_PASSES:
        raise InputError(
            f"{instance.program.name} makes {many:,} passes over tiles, more than "
            f"{MOST_PASSES:,}: choose larger tiles, or replay its stream"
        )
    check_room(
        many * OF_PASS,
        f"{instance.program.name} makes {many:,} passes over tiles, held at once",
        "choose larger tiles, or replay its stream",
    )


def lru(found: Passes, *, watch: Watch = unwatched) -> Curve:
    """LRU at every capacity, from passes: what `curve` gives for the stream of words.

    Write-backs, which change from word to word at the end, are in `lru_at`.  `watch` is called now
    and then with how many passes are done, and of how many.

    >>> import iosim
    >>> sizes, tiles = {"N": 64, "d": 8, "heads": 1}, {"B_r": 16, "B_c": 8}
    >>> instance = iosim.bind(iosim.algorithm("flash2").program, sizes, tiles)
    >>> whole = lru(passes(instance))
    >>> whole.accesses, whole.loads_at(512), whole.loads_at(4096)
    (41664, 8192, 1536)
    """
    return _Distances.of(found, watch).curve(found)


def lru_at(found: Passes, capacities: Sequence[int], *, watch: Watch = unwatched) -> list[Traffic]:
    """What LRU moves at some capacities, from passes: what `replay` gives for the stream of words.

    `watch` is called as that of `lru` is.  Raises InputError for a capacity below one word.

    >>> import iosim
    >>> sizes, tiles = {"N": 64, "d": 8, "heads": 1}, {"B_r": 16, "B_c": 8}
    >>> instance = iosim.bind(iosim.algorithm("flash2").program, sizes, tiles)
    >>> lru_at(passes(instance), [512])
    [Traffic(accesses=41664, misses=8992, loads=8192, write_backs=384, flush=416)]
    """
    distances = _Distances.of(found, watch)
    steps, words = distances.curve(found), found.words[found.tile]
    back = distances.level > 0
    at = np.unique(np.concatenate([distances.level[back], distances.stack[back]]))
    change = np.zeros(at.size + 1, np.int64)
    np.add.at(change, np.searchsorted(at, distances.level[back]) + 1, words[back])
    np.add.at(change, np.searchsorted(at, distances.stack[back]) + 1, -words[back])
    change = np.cumsum(change)
    above, level, last = distances.end(found)
    answer = []
    for capacity in capacities:
        step = steps.step(capacity)
        kept = np.where(level <= capacity, np.clip(capacity - above, 0, last), 0)
        gone = np.where(level <= capacity, last, 0) - kept
        evicted = change[np.searchsorted(at, capacity, side="right")]
        answer.append(
            Traffic(
                accesses=found.accesses,
                misses=int(steps.misses[step]),
                loads=int(steps.loads[step]),
                write_backs=int(evicted + gone.sum()),
                flush=int(kept.sum()),
            )
        )
    return answer


class _Distances(NamedTuple):
    """What LRU finds.

    Attributes:
        stack: the stack distance of each pass's words; 0 of the first over a tile.
        level: of each pass, from how many words on caches wrote its tile back before it; those of
            `stack` or more words did not.  0: none did.
        last: of each tile, its last pass; −1: none.
        dirty: of each tile, from how many words on caches have it dirty at the end; 0: none.
    """

    stack: Ints
    level: Ints
    last: Ints
    dirty: Ints

    @classmethod
    def of(cls, found: Passes, watch: Watch) -> _Distances:
        passes_, tiles_ = found.tile.size, found.words.size
        distances = cls(
            stack=np.zeros(passes_, np.int64),
            level=np.zeros(passes_, np.int64),
            last=np.full(tiles_, -1, np.int64),
            dirty=np.zeros(tiles_, np.int64),
        )
        tree = np.zeros(passes_ + 1, np.int64)
        step, given = built(_measure), (found.tile, found.write, found.words)
        for at in parts(passes_, watch):
            interruptible(step, at.start, at.stop, *given, tree, distances)
        return distances

    def curve(self, found: Passes) -> Curve:
        """Misses and loads at every capacity."""
        words = found.words[found.tile]
        capacities = np.unique(np.concatenate([[1], self.stack[self.stack > 0]]))
        missing = np.zeros((2, len(capacities)), np.int64)
        for which, mine in ((0, ~found.write), (1, found.write)):
            hits = np.zeros(len(capacities), np.int64)
            near = mine & (self.stack > 0)
            np.add.at(hits, np.searchsorted(capacities, self.stack[near]), words[near])
            missing[which] = words[mine].sum() - np.cumsum(hits)
        return Curve(
            policy="lru",
            line_words=1,
            accesses=found.accesses,
            capacities=capacities,
            misses=missing.sum(axis=0),
            loads=missing[0],
        )

    def end(self, found: Passes) -> tuple[Ints, Ints, Ints]:
        """Of each tile that some cache has dirty at the end: the words touched later, from how
        large a cache on that is so, and its own words.
        """
        order = np.argsort(-self.last, kind="stable")
        order = order[self.last[order] >= 0]
        words = found.words[order]
        above = np.cumsum(words) - words
        some = self.dirty[order] > 0
        return above[some], self.dirty[order][some], words[some]


def _measure(
    low: int,
    high: int,
    tile: Ints,
    write: Bools,
    words: Ints,
    tree: Ints,
    distances: _Distances,
) -> None:
    """Find distances of the passes from `low` to `high`, after those before them.

    Args:
        tree: sums of the weights at tiles' last passes (Fenwick 1994), from 1 on; at 0 the total.
        distances: of the passes before `low`; added to.
    """
    stack, level, last, dirty = distances.stack, distances.level, distances.last, distances.dirty
    n = tile.size
    total = tree[0]
    for now in range(low, high):
        x = tile[now]
        if last[x] >= 0:
            before = 0
            k = last[x]  # passes before that one
            while k > 0:
                before += tree[k]
                k -= k & -k
            stack[now] = total - before
            if 0 < dirty[x] < stack[now]:
                level[now] = dirty[x]
                dirty[x] = stack[now]
            k = last[x] + 1
            while k <= n:
                tree[k] -= words[x]
                k += k & -k
            total -= words[x]
        k = now + 1
        while k <= n:
            tree[k] += words[x]
            k += k & -k
        total += words[x]
        last[x] = now
        if write[now]:
            dirty[x] = 1
    tree[0] = total


def opt(found: Passes, capacity: int, *, watch: Watch = unwatched) -> Traffic:
    """What OPT with bypass moves at a capacity, from passes.

    `watch` is called now and then with how many passes of how many are done.

    >>> import iosim
    >>> sizes, tiles = {"N": 64, "d": 8, "heads": 1}, {"B_r": 16, "B_c": 8}
    >>> instance = iosim.bind(iosim.algorithm("flash2").program, sizes, tiles)
    >>> whole = passes(instance)
    >>> opt(whole, 512).loads, opt(whole, 4096).loads
    (4256, 1536)
    """
    capacity = check_size("capacity", capacity)
    words, never = found.words.tolist(), 2 * found.tile.size
    held, dirty, use = [0] * len(words), [0] * len(words), [never] * len(words)
    latest: list[tuple[int, int]] = []  # a heap: minus when it is next used, and the tile
    room, clean, soiled = capacity, 0, 0  # the last two: words in no later pass
    misses = loads = back = 0
    for x, writes, ahead in _with_next(found, watch):
        need, use[x] = words[x] - held[x], ahead
        misses += need
        if writes:
            dirty[x] = held[x]
        else:
            loads += need
        taken = min(need, room)
        room -= taken
        if ahead != never:
            gone = min(need - taken, clean)
            clean -= gone
            taken += gone
            gone = min(need - taken, soiled)
            soiled -= gone
            back += gone
            taken += gone
            while taken < need and latest:
                when, other = latest[0]
                if use[other] != -when or not held[other]:
                    heapq.heappop(latest)  # it was touched since, or has gone
                    continue
                if -when < ahead:
                    break
                gone = min(held[other], need - taken)
                held[other] -= gone
                back += max(0, dirty[other] - held[other])
                dirty[other] = min(dirty[other], held[other])
                taken += gone
        held[x] += taken
        if writes:
            dirty[x] = held[x]
            back += words[x] - held[x]
        if ahead == never:
            soiled += dirty[x]
            clean += held[x] - dirty[x]
            held[x] = dirty[x] = 0
        elif held[x]:
            heapq.heappush(latest, (-ahead, x))
            if len(latest) > 2 * len(words) + STALE:
                latest = [(when, y) for when, y in latest if use[y] == -when and held[y]]
                heapq.heapify(latest)
    return Traffic(
        accesses=found.accesses,
        misses=misses,
        loads=loads,
        write_backs=back,
        flush=soiled + sum(dirty),
    )


def _with_next(found: Passes, watch: Watch) -> Iterator[tuple[int, bool, int]]:
    """Of n passes: the tile, whether it is written, and the next pass over it; 2n is none.

    A pass that writes counts as later than all that read: its number is n larger.
    """
    many = found.tile.size
    order = np.argsort(found.tile, kind="stable")
    same = found.tile[order[1:]] == found.tile[order[:-1]]
    after = order[1:][same]
    ahead = np.full(many, 2 * many)
    ahead[order[:-1][same]] = after + many * found.write[after]
    del order, same, after
    for part in parts(many, watch):
        yield from zip(*(x[part].tolist() for x in (found.tile, found.write, ahead)), strict=True)
