"""The best fusion with attention in it: against all others, and against every partition."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from test_cli import iosim_, ok
from test_fusion_best import by_brute_force
from test_fusion_cli import bad

from iosim.base.errors import CapacityError, InputError
from iosim.models.fusion import FUSIONS, Illegal, fused, kernel, partition
from iosim.models.fusion.online import recomputations
from iosim.models.hardware import machine
from iosim.models.layers.backward import backward
from iosim.models.layers.blocks import Writer
from iosim.models.layers.graph import Graph
from iosim.models.layers.models import MODELS
from iosim.models.layers.workload import workload
from iosim.models.operators import Operand, operator
from iosim.models.roofline.work import works_of

pytestmark = pytest.mark.numbers

PHASES: dict[str, dict[str, int]] = {
    "prefill": {},
    "decode": {},
    "decode, 3 tokens": {"tokens": 3},
    "training": {},
}


def at_most(graph: Graph, how: str, M: int, words: int) -> bool:
    """Whether a fusion moves no less; one that the graph doesn't have, or that doesn't fit, is."""
    try:
        return words <= fused(graph, how, M).words
    except (InputError, CapacityError):
        return how != "best"


@pytest.mark.parametrize(
    ("model", "phase"),
    # An encoder has no decoding.
    [(m, p) for m in MODELS for p in PHASES if not (m.startswith("bert") and "decode" in p)],
)
def test_best_moves_no_more_than_any_fusion_nor_than_fused_attention(
    model: str, phase: str
) -> None:
    def graphs(attention: str) -> list[Graph]:
        told: Any = {"batch": 2, "N": 512, "attention": attention, **PHASES[phase]}
        return [part.graph for part in workload(model, phase.split(",")[0], **told).parts]

    smaller = 0
    for M in (31_457_280, 116_736, 2_200):
        for graph, one in zip(graphs("unfused"), graphs("fused"), strict=True):
            words = fused(graph, "best", M).words
            assert all(at_most(graph, how, M, words) for how in FUSIONS), (graph.name, M)
            assert at_most(one, "best", M, words), (graph.name, M)
            smaller += words < fused(graph, "best", M, online_softmax=False).words
    assert smaller or phase == "decode"


@pytest.mark.parametrize("phase", ["prefill", "training"])
def test_a_roofline_with_the_best_fusion_is_that_of_fused_attention(phase: str) -> None:
    h100 = machine("h100")
    found = []
    for attention in ("unfused", "fused"):
        step = workload("gpt2", phase, batch=2, N=512, attention=attention)
        kernels = works_of(step, h100, fusion="best")
        found.append(
            [
                (
                    sum(k.times * k.bytes[at] for k in kernels),
                    sum(k.times * k.flop for k in kernels),
                )
                for at in kernels[0].bytes
            ]
        )
    assert found[0] == found[1]


def training(*, causal: bool = False, dropout: bool = False, sizes: tuple[int, ...]) -> Graph:
    """Attention forward and backward, small enough for every partition."""
    j, k, p = sizes
    write = Writer({"j": j, "k": k, "p": p, "q": p})
    last = write("scores", "contraction", "Q[j p], K[k p] -> S[j k]")
    if causal:
        last = write("mask", "causal", "S[j k] -> T[j k]", "j k")
    last = write("softmax", "softmax", f"{last}[j k] -> P[j k]", "k")
    if dropout:
        last = write("dropout", "dropout", "P[j k] -> D[j k], mask of D[j k]", p=0.5, seed=1)
    write("sum", "contraction", f"{last}[j k], V[k q] -> O[j q]")
    forward = Graph("attention", tuple(write.operators), frozenset({"O"}))
    return backward(forward, ["O"], ["Q", "K", "V"])


def as_fused(graph: Graph) -> Graph:
    """The same, written by hand with operators of attention."""
    Q, K, V, O, dO, dQ, dK, dV = (
        graph.tensors[x] for x in ("Q", "K", "V", "O", "dO", "dQ", "dK", "dV")
    )
    L = Operand("L", O.axes[:1], "activation", "fp32")
    settings: dict[str, Any] = {"causal": "mask" in graph.needs}
    if "dropout" in graph.needs:
        settings |= {"p": 0.5, "seed": 1}
    one = operator("attention", "attention", [Q, K, V], [O, L], over="j k", **settings)
    back = operator(
        "back",
        "attention_back",
        [dO, Q, K, V, O, L],
        [x.renamed(y.name) for x, y in zip((Q, K, V), (dQ, dK, dV), strict=True)],
        over="j k",
        **settings,
    )
    return Graph("fused", (one, back), frozenset({"O", "dQ", "dK", "dV"}))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(8, 8, 2), (6, 6, 6), (12, 12, 1)])
@pytest.mark.parametrize("M", [12, 30, 60, 200, 1000])
def test_both_ways_to_train_are_tried_and_the_better_is_taken(
    sizes: tuple[int, ...], causal: bool, M: int
) -> None:
    graph = training(causal=causal, sizes=sizes)
    stored, kernels = by_brute_force(graph, M)
    best = fused(graph, "best", M)
    try:
        again = fused(as_fused(graph), "none", M).words
    except CapacityError:
        again = stored + 1
    assert best.words == min(stored, again)
    assert fused(graph, "best", M, online_softmax=False).words == stored
    if again < stored:
        assert len(best.groups) == 2
    elif stored < again:
        assert len(best.groups) == kernels


def test_each_way_to_train_is_the_better_one_somewhere() -> None:
    taken = {
        any(k.crossing.how.startswith("weights again") for k in fused(graph, "best", M).groups)
        for M in (12, 1000)
        for graph in (training(sizes=(12, 12, 1)), training(sizes=(6, 6, 6)))
    }
    assert taken == {False, True}


def test_kernels_that_compute_weights_again_come_together_or_not_at_all() -> None:
    graph, M = training(dropout=True, sizes=(12, 12, 2)), 200
    best = fused(graph, "best", M)
    assert len(best.groups) == 2
    names = [k.names for k in best.groups]
    assert partition(graph, names, M, "given").words == best.words
    forward, back = best.groups
    assert forward.crossing.stores == {"O": 24, "scores … sum: L": 12}
    assert forward.crossing.wide == {"scores … sum: L"}
    assert back.crossing.loads["scores … sum: L"] >= 12
    with pytest.raises(Illegal, match="is read elsewhere, or kept"):
        kernel(graph, forward.names, M)
    with pytest.raises(Illegal):
        partition(graph, [forward.names, *([x] for x in back.names)], M, "given")


def test_weights_that_something_else_reads_are_not_computed_again() -> None:
    graph, M = training(sizes=(12, 12, 2)), 200
    assert len(list(recomputations(graph))) == 1
    reader = operator("reader", "relu", [graph.tensors["P"]], [graph.tensors["P"].renamed("R")])
    kept = Graph("kept", graph.operators, frozenset({*(t.name for t in graph.outputs), "P"}))
    for other in (graph.with_operators([reader]), kept):
        assert not list(recomputations(other))
        assert not any("again" in k.crossing.how for k in fused(other, "best", M).groups)


def test_gradients_that_are_none_are_not_taken_for_attention_s() -> None:
    graph = training(sizes=(12, 12, 2))
    dQ = graph.writer["dQ"]
    dS, K = dQ.reads
    other = replace(dQ, reads=(dS, K.renamed("another K")))
    operators = tuple(other if op is dQ else op for op in graph.operators)
    changed = Graph("changed", operators, frozenset(t.name for t in graph.outputs))
    assert len(list(recomputations(graph))) == 1
    assert not list(recomputations(changed))


def test_intermediate_tiles_are_an_old_name() -> None:
    words = ("fuse", "--model", "gpt2", "--phase", "prefill", "--N", "64", "--json")
    new, old = ok(*words), iosim_(*words, "--intermediate-tiles")
    assert (old.returncode, old.stdout) == (0, new)
    assert "--no-online-softmax" in old.stderr
    without = json.loads(ok(*words, "--no-online-softmax"))
    assert not without["online_softmax"]
    told = json.loads(new)
    assert told["online_softmax"]
    assert any(g["schedule"].startswith("online softmax: ") for g in told["groups"])
    assert not any("online" in g["schedule"] for g in without["groups"])


def test_shares_are_of_the_same_words_however_attention_is_written() -> None:
    words = ("fuse", "--model", "gpt2", "--phase", "training", "--N", "64", "--json")
    unfused, one = (json.loads(ok(*words, *more)) for more in ((), ("--attention", "fused")))
    totals = [{r["fusion"]: r for r in x["totals"]} for x in (unfused, one)]
    none = totals[0]["none"]["words"]
    assert totals[0]["best"] == totals[1]["best"]
    for found in totals:
        assert found["best"]["of_none"] == round(found["best"]["words"] / none, 4)
    assert totals[1]["none"]["of_none"] < 1


def test_the_best_say_among_what_they_are() -> None:
    words = ("--model", "gpt2", "--phase", "prefill", "--N", "64")
    said = "the fewest words of all partitions into rows"
    assert f"best: {said}, products and attention with an online softmax" in ok("fuse", *words)
    without = ok("fuse", *words, "--no-online-softmax")
    assert f"best: {said} and products, without an online softmax" in without
    assert said not in ok("fuse", *words, "--fusion", "none")
    roofline = iosim_("roofline", *words, "--machine", "h100", "--fusion", "best")
    assert f"fusion best: {said}" in roofline.stderr
    bad(iosim_("roofline", *words, "--machine", "h100", "--no-online-softmax"), "add --fusion")
