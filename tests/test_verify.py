"""The main job's checks, and that each of them can fail."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iosim
import iosim.bounds
from iosim import table, verify
from iosim.counts import Counts
from iosim.problem import Attention

SMALL = Attention(48, 8)


def points(problem: Attention = SMALL, M: int = 300) -> list[verify.Point]:
    hbm = problem.random()
    want = problem.reference(hbm)
    names = [a.name for a in iosim.algorithms("attention")]
    return [verify.check_point(name, problem, M, hbm, want) for name in names]


def test_all_checks_pass() -> None:
    report = verify.verify(SMALL, workers=1)
    assert report.ok, report.failures
    assert {p.algorithm for p in report.points} == {
        a.name for a in iosim.algorithms("attention")
    }  # fmt: skip
    least = min(p.M for p in report.points)
    assert least == 3
    assert max(p.M for p in report.points) > SMALL.N * SMALL.d
    assert any(SMALL.d**2 == p.M for p in report.points)


def test_processes_give_the_same_report() -> None:
    sizes = [30, 64, 200, 1000]
    alone = verify.verify(SMALL, sizes=sizes, workers=1)
    assert verify.verify(SMALL, sizes=sizes, workers=2) == alone


def test_the_exponents_at_a_size_where_they_show() -> None:
    """−1 above d², −1/2 below, from measured counts only."""
    report = verify.verify(Attention(512, 32), sizes=[
        round(16 * 2 ** (k / 2)) for k in range(18)], workers=1)  # fmt: skip
    assert report.ok, report.failures
    above, below = report.slopes
    assert above.fitted is not None
    assert below.fitted is not None
    assert above.fitted == pytest.approx(-1, abs=verify.SLOPE_TOLERANCE)
    assert below.fitted == pytest.approx(-0.5, abs=verify.SLOPE_TOLERANCE)


def test_too_few_points_fit_nothing() -> None:
    report = verify.verify(SMALL, sizes=[100, 200], workers=1)
    assert [s.fitted for s in report.slopes] == [None, None]
    assert report.ok


def test_a_wrong_exponent_fails() -> None:
    problem = Attention(512, 32)
    counts = {M: Counts((("load", "K"), int(1e9 * M**-0.5))) for M in (1024, 1448, 2048, 2896)}
    fake = [verify.Point("flash2", M, {}, c, 0, 0, 0.0, "", 1.0, ()) for M, c in counts.items()]
    slope = verify.fit_slope("flash2", verify.ABOVE, -1.0, problem, fake)
    assert slope.fitted == pytest.approx(-0.5, abs=0.01)
    assert not slope.ok


def test_a_wrong_output_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    real = verify.simulate

    def wrong(*args: Any) -> Any:
        run = real(*args)
        run.outputs["O"][0, 3, 1] += 1e-6
        return run

    monkeypatch.setattr(verify, "simulate", wrong)
    assert all("output differs" in p.failures[0] for p in points())


def test_a_nan_output_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    real = verify.simulate

    def wrong(*args: Any) -> Any:
        run = real(*args)
        run.outputs["O"][0, 3, 1] = np.nan
        return run

    monkeypatch.setattr(verify, "simulate", wrong)
    assert all("output differs" in p.failures[0] for p in points())


def test_one_miscounted_word_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    real = verify.simulate

    def wrong(*args: Any) -> Any:
        run = real(*args)
        return dataclasses.replace(run, counts=run.counts + Counts((("load", "K"), 1)))

    monkeypatch.setattr(verify, "simulate", wrong)
    for point in points():
        assert any("integer formula" in f for f in point.failures)
        assert any("symbolic formula" in f for f in point.failures)


def test_a_wrong_peak_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "peak", lambda instance: iosim.peak(instance) + 1)
    assert all(any("peak" in f for f in p.failures) for p in points())


def test_a_bound_that_is_too_high_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    real = iosim.bounds.bounds_for

    def wrong(problem: Any, M: int) -> Any:
        return tuple(
            dataclasses.replace(b, words=b.words * 1000) if b.name == "compulsory" else b
            for b in real(problem, M)
        )

    monkeypatch.setattr(iosim.bounds, "bounds_for", wrong)
    assert all(any("below the bound compulsory" in f for f in p.failures) for p in points())


def test_an_upper_bound_that_is_too_low_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    attained = {a.attains for a in iosim.algorithms("attention")} - {""}
    assert attained == {"attenio", "saha-ye-square-tiles"}
    for name in attained:
        low = dataclasses.replace(iosim.bounds.bound(name), formula=lambda t: t.N)
        monkeypatch.setitem(iosim.bounds.BOUNDS, name, low)
    report = verify.verify(SMALL, sizes=[300], workers=1)
    caught = sum("more than its published count" in f for f in report.failures)
    assert caught == sum(bool(a.attains) for a in iosim.algorithms("attention"))


def test_the_table_holds_runs_formulas_and_bounds(tmp_path: Path) -> None:
    report = verify.verify(SMALL, sizes=[40, 300], workers=1)
    rows = verify.table(report)
    assert {r["kind"] for r in rows} == {"run", "formula", "lower", "upper"}
    table.write_csv(tmp_path / "t.csv", rows)
    again = table.read_csv(tmp_path / "t.csv")
    assert len(again) == len(rows)
    for row, back in zip(rows, again, strict=True):
        for name, value in row.items():
            assert back[name] == (float(value) if name == "max_error" else value)
    runs = {(r["name"], r["M_words"]): r["total_words"] for r in rows if r["kind"] == "run"}
    line = {(r["name"], r["M_words"]): r["total_words"] for r in rows if r["kind"] == "formula"}
    assert runs.items() <= line.items()
