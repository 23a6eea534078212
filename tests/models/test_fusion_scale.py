"""Fusion of many operators: exact where they are in a row, stopped early where sets are many."""

from __future__ import annotations

import contextlib
import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from fusion_graphs import random_crossing, random_graph, random_network, random_row, transformer
from test_cli import iosim_, ok
from test_fusion_best import by_brute_force, hangs_together, runs, waiting

from iosim.base.errors import InputError
from iosim.models.fusion import Illegal, fused, kernel
from iosim.models.fusion import best as best_module
from iosim.models.fusion import groups as groups_module
from iosim.models.fusion.best import best
from iosim.models.fusion.chain import chain
from iosim.models.fusion.groups import Groups, bits
from iosim.models.fusion.intervals import in_a_row
from iosim.models.layers.graph import Graph
from iosim.models.layers.writing import to_json
from iosim.models.operators import Operand, Operator, operand, operator

pytestmark = pytest.mark.numbers

MEMORIES = (5, 8, 12, 20, 30, 60, 90, 1000)


RANDOM = (random_network, random_crossing, random_graph)


def layers(n: int) -> Graph:
    """n times a product, a bias and a ReLU."""
    s = {"t": 64, "i": 32, "u": 32}
    x, ops = operand("X0", "t i", s), list[Operator]()
    for k in range(n):
        w, b = operand(f"W{k}", "i u", s), operand(f"B{k}", "u", s)
        y, z, out = (operand(f"{name}{k}", "t u", s) for name in "YZA")
        ops += [
            operator(f"linear {k}", "contraction", [x, w], [y]),
            operator(f"bias {k}", "bias", [y, b], [z]),
            operator(f"relu {k}", "relu", [z], [out]),
        ]
        x = Operand(out.name, x.axes)
    return Graph("layers", tuple(ops))


def softmaxes(n: int) -> Graph:
    """Softmaxes along rows and columns in turn, so that two need all of a matrix at once."""
    s = {"t": 64, "u": 64}
    x = [operand(f"X{k}", "t u", s) for k in range(n + 1)]
    return Graph(
        "softmaxes",
        tuple(
            operator(f"softmax {k}", "softmax", [x[k]], [x[k + 1]], over="tu"[k % 2])
            for k in range(n)
        ),
    )


@pytest.mark.parametrize("part", range(4))
def test_a_row_has_the_partition_of_the_search_for_any_graph(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words, kernels, and which they are."""
    fewer = 0
    for seed in range(part * 60, part * 60 + 60):
        graph = random_row(seed, 9)
        for M in MEMORIES[seed % 3 :: 3]:
            for within in (None, M // 2 + 4):
                try:
                    expected = _by_search(Groups(graph, M, within=within), monkeypatch)
                except InputError:
                    continue
                assert best(Groups(graph, M, within=within)) == expected, (seed, M, within)
                fewer += len(expected) < len(graph.operators)
    assert fewer > 100


def _by_search(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> object:
    assert in_a_row(groups)
    with monkeypatch.context() as patch:
        patch.setattr(best_module, "in_a_row", lambda groups: False)
        return best(groups)


@pytest.mark.parametrize("seed", range(80))
def test_a_row_has_the_best_of_all_partitions(seed: int) -> None:
    graph, M = random_row(seed, 6), MEMORIES[seed % len(MEMORIES)]
    found = fused(graph, "best", M)
    assert (found.words, len(found.groups)) == by_brute_force(graph, M)
    assert runs(graph, [list(k.names) for k in found.groups])


@pytest.mark.parametrize(
    ("graph", "M"), [(chain, 100), (chain, 2), (layers, 5000), (layers, 300), (softmaxes, 200)]
)
def test_the_work_of_a_row_is_in_proportion_to_its_length(graph: object, M: int) -> None:
    looked = []
    for n in (50, 100, 200):
        made = chain(n, 64) if graph is chain else graph(n)  # type: ignore[operator]
        groups = Groups(made, M)
        best(groups)
        looked.append(groups.looked[0])
    assert looked[2] - looked[1] == 2 * (looked[1] - looked[0])
    assert looked[2] < 20 * 3 * 200


def test_four_thousand_operators_are_one_kernel() -> None:
    graph = chain(4000, 1000)
    assert (fused(graph, "none", 2).words, fused(graph, "best", 2).words) == (8_000_000, 2_000)


@pytest.mark.parametrize("M", [300, 1000, 10**6])
def test_layers_that_are_alike_are_searched_once(M: int) -> None:
    """Each has the words and kernels of the one before it, but for the first and the last."""
    found = [fused(transformer(n), "best", M) for n in (2, 3, 4, 8)]
    words, kernels = [f.words for f in found], [len(f.groups) for f in found]
    assert words[1] - words[0] == words[2] - words[1] == (words[3] - words[2]) // 4
    assert kernels[1] - kernels[0] == kernels[2] - kernels[1] == (kernels[3] - kernels[2]) // 4
    assert kernels[3] < len(transformer(8).operators) / 2


def test_two_hundred_layers_have_no_more_kinds_of_regions_than_four() -> None:
    few, many = (Groups(transformer(n), 10**6) for n in (4, 200))
    assert len({kind for _, kind, _ in few.regions()}) == len(
        {kind for _, kind, _ in many.regions()}
    )
    assert (len(best(few)), len(best(many))) == (5 * 4 + 1, 5 * 200 + 1)


@pytest.mark.parametrize("M", [300, 10**6])
@pytest.mark.parametrize(
    "graph",
    [transformer(3), *(make(k) for make in RANDOM for k in range(12))],
    ids=lambda graph: graph.name,
)
def test_words_of_like_regions_are_those_of_each_kernel(graph: Graph, M: int) -> None:
    groups = Groups(graph, M)
    for places, words in groups.words.items():
        names = [graph.operators[k].name for k in places]
        assert kernel(graph, names, M).words == words, names
    assert all(tuple(bits(mask)) in groups.words for mask in groups.legal)


def two_copies(graph: Graph, seed: int) -> Graph:
    """The graph beside itself; the second keeps all, or has an input that waits."""

    def rename(t: Operand) -> Operand:
        return replace(t, name=f"{t.name} again")

    ops = [
        replace(
            op,
            name=f"{op.name} again",
            reads=tuple(map(rename, op.reads)),
            writes=tuple(map(rename, op.writes)),
        )
        for op in graph.operators
    ]
    again = Graph(graph.name, tuple(ops))
    if seed % 2:
        again = replace(again, keeps=frozenset(again.writer))
    else:
        again = waiting(again, seed)
    kept = frozenset(t.name for one in (graph, again) for t in one.outputs)
    return Graph(graph.name, (*graph.operators, *ops), kept, waits=again.waits)


def with_a_gap(first: bool) -> Graph:
    """Twice a row, a map and a sum of two; once a product lies between the map and the sum."""
    s = {"t": 4, "i": 6, "o": 6}
    ops = list[Operator]()
    for gap in (first, not first):
        x, y, z, p, q = (operand(f"{n}{gap}", "t i", s) for n in "XYZPQ")
        product = [z, operand(f"W{gap}", "i o", s)]
        ops += [
            operator(f"row {gap}", "softmax", [x], [y], over="i"),
            operator(f"map {gap}", "relu", [y], [z]),
            operator(f"product {gap}", "contraction", product, [operand(p.name, "t o", s)]),
            operator(f"sum {gap}", "add", [p if gap else replace(p, name="V"), z], [q]),
        ]
    return Graph("gap", tuple(ops), frozenset({"PTrue", "PFalse", "QTrue", "QFalse"}))


def with_a_wait(first: bool) -> Graph:
    """Twice two maps of a table, and a sum of one with an input, which once waits for that map."""
    s = {"t": 4, "i": 6}
    ops = list[Operator]()
    for waits in (first, not first):
        t, u, y, g, z = (operand(f"{n}{waits}", "t i", s) for n in "TUYGZ")
        ops += [operator(f"{n} {waits}", "relu", [t], [out]) for n, out in (("a", u), ("b", y))]
        ops += [operator(f"sum {waits}", "add", [y, g], [z])]
    return Graph("wait", tuple(ops), waits=(("GTrue", "YTrue"),))


@pytest.mark.parametrize(
    "graph",
    [
        with_a_gap(True),
        with_a_gap(False),
        with_a_wait(True),
        with_a_wait(False),
        *(two_copies(make(k, 5), k) for make in RANDOM[::2] for k in range(8)),
        *(make(k, 8) for make in RANDOM[::2] for k in range(8)),
    ],
    ids=lambda graph: graph.name,
)
def test_legal_kernels_are_those_of_all_subsets(graph: Graph) -> None:
    """Each subset of up to four operators that hangs together is asked for one by one."""
    names = [op.name for op in graph.operators]
    alone = {name: kernel(graph, [name], 90).words for name in names}
    expected = {}
    for size in range(1, 5):
        for group in itertools.combinations(range(len(names)), size):
            mine = [names[k] for k in group]
            if hangs_together(graph, mine):
                with contextlib.suppress(Illegal):
                    if (words := kernel(graph, mine, 90).words) <= sum(alone[x] for x in mine):
                        expected[group] = words
    groups = Groups(graph, 90)
    legal = {tuple(bits(mask)): one.words for mask, one in groups.legal.items()}
    for found in (legal, groups.words):
        assert {group: words for group, words in found.items() if len(group) < 5} == expected


def branches(n: int) -> Graph:
    """A map, n maps of what it writes, and their sum: any of these maps may be in a kernel."""
    x, y = operand("X", "i", {"i": 8}), operand("Y", "i", {"i": 8})
    z = [operand(f"Z{k}", "i", {"i": 8}) for k in range(n)]
    return Graph(
        "branches",
        (
            operator("first", "relu", [x], [y]),
            *(operator(f"map {k}", "relu", [y], [z[k]]) for k in range(n)),
            operator("sum", "add", z, [operand("W", "i", {"i": 8})]),
        ),
    )


@pytest.mark.parametrize("n", [20, 200, 3000])
def test_a_search_of_too_many_sets_stops_and_says_why(n: int) -> None:
    groups = Groups(branches(n), 100)
    with pytest.raises(InputError, match=r"too many sets of its [\d,]+ operators may be kernels"):
        best(groups)
    assert groups.looked[0] <= groups_module.LOOKED + n


def test_a_row_of_too_many_intervals_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "LOOKED", 1000)
    s = {"t": 8, "i": 8}
    x = [operand(f"X{k}", "t i", s) for k in range(101)]
    graph = Graph(
        "biases",
        tuple(
            operator(f"bias {k}", "bias", [x[k], operand(f"B{k}", "i", s)], [x[k + 1]])
            for k in range(100)
        ),
    )
    with pytest.raises(InputError, match="sets with 1,000 operators in all were looked at"):
        fused(graph, "best", 40)


def test_what_stops_the_search_is_a_note_beside_the_other_fusions(tmp_path: Path) -> None:
    path = tmp_path / "branches.json"
    path.write_text(to_json(branches(40)), encoding="utf-8")
    done = iosim_("fuse", "--graph", str(path), "--fusion", "none")
    assert done.returncode == 0
    assert "note: fusion best: branches: too many sets" in done.stderr
    refused = iosim_("fuse", "--graph", str(path))
    *progress, last = refused.stderr.splitlines()
    assert refused.returncode == 2
    assert last.startswith("iosim: branches: too many sets")
    assert all("sets of operators" in line for line in progress)


def test_a_long_chain_at_the_command_line() -> None:
    found = json.loads(ok("fuse", "chain", "--length", "1000", "--words", "4Ki", "--json"))
    assert found["chains"] == [
        {"k": 1000, "words_none": 2000 * 4096, "words_best": 2 * 4096, "ratio": 1000.0}
    ]
