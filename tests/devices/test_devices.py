"""Schedules over several devices: run, counted, in closed form, bounded and timed; all agree."""

from __future__ import annotations

import itertools
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples
from test_cli import iosim_

from iosim.base.errors import InputError, ProgramError
from iosim.core.problem import Attention, AttentionBackward, Copy
from iosim.devices import (
    SCHEDULES,
    SHARDINGS,
    all_schedules,
    count_links,
    on_devices,
    run_devices,
    schedule,
)
from iosim.devices.bounds import Setting, link_bounds
from iosim.devices.bounds.attention import corners, hull
from iosim.devices.bounds.products import accessed, irony_toledo_tiskin
from iosim.devices.builder import DeviceBuilder, trace
from iosim.devices.closed import sent_by, sent_words, total_of, total_words
from iosim.devices.problems import FeedForward, Gather, SumOver, WeightGradient
from iosim.devices.program import Around, Send, show
from iosim.devices.report import devices_report
from iosim.devices.sharding import chunks, find_sharding, pairs_seen
from iosim.devices.timing import device_times, link_speed
from iosim.models.hardware import machine


@st.composite
def problems(draw: Any, name: str, P: int, most: int = 24) -> Any:
    """A problem of a schedule: ragged, and with fewer rows than devices, too."""
    cls, size = schedule(name).problem, st.integers(1, most)
    if cls in (Attention, AttentionBackward):
        groups = draw(st.integers(1, 4))
        heads = groups * draw(st.integers(1, 5))
        return cls(
            draw(size), draw(st.integers(1, 4)), heads, kv_heads=groups, causal=draw(st.booleans())
        )
    if cls is SumOver:
        return SumOver(draw(size), P)
    return cls(*(draw(size) for _ in cls.axes()))


def inputs(problem: Any) -> dict[str, Any]:
    """Random ones; of a backward pass with what the forward pass leaves."""
    hbm = problem.random()
    if isinstance(problem, AttentionBackward):
        forward = Attention(
            problem.N,
            problem.d,
            problem.heads,
            kv_heads=problem.kv_heads,
            causal=problem.causal,
            statistics=True,
        )
        hbm |= forward.reference(hbm)
    return hbm


def draw_instance(data: Any, name: str, most: int = 24) -> Any:
    P = data.draw(st.integers(1, 7))
    sharding = (
        data.draw(st.sampled_from(list(SHARDINGS))) if schedule(name).sharded else "contiguous"
    )
    return on_devices(name, data.draw(problems(name, P, most)), P, sharding)


@pytest.mark.numbers
@pytest.mark.parametrize("name", SCHEDULES)
@examples(1 / 5)
@given(data=st.data())
def test_run_count_and_closed_form_agree(name: str, data: Any) -> None:
    instance = draw_instance(data, name)
    hbm = inputs(instance.problem)
    run, want = run_devices(instance, hbm), instance.problem.reference(hbm)
    assert set(run.outputs) == set(want)
    assert all(np.allclose(run.outputs[x], want[x], atol=1e-9) for x in want)
    assert run.spread < 1e-9
    counts = count_links(instance)
    assert counts.links == run.links
    assert sum(counts.links.values()) == counts.total == sum(counts.received) == sum(counts.owed)
    assert total_of(instance.schedule.program, instance.sizes, instance.P) == counts.total
    if name != "tree-all-reduce":
        sent = [sent_by(instance.schedule.program, instance, p) for p in range(instance.P)]
        assert tuple(sent) == counts.sent


@pytest.mark.parametrize("name", SCHEDULES)
@examples(1 / 4)
@given(data=st.data())
def test_no_schedule_is_below_a_bound(name: str, data: Any) -> None:
    instance = draw_instance(data, name, most=200)
    counts = count_links(instance)
    for M in (max(counts.peak), 1):
        setting = Setting(instance.problem, instance.P, M, instance.schedule.placement)
        for found in link_bounds(setting):
            if M == 1 and found.bound.name == "irony-toledo-tiskin":
                continue
            moved = counts.total if found.bound.of == "total" else max(counts.owed)
            assert moved >= float(found.words) - 1e-6, found


def tight(name: str, problem: Any, P: int) -> tuple[str, float]:
    """The bound that is nearest, and the schedule's words over it."""
    found = devices_report(on_devices(name, problem, P)).bounds
    best = min((x for x in found if x.gap is not None), key=lambda x: x.gap or 0)
    return best.name, best.gap or 0


@pytest.mark.parametrize(
    ("name", "problem", "P", "bound", "most"),
    [
        ("ring-attention", Attention(64, 4, 8, kv_heads=1), 8, "sharded-rows", 1.0),
        ("all-gather-attention", Attention(64, 4, 8, kv_heads=2), 4, "sharded-rows", 1.0),
        ("ulysses-attention", Attention(64, 4, 8), 8, "sharded-rows", 9 / 8),
        (
            "ring-attention-backward",
            Attention(64, 4, 32, kv_heads=1),
            8,
            "sharded-rows-backward",
            1.08,
        ),
        ("tensor-sequence-parallel", FeedForward(64, 64, 512), 8, "memory-independent", 1.0),
        ("data-parallel", WeightGradient(4096, 64, 64), 8, "summed", 1.0),
        ("data-parallel-sharded", WeightGradient(4096, 64, 64), 8, "memory-independent", 1.0),
        ("all-gather", Gather(64), 8, "gathered", 1.0),
        ("reduce-scatter", SumOver(64, 8), 8, "summed", 1.0),
        ("tree-all-reduce", SumOver(64, 8), 8, "summed", 1.0),
    ],
)
def test_where_bounds_are_tight(name: str, problem: Any, P: int, bound: str, most: float) -> None:
    """So a bound 1.3 times as high would be above what a schedule moves."""
    if bound == "sharded-rows-backward":
        problem = AttentionBackward(**problem.as_dict)
    report = devices_report(on_devices(name, problem, P))
    (found,) = (x for x in report.bounds if x.name == bound)
    assert found.gap is not None
    assert 1 <= found.gap <= most + 1e-3
    assert 1.3 * found.words > found.moved


def test_a_bound_that_is_too_high_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from iosim.devices import bounds

    real = bounds.LINK_BOUNDS["sharded-rows"]
    high = replace(real, words=lambda setting: 1.3 * float(real.words(setting)))
    monkeypatch.setitem(bounds.LINK_BOUNDS, "sharded-rows", high)
    report = devices_report(on_devices("ring-attention", Attention(64, 4, 8, kv_heads=1), 8))
    assert report.bounds[0].words > report.counts.total


@given(st.integers(1, 40), st.integers(1, 60), st.sampled_from(sorted(SHARDINGS)))
@examples(1 / 2)
def test_shardings_are_partitions_and_even(n: int, P: int, name: str) -> None:
    parts = SHARDINGS[name].positions(n, P)
    assert sorted(np.concatenate(parts).tolist()) == list(range(n))
    assert SHARDINGS[name].extents(n, P).tolist() == [len(x) for x in parts]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(st.data())
@examples(3 / 5)
def test_pairs_are_counted_as_one_by_one(data: Any) -> None:
    n, P = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 9))
    rule = find_sharding(data.draw(st.sampled_from(sorted(SHARDINGS))))
    runs, positions = rule.runs(n, P), rule.positions(n, P)
    i, j = (data.draw(st.integers(0, P - 1)) for _ in range(2))
    want = sum(int(k) <= int(r) for r in positions[i] for k in positions[j])
    assert pairs_seen(runs[i], runs[j], causal=True) == want
    assert pairs_seen(runs[i], runs[j], causal=False) == len(positions[i]) * len(positions[j])


@pytest.mark.parametrize("name", ["ring-attention", "all-gather-attention"])
@pytest.mark.parametrize("sharding", SHARDINGS)
def test_causal_work_adds_up_and_zigzag_balances_it(name: str, sharding: str) -> None:
    problem = Attention(96, 4, 2, causal=True)
    counts = count_links(on_devices(name, problem, 4, sharding))
    assert sum(counts.flop) == 4 * 4 * 2 * 96 * 97 // 2
    uneven = max(counts.flop) / min(counts.flop)
    assert uneven > 6 if sharding == "contiguous" else uneven < 1.1
    times = device_times(on_devices(name, problem, 4, sharding), 1.0, 1e12, 0.0, "fp16")
    if name == "ring-attention":  # in each round the devices wait for the slowest
        even = sum(counts.flop) / 4
        assert (
            times.compute_s > 1.7 * even
            if sharding == "contiguous"
            else times.compute_s < 1.1 * even
        )


def test_bounds_by_hand() -> None:
    """Irony, Toledo and Tiskin's number, and the least access by trying boxes."""
    assert irony_toledo_tiskin(64, 64, 64, 4, 16) == pytest.approx(64**3 / (16 * math.sqrt(8)) - 16)
    assert irony_toledo_tiskin(4, 4, 4, 4, 10**6) == 0
    with pytest.raises(InputError, match="M = 0"):
        irony_toledo_tiskin(4, 4, 4, 4, 0)
    for m, n, k, P in itertools.product((8, 24), (6, 12), (4,), (1, 2, 3, 6, 12, 24)):
        # x, y and z entries of the three: each product of a share is in a box of them
        least = math.inf
        for x in range(1, m * n + 1):
            for y in range(1, n * k + 1):
                z = (m * n * k / P) ** 2 / (x * y)
                sides = sorted((m, n, k))
                low = [sides[0] * sides[1] / P, sides[0] * sides[2] / P, sides[1] * sides[2] / P]
                got = sorted((x, y, max(z, min(low))))
                if all(a >= b * (1 - 1e-9) for a, b in zip(got, sorted(low), strict=True)):
                    least = min(least, sum(got))
        assert accessed((m, n, k), P) <= least * (1 + 1e-9)
        assert accessed((k, m, n), P) == accessed((m, n, k), P)
        assert least <= 1.05 * accessed((m, n, k), P) + 3


@pytest.mark.parametrize("causal", [False, True])
def test_the_hull_is_below_its_corners_and_rises(causal: bool) -> None:
    points = corners(40, 10, 3, 2, 2, causal)
    most = max(w for w, _ in points)
    values = [hull(points, Fraction(w)) for w in range(0, int(most) + 1, 7)]
    assert values == sorted(values)
    assert all(hull(points, w) <= cost for w, cost in points)
    steps = [b - a for a, b in itertools.pairwise(values)]
    assert all(b >= a - Fraction(1, 10**6) for a, b in itertools.pairwise(steps))  # convex


def test_one_device_sends_nothing() -> None:
    for one in all_schedules():
        problem = SumOver(5, 1) if one.problem is SumOver else None
        problem = problem or one.problem(*[3] * len(one.problem.axes()))
        report = devices_report(on_devices(one.name, problem, 1), machine("h200"))
        assert report.counts.total == 0 == report.counts.most
        assert all(x.words == 0 for x in report.bounds)
        assert report.times is not None
        assert report.times.communication_s == 0


def test_words_of_a_model_by_hand() -> None:
    """Two ways to say the words of textbooks: per device, where P divides everything."""
    attention = Attention(1024, 64, 8, kv_heads=4)
    ring = count_links(on_devices("ring-attention", attention, 4))
    assert set(ring.sent) == {2 * 3 * 256 * 64 * 4}
    assert set(ring.links) == {(0, 1), (1, 2), (2, 3), (3, 0)}
    ulysses = count_links(on_devices("ulysses-attention", attention, 4))
    assert set(ulysses.sent) == {3 * (2 * 8 + 2 * 4) * 64 * 256 // 4}
    assert len(ulysses.links) == 12
    # held: Q, O and statistics, K and V, and those that arrive
    assert set(ring.peak) == {256 * (8 * (2 * 64 + 2) + 4 * 4 * 64)}
    gathered = count_links(on_devices("all-gather-attention", attention, 4))
    assert set(gathered.peak) == {256 * (8 * (2 * 64 + 2) + 2 * 4 * 64) + 1024 * 2 * 4 * 64}
    assert gathered.sent == ring.sent
    tree = count_links(on_devices("tree-all-reduce", SumOver(100, 8), 8))
    assert tree.sent[0] == tree.received[0] == 300


def test_times_by_hand() -> None:
    ring = on_devices("ring-attention", Attention(64, 4), 4)
    times = device_times(ring, 1e3, 1e3, 0.5, "fp16")
    step, message = 4 * 16 * 16 * 4 / 1e3, 0.5 + 2 * 2 * 16 * 4 / 1e3
    assert times.compute_s == pytest.approx(4 * step)
    assert times.communication_s == pytest.approx(3 * message)
    assert times.written_s == pytest.approx(3 * max(step, message) + step)
    assert times.overlapped_s <= times.written_s <= times.apart_s
    gather = device_times(
        on_devices("all-gather-attention", Attention(64, 4), 4), 1e3, 1e3, 0.5, "fp16"
    )
    assert gather.written_s == pytest.approx(gather.apart_s)
    with pytest.raises(InputError, match="link_bytes_per_s"):
        link_speed(machine("epyc-9654"))


def test_a_schedule_says_what_arrives() -> None:
    def wrong(b: DeviceBuilder) -> None:
        x = b.holds("X", "n")
        y = b.make("Y", "n")
        b.send(x, Around(1), y.part("n"))

    with pytest.raises(ProgramError, match=re.escape("arrives as X[n[p - 1]], not as Y[n[p]]")):
        trace("wrong", Copy.plain_form(), wrong)

    def early(b: DeviceBuilder) -> None:
        x, y = b.holds("X", "n"), b.make("Y", "n")
        with b.together():
            b.send(y.part("n"), Around(1), y.part("n", -1))
            b.op("copy", y.part("n"), x)

    with pytest.raises(ProgramError, match="copy has to wait for the sends of Y"):
        trace("early", Copy.plain_form(), early)

    def lost(b: DeviceBuilder) -> None:
        x = b.holds("X", "n")
        for _ in b.rounds(x):
            pass

    with pytest.raises(ProgramError, match="passed on once in each round"):
        trace("lost", Copy.plain_form(), lost)
    for use, message in (
        (lambda b: b.holds("W"), "unknown tensor 'W': the problem has X[n], Y[n]"),
        (lambda b: b.op("nope", b.holds("X")), "unknown operation 'nope': there are "),
    ):
        with pytest.raises(ProgramError, match=re.escape(message)):
            trace("unknown", Copy.plain_form(), use)


def test_a_run_reads_only_its_own_memory() -> None:
    """A program whose send is left out gives another result: nothing comes by itself."""
    real = schedule("ring-attention")
    without = tuple(
        replace(
            node,
            body=tuple(
                replace(part, body=tuple(x for x in part.body if not isinstance(x, Send)))
                for part in node.body
            ),
        )
        if hasattr(node, "body")
        else node
        for node in real.program.body
    )
    broken = replace(real.program, body=without)
    instance = on_devices("ring-attention", Attention(8, 2), 2)
    object.__setattr__(instance.schedule, "__dict__", {**real.__dict__})
    instance.schedule.__dict__["program"] = broken
    try:
        hbm = instance.problem.random()
        run = run_devices(instance, hbm)
        assert not np.allclose(run.outputs["O"], instance.problem.reference(hbm)["O"])
        assert not run.links
    finally:
        real.__dict__.pop("program", None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("rings --P 2", "unknown schedule 'rings'"),
        ("ring-attention --N 8 --d 2", "P is missing"),
        ("ring-attention --P 2 --N 8", "needs --d"),
        ("ring-attention --P 2 --N 8 --d 2 --inner 3", "has no size inner: give --N"),
        ("ring-attention --P 0 --N 8 --d 2", "P = 0 is outside"),
        ("ring-attention --P 2000 --N 8 --d 2", "more than 1024 devices"),
        ("ring-attention --P 2 --N 8 --d 2 --sharding zig", "unknown sharding 'zig'"),
        (
            "ulysses-attention --P 2 --N 8 --d 2 --sharding zigzag",
            "shards contiguous runs, got zigzag",
        ),
        (
            "tensor-parallel --P 2 --rows 8 --width 2 --inner 3 --causal",
            "no size causal: give --rows",
        ),
        ("ring-attention --P 2 --N 8 --d 2 --heads 3 --kv-heads 2", "does not divide heads"),
        ("ring-attention --P 2 --N 8 --d 2 --window 2,", "has no option window: leave it out"),
        ("tensor-parallel --P 2 --rows 8", "needs --width, --inner"),
        ("tensor-parallel --P 2 --model gpt2", "leave gpt2 out, and give --rows, --width, --inner"),
        ("ring-attention --P 2 --N 8 --d 2 --machine h200 --dtype fp61", "unknown dtype 'fp61'"),
        (
            "all-gather --P 2 --n 8 --machine h200 --latency-us -1",
            "a finite number of µs, 0 or more, got '-1'",
        ),
        (
            "all-gather --P 2 --n 8 --machine h200 --latency-us nan",
            "a finite number of µs, 0 or more, got 'nan'",
        ),
        (
            "all-gather --P 2 --n 8 --machine h200 --latency-us inf",
            "a finite number of µs, 0 or more, got 'inf'",
        ),
        ("all-gather --P 2 --n 8 --latency-us 3", "without times: give --machine"),
    ],
)
def test_bad_input_is_one_line(arguments: str, message: str) -> None:
    from click.testing import CliRunner

    from iosim.cli.devices import devices

    result = CliRunner().invoke(devices, arguments.split())
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


def test_the_command_tells_links_and_json() -> None:
    words = [
        "devices",
        "ring-attention",
        "--N",
        "1000",
        "--d",
        "8",
        "--heads",
        "4",
        "--P",
        "3",
        "--machine",
        "h200",
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "iosim", *words], capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)
    assert told["total_words"] == 2 * 1000 * 8 * 4 * 2 == sum(x["words"] for x in told["links"])
    assert told["times"]["max_s"] <= told["times"]["written_s"] <= told["times"]["sum_s"]
    wrong = subprocess.run(
        [sys.executable, "-m", "iosim", "devices", "rings"], capture_output=True, text=True
    )
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


def test_every_schedule_prints_and_has_a_formula() -> None:
    for one in all_schedules():
        assert show(one.program).startswith(one.name)
        assert str(total_words(one.program)) != "0"
        assert one.title
    with pytest.raises(ProgramError, match="depends on its bits"):
        sent_words(schedule("tree-all-reduce").program)
    assert str(chunks(5, 2)) == "[(0, 3, 1), (3, 2, 1)]"


def test_the_operator_of_layers_counts_the_same_all_reduce() -> None:
    """`iosim roofline --P` has a formula of its own, rounded up."""
    from iosim.models.operators import operand, operator
    from iosim.models.operators.communication import link_words

    for n, P in itertools.product((1, 7, 24, 840), (2, 3, 4, 7)):
        x, y = (operand(name, "t", {"t": n}) for name in "XY")
        told = link_words(operator("sum", "all_reduce", [x], [y], devices=P))
        sent = count_links(on_devices("all-reduce", SumOver(n, P), P)).sent
        assert told == -(-sum(sent) // P)
        assert n % P or set(sent) == {told}


@pytest.mark.parametrize("sizes", [(64, 32, 48), (64, 8, 96), (64, 96, 8)])
def test_gathered_rows_are_dropped_before_y_is_made(sizes: tuple[int, int, int]) -> None:
    """The peak of a layer with sharded rows: beside its inputs and H, all of X or Y, never both."""
    rows, width, inner = sizes
    counts = count_links(on_devices("tensor-sequence-parallel", FeedForward(*sizes), 4))
    own = rows * width // 4 + 2 * width * inner // 4
    assert set(counts.peak) == {own + rows * inner // 4 + rows * width}


def test_a_schedule_is_shown_as_json_too() -> None:
    from click.testing import CliRunner

    from iosim.cli.devices import devices

    plain, as_json = (
        CliRunner().invoke(devices, ["ring-attention", "--show", *more]).stdout
        for more in ((), ("--json",))
    )
    told = json.loads(as_json)
    assert told["schedule"] == "ring-attention"
    assert "\n".join(told["program"]) == plain.rstrip("\n")
    assert plain.startswith("ring-attention on device p of P")


@pytest.mark.parametrize("name", SCHEDULES)
def test_idle_devices_are_said(name: str) -> None:
    """On more devices than any axis has words, some do nothing, in every schedule but sums."""
    sizes = {
        "N": "4",
        "d": "4",
        "heads": "4",
        "kv_heads": "4",
        "rows": "4",
        "width": "4",
        "inner": "4",
        "out": "4",
        "n": "4",
    }
    entry = schedule(name)
    names = {*(x.name for x in entry.problem.axes()), *entry.options} & sizes.keys()
    words = [x for one in sorted(names) for x in (f"--{one.replace('_', '-')}", sizes[one])]
    for P in (4, 8):
        done = iosim_("devices", name, *words, "--P", str(P), "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        work = (
            found["flop"]
            if any(found["flop"])
            else [
                sum(link["words"] for link in found["links"] if p in (link["from"], link["to"]))
                for p in range(P)
            ]
        )
        idle = [p for p in range(P) if not work[p]]
        assert found["idle"] == idle
        assert (f"{len(idle)} of {P} devices have nothing to do" in done.stderr) == bool(idle)
        if P == 4 or not any(found["flop"]):
            assert not idle  # devices without words of their own still get those of others
        else:
            assert idle == [4, 5, 6, 7], name


def test_heads_that_are_fewer_than_devices_leave_some_idle() -> None:
    words = "--N 8 --d 4 --heads 8 --kv-heads 4 --P 8"
    done = iosim_("devices", "ulysses-attention", *words.split())
    assert "4 of 8 devices have nothing to do (4, 5, 6, 7): --P 4 does the same" in done.stderr


def test_a_machine_without_what_times_need_still_has_words(tmp_path: Path) -> None:
    told = "cores = 4\ndram_bytes_per_s = 1e9\ncapacity_bytes = 1e9\nsram_bytes = 512\n"
    path = tmp_path / "own.toml"
    words = (
        "devices",
        "ring-attention",
        "--P",
        "2",
        "--N",
        "8",
        "--d",
        "2",
        "--machine",
        str(path),
    )
    for more, lacking in (
        ("cache_bytes = 1024\n[peaks]\nfp16 = 1e9", "own has no link_bytes_per_s: add"),
        (
            "cache_bytes = 1024\nlink_bytes_per_s = 1e9\n[peaks]\nfp32 = 1e9",
            "own has no peak for 'fp16'",
        ),
        ("cache_bytes = 1024\nlink_bytes_per_s = 1e9\n[peaks]\nfp16 = 1e9", ""),
    ):
        path.write_text(told + more)
        done = iosim_(*words)
        assert done.returncode == 0, done.stderr
        assert "words over all links: 32" in done.stdout
        assert ("without overlap" in done.stdout) == (not lacking)
        assert (f"words only, no times: {lacking}" if lacking else "") in done.stderr
        found = iosim_(*words, "--json")
        assert (json.loads(found.stdout)["untimed"] is None) == (not lacking)
