"""The corollary of Theorem 5: what it takes to move less is loads of words of Q that come again."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

from iosim.report.proof import require, step, unsat

from . import constants, plays
from .chain import in_blocks
from .moments import of_sum
from .stays import Counted, executions, recorded


def long_ones(seed: int, count: int) -> Iterator[tuple[str, int, Counted]]:
    """Executions of class `once` with so many rows and columns that the corollary says much."""
    rng = random.Random(seed)
    for draw in range(count):
        K, sums = rng.randint(50, 60), draw % 2
        A, d_v = 2 + sums, 1 + sums
        M = K - (constants.CROSSED + 1) * A + rng.randint(0, 3)
        width = (M - 3) // A
        N = width + rng.randint(width // 2, width)
        order = in_blocks(N, K, 1, d_v, width, 1)
        log = recorded(order, M, rng, "belady")
        says = f"N = {N}, N_k = {K}, d_v = {d_v}, M = {M}, draw {draw} of seed {seed}"
        yield says, M, Counted(log, 1, d_v, sums, False)


def corollary(run: Counted, M: int, p: int, e: int) -> Fraction:
    """Its words, 0 where it says nothing of p; e words of Q and moves of row sums come again."""
    (A, G), held = run.width, M + constants.RESULT
    R, C = len({i for i, _ in run.made}), len({j for _, j in run.made})
    met = C - (constants.CROSSED + 1) * p * A
    if met <= 0 or not G * met <= 2 * p * held <= 2 * G * met:
        return Fraction(0)
    v = Fraction(p * held, G * met)
    sums = constants.STARTS * run.sums * R
    return A * R * (1 + Fraction(G * met, held)) - sums - constants.AGAIN_SAVES * (1 / v - 1) * e


def check_execution(seed: int, trees: bool) -> str:
    """What each word moves, what that makes, and the corollary where it says something."""
    said, again, nearest = 0, 0, 0.0
    short, long = constants.EXECUTIONS // 3, 0 if trees else constants.EXECUTIONS // 25
    many, some = executions(seed, short, trees), long_ones(seed + 1, long)
    for says, M, run in itertools.chain(many, some):
        rows, columns, moved = run.side(0), run.side(1), run.moved()
        loads, words, e, more = run.moved(["load"]), len(rows.stays), 0, 0
        for word, runs in rows.stays.items():
            if word[0] == "q":
                e += loads[word] - 1
            elif of_sum(run, word):
                require(moved[word] >= len(runs) - 1, f"{says}: {word} moves {moved[word]} times")
                e += moved[word]
            else:
                least = constants.STORED * len(runs) - 1
                require(moved[word] >= least, f"{says}: {word} moves {moved[word]}, not {least}")
                more += len(runs) - 1
        require(rows.number() <= words + e + more, f"{says}: {rows.number()} stays of row words")
        spilled = sum(word[0] == "s" for word in run.spilled)
        starts = sum(of_sum(run, word) for word in rows.stays)
        least = words - starts + e + constants.STORED * more + columns.number()
        least += constants.SPILLED * spilled
        total = sum(moved.values())
        require(total >= least, f"{says}: {total} words, not {least}")
        again += more > 0
        low = max(corollary(run, M, p, e) for p in range(1, 5))
        require(total >= low, f"{says}: {total} words, not {float(low)}")
        said += low > words - starts + len(columns.stays)
        nearest = max(nearest, float(low / total))
    require(again > 2 and said >= long // 2, f"{said} times, sums come again in {again}")
    return (
        f"{short} short executions and {long} long ones, entries of O come again in {again}; in "
        f"{said} it says more than once, at most {nearest:.0%} of the words, seed {seed}"
    )


@step(
    "again-once",
    how="sampled",
    says="Theorem 5's corollary and all that is counted for it, on executions of class once",
)
def again_once() -> str:
    """With row sums and without; blocks of rows or columns, or any order."""
    return check_execution(61, False)


@step("again-trees", how="sampled", says="what is counted for it, with sums by random trees")
def again_trees() -> str:
    """An entry of O with s stays has 2s − 1 transfers here, too."""
    return check_execution(63, True)


@step("again-words", how="proved", says="Theorem 5's corollary from what rows and columns move")
def again_words() -> str:
    """n row words, e and o come again; stays of rows and columns, spilled pairs; w = 1/v."""
    import z3

    n, e, o, of_rows, of_columns, pairs, p, w, words = z3.Reals("n e o rows columns pairs p w Q")
    spilled, saves = (
        z3.Q(round(1000 * x), 1000) for x in (constants.SPILLED, constants.AGAIN_SAVES)
    )
    unsat(
        w >= 1,
        w <= 2,
        p >= 1,
        n >= 0,
        e >= 0,
        o >= 0,
        pairs >= 0,
        of_rows <= n + e + o,
        of_columns >= w * ((p + 1) * n - of_rows - pairs),
        words >= n + e + constants.STORED * o + of_columns + spilled * pairs,
        words < n * (1 + p * w) - saves * (w - 1) * e,
    )
    return "all reals p ≥ 1, ½ ≤ v ≤ 1"


@step(
    "again-game",
    how="sampled",
    says="what rows that come again leave to columns, in the game of whole rows",
)
def again_game() -> str:
    """m items and the one that is loaded are there at a time; every p."""
    rng, nearest, count = random.Random(65), Fraction(0), 4 * constants.EXECUTIONS
    for _ in range(count):
        R, C = rng.randint(2, 12), rng.randint(2, 12)
        m = rng.randint(1, max(R, C))
        rows, columns, _ = plays.played(R, C, m, rng)
        best = Fraction(0)
        for p in range(1, C + 1):
            v = Fraction(p * (m + 1), C)
            if v <= 1:
                best = max(best, ((p + constants.SPARE) * R - rows.number()) / v)
        says = f"{R} rows, {C} columns, m = {m}, {rows.number()} loads of rows"
        require(columns.number() >= best, f"{says}: {columns.number()} of columns, not {best}")
        if best > C:
            nearest = max(nearest, best / columns.number())
    require(nearest > Fraction(2, 3), f"at most {float(nearest):.0%} of the loads")
    return f"{count} random plays, at most {float(nearest):.0%} of columns' loads, seed 65"
