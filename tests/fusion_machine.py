"""A little two-level machine that runs fused loop nests word by word, and counts.

It shares no code with `iosim.models.fusion`: axes are aligned by passing labels on, every word that
is resident is a key of a dict, and a word is dropped after its last use in the tile that is open.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iosim.models.layers.graph import Graph
from iosim.models.operators import Operand, Operator

Point = Mapping[int, Sequence[int]]


class NoSchedule(Exception):
    """The operators are no loop nest of the machine's."""


@dataclass
class Cluster:
    """Operators as one kernel, with one label for each axis that they share."""

    graph: Graph
    names: Sequence[str]
    label: dict[tuple[str, str], int] = field(default_factory=dict)
    size: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ops = [op for op in self.graph.operators if op.name in self.names]
        self.label = {
            key: n for n, key in enumerate((op.name, a) for op in self.ops for a in op.sizes)
        }
        changed = True
        while changed:  # the smallest label wins, tensor by tensor
            changed = False
            for one, other in itertools.product(self.ops, self.ops):
                for s, t in itertools.product(one.tensors, other.tensors):
                    if s.name == t.name:
                        for a, b in zip(s.names, t.names, strict=True):
                            low = min(self.label[one.name, a], self.label[other.name, b])
                            for key in ((one.name, a), (other.name, b)):
                                changed |= self.label[key] != low
                                self.label[key] = low
        for op in self.ops:
            if len({self.label[op.name, a] for a in op.sizes}) < len(op.sizes):
                raise NoSchedule("two axes are one")
            self.size |= {self.label[op.name, a]: n for a, n in op.sizes.items()}
        self.made = {t.name for op in self.ops for t in op.writes}
        self.read = {t.name for op in self.ops for t in op.reads}
        kept = {t.name for t in self.graph.outputs}
        outside = {t.name for op in self.graph.operators if op not in self.ops for t in op.reads}
        self.stored = self.made & (kept | outside)
        self.axes = {
            t.name: tuple(self.label[op.name, a] for a in t.names)
            for op in self.ops
            for t in op.tensors
        }

    def gathers(self, op: Operator) -> bool:
        """Whether its sums may be added up over a loop."""
        lacks = all(a not in t.names for t in op.writes for a in op.over)
        return bool(op.over) and lacks and not any(t.name in self.read for t in op.writes)

    def rows(self, op: Operator) -> set[int]:
        if op.kind.name in ("causal", "causal_back") or self.gathers(op):
            return set()
        return {self.label[op.name, a] for a in op.over}


@dataclass
class Machine:
    """Fast memory as a dict of words; slow memory as arrays."""

    cluster: Cluster
    slow: dict[str, Any]
    sides: Sequence[frozenset[int]] = ()
    behind: Sequence[frozenset[int]] = ()  # those that epilogues go through index by index
    tiled: bool = False  # sums stay from tile to tile
    fast: dict[Any, float] = field(default_factory=dict)
    loads: Counter[str] = field(default_factory=Counter)
    stores: Counter[str] = field(default_factory=Counter)
    peak: int = 0
    gathering: set[Any] = field(default_factory=set)
    out: dict[str, Any] = field(default_factory=dict)
    written: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        for x in self.cluster.stored:
            shape = tuple(self.cluster.size[a] for a in self.cluster.axes[x])
            self.out[x] = np.full(shape, np.nan)

    def keys(self, x: str, point: Point, tag: Any) -> Iterator[tuple[Any, tuple[int, ...]]]:
        """Words of a tensor at a point, with their places: one for each index of its sides."""
        axes = self.cluster.axes[x]
        touched = dict.fromkeys(axes)
        for side in self.behind if str(tag).startswith("behind") else self.sides:
            if side & set(axes):
                touched |= dict.fromkeys(sorted(side))
        here = None if x in self.cluster.made else tag
        for at in itertools.product(*(point[a] for a in touched)):
            where = dict(zip(touched, at, strict=True))
            yield (x, at, here), tuple(where[a] for a in axes)

    def uses(self, op: Operator, point: Point, tag: Any) -> set[Any]:
        return {key for t in op.tensors for key, _ in self.keys(t.name, point, tag)}

    def need(self, x: str, point: Point, tag: Any) -> None:
        for key, place in self.keys(x, point, tag):
            if key not in self.fast:
                assert x not in self.cluster.made, f"{x} isn't made yet"
                self.fast[key] = self.slow[x][place]
                self.loads[x] += 1
        self.peak = max(self.peak, len(self.fast))

    def run(self, op: Operator, point: Point, tag: Any) -> None:
        """One operator at one point: what it reads is loaded, what it writes stays."""
        of = {a: len(point[self.cluster.label[op.name, a]]) for a in op.sizes}
        cut = lambda t: Operand(t.name, tuple((a, of[a]) for a, _ in t.axes))  # noqa: E731
        small = Operator(
            op.name,
            op.kind,
            tuple(map(cut, op.reads)),
            tuple(map(cut, op.writes)),
            op.over,
            op.settings,
        )
        for t in op.reads:
            self.need(t.name, point, tag)
        arrays = [self.piece(t.name, point, tag) for t in op.reads]
        for t, found in zip(op.writes, op.kind.run(small, arrays), strict=True):
            start = [point[a][0] for a in self.cluster.axes[t.name]]
            for key, place in self.keys(t.name, point, tag):
                at = tuple(p - s for p, s in zip(place, start, strict=True))
                if self.cluster.gathers(op):
                    self.gathering.add((key, t.name, place))
                    self.fast[key] = self.fast.get(key, 0.0) + found[at]
                else:
                    self.fast[key] = found[at]
        self.peak = max(self.peak, len(self.fast))

    def piece(self, x: str, point: Point, tag: Any) -> Any:
        axes = self.cluster.axes[x]
        found = np.empty(tuple(len(point[a]) for a in axes))
        for key, place in self.keys(x, point, tag):
            found[tuple(p - point[a][0] for a, p in zip(axes, place, strict=True))] = self.fast[key]
        return found

    def drop(self, key: Any, place: tuple[int, ...] | None = None) -> None:
        x = key[0]
        value = self.fast.pop(key)
        if x in self.cluster.stored and (x, place) not in self.written:
            self.written.add((x, place))
            self.stores[x] += 1
            self.out[x][place] = value

    def scope(self, steps: Sequence[tuple[Any, Point, Any]]) -> None:
        """Run steps; drop each word after its last use.  A step is an operator, or what to need."""
        done: set[Any] = set()
        todo = []
        for what, point, tag in steps:
            if isinstance(what, Operator):
                used = self.uses(what, point, tag)
                once = (what.name, *sorted(used, key=repr))
                if once in done:
                    continue
                done.add(once)
            else:
                used = {k for x in what.reads for k, _ in self.keys(x, point, tag(x))}
                used |= {k for k, _ in self.keys(what.writes, point, None)}
            todo.append((what, point, tag, used))
        last = {key: n for n, (*_, used) in enumerate(todo) for key in used}
        ends: dict[int, list[Any]] = {}
        for key, n in last.items():
            ends.setdefault(n, []).append(key)
        for n, (what, point, tag, _) in enumerate(todo):
            if isinstance(what, Operator):
                self.run(what, point, tag)
            else:
                what.multiply(self, point, tag)
            sums = {key for key, *_ in self.gathering} if self.tiled else set()
            for key in ends.get(n, ()):
                if key in self.fast and key not in sums:
                    self.drop(key, self.place(key))

    def place(self, key: Any) -> tuple[int, ...]:
        x, at, _ = key
        return at[: len(self.cluster.axes[x])]

    def finish(self) -> None:
        for key, _, place in self.gathering:
            if key in self.fast:
                if key[0] in self.cluster.stored:
                    self.drop(key, place)
                else:
                    del self.fast[key]
        assert not self.fast, self.fast


def by_rows(cluster: Cluster, slow: dict[str, Any], order: Sequence[int]) -> Machine:
    """Loops over single positions in an order; whole rows inside."""
    machine = Machine(cluster, slow)
    row = set().union(*(cluster.rows(op) for op in cluster.ops))
    whole = {a: range(cluster.size[a]) for a in row}
    steps = []
    for at in itertools.product(*(range(cluster.size[a]) for a in order)):
        point = whole | {a: [p] for a, p in zip(order, at, strict=True)}
        steps += [(op, point, None) for op in cluster.ops]
    machine.scope(steps)
    machine.finish()
    return machine


@dataclass(frozen=True)
class Product:
    """A contraction with its sides as labels, and its inputs as (left, right)."""

    op: Operator
    batch: frozenset[int]
    left: frozenset[int]
    right: frozenset[int]
    k: frozenset[int]
    reads: tuple[str, str]

    @property
    def writes(self) -> str:
        return self.op.writes[0].name

    @classmethod
    def all_of(cls, cluster: Cluster, op: Operator) -> list[Product]:
        x, y = (t.name for t in op.reads)
        a, b, c = (frozenset(cluster.axes[t.name]) for t in (*op.reads, *op.writes))
        one = cls(op, a & b & c, (a - b) & c, (b - a) & c, (a & b) - c, (x, y))
        return [one, cls(op, one.batch, one.right, one.left, one.k, (y, x))]

    def multiply(self, machine: Machine, point: Point, tag: Any) -> None:
        p, q = self.reads
        machine.need(p, point, tag(p))
        machine.need(q, point, tag(q))
        ((c, _),) = machine.keys(self.writes, point, None)
        ((a, _),) = machine.keys(p, point, tag(p))
        ((b, _),) = machine.keys(q, point, tag(q))
        machine.fast[c] += machine.fast[a] * machine.fast[b]


def find_ancestors(cluster: Cluster, x: str) -> list[Operator]:
    """Operators of the cluster that a tensor depends on."""
    want, found = {x}, []
    for op in reversed(cluster.ops):
        if any(t.name in want for t in op.writes):
            found.insert(0, op)
            want |= {t.name for t in op.reads}
    return found


def by_tiles(
    cluster: Cluster,
    slow: dict[str, Any],
    lanes: Sequence[Sequence[Product]],
    tiles: tuple[int, int],
    outer: str,
) -> Machine:
    """Tiles of outputs; prologues where inputs are needed, epilogues when tiles are done."""
    B_m, B_n = tiles
    first = lanes[0][0]
    chains = {x: find_ancestors(cluster, x) for lane in lanes for s in lane for x in s.reads}
    ahead = {op.name for chain in chains.values() for op in chain}
    behind = [op for op in cluster.ops if op.name not in ahead and op.kind.name != "contraction"]
    sides = [
        first.batch,
        first.left,
        *{lane[0].right for lane in lanes},
        *{s.k for lane in lanes for s in lane},
    ]
    row = set().union(*(cluster.rows(op) for op in behind))
    machine = Machine(
        cluster,
        slow,
        [side for side in sides if side],
        [side for side in sides if side and not side & row],
        tiled=True,
    )
    mine = [_of(cluster, lane, behind) for lane in lanes]
    if sum(map(len, mine)) != len(behind):
        raise NoSchedule("an operator is neither before nor behind")
    lefts = list(_points(cluster, first.left))
    columns = [(n, at) for n, lane in enumerate(lanes) for at in _points(cluster, lane[0].right)]
    for b in _points(cluster, first.batch):
        for i in range(0, len(lefts), B_m):
            for j in range(0, len(columns), B_n):
                _tile(
                    machine,
                    lanes,
                    chains,
                    mine,
                    b,
                    lefts[i : i + B_m],
                    columns[j : j + B_n],
                    outer,
                    row,
                )
    machine.finish()
    return machine


def _of(cluster: Cluster, lane: Sequence[Product], behind: Sequence[Operator]) -> list[Operator]:
    names = {s.writes for s in lane}
    for _ in behind:
        for op in behind:
            if any(t.name in names & cluster.made for t in op.tensors):
                names |= {t.name for t in op.tensors}
    return [op for op in behind if any(t.name in names & cluster.made for t in op.tensors)]


def _points(cluster: Cluster, axes: frozenset[int]) -> Iterator[dict[int, list[int]]]:
    order = sorted(axes)
    for at in itertools.product(*(range(cluster.size[a]) for a in order)):
        yield {a: [p] for a, p in zip(order, at, strict=True)}


def _tile(
    machine: Machine,
    lanes: Any,
    chains: Any,
    mine: Any,
    b: Point,
    lefts: Any,
    columns: Any,
    outer: str,
    row: set[int],
) -> None:
    cluster = machine.cluster
    steps: list[Any] = []
    for n, j in columns:
        for s, i in itertools.product(lanes[n], lefts):
            ((key, _),) = machine.keys(s.writes, {**b, **i, **j}, None)
            machine.fast[key] = 0.0
    runs: list[list[Product]] = []
    for s in (s for lane in lanes for s in lane):
        near = [run for run in runs if any(set(s.reads) & set(o.reads) for o in run)]
        runs = [run for run in runs if run not in near] + [[*(o for r in near for o in r), s]]
    of = {s.op.name: n for n, lane in enumerate(lanes) for s in lane}
    for run in runs:
        for k in _points(cluster, run[0].k):
            done = set()
            for s in run:
                for x, spots in zip(
                    s.reads, (lefts, [j for n, j in columns if n == of[s.op.name]]), strict=True
                ):
                    if x not in done:
                        done.add(x)
                        steps += [(op, {**b, **k, **at}, x) for at in spots for op in chains[x]]
            for s in run:
                spots = [j for n, j in columns if n == of[s.op.name]]
                for i, j in itertools.product(lefts, spots):
                    steps.append((s, {**b, **k, **i, **j}, lambda x: x))
    for n in range(len(lanes)):
        spots = [j for m, j in columns if m == n]
        if not spots:
            continue
        steps += [
            (op, point, f"behind {n}")
            for point in _inside(cluster, b, lefts, spots, outer, row)
            for op in mine[n]
        ]
    machine.scope(steps)


def _inside(
    cluster: Cluster, b: Point, lefts: Any, spots: Any, outer: str, row: set[int]
) -> Iterator[Point]:
    """The points of a tile: words in an order, or whole rows."""
    if row and not (row & set(lefts[0])):
        whole = {a: range(cluster.size[a]) for a in spots[0]}
        yield from ({**b, **i, **whole} for i in lefts)
    elif row:
        whole = {a: range(cluster.size[a]) for a in lefts[0]}
        yield from ({**b, **j, **whole} for j in spots)
    elif outer == "left":
        yield from ({**b, **i, **j} for i in lefts for j in spots)
    else:
        yield from ({**b, **i, **j} for j in spots for i in lefts)


def schedules(
    graph: Graph, names: Sequence[str], slow: dict[str, Any], tiles: tuple[int, int] | None
) -> Iterator[Machine]:
    """Runs of a connected cluster, in every way that the machine knows.

    Args:
        tiles: B_m and B_n, where there is a contraction.
    """
    cluster = Cluster(graph, names)
    products = [Product.all_of(cluster, op) for op in cluster.ops if op.kind.name == "contraction"]
    if not products:
        row = set().union(*(cluster.rows(op) for op in cluster.ops))
        for order in itertools.permutations(sorted(set(cluster.size.keys()) - row)):
            yield by_rows(cluster, slow, order)
        return
    assert tiles is not None
    for turned in itertools.product(*products):
        one = turned[0]
        if all((s.batch, s.left, s.right) == (one.batch, one.left, one.right) for s in turned):
            lanes: list[list[Product]] = [list(turned)]
        elif all(
            (s.batch, s.left, s.reads[0]) == (one.batch, one.left, one.reads[0]) for s in turned
        ):
            lanes = [[s] for s in turned]
        else:
            continue
        for outer in ("left", "right"):
            yield by_tiles(cluster, slow, lanes, tiles, outer)
