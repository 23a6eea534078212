"""Tiles that may start within a 32-byte sector: they move word by word.

Triton moves vectors only from where they are aligned, and a window may begin anywhere.  Then each
thread of a warp moves one word, beside its neighbour's, which asks for each sector once, but for
those that the border between two requests of 32 words cuts.  The compiler gives all loads of one
shape the layout of the widest access, with eight words of fp16 to a thread, of which it would move
one at a time, and ask for each sector eight times; so all accesses of that shape are word by word.
"""

from __future__ import annotations

from collections.abc import Mapping

from iosim.gpu.emitter.blocks import Blocks
from iosim.gpu.emitter.cuts import cut_index
from iosim.program.index import dims
from iosim.program.ir import Load, Loop, Node, nodes


def shapes(body: tuple[Node, ...], cuts: Mapping[str, Loop], blocks: Blocks) -> frozenset[str]:
    """The shapes of blocks that a body loads from within a sector.

    Args:
        cuts: buffer → the loop whose tiles cut it into blocks.
    """
    found = set()
    for node in nodes(body):
        match node:
            case Loop():
                blocks.where.loops[node.tile] = node
            case Load(index=index, buffer=buffer):
                if (loop := cuts.get(buffer)) is not None:
                    blocks.where.loops[loop.tile] = loop
                    index = cut_index(index, loop)
                own = dims(index)
                if len(own) == 2 and blocks.offset(own[-1]):
                    found.add(blocks.shape(own))
            case _:
                pass
    return frozenset(found)
