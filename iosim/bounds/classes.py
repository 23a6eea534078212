"""The classes of algorithms that lower bounds cover: what an algorithm may do."""

from __future__ import annotations

from dataclasses import dataclass

from iosim.errors import InputError, closest


@dataclass(frozen=True)
class BoundClass:
    """A class of attention algorithms, that a lower bound may cover.

    Attributes:
        name: what ``--class`` and the tables call it.
        says: what its algorithms may do, in one sentence.

    >>> CLASSES["recompute"].says
    'one accumulator per score and per output entry; scores may be computed again'
    """

    name: str
    says: str


CLASSES: dict[str, BoundClass] = {
    klass.name: klass
    for klass in (
        BoundClass(
            "once", "one accumulator per score and per output entry, every score computed once"
        ),
        BoundClass(
            "recompute",
            "one accumulator per score and per output entry; scores may be computed again",
        ),
        BoundClass("trees", "every score computed once; sums in any order and shape (split-K)"),
        BoundClass(
            "recompute-trees", "scores and terms may be computed again; sums in any order and shape"
        ),
    )
}


def bound_class(klass: BoundClass | str) -> BoundClass:
    """The class of that name (a record is returned as it is); InputError for an unknown one.

    >>> bound_class("trees").name
    'trees'
    >>> bound_class("tree")
    Traceback (most recent call last):
        ...
    iosim.errors.InputError: unknown class 'tree': did you mean 'trees'?
    """
    if isinstance(klass, BoundClass):
        return klass
    if klass not in CLASSES:
        raise InputError(f"unknown class {klass!r}: {closest(klass, CLASSES)}")
    return CLASSES[klass]
