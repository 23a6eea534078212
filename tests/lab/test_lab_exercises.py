"""The lab's exercises: answers that are right, and files that aren't."""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import iosim
from iosim.base.errors import InputError
from iosim.lab.data import DATA
from iosim.lab.exercises import exercises
from iosim.lab.exercises.expression import evaluate, names_in
from iosim.lab.exercises.quantities import lru, opt

BUILT_IN = exercises()


def test_every_view_has_exercises() -> None:
    assert set(BUILT_IN) == set(DATA), "write iosim/lab/exercises/<view>.toml"
    for view, found in BUILT_IN.items():
        assert len(found) >= 3, view
        for one in found:
            assert one["question"], view
            assert one["hints"], view
            assert one["reveal"], view
            assert "{" not in "".join([one["question"], one["reveal"], *one["hints"]]), view


def numbers(view: str) -> list[Fraction]:
    """What the answers of a view's numbers are."""
    found = [x for x in BUILT_IN[view] if x["ask"] == "number"]
    return [evaluate(x["answer"], {k: Fraction(v) for k, v in x["values"].items()}) for x in found]


def test_numbers_are_those_of_commands() -> None:
    """Each is computed here in another way than when it is read."""
    flash1 = iosim.algorithm("flash1").program
    instance = iosim.bind(flash1, iosim.Attention(64, 8).sizes, {"B_r": 16, "B_c": 4})
    run = iosim.simulate(instance, iosim.Machine(400), iosim.Attention(64, 8).random())
    assert numbers("watch") == [run.counts["store", "O"]]

    def words(name: str, N: int, d: int, M: int) -> int:
        problem = iosim.Attention(N, d)
        return iosim.optimal_tiles(iosim.algorithm(name).program, problem, M).total_words

    halved = Fraction(words("flash2", 65536, 64, 32768), words("flash2", 65536, 64, 65536))
    quarter = [words("small_cache", 65536, 1024, M) for M in (4096, 16384)]
    assert numbers("slope") == [halved, Fraction(*quarter)]
    assert all(abs(x - 2) < 0.05 for x in numbers("slope"))
    trace = "abcd" * 3
    fewest = least_misses(trace, 3)
    assert numbers("hardware") == [12, fewest, Fraction(12, fewest)]
    h100 = iosim.models.hardware.MACHINES["h100"]
    (ridge,) = numbers("wall")
    assert math.isclose(ridge, h100.ridge_for("fp16"))


def test_optima_of_the_games() -> None:
    """As `docs/pebbling.md` has them, and by counting what is compulsory."""
    assert numbers("pebbles")[:2] == [8 + 4, 17]
    tree = iosim.pebbling.tree(3)
    assert numbers("pebbles")[2] == iosim.pebbling.optimum(tree, 3).cost


def test_which_schedule_wins_is_found_by_trying_all() -> None:
    (one,) = (x for x in BUILT_IN["slope"] if x["ask"] == "choice")
    M = one["least"]["M"]
    assert M == 128**2 // 4
    moved = {}
    for name in one["choices"]:
        algorithm, problem = iosim.algorithm(name), iosim.Attention(4096, 128)
        if iosim.smallest_capacity(algorithm.program, problem) <= M:
            moved[name] = iosim.optimal_tiles(algorithm.program, problem, M).total_words
    assert one["answer"] == min(moved, key=lambda x: moved[x])


def least_misses(trace: str, room: int) -> int:
    """The fewest misses of any way to evict, by trying all."""
    states: dict[frozenset[str], int] = {frozenset(): 0}
    for block in trace:
        after: dict[frozenset[str], int] = {}
        for held, missed in states.items():
            ways = (
                [held]
                if block in held
                else [
                    (held - set(gone)) | {block}
                    for n in range(len(held) + 1)
                    for gone in itertools.combinations(held, n)
                    if len(held) - n < room
                ]
            )
            for way in ways:
                cost = missed + (block not in held)
                after[way] = min(after.get(way, cost), cost)
        states = after
    return min(states.values())


@given(st.text("abcde", min_size=1, max_size=12), st.integers(1, 4))
def test_misses(trace: str, room: int) -> None:
    assert opt(trace, room) == least_misses(trace, room)
    missed = 0
    for k, block in enumerate(trace):
        before = trace.rfind(block, 0, k)
        missed += before < 0 or len(set(trace[before + 1 : k])) >= room
    assert lru(trace, room) == missed


def test_formulas() -> None:
    env = {"N": 10, "d": 3, "B_r": 4}
    for text, value in {
        "N*d*⌈N/B_r⌉": 90,
        "2 × N^2 − d·B_r": 188,
        "⌊N/B_r⌋ + min(N, d, B_r)": 5,
        "N²/d": Fraction(100, 3),
        "-N + max(1.5, d)": -7,
        "ceil(N/B_r) * 10^-2": Fraction(3, 100),
        "((N))": 10,
    }.items():
        assert evaluate(text, env) == value, text
    assert names_in("min(N, ceil(d/B_r))") == {"N", "d", "B_r"}
    for text, why in {
        "2N": "not a formula",
        "N +": "not a formula",
        "N if d else 2": "not a formula",
        "": "not a formula",
        "__import__('os')": "not a formula",
        "N/(d-3)": "divides by 0",
        "N^99": "the power 99",
        "n": "unknown name 'n': did you mean 'N'",
        "ceil(1, 2)": "gives ceil 2 numbers",
        "N.real": "not a formula",
        "min()": "not a formula",
        "N and d": "not a formula",
        "[N]": "not a formula",
        "True": "not a formula",
    }.items():
        with pytest.raises(InputError, match=why):
            evaluate(text, env)


GOOD: dict[str, Any] = {
    "question": '"How many?"',
    "ask": '"formula"',
    "answer": '"N*d"',
    "count": '{ program = "flash2", key = "load Q" }',
    "names": '{ N = "rows", d = "columns", B_r = "tile", B_c = "tile" }',
}


def write_exercise(path: Path, view: str | None = "watch", **changes: str | None) -> Path:
    fields = {k: v for k, v in (GOOD | changes).items() if v is not None}
    head = "" if view is None else f'view = "{view}"\n'
    body = "".join(f"{k} = {v}\n" for k, v in fields.items())
    path.write_text(f"{head}[[exercise]]\n{body}", encoding="utf-8")
    return path


def test_a_lecturers_own_come_first(tmp_path: Path) -> None:
    found = exercises(write_exercise(tmp_path / "own.toml"))
    assert found["watch"][0]["question"] == "How many?"
    assert found["watch"][1:] == BUILT_IN["watch"]
    assert {k: v for k, v in found.items() if k != "watch"} == {
        k: v for k, v in BUILT_IN.items() if k != "watch"
    }


def test_the_file_in_the_documents(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/lab.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.S)
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    found = exercises(path)
    assert [found[view][0]["answer"] for view in ("watch", "slope")] == [
        "N*d*ceil(N/B_r)",
        "after / before",
    ]


WORDS = '{ is = "words", program = "flash2", N = 64, d = 8, M = 200 }'


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"view": "wach"}, r"exercise 1: unknown view 'wach': did you mean 'watch'"),
        ({"view": None}, "it has no view"),
        ({"question": None}, "it has no question"),
        ({"question": "3"}, "question is 3: give a string"),
        ({"answers": '"N"'}, "unknown field 'answers': did you mean 'answer'"),
        ({"ask": '"essay"'}, "ask is 'essay': give number, formula, choice, tiles"),
        ({"answer": '"N*d*ceil(N/B_r)"'}, r"is .* at N = .*, and flash2 counts \d+ \(load Q\)"),
        ({"answer": '"N*D"'}, "the answer has an unknown name 'D'"),
        ({"answer": '"N*"'}, "'N\\*' is not a formula"),
        ({"count": '{ program = "flash3", key = "load Q" }'}, "unknown algorithm 'flash3'"),
        ({"count": '{ program = "flash2", key = "load X" }'}, "flash2 has no count 'load X'"),
        ({"count": '{ key = "load Q" }'}, "has no program: give it"),
        ({"names": '{ N = "rows", d = "columns" }'}, "has the tile B_r, which is not in names"),
        ({"names": '{ N = "rows", B_r = "", B_c = "" }', "answer": '"N"'}, "has the size d"),
        ({"names": None}, "an exercise that asks for a formula has no names"),
        ({"hints": '"one"'}, "hints is 'one': give a list of strings"),
        ({"hints": "[1]"}, r"hints is \[1\]: give a list of strings"),
        ({"ask": '"number"', "answer": '"x"'}, "unknown name 'x'"),
        ({"ask": '"number"', "answer": None}, "an exercise that asks for a number has no answer"),
        ({"ask": '"number"', "answer": '"3"', "tolerance": "2"}, "tolerance is 2: give a share"),
        ({"ask": '"number"', "answer": '"v"', "values": "{ v = 3 }"}, "a value is 3: give a table"),
        (
            {"ask": '"number"', "answer": '"v"', "values": '{ v = { is = "word" } }'},
            "unknown quantity 'word': did you mean 'words'",
        ),
        (
            {"ask": '"number"', "answer": '"v"', "values": '{ v = { is = "words" } }'},
            "the quantity words: missing 2 required",
        ),
        (
            {"ask": '"number"', "answer": '"v"', "values": f"{{ v = {WORDS.replace('64', '0')} }}"},
            "N = 0 is outside",
        ),
        (
            {
                "ask": '"number"',
                "answer": '"v"',
                "values": f"{{ v = {WORDS.replace('200', '2')} }}",
            },
            "needs at least 27 words and M is 2",
        ),
        ({"ask": '"choice"', "choices": '["a"]'}, "give two or more"),
        ({"ask": '"choice"', "choices": '["a", "b"]', "answer": '"c"'}, "'c' is not a choice"),
        (
            {
                "ask": '"choice"',
                "choices": '["flash2", "flash2_chunked"]',
                "least": "{ N = 64, d = 8, M = 2000 }",
            },
            "move equally few words at M = 2000",
        ),
        ({"ask": '"tiles"', "fit": '{ program = "flash2", N = 64, d = 8, M = 3 }'}, "M is 3"),
        (
            {"ask": '"tiles"', "fit": '{ program = "flash2", N = 64, M = 300 }'},
            "flash2 has the sizes N, d, heads, got N",
        ),
        ({"hides": '"all"'}, "hides is 'all': give view, counts, nothing"),
        ({"reveal": '"{N}"'}, "unknown name 'N'"),
    ],
)
def test_what_is_wrong_with_an_exercise(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    path = write_exercise(tmp_path / "own.toml", **{"view": "watch"} | changes)
    with pytest.raises(InputError, match=why) as found:
        exercises(path)
    assert "\n" not in str(found.value)
    assert str(path) in str(found.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = [", "cannot read .* as TOML"),
        ("", "no exercise"),
        ("exercise = 3", "no exercise"),
        ("exercise = [3]", "3 is not a table"),
        ('views = "watch"', "unknown field 'views'"),
    ],
)
def test_what_is_no_file_of_exercises(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=why):
        exercises(path)
    with pytest.raises(InputError, match="there is no such file"):
        exercises(tmp_path / "none.toml")
