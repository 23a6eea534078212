"""Kernels of many kinds for a profiler: attention, products, streams, and some that do badly.

Each case runs once to warm up, and once more between cudaProfilerStart and cudaProfilerStop; then
its tensors are given back.  `docs/how-to/profile.md` and the tests read what was counted.  It needs
a GPU, PyTorch and Triton:

    iosim profile --marked --out DIR -- python docs/examples/profiled_kernels.py [NAME ...]
"""

# ruff: noqa: D103  # the name of a case says what it is

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS, N = 8, 4096


@triton.jit
def matmul_kernel(
    A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    pid, rows, columns = tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    m = (first + pid % (GROUP * columns) % height) * BM + tl.arange(0, BM)
    n = pid % (GROUP * columns) // height * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a, b = A + m[:, None] * K + k[None, :], B + k[:, None] * N + n[None, :]
    c = tl.zeros((BM, BN), tl.float32)
    for _ in range(tl.cdiv(K, BK)):
        c = tl.dot(tl.load(a), tl.load(b), c)
        a += BK
        b += BK * N
    tl.store(C + m[:, None] * N + n[None, :], c.to(tl.float16))


@triton.jit
def attention_kernel(Q, K, V, O, N, D: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    head, x = tl.program_id(1) * N * D, tl.arange(0, D)
    i = tl.program_id(0) * BR + tl.arange(0, BR)
    q = tl.load(Q + head + i[:, None] * D + x[None, :])
    o = tl.zeros((BR, D), tl.float32)
    m, l = tl.full((BR,), float("-inf"), tl.float32), tl.zeros((BR,), tl.float32)
    for start in range(0, N, BC):
        j = start + tl.arange(0, BC)
        k = tl.load(K + head + j[None, :] * D + x[:, None])
        s = tl.dot(q, k) * (1.4426950408889634 / D**0.5)
        top = tl.maximum(m, tl.max(s, 1))
        p, scale = tl.exp2(s - top[:, None]), tl.exp2(m - top)
        l, m = l * scale + tl.sum(p, 1), top
        v = tl.load(V + head + j[:, None] * D + x[None, :])
        o = tl.dot(p.to(tl.float16), v, o * scale[:, None])
    tl.store(O + head + i[:, None] * D + x[None, :], (o / l[:, None]).to(tl.float16))


@triton.jit
def spilling_kernel(A, B, C, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    c = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(A + m[:, None] * K + start + k[None, :])
        c = tl.dot(a, tl.load(B + (start + k)[:, None] * BN + n[None, :]), c)
    tl.store(C + m[:, None] * BN + n[None, :], c)


@triton.jit
def one_block_kernel(X, Y, n, B: tl.constexpr):
    total = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        total += tl.load(X + start + tl.arange(0, B))
    tl.store(Y + tl.arange(0, B), total)


@triton.jit
def reduction_kernel(X, Y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(Y + at % n, tl.load(X + at), sem="relaxed")


@triton.jit
def polynomial_kernel(X, Y, steps, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + at)
    y = x
    for _ in range(steps):
        y = y * x + 0.5
    tl.store(Y + at, y)


@triton.jit
def exponential_kernel(X, Y, steps, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + at)
    for _ in range(steps):
        x = tl.exp2(-x)
    tl.store(Y + at, x)


@triton.jit
def empty_kernel(X):
    pass


def half(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.float16)


def attention(
    backend: SDPBackend, d: int, causal: bool, backward: bool = False
) -> Callable[[], object]:
    q, k, v, do = (half(1, HEADS, N, d).requires_grad_(backward) for _ in range(4))

    def forward() -> torch.Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return (lambda: torch.autograd.grad(forward(), (q, k, v), do)) if backward else forward


def product(m: int, n: int, k: int) -> Callable[[], object]:
    a, b = half(m, k), half(k, n)
    return lambda: a @ b


def triton_product(n: int) -> Callable[[], object]:
    a, b, c = half(n, n), half(n, n), half(n, n)
    return lambda: matmul_kernel[n // 128 * (n // 128),](
        a, b, c, n, n, n, BM=128, BN=128, BK=64, GROUP=8, num_warps=8, num_stages=3
    )


def triton_attention(d: int) -> Callable[[], object]:
    q, k, v, o = (half(HEADS, N, d) for _ in range(4))
    return lambda: attention_kernel[N // 128, HEADS](
        q, k, v, o, N, D=d, BR=128, BC=64, num_warps=8 if d > 64 else 4, num_stages=2
    )


def spilling() -> Callable[[], object]:
    a, b, c = half(128 * 132, 1024), half(1024, 256), torch.empty(128 * 132, 256, device="cuda")
    return lambda: spilling_kernel[132,](
        a, b, c, 1024, BM=128, BN=256, BK=32, num_warps=4, num_stages=2, maxnreg=168
    )


def tiny() -> Callable[[], object]:
    x = half(1024)

    def run() -> None:
        for _ in range(200):
            x.add_(1)

    return run


def elementwise() -> Callable[[], object]:
    x, y, z = half(2**26), half(2**26), half(2**26)
    return lambda: torch.add(x, y, out=z)


def norm() -> Callable[[], object]:
    x, w, b = half(16384, 4096), half(4096), half(4096)
    return lambda: F.layer_norm(x, (4096,), w, b)


def strided() -> Callable[[], object]:
    x, y = half(2**22, 32), half(2**22)
    return lambda: y.copy_(x[:, 0])


def streams(
    kernel: object, *more: int, words: int = 2**22, out: int = 2**22, block: int = 1024
) -> Callable[[], object]:
    x, y = torch.rand(words, device="cuda"), torch.zeros(out, device="cuda")
    return lambda: kernel[words // block,](x, y, *more, B=block)


def one_block() -> Callable[[], object]:
    x, y = torch.rand(2**20, device="cuda"), torch.empty(1024, device="cuda")
    return lambda: one_block_kernel[1,](x, y, 2**20, B=1024)


def empty() -> Callable[[], object]:
    x = half(16)
    return lambda: empty_kernel[1,](x)


FLASH, CUDNN, MATH = SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH
_FORMS = [(d, causal, backward) for d in (64, 128) for causal in (0, 1) for backward in (0, 1)]
CASES: dict[str, Callable[[], Callable[[], object]]] = {
    **{
        f"flash-{d}{'-causal' * causal}{'-backward' * backward}": partial(
            attention, FLASH, d, bool(causal), bool(backward)
        )
        for d, causal, backward in _FORMS
    },
    "cudnn-64": lambda: attention(CUDNN, 64, False),
    "cudnn-128": lambda: attention(CUDNN, 128, False),
    "cudnn-128-causal": lambda: attention(CUDNN, 128, True),
    "cudnn-128-backward": lambda: attention(CUDNN, 128, False, True),
    "math-64": lambda: attention(MATH, 64, False),
    "matmul-4096": lambda: product(4096, 4096, 4096),
    "matmul-odd": lambda: product(1001, 2003, 3001),
    "triton-matmul": lambda: triton_product(4096),
    "triton-attention-64": lambda: triton_attention(64),
    "triton-attention-128": lambda: triton_attention(128),
    "add": elementwise,
    "layer-norm": norm,
    "strided": strided,
    "reduction": lambda: streams(reduction_kernel, 4096),
    "polynomial": lambda: streams(polynomial_kernel, 4096),
    "exponential": lambda: streams(exponential_kernel, 1024),
    "spilling": spilling,
    "one-block": one_block,
    "empty": empty,
    "tiny": tiny,
}


def main(names: list[str]) -> None:
    """Run the cases of these names, all without any."""
    torch.manual_seed(0)
    cuda = torch.cuda.cudart()
    for name in names or CASES:
        run = CASES[name]()
        run()
        torch.cuda.synchronize()
        cuda.cudaProfilerStart()
        run()
        torch.cuda.synchronize()
        cuda.cudaProfilerStop()
        del run
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv[1:])
