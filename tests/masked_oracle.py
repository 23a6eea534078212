"""Attention with options, written out by hand: what a row sees, the output, and words moved.

It shares no code with iosim.  What a row sees is asked of every row and every column, one by one;
numbers are plain Python floats; and words are added up block by block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """Sizes and limits as numbers; a limit that is left out is larger than anything here."""

    N: int
    d: int
    heads: int
    N_k: int
    d_v: int
    kv_heads: int
    left: float
    right: float
    sinks: int
    shift: int

    def sees(self, i: int, j: int) -> bool:
        """Whether row i sees column j."""
        if j > i + self.shift + self.right:
            return False
        return j >= i + self.shift - self.left or j < self.sinks

    def columns(self, rows: range) -> list[int]:
        """The columns that one of these rows sees."""
        return [j for j in range(self.N_k) if any(self.sees(i, j) for i in rows)]

    def rows(self, columns: range) -> list[int]:
        """The rows that see one of these columns."""
        return [i for i in range(self.N) if any(self.sees(i, j) for j in columns)]


def case(
    N: int,
    d: int,
    heads: int = 1,
    N_k: int | None = None,
    d_v: int | None = None,
    kv_heads: int | None = None,
    causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    sinks: int = 0,
    align: str = "lower right",
) -> Case:
    """A problem, from what people give."""
    left, right = (math.inf if x is None else x for x in window or (None, None))
    N_k = N if N_k is None else N_k
    return Case(
        N,
        d,
        heads,
        N_k,
        d if d_v is None else d_v,
        heads if kv_heads is None else kv_heads,
        left,
        0 if causal else right,
        0
        if left == math.inf
        else sinks,  # where nothing is hidden at the left, there are no others
        {"lower right": N_k - N, "upper left": 0}[align],
    )


def attention(c: Case, Q: Any, K: Any, V: Any) -> list[Any]:
    """O of nested lists by head, row and column, one score after another; nothing seen gives 0."""
    out = []
    for h in range(c.heads):
        g = h // (c.heads // c.kv_heads)
        out.append([[0.0] * c.d_v for _ in range(c.N)])
        for i in range(c.N):
            scores = {}
            for j in range(c.N_k):
                if c.sees(i, j):
                    scores[j] = math.fsum(Q[h][i][x] * K[g][j][x] for x in range(c.d))
            weights = {j: math.exp(s - max(scores.values())) for j, s in scores.items()}
            for y in range(c.d_v):
                if weights:
                    total = math.fsum(weights.values())
                    out[h][i][y] = math.fsum(w * V[g][j][y] for j, w in weights.items()) / total
    return out


class Meter:
    """Words that cross and words that are held, told by the schedules below."""

    def __init__(self) -> None:
        self.moved: dict[tuple[str, str], int] = {}
        self.held: dict[str, int] = {}
        self.peak = 0

    def make(self, name: str, words: int) -> None:
        assert name not in self.held
        self.held[name] = words
        self.peak = max(self.peak, sum(self.held.values()))

    def load(self, tensor: str, words: int, name: str = "") -> None:
        self.moved["load", tensor] = self.moved.get(("load", tensor), 0) + words
        self.make(name or tensor, words)

    def store(self, name: str, tensor: str = "") -> None:
        key = ("store", tensor or name)
        self.moved[key] = self.moved.get(key, 0) + self.held[name]

    def free(self, *names: str) -> None:
        for name in names:
            del self.held[name]


def cut(positions: list[int], size: int) -> list[range]:
    """Neighboring positions in blocks; the last one may be short."""
    assert positions == list(range(*(positions[0], positions[-1] + 1) if positions else (0, 0)))
    return [
        range(block[0], block[-1] + 1)
        for block in (positions[k : k + size] for k in range(0, len(positions), size))
    ]


def rows_of(c: Case, size: int) -> list[range]:
    return cut(list(range(c.N)), size)


def tiles_of(c: Case, columns: list[int], size: int) -> list[range]:
    """Columns in tiles: first those that no left limit hides, then the others."""
    first = [j for j in columns if j < c.sinks]
    return cut(first, size) + cut([j for j in columns if j >= c.sinks], size)


def chunks(width: int, size: int, start: int = 0) -> list[range]:
    return cut(list(range(start, width)), size)


def _rows_of_output(mem: Meter, rows: int, width: int) -> None:
    mem.make("O", rows * width)
    mem.make("max", rows)
    mem.make("sum", rows)


def flash1(c: Case, t: dict[str, int], mem: Meter) -> None:
    for _ in range(c.heads):
        for I in rows_of(c, t["B_r"]):
            _rows_of_output(mem, len(I), c.d_v)
            mem.store("O")
            mem.store("max", "m")
            mem.store("sum", "l")
            mem.free("O", "max", "sum")
        for J in tiles_of(c, c.columns(range(c.N)), t["B_c"]):
            mem.load("K", len(J) * c.d)
            mem.load("V", len(J) * c.d_v)
            for I in cut(c.rows(J), t["B_r"]):
                mem.load("Q", len(I) * c.d)
                mem.make("S", len(I) * len(J))
                mem.free("Q")
                mem.load("O", len(I) * c.d_v)
                mem.load("m", len(I))
                mem.load("l", len(I))
                mem.free("S")
                for name in "Oml":
                    mem.store(name)
                mem.free("O", "m", "l")
            mem.free("K", "V")


def _attend(c: Case, mem: Meter, rows: int, J: range) -> None:
    mem.load("K", len(J) * c.d)
    mem.make("S", rows * len(J))
    mem.free("K")
    mem.load("V", len(J) * c.d_v)
    mem.free("V", "S")


def flash2(c: Case, t: dict[str, int], mem: Meter, heads: int = 1) -> None:
    """Rows of so many neighboring heads are one block."""
    for _ in range(c.heads // heads):
        for I in rows_of(c, t["B_r"]):
            mem.load("Q", heads * len(I) * c.d)
            _rows_of_output(mem, heads * len(I), c.d_v)
            for J in tiles_of(c, c.columns(I), t["B_c"]):
                _attend(c, mem, heads * len(I), J)
            mem.store("O")
            mem.free("Q", "O", "max", "sum")


def grouped_rows(c: Case, t: dict[str, int], mem: Meter) -> None:
    flash2(c, t, mem, c.heads // c.kv_heads)


def decode(c: Case, t: dict[str, int], mem: Meter) -> None:
    flash2(c, {**t, "B_r": c.N}, mem, c.heads // c.kv_heads)


def flash2_keep(c: Case, t: dict[str, int], mem: Meter) -> None:
    seen = [j for j in range(c.N_k) if any(c.sees(i, j) for i in range(c.N))]
    W = min(t["W"], len(seen))  # no window: they are the first
    for _ in range(c.heads):
        mem.load("K", W * c.d, "kept K")
        mem.load("V", W * c.d_v, "kept V")
        for I in rows_of(c, t["B_r"]):
            mem.load("Q", len(I) * c.d)
            _rows_of_output(mem, len(I), c.d_v)
            for J in tiles_of(c, [j for j in c.columns(I) if j < W], t["B_c"]):
                mem.make("S", len(I) * len(J))
                mem.free("S")
            for J in tiles_of(c, [j for j in c.columns(I) if j >= W], t["B_c"]):
                _attend(c, mem, len(I), J)
            mem.store("O")
            mem.free("Q", "O", "max", "sum")
        mem.free("kept K", "kept V")


def flash2_chunked(c: Case, t: dict[str, int], mem: Meter) -> None:
    for _ in range(c.heads):
        for I in rows_of(c, t["B_r"]):
            mem.load("Q", len(I) * c.d)
            _rows_of_output(mem, len(I), c.d_v)
            for J in tiles_of(c, c.columns(I), t["B_c"]):
                mem.make("S", len(I) * len(J))
                for X in chunks(c.d, t["B_d"]):
                    mem.load("K", len(J) * len(X))
                    mem.free("K")
                for X in chunks(c.d_v, t.get("B_v", t["B_d"])):
                    mem.load("V", len(J) * len(X))
                    mem.free("V")
                mem.free("S")
            mem.store("O")
            mem.free("Q", "O", "max", "sum")


def _scores(c: Case, t: dict[str, int], mem: Meter) -> None:
    """S to slow memory: of a tile with one pair that is seen, all of it."""
    W = min(t["W1"], c.d)
    for _ in range(c.heads):
        for I in rows_of(c, t["B_r1"]):
            mem.load("Q", len(I) * W, "held")
            for J in tiles_of(c, c.columns(I), t["B_c1"]):
                mem.make("S", len(I) * len(J))
                for X in chunks(W, t["B_d1"]):
                    mem.load("K", len(J) * len(X))
                    mem.free("K")
                for X in chunks(c.d, t["B_d1"], W):
                    mem.load("Q", len(I) * len(X))
                    mem.load("K", len(J) * len(X))
                    mem.free("Q", "K")
                mem.store("S")
                mem.free("S")
            mem.free("held")


def small_cache(c: Case, t: dict[str, int], mem: Meter) -> None:
    _scores(c, t, mem)
    for _ in range(c.heads):
        for I in rows_of(c, t["B_r2"]):
            for X in chunks(c.d_v, t["B_d2"]):
                _rows_of_output(mem, len(I), len(X))
                for J in tiles_of(c, c.columns(I), t["B_c2"]):
                    mem.load("S", len(I) * len(J))
                    mem.load("V", len(J) * len(X))
                    mem.free("S", "V")
                mem.store("O")
                mem.free("O", "max", "sum")


def spill_rows(c: Case, t: dict[str, int], mem: Meter) -> None:
    _scores(c, t, mem)
    for _ in range(c.heads):
        for I in rows_of(c, t["B_r2"]):
            _rows_of_output(mem, len(I), c.d_v)
            for J in tiles_of(c, c.columns(I), t["B_c2"]):
                mem.load("S", len(I) * len(J))
                for X in chunks(c.d_v, t["B_d2"]):
                    mem.load("V", len(J) * len(X))
                    mem.free("V")
                mem.free("S")
            mem.store("O")
            mem.free("O", "max", "sum")


def flash2_log(c: Case, t: dict[str, int], mem: Meter) -> None:
    for _ in range(c.heads):
        for I in rows_of(c, t["B_r"]):
            mem.load("Q", len(I) * c.d)
            mem.make("O and L", len(I) * c.d_v + len(I))
            for J in tiles_of(c, c.columns(I), t["B_c"]):
                mem.make("S", len(I) * len(J))
                for X in chunks(c.d, t["B_d"]):
                    mem.load("K", len(J) * len(X))
                    mem.free("K")
                for X in chunks(c.d_v, t.get("B_v", t["B_d"])):
                    mem.load("V", len(J) * len(X))
                    mem.free("V")
                mem.free("S")
            _mean_out(mem, len(I), c.d_v)
            mem.free("Q")


def _mean_out(mem: Meter, rows: int, width: int) -> None:
    mem.moved["store", "O"] = mem.moved.get(("store", "O"), 0) + rows * width
    mem.free("O and L")


def flash2_parts(c: Case, t: dict[str, int], mem: Meter) -> None:
    seen = [j for j in range(c.N_k) if any(c.sees(i, j) for i in range(c.N))]
    W = min(t.get("W", 0), len(seen))  # a schedule for a window keeps nothing
    for _ in range(c.heads):
        mem.load("K", W * c.d, "kept K")
        mem.load("V", W * c.d_v, "kept V")
        for I in rows_of(c, t["B_r"]):
            mem.load("Q", len(I) * c.d)
            mem.make("O and L", len(I) * c.d_v + len(I))
            kept = tiles_of(c, [j for j in c.columns(I) if j < W], t["B_c"])
            for J in kept + tiles_of(c, [j for j in c.columns(I) if j >= W], t["B_c"]):
                if J.start >= W:
                    mem.load("K", len(J) * c.d)
                    mem.load("V", len(J) * c.d_v)
                for part in cut(list(I), t["B_p"]):
                    mem.make("S", len(part) * len(J))
                    mem.free("S")
                if J.start >= W:
                    mem.free("K", "V")
            _mean_out(mem, len(I), c.d_v)
            mem.free("Q")
        mem.free("kept K", "kept V")


def small_tiles(c: Case, t: dict[str, int], mem: Meter) -> None:
    W = min(t["W1"], c.d)
    for _ in range(c.heads):
        for I in rows_of(c, t["B_r1"]):
            mem.load("Q", len(I) * W, "held")
            for J in tiles_of(c, c.columns(I), t["B_c1"]):
                mem.make("S", len(I) * len(J))
                for X in chunks(W, t["B_d1"]) + chunks(c.d, t["B_d1"], W):
                    if X.start >= W:
                        mem.load("Q", len(I) * len(X))
                    for few in cut(list(J), t["B_k1"]):
                        mem.load("K", len(few) * len(X))
                        mem.free("K")
                    if X.start >= W:
                        mem.free("Q")
                mem.store("S")
                mem.free("S")
            mem.free("held")
    for _ in range(c.heads):
        for I in rows_of(c, t["B_r2"]):
            for X in chunks(c.d_v, t["B_d2"]):
                mem.make("O and L", len(I) * len(X) + len(I))
                for J in tiles_of(c, c.columns(I), t["B_c2"]):
                    mem.load("S", len(I) * len(J))
                    for few in cut(list(X), t["B_v2"]):
                        mem.load("V", len(J) * len(few))
                        mem.free("V")
                    mem.free("S")
                _mean_out(mem, len(I), len(X))


def naive(c: Case, t: dict[str, int], mem: Meter) -> None:
    _scores(c, t, mem)
    W = t.get("W2", 0)  # a schedule for a window holds nothing
    for _ in range(c.heads):
        for I in rows_of(c, t["B_r2"]):
            mem.make("max", len(I))
            mem.make("sum", len(I))
            seen = c.columns(I)
            held = [j for j in seen if j < W]
            mem.load("S", len(I) * len(held), "held")
            rest = tiles_of(c, [j for j in seen if j >= W], t["B_c2"])
            for J in rest:
                mem.load("S", len(I) * len(J))
                mem.free("S")
            mem.store("held", "P")
            mem.free("held")
            for J in rest:
                mem.load("S", len(I) * len(J))
                mem.store("S", "P")
                mem.free("S")
            mem.free("max", "sum")
    for _ in range(c.heads):
        for I in rows_of(c, t["B_r3"]):
            for X in chunks(c.d_v, t["B_d3"]):
                mem.make("O", len(I) * len(X))
                for J in tiles_of(c, c.columns(I), t["B_c3"]):
                    mem.load("P", len(I) * len(J))
                    mem.load("V", len(J) * len(X))
                    mem.free("P", "V")
                mem.store("O")
                mem.free("O")


def split_kv(c: Case, t: dict[str, int], mem: Meter) -> None:
    """Each split of what a block of rows sees has statistics of its own; then they are merged."""
    heads = c.heads // c.kv_heads
    parts = {"O": "O_part", "max": "m_part", "sum": "l_part"}
    for _ in range(c.kv_heads):
        for I in rows_of(c, t["B_r"]):
            rows = heads * len(I)
            for S in cut(c.columns(I), t["B_s"]):
                mem.load("Q", rows * c.d)
                _rows_of_output(mem, rows, c.d_v)
                for J in cut(list(S), t["B_c"]):
                    _attend(c, mem, rows, J)
                for name, part in parts.items():
                    mem.store(name, part)
                mem.free("Q", *parts)
        for I in rows_of(c, t["B_r"]):
            rows = heads * len(I)
            _rows_of_output(mem, rows, c.d_v)
            for _ in cut(c.columns(I), t["B_s"]):
                mem.load("O_part", rows * c.d_v)
                mem.load("m_part", rows)
                mem.load("l_part", rows)
                mem.free(*parts.values())
            mem.store("O")
            mem.free(*parts)


SCHEDULES: dict[str, Callable[[Case, dict[str, int], Meter], None]] = {
    "naive": naive,
    "flash1": flash1,
    "flash2": flash2,
    "small_cache": small_cache,
    "flash2_chunked": flash2_chunked,
    "flash2_keep": flash2_keep,
    "spill_rows": spill_rows,
    "flash2_log": flash2_log,
    "flash2_parts": flash2_parts,
    "small_tiles": small_tiles,
    "grouped_rows": grouped_rows,
    "decode": decode,
    "split_kv": split_kv,
}


def words(name: str, c: Case, tiles: dict[str, int]) -> Meter:
    """What a schedule moves by (direction, tensor), and its peak."""
    assert name in SCHEDULES, f"write {name} by hand in tests/masked_oracle.py"
    mem = Meter()
    SCHEDULES[name](c, tiles, mem)
    assert not mem.held, "the oracle leaks"
    return mem
