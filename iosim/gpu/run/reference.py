"""What outputs of a run are compared with: textbook formulas in PyTorch, on the GPU, in float64.

Of long problems (`LONG`) about 256 evenly spaced rows of every head are compared, and as many rows
of dK and dV.  A `Check` without `want` takes the problem's own reference, in NumPy.

Only `iosim.gpu.run.cuda` calls this: `Cuda.tensors` for inputs, `Cuda.error` for what is wanted,
`Cuda.beside_fused` for masks.  Changing this file: records keep the errors that were measured, so a
change takes effect only in new runs.  `LONG`, `SCORES` and `SOME` may change within a GPU's memory.
Formulas and `hidden` must agree with the problem's own reference: ``tests/gpu/test_gpu_wanted.py``
compares those of attention, on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iosim.base.rows import Row
from iosim.core.problem import Attention, Problem

LONG = 8192  # rows or columns that are still compared all
SCORES = 2**28  # of one head, resident at once
SOME = 256  # rows or columns of a longer axis that are compared


def hidden(torch: Any, problem: Attention, rows: Any, keys: Any = None) -> Any:
    """Which of some columns, by default all, some rows don't see: (rows, columns)."""
    left, right = problem.limits
    if keys is None:
        keys = torch.arange(problem.keys, device=rows.device)
    apart = keys - (rows[:, None] + problem.shift)
    unseen = torch.zeros_like(apart, dtype=torch.bool)
    if right is not None:
        unseen |= apart > right
    if left is not None:
        unseen |= (apart < -left) & (keys >= problem.sinks)
    return unseen


def _some(torch: Any, extent: int, device: Any) -> Any:
    """All positions, and `SOME` evenly spaced ones of a long axis."""
    return torch.arange(0, extent, max(1, extent // SOME) if extent > LONG else 1, device=device)


def _attention(torch: Any, problem: Any, x: Row, got: Any, name: str) -> tuple[Any, Any]:
    rows = _some(torch, problem.N, got.device)
    O, L = _forward(torch, problem, x, rows)
    want = L[..., None] if name == "L" else O
    return got.reshape(problem.heads, problem.N, -1)[:, rows], want


def _forward(torch: Any, problem: Any, x: Row, rows: Any) -> tuple[Any, Any]:
    """Some rows of O, and log Σ exp of their scores, 0 where they see nothing."""
    heads, groups = problem.heads, problem.groups
    Q = x["Q"].reshape(heads, problem.N, -1)[:, rows]
    unseen = hidden(torch, problem, rows)
    out, sums = [], []
    for h in range(heads):
        S = (Q[h] @ x["K"][h * groups // heads].T).masked_fill(unseen, -torch.inf)
        P = torch.softmax(S, dim=-1).nan_to_num(0.0)  # rows that see nothing
        out.append(P @ x["V"][h * groups // heads])
        sums.append(torch.logsumexp(S, dim=-1).nan_to_num(neginf=0.0))
    return torch.stack(out), torch.stack(sums)


def _all_rows(torch: Any, problem: Any, x: Row) -> tuple[Any, Any]:
    """`_forward` of every row, a part of them at a time."""
    rows = torch.arange(problem.N, device=x["Q"].device)
    some = max(1, SCORES // problem.keys)
    O, L = zip(*(_forward(torch, problem, x, part) for part in rows.split(some)), strict=True)
    return torch.cat(O, dim=1), torch.cat(L, dim=1)


def _statistics(torch: Any, problem: Any, x: Row) -> Row:
    """O and L of the forward pass."""
    O, L = _all_rows(torch, problem, {name: x[name].double() for name in "QKV"})
    return {"O": O, "L": L}


def _gradient(torch: Any, problem: Any, x: Row, got: Any, name: str) -> tuple[Any, Any]:
    """What PyTorch's autograd makes of the textbook formula, in float64.

    Of long problems some rows of dQ, or of dK and dV, by the formula of the gradient itself,
    from the O and L that the pass is given.
    """
    if max(problem.N, problem.keys) > LONG:
        return _some_gradient(torch, problem, x, got, name)
    leaves = {n: x[n].detach().requires_grad_(f"d{n}" == name) for n in "QKV"}
    O, _ = _forward(torch, problem, leaves, torch.arange(problem.N, device=got.device))
    (want,) = torch.autograd.grad(O, [leaves[name[1:]]], x["dO"].reshape(O.shape))
    return got, want


def _some_gradient(torch: Any, problem: Any, x: Row, got: Any, name: str) -> tuple[Any, Any]:
    heads, groups, device = problem.heads, problem.groups, got.device
    rows, keys = (torch.arange(n, device=device) for n in (problem.N, problem.keys))
    if name == "dQ":
        rows = _some(torch, problem.N, device)
    else:
        keys = _some(torch, problem.keys, device)
    Q, dO, O, L = (x[n].reshape(heads, problem.N, -1)[:, rows] for n in ("Q", "dO", "O", "L"))
    D = (O * dO).sum(-1, keepdim=True)
    seen = ~hidden(torch, problem, rows, keys)
    parts = len(rows) if name == "dQ" else len(keys)
    want = torch.zeros(
        heads if name == "dQ" else groups, parts, got.shape[-1], dtype=Q.dtype, device=device
    )
    for h in range(heads):
        g = h * groups // heads
        K, V = x["K"][g][keys], x["V"][g][keys]
        P = torch.exp(Q[h] @ K.T - L[h]) * seen
        if name == "dV":
            want[g] += P.T @ dO[h]
            continue
        dS = P * (dO[h] @ V.T - D[h])
        if name == "dQ":
            want[h] = dS @ K
        else:
            want[g] += dS.T @ Q[h]
    return got.reshape(len(want), -1, got.shape[-1])[:, rows if name == "dQ" else keys], want


def _product(torch: Any, problem: Any, x: Row, got: Any, name: str) -> tuple[Any, Any]:
    return got, x["A"] @ x["B"]


@dataclass(frozen=True)
class Check:
    """How outputs of one kind of problem are checked.

    Attributes:
        scale: an input's name and the sizes → the factor on its random numbers.
        want: torch, the problem, its inputs in float64, an output and its name → the part of it
            that is compared, and the textbook formula for that part; None takes the problem's own
            reference, in NumPy.
        follow: torch, the problem and its inputs → those that follow from others.
    """

    scale: Callable[[str, dict[str, int]], float] = lambda name, sizes: 1.0
    want: Callable[[Any, Any, Row, Any, str], tuple[Any, Any]] | None = None
    follow: Callable[[Any, Any, Row], Row] = lambda torch, problem, x: {}


def _usual(name: str, sizes: dict[str, int]) -> float:
    """Q over √d gives scores of the usual size; it moves no words."""
    return sizes["d"] ** -0.5 if name == "Q" else 1.0


_CHECKS = {
    "attention": Check(_usual, _attention),
    "attention-backward": Check(_usual, _gradient, _statistics),
    "block-sparse": Check(_usual),
    "matmul": Check(want=_product),
}


def check_of(problem: Problem) -> Check:
    """How a problem's outputs are checked: by its kind, or by its own reference."""
    return _CHECKS.get(problem.kind, Check())
