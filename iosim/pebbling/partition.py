"""Hong and Kung's partitions: what the segments of a game are, and the fewest parts of any.

Hong & Kung, STOC 1981; `proofs/hong_kung.md` has the theorem, Q ≥ s·(P(M + s) − 1), and its proof.
It is about games that compute whole vertices, with recomputation or without.

>>> from iosim.pebbling import fewest_parts, pyramid
>>> fewest_parts(pyramid(3), 3)
3
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from iosim.base.errors import InputError
from iosim.base.validate import check_size
from iosim.pebbling.bits import mask, members
from iosim.pebbling.dag import Dag, check_dag
from iosim.pebbling.game import Move

# Sets of vertices that contain their operands: with more of them than this a search takes minutes.
LARGEST = 20_000


@dataclass(frozen=True)
class Segment:
    """The moves from one cut to the next, and what Hong and Kung's proof looks at.

    Attributes:
        moves: how many moves it has.
        loads, stores: its transfers.
        part: the vertices that get their first red pebble in it.
        dominator: those that are red at its start or are loaded in it.
        last: those that are red at its end or are stored in it.
        minimum: the vertices of the part that no vertex of the part uses.

    >>> from iosim.pebbling import optimum, pyramid
    >>> best = optimum(pyramid(2), M=4)
    >>> first = segments(best.dag, best.schedule, s=2)[0]
    >>> first.loads + first.stores, len(first.dominator) <= 4 + 2
    (2, True)
    """

    moves: int
    loads: int
    stores: int
    part: frozenset[str]
    dominator: frozenset[str]
    last: frozenset[str]
    minimum: frozenset[str]


def segments(dag: Dag, moves: Iterable[Move], s: int) -> list[Segment]:
    """Cut a game into segments of s transfers each, the last one perhaps with fewer.

    A cut is made before the transfer that would be one too many.  The moves are those of a legal
    game of whole vertices.  Raises InputError for a move "add", and where s is not a size.

    >>> from iosim.pebbling import optimum, pyramid
    >>> best = optimum(pyramid(2), M=4)
    >>> [x.loads + x.stores for x in segments(best.dag, best.schedule, s=2)]
    [2, 2]
    """
    check_dag(dag)
    s = check_size("s", s)
    cuts: list[list[Move]] = [[]]
    paid = 0
    for move in moves:
        if move.kind == "add":
            raise InputError("a game that takes sums term by term has no such segments")
        if move.kind in ("load", "store"):
            if paid == s:
                cuts.append([])
                paid = 0
            paid += 1
        cuts[-1].append(move)
    found: list[Segment] = []
    red: set[str] = set()
    ever: set[str] = set()
    for cut in cuts:
        by = {kind: [m.vertex for m in cut if m.kind == kind] for kind in ("load", "store")}
        dominator = red | set(by["load"])
        part: set[str] = set()
        for move in cut:
            if move.kind == "delete":
                red.discard(move.vertex)
            elif move.kind != "store":
                red.add(move.vertex)
                part.add(move.vertex)
        part -= ever
        ever |= part
        found.append(
            Segment(
                len(cut),
                len(by["load"]),
                len(by["store"]),
                frozenset(part),
                frozenset(dominator),
                frozenset(red | set(by["store"])),
                frozenset(v for v in part if not part & set(dag.succs[v])),
            )
        )
    return found


def fewest_parts(dag: Dag, S: int) -> int:
    """P(S): the least number of parts of an S-partition of all vertices.

    Each part has a dominator of at most S vertices (every path from an input to the part meets it)
    and a minimum of at most S (vertices without a successor in the part), and no edge leads from a
    later part into an earlier one.  Raises InputError where the graph has too many prefixes to
    search, and where S is not a size.

    Prefixes are searched: sets of vertices with all their operands.  A larger prefix is never
    worse, since what it has taken from the next part makes neither its dominator nor its minimum
    larger; so of those that k parts reach only the largest are kept.

    >>> from iosim.pebbling import chain
    >>> fewest_parts(chain(5), S=1)
    1
    """
    check_dag(dag)
    S = check_size("S", S)
    graph = _Graph(dag)
    reached, parts = {0}, 0
    while graph.all not in reached:
        parts += 1
        following = set().union(*(graph.extend_prefix(done, S) for done in reached))
        reached = {I for I in following if not any(I != J and I & J == I for J in following)}
    return parts


class _Graph:
    """A graph as sets of bits, with the searches of `fewest_parts`."""

    def __init__(self, dag: Dag) -> None:
        number = {v: k for k, v in enumerate(dag.vertices)}
        self.name = dag.name
        self.operands = [mask(number[p] for p in dag.preds[v]) for v in dag.vertices]
        self.users = [mask(number[w] for w in dag.succs[v]) for v in dag.vertices]
        self.all = (1 << len(number)) - 1

    def extend_prefix(self, done: int, S: int) -> set[int]:
        """The prefixes that one more part leads to."""
        found, seen, todo = set(), {done}, [done]
        while todo:
            prefix = todo.pop()
            part = prefix & ~done
            if self.minimum(part).bit_count() <= S:
                found.add(prefix)
            for v in members(self.all & ~prefix):
                more = prefix | 1 << v
                # A part's dominator only grows with it, so that a prefix beyond S has no use.
                if self.operands[v] & ~prefix == 0 and more not in seen:
                    seen.add(more)
                    if self.dominated(more & ~done, S):
                        todo.append(more)
            if len(seen) > LARGEST:
                raise InputError(
                    f"{self.name} has more than {LARGEST:,} prefixes: take a smaller graph"
                )
        return found - {done}

    def minimum(self, part: int) -> int:
        """The vertices of a part that no vertex of the part uses."""
        return mask(v for v in members(part) if not self.users[v] & part)

    def dominated(self, part: int, S: int) -> bool:
        """Whether some S vertices meet every path from an input to a part.

        By Menger's theorem as many are needed as there are paths of which no two meet.  Each vertex
        is two nodes, 2v and 2v + 1, with an arc from one to the other that one path can take.
        """
        arcs: dict[int, set[int]] = {_SOURCE: set(), _SINK: set()}
        for v, operands in enumerate(self.operands):
            arcs[2 * v] = {2 * v + 1}
            arcs[2 * v + 1] = {2 * w for w in members(self.users[v])}
            if not operands:
                arcs[_SOURCE].add(2 * v)
            if part >> v & 1:
                arcs[2 * v + 1].add(_SINK)
        return not all(_augment(arcs) for _ in range(S + 1))


_SOURCE, _SINK = -1, -2


def _augment(arcs: dict[int, set[int]]) -> bool:
    """Send one more path from the source to the sink, turning its arcs round; False if none is."""
    before, todo = {_SOURCE: _SOURCE}, [_SOURCE]
    while todo and _SINK not in before:
        here = todo.pop()
        for there in arcs[here]:
            if there not in before:
                before[there] = here
                todo.append(there)
    if _SINK not in before:
        return False
    there = _SINK
    while there != _SOURCE:
        here = before[there]
        arcs[here].remove(there)
        arcs[there].add(here)
        there = here
    return True
