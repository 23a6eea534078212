"""Bytes over SM↔L2 of bulk copies (TMA): boxes of tensors that descriptors describe.

A load brings its whole box, with zeros outside the tensor, and one sector more for each row inside
that begins or ends within a sector.  A store sends the sectors that it touches.  Both are exact on
an H200 (`tests/kernel/test_counters.py`).

`iosim.kernel.count` and `iosim.kernel.counters` call it.
"""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from iosim.kernel.evaluate import Reference
from iosim.kernel.reuse import SECTOR
from iosim.kernel.sectors import Traffic, WarpTraffic
from iosim.kernel.values import GRID, Array, check_size, lift

# What has it in its PTX moves boxes.
COPIES = "async.bulk.tensor"


class BoxCounter:
    """Collects boxes; an observer for `iosim.kernel.evaluate.evaluate`.

    Attributes:
        traffic: kind and argument → bytes.
    """

    def __init__(self) -> None:
        self.traffic: Traffic = defaultdict(WarpTraffic)

    def __call__(self, references: list[Reference]) -> None:
        """Count the boxes of a part of the grid."""
        boxes = (x for x in references if re.search("descriptor|tma", x.operation.name))
        part = [(x, count_box(x)) for x in boxes]
        for reference, moved in part:
            one = self.traffic[reference.kind, reference.argument]
            one.asked += moved
            one.crossing += moved
            one.past += moved


def count_box(reference: Reference) -> int:
    """Bytes that a box moves, in all programs together."""
    tile, size = reference.tile, reference.grid + reference.tile
    check_size(np.broadcast_to(np.empty((), np.void), size))
    inside: Array = np.broadcast_to(lift(reference.active, len(tile)), size)
    live = reference.active.reshape(reference.active.shape[:GRID])
    programs = int(np.broadcast_to(live, reference.grid).sum())
    for mask in reference.masks:
        inside = inside & mask
    inside = inside.reshape(-1, tile[-1])
    offsets = np.broadcast_to(reference.offsets.dense(), size).reshape(-1, tile[-1])
    begin = np.where(inside, offsets, np.iinfo(np.int64).max // 64).min(1) * reference.width
    end = (np.where(inside, offsets, -1).max(1) + 1) * reference.width
    begin, end = (x[inside.any(1)] for x in (begin, end))
    if reference.kind != "load":
        return int((-(-end // SECTOR) - begin // SECTOR).sum()) * SECTOR
    rows = int(np.prod(tile[:-1])) * programs
    cut = int(np.count_nonzero((begin % SECTOR != 0) | (end % SECTOR != 0)))
    return (rows * -(-tile[-1] * reference.width // SECTOR) + cut) * SECTOR
