"""``--model`` and what is typed beside it: a batch, and one of a pair of sizes."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from test_cli import iosim_, ok
from test_numbers import commands

from iosim.cli.commands import COMMANDS
from iosim.cli.registry import program

LLAMA = ("--model", "llama3-8b", "--N", "256")
# A call of each command with --model that has heads in its --json, or in what it prints.
CALLS = {
    "count": "flash2 --M 64Ki --json",
    "step": "--M 64Ki --json",
    "tiles": "flash2 --M 64Ki --json",
    "cache": "flash2 --tiles B_r=64,B_c=64 --capacity 4Ki --json",
    "l2": "flash2 --machine h100 --json",
    "bounds": "--M 64Ki",
    "tightness": "--M 64Ki --json",
    "verify": "--N 4 --d 2 --M 64 --out made --json",
    "sweep": "--schedule flash2 --M 64Ki --out rows --csv rows.csv",
    "devices": "ring-attention --P 2 --json",
    "export": "flash2 --N 2 --d 1 --tiles B_r=1,B_c=1 --save a.html",
    "show": "flash2 --tiles B_r=64,B_c=64",
    "gpu emit": "flash2",
}


def test_every_command_with_a_model_has_a_batch() -> None:
    own = {"roofline", "fuse"}  # of a whole transformer, whose batch is another size of its own
    found = set()
    for name, command in commands(program(COMMANDS)):
        params = {x.name for x in command.params if isinstance(x, click.Option)}
        if "model" in params:
            assert "batch" in params, name
            found.add(name)
    assert found - own == set(CALLS)


@pytest.mark.parametrize("command", CALLS)
def test_a_batch_scales_both_heads(command: str, tmp_path: Path) -> None:
    words = [*command.split(), *LLAMA, *CALLS[command].split(), "--batch", "3"]
    done = iosim_(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "batch = 3: heads = 3 × 32 = 96, kv_heads = 3 × 8 = 24" in done.stderr
    if done.stdout.startswith("{"):
        assert '"heads": 96' in done.stdout
        assert '"kv_heads": 24' in done.stdout


def test_a_batch_is_as_many_heads(tmp_path: Path) -> None:
    """Three sequences move three times the words, of K and V too, at both boundaries."""
    for words in (
        ("count", "flash2", "--tiles", "B_r=64,B_c=64", "--M", "64Ki"),
        ("l2", "flash2", "--tiles", "B_r=64,B_c=64", "--machine", "h100"),
    ):
        one, three = (
            json.loads(ok(*words, *LLAMA, "--json", *more)) for more in ((), ("--batch", "3"))
        )
        name = "total_words" if words[0] == "count" else "sm_l2_load_bytes"
        assert three[name] == 3 * one[name]
    gpt2 = iosim_("count", "flash2", "--model", "gpt2", "--M", "64Ki", "--batch", "2")
    assert "heads = 24, causal" in gpt2.stdout
    swept = iosim_(
        "sweep",
        "--schedule",
        "flash2",
        "--N",
        "64",
        "--d",
        "8",
        "--M",
        "1Ki",
        "--batch",
        "2",
        "--out",
        str(tmp_path),
    )
    assert "batch = 2: heads = 2 × 1 = 2" in swept.stderr
    alone = iosim_("count", "flash2", "--N", "64", "--d", "8", "--M", "1Ki", "--batch", "2")
    assert "heads = 2," in alone.stdout


def test_one_of_a_pair_says_what_became_of_the_other() -> None:
    asked = ("count", "flash2", *LLAMA, "--M", "64Ki")
    heads = iosim_(*asked, "--heads", "96")
    assert "heads = 96, kv_heads = 24, causal" in heads.stdout
    assert "heads = 96, so kv_heads = 24: 4 heads share one" in heads.stderr
    both = iosim_(*asked, "--heads", "96", "--kv-heads", "4")
    assert "heads = 96, kv_heads = 4, causal" in both.stdout
    assert "so kv_heads" not in both.stderr
    shared = iosim_(*asked, "--kv-heads", "4")
    assert "kv_heads = 4, and heads = 32 stays as in the model" in shared.stderr
    keys = iosim_("count", "flash2", "--model", "gpt2", "--N-k", "64", "--M", "64Ki")
    assert "N_k = 64, and N = 1024 stays as in the model" in keys.stderr
    columns = iosim_(*asked, "--d-v", "64")
    assert "d_v = 64, and d = 128 stays as in the model" in columns.stderr
    odd = iosim_(*asked, "--heads", "6")
    assert (odd.returncode, odd.stdout) == (2, "")
    assert "4 to one, which doesn't fit heads = 6: give --kv-heads as well" in odd.stderr


def test_pages_have_a_batch_of_their_own() -> None:
    sizes = "--N-k 64 --page 16 --d 8 --heads 4 --kv-heads 2 --batch 3 --M 4Ki --json"
    found = json.loads(ok("count", "paged", *sizes.split()))
    assert found["problem"]["batch"] == 3
    assert found["problem"]["heads"] == 4
