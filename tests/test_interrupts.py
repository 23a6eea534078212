"""What ends a command early is one line: interrupts at any time, closed outputs, bugs."""

from __future__ import annotations

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

from iosim.cli import counting

COMMANDS = (
    "--help", "count flash2 --N 65536 --d 64 --M 24576", "bounds --N 4096 --d 64 --M 9999",
    "tightness --N 4096 --d 64 --M 256:65536:x1.01", "algorithms",
    "plot missing.csv", "gpu emit flash2", "prove hong_kung",
)  # fmt: skip
READY = "import os; from iosim.cli import main; os.write({fd}, b'x'); main()"


def interrupted_after(words: str, seconds: float, folder: Path) -> tuple[int, str, str]:
    """Start a command, interrupt it so long after its entry point is there; code, out, err."""
    ours, theirs = os.pipe()
    code = f"import sys; sys.argv = {['iosim', *words.split()]!r}; {READY.format(fd=theirs)}"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        pass_fds=[theirs], cwd=folder, start_new_session=True,
    ) as process:  # fmt: skip
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
    return 40 if request.config.getoption("--slow") else 8


def test_early_interrupts_are_one_line(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    rng = random.Random(1)
    seen = 0
    for k in range(many(request)):
        code, _, err = interrupted_after(
            COMMANDS[k % len(COMMANDS)], 0.002 + 0.3 * rng.random() ** 2, tmp_path
        )
        seen += is_interrupted(code, err)
    assert seen >= many(request) // 4


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


@pytest.mark.parametrize("words", ["count flash2 --N 99 --d 8 --M 999 --json", "plot t.csv"])
def test_an_interrupt_during_any_import_is_one_line(
    words: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Also those that extension modules make, which turn it into other errors or swallow it."""
    header = "kind,name,N,d,M_words,total_words\n"
    (tmp_path / "t.csv").write_text(header + "formula,a,64,8,9,50\nformula,a,64,8,99,5\n")

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
        assert {x.name for x in tmp_path.iterdir()} in ({"t.csv"}, {"t.csv", "t.png", "t.svg"})


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupted_verification_is_one_line_and_writes_nothing(
    workers: str, tmp_path: Path
) -> None:
    began = time.monotonic()
    code, out, err = interrupted_after(
        f"verify --N 2048 --d 64 --workers {workers} --out out", 4, tmp_path
    )
    assert (code, out, err) == (130, "", "iosim: interrupted\n")
    assert time.monotonic() - began < 40
    assert not list(tmp_path.rglob("*"))


PRINTING = (
    "--help", "--version", "algorithms", "algorithms --json", "show flash2", "gpu --help",
    "count flash2 --N 99 --d 8 --M 999", "tiles flash2 --N 99 --d 8 --M 999 --json",
    "bounds --N 99 --d 8 --M 999", "tightness --N 99 --d 8 --M 999", "gpu emit flash2",
    "optimal matmul --m 2 --n 2 --k 1 --M 4 --show",
)  # fmt: skip


@pytest.mark.parametrize("words", PRINTING)
def test_a_reader_that_goes_away_is_no_error(words: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "iosim", *words.split()]
    ours, theirs = os.pipe()
    os.close(ours)
    gone = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    assert gone.returncode == 141
    assert "iosim:" not in gone.stderr
    assert "Traceback" not in gone.stderr
    assert "rror" not in gone.stderr
    for closed in (">&-", ">&- 2>&-", "<&- >&-"):
        done = subprocess.run(
            ["sh", "-c", f'"$@" {closed}', "sh", *command], stderr=subprocess.PIPE, text=True
        )
        assert done.returncode == 0
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437", "utf-8"])
@pytest.mark.parametrize(
    "words", ["algorithms", "algorithms --json", "show naive", "--help", "gpu --help", "count é"]
)
def test_an_output_that_lacks_characters_gets_them_escaped(words: str, encoding: str) -> None:
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(
        [sys.executable, "-m", "iosim", *words.split()], capture_output=True, env=env
    )
    assert done.returncode == (2 if words == "count é" else 0)
    assert b"Traceback" not in done.stderr
    if words == "algorithms --json":
        rows = json.loads(done.stdout.decode(encoding))
        assert any("√" in row["cost"] for row in rows)


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
        (MemoryError(), 2), (KeyboardInterrupt(), 130), (RecursionError("deep"), 70),
        (OSError(2, "No such file", "x\ny"), 2), (OSError(28, "No space left"), 2),
        (BrokenPipeError(32, "Broken pipe"), 141), (SystemExit(3), 3), (AssertionError(), 70),
    ):  # fmt: skip
        monkeypatch.delenv("IOSIM_DEBUG", raising=False)

        def fail(*_: Any, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(counting, "algorithm", fail)
        done = iosim_("count", "flash2")
        assert done.returncode == code
        assert done.stderr.count("\n") == (code not in (141, 3))
