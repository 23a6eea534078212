"""Kernels in Gluon: launches of each, and by hand the words that its programs refer to."""

import itertools

import numpy as np
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2
from triton.experimental.gluon.language.nvidia.blackwell import tma as rows_of
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

# Triton 3.9 has other names for copies than 3.6.
load_async = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared
load_box = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
store_box = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global
add_box = getattr(tma, "async_atomic_add", None)

LINE = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
TILE = gl.constexpr(gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]))
MMA = gl.constexpr(gl.NVMMADistributedLayout([2, 0], [2, 2], [16, 8]))
WGMMA = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 16, 16]))
SHARED = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
BOX = gl.constexpr(gl.NVMMASharedLayout(32, 16, 2))
ROW = gl.constexpr(gl.NVMMASharedLayout(128, 16, 2))
BARRIER = gl.constexpr(mbarrier.MBarrierLayout())


def draw(rng, *most):
    """Sizes of at least 1."""
    return [int(n) for n in rng.integers(1, most)]


def box(array, tile, layout):
    """A tensor that comes as a descriptor."""
    from interpreted import HostTensor
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    steps = [step // array.itemsize for step in array.strides]
    return TensorDescriptor(HostTensor(array), list(array.shape), steps, list(tile), layout)


def inside(starts, sides, shape):
    """The words of a box that are in the tensor, one by one."""
    for at in itertools.product(*(range(a, a + n) for a, n in zip(starts, sides, strict=True))):
        if all(0 <= x < n for x, n in zip(at, shape, strict=True)):
            yield np.ravel_multi_index(at, shape)


@gluon.jit
def add(out, x, y, n, BLOCK: gl.constexpr):
    at = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, LINE)
    kept = at < n
    gl.store(out + at, gl.load(x + at, mask=kept) + gl.load(y + at, mask=kept), mask=kept)


def launch_add(rng):
    (n,) = draw(rng, 600)
    out, x, y = np.zeros((3, n), "f4")
    return (triton.cdiv(n, 128),), {"out": out, "x": x, "y": y, "n": n, "BLOCK": 128}


def by_hand_add(program, n, **_):
    for lane in range(128 * program[0], 128 * program[0] + 128):
        if lane < n:
            yield "load", "x", lane
            yield "load", "y", lane
            yield "store", "out", lane


@gluon.jit
def scale_in_place(x, factor, rows, columns, step, BM: gl.constexpr, BN: gl.constexpr):
    row = gl.program_id(1) * BM + gl.arange(0, BM, gl.SliceLayout(1, TILE))
    column = gl.program_id(0) * BN + gl.arange(0, BN, gl.SliceLayout(0, TILE))
    at = x + row[:, None] * step + column[None, :]
    kept = (row < rows)[:, None] & (column < columns)[None, :]
    gl.store(at, gl.load(at, mask=kept, other=0.0) * factor, mask=kept)


def launch_scale_in_place(rng):
    rows, columns, gap = draw(rng, 50, 70, 9)
    return (triton.cdiv(columns, 32), triton.cdiv(rows, 16)), {
        "x": np.zeros((rows, columns + gap), "f4"),
        "factor": 2.0,
        "rows": rows,
        "columns": columns,
        "step": columns + gap,
        "BM": 16,
        "BN": 32,
    }


def by_hand_scale_in_place(program, rows, columns, step, **_):
    for i, j in itertools.product(range(16), range(32)):
        row, column = 16 * program[1] + i, 32 * program[0] + j
        if row < rows and column < columns:
            yield "load", "x", row * step + column
            yield "store", "x", row * step + column


@gluon.jit
def softmax_whole(y, x, columns, BLOCK: gl.constexpr):
    row, at = gl.program_id(0), gl.arange(0, BLOCK, LINE)
    value = gl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    value = gl.exp(value - gl.max(value, 0))
    turned: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    to = gl.convert_layout(row * columns + at, turned)
    kept = gl.convert_layout(at < columns, turned)
    gl.store(y + to, gl.convert_layout(value / gl.sum(value, 0), turned), mask=kept)


def launch_softmax_whole(rng):
    rows, columns = draw(rng, 10, 500)
    y, x = np.zeros((2, rows, columns), "f4")
    block = max(128, triton.next_power_of_2(columns))
    return (rows,), {"y": y, "x": x, "columns": columns, "BLOCK": block}


def by_hand_softmax_whole(program, columns, BLOCK, **_):
    for lane in range(BLOCK):
        if lane < columns:
            yield "load", "x", program[0] * columns + lane
            yield "store", "y", program[0] * columns + lane


@gluon.jit
def matmul_staged(a, b, c, M, N, K, B: gl.constexpr, BK: gl.constexpr):
    row = gl.program_id(0) * B + gl.arange(0, B, gl.SliceLayout(1, TILE))[:, None]
    column = gl.program_id(1) * B + gl.arange(0, B, gl.SliceLayout(0, TILE))[None, :]
    down = gl.arange(0, BK, gl.SliceLayout(1, TILE))[:, None]
    across = gl.arange(0, BK, gl.SliceLayout(0, TILE))[None, :]
    of_a = gl.allocate_shared_memory(gl.float32, [2, B, BK], SHARED)
    of_b = gl.allocate_shared_memory(gl.float32, [2, BK, B], SHARED)
    left: gl.constexpr = gl.DotOperandLayout(0, MMA, 1)
    right: gl.constexpr = gl.DotOperandLayout(1, MMA, 1)
    total = gl.zeros([B, B], gl.float32, MMA)
    steps = gl.cdiv(K, BK)
    for k in range(steps + 1):
        if k < steps:  # a step ahead of the product
            kept = (row < M) & (k * BK + across < K)
            load_async(of_a.index(k % 2), a + row * K + k * BK + across, mask=kept)
            kept = (k * BK + down < K) & (column < N)
            load_async(of_b.index(k % 2), b + (k * BK + down) * N + column, mask=kept)
        async_copy.commit_group()
        async_copy.wait_group(1)
        if k > 0:
            x = of_a.index((k + 1) % 2).load(left)
            total = mma_v2(x, of_b.index((k + 1) % 2).load(right), total)
    at = gl.convert_layout(row * N + column, MMA)
    kept = gl.convert_layout((row < M) & (column < N), MMA)
    gl.store(c + at, total, mask=kept)


def launch_matmul_staged(rng):
    m, n, k = draw(rng, 100, 70, 70)
    a, b, c = np.zeros((m, k), "f4"), np.zeros((k, n), "f4"), np.zeros((m, n), "f4")
    sizes = {"M": m, "N": n, "K": k, "B": 32, "BK": 16}
    return (triton.cdiv(m, 32), triton.cdiv(n, 32)), {"a": a, "b": b, "c": c, **sizes}


def by_hand_matmul_staged(program, M, N, K, **_):
    rows = [i for i in range(32 * program[0], 32 * program[0] + 32) if i < M]
    columns = [j for j in range(32 * program[1], 32 * program[1] + 32) if j < N]
    for k in range(K):
        yield from (("load", "a", i * K + k) for i in rows)
        yield from (("load", "b", k * N + j) for j in columns)
    yield from (("store", "c", i * N + j) for i in rows for j in columns)


@gluon.jit
def matmul_boxes(a, b, c, K):
    BM: gl.constexpr = a.block_shape[0]
    BN: gl.constexpr = b.block_shape[1]
    BK: gl.constexpr = a.block_shape[1]
    row, column = gl.program_id(0) * BM, gl.program_id(1) * BN
    of_a = gl.allocate_shared_memory(a.dtype, [2, BM, BK], a.layout)
    of_b = gl.allocate_shared_memory(b.dtype, [2, BK, BN], b.layout)
    ready = gl.allocate_shared_memory(gl.int64, [2, 1], BARRIER)
    for stage in gl.static_range(2):
        mbarrier.init(ready.index(stage), count=1)
    total = gl.zeros([BM, BN], gl.float32, WGMMA)
    for k in range(0, K, BK):
        slot, phase = k // BK % 2, k // BK // 2 % 2
        mbarrier.expect(ready.index(slot), a.block_type.nbytes + b.block_type.nbytes)
        load_box(a, [row, k], ready.index(slot), of_a.index(slot))
        load_box(b, [k, column], ready.index(slot), of_b.index(slot))
        mbarrier.wait(ready.index(slot), phase)
        run = warpgroup_mma(of_a.index(slot), of_b.index(slot), total, is_async=True)
        total = warpgroup_mma_wait(0, [run])
    out = gl.allocate_shared_memory(c.dtype, c.block_shape, c.layout)
    out.store(total.to(c.dtype))
    fence_async_shared()
    store_box(c, [row, column], out)
    tma.store_wait(0)


def launch_matmul_boxes(rng):
    m, n, k = draw(rng, 200, 8, 8)
    n, k = 8 * n, 8 * k
    a, b, c = np.zeros((m, k), "f2"), np.zeros((k, n), "f2"), np.zeros((m, n), "f2")
    boxes = [box(x, tile, BOX.value) for x, tile in ((a, (64, 16)), (b, (16, 16)), (c, (64, 16)))]
    grid = triton.cdiv(m, 64), triton.cdiv(n, 16)
    return grid, dict(zip("abc", boxes, strict=True)) | {"K": k}


def by_hand_matmul_boxes(program, a, b, c, K):
    row, column = 64 * program[0], 16 * program[1]
    for k in range(0, K, 16):
        yield from (("load", "a", at) for at in inside((row, k), (64, 16), a.shape))
        yield from (("load", "b", at) for at in inside((k, column), (16, 16), b.shape))
    yield from (("store", "c", at) for at in inside((row, column), (64, 16), c.shape))


@gluon.jit
def shifted_boxes(y, x, rows, columns, shift, most, B: gl.constexpr):
    of_x = tma.make_tensor_descriptor(x, [rows, columns], [columns, 1], [B, 16], BOX)
    of_y = tma.make_tensor_descriptor(y, [rows, columns], [columns, 1], [B, 16], BOX)
    tile = gl.allocate_shared_memory(gl.float16, [B, 16], BOX)
    ready = gl.allocate_shared_memory(gl.int64, [1], BARRIER)
    mbarrier.init(ready, count=1)
    row, column = gl.program_id(0) * B, gl.program_id(1) * 16
    takes = gl.program_id(0) < most
    mbarrier.expect(ready, of_x.block_type.nbytes, pred=takes)
    load_box(of_x, [row - shift, column], ready, tile, pred=takes)
    mbarrier.wait(ready, 0, pred=takes)
    mbarrier.invalidate(ready)
    add_box(of_y, [row + shift, column], tile)
    tma.store_wait(0)


def launch_shifted_boxes(rng):
    rows, columns, shift, most = draw(rng, 60, 6, 9, 5)
    y, x = np.zeros((2, rows, 8 * columns), "f2")
    sizes = {"rows": rows, "columns": 8 * columns, "shift": shift, "most": most, "B": 16}
    return (triton.cdiv(rows, 16), triton.cdiv(8 * columns, 16)), {"y": y, "x": x, **sizes}


def by_hand_shifted_boxes(program, rows, columns, shift, most, **_):
    row, column = 16 * program[0], 16 * program[1]
    for at in inside((row - shift, column), (16, 16), (rows, columns)):
        if program[0] < most:
            yield "load", "x", at
    for at in inside((row + shift, column), (16, 16), (rows, columns)):
        yield "atomic", "y", at


@gluon.jit
def takes_boxes(x, full, free, tiles, steps):
    for k in range(steps):
        mbarrier.wait(free.index(k % 2), k // 2 % 2 ^ 1)
        mbarrier.expect(full.index(k % 2), x.block_type.nbytes)
        load_box(x, [gl.program_id(0) * 16, k * 16], full.index(k % 2), tiles.index(k % 2))


@gluon.jit
def adds_up(y, lengths, full, free, tiles, steps):
    row = gl.arange(0, 16, gl.SliceLayout(1, TILE))
    total = gl.zeros([16], gl.float32, gl.SliceLayout(1, TILE))
    for k in range(steps):
        mbarrier.wait(full.index(k % 2), k // 2 % 2)
        total += gl.sum(tiles.index(k % 2).load(TILE).to(gl.float32), 1)
        mbarrier.arrive(free.index(k % 2), count=1)
    length = gl.load(lengths + gl.program_id(0))
    gl.store(y + gl.program_id(0) * 16 + row, total, mask=row < length)


@gluon.jit
def row_sums(y, x, lengths, columns):
    tiles = gl.allocate_shared_memory(x.dtype, [2, 16, 16], x.layout)
    full = gl.allocate_shared_memory(gl.int64, [2, 1], BARRIER)
    free = gl.allocate_shared_memory(gl.int64, [2, 1], BARRIER)
    for stage in gl.static_range(2):
        mbarrier.init(full.index(stage), count=1)
        mbarrier.init(free.index(stage), count=1)
    steps = gl.cdiv(columns, 16)
    gl.warp_specialize(
        [
            (adds_up, (y, lengths, full, free, tiles, steps)),
            (takes_boxes, (x, full, free, tiles, steps)),
        ],
        [1],
        [24],
    )


def launch_row_sums(rng):
    rows, columns = draw(rng, 60, 12)
    programs = triton.cdiv(rows, 16)
    x = np.zeros((rows, 8 * columns), "f2")
    return (programs,), {
        "y": np.zeros(16 * programs, "f4"),
        "x": box(x, (16, 16), BOX.value),
        "lengths": rng.integers(0, 17, programs).astype("i4"),
        "columns": 8 * columns,
    }


def by_hand_row_sums(program, x, lengths, columns, **_):
    for k in range(0, columns, 16):
        yield from (("load", "x", at) for at in inside((16 * program[0], k), (16, 16), x.shape))
    yield "load", "lengths", program[0]
    yield from (("store", "y", 16 * program[0] + i) for i in range(lengths[program[0]]))


@gluon.jit
def gathered(y, x, index, flags):
    rows: gl.constexpr = gl.SliceLayout(0, gl.BlockedLayout([1, 4], [32, 1], [1, 4], [1, 0]))
    at = gl.load(index + gl.program_id(0) * 128 + gl.arange(0, 128, rows))
    tile = gl.allocate_shared_memory(x.dtype, [128, 64], x.layout)
    ready = gl.allocate_shared_memory(gl.int64, [1], BARRIER)
    mbarrier.init(ready, count=1)
    mbarrier.expect(ready, 128 * 64 * 2)
    rows_of.async_gather(x, at, 0, ready, tile)
    mbarrier.wait(ready, 0)
    square: gl.constexpr = blackwell.TensorMemoryLayout([128, 128], col_stride=1)
    total = blackwell.allocate_tensor_memory(gl.float32, [128, 128], square)
    flag = gl.load(flags + gl.program_id(0))
    turned = tile.permute((1, 0))
    blackwell.tcgen05_mma(tile, turned, total, use_acc=False, pred=flag > 0)
    blackwell.tcgen05_commit(ready, pred=flag > 0)
    rows_of.async_scatter(y, at, 0, tile)
    tma.store_wait(0)


def launch_gathered(rng):
    programs, count = draw(rng, 4, 200)
    y, x = np.zeros((2, count, 64), "f2")
    return (programs,), {
        "y": box(y, (1, 64), ROW.value),
        "x": box(x, (1, 64), ROW.value),
        "index": rng.integers(0, count + 5, 128 * programs).astype("i4"),
        "flags": rng.integers(0, 2, programs).astype("i4"),
    }


def by_hand_gathered(program, x, index, **_):
    yield from (("load", "index", 128 * program[0] + i) for i in range(128))
    yield "load", "flags", program[0]
    for i in index[128 * program[0] :][:128]:
        for j in range(64):
            if i < x.shape[0]:
                yield "load", "x", 64 * i + j
                yield "store", "y", 64 * i + j


@gluon.jit
def buffered(y, x, n, BLOCK: gl.constexpr):
    at = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, LINE)
    value = gl.amd.cdna3.buffer_load(x, at, mask=at < n)
    gl.store(y + at, value, mask=at < n)


@gluon.jit
def steered_by_tile(y, x, BLOCK: gl.constexpr):
    at = gl.arange(0, BLOCK, LINE)
    tile = gl.allocate_shared_memory(gl.int32, [BLOCK], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    load_async(tile, x + at)
    async_copy.wait_group(0)
    gl.store(y + tile.load(LINE), 1.0)


@gluon.jit
def marks(flags):
    gl.store(flags, 1)


@gluon.jit
def looks(y, flags):
    if gl.load(flags + 1) > 0:
        gl.store(y, 1.0)


@gluon.jit
def watched(y, flags):
    gl.warp_specialize([(looks, (y, flags)), (marks, (flags,))], [1], [24])
