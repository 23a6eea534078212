"""The constant-tight bound in the catalogue: one entry for each class of algorithms.

proofs/constant_tight.md; evaluated by `iosim.bounds.unified`.  The `expression` is Theorem 2's,
4HN²d²/M, which holds from M = 5d²/2 (`once`, `trees`) or 9d²/2 (`recompute`) on; below, the words
come from Theorem 1, which has no closed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iosim.bounds.base import Bound
from iosim.bounds.unified import EXACT_FROM, lower_bound

KLASS = {
    "once": "one accumulator per score and per output entry, every score computed once",
    "recompute": "one accumulator per score and per output entry; scores may be computed again",
    "trees": "every score computed once; sums in any order and shape (split-K)",
}


def _entry(klass: str) -> Bound:
    def formula(t: Any) -> Any:
        return 4 * t.heads * t.N**2 * t.d**2 / t.M

    def numeric(sizes: Mapping[str, int]) -> float:
        return lower_bound(
            sizes["N"], sizes["d"], sizes["M"], heads=sizes["heads"], klass=klass
        )  # fmt: skip

    return Bound(
        name=f"constant-tight-{klass}",
        kind="lower",
        strength="exact",
        problem="attention",
        klass=KLASS[klass],
        formula=formula,
        validity=f"every N, d, heads and M; 4·heads·N²d²/M from M = {EXACT_FROM[klass]}·d² on",
        source="iosim, proofs/constant_tight.md",
        proof="constant_tight",
        numeric=numeric,
        classes=(klass,),
    )


ONCE, RECOMPUTE, TREES = map(_entry, ("once", "recompute", "trees"))
