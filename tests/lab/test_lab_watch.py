"""What travels for the view that watches a schedule: programs, sizes that follow, one's own."""

from __future__ import annotations

import base64
import itertools
import json
import operator
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iosim
from iosim.base.errors import InputError
from iosim.core.algorithms import ALGORITHMS, algorithm
from iosim.core.problem import Attention, Problem
from iosim.core.problem.paged import PagedAttention
from iosim.lab.data.traced import traced_sizes
from iosim.lab.data.watch import FIELDS, KINDS, _fills, data, data_of
from iosim.lab.programs import algorithm_data

SIGNS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    ">": operator.gt,
}


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
        draw(st.integers(1, 30)),
        draw(st.integers(1, 9)),
        group * kv_heads,
        N_k=draw(st.one_of(st.none(), st.integers(1, 30))),
        d_v=draw(st.one_of(st.none(), st.integers(1, 9))),
        kv_heads=draw(st.sampled_from((None, kv_heads))),
        sinks=draw(st.integers(0, 5)),
        align=draw(st.sampled_from(("lower right", "upper left"))),
        **mask,
    )


@given(problems())
def test_sizes_follow_from_what_is_typed(problem: Attention) -> None:
    left, right = problem.limits
    typed = {
        "N": problem.N,
        "d": problem.d,
        "heads": problem.heads,
        "N_k": problem.keys,
        "kv_heads": problem.groups,
        "left": left or 0,
        "right": right or 0,
        "d_v": problem.values,
        "sinks": problem.sinks,
    }
    told = json.loads(json.dumps(traced_sizes(Attention, problem.form)))
    assert {name: value(x, typed) for name, x in told.items()} == problem.sizes


def test_sizes_of_pages_follow() -> None:
    problem = PagedAttention(N_k=100, d=64, heads=32, kv_heads=8, page=16, batch=4)
    told = traced_sizes(PagedAttention, problem.form)
    assert {name: value(x, problem.as_dict) for name, x in told.items()} == problem.sizes


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return data()


@pytest.mark.numbers
def test_every_schedule_travels_that_needs_no_data(told: dict[str, Any]) -> None:
    names = [x for x in ALGORITHMS if algorithm(x).problem.kind in KINDS]
    assert [x["name"] for x in told["schedules"]] == names
    for x in told["schedules"]:
        assert {*x["fields"], *x["options"]} - {"causal", "align"} <= FIELDS.keys()
        assert {*x["options"]} <= {*told["options"], "causal", "left", "right"}
        assert all(set(x["needs"]) <= set(form.split()) for form in x["forms"])


@pytest.mark.numbers
@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ("", Attention(64, 8)),
        ("causal", Attention(64, 8, causal=True)),
        ("causal left", Attention(64, 8, causal=True, window=(5, None))),
        ("d_v", Attention(64, 8, d_v=4)),
        ("causal left sinks", Attention(64, 8, causal=True, window=(5, None), sinks=2)),
        (
            "N_k align causal d_v kv_heads",
            Attention(64, 8, 4, N_k=9, d_v=3, kv_heads=2, causal=True, align="upper left"),
        ),
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


OF_KIND = {"size": st.integers(1, 12), "count": st.integers(1, 5), "flag": st.just(True)}


@st.composite
def filled(draw: st.DrawFn) -> tuple[str, Problem, Problem]:
    """A schedule, a problem, and the same one with some of the schedule's fills given."""
    known = [x for x in ALGORITHMS if algorithm(x).problem.kind == "attention"]
    name = draw(st.sampled_from(known))
    of = algorithm(name)
    options = {x.name: x for x in of.problem.options() if x.name not in of.lacks}
    sizes = {"N": draw(OF_KIND["size"]), "d": draw(st.integers(1, 5)), "heads": 4}
    chosen = {*of.needs, *draw(st.sets(st.sampled_from(sorted(options))))}
    given = {x: draw(OF_KIND[options[x].kind]) for x in chosen if options[x].kind in OF_KIND}
    if "kv_heads" in given:
        given["kv_heads"] = draw(st.sampled_from((1, 2, 4)))
    if "window" in chosen:
        limits = draw(st.integers(0, 9)), draw(st.sampled_from((None, 0, 3)))
        given["window"] = limits
    if "align" in chosen:
        given["align"] = draw(st.sampled_from(options["align"].choices))
    plain = of.problem(**sizes, **given)
    whole = plain.as_dict | {"N_k": plain.keys, "d_v": plain.values, "kv_heads": plain.groups}
    fills = [x for x in _fills(of) if x != "sinks"]  # 0 sinks are not a form of their own
    more = {x: whole[x] for x in draw(st.sets(st.sampled_from(fills)))}
    return name, plain, of.problem(**{**sizes, **given, **more})


@given(filled(), st.data())
def test_what_may_be_given_too_changes_no_word(
    case: tuple[str, Problem, Problem], data: st.DataObject
) -> None:
    """Which is why a set of options without a program of its own can be watched."""
    name, plain, more = case
    programs = [algorithm(name).program_for(x) for x in (plain, more)]
    tiles = {p.name: data.draw(st.integers(p.least, 14)) for p in programs[0].params}
    try:
        one = iosim.bind(programs[0], plain.sizes, tiles)
    except InputError:  # tiles that cut what may not be cut
        return
    other = iosim.bind(programs[1], more.sizes, tiles)
    assert iosim.count(one) == iosim.count(other)
    assert iosim.peak(one) == iosim.peak(other)


def test_no_sinks_are_as_if_none_were_given(told: dict[str, Any]) -> None:
    """A program with sinks, with 0 of them, moves the words of one without."""
    for name in ("naive", "flash2", "flash2_chunked", "grouped_rows"):
        of = algorithm(name)
        given: dict[str, Any] = {"kv_heads": 2} if of.needs else {}
        for N, left in itertools.product((5, 8), (0, 2, 9)):
            plain = Attention(N, 3, 2, window=(left, 1), **given)
            sinks = Attention(N, 3, 2, window=(left, 1), sinks=1, **given)
            programs = [of.program_for(x) for x in (plain, sinks)]
            tiles = {p.name: max(p.least, 3) for p in programs[0].params}
            one = iosim.bind(programs[0], plain.sizes, tiles)
            other = iosim.bind(programs[1], plain.sizes | {"sinks": 0}, tiles)
            assert iosim.count(one) == iosim.count(other)
            assert iosim.peak(one) == iosim.peak(other)


def test_every_set_of_options_can_be_watched(told: dict[str, Any]) -> None:
    """Each set that a schedule takes has a program, or one that is given more."""
    for entry in told["schedules"]:
        of = algorithm(entry["name"])
        names = [x for x in told["options"] if x in entry["options"] or x in of.needs]
        forms = [set(x.split()) for x in entry["forms"]]
        for mask in told["masks"].values():
            if not {*mask} <= {*entry["options"]}:
                continue
            for n in range(len(names) + 1):
                for some in itertools.combinations(names, n):
                    given = {*mask, *some, *of.needs} - {*entry["fields"]}
                    if ("sinks" in given and "left" not in mask) or ("align" in given and not mask):
                        continue
                    more = [x - given for x in forms if given <= x]
                    assert any(x <= {*entry["fills"]} for x in more), (entry["name"], given)
