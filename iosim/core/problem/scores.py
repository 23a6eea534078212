"""Which scores attention needs: sizes, heads that share keys and values, and masks.

`attention` and `backward` inherit `MaskedScores`.  ``tests/core/test_attention_options.py``
compares it with ``tests/masked_oracle.py``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from iosim.base.rows import Values
from iosim.core.problem.base import WHOLE, Arithmetic, BaseProblem
from iosim.core.problem.form import Array, Axis, Form, Hbm, Mask, Tensor, axis, option
from iosim.core.problem.heads import SharedHeads
from iosim.core.problem.visible_pairs import Visible, count_visible

LOWER_RIGHT, UPPER_LEFT = "lower right", "upper left"


@dataclass(frozen=True, repr=False)
class MaskedScores(SharedHeads, BaseProblem):
    """What problems of attention share whose scores may be masked: axes, options, what rows see.

    Row i sees column j if ``i + shift − left ≤ j ≤ i + shift + right``, with ``window=(left,
    right)`` and shift = N_k − N (aligned at the lower right) or 0 (upper left).  `causal` sets
    right to 0.  The first `sinks` columns are seen however far to the left they are, but not
    beyond the right limit.
    """

    # Columns of tables of rows of such problems, in addition to sizes and options.
    in_tables: ClassVar[Mapping[str, str]] = {}

    N: int = axis("sequence length", letters="ij")
    d: int = axis("head dimension", letters="xy")
    heads: int = axis("batch × heads", letters="h", default=1)
    N_k: int | None = option("keys (default: N)", "size", follows="N")
    d_v: int | None = option("head dimension of V and O (default: d)", "size", follows="d")
    kv_heads: int | None = option(
        "heads of K and V, a divisor of heads (default: heads)",
        "size",
        divides="heads",
        follows="heads",
    )
    causal: bool = option("a row sees no column after its own", "flag", default=False)
    window: tuple[int | None, int | None] | None = option(
        "columns that a row sees to the left and to the right of its own", "limits"
    )
    sinks: int = option("first columns, which a window doesn't hide", "count", default=0)
    align: str = option(
        "where the diagonal of a mask begins or ends",
        "choice",
        LOWER_RIGHT,
        (LOWER_RIGHT, UPPER_LEFT),
    )

    @property
    def keys(self) -> int:
        """Columns of a score matrix: N_k, or N where it is not given."""
        return self.N if self.N_k is None else self.N_k

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """Columns that a row sees to its left and right; None: no limit."""
        left, right = self.window or (None, None)
        return left, 0 if self.causal else right

    @property
    def shift(self) -> int:
        """The column that row 0 calls its own."""
        return self.keys - self.N if self.align == LOWER_RIGHT else 0

    @property
    def idle(self) -> tuple[str, ...]:
        """Of options that are given and change nothing here, what people should know.

        >>> from iosim.core.problem import Attention
        >>> Attention(8, 4, causal=True, sinks=2).idle
        ('sinks = 2 changes nothing: no limit to the left hides the first columns',)
        """
        found = []
        if self.sinks and self.limits[0] is None:
            found.append(
                f"sinks = {self.sinks} changes nothing: no limit to the left hides the first "
                "columns"
            )
        if self.align != LOWER_RIGHT and self.mask is None:
            found.append(f"align = {self.align} changes nothing: there is no mask to align")
        _, right = self.window or (None, None)
        if self.causal and right:
            found.append(f"window's right = {right} changes nothing: causal sets it to 0")
        return tuple(found)

    @property
    def form(self) -> Form:
        """What a program for this problem is traced for."""
        return form_of(
            self.kind,
            self.N_k is not None,
            self.d_v is not None,
            self.kv_heads is not None,
            self.mask,
            tuple(sorted(set(self.as_dict) - {"N", "d", "heads"})),
        )

    @property
    def mask(self) -> Mask | None:
        """Which scores are needed, without sizes; None for all."""
        left, right = self.limits
        if left is None and right is None:
            return None
        bound: Literal["limit", "causal"] | None = None if right is None else "limit"
        return Mask(
            left=left is not None,
            right="causal" if self.causal else bound,
            sinks=self.sinks > 0 and left is not None,
            shift=self.N_k is not None and self.align == LOWER_RIGHT,
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Name → extent, of all that a program of its form is bound to."""
        left, right = self.limits
        given = {
            "N": self.N,
            "d": self.d,
            "heads": self.heads,
            "N_k": self.keys,
            "d_v": self.values,
            "kv_heads": self.groups,
            "left": left,
            "right": right,
            "sinks": self.sinks,
        }
        return self.extents(self.form, given)

    @classmethod
    def extents(cls, form: Form, given: Values) -> dict[str, Any]:
        """Name → extent for a program of a form, from what people give; numbers or arrays.

        ``unseen`` columns are seen by no row; of the others no more are sinks than there are.
        """
        keys: Any = given.get("N_k", given["N"])
        found: dict[str, Any] = {}
        if "unseen" in form.limits:
            assert form.mask is not None
            found["unseen"] = _above(keys - given["N"], _reach(form.mask, given))
            keys = keys - found["unseen"]
        if "sinks" in form.limits:
            found["sinks"] = given["sinks"] - _above(given["sinks"], keys)
        return form.extents({**given, **found})

    @classmethod
    def follow(cls, form: Form, sizes: Values, by: Arithmetic = WHOLE) -> dict[str, Any]:
        """Heads, keys and d_v, and what the mask leaves: ``pairs`` over all heads, the ``scores``,
        ``rows`` and ``columns`` that are used of one head.
        """
        N, keys = sizes["N"], sizes.get("N_k", sizes["N"])
        groups = by.real(sizes["kv_heads"] if "kv_heads" in sizes else sizes["heads"])
        heads = groups * by.real(sizes["group"]) if "group" in sizes else groups
        limits = {x: sizes[x] for x in ("left", "right", "sinks") if x in form.limits}
        one = count_visible(form.mask, N, keys, **limits, by=by)
        scores = by.real(one.pairs)
        return {
            "heads": heads,
            "kv_heads": groups,
            "N_k": keys,
            "d_v": sizes.get("d_v", sizes["d"]),
            "pairs": heads * scores if form.mask else heads * by.real(N) * by.real(keys),
            "scores": scores,
            "rows": one.rows,
            "columns": one.columns,
        }

    def settled(self, hbm: Hbm) -> dict[str, Array]:
        """The inputs, with those that follow from others computed again in float64.

        Raises InputError where such a one is given and differs from that.
        """
        return dict(hbm)

    # -- which scores are needed ----------------------------------------------------------

    @property
    def pairs(self) -> int:
        """Scores that are needed: pairs of a row and a column that it sees, over all heads."""
        return self.heads * int(self._visible.pairs)

    @property
    def rows_used(self) -> int:
        """Rows of one head that see a column."""
        return int(self._visible.rows)

    @property
    def columns_used(self) -> int:
        """Columns that a row of one head sees."""
        return int(self._visible.columns)

    @property
    def _visible(self) -> Visible:
        left, right = self.limits
        return count_visible(self.mask, self.N, self.keys, left or 0, right or 0, self.sinks)

    def blocks(self, Q: Array, K: Array) -> Iterator[tuple[int, int, slice, Array, Array]]:
        """Softmax weights by the textbook formula, a block of rows at a time to bound memory.

        Q is (heads, N, d), K (kv_heads, N_k, d).  Yields a head, its head of K and V, rows, their
        weights, and log Σ exp of their scores: 0 where a row sees nothing, whose weights are 0.
        """
        rows = max(1, 2**22 // self.keys)
        for h in range(self.heads):
            g = h * self.groups // self.heads
            for start in range(0, self.N, rows):
                own = slice(start, min(start + rows, self.N))
                S = Q[h, own] @ K[g].T
                hidden = ~self.sees(np.arange(self.N)[own, None], np.arange(self.keys))
                S[np.broadcast_to(hidden, S.shape)] = -np.inf
                top = S.max(axis=1, keepdims=True)
                top = np.where(np.isneginf(top), 0, top)
                P = np.exp(S - top)
                total = P.sum(axis=1, keepdims=True)
                total = np.where(total == 0, 1, total)
                yield h, g, own, P / total, (top + np.log(total))[:, 0]

    def largest_score(self, hbm: Hbm) -> float:
        """A bound on every Σ |q k|: the longest row of Q times that of K."""
        longest = (np.linalg.norm(np.asarray(hbm[x], float), axis=-1).max() for x in "QK")
        return float(math.prod(longest))

    def weight_rounding(self, hbm: Hbm, terms: int, logs: int = 0) -> float:
        """How far two float64 computations of a softmax weight may be apart, relative to it.

        To first order, with u = 2⁻⁵³ and σ the `largest_score`.  A score is a sum of d products, in
        any order, and within duσ of the exact one.  A weight is exp(s − m) over a sum of such, or
        exp(s − L): 2duσ comes from scores, up to 8uσ from the differences of scores, m and L and
        from the rescaling by m − m′, which adds up to at most 2σ over all tiles, and uσ from each
        rounding of L = log Σ exp.  Sums and exponentials themselves have at most 8u for each term.
        Both computations have this error.

        Args:
            terms: the most that a sum over columns, or over rows, has.
            logs: how often L may be rounded on the way, where it is updated with each tile.
        """
        scores = (2 * self.d + 8 + logs) * self.largest_score(hbm)
        return 2**-52 * (scores + 8 * terms)

    def sees(self, i: Any, j: Any) -> Any:
        """Whether row i sees column j; numbers or arrays."""
        left, right = self.limits
        own = i + self.shift
        ahead = True if right is None else j <= own + right
        behind = True if left is None else (j >= own - left) | (j < self.sinks)
        return np.logical_and(ahead, behind)


def _above(x: Any, y: Any) -> Any:
    """x − y, or 0 where that is less; numbers or arrays."""
    return (x - y) * (x > y)


def _reach(mask: Mask, given: Values) -> Any:
    """How many columns more than rows are seen by some row."""
    if mask.shift:
        return given["left"] + (given["sinks"] if mask.sinks else 0)
    return 0 if mask.right == "causal" else given["right"]


def _group(given: Values) -> Any:
    return given["heads"] // given["kv_heads"]


_AXES = {a.name: a for a in MaskedScores.axes()}
_KEYS = Axis("N_k", "keys", letters="j")
_VALUES = Axis("d_v", "head dimension of V and O", letters="y")
_KV_HEADS = Axis("kv_heads", "heads of K and V", letters="g")
_GROUP = Axis("group", "heads that share one head of K and V", letters="u", of=_group)


@functools.lru_cache(maxsize=256)
def form_of(
    kind: str,
    keys: bool,
    values: bool,
    grouped: bool,
    mask: Mask | None,
    options: tuple[str, ...],
) -> Form:
    """The form of attention with these options.

    Args:
        kind: of the problem.
        keys, values, grouped: whether N_k, d_v and kv_heads are given.
        mask: which scores are needed.
        options: names of all options that are given, sorted.
    """
    N, d, heads = _AXES["N"], _AXES["d"], _AXES["heads"]
    K, e = _KEYS if keys else N, _VALUES if values else d
    of_q, of_k = ((_KV_HEADS, _GROUP), (_KV_HEADS,)) if grouped else ((heads,), (heads,))
    letters = "i" if keys else N.letters
    axes = dict.fromkeys((replace(N, letters=letters), d, *of_q, *(_KEYS,) * keys, *(e,)))

    def tensor(name: str, *of: Axis) -> Tensor:
        return Tensor(name, tuple(a.name for a in of))

    limits = (
        ()
        if mask is None
        else tuple(
            name
            for name, used in (
                ("left", mask.left),
                ("right", mask.right == "limit"),
                ("sinks", mask.sinks),
                ("unseen", keys and (mask.left if mask.shift else mask.right)),
            )
            if used
        )
    )
    return Form(
        kind,
        tuple(axes),
        (tensor("Q", *of_q, N, d), tensor("K", *of_k, K, d), tensor("V", *of_k, K, e)),
        (tensor("O", *of_q, N, e),),
        options,
        limits,
        mask,
    )
