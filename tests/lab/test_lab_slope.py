"""Data of the lab's ski-slope and tiles: the README's figure, and counts at optimal tiles."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iosim
from iosim.bounds import BOUNDS, bounds_for
from iosim.bounds.unified import caps
from iosim.core.problem import Attention
from iosim.lab.data import slope, tiles
from iosim.lab.data.traced import Formulas, Traced
from iosim.report.tightness import best_schedule

IMG = Path(__file__).parents[2] / "docs" / "img"
E04 = Path(__file__).parents[2] / "experiments" / "data" / "e04_blocks"


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What the page gets: after a way through JSON."""
    made: dict[str, Any] = json.loads(json.dumps(slope.data(), allow_nan=False))
    return made


def words_at(preset: dict[str, Any], name: str, M: int) -> int | None:
    """Words of a curve at a size of the table; None where it doesn't run."""
    curve, k = preset["curves"][name], preset["sizes"].index(M)
    found: int | None = None if k < curve["first"] else curve["words"][k - curve["first"]]
    return found


@pytest.mark.numbers
def test_a_preset_is_the_figure_of_the_readme(told: dict[str, Any]) -> None:
    preset = told["presets"][0]
    strength = {b["name"]: b["strength"] for b in told["bounds"]}
    runs = {
        (name, M, words, error)
        for name, run in preset["runs"].items()
        for M, words, error in zip(run["M"], run["words"], run["max_error"], strict=True)
    }
    lines, known = set(), set()
    with (IMG / "verify.csv").open() as file:
        for row in csv.DictReader(file):
            name, M = row["name"], int(row["M_words"])
            assert (int(row["N"]), int(row["d"])) == (preset["N"], preset["d"])
            if row["kind"] in ("run", "formula"):
                assert words_at(preset, name, M) == int(row["total_words"])
                lines.add(name)
            else:
                assert preset["bounds"][name][preset["sizes"].index(M)] == float(row["total_words"])
                known.add(name)
            if row["kind"] == "run":
                runs.remove((name, M, int(row["total_words"]), float(row["max_error"])))
    assert not runs
    again = "draw it again: iosim verify --out docs/img"
    assert lines == set(preset["curves"]), again
    assert known == {name for name in strength if strength[name] == "exact"}, again


def test_words_are_counts_at_optimal_tiles(told: dict[str, Any]) -> None:
    pick = random.Random(13)
    for _ in range(60):
        preset = pick.choice(told["presets"])
        name, curve = pick.choice(list(preset["curves"].items()))
        k = pick.randrange(len(curve["words"]))
        M, problem = preset["sizes"][curve["first"] + k], Attention(preset["N"], preset["d"])
        program = iosim.algorithm(name).program
        best = iosim.optimal_tiles(program, problem, M)
        instance = iosim.bind(program, problem.sizes, best.tiles)
        assert {x: v[k] for x, v in curve["tiles"].items()} == best.tiles
        assert curve["words"][k] == iosim.count(instance).total_words == best.total_words
        assert curve["peak"][k] == iosim.peak(instance) <= M
        least = iosim.smallest_capacity(program, problem)
        assert preset["sizes"][curve["first"]] == least


def test_bounds_are_those_of_the_command(told: dict[str, Any]) -> None:
    for preset in told["presets"]:
        problem = Attention(preset["N"], preset["d"])
        for k in range(0, len(preset["sizes"]), 40):
            for row in bounds_for(problem, preset["sizes"][k]):
                if [klass.name for klass in row.classes] == ["stationary"]:
                    assert row.name not in preset["bounds"]  # not of all schedules of the view
                    continue
                said = preset["bounds"][row.name][k]
                assert (said is None) == (row.words is None)
                assert said is None or said == pytest.approx(row.words, rel=1e-9, abs=1e-3)
    lower = [b for b in told["bounds"] if b["kind"] == "lower"]
    assert {klass for b in lower for klass in b["classes"]} == set(told["classes"])


@pytest.mark.numbers
@pytest.mark.parametrize(("N", "d"), [(16, 4), (12, 3), (7, 4), (24, 2), (5, 5)])
def test_the_crossover_counts_every_M(N: int, d: int) -> None:
    problem, last, first = Attention(N, d), d * d // 4, 4 * d * d
    for M in range(4 * d * d, d * d // 4 - 1, -1):
        best: dict[bool, float] = {True: float("inf"), False: float("inf")}
        for a in iosim.all_algorithms(problem.form):
            if iosim.smallest_capacity(a.program, problem) <= M:
                stored = a.name in ("naive", "small_cache", "spill_rows", "small_tiles")
                words = iosim.optimal_tiles(a.program, problem, M).total_words
                best[stored] = min(best[stored], words)
        last = max(last, M) if best[True] < best[False] else last
        first = M if best[False] < best[True] else first
    assert slope.crossover(problem, d * d // 4, 4 * d * d) == {"last": last, "first": first}


def test_the_crossover_is_the_best_schedules(told: dict[str, Any]) -> None:
    readme = told["presets"][0]
    problem = Attention(readme["N"], readme["d"])
    for M, stored in (
        (readme["crossover"]["first"] - 1, True),
        (readme["crossover"]["first"], False),
    ):
        name = best_schedule(problem, M).algorithm
        assert slope.stores_scores(iosim.algorithm(name).program) is stored


def test_sizes_hold_marks_and_words_are_safe(told: dict[str, Any]) -> None:
    for preset in told["presets"]:
        N, d, sizes = preset["N"], preset["d"], preset["sizes"]
        assert sizes == sorted(set(sizes))
        assert [m["M"] for m in preset["marks"]] == [d * d, 4 * d * d, N * d]
        assert {d * d - 1, d * d, d * d + 1, 4 * d * d, N * d, 2 * N * d} <= set(sizes)
        for curve in preset["curves"].values():
            assert max(curve["words"]) < 2**53
            assert curve["words"] == sorted(curve["words"], reverse=True)


def evaluate(expression: Any, values: dict[str, int]) -> int:
    """An expression of the page, by itself."""
    if not isinstance(expression, tuple):
        return expression if isinstance(expression, int) else values[expression]
    name, *operands = expression
    a, b = (evaluate(x, values) for x in operands)
    return {"ceil": -(-a // b), "times": a * b, "min": min(a, b)}[name]


def test_the_rule_is_the_published_one() -> None:
    paper, pick = iosim.algorithm("flash1").rules["paper"], random.Random(4)
    for _ in range(2000):
        d, M = pick.randint(1, 300), pick.randint(1, 10**6)
        values = {"d": d, "M": M, "N": 64}
        found = {x: evaluate(e, values) for x, e in tiles.RULE.items()}
        assert found == paper(Attention(64, d), M)
        free = {x: evaluate(e, values) for x, e in tiles.UNCAPPED.items()}
        assert free == {"B_r": found["B_c"], "B_c": found["B_c"]}


def test_the_plane_begins_as_in_the_experiment() -> None:
    told = tiles.data()
    with (E04 / "marks.csv").open() as file:
        marks = [row for row in csv.DictReader(file) if row["algorithm"] == "flash1"]
    blocks = [row for row in marks if row["what"].startswith("FlashAttention-2's")]
    want = [{"B_r": int(row["B_r"]), "B_c": int(row["B_c"])} for row in blocks]
    assert told["blocks"]["tiles"] == want
    start = {size["name"]: size["value"] for size in told["planes"][0]["sizes"]}
    best = iosim.optimal_tiles(iosim.algorithm("flash1").program, Attention(**start), told["M"])
    optimum = next(row for row in marks if row["what"] == "optimum")
    assert best.tiles == {"B_r": int(optimum["B_r"]), "B_c": int(optimum["B_c"])}
    assert best.total_words == int(optimum["total_words"])


def test_planes_are_of_programs_with_these_tiles() -> None:
    for plane in tiles.data()["planes"]:
        program = iosim.algorithm(plane["schedule"]).program
        assert {plane["x"], plane["y"], *plane["held"]} == {p.name for p in program.params}
        assert {size["name"] for size in plane["sizes"]} == {
            x for t in program.tensors for x in t.axes
        }


SIGNS = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "//": np.floor_divide,
    "pow": np.power,
    "min": np.minimum,
    "max": np.maximum,
    "sqrt": np.sqrt,
    "log2": np.log2,
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
    "abs": np.abs,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "&": np.logical_and,
    "|": np.logical_or,
    "where": lambda c, a, b: np.where(c != 0, a, b),
    "inf": lambda: np.inf,
    "-inf": lambda: -np.inf,
}


def values_of(entries: list[Any], env: dict[str, Any]) -> list[Any]:
    """What the page makes of a table, by NumPy."""
    found: list[Any] = []
    with np.errstate(all="ignore"):
        for entry in entries:
            if not isinstance(entry, list):
                found.append(env[entry] if isinstance(entry, str) else entry)
            elif entry[0] == "interp":
                found.append(np.interp(found[entry[1]], *entry[2:]))
            else:
                sign, *places = entry
                found.append(SIGNS[sign](*(found[k] for k in places)) * 1.0)
    return found


NO_FLAGS = {f"given {x}": 0 for x in slope.FLAGS}


def dense(env: dict[str, Any]) -> dict[str, Any]:
    """What the page puts into formulas where no option is given."""
    same = {"N_k": env["N"], "d_v": env["d"], "kv_heads": env["heads"]}
    return env | same | dict.fromkeys(("left", "right", "sinks"), 0) | NO_FLAGS


def test_bounds_travel_as_what_python_computes(told: dict[str, Any]) -> None:
    """The page evaluates them: here by NumPy, in tests/browser by the page's code."""
    own, form, rng = told["own"], Attention.plain_form(), np.random.default_rng(7)
    env = {
        name: np.rint(2 ** rng.uniform(0, most, 2000)).astype(np.int64)
        for name, most in (("N", 20), ("d", 10), ("heads", 10), ("M", 26))
    }
    values = values_of(own["entries"], dense({x: v.astype(float) for x, v in env.items()}))
    assert own["bounds"].keys() == {b["name"] for b in told["bounds"]}
    for name, at in own["bounds"].items():
        applies = BOUNDS[name].where(form, {x: env[x] for x in form.sizes}, env["M"])
        assert (np.broadcast_to(values[at["applies"]], 2000).astype(bool) == applies).all()
        words = BOUNDS[name].curve(form, **{x: v[applies] for x, v in env.items()})
        found = np.broadcast_to(values[at["words"]], 2000)[applies]
        # Where floats may be a word off, Python uses fractions, or rounds down.
        few = words < 2.0**48
        few &= (env["N"].astype(float) ** 2 * env["d"] * env["heads"])[applies] < 2.0**50
        assert few.mean() > 0.4
        np.testing.assert_allclose(found[few], words[few], rtol=1e-14)
        np.testing.assert_allclose(found, words, rtol=1e-9, atol=1e-3)


def depends_on(entries: list[Any], place: int) -> set[int]:
    found, todo = {place}, [place]
    while todo:
        entry = entries[todo.pop()]
        inner = set(entry[1:] if isinstance(entry, list) else []) - found
        found |= inner
        todo += inner
    return found


def test_a_cap_that_is_written_down_depends_on_every_face() -> None:
    table = Formulas()
    sizes = [table.name(x) for x in ("x", "s", "a0", "m1", "m2", "first")]
    faces, cap = caps.recompute_faces(*sizes), caps.recompute_cap(*sizes)
    assert isinstance(cap, Traced)
    assert {face.place for face in faces.values()} <= depends_on(table.entries, cap.place)


@pytest.mark.parametrize("wrap", [np.asarray, lambda x: x])
def test_a_branch_on_what_is_written_down_is_refused_or_goes_both_ways(wrap: Any) -> None:
    table = Formulas()
    a, b = table.name("a"), table.name("b")
    with pytest.raises(TypeError, match=r"outside of Formulas\.choose"):
        a.place if wrap(a) >= wrap(b) else b.place
    with pytest.raises(TypeError, match=r"outside of Formulas\.choose"):
        np.maximum(np.asarray(a), np.asarray(b))
    larger = table.choose(lambda: np.maximum(np.asarray(a), np.asarray(b)))
    assert table.tree(larger.place) == ["where", [">=", "a", "b"], "a", "b"]


def test_a_table_of_ones_own_begins_like_a_presets(told: dict[str, Any]) -> None:
    own = told["own"]
    for preset in told["presets"]:
        env = dense({"N": preset["N"], "d": preset["d"], "heads": 1, "M": 1})
        values = values_of(own["entries"], env)
        points = {values[k] for k in own["points"]}
        inside = {M for M in points if preset["sizes"][0] <= M <= values[own["most"]]}
        assert inside <= set(preset["sizes"])
        assert preset["sizes"][-1] == values[own["most"]]
        assert [values[x["M"]] for x in own["marks"]] == [x["M"] for x in preset["marks"]]
