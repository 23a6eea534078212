"""What iosim's commands say, for numbers that a page shows."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

from iosim.cli.commands import COMMANDS
from iosim.cli.registry import run


def run_json(*words: object) -> Any:
    """The JSON of a command: ``told("count", "flash2", "--N", 64, …)``.

    In this process: a new one takes ten times as long to start as most commands to answer.
    """
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert run(COMMANDS, [*map(str, words), "--json"]) == 0
    return json.loads(said.getvalue())
