"""One layer of BERT, of GPT-2 and of Llama 3 in PyTorch, as people write them.

Each operator, or linear operator with its bias, is a module of its own, a `LayerStep`, which knows
the operators of the graph that it covers.  That is how kernels are mapped to operators: in eager
runs by the range that each step opens for the profiler, in compiled ones by the module that the
compiler notes for each node.  Parameters are called as in the graph (`Layer.weights`).

`tasks` builds them.  A new model is a module here, beside a case in `cases`.
``tests/gpu/test_gpu_modules.py`` compares them with graphs, in float64 on the CPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from iosim.base.rows import Values
from iosim.models.layers.blocks import Ask

RANGE = "iosim: "  # what the names of ranges begin with


class LayerStep(nn.Module):  # type: ignore[misc]
    """A module that covers operators of the graph, named as there.

    Args:
        function: what it computes.
    """

    def __init__(self, *covers: str, function: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.covers, self.function = covers, function
        self.named: dict[str, tuple[Any, bool]] = {}

    def forward(self, *x: Any) -> Any:
        """Run it, within a range of its name where no compiler is at work."""
        if torch.compiler.is_compiling():
            return self.run(*x)
        with torch.profiler.record_function(RANGE + self.covers[0]):
            return self.run(*x)

    def run(self, *x: Any) -> Any:
        """What it computes."""
        assert self.function is not None
        return self.function(*x)


class Linear(LayerStep):
    """x Wᵀ + b; the graph may hold W turned, the axes of the input first."""

    def __init__(
        self, name: str, weight: str, n_in: int, n_out: int, bias: str = "", turned: bool = False
    ) -> None:
        super().__init__(name, *([f"{name} bias"] if bias else []))
        self.weight = nn.Parameter(torch.empty(n_out, n_in))
        self.bias = nn.Parameter(torch.empty(n_out)) if bias else None
        self.named[weight] = (self.weight, turned)
        if self.bias is not None:
            self.named[bias] = (self.bias, False)

    def run(self, x: Any) -> Any:
        """x Wᵀ + b."""
        return functional.linear(x, self.weight, self.bias)


class Norm(LayerStep):
    """A layer norm, or an RMS norm, of the last axis."""

    def __init__(self, name: str, y: str, n: int, epsilon: float, layer_norm: bool) -> None:
        super().__init__(name)
        self.epsilon, self.n = epsilon, n
        self.weight = nn.Parameter(torch.empty(n))
        self.bias = nn.Parameter(torch.empty(n)) if layer_norm else None
        self.named[f"γ_{y}"] = (self.weight, False)
        if self.bias is not None:
            self.named[f"β_{y}"] = (self.bias, False)

    def run(self, x: Any) -> Any:
        """x, normalized."""
        if self.bias is None:
            return functional.rms_norm(x, (self.n,), self.weight, self.epsilon)
        return functional.layer_norm(x, (self.n,), self.weight, self.bias, self.epsilon)


class CausalMask(LayerStep):
    """−∞ where a column is after its row."""

    def __init__(self, name: str, rows: int, columns: int) -> None:
        super().__init__(name)
        ahead = torch.ones(rows, columns, dtype=torch.bool).triu(1 + columns - rows)
        self.register_buffer("ahead", ahead)

    def run(self, x: Any) -> Any:
        """x, masked."""
        return x.masked_fill(self.ahead, -torch.inf)


def _dropout(name: str, p: float) -> Any:
    return LayerStep(name, function=lambda x: functional.dropout(x, p)) if p else nn.Identity()


def _rope(x: Any, cos: Any, sin: Any) -> Any:
    """Pairs (a, a + d/2) turned by an angle."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


def _append(new: Any, cache: Any) -> Any:
    """New rows at the end of a cache, in place."""
    cache[:, :, cache.shape[2] - new.shape[2] :] = new
    return cache


def _shared(x: Any, heads: int) -> Any:
    """K or V, repeated for the heads of queries that share them."""
    batch, groups, n, p = x.shape
    if groups == heads:
        return x
    return x[:, :, None].expand(batch, groups, heads // groups, n, p).reshape(batch, heads, n, p)


def _scores(q: Any, k: Any) -> Any:
    return q @ _shared(k, q.shape[1]).transpose(-1, -2)


def _scale(x: Any, factor: float) -> Any:
    return x * factor


def _weighted_sum(p: Any, v: Any) -> Any:
    return p @ _shared(v, p.shape[1])


def _fused(q: Any, k: Any, v: Any, **how: Any) -> Any:
    attend = functional.scaled_dot_product_attention
    return attend(q, k, v, **how, enable_gqa=k.shape[1] < q.shape[1])


def _swiglu(gate: Any, up: Any) -> Any:
    return functional.silu(gate) * up


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
}


@dataclass(frozen=True)
class LayerFamily:
    """How the layers of a family differ.

    Attributes:
        norms_last: norms come after the blocks, not before them.
        layer_norms: norms have means and biases, and linear operators biases.
        epsilon: of the norms.
        causal: under a causal mask.
        rope: queries and keys are turned, and the feed-forward network has gates.
        turned: the graph holds the weights of the feed-forward network turned.
    """

    norms_last: bool = False
    layer_norms: bool = True
    epsilon: float = 1e-5
    causal: bool = True
    rope: bool = False
    turned: bool = False


FAMILIES = {
    "bert": LayerFamily(norms_last=True, epsilon=1e-12, causal=False),
    "gpt2": LayerFamily(turned=True),
    "llama": LayerFamily(layer_norms=False, rope=True),
}


class WrittenAttention(nn.Module):  # type: ignore[misc]
    """Attention written out."""

    def __init__(self, ask: Ask, causal: bool) -> None:
        super().__init__()
        self.scores = LayerStep("scores", function=_scores)
        self.softmax = LayerStep("softmax", function=partial(torch.softmax, dim=-1))
        self.scale = LayerStep("scale", function=partial(_scale, factor=ask.config.head_size**-0.5))
        rows = 1 if ask.cached else ask.N
        self.mask = CausalMask("mask", rows, ask.N) if causal and rows > 1 else nn.Identity()
        self.drop = _dropout("attention dropout", ask.dropout)
        self.weighted_sum = LayerStep("weighted sum", function=_weighted_sum)

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        """The weighted sum."""
        p = self.softmax(self.mask(self.scale(self.scores(q, k))))
        return self.weighted_sum(self.drop(p), v)


class SelfAttention(nn.Module):  # type: ignore[misc]
    """From the block's input to its output before dropout and residual, with K and V."""

    def __init__(self, ask: Ask, of: LayerFamily) -> None:
        super().__init__()
        c = ask.config
        self.heads, self.size = c.heads, c.head_size
        for y, name in zip("QKV", ("query", "key", "value"), strict=True):
            width = (c.heads if y == "Q" else c.kv_heads) * c.head_size
            linear = Linear(name, f"W{y}", c.hidden, width, f"B{y}" if of.layer_norms else "")
            self.add_module(name, linear)
        for name in ("query", "key") if of.rope else ():
            self.add_module(f"{name}_rope", LayerStep(f"{name} rope", function=_rope))
        for name in ("key", "value") if ask.cached else ():
            self.add_module(f"append_{name}", LayerStep(f"append {name}", function=_append))
        self.rope, self.cached = of.rope, ask.cached
        if ask.attention == "fused":
            # One row at the end of a cache sees all of it.
            how = {"is_causal": of.causal and not ask.cached, "scale": c.head_size**-0.5}
            fused = partial(_fused, **how, dropout_p=ask.dropout)
            self.attend: Any = LayerStep("attention", function=fused)
        else:
            self.attend = WrittenAttention(ask, of.causal)
        self.output = Linear(
            "output",
            "WO",
            c.heads * c.head_size,
            c.hidden,
            "BO" if of.layer_norms else "",
            turned=True,
        )

    def forward(self, x: Any, given: Values) -> tuple[Any, Any, Any]:
        """What the block, or the layer, gives."""
        q, k, v = (
            y.view(*y.shape[:2], -1, self.size).transpose(1, 2)
            for y in (self.query(x), self.key(x), self.value(x))
        )
        if self.rope:
            q = self.query_rope(q, given["cos"], given["sin"])
            k = self.key_rope(k, given["cos"], given["sin"])
        if self.cached:
            k = self.append_key(k, given["K cache"])
            v = self.append_value(v, given["V cache"])
        c = self.attend(q, k, v).transpose(1, 2).reshape(*x.shape[:2], self.heads * self.size)
        return self.output(c), k, v


class DenseNetwork(nn.Module):  # type: ignore[misc]
    """Two linear operators around an activation."""

    def __init__(self, ask: Ask, of: LayerFamily) -> None:
        super().__init__()
        c = ask.config
        kind = c.activation if of.norms_last else "gelu_tanh"
        self.linear_1 = Linear("linear 1", "W1", c.hidden, c.feed_forward, "BH", of.turned)
        self.activation = LayerStep("activation", function=_ACTIVATIONS[kind])
        self.drop = _dropout("activation dropout", ask.dropout if of.norms_last else 0)
        self.linear_2 = Linear("linear 2", "W2", c.feed_forward, c.hidden, "BF", of.turned)
        self.drop_2 = _dropout("linear 2 dropout", ask.dropout)

    def forward(self, x: Any) -> Any:
        """Its output, with dropout."""
        return self.drop_2(self.linear_2(self.drop(self.activation(self.linear_1(x)))))


class GatedNetwork(nn.Module):  # type: ignore[misc]
    """down(silu(gate) · up)."""

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        c = ask.config
        self.gate = Linear("gate", "WG", c.hidden, c.feed_forward)
        self.up = Linear("up", "WU", c.hidden, c.feed_forward)
        self.activation = LayerStep("activation", function=_swiglu)
        self.down = Linear("down", "WD", c.feed_forward, c.hidden)

    def forward(self, x: Any) -> Any:
        """Its output."""
        return self.down(self.activation(self.gate(x), self.up(x)))


class Layer(nn.Module):  # type: ignore[misc]
    """A layer: X and other inputs of the graph by name → Y, K and V.

    K and V of decoding are the caches, with the new rows in place.
    """

    def __init__(self, ask: Ask, of: LayerFamily) -> None:
        super().__init__()
        self.norms_last = of.norms_last
        names = (("norm 1", "N1"), ("norm 2", "N2"))
        if of.norms_last:
            names = (("attention norm", "Y1"), ("feed-forward norm", "Y"))
        self.norm_1, self.norm_2 = (
            Norm(name, y, ask.config.hidden, of.epsilon, of.layer_norms) for name, y in names
        )
        self.attention = SelfAttention(ask, of)
        self.output_dropout = _dropout("output dropout", ask.dropout)
        self.attention_residual = LayerStep("attention residual", function=add)
        self.feed_forward = GatedNetwork(ask) if of.rope else DenseNetwork(ask, of)
        self.residual = LayerStep("feed-forward residual", function=add)

    def forward(self, x: Any, given: Values) -> tuple[Any, Any, Any]:
        """What the block, or the layer, gives."""
        o, k, v = self.attention(x if self.norms_last else self.norm_1(x), given)
        y = self.attention_residual(self.output_dropout(o), x)
        if self.norms_last:
            y = self.norm_1(y)
            return self.norm_2(self.residual(self.feed_forward(y), y)), k, v
        return self.residual(self.feed_forward(self.norm_2(y)), y), k, v

    def steps(self) -> Iterator[LayerStep]:
        """Its steps, in order."""
        return (x for x in self.modules() if isinstance(x, LayerStep))

    def weights(self) -> dict[str, tuple[Any, bool]]:
        """The graph's names of the parameters, and whether the graph holds them turned."""
        return {x: what for step in self.steps() for x, what in step.named.items()}


def module(ask: Ask) -> Layer:
    """The layer of a model, its parameters not yet given.

    >>> from iosim.models.layers.architectures import asked
    >>> sorted(module(asked("gpt2", "prefill", 1, 8)).weights())[:3]
    ['BF', 'BH', 'BK']
    """
    return Layer(ask, FAMILIES[ask.config.family])


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
