"""What iosim's commands say, for numbers that a page shows."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def told(*words: object) -> Any:
    """The JSON of a command: ``told("count", "flash2", "--N", 64, …)``."""
    argv = [sys.executable, "-m", "iosim", *map(str, words), "--json"]
    return json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
