"""Bounds that hold with row sums and without: two entries of the catalogue from one theorem."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from iosim.bounds.base import EVERY_OPTION, Bound, Floats
from iosim.bounds.classes import CLASSES


def with_sums(
    name: str,
    *,
    classes: tuple[str, ...],
    formula: Callable[..., Any],
    numeric: Callable[..., Floats],
    validity: str,
    without: str = "",
    theorem: int,
    options_theorem: int,
) -> tuple[Bound, Bound]:
    """`name` and `name-sums`, of theorems in `proofs/towards_nd.md`.

    In the second each row's sum takes a word of fast memory, so that a row has one word more.

    Args:
        name: of the one without row sums.
        classes: names of the classes that both cover.
        formula, numeric: as `Bound` has them, of the terms and of `sums`, the words of a row's sum,
            0 or 1.
        validity: in one sentence, with `without` at its end where there are no row sums.
        theorem, options_theorem: their numbers there.

    >>> from iosim.bounds.stays import STAYS, SUMS
    >>> STAYS.name, STAYS.row_sums, SUMS.name, SUMS.row_sums
    ('stays', False, 'stays-sums', True)
    """

    def entry(sums: int) -> Bound:
        return Bound(
            name=name + "-sums" * sums,
            kind="lower",
            strength="exact",
            problem="attention",
            covers="; or ".join(CLASSES[x].says for x in classes)
            + "; and each row's sum is added up in fast memory" * sums,
            formula=functools.partial(formula, sums=sums),
            validity=validity + without * (1 - sums),
            source=f"iosim, proofs/towards_nd.md, Theorem {theorem}",
            proof="towards_nd",
            theorem=f"theorem-{theorem}",
            numeric=functools.partial(numeric, sums=sums),
            classes=tuple(CLASSES[x] for x in classes),
            options=EVERY_OPTION,
            options_proof="towards_nd",
            options_theorem=f"theorem-{options_theorem}",
            row_sums=bool(sums),
        )

    return entry(0), entry(1)
