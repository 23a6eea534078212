"""Holds that are empty, whole and in between, in emitted kernels: operands of no words.

Each schedule is run in Triton's interpreter against the problem's reference, and its kernels' own
counts against the model's; the strict machine runs the same schedule.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import iosim
from iosim.core.program.ops import OPS
from iosim.gpu.emitter.kernels import emit
from iosim.gpu.errors import EmitError
from iosim.gpu.run.interpreter import interpret

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

N, D = 21, 24


def _softmax(b, o, m, l, s, v):
    b.op("online_softmax", o, m, l, s, v)


def _mean(b, o, m, l, s, v):
    b.op("online_mean", o, m, l, s, v)


def _weights(b, o, m, l, s, v):
    b.op("online_weights", o, m, l, s)
    b.op("matmul_nn", o, s, v)


ONLINE = {"online_softmax": _softmax, "online_mean": _mean, "online_weights": _weights}


def _columns(b, online):
    """O's columns in two parts at W: the second takes the statistics of the first."""
    B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
    W = b.stationary("d", "W")
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            q = b.load("Q", h, i, "d")
            m, l = b.lowest("m", i), b.zeros("l", i)
            left, right = b.span("d", 0, W), b.span("d", W, "d")
            o, rest = b.zeros("o", i, left), b.zeros("rest", i, right)
            for j in b.tiles("N", B_c):
                k, v, s = b.load("K", h, j, "d"), b.load("V", h, j, left), b.zeros("s", i, j)
                b.op("matmul_nt", s, q, k)
                ONLINE[online](b, o, m, l, s, v)
                b.free(k, v, s)
            if online != "online_mean":
                b.op("finish", o, l)
            for j in b.tiles("N", B_c):
                k, v, s = b.load("K", h, j, "d"), b.load("V", h, j, right), b.zeros("s", i, j)
                b.op("matmul_nt", s, q, k)
                b.op("normalise", s, m, l)
                b.op("matmul_nn", rest, s, v)
                b.free(k, v, s)
            b.store(o, "O", h, i, left)
            b.store(rest, "O", h, i, right)
            b.free(q, m, l, o, rest)


def _rows(b, online):
    """W rows of K and V at once, then the others: a sum over no rows leaves all as it was."""
    B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
    W = b.stationary("N", "W")
    for h in b.grid("heads"):
        kept = b.span("N", 0, W)
        held_k, held_v = b.load("K", h, kept, "d", name="k0"), b.load("V", h, kept, "d", name="v0")
        for i in b.grid("N", B_r):
            q = b.load("Q", h, i, "d")
            o, m, l = b.zeros("o", i, "d"), b.lowest("m", i), b.zeros("l", i)
            for j in b.tiles("N", B_c, W):
                k, v, s = b.load("K", h, j, "d"), b.load("V", h, j, "d"), b.zeros("s", i, j)
                b.op("matmul_nt", s, q, k)
                ONLINE[online](b, o, m, l, s, v)
                b.free(k, v, s)
            s = b.zeros("s", i, kept)
            b.op("matmul_nt", s, q, held_k)
            ONLINE[online](b, o, m, l, s, held_v)
            b.free(s)
            if online != "online_mean":
                b.op("finish", o, l)
            b.store(o, "O", h, i, "d")
            b.free(q, o, m, l)
        b.free(held_k, held_v)


def _contracted(b, online):
    """Scores from W columns of Q and K, then from the others."""
    B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
    W = b.stationary("d", "W")
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            o, m, l = b.zeros("o", i, "d"), b.lowest("m", i), b.zeros("l", i)
            for j in b.tiles("N", B_c):
                s = b.zeros("s", i, j)
                for part in (b.span("d", 0, W), b.span("d", W, "d")):
                    q, k = b.load("Q", h, i, part), b.load("K", h, j, part)
                    b.op("matmul_nt", s, q, k)
                    b.free(q, k)
                v = b.load("V", h, j, "d")
                ONLINE[online](b, o, m, l, s, v)
                b.free(v, s)
            if online != "online_mean":
                b.op("finish", o, l)
            b.store(o, "O", h, i, "d")
            b.free(o, m, l)


def _bound(schedule, online, W):
    program = iosim.build("held", iosim.Attention, lambda b: schedule(b, online))
    problem = iosim.Attention(N, D, 1)
    return problem, iosim.bind(program, problem.sizes, {"B_r": 16, "B_c": 16, "W": W})


CASES = [
    *((_columns, W) for W in (0, 5, 16, D)),
    *((_rows, W) for W in (0, 5, N)),
    *((_contracted, W) for W in (0, 7, D)),
]


@pytest.mark.numbers
@pytest.mark.parametrize("online", ONLINE)
@pytest.mark.parametrize(("schedule", "W"), CASES, ids=lambda x: getattr(x, "__name__", x))
def test_a_hold_of_any_width_computes_the_same(schedule, W, online):
    problem, instance = _bound(schedule, online, W)
    inputs = problem.random(seed=1)
    want = problem.reference(inputs)
    outcome = interpret(emit(instance), inputs)
    assert iosim.max_error({"O": outcome.outputs["O"]}, want) < 3e-6
    assert outcome.counts == iosim.count(instance)
    strict = iosim.simulate(instance, iosim.Machine(iosim.peak(instance)), inputs)
    assert iosim.max_error(strict.outputs, want) < 1e-12
    assert strict.counts == outcome.counts


def test_an_operation_keeps_what_its_full_operands_need():
    """With no columns of O, the maximum and the sum of the rows are still taken."""
    text = emit(_bound(_columns, "online_softmax", 0)[1]).source
    assert "m = _top" in text
    assert "l = l * _shrink + tl.sum(s, 1)" in text
    assert "o = " not in text
    assert "v_0" not in text
    # ... and with no rows of K and V to take in, nothing is.
    text = emit(_bound(_rows, "online_mean", 0)[1]).source
    assert text.count("m = _top") == 1


def test_a_name_that_comes_back_with_words():
    """The same buffer's name, empty first and whole then: only the second is in the kernel."""

    def twice(b):
        (B,), W = b.tile_sizes("n", "B"), b.stationary("n", "W")
        part = b.load("X", b.span("n", 0, W), name="x")
        b.store(part, "Y", b.span("n", 0, W))
        b.free(part)
        for i in b.grid("n", B):
            x = b.load("X", i)
            b.store(x, "Y", i)
            b.free(x)

    program = iosim.build("twice", iosim.Copy, twice)
    problem = iosim.Copy(40)
    for W in (0, 3, 40):
        instance = iosim.bind(program, problem.sizes, {"B": 16, "W": W})
        inputs = problem.random()
        outcome = interpret(emit(instance), inputs)
        np.testing.assert_allclose(outcome.outputs["Y"], inputs["X"], rtol=1e-6)
        assert outcome.counts == iosim.count(instance)


@pytest.mark.parametrize(
    "line",
    ["{l} = {l} + tl.sum({v}, 1)", "_all = tl.sum({v}, 1)\n{l} = _all", "tl.store({v}, {l})"],
)
def test_a_line_that_needs_an_empty_operand_is_refused(monkeypatch, line):
    spec = dataclasses.replace(
        OPS["online_softmax"], triton=OPS["online_softmax"].triton + "\n" + line
    )
    monkeypatch.setitem(OPS, "online_softmax", spec)
    with pytest.raises(EmitError, match="is empty: choose a larger stationary part"):
        emit(_bound(_columns, "online_softmax", 0)[1])
    emit(_bound(_columns, "online_softmax", 5)[1])


def _against_the_machine(schedule, problem, tiles):
    program = iosim.build("edges", iosim.Attention, schedule)
    instance = iosim.bind(program, problem.sizes, tiles)
    inputs = problem.random(seed=3)
    strict = iosim.simulate(instance, iosim.Machine(iosim.peak(instance)), inputs)
    outcome = interpret(emit(instance), inputs)
    assert outcome.counts == strict.counts
    np.testing.assert_allclose(outcome.outputs["O"], strict.outputs["O"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("swept", [False, True])
def test_scores_that_a_maximum_was_taken_of_may_be_multiplied(swept):
    """Beyond a ragged edge they read -inf for the one and 0 for the other, in loops too."""

    def schedule(b):
        (B_r, B_c), (B_d,) = b.tile_sizes("N", "B_r", "B_c"), b.tile_sizes("d", "B_d")
        for h in b.grid("heads"):
            for i in b.grid("N", B_r):
                m, l, o = b.lowest("m", i), b.zeros("l", i), b.zeros("o", i, "d")
                for j in b.tiles("N", B_c):
                    s, v = b.zeros("s", i, j), b.load("V", h, j, "d")
                    for x in b.tiles("d", B_d):
                        q, k = b.load("Q", h, i, x), b.load("K", h, j, x)
                        b.op("matmul_nt", s, q, k)
                        b.free(q, k)
                        if swept:  # the next iteration sees what this one left
                            b.op("matmul_nn", o, s, v)
                            b.op("row_stats", m, l, s)
                    if not swept:
                        b.op("row_stats", m, l, s)
                        b.op("matmul_nn", o, s, v)
                    b.free(s, v)
                b.op("finish", o, l)
                b.store(o, "O", h, i, "d")
                b.free(o, m, l)

    _against_the_machine(schedule, iosim.Attention(19, 32, 1), {"B_r": 16, "B_c": 16, "B_d": 16})


def test_a_buffer_may_be_cut_in_two_places():
    """Held rows first, then the others: both loops over columns cut o, and both are unrolled."""

    def schedule(b):
        (B_r, B_c), (B_d,) = b.tile_sizes("N", "B_r", "B_c"), b.tile_sizes("d", "B_d")
        W = b.stationary("N", "W")

        def take(h, i, j, o, m, l):
            q, k, s = b.load("Q", h, i, "d"), b.load("K", h, j, "d"), b.zeros("s", i, j)
            b.op("matmul_nt", s, q, k)
            b.free(q, k)
            for x in b.tiles("d", B_d):
                v = b.load("V", h, j, x)
                b.op("matmul_nn", o[x], s, v)
                b.free(v)
            b.op("row_stats", m, l, s)
            b.free(s)

        for h in b.grid("heads"):
            for i in b.grid("N", B_r):
                m, l, o = b.lowest("m", i), b.zeros("l", i), b.zeros("o", i, "d")
                take(h, i, b.span("N", 0, W), o, m, l)
                for j in b.tiles("N", B_c, W):
                    take(h, i, j, o, m, l)
                b.op("finish", o, l)
                b.store(o, "O", h, i, "d")
                b.free(o, m, l)

    for W in (0, 5, 40):
        tiles = {"B_r": 16, "B_c": 16, "B_d": 16, "W": W}
        _against_the_machine(schedule, iosim.Attention(40, 32, 1), tiles)
