"""The game of whole rows: what Theorem 3 says where nothing is left out, and exact optima."""

from __future__ import annotations

import functools
import itertools
from fractions import Fraction

from iosim.report.proof import require, step

from . import constants

# Of pairs met and items that are resident, as bits.
_State = tuple[int, int]


@functools.cache
def _spread_bits(line: int, width: int, step: int) -> int:
    """The bits of a line, so many places apart."""
    return sum((line >> k & 1) << (k * step) for k in range(width))


def _turned(met: int, held: int, R: int, C: int) -> _State:
    """The state with its rows sorted, and then as columns."""
    full = (1 << C) - 1
    rows = sorted(
        (held >> i & 1, (row := met >> (i * C) & full).bit_count(), row) for i in range(R)
    )
    now, kept = 0, held >> R
    for i, (resident, _, row) in enumerate(rows):
        now |= _spread_bits(row, C, R) << i
        kept |= resident << (C + i)
    return now, kept


def _sorted(met: int, held: int, R: int, C: int) -> _State:
    """The same state with its rows and columns sorted, so that fewer states are different."""
    for _ in range(2):
        met, held = _turned(*_turned(met, held, R, C), C, R)
    return met, held


def _meeting(item: int, held: int, R: int, C: int) -> int:
    """The pairs of an item and all of the other side that are resident, as bits."""
    if item < R:
        return ((held >> R) & ((1 << C) - 1)) << (item * C)
    return sum(1 << (i * C + item - R) for i in range(R) if held >> i & 1)


@functools.cache
def optimum(R: int, C: int, m: int, *, room_first: bool = False, rows_once: bool = False) -> int:
    """The fewest loads until every row has met every column, with m of them resident.

    An item that is loaded meets all that are resident; then one of the m + 1 goes.  With
    `room_first` one that stays takes the place of one that it does not meet.  With `rows_once` a
    row that has met a column and is gone is not loaded again.  Breadth first.
    """
    every = (1 << (R * C)) - 1
    level: set[_State] = {(0, 0)}
    seen: set[_State] = set()
    for loads in itertools.count(1):
        after: set[_State] = set()
        for met, held in level:
            for item in range(R + C):
                if held >> item & 1:
                    continue
                if rows_once and item < R and met >> (item * C) & ((1 << C) - 1):
                    continue
                then = met | _meeting(item, held, R, C)
                if then == every:
                    return loads
                if held.bit_count() < m:
                    after.add((then, held | 1 << item))
                    continue
                after.add((then, held))
                for gone in range(R + C):
                    if held >> gone & 1:
                        others = held & ~(1 << gone)
                        if room_first:
                            then = met | _meeting(item, others, R, C)
                        after.add((then, others | 1 << item))
        seen |= level
        level = {_sorted(*state, R, C) for state in after} - seen
    raise AssertionError("unreachable")


def least(R: int, C: int, m: int) -> int:
    """Theorem 3 in this game: a word is a whole row, no pair crosses a cut, D is left out."""
    best = R + C
    for j in range(1, R):
        K = (R - 1) // j
        if m <= K <= C:
            saved = constants.SAVED * m
            again = constants.TWICE * R + (j + 1) * (C - 1 - saved)
            best = max(best, min((j + 1) * (C + K - saved), again))
    return best


def staircase(N: int, m: int) -> Fraction:
    """Loads of the schedule that keeps W columns: n sweeps of N/n rows."""
    n = -(-N // m)
    return n * N + 2 * N - Fraction(N, n) - (n - 1) * m


GAMES = ((2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3))


@step(
    "whole-rows-game",
    how="exhaustive",
    says="Theorem 3 in the game of whole rows is at most the optimum, which the steps attain",
)
def whole_rows_game() -> str:
    """Optima by breadth-first search; the streaming slot saves a load at each change of sweep."""
    for N, m in GAMES:
        best, low = optimum(N, N, m), least(N, N, m)
        require(low <= best, f"N = {N}, m = {m}: {low} > {best}")
    return stepped(room_first=False)


def stepped(room_first: bool) -> str:
    """Optima: the sweeps' loads, rounded up, less one for each change of sweep without room."""
    found = []
    for N, m in GAMES:
        best, turns = optimum(N, N, m, room_first=room_first), -(-N // m) - 1
        steps = staircase(N, m) - (0 if room_first else turns)
        require(steps <= best < steps + 1, f"N = {N}, m = {m}: {best}, the steps say {steps}")
        found.append(f"{N}/{m}: {best}")
    return f"N ≤ 4, optima for N/m: {', '.join(found)}"


@step(
    "whole-rows-room",
    how="exhaustive",
    says="where what makes room goes first no play has fewer loads than the sweeps, rounded up",
)
def whole_rows_room() -> str:
    """Optima by breadth-first search.  With k items for each, such a play is one of kN rows."""
    return stepped(room_first=True)
