"""Backward passes of attention as sequences of passes, and the search for the best of them.

A pass makes or reads tiles of P, dP and dS, stores some of them, and adds to some of dV, dQ and dK:
124 combinations make sense.  It has rows or columns outside; of the tensors of that side any stay,
and the others come in chunks of columns for every tile; lines that two products of a tile use are
whole, or are loaded twice.  Single products may have tiles and chunks of columns of their own.
A schedule is any sequence of passes, and the best is a shortest path whose edges are exact counts
at the best tiles (`search`).

Not covered: rows or columns of the other side that stay as well (as in `flash2_keep`); tiles of P
or dS that stay from one pass to the next; spilling for a part of the pairs; chunks of the columns
of several sums in one pass; partial sums of scores in slow memory.

Found, with d = 64 and N = 2¹⁸ (``python -m experiments.backward_search`` prints it): nothing that
is better than the registered schedules by more than lower-order terms.  `small_backward` is best up
to M = d²/4, `spill_weights` to 4d²/3, `spill_gradient` to 5d²/2; then `two_kernels`, and among
those that compute scores once `spill_gradient` to 7d²/2 and `flash2_backward` beyond.  If the
forward pass leaves S in slow memory, where `small_cache` and `spill_rows` put it anyway, forward
and backward pass together move less up to about M = 7d²/4: 12N²d/√M + 3N² words for small M, then
6N²d²/M + 6N².
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iosim.base.errors import CapacityError
from iosim.bounds import bound_class
from iosim.core.algorithms import algorithm, all_algorithms
from iosim.core.problem import Attention, AttentionBackward
from iosim.core.program.ir import Program
from iosim.core.tiling import Tiling, optimal_tiles

from . import Rows, run_main
from ._backward_passes import PRODUCTS, ROWS, SUMS, Does, Pass, alone, first_program, passes

# What is stored, what is summed, and which scores were made by products.
State = tuple[frozenset[str], frozenset[str], frozenset[str]]


@dataclass(frozen=True, kw_only=True)
class Found:
    """The best sequence of passes at a point.

    Attributes:
        passes: in order.
        tiles: those of the whole schedule, which `program` of the passes takes.
        words: its exact count.
        evaluated: how many passes were counted exactly.
    """

    passes: tuple[Pass, ...]
    tiles: dict[str, int]
    words: int
    evaluated: int

    @property
    def label(self) -> str:
        """The passes in words."""
        return " | ".join(map(str, self.passes))


def search(
    problem: AttentionBackward,
    M: int,
    klass: str = "once",
    *,
    left: bool = False,
    among: Sequence[Pass] | None = None,
) -> Found:
    """The sequence of passes that moves the fewest words in M, of those of a class.

    A shortest path: a node says what is stored and summed by then, an edge is a pass, as long as
    the exact count at its best tiles.  Most passes are never counted: an edge is first as long as
    `at_least` says, and is counted once it lies on a shortest path.

    Args:
        klass: ``recompute`` admits passes that make S or dP once more.
        left: whether the forward pass left S in slow memory.
        among: the passes; by default all that `passes` has.

    Raises InputError for an unknown class, CapacityError where no sequence runs in M words.
    """
    again = bound_class(klass).name == "recompute"
    counted: dict[Pass, Tiling | None] = {}
    ways: dict[Does, list[tuple[float, int, Pass]]] = {}
    for k, one in enumerate(passes(left=left) if among is None else among):
        ways.setdefault(one.does, []).append((at_least(one, problem, M), k, one))
    for found in ways.values():
        heapq.heapify(found)
    first = _best(first_program(problem.form), problem, M)
    while first is not None:
        path = _shortest({x: found[0] for x, found in ways.items() if found}, left, again)
        if path is None:
            break
        new = [one for one in path if one not in counted]
        if not new:
            return _count_path(path, problem, first, [counted[one] for one in path], len(counted))
        for one in new:
            _, k, _ = heapq.heappop(ways[one.does])
            counted[one] = tiling = _best(alone(one, problem.form), problem, M)
            if tiling is not None:
                heapq.heappush(ways[one.does], (tiling.total_words, k, one))
    raise CapacityError(f"no sequence of passes runs in M = {M} words: use a larger M")


def at_least(one: Pass, problem: AttentionBackward, M: int) -> float:
    """Words that a pass moves at least, however its tiles are chosen.

    A tile of a rows and b columns holds ab pairs at most, and takes its lines of every tensor that
    doesn't stay: a rows, b columns.  So with w_r and w_c words a line, a ≤ r and b ≤ c it moves
    w_r/c + w_c/r words a pair or more, beside those of scores.  M has room for h words of each line
    that stays and for t tiles: hc + trc ≤ M, with columns outside.
    """
    pairs, spilled = float(problem.pairs), len(one.reads) + len(one.stores)
    if one.outside == "tiles":
        return pairs * spilled
    size = {t: problem.values if t in ("V", "dV", "dO") else problem.d for t in one.tensors}
    moved = {True: 0.0, False: 0.0}
    for x in one.products:
        for t in PRODUCTS[x]:
            if t not in one.stays | one.whole:
                moved[t in ROWS] += size[t] * (2 if t in SUMS else 1)
    for t in one.whole:
        moved[t in ROWS] += size[t]
    if {"dP", "dV"} <= set(one.products) and "dO" not in one.stays:
        moved[True] -= size["dO"]  # one loop over columns takes its chunks for both
    held = sum(size[t] for t in one.stays)
    has = one.reads | one.makes
    tiles = 2 if has & {"P", "S"} and "dP" in has else 1
    inner, outer = moved[one.outside == "columns"], moved[one.outside == "rows"]
    if not inner:
        return pairs * spilled
    # inner/c + outer·tc/(M − hc) is least where its derivative is 0.
    root = math.sqrt(outer * tiles * M / inner)
    most = problem.keys if one.outside == "columns" else problem.N
    c = min(M / (held + root) if held + root else math.inf, most)
    return pairs * (spilled + inner / c + (outer * tiles * c / (M - held * c) if outer else 0.0))


def _best(made: Program, problem: AttentionBackward, M: int) -> Tiling | None:
    try:
        return optimal_tiles(made, problem, M)
    except CapacityError:
        return None


def _shortest(
    edges: dict[Does, tuple[float, int, Pass]], left: bool, again: bool
) -> tuple[Pass, ...] | None:
    """The shortest path from nothing to all three gradients; None if there is none."""
    start: State = (frozenset({"S"} if left else ()), frozenset(), frozenset())
    best: dict[State, float] = {start: 0.0}
    came: dict[State, tuple[State, Pass]] = {}
    queue: list[tuple[float, int, State]] = [(0.0, 0, start)]
    order = 0
    while queue:
        length, _, state = heapq.heappop(queue)
        if length > best[state]:
            continue
        if state[1] == frozenset(SUMS):
            path = []
            while state != start:
                state, one = came[state]
                path.append(one)
            return tuple(reversed(path))
        for words, _, one in edges.values():
            to = next_state(state, one.does, again)
            if to is not None and length + words < best.get(to, math.inf):
                order += 1
                best[to], came[to] = length + words, (state, one)
                heapq.heappush(queue, (length + words, order, to))
    return None


def next_state(state: State, does: Does, again: bool) -> State | None:
    """The state that a pass leads to; None where it can't follow, or does what was done."""
    stored, summed, made = state
    reads, makes, stores, sums = does
    products = makes & {"P", "dP"}
    if not reads <= stored or sums & summed or stores & stored or (products & made and not again):
        return None
    return stored | stores, summed | sums, made if again else made | products


def _count_path(
    path: tuple[Pass, ...],
    problem: AttentionBackward,
    first: Tiling,
    counted: Sequence[Tiling | None],
    evaluated: int,
) -> Found:
    tiles, words = dict(first.tiles), first.total_words
    for k, (one, tiling) in enumerate(zip(path, counted, strict=True), start=1):
        assert tiling is not None
        words += tiling.total_words
        here, there = (alone(one, problem.form, n).params for n in ("1", str(k)))
        tiles |= {y.name: tiling.tiles[x.name] for x, y in zip(here, there, strict=True)}
    return Found(passes=path, tiles=tiles, words=words, evaluated=evaluated)


SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 1, 4 / 3, 1.6, 2, 2.5, 3, 3.5, 4, 8, 64)
FORWARD = ("flash2", "flash2_chunked", "flash2_keep", "spill_rows", "small_cache")
LEAVING = FORWARD[3:]  # of these, those that store S


def rows(N: int, d: int, shares: Sequence[float] = SHARES) -> Rows:
    """The table: words a pair of the best sequence and of the best registered schedule."""
    made: Rows = []
    for share, klass in itertools.product(shares, ("once", "recompute")):
        problem, M = AttentionBackward(N, d), round(share * d * d)
        found = search(problem, M, klass)
        names = [a.name for a in all_algorithms(problem.kind) if klass in a.classes]
        words, name = min(_registered(names, problem, M))
        made.append(
            {
                "d": d,
                "M_words": M,
                "M/d²": round(share, 3),
                "class": klass,
                "words_a_pair": round(found.words / problem.pairs, 3),
                "registered": name,
                "registered_words_a_pair": round(words / problem.pairs, 3),
                "passes": found.label,
            }
        )
    return made


def steps(N: int, d: int, shares: Sequence[float] = SHARES) -> Rows:
    """Words a pair of forward and backward pass together, each alone, and with S left between.

    Either way the forward pass stores L, a word a row.
    """
    made: Rows = []
    for share in shares:
        problem, M = AttentionBackward(N, d), round(share * d * d)
        totals = {}
        for left, names in ((False, FORWARD), (True, LEAVING)):
            words, name = min(_registered(names, Attention(N, d), M))
            found = search(problem, M, left=left)
            totals[left] = (N + words + found.words) / problem.pairs, name, found.label
        made.append(
            {
                "d": d,
                "M_words": M,
                "M/d²": round(share, 3),
                "alone": round(totals[False][0], 3),
                "S left": round(totals[True][0], 3),
                "forward": totals[True][1],
                "backward": totals[True][2],
            }
        )
    return made


def _registered(
    names: Sequence[str], problem: Attention | AttentionBackward, M: int
) -> Iterator[tuple[int, str]]:
    for name in names:
        with contextlib.suppress(CapacityError):
            yield optimal_tiles(algorithm(name).program, problem, M).total_words, name


def main() -> None:
    """Print which passes are best at each M, and what S is worth that the forward pass left."""
    for row in itertools.chain(rows(2**18, 64), steps(2**18, 64)):
        print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)


if __name__ == "__main__":
    run_main(main)
