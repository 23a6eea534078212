"""The main job: run schedules over a sweep of M, and compare every number with every other.

For each algorithm and each M, with the optimal tiles: the schedule runs on real inputs and its
output is compared with a float64 reference; its count with the formula (as integers and as
sympy); its peak with M; the count with every bound; and, over the sweep, the exponents of M with
−1 above d² and −1/2 below.

``iosim verify`` (`iosim.cli.verifying`) calls `verify`, and `table` for its CSV and figure.  A new
check of a point is a case of `check_point`, a name in `CHECKS`, and a test in which it fails.

Changing this file: the numbers that are compared must come from different programs, so compute none
of them here.  ``tests/report/test_verify.py`` makes each check fail on purpose.
"""

from __future__ import annotations

import functools
import math
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from iosim.base.errors import InputError
from iosim.base.rows import Row, Rows, Table
from iosim.core.algorithms import algorithm, all_algorithms
from iosim.core.counting.numbers import count, peak
from iosim.core.counts import Counts
from iosim.core.machine import Machine, simulate
from iosim.core.problem import Array, Attentions, in_shape, max_error
from iosim.core.program.ir import Program
from iosim.core.program.walk import bind
from iosim.core.tiling import best_counts, optimal_tiles, smallest_capacity
from iosim.core.units import problem_cells
from iosim.report.exponents import fit_exponent
from iosim.sweep.executors import follow_parent

if TYPE_CHECKING:
    from iosim.bounds import BoundRow

# How far an output may be from the reference: far above the rounding of usual inputs, far below any
# wrong answer.  Where scores are large rounding may exceed it (`tolerance_for`), and inputs with
# which it may exceed `LOOSEST` are refused: a key that is left out may change no more.
TOLERANCE, LOOSEST = 1e-9, 1e-4

# The largest S that the reference makes, in words: 2 GiB of float64.
LARGEST_SCORES = 2**28

# Rounding to whole tiles bends a measured power law; a wrong exponent is off by 1/2.
SLOPE_TOLERANCE = 0.12
ABOVE, BELOW = "M ≥ d²", "M < d²"

# What is checked of each run.
CHECKS = ("output", "counts", "peak", "bound")

# Seconds after which it reports how many runs are done, also if none was finished in them.
TOLD_EVERY = 1.0

# What ``iosim verify`` writes.
FILES = ("verify.csv", "verify.png", "verify.svg")


@dataclass(frozen=True)
class Point:
    """One algorithm at one M, run and checked.

    Attributes:
        wrong: the checks that failed: output, counts, peak, bound.
    """

    algorithm: str
    M: int
    tiles: Mapping[str, int]
    counts: Counts
    formula_words: int
    peak_words: int
    max_error: float
    lower_bound: str
    lower_bound_words: float
    failures: tuple[str, ...]
    klass: str = ""
    wrong: frozenset[str] = frozenset()

    @property
    def gap(self) -> float:
        """Words over the largest exact lower bound of the class `klass`."""
        return self.counts.total_words / self.lower_bound_words


@dataclass(frozen=True)
class Slope:
    """A fitted exponent of M, its standard error, and what it should be.

    `fitted` and `error` are None with too few points.
    """

    algorithm: str
    side: str
    expected: float
    fitted: float | None
    points: int
    error: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the fit, if there was one, agrees."""
        return self.fitted is None or abs(self.fitted - self.expected) <= SLOPE_TOLERANCE


@dataclass(frozen=True)
class Report:
    """The results of one verification.

    Attributes:
        tolerance: the largest `max_error` that is not a failure.
        sizes: the values of M.
        least: the smallest M of each schedule that supports the problem's options.
    """

    problem: Attentions
    points: tuple[Point, ...]
    slopes: tuple[Slope, ...]
    failures: tuple[str, ...]
    tolerance: float = TOLERANCE
    sizes: tuple[int, ...] = ()
    least: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return not self.failures


@functools.lru_cache(maxsize=16)
def _formula(program: Program) -> Any:
    from iosim.core.counting import symbols  # sympy is slow to import

    return symbols.count(program)


def _least(problem: Attentions) -> dict[str, int]:
    """The smallest M of every schedule that supports the problem's options, by name."""
    return {
        a.name: smallest_capacity(a.program_for(problem), problem)
        for a in all_algorithms(problem.form)
    }


def check_point(
    name: str,
    problem: Attentions,
    M: int,
    hbm: Mapping[str, Array],
    want: Mapping[str, Array],
    bounds: Sequence[BoundRow] | None = None,
    tolerance: float = TOLERANCE,
) -> Point:
    """Run one algorithm with its optimal tiles at M and check all that one point can show.

    `bounds` are those of `bounds_for` at M, where they are known; `tolerance` is the largest
    `max_error` of a right output.  Raises CapacityError if M is
    below the algorithm's minimum.
    """
    from iosim.bounds import bounds_for
    from iosim.bounds.classes import covers, narrowest

    found = algorithm(name)
    program = found.program_for(problem)
    tiles = optimal_tiles(program, problem, M).tiles
    instance = bind(program, problem.sizes, tiles)
    run = simulate(instance, Machine(M), hbm)
    closed, top = count(instance), peak(instance)
    symbolic_counts, symbolic_peak = _formula(program).at(problem.sizes, tiles)
    error = max_error({x: run.outputs[x] for x in want}, want)

    failed: list[tuple[str, str]] = []
    if not error <= tolerance:
        differs = f"output differs from the reference by {error:.2e} (at most {tolerance:.1e})"
        failed.append(("output", differs))
    if run.counts != closed:
        failed.append(("counts", f"counted {run.counts}, integer formula {closed}"))
    if run.counts != symbolic_counts:
        failed.append(("counts", f"counted {run.counts}, symbolic formula {symbolic_counts}"))
    if not run.peak_words == top == symbolic_peak <= M:
        peaks = f"peak {run.peak_words}, formula {top}, symbolic {symbolic_peak}, M {M}"
        failed.append(("peak", peaks))
    lower = [
        row
        for row in (bounds_for(problem, M) if bounds is None else bounds)
        if (row.kind, row.strength) == ("lower", "exact")
        and {klass.name for klass in row.classes} & set(found.classes)
    ]
    words = run.counts.total_words
    for bound in lower:
        if bound.words is not None and words < bound.words:
            below = f"{words} words are below the bound {bound.name} = {bound.words:.0f}"
            failed.append(("bound", below))
    klass = narrowest(found.classes)
    best = max((b for b in lower if covers(b.classes, klass)), key=lambda b: b.words or 0.0)
    return Point(
        algorithm=name,
        M=M,
        tiles=tiles,
        counts=run.counts,
        formula_words=closed.total_words,
        peak_words=run.peak_words,
        max_error=error,
        lower_bound=best.name,
        lower_bound_words=float(best.words or 0.0),
        failures=tuple(f"{name} at M = {M}: {what}" for _, what in failed),
        klass=klass.name,
        wrong=frozenset(check for check, _ in failed),
    )


def tolerance_for(
    problem: Attentions, hbm: Mapping[str, Array], want: Mapping[str, Array]
) -> float:
    """The largest `max_error` that rounding may cause, and at least `TOLERANCE`.

    Raises InputError where that is more than `LOOSEST`: no run could be checked.
    """
    found = TOLERANCE
    for name, moved in problem.rounding(hbm).items():
        most = moved / max(1.0, float(np.abs(want[name]).max()))
        if not most <= LOOSEST:
            raise InputError(
                f"scores of up to {problem.largest_score(hbm):.1e} are too large to check: float64 "
                f"rounding may change {name} by {most:.0e} of its size, and at most {LOOSEST:g} is "
                "allowed; scale Q or K down"
            )
        found = max(found, most)
    return found


def memory_sizes(problem: Attentions) -> list[int]:
    """The default sweep: from the smallest M that any algorithm runs in past N·d, by √2.

    Where keys or values have sizes of their own, N and d are the larger ones.  It also holds every
    algorithm's own minimum and the crossover d².
    """
    least = _least(problem).values()
    end = 2 * max(problem.N, problem.keys) * max(problem.d, problem.values)
    found = {*least, problem.d**2, end}
    steps = math.ceil(2 * math.log2(max(2.0, end / min(least))))
    found |= {round(min(least) * 2 ** (k / 2)) for k in range(steps + 1)}
    return sorted(M for M in found if min(least) <= M <= max(end, *least))


def verify(
    problem: Attentions,
    *,
    sizes: Sequence[int] | None = None,
    hbm: Mapping[str, Array] | None = None,
    workers: int | None = None,
    tick: Callable[[int, int], None] = lambda done, of: None,
) -> Report:
    """Check all algorithms of attention, or of its backward pass, over a sweep of M.

    Args:
        problem: sizes; `hbm` must match them.
        sizes: values of M, in words; by default `memory_sizes(problem)`.  An algorithm is run
            where M is at least its own minimum.
        hbm: Q, K, V, float64, of shapes (heads, N, d), (kv_heads, N_k, d) and (kv_heads, N_k, d_v),
            and what else is an input of the problem; random if not given.
        workers: processes; 1 runs everything in this one.
        tick: called as ``tick(done, of)`` before the first point and when points finish; with
            several processes also each second if none does.

    Raises:
        InputError: no algorithm can run at any of the sizes, none supports the options, or an array
            is missing or of another shape.
    """
    chosen = list(sizes or memory_sizes(problem))
    least = _least(problem)
    jobs = [(name, M) for name, enough in least.items() for M in chosen if enough <= M]
    if not jobs:
        raise InputError(
            f"no algorithm runs in M = {max(chosen)} words for N = {problem.N}, d = {problem.d}: "
            f"use M >= {min(least.values())}"
        )
    largest = problem.heads * problem.N * max(problem.keys, problem.values)
    if largest > LARGEST_SCORES:
        raise InputError(
            f"verifying needs S of {largest} words, more than {LARGEST_SCORES}: choose a smaller N "
            "or fewer heads, or use iosim count, which needs no run"
        )
    data, want = _reference(problem, problem.random() if hbm is None else hbm)
    tolerance = tolerance_for(problem, data, want)
    points: list[Point] = []
    processes = workers or min(os.cpu_count() or 1, 8)
    tick(0, len(jobs))
    if processes == 1:
        _adopt(problem, data, want, tolerance)
        for job in interleaved(jobs):
            points.append(_work(job))
            tick(len(points), len(jobs))
    else:
        with ProcessPoolExecutor(
            processes, initializer=_adopt, initargs=(problem, data, want, tolerance)
        ) as p:
            try:
                runs = {p.submit(_work, job) for job in interleaved(jobs)}
                while runs:
                    done, runs = wait(runs, TOLD_EVERY, FIRST_COMPLETED)
                    points += [run.result() for run in done]
                    tick(len(points), len(jobs))
            except BaseException:
                # A run may take a minute yet.  None is cancelled: the executor's thread, which
                # sees the workers end, fails on runs that are (in Python 3.11).
                for worker in multiprocessing.active_children():
                    worker.terminate()
                raise
    order = [a.name for a in all_algorithms(problem.form)]
    points.sort(key=lambda p: (order.index(p.algorithm), p.M))
    # Exponents are claimed of attention without options.
    claimed = [x for x in order if algorithm(x).exponent and problem.form == problem.plain_form()]
    slopes = tuple(fit_slope(name, problem, points) for name in claimed)
    failures = [f for p in points for f in p.failures]
    failures += [
        f"exponent of {s.algorithm} for {s.side}: fitted {s.fitted:.3f}, expected {s.expected}"
        for s in slopes
        if not s.ok
    ]
    failures += _check_upper(problem, points)
    return Report(problem, tuple(points), slopes, tuple(failures), tolerance, tuple(chosen), least)


def _reference(
    problem: Attentions, hbm: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The arrays, each in the shape of its tensor and settled, and what is computed of them."""
    data = dict(hbm)
    extents = problem.sizes
    *names, last = (t.name for t in problem.form.inputs)
    for tensor in problem.form.inputs:
        if tensor.name not in data:
            raise InputError(
                f"{tensor.name} is missing among the arrays: give {', '.join(names)} and {last}"
            )
        shape = tuple(extents[x] for x in tensor.axes)
        data[tensor.name] = in_shape(tensor, data[tensor.name], shape)
    with np.errstate(all="ignore"):
        data = problem.settled(data)
        want = problem.reference(data)
    if not all(np.isfinite(x).all() for x in want.values()):
        raise InputError("the reference overflows float64 on these inputs: scale them down")
    return data, want


def interleaved(jobs: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Runs in an order in which all sizes of M come early, so that an estimate is fair.

    Small memories take longest.  Sorted by M, run k gets the fraction of k times the golden ratio;
    any stretch of these fractions has runs from everywhere.

    >>> [M for _, M in interleaved([("flash2", M) for M in range(8)])]
    [0, 5, 2, 7, 4, 1, 6, 3]
    """
    order = sorted(jobs, key=lambda job: job[1])
    ratio = (math.sqrt(5) - 1) / 2
    return [order[k] for k in sorted(range(len(order)), key=lambda k: k * ratio % 1)]


_shared: list[Any] = []


def _adopt(
    problem: Attentions, hbm: Mapping[str, Array], want: Mapping[str, Array], tolerance: float
) -> None:
    """Give a worker the inputs once instead of with every job; interrupts are its parent's."""
    if multiprocessing.parent_process() is not None:
        follow_parent()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    _shared[:] = [problem, hbm, want, tolerance, {}]


def _work(job: tuple[str, int]) -> Point:
    from iosim.bounds import bounds_for

    problem, hbm, want, tolerance, bounds = _shared
    name, M = job
    if M not in bounds:  # of all algorithms the same
        bounds[M] = bounds_for(problem, M)
    return check_point(name, problem, M, hbm, want, bounds[M], tolerance)


def fit_slope(name: str, problem: Attentions, points: Iterable[Point]) -> Slope:
    """Fit the exponent of M in the traffic that depends on M, on the schedule's side of d².

    Only tensors whose counts change over the range are summed: what is moved once whatever M is
    would hide the power law.  Above d² the range is d² … Nd/4 (fewer than 8 sweeps of K and V are
    too coarse to show a slope).  Below, it is 16 … d²/4 (from there on whole rows are better than
    square tiles), and since the edges of a tile and the row statistics take O(√M) of its M words,
    the fit has that first finite-size term: log words = a + b·log M + c/√M.

    Nothing is fitted where whole tiles are too coarse for a power law: above, for d < 16, where the
    smallest tiles take more than d²/5, or for a range shorter than 3×; below, for N < 4d or a
    range shorter than 10×.
    """
    expected = algorithm(name).exponent
    small = expected == -0.5
    low, high = (16, problem.d**2 // 4) if small else (problem.d**2, problem.N * problem.d // 4)
    least = smallest_capacity(algorithm(name).program_for(problem), problem)
    chosen = [p for p in points if p.algorithm == name and low <= p.M <= high]
    M = np.array(sorted({p.M for p in chosen}), np.float64)
    keys = {key for p in chosen for key, _ in p.counts}
    moving = {k for k in keys if len({p.counts[k] for p in chosen}) > 1}
    fine = 4 * problem.d <= problem.N if small else problem.d >= 16 and 5 * least <= low
    points_, span = (6, 10) if small else (4, 3)
    if not (fine and moving and len(M) >= points_ and M[-1] >= span * M[0]):
        return Slope(name, BELOW if small else ABOVE, expected, None, len(M))
    at = {p.M: sum(p.counts[k] for k in moving) for p in chosen}
    words = np.array([at[int(m)] for m in M], np.float64)
    fit = fit_exponent(M, words, edges=small)
    return Slope(name, BELOW if small else ABOVE, expected, fit.value, len(M), fit.error)


def _check_upper(problem: Attentions, points: Sequence[Point]) -> list[str]:
    """With its optimal tiles a schedule moves no more than was published for it."""
    from iosim.bounds import bound

    failed = []
    for p in points:
        name = algorithm(p.algorithm).attains
        if name and bound(name).applies(problem, p.M):
            most = bound(name).words(problem, p.M)
            if p.counts.total_words > most:
                failed.append(
                    f"{p.algorithm} at M = {p.M} moves {p.counts.total_words} words, more than "
                    f"its published count {name} = {most:.0f}"
                )
    return failed


def by_schedule(report: Report) -> Rows:
    """A row for each schedule that supports the problem's options: what its runs found together.

    Those that none of the sizes is enough for have no runs, and None for what these would say.
    """
    rows = []
    for name, least in report.least.items():
        runs = [p for p in report.points if p.algorithm == name]
        wrong = frozenset().union(*(p.wrong for p in runs))
        slope = next((s for s in report.slopes if s.algorithm == name), None)
        found = {check: not wrong & {check} if runs else None for check in CHECKS}
        sizes, gaps = [p.M for p in runs], [p.gap for p in runs]
        rows.append(
            {
                "algorithm": name,
                "least_M": least,
                "runs": len(runs),
                "skipped": len(report.sizes) - len(runs),
                "M": [min(sizes), max(sizes)] if runs else None,
                "max_error": max((p.max_error for p in runs), default=None),
                **found,
                "class": runs[0].klass if runs else None,
                "gap": [min(gaps), max(gaps)] if runs else None,
                "slope": None if slope is None else asdict(slope) | {"ok": slope.ok},
            }
        )
    return rows


def as_dict(report: Report) -> Row:
    """The report as ``iosim verify --json`` prints it."""
    return {
        "problem": report.problem.as_dict,
        "points": [
            {
                "algorithm": p.algorithm,
                "M": p.M,
                "tiles": p.tiles,
                "load_words": p.counts.load_words,
                "store_words": p.counts.store_words,
                "total_words": p.counts.total_words,
                "formula_words": p.formula_words,
                "peak_words": p.peak_words,
                "max_error": p.max_error,
                "class": p.klass,
                "lower_bound": p.lower_bound,
                "lower_bound_words": p.lower_bound_words,
                "gap": p.gap,
                "ok": not p.failures,
            }
            for p in report.points
        ],
        "slopes": [asdict(s) for s in report.slopes],
        "schedules": by_schedule(report),
        "failures": report.failures,
        "tolerance": report.tolerance,
        "ok": report.ok,
    }


def table(report: Report) -> Table:
    """The report as rows: what was run, the formula lines, and the bounds, for CSV and figure."""
    from iosim.bounds import bounds_for
    from iosim.bounds.classes import covers_wide

    p = report.problem
    base = problem_cells(p)
    rows: Rows = []
    for x in report.points:
        rows.append(
            {
                "kind": "run",
                "name": x.algorithm,
                **base,
                "M_words": x.M,
                "total_words": x.counts.total_words,
                "load_words": x.counts.load_words,
                "store_words": x.counts.store_words,
                "formula_words": x.formula_words,
                "peak_words": x.peak_words,
                "max_error": f"{x.max_error:.3e}",
                "class": x.klass,
                "lower_bound": x.lower_bound,
                "lower_bound_words": round(x.lower_bound_words, 3),
                "gap": round(x.gap, 4),
                "ok": not x.failures,
                "tiles": " ".join(f"{k}={v}" for k, v in x.tiles.items()),
            }
        )
    lo, hi = min(x.M for x in report.points), max(x.M for x in report.points)
    grid = sorted({round(v) for v in np.geomspace(lo, hi, 81)} | {x.M for x in report.points})
    for name in dict.fromkeys(x.algorithm for x in report.points):
        for M, counts in best_counts(algorithm(name).program_for(p), p, grid).items():
            rows.append(
                {
                    "kind": "formula",
                    "name": name,
                    **base,
                    "M_words": M,
                    "total_words": counts.total_words,
                }
            )
    for M in grid:
        for bound in bounds_for(p, M):
            if bound.strength == "exact" and bound.words and covers_wide(bound.classes):
                rows.append(
                    {
                        "kind": bound.kind,
                        "name": bound.name,
                        **base,
                        "M_words": M,
                        "total_words": round(bound.words, 3),
                    }
                )
    return Table(tuple(rows), "words moved against M", "iosim.report.figures:words")
