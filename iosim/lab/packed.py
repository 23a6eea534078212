"""JSON as compressed text, which the page unpacks by itself if it is requested.

`page` and `iosim.lab.data.watch` call it, and ``front/`` unpacks it.
``tests/lab/test_lab_page.py`` reads it back.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any


def pack(value: Any) -> str:
    """A JSON value as compressed text, in base64.

    >>> unpack(pack({"B_r": [4, 3]}))
    {'B_r': [4, 3]}
    """
    return compressed(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def compressed(text: str) -> str:
    """Any text, likewise."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(text: str) -> Any:
    """The value that was packed."""
    return json.loads(zlib.decompress(base64.b64decode(text)))
