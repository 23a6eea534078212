"""A step of decoding of a small model, evaluated by hand: formulas spelled out, nothing imported.

The model is Llama's: RMS norm, RoPE, heads that share keys and values, SwiGLU; no biases.
"""

from __future__ import annotations

from dataclasses import dataclass

WORD = 2  # bytes of fp16
LONG = 4  # bytes of a token's number


@dataclass(frozen=True)
class Sizes:
    b: int  # sequences
    N: int  # tokens in the cache
    i: int  # words of a token
    g: int  # heads of keys
    r: int  # heads of queries that share one
    p: int  # words of a head
    u: int  # words inside the feed-forward network
    v: int  # vocabulary
    layers: int


@dataclass(frozen=True)
class Speeds:
    products: float  # FLOP/s
    others: float
    dram: float  # B/s at L2↔DRAM
    l2: float  # B/s at SM↔L2
    launch: float  # s
    chip: int  # words that the chip holds
    sm: int  # words that an SM holds


def product(batch: int, m: int, n: int, k: int, M: int) -> int:
    """Words of `batch` products with the best tiles, by trying all: a tile of the output stays, a
    column of A and a row of B pass."""
    best = None
    for tall in range(1, m + 1):
        for wide in range(1, n + 1):
            if tall * wide + tall + wide <= M:
                words = m * k * -(-n // wide) + k * n * -(-m // tall) + m * n
                best = words if best is None else min(best, words)
    assert best is not None
    return batch * best


@dataclass(frozen=True)
class Row:
    name: str
    times: int
    products: int
    others: int
    dram: int
    sm: int

    def time(self, s: Speeds) -> tuple[float, str]:
        once = [
            (self.products / s.products, "matrix units"),
            (self.others / s.others, "vector units"),
            (self.dram / s.dram, "L2↔DRAM"),
            (self.sm / s.l2, "SM↔L2"),
            (s.launch, "launch"),
        ]
        longest = max(seconds for seconds, _ in once)
        return longest * self.times, next(name for seconds, name in once if seconds == longest)


def decode(z: Sizes, s: Speeds) -> list[Row]:
    """The kernels of one step, in order."""
    rows = []
    heads = z.g * z.r

    def streams(name: str, times: int, flop: int, words: int, extra_bytes: int = 0) -> None:
        moved = WORD * words + extra_bytes
        rows.append(Row(name, times, 0, flop, moved, moved))

    def multiplies(name: str, times: int, batch: int, m: int, n: int, k: int) -> None:
        dram, sm = (WORD * product(batch, m, n, k, M) for M in (s.chip, s.sm))
        rows.append(Row(name, times, 2 * batch * m * n * k, 0, dram, sm))

    def rms_norm(name: str, times: int) -> None:
        # x·x, a sum, · rstd, · γ of each word; /i, + ε, a root, 1/… of each row
        streams(name, times, 4 * z.b * z.i + 4 * z.b, 2 * z.b * z.i + z.i)

    # The token's number, its row of the table, and the row again.
    streams("token embedding", 1, 0, 2 * z.b * z.i, LONG * z.b)
    L = z.layers
    rms_norm("norm 1", L)
    multiplies("query", L, 1, z.b, heads * z.p, z.i)
    # Two products and a sum for each word; cosines and sines are of one row.
    streams("query rope", L, 3 * z.b * heads * z.p, 2 * z.b * heads * z.p + 2 * z.p)
    multiplies("key", L, 1, z.b, z.g * z.p, z.i)
    streams("key rope", L, 3 * z.b * z.g * z.p, 2 * z.b * z.g * z.p + 2 * z.p)
    streams("append key", L, 0, 2 * z.b * z.g * z.p)
    multiplies("value", L, 1, z.b, z.g * z.p, z.i)
    streams("append value", L, 0, 2 * z.b * z.g * z.p)
    multiplies("scores", L, z.b * z.g, z.r, z.N, z.p)
    streams("scale", L, z.b * heads * z.N, 2 * z.b * heads * z.N)
    # A difference, an exponential, a sum and a quotient for each score.
    streams("softmax", L, 4 * z.b * heads * z.N, 2 * z.b * heads * z.N)
    multiplies("weighted sum", L, z.b * z.g, z.r, z.p, z.N)
    multiplies("output", L, 1, z.b, z.i, heads * z.p)
    streams("attention residual", L, z.b * z.i, 3 * z.b * z.i)
    rms_norm("norm 2", L)
    multiplies("gate", L, 1, z.b, z.u, z.i)
    multiplies("up", L, 1, z.b, z.u, z.i)
    # −x, exp, 1 + …, a quotient, a product.
    streams("activation", L, 5 * z.b * z.u, 3 * z.b * z.u)
    multiplies("down", L, 1, z.b, z.i, z.u)
    streams("feed-forward residual", L, z.b * z.i, 3 * z.b * z.i)
    rms_norm("last norm", 1)
    multiplies("logits", 1, 1, z.b, z.v, z.i)
    return rows
