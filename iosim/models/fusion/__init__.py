"""Fusion: which operators of a graph are one kernel, and what that saves.

What a kernel may be is a statement about two-level schedules with M words of fast memory.  Three
families of schedules are known, one module each: `rows`, loops over parallel axes with whole rows
inside; `products`, the `matmul` schedule with operators before and after it; and `online`,
attention by an online softmax, unless that is turned off.  Each counts its words exactly, by
tensor, and refuses what it can't compute.  A kernel reads a tensor from outside as often as its
schedule says, and writes only what is read outside or kept.

`fused` puts a graph's operators into kernels, by the name of a fusion; `FUSIONS` has them.

>>> sorted(FUSIONS)
['best', 'inductor-cpu', 'inductor-cuda', 'none', 'paper']
>>> PAPER["softmax"]
('scale', 'softmax', 'attention dropout')
"""

from __future__ import annotations

from iosim.models.fusion.kernels import FusedKernel, kernel
from iosim.models.fusion.members import Illegal
from iosim.models.fusion.named_fusions import FUSIONS, PAPER, Absent, Fusion, fused
from iosim.models.fusion.partitions import Partition, partition

__all__ = [
    "FUSIONS",
    "PAPER",
    "Absent",
    "FusedKernel",
    "Fusion",
    "Illegal",
    "Partition",
    "fused",
    "kernel",
    "partition",
]
