"""Proofs that run: named steps, each of which says how it was checked, and how far.

A theorem is a pair in `proofs/`: `<theorem>.md`, which a person reads, and `<theorem>.py`, or a
package of that name, whose steps a machine runs.  A step is a function with a `step` decorator; it
returns one line that tells the scope of the check and raises AssertionError where it fails::

    @step("am-gm", how="proved", says="27abc ≤ (a+b+c)³ for a, b, c ≥ 0")
    def am_gm() -> str:
        identity(...)
        return "all reals a, b, c ≥ 0"

Three words, never mixed up:

proved
    for all values: a symbolic identity, an SMT solver's `unsat`, or an exact argument.
exhaustive
    every case up to a stated size.
sampled
    random cases from a stated seed.

`run` rejects a scope that doesn't fit its word, so that a step can't call a sample a proof.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from iosim.base.errors import InputError, IosimError, closest, install
from iosim.base.rows import Row
from iosim.report.shipped import shipped
from iosim.sweep.executors import follow_parent

How = Literal["proved", "exhaustive", "sampled"]
Status = Literal["passed", "failed", "not run"]

HOW: dict[str, str] = {
    "proved": "proved for all values",
    "exhaustive": "exhaustively up to a size",
    "sampled": "sampled",
}

FOLDER = shipped("proofs")
_PACKAGE = "iosim_proofs"  # the name under which the folder is imported
SOLVER_SECONDS: float = 20


@dataclass(frozen=True)
class Step:
    """One checked claim: its name, how it is checked, what it says, and the check."""

    name: str
    how: How
    says: str
    fn: Callable[[], str]

    def __call__(self) -> str:
        """Run the check; return its scope, or raise AssertionError."""
        return self.fn()


class NotInstalled(Exception):
    """A step needs a program that is not a Python package; `command` installs it.

    The step is "not run", and optional: what it checks is checked by hand or otherwise, too.
    """

    def __init__(self, program: str, command: str) -> None:
        super().__init__(f"needs {program}: {command}")


@dataclass(frozen=True)
class StepResult:
    """What became of a step.

    `status` is "passed", "failed" or "not run"; `scope` is the step's own line (None unless it
    passed), `detail` the reason (None if it passed), `seconds` the time it took.  An `optional` one
    was not run for want of a program that is not a Python package.
    """

    theorem: str
    step: str
    how: How
    says: str
    status: Status
    scope: str | None
    detail: str | None
    seconds: float
    optional: bool = False

    def as_dict(self) -> Row:
        """The result as a plain dict, for JSON."""
        return asdict(self)


def step(name: str, *, how: How, says: str) -> Callable[[Callable[[], str]], Step]:
    """Make a function a step of the theorem in whose module it is.

    Raises InputError for a `how` that is none of the three words.
    """
    if how not in HOW:
        raise InputError(f"step {name!r}: how = {how!r}, {closest(how, HOW)}")

    def make(fn: Callable[[], str]) -> Step:
        return Step(name, how, says, fn)

    return make


# ---------------------------------------------------------------- the theorems


def theorems() -> tuple[str, ...]:
    """Names of all theorems, sorted; IosimError if there is no folder of proofs."""
    folder = FOLDER
    if not folder.is_dir():
        raise IosimError(f"no proofs at {folder}: install iosim again, or run from a source tree")
    files = [p.stem for p in folder.glob("*.py")]
    packages = [p.parent.name for p in folder.glob("*/__init__.py")]
    return tuple(sorted(name for name in (*files, *packages) if not name.startswith("_")))


def load_theorem(name: str) -> ModuleType:
    """Load proofs/<name>.py, or the package of that name, afresh and return it.

    Raises InputError for an unknown name, IosimError if the folder is missing.
    """
    known = theorems()
    if name not in known:
        raise InputError(f"unknown theorem {name!r}: {closest(name, known)}")
    package = ModuleType(_PACKAGE)
    package.__path__ = [str(FOLDER)]
    sys.modules[_PACKAGE] = package
    # A theorem may use the modules of another: all of them afresh.
    for loaded in [m for m in sys.modules if m.startswith(f"{_PACKAGE}.")]:
        del sys.modules[loaded]
    return importlib.import_module(f"{_PACKAGE}.{name}")


def steps(module: ModuleType) -> tuple[Step, ...]:
    """The steps of a theorem, in the order in which its file defines them.

    A theorem in several files lists them as `PARTS`, in the order of the proof.
    """
    parts = getattr(module, "PARTS", (module,))
    found = tuple(v for part in parts for v in vars(part).values() if isinstance(v, Step))
    names = [s.name for s in found]
    if not found or len(set(names)) < len(names):
        raise IosimError(f"{module.__name__} has steps {names}: one at least, and no name twice")
    return found


def statement(name: str) -> str:
    """The text of proofs/<name>.md.  Raises InputError, or IosimError if there is none."""
    load = FOLDER / f"{name}.md"
    if name not in theorems():
        raise InputError(f"unknown theorem {name!r}: {closest(name, theorems())}")
    if not load.is_file():
        raise IosimError(f"no {load.name} beside {name}.py: write the proof for its readers")
    return load.read_text(encoding="utf-8")


def _scope_fits(how: How, scope: object) -> str | None:
    if not isinstance(scope, str) or not scope.strip() or "\n" in scope:
        return f"returned {scope!r} instead of one line that tells its scope"
    if (how == "proved") != scope.startswith("all "):
        return f"scope {scope!r} of a step called {how}: only a proof says 'all ' first"
    if (how == "sampled") != ("seed" in scope):
        return f"scope {scope!r} of a step called {how}: only a sample names its seed"
    if how == "exhaustive" and not any(c.isdigit() for c in scope):
        return f"scope {scope!r} of an exhaustive step: name the size that it reaches"
    return None


def run_step(theorem: str, one: Step) -> StepResult:
    """Run a step; failures and missing solvers become results, never exceptions."""
    start = time.perf_counter()
    scope: str | None = None
    detail: str | None = None
    status: Status = "passed"
    optional = False
    try:
        scope = one()
        detail = _scope_fits(one.how, scope)
        if detail is not None:
            status, scope = "failed", None
    except NotInstalled as error:
        status, detail, optional = "not run", str(error), True
    except ModuleNotFoundError as error:
        status = "not run"
        detail = f"needs {error.name}: {install('proofs')}"
    except Exception as error:
        status = "failed"
        detail = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    seconds = time.perf_counter() - start
    return StepResult(
        theorem, one.name, one.how, one.says, status, scope, detail, seconds, optional
    )


def run(theorem: str | ModuleType) -> list[StepResult]:
    """Run every step of a theorem, given by name or as a loaded module.

    A step whose solver is not installed is "not run", never "passed".  Raises InputError for an
    unknown name.
    """
    module = load_theorem(theorem) if isinstance(theorem, str) else theorem
    name = module.__name__.rpartition(".")[2]
    return [run_step(name, one) for one in steps(module)]


def run_all(
    names: Sequence[str],
    workers: int | None = None,
    tick: Callable[[int, int], None] = lambda done, of: None,
) -> Iterator[tuple[str, list[StepResult]]]:
    """Run every step of several theorems; each theorem's results follow when all are there.

    Args:
        names: of the theorems, in the order of the results.
        workers: processes, among which steps are shared; by default one for each core.  Theorems
            whose steps use one costly result are marked `IN_ONE_PROCESS`, and run in this one.
        tick: called as ``tick(done, of)`` with numbers of steps, at least once a second.

    Raises InputError for an unknown name.
    """
    modules = {name: load_theorem(name) for name in names}
    here = {name for name in names if getattr(modules[name], "IN_ONE_PROCESS", False)}
    every = [(name, at) for name in names for at in range(len(steps(modules[name])))]
    jobs = [job for job in every if job[0] not in here]
    processes = min(workers or os.cpu_count() or 1, len(jobs))
    if processes <= 1:
        done = 0
        for name in names:
            found = []
            for one in steps(load_theorem(name)):
                tick(done, len(every))
                found.append(run_step(name, one))
                done += 1
            yield name, found
        return
    with ProcessPoolExecutor(processes, initializer=_start_worker, initargs=(FOLDER,)) as pool:
        try:
            runs = {job: pool.submit(_run_job, *job) for job in jobs}
            for name in names:
                if name in here:  # while the workers go on
                    yield name, run(name)
                    continue
                own = [runs[job] for job in jobs if job[0] == name]
                while wait(own, 1.0).not_done:
                    tick(sum(run.done() for run in runs.values()), len(jobs))
                yield name, [run.result() for run in own]
        except BaseException:
            # A step may take minutes yet.
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


def _start_worker(folder: Path) -> None:
    """Interrupts are the parent's; the folder of proofs may be another than the installed one."""
    global FOLDER
    follow_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    FOLDER = folder
    _loaded_steps.cache_clear()


@functools.cache
def _loaded_steps(theorem: str) -> tuple[Step, ...]:
    return steps(load_theorem(theorem))


def _run_job(theorem: str, at: int) -> StepResult:
    return run_step(theorem, _loaded_steps(theorem)[at])


# ---------------------------------------------------------------- tools for steps


def require(condition: object, message: str) -> None:
    """Raise AssertionError(message) unless `condition`; unlike `assert`, also under -O."""
    if not condition:
        raise AssertionError(message)


def identity(left: Any, right: Any) -> None:
    """Require left = right as rational functions of their symbols (sympy)."""
    import sympy

    difference = sympy.cancel(sympy.together(sympy.expand(left - right)))
    require(difference == 0, f"left − right = {difference}, not 0")


def unsat(*constraints: Any) -> None:
    """Require that no real or integer values satisfy the z3 constraints; an unknown is a failure.

    Raises ModuleNotFoundError without z3.
    """
    z3 = _z3()
    solver = z3.Solver()
    solver.set("timeout", int(SOLVER_SECONDS * 1000))
    solver.add(*constraints)
    answer = solver.check()
    if answer == z3.sat:
        raise AssertionError(f"a counterexample: {solver.model()}".replace("\n", ""))
    require(answer == z3.unsat, f"the solver gave up: {solver.reason_unknown()}")


@functools.cache
def _z3() -> Any:
    import z3

    return z3
