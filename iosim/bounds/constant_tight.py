"""The constant-tight bound in the catalogue: one entry for each class of algorithms.

proofs/constant_tight.md; evaluated by `iosim.bounds.unified`.  The `expression` is Theorem 2's,
4HN²d²/M, which holds from M = 5d²/2 (`once`, `trees`) or 9d²/2 (`recompute`) on; below, the words
come from Theorem 1, which has no closed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iosim.bounds.base import CLASSES, Bound, BoundClass, Floats, Ints
from iosim.bounds.unified import EXACT_FROM, lower_bound_many


def _entry(klass: BoundClass) -> Bound:
    def formula(t: Any) -> Any:
        return 4 * t.heads * t.N**2 * t.d**2 / t.M

    def numeric(sizes: Mapping[str, Ints]) -> Floats:
        return lower_bound_many(
            sizes["N"], sizes["d"], sizes["M"], heads=sizes["heads"], klass=klass
        )

    return Bound(
        name=f"constant-tight-{klass.name}",
        kind="lower",
        strength="exact",
        problem="attention",
        covers=klass.says,
        formula=formula,
        validity=f"every N, d, heads and M; 4·heads·N²d²/M from M = {EXACT_FROM[klass.name]}·d² on",
        source="iosim, proofs/constant_tight.md",
        proof="constant_tight",
        numeric=numeric,
        classes=(klass,),
    )


ONCE, RECOMPUTE, TREES = map(_entry, CLASSES.values())
