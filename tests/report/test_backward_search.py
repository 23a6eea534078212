"""The search of decompositions of the backward pass: every pass is right, and nothing is missed."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples

import iosim
from experiments import _backward_passes as family
from experiments import backward_search
from experiments._backward_passes import SUMS, Pass
from experiments.backward_search import at_least, search
from iosim.base.errors import CapacityError, InputError
from iosim.core.problem import AttentionBackward

pytestmark = pytest.mark.numbers

EVERY = family.passes()
WITH_S = family.passes(left=True)


def one(outside: str, reads: str, makes: str, stores: str, sums: str, stays: str = "") -> Pass:
    return Pass(outside, *(frozenset(x.split()) for x in (reads, makes, stores, sums, stays)))


# Passes that make and finish whatever another one needs and leaves.
STORE = {
    "P": one("columns", "", "P", "P", "", "K"),
    "dP": one("columns", "", "dP", "dP", "", "V"),
    "dS": one("rows", "", "P dP dS", "dS", "", "Q dO"),
}
FINISH = {
    "dV": one("columns", "", "P", "", "dV", "K dV"),
    "dQ": one("rows", "", "P dP dS", "", "dQ", "Q dO dQ"),
    "dK": one("columns", "", "P dP dS", "", "dK", "K V dK"),
}


def around(chosen: Pass) -> tuple[Pass, ...]:
    """A whole schedule with the pass in it."""
    before = [STORE[x] for x in sorted(chosen.reads)]
    return (*before, chosen, *(FINISH[x] for x in SUMS if x not in chosen.sums))


def right(passes: tuple[Pass, ...], problem: Any, tiles: dict[str, int] | int, M: int = 0) -> int:
    """Run it on the strict machine, hold the gradients to the reference; its words."""
    program = family.program(passes, problem.form)
    if isinstance(tiles, int):
        tiles = {p.name: tiles for p in program.params}
    instance = iosim.bind(program, problem.sizes, tiles)
    hbm = problem.random(seed=4)
    done = iosim.simulate(instance, iosim.Machine(M or iosim.peak(instance)), hbm)
    assert done.counts == iosim.count(instance)
    want = problem.reference(hbm)
    assert iosim.max_error({x: done.outputs[x] for x in want}, want) < 1e-11
    return done.counts.total_words


OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"causal": True},
    {"causal": True, "window": (2, None), "sinks": 1, "N_k": 8},
    {"kv_heads": 1, "d_v": 2},
    {"causal": True, "N_k": 9, "align": "upper left"},
)


@examples(3 / 5)
@given(st.sampled_from(EVERY), st.sampled_from(OPTIONS), st.integers(1, 7))
def test_every_pass_is_right(chosen: Pass, options: dict[str, Any], B: int) -> None:
    """With any options, between passes that are known to be right."""
    right(around(chosen), AttentionBackward(6, 3, 2, **options), B)


@pytest.mark.slow
@pytest.mark.parametrize("k", range(8))
def test_every_pass_is_right_at_length(k: int) -> None:
    for chosen in EVERY[k::8]:
        right(around(chosen), AttentionBackward(5, 3, 2, causal=True), 2)


def test_passes_of_every_kind_are_there() -> None:
    """124 things that a pass can do; those of the registered schedules among them."""
    assert len(EVERY) == len(set(EVERY)) == 2608
    assert len({x.does for x in EVERY}) == 124
    assert set(EVERY) < set(WITH_S)
    assert {x.outside for x in EVERY} == {"rows", "columns", "tiles"}
    for chosen in (*STORE.values(), *FINISH.values()):
        assert chosen in EVERY
    assert len(family.passes(parts=False)) == 342


@given(
    st.sampled_from(WITH_S),
    st.sampled_from(OPTIONS),
    st.integers(1, 9),
    st.integers(1, 6),
    st.data(),
)
@examples(3 / 2)
def test_no_pass_moves_less_than_is_said(
    chosen: Pass, options: dict[str, Any], N: int, d: int, data: Any
) -> None:
    problem = AttentionBackward(N, d, 2, **options)
    program = family.alone(chosen, problem.form)
    tiles = {p.name: data.draw(st.integers(p.least, 10)) for p in program.params}
    instance = iosim.bind(program, problem.sizes, tiles)
    words = iosim.count(instance).total_words
    assert words >= at_least(chosen, problem, iosim.peak(instance)) - 1e-6


# -- against something dumb ---------------------------------------------------------------------

FEW = (
    STORE["P"],
    one("columns", "P", "dP dS", "dS", "dV", "V dV"),
    one("rows", "dS", "", "", "dQ", "dQ"),
    one("tiles", "dS", "", "", "dK"),
    one("columns", "", "P dP dS", "dS", "dV dK", "K V dV dK"),
    one("rows", "", "P dP dS", "", "dQ", "Q dO dQ"),
    one("columns", "", "P dP dS", "", "dV dK", "K V dV dK"),
    one("columns", "", "P dP dS", "", "dV dQ dK", "K V dV dK"),
)
SMALL = AttentionBackward(4, 2)
INPUTS = SMALL.random()
MEMORY = (9, 12, 22, 33, 44)  # other passes win in each class


@functools.cache
def tried(chosen: Pass) -> tuple[tuple[int, int], ...]:
    """What a pass holds and adds to a schedule with all tiles that fit, each executed."""
    whole = around(chosen)
    n = str(whole.index(chosen) + 1)
    program, alone = family.program(whole, SMALL.form), family.alone(chosen, SMALL.form, n)
    others = words_of(family.program(tuple(x for x in whole if x != chosen), SMALL.form), {})
    names = [p.name for p in alone.params]
    ranges = [range(p.least, SMALL.sizes[p.axis] + 1) for p in alone.params]
    found = []
    for values in itertools.product(*ranges):
        tiles = dict(zip(names, values, strict=True))
        if (held := run(alone, tiles).peak_words) <= max(MEMORY):
            found.append((held, words_of(program, tiles) - others))
    return tuple(found)


def by_trying(chosen: Pass, M: int) -> float:
    """The fewest words that a pass adds in M words."""
    return min((words for held, words in tried(chosen) if held <= M), default=math.inf)


def run(program: Any, tiles: dict[str, int]) -> Any:
    """Execute a program, or one pass on any P, dP, dS and D; other tiles are at their least."""
    values = {p.name: p.least for p in program.params} | tiles
    given = {
        t.name: np.ones([SMALL.sizes[a] for a in t.axes])
        for t in program.tensors
        if t.name in ("P", "dP", "dS", "D")
    }
    instance = iosim.bind(program, SMALL.sizes, values)
    return iosim.simulate(instance, iosim.Machine(10**6), INPUTS | given)


def words_of(program: Any, tiles: dict[str, int]) -> int:
    return int(run(program, tiles).counts.total_words)


def computes(passes: tuple[Pass, ...]) -> bool:
    """Whether the executed schedule gives the gradients."""
    try:
        right(passes, SMALL, 2)
    except (AssertionError, InputError):  # wrong, or P or dS is read that nothing stored
        return False
    return True


@functools.cache
def sequences() -> tuple[tuple[Pass, ...], ...]:
    """All sequences of the few passes, in every order, that compute the gradients."""
    found = []
    for k in range(1, 5):
        for some in itertools.permutations(FEW, k):
            sums = [x for p in some for x in p.sums]
            if sorted(sums) == sorted(SUMS) and computes(some):
                found.append(some)
    return tuple(found)


@pytest.mark.parametrize(
    ("klass", "few", "winners"), [("once", FEW, 3), ("recompute", (*FEW[:4], *FEW[5:7]), 2)]
)
def test_the_search_against_all_sequences_and_all_tiles(
    klass: str, few: tuple[Pass, ...], winners: int
) -> None:
    """Without those that need no other and that store dS, scores are made twice in more memory."""
    seen = set()
    for M in MEMORY:
        best = math.inf
        for some in (x for x in sequences() if set(x) <= set(few)):
            made = [x for p in some for x in p.makes & {"P", "dP"}]
            if klass == "recompute" or len(set(made)) == len(made):
                best = min(best, sum(by_trying(p, M) for p in some))
        sums = [run(family.first_program(SMALL.form), {"B_rD": B, "B_dD": 1}) for B in (1, 2, 3, 4)]
        before = min((x.counts.total_words for x in sums if x.peak_words <= M), default=math.inf)
        if best + before == math.inf:
            with pytest.raises(CapacityError, match=f"no sequence of passes runs in M = {M}"):
                search(SMALL, M, klass, among=few)
            continue
        found = search(SMALL, M, klass, among=few)
        assert found.words == best + before, (M, found.label)
        assert right(found.passes, SMALL, found.tiles, M) == found.words
        seen.add(frozenset(found.passes))
    twice = [x for x in seen if sum("P" in p.makes for p in x) > 1]
    assert bool(twice) == (klass == "recompute")
    assert len(seen) >= winners  # other passes win at other M


# -- what it finds ------------------------------------------------------------------------------


def test_what_is_found_runs_and_registered_schedules_are_near_it() -> None:
    small, few = AttentionBackward(13, 5, heads=2), family.passes(parts=False)
    for M, klass in ((30, "once"), (60, "recompute"), (100, "once"), (300, "recompute")):
        found = search(small, M, klass, among=few)
        assert right(found.passes, small, found.tiles, M) == found.words
    near((0.05, 0.5, 2.5, 8))


@pytest.mark.slow
def test_registered_schedules_are_near_what_is_found_at_more_sizes() -> None:
    near((0.25, 1, 3.5))


def near(shares: tuple[float, ...]) -> None:
    for row in backward_search.rows(2**18, 64, shares):
        ratio = row["registered_words_a_pair"] / row["words_a_pair"]
        assert 1 <= ratio < 1.01, row


def test_s_that_the_forward_pass_left_pays_below() -> None:
    rows = backward_search.steps(2**18, 64, (0.5, 1, 2, 8))
    assert [r["S left"] < r["alone"] for r in rows] == [True, True, False, False]
    assert "reads S; makes dP, dS, dV; stores dS" in rows[1]["backward"]


def test_bad_input() -> None:
    with pytest.raises(CapacityError, match="no sequence of passes runs in M = 2 words: use a lar"):
        search(AttentionBackward(64, 8), 2)
    with pytest.raises(InputError, match="'twice'"):
        search(AttentionBackward(64, 8), 500, "twice")
