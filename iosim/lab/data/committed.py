"""Data of a view that takes long to make, or that is made of what does not travel with the package.

It is in a packed JSON file next to the view's module, and a test compares it with what is made
again.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from iosim.base.reading import read_json
from iosim.lab.columns import Json

# Of what is packed.
MOST_BYTES = 2**24


def read(path: Path) -> Json:
    """The value of a file that `write` wrote."""
    found: Json = read_json(path, MOST_BYTES)
    return found


def write(path: Path, value: Json) -> int:
    """Write a value as JSON that gzip packs, always to the same bytes; returns how many.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "view.json.gz"
    >>> write(path, {"layers": [1, None]}) == path.stat().st_size, read(path)
    (True, {'layers': [1, None]})
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return path.write_bytes(gzip.compress((text + "\n").encode(), mtime=0))
