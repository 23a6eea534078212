"""Bytes over SM↔L2: the sectors that instructions of warps touch, by a kernel's PTX.

Warps ask L1 for the sectors of loads, instruction by instruction.  What a program has asked for is
in L1 if there is room; ``cp.async.cg`` goes past L1.  Stores that follow each other are merged in
L1 if it gets them in time.  An atomic operation on a word that several lanes of a warp have is sent
once for each.  `tests/kernel/test_counters.py` compares all of this with an H200.

`iosim.kernel.count` and `counters` call it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from iosim.kernel.evaluate import CallValues
from iosim.kernel.ptx import parse_ptx
from iosim.kernel.reuse import SECTOR, group_rows
from iosim.kernel.threads import ARGUMENT, LANES, WarpAccess, evaluate_threads
from iosim.kernel.values import GRID, Array, ArrayTooLarge, check_size

# Accesses times programs that are counted together.
_TOGETHER = 2**22
DESCRIPTOR = 128  # bytes of a tensor descriptor, which the kernel writes and the copies read
_DEAD = np.iinfo(np.int64).min


@dataclass
class WarpTraffic:
    """Bytes of sectors of one kind of reference to one argument.

    Attributes:
        asked: that instructions of warps touch, each one by itself; the most that crosses.
        crossing: that cross SM↔L2, if L1 keeps what a program loads and merges what it stores.
        past: of what is asked, what goes past L1.
        answered: of atomic operations and descriptors, bytes that come back.
    """

    asked: int = 0
    crossing: int = 0
    past: int = 0
    answered: int = 0

    def least(self, kind: str, distinct: int) -> int:
        """The least that crosses, however programs share L1 and time.

        Args:
            kind: of reference.
            distinct: bytes of the launch's different words.
        """
        if kind == "load":
            return min(max(self.past, distinct), self.crossing)
        return min(distinct, self.crossing) if kind == "store" else self.crossing


Traffic = dict[tuple[str, str], WarpTraffic]


def count_warp_traffic(ptx: str, launch: CallValues) -> Traffic:
    """Kind and argument → bytes of a launch; what makes descriptors has no argument.

    Raises:
        UnsupportedKernel: an address, a guard or a branch depends on what isn't known.
    """
    total: Traffic = defaultdict(WarpTraffic)

    def observe(seen: list[WarpAccess]) -> None:
        for key, found in _count_part(seen, launch.names).items():
            add_traffic(total[key], found)

    evaluate_threads(parse_ptx(ptx), launch, observe)
    return dict(total)


def add_traffic(one: WarpTraffic, other: WarpTraffic) -> None:
    """Add what another one has."""
    for name, n in vars(other).items():
        setattr(one, name, getattr(one, name) + n)


@dataclass(frozen=True)
class _Touch:
    """What one instruction touches in one program, from a place within a sector on.

    Attributes:
        sectors: different ones, in all warps together.
        asked: in each warp by itself.
        sent: by an atomic operation.
    """

    sectors: Array
    asked: int
    sent: int


class _Footprint:
    """One access: of each program its base in bytes, and which of a few patterns its lanes have."""

    def __init__(self, access: WarpAccess, memory: dict[tuple[bytes, int], _Touch]) -> None:
        self.access, self.memory = access, memory
        self.bases, lanes, live, masks = _separate(access)
        self.live = self._flatten(live).astype(bool)
        size = access.warps, LANES
        varying = [x for x in (*lanes, *masks) if x.shape[:GRID] != (1,) * GRID]
        self.which = np.zeros(len(self.bases), np.int64)
        first = [0]
        if varying:
            check_size(np.empty((*access.grid, *size), np.void))
            rows = [
                np.broadcast_to(x, (*access.grid, *x.shape[GRID:])).reshape(len(self.bases), -1)
                for x in varying
            ]
            groups = group_rows(rows)
            first = [i for i, _ in groups]
            for i, (_, members) in enumerate(groups):
                self.which[members] = i
        self.patterns = [
            (self._sum(lanes, at, size), self._product(masks, at, size)) for at in first
        ]
        self.keys = [a.tobytes() + b.tobytes() for a, b in self.patterns]

    def _flatten(self, x: Array) -> Array:
        return np.broadcast_to(x.reshape(x.shape[:GRID]), self.access.grid).reshape(-1)

    def _pick(self, x: Array, at: int) -> Array:
        """What one program has of an array."""
        place = np.unravel_index(at, self.access.grid)
        i, j, k = (int(p) if n > 1 else 0 for p, n in zip(place, x.shape[:GRID], strict=True))
        return np.asarray(x[i, j, k])

    def _sum(self, arrays: Sequence[Array], at: int, size: tuple[int, int]) -> Array:
        out = np.zeros(size, np.int64)
        for x in arrays:
            out += self._pick(x, at)
        return out

    def _product(self, arrays: Sequence[Array], at: int, size: tuple[int, int]) -> Array:
        out = np.ones(size, bool)
        for x in arrays:
            out &= self._pick(x, at)
        return out

    def touch(self, which: int, place: int) -> _Touch:
        """What a pattern touches, where its base has a place within a sector."""
        key = self.keys[which], place
        if key not in self.memory:
            self.memory[key] = touch_sectors(*self.patterns[which], place)
        return self.memory[key]

    def add_up(self, live: Array) -> tuple[int, int]:
        """Sectors that are asked for, and those that an atomic operation sends."""
        asked = sent = 0
        pairs = np.stack([self.which[live], self.bases[live] % SECTOR], 1)
        for (which, place), n in zip(*np.unique(pairs, axis=0, return_counts=True), strict=True):
            found = self.touch(int(which), int(place))
            asked += found.asked * int(n)
            sent += found.sent * int(n)
        return asked, sent


def touch_sectors(addresses: Array, live: Array, place: int = 0) -> _Touch:
    """Sectors of the lanes of a program's warps.

    >>> lanes = np.arange(32).reshape(1, 32)
    >>> touch_sectors(4 * lanes, lanes < 32).asked, touch_sectors(4 * lanes, lanes < 32, 4).asked
    (4, 5)
    >>> touch_sectors(0 * lanes, lanes < 32).sent
    32
    """
    asked = sent = 0
    every = []
    for row, mask in zip(addresses + place, live, strict=True):
        words, times = np.unique(row[mask], return_counts=True)
        sectors, at = np.unique(words // SECTOR, return_inverse=True)
        most = np.zeros(len(sectors), np.int64)
        np.maximum.at(most, at, times)
        every.append(sectors)
        asked += len(sectors)
        sent += int(most.sum())
    return _Touch(np.unique(np.concatenate(every)), asked, sent)


def _separate(access: WarpAccess) -> tuple[Array, list[Array], Array, list[Array]]:
    """Bases of programs and which are live, and what depends on lanes, of addresses and masks."""
    corner = (slice(None),) * GRID + (slice(0, 1),) * 2
    base = np.zeros((1,) * (GRID + 2), np.int64)
    live = np.ones((1,) * (GRID + 2), bool)
    lanes, masks = [], []
    for x in access.addresses.arrays:
        base = base + x[corner]
        rest = x - x[corner]
        if rest.any():
            one = rest[(slice(0, 1),) * GRID]
            lanes.append(one if (rest == one).all() else rest)
    for x in access.masks.arrays:
        if x.shape[GRID:] == (1, 1):
            live = live & x
        elif not x.all():
            masks.append(x)
    bases = np.broadcast_to(base.reshape(base.shape[:GRID]), access.grid).reshape(-1)
    return bases, lanes, live, masks


def _count_part(seen: Sequence[WarpAccess], names: Sequence[str]) -> Traffic:
    """Of the programs that are evaluated together."""
    programs = int(np.prod(seen[0].grid)) if seen else 0
    if programs > 1 and programs * len(seen) > _TOGETHER:
        raise ArrayTooLarge
    memory: dict[tuple[bytes, int], _Touch] = {}
    total: Traffic = defaultdict(WarpTraffic)
    together: dict[tuple[str, int, int], list[_Footprint]] = defaultdict(list)
    before, run = ("", ""), 0
    for access in seen:
        kind, line = access.kind, access.instruction.line
        run += kind != "store" or before != (kind, line)
        before = kind, line
        found = _Footprint(access, memory)
        if kind == "descriptor":
            warps, _ = found.add_up(found.live)
            one = total[kind, ""]
            one.crossing += warps * DESCRIPTOR
            one.answered += warps * DESCRIPTOR
            continue
        arguments = found.bases >> ARGUMENT
        for number in np.unique(arguments[found.live]):
            one = total[kind, names[number - 1]]
            asked, sent = found.add_up(found.live & (arguments == number))
            if kind == "atomic":
                one.asked += sent * SECTOR
                one.crossing += sent * SECTOR
                one.answered += sent * SECTOR * access.answered
                continue
            one.asked += asked * SECTOR
            if ".cg." in access.instruction.name:
                one.crossing += asked * SECTOR
                one.past += asked * SECTOR
            else:
                together[kind, int(number), run if kind == "store" else 0].append(found)
    for (kind, number, _), group in together.items():
        total[kind, names[number - 1]].crossing += _count_union(group, number) * SECTOR
    return total


def _count_union(group: Sequence[_Footprint], number: int) -> int:
    """Different sectors of an argument in each program, added up.

    Programs that touch the same sectors, from their first base on, are counted together.
    """
    first = group[0].bases
    columns = [first % SECTOR]
    for one in group:
        live = one.live & (one.bases >> ARGUMENT == number)
        columns += [np.where(live, one.bases - first, _DEAD), np.where(live, one.which, 0)]
    total = 0
    for at, members in group_rows([np.stack(columns, 1)]):
        sectors = []
        for i, one in enumerate(group):
            if columns[2 * i + 1][at] != _DEAD:
                base = int(one.bases[at])
                found = one.touch(int(one.which[at]), base % SECTOR)
                sectors.append(found.sectors + base // SECTOR)
        if sectors:
            total += len(np.unique(np.concatenate(sectors))) * len(members)
    return total


def sum_traffic(traffic: Mapping[tuple[str, str], WarpTraffic], kinds: str, what: str) -> int:
    """The bytes of some kinds, of all arguments together.

    >>> sum_traffic({("load", "x"): WarpTraffic(64, 32), ("store", "y"): WarpTraffic(8)}, "load",
    ...             "asked")
    64
    """
    return sum(getattr(x, what) for (kind, _), x in traffic.items() if kind in kinds.split())
