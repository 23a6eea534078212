"""Caches that manage themselves: streams of accesses, and what LRU, OPT and other policies move.

`of_program` turns a bound program into a stream; `replay`, `family` and `methods` run streams
through caches of one or all capacities; `closed`, `leaps` and `tiles` get the same counts in less
time, and `sampling` estimates them.  ``iosim cache`` and the cache rows of sweeps call them;
`iosim.kernel` replays streams of Triton kernels, and `iosim.gpu` those of an L2.  A policy is one
file in `iosim.cache.policies`, a format of traces one file in `iosim.cache.files`.

Changing files here: counts are exact but for samples, so each fast method must equal a replay with
plain lists, which ``tests/cache`` has for each.  Import contracts: nothing here imports the
machine, closed forms, tiles, schedules or bounds, which have to stay independent.  Loops that numba
compiles use `iosim.base.compiled` and run as plain Python, too.  If a count changes, raise
`iosim.base.revision.REVISION`: sweeps record cached rows.

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
