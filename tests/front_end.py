"""Runs modules of the lab's front end in Node, for tests that ask the page's code and Python's alike."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
FRONT = TESTS.parent / "iosim" / "lab" / "front"


@functools.cache
def _bundled(name: str) -> str:
    """A module of tests/front and what it imports, as one script."""
    found = [p / "node_modules" / ".bin" / "esbuild" for p in (FRONT, *FRONT.parents)]
    esbuild = next((p for p in found if p.exists()), None)
    if esbuild is None or shutil.which("node") is None:
        pytest.skip("the front end's packages are not installed: npm ci in iosim/lab/front")
    entry = TESTS / "front" / f"{name}.ts"
    done = subprocess.run(
        [esbuild, entry, "--bundle", "--platform=node", "--log-level=warning"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def answers(name: str, questions: list[dict[str, Any]]) -> list[Any]:
    """What the module `name` of tests/front answers to each question."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.cjs"
        script.write_text(_bundled(name), encoding="utf-8")
        done = subprocess.run(
            ["node", script], input=json.dumps(questions), capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    assert len(found) == len(questions)
    return found
