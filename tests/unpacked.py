"""Copies of recorded runs in which every file is plain, for tests that change one."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any


def copy_record(source: Path, folder: Path, ignore: Callable[..., Any] | None = None) -> Path:
    """Copy a record, and unpack what gzip packed in the copy; returns its folder."""
    shutil.copytree(source, folder, ignore=ignore)
    for packed in folder.glob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    return folder


def recorded(path: Path) -> bytes:
    """What a file of a record holds, whether it is packed or not."""
    packed = path.with_name(f"{path.name}.gz")
    return gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
