"""One layer of BERT, of GPT-2 and of Llama 3 in PyTorch, as people write them.

Each operator, or linear operator with its bias, is a module of its own, a `LayerStep`, which knows
the operators of the graph that it covers.  That is how kernels are mapped to operators: in eager
runs by the range that each step opens for the profiler, in compiled ones by the module that the
compiler notes for each node.  Parameters are called as in the graph (`Layer.weights`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from iosim.models.layers.blocks import Ask

RANGE = "iosim: "  # what the names of ranges begin with


class LayerStep(nn.Module, ABC):  # type: ignore[misc]
    """A module that covers operators of the graph, named as there."""

    def __init__(self, *covers: str) -> None:
        super().__init__()
        self.covers = covers

    def forward(self, *x: Any) -> Any:
        """Run it, within a range of its name where no compiler is at work."""
        if torch.compiler.is_compiling():
            return self._run(*x)
        with torch.profiler.record_function(RANGE + self.covers[0]):
            return self._run(*x)

    @abstractmethod
    def _run(self, *x: Any) -> Any:
        """What it computes."""


class Linear(LayerStep):
    """x Wᵀ + b; the graph may hold W turned, the axes of the input first."""

    def __init__(
        self, name: str, weight: str, n_in: int, n_out: int, bias: str = "", turned: bool = False
    ) -> None:
        super().__init__(name, *([f"{name} bias"] if bias else []))
        self.weight = nn.Parameter(torch.empty(n_out, n_in))
        self.bias = nn.Parameter(torch.empty(n_out)) if bias else None
        self.named = {weight: (self.weight, turned)}
        if self.bias is not None:
            self.named[bias] = (self.bias, False)

    def _run(self, x: Any) -> Any:
        return functional.linear(x, self.weight, self.bias)


class Norm(LayerStep):
    """A layer norm, or an RMS norm, of the last axis."""

    def __init__(self, name: str, y: str, n: int, epsilon: float, layer_norm: bool) -> None:
        super().__init__(name)
        self.epsilon, self.n = epsilon, n
        self.weight = nn.Parameter(torch.empty(n))
        self.bias = nn.Parameter(torch.empty(n)) if layer_norm else None
        self.named = {f"γ_{y}": (self.weight, False)}
        if self.bias is not None:
            self.named[f"β_{y}"] = (self.bias, False)

    def _run(self, x: Any) -> Any:
        if self.bias is None:
            return functional.rms_norm(x, (self.n,), self.weight, self.epsilon)
        return functional.layer_norm(x, (self.n,), self.weight, self.bias, self.epsilon)


class Activation(LayerStep):
    """ReLU or GELU."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(name)
        self.kind = kind

    def _run(self, x: Any) -> Any:
        if self.kind == "relu":
            return functional.relu(x)
        return functional.gelu(x, approximate="tanh" if self.kind == "gelu_tanh" else "none")


class SwiGLU(LayerStep):
    """silu(gate) · up."""

    def _run(self, gate: Any, up: Any) -> Any:
        return functional.silu(gate) * up


class Add(LayerStep):
    """A residual."""

    def _run(self, x: Any, y: Any) -> Any:
        return x + y


class Dropout(LayerStep):
    """Dropout."""

    def __init__(self, name: str, p: float) -> None:
        super().__init__(name)
        self.p = p

    def _run(self, x: Any) -> Any:
        return functional.dropout(x, self.p)


def _dropout(name: str, p: float) -> Any:
    return Dropout(name, p) if p else nn.Identity()


class Rope(LayerStep):
    """Pairs (a, a + d/2) turned by an angle."""

    def _run(self, x: Any, cos: Any, sin: Any) -> Any:
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-b, a), dim=-1) * sin


class Append(LayerStep):
    """New rows at the end of a cache, in place."""

    def _run(self, new: Any, cache: Any) -> Any:
        cache[:, :, cache.shape[2] - new.shape[2] :] = new
        return cache


def _shared(x: Any, heads: int) -> Any:
    """K or V, repeated for the heads of queries that share them."""
    batch, groups, n, p = x.shape
    if groups == heads:
        return x
    return x[:, :, None].expand(batch, groups, heads // groups, n, p).reshape(batch, heads, n, p)


class Scores(LayerStep):
    """QKᵀ."""

    def _run(self, q: Any, k: Any) -> Any:
        return q @ _shared(k, q.shape[1]).transpose(-1, -2)


class Scale(LayerStep):
    """x times a number."""

    def __init__(self, name: str, factor: float) -> None:
        super().__init__(name)
        self.factor = factor

    def _run(self, x: Any) -> Any:
        return x * self.factor


class CausalMask(LayerStep):
    """−∞ where a column is after its row."""

    def __init__(self, name: str, rows: int, columns: int) -> None:
        super().__init__(name)
        ahead = torch.ones(rows, columns, dtype=torch.bool).triu(1 + columns - rows)
        self.register_buffer("ahead", ahead)

    def _run(self, x: Any) -> Any:
        return x.masked_fill(self.ahead, -torch.inf)


class Softmax(LayerStep):
    """Of the last axis."""

    def _run(self, x: Any) -> Any:
        return torch.softmax(x, dim=-1)


class WeightedSum(LayerStep):
    """PV."""

    def _run(self, p: Any, v: Any) -> Any:
        return p @ _shared(v, p.shape[1])


class FusedAttention(LayerStep):
    """scaled_dot_product_attention."""

    def __init__(self, name: str, factor: float, causal: bool, p: float) -> None:
        super().__init__(name)
        self.factor, self.causal, self.p = factor, causal, p

    def _run(self, q: Any, k: Any, v: Any) -> Any:
        return functional.scaled_dot_product_attention(
            q,
            k,
            v,
            dropout_p=self.p,
            is_causal=self.causal,
            scale=self.factor,
            enable_gqa=k.shape[1] < q.shape[1],
        )


class WrittenAttention(nn.Module):  # type: ignore[misc]
    """Attention written out."""

    def __init__(self, ask: Ask, causal: bool) -> None:
        super().__init__()
        self.scores, self.softmax = Scores("scores"), Softmax("softmax")
        self.scale = Scale("scale", ask.config.head_size**-0.5)
        rows = 1 if ask.cached else ask.N
        self.mask = CausalMask("mask", rows, ask.N) if causal and rows > 1 else None
        self.drop = _dropout("attention dropout", ask.dropout)
        self.weighted_sum = WeightedSum("weighted sum")

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        """The weighted sum."""
        s = self.scale(self.scores(q, k))
        p = self.softmax(s if self.mask is None else self.mask(s))
        return self.weighted_sum(self.drop(p), v)


class SelfAttention(nn.Module):  # type: ignore[misc]
    """From the block's input to its output before dropout and residual, with K and V."""

    def __init__(self, ask: Ask, biases: bool, causal: bool, rope: bool) -> None:
        super().__init__()
        c = ask.config
        self.heads, self.groups, self.size = c.heads, c.kv_heads, c.head_size
        for y, name, heads in (
            ("Q", "query", c.heads),
            ("K", "key", c.kv_heads),
            ("V", "value", c.kv_heads),
        ):
            self.add_module(
                name,
                Linear(name, f"W{y}", c.hidden, heads * c.head_size, f"B{y}" if biases else ""),
            )
        self.query_rope = Rope("query rope") if rope else None
        self.key_rope = Rope("key rope") if rope else None
        self.append_key = Append("append key") if ask.cached else None
        self.append_value = Append("append value") if ask.cached else None
        if ask.attention == "fused":
            # One row at the end of a cache sees all of it.
            ahead = causal and not ask.cached
            factor = c.head_size**-0.5
            self.attend: Any = FusedAttention("attention", factor, ahead, ask.dropout)
        else:
            self.attend = WrittenAttention(ask, causal)
        self.output = Linear(
            "output", "WO", c.heads * c.head_size, c.hidden, "BO" if biases else "", turned=True
        )

    def _split(self, x: Any, heads: int) -> Any:
        return x.view(*x.shape[:2], heads, self.size).transpose(1, 2)

    def forward(self, x: Any, given: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """What the block, or the layer, gives."""
        q = self._split(self.query(x), self.heads)
        k = self._split(self.key(x), self.groups)
        v = self._split(self.value(x), self.groups)
        if self.query_rope is not None and self.key_rope is not None:
            q = self.query_rope(q, given["cos"], given["sin"])
            k = self.key_rope(k, given["cos"], given["sin"])
        if self.append_key is not None and self.append_value is not None:
            k = self.append_key(k, given["K cache"])
            v = self.append_value(v, given["V cache"])
        c = self.attend(q, k, v).transpose(1, 2).reshape(*x.shape[:2], self.heads * self.size)
        return self.output(c), k, v


class Layer(nn.Module):  # type: ignore[misc]
    """A layer: X and other inputs of the graph by name → Y, K and V.

    K and V of decoding are the caches, with the new rows in place.
    """

    def steps(self) -> Iterator[LayerStep]:
        """Its steps, in order."""
        return (x for x in self.modules() if isinstance(x, LayerStep))

    def weights(self) -> dict[str, tuple[Any, bool]]:
        """The graph's names of the parameters, and whether the graph holds them turned."""
        return {x: what for step in self.steps() for x, what in getattr(step, "named", {}).items()}


class Bert(Layer):
    """Norms behind the blocks, no mask."""

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        c, p = ask.config, ask.dropout
        self.attention = SelfAttention(ask, biases=True, causal=False, rope=False)
        self.output_dropout = _dropout("output dropout", p)
        self.attention_residual = Add("attention residual")
        self.attention_norm = Norm("attention norm", "Y1", c.hidden, 1e-12, True)
        self.linear_1 = Linear("linear 1", "W1", c.hidden, c.feed_forward, "BH")
        self.activation = Activation("activation", c.activation)
        self.activation_dropout = _dropout("activation dropout", p)
        self.linear_2 = Linear("linear 2", "W2", c.feed_forward, c.hidden, "BF")
        self.linear_2_dropout = _dropout("linear 2 dropout", p)
        self.residual = Add("feed-forward residual")
        self.norm = Norm("feed-forward norm", "Y", c.hidden, 1e-12, True)

    def forward(self, x: Any, given: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """What the block, or the layer, gives."""
        o, k, v = self.attention(x, given)
        y = self.attention_norm(self.attention_residual(self.output_dropout(o), x))
        a = self.activation_dropout(self.activation(self.linear_1(y)))
        f = self.linear_2_dropout(self.linear_2(a))
        return self.norm(self.residual(f, y)), k, v


class Gpt2(Layer):
    """Norms before the blocks, a causal mask."""

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        c, p = ask.config, ask.dropout
        self.norm_1 = Norm("norm 1", "N1", c.hidden, 1e-5, True)
        self.attention = SelfAttention(ask, biases=True, causal=True, rope=False)
        self.output_dropout = _dropout("output dropout", p)
        self.attention_residual = Add("attention residual")
        self.norm_2 = Norm("norm 2", "N2", c.hidden, 1e-5, True)
        self.linear_1 = Linear("linear 1", "W1", c.hidden, c.feed_forward, "BH", turned=True)
        self.activation = Activation("activation", "gelu_tanh")
        self.linear_2 = Linear("linear 2", "W2", c.feed_forward, c.hidden, "BF", turned=True)
        self.linear_2_dropout = _dropout("linear 2 dropout", p)
        self.residual = Add("feed-forward residual")

    def forward(self, x: Any, given: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """What the block, or the layer, gives."""
        o, k, v = self.attention(self.norm_1(x), given)
        x1 = self.attention_residual(self.output_dropout(o), x)
        f = self.linear_2(self.activation(self.linear_1(self.norm_2(x1))))
        return self.residual(self.linear_2_dropout(f), x1), k, v


class Llama(Layer):
    """RMS norms before the blocks, RoPE, heads that share keys and values, SwiGLU."""

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        c = ask.config
        self.norm_1 = Norm("norm 1", "N1", c.hidden, 1e-5, False)
        self.attention = SelfAttention(ask, biases=False, causal=True, rope=True)
        self.attention_residual = Add("attention residual")
        self.norm_2 = Norm("norm 2", "N2", c.hidden, 1e-5, False)
        self.gate = Linear("gate", "WG", c.hidden, c.feed_forward)
        self.up = Linear("up", "WU", c.hidden, c.feed_forward)
        self.activation = SwiGLU("activation")
        self.down = Linear("down", "WD", c.feed_forward, c.hidden)
        self.residual = Add("feed-forward residual")

    def forward(self, x: Any, given: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """What the block, or the layer, gives."""
        o, k, v = self.attention(self.norm_1(x), given)
        x1 = self.attention_residual(o, x)
        n = self.norm_2(x1)
        f = self.down(self.activation(self.gate(n), self.up(n)))
        return self.residual(f, x1), k, v


LAYERS: dict[str, type[Layer]] = {"bert": Bert, "gpt2": Gpt2, "llama": Llama}


def module(ask: Ask) -> Layer:
    """The layer of a model, its parameters not yet given.

    >>> from iosim.models.layers.architectures import asked
    >>> sorted(module(asked("gpt2", "prefill", 1, 8)).weights())[:3]
    ['BF', 'BH', 'BK']
    """
    return LAYERS[ask.config.family](ask)


def to_graph(parameter: Any, turned: bool, shape: tuple[int, ...]) -> Any:
    """A parameter, or its gradient, in the shape that the graph has."""
    return (parameter.T if turned else parameter).reshape(shape)


def from_graph(array: Any, turned: bool, like: Any) -> Any:
    """A tensor of the graph in the shape of a parameter."""
    return array.reshape(*like.shape[::-1]).T if turned else array.reshape(like.shape)


def covers(layer: Layer) -> dict[str, tuple[str, ...]]:
    """Each step's range → the operators of the graph that it covers."""
    return {step.covers[0]: step.covers for step in layer.steps()}


def step_of(path: str, layer: Layer) -> str:
    """The range of the step at a path of modules, as a compiler notes it; empty if there is none.

    >>> from iosim.models.layers.architectures import asked
    >>> layer = module(asked("gpt2", "prefill", 1, 8))
    >>> step_of("L['self'].attention.attend.scores", layer), step_of("L['self'].attention", layer)
    ('scores', '')
    """
    names = re.findall(r"\w+", path)
    for name, one in layer.named_modules():
        if isinstance(one, LayerStep) and names[-len(parts := name.split(".")) :] == parts:
            return str(one.covers[0])
    return ""
