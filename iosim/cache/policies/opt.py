"""OPT (Belady 1966): the line whose next use is farthest leaves.  See `iosim.cache.belady`."""

from __future__ import annotations

from iosim.cache.policies.base import Policy

OPT = Policy(
    name="opt", rule="the line whose next use that costs a load is farthest", foresees=True
)
