"""Operators that move words and compute nothing: look-ups, choices, caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from iosim.base.errors import InputError
from iosim.models.operators.base import Grads, Kind, Operator
from iosim.models.operators.elementwise import _kind


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


def _looks_up(ids: int, table: int, rows: int) -> Callable[[Operator], None]:
    """A check that each number stands for a row of the table; tensors by their place."""

    def check(op: Operator) -> None:
        every = (*op.reads, *op.writes)
        t, whole, found = every[ids], every[table], every[rows]
        if not whole.axes or found.axes != (*t.axes, *whole.axes[1:]):
            raise InputError(
                f"{op.name}: {found.name} must have the axes of {t.name} and then "
                f"those of {whole.name} but its first"
            )

    return check


def _added(op: Operator) -> int:
    return op.reads[0].words


def _append_check(op: Operator) -> None:
    (new, cache), (whole,), (axis,) = op.reads, op.writes, op.over
    own = [a for a in new.names if a not in whole.names]
    shared = {a for a in new.names if a not in own}
    if cache.axes != whole.axes or len(own) != 1 or shared != set(whole.names) - {axis}:
        raise InputError(
            f"{op.name}: {cache.name} and {whole.name} must have the same axes, and "
            f"{new.name} those with one of its own for {axis}"
        )
    if op.sizes[own[0]] > op.sizes[axis]:
        raise InputError(
            f"{op.name}: {op.sizes[own[0]]} new rows of {new.name} don't fit into "
            f"{op.sizes[axis]} of {cache.name}"
        )


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
    Kind(
        "embedding",
        "rows of a table, by number",
        "elementwise",
        _embedding,
        reads=2,
        check=_looks_up(0, 1, 2),
        gradient=_embedding_gradient,
        touched=_rows,
    ),
    Kind(
        "embedding_back",
        "gradient of a table: rows are added up",
        "elementwise",
        _embedding_back,
        reads=2,
        check=_looks_up(1, 2, 0),
        flop=_added,
    ),
    Kind(
        "append",
        "a cache whose last rows are new ones; along the cache's rows",
        "elementwise",
        _append,
        reads=2,
        over=1,
        check=_append_check,
        touched=_only_new,
    ),
)
