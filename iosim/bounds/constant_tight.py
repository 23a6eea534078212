"""The constant-tight bound in `BOUNDS`: one entry for each class of algorithms.

proofs/constant_tight.md and proofs/attention_options.md; evaluated by `iosim.bounds.unified`.  The
`expression` is Theorem 2's, 4HN²d²/M, for other sets of pairs pairs·(d + d_v)²/M.  It holds from
M = 5d²/2 (`once`, `trees`) or, for d = d_v, 4d² (`recompute`, `recompute-trees`) on; elsewhere the
words come from Theorem 1, for `once` and `trees` from Theorem 5 of proofs/constant_tight_spills.md
as well, or for `recompute-trees` from Theorem 4 of proofs/constant_tight.md.

Proved in `proofs/constant_tight.md#theorem-1` and `proofs/constant_tight.md#theorem-4`; with
options `proofs/attention_options.md#theorem-b`, `proofs/attention_options.md#theorem-c` and
`proofs/attention_options.md#theorem-d`.
"""

from __future__ import annotations

import functools
from typing import Any

from iosim.base.arrays import Floats
from iosim.bounds.base import EVERY_OPTION, Bound
from iosim.bounds.classes import WIDE, BoundClass
from iosim.bounds.unified import EXACT_FROM, pattern_words
from iosim.core.problem import Form

# Options that only choose the pairs of a row and a key.
_PAIRS = {"N_k", "align", "causal", "d_v", "kv_heads", "sinks", "window"}


def _each_once(form: Form, t: Any) -> Any:
    """Words of trees_pairs_widths in proofs/rocq: any set of pairs, M ≥ 5(d + d_v)²/8."""
    if 5 * (t.d + t.d_v) ** 2 > 8 * t.M or not _PAIRS.issuperset(form.options):
        return None
    return t.pairs * (t.d + t.d_v) ** 2 / t.M


def _every_class(form: Form, t: Any) -> Any:
    """Words of every_class_widths in proofs/rocq: any set of pairs, M ≥ 2d(d + d_v)."""
    if 2 * t.d * (t.d + t.d_v) > t.M or not _PAIRS.issuperset(form.options):
        return None
    return t.pairs * ((t.d + t.d_v) ** 2 - max(t.d_v - t.d, 0) ** 2) / t.M


_OPTIONS = {
    "once": "theorem-b",
    "trees": "theorem-b",
    "recompute": "theorem-c",
    "recompute-trees": "theorem-d",
}


def leading(t: Any, klass: BoundClass) -> Any:
    """The class's words where M is large."""
    # Recomputing pays where d < d_v: (d + d_v)² − (d_v − d)² = 4·d·d_v.
    gain = t.d_v - t.min(t.d, t.d_v) if "recompute" in klass.name else 0
    return t.pairs * ((t.d + t.d_v) ** 2 - gain**2) / t.M


def of_pairs(t: Any, klass: BoundClass) -> Floats:
    """The class's words for the pairs that are needed."""
    ends = t.heads * t.rows + t.kv_heads * t.columns
    words = functools.partial(pattern_words, klass)
    found: Floats = t.each(words, pairs=t.pairs, ends=ends, d=t.d, M=t.M, d_v=t.d_v)
    return found


def _entry(klass: BoundClass) -> Bound:
    def numeric(t: Any) -> Floats:
        # Rows that see nothing have no pair, and are written all the same.
        unseen: Floats = t.heads * (t.N - t.rows) * t.d_v
        return of_pairs(t, klass) + unseen

    number = 4 if klass.name == "recompute-trees" else 1
    return Bound(
        name=f"constant-tight-{klass.name}",
        covers=klass.says,
        formula=functools.partial(leading, klass=klass),
        validity=f"every N, d, heads and M; 4·heads·N²d²/M from M = {EXACT_FROM[klass.name]}·d² on",
        source=f"iosim, proofs/constant_tight.md, Theorem {number}",
        proof="constant_tight",
        theorem=f"theorem-{number}",
        numeric=numeric,
        classes=(klass,),
        options=EVERY_OPTION,
        options_proof="attention_options",
        options_theorem=_OPTIONS[klass.name],
        checked=_every_class if "recompute" in klass.name else _each_once,
        checked_by="every_class_widths" if "recompute" in klass.name else "trees_pairs_widths",
    )


ONCE, RECOMPUTE, TREES, RECOMPUTE_TREES = map(_entry, WIDE)
