"""Schedules in files of one's own, wherever a schedule is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from iosim import Attention, algorithm, bind, count
from iosim.base.errors import InputError, IosimError, ProgramError
from iosim.cli.commands import COMMANDS
from iosim.cli.failures import explain
from iosim.cli.registry import program
from iosim.core.algorithms import own_file
from iosim.core.problem import PROBLEMS, MatMul
from iosim.lab.page import payload

KEYS, PANELS = "docs/examples/keys_twice.py:keys_twice", "docs/examples/panels.py:panels"
SIZES = ["--N", "128", "--d", "16"]


def invoke(*words: str) -> Result:
    """Run a command."""
    return CliRunner().invoke(program(COMMANDS), list(words))


def run(*words: str) -> str:
    """What a command prints; it must succeed."""
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_file_gives_the_same_program_as_the_builder() -> None:
    entry, problem = algorithm(KEYS), Attention(100, 8)
    counts = count(bind(entry.program, problem.sizes, {"B_r": 32, "B_c": 16}))
    registered = count(bind(algorithm("flash2").program, problem.sizes, {"B_r": 32, "B_c": 16}))
    assert counts["load", "K"] == 2 * registered["load", "K"]
    assert counts["load", "V"] == registered["load", "V"]
    assert entry.problem is Attention
    assert algorithm(PANELS).problem is MatMul


def test_count_takes_a_file_beside_a_name() -> None:
    rows = json.loads(run("count", f"flash2,{KEYS}", *SIZES, "--M", "4096", "--json"))
    assert KEYS in json.dumps(rows)


@pytest.mark.parametrize(
    "words",
    [
        ("count", KEYS, *SIZES, "--M", "4096"),
        ("tiles", KEYS, *SIZES, "--M", "4096"),
        ("show", KEYS),
        ("cache", KEYS, *SIZES, "--M", "4096"),
        ("l2", KEYS, *SIZES, "--machine", "h200"),
        ("tightness", "--schedule", KEYS, *SIZES, "--M", "4096"),
        ("gpu", "emit", KEYS, *SIZES),
    ],
    ids=lambda words: words[0],
)
def test_commands_take_a_file(words: tuple[str, ...]) -> None:
    assert run(*words)


def test_a_sweep_takes_a_file_and_is_plotted(tmp_path: Path) -> None:
    out = str(tmp_path / "sweep")
    run("sweep", "--out", out, "--schedule", f"flash2,{KEYS}", *SIZES, "--M", "4096,8192")
    rows = json.loads(run("query", "SELECT algorithm FROM rows", out, "--json"))
    assert {row["algorithm"] for row in rows} == {"flash2", KEYS}
    run("plot", out, "--save", str(tmp_path / "figure"))
    assert (tmp_path / "figure.svg").exists()


@pytest.fixture(autouse=True)
def forget_problems() -> Iterator[None]:
    """Other tests of this process see no problems of these files."""
    before = dict(PROBLEMS)
    yield
    own_file._loaded.clear()
    for kind in PROBLEMS.keys() - before.keys():
        del PROBLEMS[kind]


BIASED = "docs/examples/biased.py:panels"
PRODUCT = ("--m", "32", "--n", "48", "--k", "16", "--M", "1024")


def test_a_file_has_a_problem_of_its_own(tmp_path: Path) -> None:
    found = json.loads(run("count", BIASED, *PRODUCT, "--json"))
    assert found["by_tensor"]["load"]["bias"] == -(-32 // found["tiles"]["B_m"]) * 48
    out = str(tmp_path / "sweep")
    run("sweep", "--out", out, "--schedule", BIASED, *PRODUCT)
    (row,) = json.loads(run("query", "SELECT * FROM rows", out, "--json"))
    assert row["lower_bound_words"] == 32 * 16 + 16 * 48 + 32 * 48 + 48
    for command in ("tiles", "cache"):
        assert run(command, BIASED, *PRODUCT)
    assert "bias" in run("show", BIASED)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("PROBLEM = 3", "PROBLEM = 3 is no problem"),
        ("PROBLEM.kind = 'copy'", "has the kind 'copy'"),
    ],
)
def test_a_problem_that_is_none_is_refused(tmp_path: Path, line: str, says: str) -> None:
    text = (
        Path("docs/examples/biased.py")
        .read_text()
        .replace("PROBLEM = BiasedProduct", f"PROBLEM = BiasedProduct\n{line}")
    )
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(InputError, match=says):
        algorithm(f"{tmp_path}/bad.py:panels")


def test_the_lab_watches_a_file() -> None:
    watch = payload(["watch"], {}, schedules=[KEYS])["views"]["watch"]
    assert watch["start"]["algorithm"] == KEYS
    assert KEYS in {one["name"] for one in watch["schedules"]}


def test_tightness_says_where_a_bound_need_not_hold() -> None:
    done = invoke("tightness", "--schedule", KEYS, *SIZES, "--M", "4096")
    assert "need not hold for docs/examples/keys_twice.py:keys_twice" in done.stderr
    done = invoke("tightness", "--schedule", "flash2", *SIZES, "--M", "4096")
    assert "need not hold" not in done.stderr


def test_tightness_of_one_schedule_is_of_that_one() -> None:
    best = json.loads(run("tightness", *SIZES, "--M", "4096", "--json"))
    own = json.loads(run("tightness", "--schedule", KEYS, *SIZES, "--M", "4096", "--json"))
    assert own["best_algorithm"] == KEYS
    assert own["best_words"] > best["best_words"]
    assert own["lower_bound_words"] == best["lower_bound_words"]


BAD = """
import nothing_of_that_name as missing

def wrong_index(b):
    b.load("Q", 3)

def two(b, c): ...

number = 3

def raises(b):
    raise ValueError("no")

needs = missing.something
"""


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("wrong_index", IosimError, "Q is indexed by 3"),
        ("two", ProgramError, "missing a required argument"),
        ("number", InputError, "isn't a schedule"),
        ("raises", ProgramError, "line 12: ValueError: no"),
        ("rises", InputError, "did you mean 'raises'"),
        ("needs", InputError, "line 14: NameError"),
        ("missing", InputError, "line 2: ModuleNotFoundError"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, name: str, kind: type[Exception], says: str) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    with pytest.raises(kind, match=says) as error:
        algorithm(f"{tmp_path}/bad.py:{name}")
    assert "\n" not in str(error.value)


def test_a_file_without_a_function_or_with_two_colons() -> None:
    file = KEYS.partition(":")[0]
    with pytest.raises(InputError, match=f"write {file}:FUNCTION, with one of keys_twice"):
        algorithm(file)
    assert algorithm(KEYS.replace(":", "::")).program == algorithm(KEYS).program
    with pytest.raises(InputError, match="a Triton kernel: iosim kernel count"):
        algorithm("docs/examples/softmax.py:softmax")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("tightness", KEYS), "schedules are given with --schedule"),
        (("lab", KEYS), f"give --schedule {KEYS}"),
        (("lab", "--schedule", "flash2"), "give FILE.py:FUNCTION"),
    ],
)
def test_a_schedule_in_another_place_is_said(words: tuple[str, ...], says: str) -> None:
    done = CliRunner().invoke(program(COMMANDS), list(words), standalone_mode=False)
    assert done.exception is not None
    assert says in explain(done.exception)[1]


def test_a_file_that_is_not_there_or_no_python(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        algorithm("nothing.py:rows")
    (tmp_path / "text.py").write_text("not python at all")
    with pytest.raises(InputError, match="line 1: invalid syntax"):
        algorithm(f"{tmp_path}/text.py:rows")


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    file, text = tmp_path / "rows.py", Path("docs/examples/keys_twice.py").read_text()
    file.write_text(text)
    problem, tiles = Attention(64, 8), {"B_r": 16, "B_c": 16}

    def words() -> int:
        program = algorithm(f"{file}:keys_twice").program
        return count(bind(program, problem.sizes, tiles)).total_words

    first = words()
    file.write_text(text.replace('                b.free(b.load("K", h, j, "d"))\n', ""))
    assert words() < first
