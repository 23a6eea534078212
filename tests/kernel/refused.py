"""Kernels that can't be counted, and one whose second load the compiler removes."""

import triton
import triton.language as tl


@triton.jit
def locked(total, lock, x):
    value = tl.load(x + tl.program_id(0))
    while tl.atomic_cas(lock, 0, 1) == 1:  # takes the lock
        pass
    tl.store(total, tl.load(total) + value)
    tl.atomic_xchg(lock, 0)


@triton.jit
def queue(out, x, head, n):
    i = tl.atomic_add(head, 1)
    while i < n:
        tl.store(out + i, tl.load(x + i))  # takes the next one
        i = tl.atomic_add(head, 1)


@triton.jit
def gather(out, x, index):
    i = tl.program_id(0)
    row = tl.load(index + i)  # steers
    tl.store(out + i, tl.load(x + row))


@triton.jit
def threshold(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)  # steers
    tl.store(out + at, value, mask=value > 0.5)


@triton.jit
def converge(out, x, limit):
    error, steps = tl.load(x), 0  # steers
    while error > limit:
        error, steps = error * 0.5, steps + 1
    tl.store(out, steps)


@triton.jit
def overwritten(index, x):
    i = tl.program_id(0)
    tl.store(index + i, i + 1)
    tl.store(x + tl.load(index + i), 1)  # reads what it wrote


@triton.jit
def aligned(out, x):
    shift = (x.to(tl.int64) // 4) % 4  # asks the address itself
    tl.store(out + shift, 1.0)


@triton.jit
def missing(out, n):
    if tl.program_id(0) < n:  # of a number that isn't there
        tl.store(out + tl.program_id(0), 1.0)


@triton.jit
def outside(out, table, n):
    i = tl.program_id(0)
    tl.store(out + tl.load(table + i * n), 1.0)  # beyond the table


@triton.jit
def twice(out, x):
    i = tl.program_id(0)
    tl.store(out + i, tl.load(x + i) + tl.load(x + i))


@triton.jit
def twice_volatile(out, x):
    i = tl.program_id(0)
    tl.store(out + i, tl.load(x + i, volatile=True) + tl.load(x + i, volatile=True))
