"""How much memory is free, and how much this process uses; when garbage is collected.

Caches, the pebble game's search and commands call it before they make large arrays, so that arrays
that don't fit are refused with one line.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from iosim.base.errors import InputError


def check_room(needed: int, what: str, instead: str) -> None:
    """InputError where this many bytes can't be had.

    Args:
        needed: bytes.
        what: what takes them, as a sentence begins.
        instead: what to do.
    """
    free = free_bytes()
    if free is not None and needed > free:
        raise InputError(
            f"{what}, {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are free: {instead}"
        )


def free_bytes() -> int | None:
    """Bytes of memory that a process may still have; none where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def resident_bytes() -> int:
    """Bytes of memory that this process takes now; the most so far where that is all that is known.

    0 where the system does not say.
    """
    try:
        import resource
    except ImportError:  # Windows
        return 0
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """No collection of garbage where millions of small values are made, and hardly a cycle of them.

    >>> with without_collection():
    ...     gc.isenabled()
    False
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.freeze()  # what was made is old: it is not looked through at once
            gc.unfreeze()
            gc.enable()
