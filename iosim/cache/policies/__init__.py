"""Replacement policies: one small file each, and one line in the registry."""

from __future__ import annotations

from iosim.cache.policies.base import Policy
from iosim.cache.policies.lru import LRU

__all__ = ["POLICIES", "Policy"]

POLICIES: dict[str, Policy] = {
    "lru": LRU,
}
