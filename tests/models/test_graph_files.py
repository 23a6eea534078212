"""Graphs in files: what is written is read back, and what is not a graph is one line."""

from __future__ import annotations

import copy
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples

from iosim.base.errors import InputError
from iosim.models.layers.files import MOST_BYTES, load, parsed, read, to_json
from iosim.models.layers.graph import Graph
from iosim.models.operators import OPERATORS, operand, operator

ROOT = Path(__file__).parents[2]

TOML = """
iosim_graph = 1
name = "MLP"
dtype = "bf16"
keeps = ["Y"]

[sizes]
t = 16
i = 8
u = 32

[tensors]
X = { axes = "t i", role = "input" }
W = { axes = "i u", role = "weight" }
H = "t u"
A = "t u"
V = { axes = "u i=8", role = "weight", dtype = "fp8" }
Y = "t i"

[[operators]]
name = "out"
kind = "contraction"
reads = ["A", { tensor = "V", axes = "u o=8" }]
writes = [{ tensor = "Y", axes = "t o=8" }]

[[operators]]
name = "in"
kind = "contraction"
reads = ["X", "W"]
writes = ["H"]

[[operators]]
name = "gelu"
kind = "gelu"
reads = ["H"]
writes = ["A"]

[groups]
first = ["in", "gelu"]
"""


def write_graph(folder: Path, text: str | bytes, name: str = "mine.toml") -> Path:
    path = folder / ("mine.json" if name == "mine.toml" and text[:1] == "{" else name)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def line(path: Path) -> str:
    """The message about a file that is not a graph."""
    with pytest.raises(InputError) as error:
        read(path)
    said = str(error.value)
    assert "\n" not in said
    assert path.name in said
    assert len(said) < 1000
    return said


def test_a_file_is_the_graph_that_it_describes(tmp_path: Path) -> None:
    s = {"t": 16, "i": 8, "u": 32, "o": 8}
    x, w = operand("X", "t i", s, "input"), operand("W", "i u", s, "weight")
    h, a = operand("H", "t u", s), operand("A", "t u", s)
    v, y = operand("V", "u o", s, "weight", "fp8"), operand("Y", "t o", s)
    want = Graph(
        "MLP",
        (
            operator("in", "contraction", [x, w], [h]),
            operator("gelu", "gelu", [h], [a]),
            operator("out", "contraction", [a, v], [y]),
        ),
        frozenset("Y"),
        "bf16",
    )
    found = load(write_graph(tmp_path, TOML))
    assert found.graph == want
    assert found.groups == {"first": ("in", "gelu")}
    again = load(write_graph(tmp_path, to_json(found.graph, found.groups), "mine.json"))
    assert again == found
    assert read(write_graph(tmp_path, TOML, "without_suffix")) == want


@given(strategies.graphs())
@examples(2)
def test_what_is_written_is_read_back(graph: Graph) -> None:
    text = to_json(graph)
    assert parsed(text).graph == graph
    assert to_json(parsed(text).graph) == text
    names = [op.name for op in graph.operators]
    groups = {"one": tuple(names[:2]), "two": tuple(names[2:3])}
    assert dict(parsed(to_json(graph, groups)).groups) == groups


def test_settings_of_all_sorts_are_read_back() -> None:
    s = {"j": 4, "k": 4, "p": 2, "q": 2}
    tensors = [operand("Q", "j p", s), operand("K", "k p", s), operand("V", "k q", s)]
    for window in (None, (3, None), (None, 0), (1, 1)):
        op = operator("a", "attention", tensors, [operand("O", "j q", s)], "j k", window=window)
        assert parsed(to_json(Graph("g", (op,)))).graph.operators == (op,)


# What the message says → the words of the file above that are replaced, and by what.
BAD = {
    "unknown key 'size': did you mean 'sizes'?": ("[sizes]", "[size]"),
    "unknown key 'read': did you mean 'reads'?": ('reads = ["H"]', 'read = ["H"]'),
    "unknown kind of operator 'gleu': did you mean 'gelu'?": ('kind = "gelu"', 'kind = "gleu"'),
    "operator gelu: there is no tensor 'HH': did you mean 'H'": ('reads = ["H"]', 'reads = ["HH"]'),
    "in: axis i is in one input only": ('W = { axes = "i u"', 'W = { axes = "t u"'),
    "out: axis t is 4 in A and 16 in Y": ('A = "t u"', 'A = "t=4 u"'),
    "out: axis u is 8 in A and 32 in V": ('A = "t u"', 'A = "t=4 u=8"'),
    "in and gelu both write H": ('writes = ["A"]', 'writes = ["H"]'),
    "tensor Z is never used: take it out": ('Y = "t i"', 'Y = "t i"\nZ = "t"'),
    "tensor X: axis 'tt' has no size": ('X = { axes = "t i"', 'X = { axes = "tt i"'),
    "size t is 0: give an integer from 1": ("t = 16", "t = 0"),
    "size t is -3": ("t = 16", "t = -3"),
    "size t is 16.5": ("t = 16", "t = 16.5"),
    "size t is True": ("t = 16", "t = true"),
    "size t is '16'": ("t = 16", 't = "16"'),
    "size t is 1000000000000000000000": ("t = 16", "t = 1" + "0" * 21),
    "t has more than 100 digits": ("t = 16", "t = 0x" + "f" * 6000),
    "'i=x' has no size: write i=64": ("u i=8", "u i=x"),
    "the size of axis 'i' is 0": ("u i=8", "u i=0"),
    "A has 1,208,925,819,614,629,174,706,176 words": (
        "t = 16\ni = 8\nu = 32",
        f"t = {2**40}\ni = 8\nu = {2**40}",
    ),
    "unknown role 'wieght': did you mean 'weight'?": (
        'i u", role = "weight"',
        'i u", role = "wieght"',
    ),
    "unknown dtype 'fp61': did you mean": ('dtype = "fp8"', 'dtype = "fp61"'),
    "unknown dtype 'bf61'": ('dtype = "bf16"', 'dtype = "bf61"'),
    "X has axis 't' twice": ('X = { axes = "t i"', 'X = { axes = "t t"'),
    "iosim_graph = 2 is another version": ("iosim_graph = 1", "iosim_graph = 2"),
    "the file has no 'iosim_graph'": ("iosim_graph = 1", ""),
    "operator 2 has no 'name'": ('name = "in"\n', ""),
    "operator in has no 'reads'": ('reads = ["X", "W"]', ""),
    "operator gelu writes no tensor": ('writes = ["A"]', "writes = []"),
    "operator gelu writes A twice": ('writes = ["A"]', 'writes = ["A", "A"]'),
    "two operators are called 'in'": ('name = "gelu"', 'name = "in"'),
    "keeps: there is no tensor 'Q'": ('keeps = ["Y"]', 'keeps = ["Q"]'),
    "waits: there is no tensor 'Q'": ("[groups]", '[waits]\nX = "Q"\n[groups]'),
    "MLP makes no 'W' that 'X' can wait for": ("[groups]", '[waits]\nX = "W"\n[groups]'),
    "a cycle": ("[groups]", '[waits]\nX = "Y"\n[groups]'),
    "keeps must name tensors, got 5": ('keeps = ["Y"]', "keeps = [5]"),
    "keeps of the file must be a list, got 'Y'": ('keeps = ["Y"]', 'keeps = "Y"'),
    "group first: there is no operator 'inn': did you mean 'in'?": ('["in", "gelu"]', '["inn"]'),
    "operator in is in the groups first and second": (
        'first = ["in", "gelu"]',
        'first = ["in"]\nsecond = ["in"]',
    ),
    "group first must be a list of operators": ('first = ["in", "gelu"]', 'first = "in"'),
    "tensor V is 32 × 4 here and 32 × 8 in tensors": ("u o=8", "u o=4"),
    "gelu: gelu has no setting 'p'": ('kind = "gelu"', 'kind = "gelu"\nsettings = { p = 0.1 }'),
    "a setting that no kind has": ('kind = "gelu"', 'kind = "gelu"\nsettings = { kind = 1 }'),
    "gelu: scale needs factor: give it": ('kind = "gelu"', 'kind = "scale"'),
    "gelu: factor must be a finite number, got 'much'": (
        'kind = "gelu"',
        'kind = "scale"\nsettings = { factor = "much" }',
    ),
    "p must be a number from 0 to below 1, got 1": (
        'kind = "gelu"\nreads = ["H"]\nwrites = ["A"]',
        'kind = "dropout"\nreads = ["H"]\nwrites = ["A", {tensor = "Y", axes = "t o=8"}]\n'
        "settings = { p = 1 }",
    ),
    "gelu: softmax works along 1 axes, not 0": ('kind = "gelu"', 'kind = "softmax"'),
    "no tensor has the axis 'x' that it works along": (
        'kind = "gelu"',
        'kind = "softmax"\nover = "x"',
    ),
    "gelu reads 1 tensors, not 2": ('reads = ["H"]', 'reads = ["H", "H"]'),
    "this is not TOML": ("[sizes]", "[sizes"),
    "the name of operator 2 is empty": ('name = "in"', 'name = ""'),
    "the name of operator 2 is not a name: 'a\\nb'": ('name = "in"', 'name = "a\\nb"'),
}


@pytest.mark.parametrize("said", BAD)
def test_bad_files(said: str, tmp_path: Path) -> None:
    before, after = BAD[said]
    assert before in TOML
    text = TOML.replace(before, after, 1)
    assert said in line(write_graph(tmp_path, text))


def one(kind: str, reads: str, writes: str, **more: Any) -> dict[str, Any]:
    """An operator called like its kind, of tensors in two texts."""
    return {"name": kind, "kind": kind, "reads": reads.split(), "writes": writes.split()} | more


SHORT = {
    "gelu: shapes don't meet: gelu makes no Y (4 j) of X (4 j × 8 i)": [one("gelu", "X", "Y")],
    "softmax: shapes don't meet": [one("softmax", "X", "Y", over="i")],
    "relu: axis i of X is in no input": [one("relu", "Y", "X")],
    "a cycle of operators: relu → gelu → relu": [
        one("relu", "X", "Z"),
        one("gelu", "Z", "X"),
        one("sum", "X", "Y", over="i"),
    ],
    "attention: Q has the axes i j, which fit no attention": [
        one("attention", "X X X", "Z", over="j i")
    ],
    "rope: shapes don't meet": [one("rope", "X Y Y", "Y", over="j")],
    "append: Y and Y must have the same axes, and X those": [one("append", "X Y", "Y", over="j")],
    "operator 1 must be a table, got 5": [5],
    "a tensor of operator gelu must be a table, got 5": [one("gelu", "", "X") | {"reads": [5]}],
}


@pytest.mark.parametrize("said", SHORT)
def test_bad_operators(said: str, tmp_path: Path) -> None:
    operators = SHORT[said]
    used = json.dumps(operators)
    tensors = {
        name: axes
        for name, axes in {"X": "j i", "Y": "j", "Z": "j i"}.items()
        if f'"{name}"' in used
    }
    text = {"iosim_graph": 1, "sizes": {"j": 4, "i": 8}, "tensors": tensors, "operators": operators}
    assert said in line(write_graph(tmp_path, json.dumps(text)))


def test_bad_json(tmp_path: Path) -> None:
    good = to_json(parsed(TOML).graph)
    assert "this is not JSON" in line(write_graph(tmp_path, good[:-3], "x.json"))
    assert "'name' is there twice" in line(
        write_graph(tmp_path, '{"name": 1, "name": 2}', "x.json")
    )
    assert "NaN is not a number" in line(write_graph(tmp_path, '{"name": NaN}', "x.json"))
    assert "must be a table, got a list" in line(write_graph(tmp_path, "[1]", "x.json"))
    assert "this is not JSON" in line(write_graph(tmp_path, "[" * 100_000, "x.json"))
    assert "this is not JSON" in line(write_graph(tmp_path, '{"t": ' + "9" * 5000 + "}", "x.json"))
    assert "this is not TOML" in line(write_graph(tmp_path, good, "x.toml"))
    empty = '{"iosim_graph": 1, "operators": []}'
    assert "the graph is empty: give it operators" in line(write_graph(tmp_path, empty, "x.json"))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "there is no such file" in line(tmp_path / "no.toml")
    assert "it is not a file" in line(tmp_path)
    assert "it is not UTF-8 text" in line(write_graph(tmp_path, b"\xff\xfe"))
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(100 * 10**6)
    assert f"more than {MOST_BYTES:,} bytes" in line(tmp_path / "large.json")


@pytest.mark.numbers
def test_a_long_graph_is_read_soon(tmp_path: Path) -> None:
    """Time grows with the file, not with its square: a chain of operators, the last one first."""
    n = 20_000
    operators = [
        {"name": f"o{k}", "kind": "relu", "reads": [f"t{k}"], "writes": [f"t{k + 1}"]}
        for k in reversed(range(n))
    ]
    told = {
        "iosim_graph": 1,
        "sizes": {"a": 4},
        "operators": operators,
        "tensors": {f"t{k}": "a" for k in range(n + 1)},
    }
    graph = parsed(json.dumps(told)).graph
    assert [op.name for op in graph.operators] == [f"o{k}" for k in range(n)]
    assert len(graph.readers) == n + 1


def graph_or_line(text: str) -> Graph | str:
    """What comes of a text; a message is one line of a length that can be read."""
    try:
        return parsed(text).graph
    except InputError as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) < 1000
    return said


def strange(seed: random.Random, told: Any, path: tuple[Any, ...] = ()) -> None:
    """Change something somewhere in a file's tables and lists."""
    places: list[tuple[Any, Any]] = []

    def walk(x: Any) -> None:
        for key in list(x) if isinstance(x, dict) else range(len(x)):
            places.append((x, key))
            if isinstance(x[key], dict | list):
                walk(x[key])

    walk(told)
    if not places:
        return
    where, key = seed.choice(places)
    others = [x[k] for x, k in places]
    match seed.choice(["gone", "other", "nasty", "twice", "renamed"]):
        case "gone":
            del where[key]
        case "other":
            where[key] = copy.deepcopy(seed.choice(others))
        case "nasty":
            where[key] = seed.choice(
                [
                    None,
                    True,
                    0,
                    -1,
                    1.5,
                    2**70,
                    10**400,
                    "",
                    "x",
                    "a\nb",
                    "é" * 300,
                    [],
                    {},
                    [[]],
                    ["X"],
                    {"a": 1},
                    "inf",
                    "b j=0",
                    "b=3 j=2",
                    "none",
                    1e308,
                    [1, 2],
                    [[1, 2, 3]],
                    *OPERATORS,
                ]
            )
        case "twice" if isinstance(where, list):
            where.append(copy.deepcopy(where[key]))
        case _ if isinstance(where, dict):
            where[f"{key}{seed.choice(['', 's', ' '])}"] = where.pop(key)


@pytest.mark.numbers
@given(strategies.graphs(), st.randoms(use_true_random=False), st.integers(1, 4))
@examples(6)
def test_a_changed_file_is_a_graph_or_one_line(
    graph: Graph, seed: random.Random, changes: int
) -> None:
    told = json.loads(to_json(graph))
    for _ in range(changes):
        strange(seed, told)
    found = graph_or_line(json.dumps(told))
    for op in found.operators if isinstance(found, Graph) else ():
        assert op.flop >= 0
        assert op.words_in >= 0
        assert op.words_out > 0


@given(st.randoms(use_true_random=False), st.booleans())
@examples(3)
def test_a_text_with_other_characters_is_a_graph_or_one_line(
    seed: random.Random, as_json: bool
) -> None:
    text = to_json(parsed(TOML).graph) if as_json else TOML
    for _ in range(seed.randint(1, 3)):
        at = seed.randrange(len(text))
        new = seed.choice(['"', "{", "}", "[", "]", "\n", "=", ",", "0", "é", "\0", "", "#", "\\"])
        text = text[:at] + new + text[at + seed.choice([0, 1, 5]) :]
    graph_or_line(text)


def test_the_example_of_the_page_is_the_file_that_it_names(tmp_path: Path) -> None:
    page = (ROOT / "docs/graphs.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.S)
    path = ROOT / "docs/examples/mlp.toml"
    assert example == path.read_text(encoding="utf-8")


def test_the_page_names_every_key() -> None:
    page = (ROOT / "docs/graphs.md").read_text(encoding="utf-8")
    from iosim.models.layers import files

    for key in {*files._TOP, *files._TENSOR, *files._OPERATOR, *files._READ, *files._BLOCKS}:
        assert re.search(rf"[`\[]{key}[`\]]|{key} =", page), key


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "iosim", *words], capture_output=True, text=True, cwd=ROOT
    )


def test_the_command(tmp_path: Path) -> None:
    path = str(write_graph(tmp_path, TOML))
    table = run("graph", path).stdout
    assert "gelu" in table
    assert "first" in table
    found = json.loads(run("graph", path, "--json").stdout)
    graph = read(path)
    assert [x["name"] for x in found["operators"]] == ["in", "gelu", "out"]
    assert found["totals"]["flop"] == graph.flop
    assert found["operators"][2]["words"]["V"] == {"in": 256, "out": 0}
    assert sum(x["words_in"] for x in found["classes"].values()) == found["totals"]["words_in"]
    assert parsed(run("graph", path, "--as-file").stdout) == load(path)
    bad = run("graph", str(write_graph(tmp_path, TOML.replace("gelu", "gleu"))))
    assert bad.returncode == 2
    assert bad.stderr.splitlines() == [
        "iosim: mine.toml: gleu: unknown kind of operator 'gleu': did you mean 'gelu'?"
    ]
    kinds = json.loads(run("graph", "--kinds", "--json").stdout)
    assert [x["kind"] for x in kinds] == list(OPERATORS)
    assert run("graph").stderr == "iosim: graph needs a file: name one, or ask for --kinds\n"
    both = run("graph", path, "--json", "--as-file")
    assert (both.returncode, len(both.stderr.splitlines())) == (2, 1)


def test_an_exported_module_is_read_without_pytorch() -> None:
    """By hand: a product with W, a bias, GELU, a product, a bias."""
    graph = read(ROOT / "tests/golden/torch_mlp.json")
    tokens, i, u = 8 * 512, 1024, 4096
    assert [op.kind.name for op in graph.operators] == [
        "contraction",
        "bias",
        "gelu_tanh",
        "contraction",
        "bias",
    ]
    assert [op.words_in for op in graph.operators] == [
        tokens * i + i * u,
        tokens * u + u,
        tokens * u,
        tokens * u + i * u,
        tokens * i + i,
    ]
    assert graph.operators[0].flop == graph.operators[3].flop == 2 * tokens * i * u
    assert sum(t.words for t in graph.inputs if t.role == "weight") == 2 * i * u + i + u
    page = (ROOT / "docs/graphs.md").read_text(encoding="utf-8")
    assert (ROOT / "docs/examples/mlp.py").read_text(encoding="utf-8") in page


def test_a_view_is_the_tensor_that_it_shows() -> None:
    """Whatever kernel its operator is in, the words are those without it."""
    s = {"j": 4, "i": 6, "h": 2, "p": 3}
    x, y, z = operand("X", "j i", s), operand("Y", "j i", s), operand("Z", "j h p", s)
    v, w = operand("V", "j h p", s), operand("W", "j h p", s)
    graph = Graph(
        "g",
        (
            operator("relu", "relu", [x], [y]),
            operator("view", "view", [y], [v]),
            operator("gelu", "gelu", [v], [z]),
            operator("exp", "exp", [z], [w]),
        ),
    )
    assert graph.views == {"V": "Y"}
    n = 24
    for with_view in ([], ["view"]):
        assert graph.part(["relu", *with_view]) == ({"X": n}, {"Y": n})
        assert graph.part(["gelu", *with_view]) == ({"V": n}, {"Z": n})
        assert graph.part(["gelu", "exp", *with_view]) == ({"V": n}, {"W": n})
        assert graph.part(["relu", "gelu", *with_view]) == ({"X": n}, {"Z": n})
    assert graph.part(["view"]) == ({}, {})
    kept = Graph("g", graph.operators, frozenset({"V", "W"}))
    assert kept.part(["relu", "view", "gelu"]) == ({"X": n}, {"Y": n, "Z": n})
