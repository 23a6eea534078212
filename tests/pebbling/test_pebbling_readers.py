"""Files of graphs: what each format means, and one line for whatever is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_cli import iosim_

from iosim.base.errors import InputError
from iosim.pebbling import READERS, Dag, Move, from_edges, from_file, from_networkx, readers, replay

# c = f(a, b) and d = g(c), where a is 3 words, b 1, c 2.
HDAG = """%% HyperdagDB format written by OneStopParallel
3 4 7
%% Hyperedges: ID comm_weight mem_weight
0 3 3
1
2 2 2
%% Vertices: ID work_weight type
0 1 0
1 5
2
3 2 0
%% Pins: HyperedgeID NodeID
0 0
0 2
1 1
1 2
2 2
2 3
1 3
"""
GRAPHML = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="edge" attr.name="weight" attr.type="long"/>
<key id="d1" for="node" attr.name="output" attr.type="boolean"/>
<graph edgedefault="directed">
<node id="0"/><node id="1"/><node id="2"><data key="d1">true</data></node><node id="3">
<data key="d1">true</data></node>
<edge source="0" target="2"><data key="d0">3</data></edge><edge source="1" target="2"/>
<edge source="2" target="3"><data key="d0">2</data></edge><edge source="1" target="3"/>
</graph></graphml>
"""
JSON = json.dumps(
    {
        "nodes": [{"id": 0, "words": 3}, {"id": 1}, {"id": 2, "output": True}, {"id": 3}],
        "links": [
            {"source": 0, "target": 2},
            {"source": 1, "target": 2},
            {"source": 2, "target": 3, "weight": 2},
            {"source": 1, "target": 3},
        ],
    }
)
EDGES = "0 2 3\n1 2 # one word\n2 3 2\n1 3\n"
SAME = {"g.hdag": HDAG, "g.graphml": GRAPHML, "g.json": JSON, "g.txt": EDGES}


def write_file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", SAME)
def test_every_format_says_the_same_graph(name: str, tmp_path: Path) -> None:
    pytest.importorskip("networkx")
    path = write_file(tmp_path, name, SAME[name])
    preds = {"0": (), "1": (), "2": ("0", "1"), "3": ("2", "1")}
    for unit in (False, True):
        dag = from_file(path, unit=unit)
        assert {v: set(ps) for v, ps in dag.preds.items()} == {v: set(p) for v, p in preds.items()}
        assert dag.words_of == dict(
            zip("0123", (1, 1, 1, 1) if unit else (3, 1, 2, 1), strict=True)
        )
        want = {"g.graphml": {"2", "3"}, "g.json": {"2"}}.get(name, {"3"})
        assert set(dag.outputs) == want


def test_a_file_is_known_by_its_name_or_by_how_it_begins(tmp_path: Path) -> None:
    pytest.importorskip("networkx")
    for name, text in SAME.items():
        bare = write_file(tmp_path, name.replace(".", "_"), text)
        assert from_file(bare) == from_file(write_file(tmp_path, name, text)) or "g" in bare.name
        assert len(from_file(bare).preds) == 4
    other = write_file(tmp_path, "g.dat", HDAG.partition("\n")[2])  # no comment at its beginning
    assert from_file(other, format="hdag").words == (3, 1, 2, 1)
    for name in READERS:
        assert readers.reader(name).name == name
    with pytest.raises(InputError, match="unknown format 'hdg': did you mean 'hdag'"):
        from_file(other, format="hdg")


def test_isolated_vertices_stay_and_cost_nothing(tmp_path: Path) -> None:
    dag = from_file(write_file(tmp_path, "g.json", '{"nodes": [{"id": "a"}], "edges": []}'))
    assert (dag.inputs, dag.outputs) == (("a",), ("a",))
    assert replay(dag, 1, []).moves == 0
    done = iosim_("optimal", str(tmp_path / "g.json"), "--M", "1")
    assert "optimum 0 I/Os" in done.stdout


def test_weights_may_be_ignored(tmp_path: Path) -> None:
    path = write_file(tmp_path, "g.hdag", HDAG.replace("0 3 3", "0 9 4"))
    with pytest.raises(
        InputError, match=r"g.hdag:4: the vertex '0' has weight '9 to move it and 4"
    ):
        from_file(path)
    assert from_file(path, unit=True).unit
    done = iosim_("optimal", str(path), "--M", "3", "--unit-weights")
    assert "proved" in done.stdout


# What is wrong with a file, by name: its text, and what is said of it.
WRONG: dict[str, list[tuple[str, str]]] = {
    "g.hdag": [
        ("", "g.hdag is empty: write what OneStopParallel"),
        ("% only a comment\n", "g.hdag:0: the file ends, cut off: expected 'hyperedges vertices"),
        ("1 2", "g.hdag:1: expected 'hyperedges vertices pins', whole numbers, got '1 2'"),
        ("1 2 x", "g.hdag:1: expected 'hyperedges vertices pins', whole numbers, got '1 2 x'"),
        ("1 0 2", "g.hdag:1: a number of hyperedges, vertices or pins is too small"),
        ("1 2 -2", "g.hdag:1: a number of hyperedges, vertices or pins is too small"),
        ("1 999999999 2", "far beyond reach"),
        ("1 " + "9" * 5000 + " 2", "g.hdag:1: expected"),
        ("1 2 2\n0 1 1\n0 1 0\n1 1 0\n0 0\n", "g.hdag:5: the file ends, cut off: expected 'hypere"),
        ("1 2 2\n0 1 1\n0 1 0\n", "g.hdag:3: the file ends, cut off: expected 'vertex …'"),
        ("1 2 2\n0 1 1\n0 1 0\n0 1 0\n0 0\n0 1", "g.hdag:4: vertex 0 is there twice, first at g"),
        ("1 2 2\n0 1 1\n0 1 0\n2 1 0\n0 0\n0 1", "g.hdag:4: vertex 2 is outside 0..1"),
        ("1 2 2\n1 1 1\n0 1 0\n1 1 0\n0 0\n0 1", "g.hdag:2: hyperedge 1 is outside 0..0"),
        ("1 2 2\n0 1 1\n0 -1 0\n1 1 0\n0 0\n0 1", "g.hdag:3: vertex 0 has work -1"),
        ("1 2 2\n0 -1 -1\n0 1 0\n1 1 0\n0 0\n0 1", "g.hdag:2: the vertex '0' has weight '-1'"),
        ("1 2 2\n0 1.5 1\n0 1 0\n1 1 0\n0 0\n0 1", "g.hdag:2: expected 'hyperedge …'"),
        ("1 2 2\n0 1 1\n0 1 0\n1 1 0\n0 0\n0 2", "g.hdag:6: vertex 2 is outside 0..1"),
        ("1 2 2\n0 1 1\n0 1 0\n1 1 0\n1 0\n0 1", "g.hdag:5: hyperedge 1 is outside 0..0"),
        ("1 2 2\n0 1 1\n0 1 0\n1 1 0\n0 0\n0 0", "g.hdag:6: an edge leads from '0' to itself"),
        (
            "1 2 3\n0 1 1\n0 1 0\n1 1 0\n0 0\n0 1\n0 1",
            "g.hdag:7: the edge '0' → '1' is there twice, first at",
        ),
        ("1 2 2\n0 1 1\n0 1 0\n1 1 0\n0 0\n0 1\n0 1", "g.hdag:7: a line beyond the 2 pins: '0 1'"),
        ("2 2 2\n0\n1\n0 1 0\n1 1 0\n0 0\n0 1", "g.hdag:3: hyperedge 1 has no pin"),
        ("2 2 4\n0\n1\n0\n1\n0 0\n0 1\n1 1\n1 0", "the graph has a cycle, 0 ← 1 ← 0"),
        ("2 2 3\n0\n1\n0\n1\n0 0\n0 1\n1 0", "g.hdag:8: vertex 0 is the source of two hyperedges"),
        ("{}", "g.hdag:1: begins like node-link, and its name says hdag: rename it"),
        ("<graphml/>", "g.hdag:1: begins like graphml"),
        ("a b\nb c\n", "g.hdag:1: expected 'hyperedges vertices pins'"),
        ("1 2 2\n0 1 1\x00", "g.hdag:2: a zero byte"),
    ],
    "g.json": [
        ("", "g.json is empty"),
        ("{", "g.json is not node-link JSON (line 1: Expecting property name enclosed in double"),
        ('{"nodes": [{"id": 1}],\n "edges": [', "g.json is not node-link JSON (line 2: Expecting"),
        ("[" * 100_000, "g.json is not node-link JSON"),
        ("9" * 5000, "g.json is not node-link JSON"),
        ("[]", "g.json is not node-link JSON, but a list"),
        ("{}", "g.json is not node-link JSON: it has no list of nodes"),
        ('{"nodes": []}', "it has no list of links"),
        ('{"nodes": [], "edges": []}', "the graph is empty"),
        ('{"nodes": [1], "edges": []}', "g.json is not node-link JSON: nodes[0] has no id"),
        ('{"nodes": [{"id": 1}], "edges": [{"source": 1}]}', "edges[0] has no target"),
        ('{"nodes": [{"id": 1}], "edges": [{"source": 1, "target": 2}]}', "unknown vertex '2'"),
        (
            '{"nodes": [{"id": 1}, {"id": "1"}], "edges": []}',
            "the vertices '1' (int) and '1' (str) are the same as text: rename one",
        ),
        ('{"nodes": [{"id": 1}, {"id": 1}], "edges": []}', "the vertex '1' is there twice"),
        ('{"directed": false, "nodes": [{"id": 1}], "edges": []}', "the graph is undirected"),
        ('{"nodes": [{"id": 1, "words": -1}], "edges": []}', "the vertex '1' has weight '-1'"),
        ('{"nodes": [{"id": 1, "words": 0}], "edges": []}', "the vertex '1' has weight '0'"),
        ('{"nodes": [{"id": 1, "words": 1.5}], "edges": []}', "the vertex '1' has weight '1.5'"),
        ('{"nodes": [{"id": 1, "words": NaN}], "edges": []}', "the vertex '1' has weight 'nan'"),
        ('{"nodes": [{"id": 1, "words": true}], "edges": []}', "the vertex '1' has weight 'True'"),
        ('{"nodes": [{"id": 1, "words": 1e300}], "edges": []}', "has '1"),
        ('{"nodes": [{"id": 1, "words": 2, "weight": 3}], "edges": []}', "words '2' and weight '3"),
        ('{"nodes": [{"id": 1, "output": "no"}], "edges": []}', "output = 'no' marks no vertex"),
        (
            '{"nodes": [{"id": 1}, {"id": 2}, {"id": 3}], "edges": [{"source": 1, "target": 2, '
            '"weight": 2}, {"source": 1, "target": 3, "weight": 4}]}',
            "the edge '1' → '3' has weight 4, and that of the edge '1' → '2' is 2",
        ),
        (
            '{"nodes": [{"id": 1, "words": 3}, {"id": 2}], "edges": [{"source": 1, "target": 2, '
            '"weight": 2}]}',
            "the edge '1' → '2' has weight 2, and its own is 3",
        ),
    ],
    "g.graphml": [
        ("", "g.graphml is empty"),
        (GRAPHML[:500], "g.graphml:"),
        ("<graphml>", "g.graphml:1: not GraphML: no element found"),
        ("<svg/>", "g.graphml:1: not GraphML, but <svg>"),
        ("<graphml/>", "g.graphml can't be read as GraphML"),
        (GRAPHML.replace('edgedefault="directed"', 'edgedefault="undirected"'), "is undirected"),
        (GRAPHML.replace('target="3"', 'target="9"', 1), "unknown vertex '9' in an edge"),
        (GRAPHML.replace('<node id="1"/>', '<node id="1"/><node id="1"/>'), "'1' is there twice"),
        (GRAPHML.replace(">3</data>", ">x</data>"), "g.graphml can't be read as GraphML: inval"),
        (GRAPHML.replace(">3</data>", ">-3</data>"), "the edge '0' → '2' has weight '-3'"),
        (GRAPHML.replace('key="d0"', 'key="d7"'), "g.graphml can't be read as GraphML"),
        (GRAPHML.replace('source="1" target="3"', 'source="1" target="2"'), "is there twice"),
        (GRAPHML.replace('source="1" target="3"', 'source="1" target="1"'), "from '1' to itself"),
        (GRAPHML.replace('source="1" target="3"', 'source="3" target="1"'), "has a cycle, "),
        (HDAG, "g.graphml:1: begins like hdag"),
    ],
    "g.txt": [
        ("", "g.txt is empty"),
        ("# nothing\n", "g.txt has no edge"),
        ("a b\nc\n", "g.txt:2: expected 'operand result' or 'operand result words', got 'c'"),
        ("a b c", "g.txt:1: expected 'operand result'"),
        ("a b 1 2", "g.txt:1: expected 'operand result'"),
        ("a b -1", "g.txt:1: the edge 'a' → 'b' has weight '-1'"),
        ("a b 0", "g.txt:1: the edge 'a' → 'b' has weight '0'"),
        ("a b 1.5", "g.txt:1: expected"),
        ("a b 2\na c 3", "g.txt:2: the edge 'a' → 'c' has weight 3, and that of the edge 'a' → "),
        ("a a", "g.txt:1: an edge leads from 'a' to itself: remove it"),
        ("a b\nc b\na b", "g.txt:3: the edge 'a' → 'b' is there twice, first at g.txt:1: remove"),
        ("a b\nb c\nc a", "the graph has a cycle, a ← c ← b ← a: remove one edge"),
        ("\n".join(f"{k} {k + 1}" for k in range(100_001)), "far beyond reach"),
        ("{}", "g.txt:1: begins like node-link"),
    ],
}


@pytest.mark.parametrize(
    ("name", "text", "says"), [(name, *row) for name, rows in WRONG.items() for row in rows]
)
def test_a_wrong_file_is_one_line(
    name: str, text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("networkx")
    monkeypatch.chdir(tmp_path)
    write_file(tmp_path, name, text)
    with pytest.raises(InputError) as error:
        from_file(Path(name))
    assert says in str(error.value)
    assert len(str(error.value)) < 1000
    done = iosim_("optimal", name, "--M", "9")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(b"\xff\xfe\x00")
    for path, says in (
        (tmp_path, "it is not a file"),
        (tmp_path / "none", "there is no such file"),
        (tmp_path / "odd", "can't decode"),
        (Path("/dev/zero"), "it is not a file"),
    ):
        with pytest.raises(InputError, match=says):
            from_file(path)


def test_vertices_that_are_the_same_as_text() -> None:
    nx = pytest.importorskip("networkx")
    with pytest.raises(InputError, match=r"'1' .int. and '1' .str. are the same as text"):
        from_networkx(nx.DiGraph([(1, 2), ("1", 2)]))
    with pytest.raises(InputError, match="the same as text"):
        from_edges("g", [(1, 2), ("1", 2)])
    with pytest.raises(InputError, match="is there twice: remove one"):
        from_edges("g", [(1, 2), (1, 2)])
    with pytest.raises(InputError, match="unknown vertex 'z'"):
        from_edges("g", [("a", "b")], words={"z": 2})
    with pytest.raises(InputError, match="undirected"):
        from_networkx(nx.Graph([(1, 2)]))
    with pytest.raises(InputError, match="from '1' to itself"):
        from_networkx(nx.DiGraph([(1, 1)]))


def test_an_unknown_vertex_of_a_large_graph_is_a_short_line() -> None:
    with pytest.raises(InputError, match="unknown vertex 'z': the graph has 5,000 others") as error:
        Dag("large", {str(k): () for k in range(5000)}, outputs=("z",))
    assert len(str(error.value)) < 99
    with pytest.raises(InputError, match="vertex 'aaa") as error:
        Dag("g", {"b": ("a" * 10**6,)})
    assert len(str(error.value)) < 999


def test_a_game_is_replayed_on_the_command_line(tmp_path: Path) -> None:
    graph = str(write_file(tmp_path, "g.hdag", HDAG))
    moves = [["load", "0"], ["load", "1"], ["slide", "2", "0"], ["compute", "3"], ["store", "3"]]
    game = str(write_file(tmp_path, "game.json", json.dumps({"schedule": moves})))
    done = iosim_("optimal", graph, "--M", "4", "--replay", game, "--sliding")
    assert "a game of 5 I/Os: 4 loads, 1 stores; each of its 5 moves is allowed" in done.stdout
    done = iosim_("optimal", graph, "--M", "4", "--replay", game, "--sliding", "--json")
    assert {"cost": 5, "sliding": True, "sinks": "blue"}.items() <= json.loads(done.stdout).items()
    dag = from_file(Path(graph))
    assert replay(dag, 4, [Move(*move) for move in moves], sliding=True).loads == 4
    for words, says in (
        ([], "slide to 2: only in a game with sliding pebbles"),
        (["--sliding", "--M", "3"], "would need 1 words of fast memory in addition to 3, M = 3"),
        (["--sliding", "--free-sources"], "load 0: it has no blue pebble"),
    ):
        done = iosim_("optimal", graph, "--M", "4", "--replay", game, *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr
    for text, says in (
        ("", "game.json: no JSON (line 1: "),
        ("{}", "no list of moves"),
        ("[[1]]", "move 0 is no"),
        ('[["load", "z"]]', "unknown vertex 'z'"),
        ('[["fly", "0"]]', "unknown move 'fly'"),
        ("[]", "output 3 has no blue pebble"),
    ):
        write_file(tmp_path, "game.json", text)
        done = iosim_("optimal", graph, "--M", "4", "--replay", game)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert says in done.stderr


@pytest.mark.parametrize("option", ["sliding", "free-sources", "any-sinks"])
def test_what_the_search_cannot_play_is_refused(option: str, tmp_path: Path) -> None:
    graph = str(write_file(tmp_path, "g.txt", "a b"))
    done = iosim_("optimal", graph, "--M", "4", f"--{option}")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"the search can't play with --{option}" in done.stderr
    done = iosim_(
        "optimal", "matmul", "--m", "2", "--n", "2", "--k", "2", "--M", "4", "--format", "hdag"
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--format is for files, not matmul" in done.stderr
