"""Reads values of a sweep as text and numbers, from the command line, a file or Python.

`iosim.sweep.grid` calls it, and parses the text afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from iosim.base.errors import InputError, closest
from iosim.base.validate import whole_number
from iosim.core.algorithms import algorithm
from iosim.core.problem import LIMITS, Option
from iosim.core.tiling.rules import rule_of
from iosim.core.units import (
    LONGEST_AXIS,
    parse_option,
    sizes_of,
    split_limits,
    split_list,
    values_of,
)


def as_text(name: str, value: Any) -> str:
    """An option as typed: text, a number, or a list of these."""
    if isinstance(value, (list, tuple)) and value:
        return ",".join(as_text(name, x) for x in value)
    if isinstance(value, str):
        return value
    number = whole_number(value)
    if number is None:
        raise InputError(f"{name} = {value!r} is not a value: give text, whole numbers, or a list")
    return _format_value(number)


def _format_value(value: object) -> str:
    """A value as text; Python writes no integer of thousands of digits."""
    huge = isinstance(value, int) and value.bit_length() > 128
    return "an integer of more than 128 bits" if huge else repr(value)


def as_bool(value: Any) -> bool:
    """Whether only points that fit are kept, as given."""
    if not (value is None or isinstance(value, bool)):
        raise InputError(
            f"feasible = {_format_value(value)} is neither true nor false: write one of them"
        )
    return bool(value)


def as_rows(value: Any) -> int:
    """Points in a shard as given; 0 where they are not."""
    if value is None:
        return 0
    number = whole_number(value)
    if number is None or not 1 <= number <= LONGEST_AXIS:
        raise InputError(
            f"shard_rows = {_format_value(value)} is not a number of points: give a whole number "
            f"from 1 to {LONGEST_AXIS}"
        )
    return number


def sides(one: Option, value: Any) -> dict[str, str]:
    """The ranges of a pair of limits, those that are given."""
    if isinstance(value, (list, tuple)) and len(value) == len(LIMITS):
        parts = ["" if x in (None, "") else as_text(one.name, x) for x in value]
        if not any(parts):
            split_limits(one.name, ",")  # says how to write one
    else:
        parts = split_limits(one.name, as_text(one.name, value))
    return {side: part for side, part in zip(LIMITS, parts, strict=True) if part}


def fixed_option(one: Option, value: Any) -> str | None:
    """A flag or a choice as typed, or None for what it is by default."""
    text = str(value).lower() if isinstance(value, bool) else as_text(one.name, value)
    return None if parse_option(one, text) == one.default else text


def axis_values(name: str, text: str, dtype: str | None = None, least: int = 1) -> tuple[int, ...]:
    """The values of an axis of the grid; InputError where there are too many.

    Older manifests may hold lists that `split_list` refuses today.
    """
    values = sizes_of(name, values_of(text), dtype, least)
    if len(values) > LONGEST_AXIS:
        raise InputError(f"{name} = {text!r} has {len(values)} values: at most {LONGEST_AXIS}")
    return tuple(values)


def check_lists(text: Mapping[str, str], sizes: Iterable[str]) -> None:
    """InputError where a list of sizes, of M or of tiles has commas between thousands (4,096)."""
    found = {name: text[name] for name in (*sizes, "M") if name in text}
    tiles = re.split(r",?\s*(\w+)\s*=", text.get("tiles", ""))
    for name, values in (*found.items(), *zip(tiles[1::2], tiles[2::2], strict=True)):
        split_list(name, values)


def tile_ranges(name: str, tiles: str, known: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """``B_r=16:256:x2,B_c=32,64`` → ``(("B_r", "16:256:x2"), ("B_c", "32,64"))``.

    Args:
        known: the parameters of the algorithm.

    Empty for rules.  Raises InputError for other names, and for tiles that the algorithm hasn't.
    """
    if "=" not in tiles:
        rule_of(algorithm(name), tiles)
        return ()
    found: dict[str, str] = {}
    last = ""
    for part in tiles.split(","):
        key, equals, value = (x.strip() for x in part.partition("="))
        if not equals and not last:
            raise InputError(f"tiles {tiles!r} are not like B_r=64,B_c=16:256:x2: write them so")
        if equals and key in found:
            raise InputError(f"tiles {tiles!r} gives {key} twice: give it once")
        last = key if equals else last
        found[last] = value if equals else f"{found[last]},{part.strip()}"
    for key in found:
        if key not in known:
            raise InputError(f"{name} has no tile size {key!r}: {closest(key, known)}")
    return tuple((x, found[x]) for x in known if x in found)
