"""Modules of PyTorch as graphs: they compute what PyTorch computes.  Needs PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
import torch_modules
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from iosim.base.errors import InputError
from iosim.models.layers.backward import backward
from iosim.models.layers.files import parsed
from iosim.models.layers.graph import opaque
from iosim.models.layers.torch_export import exported, from_torch
from iosim.models.layers.writing import to_json
from iosim.models.operators import attention_of

pytestmark = pytest.mark.torch
CASES = torch_modules.cases()
GOLDEN = Path(__file__).parents[1] / "golden" / "torch_mlp.json"


def outputs(module: nn.Module, inputs: Any) -> list[Any]:
    with torch.no_grad():
        found = module.double()(*(x.double() if x.is_floating_point() else x for x in inputs))
    module.float()
    return [x for x in (found if isinstance(found, tuple) else (found,)) if x is not None]


@pytest.mark.parametrize("name", CASES)
def test_a_graph_computes_what_its_module_computes(name: str) -> None:
    module, inputs = CASES[name]
    found = exported(module, inputs)
    # Llama's norm and its angles are computed in fp32, whatever the module's words are.
    tolerance = 1e-6 if name.startswith("Llama") else 1e-13
    for got, want in zip(found.run(), outputs(module, inputs), strict=True):
        assert got.shape == tuple(want.shape)
        assert np.abs(got - want.numpy()).max() < tolerance


@pytest.mark.parametrize("name", CASES)
def test_flop_of_products_are_pytorchs(name: str) -> None:
    """PyTorch counts 2 for each product of numbers, and of attention all pairs, hidden ones too."""
    module, inputs = CASES[name]
    # The other ways of attention on a CPU are not counted at all.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(*inputs)
    graph = from_torch(module, inputs)
    products = [op.flop for op in graph.operators if op.kind.name == "contraction"]
    problems = [attention_of(op) for op in graph.operators if op.kind.name == "attention"]
    pairs = [2 * p.heads * p.N * p.keys * (p.d + p.values) for p in problems]
    assert sum(products) + sum(pairs) == counter.get_total_flops()


@pytest.mark.parametrize("name", CASES)
def test_weights_are_the_parameters(name: str) -> None:
    module, inputs = CASES[name]
    graph = from_torch(module, inputs)
    got = {t.name: t.words for t in graph.inputs if t.role == "weight"}
    assert got == {x: p.numel() for x, p in module.named_parameters()}
    assert graph.dtype == "fp32"


@pytest.mark.parametrize("name", CASES)
def test_a_graph_is_read_back_from_json(name: str) -> None:
    graph = from_torch(*CASES[name])
    assert parsed(to_json(graph)).graph == graph


def kinds(name: str) -> list[str]:
    return [op.kind.name for op in from_torch(*CASES[name]).operators]


def test_views_move_no_words_and_copies_do() -> None:
    for name in CASES:
        for op in from_torch(*CASES[name]).operators:
            assert (op.words_in + op.words_out == 0) == (op.kind.name == "view")
    # contiguous() of Q, K and V together, in PyTorch's own attention; of the heads, in GPT-2's.
    assert kinds("BERT").count("copy") == 1
    assert kinds("GPT-2").count("copy") == 1
    assert "repeat" in kinds("Llama, keys repeated")
    assert not {"repeat", "copy"} & set(kinds("Llama"))
    attention = next(
        op
        for op in from_torch(*CASES["Llama"]).operators
        if op.name == "attention" or op.kind.name == "attention"
    )
    assert attention_of(attention).as_dict == {
        "N": 6,
        "d": 4,
        "heads": 8,
        "kv_heads": 4,
        "causal": True,
    }


def test_a_layer_in_fp16_keeps_its_dtypes() -> None:
    module, inputs = CASES["a model"]
    graph = from_torch(module.half(), inputs)
    module.float()
    assert graph.dtype == "fp16"
    dtypes = {t.name: t.dtype for t in graph.inputs}
    assert dtypes["ids"] == dtypes["labels"] == "int64"
    assert dtypes["head.weight"] is None
    assert "bool" in dtypes.values()
    assert from_torch(module, inputs, dtype="bf16").dtype == "bf16"


def test_dropout_in_training_writes_its_masks() -> None:
    module, inputs = CASES["GPT-2"]
    found = from_torch(module.train(), inputs)
    module.eval()
    drops = [op for op in found.operators if op.kind.name == "dropout"]
    assert [len(op.writes) for op in drops] == [2, 2]
    assert "dropout" not in kinds("GPT-2")


def test_an_mlp_has_a_backward_pass() -> None:
    found = exported(*CASES["MLP"])
    both = backward(found.graph, found.outputs)
    given = found.arrays | {f"d{x}": np.ones(both.tensors[f"d{x}"].shape) for x in found.outputs}
    got = both.run(given)
    module, inputs = CASES["MLP"]
    module = module.double()
    module(*(x.double() for x in inputs)).sum().backward()
    for name, p in module.named_parameters():
        assert np.abs(got[f"d{name}"] - p.grad.numpy().reshape(got[f"d{name}"].shape)).max() < 1e-12
    module.float()


class Sorts(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.sort(x * 2).values


class Branches(nn.Module):
    def forward(self, x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x - 1


class Holds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = Sorts()

    def forward(self, x: Any) -> Any:
        return self.inside(x) * x


def line(module: Any, *inputs: Any) -> str:
    with pytest.raises(InputError) as error:
        from_torch(module, inputs)
    assert "\n" not in str(error.value)
    return str(error.value)


class Wrong(nn.Module):
    def forward(self, x: Any) -> Any:
        y = torch.add(x, x * 2, alpha=3)
        return torch.sub(y, torch.sort(y)[0], alpha=2)


class Two(nn.Module):
    def forward(self, x: Any) -> Any:
        values, _ = torch.sort(x.t())
        return torch.cumsum(values.t(), 0) + x


def test_unknown_operators_are_opaque() -> None:
    graph = from_torch(Two(), (torch.randn(3, 4),))
    found = {op.setting("of"): op for op in graph.operators if op.kind.name == "opaque"}
    assert list(found) == ["aten.sort.default", "aten.cumsum.default"]
    assert all(op.flop == 0 for op in found.values())
    words = [(op.words_in, op.words_out) for op in found.values()]
    assert words == [(12, 24), (12, 12)]
    assert [t.dtype for t in found["aten.sort.default"].writes] == [None, "int64"]
    (names,) = opaque(graph).splitlines()
    assert "sort opaque (aten.sort.default), cumsum opaque (aten.cumsum.default)" in names
    assert parsed(to_json(graph)).graph == graph
    (inside,) = (
        op for op in from_torch(Holds(), (torch.randn(3, 4),)).operators if op.kind.name == "opaque"
    )
    assert inside.name == "inside sort opaque"


def test_modules_that_cannot_be_graphs() -> None:
    x = torch.randn(3, 4)
    text = line(Wrong(), x)
    assert text.startswith("Wrong: aten.")
    assert text.count("alpha other than 1 is not known") == 2
    assert "torch.export can't export Branches: " in line(Branches(), x)
    assert "torch.export can't export MLP: " in line(CASES["MLP"][0], torch.randn(2, 3))
    assert "str is not a torch.nn.Module" in line("MLP", x)
    with pytest.raises(InputError, match="must be a tuple"):
        from_torch(Sorts(), x)
    with pytest.raises(InputError, match="unknown dtype 'fp61'"):
        from_torch(*CASES["MLP"], dtype="fp61")


def iosim(*words: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-m", "iosim", *words], capture_output=True, text=True, cwd=root
    )


MINE = """
import torch

def model():
    return torch.nn.Linear(4, 8), (torch.ones(2, 4),)

def one():
    return 1

def fails():
    raise ValueError("a\\nb")
"""


def test_the_command_takes_a_function_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    found = json.loads(iosim("graph", f"{file}:model", "--json").stdout)
    assert [x["kind"] for x in found["operators"]] == ["contraction", "bias"]
    for function, said in {
        "modle": "has no function 'modle': did you mean 'model'?",
        "one": "must return a module and a tuple of inputs",
        "fails": "fails failed: ValueError: a",
    }.items():
        done = iosim("graph", f"{file}:{function}")
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert said in done.stderr
    assert "there is no such file" in iosim("graph", "no.py:model").stderr
    assert "name a function of it too" in iosim("graph", str(file)).stderr


def test_the_example_of_the_page_is_what_is_committed(golden: Any) -> None:
    done = iosim("graph", "docs/examples/mlp.py:mlp", "--as-file")
    assert done.returncode == 0, done.stderr
    golden("torch_mlp.json", done.stdout)
