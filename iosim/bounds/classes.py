"""The classes of algorithms that lower bounds cover: what an algorithm may do.

Schedules and bounds name them in `classes`; ``iosim bounds`` and ``iosim tightness`` take one by
name.  Names are in recorded data and stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from iosim.base.errors import InputError, closest


@dataclass(frozen=True)
class BoundClass:
    """A class of attention algorithms, that a lower bound may cover.

    Attributes:
        name: what ``--class`` and the tables call it.
        says: what its algorithms may do, in one sentence.
        within: the class that it is a part of, whose bounds hold for it, too; "" for none.

    >>> CLASSES["recompute"].says
    'one accumulator per score and per output entry; scores may be computed again'
    >>> CLASSES["stationary"].within
    'once'
    """

    name: str
    says: str
    within: str = ""


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
        BoundClass(
            "stationary",
            "every word of Q loaded once, every entry of O stored once, no entry of O and no row "
            "sum loaded, no score stored; every score computed once",
            within="once",
        ),
    )
}
# Those that are not part of another one: what a bound covers that says nothing of its class.
WIDE = tuple(klass for klass in CLASSES.values() if not klass.within)


def bound_class(klass: BoundClass | str) -> BoundClass:
    """The class of that name (a record is returned as it is); InputError for an unknown one.

    >>> bound_class("trees").name
    'trees'
    >>> bound_class("tree")
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: unknown class 'tree': did you mean 'trees'?
    """
    if isinstance(klass, BoundClass):
        return klass
    if klass not in CLASSES:
        raise InputError(f"unknown class {klass!r}: {closest(klass, CLASSES)}")
    return CLASSES[klass]


def wide(klass: BoundClass | str) -> BoundClass:
    """The class that a class is within, or itself; InputError for an unknown one.

    >>> wide("stationary").name, wide("trees").name
    ('once', 'trees')
    """
    chosen = bound_class(klass)
    return CLASSES[chosen.within] if chosen.within else chosen


def narrowest(names: Iterable[str]) -> BoundClass:
    """An algorithm's class with the largest lower bounds: one within its first class, or that one.

    >>> narrowest(["once", "trees", "stationary"]).name, narrowest(["recompute"]).name
    ('stationary', 'recompute')
    """
    first, *others = map(bound_class, names)
    return next((klass for klass in others if klass.within == first.name), first)


def covers(classes: Collection[BoundClass], klass: BoundClass | str) -> bool:
    """Whether a bound of these classes holds for a class: they name it, or what it is within.

    >>> covers(WIDE[:1], "stationary"), covers([CLASSES["stationary"]], "once")
    (True, False)
    """
    return bound_class(klass) in classes or wide(klass) in classes


def covers_wide(classes: Collection[BoundClass]) -> bool:
    """Whether a bound of these classes is for all schedules of one that is not part of another.

    A bound without classes is for a single algorithm, or for any.

    >>> covers_wide(()), covers_wide(WIDE), covers_wide([CLASSES["stationary"]])
    (True, True, False)
    """
    return not classes or not set(classes).isdisjoint(WIDE)
