"""A fused attention kernel: one program computes BR rows of one head, with an online softmax."""

import triton
import triton.language as tl


@triton.jit
def attention(
    Q, K, V, O, N, scale, D: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr, CAUSAL: tl.constexpr
):
    """O = softmax(scale Q Kᵀ) V for each head of N rows."""
    first, head = tl.program_id(0) * BR, tl.program_id(1).to(tl.int64) * N * D
    i, x = first + tl.arange(0, BR)[:, None], tl.arange(0, D)[None, :]
    q = tl.load(Q + head + i * D + x, mask=i < N, other=0.0)
    largest = tl.full((BR,), float("-inf"), tl.float32)
    total = tl.zeros((BR,), tl.float32)
    o = tl.zeros((BR, D), tl.float32)
    end = tl.minimum(first + BR, N) if CAUSAL else N
    for start in range(0, end, BC):
        j = start + tl.arange(0, BC)
        at = head + j[:, None] * D + x
        k = tl.load(K + at, mask=j[:, None] < N, other=0.0)
        seen = j[None, :] < N
        if CAUSAL:
            seen &= j[None, :] <= i
        s = tl.where(seen, tl.dot(q, tl.trans(k)) * (scale * 1.4426950408889634), float("-inf"))
        new = tl.maximum(largest, tl.max(s, 1))
        p, shrink = tl.exp2(s - new[:, None]), tl.exp2(largest - new)
        v = tl.load(V + at, mask=j[:, None] < N, other=0.0)
        total, largest = total * shrink + tl.sum(p, 1), new
        o = tl.dot(p.to(v.dtype), v, o * shrink[:, None])
    tl.store(O + head + i * D + x, (o / total[:, None]).to(O.dtype.element_ty), mask=i < N)
