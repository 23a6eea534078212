"""A schedule of the search without recomputation, as moves of the game."""

from __future__ import annotations

from collections.abc import Iterable

from iosim.pebbling.bits import members
from iosim.pebbling.game import Move
from iosim.pebbling.packed import Packed, SweepStep
from iosim.pebbling.rules import Rules


def written(rules: Rules, packed: Packed, steps: Iterable[SweepStep]) -> list[Move]:
    """The moves: evictions, then of each operation loads, itself, a store, deletions.

    A value that is evicted is stored if it has no blue pebble; an operand that is not red is
    loaded; a value without a further use is deleted.
    """
    moves: list[Move] = []
    red: set[int] = set()
    blue = set(members(rules.inputs))
    done = 0
    begun: set[int] = set()

    def play(kind: str, v: int, term: str | None = None) -> None:
        moves.append(Move(kind, rules.values[v], term))

    for step in steps:
        for v in (packed.tracked[x] for x in members(step.evicted)):
            if v not in blue:
                play("store", v)
                blue.add(v)
            play("delete", v)
            red.remove(v)
        for u in step.ops:
            op = rules.ops[u]
            needs = [*op.reads, *([op.target] if op.target in begun else [])]
            for v in needs:
                if v not in red:
                    play("load", v)
                    red.add(v)
            play("compute" if op.term is None else "add", op.target, op.term)
            red.add(op.target)
            begun.add(op.target)
            blue.discard(op.target)
            done |= 1 << u
            if rules.outputs >> op.target & 1 and not rules.into[op.target] & ~done:
                play("store", op.target)
                blue.add(op.target)
            for v in sorted({*op.reads, op.target}):
                if not (rules.users[v] | rules.into[v]) & ~done:
                    play("delete", v)
                    red.remove(v)
    return moves
