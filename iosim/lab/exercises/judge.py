"""Answers to exercises of tutorials, compared with counts that are not shown."""

from __future__ import annotations

import math
import random

from iosim.core.problem import Attention
from iosim.core.program.ir import Program
from iosim.core.program.walk import bind
from iosim.lab.exercises.expression import evaluate
from iosim.lab.exercises.quantities import amount
from iosim.lab.exercises.record import POINTS

UNANSWERED = "no answer yet: give your own in place of None"


def judge(answer: float | str | None, right: float | str, tolerance: float = 0.0) -> str:
    """Say whether an answer is right, and if not, in which direction it is wrong.

    Args:
        answer: a number, or a word where the right answer is one; None while there is none.
        right: what is right.
        tolerance: the share of a number by which the answer may differ.

    >>> judge(None, 12), judge(12, 12), judge(24, 12)
    ('no answer yet: give your own in place of None', 'right', 'not yet: 24 is 2 times too large')
    >>> judge("memory", "compute")
    "not yet: it is not 'memory'"
    """
    if answer is None:
        return UNANSWERED
    if isinstance(answer, str) or isinstance(right, str):
        return "right" if answer == right else f"not yet: it is not {answer!r}"
    if math.isclose(answer, right, rel_tol=max(tolerance, 1e-12)):
        return "right"
    if answer <= 0 or right <= 0:
        return f"not yet: {answer:,} is too {'large' if answer > right else 'small'}"
    many, way = (answer / right, "large") if answer > right else (right / answer, "small")
    return f"not yet: {answer:,} is {many:.4g} times too {way}"


def judge_formula(formula: str | None, program: Program, key: str = "total") -> str:
    """Say whether a formula gives the words that a program of attention moves, short tiles and all.

    Args:
        formula: over N, d, heads and the program's tiles, as ``2*N*d*ceil(N/B_r)``; None while
            there is none.
        program: what is counted, at random sizes and tiles.
        key: ``total``, or the words of one tensor, as ``load K``.

    Raises InputError for what is not a formula, for other names, and for an unknown key.

    >>> from iosim import algorithm
    >>> flash2 = algorithm("flash2").program
    >>> judge_formula("heads*N*d*ceil(N/B_r)", flash2, "load K")
    'right at 150 random sizes and tiles'
    >>> judge_formula("heads*N*d", flash2, "load K")
    'not yet: at N = 108, d = 11, heads = 3, B_r = 66, B_c = 63 it gives 3,564; 7,128 are counted'
    """
    if formula is None:
        return UNANSWERED
    rng = random.Random(0)
    for _ in range(POINTS):
        most = 2 ** rng.randint(1, 9)
        problem = Attention(rng.randint(1, most), rng.randint(1, most), rng.randint(1, 4))
        at = {x: problem.sizes[x] for x in ("N", "d", "heads")}
        tiles = {p.name: rng.randint(p.least, at[p.axis]) for p in program.params}
        said = evaluate(formula, at | tiles)
        instance = bind(program, problem.sizes, tiles)
        counted = amount(instance, key)
        if said != counted:
            where = ", ".join(f"{name} = {value}" for name, value in (at | tiles).items())
            number = f"{said.numerator:,}" if said.denominator == 1 else f"{float(said):,.4g}"
            return f"not yet: at {where} it gives {number}; {counted:,} are counted"
    return f"right at {POINTS} random sizes and tiles"
