"""Operators that move words and compute nothing: look-ups, choices, caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from iosim.operators.base import Grads, Kind, Operator
from iosim.operators.elementwise import _kind


def _embedding(op: Operator, arrays: Sequence[Any]) -> Sequence[Any]:
    ids, table = arrays
    return [np.take(table, ids, axis=0)]


def _rows(op: Operator) -> Mapping[str, int]:
    """Of the table only the rows that are looked up, and at most all."""
    _, table = op.reads
    return {table.name: min(op.writes[0].words, table.words)}


def _embedding_gradient(op: Operator, grads: Grads) -> list[Operator]:
    ids, table = op.reads
    dy = grads.of(op.writes[0])
    if dy is None or not grads.wanted(table):
        return []
    return [Operator(f"{op.name} dW", _kind("embedding_back"), (dy, ids), (grads.to(table),))]


def _embedding_back(op: Operator, arrays: Sequence[Any]) -> Sequence[Any]:
    dy, ids = arrays
    found = np.zeros(op.writes[0].shape)
    np.add.at(found, ids, dy)
    return [found]


def _added(op: Operator) -> int:
    return op.reads[0].words


def _append(op: Operator, arrays: Sequence[Any]) -> Sequence[Any]:
    new, cache = arrays
    (axis,) = op.over
    old = cache[(slice(None),) * _at(op.reads[1], axis) + (slice(op.sizes[axis] - _new_rows(op)),)]
    order = [op.reads[0].names.index(a) for a in _renamed(op)]
    return [np.concatenate([old, np.transpose(new, order)], axis=_at(op.writes[0], axis))]


def _renamed(op: Operator) -> list[str]:
    """The axes of the new rows in the order of the cache's."""
    (axis,) = op.over
    (own,) = (a for a in op.reads[0].names if a not in op.writes[0].names)
    return [own if a == axis else a for a in op.writes[0].names]


def _new_rows(op: Operator) -> int:
    (own,) = (a for a in op.reads[0].names if a not in op.writes[0].names)
    return op.sizes[own]


def _at(t: Any, axis: str) -> int:
    return int(t.names.index(axis))


def _only_new(op: Operator) -> Mapping[str, int]:
    new, cache = op.reads
    return {cache.name: 0, op.writes[0].name: new.words}


KINDS = (
    Kind("embedding", "rows of a table, by number", "elementwise", _embedding, reads=2,
         gradient=_embedding_gradient, touched=_rows),
    Kind("embedding_back", "gradient of a table: rows are added up", "elementwise",
         _embedding_back, reads=2, flop=_added),
    Kind("append", "a cache whose last rows are new ones; along the cache's rows", "elementwise",
         _append, reads=2, over=1, touched=_only_new),
)  # fmt: skip
