"""Caches that manage themselves: what a program references, as streams that are replayed.

Independent of the machine, the formulas and the GPU: a stream is one more fold over a program, and
a cache one more consumer of a stream.
"""

from iosim.cache.stream import Accesses, Region, Stream, of_arrays

__all__ = ["Accesses", "Region", "Stream", "of_arrays"]
