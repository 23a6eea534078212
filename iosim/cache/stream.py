"""A stream of accesses: what a program references, in order, in chunks of arrays.

An access is one unit (a word, unless said otherwise) that is read or written once.  Streams are
iterated as often as one likes and take no memory of their own length.

`of_program` and `iosim.cache.files` make streams; all replays read them.  The fields of `Stream`
and `Accesses` are public.  ``tests/cache/test_cache_streams.py`` compares what they refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from iosim.base.arrays import Bools, Ints
from iosim.base.errors import InputError

Unit = Literal["words", "rows", "lines"]
UNITS: tuple[Unit, ...] = ("words", "rows", "lines")

# Accesses in one chunk, by default.
CHUNK = 2**18


class Accesses(NamedTuple):
    """One chunk of a stream: two arrays of one length.

    Attributes:
        address: int64, which unit; at least 0 and less than the stream's `addresses`.
        write: bool, whether it is written; otherwise it is read.

    >>> from iosim.cache import of_arrays
    >>> chunk = next(of_arrays([5, 6, 5], [False, True, False]).chunks())
    >>> chunk.address.tolist(), chunk.write.tolist()
    ([5, 6, 5], [False, True, False])
    """

    address: Ints
    write: Bools


@dataclass(frozen=True, slots=True)
class Region:
    """Where a tensor or a local array lies in the address space of a stream.

    Attributes:
        name: of the tensor, or of the buffer.
        start: the first address, in the stream's unit.
        words: how many words it covers.
        scratch: whether it is a local array of the program, and no tensor.
        unit_words: how many words one address stands for.

    >>> import iosim
    >>> from iosim.cache import touches
    >>> flash2 = iosim.algorithm("flash2").program
    >>> instance = iosim.bind(flash2, {"N": 8, "d": 2, "heads": 1}, {"B_r": 4, "B_c": 2})
    >>> touches(instance).regions[0]
    Region(name='Q', start=0, words=16, scratch=False, unit_words=1)
    """

    name: str
    start: int
    words: int
    scratch: bool = False
    unit_words: int = 1

    @property
    def units(self) -> int:
        """How many addresses it takes."""
        return -(-self.words // self.unit_words)

    @property
    def stop(self) -> int:
        """The address after its last."""
        return self.start + self.units


@dataclass(frozen=True)
class Stream:
    """Accesses in order of execution.

    Attributes:
        chunks: makes a new iterator over all chunks, from the first access on.
        addresses: the size of the address space, which starts at 0.
        length: how many accesses there are in all.
        regions: tensors in the program's order, then local arrays; none of a trace that was read.
        unit: what an address stands for.
        line_words: of words, what regions are aligned to: no line of this many words has words of
            two regions.  Of lines, how long one is.

    >>> stream = of_arrays([0, 1, 0], [False, False, True])
    >>> stream.length, stream.addresses
    (3, 2)
    >>> [chunk.address.tolist() for chunk in stream.chunks()]
    [[0, 1, 0]]
    """

    chunks: Callable[[], Iterator[Accesses]]
    addresses: int
    length: int
    regions: tuple[Region, ...] = ()
    unit: Unit = "words"
    line_words: int = 1

    def region(self, name: str) -> Region:
        """The region of a tensor, or of a local array; InputError if there is none."""
        for region in self.regions:
            if region.name == name:
                return region
        known = ", ".join(region.name for region in self.regions) or "none"
        raise InputError(f"the stream has no region {name!r}: known: {known}")


def of_arrays(
    address: ArrayLike,
    write: ArrayLike | None = None,
    *,
    addresses: int | None = None,
    chunk: int = CHUNK,
) -> Stream:
    """A stream of accesses that are at hand as arrays.

    Args:
        address: whole numbers, at least 0.
        write: as many marks; none: all are reads.
        addresses: the size of the address space; none: up to the largest address.
        chunk: accesses in one chunk.

    Raises InputError for numbers that are not addresses, and marks of another length.

    >>> stream = of_arrays([5, 6, 5], [False, True, False])
    >>> stream.length, stream.addresses
    (3, 7)
    """
    at = np.asarray(address)
    if at.ndim != 1 or (at.size and at.dtype.kind not in "iu"):
        raise InputError(
            f"addresses of dtype {at.dtype} and shape {at.shape}: give whole numbers in a row"
        )
    if at.size and int(at.max()) >= 2**62:
        raise InputError(f"address {at.max()} is too large: give addresses below 2**62")
    at = at.astype(np.int64)
    marks = np.zeros(at.shape, bool) if write is None else np.asarray(write)
    if marks.shape != at.shape:
        raise InputError(
            f"{at.size} addresses and marks of shape {marks.shape}: give one mark for each"
        )
    if marks.size and (marks.dtype.kind not in "biu" or not np.isin(marks, (0, 1)).all()):
        raise InputError(
            f"marks like {marks.reshape(-1)[0]!r}: give True or 1 for a write, False or 0 for a "
            "read"
        )
    marks = marks.astype(bool)
    if at.size and at.min() < 0:
        raise InputError(f"address {at.min()} is below 0: give addresses from 0 on")
    most = int(at.max(initial=-1)) + 1
    if addresses is not None and addresses < most:
        raise InputError(f"address {most - 1} in a space of {addresses}: give {most} or more")

    def chunks() -> Iterator[Accesses]:
        for first in range(0, at.size, chunk):
            yield Accesses(at[first : first + chunk], marks[first : first + chunk])

    return Stream(chunks, most if addresses is None else addresses, at.size)


def check_stream(given: Any) -> None:
    """Raise InputError for what is not a stream."""
    if not isinstance(given, Stream):
        raise InputError(
            f"{type(given).__name__} is not a stream of accesses: make one with touches(), "
            "transfers(), of_arrays() or read_trace()"
        )


def recut(accesses: Iterable[Accesses], chunk: int) -> Iterator[Accesses]:
    """The same accesses in chunks of a given length; the last one may be short."""
    held: list[Accesses] = []
    have = 0
    for part in accesses:
        while part.address.size:
            take = min(chunk - have, part.address.size)
            held.append(Accesses(part.address[:take], part.write[:take]))
            part = Accesses(part.address[take:], part.write[take:])
            have += take
            if have == chunk:
                yield _joined(held)
                held, have = [], 0
    if have:
        yield _joined(held)


def _joined(parts: list[Accesses]) -> Accesses:
    if len(parts) == 1:
        return parts[0]
    return Accesses(
        np.concatenate([part.address for part in parts]),
        np.concatenate([part.write for part in parts]),
    )
