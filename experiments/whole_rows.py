"""The game of whole rows, searched by annealing: is there a play with fewer loads than the sweeps?

A word is a whole row, of Q and O or of K and V.  N rows and N columns, m of which may stay; each
row has to meet each column in fast memory.  Here what makes room goes first: an item either
streams, meeting all m that stay, or takes the place of one of them, which it does not meet.  So
with k items for each one a play is one of kN rows with km that stay and k times the loads, and one
below the sweeps' count would be a better schedule for all long sequences
(`proofs/towards_nd.md#6-what-is-attained`).  Breadth-first search of all plays for N ≤ 4 is a step
of that proof; this goes further, and proves nothing.

``python -m experiments.whole_rows`` prints the cheapest play of each size that was found, beside
the sweeps' count, ``--sizes 10/3,12/4`` those of other sizes.  ``--again 1.5`` lets a row that
comes again cost what it costs in attention, where O is then stored twice.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from iosim.base.compiled import compiled
from iosim.report.proof import load_theorem

from . import run_main

SIZES = "4/1,5/2,6/2,7/2,7/3,8/3,9/4,10/3"
# Changes of a play between two looks at the clock, and what a pair not met costs.
_CHANGES, _PAIR = 100_000, 2.0
# Temperatures, the first and the last, in loads.
_HOT, _COLD = 1.0, 0.1


def swept(N: int, m: int) -> float:
    """Loads of the best schedule's sweeps, in leading order: the proof's own count."""
    return float(load_theorem("towards_nd").game.staircase(N, m))


def price(items: Any, places: Any, length: int, N: int, m: int, again: float, room: Any) -> Any:
    """What a play costs, and how many pairs it leaves.

    Args:
        items: what is loaded, rows from 0 and columns from N.
        places: where it stays, or m for an item that streams.
        length: loads.
        N, m: rows, and as many columns; how many items may stay.
        again: what a row costs that was loaded before.
        room: for N·N pairs met, N rows that came and m items that stay.
    """
    cost = 0.0
    left = N * N
    met, came, held = room[: N * N], room[N * N : N * N + N], room[N * N + N :]
    met[:] = 0
    came[:] = 0
    held[:] = -1
    for at in range(length):
        item, place = items[at], places[at]
        if place < m:
            held[place] = -1
        for x in range(m):
            other = held[x]
            if other >= 0 and (other < N) != (item < N):
                pair = item * N + other - N if item < N else other * N + item - N
                if met[pair] == 0:
                    met[pair] = 1
                    left -= 1
        if place < m:
            held[place] = item
        cost += again if item < N and came[item] else 1.0
        if item < N:
            came[item] = 1
    return cost, left


def anneal(
    items: Any,
    places: Any,
    tried: Any,
    where: Any,
    room: Any,
    kept: Any,
    length: int,
    N: int,
    m: int,
    again: float,
    heat: float,
    seed: int,
) -> Any:
    """Changes of a play, in place, at one temperature; the loads after them.

    `tried`, `where` and `room` are to work in.  `kept` has the cheapest play that leaves no pair:
    its cost, how many loads it has, and these.
    """
    np.random.seed(seed)
    most = len(items)
    cost, left = price(items, places, length, N, m, again, room)
    now = cost + _PAIR * left
    for _ in range(_CHANGES):
        for x in range(length):
            tried[x], where[x] = items[x], places[x]
        size, kind = length, np.random.randint(0, 6)
        at, to = np.random.randint(0, length), np.random.randint(0, length)
        if kind == 0:
            tried[at] = np.random.randint(0, 2 * N)
        elif kind == 1:
            where[at] = np.random.randint(0, m + 1)
        elif kind == 2:
            tried[at], tried[to] = items[to], items[at]
            if np.random.randint(0, 2):
                where[at], where[to] = places[to], places[at]
        elif kind == 3:  # one goes elsewhere
            step = 1 if to > at else -1
            for x in range(at, to, step):
                tried[x], where[x] = items[x + step], places[x + step]
            tried[to], where[to] = items[at], places[at]
        elif kind == 4 and length > 2:
            for x in range(at, length - 1):
                tried[x], where[x] = items[x + 1], places[x + 1]
            size -= 1
        elif kind == 5 and length < most:
            for x in range(length, at, -1):
                tried[x], where[x] = items[x - 1], places[x - 1]
            tried[at], where[at] = np.random.randint(0, 2 * N), np.random.randint(0, m + 1)
            size += 1
        cost, left = price(tried, where, size, N, m, again, room)
        then = cost + _PAIR * left
        if then <= now or np.random.random() < math.exp((now - then) / heat):
            now, length = then, size
            for x in range(size):
                items[x], places[x] = tried[x], where[x]
            if left == 0 and cost < kept[0]:
                kept[0], kept[1] = cost, size
                for x in range(size):
                    kept[2 + 2 * x], kept[3 + 2 * x] = items[x], places[x]
    return length


def find_cheapest(
    N: int, m: int, again: float, seconds: float, seed: int = 0
) -> tuple[float, list[tuple[int, int]]]:
    """The cheapest play that is found: its cost, and what is loaded and where it stays."""
    most = math.ceil(1.3 * swept(N, m))
    kept = np.full(2 + 2 * most, math.inf)
    started, tries = time.monotonic(), 0
    run = compiled(anneal)
    work = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(N * N + N + m, np.int64)
    while time.monotonic() - started < seconds:
        rng = np.random.default_rng([seed, tries])
        items, places = rng.integers(0, 2 * N, most), rng.integers(0, m + 1, most)
        length, heats = most, np.geomspace(_HOT, _COLD, 40)
        for heat in heats:
            draw = int(rng.integers(2**31))
            length = run(items, places, *work, kept, length, N, m, again, float(heat), draw)
        tries += 1
    play = kept[2 : 2 + 2 * int(kept[1])].astype(int).reshape(-1, 2) if kept[0] < math.inf else []
    return float(kept[0]), [(int(item), int(place)) for item, place in play]


def _sizes(text: str) -> list[tuple[int, int]]:
    sizes = []
    for size in text.split(","):
        N, _, m = size.partition("/")
        if not (N.isdecimal() and m.isdecimal() and 1 <= int(m) < int(N)):
            raise argparse.ArgumentTypeError(f"{size!r} is not N/m with 1 ≤ m < N, like 10/3")
        sizes.append((int(N), int(m)))
    return sizes


def main(argv: Sequence[str] | None = None) -> None:
    """The command that this file's first lines tell of."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.whole_rows", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--sizes", type=_sizes, default=SIZES, help=f"N/m, with commas (default: {SIZES})"
    )
    parser.add_argument(
        "--again", type=float, default=1.0, help="what a row costs that comes again"
    )
    parser.add_argument("--seconds", type=float, default=30, help="for each size")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(argv)
    for N, m in asked.sizes:
        cost, play = find_cheapest(N, m, asked.again, asked.seconds, asked.seed)
        print(f"N = {N}, m = {m}: {cost:g} found, {swept(N, m):.2f} by sweeps", play)


if __name__ == "__main__":
    run_main(main)
