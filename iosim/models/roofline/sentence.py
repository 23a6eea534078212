"""What a roofline comes to, in a sentence: computed, from the same kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping

from iosim.models.hardware import Hardware
from iosim.models.layers.routing import Routing
from iosim.models.roofline.report import Roofline
from iosim.models.roofline.ridge import MOST, Ridge
from iosim.models.roofline.roof import LAUNCH, LINK, MATRIX, VECTOR
from iosim.models.roofline.work import L2_DRAM, SCRATCH, SM_L2

_PHASES = {"training": "training", "prefill": "prefill", "decode": "decoding"}
_BY = {
    MATRIX: "arithmetic of the matrix units",
    VECTOR: "arithmetic of the vector units",
    L2_DRAM: "DRAM (L2↔DRAM)",
    SM_L2: "L2 (SM↔L2)",
    LINK: "the links between devices",
    LAUNCH: "launches of kernels",
}
_ROLES = {
    "weight": "weights",
    "cache": "the cache of keys and values",
    "activation": "activations",
    "gradient": "gradients",
    "state": "the optimizer's state",
    "input": "inputs",
    SCRATCH: "what schedules store for themselves",
}


def sentence(
    phase: str,
    batch: int,
    found: Roofline,
    ridge: Ridge,
    then: Roofline | None = None,
    routing: Routing | None = None,
) -> str:
    """Which limit sets most of the least time, what that time goes to, and where the ridge is.

    Args:
        phase: ``training``, ``prefill`` or ``decode``.
        batch: what `found` is of.
        found: the kernels.
        ridge: where the products with weights pass the ridge.
        then: the kernels at that batch, where it is another.
        routing: how many experts are read; None if there are none.
    """
    shares = {limit: seconds / found.time_s for limit, seconds in found.by_limit().items()}
    (most, share), *_ = shares.items()
    said = [
        f"{_PHASES[phase]} at batch {batch:,} is bound by {_BY[most]}: "
        f"{_percent(share)} of the least time{_goes(found, most)}"
    ]
    if most not in (MATRIX, LAUNCH) and (rest := shares.get(LAUNCH, 0.0)) >= 0.005:
        said.append(f"{_BY[LAUNCH]} take {_percent(rest)}")
    if routing is not None:
        said.append(f"it {routing.says}")
    here = found.of_weights()
    reached = ridge.batch is not None and ridge.batch <= batch
    there = f"its products with weights do {_number(here)} FLOP per byte at L2↔DRAM"
    if here >= ridge.ridge:
        passed = f", which they reach at batch {ridge.batch:,}" if reached else ""
        said.append(f"{there}, above the ridge of {_number(ridge.ridge)}{passed}")
    elif reached:
        said.append(
            f"{there}, below the ridge of {_number(ridge.ridge)}, which they reach at "
            f"batch {ridge.batch:,} and not at every larger one"
        )
    elif ridge.batch is None:
        said.append(
            f"{there}, and no batch of 1, 2, 4, … {MOST:,} brings them to the ridge of "
            f"{_number(ridge.ridge)}"
        )
    else:
        said.append(
            f"{there}, and at batch {ridge.batch:,} they would reach the ridge of "
            f"{_number(ridge.ridge)}"
        )
        if then is not None:
            (limit, seconds), *_ = then.by_limit().items()
            sets = _percent(seconds / then.time_s)
            said.append(f"there {_BY[limit]} would set {sets} of the least time")
    return "; ".join(said)


def does_not_fit(kept: Mapping[str, int], machine: Hardware, batch: int | None = None) -> str:
    """Says that what is kept is more than the machine's memory holds; empty where it fits."""
    whole = sum(kept.values())
    if whole <= machine.capacity_bytes:
        return ""
    parts = ", ".join(f"{_ROLES[role]} {n / 1e9:,.4g} GB" for role, n in kept.items())
    at = "" if batch is None else f"at batch {batch:,} "
    holds = f"{machine.capacity_bytes / 1e9:,.4g} GB of {machine.name}"
    return f"{at}{whole / 1e9:,.4g} GB ({parts}) don't fit in the {holds}"


def by_role(found: Roofline, boundary: str) -> Mapping[str, float]:
    """Seconds of the kernels that a boundary binds, by what their bytes there are; most first."""
    seconds: dict[str, list[float]] = {}
    for x in found.kernels:
        if x.limit == boundary:
            for role, moved in x.work.roles[boundary].items():
                seconds.setdefault(role, []).append(x.time_s * moved / x.work.bytes[boundary])
    sums = {role: math.fsum(parts) for role, parts in seconds.items()}
    return dict(sorted(sums.items(), key=lambda kv: -kv[1]))


def _goes(found: Roofline, limit: str) -> str:
    if limit in (L2_DRAM, SM_L2):
        (role, seconds), *_ = by_role(found, limit).items()
        return f", {_ROLES[role]} alone {_percent(seconds / found.time_s)}"
    if limit == LAUNCH:
        return f" ({found.totals()['times']:,} kernels of {found.roof.launch_s * 1e6:.4g} µs)"
    return ""


def _number(value: float) -> str:
    """Three digits, or all of an integer's."""
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


def _percent(share: float) -> str:
    """Whole percent, but none that is rounded to 0 or to 100."""
    return f"{share:.0%}" if 0.01 <= share <= 0.99 or share in (0, 1) else f"{share:.2%}"
