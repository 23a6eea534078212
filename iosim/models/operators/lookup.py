"""Operators that move words and compute nothing: look-ups, choices, caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from iosim.base.errors import InputError
from iosim.models.operators.base import Kind, Operator
from iosim.models.operators.elementwise import gradient_by


def _embedding(op: Operator, arrays: Sequence[Any]) -> Sequence[Any]:
    ids, table = arrays
    return [np.take(table, ids, axis=0)]


def _rows(op: Operator) -> Mapping[str, int]:
    """Of the table only the rows that are looked up, and at most all."""
    _, table = op.reads
    return {table.name: min(op.writes[0].words, table.words)}


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


def _own_axes(op: Operator) -> list[str]:
    """Axes of the new rows that the cache has not: one, in the place of the axis that grows."""
    return [a for a in op.reads[0].names if a not in op.writes[0].names]


def _append_check(op: Operator) -> None:
    (new, cache), (whole,), (axis,) = op.reads, op.writes, op.over
    own = _own_axes(op)
    shared = set(new.names) - set(own)
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
    (new, cache), (axis,), (own,) = arrays, op.over, _own_axes(op)
    names = op.writes[0].names
    along = names.index(axis)
    old = cache[(slice(None),) * along + (slice(op.sizes[axis] - op.sizes[own]),)]
    order = [op.reads[0].names.index(own if a == axis else a) for a in names]
    return [np.concatenate([old, np.transpose(new, order)], axis=along)]


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
        gradient=gradient_by("embedding_back", 0, to=(1,), name="dW"),
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
