"""Kernels of vectors: masks, loops, branches, calls, decorators."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def add(out, x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = at < n
    tl.store(out + at, tl.load(x + at, mask=kept) + tl.load(y + at, mask=kept), mask=kept)


def launch_add(rng):
    n = int(rng.integers(1, 300))
    out, x, y = np.zeros((3, n), "f4")
    return (triton.cdiv(n, 64),), {"out": out, "x": x, "y": y, "n": n, "BLOCK": 64}


@triton.jit
def scale_in_place(x, factor, rows, columns, step, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(1) * BM + tl.arange(0, BM)
    column = tl.program_id(0) * BN + tl.arange(0, BN)
    at = x + row[:, None] * step + column[None, :]
    kept = (row < rows)[:, None] & (column < columns)[None, :]
    tl.store(at, tl.load(at, mask=kept, other=0.0) * factor, mask=kept)


def launch_scale_in_place(rng):
    rows, columns, gap = (int(n) for n in rng.integers(1, 50, 3))
    x = np.zeros((rows, columns + gap), "f2")
    grid = triton.cdiv(columns, 32), triton.cdiv(rows, 8)
    return grid, {
        "x": x,
        "factor": 2.5,
        "rows": rows,
        "columns": columns,
        "step": columns + gap,
        "BM": 8,
        "BN": 32,
    }


@triton.jit
def dropout(out, x, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = at < n
    stays = tl.rand(seed, at) > p
    value = tl.load(x + at, mask=kept & stays, other=0.0)
    tl.store(out + at, value / (1 - p), mask=kept)


@triton.jit
def dropout_later(out, x, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = at < n
    value = tl.load(x + at, mask=kept, other=0.0)
    tl.store(out + at, tl.where(tl.rand(seed, at) > p, value / (1 - p), 0.0), mask=kept)


def launch_dropout_later(rng):
    n = int(rng.integers(1, 200))
    out, x = np.zeros((2, n), "f4")
    return (triton.cdiv(n, 64),), {
        "out": out,
        "x": x,
        "n": n,
        "p": 0.4,
        "seed": int(rng.integers(0, 2**31)),
        "BLOCK": 64,
    }


launch_dropout = launch_dropout_later


@triton.jit
def grid_stride(out, x, n, BLOCK: tl.constexpr):
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, n, step):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n)
        tl.store(out + at, value * tl.sigmoid(value), mask=at < n)


def launch_grid_stride(rng):
    n = int(rng.integers(1, 2000))
    out, x = np.zeros((2, n), "f4")
    return (int(rng.integers(1, 9)),), {"out": out, "x": x, "n": n, "BLOCK": 32}


@triton.jit
def early_return(out, x, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    if start >= n:
        return
    at = start + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    if start % (2 * BLOCK) == 0:
        tl.store(out + at, value, mask=at < n)
        return
    tl.store(out + at, -value, mask=at < n)


def launch_early_return(rng):
    n = int(rng.integers(1, 400))
    out, x = np.zeros((2, n), "f4")
    return (20,), {"out": out, "x": x, "n": n, "BLOCK": 32}


@triton.jit
def strided_while(out, x, n, first):
    i = tl.program_id(0) + first
    while i < n:
        tl.store(out + i, tl.load(x + i))
        i = i * 2 + 1


def launch_strided_while(rng):
    n = int(rng.integers(1, 100))
    out, x = np.zeros((2, n), "f4")
    return (int(rng.integers(1, 9)),), {
        "out": out,
        "x": x,
        "n": n,
        "first": int(rng.integers(0, 5)),
    }


@triton.jit
def unrolled(out, x, n, TIMES: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for k in tl.static_range(TIMES):
        total += tl.load(x + k * n + at, mask=at < n, other=0.0)
    tl.store(out + at, total / TIMES, mask=at < n)


def launch_unrolled(rng):
    n, times = (int(i) for i in rng.integers(1, [100, 6]))
    return (triton.cdiv(n, 16),), {
        "out": np.zeros(n, "f4"),
        "x": np.zeros((times, n), "f4"),
        "n": n,
        "TIMES": times,
        "BLOCK": 16,
    }


@triton.jit
def places(i, n, BLOCK: tl.constexpr):
    at = i * BLOCK + tl.arange(0, BLOCK)
    return at, at < n


@triton.jit(noinline=True)
def shift(i, by, n):
    return (i + by) % n


@triton.jit(noinline=True)
def copy_one(out, x, to, i):
    tl.store(out + to, tl.load(x + i))


@triton.jit
def calls(out, x, heads, n, by, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at, kept = places(pid, n, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=kept, other=0.0), mask=kept)
    copy_one(heads, x, pid, shift(pid, by, n))


def launch_calls(rng):
    n = int(rng.integers(1, 100))
    grid = triton.cdiv(n, 16)
    out, x = np.zeros((2, n), "f4")
    return (grid,), {
        "out": out,
        "x": x,
        "heads": np.zeros(grid, "f4"),
        "n": n,
        "by": int(rng.integers(0, 50)),
        "BLOCK": 16,
    }


@triton.jit
def switches(out, x, bias, n, BIAS: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    if BIAS:
        value += tl.load(bias + at, mask=at < n)
    if KIND == "relu":
        value = tl.maximum(value, 0)
    elif KIND == "square":
        value = value * value
    else:
        tl.static_assert(KIND == "none")
    tl.store(out + at, value, mask=at < n)


def launch_switches(rng):
    n = int(rng.integers(1, 100))
    out, x, bias = np.zeros((3, n), "f4")
    has = bool(rng.integers(0, 2))
    kind = str(rng.choice(["relu", "square", "none"]))
    return (triton.cdiv(n, 32),), {
        "out": out,
        "x": x,
        "bias": bias if has else None,
        "n": n,
        "BIAS": has,
        "KIND": kind,
        "BLOCK": 32,
    }


@triton.autotune(
    [triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((32, 1), (64, 2))], key=["n"]
)
@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def tuned(out, x, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + at, tl.load(x + at))
    else:
        tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


def launch_tuned(rng):
    n = int(rng.integers(1, 5)) * 32 + int(rng.choice([0, 7]))
    out, x = np.zeros((2, n), "f4")
    return (triton.cdiv(n, 32),), {"out": out, "x": x, "n": n}


@triton.jit
def pick_tensor(out, x, y, n, first, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    at = i * BLOCK + tl.arange(0, BLOCK)
    source = x
    if i >= first:
        source = y + 3
    tl.store(out + at, tl.load(source + at, mask=at < n), mask=at < n)


def launch_pick_tensor(rng):
    n = int(rng.integers(1, 200))
    out, x = np.zeros((2, n), "f4")
    return (triton.cdiv(n, 16),), {
        "out": out,
        "x": x,
        "y": np.zeros(n + 3, "f4"),
        "n": n,
        "first": int(rng.integers(0, 8)),
        "BLOCK": 16,
    }


@triton.jit
def interleave(out, x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pairs = tl.join(2 * at, 2 * at + 1)
    both = tl.join(tl.load(x + at, mask=at < n), tl.load(y + at, mask=at < n))
    tl.store(out + pairs, both, mask=pairs < 2 * n)
    even, odd = tl.split(tl.reshape(tl.arange(0, BLOCK), (BLOCK // 2, 2)))
    tl.store(out + 2 * n + even, tl.zeros_like(even).to(tl.float32), mask=odd < n)


def launch_interleave(rng):
    n = int(rng.integers(1, 100))
    x, y = np.zeros((2, n), "f4")
    return (triton.cdiv(n, 32),), {
        "out": np.zeros(2 * n + 32, "f4"),
        "x": x,
        "y": y,
        "n": n,
        "BLOCK": 32,
    }


@triton.jit
def window(out, x, n, width, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(-width, width + 1):
        near = at + k
        total += tl.load(x + near, mask=(near >= 0) & (near < n), other=0.0)
    tl.store(out + at, total, mask=at < n)


def launch_window(rng):
    n = int(rng.integers(1, 150))
    out, x = np.zeros((2, n), "f4")
    return (triton.cdiv(n, 32),), {
        "out": out,
        "x": x,
        "n": n,
        "width": int(rng.integers(0, 6)),
        "BLOCK": 32,
    }


@triton.jit
def by_exponent(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bits = tl.load(x + at, mask=at < n, other=0.0).to(tl.int32, bitcast=True)
    sign = (bits < 0).to(tl.int32)
    exponent = (bits >> 23) & 255
    tl.atomic_add(out + sign * 256 + exponent, 1, mask=at < n)


def launch_by_exponent(rng):
    n = int(rng.integers(1, 200))
    x = (rng.standard_normal(n) * 1e3).astype("f4")
    return (triton.cdiv(n, 64),), {"out": np.zeros(512, "i4"), "x": x, "n": n, "BLOCK": 64}


@triton.jit
def two_edges(out, x, n, m, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0), tl.program_id(1)
    row, column = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    kept = (row + column < n - 3 * i) & (row * 2 < m - j) & (column + j < n)
    at = ((i * tl.num_programs(1) + j) * BM + row) * BN + column
    tl.store(out + at, tl.load(x + row * BN + column, mask=kept), mask=kept)


def launch_two_edges(rng):
    n, m, *grid = (int(i) for i in rng.integers(2, [30, 16, 6, 6]))
    out, x = np.zeros((*grid, 8, 16), "f4"), np.zeros((8, 16), "f4")
    return tuple(grid), {"out": out, "x": x, "n": n, "m": m, "BM": 8, "BN": 16}


@triton.jit
def masked_by_product(out, x, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    kept = (c < columns)[None, :] * (r < rows)[:, None]
    at = r[:, None] * columns + c[None, :]
    tl.store(out + at, tl.load(x + at, mask=kept), mask=kept)


def launch_masked_by_product(rng):
    rows, columns = (int(i) for i in rng.integers(1, [40, 60]))
    grid = triton.cdiv(rows, 8), triton.cdiv(columns, 16)
    out, x = np.zeros((2, rows, columns), "f4")
    return grid, {"out": out, "x": x, "rows": rows, "columns": columns, "BM": 8, "BN": 16}


@triton.jit
def row_by_row(out, x, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    c = tl.program_id(0) * BN + tl.arange(0, BN)
    for i in range(BM):
        r = tl.program_id(1) * BM + i
        at = r * columns + c
        kept = (c < columns) & (r < rows)
        tl.store(out + at, tl.load(x + at, mask=kept), mask=kept)


def launch_row_by_row(rng):
    rows, columns = (int(i) for i in rng.integers(1, [40, 60]))
    grid = triton.cdiv(columns, 16), triton.cdiv(rows, 8)
    out, x = np.zeros((2, rows, columns), "f4")
    return grid, {"out": out, "x": x, "rows": rows, "columns": columns, "BM": 8, "BN": 16}


@triton.jit
def in_stages(out, x, n, num_stages: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * num_stages * BLOCK
    for i in tl.range(num_stages, num_stages=num_stages):
        at = first + i * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


def launch_in_stages(rng):
    n, stages = (int(i) for i in rng.integers(1, [200, 4]))
    out, x = np.zeros((2, n), "f4")
    given = {"out": out, "x": x, "n": n, "num_stages": stages, "BLOCK": 16}
    return (triton.cdiv(n, 16 * stages),), given


@triton.jit(noinline=True)
def double(value):
    return value * 2


@triton.jit
def doubled(out, x):
    i = tl.program_id(0)
    tl.store(out + i, double(tl.load(x + i)))


def launch_doubled(rng):
    n = int(rng.integers(1, 40))
    out, x = np.zeros((2, n), "f4")
    return (n,), {"out": out, "x": x}
