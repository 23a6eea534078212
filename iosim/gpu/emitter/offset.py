"""Tiles that may start within a 32-byte sector: they move word by word.

Triton moves vectors only from where they are aligned, and a window may begin anywhere.  Then each
thread of a warp moves one word, next to its neighbor's, which asks for each sector once, except for
those that the border between two requests of 32 words cuts.  The compiler gives all loads of one
shape the layout of the widest access, with eight words of fp16 to a thread, of which it would move
one at a time, and ask for each sector eight times; so all accesses of that shape are word by word.

The same layout is what makes a load of a ragged tile read its sectors again and again, where a
tile of its shape moves as whole vectors in the same kernel.  There the load goes on to the end of
the row's last sector, in vectors as well, and what lies beyond the edge is cleared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from iosim.core.program.index import Dim, dims
from iosim.core.program.ir import Load, Loop, Node, Store, nodes
from iosim.gpu.emitter.blocks import Blocks
from iosim.gpu.emitter.cuts import cut_index


def shapes(
    body: tuple[Node, ...], cuts: Mapping[str, Loop], blocks: Blocks
) -> tuple[frozenset[str], frozenset[str]]:
    """The shapes of blocks that a body loads from within a sector, and of those of which it moves
    some as whole vectors.

    Args:
        cuts: buffer → the loop whose tiles cut it into blocks.
    """
    offset, whole = set(), set()
    for node, own in _blocks(body, cuts, blocks):
        if not blocks.offset(own[-1]):
            if not blocks.odd(own[-1]):
                whole.add(blocks.shape(own))
        elif isinstance(node, Load):
            offset.add(blocks.shape(own))
    return frozenset(offset), frozenset(whole)


def _blocks(
    body: tuple[Node, ...], cuts: Mapping[str, Loop], blocks: Blocks
) -> Iterator[tuple[Load | Store, tuple[Dim, ...]]]:
    """Transfers of blocks with rows and columns, and the dimensions of each."""
    for node in nodes(body):
        match node:
            case Loop():
                blocks.where.loops[node.tile] = node
            case Load(index=index, buffer=buffer) | Store(index=index, buffer=buffer):
                if (loop := cuts.get(buffer)) is not None:
                    blocks.where.loops[loop.tile] = loop
                    index = cut_index(index, loop)
                own = dims(index)
                if len(own) == 2:
                    yield node, own
            case _:
                pass
