"""What ends a command early is one line: interrupts at any time, closed outputs, bugs."""

from __future__ import annotations

import io
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from test_cli import iosim_

from iosim import cli
from iosim.cli import counting

COMMANDS = (
    "--help",
    "count flash2 --N 65536 --d 64 --M 24576",
    "bounds --N 4096 --d 64 --M 9999",
    "tightness --N 4096 --d 64 --M 256:65536:x1.01",
    "schedules",
    "plot missing.csv",
    "gpu emit flash2",
    "prove hong_kung",
    "optimal attention --N 3 --d 1 --M 3 --recompute",
)
READY = "import os; from iosim.cli import main; os.write({fd}, b'x'); main()"


def interrupted_after(words: str, seconds: float, folder: Path) -> tuple[int, str, str]:
    """Start a command, interrupt it so long after its entry point is there; code, out, err."""
    ours, theirs = os.pipe()
    code = f"import sys; sys.argv = {['iosim', *words.split()]!r}; {READY.format(fd=theirs)}"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=[theirs],
        cwd=folder,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        assert select.select([ours], [], [], 60)[0]
        os.close(ours)
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def is_interrupted(code: int, err: str) -> bool:
    """One line and 130; or it was done before, or is shutting down."""
    assert "Traceback" not in err
    assert "ignored" not in err
    if code == 130:
        assert err == "iosim: interrupted\n"
        return True
    assert code in (0, 2, -signal.SIGINT), (code, err)
    return False


def many(request: pytest.FixtureRequest) -> int:
    return 40 if request.config.getoption("--slow") else 5


def test_early_interrupts_are_one_line(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    rng = random.Random(1)
    seen = 0
    for k in range(many(request)):
        code, _, err = interrupted_after(
            COMMANDS[k % len(COMMANDS)], 0.002 + 0.3 * rng.random() ** 2, tmp_path
        )
        seen += is_interrupted(code, err)
    assert seen >= many(request) // 5


AT_IMPORT = """
import os, signal, sys
sys.argv = {argv!r}
from iosim.cli import main
seen = 0
def at_import(event, arguments):
    global seen
    if event == "import":
        seen += 1
        if seen == {k}:
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(at_import)
try:
    main()
finally:
    os.write(1, f"{{seen}}\\n".encode())
"""


@pytest.mark.parametrize(
    "words",
    [
        "count flash2 --N 99 --d 8 --M 999 --json",
        "plot t.csv",
        "optimal g.txt --M 3 --json",
    ],
)
def test_an_interrupt_during_any_import_is_one_line(
    words: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Also those that extension modules make, which turn it into other errors or swallow it."""
    header = "kind,name,N,d,M_words,total_words\n"
    (tmp_path / "t.csv").write_text(header + "formula,a,64,8,9,50\nformula,a,64,8,99,5\n")
    (tmp_path / "g.txt").write_text("a c\nb c\nc e\nd e\ne f\na f\n")

    def run(k: int) -> subprocess.CompletedProcess[str]:
        code = AT_IMPORT.format(argv=["iosim", *words.split()], k=k)
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
        )

    imports = int(run(-1).stdout.split()[-1])
    assert imports > 50
    spread = sorted(random.Random(2).sample(range(1, imports), many(request)))
    for k in [1, 2, 3, *spread]:
        done = run(k)
        assert (done.returncode, done.stderr) == (130, "iosim: interrupted\n"), k
        made = {x.name for x in tmp_path.iterdir()} - {"g.txt"}
        assert made in ({"t.csv"}, {"t.csv", "t.png", "t.svg"})


def test_an_interrupt_during_a_callback_is_not_lost(tmp_path: Path) -> None:
    """Python ignores what a weak reference's callback raises, and prints a traceback."""
    code = (
        "import os, signal, sys, time, weakref\n"
        "from iosim import cli\n"
        "from iosim.cli import registry\n"
        "class Thing: pass\n"
        "def run(*_):\n"
        "    thing = Thing()\n"
        "    seen = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))\n"
        "    del thing\n"
        "    time.sleep(30)\n"
        "    return 0\n"
        "registry.run = run\n"
        "cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=20
    )
    assert (done.returncode, done.stderr) == (130, "iosim: interrupted\n")


def test_what_threads_say_after_an_interrupt_is_not_printed(tmp_path: Path) -> None:
    """The thread of a pool may find its workers gone, and its tasks cancelled."""
    code = (
        "import threading, time\n"
        "from iosim import cli\n"
        "from iosim.cli import registry\n"
        "def late():\n"
        "    time.sleep(0.5)\n"
        "    raise ValueError('cancelled')\n"
        "def run(*_):\n"
        "    threading.Thread(target=late).start()\n"
        "    raise {error}\n"
        "registry.run = run\n"
        "cli.main()\n"
    )
    for error, said in (("KeyboardInterrupt", False), ("ZeroDivisionError", True)):
        done = subprocess.run(
            [sys.executable, "-c", code.format(error=error)], capture_output=True, text=True
        )
        assert ("cancelled" in done.stderr) == said
        assert (done.stderr == "iosim: interrupted\n") == (not said)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupted_verification_is_one_line_and_writes_nothing(
    workers: str, tmp_path: Path
) -> None:
    began = time.monotonic()
    code, out, err = interrupted_after(
        f"verify --N 2048 --d 64 --workers {workers} --out out", 4, tmp_path
    )
    *before, last = err.splitlines()
    assert (code, out, last) == (130, "", "iosim: interrupted")
    assert all("take long" in line for line in before)  # said beforehand, if it came so far
    assert len(before) <= 1
    assert time.monotonic() - began < 40
    assert not list(tmp_path.rglob("*"))


PRINTING = (
    "--help",
    "--version",
    "schedules",
    "schedules --json",
    "show flash2",
    "gpu --help",
    "count flash2 --N 99 --d 8 --M 999",
    "tiles flash2 --N 99 --d 8 --M 999 --json",
    "bounds --N 99 --d 8 --M 999",
    "tightness --N 99 --d 8 --M 999",
    "gpu emit flash2",
    "optimal matmul --m 2 --n 2 --k 1 --M 4 --show",
)


@pytest.mark.parametrize("words", PRINTING)
def test_a_reader_that_goes_away_is_no_error(words: str) -> None:
    command = [sys.executable, "-m", "iosim", *words.split()]
    ours, theirs = os.pipe()
    os.close(ours)
    gone = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    assert gone.returncode == 141
    assert "iosim:" not in gone.stderr
    assert "Traceback" not in gone.stderr
    assert "rror" not in gone.stderr


# One of each way to print: help, a table, JSON, a listing.
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&-"])
@pytest.mark.parametrize(
    "words",
    [
        words
        if words in ("gpu --help", "schedules", "schedules --json", "show flash2")
        else pytest.param(words, marks=pytest.mark.slow)
        for words in PRINTING
    ],
)
def test_outputs_that_are_closed_are_no_error(words: str, closed: str) -> None:
    command = [sys.executable, "-m", "iosim", *words.split()]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *command], stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


WORDY = ["schedules", "schedules --json", "show naive", "--help", "gpu --help", "count é"]


def check_escaped(words: str, encoding: str, code: int, out: bytes) -> None:
    assert code == (2 if words == "count é" else 0)
    if words == "schedules --json":
        rows = json.loads(out.decode(encoding))
        assert any("√" in row["cost"] for row in rows)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437", "utf-8"])
@pytest.mark.parametrize("words", WORDY)
def test_an_output_that_lacks_characters_gets_them_escaped(
    words: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, with streams as strict as those that Python makes."""
    out, err = io.BytesIO(), io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(err, encoding))
    monkeypatch.setattr(sys, "argv", ["iosim", *words.split()])
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as stop:
            cli.main()
    finally:
        signal.signal(signal.SIGINT, before)
    sys.stderr.flush()
    assert b"Traceback" not in err.getvalue()
    check_escaped(words, encoding, int(stop.value.code or 0), out.getvalue())


@pytest.mark.parametrize(
    ("words", "encoding"),
    [
        ("schedules --json", "ascii"),
        ("show naive", "cp437"),
        ("--help", "latin-1"),
        ("count é", "ascii"),
    ],
)
def test_a_process_whose_output_lacks_characters(words: str, encoding: str) -> None:
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(
        [sys.executable, "-m", "iosim", *words.split()], capture_output=True, env=env
    )
    assert b"Traceback" not in done.stderr
    check_escaped(words, encoding, done.returncode, done.stdout)


@pytest.mark.parametrize("triton", [False, True])
def test_nothing_is_looked_for_in_a_process_that_ends(triton: bool) -> None:
    """As the interpreter shuts down, no collection goes through its objects."""
    code = f"""
import atexit, gc, sys
atexit.register(lambda: print(gc.get_freeze_count() > 1000))
sys.argv = ["iosim", "--version"]
sys.modules |= {{"triton": sys}} if {triton} else {{}}
from iosim.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split()[-1] == str(not triton), done


def test_a_bug_is_one_line_with_the_way_to_report_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: Any) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(counting, "algorithm", wrong)
    done = iosim_("count", "flash2")
    assert done.returncode == 70
    assert done.stderr == (
        "iosim: this is a bug of iosim: ZeroDivisionError: division by zero; please report it "
        "with the command and what IOSIM_DEBUG=1 shows\n"
    )
    monkeypatch.setenv("IOSIM_DEBUG", "1")
    done = iosim_("count", "flash2")
    assert done.returncode == 70
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert "in wrong" in done.stderr
    for error, code in (
        (MemoryError(), 2),
        (KeyboardInterrupt(), 130),
        (RecursionError("deep"), 70),
        (OSError(2, "No such file", "x\ny"), 2),
        (OSError(28, "No space left"), 2),
        (BrokenPipeError(32, "Broken pipe"), 141),
        (SystemExit(3), 3),
        (AssertionError(), 70),
    ):
        monkeypatch.delenv("IOSIM_DEBUG", raising=False)

        def fail(*_: Any, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(counting, "algorithm", fail)
        done = iosim_("count", "flash2")
        assert done.returncode == code
        assert done.stderr.count("\n") == (code not in (141, 3))
