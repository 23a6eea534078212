"""Caches that manage themselves: what a program references, as streams that are replayed.

Independent of the machine, the formulas and the GPU: a stream is one more fold over a program, and
a cache one more consumer of a stream.

>>> sorted(POLICIES)
['clock', 'fifo', 'lru', 'opt', 'plru', 'random', 'sieve']
"""

from iosim.cache import closed, partitioned, shared, tiles
from iosim.cache.curves import Curve, curve
from iosim.cache.family import CacheFamily
from iosim.cache.layouts import Tiled
from iosim.cache.methods import CacheWords, choose_method, count_words
from iosim.cache.of_program import items, touches, transfers
from iosim.cache.policies import POLICIES, Policy
from iosim.cache.record import Cache, Traffic
from iosim.cache.replaying import replay, replay_many
from iosim.cache.sampling import SampledCurve, sampled
from iosim.cache.stream import Accesses, Region, Stream, of_arrays

__all__ = [
    "POLICIES",
    "Accesses",
    "Cache",
    "CacheFamily",
    "CacheWords",
    "Curve",
    "Policy",
    "Region",
    "SampledCurve",
    "Stream",
    "Tiled",
    "Traffic",
    "choose_method",
    "closed",
    "count_words",
    "curve",
    "items",
    "of_arrays",
    "partitioned",
    "replay",
    "replay_many",
    "sampled",
    "shared",
    "tiles",
    "touches",
    "transfers",
]
