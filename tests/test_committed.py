"""Committed tables come out again: every formula and bound in docs/img, to the word."""

from __future__ import annotations

from pathlib import Path

import pytest

import iosim
from iosim.bounds import bound
from iosim.checks import tightness
from iosim.output import table
from iosim.problem import Attention

IMG = Path(__file__).parent.parent / "docs" / "img"


def test_the_table_of_the_main_job() -> None:
    rows = table.read_csv(IMG / "verify.csv")
    assert {r["kind"] for r in rows} == {"run", "formula", "lower", "upper"}
    assert {r["name"] for r in rows if r["kind"] == "run"} == {
        a.name for a in iosim.all_algorithms("attention")
    }  # fmt: skip
    for r in rows:
        problem = Attention(r["N"], r["d"], r["heads"])
        if r["kind"] in ("run", "formula"):
            program = iosim.algorithm(r["name"]).program
            words = iosim.optimal_tiles(program, problem, r["M_words"]).total_words
            assert r["total_words"] == words, r
        else:
            words = bound(r["name"]).words(problem, r["M_words"])
            assert r["total_words"] == pytest.approx(words, rel=1e-9, abs=1e-3), r


def test_the_table_of_gaps() -> None:
    rows = table.read_csv(IMG / "tightness.csv")
    assert {r["d"] for r in rows} == {32, 64, 128}
    for r in rows[::4]:
        point = tightness.tightness(Attention(r["N"], r["d"]), r["M_words"], r["class"])
        assert r["best_words"] == point.best.words
        assert r["gap"] == pytest.approx(point.gap, abs=1e-6)
