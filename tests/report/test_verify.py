"""The main job's checks, and that each of them can fail."""

from __future__ import annotations

import dataclasses
import functools
import multiprocessing
import re
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from strategies import plain_algorithms

import iosim
import iosim.bounds
from iosim.base.errors import InputError
from iosim.core.counts import Counts
from iosim.core.problem import Attention, AttentionBackward
from iosim.report import inputs, plot, table, verify

SMALL = Attention(48, 8)


def points(problem: Attention = SMALL, M: int = 300) -> list[verify.Point]:
    hbm = problem.random()
    want = problem.reference(hbm)
    names = [a.name for a in plain_algorithms("attention")]
    return [verify.check_point(name, problem, M, hbm, want) for name in names]


@pytest.mark.numbers
def test_all_checks_pass() -> None:
    report = verify.verify(SMALL, workers=1)
    assert report.ok, report.failures
    assert {p.algorithm for p in report.points} == {a.name for a in plain_algorithms("attention")}
    least = min(p.M for p in report.points)
    assert least == 3
    assert max(p.M for p in report.points) > SMALL.N * SMALL.d
    assert any(SMALL.d**2 == p.M for p in report.points)


def test_each_bound_is_of_a_class_that_is_named() -> None:
    """The largest that `best_lower_bound` has for this class, and for any class of the schedule."""
    for problem, M in ((SMALL, 300), (Attention(64, 4), 260)):
        found = points(problem, M)
        for p in found:
            assert (p.lower_bound_words, p.lower_bound) == iosim.bounds.best_lower_bound(
                problem, M, p.klass
            )
            classes = iosim.algorithm(p.algorithm).classes
            assert p.klass in classes
            assert p.lower_bound_words == max(
                iosim.bounds.best_lower_bound(problem, M, klass).words for klass in classes
            )
        report = verify.Report(problem, tuple(found), (), ())
        assert [p["class"] for p in verify.as_dict(report)["points"]] == [p.klass for p in found]
    assert {p.klass for p in found} == {"once", "stationary"}


@pytest.mark.numbers
def test_the_row_of_a_schedule_says_what_its_runs_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the CSV's rows, which have every run; and each of its checks can fail."""
    sizes = [3, 60, 300, 999]
    report = verify.verify(SMALL, sizes=sizes, workers=1)
    rows = {x["algorithm"]: x for x in verify.by_schedule(report)}
    assert list(rows) == [a.name for a in iosim.all_algorithms(SMALL.form)]
    runs = [x for x in verify.table(report).rows if x["kind"] == "run"]
    for name, row in rows.items():
        own = [x for x in runs if x["name"] == name]
        ran = [x["M_words"] for x in own]
        assert ran == [M for M in sizes if row["least_M"] <= M]
        assert (row["runs"], row["skipped"]) == (len(own), len(sizes) - len(own))
        assert row["M"] == [ran[0], ran[-1]]
        assert row["max_error"] == pytest.approx(max(float(x["max_error"]) for x in own), rel=1e-3)
        assert row["gap"] == pytest.approx(
            [min(x["gap"] for x in own), max(x["gap"] for x in own)], abs=1e-4
        )
        assert all(row[check] is True for check in verify.CHECKS)
    assert sum(x["runs"] for x in rows.values()) == len(report.points)
    assert any(x["skipped"] for x in rows.values())
    for check, patch in (
        ("peak", {"peak": lambda instance: iosim.peak(instance) + 1}),
        ("counts", {"count": lambda instance: iosim.count(instance) + Counts((("load", "K"), 1))}),
        ("output", {"max_error": lambda got, want: 1.0}),
    ):
        with monkeypatch.context() as patched:
            for name, wrong in patch.items():
                patched.setattr(verify, name, wrong)
            for row in verify.by_schedule(verify.verify(SMALL, sizes=[300], workers=1)):
                assert {x for x in verify.CHECKS if row[x] is False} == {check}
    none = verify.by_schedule(verify.verify(SMALL, sizes=[4], workers=1))
    assert {x["runs"] for x in none} == {0, 1}
    assert all((x["gap"] is None) == (x["counts"] is None) == (x["runs"] == 0) for x in none)


@pytest.mark.numbers
def test_verify_prints_a_row_for_each_schedule(tmp_path: Path) -> None:
    """Every run with --runs, and then only; the verdict is last."""
    from test_cli import ok

    words = (
        "verify",
        "--N",
        "48",
        "--d",
        "8",
        "--M",
        "30,300",
        "--workers",
        "1",
        "--out",
        str(tmp_path),
    )
    text, longer = ok(*words), ok(*words, "--runs")
    names = [a.name for a in iosim.all_algorithms(SMALL.form)]
    assert [x.split()[0] for x in text.splitlines()[1 : len(names) + 1]] == names
    assert longer.endswith(text)
    assert len(longer.splitlines()) > len(text.splitlines()) + 2 * len(names) - 3
    assert re.search(r"^flash2_parts +300 to 300 +1 +1, M < 34 .* yes +yes ", text, re.M)
    assert text.splitlines()[-1].startswith("all checks passed: ")
    assert len(text.splitlines()) == len(names) + 4


def test_processes_give_the_same_report() -> None:
    sizes = [30, 64, 200, 1000]
    alone = verify.verify(SMALL, sizes=sizes, workers=1)
    assert verify.verify(SMALL, sizes=sizes, workers=2) == alone


def test_an_interrupt_ends_the_workers_without_a_word() -> None:
    """Nor does the executor's thread raise, which it would not do in every run."""

    def interrupt(done: int, of: int) -> None:
        raise KeyboardInterrupt

    for _ in range(8):
        with pytest.raises(KeyboardInterrupt):
            verify.verify(SMALL, workers=2, tick=interrupt)
        assert not multiprocessing.active_children()


@pytest.mark.numbers
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_exponents_at_a_size_where_they_show(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """−1 above d², −1/2 below, from measured counts only: each where few words are moved.

    With --slow every schedule runs at every M, not only those that are fitted, where they are.
    """
    small = [round(16 * 2 ** (k / 2)) for k in range(13 if whole else 9)]
    large = [round(1024 * 2 ** (k / 2)) for k in range(9 if whole else 5)]
    exponents = {a.name: a.exponent for a in plain_algorithms("attention") if a.exponent}
    fitted, real = {}, verify._least
    for N, sizes, exponent in ((128, small, -0.5), (512, large, -1.0)):
        these = [name for name, one in exponents.items() if whole or one == exponent]
        monkeypatch.setattr(
            verify,
            "_least",
            lambda x, these=these: {k: M for k, M in real(x).items() if whole or k in these},
        )
        report = verify.verify(Attention(N, 32), sizes=sizes, workers=1)
        assert report.ok, report.failures
        assert {p.algorithm for p in report.points} >= set(these)
        fitted |= {s.algorithm: s for s in report.slopes if s.fitted is not None}
    assert set(fitted) == set(exponents)
    assert {s.expected for s in fitted.values()} == {-1.0, -0.5}
    for s in fitted.values():
        assert s.fitted == pytest.approx(s.expected, abs=verify.SLOPE_TOLERANCE)


def formula_points(problem: Attention) -> list[verify.Point]:
    """The default sweep from formulas alone: what runs would count."""
    found = []
    for a in plain_algorithms("attention"):
        sizes = verify.memory_sizes(problem)
        columns, runs = iosim.optimal_tiles_many(a.program, problem.sizes, sizes)
        for k in np.flatnonzero(runs):
            tiles = {name: int(values[k]) for name, values in columns.items()}
            counts = iosim.count(iosim.bind(a.program, problem.sizes, tiles))
            found.append(verify.Point(a.name, sizes[k], tiles, counts, 0, 0, 0.0, "", 1.0, ()))
    return found


@pytest.mark.numbers
@pytest.mark.parametrize(
    ("N", "d"),
    [(100, 16), (64, 4), (1000, 4), (300, 12), (64, 32), (200, 16), (512, 8), (2048, 48), (9, 9)],
)
def test_coarse_tiles_are_no_wrong_exponent(N: int, d: int) -> None:
    """Right schedules pass at every shape: where tiles are too coarse nothing is fitted."""
    problem = Attention(N, d)
    chosen = formula_points(problem)
    for a in plain_algorithms("attention"):
        if a.exponent:
            assert verify.fit_slope(a.name, problem, chosen).ok


def test_too_few_points_fit_nothing() -> None:
    report = verify.verify(SMALL, sizes=[100, 200], workers=1)
    assert {s.fitted for s in report.slopes} == {None}
    assert report.ok
    close = [p for p in formula_points(Attention(512, 16)) if 1024 <= p.M <= 1100]
    assert verify.fit_slope("flash2", Attention(512, 16), close).fitted is None


def test_a_wrong_exponent_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Attention(512, 32)
    counts = {M: Counts((("load", "K"), int(1e9 * M**-0.5))) for M in (1024, 1448, 2048, 3700)}
    fake = [verify.Point("flash2", M, {}, c, 0, 0, 0.0, "", 1.0, ()) for M, c in counts.items()]
    slope = verify.fit_slope("flash2", problem, fake)
    assert slope.fitted == pytest.approx(-0.5, abs=0.01)
    assert not slope.ok
    monkeypatch.setattr(verify, "fit_slope", lambda *_: slope)
    report = verify.verify(SMALL, sizes=[300], workers=1)
    assert any("exponent of flash2" in f for f in report.failures)


@pytest.mark.parametrize("name", ["constant-tight-once", "score-roots", "compression"])
def test_every_lower_bound_is_held_against_the_counts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = iosim.bounds.bound(name)
    high = dataclasses.replace(bound, formula=lambda t: t.N**4, numeric=None)
    monkeypatch.setitem(iosim.bounds.BOUNDS, name, high)
    assert all(any(f"below the bound {name}" in f for f in p.failures) for p in points())


def test_a_run_that_holds_more_than_M_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles for twice the memory on a machine that doesn't look: only the check of M is left."""
    real = verify.optimal_tiles
    monkeypatch.setattr(verify, "optimal_tiles", lambda p, x, M: real(p, x, 2 * M))
    monkeypatch.setattr(verify, "Machine", lambda M: iosim.Machine(2 * M))
    assert any(any(f"M {300}" in f and "peak" in f for f in p.failures) for p in points(M=300))


def test_a_wrong_symbolic_peak_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    real = verify._formula

    class Wrong:
        def __init__(self, name: str) -> None:
            self.formula = real(name)

        def at(self, *args: Any) -> Any:
            counts, top = self.formula.at(*args)
            return counts, top + 1

    monkeypatch.setattr(verify, "_formula", Wrong)
    assert all(any("symbolic" in f for f in p.failures) for p in points())


def test_failures_reach_the_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from test_cli import iosim_

    bound = iosim.bounds.bound("compulsory")
    high = dataclasses.replace(bound, formula=lambda t: t.N**4)
    monkeypatch.setitem(iosim.bounds.BOUNDS, "compulsory", high)
    done = iosim_(
        "verify", "--N", "20", "--d", "4", "--M", "60", "--workers", "1", "--out", str(tmp_path)
    )
    assert done.returncode == 1
    assert "below the bound compulsory" in done.stderr
    assert "CHECKS FAILED" in done.stdout


@pytest.mark.numbers
def test_the_given_arrays_and_sizes_are_what_runs(tmp_path: Path) -> None:
    """A wrong reference for the user's own arrays would show: the arrays reach the machine."""
    from test_cli import ok

    rng = np.random.default_rng(5)
    arrays = {x: rng.standard_normal((3, 10, 4)) for x in "QKV"}
    np.savez(tmp_path / "in.npz", **arrays)
    problem, hbm = inputs.read_inputs(tmp_path / "in.npz")
    assert problem == Attention(10, 4, 3)
    assert all((hbm[x] == arrays[x]).all() for x in "QKV")
    seen: list[Any] = []
    real = verify.simulate
    try:
        verify.simulate = lambda i, m, h: seen.append(h) or real(i, m, h)  # type: ignore[func-returns-value]
        ok(
            "verify",
            "--input",
            str(tmp_path / "in.npz"),
            "--M",
            "60",
            "--workers",
            "1",
            "--out",
            str(tmp_path / "out"),
        )
        ok(
            "verify",
            "--N",
            "10",
            "--d",
            "4",
            "--heads",
            "2",
            "--M",
            "60",
            "--workers",
            "1",
            "--out",
            str(tmp_path / "out"),
        )
    finally:
        verify.simulate = real
    runs = len(plain_algorithms("attention"))
    assert all((h["V"] == arrays["V"]).all() for h in seen[:runs])
    assert all(h["V"].shape == (2, 10, 4) for h in seen[runs:])
    arrays["Q"][0, 0, 0] = np.inf
    np.savez(tmp_path / "inf.npz", **arrays)
    with pytest.raises(iosim.InputError, match="NaN or infinite"):
        inputs.read_inputs(tmp_path / "inf.npz")


def test_a_wrong_output_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    real = verify.simulate

    def wrong(*args: Any) -> Any:
        run = real(*args)
        run.outputs["O"][0, 3, 1] += 1e-6
        return run

    monkeypatch.setattr(verify, "simulate", wrong)
    assert all("output differs" in p.failures[0] for p in points())


def scaled(problem: Any, scale: float, constant: bool) -> dict[str, Any]:
    """Inputs whose scores have the size of scale², all alike or not."""
    hbm = problem.random()
    for x in "QK":
        hbm[x] = np.full_like(hbm[x], scale) if constant else hbm[x] * scale
    return hbm | (problem.forward(hbm) if isinstance(problem, AttentionBackward) else {})


def in_many_digits(problem: Any, hbm: Any) -> dict[str, Any]:
    """One head of attention or of its gradients, by mpmath with 60 digits, a number at a time."""
    with mpmath.workdps(60):
        Q, K, V = (mpmath.matrix(hbm[x][0].tolist()) for x in "QKV")
        P = (Q * K.T).apply(mpmath.exp)
        for i in range(P.rows):
            P[i, :] /= mpmath.fsum(P[i, :])
        found = {"O": P * V}
        if isinstance(problem, AttentionBackward):
            dO = mpmath.matrix(hbm["dO"][0].tolist())
            dS = dO * V.T
            for i in range(P.rows):
                mean = mpmath.fdot(P[i, :], dS[i, :])
                for j in range(P.cols):
                    dS[i, j] = P[i, j] * (dS[i, j] - mean)
            found = {"dQ": dS * K, "dK": dS.T * Q, "dV": P.T * dO}
        return {x: np.array(y.tolist(), float)[None] for x, y in found.items()}


@pytest.mark.parametrize("kind", [Attention, AttentionBackward])
@pytest.mark.parametrize("constant", [False, True])
def test_rounding_stays_below_its_bound(kind: Any, constant: bool) -> None:
    """Every schedule, and the reference, against 60 digits: the worst is not far below it, too."""
    problem, worst = kind(24, 4), 0.0
    for scale in (1.0, 10.0, 1e3, 1e5):
        hbm = scaled(problem, scale, constant)
        exact, most = in_many_digits(problem, hbm), problem.rounding(hbm)
        runs = [problem.reference(hbm)]
        for one in iosim.all_algorithms(problem.form):
            program = one.program_for(problem)
            tiles = iosim.optimal_tiles(program, problem, 200).tiles
            instance = iosim.bind(program, problem.sizes, tiles)
            runs.append(iosim.simulate(instance, iosim.Machine(200), hbm).outputs)
        for outputs in runs:
            for x, right in exact.items():
                error = np.abs(outputs[x] - right).max()
                # Both of two computations may be off by as much.
                assert error <= most[x] / 2
                worst = max(worst, error / most[x])
    assert worst > 1e-4


@pytest.mark.parametrize("kind", [Attention, AttentionBackward])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4, 3e4, 1e9])
def test_large_scores_pass_or_are_refused(
    kind: Any, constant: bool, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No right schedule fails; and where inputs are not refused, a wrong output does fail."""
    problem = kind(48, 8)
    hbm = scaled(problem, scale, constant)
    run = functools.partial(verify.verify, problem, hbm=hbm, sizes=[60, 300], workers=1)
    if scale > (1e4 if kind is Attention else 1e2):
        message = r"scores of up to \S+ are too large to check: .*; scale Q or K down$"
        with pytest.raises(InputError, match=message):
            run()
        return
    report = run()
    assert report.ok, report.failures
    assert verify.TOLERANCE <= report.tolerance <= verify.LOOSEST
    real = verify.simulate

    def wrong(*args: Any) -> Any:
        run = real(*args)
        for words in run.outputs.values():
            words.flat[3] += 3 * verify.LOOSEST * max(1, np.abs(words).max())
        return run

    monkeypatch.setattr(verify, "simulate", wrong)
    assert all("output differs" in p.failures[0] for p in run().points)


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
    attained = {a.attains for a in plain_algorithms("attention")} - {""}
    assert attained == {"attenio", "saha-ye-square-tiles"}
    for name in attained:
        low = dataclasses.replace(iosim.bounds.bound(name), formula=lambda t: t.N)
        monkeypatch.setitem(iosim.bounds.BOUNDS, name, low)
    report = verify.verify(SMALL, sizes=[300], workers=1)
    caught = sum("more than its published count" in f for f in report.failures)
    assert caught == sum(bool(a.attains) for a in plain_algorithms("attention"))


@pytest.mark.numbers
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


VARIANTS = [
    Attention(20, 4, causal=True),
    Attention(20, 4, N_k=11, causal=True),  # rows that see nothing
    Attention(12, 5, 4, N_k=17, d_v=3, kv_heads=2, window=(4, 1), sinks=2),
    Attention(1, 4, 6, N_k=40, kv_heads=2, causal=True),
    Attention(15, 4, N_k=21, causal=True, align="upper left"),
]


@pytest.mark.numbers
@pytest.mark.parametrize("problem", VARIANTS, ids=str)
def test_every_schedule_that_supports_the_options_is_checked(problem: Attention) -> None:
    sizes = verify.memory_sizes(problem)
    assert sizes[-1] > max(problem.N, problem.keys) * max(problem.d, problem.values)
    report = verify.verify(problem, sizes=[*sizes[::6], sizes[-1]], workers=1)
    assert report.ok, report.failures
    names = {a.name for a in iosim.all_algorithms(problem.form)}
    assert {p.algorithm for p in report.points} == names
    assert report.slopes == ()


def test_a_mask_that_is_left_out_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = dataclasses.replace(
        iosim.core.program.ops.OPS["mask_after"], numpy=lambda s, a: (s.copy(),)
    )
    monkeypatch.setitem(iosim.core.program.ops.OPS, "mask_after", hidden)
    found = verify.verify(VARIANTS[0], sizes=[200], workers=1).failures
    assert any("flash2 at M = 200: output differs from the reference" in x for x in found)


@pytest.mark.numbers
def test_arrays_of_another_shape_are_one_line() -> None:
    problem = VARIANTS[2]
    hbm = problem.random()
    with pytest.raises(InputError, match=r"K has shape \(17, 5\), the problem needs \(2, 17, 5\)"):
        verify.verify(problem, hbm=hbm | {"K": hbm["K"][0]}, sizes=[300])
    with pytest.raises(InputError, match="V is missing among the arrays: give Q, K and V"):
        verify.verify(problem, hbm={x: hbm[x] for x in "QK"}, sizes=[300])
    in_one = hbm | {"Q": hbm["Q"].reshape(4, 12, 5)}
    given = [verify.verify(problem, hbm=x, sizes=[300], workers=1) for x in (hbm, in_one)]
    assert given[0] == given[1]
    assert given[0].ok


def test_no_run_is_below_the_lower_bounds_of_the_figure() -> None:
    """Bounds of schedules whose rows stay hold for some schedules, and are not a line below all."""
    rows = verify.table(verify.verify(Attention(128, 8), sizes=[5, 64, 300], workers=1)).rows
    low: dict[int, float] = {}
    for row in rows:
        if row["kind"] == "lower":
            low[row["M_words"]] = max(row["total_words"], low.get(row["M_words"], 0.0))
    runs = [row for row in rows if row["kind"] == "run"]
    assert {row["M_words"] for row in runs} == {5, 64, 300}
    assert all(row["total_words"] >= low[row["M_words"]] for row in runs)


@pytest.mark.numbers
def test_the_figure_says_the_options_and_tells_every_schedule_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    figures: list[Any] = []
    monkeypatch.setattr(plot, "save", lambda figure, stem: figures.append(figure) or [])
    problem = Attention(12, 5, 4, N_k=17, kv_heads=2, causal=True)
    for shown in (problem, SMALL):
        rows = verify.table(verify.verify(shown, sizes=[300], workers=1))
        plot.with_table(tmp_path / "verify.csv", rows)
    masked, plain = (figure.axes[0] for figure in figures)
    message = "every run moves the words of its formula, above the proven lower bound"
    assert plain.get_title() == f"Attention, N = 48, d = 8:\n{message}"
    told = "Attention, N = 12, d = 5, heads = 4,\nN_k = 17, kv_heads = 2, causal:"
    assert masked.get_title() == f"{told}\n{message}"
    lines = masked.get_legend().get_lines()
    looks = {(x.get_color(), x.get_marker(), x.get_linestyle()) for x in lines}
    assert len(looks) == len(lines) > 8
