"""Record what DRAM delivers to a matrix product whose programs run in several orders.

    python -m experiments.record_orders OUT

runs each order twice under ``ncu`` on the GPU of this machine and writes ``OUT/measured.json``.
``tests/kernel/test_dram.py`` compares it, as ``orders.json``, with the forecast.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from experiments.record_kernels import Case, load_module, record_counters, run_cases

SIZES = ((4096, 8192, 2048), (8192, 8192, 4096))
GROUPS = (1, 4, 16, 64)
TILES = {"BM": 128, "BN": 256, "BK": 64, "num_warps": 8}
COUNTERS = {
    "read_bytes": "l1tex__m_xbar2l1tex_read_bytes.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
}


def list_orders() -> Iterator[Case]:
    """Name, kernel, grid and arguments; the first of two equal launches finds a cold L2."""
    kernel = load_module(Path("docs/examples/matmul.py")).matmul
    for m, n, k in SIZES:
        tensors = {"a": np.ones((m, k), "f2"), "b": np.ones((k, n), "f2")}
        tensors["c"] = np.zeros((m, n), "f2")
        sizes = {"M": m, "N": n, "K": k}
        grid = (-(-m // TILES["BM"]) * -(-n // TILES["BN"]),)
        for group in GROUPS:
            for _ in range(2):
                given = {**tensors, **sizes, **TILES, "GROUP": group}
                yield f"{m} x {n} x {k} in groups of {group}", kernel, grid, given


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        run_cases(list_orders())
    else:
        record_counters(["experiments.record_orders", "--run"], Path(sys.argv[1]), COUNTERS)
