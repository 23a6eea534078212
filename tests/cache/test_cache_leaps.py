"""LRU's replay with leaps, held to a list of words that knows no loop."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sizes import examples
from strategies import attention_programs, dependent_schedules, random_schedules, split_schedules

import iosim
from iosim.base.errors import InputError
from iosim.cache import Cache, CacheFamily, Traffic, count_words, leaps, methods, touches
from iosim.cache.leaps import replay_leaping
from iosim.cache.of_program import walked
from iosim.core.program import space
from iosim.core.program.block_masks import masks

pytestmark = pytest.mark.numbers
FORWARD = ("naive", "flash1", "flash2", "flash2_keep", "decode", "matmul", "grouped_rows")
BACKWARD = ("standard_backward", "flash2_backward")


def by_list(instance: iosim.Instance, capacity: int) -> Traffic:
    """Word by word: a dict from the oldest word to the newest, whose values say what is dirty."""
    held: dict[int, bool] = {}
    accesses = misses = loads = back = 0
    for chunk in touches(instance).chunks():
        for word, write in zip(chunk.address.tolist(), chunk.write.tolist(), strict=True):
            accesses += 1
            if word in held:
                dirty = held.pop(word)
            else:
                misses, loads, dirty = misses + 1, loads + (not write), False
                if len(held) == capacity:
                    back += held.pop(next(iter(held)))
            held[word] = dirty or write
    flush = sum(held.values())
    return Traffic(accesses=accesses, misses=misses, loads=loads, write_backs=back, flush=flush)


def hold(instance: iosim.Instance, rooms: list[int]) -> None:
    for room in rooms:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(leaps, "LONG", 0)  # also inner loops leap
            assert replay_leaping(instance, Cache(capacity=room)) == by_list(instance, room)


def draw_instance(draw: Any, program: Any, sizes: dict[str, int]) -> iosim.Instance:
    """Tiles that suit each other: some schedules want one to divide another."""
    for _ in range(1000):
        tiles = {p.name: int(draw.integers(p.least, 6)) for p in program.params}
        with suppress(InputError):
            return iosim.bind(program, sizes, tiles)
    raise AssertionError(f"no tiles of {program.name} at {sizes}")


@pytest.mark.parametrize("seed", range(60))
def test_seeded_instances(seed: int) -> None:
    """Loops of many iterations, and caches of few words."""
    draw = np.random.default_rng(seed)
    names = (*FORWARD, *BACKWARD)
    program = iosim.algorithm(names[seed % len(names)]).program
    sizes = {axis: int(draw.integers(1, 25)) for axis in space.axes(program)}
    sizes |= {axis: 1 + seed % 2 for axis in ("heads", "kv_heads", "group") if axis in sizes}
    sizes |= {axis: int(draw.integers(1, 4)) for axis in ("d", "k") if axis in sizes}
    hold(draw_instance(draw, program, sizes), [1, 2, *draw.integers(3, 60, 4).tolist()])


@pytest.mark.parametrize("seed", range(12))
def test_iterations_of_different_lengths_are_no_repetition(seed: int) -> None:
    """Under a causal mask; and under a block mask whose first rows alone are alike."""
    draw = np.random.default_rng(seed)
    of = iosim.Attention(N=int(draw.integers(15, 30)), d=1, causal=True)
    program = iosim.algorithm(("flash2", "naive")[seed % 2]).program_for(of)
    tiles = {p.name: int(draw.integers(p.least, 3)) for p in program.params}
    hold(iosim.bind(program, of.sizes, tiles), [2, *draw.integers(3, 20, 3).tolist()])
    mask = draw.random((24, 4)) < 0.5
    mask[:9] = [True, False, True, True]
    program = iosim.algorithm("block_sparse").program
    sizes = {"N": 24, "N_k": 24, "d": 2, "heads": 1}
    (name,) = masks(program)
    tiles = {"B_r": 1, "B_c": 6}
    hold(iosim.bind(program, sizes, tiles, {name: mask}), [2, *draw.integers(3, 20, 3).tolist()])


@given(attention_programs(most=9), st.lists(st.integers(1, 50), min_size=3, max_size=3))
@examples(1 / 2)
def test_masks_and_windows(drawn: Any, rooms: list[int]) -> None:
    algorithm, problem, tiles = drawn
    instance = iosim.bind(algorithm.program_for(problem), problem.sizes, tiles)
    assume(touches(instance).length <= 30_000)
    hold(instance, rooms)


@given(
    random_schedules(mixed=True) | dependent_schedules() | split_schedules(),
    st.lists(st.integers(1, 40), min_size=3, max_size=3),
)
@examples(1 / 2)
def test_random_programs(drawn: Any, rooms: list[int]) -> None:
    try:
        instance = iosim.bind(*drawn)
    except InputError:
        assume(False)
    assume(touches(instance).length <= 30_000)
    hold(instance, rooms)


def long_naive() -> iosim.Instance:
    """Standard attention whose S is written in tiles of 63 rows, and read by rows."""
    sizes = {"N": 512, "d": 8, "heads": 1}
    tiles = {"B_r1": 63, "B_c1": 1, "B_d1": 1, "W1": 8, "B_r2": 1, "B_c2": 1, "W2": 509}
    program = iosim.algorithm("naive").program
    return iosim.bind(program, sizes, tiles | {"B_r3": 62, "B_c3": 1, "B_d3": 8})


def test_most_of_a_long_stream_is_leapt_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the words are those of the replay of all of it, which the method without leaps tells."""
    fed = []
    feed = leaps.Online.feed

    def count_fed(self: Any, chunk: Any) -> None:
        fed.append(len(chunk.address))
        feed(self, chunk)

    instance, family = long_naive(), CacheFamily(capacities=[500, 600])
    whole = count_words(instance, family, "stream")
    assert whole.accesses > 10_000_000
    monkeypatch.setattr(leaps.Online, "feed", count_fed)
    monkeypatch.setattr(methods, "LONG", 10**6)
    told: list[int] = []
    assert count_words(instance, family, "stream") == whole
    assert sum(fed) < whole.accesses // 5
    replay_leaping(instance, Cache(capacity=500), told.append)
    assert told == sorted(told)
    assert told[-1] == whole.accesses


def copy_twice(b: Any) -> None:
    """The first words, and then all of them."""
    W = b.stationary("n", "W")
    (B,) = b.tile_sizes("n", "B")
    for place in ((0, W), ()):
        for i in b.tiles("n", B, *place):
            x = b.load("X", i)
            b.store(x, "Y", i)
            b.free(x)


@pytest.mark.parametrize("room", [7, 16, 31, 32, 33, 40])
def test_iterations_that_find_what_is_left_are_not_the_others(room: int) -> None:
    """At 32 words the cache is full of X and Y, in turn, from before: only places tell."""
    program = iosim.build("twice", iosim.Copy, copy_twice)
    hold(iosim.bind(program, {"n": 90}, {"W": 16, "B": 2}), [room])


class Held:
    """A cache that is asked for nothing: it notes where it is set to."""

    def __init__(self) -> None:
        self.leapt: list[Any] = []

    def leap(self, lines: Any, status: Any, counts: Any, accesses: int) -> None:
        self.leapt.append((lines.tolist(), status.tolist(), counts.tolist(), accesses))


def test_what_repeats() -> None:
    """Words that moved by their tensor's distance and stayed in it, in order, dirty as before."""
    starts, by = np.array([0, 100]), np.array([2, 0])

    def leapt(old: Any, new: Any, dirty: Any = (1, 2), status: Any = (1, 2)) -> list[Any]:
        online: Any = Held()
        walk: Any = None
        replay = leaps._Replay(walk, online, 2, starts, lambda done: None, done=30)
        states = [
            (np.array(lines), np.array(marks), np.array([counted]), done)
            for lines, marks, counted, done in ((old, dirty, 5, 20), (new, status, 8, 30))
        ]
        found = replay._leaps(states[0], states[1], 4, by)
        assert found == bool(online.leapt)
        assert replay.done == 30 + 40 * found
        return online.leapt

    assert leapt([5, 105], [7, 105]) == [([15, 105], [1, 2], [12], 40)]
    assert not leapt([5, 105], [5, 105])
    assert not leapt([5, 105], [105, 7])
    assert not leapt([5, 105], [7, 105], status=(2, 2))
    assert not leapt([5, 105], [7])
    by = np.array([2, 2])
    assert not leapt([5, 98], [7, 100])  # of another tensor


def test_a_tensor_that_is_read_at_two_distances_has_none() -> None:
    def schedule(b: Any, fixed: bool) -> None:
        (B,) = b.tile_sizes("n", "B")
        for i in b.tiles("n", B):
            if fixed:
                first = b.load("X", b.span("n", 0, 1), name="first")
                b.store(first, "Y", b.span("n", 0, 1))
                b.free(first)
            x = b.load("X", i)
            b.store(x, "Y", i)
            b.free(x)

    for fixed, by in ((False, [3, 3]), (True, None)):
        program = iosim.build("some", iosim.Copy, lambda b, fixed=fixed: schedule(b, fixed))
        instance = iosim.bind(program, {"n": 50}, {"B": 3})
        stream, walk, (loop,) = walked(instance)
        starts, online = np.array([x.start for x in stream.regions]), Held()
        found = leaps._Replay(walk, online, 2, starts, lambda done: None)._distances(loop, walk.top)
        assert (None if found is None else found.tolist()) == by
        hold(instance, [1, 2, 3, 7])


def test_iterations_that_end_alike_but_grow_are_no_repetition() -> None:
    def schedule(b: Any) -> None:
        (B,) = b.tile_sizes("n", "B")
        for i in b.tiles("n", B):
            for place in ((0, i.stop), (0, 1)):
                for j in b.tiles("n", B, *place):
                    x = b.load("X", j)
                    b.store(x, "Y", j)
                    b.free(x)

    program = iosim.build("some", iosim.Copy, schedule)
    hold(iosim.bind(program, {"n": 30}, {"B": 2}), [1, 2, 3, 4])
