"""Saved reports of a GPU, replayed once in a process: a replay takes seconds."""

from __future__ import annotations

import functools
from pathlib import Path

from iosim.gpu.reports import SavedReport, replay


@functools.cache
def replayed(folder: Path) -> tuple[SavedReport, ...]:
    """What `replay` gives, to be read only."""
    return tuple(replay(folder))
