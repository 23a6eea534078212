"""One name for one thing: what options of all commands mean, and spellings of before."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from test_cli import iosim_, ok
from test_numbers import commands

from iosim.cli.commands import COMMANDS, OLD
from iosim.cli.registry import program

SMALL = ("--N", "64", "--d", "8")


def options(hidden: bool = False) -> Iterator[tuple[str, click.Option]]:
    """Every option of every command, with the command's name."""
    for name, command in commands(program(COMMANDS)):
        for one in command.params:
            if isinstance(one, click.Option) and one.hidden == hidden:
                yield name, one


def meaning(one: click.Option) -> tuple[str, str]:
    """What an option takes, of which a list has commas, and its help up to the first mark."""
    takes = "" if one.is_flag else one.metavar or one.type.name.upper()
    assert one.help, one.opts
    return re.split(r"[|,]", takes)[0], re.split(r"[:;,(]", one.help)[0].strip()


def differences(found: list[tuple[str, str, tuple[str, str]]]) -> list[str]:
    """Of (command, name, meaning): names with two meanings, and meanings with two names."""
    meanings: dict[str, dict[tuple[str, str], str]] = {}
    names: dict[str, dict[str, str]] = {}
    for command, name, what in found:
        meanings.setdefault(name, {})[what] = command
        names.setdefault(what[1], {})[name] = command
    return [
        *(f"{name}: {some}" for name, some in meanings.items() if len(some) > 1),
        *(f"{what}: {some}" for what, some in names.items() if len(some) > 1),
    ]


def test_an_option_has_one_name_and_a_name_one_meaning() -> None:
    found = [(command, one.opts[0], meaning(one)) for command, one in options()]
    assert len({name for _, name, _ in found}) > 100
    assert differences(found) == []


def test_differences_are_found() -> None:
    same = ("DIR", "folder to write")
    other = ("INT", "columns of dY")
    assert differences([("sweep", "--out", same), ("cache", "--out", same)]) == []
    assert len(differences([("sweep", "--out", same), ("devices", "--out", other)])) == 1
    assert len(differences([("sweep", "--out", same), ("cache", "--to", same)])) == 1


def test_an_option_is_spelled_in_one_way() -> None:
    """Neither with underscores nor with a second spelling that the help lists."""
    for command, one in options():
        assert len(one.opts) == 1, (command, one.opts)
        assert one.opts[0].startswith("--"), (command, one.opts)
        assert "_" not in one.opts[0], (command, one.opts)


def test_arguments_of_one_kind_have_one_metavar() -> None:
    found: dict[str, set[str]] = {}
    for _, command in commands(program(COMMANDS)):
        for one in command.params:
            if isinstance(one, click.Argument):
                shown = one.make_metavar(click.Context(command)).strip("[].…")
                found.setdefault(one.type.name, set()).add(shown)
    assert found["schedule"] == {"SCHEDULE", "SCHEDULE,"}
    assert "ALGO" not in str(found)


# A command line with a spelling of before, and the same with the one of now.
RENAMED = {
    "l2 flash2 --N 4096 --d 64 --gpu h100 --json": "--machine",
    "roofline all_reduce --n 64 --devices 4 --machine h200 --json": "--P",
    "fuse chain --k 1:3 --words 64 --json": "--length",
    "devices data-parallel --rows 8 --width 4 --out 6 --P 2 --json": "--out-width",
    "cache flash2 --N 64 --d 8 --M 256 --engine tiles --json": "--method",
    "gpu emit flash2 --programs 4": "--lockstep",
    "gpu decode --N_k 512 --dry-run": "--N-k",
    "gpu decode --schedules decode --dry-run": "--schedule",
    "gpu layers --no-ordinary --quick --dry-run": "--no-vector-flop",
    "count flash2 --N 64 --d 8 --M 999 --kv_heads 1 --json": "--kv-heads",
    "count flash2 --N=64 --d=8 --M=999 --d_v=4 --json": "--d-v",
}


@pytest.mark.parametrize("line", RENAMED)
def test_an_old_spelling_works_and_says_the_new_one(line: str) -> None:
    new = RENAMED[line]
    words = line.split()
    hidden = {
        (command, opts)
        for command, one in options(hidden=True)
        for opts in (*one.opts, *one.secondary_opts)
    }
    name = " ".join(words[: 1 + (words[0] == "gpu")])
    (old,) = (x for x in (y.partition("=")[0] for y in words) if (name, x) in hidden)
    done = iosim_(*words)
    assert done.returncode == 0, done
    notes = [x for x in done.stderr.splitlines() if "is now called" in x]
    goes = "the old name goes with the next version"
    assert notes == [f"iosim: note: {old} is now called {new}; {goes}"]
    now = iosim_(*(re.sub(f"^{old}(?=$|=)", new, x) for x in words))
    plain, other = (re.sub(r"iosim-[0-9a-f]{16}", "", x.stdout) for x in (done, now))
    assert (done.returncode, plain) == (now.returncode, other)
    assert "is now called" not in now.stderr


def test_of_both_spellings_the_last_one_counts() -> None:
    words = ("count", "flash2", *SMALL, "--M", "4096", "--json")
    for given in (("--N_k", "128", "--N-k", "64"), ("--N-k", "128", "--N_k", "64")):
        assert ok(*words, *given) == ok(*words, "--N-k", "64")


def test_old_spellings_that_write(tmp_path: Path) -> None:
    grid = ("--N", "64", "--d", "8", "--M", "999", "--workers", "1")
    for old in (
        ("sweep", "--algo", "flash2", *grid, "--out", "rows"),
        ("verify", *grid, "--rows", "--out", "v"),
        ("plot", "v/verify.csv", "--out", "figure"),
        ("export", "flash2", *SMALL, "--M", "999", "-o", "a.html"),
    ):
        done = iosim_(*old, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("is now called")) == (0, 1), done
    assert {"rows", "v", "figure.png", "a.html"} <= {x.name for x in tmp_path.iterdir()}
    (tmp_path / "s.toml").write_text('algo = "flash2"\nN = 64\nd = 8\nM = 99\n')
    done = iosim_("sweep", "--config", "s.toml", "--out", "t", "--workers", "1", cwd=tmp_path)
    assert "algo of a sweep is now called schedule" in done.stderr


def test_an_old_command_works_and_says_the_new_one() -> None:
    for old, new in OLD.items():
        done = iosim_(old, "--json")
        assert json.loads(done.stdout) == json.loads(ok(new, "--json"))
        assert f"iosim {old} is now called iosim {new}" in done.stderr
        assert f"  {old} " not in ok("--help")


def test_old_spellings_are_neither_in_the_help_nor_suggested() -> None:
    text = ok("roofline", "--help")
    assert "--machine" in text
    assert not re.search(r"--gpu|--kv_heads|--devices", text)
    done = iosim_("roofline", "matmul", "--gpus", "h100")
    assert done.returncode == 2
    assert "'--gpus'" in done.stderr
    assert "'--gpu'" not in done.stderr
    assert "'--machine'" in iosim_("roofline", "matmul", "--machin", "h100").stderr


REPORT = str(Path(__file__).parents[2] / "experiments" / "data" / "gpu" / "profile" / "h200")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f"profile {REPORT} --M 4Ki", "--M is of --schedule: name one"),
        (f"profile {REPORT} --dtype fp32", "--dtype is of --schedule: name one"),
        (
            f"profile {REPORT} --schedule flash2 --N 4096 --d 64 --M 4Ki",
            "--M is of --tiles search, which chooses tiles for it: leave --M out",
        ),
        ("devices ring-attention --N 64 --d 8 --P 2 --m 4", "'--m': it is for matmul, which"),
        ("devices all-gather --n 8 --P 2 --page 4", "'--page': it is for paged, which"),
        ("devices --P 4", "sizes are of a schedule: name one that iosim devices lists"),
        ("roofline rope --m 4 --n 5 --machine h200", "the head size must be even, not 5"),
    ],
)
def test_what_says_nothing_is_refused_in_one_line(line: str, says: str) -> None:
    done = iosim_(*line.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert says in done.stderr


def test_a_schedule_named_twice_is_said() -> None:
    words = ("count", *SMALL, "--M", "999")
    done = iosim_(*words, "naive,flash2,standard,flash2")
    assert "naive is named 2 times, and counted once" in done.stderr
    assert "flash2 is named 2 times, and counted once" in done.stderr
    assert done.stdout == ok(*words, "naive,flash2")
    assert ok(*words, "naive,naive") == ok(*words, "naive")
