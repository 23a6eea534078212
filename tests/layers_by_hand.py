"""Layers of transformers by hand in NumPy, a sequence, a head and a row at a time.

They take the arrays of a graph's inputs by name, and masks of dropout, and share no code with it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Arrays = dict[str, Any]


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * gamma + beta


def rms_norm(x: Any, gamma: Any) -> Any:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gamma


def softmax(s: Any) -> Any:
    e = np.exp(s - s.max())
    return e / e.sum()


def attention(Q: Any, K: Any, V: Any, mask: Any, *, causal: bool) -> Any:
    """Q (heads, rows, d); K and V have as many heads or fewer, and as many rows or more."""
    heads, rows, d = Q.shape
    share = heads // K.shape[0]
    found = np.zeros(Q.shape)
    for h in range(heads):
        for i in range(rows):
            last = K.shape[1] - rows + i + 1 if causal else K.shape[1]
            k, v = K[h // share, :last], V[h // share, :last]
            w = softmax(k @ Q[h, i] / math.sqrt(d))
            found[h, i] = (w * mask[h, i, :last]) @ v
    return found


def relu(x: Any) -> Any:
    return x * (x > 0)


def gelu(x: Any) -> Any:
    return x * np.vectorize(lambda t: 0.5 * (1 + math.erf(t / math.sqrt(2))))(x)


def gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def turned(x: Any, cos: Any, sin: Any) -> Any:
    """RoPE: word a and word a + d/2 of a row are turned as the parts of a complex number."""
    half = x.shape[-1] // 2
    z = (x[..., :half] + 1j * x[..., half:]) * (cos + 1j * sin)[..., :half]
    return np.concatenate([z.real, z.imag], axis=-1)


def heads(X: Any, W: Any, bias: Any = None) -> Any:
    """X (rows, i) by W (heads, p, i): (heads, rows, p)."""
    flat = W.reshape(-1, *W.shape[-2:])
    added = np.zeros(flat.shape[:2]) if bias is None else bias.reshape(flat.shape[:2])
    return np.stack([X @ w.T + c for w, c in zip(flat, added, strict=True)])


def gathered(C: Any, W: Any) -> Any:
    """C (heads, rows, p) by W (heads, p, i): (rows, i)."""
    return sum(c @ w for c, w in zip(C, W.reshape(-1, *W.shape[-2:]), strict=True))


def bert(a: Arrays, m: Arrays, b: int, act: Any = relu) -> Any:
    X = a["X"][b]
    q, k, v = (heads(X, a[f"W{y}"], a[f"B{y}"]) for y in "QKV")
    C = attention(q, k, v, m["P"][b], causal=False)
    O = gathered(C, a["WO"]) + a["BO"]
    Y1 = layer_norm(O * m["O"][b] + X, a["γ_Y1"], a["β_Y1"], 1e-12)
    A = act(Y1 @ a["W1"].T + a["BH"]) * m["A"][b]
    F = A @ a["W2"].T + a["BF"]
    return layer_norm(F * m["F"][b] + Y1, a["γ_Y"], a["β_Y"], 1e-12)


def gpt2(a: Arrays, m: Arrays, b: int) -> Any:
    X = a["X"][b]
    N1 = layer_norm(X, a["γ_N1"], a["β_N1"], 1e-5)
    q, k, v = (heads(N1, a[f"W{y}"], a[f"B{y}"]) for y in "QKV")
    C = attention(q, k, v, m["P"][b], causal=True)
    X1 = (gathered(C, a["WO"]) + a["BO"]) * m["O"][b] + X
    N2 = layer_norm(X1, a["γ_N2"], a["β_N2"], 1e-5)
    return (gelu_tanh(N2 @ a["W1"] + a["BH"]) @ a["W2"] + a["BF"]) * m["F"][b] + X1


def llama_attention(a: Arrays, b: int) -> Any:
    X = a["X"][b]
    N1 = rms_norm(X, a["γ_N1"])
    q, k, v = (heads(N1, a[f"W{y}"]) for y in "QKV")
    q, k = (turned(x, a["cos"], a["sin"]) for x in (q, k))
    C = attention(q, k, v, np.ones((len(q), *[len(X)] * 2)), causal=True)
    return gathered(C, a["WO"]) + X


def llama(a: Arrays, m: Arrays, b: int) -> Any:
    X1 = llama_attention(a, b)
    N2 = rms_norm(X1, a["γ_N2"])
    return (silu(N2 @ a["WG"].T) * (N2 @ a["WU"].T)) @ a["WD"].T + X1


def mixture(a: Arrays, m: Arrays, b: int, active: int = 2) -> Any:
    """One token and one of its experts at a time; the weights are a softmax over all experts that
    is made to sum to one again over the chosen."""
    X1 = llama_attention(a, b)
    found = X1.copy()
    for i, x in enumerate(rms_norm(X1, a["γ_N2"])):
        p = softmax(a["WR"] @ x)
        chosen = sorted(range(len(p)), key=lambda e: -p[e])[:active]
        for e in chosen:
            y = a["WD"][e] @ (silu(a["WG"][e] @ x) * (a["WU"][e] @ x))
            found[i] += p[e] / sum(p[c] for c in chosen) * y
    return found


LAYERS = {"bert": bert, "gpt2": gpt2, "llama": llama, "mixture": mixture}
