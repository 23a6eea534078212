"""Operands of a template, and what blocks read beyond a ragged edge.

That is 0, except where a row's maximum was taken of them: of a block whose last 3 of 8 columns are
beyond the tensor these are 0 for a sum, and −∞ for a maximum.  `nest` keeps one `Edges` as it
writes a text, and asks it before each operation which blocks must be filled otherwise; `computing`
has `Held` for its templates.  A new operation that reads beyond an edge needs its case here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from iosim.core.program.ir import Alloc, Load, Loop, Node, Op, nodes
from iosim.core.program.ops import OPS

LOWEST, ZERO = 'float("-inf")', "0.0"


@dataclass(frozen=True, slots=True)
class Held:
    """What a template may say about an operand: its name, the shape of its block, and where its
    rows and columns are, from the start of their tiles on."""

    name: str
    shape: str
    row: str = ""
    column: str = ""

    def __str__(self) -> str:
        return self.name

    rows = property(lambda self: self.shape.strip("[]").split(", ")[0])
    columns = property(lambda self: self.shape.strip("[]").split(", ")[-1])


def summed(body: tuple[Node, ...]) -> set[str]:
    """Buffers that a matrix product adds to: fp32, whatever they were loaded from."""
    return {to for (to,) in _in_products(body, r", (\{\w+\}), input_precision=")}


def products(body: tuple[Node, ...]) -> set[tuple[str, ...]]:
    """Buffers of each matrix product: its result, and its right operand."""
    return set(_in_products(body, r"(\{\w+\}) = tl\.dot\([^,]+, (?:tl\.trans\()?(\{\w+\})"))


def _in_products(body: tuple[Node, ...], where: str) -> Iterator[tuple[str, ...]]:
    """The buffers that a pattern finds in the templates of a body's operations."""
    for node in (n for n in nodes(body) if isinstance(n, Op)):
        names = OPS[node.name].names
        for found in re.finditer(where, OPS[node.name].triton or ""):
            yield tuple(node.operands[names.index(x[1:-1])].buffer for x in found.groups())


class Edges:
    """The blocks that read −inf beyond a ragged edge at this place of the text."""

    def __init__(self) -> None:
        self._low: set[str] = set()

    def reset_block(self, block: str) -> None:
        """A block is computed again."""
        self._low.discard(block)

    def enter(self, loop: Loop, name: Callable[[str], str]) -> None:
        """A loop begins; of blocks made outside, an iteration finds what the last one left.

        Args:
            name: buffer → block.
        """
        made = {n.buffer for n in nodes(loop.body) if isinstance(n, (Load, Alloc))}
        for op in (n for n in nodes(loop.body) if isinstance(n, Op)):
            spec = OPS[op.name]
            for k, letter in enumerate(spec.names):
                buffer = op.operands[k].buffer
                if letter in spec.lowest and k not in spec.writes and buffer not in made:
                    self._low.add(name(buffer))

    @contextlib.contextmanager
    def perhaps(self) -> Iterator[None]:
        """What is inside may not run: a block that read −inf before may still do so after it."""
        before = frozenset(self._low)
        yield
        self._low |= before

    def required_fills(self, op: Op, blocks: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """What operands must be filled with beyond their edges: pairs of operand and value.

        Args:
            blocks: operand → block.
        """
        spec = OPS[op.name]
        written = {spec.names[k] for k in spec.writes}
        for letter, block in blocks.items():
            if letter in spec.lowest:
                yield letter, LOWEST
            elif spec.over and block in self._low:
                yield letter, ZERO
            if letter in spec.lowest and letter not in written:
                self._low.add(block)
            elif letter in spec.lowest or spec.over:
                self._low.discard(block)
            if spec.whole and letter in written and LOWEST in (spec.triton or ""):
                self._low.add(block)  # a mask hides what is beyond the edge, too
