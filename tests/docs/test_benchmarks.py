"""A benchmark ends by saying which thresholds hold, and with status 1 where one doesn't."""

from __future__ import annotations

import doctest
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import iosim

ROOT = Path(__file__).parents[2]
SPEED = """
import thresholds

def test_speed():
    thresholds.at_least("reads", {measured}, 50, "M/s")
    thresholds.at_most("start", 0.2, 0.25, "s")
"""
SCRIPT = """
import thresholds

thresholds.script(None, lambda: thresholds.at_least("reads", {measured}, 50, "M/s"))
"""


def test_the_example_of_thresholds_runs() -> None:
    spec = importlib.util.spec_from_file_location(
        "thresholds", ROOT / "benchmarks" / "thresholds.py"
    )
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["thresholds"] = found  # where a dataclass looks for its module
    try:
        spec.loader.exec_module(found)
        assert doctest.testmod(found).failed == 0
    finally:
        del sys.modules["thresholds"]


@pytest.mark.numbers
@pytest.mark.parametrize("text", [SPEED, SCRIPT], ids=["pytest", "script"])
@pytest.mark.parametrize(
    ("measured", "words", "status"), [(49, [], 1), (49, ["--only-print"], 0), (50, [], 0)]
)
def test_a_bar_that_fails_is_the_status(
    text: str, measured: int, words: list[str], status: int, tmp_path: Path
) -> None:
    for name in ("thresholds.py", "conftest.py"):
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
        if path.name != "problems.py":
            assert "thresholds" in path.read_text(encoding="utf-8"), path.name


@pytest.mark.numbers
def test_ci_runs_every_benchmark_tiny() -> None:
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert '"$bin/pytest" benchmarks --tiny' in steps
    words = ["-m", "pytest", "benchmarks", "--tiny", "--collect-only", "-p", "no:cacheprovider"]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    collected = done.stdout.splitlines()
    for path in (ROOT / "benchmarks").glob("*.py"):
        if path.stem in ("thresholds", "conftest", "problems"):
            continue
        script = f"test_scripts.py::test_script[{path.stem}]"
        # Without its peers, test_caches.py is skipped as a whole; .ci/peers runs it.
        peers = f"benchmarks/{path.name} --tiny" in (ROOT / ".ci/peers").read_text("utf-8")
        named = any(path.name + "::" in line or script in line for line in collected)
        assert named or peers, path.name


def test_tiny_judges_no_bar(tmp_path: Path) -> None:
    """Measures nothing, however slow, and runs what pytest-benchmark repeats once."""
    for name in ("thresholds.py", "conftest.py"):
        shutil.copy(ROOT / "benchmarks" / name, tmp_path)
    path = tmp_path / "test_it.py"
    path.write_text(
        "import thresholds\n\nRUNS = []\n\n\ndef test_speed(benchmark):\n"
        "    assert thresholds.size(10**6, 3) == 3\n"
        "    benchmark(lambda: RUNS.append(1))\n"
        "    thresholds.at_most('slow', thresholds.least_seconds(benchmark), 1, 's')\n"
        "    thresholds.at_most('slow', 99, 1, 's')\n"
        "    assert len(RUNS) == thresholds.rounds(5) == 1\n",
        encoding="utf-8",
    )
    words = ["-m", "pytest", "-p", "no:cacheprovider", str(path), "--tiny"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "slow" not in done.stdout


@pytest.mark.parametrize("name", list(iosim.ALGORITHMS))
def test_a_benchmark_has_a_problem_for_every_schedule(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    problems = importlib.import_module("problems")
    monkeypatch.delitem(sys.modules, "problems")
    algorithm = iosim.algorithm(name)
    one = problems.problem_for(algorithm, 64, 16, 8)
    assert algorithm.supports(one)
    columns = problems.columns_for(algorithm, [64, 128, 64], [16, 16, 16], 8)
    assert {k: v[0] for k, v in columns.items()} == one.sizes
    assert {k: v[1] for k, v in columns.items()} == problems.problem_for(
        algorithm, 128, 16, 8
    ).sizes
    assert {k: v[2] for k, v in columns.items()} == one.sizes
