"""Numbers as people type them, ``24576``, ``96KiB``, ``2^16``; and tiles, ``B_r=64,B_c=64``.

This is the only reader of numbers: every option of every command, and the text of a sweep's file,
go through it.  The rules:

- A number is ``4096``, ``4_096``, ``4Ki`` or ``4K`` (1024 and 1000 times), ``2^12`` or ``2**12``.
- The core counts words.  A bare number is words; a number with B at its end is bytes, and the dtype
  says how many of them make a word.
- An option with one value takes commas between thousands, every third digit, where the text can't
  be a list: ``4,096`` and ``1,048,576``, since no value of a list begins with 0.
- In an option with a list, commas separate values: ``64,96,128`` and ``500,130,257``.
- In an option with one value, ``500,130,257`` may be a number or a list that was meant: it is
  refused, and the message has both readings.  Write ``500130257`` or ``500_130_257``.
- A window is always two limits, LEFT,RIGHT.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, assert_never

from iosim.base.dtypes import word_bytes
from iosim.base.errors import InputError, closest
from iosim.base.validate import LARGEST_SIZE, check_range, check_size
from iosim.core.counts import Counts, Key
from iosim.core.problem import LIMITS, Attentions, Option, Tensor

_PREFIX = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
# The most values that one axis may have, and that a range may take to make.
LONGEST_AXIS = 2**24
# More digits than any size has; Python itself refuses to read a number of 4,300.
MOST_DIGITS = 100
# Characters of what was typed that a message repeats.
MOST_SHOWN = 80
_STEP = re.compile(r"(x|\+)([0-9]+(?:\.[0-9]+)?)")
# Thousands are grouped in threes or not at all, so that 1,0,2,4 is not a number.
_THOUSANDS = r"[0-9]{1,3}(?:,[0-9]{3})+"
_POWER = r"[0-9]+(?:\^|\*\*)[0-9]+"
_NUMBER = rf"{_POWER}|[+-]?(?:{_THOUSANDS}|[0-9]+(?:_[0-9]+)*)"
_INTEGER = re.compile(rf"({_NUMBER})\s*(Ki|Mi|Gi|K|M|G|)")
_SIZE = re.compile(rf"{_INTEGER.pattern}(B|)")
# A size whose unit is in the wrong case.
_CASELESS = re.compile(rf"({_NUMBER})\s*([kmg])(i?)(b?)", re.IGNORECASE)


def parse_int(name: str, text: str, least: int = 1, most: int = LARGEST_SIZE) -> int:
    """A whole number as typed, from `least` to `most`.

    >>> [parse_int("N", text) for text in ("4096", "4_096", "4,096", "4Ki", "2^12", "2**12")]
    [4096, 4096, 4096, 4096, 4096, 4096]
    >>> parse_int("N", "16,384")
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: N = '16,384' is the number 16384 or the list 16, 384: write \
16384 or 16_384 for the number; a list is not taken here, so give one value
    """
    number = _digits(name, text)
    if most == LARGEST_SIZE:
        return check_size(name, number, least)
    return check_range(name, number, least, most)


def parse_real(name: str, text: str, asks: str, holds: Callable[[float], bool]) -> float:
    """A number that may have a fraction, as typed: ``2.6``, ``1e-3``, or what `parse_int` takes.

    Args:
        asks: what the number has to be, as the message says it.
        holds: whether it is that; false for nan.

    >>> [parse_real("seconds", text, "above 0", lambda x: x > 0) for text in ("2.5", "2^4")]
    [2.5, 16.0]
    """
    try:
        value = float(_digits(name, text) if _INTEGER.fullmatch(text.strip()) else text)
    except ValueError:
        value = math.nan
    if not holds(value):
        raise InputError(f"{name} must be {asks}, got {_quoted(text)}: give such a number")
    return value


def _digits(name: str, text: str) -> int:
    match = _INTEGER.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"{name} must be a whole number, got {_quoted(text)}: give an integer (4096, 4Ki, 2^12)"
        )
    return _number(name, match[1]) * _PREFIX[match[2]]


def _number(name: str, text: str) -> int:
    """Digits to an integer, unless there are so many that no size can be meant."""
    digits = text.replace(",", "").replace("_", "")
    if len(digits) > MOST_DIGITS:
        raise InputError(
            f"{name} has {len(digits):,} digits: choose a size inside 1..{LARGEST_SIZE} (2**40)"
        )
    base, *exponent = re.split(r"\^|\*\*", digits)
    if exponent:
        if int(exponent[0]) * len(base) > 2 * MOST_DIGITS:
            raise InputError(f"{name} = {text} is too large: choose up to {LARGEST_SIZE} (2**40)")
        power: int = int(base) ** int(exponent[0])
        return power
    if (both := _readings(text)) is not None:
        raise InputError(
            f"{name} = {text!r} is the number {digits} or the list {both}: write {digits} or "
            f"{text.replace(',', '_')} for the number; a list is not taken here, so give one value"
        )
    return int(digits)


def _readings(text: str) -> str | None:
    """Of digits with commas between thousands, the list that they may be instead; else None."""
    groups = text.lstrip("+-").split(",")
    return ", ".join(groups) if len(groups) > 1 and not any(map(_padded, groups)) else None


def _padded(part: str) -> bool:
    """Whether a number begins with zeros, as thousands do and values of a list don't."""
    return re.match(r"\s*0[0-9]", part) is not None


def split_list(name: str, text: str) -> list[str]:
    """The values of a list as typed; commas separate values, never thousands.

    Raises InputError for a value that begins with 0, as thousands do.

    >>> split_list("N", "64,128"), split_list("N", "500,130,257")
    (['64', '128'], ['500', '130', '257'])
    >>> split_list("N", "4,096")
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: N = '4,096' is a list: write thousands as 4096 or 4_096
    """
    text = text.strip()
    if any(map(_padded, text.split(","))):
        raise InputError(f"{name} = {_quoted(text)} is a list: write thousands as 4096 or 4_096")
    return values_of(text)


def values_of(text: str) -> list[str]:
    """The values of what is known to be a list."""
    parts = [x.strip() for x in text.split(",")]
    return parts[:-1] if len(parts) > 1 and not parts[-1] else parts


def _quoted(text: str) -> str:
    """What was typed, or the beginning of what is too long for a line."""
    if len(text) <= MOST_SHOWN:
        return repr(text)
    return f"{text[:MOST_SHOWN]!r} and so on, {len(text):,} characters"


def parse_option(one: Option, text: str) -> Any:
    """The value of an option as typed: ``8``, ``true``, ``128,0`` (or ``128,``), ``upper-left``.

    Raises InputError for what the option cannot be.
    """
    match one.kind:
        case "size" | "count":
            return parse_int(one.name, text, one.least)
        case "flag":
            if text not in ("true", "false"):
                raise InputError(f"{one.name} = {_quoted(text)} is neither true nor false")
            return text == "true"
        case "limits":
            return tuple(
                parse_int(f"{one.name}'s {side}", part, one.least) if part else None
                for side, part in zip(LIMITS, split_limits(one.name, text), strict=True)
            )
        case "choice":
            words = {word.replace(" ", "-"): word for word in one.choices}
            if text not in words:
                raise InputError(f"unknown {one.name} {_quoted(text)}: {closest(text, words)}")
            return words[text]
        case _:
            assert_never(one.kind)


def split_limits(name: str, text: str) -> list[str]:
    """``128,0`` → ``["128", "0"]``; a limit that is left out is ""."""
    parts = [x.strip() for x in text.split(",")]
    if len(parts) != 2 or parts == ["", ""] or _padded(parts[1]):
        raise InputError(
            f"{name} = {_quoted(text)} is not LEFT,RIGHT: give both, like 128,0, or leave one "
            "empty, like 128, for no limit"
        )
    return parts


def typed_option(one: Option, value: Any) -> str:
    """An option's value as people type it: the inverse of `parse_option`."""
    match one.kind:
        case "size" | "count":
            return str(value)
        case "flag":
            return "true" if value else "false"
        case "limits":
            return ",".join("" if x is None else str(x) for x in value)
        case "choice":
            return str(value).replace(" ", "-")
        case _:
            assert_never(one.kind)


def problem_cells(problem: Attentions) -> dict[str, Any]:
    """Sizes, and options that are given, as cells of a table: numbers, yes or no, and text.

    What else tells a kind of problem from attention is the last column.

    >>> from iosim.core.problem import Attention, AttentionBackward
    >>> problem_cells(AttentionBackward(64, 8))
    {'N': 64, 'd': 8, 'heads': 1, 'pass': 'backward'}
    >>> problem_cells(Attention(64, 8, causal=True, window=(16, None)))
    {'N': 64, 'd': 8, 'heads': 1, 'causal': True, 'window': '16,'}
    """
    options = {one.name: one for one in problem.options()}
    return {
        name: value if isinstance(value, (bool, int)) else typed_option(options[name], value)
        for name, value in problem.as_dict.items()
    } | dict(problem.in_tables)


def parse_words(name: str, text: str, dtype: str | None = None, least: int = 1) -> int:
    """A memory size in words: a bare number, or one with a unit.

    ``96KiB`` is 96·1024 bytes and needs a dtype; ``1Mi`` is 2**20 words.  Raises InputError for
    anything else.
    """
    if dtype is not None:
        word_bytes(dtype)  # a wrong dtype is an error even where no unit needs it
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{name} = {_quoted(text)} is not a size: {_units_of(text)}")
    number = _number(name, match[1]) * _PREFIX[match[2]]
    if match[3]:
        if dtype is None:
            half = number // word_bytes("fp16")
            raise InputError(
                f"{name} = {_quoted(text)} is in bytes, {half:,} words of fp16: add --dtype fp16 "
                f"where the command has it, or give words, like {half}"
            )
        number //= word_bytes(dtype)
    return check_size(name, number, least)


def _units_of(text: str) -> str:
    """What to give in place of a text that is not a size: its number, where only the case is wrong.

    >>> _units_of("96kb")
    'write 96KiB (binary) or 96KB (decimal)'
    """
    match = _CASELESS.fullmatch(text.strip())
    if match is None or len(text) > MOST_SHOWN:
        return "give words (24576, 1Mi) or bytes (96KiB, 1MB)"
    number, unit, byte = match[1], match[2].upper(), match[4].upper()
    binary = f"write {number}{unit}i{byte}"
    return binary if match[3] else f"{binary} (binary) or {number}{unit}{byte} (decimal)"


def bytes_of(counts: Counts, tensors: Iterable[Tensor], dtype: str) -> dict[Key, int]:
    """Words as bytes: `dtype` for data, at least 4 for statistics (`Tensor.wide`).

    Args:
        counts: words by direction and tensor.
        tensors: those of the program, or at least all that are counted.

    >>> bytes_of(Counts((("load", "m"), 3)), [Tensor("m", ("N",), wide=True)], "fp16")
    {('load', 'm'): 12}
    """
    wide = {t.name: t.wide for t in tensors}
    return {(way, name): n * word_bytes(dtype, wide[name]) for (way, name), n in counts}


def parse_tiles(text: str, names: Sequence[str] = ("B_r", "B_c")) -> dict[str, int]:
    """``B_r=64,B_c=32`` → ``{"B_r": 64, "B_c": 32}``.

    Args:
        names: the tiles that there are, for messages; others are taken as well.
    """
    tiles: dict[str, int] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise InputError(f"tiles {_quoted(text)} lacks names: {tiles_like(names, text)}")
        if name.strip() in tiles:
            raise InputError(f"tiles {_quoted(text)} gives {name.strip()} twice: give it once")
        tiles[name.strip()] = _digits(name.strip(), value.strip())
    return tiles


def tiles_like(names: Sequence[str], text: str = "") -> str:
    """How the tiles of these names are typed, with the values of a text where it has as many.

    >>> tiles_like(("B_r", "B_c"), "64,32")
    'write --tiles B_r=64,B_c=32'
    """
    typed = [x.strip() for x in text.split(",")]
    values = typed if len(typed) == len(names) and all(map(str.isdigit, typed)) else ["64"] * 99
    return "write --tiles " + ",".join(f"{x}={v}" for x, v in zip(names, values, strict=False))


def parse_range(name: str, text: str, dtype: str | None = None, least: int = 1) -> list[int]:
    """Sizes as a list or a range: ``64,128``, ``256:1Mi:x2`` (factors), ``10:50:+10`` (steps).

    `least` is the least that a value may be.

    Ranges include their end where they meet it.  Raises InputError for anything else, also for a
    factor that is not above 1, for an empty range, and, before any value is made, for more than
    `LONGEST_AXIS` of them.
    """
    return sizes_of(name, split_list(name, text), dtype, least)


def sizes_of(
    name: str, parts: Sequence[str], dtype: str | None = None, least: int = 1
) -> list[int]:
    """Sizes of values and ranges, as `parse_range` reads them."""
    found: set[int] = set()
    ranges: list[tuple[int, int, str, float]] = []
    for part in parts:
        pieces = part.split(":")
        if len(pieces) == 1:
            found.add(parse_words(name, part, dtype, least))
            continue
        match = _STEP.fullmatch(pieces[2]) if len(pieces) == 3 else None
        if match is None:
            raise InputError(f"{name} = {_quoted(part)} is not a range: write it like 256:65536:x2")
        low, high = (parse_words(name, x, dtype, least) for x in pieces[:2])
        if low > high:
            raise InputError(f"{name} = {_quoted(part)} is empty: {low} is above {high}")
        by = float(match[2])
        if by <= (1 if match[1] == "x" else 0) or (low == 0 and match[1] == "x"):
            raise InputError(f"{name} = {_quoted(part)} does not advance: take a larger step")
        ranges.append((low, high, match[1], by))
    steps = sum(_steps(*each) for each in ranges)
    if steps > LONGEST_AXIS:
        raise InputError(
            f"{name} = {_quoted(','.join(parts))} takes {_many(steps)} steps, more than "
            f"{LONGEST_AXIS:,}: take a larger step"
        )
    found.update(*(_values(*each) for each in ranges))
    return sorted(found)


def _steps(low: int, high: int, way: str, by: float) -> int:
    """How many steps `_values` takes, to one more or less."""
    above = high + 0.5 - low  # values are rounded, so those up to half above the end count
    steps = math.log1p(above / low) / math.log(by) if way == "x" else above / by
    return 1 + math.floor(min(steps, 1e300))


def _values(low: int, high: int, way: str, by: float) -> Iterable[int]:
    if way == "+" and by.is_integer():
        return range(low, high + 1, int(by))
    return _rounded(low, high, way, by)


def _rounded(low: int, high: int, way: str, by: float) -> Iterator[int]:
    value: float = low
    while value < math.inf and round(value) <= high:
        yield round(value)
        value = value * by if way == "x" else value + by


def _many(steps: int) -> str:
    return f"{steps:,}" if steps < 10**15 else f"more than {10**15:,}"
