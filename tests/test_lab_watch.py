"""What travels for the view that watches a schedule: programs, sizes that follow, one's own."""

from __future__ import annotations

import base64
import json
import operator
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iosim
from iosim.algorithms import ALGORITHMS, algorithm
from iosim.lab.data.traced import traced_sizes
from iosim.lab.data.watch import FIELDS, KINDS, data, data_of
from iosim.lab.programs import algorithm_data
from iosim.problem import Attention, Problem
from iosim.problem.paged import PagedAttention

SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
         ">": operator.gt}  # fmt: skip


def value(told: Any, typed: dict[str, int]) -> int:
    """What the page makes of an expression."""
    if isinstance(told, list):
        sign, a, b = told
        return int(SIGNS[sign](value(a, typed), value(b, typed)))
    return typed[told] if isinstance(told, str) else int(told)


def unpacked(text: str) -> Any:
    """What the page unpacks."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


@st.composite
def problems(draw: st.DrawFn) -> Attention:
    """Attention with any of the options that the view offers."""
    small = st.integers(0, 30)
    group = draw(st.integers(1, 3))
    kv_heads = draw(st.integers(1, 3))
    mask: dict[str, Any] = draw(st.sampled_from(({}, {"causal": True}, {"window": 1})))
    if mask:
        left = draw(st.one_of(st.none(), small))
        right = None if mask.get("causal") else draw(small)
        mask = mask | ({"window": (left, right)} if (left, right) != (None, None) else {})
    return Attention(
        draw(st.integers(1, 30)), draw(st.integers(1, 9)), group * kv_heads,
        N_k=draw(st.one_of(st.none(), st.integers(1, 30))),
        kv_heads=draw(st.sampled_from((None, kv_heads))), **mask,
    )  # fmt: skip


@given(problems())
def test_sizes_follow_from_what_is_typed(problem: Attention) -> None:
    left, right = problem.limits
    typed = {"N": problem.N, "d": problem.d, "heads": problem.heads, "N_k": problem.keys,
             "kv_heads": problem.groups, "left": left or 0, "right": right or 0}  # fmt: skip
    told = json.loads(json.dumps(traced_sizes(Attention, problem.form)))
    assert {name: value(x, typed) for name, x in told.items()} == problem.sizes


def test_sizes_of_pages_follow() -> None:
    problem = PagedAttention(N_k=100, d=64, heads=32, kv_heads=8, page=16, batch=4)
    told = traced_sizes(PagedAttention, problem.form)
    assert {name: value(x, problem.told) for name, x in told.items()} == problem.sizes


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return data()


def test_every_schedule_travels_that_needs_no_data(told: dict[str, Any]) -> None:
    names = [x for x in ALGORITHMS if algorithm(x).problem.kind in KINDS]
    assert [x["name"] for x in told["schedules"]] == names
    for x in told["schedules"]:
        assert {*x["fields"], *x["options"]} - {"causal"} <= FIELDS.keys()
        assert all(set(x["needs"]) <= set(form.split()) for form in x["forms"])


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ("", Attention(64, 8)),
        ("causal", Attention(64, 8, causal=True)),
        ("causal left", Attention(64, 8, causal=True, window=(5, None))),
        ("N_k kv_heads left right", Attention(64, 8, 4, N_k=9, kv_heads=2, window=(1, 1))),
    ],
)
def test_a_form_has_the_program_of_its_options(
    form: str, problem: Problem, told: dict[str, Any]
) -> None:
    """Closed forms beside the counters, too."""
    flash2 = algorithm("flash2")
    (entry,) = (x for x in told["schedules"] if x["name"] == "flash2")
    of = entry["forms"][form]
    expected = algorithm_data(flash2, problem)
    if form:
        assert unpacked(told["packed"])[of["program"]] == json.loads(json.dumps(expected))
    else:
        assert of["program"] == "flash2"
    assert list(of["totals"]) == list(expected["closed"]["counts"])
    assert of["sizes"].keys() == problem.sizes.keys()
    if not form:
        assert of["totals"]["load K"] == "N·d·heads·⌈N/B_r⌉"


def test_one_instance_begins_with_its_sizes_tiles_and_peak() -> None:
    problem = Attention(30, 4, causal=True)
    program = algorithm("flash2").program_for(problem)
    instance = iosim.bind(program, problem.sizes, {"B_r": 8, "B_c": 40})
    told = data_of(instance)
    assert told["start"]["tiles"] == {"B_r": 8, "B_c": 30}
    assert told["start"]["sizes"] == problem.sizes | {"M": iosim.peak(instance)}
    (schedule,) = told["schedules"]
    assert schedule["forms"][""]["sizes"] == {x: x for x in problem.sizes}
    assert unpacked(told["packed"])[0]["name"] == "flash2"
    assert data_of(instance, M=7)["start"]["sizes"]["M"] == 7


def test_an_instance_with_a_block_mask_takes_it_along() -> None:
    entry = algorithm("block_sparse")
    sizes = entry.problem(N=8, N_k=8, d=4).sizes
    marked = {"blocks": np.eye(2, dtype=bool)}
    instance = iosim.bind(entry.program, sizes, {"B_r": 4, "B_c": 4}, marked)
    assert data_of(instance)["start"]["blocks"] == {"blocks": [[True, False], [False, True]]}
