"""No schedule does better than the best cache."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from sizes import examples
from strategies import attention_programs, bound_programs

import iosim
from iosim.cache import touches
from iosim.cache.curves import curve
from iosim.core.counting.numbers import count, peak
from iosim.core.program.walk import Instance


def loads_no_more(instance: Instance) -> None:
    """The schedule is one way to serve its own references, and OPT is the best."""
    stream, M = touches(instance), peak(instance)
    explicit = count(instance).load_words
    assert curve(stream, "opt-bypass").loads_at(M) <= explicit
    assert curve(stream, "opt").loads_at(M + 1) <= explicit


@pytest.mark.numbers
@given(attention_programs())
@examples(3 / 5)
def test_opt_loads_no_more_than_the_schedule_does(case: Any) -> None:
    """Every attention schedule, under every mask that it knows."""
    algorithm, problem, tiles = case
    loads_no_more(iosim.bind(algorithm.program_for(problem), problem.sizes, tiles))


@given(bound_programs(most=7))
@examples(1 / 2)
def test_nor_do_the_other_problems_schedules(case: Any) -> None:
    algorithm, problem, tiles = case
    loads_no_more(iosim.bind(algorithm.program, problem.sizes, tiles))
