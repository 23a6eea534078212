"""Replacement policies: one small file each, and one line in `POLICIES`.

A `Policy` has functions that update the order of lines when a line is found or enters, and one that
chooses the line to evict.  `iosim.cache.online` calls them for each access, compiled by numba if it
is installed; OPT has its own loop in `iosim.cache.belady`.  Users choose by name: ``--policy``.
`ring`, `marked` and `ways` have orders that several policies share.

Changing files here: functions of a policy work on integer arrays in place and allocate nothing, so
that numba can compile them (`base` lists what they may do).  Names are in recorded sweeps and stay.
A policy's choices are its definition: ``tests/cache/test_cache_replay.py`` plays each on a plain
list (`ORDERS`), and a new policy needs an entry there.

>>> POLICIES["lru"].rule
'the line not touched for longest'
"""

from __future__ import annotations

from iosim.cache.policies.base import Policy
from iosim.cache.policies.clock import CLOCK
from iosim.cache.policies.fifo import FIFO
from iosim.cache.policies.lru import LRU
from iosim.cache.policies.opt import OPT
from iosim.cache.policies.plru import PLRU
from iosim.cache.policies.random import RANDOM
from iosim.cache.policies.sieve import SIEVE

__all__ = ["POLICIES", "Policy"]

POLICIES: dict[str, Policy] = {
    policy.name: policy for policy in (LRU, FIFO, CLOCK, SIEVE, PLRU, RANDOM, OPT)
}
