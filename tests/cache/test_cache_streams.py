"""Streams as records: what they refuse, and how they are cut."""

from __future__ import annotations

import numpy as np
import pytest

from iosim.base.errors import InputError
from iosim.cache import Region, of_arrays
from iosim.cache.stream import recut


@pytest.mark.parametrize("chunk", [1, 2, 7, 100])
def test_arrays_come_back_in_chunks(chunk: int) -> None:
    address = np.arange(23) % 5
    stream = of_arrays(address, address == 3, chunk=chunk)
    parts = list(stream.chunks())
    assert (stream.length, stream.addresses) == (23, 5)
    assert [part.address.size for part in parts][:-1] == [chunk] * ((23 - 1) // chunk)
    assert np.concatenate([part.address for part in parts]).tolist() == address.tolist()
    assert np.concatenate([part.write for part in parts]).tolist() == (address == 3).tolist()
    again = list(recut(stream.chunks(), 4))
    assert [part.address.size for part in again] == [4, 4, 4, 4, 4, 3]
    assert np.concatenate([part.address for part in again]).tolist() == address.tolist()
    assert np.concatenate([part.write for part in again]).tolist() == (address == 3).tolist()


def test_no_access_at_all() -> None:
    stream = of_arrays([])
    assert (stream.length, stream.addresses, list(stream.chunks())) == (0, 0, [])


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (([0.5],), "float64"),
        (([[1]],), r"shape \(1, 1\)"),
        (([1, -2],), "address -2 is below 0"),
        (([1, 2], [True]), r"2 addresses and marks of shape \(1,\)"),
    ],
)
def test_what_is_no_stream_is_refused(given: tuple[list[float], ...], line: str) -> None:
    with pytest.raises(InputError, match=line):
        of_arrays(*given)


def test_a_space_too_small_is_refused() -> None:
    with pytest.raises(InputError, match="address 4 in a space of 3"):
        of_arrays([4], addresses=3)


def test_regions() -> None:
    assert (Region("Q", 2, 10, unit_words=4).units, Region("Q", 2, 10, unit_words=4).stop) == (3, 5)
    with pytest.raises(InputError, match="no region 'Q': known: none"):
        of_arrays([1]).region("Q")
