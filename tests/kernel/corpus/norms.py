"""Softmax and normalization of rows."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def softmax_whole(y, x, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * columns + at, value / tl.sum(value, 0), mask=at < columns)


def launch_softmax_whole(rng):
    rows, columns = (int(i) for i in rng.integers(1, [10, 100]))
    y, x = np.zeros((2, rows, columns), "f4")
    return (rows,), {"y": y, "x": x, "columns": columns, "BLOCK": triton.next_power_of_2(columns)}


@triton.jit
def softmax_online(y, x, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        part = tl.load(x + row + at, mask=at < columns, other=-1e30)
        new = tl.maximum(largest, part)
        total = total * tl.exp(largest - new) + tl.exp(part - new)
        largest = new
    most = tl.max(largest, 0)
    total = tl.sum(total * tl.exp(largest - most), 0)
    for start in range(columns - columns % BLOCK, -1, -BLOCK):
        at = start + tl.arange(0, BLOCK)
        part = tl.load(x + row + at, mask=at < columns, other=0.0)
        tl.store(y + row + at, tl.exp(part - most) / total, mask=at < columns)


def launch_softmax_online(rng):
    rows, columns = (int(i) for i in rng.integers(1, [10, 200]))
    y, x = np.zeros((2, rows, columns), "f4")
    return (rows,), {"y": y, "x": x, "columns": columns, "BLOCK": 32}


@triton.jit
def layer_norm(y, x, weight, bias, mean, rstd, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * columns
    y += row * columns
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
    m = tl.sum(total, 0) / columns
    square = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        part = tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
        square += tl.where(at < columns, (part - m) * (part - m), 0.0)
    r = tl.rsqrt(tl.sum(square, 0) / columns + eps)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        kept = at < columns
        part = tl.load(x + at, mask=kept, other=0.0).to(tl.float32)
        w, b = tl.load(weight + at, mask=kept), tl.load(bias + at, mask=kept)
        tl.store(y + at, (part - m) * r * w + b, mask=kept)


def launch_layer_norm(rng):
    rows, columns = (int(i) for i in rng.integers(1, [10, 150]))
    y, x = np.zeros((2, rows, columns), "f2")
    weight, bias = np.zeros((2, columns), "f4")
    mean, rstd = np.zeros((2, rows), "f4")
    return (rows,), {
        "y": y,
        "x": x,
        "weight": weight,
        "bias": bias,
        "mean": mean,
        "rstd": rstd,
        "columns": columns,
        "eps": 1e-5,
        "BLOCK": 64,
    }


@triton.jit
def layer_norm_backward(dx, dy, dw, db, x, weight, mean, rstd, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    kept = at < columns
    value = tl.load(x + row * columns + at, mask=kept, other=0.0)
    grad = tl.load(dy + row * columns + at, mask=kept, other=0.0)
    w = tl.load(weight + at, mask=kept, other=0.0)
    r = tl.load(rstd + row)
    hat = (value - tl.load(mean + row)) * r
    first = tl.sum(hat * w * grad, 0) / columns
    second = tl.sum(w * grad, 0) / columns
    tl.store(dx + row * columns + at, (w * grad - hat * first - second) * r, mask=kept)
    tl.atomic_add(dw + at, grad * hat, mask=kept)
    tl.atomic_add(db + at, grad, mask=kept)


def launch_layer_norm_backward(rng):
    rows, columns = (int(i) for i in rng.integers(1, [10, 100]))
    dx, dy, x = np.zeros((3, rows, columns), "f4")
    weight, dw, db = np.zeros((3, columns), "f4")
    mean, rstd = np.zeros((2, rows), "f4")
    given = {
        "dx": dx,
        "dy": dy,
        "dw": dw,
        "db": db,
        "x": x,
        "weight": weight,
        "mean": mean,
        "rstd": rstd,
    }
    return (rows,), dict(**given, columns=columns, BLOCK=triton.next_power_of_2(columns))


@triton.jit
def rms_norm(y, x, weight, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    at = tl.arange(0, BN)[None, :]
    kept = (row < rows) & (at < columns)
    value = tl.load(x + row * columns + at, mask=kept, other=0.0)
    r = tl.rsqrt(tl.sum(value * value, 1) / columns + 1e-6)
    w = tl.load(weight + at, mask=at < columns)
    tl.store(y + row * columns + at, value * r[:, None] * w, mask=kept)


def launch_rms_norm(rng):
    rows, columns = (int(i) for i in rng.integers(1, [20, 60]))
    y, x = np.zeros((2, rows, columns), "f4")
    return (triton.cdiv(rows, 4),), {
        "y": y,
        "x": x,
        "weight": np.zeros(columns, "f4"),
        "rows": rows,
        "columns": columns,
        "BM": 4,
        "BN": triton.next_power_of_2(columns),
    }


@triton.jit
def rms_norm_backward(dx, dw, dy, x, weight, rows, columns, share, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    kept = at < columns
    w = tl.load(weight + at, mask=kept, other=0.0)
    sums = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * share
    for row in range(first, tl.minimum(first + share, rows)):
        value = tl.load(x + row * columns + at, mask=kept, other=0.0)
        grad = tl.load(dy + row * columns + at, mask=kept, other=0.0)
        r = tl.rsqrt(tl.sum(value * value, 0) / columns + 1e-6)
        dot = tl.sum(grad * w * value, 0) * r * r / columns
        tl.store(dx + row * columns + at, (grad * w - value * dot) * r, mask=kept)
        sums += grad * value * r
    tl.atomic_add(dw + at, sums, mask=kept)


def launch_rms_norm_backward(rng):
    rows, columns, share = (int(i) for i in rng.integers(1, [20, 60, 7]))
    dx, dy, x = np.zeros((3, rows, columns), "f4")
    weight, dw = np.zeros((2, columns), "f4")
    return (triton.cdiv(rows, share) + 1,), {
        "dx": dx,
        "dw": dw,
        "dy": dy,
        "x": x,
        "weight": weight,
        "rows": rows,
        "columns": columns,
        "share": share,
        "BLOCK": triton.next_power_of_2(columns),
    }
