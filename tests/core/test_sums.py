"""Sums over tiles in closed form, against adding up."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples

from iosim.base.errors import ProgramError
from iosim.core.counting import sums
from iosim.core.counting.sums import Line, Stretch

pytestmark = pytest.mark.numbers

lines = st.builds(Line, st.integers(-40, 40), st.integers(-9, 9))


@examples(3)
@given(st.integers(0, 30), st.integers(0, 50), st.integers(0, 50), st.integers(1, 30))
def test_floor_sums_are_what_adding_up_gives(n: int, a: int, b: int, m: int) -> None:
    found = sums.floor_sums(n, a, b, m, 3, 3)
    for p in range(4):
        for q in range(4):
            assert found[p][q] == sum(t**p * ((a * t + b) // m) ** q for t in range(n))


@examples(3)
@given(st.integers(0, 25), st.lists(st.integers(-9, 9), min_size=1, max_size=5))
def test_sums_of_polynomials(n: int, coefficients: list[int]) -> None:
    want = sum(c * t**k for t in range(n) for k, c in enumerate(coefficients))
    assert sums.polynomial(n, coefficients) == want


@given(lines)
def test_signs_change_where_a_line_turns(line: Line) -> None:
    at = line.turns()
    if at is None:
        assert line.slope == 0
        return
    assert {line(t) < 0 for t in range(at - 5, at)} != {line(t) < 0 for t in range(at, at + 5)}


@examples(5)
@given(
    st.integers(0, 40),
    st.lists(
        st.tuples(
            st.builds(Stretch, lines, lines, st.integers(0, 20), st.integers(20, 60)),
            st.one_of(st.none(), st.integers(1, 9)),
        ),
        max_size=4,
    ),
)
def test_products_of_lengths_and_trips(n: int, factors: list[tuple[Stretch, int | None]]) -> None:
    want = sum(
        math.prod(s(t) if step is None else math.ceil(s(t) / step) for s, step in factors)
        for t in range(n)
    )
    assert sums.over_tiles(n, factors) == want


def test_a_length_is_cut_at_its_axis() -> None:
    stretch = Stretch(Line(-3, 2), Line(1, 2), 0, 6)
    by_hand = [len([p for p in range(2 * t - 3, 2 * t + 1) if 0 <= p < 6]) for t in range(8)]
    assert [stretch(t) for t in range(8)] == by_hand


def test_time_does_not_grow_with_the_tiles() -> None:
    n = 2**40
    stretch = Stretch(Line(0, 0), Line(7, 7), 0, 7 * n)
    start = time.perf_counter()
    assert sums.over_tiles(n, [(stretch, None)]) == 7 * n * (n + 1) // 2
    assert sums.over_tiles(n, [(stretch, 7)]) == n * (n + 1) // 2
    ragged = sums.over_tiles(n, [(stretch, 5)])
    assert 0 <= ragged - 7 * n * (n + 1) // 10 <= n
    assert time.perf_counter() - start < 1  # adding up would take hours


def test_different_roundings_with_a_long_period_are_refused() -> None:
    stretch = Stretch(Line(0, 0), Line(1, 1), 0, 2**40)
    factors = [(stretch, 1009), (stretch, 1013)]
    assert sums.over_tiles(50, factors) == 50
    with pytest.raises(ProgramError, match="repeats after 1022117 tiles"):
        sums.over_tiles(2**30, factors)
