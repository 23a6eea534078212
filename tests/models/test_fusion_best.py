"""The best partition, against every partition of many small graphs."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

import pytest
from fusion_graphs import random_crossing, random_graph, random_network

from iosim.base.errors import InputError
from iosim.models.fusion import Illegal, fused, kernel
from iosim.models.layers.graph import Graph
from iosim.models.operators import operand, operator

pytestmark = pytest.mark.numbers


def partitions(names: list[str]) -> Iterator[list[list[str]]]:
    """All ways to put names into groups."""
    if not names:
        yield []
        return
    first, *rest = names
    for groups in partitions(rest):
        yield [[first], *groups]
        for k, group in enumerate(groups):
            yield [*groups[:k], [first, *group], *groups[k + 1 :]]


def runs(graph: Graph, groups: list[list[str]]) -> bool:
    """Whether groups can run one after another."""
    where = {name: k for k, group in enumerate(groups) for name in group}
    needs: dict[int, set[int]] = {k: set() for k in range(len(groups))}
    for op in graph.operators:
        for t in op.reads:
            if t.name in graph.writer:
                needs[where[op.name]].add(where[graph.writer[t.name].name])
    for k, before in needs.items():
        before.discard(k)
    # What makes an input of a tensor that is made here runs between the two.
    for k, (given, made) in enumerate(graph.waits):
        needs[-1 - k] = {where[graph.writer[made].name]}
        for op in graph.readers[given]:
            needs[where[op.name]].add(-1 - k)
    try:
        TopologicalSorter(needs).prepare()
    except CycleError:
        return False
    return True


def hangs_together(graph: Graph, group: list[str]) -> bool:
    """Whether a group's operators share tensors, directly or by others of the group."""
    names = {op.name: {t.name for t in op.tensors} for op in graph.operators if op.name in group}
    inside = {group[0]}
    for _ in group:
        inside |= {x for x in group if any(names[x] & names[y] for y in inside)}
    return len(inside) == len(group)


def by_brute_force(graph: Graph, M: int) -> tuple[int, int]:
    """The fewest words of all partitions, and the fewest connected kernels that move them."""
    words: dict[frozenset[str], int | None] = {}

    def of(group: list[str]) -> int | None:
        key = frozenset(group)
        if key not in words:
            try:
                words[key] = kernel(graph, group, M).words
            except Illegal:
                words[key] = None
        return words[key]

    least, found = None, []
    for groups in partitions([op.name for op in graph.operators]):
        costs = [of(group) for group in groups]
        if None in costs or not runs(graph, groups):
            continue
        total = sum(c for c in costs if c is not None)
        if least is None or total < least:
            least, found = total, []
        if total == least and all(hangs_together(graph, g) for g in groups):
            found.append(len(groups))
    assert least is not None
    return least, min(found)


def waiting(graph: Graph, seed: int) -> Graph:
    """The graph, with an input that waits for a tensor that is made, if one can."""
    rng = random.Random(seed)
    pairs = [(t.name, made) for t in graph.inputs for made in graph.writer]
    for pair in rng.sample(pairs, len(pairs)):
        with contextlib.suppress(InputError):  # a cycle
            return Graph(graph.name, graph.operators, graph.keeps, graph.dtype, (pair,))
    return graph


def check_networks(seeds: range) -> None:
    """Of graphs that are cut in pieces, some of which wait for each other."""
    fewer = 0
    for seed in seeds:
        graph, M = random_network(seed), (8, 14, 30, 90)[seed % 4]
        if seed % 3 == 0:
            graph = random_crossing(seed)
        best = fused(graph, "best", M)
        assert (best.words, len(best.groups)) == by_brute_force(graph, M), seed
        assert runs(graph, [list(k.names) for k in best.groups])
        fewer += best.words < fused(graph, "none", M).words
    assert fewer > len(seeds) / 2


def check(seeds: range) -> None:
    fewer = waits = 0
    for seed in seeds:
        graph, M = random_graph(seed), (6, 12, 30, 90)[seed % 4]
        if seed % 3 == 0:
            graph = waiting(graph, seed)
        waits += fused(graph, "best", M) != fused(replace(graph, waits=()), "best", M)
        best, none = fused(graph, "best", M), fused(graph, "none", M)
        assert (best.words, len(best.groups)) == by_brute_force(graph, M), seed
        assert runs(graph, [list(k.names) for k in best.groups])
        assert fused(graph, "best", M) == best
        fewer += best.words < none.words
    assert fewer > len(seeds) / 2
    assert waits > 0


@pytest.mark.parametrize("part", range(4))
def test_best_is_the_best_of_all_partitions(part: int) -> None:
    check(range(part * 60, part * 60 + 60))


@pytest.mark.parametrize("part", range(4))
def test_pieces_have_the_best_of_all_partitions(part: int) -> None:
    check_networks(range(part * 60, part * 60 + 60))


@pytest.mark.slow
def test_pieces_have_the_best_of_all_partitions_of_many_more_graphs() -> None:
    check_networks(range(1000, 4000))


@pytest.mark.slow
def test_best_is_the_best_of_all_partitions_of_many_more_graphs() -> None:
    check(range(1000, 4000))


def test_an_unknown_fusion_names_the_closest() -> None:
    with pytest.raises(InputError, match="unknown fusion 'bets': did you mean 'best'"):
        fused(random_graph(0), "bets", 100)


def test_two_axes_of_one_operator_that_become_one_are_refused() -> None:
    s = {"t": 4, "k": 4, "i": 4}
    x, w = operand("X", "t i", s), operand("W", "i k", s)
    y, z = operand("Y", "t k", s), operand("Z", "t k", s)
    square = Graph(
        "square",
        (
            operator("linear", "contraction", [x, w], [y]),
            operator("residual", "add", [y, operand("X", "t k", s)], [z]),
        ),
    )
    with pytest.raises(Illegal, match="axes i and k of linear become one"):
        kernel(square, ["linear", "residual"], 100)
    assert len(fused(square, "best", 100).groups) == 2


@pytest.mark.parametrize("seed", range(40))
def test_of_equally_good_partitions_it_is_the_first(seed: int) -> None:
    """The first kernel has the most operators, then those that come first, and so on."""
    graph = random_graph(seed, 6)
    names = [op.name for op in graph.operators]
    words: dict[tuple[str, ...], int] = {}
    for size in range(1, len(names) + 1):
        for group in itertools.combinations(names, size):
            with contextlib.suppress(Illegal):
                if hangs_together(graph, list(group)):
                    words[group] = kernel(graph, group, 30).words
    ranked = []
    for groups in partitions(names):
        ordered = sorted(
            (sorted(g, key=names.index) for g in groups), key=lambda g: names.index(g[0])
        )
        keys = [tuple(g) for g in ordered]
        if all(key in words for key in keys) and runs(graph, ordered):
            sizes = [(-len(g), [names.index(x) for x in g]) for g in ordered]
            ranked.append((sum(words[key] for key in keys), len(keys), sizes, keys))
    assert sorted(k.names for k in fused(graph, "best", 30).groups) == sorted(min(ranked)[3])


def test_a_graph_that_is_too_large_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(3)
    monkeypatch.setattr("iosim.models.fusion.groups.MOST", 5)
    with pytest.raises(InputError, match="more than 5 were met"):
        fused(graph, "best", 30)
    monkeypatch.undo()
    monkeypatch.setattr("iosim.models.fusion.frontier.STEPS", 1)
    with pytest.raises(InputError, match="not found in 1 steps"):
        fused(graph, "best", 30)


def test_kernels_that_would_wait_for_each_other_are_not_chosen_together() -> None:
    """Each of two kernels saves words, and needs what the other makes."""
    s = {"p": 8, "q": 8}
    S, T, a, b, c, d = (operand(x, "p q", s) for x in ("S", "T", "A", "B", "C", "D"))
    graph = Graph(
        "crossed",
        (
            operator("a", "softmax", [S], [a], over="q"),
            operator("b", "softmax", [T], [b], over="p"),
            operator("c", "softmax_back", [a, T], [c], over="p"),
            operator("d", "softmax_back", [b, S], [d], over="q"),
        ),
    )
    one_by_one = fused(graph, "none", 40).words
    assert kernel(graph, ["a", "d"], 40).words == kernel(graph, ["b", "c"], 40).words
    for pair in (["a", "c"], ["b", "d"]):  # rows along both axes don't fit
        with pytest.raises(Illegal, match="more than M = 40"):
            kernel(graph, pair, 40)
    best = fused(graph, "best", 40)
    assert (best.words, len(best.groups)) == by_brute_force(graph, 40) == (one_by_one - 64, 3)


def test_sums_that_tiles_would_add_up_again_are_refused() -> None:
    s = {"t": 6, "i": 4, "u": 6}
    x, w, r, q = (operand(n, a, s) for n, a in (("X", "t i"), ("W", "i u"), ("R", "t"), ("Q", "t")))
    y, z, n = operand("Y", "t u", s), operand("Z", "t u", s), operand("N", "", s)
    graph = Graph(
        "rows",
        (
            operator("linear", "contraction", [x, w], [y]),
            operator("relu", "relu", [r], [q]),
            operator("scale", "multiply", [y, q], [z]),
            operator("sum", "sum", [q], [n], over="t"),
        ),
    )
    assert kernel(graph, ["linear", "relu", "scale", "sum"][:1], 20)
    with pytest.raises(Illegal, match="sum would add a word more than once"):
        kernel(graph, ["linear", "relu", "scale", "sum"], 20)


def test_what_tiles_would_store_again_or_join_is_refused() -> None:
    s = {"t": 6, "i": 4, "u": 6, "v": 3}
    x, w, r, q = (operand(n, a, s) for n, a in (("X", "t i"), ("W", "i u"), ("R", "t"), ("Q", "t")))
    y, z, y2, z2 = (
        operand(n, a, s) for n, a in (("Y", "t u"), ("Z", "t u"), ("Y2", "t v"), ("Z2", "t v"))
    )
    linear = operator("linear", "contraction", [x, w], [y])
    again = Graph(
        "again",
        (linear, operator("relu", "relu", [r], [q]), operator("scale", "multiply", [y, q], [z])),
        frozenset({"Q", "Z"}),
    )
    with pytest.raises(Illegal, match="Q would be stored by each tile"):
        kernel(again, ["linear", "relu", "scale"], 40)
    joined = Graph(
        "joined",
        (
            linear,
            operator("other", "contraction", [x, operand("V", "i v", s)], [y2]),
            operator("sum", "sum", [y], [q], over="u"),
            operator("scale", "multiply", [y2, q], [z2]),
        ),
    )
    with pytest.raises(Illegal, match="joins contractions"):
        kernel(joined, ["linear", "other", "sum", "scale"], 400)


def test_what_nobody_reads_or_keeps_is_not_written() -> None:
    s = {"t": 6, "i": 4}
    x, g, b, y, m, d = (
        operand(n, a, s)
        for n, a in (("X", "t i"), ("G", "i"), ("B", "i"), ("Y", "t i"), ("m", "t"), ("d", "t"))
    )
    norm = operator("norm", "layer_norm", [x, g, b], [y, m, d], over="i")
    assert kernel(Graph("norm", (norm,), frozenset({"Y"})), ["norm"], 99).crossing.stores == {
        "Y": 24
    }
    assert len(kernel(Graph("norm", (norm,)), ["norm"], 99).crossing.stores) == 3
