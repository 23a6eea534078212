"""Training steps as libraries run them, kernel by kernel: schedules to compare with their counters.

They aren't good schedules.  They say which tensors each kernel of PyTorch, of cuDNN or of
FlashAttention's first code reads and writes, and so what must cross each boundary.  Reports `paper`
and `backward`, `iosim profile` and an experiment compare counters with them.

`standard_step`: PyTorch's three kernels of standard attention and its seven of the backward pass,
and what a mask and dropout add.  PyTorch's softmax takes P ∘ dP in a kernel of its own.

`fused_backward`: cuDNN's, as PyTorch 2.11 runs it on an H200, in three kernels: D with zeros to an
fp32 dQ, blocks of columns that add to it, its conversion.  The additions are atomic there: words
that are sent to L2, ⌈N/B_c⌉·N·d a head, and here are loaded and stored.

`first_forward` and `first_backward`: FlashAttention's code of June 2022 (github.com/Dao-AILab/
flash-attention at 0d85469, csrc/flash_attn/src: fmha_fprop_kernel_1xN.h and
fmha_dgrad_kernel_1xN_loop.h).  A thread block does a head, with blocks of columns outside and rows
inside (`FIRST_TILES`).  O and dQ are kept in fp32 between the sweeps, and the last one writes fp16;
row statistics are L alone; O is read in the first sweep of the backward pass, which stores D.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from iosim.base.dtypes import word_bytes
from iosim.core.algorithms import algorithm
from iosim.core.algorithms._gradients import column_blocks, differentiate, row_sums_of, weigh
from iosim.core.algorithms._passes import key_products, row_products, statistics, tile_products
from iosim.core.algorithms._shape import Keys, heads
from iosim.core.counts import Direction
from iosim.core.problem import (
    Array,
    Attention,
    AttentionBackward,
    BaseProblem,
    Form,
    Tensor,
    axis,
    option,
)
from iosim.core.program.build import Builder, build
from iosim.core.program.handles import Buffer
from iosim.core.program.index import Affine, Tile
from iosim.core.program.ir import Load, Program, Store, nodes
from iosim.core.program.walk import Instance, bind
from iosim.gpu.emitter.nests import nests

# Block sizes for d = 64 on an A100, of both passes: 256 columns and 16 rows at a time
# (FMHA_kernel_traits<256, 64, 16, …> in fmha_fprop_fp16_kernel.sm80.cu and
# fmha_dgrad_fp16_kernel_loop.sm80.cu).
FIRST_TILES = {"B_r": 16, "B_c": 256}
# Of cuDNN's kernels on an H200: columns that stay, and rows of a tile.
FUSED_TILES = {"B_r": 64, "B_c": 128}


@dataclass(frozen=True, repr=False)
class StandardStep(BaseProblem):
    """O and the gradients of Q, K and V from dO, by standard attention: dropout(softmax(QKᵀ)) V.

    All but R are (heads, N, d).  R, (heads, N, N), is what dropout multiplies the weights by: 0 or
    1/(1 − p).  It is given, where a library draws it and stores a byte for each.

    >>> StandardStep(8, 4, dropout=True).form.options
    ('dropout',)
    """

    N: int = axis("sequence length", letters="ij")
    d: int = axis("head dimension", letters="xy")
    heads: int = axis("batch × heads", letters="h", default=1)
    masked: bool = option("scores are masked in a kernel of its own", "flag", False)
    filled: bool = option("so are their gradients, as of a mask that is filled in", "flag", False)
    dropout: bool = option("weights are dropped in a kernel of its own", "flag", False)

    kind: ClassVar[str] = "standard-step"
    inputs: ClassVar[tuple[Tensor, ...]] = tuple(
        Tensor(x, ("heads", "N", "d")) for x in ("Q", "K", "V", "dO")
    )
    outputs: ClassVar[tuple[Tensor, ...]] = tuple(
        Tensor(x, ("heads", "N", "d")) for x in ("O", "dQ", "dK", "dV")
    )

    @property
    def form(self) -> Form:
        """What a program for this problem is traced for."""
        given = tuple(sorted({"masked", "filled", "dropout"} & self.as_dict.keys()))
        found = replace(self.plain_form(), options=given)
        R = Tensor("R", ("heads", "N", "N"))
        return replace(found, inputs=(*found.inputs, R)) if self.dropout else found

    def random(self, seed: int = 0) -> dict[str, Array]:
        """Standard normal inputs; R drops a tenth."""
        hbm = super().random(seed)
        if self.dropout:
            drawn = np.random.default_rng(seed + 1).random(hbm["R"].shape)
            hbm["R"] = (drawn >= 0.1) / 0.9
        return hbm

    def reference(self, hbm: Mapping[str, Array]) -> dict[str, Array]:
        """The textbook formula in float64; a mask is causal."""
        given = self.check_inputs(hbm)
        Q, K, V, dO = (given[x] for x in ("Q", "K", "V", "dO"))
        S = Q @ K.swapaxes(1, 2)
        if self.masked or self.filled:
            S = np.where(np.tri(self.N, dtype=bool), S, -np.inf)
        P = np.exp(S - S.max(axis=-1, keepdims=True))
        P /= P.sum(axis=-1, keepdims=True)
        R = given["R"] if self.dropout else np.ones_like(P)
        dP = (dO @ V.swapaxes(1, 2)) * R
        dS = P * (dP - (P * dP).sum(axis=-1, keepdims=True))
        return {
            "O": (P * R) @ V,
            "dQ": dS @ K,
            "dK": dS.swapaxes(1, 2) @ Q,
            "dV": (P * R).swapaxes(1, 2) @ dO,
        }


def _scores(b: Builder, *names: str) -> None:
    for name in names:
        b.scratch(name, "heads", "N", "N")


def standard_forward(b: Builder) -> None:
    """QKᵀ, softmax and PV, and what options add: each kernel a nest of its own."""
    options = set(b.form.options)
    scores, weights = "S", "P"
    _scores(b, scores, weights)
    tile_products(b, "S", "Q", "K", "1")
    if {"masked", "filled"} & options:
        scores = "S2"
        _scores(b, scores)
        for i, j, s in _tiles(b, "S", scores, "2"):
            b.op("mask_after", s, a=i.start - j.start)
    _softmax(b, scores)
    if "dropout" in options:
        weights = "P2"
        _scores(b, weights)
        _product(b, "P", "R", weights, "4")
    row_products(b, "O", weights, "V", "5")


def standard_step(b: Builder) -> None:
    """The forward pass, then dV, dP, P ∘ dP, dS, dQ and dK."""
    standard_forward(b)
    weights, back, grads = "P", "dP", "dS"
    _scores(b, back, "T", grads)
    if "dropout" in b.form.options:
        weights, back = "P2", "dP2"
        _scores(b, back)
    key_products(b, "dV", weights, "dO", "6")
    tile_products(b, "dP", "dO", "V", "7")
    if back != "dP":
        _product(b, "dP", "R", back, "8")
    _product(b, back, "P", "T", "9")
    _softmax_gradient(b)
    if "filled" in b.form.options:
        grads = "dS2"
        _scores(b, grads)
        for i, j, s in _tiles(b, "dS", grads, "11"):
            b.op("drop_after", s, a=i.start - j.start)
    row_products(b, "dQ", grads, "K", "12")
    key_products(b, "dK", grads, "Q", "13")


def _places(b: Builder, n: str) -> Iterator[tuple[Tile, Tile, Tile]]:
    """Heads, rows and columns, tile by tile."""
    B_r, B_c = b.tile_sizes("N", f"B_r{n}", f"B_c{n}")
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            for j in b.grid("N", B_c):
                yield h, i, j


def _tiles(b: Builder, left: str, to: str, n: str) -> Iterator[tuple[Tile, Tile, Buffer]]:
    """Tiles of rows by columns that are loaded and, changed, stored."""
    for h, i, j in _places(b, n):
        s = b.load(left, h, i, j, name="s")
        yield i, j, s
        b.store(s, to, h, i, j)
        b.free(s)


def _product(b: Builder, left: str, right: str, to: str, n: str) -> None:
    for h, i, j in _places(b, n):
        s, r = b.load(left, h, i, j, name="s"), b.load(right, h, i, j, name="r")
        b.op("multiply", s, r)
        b.store(s, to, h, i, j)
        b.free(s, r)


def _rows(b: Builder, of: str, every: Callable[[Builder], Iterable[Any]]) -> Iterator[Any]:
    """Heads, and blocks of whole rows."""
    (B_r,) = b.tile_sizes("N", of)
    for h in every(b):
        for i in b.grid("N", B_r):
            yield h, i


def _softmax(b: Builder, scores: str) -> None:
    """Whole rows, each read once."""
    for h, i in _rows(b, "B_r3", _all_heads):
        m, l = b.lowest("m", i), b.zeros("l", i)
        s = b.load(scores, h, i, "N", name="s")
        b.op("row_stats", m, l, s)
        b.op("normalise", s, m, l)
        b.store(s, "P", h, i, "N")
        b.free(s, m, l)


def _all_heads(b: Builder) -> Iterable[Tile]:
    return b.grid("heads")


def _softmax_gradient(b: Builder) -> None:
    """Whole rows of T = P ∘ dP and of P, each read once."""
    for h, i in _rows(b, "B_r10", _all_heads):
        t, p = b.load("T", h, i, "N"), b.load("P", h, i, "N")
        b.op("centre", t, p)
        b.store(t, "dS", h, i, "N")
        b.free(t, p)


def fused_backward(b: Builder) -> None:
    """D and zeros to dQ in fp32; blocks of columns that add to it; its conversion."""
    b.scratch("D", "heads", "N", wide=True)
    b.scratch("dQ32", "heads", "N", "d", wide=True)
    for h, i in _rows(b, "B_rD", heads):
        do, zeros = b.load("dO", *h.q, i, "d"), b.zeros("zeros", i, "d")
        sums = row_sums_of(b, h, i, do)
        b.store(sums, "D", *h.q, i)
        b.store(zeros, "dQ32", *h.q, i, "d")
        b.free(do, sums, zeros)
    column_blocks(b, to="dQ32")
    for h, i in _rows(b, "B_rQ", heads):
        dq = b.load("dQ32", *h.q, i, "d", name="dq")
        b.store(dq, "dQ", *h.q, i, "d")
        b.free(dq)


def fused_program(problem: AttentionBackward) -> Program:
    """The three kernels of `fused_backward`, of which the second adds to an fp32 dQ."""
    return build("fused", problem.form, fused_backward)


def _sweeps(b: Builder, B_c: str) -> Iterator[tuple[bool, bool, Tile]]:
    """Blocks of columns, the first and the last separately; there are two or more."""
    last = Affine.of("N") - B_c
    for j in b.tiles("N", B_c, 0, B_c):
        yield True, False, j
    for j in b.tiles("N", B_c, B_c, last):
        yield False, False, j
    for j in b.tiles("N", B_c, last):
        yield False, True, j


def first_forward(b: Builder) -> None:
    """O is normalized after every sweep, in fp32 until the last one."""
    b.scratch("O32", "heads", "N", "d", wide=True)
    B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
    for h in b.grid("heads"):
        for first, last, j in _sweeps(b, B_c):
            k, v = b.load("K", h, j, "d"), b.load("V", h, j, "d")
            for i in b.tiles("N", B_r):
                q = b.load("Q", h, i, "d")
                s = b.zeros("s", i, j)
                b.op("matmul_nt", s, q, k)
                if first:
                    o, m, l = statistics(b, i, "d")
                else:
                    o, m = b.load("O32", h, i, "d", name="o"), b.load("L", h, i, name="m")
                    l = b.alloc("l", i)
                    b.op("one", l)
                b.op("online_mean", o, m, l, s, v)
                b.op("log_sums", l, m)
                b.store(l, "L", h, i)
                b.store(o, "O" if last else "O32", h, i, "d")
                b.free(q, s, o, m, l)
            b.free(k, v)


def first_backward(b: Builder) -> None:
    """D is made in the first sweep; dQ is in fp32 until the last one."""
    b.scratch("D", "heads", "N", wide=True)
    b.scratch("dQ32", "heads", "N", "d", wide=True)
    B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
    for h in heads(b):
        for first, last, j in _sweeps(b, B_c):
            k, v = b.load("K", *h.k, j, "d"), b.load("V", *h.k, j, "d")
            dk, dv = b.zeros("dk", j, "d"), b.zeros("dv", j, "d")
            for i in b.tiles("N", B_r):
                q, do = b.load("Q", *h.q, i, "d"), b.load("dO", *h.q, i, "d")
                l = b.load("L", *h.q, i)
                p = weigh(b, i, Keys(j), q, k, l)
                b.op("matmul_tn", dv, p, do)
                if first:
                    sums = row_sums_of(b, h, i, do)
                    b.store(sums, "D", *h.q, i)
                    dq = b.zeros("dq", i, "d")
                else:
                    sums = b.load("D", *h.q, i, name="sums")
                    dq = b.load("dQ32", *h.q, i, "d", name="dq")
                ds = differentiate(b, i, Keys(j), p, do, v, sums)
                b.op("matmul_tn", dk, ds, q)
                b.op("matmul_nn", dq, ds, k)
                b.store(dq, "dQ" if last else "dQ32", *h.q, i, "d")
                b.free(q, do, l, p, sums, ds, dq)
            b.store(dk, "dK", *h.k, j, "d")
            b.store(dv, "dV", *h.k, j, "d")
            b.free(k, v, dk, dv)


def standard_bytes(
    problem: StandardStep, dtype: str, *, backward: bool = True
) -> dict[Direction, int]:
    """`once_bytes` of standard attention; a word of dropout's mask has one byte.

    >>> words = 14 * 1024**2 + 12 * 1024 * 64
    >>> sum(standard_bytes(StandardStep(1024, 64, 1024), "fp16").values()) == 1024 * words * 2
    True
    """
    schedule = standard_step if backward else standard_forward
    program = build("standard", problem.form, schedule)
    # No tile changes what a kernel touches.
    instance = bind(program, problem.sizes, {p.name: p.least for p in program.params})
    return once_bytes(instance, dtype, bits=("R",))


def fused_bytes(problem: Attention, dtype: str, *, backward: bool = True) -> dict[Direction, int]:
    """`once_bytes` of `flash2`, with L and cuDNN's backward pass.

    >>> fused_bytes(Attention(1024, 64, 1024), "fp16", backward=False)
    {'load': 402653184, 'store': 134217728}
    """
    first = replace(problem, statistics=backward)
    flash2 = algorithm("flash2").program_for(first)
    found = once_bytes(bind(flash2, first.sizes, FUSED_TILES), dtype)
    if not backward:
        return found
    after = AttentionBackward.from_forward(first)
    tiles = FUSED_TILES | {"B_rD": 1, "B_rQ": 1}
    more = once_bytes(bind(fused_program(after), after.sizes, tiles), dtype)
    return {way: found[way] + more[way] for way in found}


def first_step(problem: Attention) -> tuple[Instance, Instance]:
    """FlashAttention's code of 2022, forward and backward, with its own blocks.

    Two sweeps or more: N is above 256, and no option is given.
    """
    first = replace(problem, statistics=True)
    after = AttentionBackward.from_forward(first)
    return (
        bind(build("first", first.form, first_forward), first.sizes, FIRST_TILES),
        bind(build("first_back", after.form, first_backward), after.sizes, FIRST_TILES),
    )


def once_bytes(instance: Instance, dtype: str, bits: tuple[str, ...] = ()) -> dict[Direction, int]:
    """Bytes that cross L2↔DRAM if each kernel reads and writes once what it touches.

    What a kernel stores before it loads it is written alone.  Row statistics, and other `wide`
    tensors, have 4 bytes a word at least.

    Args:
        bits: names of tensors of one byte a word, such as the mask of a dropout.
    """
    program, env = instance.program, instance.env
    found: dict[Direction, int] = {"load": 0, "store": 0}
    for body in nests(instance):
        own = [n for n in nodes(body) if isinstance(n, (Load, Store))]
        first = {n.tensor: n for n in reversed(own)}
        read = {x for x, n in first.items() if isinstance(n, Load)}
        written = {n.tensor for n in own if isinstance(n, Store)}
        ways: tuple[tuple[Direction, set[str]], ...] = (("load", read), ("store", written))
        for way, names in ways:
            for tensor in map(program.tensor, names):
                each = 1 if tensor.name in bits else word_bytes(dtype, tensor.wide)
                found[way] += each * math.prod(env[a] for a in tensor.axes)
    return found
