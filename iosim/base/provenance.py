"""Where numbers come from: versions, machine (no names), command, commit, date."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

from iosim.base.revision import __version__

LIBRARIES = ("numpy", "pyarrow", "duckdb", "distributed", "scipy", "matplotlib")


def of(command: str) -> dict[str, str]:
    """Provenance of what is being made now, by `command`."""
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")  # noqa: UP017
    versions = {name: _version(name) for name in LIBRARIES}
    return {
        "command": command,
        "date": now,
        "commit": commit(),
        "iosim": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": str(os.cpu_count()),
        **{k: v for k, v in versions.items() if v},
    }


def commit() -> str:
    """The commit that this code is of, ``-dirty`` where it has changed since.

    The environment variable IOSIM_COMMIT says it where the code was copied without its history;
    ``unknown`` where nothing does.
    """
    if told := os.environ.get("IOSIM_COMMIT"):
        return told
    here = str(Path(__file__).parent)
    git = ["git", "-C", here, "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"


def this_command() -> str:
    """The command line that is running, as one would type it."""
    return shlex.join(["iosim", *sys.argv[1:]])


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
