"""Replacement policies: one small file each, and one line in the registry.

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
