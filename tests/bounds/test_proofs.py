"""Every theorem's steps pass, and for each theorem a planted error is caught."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import iosim.report.proof as proof
from iosim.base.errors import InputError, IosimError, install
from iosim.report.proof import load_theorem, run, run_step, statement, step, steps, theorems

pytest.importorskip("z3")

PUBLISHED = (
    "compression",
    "devices",
    "hong_kung",
    "matmul_tight",
    "saha_ye_large",
    "saha_ye_small",
    "sweep_order",
    "upper_bounds",
)


def test_the_published_theorems_are_there() -> None:
    assert set(PUBLISHED) <= set(theorems())


# Theorem → a size that takes seconds, and a smaller one that is tried in every run.
SMALLER: dict[str, tuple[str, int]] = {"hong_kung": ("FOREST", 6)}


@pytest.mark.numbers
@pytest.mark.parametrize("name", PUBLISHED)
def test_every_step_passes(name: str) -> None:
    module = load_theorem(name)
    if name in SMALLER:
        constant, value = SMALLER[name]
        assert value < getattr(module, constant)
        setattr(module, constant, value)
    results = run(module)
    assert [(r.step, r.detail) for r in results if r.status != "passed"] == []
    assert all(r.scope and r.seconds >= 0 and r.theorem == name for r in results)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLER)
def test_every_step_passes_at_full_size(name: str) -> None:
    assert [(r.step, r.detail) for r in run(name) if r.status != "passed"] == []


# theorem, constant, wrong value, the steps that must notice
PLANTED = [
    ("matmul_tight", "LEADING", 2.2, {"segment-length", "loads-and-stores"}),
    ("matmul_tight", "LOST", 1, {"loads-and-stores"}),
    ("matmul_tight", "LOST_COLD", 0.9, {"cold-start"}),
    ("matmul_tight", "SEGMENT", 3, {"products-per-segment", "segment-length"}),
    ("hong_kung", "EXTRA", 0, {"every-small-graph", "every-small-forest", "wasteful-calculations"}),
    ("saha_ye_large", "LARGE", 1.1, {"segments"}),
    ("saha_ye_large", "MIDDLE", 0.55, {"segments"}),
    ("saha_ye_large", "LARGE", 6, {"segments", "below-a-schedule"}),
    ("saha_ye_small", "LEADING", 2.2, {"reduction"}),
    ("saha_ye_small", "LOST", 0.9, {"reduction"}),
    ("saha_ye_small", "LEADING", 5, {"reduction", "below-a-schedule"}),
    ("devices", "KEYS", 6, {"every-split"}),
    ("sweep_order", "SAVED", 0, {"any-order", "lru-law", "new-items-last", "from-the-diagonal"}),
    ("sweep_order", "SAVED", 2, {"any-order", "lru-law"}),
    ("compression", "ROOT", 1.1, {"lemma-minimum"}),
    ("compression", "LINEAR", 0.9, {"lemma-minimum"}),
    ("compression", "LARGE", 0.275, {"epochs"}),
    ("compression", "MIDDLE", 0.275, {"epochs"}),
    ("upper_bounds", "FLASH2", 30, {"flash2-order"}),
    ("upper_bounds", "FLASH1", 39, {"flash1-order"}),
    ("upper_bounds", "SMALL", 33, {"small-cache-order"}),
]


@pytest.mark.parametrize(("name", "constant", "wrong", "noticing"), PLANTED)
def test_a_planted_error_is_caught(
    name: str, constant: str, wrong: float, noticing: set[str]
) -> None:
    module = load_theorem(name)
    assert getattr(module, constant) != wrong
    setattr(module, constant, wrong)
    for one in steps(module):
        if one.name in noticing:
            result = run_step(name, one)
            assert result.status == "failed", f"{one.name} did not notice {constant} = {wrong}"
            assert result.detail
            assert "\n" not in result.detail


def wrong_counts(module: ModuleType) -> None:
    original = module.square_tiling
    module.square_tiling = lambda N, d, M: original(N, d, M) + 1  # type: ignore[attr-defined]


def wrong_vandermonde(module: ModuleType) -> None:
    """q = N: the last row repeats the first power's pattern of another, so rows depend."""
    original = module.vandermonde
    module.vandermonde = lambda N, d, q: original(N - 1, d, q) + original(1, d, q)  # type: ignore[attr-defined]


def wrong_products(module: ModuleType) -> None:
    """Every product in the true run is one too large, so Bob's entries are not QKᵀ's."""
    original: Callable[..., None] = module.Bob.do

    def do(self: Any, kind: str, what: tuple[Any, ...]) -> None:
        original(self, kind, what)
        if kind == "fma":
            self.memory["S", what[0], what[1]] += 1

    module.Bob.do = do  # type: ignore[attr-defined]


def unchecked_moves(module: ModuleType) -> None:
    """Computes without loading: no parents are required."""
    module.Dag.least = 0  # type: ignore[attr-defined]
    module.dominates = lambda dag, D, part: False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "plant", "step_name"),
    [
        ("upper_bounds", wrong_counts, "catalogue-counts"),
        ("compression", wrong_vandermonde, "vandermonde"),
        ("compression", wrong_vandermonde, "messages-by-counting"),
        ("compression", wrong_products, "protocol"),
        ("hong_kung", unchecked_moves, "wasteful-calculations"),
    ],
)
def test_a_planted_bug_is_caught(
    name: str, plant: Callable[[ModuleType], None], step_name: str
) -> None:
    module = load_theorem(name)
    plant(module)
    one = next(s for s in steps(module) if s.name == step_name)
    assert run_step(name, one).status == "failed"


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_text_names_every_step(name: str) -> None:
    text = statement(name)
    assert text.startswith("# ")
    for one in steps(load_theorem(name)):
        assert f"`{one.name}`" in text, f"{name}.md does not mention {one.name}"


# ---------------------------------------------------------------- the harness itself


@pytest.mark.parametrize(
    ("how", "scope", "fits"),
    [
        ("proved", "all reals", True),
        ("proved", "500 cases, seed 0", False),
        ("proved", "N ≤ 3", False),
        ("exhaustive", "N ≤ 3: 40 cases", True),
        ("exhaustive", "all reals", False),
        ("exhaustive", "many cases", False),
        ("exhaustive", "500 cases, seed 0", False),
        ("sampled", "500 cases, seed 0", True),
        ("sampled", "all reals", False),
        ("sampled", "500 cases", False),
        ("proved", "", False),
        ("proved", None, False),
    ],
)
def test_a_scope_must_fit_its_word(how: Any, scope: Any, fits: bool) -> None:
    one = step("s", how=how, says="…")(lambda: scope)
    result = run_step("t", one)
    assert result.status == ("passed" if fits else "failed")
    assert (result.scope is not None) == fits


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(InputError, match="believed"):
        step("s", how="believed", says="…")  # type: ignore[arg-type]


def test_failures_become_results() -> None:
    def boom() -> str:
        raise ZeroDivisionError("by 0")

    result = run_step("t", step("s", how="proved", says="…")(boom))
    assert (result.status, result.scope) == ("failed", None)
    assert result.detail == "ZeroDivisionError: by 0"


def test_without_z3_a_step_is_not_run_and_never_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def no_z3(name: str, *rest: Any, **more: Any) -> Any:
        if name == "z3":
            raise ModuleNotFoundError("No module named 'z3'", name="z3")
        return original(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", no_z3)
    proof._z3.cache_clear()
    results = {r.step: r for r in run("saha_ye_large")}
    proof._z3.cache_clear()
    assert results["segments"].status == "not run"
    assert results["segments"].detail == f"needs z3: {install('proofs')}"
    assert results["convexity"].status == "passed"


def test_solvers_must_decide() -> None:
    import z3

    x = z3.Real("x")
    with pytest.raises(AssertionError, match="counterexample"):
        proof.unsat(x > 1)
    proof.unsat(x > 1, x < 0)


def test_unsat_fails_when_the_solver_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import z3

    monkeypatch.setattr(proof, "SOLVER_SECONDS", 0.001)
    x, y, z, n = z3.Ints("x y z n")
    with pytest.raises(AssertionError, match="gave up"):
        proof.unsat(x > 0, y > 0, z > 0, x**3 + y**3 == z**3 + 0 * n)


def test_identities_must_hold() -> None:
    import sympy

    x = sympy.Symbol("x")
    proof.identity((x + 1) ** 2, x**2 + 2 * x + 1)
    with pytest.raises(AssertionError, match="not 0"):
        proof.identity((x + 1) ** 2, x**2 + 1)


def test_require_survives_python_O() -> None:
    code = "from iosim.report.proof import require\nrequire(False, 'kept')"
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "AssertionError: kept" in done.stderr


def test_unknown_theorem_and_missing_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="did you mean 'hong_kung'"):
        load_theorem("hong_kong")
    with pytest.raises(InputError, match="unknown theorem"):
        run("../tests/test_proofs")
    monkeypatch.setattr(proof, "FOLDER", Path("/nowhere"))
    with pytest.raises(IosimError, match="no proofs at /nowhere") as error:
        theorems()
    assert "\n" not in str(error.value)


def test_a_theorem_without_steps_is_malformed() -> None:
    with pytest.raises(IosimError, match="one at least"):
        steps(ModuleType("empty"))


def test_iosim_imports_no_proofs() -> None:
    code = (
        "import sys, iosim, iosim.report.proof, iosim.bounds;"
        "sys.exit(any(m.startswith(('proofs', 'iosim_proofs', 'z3')) for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_results_are_plain_data() -> None:
    import json

    results = [r.as_dict() for r in run("saha_ye_small")]
    assert json.loads(json.dumps(results)) == results


def test_the_catalogue_states_what_is_proved() -> None:
    """The constants of the proofs give the expressions of the catalogue."""
    import sympy

    from iosim.bounds import BOUNDS, bound, sym

    N, d, heads, M, m, n, k = (sym(x) for x in ("N", "d", "heads", "M", "m", "n", "k"))

    def exact(x: float) -> Any:
        return sympy.nsimplify(x, rational=True)

    t = load_theorem("matmul_tight")
    want = exact(t.LEADING) * m * n * k / sympy.sqrt(M) - exact(t.LOST) * M
    assert sympy.expand(bound("matmul-tight").expression - want) == 0
    want += (exact(t.LOST) - exact(t.LOST_COLD)) * M
    assert sympy.expand(bound("matmul-cold").expression - want) == 0
    on_top = 2 * heads * N * d
    t = load_theorem("saha_ye_small")
    want = heads * (exact(t.LEADING) * N**2 * d / sympy.sqrt(M) - N**2) - exact(t.LOST) * M
    assert sympy.expand(bound("saha-ye-small").expression - want - on_top) == 0
    for name, theorem in (("score-roots", "saha_ye_large"), ("compression", "compression")):
        t = load_theorem(theorem)
        large, middle = exact(t.LARGE) * N**2 * d**2 / M, exact(t.MIDDLE) * N**2
        want = heads * sympy.Min(large, middle) + on_top
        assert sympy.expand(bound(name).expression - want) == 0
    named = {name for b in BOUNDS.values() for name in (b.proof, b.options_proof)}
    assert named - {None} <= set(theorems())


THEOREM = """
from iosim.report.proof import step
import os, time

@step("slow", how="exhaustive", says="waits")
def slow():
    time.sleep(0.4)
    return f"up to 1, in process {os.getpid()}"

@step("wrong", how="exhaustive", says="fails")
def wrong():
    raise AssertionError("off by 1")
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_steps_of_several_theorems_run_in_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Results keep their order, failures stay results, and progress goes up to all steps."""
    for name in ("b_theorem", "a_theorem"):
        (tmp_path / f"{name}.py").write_text(THEOREM)
    monkeypatch.setattr(proof, "FOLDER", tmp_path)
    ticks: list[tuple[int, int]] = []
    found = dict(
        proof.run_all(["b_theorem", "a_theorem"], workers, lambda *done: ticks.append(done))
    )
    assert list(found) == ["b_theorem", "a_theorem"]
    for name, results in found.items():
        assert [(r.theorem, r.step, r.status) for r in results] == [
            (name, "slow", "passed"),
            (name, "wrong", "failed"),
        ]
        assert results[1].detail == "AssertionError: off by 1"
    if workers == 1:
        assert ticks == [(0, 4), (1, 4), (2, 4), (3, 4)]
    (tmp_path / "c_theorem.py").write_text(f"{THEOREM}\nIN_ONE_PROCESS = True\n")
    here = dict(proof.run_all(["a_theorem", "c_theorem"], workers))["c_theorem"]
    assert str(here[0].scope).endswith(f" {os.getpid()}")
    processes = {str(results[0].scope).rsplit(" ", 1)[1] for results in found.values()}
    assert (str(os.getpid()) in processes) == (workers == 1)


def test_an_unknown_theorem_is_refused_before_any_step() -> None:
    with pytest.raises(InputError, match="unknown theorem"):
        next(proof.run_all(["hong_kung", "hong_kong"], 2))


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """Also where it is ended without a chance to say so."""
    children = Path("/proc/self/task")
    if not children.exists():
        pytest.skip("only Linux lists a process's children")
    code = (
        "import sys; from pathlib import Path; from iosim.report import proof\n"
        f"proof.FOLDER = Path({str(tmp_path)!r})\n"
        "next(proof.run_all(['long'], 2))\n"
    )
    says = "from iosim.report.proof import step\nimport time\n" + "".join(
        f"@step('{name}', how='exhaustive', says='waits')\ndef {name}():\n"
        "    time.sleep(60); return '1'\n"
        for name in ("one", "two")
    )
    (tmp_path / "long.py").write_text(says)
    process = subprocess.Popen([sys.executable, "-c", code])
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(lambda: len(listed.read_text().split()) == 2)
    workers = listed.read_text().split()
    process.terminate()
    process.wait()
    wait_until(lambda: not any(Path(f"/proc/{x}").exists() for x in workers))


def wait_until(holds: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
