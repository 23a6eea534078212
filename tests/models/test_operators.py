"""Each kind of operator, against formulas and loops that share no code with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import plain_by_hand
import pytest
from operators_by_hand import CASES as SHAPED
from operators_by_hand import Case, S

from iosim.base.errors import InputError
from iosim.core.problem import MarkedTiles
from iosim.models.layers.backward import backward
from iosim.models.layers.graph import Graph
from iosim.models.operators import OPERATORS, Operand, operand, operator
from iosim.models.operators.flop import flop

CASES = [*SHAPED, *plain_by_hand.CASES]
STRICT = [case for case in CASES if case.kind not in plain_by_hand.LOOSE]
strict = pytest.mark.parametrize("case", STRICT, ids=lambda c: c.label or c.kind)
each = pytest.mark.parametrize("case", CASES, ids=lambda c: c.label or c.kind)
# What nobody differentiates: gradients themselves, the optimizer, what moves words of a cache or
# between devices, and a choice, whose gradient there is none of.
FLAT = {"adam", "append", "all_reduce", "sum"} | {c.kind for c in plain_by_hand.CASES} - {"copy"}


def test_every_kind_has_a_row() -> None:
    assert {case.kind for case in CASES} == set(OPERATORS) - {"opaque"}
    for case in CASES:
        kind = OPERATORS[case.kind]
        ends = case.kind.endswith(("_back", "_dx", "_dw", "_weights")) or case.kind in FLAT
        assert (kind.gradient is None) == ends, case.kind
        if kind.gradient is not None and not case.label:
            assert case.of or case.kind in ("by_expert", "causal", "block_mask"), case.kind


@each
def test_flop(case: Case) -> None:
    assert case.operator.flop == case.flop


@each
def test_values(case: Case) -> None:
    op, arrays = case.operator, case.arrays()
    made = op(*(arrays[t.name] for t in op.reads))
    got = dict(zip((t.name for t in op.writes), made, strict=True))
    assert [np.shape(x) for x in made] == [t.shape for t in op.writes]
    want = case.loop(arrays)
    assert set(want) == set(got) or case.kind == "dropout"
    for name, x in want.items():
        np.testing.assert_allclose(got[name], x, rtol=1e-9, atol=1e-10, err_msg=name)


def test_dropout_is_a_mask() -> None:
    (case,) = (c for c in CASES if c.kind == "dropout")
    big = {"i": 400, "j": 500}
    x, y, m = (operand(name, "i j", big) for name in ("X", "Y", "mask"))
    X = case.arrays()["X"][0, :1, :1] + np.zeros((400, 500))
    for p in (0.25, 0.5):
        op = operator("drop", "dropout", [x], [y, m], p=p, seed=3)
        Y, mask = op(X)
        assert set(mask.flat) == {0, 1 / (1 - p)}
        np.testing.assert_array_equal(Y, X * mask)
        assert (mask == 0).mean() == pytest.approx(p, abs=0.01)
        np.testing.assert_array_equal(op(X)[1], mask)
        assert not np.array_equal(operator("d", "dropout", [x], [y, m], p=p, seed=4)(X)[1], mask)


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if OPERATORS[c.kind].gradient is not None],
    ids=lambda c: c.label or c.kind,
)
def test_gradient_by_finite_differences(case: Case) -> None:
    op, arrays = case.operator, case.arrays()
    y = op.writes[0]
    of = [] if case.kind == "cross_entropy" else [y.name]
    names = [t.name for t in op.reads if t.name in case.of.split() or t.name in case.of]
    if not names:
        if "blocks" in case.settings and case.kind == "attention":
            with pytest.raises(InputError, match="no schedule gives the gradients of attention"):
                backward(Graph("one", (op,)), of, ["Q"])
        else:
            assert case.kind in ("by_expert", "causal", "block_mask")
        return
    graph = backward(Graph("one", (op,)), of, names)
    assert {t.name for t in graph.outputs} <= {*graph.writer}
    axes = {t.name: t.names for t in op.reads}
    rng = np.random.default_rng(1)
    dy = rng.standard_normal(y.shape) if of else np.full(y.shape, 1 / y.words)
    arrays[f"d{y.name}"] = dy
    run = graph.run(arrays)
    h = 1e-5
    for name in names:
        way = rng.standard_normal(arrays[name].shape)

        def at(step: float, name: str = name, way: Any = way) -> float:
            moved = {**arrays, name: arrays[name] + step * way}
            return float(np.sum(op(*(moved[t.name] for t in op.reads))[0] * dy))

        slope = (at(h) - at(-h)) / (2 * h)
        # Where there is no tensor for it, it is dY, its axes as they stand there.
        dx = run[f"d{name}"] if f"d{name}" in run else turned(dy, y.names, axes[name])
        assert np.sum(dx * way) == pytest.approx(slope, rel=1e-6, abs=1e-7), name


def turned(x: Any, names: tuple[str, ...], wanted: tuple[str, ...]) -> Any:
    assert set(names) == set(wanted)
    return np.transpose(x, [names.index(a) for a in wanted])


def test_gradient_of_a_mask() -> None:
    """Of scores whose hidden ones are −∞: only the others have a slope."""
    x, y = (operand(name, "j k", S) for name in "XY")
    marks = MarkedTiles.of([[True, False], [False, True]], 2, 2)
    for kind, settings, want in (
        ("causal", {}, np.tri(3, 4, 1)),
        ("block_mask", {"blocks": marks}, [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]]),
    ):
        one = operator("m", kind, [x], [y], "j k", **settings)
        graph = backward(Graph("one", (one,)), ["Y"], ["X"])
        run = graph.run({"X": np.ones((3, 4)), "dY": np.ones((3, 4))})
        np.testing.assert_array_equal(run["dX"], want)


def test_attention_with_dropout_is_its_operators_one_by_one() -> None:
    s = {"b": 2, "j": 3, "k": 4, "p": 4, "d": 3}
    Q, K, V, O, O2, QK, W, D, M = (
        operand(*x, s)
        for x in (
            ("Q", "b j p"),
            ("K", "b k p"),
            ("V", "b k d"),
            ("O", "b j d"),
            ("O2", "b j d"),
            ("QK", "b j k"),
            ("W", "b j k"),
            ("D", "b j k"),
            ("M", "b j k"),
        )
    )
    lse = operand("lse", "b j", s)
    fused = operator("fused", "attention", [Q, K, V], [O, lse], "j k", p=0.4, seed=7)
    graph = backward(
        Graph(
            "both",
            (
                fused,
                operator("qk", "contraction", [Q, K], [QK]),
                operator("w", "softmax", [QK], [W], "k"),
                operator("d", "dropout", [W], [D, M], p=0.4, seed=7),
                operator("pv", "contraction", [D, V], [O2]),
            ),
        ),
        ["O", "O2"],
        ["Q", "K", "V"],
    )
    rng = np.random.default_rng(0)
    arrays = {t.name: rng.standard_normal(t.shape) for t in graph.inputs}
    arrays["dO2"] = arrays["dO"]
    run = graph.run(arrays)
    np.testing.assert_allclose(run["O"], run["O2"])
    for x, first in (("Q", "qk"), ("K", "qk"), ("V", "pv")):
        np.testing.assert_allclose(run[f"d{x} by fused"], run[f"d{x} by {first}"])
    pairs = 2 * 3 * 4
    assert fused.flop == pairs * (2 * (4 + 3) + 1 + 4 + 1)
    back = next(op for op in graph.operators if op.kind.name == "attention_back")
    assert back.flop == pairs * (2 * (3 * 4 + 2 * 3) + 3 + 3 + 2) + 2 * 2 * 3 * 3


# ---- words ---------------------------------------------------------------------------------------

PARTLY = {
    "view": {"X": (0, 0), "Y": (0, 0)},
    "embedding": {"W": (24, 0), "ids": (6, 0), "Y": (0, 24)},
    "append": {"new": (16, 0), "cache": (0, 0), "Y": (0, 16)},
    "expert_product": {"X": (48, 0), "W": (20, 0), "experts": (12, 0), "Y": (0, 60)},
}


@each
def test_words(case: Case) -> None:
    op = case.operator
    want = {t.name: (t.words, 0) for t in op.reads} | {t.name: (0, t.words) for t in op.writes}
    assert op.words == PARTLY.get(case.kind, want)
    assert op.words_in == sum(n for n, _ in op.words.values())
    assert op.words_out == sum(n for _, n in op.words.values())


def test_a_table_is_read_at_most_once() -> None:
    s = {"b": 9, "v": 5, "i": 2}
    tensors = operand("ids", "b", s), operand("W", "v i", s), operand("Y", "b i", s)
    op = operator("rows", "embedding", tensors[:2], tensors[2:])
    assert op.words["W"] == (10, 0)


def test_few_rows_read_the_matrices_of_few_experts() -> None:
    s = {"m": 3, "e": 8, "u": 5, "i": 4}
    x, w, n, y = (
        operand(name, axes, s)
        for name, axes in (("X", "m i"), ("W", "e u i"), ("experts", "m"), ("Y", "m u"))
    )
    for active, read in ((0, 20), (1, 20), (2.25, 45), (3, 60)):
        op = operator("up", "expert_product", [x, w, n], [y], active=active)
        assert op.words["W"] == (read, 0)
    for active in (0.5, 4):
        with pytest.raises(InputError, match=r"experts have rows, of 3 that can: give 1 to 3"):
            operator("up", "expert_product", [x, w, n], [y], active=active)


# ---- bad input -----------------------------------------------------------------------------------


def refused(case: Case, **change: Any) -> str:
    op = case.operator
    ask: Any = {
        "reads": op.reads,
        "writes": op.writes,
        "over": case.over,
        "settings": case.settings,
        **change,
    }
    with pytest.raises(InputError) as told:
        operator("mine", case.kind, ask["reads"], ask["writes"], ask["over"], **ask["settings"])
    message = str(told.value)
    assert message.startswith("mine")
    assert "\n" not in message
    assert len(message) < 300
    return message


@each
def test_a_wrong_number_of_tensors_or_axes(case: Case) -> None:
    op, kind = case.operator, OPERATORS[case.kind]
    more = operand("more", "b", S)
    if kind.reads is not None:
        want = f"mine: {case.kind} reads {kind.reads} tensors, not "
        assert refused(case, reads=[*op.reads, more]) == f"{want}{kind.reads + 1}"
        assert refused(case, reads=op.reads[:-1]) == f"{want}{kind.reads - 1}"
    assert f"{case.kind} writes " in refused(case, writes=[*op.writes, more])
    assert f"{case.kind} writes " in refused(case, writes=[])
    if kind.kept:
        few = op.writes[: -kind.kept]
        assert operator("fewer", case.kind, op.reads, few, case.over, **case.settings).flop
    if kind.over is not None:
        axes = f"mine: {case.kind} works along {kind.over} axes, not "
        assert refused(case, over=f"{case.over} b") == f"{axes}{kind.over + 1}"
    if case.over:
        unknown = "z" + case.over[1:]
        assert "no tensor has the axis 'z'" in refused(case, over=unknown)


def longer(t: Operand, axis: str) -> Operand:
    return replace(t, axes=tuple((a, n + (a == axis)) for a, n in t.axes))


@each
def test_axes_that_do_not_meet(case: Case) -> None:
    """Each axis of each tensor, one longer there than elsewhere."""
    op = case.operator
    tensors = (*op.reads, *op.writes)
    for k, t in enumerate(tensors):
        for axis in t.names:
            if sum(axis in other.names for other in tensors) == 1:
                continue
            new = [*tensors[:k], longer(t, axis), *tensors[k + 1 :]]
            said = refused(case, reads=new[: len(op.reads)], writes=new[len(op.reads) :])
            assert f"axis {axis} is " in said


@strict
def test_an_axis_that_no_input_has(case: Case) -> None:
    op = case.operator
    new = operand("new", "z", {"z": 7})
    for k, t in enumerate(op.writes):
        wide = replace(t, axes=(*t.axes, *new.axes))
        refused(case, writes=[*op.writes[:k], wide, *op.writes[k + 1 :]])


@strict
def test_an_output_without_one_of_its_axes(case: Case) -> None:
    op = case.operator
    for k, t in enumerate(op.writes):
        for axis in t.names:
            if case.kind == "gather_back" and axis != "i":
                continue  # fewer tokens, each of which has more rows
            thin = replace(t, axes=tuple(x for x in t.axes if x[0] != axis))
            refused(case, writes=[*op.writes[:k], thin, *op.writes[k + 1 :]])


@each
def test_settings(case: Case) -> None:
    kind = OPERATORS[case.kind]
    said = refused(case, settings={**case.settings, "epsilom": 1})
    assert said.startswith(f"mine: {case.kind} has no setting 'epsilom': ")
    if "epsilon" in kind.settings:
        assert said.endswith("did you mean 'epsilon'?")
    if not kind.settings:
        assert said.endswith("it has none")
    for setting, default in kind.settings.items():
        if default is None and setting in case.settings and case.kind != "attention":
            assert refused(case, settings={}) == f"mine: {case.kind} needs {setting}: give it"
        said = refused(case, settings={**case.settings, setting: "much"})
        assert said.startswith(f"mine: {setting} must ")


def test_an_unknown_kind() -> None:
    with pytest.raises(
        InputError, match=r"^x: unknown kind of operator 'gleu': did you mean 'gelu'"
    ):
        operator("x", "gleu", [], [])


def test_rows_of_experts_that_do_not_fit() -> None:
    s = {**S, "m": 13}
    x, places, rows = (operand(n, a, s) for n, a in (("X", "b j i"), ("places", "m"), ("R", "m i")))
    with pytest.raises(InputError, match=r"13 rows of R are not a multiple of the 6 tokens of X"):
        operator("g", "gather", [x, places], [rows])
    logits, best = operand("L", "b j e", S), operand("T", "b j v", S)
    with pytest.raises(InputError, match=r"with one of at most 4 in the place of e"):
        operator("top", "top_k", [logits], [best, best.renamed("n")], "e")


@pytest.mark.parametrize(
    ("code", "name"),
    [(np.arctan, "arctan"), (np.add.accumulate, "add.accumulate"), (np.median, "median")],
)
def test_a_function_without_a_rule_is_one_line(code: Any, name: str) -> None:
    with pytest.raises(InputError, match=rf"no flop are known of NumPy's {name}: use others") as e:
        flop(code, (4, 3))
    assert "\n" not in str(e.value)


def test_an_opaque_operator_counts_its_tensors_and_has_no_code() -> None:
    x, y, z = (
        operand("X", "a b", {"a": 3, "b": 4}),
        operand("Y", "c", {"c": 5}),
        operand("Z", "", {}),
    )
    op = operator("sort", "opaque", [x], [y, z], of="aten.sort")
    assert (op.flop, op.words_in, op.words_out) == (0, 12, 6)
    with pytest.raises(InputError, match=r"^sort: there is no code for aten\.sort$"):
        op(np.zeros((3, 4)))
