"""What a kernel must not reorder: where it needs barriers.

One is needed between a store and a load of the same tensor, since other threads may have stored the
words.  One is also needed between two loads of a tile with no store between them: the compiler
would make them one, and the hardware would move less than the program says.  It does so in straight
text only, and a loop that it knows to run once becomes straight.

And one kind of loop must not load ahead.  Products of 64 rows or more run while the kernel goes on
(WGMMA), and read their operands in shared memory; the compiler gives a tile that is loaded ahead a
second place there, so that the next one doesn't overwrite it, where the first that uses it is such
a product.  Where the first is another one, there is a single place, and the last product of an
iteration may read what the next load has written (Triton 3.6 to 3.9).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import assert_never

from iosim.core.program import space
from iosim.core.program.index import At, Dim, Number, Plain, Span, Tile, Within, dims, unstacked
from iosim.core.program.ir import Alloc, Free, Load, Loop, Node, Op, Store, nodes
from iosim.core.program.ops import OPS
from iosim.core.program.space import Range
from iosim.gpu.emitter.cuts import cuts
from iosim.gpu.emitter.nests import touched
from iosim.gpu.emitter.places import Places

GROUP_ROWS = 64  # of a product by a group of warps
Loops = Mapping[Tile, Loop]
Place = tuple[str, tuple[Range | None, ...]]  # a tensor, and of it what a load may reach


class Order:
    """What one body has stored and loaded since its last barrier."""

    def __init__(self, where: Places) -> None:
        self._where = where
        self._stored: set[str] = set()  # by other threads of this instance, maybe not visible yet
        self._loaded: list[Place] = []

    def barrier(self, node: Node) -> bool:
        """Whether a barrier must come before a node; if so, it counts as being there."""
        needed = bool(touched((node,), Load) & self._stored) or self._repeats(node)
        if needed:
            self._stored.clear()
            self._loaded.clear()
        return needed

    def did(self, node: Node) -> None:
        """A node is in the text."""
        self._stored |= touched((node,), Store)
        for place in self._straight(node, {}):
            if place is None:
                self._loaded.clear()
            else:
                self._loaded.append(place)

    @contextlib.contextmanager
    def perhaps(self) -> Iterator[None]:
        """What is inside may not run, nor its barriers; what it loads is not in straight text."""
        stored, loaded = set(self._stored), list(self._loaded)
        yield
        self._stored |= stored
        self._loaded = loaded

    def _repeats(self, node: Node) -> bool:
        for place in self._straight(node, {}):
            if place is None:
                return False
            if any(_meet(place, before) for before in self._loaded):
                return True
        return False

    def _straight(self, node: Node, inner: Loops) -> Iterator[Place | None]:
        """What a node loads in straight text; None for a store, or a loop or branch with stores.

        Args:
            inner: the loops between the body and the node.
        """
        match node:
            case Load():
                at = tuple(self._range(x, inner) for x in unstacked(node.index))
                yield node.tensor, at
            case Store():
                yield None
            case Loop():
                inner = {**inner, node.tile: node}
                if self._runs_straight(node, inner):
                    for one in node.body:
                        yield from self._straight(one, inner)
                elif touched(node.body, Store):
                    yield None
            case Alloc() | Free() | Op():
                pass
            case _:
                assert_never(node)

    def _runs_straight(self, loop: Loop, inner: Loops) -> bool:
        """Whether iterations of a loop are, or may become, straight text."""
        if loop.marks is not None:
            return False
        start, stop = self._where.cases(loop, {**self._where.loops, **inner})
        if not start.size or cuts(loop):
            return not loop.span.edges
        if not loop.span.edges:
            return int(stop[0] - start[0]) <= self._where.step(loop)
        # The compiler finds its ends, and may part it into portions that run once.
        return bool((start == start[0]).all() and (stop == stop[0]).all())

    def _range(self, x: Plain, inner: Loops) -> Range | None:
        """Where an index may be, as far as that is known."""
        match x:
            case Span():
                instance = self._where.instance
                return space.allowed(x, instance.env) if x.edges else instance.span(x)
            case Tile():
                if x in inner:
                    return self._range(inner[x].span, inner)
                at, loop = self._where.at[x], self._where.loops[x]
                if at.isdigit():
                    return int(at), int(at) + self._where.step(loop)
                return self._range(loop.span, inner)
            case Number() | Within() | At():
                return None
            case _:
                assert_never(x)


def ahead(
    loop: Loop, over: str, shapes: Mapping[str, tuple[Dim, ...]], side: Callable[[Dim], int]
) -> str:
    """The range of a loop in the text, without loads ahead where these would come too early.

    Args:
        over: its start, stop and step, as text.
        shapes: the indices of the buffers that are resident outside.
        side: the side of the block along an index.
    """
    shapes, first = dict(shapes), dict[str, bool]()
    loaded: set[str] = set()
    for n in nodes(loop.body):
        if isinstance(n, (Load, Alloc)):
            shapes[n.buffer] = dims(n.index)
            first.pop(n.buffer, None)
            (loaded.add if isinstance(n, Load) else loaded.discard)(n.buffer)
        elif isinstance(n, Op):
            own = [ref.buffer for ref in n.operands]
            alone = _runs_on(n, shapes, side)
            for x in loaded.intersection(own):
                if not first.setdefault(x, alone) and alone:
                    return f"tl.range({over}, num_stages=1)"
            loaded -= {own[k] for k in OPS[n.name].writes}  # what follows reads another block
    return f"range({over})"


def _runs_on(op: Op, shapes: Mapping[str, tuple[Dim, ...]], side: Callable[[Dim], int]) -> bool:
    """Whether an operation is a product that may still run when the next one starts."""
    product = "tl.dot(" in (OPS[op.name].triton or "")
    result = op.operands[0].buffer  # the sum that it adds to
    return product and result in shapes and side(shapes[result][0]) >= GROUP_ROWS


def _meet(one: Place, other: Place) -> bool:
    pairs = zip(one[1], other[1], strict=True)
    return one[0] == other[0] and all(
        a is None or b is None or (a[0] < b[1] and b[0] < a[1]) for a, b in pairs
    )
