"""The canonical form of a program: all of its tree as JSON, and the hash of that.

Equal programs have equal text, and programs that differ in anything have different texts: in a
node, in a parameter's least value, in a tensor's axes, in the bounds of a loop.  (The listing of
`iosim show` is for people and leaves some of that out.)
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any

from iosim.core.program.hashed import Hashed
from iosim.core.program.ir import Program

# Fields that the language got later; at their default, they say nothing.
_LATER = ("limits", "within", "derived", "positions", "marks", "mask", "less", "of")


def canonical(program: Program) -> str:
    """A program as one line of JSON: each record an object with its ``type`` and its fields.

    >>> import json
    >>> from iosim.core.algorithms import algorithm
    >>> told = json.loads(canonical(algorithm("copy").program))
    >>> told["params"]
    [{'axis': 'n', 'least': 1, 'name': 'B', 'type': 'Param'}]
    >>> [node["type"] for node in told["body"]]
    ['Loop']
    """
    return json.dumps(as_data(program), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(program: Program) -> str:
    """SHA-256 of the canonical form, in hexadecimal."""
    return hashlib.sha256(canonical(program).encode()).hexdigest()


def as_data(value: Any) -> Any:
    """A record of a program, and all that it holds, as a JSON value.

    Raises TypeError for what has no canonical form.

    >>> from iosim.core.program.index import Affine
    >>> as_data(Affine(3, (("N", 1),)))
    {'const': 3, 'terms': [['N', 1]], 'type': 'Affine'}
    """
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, tuple):
        return [as_data(x) for x in value]
    if isinstance(value, Hashed):
        return _known_record(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _record(value)
    raise TypeError(f"a program holds {value!r}, which has no canonical form: add one")


def _record(value: Any) -> dict[str, Any]:
    # What a program doesn't use is left out, so that its text stays when the language grows.
    found = {
        f.name: as_data(getattr(value, f.name))
        for f in _fields(value.__class__)
        if f.name not in _LATER or getattr(value, f.name) != f.default
    }
    return found | {"type": type(value).__name__}


# Indices and atoms occur in a program again and again.
_known_record = functools.lru_cache(2**14)(_record)


# Called at every record of a program.
_fields = functools.cache(fields)
