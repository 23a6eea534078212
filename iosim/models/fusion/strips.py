"""Contractions that one kernel makes together, and the operators after each.

Several contractions fit together in two ways: they have the same batch, left and right axes; or
they read one tensor as their left input, and their right sides lie one after the other.

Only `products` calls it.  ``tests/models/test_fusion_words.py`` checks its words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iosim.models.fusion.members import Axes, Illegal, Members
from iosim.models.operators import Operator


@dataclass(frozen=True)
class Sides:
    """A contraction: its axes, and its inputs as (left, right)."""

    op: Operator
    batch: Axes
    left: Axes
    right: Axes
    k: Axes
    inputs: tuple[str, str]

    def turned(self) -> Sides:
        """Left and right the other way round."""
        return Sides(self.op, self.batch, self.right, self.left, self.k, self.inputs[::-1])


@dataclass(frozen=True)
class Strip:
    """Contractions whose output tiles are made together, and what is after them."""

    products: tuple[Sides, ...]
    behind: tuple[Operator, ...]

    @property
    def right(self) -> Axes:
        """Axes of the right side, which its contractions share."""
        return self.products[0].right

    @property
    def outputs(self) -> frozenset[str]:
        """What its contractions write."""
        return frozenset(t.name for s in self.products for t in s.op.writes)


def _sides(part: Members, op: Operator) -> Sides:
    a, b, c = (part.axes_of(op, t.names) for t in (*op.reads, *op.writes))
    left, right = op.reads
    return Sides(op, a & b & c, (a - b) & c, (b - a) & c, (a & b) - c, (left.name, right.name))


def strips(part: Members) -> tuple[Strip, ...]:
    """The contractions, turned so that they fit together, with the operators after each.

    Raises Illegal, naming operators, where they don't fit, or one is neither before nor after.
    """
    found = [_sides(part, op) for op in part.contractions]
    first = found[0]
    inputs = {x for s in found for x in s.inputs}
    ahead = part.find_ancestors(inputs)
    if late := [op for op in part.contractions if op.name in ahead]:
        raise Illegal(
            f"{late[0].name} is before another contraction: the tile between them would "
            "have to stay"
        )
    together = _align_sides(found)
    lanes: list[tuple[Sides, ...]]
    if together is None:
        for turn in (first, first.turned()):
            beside = [_align_left(turn, s) for s in found]
            if all(beside):
                lanes = [(s,) for s in beside if s]
                break
        else:
            names = " and ".join(s.op.name for s in found)
            raise Illegal(f"{names} have neither the same output axes nor a left input in common")
    else:
        lanes = [together]
    rest = [op for op in part.operators if op.name not in ahead and op not in part.contractions]
    return tuple(_behind(part, lanes, rest))


def _align_sides(found: list[Sides]) -> tuple[Sides, ...] | None:
    first, turned = found[0], []
    for s in found:
        for way in (s, s.turned()):
            if (way.batch, way.left, way.right) == (first.batch, first.left, first.right):
                turned.append(way)
                break
        else:
            return None
    return tuple(turned)


def _align_left(first: Sides, s: Sides) -> Sides | None:
    """Turned so that it has the left input of another."""
    for way in (s, s.turned()):
        if way.inputs[0] == first.inputs[0] and (way.batch, way.left) == (first.batch, first.left):
            return way
    return None


def _behind(part: Members, lanes: list[tuple[Sides, ...]], rest: list[Operator]) -> Iterator[Strip]:
    """Each operator goes with the contractions that it is connected with by what is made here."""
    for lane in lanes:
        names = {t.name for s in lane for t in s.op.writes}
        mine: list[Operator] = []
        while more := [
            op
            for op in rest
            if op not in mine and any(t.name in names & part.written_tensors for t in op.tensors)
        ]:
            mine += more
            names |= {t.name for op in more for t in op.tensors}
        others = {
            t.name for other in lanes if other is not lane for s in other for t in s.op.writes
        }
        if joined := [op for op in mine if any(t.name in others for t in op.reads)]:
            raise Illegal(f"{joined[0].name} joins contractions that are not on the same axes")
        yield Strip(lane, tuple(op for op in part.operators if op in mine))
        rest = [op for op in rest if op not in mine]
    if rest:
        raise Illegal(f"{rest[0].name} is neither before nor behind a contraction")
