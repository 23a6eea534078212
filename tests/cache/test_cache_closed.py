"""LRU's misses in closed form against stack distances of the stream itself, word by word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples

import iosim
from iosim.base.errors import InputError, IosimError
from iosim.cache import closed, touches
from iosim.cache.closed import Reuse, loads, misses, reuse
from iosim.cache.curves import curve
from iosim.core.program import space

# Schedules of which every ragged instance has a closed form.
ALWAYS = ("flash1", "flash2", "flash2_keep", "grouped_rows", "decode", "matmul", "copy")


def draw_instance(data, name, most=9):
    """A small instance of an algorithm, with ragged tiles."""
    program = iosim.algorithm(name).program
    sizes = {axis: data.draw(st.integers(1, most), axis) for axis in space.axes(program)}
    for axis in {"heads", "kv_heads", "group"} & set(sizes):
        sizes[axis] = data.draw(st.integers(1, 3), axis)
    tiles = {p.name: data.draw(st.integers(p.least, most), p.name) for p in program.params}
    return program, sizes, tiles


def held_to_the_stream(instance):
    rules = reuse(instance)
    stream = touches(instance)
    assert sum(rule.accesses for rule in rules) == stream.length
    word_by_word = curve(stream)
    for capacity in sorted({*range(1, 90), *word_by_word.capacities.tolist()}):
        step = word_by_word.step(capacity)
        mine = misses(rules, capacity), loads(rules, capacity)
        assert mine == (word_by_word.misses[step], word_by_word.loads[step]), capacity


@pytest.mark.numbers
@pytest.mark.parametrize("name", ALWAYS)
@given(data=st.data())
@examples(1 / 4)
def test_the_closed_form_is_what_the_stream_gives(name, data):
    program, sizes, tiles = draw_instance(data, name)
    held_to_the_stream(iosim.bind(program, sizes, tiles))


@pytest.mark.numbers
@given(data=st.data())
@examples(1 / 4)
def test_passes_that_cut_their_tensors_alike(data):
    """naive with one B_r and one B_c, nothing held."""
    program, sizes, tiles = draw_instance(data, "naive", most=6)
    tiles |= {x: tiles["B_r2"] for x in tiles if x.startswith("B_r")}
    tiles |= {x: tiles["B_c2"] for x in tiles if x.startswith("B_c")}
    tiles["W2"] = 0
    held_to_the_stream(iosim.bind(program, sizes, tiles))


def test_parts_of_arrays_that_keep_their_shape():
    program = iosim.algorithm("flash2_chunked").program
    tiles = {"B_r": 2, "B_c": 2, "B_d": 4}
    held_to_the_stream(iosim.bind(program, {"heads": 2, "N": 6, "d": 4}, tiles))


@pytest.mark.parametrize(
    ("name", "tiles", "why"),
    [
        ("naive", {}, "is used in tiles of"),
        ("split_kv", {}, "follows an outer tile"),
        ("paged", {}, "holds a position"),
        ("flash2_chunked", {"B_r": 3}, "changes its shape"),
    ],
)
def test_what_has_no_closed_form_says_why(name, tiles, why):
    program = iosim.algorithm(name).program
    sizes = dict.fromkeys(space.axes(program), 4)
    tiles = {p.name: 2 + k for k, p in enumerate(program.params)} | tiles
    with pytest.raises(InputError, match=f"no closed form of LRU's misses: .*{why}"):
        reuse(iosim.bind(program, sizes, tiles))


def test_a_causal_mask_has_no_closed_form():
    of = iosim.Attention(N=8, d=2, causal=True)
    program = iosim.algorithm("flash2").program_for(of)
    with pytest.raises(InputError, match="follows an outer tile"):
        reuse(iosim.bind(program, of.sizes, {"B_r": 2, "B_c": 2}))


def test_a_million_rows():
    """Against sums written by hand, at capacities where one thing each is what is kept."""
    N, d, B_r, B_c = 10**6, 64, 128, 64
    sizes, tiles = {"N": N, "d": d, "heads": 1}, {"B_r": B_r, "B_c": B_c}
    rules = reuse(iosim.bind(iosim.algorithm("flash2").program, sizes, tiles))
    blocks = -(-N // B_r)
    # All local arrays and all of Q, K, V and O: everything is read once.
    assert loads(rules, 10**9) == 3 * N * d
    # What one sweep of K and V touches is more than this, and a tile's own arrays are less.
    assert loads(rules, 2**16) == N * d + blocks * 2 * N * d
    assert [loads(rules, 2**k) for k in range(40)] == sorted(
        (loads(rules, 2**k) for k in range(40)), reverse=True
    )


@pytest.mark.numbers
def test_the_last_but_one_iteration_before_a_short_one():
    """Flash1 over two sweeps: after its fourth tile of Q comes one row, and a smaller S."""
    program = iosim.algorithm("flash1").program
    sizes, tiles = {"N": 9, "d": 9, "heads": 1}, {"B_r": 2, "B_c": 2}
    held_to_the_stream(iosim.bind(program, sizes, tiles))
    step = curve(touches(iosim.bind(program, sizes, tiles)))
    assert misses(reuse(iosim.bind(program, sizes, tiles)), 259) == step.misses[step.step(259)]


@pytest.mark.parametrize(
    "terms",
    [
        (7, 3, 2, 5),
        (40, -3, 2, -5),
        (40, 3, -9, 0),
        (7, 2**60, 2**61, 2**61),  # products beyond 64 bits
        (2**70, -(2**66), 3, 2**65),  # and coefficients
    ],
)
def test_accesses_beyond_a_capacity_are_counted(terms):
    """One after the other, with Python's integers."""
    rule = Reuse(False, 3, (6, 7), terms)
    distances = [
        terms[0] + terms[1] * i + terms[2] * j + terms[3] * i * j
        for i in range(6)
        for j in range(7)
    ]
    for capacity in {*range(60), *(x + y for x in distances for y in (-1, 0))}:
        assert rule.beyond(capacity) == 3 * sum(x > capacity for x in distances), capacity


@pytest.mark.parametrize(
    "wrong",
    [
        lambda right, *at: right + (at[1] == (2, 2)),  # inside, and at no corner
        lambda right, *at: right + (at[1] == (6, 1)),  # at a corner
        lambda right, *at: 0 if at[1] == (6, 1) else right,
    ],
)
def test_a_distance_that_follows_no_rule_is_an_error_of_its_own(wrong, monkeypatch):
    """Each of these distances is of a matrix product with 8 × 8 × 8 tiles."""
    right = closed.Nests.distance
    monkeypatch.setattr(
        closed.Nests,
        "distance",
        lambda nests, place, at, piece=0: wrong(right(nests, place, at, piece), place, at[:2]),
    )
    sizes, tiles = dict.fromkeys("mnk", 16), dict.fromkeys(("B_m", "B_n", "B_k"), 2)
    with pytest.raises(IosimError, match=r"distances in .* follow no rule that the closed form"):
        reuse(iosim.bind(iosim.algorithm("matmul").program, sizes, tiles))


def test_a_distance_over_too_many_iterations_is_refused():
    rule = Reuse(False, 1, (10**4, 10**4, 10**4), (5, 1, 1, 1, 1, 1, 1, 1))
    with pytest.raises(InputError, match="a distance varies over 10000 × 10000 × 10000 iter"):
        rule.beyond(9)
