"""A schedule of the search without recomputation, as moves of the game."""

from __future__ import annotations

from collections.abc import Iterable

from iosim.pebbling.bits import members
from iosim.pebbling.game import Move
from iosim.pebbling.packed import Packed, SweepStep
from iosim.pebbling.rules import Rules


def moments(packed: Packed, steps: Iterable[SweepStep]) -> list[tuple[int, int]]:
    """Operations in the order of time, each with the values that are red while it is done."""
    found: list[tuple[int, int]] = []
    red = done = 0
    for step in steps:
        red &= ~step.evicted
        for u in step.ops:
            red |= packed.touched[u]
            found.append((u, red))
            done |= packed.rules.does[u]
            for v in members(packed.touched[u]):
                if not (packed.users[v] | packed.into[v]) & ~done:
                    red &= ~(1 << v)
    return found[::-1] if packed.back else found


def to_moves(rules: Rules, packed: Packed, steps: Iterable[SweepStep]) -> list[Move]:
    """The moves: of each operation evictions and loads, itself, a store, deletions.

    A value that is evicted is stored if it has no blue pebble; what must be red is loaded; a value
    without a further use is deleted.
    """
    moves: list[Move] = []
    red: set[int] = set()
    blue = set(members(rules.inputs))
    done = 0
    begun: set[int] = set()

    def play(kind: str, v: int, term: str | None = None) -> None:
        moves.append(Move(kind, rules.values[v], term))

    for u, here in moments(packed, steps):
        op = rules.ops[u]
        held = {packed.tracked[x] for x in members(here)} | {op.target, *op.reads}
        for v in sorted(red - held):
            if v not in blue:
                play("store", v)
                blue.add(v)
            play("delete", v)
            red.remove(v)
        for v in sorted(held - red):
            if v != op.target or v in begun:
                play("load", v)
                red.add(v)
        play("compute" if op.term is None else "add", op.target, op.term)
        red.add(op.target)
        begun.add(op.target)
        blue.discard(op.target)
        done |= rules.does[u]
        if rules.outputs >> op.target & 1 and not rules.into[op.target] & ~done:
            play("store", op.target)
            blue.add(op.target)
        for v in sorted({*op.reads, op.target}):
            if not (rules.users[v] | rules.into[v]) & ~done:
                play("delete", v)
                red.remove(v)
    return moves
