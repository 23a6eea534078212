"""`TraceForm`, the record of a format of traces, and what formats share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from iosim.base.arrays import Bools
from iosim.base.errors import InputError
from iosim.cache.stream import Accesses, Stream


@dataclass(frozen=True)
class TraceForm:
    """A format.

    Attributes:
        name: by which it is chosen.
        ends: what paths end in.
        write: a stream to a path.
        read: the stream of a path, with this many addresses in a line and accesses in a chunk.
        magic: how such files begin, where they say so.

    >>> from iosim.cache.files import trace_form
    >>> trace_form("csv").ends
    ('.csv',)
    """

    name: str
    ends: tuple[str, ...]
    write: Callable[[Stream, Path], None]
    read: Callable[[Path, int, int], Stream]
    magic: bytes = b""


def cannot(what: str, path: Path, error: OSError) -> InputError:
    """The one line for a path that can't be read or written."""
    return InputError(f"cannot {what} {str(path)!r}: {error.strerror or error}")


class Numbers(NamedTuple):
    """Accesses as a foreign trace has them: any number is an address."""

    number: NDArray[np.uint64]
    write: Bools


Records: TypeAlias = Callable[[], Iterator[Numbers]]

# Distinct numbers that are put in order at once.
_AT_ONCE = 2**22


def numbered(records: Records, line_words: int) -> Stream:
    """The stream of a foreign trace, read once to see which addresses there are.

    Addresses stay as they are where at least a quarter of them is used, or they are few; others
    are numbered in their order.

    Args:
        records: makes an iterator over chunks of records.
        line_words: how many neighboring addresses are one.
    """
    distinct, length = _distinct(records, line_words)
    most = int(distinct[-1]) + 1 if distinct.size else 0
    kept = most <= max(2**16, 4 * distinct.size)

    def chunks() -> Iterator[Accesses]:
        for part in records():
            number = part.number // np.uint64(line_words)
            at = number.astype(np.int64) if kept else np.searchsorted(distinct, number)
            yield Accesses(at, part.write)

    return Stream(
        chunks,
        most if kept else distinct.size,
        length,
        unit="words" if line_words == 1 else "lines",
        line_words=line_words,
    )


def _distinct(records: Records, line_words: int) -> tuple[NDArray[np.uint64], int]:
    found = np.zeros(0, np.uint64)
    held: list[NDArray[np.uint64]] = []
    length = 0
    for part in records():
        length += part.number.size
        held.append(np.unique(part.number // np.uint64(line_words)))
        if sum(x.size for x in held) > _AT_ONCE:
            found, held = np.unique(np.concatenate([found, *held])), []
    return np.unique(np.concatenate([found, *held])), length
