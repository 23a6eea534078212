"""PyTorch's attention, to be compared with the emitted kernels: fused, and standard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from iosim.base.rows import Row
from iosim.gpu.run.cuda import torch_module
from iosim.gpu.run.tasks import watch


def forward(torch: Any, variant: str, causal: bool = False) -> Callable[[Any, Any, Any], Any]:
    """Attention of (heads, N, d) tensors; Q is scaled already.

    K and V may have fewer heads than Q, a divisor.  With `causal`, ``fused`` and ``standard`` mask
    the columns after a row's own, aligned at the upper left.

    ``standard`` is two products and a softmax; ``standard_masked`` adds what GPT-2's layer does
    between them, a causal mask and dropout of 0.1; ``fused`` is scaled_dot_product_attention,
    and ``fused_batch`` the same of (batch, heads, N, d) tensors.
    """

    def standard(q: Any, k: Any, v: Any) -> Any:
        s = q @ k.transpose(-1, -2)
        if causal:
            ahead = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)
            s = s.masked_fill_(ahead, -torch.inf)
        return torch.softmax(s, dim=-1) @ v

    def standard_masked(q: Any, k: Any, v: Any) -> Any:
        s = q @ k.transpose(-1, -2)
        n = s.shape[-1]
        s = s.masked_fill(torch.ones(n, n, dtype=torch.bool, device=s.device).triu(1), -1e4)
        p = torch.nn.functional.dropout(torch.softmax(s, dim=-1), 0.1)
        return p @ v

    def fused_batch(q: Any, k: Any, v: Any) -> Any:
        attend = torch.nn.functional.scaled_dot_product_attention
        grouped = k.shape[1] < q.shape[1]
        return attend(q, k, v, scale=1.0, is_causal=causal, enable_gqa=grouped)

    def fused(q: Any, k: Any, v: Any) -> Any:
        return fused_batch(q[None], k[None], v[None])[0]

    found = {
        "standard": standard,
        "standard_masked": standard_masked,
        "fused": fused,
        "fused_batch": fused_batch,
    }
    return found[variant]


def _inputs(torch: Any, heads: int, N: int, d: int, grad: bool = False) -> list[Any]:
    """Random fp16 Q (over √d), K and V of shape (heads, N, d)."""
    generator = torch.Generator("cuda").manual_seed(0)
    found = [torch.randn(heads, N, d, generator=generator, device="cuda").half() for _ in range(3)]
    found[0].mul_(d**-0.5)
    return [x.requires_grad_(grad) for x in found]


def profile_variants(asked: Row, out: Path) -> Row:
    """Run every variant's forward pass, or forward and backward, where the profiler sees it."""
    torch = torch_module()
    for variant, backward in asked["runs"]:
        q, k, v = _inputs(torch, asked["heads"], asked["N"], asked["d"], grad=backward)
        attend = forward(torch, variant)

        def go(attend: Any = attend, x: Any = (q, k, v), backward: bool = backward) -> None:
            out = attend(*x)
            if backward:
                out.backward(x[1].detach())  # any gradient of the right shape

        go()  # libraries pick and load their kernels
        for x in (q, k, v):
            x.grad = None
        torch.cuda.synchronize()
        watch(torch, [go])
        del q, k, v, go
        torch.cuda.empty_cache()
    return {"runs": asked["runs"]}
