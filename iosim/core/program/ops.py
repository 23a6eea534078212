"""OPS: one record per operation, holding its redundant forms side by side.

`numpy` works on arrays with any number of leading *lane* dimensions (independent copies of the
fast memory that run at once); it returns the new values of the operands named in `writes`, in
that order, and never changes its arguments.  Arithmetic inside an operation is free and needs no
words beyond its operands (`docs/cost-model.md`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from iosim.core.program.values import (
    Array,
    beyond,
    dot,
    log_mean,
    log_weights,
    merge,
    online_mean,
    online_mean_seen,
    online_softmax,
    online_weights,
    row_stats,
    safe_divisors,
    t,
    whole_after,
    whole_before,
)


@dataclass(frozen=True, kw_only=True)
class OpSpec:
    """What an operation means.

    Attributes:
        says: the mathematics, one line.
        brief: what a listing says next to the operation, where `says` is too long for that.
        shapes: index letters of each operand, equal letters meaning equal extents: ``"ij ix jx"``;
            ``"*"`` takes any shape, and its old value doesn't matter.
        writes: positions of the operands that change.
        numpy: the meaning; its parameters name the operands, then the scalars.
        scalars: names of the whole numbers that it takes, affine in sizes and edges of tiles.  In
            `numpy` each is an int, or an array over the lane dimensions.
        placed: whether positions along an axis matter, as for a mask.  `numpy` then sees the
            positions of one axis in each dimension: of rows that are stacked it gets the tile of
            rows of each, as lanes.  In Triton ``{s.row}`` and ``{s.column}`` are positions.
        whole: of a mask with one scalar, rows and columns of its first operand → the least and the
            most (None: no limit) of the scalar between which it changes nothing.
        triton: the same on block values, as text that `iosim.gpu.emitter` fills in: ``{s}`` is the
            operand s, ``{s.shape}`` its block shape, ``{a}`` the scalar a.  None: the operation
            has no GPU form.
        gluon: the same for Hopper's target, with ``{s.layout}``.  A matrix product is a line of its
            own: ``{s} += {q} @ {k}.T``.  None: it has no form there.
        over: index letters that the operation sums or takes a maximum over.  Where one of their
            extents is 0 there is nothing to take in, and every operand stays as it is; an empty
            extent of any other letter only makes some operands empty.
        sums: whether it adds to its first operand a sum, over the one letter of `over`, of products
            of the others: twice over two parts of that extent is then once over both.
        lowest: operands whose columns beyond a ragged edge must read −inf in that text; those of
            every other operand read 0 wherever they are contracted.
    """

    says: str
    shapes: str
    numpy: Callable[..., tuple[Array, ...]]
    writes: tuple[int, ...] = (0,)
    triton: str | None = None
    gluon: str | None = None
    over: str = ""
    sums: bool = False
    lowest: str = ""
    scalars: tuple[str, ...] = ()
    placed: bool = False
    whole: Callable[[int, int], tuple[int | None, int | None]] | None = None
    brief: str = ""

    @functools.cached_property
    def dims(self) -> tuple[str, ...]:
        """The index letters, a string for each operand."""
        return tuple(self.shapes.split())

    @property
    def reads(self) -> range:
        """Positions of the operands whose old value matters."""
        return range(0 if self.shapes == "*" else len(self.dims))

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the operands, which the texts and the NumPy form share."""
        return tuple(inspect.signature(self.numpy).parameters)[: len(self.dims)]


def usage(name: str) -> str:
    """How an operation is written, with the shape of each operand, and what it means.

    >>> usage("matmul_nt")
    'matmul_nt(s[i, j], q[i, x], k[j, x]): s += q kᵀ'
    >>> usage("mask_after")
    'mask_after(s[i, j], a=): s[r, c] = −inf where c − r > a: columns after row r + a are not seen'
    """
    spec = OPS[name]
    operands = [
        x if letters == "*" else f"{x}[{', '.join(letters)}]"
        for x, letters in zip(spec.names, spec.dims, strict=True)
    ]
    return f"{name}({', '.join([*operands, *(f'{x}=' for x in spec.scalars)])}): {spec.says}"


# Shared by the softmax family: `iosim.core.program.values.online`, on tiles.  exp2 is what hardware
# has.
_ONLINE = """\
_top = tl.maximum({m}, tl.max({s}, 1))
_shrink = tl.exp2(({m} - _top) * LOG2E)
"""
_HIDDEN = "{s} = tl.where({s.column}[None, :] - {s.row}[:, None] %s {a}, %s, {s})"
_SEEN = "tl.where({l} == 0.0, 1.0, {l})[:, None]"
# One multiply-add per element, for which the row maximum is scaled first.
_EXP = "tl.exp2({s}.to(tl.float32) * LOG2E - (_top * LOG2E)[:, None])"
_WEIGHTS = "{s} = " + _EXP + "\n"
# The same with L = log Σ exp in place of the maximum and the sum.
_LOG_ONLINE = (
    "_top = tl.maximum({L}, tl.max({s}, 1))\n"
    "_top = _top + tl.log2(tl.exp2(({L} - _top) * LOG2E) + tl.sum(" + _EXP + ", 1)) / LOG2E\n"
    "_shrink = tl.exp2(({L} - _top) * LOG2E)\n" + _WEIGHTS
)
_SUM = "{l} = {l} * _shrink + tl.sum({s}, 1)\n"
_WEIGHTED = 'tl.dot({s}.to({v}.dtype), {v}, %s, input_precision="ieee")'
# In Gluon every value has a layout: a number for each row gets that of what it is used with.
_ONLINE_GLUON = """\
_top = gl.maximum({m}, row_max({s}))
_shrink = gl.exp2(({m} - _top) * LOG2E)
"""
_EXP_GLUON = "gl.exp2({s} * LOG2E - by_row(_top * LOG2E, {s}))"
_WEIGHTS_GLUON = "{s} = " + _EXP_GLUON + "\n{l} = {l} * _shrink + row_sum({s})\n"
_HIDDEN_GLUON = "{s} = gl.where(columns({s}) - rows({s}, first) %s {a}, %s, {s})"
_SEEN_GLUON = "by_row(gl.where({l} == 0.0, 1.0, {l}), {o})"


def _fill(says: str, value: float, literal: str, brief: str = "") -> OpSpec:
    """Every entry becomes a value, which `literal` is in Triton."""
    return OpSpec(
        says=says,
        brief=brief,
        shapes="*",
        numpy=lambda x: (np.full_like(x, value),),
        triton=f"{{x}} = tl.full({{x.shape}}, {literal}, tl.float32)",
        gluon=f"{{x}} = gl.full({{x.shape}}, {literal}, gl.float32, {{x.layout}})",
    )


def _mask(sign: str, value: float, literal: str, *, brief: str, more: str = "") -> OpSpec:
    """Entries become a value on one side of a diagonal: after it (">"), or before it ("<")."""
    past, whole = (np.greater, whole_after) if sign == ">" else (np.less, whole_before)
    return OpSpec(
        says=brief + more,
        brief=brief,
        shapes="ij",
        scalars=("a",),
        placed=True,
        numpy=lambda s, a: (np.where(past(beyond(s, a), 0), value, s),),
        whole=whole,
        triton=_HIDDEN % (sign, literal),
        gluon=_HIDDEN_GLUON % (sign, literal),
    )


OPS: dict[str, OpSpec] = {
    "zero": OpSpec(
        says="x = 0",
        shapes="*",
        numpy=lambda x: (np.zeros_like(x),),
        triton="{x} = tl.zeros({x.shape}, tl.float32)",
        gluon="{x} = gl.zeros({x.shape}, gl.float32, {x.layout})",
    ),
    "one": _fill("x = 1", 1.0, "1.0"),
    "lowest": _fill("x = -inf", -np.inf, 'float("-inf")'),
    "matmul_nt": OpSpec(
        says="s += q kᵀ",
        shapes="ij ix jx",
        over="x",
        sums=True,
        numpy=lambda s, q, k: (s + dot(q, t(k)),),
        triton='{s} = tl.dot({q}, tl.trans({k}), {s}, input_precision="ieee")',
        gluon="{s} += {q} @ {k}.T",
    ),
    "matmul_nn": OpSpec(
        says="o += p v",
        shapes="ix ij jx",
        over="j",
        sums=True,
        numpy=lambda o, p, v: (o + dot(p, v),),
        triton='{o} = tl.dot({p}.to({v}.dtype), {v}, {o}, input_precision="ieee")',
        gluon="{o} += {p} @ {v}",
    ),
    "matmul_tn": OpSpec(
        says="v += pᵀ o",
        shapes="jx ij ix",
        over="i",
        sums=True,
        numpy=lambda v, p, o: (v + dot(t(p), o),),
        triton='{v} = tl.dot(tl.trans({p}).to({o}.dtype), {o}, {v}, input_precision="ieee")',
    ),
    "online_softmax": OpSpec(
        says="m' = max(m, max s); s = exp(s − m'); l = l exp(m − m') + Σ s; "
        "o = o exp(m − m') + s v",
        shapes="ix i i ij jx",
        writes=(0, 1, 2, 3),
        over="j",
        numpy=online_softmax,
        triton=_ONLINE
        + _WEIGHTS
        + _SUM
        + "{o} = "
        + _WEIGHTED % "{o} * _shrink[:, None]"
        + "\n{m} = _top",
        lowest="s",
        gluon=_ONLINE_GLUON + _WEIGHTS_GLUON + "{o} = {o} * by_row(_shrink, {o})\n"
        "{o} += {s} @ {v}\n{m} = _top",
    ),
    "online_mean": OpSpec(
        says="m' = max(m, max s); s = exp(s − m'); l' = l exp(m − m') + Σ s; "
        "o = (o l exp(m − m') + s v) / l'; l = l'",
        shapes="ix i i ij jx",
        writes=(0, 1, 2, 3),
        over="j",
        numpy=online_mean,
        triton=_ONLINE
        + _WEIGHTS
        + "{o} = "
        + _WEIGHTED % "{o} * ({l} * _shrink)[:, None]"
        + "\n"
        + _SUM
        + "{o} = {o} / {l}[:, None]\n{m} = _top",
        lowest="s",
    ),
    "online_weights": OpSpec(
        says="m' = max(m, max s); s = exp(s − m'); l = l exp(m − m') + Σ s; o = o exp(m − m')",
        shapes="ix i i ij",
        writes=(0, 1, 2, 3),
        over="j",
        numpy=online_weights,
        triton=_ONLINE + _WEIGHTS + _SUM + "{o} = {o} * _shrink[:, None]\n{m} = _top",
        lowest="s",
        gluon=_ONLINE_GLUON + _WEIGHTS_GLUON + "{o} = {o} * by_row(_shrink, {o})\n{m} = _top",
    ),
    "log_mean": OpSpec(
        says="L' = log(exp L + Σ exp s); s = exp(s − L'); o = o exp(L − L') + s v",
        shapes="ix i ij jx",
        writes=(0, 1, 2),
        over="j",
        numpy=log_mean,
        triton=_LOG_ONLINE + "{o} = " + _WEIGHTED % "{o} * _shrink[:, None]" + "\n{L} = _top",
        lowest="s",
    ),
    "log_weights": OpSpec(
        says="L' = log(exp L + Σ exp s); s = exp(s − L'); o = o exp(L − L')",
        shapes="ix i ij",
        writes=(0, 1, 2),
        over="j",
        numpy=log_weights,
        triton=_LOG_ONLINE + "{o} = {o} * _shrink[:, None]\n{L} = _top",
        lowest="s",
    ),
    "row_stats": OpSpec(
        says="m' = max(m, max s); l = l exp(m − m') + Σ exp(s − m')",
        shapes="i i ij",
        writes=(0, 1),
        over="j",
        numpy=row_stats,
        triton=_ONLINE + "{l} = {l} * _shrink + tl.sum(" + _EXP + ", 1)\n{m} = _top",
        lowest="s",
        gluon=_ONLINE_GLUON + "{l} = {l} * _shrink + row_sum(" + _EXP_GLUON + ")\n{m} = _top",
    ),
    "normalise": OpSpec(
        says="s = exp(s − m) / l",
        shapes="ij i i",
        numpy=lambda s, m, l: (np.exp(s - m[..., None]) / l[..., None],),
        triton="{s} = tl.exp2(({s} - {m}[:, None]) * LOG2E) / {l}[:, None]",
        lowest="s",
    ),
    "mask_after": _mask(
        ">",
        -np.inf,
        'float("-inf")',
        brief="s[r, c] = −inf where c − r > a",
        more=": columns after row r + a are not seen",
    ),
    "mask_before": _mask(
        "<",
        -np.inf,
        'float("-inf")',
        brief="s[r, c] = −inf where c − r < a",
        more=": columns before row r + a are not seen",
    ),
    "drop_after": _mask(">", 0.0, "0.0", brief="s[r, c] = 0 where c − r > a"),
    "drop_before": _mask("<", 0.0, "0.0", brief="s[r, c] = 0 where c − r < a"),
    "merge": OpSpec(
        says="m' = max(m, m2); l = l exp(m − m') + l2 exp(m2 − m'); "
        "o = o exp(m − m') + o2 exp(m2 − m')",
        brief="o, m, l of both parts",
        shapes="ix i i ix i i",
        writes=(0, 1, 2),
        numpy=merge,
        triton="_top = tl.maximum({m}, {m2})\n"
        "_mine = tl.exp2(({m} - _top) * LOG2E)\n"
        "_other = tl.exp2(({m2} - _top) * LOG2E)\n"
        "{l} = {l} * _mine + {l2} * _other\n"
        "{o} = {o} * _mine[:, None] + {o2} * _other[:, None]\n"
        "{m} = _top",
    ),
    "finish": OpSpec(
        says="o = o / l",
        shapes="ix i",
        numpy=lambda o, l: (o / l[..., None],),
        triton="{o} = {o} / {l}[:, None]",
        gluon="{o} = {o} / by_row({l}, {o})",
    ),
    "log_sums": OpSpec(
        says="l = m + log l",
        shapes="i i",
        numpy=lambda l, m: (m + np.log(l),),
        triton="{l} = {m} + tl.log2({l}) / LOG2E",
    ),
    "seen": OpSpec(
        says="L = 0 where nothing was seen, that is where it is −10³⁰ still",
        brief="L = 0 where nothing was seen",
        shapes="i",
        numpy=lambda L: (np.where(L <= -1e30, 0.0, L),),
        triton="{L} = tl.where({L} <= -1e30, 0.0, {L})",
    ),
    # The backward pass.
    "row_dots": OpSpec(
        says="t += Σ a ∘ b, a sum for each row",
        brief="t += Σ a ∘ b",
        shapes="i ix ix",
        over="x",
        sums=True,
        numpy=lambda t, a, b: (t + (a * b).sum(axis=-1),),
        triton="{t} = {t} + tl.sum({a}.to(tl.float32) * {b}.to(tl.float32), 1)",
    ),
    "weights": OpSpec(
        says="s = exp(s − L)",
        shapes="ij i",
        numpy=lambda s, L: (np.exp(s - L[..., None]),),
        triton="{s} = tl.exp2(({s} - {L}[:, None]) * LOG2E)",
        gluon="{s} = gl.exp2(({s} - by_row({L}, {s})) * LOG2E)",
    ),
    "softmax_gradient": OpSpec(
        says="s = p ∘ (s − t), t for each row",
        brief="s = p ∘ (s − t)",
        shapes="ij ij i",
        numpy=lambda s, p, t: (p * (s - t[..., None]),),
        triton="{s} = {p} * ({s} - {t}[:, None])",
    ),
    "multiply": OpSpec(
        says="s = s ∘ r",
        shapes="ij ij",
        numpy=lambda s, r: (s * r,),
        triton="{s} = {s} * {r}",
        gluon="{s} = {s} * {r}",
    ),
    "centre": OpSpec(
        says="t = t − p Σ t, a sum for each row: the gradient of a softmax from t = p ∘ dp",
        brief="t = t − p Σ t",
        shapes="ij ij",
        over="j",
        numpy=lambda t, p: (t - p * t.sum(axis=-1, keepdims=True),),
        triton="{t} = {t} - {p} * tl.sum({t}, 1)[:, None]",
    ),
    # Under a mask a row may have seen nothing, yet or at all.
    "low": _fill("x = −10³⁰: below every score, and finite", -1e30, "-1e30", brief="x = −10³⁰"),
    "online_mean_seen": OpSpec(
        says="as online_mean; o = 0 in rows that have seen nothing",
        brief="online_mean; o = 0 where l = 0",
        shapes="ix i i ij jx",
        writes=(0, 1, 2, 3),
        over="j",
        numpy=online_mean_seen,
        triton=_ONLINE
        + _WEIGHTS
        + "{o} = "
        + _WEIGHTED % "{o} * ({l} * _shrink)[:, None]"
        + "\n"
        + _SUM
        + "{o} = {o} / "
        + _SEEN
        + "\n{m} = _top",
        lowest="s",
    ),
    "normalise_seen": OpSpec(
        says="s = exp(s − m) / l; 0 where l = 0",
        brief="s = exp(s − m) / l; 0 where l = 0",
        shapes="ij i i",
        numpy=lambda s, m, l: (np.exp(s - m[..., None]) / safe_divisors(l)[..., None],),
        triton="{s} = tl.exp2(({s} - {m}[:, None]) * LOG2E) / " + _SEEN,
        lowest="s",
    ),
    "finish_seen": OpSpec(
        says="o = o / l; 0 where l = 0",
        brief="o = o / l; 0 where l = 0",
        shapes="ix i",
        numpy=lambda o, l: (o / safe_divisors(l)[..., None],),
        triton="{o} = {o} / " + _SEEN,
        gluon="{o} = {o} / " + _SEEN_GLUON,
    ),
    "log_sums_seen": OpSpec(
        says="l = m + log l; 0 where l = 0",
        shapes="i i",
        numpy=lambda l, m: (np.where(l == 0.0, 0.0, m + np.log(safe_divisors(l))),),
        triton="{l} = tl.where({l} == 0.0, 0.0, {m} + tl.log2({l}) / LOG2E)",
    ),
}
