"""The red-blue pebble game itself: every move is checked, every transfer counted.

Hong & Kung, STOC 1981.  Red pebbles are values in fast memory, which together take at most M words
at any time; blue ones are values in slow memory, any number.  Sources start blue, outputs must end
blue.  A vertex is `Dag.words` words, one by default.

load     a red pebble on a vertex that has a blue one; costs its words
store    a blue pebble on a vertex that has a red one; costs its words
compute  a red pebble on a vertex all of whose operands have red ones
delete   takes a red pebble away (taking a blue one away never helps, so it is no move)

Without recomputation a vertex is computed at most once.  With partial computations a sum takes its
terms one at a time, in any order:

add      a term with a red pebble goes into a sum, which has a red pebble or takes its first term.
         A term that nothing else needs may be made on the fly: its operands must be red.  What was
         stored of the sum before is out of date, and its blue pebble goes.

Three variants of the literature, each an option of `Game`.  With sliding pebbles there is

slide    computes a vertex, and its red pebble is one that an operand gives up

With free sources no vertex starts blue, and a source is computed from nothing.  With sinks of any
color an output may end red as well as blue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from iosim.base.errors import CapacityError, InputError, ProgramError, ResidencyError, closest
from iosim.pebbling.dag import Dag, unknown


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
    """The game ends and an output has no blue pebble, or none where any color will do.

    >>> from iosim.pebbling import chain
    >>> Game(chain(2), M=2).finish()
    Traceback (most recent call last):
        ...
    iosim.pebbling.game.Unfinished: output v1 has no blue pebble at the end: store it
    """


KINDS = ("load", "store", "compute", "add", "delete", "slide")
SINKS = ("blue", "any")


@dataclass(frozen=True)
class Move:
    """One move; `term` is what "add" adds, or the operand whose pebble "slide" takes.

    >>> Move("load", "a")
    Move(kind='load', vertex='a', term=None)
    """

    kind: str
    vertex: str
    term: str | None = None

    def __str__(self) -> str:
        plus = f" {'←' if self.kind == 'slide' else '+'} {self.term}" if self.term else ""
        return f"{self.kind:7} {self.vertex}{plus}"


class Game:
    """A position, from the start on.

    Args:
        dag: the graph.
        M: words of fast memory.
        recompute: whether a vertex may be computed again.
        partial: whether sums take their terms one at a time.
        sliding: whether a result may take an operand's pebble.
        free_sources: whether sources are computed, from nothing, instead of starting blue.
        sinks: what outputs must end with: a ``blue`` pebble, or one of ``any`` color.

    `loads` and `stores` are words, `computes` counts what was computed, sums when they are
    complete.  `play` raises IllegalMove, ResidencyError (an operand is not red) or CapacityError
    (more than M words); `finish` raises Unfinished.  Raises InputError for variants that can't be
    combined, and for another word for sinks.

    >>> from iosim.pebbling import chain
    >>> game = Game(chain(2), M=2)
    >>> vertices = list(chain(2).preds)
    >>> game.play(Move("load", vertices[0]))
    >>> game.play(Move("compute", vertices[1]))
    >>> game.play(Move("store", vertices[1]))
    >>> game.finish()
    >>> game.loads, game.stores
    (1, 1)
    >>> game = Game(chain(2), M=1, sliding=True, free_sources=True, sinks="any")
    >>> game.play(Move("compute", vertices[0]))
    >>> game.play(Move("slide", vertices[1], vertices[0]))
    >>> game.finish()
    >>> game.loads, game.stores, game.computes
    (0, 0, 2)
    """

    def __init__(
        self,
        dag: Dag,
        M: int,
        recompute: bool = False,
        partial: bool = False,
        *,
        sliding: bool = False,
        free_sources: bool = False,
        sinks: str = "blue",
    ):
        if recompute and partial:
            raise InputError(
                "recomputation and partial computations can't be combined: choose one of them"
            )
        if sinks not in SINKS:
            raise InputError(f"unknown end of sinks {sinks!r}: {closest(sinks, SINKS)}")
        self.dag, self.M, self.recompute, self.partial = dag, M, recompute, partial
        self.sliding, self.free_sources, self.sinks = sliding, free_sources, sinks
        self.red: set[str] = set()
        self.blue: set[str] = set() if free_sources else set(dag.inputs)
        self.computed: set[str] = set()
        # Of a sum, the terms that are in it; of vertices made at once, all operands.
        self.terms: dict[str, set[str]] = {}
        self.loads = self.stores = self.computes = self.moves = 0

    @property
    def used(self) -> int:
        """Words of fast memory that red pebbles take."""
        return sum(self.dag.words_of[v] for v in self.red)

    def play(self, move: Move) -> None:
        """Make one move."""
        if move.kind not in KINDS:
            raise IllegalMove(f"unknown move {move.kind!r}: {closest(move.kind, KINDS)}")
        for v in (move.vertex, move.term):
            if v is not None and v not in self.dag.preds:
                raise unknown(v, self.dag.preds)
        getattr(self, f"_{move.kind}")(move)
        self.moves += 1

    def finish(self) -> None:
        """Check that every output is complete and blue, or of any color with `sinks="any"`."""
        either = self.sinks == "any"
        for v in self.dag.outputs:
            ends = v in self.blue or (either and v in self.red)
            if not ends or not self._complete(v):
                color = "" if either else "blue "
                raise Unfinished(f"output {v} has no {color}pebble at the end: store it")

    def _complete(self, v: str) -> bool:
        return v in self.computed or not (self.dag.preds[v] or self.free_sources)

    def _place(self, v: str) -> None:
        words = self.dag.words_of[v]
        if self.used + words > self.M:
            takes = f"a red pebble in addition to {len(self.red)} others"
            if not self.dag.unit:
                takes = f"{words} words of fast memory in addition to {self.used}"
            raise CapacityError(f"{v} would need {takes}, M = {self.M}: delete one first")
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
        self.loads += self.dag.words_of[v]

    def _store(self, move: Move) -> None:
        v = move.vertex
        self._resident(v, f"store {v}")
        if v in self.blue:
            raise IllegalMove(f"store {v}: it has a blue pebble already: leave the store out")
        self.blue.add(v)
        self.stores += self.dag.words_of[v]

    def _delete(self, move: Move) -> None:
        self._resident(move.vertex, f"delete {move.vertex}")
        self.red.remove(move.vertex)

    def _compute(self, move: Move) -> None:
        self._computable(move.vertex)
        self._place(move.vertex)
        self._record_compute(move.vertex)

    def _slide(self, move: Move) -> None:
        v, p = move.vertex, move.term
        if not self.sliding:
            raise IllegalMove(f"slide to {v}: only in a game with sliding pebbles")
        if p is None or p not in self.dag.preds[v]:
            raise IllegalMove(f"slide from {p} to {v}: that is no operand of it")
        self._computable(v)
        self.red.remove(p)
        self._place(v)
        self._record_compute(v)

    def _computable(self, v: str) -> None:
        """Check that a vertex may be computed now, except for the place that it takes."""
        if not self.dag.preds[v] and not self.free_sources:
            raise IllegalMove(f"compute {v}: it is an input: load it")
        if v in self.red:
            raise IllegalMove(f"compute {v}: it has a red pebble already: leave it out")
        if not self.recompute and (v in self.computed or self.terms.get(v)):
            raise IllegalMove(f"compute {v} again: not without recomputation: store and load it")
        for p in self.dag.preds[v]:
            self._operand(p, f"compute {v}")

    def _record_compute(self, v: str) -> None:
        self.computed.add(v)
        self.computes += 1

    def _operand(self, p: str, what: str) -> None:
        self._resident(p, what)
        if not self._complete(p):
            raise IllegalMove(f"{what}: the sum {p} still lacks terms: add them first")

    def _add(self, move: Move) -> None:
        v, t = move.vertex, move.term
        if not self.partial or v not in self.dag.sums:
            raise IllegalMove(f"add to {v}: only a sum, in a game with partial computations")
        if t is None or t not in self.dag.preds[v]:
            raise IllegalMove(f"add {t} to {v}: it is not a term of that sum")
        within = self.terms.setdefault(v, set())
        if t in within or v in self.computed:
            raise IllegalMove(f"add {t} to {v}: the term is in it already")
        if t in self.dag.fused and t not in self.red and t not in self.computed:
            for p in self.dag.preds[t]:
                self._operand(p, f"add {t} to {v} on the fly")
            self._record_compute(t)
        else:
            self._operand(t, f"add {t} to {v}")
        if within:
            self._resident(v, f"add {t} to {v}")
        elif v not in self.red:
            self._place(v)
        self.blue.discard(v)
        within.add(t)
        if len(within) == len(self.dag.preds[v]):
            self._record_compute(v)


def replay(
    dag: Dag,
    M: int,
    moves: Iterable[Move],
    recompute: bool = False,
    partial: bool = False,
    *,
    sliding: bool = False,
    free_sources: bool = False,
    sinks: str = "blue",
) -> Game:
    """Play a schedule to its end, checking each move; the game holds the counts.

    The options, and what is raised, are those of `Game`.

    >>> from iosim.pebbling import optimum, pyramid
    >>> best = optimum(pyramid(2), M=4)
    >>> game = replay(best.dag, 4, best.schedule)
    >>> game.loads + game.stores == best.cost
    True
    """
    game = Game(dag, M, recompute, partial, sliding=sliding, free_sources=free_sources, sinks=sinks)
    for move in moves:
        game.play(move)
    game.finish()
    return game
