"""Committed tables come out again: every formula and bound in docs/img, to the word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strategies import plain_algorithms

import iosim
from iosim.bounds import BOUNDS, best_lower_bound, bound
from iosim.bounds.classes import WIDE
from iosim.core.counting.numbers import count_many
from iosim.core.problem import Attention, AttentionBackward
from iosim.core.tiling import optimal_tiles_many
from iosim.report import table, tightness

IMG = Path(__file__).parents[2] / "docs" / "img"


def test_the_table_of_the_main_job() -> None:
    rows = table.read_csv(IMG / "verify.csv")
    assert {r["kind"] for r in rows} == {"run", "formula", "lower", "upper"}
    assert {r["name"] for r in rows if r["kind"] == "run"} == {
        a.name for a in plain_algorithms("attention")
    }, "draw it again: iosim verify --out docs/img"
    assert {r["name"] for r in rows if r["kind"] == "lower"} == {
        b.name
        for b in BOUNDS.values()
        if (b.problem, b.kind, b.strength) == ("attention", "lower", "exact")
        and set(b.classes) & set(WIDE)
    }
    assert {(r["N"], r["d"], r["heads"]) for r in rows} == {(1024, 64, 1)}
    sizes = {"N": 1024, "d": 64, "heads": 1}
    for name in dict.fromkeys(r["name"] for r in rows):
        mine = [r for r in rows if r["name"] == name]
        M = np.array([r["M_words"] for r in mine])
        said = np.array([r["total_words"] for r in mine])
        if mine[0]["kind"] in ("run", "formula"):
            program = iosim.algorithm(name).program
            tiles, found = optimal_tiles_many(program, sizes, M)
            assert found.all()
            moved = sum(count_many(program, sizes | tiles).values())
            assert (said == moved).all(), name
        else:
            assert all(bound(name).applies(Attention(**sizes), int(m)) for m in M)
            assert said == pytest.approx(bound(name).curve(**sizes, M=M), rel=1e-9, abs=1e-3), name


@pytest.mark.numbers
def test_runs_of_the_main_job_are_held_against_the_bounds_of_their_classes() -> None:
    rows = [r for r in table.read_csv(IMG / "verify.csv") if r["kind"] == "run"]
    for r in rows:
        classes = iosim.algorithm(r["name"]).classes
        every = [best_lower_bound(Attention(1024, 64), r["M_words"], klass) for klass in classes]
        best = max(every, key=lambda found: found.words)
        assert (r["name"], r["M_words"], r["lower_bound"]) == (r["name"], r["M_words"], best.name)
        assert r["lower_bound_words"] == pytest.approx(best.words, abs=1e-3)


@pytest.mark.numbers
@pytest.mark.parametrize(
    ("folder", "kind"), [(".", Attention), ("backward", AttentionBackward)], ids=["forward", "back"]
)
def test_the_table_of_gaps(folder: str, kind: Any) -> None:
    rows = table.read_csv(IMG / folder / "tightness.csv")
    assert {r["d"] for r in rows} == {32, 64, 128}
    for d in (32, 64, 128):
        mine = [r for r in rows if r["d"] == d]
        assert {(r["N"], r["class"], r["heads"]) for r in mine} == {(2**18, "once", 1)}
        points = tightness.sweep(2**18, [d], [r["M_words"] for r in mine], kind=kind)
        for r, point in zip(mine, points, strict=True):
            assert (r["best_words"], r["best_algorithm"]) == (
                point.best.words,
                point.best.algorithm,
            )
            assert r["gap"] == pytest.approx(point.gap, abs=1e-6)
