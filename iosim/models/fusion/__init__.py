"""Fusion: which operators of a graph are one kernel, and what that saves.

What a kernel may be is a statement about two-level schedules with M words of fast memory.  There
are three families of schedules, one module each: `rows` has loops over parallel axes with whole
rows inside; `products` has the `matmul` schedule with operators before and after it; `online` has
attention by an online softmax, and can be turned off.  Each counts its words exactly, by tensor,
and refuses what it can't compute.  `best` finds the partition that moves the fewest words.

`fused` groups a graph's operators by the name of a fusion in `FUSIONS`; ``iosim fuse`` and
`iosim.models.roofline` call it.  ``recorded/`` has fusions of real compilers as JSON: a file there
is the registration.

Changing files here: `best` is exact, and equal to the best of all partitions of small graphs
(``tests/models/test_fusion_best.py``); words of a kernel are those of a machine that runs it word
by word (``tests/models/test_fusion_words.py``).  A recorded file names its graph's operators, so it
breaks if the layer changes.  `iosim.models.layers` must not import this package.

>>> sorted(FUSIONS)
['best', 'inductor-cpu', 'inductor-cuda', 'none', 'paper']
>>> PAPER["softmax"]
['scale', 'softmax', 'attention dropout']
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
