"""Whole tiles replayed against the stream of words: the same traffic at every capacity."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sizes import examples
from strategies import attention_programs, dependent_schedules, random_schedules, split_schedules
from test_cache_closed import ALWAYS, draw_instance

import iosim
from iosim.base import memory
from iosim.base.errors import InputError
from iosim.cache import Cache, progress, replay_many, tiles, touches
from iosim.cache.curves import curve
from iosim.cache.of_program import count
from iosim.cache.tiles import Passes, lru, lru_at, opt, passes
from iosim.core.program import space

pytestmark = pytest.mark.numbers


def held_to_words(instance: iosim.Instance, data: Any, **positions: Any) -> Passes:
    """Passes whose traffic is that of words, one by one."""
    stream = touches(instance, **positions)
    assume(stream.length <= 20_000)
    found = passes(instance, **positions)
    assert found.accesses == stream.length
    rooms = st.lists(st.integers(1, stream.addresses + 2), min_size=1, max_size=4)
    some = sorted({1, 2, stream.addresses or 1, *data.draw(rooms)})
    of_words = replay_many(stream, [Cache(capacity=c) for c in some], fast=False)
    assert lru_at(found, some) == of_words
    best = [Cache(capacity=c, policy="opt", bypass=True) for c in some]
    assert [opt(found, c) for c in some] == replay_many(stream, best, fast=False)
    return found


@pytest.mark.parametrize("name", ALWAYS)
@given(data=st.data())
@examples(1 / 4)
def test_tiles_are_replayed_as_their_words_are(name, data):
    program, sizes, tiles = draw_instance(data, name, most=7)
    instance = iosim.bind(program, sizes, tiles)
    by_words, by_tiles = curve(touches(instance)), lru(held_to_words(instance, data))
    for capacity in {*range(1, 60), *by_words.capacities.tolist()}:
        step = by_words.step(capacity)
        assert by_tiles.loads_at(capacity) == by_words.loads[step], capacity
        assert by_tiles.misses[by_tiles.step(capacity)] == by_words.misses[step], capacity


@given(attention_programs(most=6), st.data())
@examples(4 / 5)
def test_masks_windows_and_what_cuts_tensors_in_several_ways(drawn: Any, data: st.DataObject):
    algorithm, problem, given_tiles = drawn
    held_to_words(iosim.bind(algorithm.program_for(problem), problem.sizes, given_tiles), data)


@given(random_schedules(mixed=True) | dependent_schedules() | split_schedules(), st.data())
@examples(4 / 5)
def test_random_programs(drawn: Any, data: st.DataObject):
    try:
        instance = iosim.bind(*drawn)
    except InputError:
        assume(False)
    held_to_words(instance, data)


@given(st.data())
@examples(1 / 5)
def test_pages(data: st.DataObject):
    problem = iosim.core.problem.PagedAttention(
        N=1, d=3, heads=2, kv_heads=1, batch=2, N_k=7, page=data.draw(st.integers(1, 4))
    )
    program = iosim.algorithm("paged").program_for(problem)
    instance = iosim.bind(program, problem.sizes, {"B_r": data.draw(st.integers(1, 3))})
    shape = tuple(instance.env[axis] for axis in program.tensor("table").axes)
    table = np.random.default_rng(data.draw(st.integers(0, 9))).integers(
        instance.env["pages"], size=shape
    )
    held_to_words(instance, data, positions={"table": table})


def test_a_dense_tile_is_one_pass():
    """Boxes of many rows that no other box cuts stay whole."""
    sizes, b = dict.fromkeys("mnk", 16), dict.fromkeys(("B_m", "B_n", "B_k"), 4)
    instance = iosim.bind(iosim.algorithm("matmul").program, sizes, b)
    found = passes(instance)
    assert len(found.tile) == count(instance)
    assert set(found.words.tolist()) == {16}


def test_too_many_passes_are_refused_before_they_are_made():
    sizes, tiles = {"N": 10**6, "d": 64, "heads": 1}, {"B_r": 1, "B_c": 1}
    with pytest.raises(InputError, match="larger tiles, or replay its stream") as caught:
        passes(iosim.bind(iosim.algorithm("flash2").program, sizes, tiles))
    assert "closed form" not in str(caught.value)  # OPT has none


def test_passes_that_are_too_many_once_cut_are_refused(monkeypatch):
    of = iosim.Attention(N=9, d=2, causal=True)
    program = iosim.algorithm("flash2").program_for(of)
    instance = iosim.bind(program, of.sizes, {"B_r": 2, "B_c": 3})
    monkeypatch.setattr(tiles, "MOST_PASSES", count(instance))
    with pytest.raises(InputError, match="passes over tiles, more than"):
        passes(instance)
    monkeypatch.undo()
    monkeypatch.setattr(memory, "free_bytes", lambda: 1000)
    with pytest.raises(InputError, match=r"held at once, 0\.0 GB, and 0\.0 GB"):
        passes(instance)


@pytest.mark.parametrize("seed", range(40))
def test_seeded_instances(seed: int):
    """The same without shrinking, so that what breaks is seen in seconds."""
    draw = np.random.default_rng(seed)
    name = ("flash1", "flash2", "decode", "matmul", "naive", "flash2_chunked")[seed % 6]
    program = iosim.algorithm(name).program
    sizes = {axis: int(draw.integers(1, 7)) for axis in space.axes(program)}
    names = {p.name: int(draw.integers(p.least, 6)) for p in program.params}
    instance = iosim.bind(program, sizes, names)
    stream, found = touches(instance), passes(instance)
    some = sorted({1, 2, 5, *draw.integers(1, stream.addresses + 3, 6).tolist()})
    best = [Cache(capacity=c, policy="opt", bypass=True) for c in some]
    assert lru_at(found, some) == replay_many(stream, [Cache(capacity=c) for c in some], fast=False)
    assert [opt(found, c) for c in some] == replay_many(stream, best, fast=False)


def test_how_far_it_is_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of each function: they rise, and end with all."""
    monkeypatch.setattr(progress, "AT_ONCE", 100)
    sizes, b = {"N": 64, "d": 8, "heads": 1}, {"B_r": 16, "B_c": 8}
    instance = iosim.bind(iosim.algorithm("flash2").program, sizes, b)
    found, many = passes(instance), count(instance)
    for what in (
        lambda watch: passes(instance, watch=watch),
        lambda watch: lru(found, watch=watch),
        lambda watch: lru_at(found, [7, 99], watch=watch),
        lambda watch: opt(found, 99, watch=watch),
    ):
        told: list[tuple[int, int]] = []
        what(lambda done, of, told=told: told.append((done, of)))
        assert len(told) >= 4
        assert sorted(set(told)) == told
        assert told[-1] == (many, many)
        assert {of for _, of in told} == {many}


def test_replays_in_parts_are_replays_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is out of date in OPT's heap may go at any time."""
    draw = np.random.default_rng(4)
    made = Passes(draw.integers(30, size=700), draw.random(700) < 0.3, draw.integers(1, 9, size=30))
    rooms = [1, 5, 40, 90, 1000]
    whole = lru_at(made, rooms), [opt(made, c) for c in rooms]
    monkeypatch.setattr(progress, "AT_ONCE", 3)
    monkeypatch.setattr(tiles, "STALE", -2 * 30)
    assert (lru_at(made, rooms), [opt(made, c) for c in rooms]) == whole


def test_opt_keeps_no_more_of_a_pass_than_is_asked_for_beforehand() -> None:
    """A cache that holds everything never looks at its heap's entries."""
    many = 300_000
    made = Passes(np.arange(many) % 10, np.zeros(many, bool), np.ones(10, np.int64))
    tracemalloc.start()
    try:
        assert opt(made, 100).misses == 10
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < many * tiles.OF_PASS
