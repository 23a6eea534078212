"""Attention: forward, backward, decode, pages, ragged batches."""

import math

import numpy as np
import triton
import triton.language as tl


def heads(rng, longest=80):
    """Sizes, and Q, K, V and O of so many heads."""
    z, n, m = (int(i) for i in rng.integers(1, [3, longest, longest]))
    d = 16
    q, o = np.zeros((2, z, n, d), "f2")
    k, v = np.zeros((2, z, m, d), "f2")
    return {"q": q, "k": k, "v": v, "o": o, "N": n, "M": m}, z, d


@triton.jit
def forward_step(
    acc,
    most,
    total,
    q,
    k,
    v,
    row,
    first,
    last,
    N,
    M,
    MASKED: tl.constexpr,
    D: tl.constexpr,
    BN: tl.constexpr,
):
    dim = tl.arange(0, D)
    for start in range(first, last, BN):
        column = start + tl.arange(0, BN)
        at = column[:, None] * D + dim[None, :]
        x = tl.load(k + at, mask=column[:, None] < M, other=0.0)
        score = tl.dot(q, tl.trans(x))
        keeps = column[None, :] < M
        if MASKED:
            keeps &= column[None, :] <= row[:, None] + (M - N)
        score = tl.where(keeps, score, -1e30)
        new = tl.maximum(most, tl.max(score, 1))
        p = tl.exp2(score - new[:, None])
        shrink = tl.exp2(most - new)
        total = total * shrink + tl.sum(p, 1)
        y = tl.load(v + at, mask=column[:, None] < M, other=0.0)
        acc = tl.dot(p.to(y.dtype), y, acc * shrink[:, None])
        most = new
    return acc, most, total


@triton.jit
def attention(
    q,
    k,
    v,
    o,
    lse,
    N,
    M,
    scale,
    CAUSAL: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    z = tl.program_id(1)
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    dim = tl.arange(0, D)
    at = z * N * D + row[:, None] * D + dim[None, :]
    k += z * M * D
    v += z * M * D
    x = tl.load(q + at, mask=row[:, None] < N, other=0.0)
    x = (x * scale).to(x.dtype)
    most = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    last = M
    whole = M // BN * BN
    if CAUSAL:
        begin = tl.program_id(0) * BM + M - N
        last = tl.maximum(tl.minimum(M, begin + BM), 0)
        whole = tl.maximum(tl.minimum(whole, begin // BN * BN), 0)
    acc, most, total = forward_step(acc, most, total, x, k, v, row, 0, whole, N, M, False, D, BN)
    acc, most, total = forward_step(
        acc, most, total, x, k, v, row, whole, last, N, M, CAUSAL, D, BN
    )
    tl.store(o + at, (acc / total[:, None]).to(o.dtype.element_ty), mask=row[:, None] < N)
    tl.store(lse + z * N + row, most + tl.log2(total), mask=row < N)


def launch_attention(rng):
    given, z, d = heads(rng)
    causal = bool(rng.integers(0, 2))
    return (triton.cdiv(given["N"], 32), z), dict(
        **given, lse=np.zeros((z, given["N"]), "f4"), scale=0.3, CAUSAL=causal, D=d, BM=32, BN=16
    )


@triton.jit
def backward_dkdv(
    q,
    k,
    v,
    do,
    lse,
    delta,
    dk,
    dv,
    N,
    CAUSAL: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    z = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BN + tl.arange(0, BN)
    dim = tl.arange(0, D)
    own = z * N * D + column[:, None] * D + dim[None, :]
    kept = column[:, None] < N
    x, y = tl.load(k + own, mask=kept, other=0.0), tl.load(v + own, mask=kept, other=0.0)
    grad_k = tl.zeros((BN, D), tl.float32)
    grad_v = tl.zeros((BN, D), tl.float32)
    first = tl.program_id(0) * BN // BM * BM if CAUSAL else 0
    for start in range(first, N, BM):
        row = start + tl.arange(0, BM)
        at = z * N * D + row[:, None] * D + dim[None, :]
        a = tl.load(q + at, mask=row[:, None] < N, other=0.0)
        g = tl.load(do + at, mask=row[:, None] < N, other=0.0)
        p = tl.exp2(tl.dot(x, tl.trans(a)) - tl.load(lse + z * N + row, mask=row < N)[None, :])
        if CAUSAL:
            p = tl.where(row[None, :] >= column[:, None], p, 0.0)
        grad_v = tl.dot(p.to(g.dtype), g, grad_v)
        ds = p * (tl.dot(y, tl.trans(g)) - tl.load(delta + z * N + row, mask=row < N)[None, :])
        grad_k = tl.dot(ds.to(a.dtype), a, grad_k)
    tl.store(dk + own, grad_k, mask=kept)
    tl.store(dv + own, grad_v, mask=kept)


def launch_backward_dkdv(rng):
    z, n = (int(i) for i in rng.integers(1, [3, 80]))
    q, k, v, do = np.zeros((4, z, n, 16), "f2")
    lse, delta = np.zeros((2, z, n), "f4")
    dk, dv = np.zeros((2, z, n, 16), "f4")
    tensors = {"q": q, "k": k, "v": v, "do": do, "lse": lse, "delta": delta, "dk": dk, "dv": dv}
    return (triton.cdiv(n, 16), z), dict(
        **tensors, N=n, CAUSAL=bool(rng.integers(0, 2)), D=16, BM=32, BN=16
    )


@triton.jit
def backward_dq(
    q,
    k,
    v,
    do,
    lse,
    delta,
    dq,
    N,
    CAUSAL: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    z = tl.program_id(1)
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    dim = tl.arange(0, D)
    own = z * N * D + row[:, None] * D + dim[None, :]
    kept = row[:, None] < N
    a, g = tl.load(q + own, mask=kept, other=0.0), tl.load(do + own, mask=kept, other=0.0)
    m = tl.load(lse + z * N + row, mask=row < N, other=0.0)
    shift = tl.load(delta + z * N + row, mask=row < N, other=0.0)
    grad = tl.zeros((BM, D), tl.float32)
    last = tl.minimum(N, (tl.program_id(0) + 1) * BM) if CAUSAL else N
    for start in range(0, last, BN):
        column = start + tl.arange(0, BN)
        at = z * N * D + column[:, None] * D + dim[None, :]
        x = tl.load(k + at, mask=column[:, None] < N, other=0.0)
        y = tl.load(v + at, mask=column[:, None] < N, other=0.0)
        p = tl.exp2(tl.dot(a, tl.trans(x)) - m[:, None])
        ds = p * (tl.dot(g, tl.trans(y)) - shift[:, None])
        if CAUSAL:
            ds = tl.where(row[:, None] >= column[None, :], ds, 0.0)
        grad = tl.dot(ds.to(x.dtype), x, grad)
    tl.store(dq + own, grad, mask=kept)


def launch_backward_dq(rng):
    grid, given = launch_backward_dkdv(rng)
    dq = given.pop("dk")
    given.pop("dv")
    return (triton.cdiv(given["N"], 32), grid[1]), dict(**given, dq=dq)


@triton.jit
def decode(q, k, v, o, M, HEADS: tl.constexpr, D: tl.constexpr, BN: tl.constexpr):
    z, group = tl.program_id(0), tl.program_id(1)
    head, dim = tl.arange(0, HEADS), tl.arange(0, D)
    groups = tl.num_programs(1)
    own = (z * groups + group) * HEADS * D + head[:, None] * D + dim[None, :]
    x = tl.load(q + own)
    most = tl.full((HEADS,), -1e30, tl.float32)
    total = tl.zeros((HEADS,), tl.float32)
    acc = tl.zeros((HEADS, D), tl.float32)
    for start in range(0, M, BN):
        column = start + tl.arange(0, BN)
        at = ((z * M + column[:, None]) * groups + group) * D + dim[None, :]
        score = tl.dot(x, tl.trans(tl.load(k + at, mask=column[:, None] < M, other=0.0)))
        score = tl.where(column[None, :] < M, score, -1e30)
        new = tl.maximum(most, tl.max(score, 1))
        p = tl.exp(score - new[:, None])
        total = total * tl.exp(most - new) + tl.sum(p, 1)
        y = tl.load(v + at, mask=column[:, None] < M, other=0.0)
        acc = acc * tl.exp(most - new)[:, None] + tl.dot(p.to(y.dtype), y)
        most = new
    tl.store(o + own, (acc / total[:, None]).to(tl.float16))


def launch_decode(rng):
    z, groups, m = (int(i) for i in rng.integers(1, [4, 4, 90]))
    q, o = np.zeros((2, z, groups, 16, 16), "f2")
    k, v = np.zeros((2, z, m, groups, 16), "f2")
    return (z, groups), {"q": q, "k": k, "v": v, "o": o, "M": m, "HEADS": 16, "D": 16, "BN": 32}


@triton.jit
def decode_split(
    q, k, v, parts, lse, lengths, longest, SPLITS: tl.constexpr, D: tl.constexpr, BN: tl.constexpr
):
    z, part = tl.program_id(0), tl.program_id(1)
    length = tl.load(lengths + z)
    share = tl.cdiv(tl.cdiv(length, SPLITS), BN) * BN
    first, last = part * share, tl.minimum(length, (part + 1) * share)
    if first >= last:
        return
    dim = tl.arange(0, D)
    x = tl.load(q + z * D + dim)
    most, total = -1e30, 0.0
    acc = tl.zeros((D,), tl.float32)
    for start in range(first, last, BN):
        column = start + tl.arange(0, BN)
        kept = (column < last)[:, None]
        at = (z * longest + column)[:, None] * D + dim[None, :]
        score = tl.sum(x[None, :] * tl.load(k + at, mask=kept, other=0.0), 1).to(tl.float32)
        new = tl.maximum(most, tl.max(score, 0))
        p = tl.where(column < last, tl.exp(score - new), 0.0)
        total = total * tl.exp(most - new) + tl.sum(p, 0)
        acc = acc * tl.exp(most - new)
        acc += tl.sum(p[:, None] * tl.load(v + at, mask=kept, other=0.0), 0)
        most = new
    tl.store(parts + (z * SPLITS + part) * D + dim, acc / total)
    tl.store(lse + z * SPLITS + part, most + tl.log(total))


def launch_decode_split(rng):
    z, splits = (int(i) for i in rng.integers(1, [5, 5]))
    lengths = rng.integers(0, 90, z).astype("i4")
    k, v = np.zeros((2, z, 90, 16), "f2")
    return (z, splits), {
        "q": np.zeros((z, 16), "f2"),
        "k": k,
        "v": v,
        "parts": np.zeros((z, splits, 16), "f4"),
        "lse": np.zeros((z, splits), "f4"),
        "lengths": lengths,
        "longest": 90,
        "SPLITS": splits,
        "D": 16,
        "BN": 16,
    }


@triton.jit
def combine(o, parts, lse, lengths, SPLITS: tl.constexpr, D: tl.constexpr, BN: tl.constexpr):
    z, dim = tl.program_id(0), tl.arange(0, D)
    length = tl.load(lengths + z)
    share = tl.cdiv(tl.cdiv(length, SPLITS), BN) * BN
    used = tl.cdiv(length, tl.maximum(share, 1))
    most, total = -1e30, 0.0
    acc = tl.zeros((D,), tl.float32)
    for part in range(used):
        value = tl.load(lse + z * SPLITS + part)
        new = tl.maximum(most, value)
        acc = acc * tl.exp(most - new)
        acc += tl.exp(value - new) * tl.load(parts + (z * SPLITS + part) * D + dim)
        total = total * tl.exp(most - new) + tl.exp(value - new)
        most = new
    tl.store(o + z * D + dim, acc / total)


def launch_combine(rng):
    grid, given = launch_decode_split(rng)
    kept = {name: given[name] for name in ("parts", "lse", "lengths", "SPLITS", "D", "BN")}
    return grid[:1], dict(o=np.zeros((grid[0], 16), "f4"), **kept)


@triton.jit
def decode_paged(q, k, v, o, table, lengths, pages, PAGE: tl.constexpr, D: tl.constexpr):
    z, dim, slot = tl.program_id(0), tl.arange(0, D), tl.arange(0, PAGE)
    length = tl.load(lengths + z)
    x = tl.load(q + z * D + dim)
    total = tl.zeros((PAGE,), tl.float32)
    acc = tl.zeros((D,), tl.float32)
    for i in range(tl.cdiv(length, PAGE)):
        page = tl.load(table + z * pages + i).to(tl.int64)
        kept = i * PAGE + slot < length
        at = (page * PAGE + slot)[:, None] * D + dim[None, :]
        score = tl.sum(x[None, :] * tl.load(k + at, mask=kept[:, None], other=0.0), 1)
        p = tl.where(kept, tl.exp(score.to(tl.float32)), 0.0)
        total += p
        acc += tl.sum(p[:, None] * tl.load(v + at, mask=kept[:, None], other=0.0), 0)
    tl.store(o + z * D + dim, acc / tl.sum(total, 0))


def launch_decode_paged(rng):
    z, page = int(rng.integers(1, 6)), int(rng.choice([8, 16]))
    pages = triton.cdiv(60, page)
    lengths = rng.integers(1, 60, z).astype("i4")
    q, o = np.zeros((2, z, 16), "f4")
    k, v = np.zeros((2, z * pages + 5, page, 16), "f2")
    table = rng.permutation(z * pages + 5)[: z * pages].reshape(z, pages).astype("i4")
    table[:, 0] = table[0, 0]  # a page that all share
    return (z,), {
        "q": q,
        "k": k,
        "v": v,
        "o": o,
        "table": table,
        "lengths": lengths,
        "pages": pages,
        "PAGE": page,
        "D": 16,
    }


@triton.jit
def ragged(q, k, v, o, cu_q, cu_k, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    z, dim = tl.program_id(1), tl.arange(0, D)
    first, last = tl.load(cu_q + z), tl.load(cu_q + z + 1)
    row = first + tl.program_id(0) * BM + tl.arange(0, BM)
    if first + tl.program_id(0) * BM >= last:
        return
    own = row[:, None] * D + dim[None, :]
    x = tl.load(q + own, mask=row[:, None] < last, other=0.0)
    begin, end = tl.load(cu_k + z), tl.load(cu_k + z + 1)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(begin, end, BN):
        column = start + tl.arange(0, BN)
        kept = column[:, None] < end
        at = column[:, None] * D + dim[None, :]
        p = tl.exp(tl.dot(x, tl.trans(tl.load(k + at, mask=kept, other=0.0))))
        p = tl.where(column[None, :] < end, p, 0.0)
        total += tl.sum(p, 1)
        y = tl.load(v + at, mask=kept, other=0.0)
        acc = tl.dot(p.to(y.dtype), y, acc)
    tl.store(o + own, acc / total[:, None], mask=row[:, None] < last)


def launch_ragged(rng):
    z = int(rng.integers(1, 5))
    cu_q, cu_k = (
        np.concatenate([[0], np.cumsum(rng.integers(0, 50, z))]).astype("i4") for _ in range(2)
    )
    q, o = np.zeros((2, max(1, cu_q[-1]), 16), "f2")
    k, v = np.zeros((2, max(1, cu_k[-1]), 16), "f2")
    longest = max(1, int(np.diff(cu_q).max()))
    return (triton.cdiv(longest, 16), z), {
        "q": q,
        "k": k,
        "v": v,
        "o": o.astype("f4"),
        "cu_q": cu_q,
        "cu_k": cu_k,
        "BM": 16,
        "BN": 16,
        "D": 16,
    }


@triton.jit
def linear_attention(q, k, v, o, N, CHUNK: tl.constexpr, D: tl.constexpr):
    z, dim, i = tl.program_id(0), tl.arange(0, D), tl.arange(0, CHUNK)
    state = tl.zeros((D, D), tl.float32)
    for start in range(0, N, CHUNK):
        row = start + i
        at = (z * N + row)[:, None] * D + dim[None, :]
        kept = (row < N)[:, None]
        a = tl.load(q + at, mask=kept, other=0.0)
        b = tl.load(k + at, mask=kept, other=0.0)
        c = tl.load(v + at, mask=kept, other=0.0)
        inside = tl.where(i[:, None] >= i[None, :], tl.dot(a, tl.trans(b)), 0.0)
        out = tl.dot(inside.to(c.dtype), c) + tl.dot(a, state.to(a.dtype))
        state = tl.dot(tl.trans(b), c, state)
        tl.store(o + at, out, mask=kept)


def launch_linear_attention(rng):
    z, n = (int(i) for i in rng.integers(1, [4, 90]))
    q, k, v = np.zeros((3, z, n, 16), "f2")
    return (z,), {
        "q": q,
        "k": k,
        "v": v,
        "o": np.zeros((z, n, 16), "f4"),
        "N": n,
        "CHUNK": 16,
        "D": 16,
    }


@triton.jit
def sliding(q, k, o, N, width, sinks, B: tl.constexpr, D: tl.constexpr):
    i, dim = tl.program_id(0), tl.arange(0, D)
    row = i * B + tl.arange(0, B)
    own = row[:, None] * D + dim[None, :]
    x = tl.load(q + own, mask=row[:, None] < N, other=0.0)
    acc = tl.zeros((B, D), tl.float32)
    low = tl.maximum(i * B - width, 0) // B
    for j in range(i + 1):
        if (j >= low) | (j * B < sinks):
            column = j * B + tl.arange(0, B)
            y = tl.load(k + column[:, None] * D + dim[None, :], mask=column[:, None] < N, other=0.0)
            p = tl.exp(tl.dot(x, tl.trans(y)))
            acc = tl.dot(p.to(y.dtype), y, acc)
    tl.store(o + own, acc, mask=row[:, None] < N)


def launch_sliding(rng):
    n, width, sinks = (int(i) for i in rng.integers(1, [120, 60, 20]))
    q, k = np.zeros((2, n, 16), "f2")
    return (math.ceil(n / 16),), {
        "q": q,
        "k": k,
        "o": np.zeros((n, 16), "f4"),
        "N": n,
        "width": width,
        "sinks": sinks,
        "B": 16,
        "D": 16,
    }
