"""The PyTorch layers that are measured compute what the graphs say: on the CPU, in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_layers import BERT, GPT2, LLAMA, draw_inputs

from iosim.models.layers.architectures import check_request, layer

torch = pytest.importorskip("torch")
from iosim.gpu.layers import modules  # noqa: E402

pytestmark = pytest.mark.torch
N = 6


def _double(x: Any) -> Any:
    return torch.from_numpy(np.array(x, dtype=np.float64))


def _built(config: Any, phase: str, attention: str) -> tuple[Any, dict[str, Any], Any, Any]:
    graph = layer(config, phase, batch=3, N=N, attention=attention)
    arrays = draw_inputs(graph)
    made = modules.module(check_request(config, phase, 3, N, attention=attention)).double()
    for name, (parameter, turned) in made.weights().items():
        parameter.data = modules.from_graph(_double(arrays[name]), turned, parameter)
    others = {x: _double(a) for x, a in arrays.items() if x in ("cos", "sin")}
    if phase == "decode":
        groups = (graph.tensors[f"{x} cache"].shape for x in "KV")
        others |= {
            f"{x} cache": _double(arrays[f"{x} cache"]).reshape(shape)
            for x, shape in zip("KV", groups, strict=True)
        }
    return graph, arrays, made, others


def _near(got: Any, want: Any, what: str) -> None:
    np.testing.assert_allclose(got.detach().numpy(), want, atol=1e-10, err_msg=what)


def phases(configs):
    """Each model in each phase that it has: BERT doesn't decode."""
    return [
        pytest.param(c, phase, id=f"{c.family}-{c.activation}-{c.kv_heads}-{phase}")
        for c in configs
        for phase in ("training", "prefill", *["decode"] * (c.family != "bert"))
    ]


CONFIGS = [BERT, replace(BERT, activation="relu"), GPT2, LLAMA, replace(LLAMA, kv_heads=4)]


@pytest.mark.parametrize("attention", ["unfused", "fused"])
@pytest.mark.parametrize(("config", "phase"), phases(CONFIGS))
def test_a_layer_computes_what_its_graph_does(config, phase, attention, monkeypatch) -> None:
    if attention == "fused":
        config = replace(config, dropout=0.0)  # PyTorch draws the mask inside of the kernel
    graph, arrays, made, others = _built(config, phase, attention)
    want = graph.run(arrays)
    # The masks of the graph, in the order in which it has them.
    drops = [op for op in graph.operators if op.kind.name == "dropout"]
    masks = iter([want[op.writes[1].name] for op in drops])
    monkeypatch.setattr(
        torch.nn.functional, "dropout", lambda x, p: x * _double(next(masks)).reshape(x.shape)
    )
    x = _double(arrays["X"]).requires_grad_(phase == "training")
    y, k, v = made(x, others)
    assert next(masks, None) is None
    _near(y, want["Y"], "Y")
    if phase != "training":
        _near(k, want["K"], "K")
        _near(v, want["V"], "V")
        return
    named = made.weights()
    parameters = [p for p, _ in named.values()]
    dx, *grads = torch.autograd.grad(y, [x, *parameters], _double(arrays["dY"]))
    _near(dx, want["dX"], "dX")
    for grad, (name, (_, turned)) in zip(grads, named.items(), strict=True):
        shape = graph.tensors[name].shape
        _near(modules.to_graph(grad, turned, shape), want[f"d{name}"], f"d{name}")


@pytest.mark.parametrize("attention", ["unfused", "fused"])
@pytest.mark.parametrize(("config", "phase"), phases([BERT, GPT2, LLAMA]))
def test_steps_cover_the_operators_of_the_forward_pass_in_order(config, phase, attention) -> None:
    graph, _, made, _ = _built(config, phase, attention)
    backward = {op.name for op in graph.operators if any(t.role == "gradient" for t in op.writes)}
    forward = {op.name for op in graph.operators} - backward
    said = [name for step in made.steps() for name in step.covers]
    assert set(said) == forward
    assert len(said) == len(forward)
    weights = {t.name for t in graph.inputs if t.role == "weight"}
    assert set(made.weights()) == weights


def test_a_wrong_layer_is_caught(monkeypatch) -> None:
    """The comparison has power: a factor, a sign or a mask that is wrong shows."""
    for where, name, what in (
        (modules, "_scale", lambda x, factor: x),
        (modules.CausalMask, "run", lambda self, x: x),
        (modules, "_rope", lambda x, cos, sin: x),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, what)
            graph, arrays, made, others = _built(LLAMA, "prefill", "unfused")
            got = made(_double(arrays["X"]), others)[0].detach().numpy()
            assert np.abs(got - graph.run(arrays)["Y"]).max() > 1e-3
