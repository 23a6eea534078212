"""Whole tiles replayed against the stream of words: the same loads at every capacity."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cache_closed import ALWAYS, drawn

import iosim
from iosim.cache import touches
from iosim.cache.curves import curve
from iosim.cache.tiles import lru, opt, passes
from iosim.errors import InputError


@pytest.mark.parametrize("name", ALWAYS)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_tiles_are_replayed_as_their_words_are(name, data):
    program, sizes, tiles = drawn(data, name)
    instance = iosim.bind(program, sizes, tiles)
    found, stream = passes(instance), touches(instance)
    assert found.accesses == stream.length
    by_words, by_tiles = curve(stream), lru(found)
    best = curve(stream, "opt-bypass")
    for capacity in {*range(1, 60), *by_words.capacities.tolist()}:
        step = by_words.step(capacity)
        assert by_tiles.loads_at(capacity) == by_words.loads[step], capacity
        assert by_tiles.misses[by_tiles.step(capacity)] == by_words.misses[step], capacity
    for capacity in {*range(1, 30), *best.capacities[::5].tolist()}:
        assert opt(found, capacity) == best.loads_at(capacity), capacity


def test_what_has_no_whole_tiles_is_refused():
    of = iosim.Attention(N=8, d=2, causal=True)
    program = iosim.algorithm("flash2").program_for(of)
    with pytest.raises(InputError, match="follows an outer tile"):
        passes(iosim.bind(program, of.sizes, {"B_r": 2, "B_c": 2}))


def test_too_many_passes_are_refused_before_they_are_made():
    sizes, tiles = {"N": 10**6, "d": 64, "heads": 1}, {"B_r": 1, "B_c": 1}
    with pytest.raises(InputError, match="passes over tiles, more than"):
        passes(iosim.bind(iosim.algorithm("flash2").program, sizes, tiles))


def test_passes_that_cannot_be_numbered_are_refused():
    from iosim.cache.regular import Place, Steps
    from iosim.cache.tiles import _radix

    loops = (Steps(0, 2**31, 1), Steps(0, 2**31, 1))
    with pytest.raises(InputError, match="too many passes over tiles to number"):
        _radix([Place("Q", False, False, loops, (0, 0, 0), ())])
