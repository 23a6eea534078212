"""Names and values as people type them first: understood, or the message says what to type."""

from __future__ import annotations

import json

import numpy as np
import pytest
from test_cli import iosim_, ok
from test_numbers import commands

from iosim import algorithm
from iosim.cli import options as opt
from iosim.cli.commands import COMMANDS
from iosim.cli.registry import program
from iosim.core import algorithms
from iosim.devices import schedules
from iosim.sweep import Sweep

SMALL = ("--N", "64", "--d", "8", "--M", "1Ki")
# Parameters that name schedules, by any command.
NAMES = {"forward", "backward", "schedule", "schedules"}


def test_aliases_name_what_there_is() -> None:
    for of in (algorithms, schedules):
        known = of.ALGORITHMS if of is algorithms else of.SCHEDULES
        assert set(of.ALIASES.values()) <= set(known)
        for alias, name in of.ALIASES.items():
            assert alias == alias.lower().replace("-", "").replace("_", "")
            assert of.named(alias) == of.named(alias.upper()) == name
        for name in known:
            assert of.named(name) == of.named(name.replace("_", "-").upper()) == name
    assert algorithm("FlashAttention-2").name == "flash2"
    assert Sweep.of(schedule="fa2,standard", N=64, d=8, M=1024).algorithms == ("flash2", "naive")


def test_every_command_takes_aliases() -> None:
    found = set()
    for name, command in commands(program(COMMANDS)):
        for one in command.params:
            if one.name in NAMES or (name, one.name) == ("devices", "name"):
                assert isinstance(one.type, opt.Named), (name, one.name)
                found.add(name)
    assert {
        "count",
        "show",
        "tiles",
        "cache",
        "l2",
        "export",
        "gpu emit",
        "step",
        "sweep",
        "roofline",
        "profile",
        "devices",
    } <= found


@pytest.mark.parametrize(
    ("typed", "taken"),
    [
        ("flash", "flash2"),
        ("flashattention", "flash2"),
        ("standard", "naive"),
        ("flash-attention-2", "flash2"),
        ("fa2", "flash2"),
        ("flash_attention", "flash2"),
    ],
)
def test_which_schedule_was_taken_is_said(typed: str, taken: str) -> None:
    done = iosim_("count", typed, *SMALL, "--json")
    assert f"{typed} is {taken}" in done.stderr
    assert json.loads(done.stdout)["algorithm"] == taken
    assert iosim_("count", taken, *SMALL, "--json").stderr == ""


def test_a_backward_pass_by_its_forward_name() -> None:
    found = json.loads(ok("step", *SMALL, "--forward", "flash", "--backward", "flash", "--json"))
    assert found["forward"]["algorithm"] == "flash2"
    assert found["backward"]["algorithm"] == "flash2_backward"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "count flash2 --N 64 --d 8 --M 100KB",
            "in bytes, 50,000 words of fp16: add --dtype fp16 where",
        ),
        ("count flash2 --N 64 --d 8 --M 1Mi --tiles 32,16", "write --tiles B_r=32,B_c=16"),
        ("l2 flash2 --N 64 --d 8 --machine h100 --tiles 32,16", "write --tiles B_r=32,B_c=16"),
        ("cache flash2 --N 64 --d 8 --tiles 32,16", "write --tiles B_r=32,B_c=16"),
        ("show flash2 --tiles 32,16", "write --tiles B_r=32,B_c=16"),
        ("show flash2 --N 64 --d 8", "write --tiles B_r=64,B_c=64"),
        ("gpu emit flash2 --tiles 32,16", "write --tiles B_r=32,B_c=16"),
        ("export flash2 --N 64 --d 8 --tiles 32,16 --save a.gif", "write --tiles B_r=32,B_c=16"),
        (
            "sweep --schedule matmul --m 8 --n 8 --k 8 --M 99 --tiles 4 --out a",
            "write --tiles B_m=64,B_n=64",
        ),
        ("roofline --model gpt2 --N 64 --machine h100", "phases: training, prefill, decode"),
        ("fuse --model gpt2 --N 64", "--phase training (or prefill or decode)"),
    ],
)
def test_the_message_says_what_to_type(command: str, message: str) -> None:
    done = iosim_(*command.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_block_mask_has_as_many_keys_as_rows(tmp_path) -> None:
    np.save(tmp_path / "mask.npy", np.tri(8, dtype=bool))
    words = (
        "count",
        "block_sparse",
        "--N",
        "64",
        "--d",
        "8",
        "--M",
        "64Ki",
        "--tiles",
        "B_r=8,B_c=8",
        "--mask",
        "blocks=mask.npy",
    )
    short, long = ok(*words, cwd=tmp_path), ok(*words, "--N-k", "64", cwd=tmp_path)
    assert short == long
