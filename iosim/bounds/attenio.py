"""AttenIO's attained count: 2Nd + 4N²d(d+2)/(M − d), leading constant 4.

In Algorithm 1 a rows of Q and of O are stationary, K and V stream a row at a time (b = 1): memory
2ad + d + 4a for Q, O, one row of K or V, the scores, m, the old m and ℓ; transfers
2Nd + 2Nd⌈N/a⌉.  The closed form puts a = (M − d)/(2d + 4); it is exact where that is an integer
which divides N, and else a little below the count.

Proved in `proofs/upper_bounds.md#counts-of-the-catalogue`.

`BOUNDS` has both entries, and schedules like `flash2` claim the count in `attains`.
``tests/bounds/test_bounds.py`` compares values; ``tests/report/test_verify.py`` holds schedules to
the count.
"""

from typing import Any

from iosim.bounds.base import Bound


def _outside(t: Any) -> str | None:
    if 3 * t.d + 4 > t.M:
        return f"M = {t.M} is below 3d + 4 = {3 * t.d + 4}, which one row of Q needs"
    return None


def _closed_outside(t: Any) -> str | None:
    if t.d + t.N * (2 * t.d + 4) < t.M:
        return f"M = {t.M} exceeds d + N(2d + 4) = {t.d + t.N * (2 * t.d + 4)}: all of Q and O fit"
    return _outside(t)


def _io_words(t: Any) -> Any:
    a = t.min(t.N, t.floor((t.M - t.d) / (2 * t.d + 4)))
    return t.heads * (2 * t.N * t.d + 2 * t.N * t.d * t.ceil(t.N / a))


_SOURCE = "Lu, Long, Chen, Han & Sun (AttenIO), ASPLOS 2026, Algorithm 1"

CLOSED = Bound(
    name="attenio-closed-form",
    kind="upper",
    strength="asymptotic",
    covers="Q/O-stationary tiles of (M − d)/(2d + 4) rows, not rounded",
    formula=lambda t: t.heads * (2 * t.N * t.d + 4 * t.N**2 * t.d * (t.d + 2) / (t.M - t.d)),
    validity="3d + 4 ≤ M ≤ d + N(2d + 4); exact only where the tile is whole and divides N",
    source=f"{_SOURCE} and Equation 15",
    outside=_closed_outside,
    proof="upper_bounds",
    theorem="counts-of-the-catalogue",
    classes=(),
)

COUNTED = Bound(
    name="attenio",
    kind="upper",
    covers="Q/O-stationary tiles of a = ⌊(M − d)/(2d + 4)⌋ rows, K and V streamed by the row",
    formula=_io_words,
    validity="M ≥ 3d + 4",
    source=f"{_SOURCE}, every load and store counted",
    outside=_outside,
    proof="upper_bounds",
    theorem="counts-of-the-catalogue",
    classes=(),
)
