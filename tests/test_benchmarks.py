"""A benchmark ends by saying which bars hold, and with status 1 where one doesn't."""

from __future__ import annotations

import doctest
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SPEED = """
import bars

def test_speed():
    bars.at_least("reads", {measured}, 50, "M/s")
    bars.at_most("start", 0.2, 0.25, "s")
"""
SCRIPT = """
import bars

bars.script(None, lambda: bars.at_least("reads", {measured}, 50, "M/s"))
"""


def test_the_example_of_bars_runs() -> None:
    spec = importlib.util.spec_from_file_location("bars", ROOT / "benchmarks" / "bars.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["bars"] = found  # where a dataclass looks for its module
    try:
        spec.loader.exec_module(found)
        assert doctest.testmod(found).failed == 0
    finally:
        del sys.modules["bars"]


@pytest.mark.numbers
@pytest.mark.parametrize("text", [SPEED, SCRIPT], ids=["pytest", "script"])
@pytest.mark.parametrize(
    ("measured", "words", "status"), [(49, [], 1), (49, ["--only-print"], 0), (50, [], 0)]
)
def test_a_bar_that_fails_is_the_status(
    text: str, measured: int, words: list[str], status: int, tmp_path: Path
) -> None:
    for name in ("bars.py", "conftest.py"):
        shutil.copy(ROOT / "benchmarks" / name, tmp_path)
    path = tmp_path / "test_it.py"
    path.write_text(text.format(measured=measured))
    how = ["-m", "pytest", "-p", "no:cacheprovider"] if text is SPEED else []
    done = subprocess.run(
        [sys.executable, *how, str(path), *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == status, done.stdout + done.stderr
    said = f"reads: {measured} M/s, at least 50 M/s"
    assert ("fails  " if measured < 50 else "holds  ") + said in done.stdout
    assert " processors" in done.stdout


def test_every_benchmark_has_bars() -> None:
    for path in (ROOT / "benchmarks").glob("*.py"):
        assert "bars" in path.read_text(encoding="utf-8"), path.name
