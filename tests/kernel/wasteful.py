"""Kernels with a waste planted: a stationary operand streamed, a load twice, a tile twice."""

import triton
import triton.language as tl


@triton.jit
def streamed(o, q, k, n, D: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    d = tl.arange(0, D)
    acc = tl.zeros((B,), tl.float32)
    for j in range(0, n, C):
        c = j + tl.arange(0, C)
        x = tl.load(q + r[:, None] * D + d[None, :], mask=r[:, None] < n, other=0.0)
        y = tl.load(k + c[None, :] * D + d[:, None], mask=c[None, :] < n, other=0.0)
        acc += tl.sum(tl.dot(x, y), 1)
    tl.store(o + r, acc, mask=r < n)


@triton.jit
def double(o, x, w, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n)
    tl.store(o + i, a, mask=i < n)
    b = tl.load(x + i, mask=i < n)
    tl.store(w + i, b * 2, mask=i < n)


@triton.jit
def folded(o, x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i // 2), mask=i < n)


@triton.jit
def clean(o, x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def wrapped(o, x, n, m, D: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    for j in range(0, m, C):
        c = j + tl.arange(0, C)
        acc += tl.sum(tl.load(x + (r % n)[:, None] * m + c[None, :], mask=c[None, :] < m), 1)
    tl.store(o + r % n, acc)


@triton.jit
def rotated(o, x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    first = tl.program_id(0) * B
    tl.store(o + first + i, tl.load(x + first + (i + B // 2) % B))


@triton.jit
def channels(o, x, w, n, C, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.load(w + i % C), mask=i < n)


@triton.jit
def decomposed(o, x, n, C, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i % C * 100 + i // C, mask=i < n), mask=i < n)
