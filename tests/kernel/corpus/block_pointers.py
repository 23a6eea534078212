"""Block pointers, which Triton had until 3.8."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def matmul_blocks(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    of_a = tl.make_block_ptr(a, (M, K), (K, 1), (row, 0), (BM, BK), (1, 0))
    of_b = tl.make_block_ptr(b, (K, N), (1, K), (0, column), (BK, BN), (0, 1))
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(of_a, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(of_b, boundary_check=(0, 1), padding_option="zero")
        total = tl.dot(x, y, total)
        of_a, of_b = tl.advance(of_a, (0, BK)), tl.advance(of_b, (BK, 0))
    of_c = tl.make_block_ptr(c, (M, N), (N, 1), (row, column), (BM, BN), (1, 0))
    tl.store(of_c, total.to(tl.float16), boundary_check=(0, 1))


def launch_matmul_blocks(rng):
    m, n, k = (int(i) for i in rng.integers(1, 70, 3))
    a, b, c = np.zeros((m, k), "f2"), np.zeros((n, k), "f2"), np.zeros((m, n), "f2")
    grid = triton.cdiv(m, 32), triton.cdiv(n, 16)
    return grid, {"a": a, "b": b, "c": c, "M": m, "N": n, "K": k, "BM": 32, "BN": 16, "BK": 16}


@triton.jit
def attention_blocks(q, k, v, o, N, M, CAUSAL: tl.constexpr, D: tl.constexpr, B: tl.constexpr):
    z, i = tl.program_id(1), tl.program_id(0)
    of_q = tl.make_block_ptr(q + z * N * D, (N, D), (D, 1), (i * B, 0), (B, D), (1, 0))
    of_k = tl.make_block_ptr(k + z * M * D, (D, M), (1, D), (0, 0), (D, B), (0, 1))
    of_v = tl.make_block_ptr(v + z * M * D, (M, D), (D, 1), (0, 0), (B, D), (1, 0))
    x = tl.load(of_q, boundary_check=(0,))
    total = tl.zeros((B,), tl.float32)
    acc = tl.zeros((B, D), tl.float32)
    last = tl.minimum(M, (i + 1) * B) if CAUSAL else M
    for start in range(0, last, B):
        p = tl.exp(tl.dot(x, tl.load(of_k, boundary_check=(1,))))
        p = tl.where(start + tl.arange(0, B)[None, :] < M, p, 0.0)
        total += tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), tl.load(of_v, boundary_check=(0,)), acc)
        of_k, of_v = tl.advance(of_k, (0, B)), tl.advance(of_v, (B, 0))
    of_o = tl.make_block_ptr(o + z * N * D, (N, D), (D, 1), (i * B, 0), (B, D), (1, 0))
    tl.store(of_o, (acc / total[:, None]).to(tl.float16), boundary_check=(0,))


def launch_attention_blocks(rng):
    z, n, m = (int(i) for i in rng.integers(1, [4, 80, 80]))
    q, o = np.zeros((2, z, n, 16), "f2")
    k, v = np.zeros((2, z, m, 16), "f2")
    return (triton.cdiv(n, 16), z), {
        "q": q,
        "k": k,
        "v": v,
        "o": o,
        "N": n,
        "M": m,
        "CAUSAL": bool(rng.integers(0, 2)),
        "D": 16,
        "B": 16,
    }


@triton.jit
def checked_along_rows(out, x, rows, columns, B: tl.constexpr):
    of_x = tl.make_block_ptr(x, (rows, columns), (columns, 1), (0, 0), (B, B), (1, 0))
    of_out = tl.make_block_ptr(out, (rows, B), (B, 1), (0, 0), (B, B), (1, 0))
    tl.store(of_out, tl.load(of_x, boundary_check=(0,)), boundary_check=(0,))


def launch_checked_along_rows(rng):
    rows, columns = (int(i) for i in rng.integers(1, 16, 2))
    x = np.zeros(rows * columns + 16, "f4")  # a row goes on into the next one
    out = np.zeros((rows, 16), "f4")
    return (1,), {"out": out, "x": x, "rows": rows, "columns": columns, "B": 16}
