"""A matrix product as Triton's tutorial has it: tiles in groups of rows, edges that wrap."""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    """C = A B, of matrices that are stored by rows."""
    down, across = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = tl.program_id(0) // (GROUP * across) * GROUP
    rows = min(down - first, GROUP)
    in_group = tl.program_id(0) % (GROUP * across)
    row = (first + in_group % rows) * BM + tl.arange(0, BM)
    column = in_group // rows * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    at_a = a + (row % M)[:, None] * K + inner[None, :]
    at_b = b + inner[:, None] * N + (column % N)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(at_a, mask=inner[None, :] < K - k, other=0.0)
        y = tl.load(at_b, mask=inner[:, None] < K - k, other=0.0)
        total = tl.dot(x, y, total)
        at_a += BK
        at_b += BK * N
    kept = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c + row[:, None] * N + column[None, :], total.to(tl.float16), mask=kept)
