"""What bulk copies move: whole boxes, where the model counts words.

A box that goes beyond its tensor is filled with 0 there, and the hardware counts what it fills.
Rows start on a sector, so that nothing is added where one ends within a sector.  Stores leave out
what is beyond the tensor, and count sectors (`iosim.gpu.emitter.layout`).
"""

from __future__ import annotations

from iosim.base.dtypes import word_bytes
from iosim.core.counts import Key
from iosim.core.program.ir import Load
from iosim.core.program.walk import Instance
from iosim.gpu.emitter import layout
from iosim.gpu.emitter.blocks import Blocks
from iosim.gpu.emitter.nests import nests, walk_with_loops
from iosim.gpu.emitter.warps import read


def bulk_bytes(instance: Instance, dtype: str) -> dict[Key, int]:
    """Bytes that the hardware counts for the kernels for Hopper; loads are whole boxes.

    See `sector_bytes` for stores.

    >>> import iosim
    >>> flash2 = iosim.algorithm("flash2").program
    >>> sizes, tiles = {"N": 1000, "d": 64, "heads": 1}, {"B_r": 128, "B_c": 128}
    >>> bulk_bytes(iosim.bind(flash2, sizes, tiles), "fp16")["load", "Q"]  # 8 blocks of 128 rows
    131072
    """
    found = {key: n for key, n in layout.sector_bytes(instance, dtype).items() if key[0] == "store"}
    word = word_bytes(dtype)
    for body in nests(instance):
        nest = read(instance, body, tiles := Blocks(instance), 1)
        for node, outer in walk_with_loops(nest.inside, nest.grid):
            if not isinstance(node, Load):
                continue
            times = layout.iterations(instance, outer) * nest.parts(node)
            key: Key = ("load", node.tensor)
            found[key] = found.get(key, 0) + times * nest.box(node, tiles).words * word
    return found
