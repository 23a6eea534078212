"""Curves over all capacities against caches that are simulated one by one, with lists."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples

from iosim.base.compiled import available, interruptible
from iosim.base.errors import InputError
from iosim.cache import opt_stack
from iosim.cache.curves import curve
from iosim.cache.sampling import sampled
from iosim.cache.stream import of_arrays

pytestmark = pytest.mark.numbers

NEVER = 10**9


def lru_by_hand(lines, writes, room, covers):
    """Misses, loads, write-backs and flush in lines, of a list in order of use."""
    held, dirty = [], set()
    misses = loads = back = 0
    for line, write in zip(lines, writes, strict=True):
        if line in held:
            held.remove(line)
        else:
            misses += 1
            loads += not (write and covers)
            if len(held) == room:
                gone = held.pop(0)
                back += gone in dirty
                dirty.discard(gone)
        held.append(line)
        if write:
            dirty.add(line)
    return misses, loads, back, len(dirty)


def opt_by_hand(lines, writes, room, covers, bypass):
    """Lines that Belady's loads: of those held, the one whose next costly use is last goes."""

    def uses(line, after):
        for at in range(after, len(lines)):
            if lines[at] == line:
                return NEVER if covers and writes[at] else at
        return NEVER

    held, loads = set(), 0
    for at, (line, write) in enumerate(zip(lines, writes, strict=True)):
        if line in held:
            continue
        loads += not (write and covers)
        if len(held) < room:
            held.add(line)
            continue
        last = max(held, key=lambda other: uses(other, at + 1))
        if bypass and uses(line, at + 1) >= uses(last, at + 1):
            continue
        held.remove(last)
        held.add(line)
    return loads


traces = st.integers(1, 12).flatmap(
    lambda most: st.lists(st.tuples(st.integers(0, most), st.booleans()), min_size=1, max_size=70)
)


@given(trace=traces, line=st.sampled_from([1, 1, 2, 3]), chunk=st.sampled_from([1, 7, 1000]))
@examples(3 / 2)
def test_lru_at_every_capacity_is_what_a_list_does(trace, line, chunk):
    at, writes = [a for a, _ in trace], [w for _, w in trace]
    found = curve(of_arrays(at, writes, chunk=chunk), line_words=line)
    lines = [a // line for a in at]
    for room in range(1, max(lines) + 3):
        by_hand = lru_by_hand(lines, writes, room, line == 1)
        step = found.step(room * line)
        mine = (
            found.misses[step],
            found.loads[step] // line,
            found.write_backs[step] // line,
            found.flush[step] // line,
        )
        assert mine == by_hand, room


@given(
    trace=traces,
    line=st.sampled_from([1, 1, 2, 3]),
    bypass=st.booleans(),
    block=st.sampled_from([2, 3, 128]),
)
@examples(3 / 2)
def test_opt_at_every_capacity_is_what_belady_does(trace, line, bypass, block):
    at, writes = [a for a, _ in trace], [w for _, w in trace]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opt_stack, "ENTRIES", block)
        found = curve(of_arrays(at, writes), "opt-bypass" if bypass else "opt", line_words=line)
    lines = [a // line for a in at]
    for room in range(1, max(lines) + 3):
        assert found.loads_at(room * line) == line * opt_by_hand(
            lines, writes, room, line == 1, bypass
        ), room


def test_a_timeline_that_fills_up_is_compacted(monkeypatch):
    from iosim.cache import lru_stack

    rng = np.random.default_rng(3)
    at = np.concatenate([rng.integers(0, 300, 3000), np.arange(300), rng.zipf(1.3, 3000) % 300])
    writes = rng.random(at.size) < 0.3
    whole = curve(of_arrays(at, writes))
    monkeypatch.setattr(lru_stack, "SLOTS", 64)
    short = curve(of_arrays(at, writes))
    for name in ("capacities", "misses", "loads", "write_backs", "flush"):
        assert (getattr(whole, name) == getattr(short, name)).all(), name
    for room in (1, 5, 64, 65, 200, 299, 300):
        misses, loads, back, flush = lru_by_hand(at.tolist(), writes.tolist(), room, True)
        step = whole.step(room)
        assert (whole.misses[step], whole.loads[step]) == (misses, loads)
        assert (whole.write_backs[step], whole.flush[step]) == (back, flush)


def test_long_distances_are_counted_over_all_levels():
    # A sweep over 300,000 lines, twice: every distance is 300,000, over several blocks of marks.
    n = 300_000
    found = curve(of_arrays(np.tile(np.arange(n), 2)))
    assert found.capacities.tolist() == [1, n]
    assert found.loads.tolist() == [2 * n, n]
    back = curve(of_arrays(np.concatenate([np.arange(n), np.arange(n)[::-1]])))
    assert back.loads_at(1000) == 2 * n - 1000
    assert back.loads_at(n // 2 + 7) == 2 * n - (n // 2 + 7)


def test_marks_taken_away_are_taken_from_every_level():
    """Lines found again in between leave their old slots, over more than one block of those."""
    lines = 900_000
    stream = of_arrays(np.concatenate([np.arange(lines), np.arange(300_000, 600_000), [0]]))
    found = curve(stream)
    assert found.loads_at(lines) == lines
    assert found.loads_at(lines - 1) == lines + 1


def test_what_cannot_be_drawn_is_refused_in_one_line():
    stream = of_arrays([0, 1, 2])
    with pytest.raises(InputError, match="no curve of policy 'fifo' in one pass"):
        curve(stream, "fifo")
    with pytest.raises(InputError, match="under one line of 8"):
        curve(stream, line_words=8).loads_at(7)
    long = type(stream)(stream.chunks, 3, 10**14)
    with pytest.raises(InputError, match=r"OPT at every capacity holds 100,0.* GB of memory are"):
        curve(long, "opt")


def test_an_empty_stream_has_a_curve():
    found = curve(of_arrays(np.empty(0, np.int64)))
    assert found.loads.tolist() == [0]


def skewed(rng, lines, accesses):
    """Reads and writes of lines that are used unequally, with sweeps in between."""
    at = np.concatenate([rng.integers(0, lines, accesses), np.tile(np.arange(lines), 3)])
    rng.shuffle(at[: accesses // 2])
    return np.minimum(at, rng.integers(0, lines, at.size)), rng.random(at.size) < 0.2


def test_a_sample_of_all_lines_is_the_curve():
    at, writes = skewed(np.random.default_rng(1), 400, 5000)
    whole = curve(of_arrays(at, writes), line_words=4)
    rooms = [4, 8, 40, 100, 396, 400, 4000]
    found = sampled(of_arrays(at, writes), rooms, rate=1.0, line_words=4)
    assert found.loads.tolist() == [whole.loads_at(room) for room in rooms]
    assert found.lines == 100


def test_choosing_lines_of_a_large_space_says_how_far_it_is(monkeypatch):
    monkeypatch.setattr("iosim.cache.sampling.DRAWN", 400)
    seen: list[tuple[int, int]] = []
    sampled(of_arrays([*range(1000)]), [10], rate=0.5, watch=lambda *so: seen.append(so))
    assert seen == [(400, 1000), (800, 1000), (1000, 1000)]


def test_what_is_computed_beside_an_interrupt_raises_what_it_raised():
    with pytest.raises(ZeroDivisionError):
        interruptible(divmod, 1, 0)


def test_the_truth_lies_within_a_few_errors_of_a_sample():
    """Of 60 samples at each of three capacities; two errors should hold it 19 times of 20."""
    at, writes = skewed(np.random.default_rng(2), 3000, 40_000)
    stream, rooms = of_arrays(at, writes), [200, 1000, 2500]
    truth = np.array([curve(stream).loads_at(room) for room in rooms])
    off = []
    for seed in range(60):
        found = sampled(stream, rooms, rate=0.1, seed=seed)
        off.append((found.loads - truth) / found.error)
    within = (np.abs(off) < 2.5).mean(axis=0)
    assert (within > 0.85).all(), within
    assert (np.abs(np.mean(off, axis=0)) < 1).all(), np.mean(off, axis=0)
    # And the errors say something: they are no larger than a tenth of what is estimated.
    assert (found.error < 0.15 * truth).all()


def test_a_sample_that_is_too_small_is_refused():
    stream = of_arrays(np.arange(100))
    with pytest.raises(InputError, match="of 100 lines, fewer than 16"):
        sampled(stream, [10], rate=0.01)
    with pytest.raises(InputError, match="a rate of 0"):
        sampled(stream, [10], rate=0)
    with pytest.raises(InputError, match="under one line of 4"):
        sampled(stream, [3], rate=1, line_words=4)


def test_the_plain_text_says_what_the_compiled_one_does() -> None:
    """In a process without compiling: the same curves, and numba is not even loaded."""
    code = (
        "import sys, numpy as np; from iosim.cache import *;"
        "draw = np.random.default_rng(3); at = draw.integers(0, 90, 1500);"
        "writes = draw.random(1500) < 0.3; s = of_arrays(at, writes);"
        "c = [curve(s, p) for p in ('lru', 'opt', 'opt-bypass')];"
        "c.append(tiles.lru(tiles.Passes(at, writes, np.arange(1, 91))));"
        "print([(x.capacities.tolist(), x.loads.tolist()) for x in c],"
        " sampled(s, [9, 40], rate=0.6).loads.tolist(), replay(s, Cache(capacity=9)));"
        "print('numba' in sys.modules, file=sys.stderr)"
    )
    said = {}
    for off in ("0", "1"):
        env = os.environ | {"NUMBA_DISABLE_JIT": off}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
        )
        said[off] = done.stdout
        assert done.stderr.strip() == str(off == "0" and available())
    assert said["0"] == said["1"]


@pytest.mark.parametrize("bypass", [False, True])
def test_opt_over_more_blocks_than_there_is_room_for_at_first(monkeypatch, bypass):
    """The list outgrows its 16 blocks, twice; blocks that wait for carries are copied whole."""
    rng = np.random.default_rng(7)
    at, writes = rng.integers(0, 100, 700).tolist(), (rng.random(700) < 0.2).tolist()
    monkeypatch.setattr(opt_stack, "ENTRIES", 2)
    found = curve(of_arrays(at, writes), "opt-bypass" if bypass else "opt")
    for room in (1, 9, 31, 33, 60, 90):
        assert found.loads_at(room) == opt_by_hand(at, writes, room, True, bypass), room
