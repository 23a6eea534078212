"""Modules of PyTorch, small, for the tests of graphs that are made from them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 24), nn.Linear(24, 8, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class GPT2(nn.Module):
    """A block as Hugging Face writes it: one product for Q, K and V, a mask that is a buffer."""

    def __init__(self, width: int = 16, heads: int = 4, context: int = 12) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.Parameter(torch.randn(width, 3 * width) / 4)
        self.attn_bias = nn.Parameter(torch.randn(3 * width))
        self.proj, self.fc, self.out = (
            nn.Linear(width, width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )
        seen = torch.tril(torch.ones(context, context, dtype=torch.bool))
        self.register_buffer("seen", seen.view(1, 1, context, context), persistent=False)

    def forward(self, x: Any) -> Any:
        batch, rows, width = x.shape
        h = self.ln_1(x)
        flat = torch.addmm(self.attn_bias, h.view(-1, width), self.attn)
        q, k, v = (
            y.view(batch, rows, self.heads, -1).transpose(1, 2)
            for y in flat.view(batch, rows, 3 * width).split(width, dim=2)
        )
        scores = torch.matmul(q, k.transpose(-1, -2)) / v.size(-1) ** 0.5
        least = torch.finfo(scores.dtype).min
        scores = torch.where(self.seen[:, :, :rows, :rows], scores, least)
        weights = F.dropout(F.softmax(scores, dim=-1), 0.1, self.training)
        y = torch.matmul(weights, v).transpose(1, 2).contiguous().view(batch, rows, width)
        x = x + F.dropout(self.proj(y), 0.1, self.training)
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class RMSNorm(nn.Module):
    """As Hugging Face writes it, in pieces."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Any) -> Any:
        dtype = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * x.to(dtype)


def half(x: Any) -> Any:
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-b, a), dim=-1)


class Llama(nn.Module):
    """A layer as Hugging Face writes it: grouped heads, RoPE, SwiGLU."""

    def __init__(self, width: int = 16, heads: int = 4, groups: int = 2, how: str = "gqa") -> None:
        super().__init__()
        self.heads, self.groups, self.size, self.how = heads, groups, width // heads, how
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        own = groups * self.size
        self.q, self.k, self.v, self.o = (
            nn.Linear(width, n, bias=False) for n in (width, own, own, width)
        )
        self.gate, self.up, self.down = (
            nn.Linear(width, 40, bias=False),
            nn.Linear(width, 40, bias=False),
            nn.Linear(40, width, bias=False),
        )
        angles = 10000 ** -(torch.arange(0, self.size, 2).float() / self.size)
        self.register_buffer("angles", angles, persistent=False)

    def forward(self, x: Any, mask: Any = None) -> Any:
        batch, rows, width = x.shape
        turns = torch.outer(torch.arange(rows).float(), self.angles)
        turns = torch.cat((turns, turns), dim=-1)
        cos, sin = turns.cos()[None, None], turns.sin()[None, None]
        h = self.norm1(x)
        q = self.q(h).view(batch, rows, self.heads, self.size).transpose(1, 2)
        k = self.k(h).view(batch, rows, self.groups, self.size).transpose(1, 2)
        v = self.v(h).view(batch, rows, self.groups, self.size).transpose(1, 2)
        q, k = q * cos + half(q) * sin, k * cos + half(k) * sin
        if self.how == "gqa":
            o = F.scaled_dot_product_attention(
                q, k, v, mask, is_causal=mask is None, enable_gqa=True
            )
        else:
            n = self.heads // self.groups
            k, v = (
                y[:, :, None]
                .expand(batch, self.groups, n, rows, self.size)
                .reshape(batch, self.heads, rows, self.size)
                for y in (k, v)
            )
            o = F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None)
        x = x + self.o(o.transpose(1, 2).reshape(batch, rows, width))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    """Tokens to a loss: an embedding, a layer, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(20, 16), nn.Embedding(12, 16)
        self.layer, self.norm = GPT2(), nn.LayerNorm(16)
        self.head = nn.Linear(16, 20, bias=False)

    def forward(self, ids: Any, labels: Any) -> Any:
        places = torch.arange(ids.shape[1])
        x = self.norm(self.layer(self.tokens(ids) + self.places(places)))
        logits = self.head(x)
        return F.cross_entropy(logits.view(-1, 20), labels.view(-1)), logits


def cases() -> dict[str, tuple[nn.Module, tuple[Any, ...]]]:
    torch.manual_seed(3)
    x = torch.randn(2, 6, 16)
    encoder = nn.TransformerEncoderLayer
    upper = torch.full((6, 6), float("-inf")).triu(1)[None, None]
    found = {
        "MLP": (MLP(), (torch.randn(3, 5, 8),)),
        "BERT": (encoder(16, 4, 64, 0.1, "gelu", batch_first=True), (x,)),
        "encoder, batch second": (encoder(16, 4, 32, norm_first=True), (x,)),
        "GPT-2": (GPT2(), (x,)),
        "GPT-2, one sequence": (GPT2(), (x[:1],)),
        "Llama": (Llama(), (x,)),
        "Llama, keys repeated": (Llama(how="repeat"), (x,)),
        "Llama, a mask": (Llama(), (x, upper)),
        "Llama, a mask of booleans": (Llama(how="repeat"), (x, upper == 0)),
        "a model": (Model(), (torch.randint(20, (2, 6)), torch.randint(20, (2, 6)))),
        "attention with weights": (
            nn.MultiheadAttention(16, 4, batch_first=True),
            (x, x[:, :5], x[:, :5]),
        ),
    }
    return {name: (module.eval(), inputs) for name, (module, inputs) in found.items()}
