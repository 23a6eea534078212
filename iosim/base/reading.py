"""Reads TOML and JSON that people write, within limits, with one line for whatever is wrong.

Every reader of such a file begins here.  A file must be a regular file of UTF-8 text within limits
of length, nesting and digits, and each key must be there once.  It may be packed by gzip: ``NAME``
is read from ``NAME.gz`` if only that exists.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iosim.base.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Bytes of a file.
MOST_BYTES = 2**20
# The end of a name whose file gzip packed.
PACKED = ".gz"
# Tables in tables and lists in lists.
MOST_DEPTH = 100
# Digits of an integer: Python's own limit of 4,300 would end in an error when it is printed.
MOST_DIGITS = 100
# Parts of a dotted key, and of all dotted keys together: each makes tables, about 1 KB.
MOST_PARTS, MOST_PARTS_IN_ALL = 20, 100_000


def read_toml(path: str | Path, most: int = MOST_BYTES) -> dict[str, Any]:
    """What a TOML file says.  Raises InputError where it can't be read."""
    return _read(path, "TOML", most)  # type: ignore[no-any-return]


def read_json(path: str | Path, most: int = MOST_BYTES) -> Any:
    """What a JSON file says.  Raises InputError where it can't be read."""
    return _read(path, "JSON", most)


def _read(path: str | Path, language: str, most: int) -> Any:
    try:
        return parse(read_text(path, most), language)
    except InputError as error:
        raise InputError(f"cannot read {str(path)!r} as {language}: {error}") from None


def read_text(path: str | Path, most: int = MOST_BYTES, *, pipes: bool = False) -> str:
    """The text of a file that `read_bytes` takes; raises InputError where it has none.

    A name before the error is for the caller to give.
    """
    try:
        return read_bytes(path, most, pipes=pipes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"it is not UTF-8 text ({error})") from None


def stored(path: str | Path) -> Path:
    """The file that has the content of `path`: itself, or ``path.gz`` where only that is there.

    >>> stored("experiments/data/gpu/h200/validate/measured.json").name
    'measured.json.gz'
    """
    packed = Path(f"{path}{PACKED}")
    return packed if packed.is_file() and not Path(path).exists() else Path(path)


def read_bytes(path: str | Path, most: int = MOST_BYTES, *, pipes: bool = False) -> bytes:
    """The content of a regular file; InputError for anything else, and for more bytes than `most`.

    Args:
        path: a name that ends with ``.gz`` is unpacked, and so is what is `stored` under it.
        most: bytes in the file, and also when it is unpacked.
        pipes: take a pipe as well, as shells make for ``<(command)``.

    >>> read_bytes("/dev/zero")
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: it is not a file
    """
    try:
        where = stored(path)
        if not where.is_file() and not (pipes and where.is_fifo()):
            raise InputError("it is not a file" if where.exists() else "there is no such file")
        data = bytearray()
        with where.open("rb") as file:
            while len(data) <= most and (piece := file.read(min(2**20, most + 1 - len(data)))):
                data += piece
        if where.suffix == PACKED and len(data) <= most:
            data = _unpack(data, most)
        if len(data) > most:
            raise InputError(f"it has more than {most:,} bytes, too many for such a file")
        return bytes(data)
    except OSError as error:
        raise InputError(str(error.strerror or error)) from None
    except ValueError as error:  # a name with a zero byte
        raise InputError(str(error)) from None


def _unpack(data: bytearray, most: int) -> bytearray:
    """What gzip packed, or the first `most` bytes of it and one more."""
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        found = bytearray(unpacker.decompress(data, most + 1))
    except zlib.error as error:
        raise InputError(f"gzip can't unpack it ({error})") from None
    if len(found) <= most and (not unpacker.eof or unpacker.unused_data):
        raise InputError("gzip can't unpack it: it is cut off, or something follows")
    return found


def read_mask(path: str | Path, what: str = "a mask") -> NDArray[Any]:
    """The array of a block mask, or of something else, in a file of NumPy's.

    Raises InputError if there is none; nothing that the file says is run.

    >>> read_mask("/dev/null")
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: can't read /dev/null: it is not a file; save a mask with \
numpy.save()
    """
    import numpy as np

    found, why = None, "it is not an array of NumPy"
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise OSError(None, "it is not a file")
        found = np.load(path, allow_pickle=False)
    except Exception as error:  # a broken header raises nearly anything, tokenize.TokenError too
        why = getattr(error, "strerror", None) or why
    if isinstance(found, np.ndarray):
        return found
    raise InputError(f"can't read {path}: {why}; save {what} with numpy.save()")


def parse(text: str, language: str, *, finite: bool = True) -> Any:
    """What a text in TOML or JSON says.

    Args:
        text: all of it.
        language: ``TOML`` or ``JSON``.
        finite: of JSON: refuse NaN and infinity, which Python writes, and numbers beyond floats.

    Raises InputError for anything that is not in the language, and beyond the limits.

    >>> parse('{"a": 1, "a": 2}', "JSON")
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: the key 'a' is there twice: leave one
    >>> parse("x = 0x" + "f" * 5000, "TOML")
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: x has more than 100 digits: take a smaller one
    """
    try:
        if language == "JSON":
            value = json.loads(
                text,
                object_pairs_hook=_once,
                parse_constant=_constant if finite else None,
                parse_float=_float if finite else None,
            )
        else:
            _check_keys(text)
            value = tomllib.loads(text)
    except RecursionError:
        raise InputError(_DEEP) from None
    except json.JSONDecodeError as error:
        end = "; it may be cut off" if error.pos >= len(text.rstrip()) else ""
        raise InputError(f"line {error.lineno}: {error.msg}{end}") from None
    except ValueError as error:
        why = next(iter(str(error).splitlines()), type(error).__name__)
        if "integer string conversion" in why:
            why = f"an integer {_LONG}"
        raise InputError(why) from None
    _check(value)
    return value


_DEEP = f"it is nested deeper than {MOST_DEPTH} levels"
_LONG = f"has more than {MOST_DIGITS} digits: take a smaller one"


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InputError(f"the key {key!r} is there twice: leave one")
        found[key] = value
    return found


def _constant(text: str) -> Any:
    raise InputError(f"{text} is not a number")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise InputError("a number is beyond the range of floats: take a smaller one")
    return value


# A part of a key, from its beginning on; after a dot comes the next one.
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DOTTED = re.compile(rf"(?<![\w.-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART})+")


def _check_keys(text: str) -> None:
    """Raise InputError for dotted keys of many parts, before each part becomes a table."""
    parts = 0
    for found in _DOTTED.finditer(text):
        of_one = found[0].count(".") + 1
        parts += of_one if of_one > 2 else 0  # 1.5 is not a key
        if of_one > MOST_PARTS or parts > MOST_PARTS_IN_ALL:
            break
    else:
        return
    most = f"{MOST_PARTS_IN_ALL:,} in all" if of_one <= MOST_PARTS else f"{MOST_PARTS}"
    raise InputError(f"a dotted key has {of_one:,} parts, and keys may have {most}")


def _check(value: Any) -> None:
    """Raise InputError for what is nested too deep, and for integers of too many digits."""
    level, depth = [("an integer", value)], 0
    while level:
        if depth > MOST_DEPTH:
            raise InputError(_DEEP)
        inside: list[tuple[str, Any]] = []
        for key, one in level:
            if isinstance(one, dict):
                inside += one.items()
            elif isinstance(one, list):
                inside += ((key, x) for x in one)
            elif isinstance(one, int) and abs(one) >= _MOST:
                raise InputError(f"{key} {_LONG}")
        level, depth = inside, depth + 1


_MOST = 10**MOST_DIGITS
