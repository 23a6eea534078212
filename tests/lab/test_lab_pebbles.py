"""The lab's pebble game: its optima, its optimal games, and what the theorem says of them."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import pytest
from test_pebbling_oracle import as_dag, random_graph

import proofs.hong_kung as hong_kung
from experiments.pebbling_games import GRAPHS, optima, parts
from experiments.pebbling_table import GAMES
from iosim.base.errors import InputError
from iosim.lab.data import pebbles
from iosim.pebbling import (
    Dag,
    Move,
    fewest_parts,
    matmul,
    optimum,
    partition,
    pyramid,
    replay,
    segments,
    tree,
)
from proofs.hong_kung.game import clean, transfers

pytestmark = pytest.mark.usefixtures("brief_annealing")
OPTIMA = Path(__file__).parents[2] / "experiments" / "data" / "pebbling" / "optima.csv"
BOARDS = {(row["graph"], row["game"]): row for row in pebbles.data()["boards"]}
CASES = [(*key, best["M"]) for key, row in BOARDS.items() for best in row["optima"]]
WHOLE = [case for case in CASES if not BOARDS[case[:2]]["partial"]]


def dag_of(row: dict[str, Any]) -> Dag:
    preds = {v: tuple(ps) for v, ps in row["vertices"].items()}
    return Dag(row["name"], preds, tuple(row["outputs"]), frozenset(row["sums"]))


def best_of(graph: str, game: str, M: int) -> dict[str, Any]:
    (found,) = (best for best in BOARDS[graph, game]["optima"] if best["M"] == M)
    return dict(found)


def moves_of(texts: list[str]) -> list[Move]:
    return [Move(*text.split()) for text in texts]


# --- what the page is given ----------------------------------------------------------------------


def test_every_board_has_a_title_and_its_games() -> None:
    data = pebbles.data()
    assert list(GRAPHS) == [graph["id"] for graph in data["graphs"]]
    assert {game["id"] for game in data["games"]} == {game for _, game in BOARDS}
    assert list(BOARDS) == [(name, game) for name, games in GRAPHS.items() for game in games]
    for (name, game), row in BOARDS.items():
        dag = GRAPHS[name][game]
        assert (row["vertices"], row["outputs"], row["sums"]) == (
            {v: list(ps) for v, ps in dag.preds.items()},
            list(dag.outputs),
            sorted(dag.sums),
        )
        assert list(dag_of(row).vertices) == list(row["vertices"])


def test_the_optima_are_those_of_the_table() -> None:
    with OPTIMA.open(encoding="utf-8") as file:
        table = {
            (row["instance"], row["game"], int(row["M_words"])): int(row["optimum_words"])
            for row in csv.DictReader(file)
        }
    names = {"matmul": "matmul m=2 n=2 k=2", "attention": "attention N=2 d=1"}
    found = [
        (table.pop((names[graph], game, M)), best_of(graph, game, M)["words"])
        for graph, game, M in CASES
        if graph in names
    ]
    assert len(found) == 35
    assert [a for a, _ in found] == [b for _, b in found]
    assert not [key for key in table if key[0] in names.values()]


@pytest.mark.numbers
@pytest.mark.parametrize(
    ("graph", "game"),
    [
        pytest.param(*one, marks=pytest.mark.slow if one[0] == "matmul-chain" else [])
        for one in BOARDS
    ],
)
def test_the_solver_finds_the_same_optima(graph: str, game: str) -> None:
    again = optima(GRAPHS[graph][game], GAMES[game], seconds=60)
    said = BOARDS[graph, game]["optima"]
    assert [(b["M"], b["words"], b["proved"]) for b in again] == [
        (b["M"], b["words"], b["words"]) for b in said
    ]


def refereed(row: dict[str, Any], M: int, moves: list[str]) -> tuple[int, int]:
    """Loads and stores of a whole game.  The rules once more, sharing no code with iosim."""
    operands, red, made = row["vertices"], set(), set()
    blue = {v for v, ps in operands.items() if not ps}
    within: dict[str, set[str]] = {v: set() for v in row["sums"]}
    users = {v: [w for w, ps in operands.items() if v in ps] for v in operands}
    loads = stores = 0

    def ready(p: str) -> bool:
        return p in red and (not operands[p] or p in made)

    for kind, v, *more in (text.split() for text in moves):
        if kind == "load":
            assert v in blue - red
            loads += 1
        elif kind == "store":
            assert v in red - blue
            blue.add(v)
            stores += 1
            continue
        elif kind == "delete":
            red.remove(v)
            continue
        elif kind == "compute":
            assert operands[v]
            assert v not in red
            assert row["recompute"] or (v not in made and not within.get(v))
            assert all(ready(p) for p in operands[v])
            made.add(v)
        else:
            assert kind == "add"
            assert row["partial"]
            (t,) = more
            assert t in operands[v]
            assert t not in within[v]
            assert v not in made
            if t not in red and t not in made:
                assert users[t] == [v]
                assert operands[t]
                assert all(ready(p) for p in operands[t])
                made.add(t)
            else:
                assert ready(t)
            assert v in red or not within[v]
            within[v].add(t)
            blue.discard(v)
            if within[v] == set(operands[v]):
                made.add(v)
        red.add(v)
        assert len(red) <= M
    assert all(v in blue and v in made for v in row["outputs"])
    return loads, stores


@pytest.mark.parametrize(("graph", "game", "M"), CASES)
def test_optimal_games_are_legal_by_three_referees(graph: str, game: str, M: int) -> None:
    row, best = BOARDS[graph, game], best_of(graph, game, M)
    said = (best["loads"], best["stores"])
    assert sum(said) == best["words"] == best["proved"]
    assert refereed(row, M, best["moves"]) == said
    played = replay(dag_of(row), M, moves_of(best["moves"]), row["recompute"], row["partial"])
    assert (played.loads, played.stores) == said
    if not row["partial"]:
        dag = dag_of(row)
        assert transfers(*numbered(dag, moves_of(best["moves"])), M) == best["words"]


def test_the_referee_refuses() -> None:
    row = BOARDS["pyramid", "chain"]
    good = best_of("pyramid", "chain", 3)["moves"]
    for bad in (good[1:], good[:-4], [*good[:1], *good], [x for x in good if "delete" not in x]):
        with pytest.raises(AssertionError):
            refereed(row, 3, bad)


def test_a_missing_record_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pebbles, "shipped", lambda name: tmp_path / name)
    with pytest.raises(InputError, match=r"games\.json.*python -m experiments\.pebbling_games"):
        pebbles.data()
    record = tmp_path / "experiments" / "data" / "pebbling" / "games.json"
    record.parent.mkdir(parents=True)
    record.write_text('{"boards": [{}]}')
    with pytest.raises(InputError, match="KeyError"):
        pebbles.data()


# --- Hong and Kung's theorem ---------------------------------------------------------------------


def numbered(dag: Dag, moves: list[Move]) -> tuple[hong_kung.Dag, list[tuple[str, int]]]:
    """A graph and a game as the proof has them: vertices are numbers."""
    number = {v: k for k, v in enumerate(dag.vertices)}
    graph = hong_kung.Dag(tuple(tuple(number[p] for p in dag.preds[v]) for v in dag.vertices))
    return graph, [(m.kind, number[m.vertex]) for m in moves]


def bits_of(dag: Dag, names: Any) -> int:
    return sum(1 << k for k, v in enumerate(dag.vertices) if v in names)


def test_the_fewest_parts_are_those_of_the_proof() -> None:
    rng = random.Random(7)
    seen = set()
    for _ in range(60):
        graph, _ = random_graph(rng, 7)
        sinks = set(range(len(graph))) - {p for ps in graph for p in ps}
        dag = as_dag(graph, sinks)
        theirs, _ = numbered(dag, [])
        for S in range(1, 6):
            found = fewest_parts(dag, S)
            assert found == hong_kung.fewest_parts(theirs, S)
            seen.add(found)
    assert len(seen) > 3


def test_pyramids_need_two_more_pebbles_than_their_height() -> None:
    """Cook, 1974: with height + 2 only the ends are moved; with one fewer that is not enough."""
    for height in (1, 2, 3, 4):
        dag = pyramid(height)
        assert optimum(dag, height + 2, recompute=True).cost == height + 2
        if height > 1:
            found = optimum(dag, height + 1, recompute=True).cost
            assert found is not None
            assert found > height + 2


def test_partitions_refuse_what_they_cannot_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="term by term"):
        segments(matmul(2, 2, 2), [Move("add", "C[0,0]", "P[0,0,0]")], 2)
    monkeypatch.setattr(partition, "LARGEST", 60)
    with pytest.raises(InputError, match="more than 60 prefixes: take a smaller graph"):
        fewest_parts(tree(3), 8)
    with pytest.raises(InputError, match="S"):
        fewest_parts(pyramid(2), 0)


@pytest.mark.numbers
@pytest.mark.parametrize(("graph", "game"), [b for b in BOARDS if not BOARDS[b]["partial"]])
def test_the_theorem_holds_on_every_board(graph: str, game: str) -> None:
    row = BOARDS[graph, game]
    dag = dag_of(row)
    found = parts(dag)
    for best in row["optima"]:
        for line in best["theorem"]:
            s, P = line["s"], line["parts"]
            assert found.get(str(best["M"] + s), 1) == P
            assert line["words"] == s * (P - 1) <= best["words"]
    assert [line["s"] for line in row["optima"][0]["theorem"]] == list(range(1, 2 * 3 + 1))


@pytest.mark.parametrize(("graph", "game", "M"), WHOLE)
def test_segments_of_optimal_games(graph: str, game: str, M: int) -> None:
    """Those of iosim are the proof's: a partition with what the proof says of it."""
    row, best = BOARDS[graph, game], best_of(graph, game, M)
    dag = dag_of(row)
    theirs, numbers, moves = cleaned(dag, moves_of(best["moves"]))
    for s in range(1, 2 * M + 1):
        ours = segments(dag, moves, s)
        assert [
            (bits_of(dag, x.part), bits_of(dag, x.dominator), bits_of(dag, x.last)) for x in ours
        ] == hong_kung.parts(theirs, numbers, s)
        assert [bits_of(dag, x.minimum) for x in ours] == [
            hong_kung.minimum(theirs, bits_of(dag, x.part)) for x in ours
        ]
        assert hong_kung.check_parts(theirs, numbers, M, s) == len(ours)
        assert s * (len(ours) - 1) <= best["words"] <= s * len(ours)
        assert sum(x.moves for x in ours) == len(moves)
        for x in ours:
            assert len(x.dominator) <= M + x.loads <= M + s
            assert len(x.minimum) <= M + x.stores <= M + s


def cleaned(dag: Dag, moves: list[Move]) -> tuple[hong_kung.Dag, list[tuple[str, int]], list[Move]]:
    """A game without moves that nothing uses, twice: a solver that may compute again makes some."""
    graph, numbers = numbered(dag, moves)
    kept = clean(graph, numbers)
    return graph, kept, [Move(kind, dag.vertices[v]) for kind, v in kept]
