"""Streams of programs against a walker that goes word by word in plain loops."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sizes import examples
from strategies import (
    Square,
    attention_programs,
    dependent_schedules,
    problems,
    random_schedules,
    split_schedules,
    stacked_copies,
)
from touch_oracle import Walker

import iosim
from iosim.base.compiled import available
from iosim.base.errors import InputError
from iosim.cache import (
    Stream,
    Tiled,
    boxes,
    of_program,
    templates,
    touches,
    trace_chunks,
    trace_walk,
    transfers,
)
from iosim.core.problem import BlockSparse, PagedAttention
from iosim.core.program.block_masks import masks
from iosim.core.program.walk import Instance

pytestmark = pytest.mark.numbers

UNITS = [
    {},
    {"line_words": 8},
    {"unit": "rows"},
    {"unit": "lines", "line_words": 4},
    {"unit": "lines", "line_words": 5},
]
DENSE = [
    "naive",
    "flash1",
    "flash2",
    "small_cache",
    "flash2_chunked",
    "flash2_keep",
    "spill_rows",
    "flash2_log",
    "flash2_parts",
    "small_tiles",
]


# Small ones too: small programs then meet templates that are too large, and pieces.  And compiled
# loops, which short streams don't get, with as little room.
LIMITS = ("large", "small", "compiled")


@contextlib.contextmanager
def limited(kind: str) -> Iterator[None]:
    """Streams are made with these limits."""
    with pytest.MonkeyPatch.context() as patch:
        if kind == "compiled":
            assert available(), "numba is in the extra test: pip install 'iosim[test]'"
            patch.setattr(of_program, "worth", lambda accesses: True)
            patch.setattr(boxes, "POOL", 64)
            patch.setattr(boxes, "PHASES", 8)
        if kind != "large":
            patch.setattr(templates, "LIMIT", 40)
            patch.setattr(templates, "WIDE", 60)
            patch.setattr(templates, "KEPT", 300)
            patch.setattr(trace_walk, "TOGETHER", 3)
            patch.setattr(trace_chunks, "AT_ONCE", 100)
        yield


def joined(stream: Stream, chunk: int | None = None) -> tuple[list[int], list[bool]]:
    """Addresses and marks of a whole stream, whose chunks but the last are all as long as said."""
    parts = list(stream.chunks())
    assert chunk is None or all(part.address.size == chunk for part in parts[:-1])
    return (
        [x for part in parts for x in part.address.tolist()],
        [x for part in parts for x in part.write.tolist()],
    )


def agree(instance: Instance, moves: bool = False, chunk: int = 2**18, **asked: Any) -> None:
    """The stream of an instance is what the walker finds, with each of the limits."""
    oracle = Walker(
        instance,
        moves,
        asked.get("layouts"),
        asked.get("unit", "words"),
        asked.get("line_words", 1),
        asked.get("positions"),
    )
    for kind in LIMITS:
        with limited(kind):
            stream = (transfers if moves else touches)(instance, chunk=chunk, **asked)
            start = {("array" if r.scratch else "tensor", r.name): r.start for r in stream.regions}
            address, write = joined(stream, chunk)
            assert address == [start[of, name] + at for of, name, at, _ in oracle.found]
            assert write == [written for *_, written in oracle.found]
            assert stream.length == len(address)
            check_regions(stream, instance, oracle, asked.get("line_words", 1))


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
@pytest.mark.parametrize(("N", "d"), [(5, 3), pytest.param(7, 5, marks=pytest.mark.slow)])
def test_dense_schedules(name: str, size: int, N: int, d: int) -> None:
    algorithm = iosim.algorithm(name)
    problem = iosim.Attention(N=N, d=d, heads=2)
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
@pytest.mark.parametrize(("N", "d"), [(5, 4), pytest.param(7, 5, marks=pytest.mark.slow)])
def test_layouts(name: str, how: Any, N: int, d: int) -> None:
    algorithm = iosim.algorithm(name)
    problem = iosim.Attention(N=N, d=d, heads=2)
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


@pytest.mark.parametrize("size", [21, 41, 61])
@pytest.mark.parametrize("line", [1, 3])
def test_the_rest_of_a_box_that_is_cut_may_be_one_word(size: int, line: int) -> None:
    """Boxes are cut after 20 words where they are large (`limited`)."""
    program = iosim.algorithm("flash2").program
    instance = iosim.bind(program, iosim.Attention(N=2 * size, d=1).sizes, {"B_r": size, "B_c": 2})
    agree(instance, unit="lines", line_words=line, layouts={"K": Tiled(2, 1)})
    agree(instance, moves=True, unit="lines", line_words=line, layouts={"K": Tiled(2, 1)})


@pytest.mark.parametrize("kind", LIMITS)
def test_tiles_of_one_word_more_than_boxes_are_cut_at(kind: str) -> None:
    """Of a stream that is compiled because it is long."""
    size, line = 2**16 + 1, 3
    program = iosim.algorithm("copy").program
    instance = iosim.bind(program, {"n": 2 * size}, {"B": size})
    with limited(kind):
        lines = touches(instance, unit="lines", line_words=line)
        expected: list[int] = []
        for tile in (range(size), range(size, 2 * size)):
            for region in lines.regions:
                expected += dict.fromkeys(region.start + k // line for k in tile)
        assert joined(lines)[0] == expected
        assert lines.length == len(expected)


@given(st.data())
@examples(1 / 2)
def test_parts_of_local_arrays_that_do_not_start_at_0(data: st.DataObject) -> None:
    def schedule(b: Any) -> None:
        B, C = b.tile_sizes("n", "B", "C")
        (D,) = b.tile_sizes("m", "D")
        W = b.stationary("n", "W")
        for x in b.tiles("m", D):
            o = b.zeros("o", b.span("n", W), x)
            for i in b.tiles("n", B, W):
                b.op("zero", o[i])
            b.free(o)
            for j in b.tiles("n", C):
                a = b.load("A", b.span("n", j.start), x)
                c = b.zeros("c", b.span("n", j.start), x)
                for i in b.tiles("n", B, j.start):
                    m, l = b.zeros("m", i), b.zeros("l", i)
                    b.op("online_weights", c[i], m, l, a[i])
                    b.free(m, l)
                b.free(a, c)

    program = iosim.build("parts", Square, schedule)
    sizes = {axis: data.draw(st.integers(1, 7), label=axis) for axis in "nm"}
    names = {p.name: data.draw(st.integers(p.least, 5), label=p.name) for p in program.params}
    instance = iosim.bind(program, sizes, names)
    agree(instance, **data.draw(asked_for(instance)))


@st.composite
def asked_for(draw: st.DrawFn, instance: Instance) -> dict[str, Any]:
    """What a stream may be asked for: a unit, lines, layouts, chunks, transfers."""
    asked: dict[str, Any] = {
        "chunk": draw(st.sampled_from([1, 5, 64, 2**18]), label="chunk"),
        "moves": draw(st.booleans(), label="moves"),
        "unit": draw(st.sampled_from(["words", "rows", "lines"]), label="unit"),
        "line_words": draw(st.integers(1, 9), label="line"),
    }
    how: list[Any] = ["row-major", "column-major"]
    if asked["unit"] != "rows":
        how += [Tiled(2, 2), Tiled(3, 1), Tiled(1, 4)]
    names = [tensor.name for tensor in instance.program.tensors]
    asked["layouts"] = draw(st.dictionaries(st.sampled_from(names), st.sampled_from(how)))
    if asked["unit"] == "rows":
        asked["line_words"] = 1
    return asked


@given(attention_programs(most=6), st.data())
@examples(3 / 5)
def test_every_attention_schedule_with_all_options(drawn: Any, data: st.DataObject) -> None:
    algorithm, problem, given_tiles = drawn
    instance = iosim.bind(algorithm.program_for(problem), problem.sizes, given_tiles)
    agree(instance, **data.draw(asked_for(instance)))


@given(
    random_schedules(mixed=True)
    | dependent_schedules()
    | dependent_schedules(lanes=True)
    | split_schedules()
    | stacked_copies(),
    st.data(),
)
@examples(6 / 5)
def test_random_programs(drawn: Any, data: st.DataObject) -> None:
    try:
        instance = iosim.bind(*drawn)
    except InputError:
        assume(False)
    agree(instance, **data.draw(asked_for(instance)))


@given(problems(BlockSparse, 6), st.data())
@examples(3 / 10)
def test_block_masks(problem: Any, data: st.DataObject) -> None:
    program = iosim.algorithm("block_sparse").program_for(problem)
    given_tiles = {p.name: data.draw(st.integers(1, 7), label=p.name) for p in program.params}
    env = problem.sizes | {
        p.name: min(given_tiles[p.name], problem.sizes[p.axis]) for p in program.params
    }
    (shape,) = (tuple(side.count(env) for side in sides) for sides in masks(program).values())
    seed = data.draw(st.integers(0, 99))
    mask = np.random.default_rng(seed).random(shape) < 0.6
    instance = iosim.bind(program, problem.sizes, given_tiles, {"blocks": mask})
    agree(instance, **data.draw(asked_for(instance)))


@given(st.data())
@examples(3 / 10)
def test_paged(data: st.DataObject) -> None:
    draw = data.draw
    causal = draw(st.booleans(), label="causal")
    problem = PagedAttention(
        N=draw(st.integers(1, 4)),
        d=3,
        heads=4,
        kv_heads=2,
        batch=2,
        N_k=draw(st.integers(4, 9)),
        page=draw(st.integers(1, 4)),
        **({"causal": True} if causal else {}),
    )
    program = iosim.algorithm("paged").program_for(problem)
    instance = iosim.bind(program, problem.sizes, {"B_r": draw(st.integers(1, 4))})
    shape = tuple(instance.env[axis] for axis in program.tensor("table").axes)
    table = np.random.default_rng(draw(st.integers(0, 9))).integers(
        instance.env["pages"], size=shape
    )
    agree(instance, positions={"table": table}, **data.draw(asked_for(instance)))


def test_paged_asks_for_its_table() -> None:
    problem = PagedAttention(N=1, d=3, heads=1, kv_heads=1, batch=1, N_k=4, page=2)
    instance = iosim.bind(iosim.algorithm("paged").program_for(problem), problem.sizes, {"B_r": 1})
    with pytest.raises(InputError, match="reads where table says, which is data: in Python, give"):
        touches(instance)
    with pytest.raises(InputError, match=r"table\[0, 1\] = 9 is not a position on pages"):
        touches(instance, positions={"table": [[0, 9]]})
    with pytest.raises(InputError, match="reads no positions from 'Q'"):
        touches(instance, positions={"Q": [[0, 9]], "table": [[0, 1]]})


@pytest.mark.parametrize("name", ["flash2", "naive", "split_kv"])
def test_lengths_of_large_streams_are_known_without_them(name: str) -> None:
    """Transfers of 5·10¹⁰ words (flash2): as many as the closed forms count."""
    problem = iosim.Attention(N=100_003, d=64, heads=3, causal=True, N_k=100_003)
    algorithm = iosim.algorithm(name)
    program = algorithm.program_for(problem)
    names = {p.name: p.least + 40 + 7 * k for k, p in enumerate(program.params)}
    instance = iosim.bind(program, problem.sizes, names)
    counted = iosim.count(instance).total_words
    for kind in LIMITS:
        with limited(kind):
            assert transfers(instance).length == counted < touches(instance).length


@pytest.mark.parametrize("name", ["flash2", "split_kv", "matmul", "naive", "flash2_chunked"])
def test_lengths_in_lines_are_counted_by_phase(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tiles that no line begins with: without the stream."""

    def refuse(*_: Any, **__: Any) -> int:
        raise AssertionError("the stream is made to be counted")

    monkeypatch.setattr(of_program, "length_of", refuse)
    algorithm = iosim.algorithm(name)
    layouts: dict[str, Any] = {"B" if name == "matmul" else "K": Tiled(5, 7)}
    if name == "matmul":
        problems_: list[Any] = [iosim.MatMul(m=9, n=13, k=11), iosim.MatMul(m=5003, n=4001, k=303)]
    else:
        causal = {"causal": True} if name != "flash2_chunked" else {}
        problems_ = [iosim.Attention(N=N, d=6, heads=2, N_k=N, **causal) for N in (13, 1_503)]
    for problem in problems_:
        program = algorithm.program_for(problem)
        names = {p.name: p.least + 2 + k for k, p in enumerate(program.params)}
        instance = iosim.bind(program, problem.sizes, names)
        for how in ({}, layouts):
            if problem is problems_[0]:
                agree(instance, unit="lines", line_words=4, layouts=how)
            else:
                for kind in LIMITS:
                    with limited(kind):
                        lines = touches(instance, unit="lines", line_words=4, layouts=how)
                        words = touches(instance)
                        assert words.length / 4 < lines.length < words.length


def test_what_is_no_stream_is_refused_in_one_line() -> None:
    program = iosim.algorithm("copy").program
    instance = iosim.bind(program, {"n": 3}, {"B": 2})
    cases: list[tuple[dict[str, Any], str]] = [
        ({"unit": "miles"}, "unknown unit 'miles'"),
        ({"line_words": 0}, "line_words = 0 is outside"),
        ({"chunk": 0}, "chunk = 0 is outside"),
        ({"layouts": {"Z": "row-major"}}, "a layout for 'Z': known: X, Y"),
        ({"layouts": {"X": "rowmajor"}}, "unknown layout 'rowmajor': did you mean 'row-major'"),
        ({"layouts": {"X": "tiled:0x3"}}, "rows of a block = 0 is outside"),
        ({"layouts": {"X": "tiled:3"}}, "unknown layout 'tiled:3': write it like tiled:8x4"),
        ({"layouts": {"X": 3}}, "layout 3 of X: give row-major, column-major or Tiled"),
    ]
    for asked, line in cases:
        for stream in (touches, transfers):
            with pytest.raises(InputError) as caught:
                stream(instance, **asked)
            assert str(caught.value).startswith(line)
            assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="a stream of Program: bind"):
        touches(program)  # type: ignore[arg-type]
    problem = iosim.Attention(N=7, d=5)
    flash2 = iosim.bind(iosim.algorithm("flash2").program, problem.sizes, {"B_r": 2, "B_c": 2})
    with pytest.raises(InputError, match="K is tiled and has no rows that lie in order"):
        touches(flash2, unit="rows", layouts={"K": Tiled(2, 2)})


def test_more_than_64_bits_is_refused() -> None:
    naive, copy = (iosim.algorithm(name).program for name in ("naive", "copy"))
    tiles_of = {p.name: 2**39 for p in naive.params}
    with pytest.raises(InputError, match="more than"):
        touches(iosim.bind(naive, {"N": 2**40, "d": 1, "heads": 1}, tiles_of))
    assert touches(iosim.bind(copy, {"n": 2**40}, {"B": 2**20})).length == 2**41


def test_rows_are_as_long_as_the_layout_says() -> None:
    instance = iosim.bind(
        iosim.algorithm("flash2").program, iosim.Attention(N=7, d=5).sizes, {"B_r": 3, "B_c": 3}
    )
    stream = touches(instance, unit="rows", layouts={"K": "column-major"})
    assert [stream.region(name).unit_words for name in ("Q", "K", "V")] == [5, 7, 5]
    assert [stream.region(name).units for name in ("Q", "K", "V")] == [7, 5, 7]


@pytest.mark.parametrize("asked", [{}, {"unit": "rows"}, {"unit": "lines", "line_words": 32}])
@pytest.mark.parametrize(("B_r", "B_c"), [(64, 64), (128, 64), (256, 256)])
def test_addresses_of_large_tiles_are_made_once(
    B_r: int, B_c: int, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in each of 64 or more iterations of two loops, however large an operand is."""
    made = []
    part = templates.Templates._part
    monkeypatch.setattr(
        templates.Templates, "_part", lambda self, *given: made.append(0) or part(self, *given)
    )
    problem = iosim.Attention(N=2048, d=64)
    program = iosim.algorithm("flash2").program_for(problem)
    stream = touches(iosim.bind(program, problem.sizes, {"B_r": B_r, "B_c": B_c}), **asked)
    assert sum(chunk.address.size for chunk in stream.chunks()) == stream.length
    assert len(made) < 100
