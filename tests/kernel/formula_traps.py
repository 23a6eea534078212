"""Small kernels whose words a formula once had wrong, or that came close to it."""

import triton
import triton.language as tl


@triton.jit
def taken_twice(x, N, M):
    first = tl.program_id(0)
    for i in range(first, N, tl.num_programs(0)):
        for j in range(first, N, tl.num_programs(0)):
            tl.store(x + i * N + j, 1.0)


@triton.jit
def fewer_programs(x, N, M, P):
    for i in range(tl.program_id(0), N, P):
        tl.store(x + i, 1.0)


@triton.jit
def steps_of_tiles(x, N, M):
    for i in range(tl.program_id(0), N, N):
        tl.store(x + i, 1.0)


@triton.jit
def rounded_up(x, N, B: tl.constexpr):
    p = tl.program_id(0)
    for i in range((p * B - 5) // 4 + 1):
        tl.store(x + i, 1.0)


@triton.jit
def twice_a_quotient(x, N, B: tl.constexpr):
    p = tl.program_id(0)
    for i in range((p * B + 5) // 4 * 2):
        tl.store(x + i, 1.0)


@triton.jit
def quotient_of_quotient(x, N, B: tl.constexpr):
    p = tl.program_id(0)
    for i in range((p * B + 5) // 4 // 3):
        tl.store(x + i, 1.0)


@triton.jit
def at_least_a_quotient(x, N, B: tl.constexpr):
    p = tl.program_id(0)
    for i in range(tl.maximum((p * B + 5) // 4, 2)):
        tl.store(x + i, 1.0)


@triton.jit
def plus_a_program(x, N, B: tl.constexpr):
    p = tl.program_id(0)
    for i in range((p * B + 5) // 4 + p):
        tl.store(x + i, 1.0)


@triton.jit
def from_zero_or_later(x, N, W, B: tl.constexpr):
    p = tl.program_id(0)
    k = 0
    for _i in range(tl.maximum(p * B - W, 0), N, B):
        at = k * 3 + tl.arange(0, B)
        tl.store(x + at, 1.0, mask=at < N)
        k += 1  # noqa: SIM113


@triton.jit
def cut_tiles(x, N, B: tl.constexpr):
    for i in range(5, N, 16):
        for j in range(0, tl.minimum(i, N), B):
            at = j + tl.arange(0, B)
            tl.store(x + at, 1.0, mask=at < N)


@triton.jit
def counts_down(x, N, B: tl.constexpr):
    left = 3
    taken = 0
    for _i in range(N):
        if left >= 0:
            taken += 1
        left -= 1
        at = taken * B + tl.arange(0, B)
        tl.store(x + at, 1.0, mask=at < N)


@triton.jit
def least_of_falling(x, N, B: tl.constexpr):
    left = 0
    moved = 0
    for i in range(N):
        moved += tl.minimum(left, 0)
        left -= 1
        at = moved + i + 40 + tl.arange(0, B)
        tl.store(x + at, 1.0, mask=at < N)


@triton.jit
def masks_in_turn(x, N, B: tl.constexpr):
    lanes = tl.arange(0, B)
    now = lanes < N
    after = lanes < N
    for i in range(N):
        tl.store(x + lanes, 1.0, mask=now)
        now = after
        after = lanes < N - 3 * i


@triton.jit
def tensors_in_turn(x, y, N):
    now = x
    after = x
    for _i in range(N):
        tl.store(now, 1.0)
        now = after
        after = y


@triton.jit
def window_of_none(x, N, W, B: tl.constexpr):
    p = tl.program_id(0)
    for i in range(tl.minimum(p * B + B, N - W)):
        tl.store(x + i, 1.0)


@triton.jit
def clipped(n, most: tl.constexpr):
    if n > most:
        return most
    return n


@triton.jit
def returns_early(x, N, B: tl.constexpr):
    p = tl.program_id(0)
    at = p * B + tl.arange(0, B)
    tl.store(x + at, 1.0, mask=at < clipped(N, 20))


@triton.jit(noinline=True)
def doubled_or_none(n, most):
    if n > most:
        return n * 0
    return n * 2


@triton.jit
def calls_that_return(x, N, M, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + at, 1.0, mask=at < doubled_or_none(N, M))


@triton.jit
def turned_by(x, N, B: tl.constexpr):
    p = tl.program_id(0) * 7 % N
    at = p * B + tl.arange(0, B)
    tl.store(x + at, 1.0, mask=at < N)


@triton.jit
def wrapped_at(x, N, M, B: tl.constexpr):
    p = tl.program_id(0) % M
    at = p * B + tl.arange(0, B)
    tl.store(x + at, 1.0, mask=at < N)


@triton.jit
def far_programs(x, N, M):
    p = tl.program_id(0) % M
    if tl.program_id(0) >= 100:
        p = 0
    tl.store(x + p, 1.0, mask=p * 4 < N)


@triton.jit
def lone_lane(x, N, B: tl.constexpr):
    at = (tl.program_id(0) * 2 + tl.arange(0, 1))[:, None] + tl.zeros((B, B), tl.int32)
    tl.store(x + at, 1.0, mask=at < N)


@triton.jit
def huge_products(x, N, M):
    for i in range(N * M):
        tl.store(x + i, 1.0)


@triton.jit
def falling_loop(x, N, B: tl.constexpr):
    for i in range(24, 3, -5):
        at = i + tl.arange(0, B)
        tl.store(x + at, 1.0, mask=at < N)


@triton.jit
def otherwise(x, N, W, B: tl.constexpr):
    p = tl.program_id(0)
    if p >= W:
        tl.store(x + p, 1.0)
    else:
        tl.store(x + p + tl.arange(0, B), 1.0)


@triton.jit
def columns_first(x, N, M):
    i = tl.program_id(0)
    p, q = i // M, i % M
    tl.store(x + p, 1.0, mask=(p * 3 < M) & (q * 2 < N))


@triton.jit
def shares_of_rows(x, y, N, M, P, B: tl.constexpr):
    first = (tl.program_id(0) + 1) * P - P
    lane = tl.arange(0, B)
    tl.store(y + lane, 1.0, mask=first + lane < N)
    for i in range(first, tl.minimum(first + P, N)):
        tl.store(x + i * B + lane, 1.0, mask=i + lane < N)


@triton.jit
def share_and_number(x, N, M, P):
    p = tl.program_id(0)
    for i in range(p * P, tl.minimum(p * P + P, N)):
        tl.store(x + i, 1.0, mask=i >= p)
