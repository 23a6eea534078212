"""Whether arrays fit into memory, asked before they are made."""

from __future__ import annotations

import os
from pathlib import Path

from iosim.errors import InputError


def check_room(needed: int, what: str, instead: str) -> None:
    """InputError where so many bytes can't be had.

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
