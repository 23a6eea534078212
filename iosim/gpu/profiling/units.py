"""Numbers of a report, in base units.

`ncu` writes numbers with commas between thousands, and scales units (Kbyte, us) unless it is asked
for base units.  Its K, M, G and T are decimal.

`reading` calls it.  ``tests/gpu/test_profile_reading.py`` tests it.

>>> in_base("134.22", "Mbyte"), in_base("1,234", "us"), in_base("99.5", "%")
((134220000.0, 'byte', True), (1234000.0, 'ns', True), (99.5, '%', False))
>>> in_base("4.27", "Tbyte/s")[:2], in_base("1.98", "cycle/nsecond")[:2]
((4270000000000.0, 'byte/s'), (1980000000.0, 'cycle/s'))
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from functools import cache

from iosim.gpu.errors import GpuError

# A prefix → what it multiplies by, as a power of ten.
_PREFIXES = {"": 0, "K": 3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_SECONDS = {
    prefix + name: power
    for prefix, power in (("", 0), ("m", -3), ("u", -6), ("n", -9))
    for name in ("s", "second")
}
# What is scaled by a prefix, and the name of its base.
_SCALED = {"byte": "byte", "b": "byte", "B": "byte", "hz": "hz", "Hz": "hz", "bit": "bit"}
ABSENT = ("", "n/a", "nan", "-nan", "inf", "-inf", "no data", "(!) n/a", "(!) nan")
# A plain number has commas between thousands and a point, or neither.
_PLAIN = re.compile(r"-?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
# Other locales: points or blanks between thousands, a comma before what is less than 1.
_FOREIGN = re.compile(
    r"-?(\d{1,3}([.'\u00a0\u202f ]\d{3}){2,}(,\d+)?|\d+,(\d{1,2}|\d{4,})|"
    r"\d{1,3}[.'\u00a0\u202f ]\d{3},\d+)"
)
LARGEST = 2.0**63
# Only of these a value may be negative.
_SIGNED = ("derived__", "device__attribute_")
# What a counter's name says of its base unit.
_NAMED = (
    (re.compile(r"[._]pct(_|$)"), "%"),
    (re.compile(r"__time_duration\.(sum|avg|min|max)$"), "ns"),
    (re.compile(r"bytes\w*\.(sum|avg|min|max)$"), "byte"),
)


def in_base(text: str, unit: str) -> tuple[float | None, str, bool]:
    """The value in base units, the base unit, and whether the report had it in another one.

    None for a value that was not measured.  Raises GpuError for text that is not a number.
    """
    power, base = _scale(unit.strip())
    text = text.strip()
    if text.lower() in ABSENT:
        return None, base, False
    if _FOREIGN.fullmatch(text):
        raise GpuError(f"{text!r} is written as in another language: save the report with LC_ALL=C")
    if not _PLAIN.fullmatch(text):
        raise GpuError(f"{text!r} is not a counter's value: the report is damaged")
    plain = text.replace(",", "")
    value = float(Decimal(plain).scaleb(power)) if power else float(plain)  # rounded once
    if not math.isfinite(value) or abs(value) >= LARGEST:
        raise GpuError(f"{text!r} is larger than any counter: the report is damaged")
    return value, base, power != 0


def check_value(counter: str, value: float, base: str) -> None:
    """Raise GpuError for a negative count, or a unit that a counter of this name can't have.

    >>> check_value("dram__bytes_read.sum", 4096.0, "byte")
    """
    wanted = _base_of(counter)
    if base != wanted is not None:
        raise GpuError(f"its unit is {base!r}, and not one of {wanted!r}: the report is damaged")
    if value < 0 and not counter.startswith(_SIGNED):
        raise GpuError(f"{value:g} is negative: the report is damaged")


@cache
def _base_of(counter: str) -> str | None:
    return next((unit for name, unit in _NAMED if name.search(counter)), None)


@cache
def _scale(unit: str) -> tuple[int, str]:
    """The power of ten between a unit and its base, and the base."""
    top, slash, bottom = unit.partition("/")
    if not slash and top in _SECONDS:  # the base of a time is a nanosecond
        return _SECONDS[top] + 9, "ns"
    power, base = _prefixed(top)
    if bottom in _SECONDS:
        return power - _SECONDS[bottom], f"{base}/s"
    return power, base + slash + bottom


def _prefixed(unit: str) -> tuple[int, str]:
    for prefix, power in _PREFIXES.items():
        if unit.startswith(prefix) and (base := _SCALED.get(unit[len(prefix) :])):
            return power, base
    return 0, unit
