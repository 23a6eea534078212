"""With ``--tiny``, each script of this folder: its `main`, without a command line.

The scripts measure by themselves and end with their thresholds (`thresholds.py`): ``python
benchmarks/….py``.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import thresholds

SUPPORT = {"thresholds", "conftest", "problems"}
FILES = (path.stem for path in Path(__file__).parent.glob("*.py"))
SCRIPTS = sorted(x for x in FILES if x not in SUPPORT and not x.startswith("test_"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name: str) -> None:
    if not thresholds.tiny:
        pytest.skip(f"measures by itself: python benchmarks/{name}.py")
    importlib.import_module(name).main()
