"""Block pointers in recorded IR, for Triton 3.8 and later has none: words are those by hand.

The IR is that of two kernels of ``corpus/block_pointers.py``, which Triton 3.6 gave before its own
passes: those make block pointers tiles of pointers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sizes import draws

from iosim.kernel.evaluate import CallValues, Reference, evaluate
from iosim.kernel.ir import parse_module
from iosim.kernel.reuse import ReuseCounter
from iosim.kernel.words import WordCounter

FOLDER = Path(__file__).parent / "block_pointers"
Words = dict[tuple[str, str], Counter[int]]


def count(
    name: str, grid: tuple[int, int, int], values: dict[str, int]
) -> tuple[Words, WordCounter]:
    """How many words are referred to how often, of each kind and argument; and the words."""
    functions = parse_module((FOLDER / f"{name}.ttir").read_text())
    names = [x[1:] for x in functions[name].arguments]
    words, reuse = WordCounter(), ReuseCounter()

    def observe(found: list[Reference]) -> None:
        for reference in found:
            words(reference)
            reuse(reference)

    evaluate(functions, CallValues(grid, names, values), observe)
    return {key: Counter(r.times) for key, r in reuse.count().items() if r.times}, words


def multiply_by_hand(m: int, n: int, k: int) -> Iterator[tuple[str, str, int]]:
    for row, column in product(range(0, m, 32), range(0, n, 16)):
        rows, columns = range(row, min(m, row + 32)), range(column, min(n, column + 16))
        yield from (("load", "a", i * k + x) for i in rows for x in range(k))
        yield from (("load", "b", j * k + x) for j in columns for x in range(k))
        yield from (("store", "c", i * n + j) for i in rows for j in columns)


def walk_rows_by_hand(rows: int, columns: int) -> Iterator[tuple[str, str, int]]:
    for i, j in product(range(min(rows, 16)), range(16)):
        yield "load", "x", i * columns + j  # goes on into the next row
        yield "store", "out", i * 16 + j


def tally(words: Iterator[tuple[str, str, int]]) -> Words:
    found: Words = {}
    for kind, argument, at in words:
        found.setdefault((kind, argument), Counter())[at] += 1
    return {key: Counter(times.values()) for key, times in found.items()}


@pytest.mark.numbers
def test_tiles_of_block_pointers_end_at_the_tensor() -> None:
    for seed in range(draws(30, 4)):
        m, n, k = (int(x) for x in np.random.default_rng(seed).integers(2, 70, 3))
        grid = -(-m // 32), -(-n // 16), 1
        found, words = count("matmul_blocks", grid, {"M": m, "N": n, "K": k})
        assert found == tally(multiply_by_hand(m, n, k)), (m, n, k)
        lanes = grid[0] * grid[1] * -(-k // 16) * 32 * 16
        a = words.traffic["load", "a"]
        assert a.words + a.hidden == lanes


def test_axes_that_are_not_checked_go_on() -> None:
    for rows, columns in product((2, 9, 15, 16, 40), (2, 7, 16, 30)):
        found, _ = count("checked_along_rows", (1, 1, 1), {"rows": rows, "columns": columns})
        assert found == tally(walk_rows_by_hand(rows, columns)), (rows, columns)
