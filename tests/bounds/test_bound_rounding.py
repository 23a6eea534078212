"""Bounds of huge problems against exact arithmetic: floats may not lift them by a word."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sympy
from click.testing import CliRunner
from sizes import draws

from iosim.bounds import BOUNDS, bound, bounds_for, sym
from iosim.bounds.base import Bound
from iosim.bounds.terms import below
from iosim.bounds.unified import (
    EXACT_FROM,
    certificate,
    lower_bound,
    lower_bound_many,
    pattern_bound,
    pattern_bound_many,
)
from iosim.cli.commands import COMMANDS
from iosim.cli.registry import program
from iosim.core.problem import PROBLEMS, Attention

pytestmark = pytest.mark.numbers

LOWER = [b for b in BOUNDS.values() if b.kind == "lower" and b.strength == "exact"]
CLOSED = [
    b
    for b in LOWER
    if b.numeric is None and b.problem in ("attention", "attention-backward", "matmul", "copy")
]


def large(rng: random.Random) -> int:
    """A size, as often small as large."""
    return rng.randint(1, 2 ** rng.randint(1, 40))


def test_the_least_words_of_a_huge_problem() -> None:
    N, H = 2**25 + 7, 2**29 + 1
    exact = 4 * H * N
    assert exact > 2**53
    assert float(exact) > exact  # what it was
    for found in (
        lower_bound(N, 1, 2**40, heads=H),
        float(lower_bound_many(N, 1, 2**40, heads=H)),
        pattern_bound(H * N * N, H * N, H * N, 1, 2**40),
        bound("compulsory").words(Attention(N, 1, H), 1),
        float(bound("compulsory").curve(N=N, d=1, heads=H, M=1)),
    ):
        assert exact * (1 - 2**-40) < found <= exact


@pytest.mark.parametrize("klass", EXACT_FROM)
def test_huge_sizes_in_exact_integers(klass: str) -> None:
    rng, leading = random.Random(17), 0
    for _ in range(draws(3000, 700)):
        N, keys, d, M, H = (large(rng) for _ in range(5))
        least = H * (N + keys) * 2 * d
        exact = Fraction(least)
        if EXACT_FROM[klass] * d * d <= M:
            exact = max(exact, Fraction(4 * H * N * keys * d * d, M))
            leading += exact > least
        else:
            proof = certificate(N, d, M, heads=H, keys=keys, klass=klass)
            weight, cap = Fraction(proof.weight), Fraction(proof.cap)
            words = proof.segment * (weight * H * N * keys / (cap * d * d) - 1) + M
            assert proof.words <= 0 or Fraction(proof.words) <= words
            continue
        one = lower_bound(N, d, M, heads=H, keys=keys, klass=klass)
        many = lower_bound_many(N, d, M, heads=H, keys=keys, klass=klass)
        rows = pattern_bound(H * N * keys, H * N, H * keys, d, M, klass=klass)
        sets = pattern_bound_many(
            float(H * N * keys), float(H * N), float(H * keys), d, M, klass=klass
        )
        for found in (one, float(many), rows, float(sets)):
            assert exact * (1 - Fraction(1, 2**40)) <= Fraction(found) <= exact
    assert leading > draws(50, 12)


@pytest.mark.parametrize("b", CLOSED, ids=lambda b: b.name)
def test_huge_sizes_in_the_catalogue(b: Bound) -> None:
    """`words` and `curve` exceed the expression by half a word at most, in exact arithmetic."""
    rng, seen, beyond = random.Random(18), 0, 0
    names = PROBLEMS[b.problem].plain_form().sizes
    for _ in range(400):
        sizes, M = {name: large(rng) for name in names}, large(rng)
        problem = PROBLEMS[b.problem](**sizes)
        if not b.applies(problem, M):
            continue
        values = {sym(x): sympy.Integer(v) for x, v in (problem.sizes | {"M": M}).items()}
        scaled = sympy.floor(b.expression.xreplace(values) * 2**20)
        exact = max(Fraction(0), Fraction(int(scaled), 2**20))
        found = b.words(problem, M)
        curve = b.curve(**{x: np.array([v]) for x, v in problem.sizes.items()}, M=np.array([M]))
        for value in (found, float(curve[0])):
            assert Fraction(value) <= exact + Fraction(1, 2)
            assert value >= exact * (1 - Fraction(1, 2**30)) - 1
        seen += 1
        beyond += exact > 2**53
        if seen == draws(60, 20):
            break
    assert seen >= 10
    assert beyond > 2 or b.problem == "copy"


def test_below() -> None:
    rng = random.Random(19)
    for _ in range(1000):
        value = Fraction(rng.getrandbits(120), rng.getrandbits(30) + 1)
        found = Fraction(below(value))
        assert value * (1 - Fraction(1, 2**52)) <= found <= value


def printed_by(*words: str) -> str:
    """What a command prints."""
    done = CliRunner().invoke(program(COMMANDS), words, catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_bounds_are_unrounded_in_json_and_the_nearest_word_in_tables(tmp_path: Path) -> None:
    problem, M = Attention(1000, 60), 7000
    sizes = ("--N", "1000", "--d", "60", "--M", str(M))
    exact = {row.name: row.words for row in bounds_for(problem, M) if row.words is not None}
    printed = json.loads(printed_by("bounds", *sizes, "--json"))
    assert {row["name"]: row["words"] for row in printed if row["applies"]} == exact
    up = [name for name, words in exact.items() if round(words) > words]
    down = [name for name, words in exact.items() if round(words) < words]
    assert "constant-tight-recompute-trees" in up
    assert "constant-tight-once" in down
    lines = printed_by("bounds", *sizes).splitlines()
    for name in ("constant-tight-once", "constant-tight-recompute-trees"):
        (row,) = [line.split() for line in lines if line.startswith(f"{name} ")]
        assert f"{round(exact[name]):,}" in row
    tight = json.loads(printed_by("tightness", *sizes, "--json"))
    assert tight["lower_bound_words"] == exact[tight["lower_bound"]]
    assert tight["lower_bound"] in up + down
    assert {row["name"]: row["words"] for row in tight["bounds"]}.items() <= exact.items()
    sizes = ("--N", "64", "--d", "7", "--M", "300", "--workers", "1", "--out", str(tmp_path / "v"))
    (run, *_) = json.loads(printed_by("verify", *sizes, "--json"))["points"]
    small = {row.name: row.words for row in bounds_for(Attention(64, 7), 300)}
    assert run["lower_bound_words"] == small[run["lower_bound"]]
    assert run["lower_bound_words"] % 1
