"""Docstrings as they are written here, made what Napoleon reads."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

# Several names with one explanation, which Napoleon takes for a type and a name.
_SEVERAL = re.compile(r"^(\s+)(\w+(?:, \w+)+): ")


def joined(line: str) -> str:
    """A line of a docstring, with the names that it explains as one word.

    >>> joined("    inputs, outputs: its tensors, in order.")
    '    inputs,outputs: its tensors, in order.'
    """
    return _SEVERAL.sub(lambda found: f"{found[1]}{found[2].replace(', ', ',')}: ", line)


def _read(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    lines[:] = map(joined, lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Before Napoleon, whose priority is 500."""
    app.connect("autodoc-process-docstring", _read, priority=400)
    return {"parallel_read_safe": True}
