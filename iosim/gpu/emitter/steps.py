"""The body of a streaming loop as steps, and which of its products may overlap the others.

A step is a line of an operation's Gluon text, with the values that it reads and the one that it
writes.  Matrix products are asynchronous: one is issued, and later waited for.  `Rotation` finds,
from what the steps read and write, the product that may stay in flight while the next iteration
computes: in attention the one with V, behind the next softmax.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_PRODUCT = re.compile(r"\{(\w+)\} \+= \{(\w+)\} @ \{(\w+)\}(\.T)?")


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of a product: a tile in shared memory, or a value in registers."""

    name: str
    tile: bool
    transposed: bool = False


@dataclass(frozen=True, slots=True)
class TileProduct:
    """``goal += left @ right``.

    Attributes:
        goal: the value that it adds to, in registers.
        layout: that of the goal.
    """

    goal: str
    layout: str
    left: Factor
    right: Factor

    @property
    def tiles(self) -> tuple[str, ...]:
        """The tiles that it reads."""
        return tuple(x.name for x in (self.left, self.right) if x.tile)


@dataclass(frozen=True, slots=True)
class ValueStep:
    """One line.

    Attributes:
        text: what it says; empty for a product.
        reads: values that it takes.
        writes: the value that it makes.
    """

    text: str
    reads: frozenset[str]
    writes: str
    product: TileProduct | None = None

    @property
    def clears(self) -> bool:
        """Whether it sets its value to 0."""
        return " = gl.zeros(" in self.text

    def touches(self, value: str) -> bool:
        """Whether it reads or writes a value."""
        return value in self.reads or value == self.writes


def product_of(line: str) -> tuple[str, str, str, bool] | None:
    """The operands of a line that is a product, and whether the right one is transposed.

    >>> product_of("{s} += {q} @ {k}.T"), product_of("{m} = _top")
    (('s', 'q', 'k', True), None)
    """
    if (found := _PRODUCT.fullmatch(line)) is None:
        return None
    return found[1], found[2], found[3], bool(found[4])


@dataclass(frozen=True, slots=True)
class Rotation:
    """An iteration's steps around a product of the iteration before.

    Attributes:
        lead: number of the product behind whose issue the late one is issued.
        late: number of the product that is left to the next iteration.
        wait: number of the first step that needs what the late one makes.
    """

    lead: int
    late: int
    wait: int


def rotation(steps: Sequence[ValueStep]) -> Rotation | None:
    """How the last product of an iteration may run behind the next one's; None if it may not.

    It may where no later step of its iteration touches its goal, and where the next iteration
    issues another product before any step touches it.
    """
    products = [k for k, step in enumerate(steps) if step.product is not None]
    if len(products) < 2:
        return None
    lead, late = products[0], products[-1]
    goal = steps[late].writes
    if any(step.touches(goal) for step in steps[late + 1 :]):
        return None
    wait = next(k for k, step in enumerate(steps) if step.touches(goal))
    if wait <= lead or any(lead < k < wait for k in products):
        return None
    return Rotation(lead, late, wait)
