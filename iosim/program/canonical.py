"""The canonical form of a program: all of its tree as JSON, and the hash of that.

Equal programs have equal text, and programs that differ in anything have different texts: in a
node, in a parameter's least value, in a tensor's axes, in the bounds of a loop.  (The listing of
`iosim show` is for people and leaves some of that out.)
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any

from iosim.program.ir import Program

# Fields that the language got later; at their default, they say nothing.
_LATER = ("limits", "within", "derived", "positions", "marks", "mask", "less")


def canonical(program: Program) -> str:
    """A program as one line of JSON: each record an object with its ``type`` and its fields.

    >>> import json
    >>> from iosim.algorithms import algorithm
    >>> told = json.loads(canonical(algorithm("copy").program))
    >>> told["params"]
    [{'axis': 'n', 'least': 1, 'name': 'B', 'type': 'Param'}]
    >>> [node["type"] for node in told["body"]]
    ['Loop']
    """
    return json.dumps(_data(program), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(program: Program) -> str:
    """SHA-256 of the canonical form, in hexadecimal."""
    return hashlib.sha256(canonical(program).encode()).hexdigest()


def _data(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        # What a program doesn't use is left out, so that its text stays when the language grows.
        told = {
            f.name: _data(getattr(value, f.name))
            for f in fields(value)
            if f.name not in _LATER or getattr(value, f.name) != f.default
        }
        return told | {"type": type(value).__name__}
    if isinstance(value, tuple):
        return [_data(x) for x in value]
    if value is None or isinstance(value, (str, int)):
        return value
    raise TypeError(f"a program holds {value!r}, which has no canonical form: add one")
