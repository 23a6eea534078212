"""How many accesses a second are made as arrays: `python benchmarks/touches.py`.

The threshold is 50 million for each stream.

Each stream is made as it would be for a cache, chunk after chunk, until it ends or a second or two
have passed; nothing is done with the chunks.  Times are seconds of the processor, since machines
are shared, and the best of three runs counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import thresholds

import iosim
from iosim.cache import Stream, Tiled, touches, transfers

MOST = thresholds.size(300_000_000, 1)
THRESHOLD = 50  # million accesses a second


def instance(name: str, problem: Any, **tiles: int) -> iosim.Instance:
    """An instance of a registered algorithm; tiles that are not named are 1."""
    program = iosim.algorithm(name).program_for(problem)
    given = {p.name: p.least for p in program.params} | tiles
    return iosim.bind(program, problem.sizes, given)


def cases() -> dict[str, Callable[[], Stream]]:
    """The streams, by what a table calls them."""
    attention = iosim.Attention(N=2048, d=64)
    causal = iosim.Attention(N=2048, d=64, causal=True)
    window = iosim.Attention(N=4096, d=64, causal=True, window=(15, 0))
    product = iosim.MatMul(m=512, n=512, k=512)
    flash2 = instance("flash2", attention, B_r=64, B_c=32)
    scores = {"B_r1": 32, "B_c1": 32, "B_d1": 64, "B_r2": 8, "B_c2": 64}
    naive = instance("naive", attention, **scores, B_r3=32, B_c3=32, B_d3=64)
    small = instance("small_cache", attention, B_r1=16, B_c1=16, B_d1=16, B_r2=16, B_c2=16, B_d2=16)
    tiled = instance("matmul", product, B_m=32, B_n=32, B_k=32)
    columns = {"K": "column-major"}
    large = instance("flash2", iosim.Attention(N=16384, d=64), B_r=128, B_c=64)
    return {
        "flash2, tiles 64 × 32": lambda: touches(flash2),
        "flash2, tiles 64 × 1": lambda: touches(instance("flash2", attention, B_r=64)),
        "flash2, tiles of 1": lambda: touches(instance("flash2", attention)),
        "flash2, causal": lambda: touches(instance("flash2", causal, B_r=64, B_c=32)),
        "flash2, causal, tiles of 1": lambda: touches(instance("flash2", causal)),
        "flash2, window of 16, tiles of 1": lambda: touches(instance("flash2", window)),
        "naive": lambda: touches(naive),
        "naive, tiles of 1": lambda: touches(instance("naive", attention)),
        "small_cache": lambda: touches(small),
        "matmul, tiles of 32": lambda: touches(tiled),
        "matmul, tiles of 1": lambda: touches(instance("matmul", product)),
        "matmul, tiles of 32, transfers": lambda: transfers(tiled),
        "flash2, rows": lambda: touches(flash2, unit="rows"),
        "flash2, lines of 32": lambda: touches(flash2, unit="lines", line_words=32),
        "flash2, tiles 128 × 64, rows": lambda: touches(large, unit="rows"),
        "flash2, tiles 128 × 64, lines of 32": lambda: touches(large, unit="lines", line_words=32),
        "naive, lines of 32, K by columns": lambda: touches(
            naive, unit="lines", line_words=32, layouts=columns
        ),
        "matmul, tiles of 33, lines of 32": lambda: touches(
            instance("matmul", product, B_m=33, B_n=33, B_k=33), unit="lines", line_words=32
        ),
        "matmul, B in blocks of 8 × 8": lambda: touches(tiled, layouts={"B": Tiled(8, 8)}),
        "matmul, all in blocks of 5 × 7": lambda: touches(
            tiled, layouts=dict.fromkeys("ABC", Tiled(5, 7))
        ),
        "matmul, tiles of 1, B in blocks": lambda: touches(
            instance("matmul", product), layouts={"B": Tiled(8, 8)}
        ),
        "the same, lines of 32": lambda: touches(
            instance("matmul", product), layouts={"B": Tiled(8, 8)}, unit="lines", line_words=32
        ),
        "flash2, causal, 33 × 17, lines of 32": lambda: touches(
            instance("flash2", causal, B_r=33, B_c=17), unit="lines", line_words=32
        ),
    }


def rate(stream: Stream) -> tuple[int, float]:
    """Accesses, and accesses a second."""
    start, made = time.process_time(), 0
    for chunk in stream.chunks():
        made += chunk.address.size
        if made >= MOST or time.process_time() - start > 1.5:
            break
    return made, made / (time.process_time() - start)


def main() -> None:
    """Print a table."""
    print(f"{'stream':36} {'length':>16} {'s to know it':>12} {'M accesses/s':>12}")
    for name, made in cases().items():
        start = time.perf_counter()
        stream = made()
        known = time.perf_counter() - start
        best = max(rate(stream)[1] for _ in range(thresholds.rounds(3)))
        print(f"{name:36} {stream.length:16,} {known:12.3f} {best / 1e6:12.0f}", flush=True)
        thresholds.at_least(name, best / 1e6, THRESHOLD, "M accesses/s")


if __name__ == "__main__":
    thresholds.script(__doc__, main)
