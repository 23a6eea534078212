"""What layers are written with: operators as lines of text, and the blocks that layers share.

Axes have one letter, as Ivanov et al. name them (arXiv 2007.00072): b sequences, j rows and k
columns of scores, h heads, p a head's words, i the embedding, u the feed-forward network, v the
vocabulary.  Where heads share keys and values, g counts heads of keys and r the heads that share.

The files of the families call it.  A block that two families share goes here; one that a single
family has goes to its file.  Names of operators and tensors are in recorded fusions and stay.
``tests/models/test_layers.py`` compares layers with ``tests/layers_by_hand.py``.

>>> op = Writer({"b": 8, "j": 512, "i": 1024, "u": 4096})
>>> op("linear", "contraction", "X[b j i], weight W[i u] -> Y[b j u]")
'Y'
>>> op.operators[0].flop, op.weights
(34359738368, ['W'])
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from iosim.base.dtypes import word_bytes
from iosim.base.errors import InputError, closest
from iosim.core.problem import MarkedTiles
from iosim.models.layers.backward import backward
from iosim.models.layers.graph import Graph
from iosim.models.layers.models import Config, positive
from iosim.models.layers.routing import Routing
from iosim.models.operators import Operand, Operator, operand, operator
from iosim.models.operators.base import ROLES

PHASES = ("training", "prefill", "decode")
ATTENTION = ("unfused", "fused")
LOSS = "loss"


@dataclass
class Writer:
    """Makes operators from text: ``X[b j i], weight W[i u] -> Y[b j u]``.

    A tensor is its name and its axes.  Its role comes before it where it is first met, if it is no
    activation, and its dtype after the name, if it isn't the graph's: ``state m:fp32[i u]``.
    """

    sizes: Mapping[str, int]
    operators: list[Operator] = field(default_factory=list)
    known: dict[str, tuple[str, str | None]] = field(default_factory=dict)

    def __call__(self, name: str, kind: str, text: str, over: str = "", **settings: Any) -> str:
        """Write an operator; the name of the first tensor that it writes."""
        reads, writes = (
            [self._operand(named, axes) for named, axes in _TENSOR.findall(side)]
            for side in text.split("->")
        )
        self.operators.append(operator(name, kind, reads, writes, over, **settings))
        return writes[0].name

    @property
    def weights(self) -> list[str]:
        """The names of the weights."""
        return [name for name, (role, _) in self.known.items() if role == "weight"]

    def _operand(self, text: str, axes: str) -> Operand:
        first, _, rest = text.partition(" ")
        role, name = (first, rest) if first in ROLES and rest else (None, text)
        name, _, dtype = name.partition(":")
        before = self.known.setdefault(name, (role or "activation", dtype or None))
        return operand(name, axes, self.sizes, *before)


_TENSOR = re.compile(r"\s*([^\[\],]+)\[([^\]]*)\]")


@dataclass(frozen=True)
class Ask:
    """What a layer is built from.

    Attributes:
        config: the model.
        phase: one of `PHASES`.
        batch: sequences.
        N: the length of the context; in decoding the cache holds N tokens, new ones included.
        tokens: new tokens of each sequence in a step of decoding; more than one are speculative.
        attention: ``fused``: one operator, whose scores are not tensors; or ``unfused``.
        dtype: of a word, where a tensor has none of its own.
        experts: how many a layer of a mixture reads: the choice of
            `iosim.models.layers.routing.Routing`.
        blocks: a block mask on the scores, in addition to a causal mask; None for none.

    Raises InputError for an unknown phase, way of attention or dtype, sizes that are not a positive
    integers, and more new tokens than context.
    """

    config: Config
    phase: str
    batch: int
    N: int
    tokens: int = 1
    attention: str = "unfused"
    dtype: str = "fp16"
    experts: str | int = "least"
    blocks: MarkedTiles | None = None

    def __post_init__(self) -> None:
        for what, known in (("phase", PHASES), ("attention", ATTENTION)):
            if (got := getattr(self, what)) not in known:
                raise InputError(f"unknown {what} {got!r}: {closest(got, known)}")
        word_bytes(self.dtype)
        for what in ("batch", "N", "tokens"):
            object.__setattr__(self, what, positive(what, getattr(self, what)))
        if self.tokens > self.N:
            raise InputError(
                f"tokens = {self.tokens} don't fit into a context of N = {self.N}: give less"
            )
        if self.tokens > 1 and not self.cached:
            raise InputError(
                f"tokens = {self.tokens} is of decoding, not of {self.phase}: leave it out"
            )
        if self.routing is None and self.experts != "least":
            raise InputError(f"{self.config.name} has no experts to choose from: leave them out")

    @property
    def rows(self) -> int:
        """Tokens of each sequence that go through the layers."""
        return self.tokens if self.cached else self.N

    @cached_property
    def routing(self) -> Routing | None:
        """How many experts are read; None if there are none."""
        c = self.config
        if c.family != "mixture":
            return None
        return Routing(c.experts, c.active, self.batch * self.rows, self.experts)

    @property
    def training(self) -> bool:
        """Whether there is a backward pass."""
        return self.phase == "training"

    @property
    def cached(self) -> bool:
        """Whether keys and values come from a cache."""
        return self.phase == "decode"

    @property
    def dropout(self) -> float:
        """The probability that a word is dropped."""
        return self.config.dropout if self.training else 0.0

    def writer(self, rows: int = 0) -> Writer:
        """No operators, and the sizes of all axes; `rows` where they aren't those of a layer."""
        c = self.config
        rows = rows or self.rows
        sizes = {
            "b": self.batch,
            "j": rows,
            "k": self.N,
            "h": c.heads,
            "g": c.kv_heads,
            "r": c.group,
            "p": c.head_size,
            "d": c.head_size,
            "i": c.hidden,
            "u": c.feed_forward,
            "l": c.hidden,
            "v": c.vocabulary,
            "n": c.positions,
            "t": 2,
            "e": c.experts,
            "s": c.active,
            "m": self.batch * rows * c.active,
        }
        return Writer(sizes)

    def finish(self, op: Writer, part: str, y: str) -> Graph:
        """The graph of what was written, with its backward pass in training.

        Args:
            part: of the model.
            y: its result; the gradient of one that is not a loss comes from outside.  The caches
                are kept, too.
        """
        written = [t for one in op.operators for t in one.writes]
        keeps = {y, *(t.name for t in written if t.role == "cache")}
        name = f"{self.config.name} {part}"
        graph = Graph(name, tuple(op.operators), frozenset(keeps), self.dtype)
        if not self.training:
            return graph
        given = [t.name for t in graph.inputs if t.role == "activation"]
        return backward(graph, [] if y == LOSS else [y], [*given, *op.weights])


def drop(op: Writer, name: str, x: str, axes: str, ask: Ask, seed: int) -> str:
    """Dropout, where there is any: the name of what comes out."""
    if not ask.dropout:
        return x
    text = f"{x}[{axes}] -> {x} dropped[{axes}], {x} mask[{axes}]"
    return op(name, "dropout", text, p=ask.dropout, seed=seed)


def residual(
    op: Writer, last: str, block: str, x: str, beside: str, y: str, ask: Ask, seed: int
) -> str:
    """What ends a block: dropout of what its last operator gives, and what went around it."""
    dropped = drop(op, f"{last} dropout", x, "b j i", ask, seed)
    return op(f"{block} residual", "add", f"{dropped}[b j i], {beside}[b j i] -> {y}[b j i]")


def norm(op: Writer, name: str, kind: str, x: str, y: str, ask: Ask, epsilon: float) -> str:
    """A layer norm or an RMS norm along i; what it keeps for the backward pass only in training."""
    weights, kept = _NORMS[kind]
    reads = [f"{x}[b j i]", *(f"weight {w}_{y}[i]" for w in weights)]
    writes = [f"{y}[b j i]", *(f"{x} {one}:fp32[b j]" for one in kept if ask.training)]
    text = f"{', '.join(reads)} -> {', '.join(writes)}"
    return op(name, kind, text, over="i", epsilon=epsilon)


# Weights, and what is kept for the backward pass.
_NORMS = {"layer_norm": ("γβ", ("mean", "rstd")), "rms_norm": ("γ", ("rstd",))}


def linear(op: Writer, name: str, reads: str, writes: str, bias: str = "") -> str:
    """A contraction, with a bias after it if there is one.

    The result has the name in `writes`; without its bias it is called X and that name.
    """
    if not bias:
        return op(name, "contraction", f"{reads} -> {writes}")
    op(name, "contraction", f"{reads} -> X{writes}")
    return op(f"{name} bias", "bias", f"X{writes}, weight {bias} -> {writes}")


def attend(
    op: Writer, x: str, ask: Ask, *, biases: bool = False, rope: bool = False, causal: bool = True
) -> str:
    """Self-attention of x, from the queries to the weighted sum of the values, called C.

    In decoding the new keys and values are appended to caches before.
    """
    q, kv = ("g r", "g") if ask.config.group > 1 else ("h", "h")
    for name, y, heads in (("query", "Q", q), ("key", "K", kv), ("value", "V", kv)):
        rows = "j" if y == "Q" or ask.cached else "k"
        new = y if y == "Q" or not ask.cached else f"new {y}"
        flat = f"flat {new}" if rope and y != "V" else new
        axes = f"b {heads} {rows} p"
        if y != "Q" and causal and not ask.training:
            op.known[y] = ("cache", None)
        linear(
            op,
            name,
            f"{x}[b {rows} i], weight W{y}[{heads} p i]",
            f"{flat}[{axes}]",
            f"B{y}[{heads} p]" if biases else "",
        )
        if flat != new:
            angles = f"input cos[{rows} p], input sin[{rows} p]"
            op(f"{name} rope", "rope", f"{flat}[{axes}], {angles} -> {new}[{axes}]", over="p")
        if new != y:
            cache = f"cache {y} cache[b {kv} k p]"
            op(f"append {name}", "append", f"{new}[{axes}], {cache} -> {y}[b {kv} k p]", over="k")
    factor = ask.config.head_size**-0.5
    Q, K, V, C = f"Q[b {q} j p]", f"K[b {kv} k p]", f"V[b {kv} k p]", f"C[b {q} j p]"
    if ask.attention == "fused":
        V, C = V.replace(" p]", " d]"), C.replace(" p]", " d]")
        kept = f", lse:fp32[b {q} j]" if ask.training else ""
        return op(
            "attention",
            "attention",
            f"{Q}, {K}, {V} -> {C}{kept}",
            over="j k",
            factor=factor,
            causal=causal,
            p=ask.dropout,
            **({} if ask.blocks is None else {"blocks": ask.blocks}),
        )
    scores = f"[b {q} j k]"
    op("scores", "contraction", f"{Q}, {K} -> QK{scores}")
    s = op("scale", "scale", f"QK{scores} -> S{scores}", factor=factor)
    if causal and op.sizes["j"] > 1:
        s = op("mask", "causal", f"S{scores} -> S seen{scores}", over="j k")
    if ask.blocks is not None:
        text = f"{s}{scores} -> S marked{scores}"
        s = op("block mask", "block_mask", text, over="j k", blocks=ask.blocks)
    op("softmax", "softmax", f"{s}{scores} -> P{scores}", over="k")
    p = drop(op, "attention dropout", "P", scores[1:-1], ask, seed=1)
    return op("weighted sum", "contraction", f"{p}{scores}, {V} -> {C}")
