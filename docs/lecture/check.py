"""Check answers to the problem sets: ``python docs/lecture/check.py answers.toml``.

The file has an answer for each problem, as ``1a = "N*d"``, ``1e = 4096`` or ``2c = "flash2"``.
"""

from __future__ import annotations

import re
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

from iosim.base.errors import InputError
from iosim.base.reading import read_toml
from iosim.core.algorithms import algorithm
from iosim.lab.exercises import exercises
from iosim.lab.exercises.expression import evaluate
from iosim.lab.exercises.judge import judge, judge_formula

SETS = Path(__file__).with_name("problems.toml")


def problems() -> dict[str, dict[str, Any]]:
    """Name, as ``1a``, → the exercise."""
    named = re.compile(r"Set (\d), (\w)\.")
    every = [one for found in exercises(SETS).values() for one in found]
    heads = [(named.match(one["question"]), one) for one in every]
    return dict(sorted((m[1] + m[2], one) for m, one in heads if m))


def solution(one: dict[str, Any]) -> float | str:
    """The right number or choice; of a formula the formula."""
    if one["ask"] != "number":
        return str(one["answer"])
    return float(evaluate(one["answer"], {x: Fraction(v) for x, v in one["values"].items()}))


def verdict(one: dict[str, Any], answer: Any) -> str:
    """What is said of an answer."""
    if one["ask"] == "formula":
        # A problem has one head; the program is counted at several.
        every = None if answer is None else f"heads*({answer})"
        counted = one["count"]
        return judge_formula(every, algorithm(counted["program"]).program, counted["key"])
    return judge(answer, solution(one), one.get("tolerance", 0.0))


def main(path: str) -> int:
    """Print a line for each problem; 0 where all are right."""
    answers = read_toml(Path(path))
    said = {name: verdict(one, answers.get(name)) for name, one in problems().items()}
    for name, text in said.items():
        print(f"{name}: {text}")
    return int(not all(text.startswith("right") for text in said.values()))


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:2] or ["answers.toml"]))
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
