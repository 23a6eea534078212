"""Streams of programs against a walker that goes word by word in plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from touch_oracle import Walker

import iosim
from iosim.cache import Stream, Tiled, touches, transfers
from iosim.program.walk import Instance

UNITS = [
    {},
    {"line_words": 8},
    {"unit": "rows"},
    {"unit": "lines", "line_words": 4},
    {"unit": "lines", "line_words": 5},
]
DENSE = ["naive", "flash1", "flash2", "small_cache", "flash2_chunked", "flash2_keep", "spill_rows"]


def joined(stream: Stream) -> tuple[list[int], list[bool]]:
    """Addresses and marks of a whole stream."""
    parts = list(stream.chunks())
    return (
        [x for part in parts for x in part.address.tolist()],
        [x for part in parts for x in part.write.tolist()],
    )


def agree(instance: Instance, moves: bool = False, chunk: int = 2**18, **asked: Any) -> Stream:
    """The stream of an instance, which is what the walker finds."""
    stream = (transfers if moves else touches)(instance, chunk=chunk, **asked)
    oracle = Walker(
        instance,
        moves,
        asked.get("layouts"),
        asked.get("unit", "words"),
        asked.get("line_words", 1),
        asked.get("positions"),
    )
    start = {("array" if r.scratch else "tensor", r.name): r.start for r in stream.regions}
    address, write = joined(stream)
    assert address == [start[kind, name] + at for kind, name, at, _ in oracle.found]
    assert write == [written for *_, written in oracle.found]
    assert stream.length == len(address)
    assert all(part.address.size == chunk for part in list(stream.chunks())[:-1])
    check_regions(stream, instance, oracle, asked.get("line_words", 1))
    return stream


def check_regions(stream: Stream, instance: Instance, oracle: Any, line: int) -> None:
    tensors = [r.name for r in stream.regions if not r.scratch]
    assert tensors == [tensor.name for tensor in instance.program.tensors]
    ends = [0, *(r.stop for r in stream.regions)]
    assert all(r.start >= end for r, end in zip(stream.regions, ends, strict=False))
    assert stream.addresses == max(ends)
    if stream.unit == "words":
        assert all(r.start % line == 0 for r in stream.regions)
        assert {r.name: r.words for r in stream.regions if r.scratch} == oracle.largest


def tiles(algorithm: Any, size: int) -> dict[str, int]:
    return {p.name: max(p.least, size - (p.least == 0)) for p in algorithm.program.params}


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_dense_schedules(name: str, size: int) -> None:
    algorithm = iosim.algorithm(name)
    problem = iosim.Attention(N=7, d=5, heads=2)
    instance = iosim.bind(algorithm.program, problem.sizes, tiles(algorithm, size))
    for asked in UNITS:
        agree(instance, **asked)
        agree(instance, moves=True, **asked)


@pytest.mark.parametrize("chunk", [1, 2, 7, 64])
def test_chunks_say_the_same_wherever_they_are_cut(chunk: int) -> None:
    algorithm = iosim.algorithm("flash2_chunked")
    instance = iosim.bind(algorithm.program, iosim.Attention(N=7, d=5).sizes, tiles(algorithm, 3))
    for asked in UNITS:
        agree(instance, chunk=chunk, **asked)
        agree(instance, chunk=chunk, moves=True, **asked)


@pytest.mark.parametrize(
    "how", ["row-major", "column-major", Tiled(1, 1), Tiled(2, 3), Tiled(9, 4)]
)
@pytest.mark.parametrize("name", ["flash2", "naive", "flash2_keep"])
def test_layouts(name: str, how: Any) -> None:
    algorithm = iosim.algorithm(name)
    problem = iosim.Attention(N=7, d=5, heads=2)
    instance = iosim.bind(algorithm.program, problem.sizes, tiles(algorithm, 3))
    some = ["K"] if name == "flash2" else [tensor.name for tensor in algorithm.program.tensors]
    layouts = dict.fromkeys(some, how)
    for asked in UNITS:
        if isinstance(how, Tiled) and asked.get("unit") == "rows":
            continue
        agree(instance, layouts=layouts, **asked)
        agree(instance, moves=True, layouts=layouts, **asked)


def test_the_tally_of_transfers_is_the_count() -> None:
    algorithm = iosim.algorithm("naive")
    problem = iosim.Attention(N=50, d=6, heads=2)
    instance = iosim.bind(algorithm.program, problem.sizes, tiles(algorithm, 7))
    stream = transfers(instance)
    found: dict[Any, int] = {}
    for part in stream.chunks():
        for region in stream.regions:
            inside = (part.address >= region.start) & (part.address < region.stop)
            for way, marks in (("load", ~part.write), ("store", part.write)):
                key = way, region.name
                found[key] = found.get(key, 0) + int(np.count_nonzero(inside & marks))
    counted = {key: words for key, words in iosim.count(instance) if words}
    assert {key: words for key, words in found.items() if words} == counted
