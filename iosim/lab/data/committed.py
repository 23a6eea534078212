"""Data of a view that takes long to make, or that is made of what does not travel with the package.

It is in a JSON file beside the view's module, and a test holds it to what is made anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read(path: Path) -> dict[str, Any]:
    """The value of a file that `write` wrote."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def write(path: Path, value: dict[str, Any]) -> int:
    """Write a value as JSON in one line; returns the bytes written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "view.json"
    >>> write(path, {"layers": [1, None]}), read(path)
    (20, {'layers': [1, None]})
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return path.write_bytes((text + "\n").encode())
