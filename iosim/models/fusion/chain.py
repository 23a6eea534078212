"""k element-wise operators on n words: 2kn words one by one, 2n as one kernel.

It is a sample graph for ``iosim fuse chain`` and the experiment on fusion, not a family of
kernels.  ``tests/models/test_fusion_scale.py`` checks both numbers.
"""

from __future__ import annotations

from iosim.models.layers.graph import Graph
from iosim.models.operators import Operand, operator


def chain(k: int, words: int) -> Graph:
    """Element-wise operators, each of which reads what the one before writes.

    >>> from iosim.models.fusion import fused
    >>> [fused(chain(5, 1000), how, M=2).words for how in ("none", "best")]
    [10000, 2000]
    """
    tensors = [Operand(f"X{n}", (("n", words),)) for n in range(k + 1)]
    return Graph(
        f"chain of {k}",
        tuple(
            operator(f"map {n + 1}", "relu", tensors[n : n + 1], tensors[n + 1 : n + 2])
            for n in range(k)
        ),
    )
