"""Tables by column, each said as briefly as it can be, for a page that carries many of them.

`iosim.lab.data`, `page`, `widget` and `iosim.lab.exercises` call it.  ``front/`` unpacks what is
made here, so change both sides.  ``tests/lab/test_lab_hardware.py`` reads it back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from iosim.base.rows import Values

# What a column may be in place of its values.
_ALL, _IS, _LIKE, _OF, _AT = "all", "is", "like", "of", "at"

# An object of JSON.
Json = dict[str, Any]
Columns = Json


def pack(rows: Sequence[Values], like: Columns | None = None, at: int = 0) -> Columns:
    """Rows with the same columns → column → its values, or what says them in fewer characters.

    A column is a list of values; or ``{"all": x}`` where all are x; ``{"is": NAME}`` where it
    equals an earlier column; ``{"like": AT}`` where it equals the column of this name in table
    number AT; or ``{"of": DIFFERENT, "at": [index, …]}``.  NaN becomes null, which JSON has.

    Args:
        rows: column → value, JSON data.
        like: another table by column, unpacked, that columns may equal.
        at: the number by which that table is known.

    >>> pack([{"a": 1000, "b": "dense", "c": 1000}, {"a": 2000, "b": "dense", "c": 2000}])
    {'a': [1000, 2000], 'b': {'all': 'dense'}, 'c': {'is': 'a'}}
    """
    found: Columns = {}
    said: dict[str, list[str]] = {}  # values as JSON: 1 is not true there
    for name, values in by_column(rows).items():
        texts = said[name] = [json.dumps(x) for x in values]
        different = list(dict.fromkeys(texts))
        choices: list[Any] = [values]
        if len(different) == 1:
            choices.append({_ALL: values[0]})
        choices += [{_IS: x} for x in found if said[x] == texts][:1]
        if like is not None and [json.dumps(x) for x in like.get(name, ())] == texts:
            choices.append({_LIKE: at})
        if len(different) < len(texts):
            indices = [different.index(x) for x in texts]
            choices.append({_OF: [json.loads(x) for x in different], _AT: indices})
        found[name] = min(choices, key=_characters)
    return found


def by_column(rows: Sequence[Values]) -> Columns:
    """Rows with the same columns → column → its values, with null for NaN."""
    return {name: [_plain(row[name]) for row in rows] for name in (rows[0] if rows else ())}


def unpack(packed: Columns, count: int, table: Callable[[int], Columns]) -> list[Json]:
    """The rows that were packed.

    Args:
        packed: as `pack` gives it.
        count: rows.
        table: the unpacked columns of the table of a number.

    >>> unpack({"a": [1, 2], "b": {"is": "a"}}, 2, lambda at: {})
    [{'a': 1, 'b': 1}, {'a': 2, 'b': 2}]
    """
    found: Columns = {}
    for name, said in packed.items():
        if isinstance(said, list):
            found[name] = said
        elif _ALL in said:
            found[name] = [said[_ALL]] * count
        elif _IS in said:
            found[name] = found[said[_IS]]
        elif _LIKE in said:
            found[name] = table(said[_LIKE])[name]
        else:
            found[name] = [said[_OF][k] for k in said[_AT]]
    return [{name: values[k] for name, values in found.items()} for k in range(count)]


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _characters(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
