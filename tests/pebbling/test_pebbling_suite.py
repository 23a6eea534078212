"""The optima on a public suite: the committed table and games, and how they are made.

The graphs themselves are OneStopParallel's and are not in this repository: tests that need them run
where IOSIM_SUITE names the folder of a clone, `OneStopParallel/data/spaa/tiny`.  What a game shows
without its graph, its words and its use of memory, is checked always.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from experiments import _pebbling_rows as rows_of
from experiments import pebbling_suite as suite
from iosim.base.errors import InputError
from iosim.pebbling import Dag, Move, butterfly, grid, optimum, replay, tree
from iosim.pebbling.bounds import BOUNDS, root_bounds
from iosim.pebbling.bounds.checking import proved

ROOT = Path(__file__).parents[2]
ROWS = rows_of.read()
RECORD = json.loads((suite.DATA / "pebbling" / "suite.json").read_text(encoding="utf-8"))


@pytest.fixture
def graphs() -> dict[str, Dag]:
    where = Path(os.environ.get("IOSIM_SUITE", suite.DATA / "pebbling" / "suite"))
    if not list(where.glob("*.hdag")):
        pytest.skip(
            f"no graphs in {where}: git clone {suite.SOURCE.partition(',')[0]}, and run "
            "IOSIM_SUITE=OneStopParallel/data/spaa/tiny "
            "pytest tests/pebbling/test_pebbling_suite.py"
        )
    found = suite.graphs(where)
    sums = {graph["graph"]: graph["sha256"] for graph in RECORD["graphs"]}
    assert {name: digest for name, (_, digest) in found.items()} == sums
    return {name: dag for name, (dag, _) in found.items()}


def name(row: dict[str, Any]) -> str:
    return f"{row['graph']} {row['game']} M={row['M']}"


# --- what is committed ---------------------------------------------------------------------------


def test_the_documentation_shows_the_tables() -> None:
    page = (ROOT / "docs" / "pebbling.md").read_text(encoding="utf-8")
    for game in rows_of.GAMES:
        start, stop = rows_of.marks(game)
        shown = page.partition(start)[2].partition(stop)[0].strip()
        assert shown == rows_of.markdown(ROWS, game).strip()


def test_the_table_has_every_instance_of_the_suite() -> None:
    assert len(RECORD["graphs"]) == 16
    for game in rows_of.GAMES:
        want = {
            (g["graph"], game, M)
            for g in RECORD["graphs"]
            for M in (g["r0"], g["r0"] + 1, g["r0"] + 2, 2 * g["r0"], 3 * g["r0"])
        }
        rows = [row for row in ROWS if row["game"] == game]
        assert {tuple(row[k] for k in rows_of.KEY) for row in rows} == want
        assert len(rows) == 80


def test_rows_agree_with_themselves_and_with_each_other() -> None:
    at = {(row["graph"], row["game"], row["M"]): row for row in ROWS}
    for row in ROWS:
        assert row["compulsory"] <= row["lower"] <= row["cost"] == row["replayed"]
        assert row["optimal"] == (row["lower"] == row["cost"])
        assert row["certified"] is not None or row["game"] == "recompute"
        if row["certified"] is not None:
            assert row["compulsory"] <= row["certified"] <= row["lower"]
            assert row["by"] in BOUNDS
    for (graph, game, M), row in at.items():
        # More memory never costs more, and neither does the right to compute again.
        for other, easier in at.items():
            if other[0] == graph and other[2] >= M and other[1] in (game, "recompute"):
                assert easier["lower"] <= row["cost"], (row, easier)


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_a_game_moves_its_words_within_its_memory(row: dict[str, Any]) -> None:
    """By hand, without the graph: what is loaded was an input or stored, and M red at most."""
    red: set[str] = set()
    blue: set[str] = set()
    computed: set[str] = set()
    inputs: set[str] = set()
    words = 0
    for word in row["schedule"].split():
        kind, v = word[0], word[1:]
        if kind == "l":
            assert v not in red
            assert v in blue or v not in computed
            inputs |= {v} - blue
            red.add(v)
        elif kind == "s":
            assert v in red
            assert v not in inputs | blue
            blue.add(v)
        elif kind == "c":
            assert v not in red | inputs
            assert v not in computed or row["game"] == "recompute"
            red.add(v)
            computed.add(v)
        else:
            assert kind == "d"
            red.remove(v)
        words += kind in "ls"
        assert len(red) <= row["M"]
    assert words == row["cost"]
    assert len(inputs | computed) == row["vertices"]


def test_every_game_replays_on_its_graph(graphs: dict[str, Dag]) -> None:
    for row in ROWS:
        dag = graphs[row["graph"]]
        assert (len(dag.vertices), dag.least_memory()) == (row["vertices"], row["r0"])
        assert sum(map(len, dag.preds.values())) == row["edges"]
        assert suite.compulsory(dag) == row["compulsory"]
        moves = rows_of.unpacked(row["schedule"])
        game = replay(dag, row["M"], moves, rows_of.GAMES[row["game"]])
        assert game.loads + game.stores == row["cost"], name(row)


def test_certificates_are_made_again(graphs: dict[str, Dag]) -> None:
    """Those of some rows; what the time of a linear program changes is not held."""
    some = [row for row in ROWS if row["by"] not in ("", "compulsory")]
    for row in some[:: max(1, len(some) // 6)]:
        recompute = rows_of.GAMES[row["game"]]
        for bound in root_bounds(graphs[row["graph"]], row["M"], recompute, seconds=5):
            given = graphs[row["graph"]], row["M"], bound.name, bound.certificate
            assert proved(*given, recompute) == bound.value <= row["cost"]


def test_quick_instances_come_out_again(graphs: dict[str, Dag]) -> None:
    quick = sorted((row for row in ROWS if row["optimal"]), key=lambda row: row["seconds"])[:12]
    assert len({row["graph"] for row in quick}) > 3
    for row in quick:
        best = optimum(graphs[row["graph"]], row["M"], rows_of.GAMES[row["game"]])
        assert (best.lower_bound, best.cost) == (row["lower"], row["cost"]), name(row)


# --- how it is made ------------------------------------------------------------------------------


def hdag(dag: Dag) -> str:
    """A graph as OneStopParallel writes it."""
    number = {v: k for k, v in enumerate(dag.vertices)}
    used = [v for v in dag.vertices if dag.succs[v]]
    pins = [(h, number[w]) for h, v in enumerate(used) for w in (v, *dag.succs[v])]
    return "\n".join(
        [
            "%% HyperdagDB format",
            f"{len(used)} {len(number)} {len(pins)}",
            *(f"{h} 1 1" for h in range(len(used))),
            *(f"{k} 1 0" for k in number.values()),
            *(f"{h} {v}" for h, v in pins),
            "",
        ]
    )


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A suite of two graphs, one of which takes time."""
    folder = tmp_path / "graphs"
    folder.mkdir()
    for title, dag in (("tree", tree(3)), ("wide", butterfly(3))):
        (folder / f"instance_{title}.hdag").write_text(hdag(dag), encoding="utf-8")
    return folder


@pytest.mark.numbers
def test_a_suite_is_made_and_carried_on(small: Path, tmp_path: Path, capfd: Any) -> None:
    out, page = tmp_path / "out", tmp_path / "page.md"
    page.write_text("".join(f"{game}\n{''.join(rows_of.marks(game))}" for game in rows_of.GAMES))
    given = ["--graphs", str(small), "--out", str(out), "--docs", str(page)]
    suite.main([*given, "--seconds", "20", "--only", "tree", "--jobs", "2"])
    rows = rows_of.read(out)
    assert [(row["graph"], row["M"], row["cost"]) for row in rows] == [
        ("tree", M, cost) for M, cost in ((3, 15), (4, 11), (5, 9), (6, 9), (9, 9))
    ]
    assert all(row["optimal"] and row["compulsory"] == 9 for row in rows)
    assert all(20 < row["peak_MiB"] < 4096 for row in rows)
    assert page.read_text().count("| tree | 15 | 14 | 3 | 15 | 11 | 9 | 9 | 9 |") == 1
    before = (out / "suite.csv").read_text()
    capfd.readouterr()
    suite.main([*given, "--seconds", "20", "--only", "tree"])  # nothing is left to do
    assert (out / "suite.csv").read_text() == before
    assert "5 of 5 rows are proved" in capfd.readouterr().err
    suite.main([*given, "--seconds", "20", "--only", "tree", "--recompute"])
    assert [row["game"] for row in rows_of.read(out)] == ["once"] * 5 + ["recompute"] * 5
    assert len(json.loads((out / "suite.json").read_text())["runs"]) == 2
    assert [row["certified"] for row in rows_of.read(out)][:5] == [None, None, 9, 9, 9]
    suite.main([*given, "--seconds", "20", "--only", "tree", "--certify", "5"])
    rows = rows_of.read(out)
    assert [row["certified"] for row in rows][:5] == [15, 11, 9, 9, 9]
    assert {row["by"] for row in rows[:2]} == {"trees"}
    (small / "instance_tree.hdag").write_text(hdag(tree(2)), encoding="utf-8")
    with pytest.raises(InputError, match="tree is another file than the rows in"):
        suite.main([*given, "--only", "tree"])


def test_what_is_open_is_tried_again_with_more_time_and_keeps_the_better() -> None:
    old = {
        "lower": 5,
        "cost": 9,
        "seconds": 1.0,
        "states": 3,
        "peak_MiB": 50,
        "limit_s": 1.0,
        "schedule": "a",
        "replayed": 9,
        "optimal": False,
    }
    worse = old | {"lower": 4, "cost": 10, "schedule": "b", "replayed": 10, "limit_s": 2.0}
    better = old | {"lower": 8, "cost": 8, "schedule": "c", "replayed": 8, "peak_MiB": 70}
    assert rows_of.merged(None, old) == old
    for new, lower, cost, schedule in ((worse, 5, 9, "a"), (better, 8, 8, "c")):
        row = rows_of.merged(old, new)
        assert (row["lower"], row["cost"], row["schedule"]) == (lower, cost, schedule)
        assert (row["seconds"], row["states"]) == (2.0, 6)
        assert row["optimal"] == (lower == cost)
    nothing = worse | {"cost": None, "schedule": "", "replayed": None}
    assert rows_of.merged(old, nothing)["cost"] == 9
    assert rows_of.merged(nothing, old)["schedule"] == "a"


def test_rows_of_a_graph_say_what_they_know_of_each_other() -> None:
    def row(game: str, M: int, lower: int, cost: int, graph: str = "g") -> dict[str, Any]:
        return {
            "graph": graph,
            "game": game,
            "M": M,
            "lower": lower,
            "cost": cost,
            "schedule": f"{game}{M}",
            "replayed": cost,
            "optimal": lower == cost,
        }

    given = [
        row("once", 3, 5, 30),
        row("once", 4, 9, 31),
        row("once", 5, 7, 20),
        row("recompute", 3, 4, 33),
        row("recompute", 4, 9, 29),
        row("recompute", 5, 20, 20),
        row("once", 3, 99, 99, "other"),
    ]
    found = {(x["graph"], x["game"], x["M"]): x for x in rows_of.shared(given)}
    assert {key[1:]: (x["lower"], x["cost"]) for key, x in found.items() if key[0] == "g"} == {
        ("once", 3): (20, 30),
        ("once", 4): (20, 30),
        ("once", 5): (20, 20),
        ("recompute", 3): (20, 30),
        ("recompute", 4): (20, 29),
        ("recompute", 5): (20, 20),
    }
    assert found["g", "once", 4]["schedule"] == found["g", "recompute", 3]["schedule"] == "once3"
    assert found["g", "once", 5]["optimal"]
    assert found["g", "once", 4]["replayed"] is None
    assert found["other", "once", 3] == given[-1]


def test_schedules_are_text() -> None:
    best = optimum(grid(3, 3), 3)
    assert rows_of.unpacked(rows_of.packed(best.schedule)) == list(best.schedule)
    assert rows_of.packed([Move("load", "12"), Move("delete", "3")]) == "l12 d3"


def test_a_folder_without_graphs_says_where_they_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \.hdag: give --graphs a clone of https://github"):
        suite.main(["--graphs", str(tmp_path), "--out", str(tmp_path)])


def test_an_interrupt_keeps_what_is_there_and_leaves_no_process(
    small: Path, tmp_path: Path
) -> None:
    words = ["--graphs", str(small), "--out", str(tmp_path / "out"), "--seconds", "60"]
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.pebbling_suite", *words, "--recompute"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    csv = tmp_path / "out" / "suite.csv"
    for _ in itertools.takewhile(lambda _: not csv.exists(), range(600)):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    rows = rows_of.read(tmp_path / "out")
    assert err.splitlines()[-1] == f"experiments: interrupted, {len(rows)} rows are kept"
    assert "Traceback" not in err
    assert rows
