"""What outputs on a GPU are compared with: parts of long problems are those of all."""

from __future__ import annotations

import pytest

import iosim
from iosim.gpu.run import reference

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

OPTIONS = [
    {},
    {"causal": True},
    {"window": (9, 3), "sinks": 2},
    {"kv_heads": 2, "N_k": 50},
    {"N_k": 30, "causal": True, "d_v": 6, "align": "upper left"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_some_rows_and_columns_are_those_of_all(options, monkeypatch):
    problem = iosim.AttentionBackward(40, 8, 4, **options)
    x = {name: torch.from_numpy(value) for name, value in problem.random().items()}
    check = reference.check_of(problem)
    followed = check.follow(torch, problem, x)
    x |= {name: value.reshape(x[name].shape) for name, value in followed.items()}
    want = problem.reference({n: v.numpy() for n, v in x.items()})
    for part in (False, True):
        if part:
            monkeypatch.setattr(reference, "LONG", 16)
            monkeypatch.setattr(reference, "SCORES", 7 * problem.keys)
            monkeypatch.setattr(reference, "SOME", 10)
        for name, all_of_it in want.items():
            got, found = check.want(torch, problem, x, torch.from_numpy(all_of_it), name)
            assert got.numel() < all_of_it.size if part else got.numel() == all_of_it.size
            torch.testing.assert_close(got.reshape(found.shape), found, rtol=1e-9, atol=1e-9)
    again = check.follow(torch, problem, x)
    for name, value in followed.items():
        torch.testing.assert_close(again[name], value)
