"""Operators that move words between devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iosim.base.errors import InputError
from iosim.models.operators.base import Kind, Operator


def link_words(op: Operator) -> int:
    """Words that each device sends, and as many that it receives, in a ring's all-reduce.

    2 (p − 1)/p of the tensor, rounded up: a reduce-scatter and an all-gather (Patarasuk and Yuan,
    "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69, 2009).

    >>> from iosim.models.operators import operand, operator
    >>> x, y = (operand(name, "t", {"t": 800}) for name in "XY")
    >>> link_words(operator("sum", "all_reduce", [x], [y], devices=8))
    1400
    """
    devices = int(op.setting("devices"))
    return -(-2 * (devices - 1) * op.reads[0].words // devices)


def _run(op: Operator, arrays: Sequence[Any]) -> Sequence[Any]:
    """Of one device's point of view, where all have the same words."""
    return [arrays[0] * op.setting("devices")]


def _check(op: Operator) -> None:
    (x,), (y,) = op.reads, op.writes
    if x.axes != y.axes:
        raise InputError(f"{op.name}: {y.name} must have the axes of {x.name}")


def _flop(op: Operator) -> int:
    """Additions of one device in a reduce-scatter: (p − 1)/p of the tensor."""
    devices = int(op.setting("devices"))
    return -(-(devices - 1) * op.reads[0].words // devices)


KINDS = (
    Kind(
        "all_reduce",
        "sum over devices, on each of them",
        "communication",
        _run,
        check=_check,
        settings={"devices": None},
        flop=_flop,
    ),
)
