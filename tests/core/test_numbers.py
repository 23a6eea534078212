"""Numbers as people type them: all commands read them by the same rules."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from test_cli import iosim_

from iosim import InputError
from iosim.cli.commands import COMMANDS
from iosim.cli.registry import program
from iosim.core import units
from iosim.sweep import Sweep

# What numbers, and lists of them, are called in a command's help.
NUMBERS = {
    "INT",
    "NUMBER",
    "PER_MILLE",
    "SIZE",
    "WORDS",
    "WORDS|SIZE",
    "INT,…",
    "WORDS,…",
    "WORDS,…|all",
}
# Sizes that no schedule over devices has.
OTHERS = {
    *(("devices", f"--{x}") for x in ("m", "k", "page", "batch")),
}
REPORT = Path(__file__).parents[2] / "experiments" / "data" / "gpu" / "profile" / "h200"
# Calls of each command that has numbers, so that each number is read in one of them.
_SIZES = "--N 64 --d 8 --M 1024"
_PAGED = "paged --batch 2 --N-k 64 --page 16 --d 8 --heads 2 --kv-heads 1 --M 1024"
_PRODUCT = "matmul --m 8 --n 8 --k 8 --M 64"
_EVERY = (f"flash2 {_SIZES}", _PAGED, _PRODUCT, "copy --n 8 --M 64")
_TILED = tuple(x.replace("--M 1024", "--tiles B_r=4,B_c=4") for x in _EVERY[:2])
_SOFTMAX = f"{Path(__file__).parents[2]}/docs/examples/softmax.py::softmax"
_MODEL = "--model llama3-8b --phase decode --N 64"
CALLS = {
    "show": (*_TILED, "matmul --m 8 --n 8 --k 8 --tiles B_m=2,B_n=2", "copy --n 8 --tiles B=2"),
    "count": _EVERY,
    "step": (_SIZES,),
    "tiles": _EVERY,
    "cache": _EVERY,
    "l2": tuple(f"{x} --machine h200" for x in _EVERY),
    "bounds": (_SIZES, *(x.partition(" ")[2] for x in _EVERY)),
    "tightness": (_SIZES,),
    "verify": ("--N 8 --d 2 --M 64 --out made",),
    "sweep": tuple(f"--schedule {x} --out rows" for x in _EVERY),
    "collect": ("rows",),
    "roofline": (
        "attention --N 64 --d 8 --machine h200",
        f"{_MODEL} --machine h200",
        "matmul --m 8 --n 8 --k 8 --machine h200",
        "all-reduce --n 8 --P 2 --machine h200",
    ),
    "fuse": ("chain --length 1:2 --words 64", f"{_MODEL} --M 1Ki", f"{_MODEL} --machine h200"),
    "devices": (
        "ring-attention --N 64 --d 8 --P 2 --machine h100",
        "all-gather --n 8 --P 2",
        "tensor-parallel --rows 8 --width 8 --inner 8 --P 2",
        "data-parallel --rows 8 --width 8 --out-width 8 --P 2",
        "ring-attention-backward --N 64 --d 8 --P 2",
    ),
    "export": tuple(f"{x} --save a.gif" for x in _EVERY),
    "optimal": ("matmul --m 2 --n 2 --k 2 --M 4", "attention --N 2 --d 1 --M 4"),
    "prove": ("matmul_tight",),
    "profile": (
        f"{REPORT} --schedule flash2 --N 64 --d 8 --tiles search",
        *(f"{REPORT} --schedule {x}" for x in _EVERY),
    ),
    "gpu emit": _EVERY,
    "gpu validate": ("--dry-run --schedule flash2",),
    "kernel cache": (f"{_SOFTMAX} --grid 1 --arg columns=8 --const BLOCK=8 --bytes 1KiB",),
    "kernel tiles": (f"{_SOFTMAX} --grid 1 --arg columns=8 --vary BLOCK=8 --machine h200",),
}
BOTH = "the number 500130257 or the list 500, 130, 257"


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command with its name."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        found = group.get_command(ctx, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, f"{name} ")
        else:
            yield f"{before}{name}", found


def options() -> Iterator[tuple[str, click.Option]]:
    """Every option with its command's name, without spellings of before."""
    for name, command in commands(program(COMMANDS)):
        for one in command.params:
            if isinstance(one, click.Option) and not (one.is_flag or one.hidden):
                yield name, one


def numbers() -> list[tuple[str, str]]:
    """Every option that is a number or a list of numbers, with its command's name."""
    found = []
    for name, one in options():
        metavar = one.metavar or one.type.name.upper()
        plain = isinstance(one.default, str) and re.fullmatch(r"[0-9,]+(Ki)?", one.default)
        if (metavar in NUMBERS or plain) and (name, one.opts[0]) not in OTHERS:
            found.append((name, one.opts[0]))
    return found


def refusals(command: str, option: str, text: str) -> Iterator[str]:
    """What each call of a command is refused for when an option of it is this text, one by one."""
    for call in CALLS.get(command, ("--dry-run",)):
        words = [*command.split(), *shlex.split(call)]
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
        done = iosim_(*words, option, text)
        yield done.stderr if done.returncode == 2 else ""


def test_no_option_reads_a_number_in_a_way_of_its_own() -> None:
    """click's own integers and floats know no 4Ki and no 2^16."""
    own = (click.types.IntParamType, click.types.FloatParamType)
    assert [(name, one.name) for name, one in options() if isinstance(one.type, own)] == []
    assert len(numbers()) > 150
    assert {name for name, _ in numbers() if not name.startswith("gpu ")} <= set(CALLS)


# Options that take lists, by command: there commas separate values.  A batch of attention is one
# number in a sweep, too, since it multiplies the heads.
LISTS = {
    "cache": "--capacity",
    "bounds": "--M",
    "tightness": "--d --M",
    "verify": "--M",
    "sweep": "--N --d --heads --m --n --k --N-k --kv-heads --page --d-v --sinks --M",
    "optimal": "--M",
    "fuse": "--length",
    "gpu validate": "--d --M --N",
    "gpu bench": "--N --d",
    "gpu backward": "--N --d",
    "gpu devices": "--MiB --N",
}


@pytest.mark.parametrize(("command", "option"), numbers())
def test_a_number_that_could_be_a_list_is_refused_with_both_readings(
    command: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where the option takes one number."""
    monkeypatch.chdir(tmp_path)
    takes_list = option in LISTS.get(command, "").split()
    assert any(BOTH in text for text in refusals(command, option, "500,130,257")) != takes_list


@pytest.mark.parametrize(("command", "option"), numbers())
def test_powers_are_understood(
    command: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power that no option may be is refused for its size, not for its form."""
    monkeypatch.chdir(tmp_path)
    for text in ("10^200", "10**200"):
        large = f"{text} is too large"
        assert any(large in said for said in refusals(command, option, text)), text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2^16", 2**16),
        ("2**16", 2**16),
        ("2^4Ki", 2**14),
        ("1^9", 1),
        ("4,096", 4096),
        ("1,048,576", 2**20),
        ("16_384", 16384),
        ("+7", 7),
    ],
)
def test_a_number_of_one_value(text: str, number: int) -> None:
    assert units.parse_int("N", text) == units.parse_words("N", text) == number
    assert units.parse_range("N", f"{text.replace(',', '')}") == [number]
    assert units.parse_real("N", text, "any", lambda x: True) == number


@pytest.mark.parametrize("text", ["2^", "^2", "2^-1", "2^2^2", "-2^2", "1,00", "1,0000", "2^1,024"])
def test_what_is_no_number(text: str) -> None:
    for read in (units.parse_int, units.parse_words, units.parse_range):
        with pytest.raises(InputError):
            read("N", text)


def test_a_list_of_thousands() -> None:
    for text, values in (
        ("64,128", [64, 128]),
        ("128,256,512", [128, 256, 512]),
        ("32,64,96", [32, 64, 96]),
        ("500,130,257", [130, 257, 500]),
        ("500, 130, 257", [130, 257, 500]),
        ("65,536", [65, 536]),
        ("500_130_257", [500130257]),
        ("2^3:2^5:x2", [8, 16, 32]),
        ("64,", [64]),
    ):
        assert units.parse_range("N", text) == values, text
    for text in ("1,,2", "1,024", "65,036"):
        with pytest.raises(InputError):
            units.parse_range("N", text)


def test_a_window_is_two_limits() -> None:
    assert units.split_limits("window", "500,130") == ["500", "130"]
    with pytest.raises(InputError, match="LEFT,RIGHT"):
        units.split_limits("window", "4,095")


def test_a_sweep_takes_lists_and_no_commas_between_thousands() -> None:
    of_python = Sweep.of(schedule="flash2", N=[500, 130, 257], d=64, M="4Ki")
    assert of_python.points == 3
    assert f"--N {dict(of_python.sizes)['N']}" in of_python.typed
    told = of_python.as_dict()
    told["sizes"] = [("N", "500,130,257"), ("d", "64")]
    assert Sweep.from_dict(told).points == 3
    for wrong in ({"N": "4,096"}, {"M": "65,036"}, {"tiles": "B_r=16,084,B_c=2"}):
        with pytest.raises(InputError, match="is a list: write thousands as"):
            Sweep.of(**{"schedule": "flash2", "N": 64, "d": 64, "M": "4Ki", **wrong})
