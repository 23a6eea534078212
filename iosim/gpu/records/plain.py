"""Plain data from JSON files, checked against the types that it should have."""

from __future__ import annotations

import dataclasses
import functools
import reprlib
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from iosim.base.errors import InputError
from iosim.base.reading import parse, read_text
from iosim.base.rows import Row
from iosim.gpu.errors import GpuError

T = TypeVar("T")

# Bytes of a file of a record.
MOST_BYTES = 2**26


def read_json(path: Path, kind: type[T]) -> T:
    """The content of a JSON file as a value of `kind`: see `checked`.

    Raises GpuError, naming the file, if it cannot be read, is not JSON, or holds something else.
    """
    try:
        text = read_text(path, MOST_BYTES)
    except InputError as error:
        raise GpuError(f"cannot read {path} ({error}): is it a record?") from None
    try:
        value = parse(text, "JSON", finite=False)  # what failed has NaN
    except InputError as error:
        raise GpuError(f"{path} is not JSON ({error}): the record is damaged") from None
    found: T = checked(kind, value, (str(path),))
    return found


def checked(kind: Any, value: Any, where: tuple[str, ...]) -> Any:
    """`value` as `kind`, lists as tuples.

    Args:
        kind: a dataclass, ``dict[str, T]``, ``tuple[T, ...]``, ``tuple[T, U]``, ``T | None``, int
            (of at most 64 bits), float, str, bool or Any.
        where: the file and the places in it, for the message.

    Raises GpuError for anything else, also for keys that a dataclass has no field for.
    """
    if kind is Any:
        return value
    origin, inner, fields = _parts(kind)
    if fields and isinstance(value, dict):
        return _record(kind, value, where)
    if origin is types.UnionType:
        return None if value is None else checked(inner[0], value, where)
    if origin is dict and isinstance(value, dict):
        return {name: checked(inner[1], x, (*where, name)) for name, x in value.items()}
    if origin is tuple and isinstance(value, list):
        each = [inner[0]] * len(value) if inner[-1] is ... else list(inner)
        if len(each) == len(value):
            pairs = enumerate(zip(each, value, strict=True))
            return tuple(checked(part, x, (*where, f"item {k}")) for k, (part, x) in pairs)
    if kind is float and type(value) in (int, float):
        return float(value)
    if type(value) is kind and (kind is not int or abs(value) < 2**63):
        return value
    name = getattr(kind, "__name__", kind) if origin is None else kind
    raise GpuError(
        f"{', '.join(where)} is {reprlib.repr(value)}, not {name}: the record is damaged"
    )


@functools.cache
def _parts(kind: Any) -> tuple[Any, tuple[Any, ...], bool]:
    """What a type is made of: its origin, its arguments, and whether it is a dataclass."""
    return typing.get_origin(kind), typing.get_args(kind), dataclasses.is_dataclass(kind)


@functools.cache
def _list_fields(kind: Any) -> tuple[Row, set[str]]:
    """The types of a dataclass's fields, and the names of those without a default."""
    needed = {
        f.name
        for f in dataclasses.fields(kind)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    return typing.get_type_hints(kind), needed


def _record(kind: Any, value: Row, where: tuple[str, ...]) -> Any:
    hints, needed = _list_fields(kind)
    if missing := needed - set(value):
        raise GpuError(
            f"{', '.join(where)} lacks {', '.join(sorted(missing))}: the record is damaged"
        )
    if unknown := set(value) - set(hints):
        at, names = ", ".join(where), reprlib.repr(sorted(unknown))
        raise GpuError(f"{at} has the unknown keys {names}: is it of a newer iosim?")
    return kind(**{name: checked(hints[name], x, (*where, name)) for name, x in value.items()})
