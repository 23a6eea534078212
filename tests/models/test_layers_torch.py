"""Layers as graphs against PyTorch on the CPU: its own layers where it has them, and autograd.

PyTorch is several hundred megabytes and no part of the test extra, so these are skipped where it is
missing.  Nothing rests on them alone: `test_layers.py` holds the same layers against layers by hand
and finite differences everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layer_runs import BERT, DECODERS, GPT2, SMALL, WAYS, Arrays, Model, angles, draw_inputs, masks

from iosim.models.layers.architectures import layer
from iosim.models.layers.models import Config
from iosim.models.layers.workload import workload

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
F = torch.nn.functional

each = pytest.mark.parametrize("config", SMALL, ids=lambda c: c.family)
decoder = pytest.mark.parametrize("config", DECODERS, ids=lambda c: c.family)
fused_or_not = pytest.mark.parametrize("attention", WAYS)


def tensors(arrays: Arrays) -> dict[str, Any]:
    found = {}
    for name, x in arrays.items():
        found[name] = torch.tensor(x)
        if found[name].is_floating_point():
            found[name].requires_grad_()
    return found


def assert_close(got: Any, want: Any, name: str = "") -> None:
    np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-9, atol=1e-11, err_msg=name)


def in_heads(X: Any, W: Any, bias: Any, p: int) -> Any:
    """(b, j, i) to (b, heads, j, p)."""
    y = F.linear(X, W.reshape(-1, W.shape[-1]), None if bias is None else bias.reshape(-1))
    return y.unflatten(-1, (-1, p)).transpose(1, 2)


def out(C: Any, W: Any, bias: Any = None) -> Any:
    """(b, heads, j, p) to (b, j, i)."""
    return F.linear(C.transpose(1, 2).flatten(2), W.reshape(-1, W.shape[-1]).T, bias)


def attention(q: Any, k: Any, v: Any, mask: Any, *, causal: bool) -> Any:
    """PyTorch's own where nothing is dropped; rows are the last of the columns."""
    rows, columns = q.shape[2], k.shape[2]
    seen = torch.ones(rows, columns, dtype=torch.bool)
    if causal:
        seen = seen.tril(columns - rows)
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
    s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf)
    return (torch.softmax(s, -1) * mask) @ v


def turned(x: Any, a: Any) -> Any:
    """RoPE, as Hugging Face writes it."""
    half = x.shape[-1] // 2
    return x * a["cos"] + torch.cat([-x[..., half:], x[..., :half]], -1) * a["sin"]


def projected(a: Any, X: Any, p: int) -> list[Any]:
    q, k, v = (in_heads(X, a[f"W{y}"], a.get(f"B{y}"), p) for y in "QKV")
    if "cos" in a:
        q, k = turned(q, a), turned(k, a)
    if "K cache" in a:
        new = q.shape[2]
        k, v = (torch.cat([a[f"{y} cache"][:, :, :-new], x], 2) for y, x in (("K", k), ("V", v)))
    return [q, k, v]


def bert(config: Config, a: Any, m: Any) -> Any:
    X, i = a["X"], (config.hidden,)
    C = attention(*projected(a, X, config.head_size), m.get("P"), causal=False)
    O = out(C, a["WO"], a["BO"]) * m.get("O", 1)
    Y1 = F.layer_norm(O + X, i, a["γ_Y1"], a["β_Y1"], 1e-12)
    A = F.relu(F.linear(Y1, a["W1"], a["BH"])) * m.get("A", 1)
    return F.layer_norm(
        F.linear(A, a["W2"], a["BF"]) * m.get("F", 1) + Y1, i, a["γ_Y"], a["β_Y"], 1e-12
    )


def gpt2(config: Config, a: Any, m: Any) -> Any:
    X, i = a["X"], (config.hidden,)
    N1 = F.layer_norm(X, i, a["γ_N1"], a["β_N1"])
    C = attention(*projected(a, N1, config.head_size), m.get("P"), causal=True)
    X1 = out(C, a["WO"], a["BO"]) * m.get("O", 1) + X
    N2 = F.layer_norm(X1, i, a["γ_N2"], a["β_N2"])
    A = F.gelu(F.linear(N2, a["W1"].T, a["BH"]), approximate="tanh")
    return F.linear(A, a["W2"].T, a["BF"]) * m.get("F", 1) + X1


def llama_attention(config: Config, a: Any) -> Any:
    N1 = F.rms_norm(a["X"], (config.hidden,), a["γ_N1"], 1e-5)
    C = attention(*projected(a, N1, config.head_size), None, causal=True)
    return out(C, a["WO"]) + a["X"]


def expert(x: Any, gate: Any, up: Any, down: Any) -> Any:
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def llama(config: Config, a: Any, m: Any) -> Any:
    X1 = llama_attention(config, a)
    N2 = F.rms_norm(X1, (config.hidden,), a["γ_N2"], 1e-5)
    return expert(N2, a["WG"], a["WU"], a["WD"]) + X1


def mixture(config: Config, a: Any, m: Any) -> Any:
    """An expert after the other, as Hugging Face's Mixtral does."""
    X1 = llama_attention(config, a)
    tokens = F.rms_norm(X1, (config.hidden,), a["γ_N2"], 1e-5).flatten(0, 1)
    p, chosen = torch.topk(torch.softmax(F.linear(tokens, a["WR"]), -1), config.active)
    p = p / p.sum(-1, keepdim=True)
    total = torch.zeros_like(tokens)
    for e in range(config.experts):
        token, slot = torch.where(chosen == e)
        y = expert(tokens[token], a["WG"][e], a["WU"][e], a["WD"][e])
        total = total.index_add(0, token, y * p[token, slot, None])
    return total.reshape(X1.shape) + X1


LAYERS = {"bert": bert, "gpt2": gpt2, "llama": llama, "mixture": mixture}


@fused_or_not
@each
def test_training(config: Config, attention: str) -> None:
    graph = layer(config, "training", batch=3, N=5, attention=attention)
    arrays = draw_inputs(graph)
    run = graph.run(arrays)
    a = tensors(arrays)
    plain = layer(config, "training", batch=3, N=5)  # where the weights' mask is a tensor
    m = {x: torch.tensor(y) for x, y in masks(plain, plain.run(arrays)).items()}
    Y = LAYERS[config.family](config, a, m if config.dropout else {})
    Y.backward(a["dY"])
    assert_close(run["Y"], Y, "Y")
    names = ["X", *(t.name for t in graph.inputs if t.role == "weight")]
    for name in names:
        assert_close(run[f"d{name}"], a[name].grad, name)


@fused_or_not
@each
def test_prefill(config: Config, attention: str) -> None:
    graph = layer(config, "prefill", batch=3, N=5, attention=attention)
    arrays = draw_inputs(graph)
    assert_close(graph.run(arrays)["Y"], LAYERS[config.family](config, tensors(arrays), {}))


@pytest.mark.parametrize("tokens", [1, 3])
@fused_or_not
@decoder
def test_decoding(config: Config, attention: str, tokens: int) -> None:
    graph = layer(config, "decode", batch=3, N=7, tokens=tokens, attention=attention)
    arrays = draw_inputs(graph)
    if "cos" in arrays:
        arrays |= angles(tokens, config.head_size, 7 - tokens)
    run = graph.run(arrays)
    a = tensors(arrays)
    assert_close(run["Y"], LAYERS[config.family](config, a, {}))


@pytest.mark.parametrize("config", [BERT, GPT2], ids=lambda c: c.family)
def test_pytorch_has_the_layer_itself(config: Config) -> None:
    """`TransformerEncoderLayer`, without dropout; GPT-2's is one whose norms come first."""
    graph = layer(config, "prefill", batch=3, N=5)
    arrays = draw_inputs(graph)
    first, epsilon = config is GPT2, 1e-5 if config is GPT2 else 1e-12
    module = torch.nn.TransformerEncoderLayer(
        config.hidden,
        config.heads,
        config.feed_forward,
        0.0,
        (lambda x: F.gelu(x, approximate="tanh")) if first else "relu",
        epsilon,
        batch_first=True,
        norm_first=first,
        dtype=torch.float64,
    )
    a = tensors(arrays)
    norms = ("N1", "N2") if first else ("Y1", "Y")
    one, two = (a["W1"].T, a["W2"].T) if first else (a["W1"], a["W2"])
    module.load_state_dict(
        {
            "self_attn.in_proj_weight": torch.cat([a[f"W{y}"].flatten(0, 1) for y in "QKV"]),
            "self_attn.in_proj_bias": torch.cat([a[f"B{y}"].flatten() for y in "QKV"]),
            "self_attn.out_proj.weight": a["WO"].flatten(0, 1).T,
            "self_attn.out_proj.bias": a["BO"],
            "linear1.weight": one,
            "linear1.bias": a["BH"],
            "linear2.weight": two,
            "linear2.bias": a["BF"],
            "norm1.weight": a[f"γ_{norms[0]}"],
            "norm1.bias": a[f"β_{norms[0]}"],
            "norm2.weight": a[f"γ_{norms[1]}"],
            "norm2.bias": a[f"β_{norms[1]}"],
        }
    )
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    Y = module(a["X"], src_mask=mask if first else None)
    assert_close(graph.run(arrays)["Y"], Y)


# ---- a whole model -------------------------------------------------------------------------------


def trained(config: Config, model: Model, w: Any, runs: list[Arrays]) -> Any:
    """The loss, from tokens' numbers; masks of dropout are those of the runs."""
    first, last = tensors(model.arrays[0]), tensors(model.arrays[-1])
    names = ("E", "NE")
    mask = {x: torch.tensor(runs[0][f"{x} mask"]) for x in names if f"{x} mask" in runs[0]}
    X = F.embedding(first["ids"], w[0, "WT"])
    if (0, "WP") in w:
        X = X + F.embedding(first["positions"], w[0, "WP"])
    if (0, "WS") in w:
        X = X + F.embedding(first["segments"], w[0, "WS"])
    if (0, "γ_NE") in w:
        X = F.layer_norm(X, X.shape[-1:], w[0, "γ_NE"], w[0, "β_NE"], 1e-12)
    for m in mask.values():
        X = X * m
    for k in range(1, len(model.graphs) - 1):
        own = {name: x for (at, name), x in w.items() if at == k}
        given = {
            x: torch.tensor(model.arrays[k][x]) for x in ("cos", "sin") if x in model.arrays[k]
        }
        m = {x: torch.tensor(y) for x, y in masks(model.graphs[k], runs[k]).items()}
        X = LAYERS[config.family](config, {**own, **given, "X": X}, m if config.dropout else {})
    end, i = len(model.graphs) - 1, X.shape[-1:]
    bias = None
    if config.family == "bert":
        X = F.gelu(F.linear(X, w[end, "WM"].T, w[end, "BM"]))
        X = F.layer_norm(X, i, w[end, "γ_N"], w[end, "β_N"], 1e-12)
        bias = w[end, "BL"]
    elif config.family == "gpt2":
        X = F.layer_norm(X, i, w[end, "γ_N"], w[end, "β_N"])
    else:
        X = F.rms_norm(X, i, w[end, "γ_N"], 1e-5)
    table = w[0, "WT"] if model.tied else w[end, "WL"]
    logits = F.linear(X, table, bias)
    return F.cross_entropy(logits.flatten(0, 1), last["labels"].flatten())


@each
def test_a_step_of_training_of_a_whole_model(config: Config) -> None:
    model = Model(config)
    got, runs = model.gradients(), model.forward()
    w = {(k, name): torch.tensor(model.arrays[k][name], requires_grad=True) for k, name in got}
    loss = trained(config, model, w, runs)
    assert runs[-1]["loss"].mean() == pytest.approx(loss.item(), rel=1e-12)
    loss.backward()
    for key, dw in got.items():
        assert_close(dw, w[key].grad, str(key))

    adam = torch.optim.AdamW(w.values(), lr=1e-4, weight_decay=0.01)
    adam.step()
    stages = [part.graph for part in workload(config, "training", batch=2, N=4).parts[3:]]
    for (k, name), dw in got.items():
        one = 0 < k < len(model.graphs) - 1
        graph = stages[0 if one else 1]
        (op,) = (o for o in graph.operators if o.name == f"{name} step")
        zero = np.zeros(dw.shape)
        new, *_ = op(model.arrays[k][name], dw, zero, zero)
        assert_close(new, w[k, name], name)
