"""Operators of neural networks as values: FLOP, and words by tensor.  One file for each class.

`operator` makes one from the name of its kind, and `OPERATORS` lists the kinds.
`iosim.models.layers` builds graphs of them.  A kind is a record (`base`): NumPy code, from which
`flop` counts FLOP by one rule, and a rule for its gradient.  A new kind goes into the `KINDS` of
its class's file.

Changing files here: ``tests/operators_by_hand.py`` needs a row for each kind, with values, FLOP and
words by formulas and loops that share no code.  Names of kinds, operands and settings are in graphs
that users saved, and stay.  An import contract refuses schedules, counts, machines, bounds and
reports: an operator says what is computed, not how.  docs/roofline.md explains the rule for FLOP,
on which all rooflines depend.

>>> sorted(OPERATORS)[:3]
['adam', 'add', 'all_reduce']
>>> {kind.klass for kind in OPERATORS.values()} == set(Class.__args__)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from iosim.base.errors import InputError, closest
from iosim.models.operators import (
    attention,
    communication,
    contraction,
    elementwise,
    experts,
    lookup,
    normalisation,
    plain,
)
from iosim.models.operators.attention import attention_of
from iosim.models.operators.base import Class, Grads, Kind, Operand, Operator, operand
from iosim.models.operators.communication import link_words
from iosim.models.operators.contraction import Product, product
from iosim.models.operators.flop import Outline, Tally
from iosim.models.operators.settings import checked

__all__ = [
    "OPERATORS",
    "Class",
    "Grads",
    "Kind",
    "Operand",
    "Operator",
    "Product",
    "attention_of",
    "link_words",
    "operand",
    "operator",
    "product",
]

OPERATORS: dict[str, Kind] = {
    kind.name: kind
    for module in (
        contraction,
        normalisation,
        elementwise,
        lookup,
        experts,
        attention,
        communication,
        plain,
    )
    for kind in module.KINDS
}


def operator(
    name: str,
    kind: str,
    reads: Sequence[Operand],
    writes: Sequence[Operand],
    over: str = "",
    **settings: Any,
) -> Operator:
    """An operator, checked.

    Args:
        name: its own name.
        kind: a key of `OPERATORS`.
        reads, writes: its tensors, in the order of the kind.
        over: the axes that it works along, by name.
        settings: values for the kind's settings.

    Raises InputError for an unknown kind or setting, a setting without a value or with one that it
    can't have, tensors that are too many, too few or too large, and axes that don't meet.

    >>> from iosim.models.operators import operand
    >>> x, y = (operand(t, "b j", {"b": 8, "j": 512}) for t in "XY")
    >>> operator("P", "softmax", [x], [y], over="j").flop
    16384
    """
    if kind not in OPERATORS:
        raise InputError(f"{name}: unknown kind of operator {kind!r}: {closest(kind, OPERATORS)}")
    found = OPERATORS[kind]
    for what, want, got in (
        ("reads", found.reads, reads),
        ("writes", found.writes, writes),
        ("works along", found.over, over.split()),
    ):
        fewer = found.kept if what == "writes" else 0
        if want is not None and len(got) not in (want, want - fewer):
            of = "axes" if what == "works along" else "tensors"
            either = f"{want - fewer} or {want}" if fewer else want
            raise InputError(f"{name}: {kind} {what} {either} {of}, not {len(got)}")
    for setting in settings:
        if setting not in found.settings:
            known = closest(setting, found.settings) if found.settings else "it has none"
            raise InputError(f"{name}: {kind} has no setting {setting!r}: {known}")
    for setting, default in found.settings.items():
        none = settings.get(setting, default) is None
        if none and setting not in _MAY_BE_NONE.get(kind, ()):
            raise InputError(f"{name}: {kind} needs {setting}: give it")
    for setting, value in settings.items():
        checked(name, setting, found.settings[setting], value)
    made = Operator(
        name,
        found,
        tuple(reads),
        tuple(writes),
        tuple(over.split()),
        tuple(sorted(settings.items())),
    )
    _check(made)
    return made


# Settings of a kind that it may be without.
_MAY_BE_NONE = {
    "attention": ("window", "blocks"),
    "attention_back": ("window", "blocks"),
    "view": ("part",),
}
# More axes than any operator has; NumPy takes no more.
MOST_AXES = 32
# Of a tensor: more than any memory has, and few enough for NumPy to work out shapes.
MOST_WORDS = 2**60


def _check(op: Operator) -> None:
    sizes: dict[str, tuple[int, str]] = {}
    for t in (*op.reads, *op.writes):
        for axis, size in t.axes:
            before, where = sizes.setdefault(axis, (size, t.name))
            if before != size:
                raise InputError(
                    f"{op.name}: axis {axis} is {before} in {where} and {size} in {t.name}"
                )
        if t.words > MOST_WORDS:
            raise InputError(f"{op.name}: {t.name} has {t.words:,} words: give its axes less")
    if len(sizes) > MOST_AXES:
        raise InputError(f"{op.name} has {len(sizes)} axes, more than {MOST_AXES}: merge some")
    for axis in op.over:
        if axis not in sizes:
            raise InputError(f"{op.name}: no tensor has the axis {axis!r} that it works along")
    if op.kind.check is not None:
        op.kind.check(op)
    elif op.kind.touched is None:
        read = {a for t in op.reads for a in t.names}
        for t in op.writes:
            if new := set(t.names) - read:
                raise InputError(f"{op.name}: axis {min(new)} of {t.name} is in no input")
    _run_on_shapes(op)


def _run_on_shapes(op: Operator) -> None:
    """InputError where a kind's code can't take these shapes, or gives others than are written.

    A kind that counts its flop otherwise has a check of its own.
    """
    if op.kind.flop is not None:
        return
    try:
        made = op.kind.run(op, [Outline(t.shape, Tally()) for t in op.reads])
        right = all(np.shape(x) == t.shape for t, x in zip(op.writes, made, strict=False))
    except InputError as error:
        raise InputError(f"{op.name}: {error}") from None
    except (ValueError, IndexError, RuntimeError):
        right = False
    if not right:
        reads, writes = (
            ", ".join(f"{t.name} ({' × '.join(f'{n} {a}' for a, n in t.axes)})" for t in side)
            for side in (op.reads, op.writes)
        )
        raise InputError(
            f"{op.name}: shapes don't meet: {op.kind.name} makes no {writes} of {reads}"
        )
