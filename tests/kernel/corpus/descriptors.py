"""Tensor descriptors: made in the kernel, and given to it."""

import numpy as np
import triton
import triton.language as tl
from interpreted import Described


@triton.jit
def matmul_described(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    of_a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    of_b = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    of_c = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(of_a.load([row, k]), of_b.load([column, k]).T, total)
    of_c.store([row, column], total.to(tl.float16))


def launch_matmul_described(rng):
    m, n, k = (int(i) for i in rng.integers(1, [70, 8, 8]))
    n, k = 8 * n, 8 * k
    a, b, c = np.zeros((m, k), "f2"), np.zeros((n, k), "f2"), np.zeros((m, n), "f2")
    grid = triton.cdiv(m, 32), triton.cdiv(n, 16)
    return grid, {"a": a, "b": b, "c": c, "M": m, "N": n, "K": k, "BM": 32, "BN": 16, "BK": 16}


@triton.jit
def matmul_given(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(c.dtype))


def launch_matmul_given(rng):
    m, n, k = (int(i) for i in rng.integers(1, [70, 8, 8]))
    n, k = 8 * n, 8 * k
    a, b, c = np.zeros((m, k), "f2"), np.zeros((k, n), "f2"), np.zeros((m, n), "f2")
    grid = triton.cdiv(m, 32), triton.cdiv(n, 16)
    given = {"a": Described(a, (32, 16)), "b": Described(b, (16, 16)), "c": Described(c, (32, 16))}
    return grid, dict(**given, M=m, N=n, K=k, BM=32, BN=16, BK=16)


@triton.jit
def attention_described(q, k, v, o, Z, N, M, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    z, i = tl.program_id(1), tl.program_id(0)
    of_q = tl.make_tensor_descriptor(q, [Z, N, D], [N * D, D, 1], [1, BM, D])
    of_k = tl.make_tensor_descriptor(k, [Z, M, D], [M * D, D, 1], [1, BN, D])
    of_v = tl.make_tensor_descriptor(v, [Z, M, D], [M * D, D, 1], [1, BN, D])
    of_o = tl.make_tensor_descriptor(o, [Z, N, D], [N * D, D, 1], [1, BM, D])
    x = of_q.load([z, i * BM, 0]).reshape(BM, D)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, M, BN):
        p = tl.exp(tl.dot(x, of_k.load([z, start, 0]).reshape(BN, D).T))
        p = tl.where(start + tl.arange(0, BN)[None, :] < M, p, 0.0)
        total += tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), of_v.load([z, start, 0]).reshape(BN, D), acc)
    of_o.store([z, i * BM, 0], (acc / total[:, None]).to(tl.float16).reshape(1, BM, D))


def launch_attention_described(rng):
    z, n, m = (int(i) for i in rng.integers(1, [4, 80, 80]))
    q, o = np.zeros((2, z, n, 16), "f2")
    k, v = np.zeros((2, z, m, 16), "f2")
    return (triton.cdiv(n, 32), z), {
        "q": q,
        "k": k,
        "v": v,
        "o": o,
        "Z": z,
        "N": n,
        "M": m,
        "D": 16,
        "BM": 32,
        "BN": 16,
    }


@triton.jit
def rows_of_descriptor(out, x, index, rows, columns, count, B: tl.constexpr, BC: tl.constexpr):
    of_x = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [1, BC])
    of_out = tl.make_tensor_descriptor(out, [count, columns], [columns, 1], [1, BC])
    i, j = tl.program_id(0) * B, tl.program_id(1) * BC
    at = tl.load(index + i + tl.arange(0, B))
    of_out.scatter(of_x.gather(at, j), i + tl.arange(0, B), j)


def launch_rows_of_descriptor(rng):
    rows, blocks, columns = (int(i) for i in rng.integers(1, [20, 4, 12]))
    columns *= 8
    count = blocks * 8 - int(rng.integers(0, 8))
    return (blocks, triton.cdiv(columns, 32)), {
        "out": np.zeros((count, columns), "f2"),
        "x": np.zeros((rows, columns), "f2"),
        "index": rng.integers(0, rows + 2, blocks * 8).astype("i4"),
        "rows": rows,
        "columns": columns,
        "count": count,
        "B": 8,
        "BC": 32,
    }


@triton.jit
def halo(out, x, rows, columns, reach, B: tl.constexpr, BC: tl.constexpr):
    of_x = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [B, BC])
    of_out = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [B, BC])
    row, column = tl.program_id(0) * B, tl.program_id(1) * BC
    total = of_x.load([row - reach, column]) + of_x.load([row + reach, column])
    of_out.store([row, column], total)


def launch_halo(rng):
    rows, columns, reach = (int(i) for i in rng.integers(1, [40, 6, 6]))
    out, x = np.zeros((2, rows, 8 * columns), "f2")
    sizes = {"rows": rows, "columns": 8 * columns, "reach": reach, "B": 16, "BC": 16}
    grid = triton.cdiv(rows, 16), triton.cdiv(8 * columns, 16)
    return grid, {"out": out, "x": x, **sizes}
