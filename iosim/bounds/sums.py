"""Makes two entries of `iosim.bounds.BOUNDS` from one theorem: without and with row sums.

A row sum is the sum that softmax divides a row by.  The first bound holds even if row sums take no
space; the second only where each takes a word of fast memory, as in iosim's machine.
`iosim.bounds.parts`, `iosim.bounds.stays` and `iosim.bounds.sweeps` call `with_sums`, each for its
theorem in ``proofs/towards_nd.md``.

Changing this file: it affects six registered bounds.  The text of `covers` may change, with the
documents that print it.  The suffix ``-sums`` is part of keys of `BOUNDS` and stays.  `strength`,
`options` and `row_sums` say where a theorem holds: change them only with its proof.

``tests/bounds/test_towards_nd.py`` and ``tests/bounds/test_stationary.py`` plant errors in the
bounds that it makes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from iosim.base.arrays import Floats
from iosim.bounds.base import EVERY_OPTION, Bound
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
    """The exact lower bounds `name` and ``name-sums`` on attention's words.

    The second holds only for schedules that keep each row's sum in fast memory, where it takes a
    word: a row of Q and O then has one word more.

    Args:
        name: the name of the bound without row sums.
        classes: names of the classes of schedules that both cover (`iosim.bounds.classes.CLASSES`).
        formula, numeric: ``f(t, sums)``, which becomes the field of `Bound` of that name; `sums` is
            the number of words that a row's sum takes, 0 or 1.
        validity: where both apply, in one sentence.
        without: what is appended to `validity` for the bound without row sums.
        theorem: the number of the theorem in ``proofs/towards_nd.md``.
        options_theorem: the number of the theorem there that covers masks and other options.

    Returns:
        The bound without row sums, and the one with them.

    >>> from iosim.bounds.stays import STAYS, SUMS
    >>> STAYS.name, STAYS.row_sums, SUMS.name, SUMS.row_sums
    ('stays', False, 'stays-sums', True)
    """

    def entry(sums: int) -> Bound:
        return Bound(
            name=name + "-sums" * sums,
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
