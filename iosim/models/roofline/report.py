"""What a roofline says of many kernels: rows, sums, shares.

Every number of a row is of all times that its kernel runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iosim.base.rows import Row, Rows
from iosim.models.roofline.ridge import of_weights
from iosim.models.roofline.roof import LIMITS, Roof, Timed
from iosim.models.roofline.work import BOUNDARIES, CLASSES, L2_DRAM, SM_L2

# What a boundary is called in the names of columns.
COLUMN = {L2_DRAM: "dram", SM_L2: "sm_l2"}


@dataclass(frozen=True)
class Roofline:
    """The kernels of one question.

    Attributes:
        roof: the machine's speeds.
        dtype: of a word, where a tensor has none of its own.
        kernels: in the order in which they run.
    """

    roof: Roof
    dtype: str
    kernels: Sequence[Timed]

    @property
    def time_s(self) -> float:
        """The least time of all, one after another."""
        return math.fsum(x.time_s for x in self.kernels)

    def rows(self) -> Rows:
        """One for each kernel, for scripts."""
        return [_row(x) for x in self.kernels]

    def totals(self) -> Row:
        """The sums of all rows."""
        return _sums(self.kernels)

    def classes(self) -> Rows:
        """The sums by class, with the shares of flop, bytes at L2↔DRAM and least time."""
        whole = self.totals()
        found = []
        for klass in CLASSES:
            if mine := [x for x in self.kernels if x.work.klass == klass]:
                sums = _sums(mine)
                shares = {
                    f"{name}_share": _share(sums[key], whole[key])
                    for name, key in (
                        ("flop", "flop"),
                        ("dram_bytes", "dram_bytes"),
                        ("time", "time_s"),
                    )
                }
                found.append({"class": klass, **sums, **shares})
        return found

    def of_weights(self) -> float:
        """FLOP per byte at L2↔DRAM of the products with weights."""
        return of_weights(x.work for x in self.kernels)

    def by_limit(self) -> dict[str, float]:
        """Seconds of the least time by what sets it, the most first."""
        found = {
            limit: math.fsum(x.time_s for x in self.kernels if x.limit == limit) for limit in LIMITS
        }
        return dict(sorted(((k, v) for k, v in found.items() if v), key=lambda kv: -kv[1]))

    def boundaries(self) -> Rows:
        """What is known of each boundary: M, speed and ridge of the products' dtype."""
        machine = self.roof.machine
        found = []
        for at, boundary in BOUNDARIES.items():
            speed = boundary.bytes_per_s(machine)
            peak = machine.peaks.get(self.dtype)
            found.append(
                {
                    "boundary": at,
                    "M_words": boundary.M(machine, self.dtype),
                    "bytes_per_s": speed,
                    "ridge_flop_per_byte": peak / speed if peak and speed else None,
                }
            )
        return found

    def machine_rows(self) -> Rows:
        """The roofs, for the figure's table."""
        machine = self.roof.machine
        numbers: list[tuple[str, float | None, str]] = [
            (f"matrix units, {self.dtype}", machine.peak(self.dtype), "FLOP/s"),
            *([("vector units", self.roof.vector_peak, "FLOP/s")] if self.roof.vector_peak else []),
            *((at, b.bytes_per_s(machine), "B/s") for at, b in BOUNDARIES.items()),
            ("launch", self.roof.launch_s, "s"),
        ]
        return [
            {
                "machine": machine.name,
                "title": machine.title,
                "what": what,
                "value": value,
                "unit": unit,
            }
            for what, value, unit in numbers
        ]


def _row(x: Timed) -> Row:
    w, n = x.work, x.work.times
    return {
        "name": w.name,
        "part": w.part,
        "class": w.klass,
        "times": n,
        "flop": w.flop * n,
        "products_flop": w.products * n,
        "words_in": w.words_in * n,
        "words_out": w.words_out * n,
        **{f"{COLUMN[at]}_bytes": moved * n for at, moved in w.bytes.items()},
        "link_bytes": w.link_bytes * n,
        "intensity": w.intensity(L2_DRAM),
        "sm_l2_intensity": w.intensity(SM_L2),
        "bound": x.bound,
        "limit": x.limit,
        "boundary": x.boundary,
        "time_s": x.time_s,
        **{f"how_{COLUMN[at]}": how for at, how in w.how.items()},
    }


_SUMMED = (
    "times",
    "flop",
    "products_flop",
    "words_in",
    "words_out",
    "dram_bytes",
    "sm_l2_bytes",
    "link_bytes",
)


def _sums(kernels: Sequence[Timed]) -> Row:
    rows = [_row(x) for x in kernels]
    found: Row = {x: sum(r[x] for r in rows) for x in _SUMMED}
    for name, at in (("intensity", "dram_bytes"), ("sm_l2_intensity", "sm_l2_bytes")):
        found[name] = found["flop"] / found[at] if found[at] else math.inf
    return found | {"time_s": math.fsum(x.time_s for x in kernels)}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
