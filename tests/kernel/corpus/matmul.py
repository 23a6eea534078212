"""Matrix products: orders of tiles, split sums, batches, quantized operands."""

import numpy as np
import triton
import triton.language as tl


def matrices(rng, dtype="f2"):
    """Sizes of a product, and its three matrices."""
    m, n, k = (int(i) for i in rng.integers(1, 70, 3))
    a, b = np.zeros((m, k), dtype), np.zeros((k, n), dtype)
    return {"a": a, "b": b, "c": np.zeros((m, n), "f4"), "M": m, "N": n, "K": k}


@triton.jit
def matmul(
    a, b, c, M, N, K, am, ak, bk, bn, cm, cn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    at_a = a + row[:, None] * am + inner[None, :] * ak
    at_b = b + inner[:, None] * bk + column[None, :] * bn
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        left = K - k * BK
        x = tl.load(at_a, mask=(row[:, None] < M) & (inner[None, :] < left), other=0.0)
        y = tl.load(at_b, mask=(inner[:, None] < left) & (column[None, :] < N), other=0.0)
        total = tl.dot(x, y, total)
        at_a += BK * ak
        at_b += BK * bk
    kept = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c + row[:, None] * cm + column[None, :] * cn, total, mask=kept)


def launch_matmul(rng):
    given = matrices(rng)
    for x in "abc":
        rows, columns = given[x].shape
        turned = bool(rng.integers(0, 2))
        names = [x + i for i in {"a": "mk", "b": "kn", "c": "mn"}[x]]
        given |= dict(zip(names, (1, rows) if turned else (columns, 1), strict=True))
    grid = triton.cdiv(given["M"], 32), triton.cdiv(given["N"], 16)
    return grid, dict(**given, BM=32, BN=16, BK=16)


@triton.jit
def tile_of(pid, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_SIZE_M: tl.constexpr):
    across, down = tl.cdiv(N, BN), tl.cdiv(M, BM)
    in_group = GROUP_SIZE_M * across
    first = pid // in_group * GROUP_SIZE_M
    size = min(down - first, GROUP_SIZE_M)
    return first + (pid % in_group) % size, (pid % in_group) // size


@triton.jit
def matmul_wrapped(
    a,
    b,
    c,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
):
    i, j = tile_of(tl.program_id(0), M, N, BM, BN, GROUP_SIZE_M)
    row, column = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    at_a = a + (row % M)[:, None] * K + inner[None, :]
    at_b = b + inner[:, None] * N + (column % N)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(at_a, mask=inner[None, :] < K - k, other=0.0)
        y = tl.load(at_b, mask=inner[:, None] < K - k, other=0.0)
        total += tl.dot(x, y)
        at_a += BK
        at_b += BK * N
    kept = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c + row[:, None] * N + column[None, :], total, mask=kept)


def launch_matmul_wrapped(rng):
    given = matrices(rng)
    grid = triton.cdiv(given["M"], 16) * triton.cdiv(given["N"], 16)
    return (grid,), dict(**given, BM=16, BN=16, BK=32, GROUP_SIZE_M=int(rng.integers(1, 4)))


@triton.jit
def matmul_split(a, b, c, M, N, K, SPLIT: tl.constexpr, B: tl.constexpr):
    i, j, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row, column = i * B + tl.arange(0, B), j * B + tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for k in range(part * B, K, SPLIT * B):
        inner = k + tl.arange(0, B)
        left = (row[:, None] < M) & (inner[None, :] < K)
        right = (inner[:, None] < K) & (column[None, :] < N)
        x = tl.load(a + row[:, None] * K + inner[None, :], mask=left, other=0.0)
        y = tl.load(b + inner[:, None] * N + column[None, :], mask=right, other=0.0)
        total = tl.dot(x, y, total)
    kept = (row[:, None] < M) & (column[None, :] < N)
    tl.atomic_add(c + row[:, None] * N + column[None, :], total, mask=kept)


def launch_matmul_split(rng):
    given, split = matrices(rng), int(rng.integers(1, 5))
    grid = triton.cdiv(given["M"], 16), triton.cdiv(given["N"], 16), split
    return grid, dict(**given, SPLIT=split, B=16)


@triton.jit
def matmul_batched(a, b, c, M, N, K, B: tl.constexpr):
    z = tl.program_id(2)
    row, column = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    a, b, c = a + z * M * K, b + z * K * N, c + z * M * N
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        inner = k + tl.arange(0, B)
        left = (row[:, None] < M) & (inner[None, :] < K)
        right = (inner[:, None] < K) & (column[None, :] < N)
        x = tl.load(a + row[:, None] * K + inner[None, :], mask=left, other=0.0)
        y = tl.load(b + inner[:, None] * N + column[None, :], mask=right, other=0.0)
        total = tl.dot(x, y, total)
    kept = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c + row[:, None] * N + column[None, :], total, mask=kept)


def launch_matmul_batched(rng):
    given, batch = matrices(rng), int(rng.integers(1, 4))
    for x in "abc":
        given[x] = np.zeros((batch, *given[x].shape), given[x].dtype)
    grid = triton.cdiv(given["M"], 16), triton.cdiv(given["N"], 16), batch
    return grid, dict(**given, B=16)


@triton.jit
def matmul_grouped(a, b, c, firsts, experts, N, K, groups, B: tl.constexpr):
    tile = tl.program_id(0)
    across = tl.cdiv(N, B)
    before = 0
    for g in range(groups):
        first, end = tl.load(firsts + g), tl.load(firsts + g + 1)
        tiles = tl.cdiv(end - first, B) * across
        while tile >= before and tile < before + tiles:
            row = first + (tile - before) // across * B + tl.arange(0, B)
            column = (tile - before) % across * B + tl.arange(0, B)
            weight = b + tl.load(experts + g) * K * N
            total = tl.zeros((B, B), tl.float32)
            for k in range(0, K, B):
                inner = k + tl.arange(0, B)
                left = (row[:, None] < end) & (inner[None, :] < K)
                right = (inner[:, None] < K) & (column[None, :] < N)
                x = tl.load(a + row[:, None] * K + inner[None, :], mask=left, other=0.0)
                y = tl.load(weight + inner[:, None] * N + column[None, :], mask=right, other=0.0)
                total = tl.dot(x, y, total)
            kept = (row[:, None] < end) & (column[None, :] < N)
            tl.store(c + row[:, None] * N + column[None, :], total, mask=kept)
            tile += tl.num_programs(0)
        before += tiles


def launch_matmul_grouped(rng):
    groups, n, k = (int(i) for i in rng.integers(1, [5, 40, 40]))
    firsts = np.concatenate([[0], np.cumsum(rng.integers(0, 40, groups))]).astype("i4")
    return (int(rng.integers(1, 6)),), {
        "a": np.zeros((max(1, firsts[-1]), k), "f2"),
        "b": np.zeros((groups, k, n), "f2"),
        "c": np.zeros((max(1, firsts[-1]), n), "f4"),
        "firsts": firsts,
        "experts": rng.permutation(groups).astype("i8"),
        "N": n,
        "K": k,
        "groups": groups,
        "B": 16,
    }


@triton.jit
def matmul_persistent(a, b, c, M, N, K, B: tl.constexpr):
    tiles = tl.cdiv(M, B) * tl.cdiv(N, B)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=False):
        i, j = tile_of(tile, M, N, B, B, 2)
        row, column = i * B + tl.arange(0, B), j * B + tl.arange(0, B)
        total = tl.zeros((B, B), tl.float32)
        for k in range(0, K, B):
            inner = k + tl.arange(0, B)
            left = (row[:, None] < M) & (inner[None, :] < K)
            right = (inner[:, None] < K) & (column[None, :] < N)
            x = tl.load(a + row[:, None] * K + inner[None, :], mask=left, other=0.0)
            y = tl.load(b + inner[:, None] * N + column[None, :], mask=right, other=0.0)
            total = tl.dot(x, y, total)
        kept = (row[:, None] < M) & (column[None, :] < N)
        tl.store(c + row[:, None] * N + column[None, :], total, mask=kept)


def launch_matmul_persistent(rng):
    return (int(rng.integers(1, 8)),), dict(**matrices(rng), B=16)


@triton.jit
def matmul_stream(a, b, c, M, N, K, share, B: tl.constexpr):
    steps = tl.cdiv(K, B)
    at = tl.program_id(0) * share
    end = min(at + share, tl.cdiv(M, B) * tl.cdiv(N, B) * steps)
    while at < end:
        tile, first = at // steps, at % steps
        last = min(steps, first + end - at)
        row = tile // tl.cdiv(N, B) * B + tl.arange(0, B)
        column = tile % tl.cdiv(N, B) * B + tl.arange(0, B)
        total = tl.zeros((B, B), tl.float32)
        for k in range(first, last):
            inner = k * B + tl.arange(0, B)
            left = (row[:, None] < M) & (inner[None, :] < K)
            right = (inner[:, None] < K) & (column[None, :] < N)
            x = tl.load(a + row[:, None] * K + inner[None, :], mask=left, other=0.0)
            y = tl.load(b + inner[:, None] * N + column[None, :], mask=right, other=0.0)
            total = tl.dot(x, y, total)
        kept = (row[:, None] < M) & (column[None, :] < N)
        place = c + row[:, None] * N + column[None, :]
        if last - first == steps:
            tl.store(place, total, mask=kept)
        else:
            tl.atomic_add(place, total, mask=kept)
        at += last - first


def launch_matmul_stream(rng):
    given, programs = matrices(rng), int(rng.integers(1, 8))
    steps = triton.cdiv(given["M"], 16) * triton.cdiv(given["N"], 16) * triton.cdiv(given["K"], 16)
    return (programs,), dict(**given, share=triton.cdiv(steps, programs), B=16)


@triton.jit
def matmul_int8(a, b, c, scale_a, scale_b, M, N, K, G: tl.constexpr, B: tl.constexpr):
    row, column = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        inner = k + tl.arange(0, B)
        left = (row[:, None] < M) & (inner[None, :] < K)
        right = (inner[:, None] < K) & (column[None, :] < N)
        x = tl.load(a + row[:, None] * K + inner[None, :], mask=left, other=0)
        y = tl.load(b + inner[:, None] * N + column[None, :], mask=right, other=0)
        sa = tl.load(scale_a + row * tl.cdiv(K, G) + k // G, mask=row < M, other=0.0)
        sb = tl.load(scale_b + k // G * N + column, mask=column < N, other=0.0)
        total += tl.dot(x, y).to(tl.float32) * sa[:, None] * sb[None, :]
    kept = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c + row[:, None] * N + column[None, :], total, mask=kept)


def launch_matmul_int8(rng):
    given = matrices(rng, "i1")
    groups = triton.cdiv(given["K"], 64)
    scale_a = np.zeros((given["M"], groups), "f4")
    scale_b = np.zeros((groups, given["N"]), "f4")
    grid = triton.cdiv(given["M"], 32), triton.cdiv(given["N"], 32)
    return grid, dict(**given, scale_a=scale_a, scale_b=scale_b, G=64, B=32)


@triton.jit
def matmul_int4(a, packed, c, scales, zeros, M, N, K, G, B: tl.constexpr):
    row, column = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        inner = k + tl.arange(0, B)
        left = (row[:, None] < M) & (inner[None, :] < K)
        right = (inner[:, None] < K) & (column[None, :] < N)
        x = tl.load(a + row[:, None] * K + inner[None, :], mask=left, other=0.0)
        word = tl.load(packed + (inner // 8)[:, None] * N + column[None, :], mask=right, other=0)
        of_group = (inner // G)[:, None] * N + column[None, :]
        scale = tl.load(scales + of_group, mask=right, other=0.0)
        zero = tl.load(zeros + of_group // 8, mask=right, other=0)
        y = (word >> (inner % 8 * 4)[:, None]) & 15
        z = (zero >> (column % 8 * 4)[None, :]) & 15
        total = tl.dot(x, ((y - z) * scale).to(tl.float16), total)
    kept = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c + row[:, None] * N + column[None, :], total, mask=kept)


def launch_matmul_int4(rng):
    given, group = matrices(rng), int(rng.choice([8, 24, 32]))
    del given["b"]
    n, groups = given["N"], triton.cdiv(given["K"], group)
    return (triton.cdiv(given["M"], 16), triton.cdiv(n, 16)), dict(
        **given,
        packed=np.zeros((triton.cdiv(given["K"], 8), n), "i4"),
        scales=np.zeros((groups, n), "f4"),
        zeros=np.zeros(groups * n // 8 + 1, "i4"),
        G=group,
        B=16,
    )


@triton.jit
def convolve(out, x, w, H, W, C, O, R, S, stride, pad, P, Q, BM: tl.constexpr, BN: tl.constexpr):
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    z, p, q = place // (P * Q), place // Q % P, place % Q
    filters = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, R * S * C, 16):
        inner = k + tl.arange(0, 16)
        r, s, c = inner // (S * C), inner // C % S, inner % C
        row = (p * stride - pad)[:, None] + r[None, :]
        column = (q * stride - pad)[:, None] + s[None, :]
        kept = (row >= 0) & (row < H) & (column >= 0) & (column < W)
        kept &= (inner < R * S * C)[None, :]
        at = ((z[:, None] * H + row) * W + column) * C + c[None, :]
        weight = (inner < R * S * C)[:, None] & (filters < O)[None, :]
        a = tl.load(x + at, mask=kept, other=0.0)
        b = tl.load(w + inner[:, None] * O + filters[None, :], mask=weight, other=0.0)
        total = tl.dot(a, b, total)
    tl.store(out + place[:, None] * O + filters[None, :], total, mask=(filters < O)[None, :])


def launch_convolve(rng):
    h, w, c, o, r, s, stride, pad = (int(i) for i in rng.integers(1, [9, 9, 5, 20, 4, 4, 3, 3]))
    h, w = h + r, w + s
    p, q = (h + 2 * pad - r) // stride + 1, (w + 2 * pad - s) // stride + 1
    blocks = triton.cdiv(2 * p * q, 16)
    return (blocks, triton.cdiv(o, 16)), {
        "out": np.zeros((blocks * 16, o), "f4"),
        "x": np.zeros((triton.cdiv(blocks * 16, p * q), h, w, c), "f2"),
        "w": np.zeros((r, s, c, o), "f2"),
        **dict(zip("HWCORSPQ", (h, w, c, o, r, s, p, q), strict=True)),
        "stride": stride,
        "pad": pad,
        "BM": 16,
        "BN": 16,
    }
