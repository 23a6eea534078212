"""Sessions of Python in documents, which Markdown wants inside fences."""

from __future__ import annotations

import doctest
import re
from typing import Any

FENCE = re.compile(r"^```.*$", re.M)


class FencedDocTests(doctest.DocTestParser):
    """Reads a document whose sessions are fenced: a fence's line is not part of what is printed."""

    def parse(self, string: str, name: str = "<string>") -> list[Any]:
        return super().parse(FENCE.sub("", string), name)


def unfenced(text: str) -> list[str]:
    """The lines of sessions that no fence holds."""
    outside = "".join(FENCE.split(text)[::2])
    return [line for line in outside.splitlines() if line.startswith(">>>")]
