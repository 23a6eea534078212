"""Matrix products on P devices: Irony, Toledo and Tiskin's bound, and the memory-independent one.

With k ≤ n ≤ m the sides of a product, a device that does at least 1/P of the products needs at
least

    (mn + mk)/P + nk            if P ≤ m/n,
    2 (mnk²/P)^(1/2) + mn/P     if m/n ≤ P ≤ mn/k²,
    3 (mnk/P)^(2/3)             if mn/k² ≤ P

words of the three matrices (Al Daas et al., Theorem 3); those that it doesn't hold at first, or at
last, cross its links.  Ballard et al. (2012) have the last case without its constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from iosim.base.errors import InputError
from iosim.devices.bounds._entry import LinkBound, Setting

# A product's sides m, n, k, and the names of its three matrices; "" is none of the problem's.
ProductOf: TypeAlias = tuple[tuple[int, int, int], tuple[str, str, str]]

PRODUCTS: dict[str, Callable[[Setting], list[ProductOf]]] = {
    "weight-gradient": lambda s: [
        ((s.problem.width, s.problem.rows, s.problem.out), ("X", "dY", "dW"))
    ],
    "feed-forward": lambda s: [
        ((s.problem.rows, s.problem.width, s.problem.inner), ("X", "W1", "")),
        ((s.problem.rows, s.problem.inner, s.problem.width), ("", "W2", "Y")),
    ],
}


def accessed(sides: tuple[int, int, int], P: int) -> float:
    """The fewest words of the three matrices for 1/P of a product with these sides.

    >>> accessed((100, 10, 10), 5), round(accessed((64, 64, 64), 64))
    (500.0, 768)
    """
    k, n, m = sorted(sides)
    if P * n <= m:
        return (m * n + m * k) / P + n * k
    if P * k * k <= m * n:
        return 2 * math.sqrt(m * n * k * k / P) + m * n / P
    return 3.0 * math.pow(m * n * k / P, 2 / 3)


def _count_local_words(setting: Setting, product: ProductOf) -> int:
    """The most words of the three that a device holds at first, and is to hold at last.

    A result of which every device gets a copy counts as held once; what lies between two products
    counts as sharded.
    """
    (a, b, c), (A, B, C) = product
    held = 0
    for name, words in ((A, a * b), (B, b * c), (C, a * c)):
        sharded = name == "" or (name == C and not setting.placement[name])
        held += -(-words // setting.P) if sharded else setting.most_held(name)
    return held


def _independent(setting: Setting) -> float:
    found = [
        max(
            0.0,
            accessed(product[0], setting.P) * (1 - 1e-12) - _count_local_words(setting, product),
        )
        for product in PRODUCTS[setting.problem.kind](setting)
    ]
    return sum(found)


def irony_toledo_tiskin(m: int, n: int, k: int, P: int, M: int) -> float:
    """mnk/(2√2 P √M) − M, or 0 where that is negative.

    Raises InputError where M is less than 1 word.

    >>> irony_toledo_tiskin(2**12, 2**12, 2**12, 8, 2**15) > 16_000_000
    True
    """
    if M < 1:
        raise InputError(f"M = {M} is less than a word: give what a device's memory holds")
    return max(0.0, m * n * k / (2 * math.sqrt(2) * P * math.sqrt(M)) - M)


def _dependent(setting: Setting) -> float:
    return max(
        irony_toledo_tiskin(*sides, setting.P, setting.M)
        for sides, _ in PRODUCTS[setting.problem.kind](setting)
    )


INDEPENDENT = LinkBound(
    name="memory-independent",
    of="device",
    kinds=tuple(PRODUCTS),
    words=_independent,
    outside=lambda setting: None,
    says="some device does at least 1/P of each product, sums of products as they are written; "
    "what lies between two products is sharded evenly",
    source="Al Daas et al., arXiv 2205.13407, Theorem 3",
)

DEPENDENT = LinkBound(
    name="irony-toledo-tiskin",
    of="device",
    kinds=tuple(PRODUCTS),
    words=_dependent,
    outside=lambda setting: None,
    says="any split of a product over P devices whose memories hold M words, sums of products as "
    "they are written; words that some device sends or receives",
    source="Irony, Toledo and Tiskin, JPDC 64, 2004, doi 10.1016/j.jpdc.2004.03.021",
)
