"""Progress: on a terminal one line, written over and gone at the end; in a pipe a few lines."""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from iosim.base.errors import InputError
from iosim.base.progress import count_done, listen, track
from iosim.cli import watching
from iosim.cli.commands import COMMANDS
from iosim.cli.registry import program
from iosim.cli.terminal import Printable
from iosim.core.problem import Attention
from iosim.report import verify as verifying

ROOT = Path(__file__).parents[2]


class Terminal(io.StringIO):
    """What is printed to a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Stderr as a terminal of 30 columns, and a clock that goes on by an eighth of a second."""
    made = Terminal()
    ticks = iter(range(10**6))
    monkeypatch.setattr(watching, "sys", SimpleNamespace(stderr=made))
    clock = SimpleNamespace(monotonic=lambda: next(ticks) / 8)
    monkeypatch.setattr(watching, "time", clock)
    size = SimpleNamespace(get_terminal_size=lambda: os.terminal_size((30, 9)))
    monkeypatch.setattr(watching, "shutil", size)
    return made


def test_a_line_is_written_over_and_removed(screen: Terminal) -> None:
    with watching.watching() as show:
        for text in ("a long line", "short", "x" * 99):
            show(lambda _: "too early")
            show(lambda _, text=text: text)
    assert "too early" not in screen.getvalue()
    lines = screen.getvalue().split("\r")
    assert lines == ["", "a long line", "short".ljust(11), "x" * 29, " " * 29, ""]


def test_what_is_quick_shows_nothing(screen: Terminal) -> None:
    with watching.watching() as show:
        show(lambda _: "too early")
    assert screen.getvalue() == ""


def test_the_line_is_removed_where_the_work_fails(screen: Terminal) -> None:
    def interrupted() -> None:
        with watching.watching() as show:
            show(lambda _: "")
            show(lambda seconds: f"after {seconds} s")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert screen.getvalue() == "\rafter 0.25 s\r" + " " * 12 + "\r"


def test_no_terminal_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every 10 s, and after 100 s every time that a tenth more has passed."""
    plain, seconds = io.StringIO(), iter(range(1000))
    monkeypatch.setattr(watching, "sys", SimpleNamespace(stderr=plain))
    monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    with watching.watching() as show:
        for _ in range(200):
            show(lambda so_far: f"after {so_far} s")
    shown = [int(x) for x in re.findall(r"^iosim: after (\d+) s\n", plain.getvalue(), re.M)]
    assert shown == [*range(10, 101, 10), 112, 125, 139, 155, 173, 193]
    assert len(shown) == plain.getvalue().count("\n")
    assert "\r" not in plain.getvalue()


ALL_LINES = {
    "verify": (("--N", "48", "--d", "8", "--M", "60,300"), "runs"),
    "export": (
        ("flash2", "--save", "a.gif", "--N", "4", "--d", "2", "--M", "40", "--duration", "1"),
        "frames",
    ),
    "sweep": (
        ("--out", "rows", "--schedule", "flash2", "--N", "64,128", "--d", "8", "--M", "99,200"),
        "points",
    ),
    "tightness": (("--N", "64", "--d", "8", "--M", "64:256:x2"), "points"),
}


@pytest.mark.parametrize("command", ALL_LINES)
def test_commands_that_may_take_long_show_it_in_a_pipe_too(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines with an estimate on stderr alone."""
    words, what = ALL_LINES[command]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(watching, "PAUSE_OF_LINES", 0.0)
    monkeypatch.setattr(watching, "SHARE", 0.0)
    done = CliRunner().invoke(program(COMMANDS), [command, *words])
    assert done.exit_code == 0
    line = rf"^iosim: [\d,]+ of [\d,]+ {what}, \d+ s, about \d+ s left$"
    assert re.search(line, done.stderr, re.M)
    assert " left" not in done.stdout


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (3, "3 of 7 points, 12 s, about 16 s left"),
        (0, "0 of 7 points, 12 s"),
        (7, "7 of 7 points, 12 s, about 0 s left"),
    ],
)
def test_how_much_is_done_and_left(done: int, said: str) -> None:
    assert watching.part_done(done, 7, "points")(12.0) == said
    before = watching.part_done(done + 100, 107, "points", before=100)(12.0)
    assert before.split(", ")[1:] == said.split(", ")[1:]


_TILES = r"\r[\d,]+ of {} passes over tiles {}, \d+ s, about \d+ s left"


@pytest.mark.numbers
@pytest.mark.parametrize(
    ("size", "words", "line"),
    [
        (
            "4096",
            ("--method", "tiles", "--policy", "opt", "--bypass", "--capacity", "512,1024"),
            _TILES.format("1,839,104", "replayed"),
        ),
        ("16384", ("--method", "tiles", "--policy", "lru"), _TILES.format("14,688,256", "made")),
        ("4096", (), r"\r[\d,]+ of 172,306,432 accesses, \d+ s, about \d+ s left"),
        ("1024", ("--out", "slope"), r"\r\d of 4 curves, \d+ s, about \d+ s left"),
    ],
)
def test_iosim_cache_shows_how_far_it_is(
    size: str, words: tuple[str, ...], line: str, tmp_path: Path
) -> None:
    check_progress(
        line,
        tmp_path,
        "cache",
        "flash2",
        "--N",
        size,
        "--d",
        "16",
        "--tiles",
        "B_r=16,B_c=16",
        "--capacity",
        "512",
        "--policy",
        "fifo",
        *words,
    )


def test_iosim_lab_shows_how_far_it_is(tmp_path: Path) -> None:
    check_progress(r"\r\d+ of \d+ programs and views, \d+ s", tmp_path, "lab", "--save", "lab.html")


@pytest.mark.parametrize("workers", [1, 2])
def test_runs_that_take_long_are_told_before_any_is_done(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "TOLD_EVERY", 0.001)
    told: list[tuple[int, int]] = []

    def count(done: int, of: int) -> None:
        told.append((done, of))

    done = verifying.verify(Attention(64, 8), sizes=[200], workers=workers, tick=count)
    runs = len(done.points)
    assert told[0] == (0, runs)
    assert told[-1] == (runs, runs)
    assert told == sorted(told)


@pytest.mark.parametrize("entries", [0, 1])
def test_iosim_verify_says_beforehand_that_it_takes_long(
    entries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From so many entries of S over all runs on; once, on stderr, and not with a refusal.

    24 rows of two heads give S a number of entries with a comma; a run need not be long itself.
    """
    runs = len(verifying.verify(Attention(24, 8, 2), sizes=[200, 300], workers=1).points)
    monkeypatch.setattr("iosim.cli.verifying.LONG", runs * 2 * 24 * 24 + entries)
    # What is drawn has tests of its own.
    monkeypatch.setattr("iosim.report.plot.plot_table", lambda table, stem: [])
    words = (
        "verify",
        "--N",
        "24",
        "--d",
        "8",
        "--heads",
        "2",
        "--workers",
        "1",
        "--out",
        str(tmp_path),
        "--M",
    )
    done = CliRunner().invoke(program(COMMANDS), [*words, "200,300"])
    assert done.exit_code == 0
    assert "take long" not in done.stdout
    assert done.stderr == (
        f"iosim: note: {runs} runs, each with S of 1,152 entries, take long: fewer values of M, "
        "or smaller sizes, take less\n"
    ) * (not entries)
    monkeypatch.setattr("iosim.cli.verifying.LONG", 0)
    refused = CliRunner().invoke(program(COMMANDS), [*words, "1"])
    assert isinstance(refused.exception, InputError)
    assert not refused.stderr


def check_progress(line: str, cwd: Path, *words: str) -> None:
    """A terminal sees a line that is gone at the end; stdout has none of it."""
    here, there = pty.openpty()
    run = [sys.executable, "-m", "iosim", *words]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=there, cwd=cwd) as done:
        os.close(there)
        seen = b""
        while True:
            try:
                seen += os.read(here, 4096)
            except OSError:  # nobody writes to it any more
                break
        assert done.stdout is not None
        out = done.stdout.read()
    os.close(here)
    assert done.returncode == 0
    assert re.search(line, seen.decode())
    assert seen.startswith(b"\r")
    # Notes come when the line is gone.
    assert re.search(r"\r +\r(iosim: note: [^\r]+\r\n)*$", seen.decode())
    assert b"\r" not in out
    assert b" left" not in out


def test_loops_are_shown_and_those_within_them_are_not(screen: Terminal) -> None:
    with listen(watching.ProgressDisplay()):
        for k in track(range(9), "outer"):
            for _ in track(range(4), "inner"):
                pass
            with count_done(None, "sets") as report:
                report(k)
    said = [x.strip() for x in screen.getvalue().split("\r") if x.strip()]
    assert len(said) > 1
    assert all(re.match(r"\d of 9 outer, ", x) for x in said)
    assert screen.getvalue().endswith("\r")


def test_the_line_of_a_loop_is_wiped_before_something_is_printed(screen: Terminal) -> None:
    printed, shown = io.StringIO(), watching.ProgressDisplay()
    stream = Printable(printed, before=shown.wipe)
    with listen(shown), count_done(None, "sets") as report:
        for k in range(9):
            report(k)
        assert not screen.getvalue().endswith("\r")
        stream.write("a result\n")
        assert screen.getvalue().endswith("\r")
        report(9)
    assert printed.getvalue() == "a result\n"


def test_a_forked_worker_is_silent(screen: Terminal) -> None:
    shown = watching.ProgressDisplay()
    shown.process += 1
    with listen(shown), count_done(None, "sets") as report:
        for k in range(99):
            report(k)
    assert screen.getvalue() == ""


GRAPH = """iosim_graph = 1
sizes = { n = 64 }
tensors = { X = "n", Y = "n", Z = "n" }
[[operators]]
name = "a"
kind = "relu"
reads = ["X"]
writes = ["Y"]
[[operators]]
name = "b"
kind = "relu"
reads = ["Y"]
writes = ["Z"]
"""
MODEL = "--model gpt2 --phase decode --N 64 --machine h200"


@pytest.mark.parametrize(
    ("command", "loops"),
    [
        ("graph FILE", {"operators of the file"}),
        ("fuse chain --length 9 --words 64 --M 999", {"operators of a chain", "parts of a chain"}),
        (f"fuse {MODEL}", {"sets of operators"}),
        (f"roofline {MODEL}", {"operators"}),
        (f"roofline {MODEL} --fusion best", {"sets of operators", "kernels"}),
        ("roofline --graph FILE --machine h200", {"operators of the file", "operators"}),
        ("gpu replay RECORDS", {"records"}),
        ("reproduce e02", {"experiments"}),
    ],
)
def test_long_commands_report_how_far_they_are(
    command: str, loops: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = SimpleNamespace(name="e02", verdict="reproduced", seconds=1.0, same=True)
    monkeypatch.setattr("iosim.report.reproduce.reproduce", lambda _: same)
    (tmp_path / "one.toml").write_text(GRAPH)
    heard: dict[str, list[int]] = {}

    class Heard:
        def show(self, done: int, of: int | None, what: str) -> None:
            assert of is None or 0 <= done <= of
            heard.setdefault(what, []).append(done)

        def clear(self, what: str) -> None:
            pass

    if "RECORDS" in command:
        shutil.copytree(ROOT / "experiments/data/gpu/h200/decode", tmp_path / "decode")
    words = [
        {"FILE": str(tmp_path / "one.toml"), "RECORDS": str(tmp_path)}.get(x, x)
        for x in command.split()
    ]
    with listen(Heard()):
        done = CliRunner().invoke(program(COMMANDS), words)
    assert done.exit_code == 0, done.output
    assert loops <= heard.keys()


def test_the_estimate_of_verify_is_fair_from_the_beginning() -> None:
    """Whatever the cost of a run is, as long as it rises or falls with M."""
    jobs = [(name, 3 * 2**k) for name in ("naive", "flash2", "small_tiles") for k in range(60)]
    order = verifying.interleaved(jobs)
    assert sorted(order) == sorted(jobs)
    for cost in (lambda M: 1.0, lambda M: M**-0.1, lambda M: 1 + (M < 2**20), lambda M: M**0.05):
        every = sum(cost(M) for _, M in jobs) / len(jobs)
        for some in range(len(jobs) // 10, len(jobs)):
            here = sum(cost(M) for _, M in order[:some]) / some
            assert 0.75 < here / every < 1.25
