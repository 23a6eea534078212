"""Words, dtypes and classes of kernels where few others look: each number here is by hand."""

from __future__ import annotations

import pytest

from iosim.models.hardware import machine
from iosim.models.layers.graph import Graph
from iosim.models.layers.traffic import moved
from iosim.models.operators import link_words, operand, operator
from iosim.models.roofline.roof import MATRIX, Roof
from iosim.models.roofline.work import L2_DRAM, work_of, works

S = {"t": 64, "i": 50, "u": 8}


@pytest.mark.parametrize(("M", "twice"), [(150, False), (149, True), (50, True)])
def test_a_row_is_held_with_all_that_it_needs(M: int, twice: bool) -> None:
    # A row of X, with γ and β, is 150 words; mean and rstd have no row.
    x, y = operand("X", "t i", S), operand("Y", "t i", S)
    g, b = operand("γ", "i", S), operand("β", "i", S)
    kept = [operand(name, "t", S) for name in ("mean", "rstd")]
    norm = operator("norm", "layer_norm", [x, g, b], [y, *kept], over="i")
    found = moved(norm, M)
    assert found.loads["X"] == 64 * 50 * (1 + twice)
    assert found.stores == {"Y": 64 * 50, "mean": 64, "rstd": 64}


def test_what_has_no_row_is_read_once() -> None:
    dy, x, dx = (operand(name, "t i", S) for name in ("dY", "X", "dX"))
    reads = [dy, x, operand("γ", "i", S), *(operand(name, "t", S) for name in ("mean", "rstd"))]
    back = operator("dx", "layer_norm_dx", reads, [dx], over="i")
    for M, times in ((150, 1), (149, 2)):
        found = moved(back, M).loads
        assert (found["dY"], found["X"]) == (3200 * times, 3200 * times)
        assert (found["mean"], found["rstd"]) == (64, 64)


@pytest.mark.parametrize("rows", [8, 9, 16, 17])
@pytest.mark.parametrize("active", [1, 3, 8])
def test_every_row_of_an_expert_counts_once(rows: int, active: int) -> None:
    s = {"m": rows, "e": 8, "i": 6, "u": 10}
    x, w = operand("X", "m i", s), operand("W", "e u i", s, role="weight")
    up = operator(
        "up",
        "expert_product",
        [x, w, operand("experts", "m", s)],
        [operand("Y", "m u", s)],
        active=active,
    )
    found = moved(up, 10**6)
    assert (found.loads["X"], found.loads["W"]) == (rows * 6, active * 60)
    assert found.stores == {"Y": rows * 10}
    assert up.flop == 2 * rows * 60


SENT = [(8, 4, 12), (7, 4, 11), (5, 2, 5), (9, 1, 0)]


@pytest.mark.parametrize(("words", "devices", "sent"), SENT)
def test_words_of_a_link_are_rounded_up(words: int, devices: int, sent: int) -> None:
    x, y = (operand(name, "i", {"i": words}) for name in "XY")
    assert link_words(operator("sum", "all_reduce", [x], [y], devices=devices)) == sent


def test_a_product_takes_the_peak_of_its_wider_input() -> None:
    x = operand("X", "t i", S)
    w, y = operand("W", "i u", S, dtype="fp32"), operand("Y", "t u", S)
    h100 = machine("h100")
    for reads in ([x, w], [w, x]):
        graph = Graph("wide", (operator("linear", "contraction", reads, [y]),), dtype="fp16")
        (work,) = works(graph, h100)
        assert work.dtype == "fp32"
        assert Roof.of(h100).timed(work).limits[MATRIX] == 2 * 64 * 50 * 8 / h100.peaks["fp32"]
        assert work.bytes[L2_DRAM] == 2 * 64 * 50 + 4 * 50 * 8 + 2 * 64 * 8


def test_a_kernel_takes_the_widest_dtype_and_the_first_class_of_its_operators() -> None:
    x, y = operand("X", "t i", S), operand("Y", "t u", S)
    w, v = operand("W", "i u", S), operand("V", "i u", S, dtype="fp32")
    z, total = operand("Z", "t u", S), operand("total", "t u", S)
    ops = [
        operator("double", "add", [x, x], [operand("X2", "t i", S)]),
        operator("narrow", "contraction", [operand("X2", "t i", S), w], [y]),
        operator("wide", "contraction", [operand("X2", "t i", S), v], [z]),
        operator("both", "add", [y, z], [total]),
    ]
    graph = Graph("two", tuple(ops), dtype="fp16")
    work = work_of(ops, {L2_DRAM: moved(ops[0], 10)}, graph)
    assert (work.dtype, work.klass) == ("fp32", "contraction")
    assert (work.products, work.others) == (2 * 2 * 64 * 50 * 8, 64 * 50 + 64 * 8)
    (sums,) = (work_of([op], {}, graph) for op in ops[:1])
    assert (sums.klass, sums.dtype) == ("elementwise", "fp16")


def test_a_kernel_reads_as_much_of_a_table_as_its_hungriest_operator() -> None:
    s = {"t": 3, "v": 20, "i": 4}
    table = operand("T", "v i", s, role="weight")
    look = operator("look", "embedding", [operand("ids", "t", s), table], [operand("X", "t i", s)])
    logits = operator(
        "logits", "contraction", [operand("X", "t i", s), table], [operand("L", "t v", s)]
    )
    whole = operator("same", "same", [table], [operand("T2", "v i", s)])
    for ops in ((look, logits), (whole, look)):
        graph = Graph("tied", ops)
        reads, _ = graph.part({op.name for op in ops})
        assert reads["T"] == 80
    assert Graph("alone", (look,)).part({"look"})[0]["T"] == 12


@pytest.mark.parametrize("fusion", ["none", "best"])
def test_a_view_is_no_kernel(fusion: str) -> None:
    """It would take the time of a launch."""
    x, y, z = (operand(name, "t i", S) for name in ("X", "Y", "Z"))
    shown = operand("shown", "i t", S)
    graph = Graph(
        "seen",
        (
            operator("relu", "relu", [x], [y]),
            operator("view", "view", [y], [shown]),
            operator("gelu", "gelu", [shown], [z]),
        ),
    )
    names = [one.name for one in works(graph, machine("h100"), fusion=fusion)]
    assert "view" not in names
    assert "relu" in " ".join(names)
    assert "gelu" in " ".join(names)
