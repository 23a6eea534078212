"""The command line: what scripts rely on, and one clear line for every bad input."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iosim
from iosim import cli
from iosim.cli.commands import COMMANDS, EXAMPLES, SECTIONS


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def iosim_(*words: str, cwd: Path | None = None) -> Done:
    """Run the command line in this process: what it prints and the code it exits with."""
    out, err = io.StringIO(), io.StringIO()
    argv, sys.argv = sys.argv, ["iosim", *words]
    here, before, hook = Path.cwd(), signal.getsignal(signal.SIGINT), threading.excepthook
    try:
        os.chdir(cwd or here)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as stop:
        return Done(int(stop.code or 0), out.getvalue(), err.getvalue())
    finally:
        sys.argv = argv
        os.chdir(here)
        signal.signal(signal.SIGINT, before)
        threading.excepthook = hook
    raise AssertionError("main() returned")


def ok(*words: str, cwd: Path | None = None) -> str:
    done = iosim_(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_as_a_process() -> None:
    """The installed entry point and ``python -m iosim`` do the same; a failure has no traceback."""
    for command in (["iosim"], [sys.executable, "-m", "iosim"]):
        found = shutil.which(
            command[0], path=f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
        )
        run = [found or command[0], *command[1:]]
        done = subprocess.run([*run, "count", "flash9"], capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stderr.startswith("iosim: ")
        assert done.stderr.count("\n") == 1


GPT2 = ("--N", "1024", "--d", "64", "--M", "24576")


def test_algorithms() -> None:
    text = ok("schedules")
    for name in iosim.ALGORITHMS:
        assert name in text


def test_show(golden: Any) -> None:
    text = ok("show", "flash2")
    assert text == (Path(__file__).parents[1] / "golden" / "flash2.txt").read_text()
    text = ok("show", "flash2", "--tiles", "B_r=64,B_c=32")
    assert "grid i in N by 64" in text
    assert "⌈N/64⌉" in text
    text = ok("show", "flash2", "--tiles", "B_r=64,B_c=32", "--N", "128", "--d", "4")
    assert "in all 1,024" in text


@pytest.mark.parametrize("engine", ["formula", "simulate"])
def test_count_json(engine: str) -> None:
    result = json.loads(
        ok(
            "count",
            "flash2",
            "--N",
            "100",
            "--d",
            "8",
            "--heads",
            "2",
            "--M",
            "999",
            "--engine",
            engine,
            "--json",
        )
    )
    assert list(result) == [
        "algorithm",
        "engine",
        "problem",
        "M",
        "tiles",
        "load_words",
        "store_words",
        "total_words",
        "peak_words",
        "by_tensor",
    ]
    assert result["problem"] == {"N": 100, "d": 8, "heads": 2}
    program = iosim.algorithm("flash2").program
    sizes = iosim.Attention(100, 8, 2).sizes
    counts = iosim.count(iosim.bind(program, sizes, result["tiles"]))
    assert result["total_words"] == counts.total_words
    assert result["by_tensor"] == {
        "load": counts.by_tensor("load"),
        "store": counts.by_tensor("store"),
    }
    assert set(result["by_tensor"]["load"]) == {"Q", "K", "V"}
    assert result["peak_words"] <= 999


def test_count_in_bytes() -> None:
    plain = json.loads(ok("count", "flash1", *GPT2, "--json"))
    assert "total_bytes" not in plain
    typed = json.loads(
        ok(
            "count",
            "flash1",
            "--N",
            "1024",
            "--d",
            "64",
            "--M",
            "48KiB",
            "--dtype",
            "fp16",
            "--json",
        )
    )
    assert typed["M"] == 24576
    wide = sum(typed["by_tensor"][way][x] for way in ("load", "store") for x in "ml")
    assert typed["total_bytes"] == 2 * typed["total_words"] + 2 * wide  # m and l stay fp32
    assert typed["total_words"] == plain["total_words"]


def test_tile_choices() -> None:
    paper = json.loads(ok("count", "flash1", *GPT2, "--tiles", "paper", "--json"))
    assert paper["tiles"] == {"B_r": 64, "B_c": 96}  # ⌈24576/256⌉ = 96, min(96, 64) = 64
    given = json.loads(ok("count", "flash2", *GPT2, "--tiles", "B_r=64,B_c=64", "--json"))
    assert given["tiles"] == {"B_r": 64, "B_c": 64}
    assert given["load_words"] == (1 + 2 * 16) * 1024 * 64
    part = json.loads(ok("count", "flash2", *GPT2, "--tiles", "B_c=64", "--json"))
    assert part["tiles"]["B_c"] == 64
    best = json.loads(ok("tiles", "flash2", *GPT2, "--json"))
    assert best["total_words"] <= part["total_words"] <= given["total_words"]
    powers = json.loads(ok("tiles", "flash2", *GPT2, "--lattice", "pow2", "--json"))
    assert powers["tiles"] == {"B_r": 128, "B_c": 32}


def test_a_paper_rule_above_M_says_so() -> None:
    done = iosim_("count", "small_cache", "--N", "64", "--d", "8", "--M", "4", "--tiles", "paper")
    assert done.returncode == 0
    assert "the paper tiles of small_cache hold 5 words, 1.25 M" in done.stderr


def test_other_problems() -> None:
    sizes = ("--m", "64", "--n", "64", "--k", "64", "--M", "1000")
    result = json.loads(ok("count", "matmul", *sizes, "--json"))
    assert result["problem"] == {"m": 64, "n": 64, "k": 64}
    assert json.loads(ok("count", "copy", "--n", "10", "--M", "4", "--json"))["total_words"] == 20


def test_bounds_json() -> None:
    rows = json.loads(ok("bounds", *GPT2, "--json"))
    for row in rows:
        assert {"name", "kind", "strength", "words", "applies", "source"} <= set(row)
        assert (row["words"] is None) == (not row["applies"])
    assert any(r["name"] == "compulsory" and r["words"] == 4 * 1024 * 64 for r in rows)
    assert ok("bounds", *GPT2)
    assert json.loads(ok("bounds", "--m", "9", "--n", "9", "--k", "9", "--M", "9", "--json"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("count", "flash3", *GPT2), "unknown algorithm 'flash3': did you mean 'flash"),
        (("count", "flash2", "--N", "0", "--d", "64", "--M", "9"), "N = 0 is outside 1.."),
        (("count", "flash2", "--N", "-5", "--d", "64", "--M", "9"), "N = -5 is outside 1.."),
        (("count", "flash2", "--N", "1.5", "--d", "64", "--M", "9"), "N must be a whole number"),
        (("count", "flash2", "--N", "x", "--d", "64", "--M", "9"), "N must be a whole number"),
        (("count", "flash2", "--N", "9" * 30, "--d", "64", "--M", "9"), "choose a size inside"),
        (("count", "flash2", "--d", "64", "--M", "9"), "attention needs --N: give it"),
        (
            ("count", "flash2", "--N", "4", "--d", "4", "--m", "4", "--M", "9"),
            "attention has no size m: give --N, --d, --heads",
        ),
        (("count", "flash2", "--N", "4", "--d", "4"), "M is missing: give --M in words"),
        (
            ("count", "flash2", "--N", "1024", "--d", "64", "--M", "100"),
            "flash2 needs at least 195 words and M is 100: use M >= 195",
        ),
        (("count", "flash2", "--N", "1024", "--d", "64", "--M", "0"), "M = 0 is outside 1.."),
        (("count", "flash2", "--N", "1024", "--d", "64", "--M", "1PiB"), "is not a size"),
        (("count", "flash2", "--N", "1024", "--d", "64", "--M", "96KiB"), "add --dtype"),
        (("count", "flash2", *GPT2, "--dtype", "fp61"), "unknown dtype 'fp61': did you mean"),
        (("count", "flash2", *GPT2, "--engine", "formul"), "did you mean 'formula'?"),
        (
            ("count", "flash2", *GPT2, "--tiles", "B_r=512,B_c=512"),
            "flash2 needs at least 361472 words with these tiles and M is 24576: use M >= 361472",
        ),
        (("count", "flash2", *GPT2, "--tiles", "B_x=5"), "no tile size 'B_x': did you mean"),
        (("count", "flash2", *GPT2, "--tiles", "B_r=0"), "B_r = 0 is outside 1.."),
        (("count", "flash2", *GPT2, "--tiles", "B_r=a"), "B_r must be a whole number"),
        (("count", "flash2", *GPT2, "--tiles", "B_r=-1"), "B_r = -1 is outside 1.."),
        (("show", "flash2", "--tiles", "B_r=0"), "B_r = 0 is outside 1.."),
        (("show", "flash2", "--tiles", "auto"), "tiles 'auto' lacks names"),
        (("tiles", "flash2", *GPT2, "--dtype", "foo"), "unknown dtype 'foo'"),
        (("count", "flash2", "--N", "1,0,2,4", "--d", "4", "--M", "9"), "must be a whole number"),
        (("count", "flash2", "--N", "١٠٢٤", "--d", "4", "--M", "9"), "must be a whole number"),
        (("count", "flash2", "--N", "64", "--d", "4", "--M", "1,2,3"), "M = '1,2,3' is not a size"),
        (("verify", "--N", "64", "--d", "8", "--M", "4,096"), "write thousands as 4096"),
        (("tightness", "--N", "1024,2048", "--d", "8", "--M", "99"), "must be a whole number"),
        (("verify", "--N", "99999999", "--d", "8", "--M", "999"), "choose a smaller N"),
        (("bounds", "--N", "9", "--m", "9", "--M", "9"), "sizes of two problems"),
        (("count", "flash2", "--M", "9"), "attention needs --N, --d: give them"),
        (("count", "flash2", *GPT2, "--tiles", "B_r=5,B_r=6"), "gives B_r twice"),
        (
            ("count", "flash2", *GPT2, "--tiles", "paper"),
            "'paper': flash1 and small_cache have it; here use auto",
        ),
        (
            ("count", "naive", "--N", "100000", "--d", "8", "--M", "999", "--engine", "simulate"),
            "use --engine formula",
        ),
        (("tiles", "flash2", *GPT2, "--lattice", "pow3"), "unknown lattice 'pow3'"),
        (
            ("tiles", "flash2", "--N", "1024", "--d", "64", "--M", "999", "--lattice", "pow2"),
            "flash2 needs at least 3360 words on this lattice and M is 999: use M >= 3360",
        ),
        (("show", "flash2", "--tiles", "B_q=3"), "flash2 has no tile size 'B_q': did you mean"),
        (("show", "flash2", "--N", "9"), "write --tiles"),
        (("shw",), "No such command 'shw': did you mean 'show'? (see iosim --help)"),
        (("zzz",), "No such command 'zzz' (see iosim --help)"),
        (
            ("count", "naive", "-N", "64"),
            "No such option '-N'. Did you mean '--N'? (see iosim count",
        ),
        (("count", "naive", "-k", "64"), "No such option '-k'. Did you mean '--k'?"),
        (("show", "naive", "-x"), "No such option '-x' (see iosim show --help)"),
        (("tiles", "flash2", "--tiles", "auto"), "No such option '--tiles'"),
        (("tiles", "flash2", "--tiles", "auto"), "(see iosim tiles --help)"),
        (
            ("tightness", "--problem", "paged", "--page", "16"),
            "No such option '--page': it is for "
            "paged, which iosim tightness doesn't take (see iosim tightness --help)",
        ),
        (("verify", "--k=4"), "'--k': it is for matmul, which iosim verify doesn't take (see"),
        (("tightness", "--caussal"), "No such option '--caussal'. (Did you mean one of: '--c"),
        (("gpu", "decode", "--N-j", "9"), "No such option '--N-j'. "),
        (("tiles",), "Missing argument 'SCHEDULE' (see iosim tiles --help)"),
        (("gpu", "emti"), "'emti': did you mean 'emit'? (see iosim gpu --help)"),
        (("count", "naive", *GPT2[:4], "--M", "96kb"), "write 96KiB (binary) or 96KB (decimal)"),
        (("count", "naive", *GPT2[:4], "--M", "1mi"), "M = '1mi' is not a size: write 1Mi\n"),
        (("count", "naive", *GPT2[:4], "--M", "9pb"), "give words (24576, 1Mi) or bytes"),
        (
            ("count", "naive", *GPT2[:4], "--M", "H100"),
            "M = 'H100' is a machine, not a size: give --M 116736, one core's words of fp16",
        ),
        (("l2", "flash2", *GPT2[:4], "--M", "H100"), "give --machine h100 in place of --M"),
        (
            ("cache", "flash2", *GPT2, "--policy", "lru,fifo"),
            "--policy takes one policy, got 'lru,fifo': run each by itself",
        ),
        (("count", "FLASH3", *GPT2), "unknown algorithm 'FLASH3': did you mean 'flash2'?"),
        (("plot", "missing.csv"), "cannot read 'missing.csv' as a table"),
        (("verify", "--input", "missing.npz"), "cannot read 'missing.npz' as .npz"),
        (("verify", "--model", "gpt5"), "unknown model 'gpt5'"),
        (
            ("verify", "--N", "64", "--d", "8", "--M", "1,2"),
            "no algorithm runs in M = 2 words for N = 64, d = 8: use M >= 3",
        ),
        (("verify", "--N", "64", "--d", "8", "--out", "/proc/nowhere"), "cannot write to"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    done = iosim_(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert done.stderr.startswith("iosim: ")
    assert done.stderr.count("\n") == 1
    assert not done.stdout
    assert not list(tmp_path.rglob("*")), "something was half-written"


def save(path: Path, **arrays: Any) -> str:
    np.savez(path, **arrays)
    return str(path)


def test_bad_arrays(tmp_path: Path) -> None:
    good = np.ones((8, 4))
    nan = good.copy()
    nan[3, 2] = np.nan
    cases = [
        ({"Q": good, "K": good}, "has no array V (it has Q, K)"),
        ({"Q": good, "K": good, "V": good[:5]}, "V has shape (5, 4) and K (8, 4)"),
        ({"Q": good, "K": nan, "V": good}, "K holds 1 values that are NaN or infinite"),
        ({"Q": good[0], "K": good[0], "V": good[0]}, "Q has shape (4,): give (N, d)"),
        ({"Q": good > 0, "K": good, "V": good}, "Q is of dtype bool: give real numbers"),
        ({"Q": good[:0], "K": good[:0], "V": good[:0]}, "Q has shape (0, 4)"),
    ]
    for k, (arrays, message) in enumerate(cases):
        path = save(tmp_path / f"{k}.npz", **arrays)
        done = iosim_("verify", "--input", path, cwd=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
    (tmp_path / "text.npz").write_text("no archive")
    np.save(tmp_path / "one.npy", good)
    huge = save(tmp_path / "huge.npz", Q=good * 1e200, K=good * 1e200, V=good)
    for name, message in (
        ("text.npz", "is not an .npz file"),
        ("one.npy", "is a single array"),
        (huge, "overflows float64 on these inputs"),
    ):
        done = iosim_("verify", "--input", name, "--out", "out", cwd=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
        assert not list(tmp_path.rglob("verify.*"))
    path = save(tmp_path / "good.npz", Q=good, K=good, V=good)
    done = iosim_("verify", "--input", path, "--N", "9", cwd=tmp_path)
    assert "--N is 9 and" in done.stderr
    assert not (tmp_path / "iosim-out").exists()


@pytest.mark.numbers
def test_verify_on_own_arrays_and_plot(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {x: rng.standard_normal((2, 40, 8)).astype(np.float32) for x in "QKV"}
    path = save(tmp_path / "in.npz", **arrays)
    text = ok("verify", "--input", path, "--workers", "1", "--out", str(tmp_path / "out"))
    assert "all checks passed" in text
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "verify.csv",
        "verify.png",
        "verify.svg",
    }
    ok("plot", str(tmp_path / "out" / "verify.csv"), "--save", str(tmp_path / "again"))
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "out/verify.png").read_bytes()
    header = "kind,name,N,d,M_words,total_words\n"
    for text, message in (
        (header, "has no rows"),
        (header + "run,a,64,8,99,abc\n", "line 2: total_words is 'abc'"),
        (header + "run,a,64,8,99,5\nlower,foo\n", "line 3: N is None"),
        (header + "run,a,64,8,99,nan\n", "line 2: total_words is nan"),
        (header + "run,a,-5,8,99,5\n", "line 2: N is -5"),
    ):
        (tmp_path / "bad.csv").write_text(text)
        done = iosim_("plot", str(tmp_path / "bad.csv"))
        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
    (tmp_path / "lines.csv").write_text(header + "formula,a,64,8,9,50\nformula,a,64,8,99,5\n")
    ok("plot", str(tmp_path / "lines.csv"))
    (tmp_path / "bad.csv").write_text(header + "run,a,64,8,99,5,6\n")
    assert "line 2: too many cells" in iosim_("plot", str(tmp_path / "bad.csv")).stderr
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    done = iosim_("plot", str(tmp_path / "bad.csv"))
    assert done.returncode == 2
    assert "has no column kind, class or series" in done.stderr


def test_a_target_that_is_a_directory_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "verify.png").mkdir()
    done = iosim_(
        "verify", "--N", "8", "--d", "2", "--M", "40", "--workers", "1", "--out", str(tmp_path)
    )
    assert done.returncode == 2
    assert "is a directory: move it away" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["verify.png"]


def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        words = "count copy --n 9 --M 9".split()  # noqa: SIM905
        done = subprocess.run(
            [sys.executable, "-m", "iosim", *words], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr.startswith("iosim: cannot write the output (No space left")
    assert done.stderr.count("\n") == 1


def test_version() -> None:
    assert ok("--version") == f"iosim {iosim.__version__}\n"
    assert "--version  Show the version and exit." in ok("--help")
    assert "--version" not in ok("gpu", "--help")


def test_a_step_that_is_not_run_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what it lacks, with a command that installs it here, and not how it is checked."""
    monkeypatch.setattr("iosim.report.proof._z3", lambda: importlib.import_module("no_such_solver"))
    done = iosim_("prove", "saha_ye_large")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    where = next(k for k, line in enumerate(lines) if line.startswith("  not run segments"))
    assert (
        lines[where + 1]
        .strip()
        .startswith(
            f"needs no_such_solver: {shlex.quote(sys.executable)} -m pip install 'iosim[proofs]' ("
        )
    )
    assert "proved for all values: all reals 0 ≤ t" in done.stdout


def named(place: str) -> Any:
    """The command at an import string."""
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


# Examples that other tests run: they take seconds, or need Triton.
SLOW = {"gpu replay", "gpu figure"}


def entries(among: Any = COMMANDS, before: tuple[str, ...] = ()) -> Any:
    """Every command of the registry: words, place, line of help."""
    for name, (first, second) in among.items():
        if isinstance(second, dict):
            yield from entries(second, (*before, name))
        else:
            yield (*before, name), first, second


@pytest.mark.parametrize(("words", "place", "line"), list(entries()), ids=lambda x: str(x[-1])[:9])
def test_help_of_every_command(words: tuple[str, ...], place: str, line: str) -> None:
    """The registry's line is the command's own, and both are printed whole."""
    command = named(place)
    assert command.name == words[-1]
    assert command.help.splitlines()[0] == line
    for text in (ok(*words[:-1], "--help"), ok(*words, "--help")):
        assert " ".join(line.split()) in " ".join(text.split())
    assert "..." not in ok(*words[:-1], "--help").replace("[ARGS]...", "")


def test_where_arguments_are_missing_an_example_can_be_pasted(tmp_path: Path) -> None:
    """Each is said, and works, after those before it: a sweep's rows are there to be collected."""
    for folder in ("experiments", "docs"):
        (tmp_path / folder).symlink_to(Path(__file__).parents[2] / folder)
    ok("sweep", *shlex.split("--schedule copy --n 64 --M 8 --out more"), cwd=tmp_path)
    for name, given in EXAMPLES.items():
        done = iosim_(*name.split(), cwd=tmp_path)
        assert done.returncode == 2, name
        assert done.stderr.endswith(f"; try: iosim {name} {given}\n"), done.stderr
        if name not in SLOW:
            ok(*name.split(), *shlex.split(given), cwd=tmp_path)
    required = {
        " ".join(words)
        for words, place, _ in entries()
        if any(one.required for one in named(place).params)
    }
    assert required <= EXAMPLES.keys()


def test_no_example_where_something_else_is_wrong() -> None:
    assert "try:" not in iosim_("tiles", "flash2", "--N", "64").stderr
    assert "try:" not in iosim_("plot", "missing.csv").stderr


def test_a_group_alone_prints_its_help() -> None:
    assert ok() == ok("--help")
    assert ok("gpu") == ok("gpu", "--help")


def test_help_lists_every_command_once_and_a_line_that_works() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)
    text = ok("--help")
    at = [text.index(f"\n{title}:\n") for title in SECTIONS]
    assert at == sorted(at)
    assert all(text.count(f"\n  {name} ") == 1 for name in COMMANDS)
    line = re.search(r"Try it: iosim (.+)", text)
    assert line is not None
    assert "ratio" in ok(*line[1].split())
