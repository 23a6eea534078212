"""The red-blue pebble game itself: every move is checked, every transfer counted.

Hong & Kung, STOC 1981.  A red pebble is a word of fast memory, at most M at any time; a blue one
a word of slow memory, any number.  Inputs start blue, outputs must end blue.

load     a red pebble on a vertex that has a blue one; costs 1
store    a blue pebble on a vertex that has a red one; costs 1
compute  a red pebble on a vertex all of whose operands have red ones
delete   takes a red pebble away (taking a blue one away never helps, so it is no move)

Without recomputation a vertex is computed at most once.  With partial computations a sum takes its
terms one at a time, in any order:

add      a term with a red pebble goes into a sum, which has a red pebble or takes its first term.
         A term that nothing else needs may be made on the fly: its operands must be red.  What was
         stored of the sum before is out of date, and its blue pebble goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from iosim.errors import CapacityError, InputError, ProgramError, ResidencyError, closest
from iosim.pebbling.dag import Dag


class IllegalMove(ProgramError):
    """A move that the rules forbid.

    >>> from iosim.pebbling import chain
    >>> first, second = chain(2).preds
    >>> Game(chain(2), M=2).play(Move("load", second))
    Traceback (most recent call last):
        ...
    iosim.pebbling.game.IllegalMove: load v1: it has no blue pebble: store it first
    """


class Unfinished(ProgramError):
    """The game ends and an output has no blue pebble.

    >>> from iosim.pebbling import chain
    >>> Game(chain(2), M=2).finish()
    Traceback (most recent call last):
        ...
    iosim.pebbling.game.Unfinished: output v1 has no blue pebble at the end: store it
    """


KINDS = ("load", "store", "compute", "add", "delete")


@dataclass(frozen=True)
class Move:
    """One move; `term` is what "add" adds.

    >>> Move("load", "a")
    Move(kind='load', vertex='a', term=None)
    """

    kind: str
    vertex: str
    term: str | None = None

    def __str__(self) -> str:
        plus = f" + {self.term}" if self.term else ""
        return f"{self.kind:7} {self.vertex}{plus}"


class Game:
    """A position, from the start on.

    `play` raises IllegalMove, ResidencyError (an operand is not red) or CapacityError (more than M
    red pebbles); `finish` raises Unfinished.

    >>> from iosim.pebbling import chain
    >>> game = Game(chain(2), M=2)
    >>> vertices = list(chain(2).preds)
    >>> game.play(Move("load", vertices[0]))
    >>> game.play(Move("compute", vertices[1]))
    >>> game.play(Move("store", vertices[1]))
    >>> game.finish()
    >>> game.loads, game.stores
    (1, 1)
    """

    def __init__(self, dag: Dag, M: int, recompute: bool = False, partial: bool = False):
        if recompute and partial:
            raise InputError(
                "recomputation and partial computations can't be combined: choose one of them"
            )
        self.dag, self.M, self.recompute, self.partial = dag, M, recompute, partial
        self.red: set[str] = set()
        self.blue: set[str] = set(dag.inputs)
        self.computed: set[str] = set()
        # Of a sum, the terms that are in it; of vertices made at once, all operands.
        self.terms: dict[str, set[str]] = {}
        self.loads = self.stores = self.moves = 0

    def play(self, move: Move) -> None:
        """Make one move."""
        if move.kind not in KINDS:
            raise IllegalMove(f"unknown move {move.kind!r}: {closest(move.kind, KINDS)}")
        for v in (move.vertex, move.term):
            if v is not None and v not in self.dag.preds:
                raise InputError(f"unknown vertex {v!r}: {closest(v, self.dag.preds)}")
        getattr(self, f"_{move.kind}")(move)
        self.moves += 1

    def finish(self) -> None:
        """Check that every output is complete and blue."""
        for v in self.dag.outputs:
            if v not in self.blue or not self._complete(v):
                raise Unfinished(f"output {v} has no blue pebble at the end: store it")

    def _complete(self, v: str) -> bool:
        return not self.dag.preds[v] or v in self.computed

    def _place(self, v: str) -> None:
        if len(self.red) >= self.M:
            raise CapacityError(
                f"{v} would take a red pebble beside {len(self.red)} others, M = {self.M}: "
                "delete one first"
            )
        self.red.add(v)

    def _resident(self, v: str, what: str) -> None:
        if v not in self.red:
            raise ResidencyError(f"{what}: {v} has no red pebble: load or compute it first")

    def _load(self, move: Move) -> None:
        v = move.vertex
        if v not in self.blue:
            raise IllegalMove(f"load {v}: it has no blue pebble: store it first")
        if v in self.red:
            raise IllegalMove(f"load {v}: it has a red pebble already: leave the load out")
        self._place(v)
        self.loads += 1

    def _store(self, move: Move) -> None:
        v = move.vertex
        self._resident(v, f"store {v}")
        if v in self.blue:
            raise IllegalMove(f"store {v}: it has a blue pebble already: leave the store out")
        self.blue.add(v)
        self.stores += 1

    def _delete(self, move: Move) -> None:
        self._resident(move.vertex, f"delete {move.vertex}")
        self.red.remove(move.vertex)

    def _compute(self, move: Move) -> None:
        v = move.vertex
        if not self.dag.preds[v]:
            raise IllegalMove(f"compute {v}: it is an input: load it")
        if v in self.red:
            raise IllegalMove(f"compute {v}: it has a red pebble already: leave it out")
        if not self.recompute and (v in self.computed or self.terms.get(v)):
            raise IllegalMove(f"compute {v} again: not without recomputation: store and load it")
        for p in self.dag.preds[v]:
            self._operand(p, f"compute {v}")
        self._place(v)
        self.computed.add(v)

    def _operand(self, p: str, what: str) -> None:
        self._resident(p, what)
        if not self._complete(p):
            raise IllegalMove(f"{what}: the sum {p} still lacks terms: add them first")

    def _add(self, move: Move) -> None:
        v, t = move.vertex, move.term
        if not self.partial or v not in self.dag.sums:
            raise IllegalMove(f"add to {v}: only a sum, in a game with partial computations")
        if t is None or t not in self.dag.preds[v]:
            raise IllegalMove(f"add {t} to {v}: that is no term of it")
        within = self.terms.setdefault(v, set())
        if t in within or v in self.computed:
            raise IllegalMove(f"add {t} to {v}: the term is in it already")
        if t in self.dag.fused and t not in self.red and t not in self.computed:
            for p in self.dag.preds[t]:
                self._operand(p, f"add {t} to {v} on the fly")
            self.computed.add(t)
        else:
            self._operand(t, f"add {t} to {v}")
        if within:
            self._resident(v, f"add {t} to {v}")
        elif v not in self.red:
            self._place(v)
        self.blue.discard(v)
        within.add(t)
        if len(within) == len(self.dag.preds[v]):
            self.computed.add(v)


def replay(
    dag: Dag, M: int, moves: Iterable[Move], recompute: bool = False, partial: bool = False
) -> Game:
    """Play a schedule to its end, checking each move; the game holds the counts.

    >>> from iosim.pebbling import optimum, pyramid
    >>> best = optimum(pyramid(2), M=4)
    >>> game = replay(best.dag, 4, best.schedule)
    >>> game.loads + game.stores == best.cost
    True
    """
    game = Game(dag, M, recompute, partial)
    for move in moves:
        game.play(move)
    game.finish()
    return game
