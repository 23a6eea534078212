"""Kernels whose words depend on data: rows by index, labels, experts, ranks."""

import numpy as np
import triton
import triton.language as tl
from interpreted import Addresses


@triton.jit
def gather_rows(out, x, index, columns, BLOCK: tl.constexpr):
    i, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(index + i)
    value = tl.load(x + row * columns + at, mask=at < columns)
    tl.store(out + i * columns + at, value, mask=at < columns)


def launch_gather_rows(rng):
    rows, count, columns = (int(i) for i in rng.integers(1, [20, 20, 100]))
    index = rng.integers(0, rows, count).astype("i8")
    return (count, triton.cdiv(columns, 32)), {
        "out": np.zeros((count, columns), "f4"),
        "x": np.zeros((rows, columns), "f4"),
        "index": index,
        "columns": columns,
        "BLOCK": 32,
    }


@triton.jit
def scatter_rows(out, x, index, count, columns, BM: tl.constexpr, BN: tl.constexpr):
    i, at = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    to = tl.load(index + i, mask=i < count, other=-1)
    kept = (i < count)[:, None] & (at < columns)[None, :]
    value = tl.load(x + i[:, None] * columns + at[None, :], mask=kept)
    goes = kept & (to >= 0)[:, None]
    tl.store(out + to[:, None] * columns + at[None, :], value, mask=goes)


def launch_scatter_rows(rng):
    rows, count, columns = (int(i) for i in rng.integers(1, [20, 20, 30]))
    return (triton.cdiv(count, 8),), {
        "out": np.zeros((rows, columns), "f4"),
        "x": np.zeros((count, columns), "f4"),
        "index": rng.integers(-1, rows, count).astype("i4"),
        "count": count,
        "columns": columns,
        "BM": 8,
        "BN": 32,
    }


@triton.jit
def add_rows(out, x, index, count, columns, BM: tl.constexpr, BN: tl.constexpr):
    i, at = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    to = tl.load(index + i, mask=i < count, other=-1)
    kept = (i < count)[:, None] & (at < columns)[None, :] & (to >= 0)[:, None]
    value = tl.load(x + i[:, None] * columns + at[None, :], mask=kept)
    tl.atomic_add(out + to[:, None] * columns + at[None, :], value, mask=kept)


launch_add_rows = launch_scatter_rows


@triton.jit
def embedding(out, table, tokens, first, last, D: tl.constexpr, BLOCK: tl.constexpr):
    i, at = tl.program_id(0), tl.arange(0, BLOCK)
    token = tl.load(tokens + i)
    value = tl.zeros((BLOCK,), tl.float32)
    if (token >= first) and (token < last):
        value = tl.load(table + (token - first) * D + at, mask=at < D)
    tl.store(out + i * D + at, value, mask=at < D)


def launch_embedding(rng):
    count, d, first, rows = (int(i) for i in rng.integers(1, [30, 30, 20, 20]))
    return (count,), {
        "out": np.zeros((count, d), "f4"),
        "table": np.zeros((rows, d), "f4"),
        "tokens": rng.integers(0, 50, count).astype("i4"),
        "first": first,
        "last": first + rows,
        "D": d,
        "BLOCK": 32,
    }


@triton.jit
def cross_entropy(loss, dx, x, labels, columns, ignored, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(labels + row)
    x += row * columns
    dx += row * columns
    if label == ignored:
        for start in range(0, columns, BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(dx + at, 0.0, mask=at < columns)
        tl.store(loss + row, 0.0)
        return
    most, total = -1e30, 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        part = tl.load(x + at, mask=at < columns, other=-1e30)
        new = tl.maximum(most, tl.max(part, 0))
        total = total * tl.exp(most - new) + tl.sum(tl.exp(part - new), 0)
        most = new
    tl.store(loss + row, most + tl.log(total) - tl.load(x + label))
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        part = tl.exp(tl.load(x + at, mask=at < columns, other=-1e30) - most) / total
        tl.store(dx + at, tl.where(at == label, part - 1, part), mask=at < columns)


def launch_cross_entropy(rng):
    rows, columns = (int(i) for i in rng.integers(1, [20, 100]))
    labels = rng.integers(0, columns, rows).astype("i8")
    labels[rng.random(rows) < 0.3] = -100
    dx, x = np.zeros((2, rows, columns), "f4")
    return (rows,), {
        "loss": np.zeros(rows, "f4"),
        "dx": dx,
        "x": x,
        "labels": labels,
        "columns": columns,
        "ignored": -100,
        "BLOCK": 32,
    }


@triton.jit
def rope(x, cos, sin, positions, heads, HALF: tl.constexpr, BH: tl.constexpr):
    i, head, at = tl.program_id(0), tl.arange(0, BH)[:, None], tl.arange(0, HALF)[None, :]
    place = tl.load(positions + i)
    c, s = tl.load(cos + place * HALF + at), tl.load(sin + place * HALF + at)
    first = x + (i * heads + head) * 2 * HALF + at
    kept = head < heads
    a = tl.load(first, mask=kept, other=0.0)
    b = tl.load(first + HALF, mask=kept, other=0.0)
    tl.store(first, a * c - b * s, mask=kept)
    tl.store(first + HALF, b * c + a * s, mask=kept)


def launch_rope(rng):
    count, heads = (int(i) for i in rng.integers(1, [20, 8]))
    cos, sin = np.zeros((2, 50, 8), "f4")
    return (count,), {
        "x": np.zeros((count, heads, 16), "f2"),
        "cos": cos,
        "sin": sin,
        "positions": rng.integers(0, 50, count).astype("i4"),
        "heads": heads,
        "HALF": 8,
        "BH": triton.next_power_of_2(heads),
    }


@triton.jit
def best_expert(out, x, scores, weights, experts, D: tl.constexpr, BE: tl.constexpr):
    i, e, at = tl.program_id(0), tl.arange(0, BE), tl.arange(0, D)
    score = tl.load(scores + i * experts + e, mask=e < experts, other=-1e30)
    best = tl.argmax(score, 0)
    value = tl.load(x + i * D + at) * tl.load(weights + best * D + at)
    tl.store(out + i * D + at, value)


def launch_best_expert(rng):
    count, experts = (int(i) for i in rng.integers(1, [20, 12]))
    out, x = np.zeros((2, count, 16), "f4")
    return (count,), {
        "out": out,
        "x": x,
        "scores": rng.standard_normal((count, experts)).astype("f4"),
        "weights": np.zeros((experts, 16), "f4"),
        "experts": experts,
        "D": 16,
        "BE": triton.next_power_of_2(experts),
    }


@triton.jit
def top_experts(
    out, x, scores, weights, experts, K: tl.constexpr, D: tl.constexpr, BE: tl.constexpr
):
    i, e, at = tl.program_id(0), tl.arange(0, BE), tl.arange(0, D)
    score = tl.load(scores + i * experts + e, mask=e < experts, other=-1e30)
    value = tl.load(x + i * D + at)
    total = tl.zeros((D,), tl.float32)
    for _ in range(K):
        best = tl.argmax(score, 0)
        total += value * tl.load(weights + best * D + at)
        score = tl.where(e == best, -2e30, score)
    tl.store(out + i * D + at, total)


def launch_top_experts(rng):
    grid, given = launch_best_expert(rng)
    return grid, dict(**given, K=min(3, given["experts"]))


@triton.jit
def histogram(counts, x, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(counts + (value & (BINS - 1)), 1, mask=at < n)


def launch_histogram(rng):
    n = int(rng.integers(1, 300))
    return (triton.cdiv(n, 64),), {
        "counts": np.zeros(16, "i4"),
        "x": rng.integers(-50, 50, n).astype("i4"),
        "n": n,
        "BINS": 16,
        "BLOCK": 64,
    }


@triton.jit
def compact(out, x, flags, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    flag = tl.load(flags + at, mask=at < n, other=0).to(tl.int32)
    to = tl.cumsum(flag, 0) - flag
    value = tl.load(x + at, mask=flag != 0)
    tl.store(out + to, value, mask=flag != 0)


def launch_compact(rng):
    n = int(rng.integers(1, 64))
    out, x = np.zeros((2, n), "f4")
    return (1,), {
        "out": out,
        "x": x,
        "flags": rng.integers(0, 2, n).astype("i1"),
        "n": n,
        "BLOCK": 64,
    }


@triton.jit
def cumulative_sum(out, x, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    carry = tl.zeros((BM,), tl.float32)
    for start in range(0, columns, BN):
        column = start + tl.arange(0, BN)
        at = row[:, None] * columns + column[None, :]
        kept = (row < rows)[:, None] & (column < columns)[None, :]
        part = tl.load(x + at, mask=kept, other=0.0)
        tl.store(out + at, tl.cumsum(part, 1) + carry[:, None], mask=kept)
        carry += tl.sum(part, 1)


def launch_cumulative_sum(rng):
    rows, columns = (int(i) for i in rng.integers(1, [20, 100]))
    out, x = np.zeros((2, rows, columns), "f4")
    return (triton.cdiv(rows, 4),), {
        "out": out,
        "x": x,
        "rows": rows,
        "columns": columns,
        "BM": 4,
        "BN": 16,
    }


@triton.jit
def join_steps(decay, value, next_decay, next_value):
    return decay * next_decay, next_decay * value + next_value


@triton.jit
def recurrence(out, decays, x, N, D, B: tl.constexpr, BD: tl.constexpr):
    dim, i = tl.program_id(0) * BD + tl.arange(0, BD), tl.arange(0, B)
    at = i[:, None] * D + dim[None, :]
    kept = (i < N)[:, None] & (dim < D)[None, :]
    a = tl.load(decays + at, mask=kept, other=1.0)
    b = tl.load(x + at, mask=kept, other=0.0)
    _, state = tl.associative_scan((a, b), 0, join_steps)
    tl.store(out + at, state, mask=kept)


def launch_recurrence(rng):
    n, d = (int(i) for i in rng.integers(1, [16, 12]))
    out, decays, x = np.zeros((3, n, d), "f4")
    return (triton.cdiv(d, 4),), {
        "out": out,
        "decays": decays,
        "x": x,
        "N": n,
        "D": d,
        "B": 16,
        "BD": 4,
    }


@triton.jit
def binary_search(out, sorted_values, queries, n, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    query = tl.load(queries + at, mask=at < count, other=0)
    low, high = tl.zeros((BLOCK,), tl.int32), tl.zeros((BLOCK,), tl.int32) + n
    width = n
    while width > 0:
        middle = (low + high) // 2
        open_ = (low < high) & (at < count)
        value = tl.load(sorted_values + middle, mask=open_, other=0)
        low = tl.where(open_ & (value < query), middle + 1, low)
        high = tl.where(open_ & (value >= query), middle, high)
        width = width // 2
    tl.store(out + at, low, mask=at < count)


def launch_binary_search(rng):
    n, count = (int(i) for i in rng.integers(1, 80, 2))
    return (triton.cdiv(count, 16),), {
        "out": np.zeros(count, "i4"),
        "sorted_values": np.sort(rng.integers(0, 50, n)).astype("i4"),
        "queries": rng.integers(-5, 55, count).astype("i4"),
        "n": n,
        "count": count,
        "BLOCK": 16,
    }


@triton.jit
def skip_blocks(out, x, marks, n, limit, BLOCK: tl.constexpr):
    for j in range(tl.cdiv(n, BLOCK)):
        mark = tl.load(marks + tl.program_id(0) * tl.cdiv(n, BLOCK) + j)
        if mark > limit:
            at = j * BLOCK + tl.arange(0, BLOCK)
            value = tl.load(x + at, mask=at < n)
            tl.store(out + tl.program_id(0) * n + at, value, mask=at < n)


def launch_skip_blocks(rng):
    rows, n = (int(i) for i in rng.integers(1, [8, 150]))
    blocks = triton.cdiv(n, 16)
    return (rows,), {
        "out": np.zeros((rows, n), "f4"),
        "x": np.zeros(n, "f4"),
        "marks": rng.random((rows, blocks)).astype("f4"),
        "n": n,
        "limit": 0.5,
        "BLOCK": 16,
    }


@triton.jit
def addressed_groups(addresses, out, sizes, groups, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    for g in range(groups):
        source = tl.load(addresses + g).to(tl.pointer_type(tl.float16))
        size = tl.load(sizes + g)
        value = tl.load(source + at, mask=at < size, other=0.0)
        tl.store(out + g * B * tl.num_programs(0) + at, value, mask=at < size)


def launch_addressed_groups(rng):
    groups, blocks = (int(i) for i in rng.integers(1, 5, 2))
    tensors = [np.zeros(32 * blocks, "f2") for _ in range(groups)]
    return (blocks,), {
        "addresses": Addresses(tensors),
        "out": np.zeros((groups, 32 * blocks), "f2"),
        "sizes": rng.integers(0, 32 * blocks, groups).astype("i4"),
        "groups": groups,
        "B": 32,
    }


@triton.jit
def masked_by_tensor(out, x, marks, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    column = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    kept = (row < rows) & (column < columns)
    mark = tl.load(marks + row * columns + column, mask=kept, other=False)
    value = tl.load(x + row * columns + column, mask=mark & kept, other=0.0)
    tl.store(out + row * columns + column, value, mask=kept)


def launch_masked_by_tensor(rng):
    rows, columns = (int(i) for i in rng.integers(1, [20, 40]))
    out, x = np.zeros((2, rows, columns), "f4")
    return (triton.cdiv(rows, 8), triton.cdiv(columns, 16)), {
        "out": out,
        "x": x,
        "marks": rng.random((rows, columns)) < 0.5,
        "rows": rows,
        "columns": columns,
        "BM": 8,
        "BN": 16,
    }


@triton.jit
def resize_nearest(out, x, new, old, ratio, BLOCK: tl.constexpr):
    row, at = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    source = tl.minimum(((at + 0.5) * ratio).to(tl.int32), old - 1)
    line = tl.floor((row.to(tl.float32) + 0.5) * ratio).to(tl.int32)
    value = tl.load(x + tl.minimum(line, old - 1) * old + source, mask=at < new)
    tl.store(out + row * new + at, value, mask=at < new)


def launch_resize_nearest(rng):
    old, new = (int(i) for i in rng.integers(1, 40, 2))
    return (triton.cdiv(new, 16), new), {
        "out": np.zeros((new, new), "f4"),
        "x": np.zeros((old, old), "f4"),
        "new": new,
        "old": old,
        "ratio": old / new,
        "BLOCK": 16,
    }


@triton.jit
def by_rank(out, x, keys, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    key = tl.load(keys + tl.program_id(0) * n + at, mask=at < n, other=1000)
    order = tl.sort(key * BLOCK + at) % BLOCK
    value = tl.load(x + tl.program_id(0) * n + order, mask=at < n // 2 + 1)
    tl.store(out + tl.program_id(0) * n + tl.flip(at, 0), value, mask=tl.flip(at, 0) < n)


def launch_by_rank(rng):
    n = int(rng.integers(1, 16))
    out, x = np.zeros((2, 3, n), "f4")
    keys = rng.integers(0, 9, (3, n)).astype("i4")
    return (3,), {"out": out, "x": x, "keys": keys, "n": n, "BLOCK": 16}


@triton.jit
def shuffles(out, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) + tl.program_id(1) * tl.num_programs(0)
    at = tl.arange(0, BLOCK)
    turned = tl.trans(tl.reshape(at, (BLOCK // 4, 4)))
    mixed = tl.reshape(tl.permute(tl.reshape(at, (2, BLOCK // 4, 2)), (2, 0, 1)), (4, BLOCK // 4))
    both = turned + tl.broadcast_to(mixed, (4, BLOCK // 4)) * BLOCK
    total = tl.load(x + i + both, mask=both < n)
    tl.store(out + i * BLOCK + tl.reshape(turned, (BLOCK,)), tl.reshape(total, (BLOCK,)))
    picked = tl.gather(at * at % BLOCK, (at + i) % BLOCK, 0)
    tl.atomic_max(out + i * BLOCK + picked, 1, mask=(picked & 1) == (i & 1))
    most = tl.max(tl.where(at < n, at, 0), 0)
    tl.store(
        out + i * BLOCK + tl.interleave(at, at + most) % BLOCK, 2, mask=tl.interleave(at, at) < n
    )


def launch_shuffles(rng):
    grid = tuple(int(i) for i in rng.integers(1, 4, 2))
    programs = grid[0] * grid[1]
    n = int(rng.integers(1, 1000))
    return grid, {
        "out": np.zeros((programs, 32), "i4"),
        "x": np.zeros(1056 + programs, "i4"),
        "n": n,
        "BLOCK": 32,
    }


@triton.jit
def largest_magnitude(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.atomic_max(out + at % 8, value, mask=at < n)


def launch_largest_magnitude(rng):
    n = int(rng.integers(1, 200))
    return (triton.cdiv(n, 32),), {
        "out": np.zeros(8, "f4"),
        "x": rng.standard_normal(n).astype("f4"),
        "n": n,
        "BLOCK": 32,
    }


@triton.jit
def swap_words(old, out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    before = tl.atomic_xchg(x + at, 1, mask=at < n)
    was = tl.atomic_cas(out + at % 8, before, before + 1)
    tl.store(old + at, was, mask=at < n)


def launch_swap_words(rng):
    n = int(rng.integers(1, 200))
    old, x = np.zeros((2, n), "i4")
    return (triton.cdiv(n, 32),), {
        "old": old,
        "out": np.zeros(8, "i4"),
        "x": x,
        "n": n,
        "BLOCK": 32,
    }


@triton.jit
def ragged_end(out, lengths, n):
    i, to = tl.program_id(0), tl.program_id(0)
    for j in range(tl.load(lengths + i)):
        to = (to * 3 + j) % n
    tl.store(out + to, 1.0)


def launch_ragged_end(rng):
    programs, n = (int(i) for i in rng.integers(2, [12, 40]))
    lengths = rng.integers(0, 7, programs).astype("i4")
    return (programs,), {"out": np.zeros(n, "f4"), "lengths": lengths, "n": n}


@triton.jit
def backwards(out, flags, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    flag = tl.load(flags + at, mask=at < n, other=0)
    left = tl.cumsum(flag, 0, reverse=True)
    tl.store(out + left, 1.0, mask=at < n)
    away = (at - n) % 7 + 6 + (at - n) // 5  # rounds towards zero
    tl.store(out + n + 20 + away, 2.0)


def launch_backwards(rng):
    n = int(rng.integers(1, 32))
    flags = rng.integers(0, 2, n).astype("i4")
    return (1,), {"out": np.zeros(100, "f4"), "flags": flags, "n": n, "BLOCK": 32}
