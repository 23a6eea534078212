"""First in, first out: the line that came first leaves, however often it was touched."""

from __future__ import annotations

from iosim.cache.policies import ring
from iosim.cache.policies.base import Policy

FIFO = Policy(
    name="fifo", rule="the line that came first", start=ring.start, enter=ring.push, evict=ring.pop
)
