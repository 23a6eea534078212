"""Finds the folders that are shipped with the package: proofs and experiments."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


def shipped(name: str) -> Path:
    """The folder `name`: inside the package where a wheel put it, else next to it in a source tree.

    It need not exist.
    """
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name
