"""The development in Coq: what its text promises, the model's twin, and, with Coq, all of it.

Where Coq is missing its own steps are skipped; `.ci/rocq`, a step of CI, installs it, and sets
ROCQ=built, with which they fail instead, and take the files that `make` has just checked.  In the
rest of CI they are skipped with ROCQ=later, so that Coq checks everything once.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import iosim.report.proof as proof
from iosim.report.proof import load_theorem, run_step, steps

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "proofs" / "rocq"
SOURCES = sorted(FOLDER.glob("*.v"))
# What a theorem may rest on: the reals of Coq's standard library.
REALS = {
    "ClassicalDedekindReals.sig_not_dec",
    "ClassicalDedekindReals.sig_forall_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
}
SAID = os.environ.get("ROCQ", "")
HAS_COQ = shutil.which("coqc") is not None
skipped = pytest.mark.skipif(
    SAID == "later" or not (HAS_COQ or SAID), reason="Coq is not installed; .ci/rocq runs this"
)


def needs_coq(test: Any) -> Any:
    """`pytest -m coq` runs these."""
    return pytest.mark.coq(skipped(test))


@pytest.fixture(scope="module")
def rocq() -> Iterator[ModuleType]:
    module = load_theorem("rocq")
    with pytest.MonkeyPatch.context() as patch:
        if SAID == "built":
            from iosim_proofs.rocq import building

            patch.setattr(building, "_built", copied)
        yield module


@functools.cache
def copied() -> tuple[Path, Exception | None]:
    """What `make` has checked in proofs/rocq, for files that are the same as these."""
    folder = Path(tempfile.mkdtemp(prefix="iosim-rocq-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for file in SOURCES:
        made = file.with_suffix(".vo")
        if made.stat().st_mtime < file.stat().st_mtime:
            return folder, AssertionError(f"{made.name} is older than {file.name}")
        shutil.copy2(file, folder)
        shutil.copy2(made, folder)
    return folder, None


def bare(text: str) -> str:
    """Without comments, which may be nested."""
    out, depth, k = [], 0, 0
    while k < len(text):
        if text.startswith("(*", k):
            depth, k = depth + 1, k + 2
        elif text.startswith("*)", k):
            depth, k = depth - 1, k + 2
        else:
            out.append("" if depth else text[k])
            k += 1
    return "".join(out)


def unfinished(text: str) -> list[str]:
    """Words by which something would be taken for granted."""
    words = r"\b(Admitted|admit|Axioms?|Conjecture|Parameters?|give_up|bypass_check)\b"
    return re.findall(words, bare(text))


def outside(text: str) -> list[str]:
    """Hypotheses outside sections, where they are axioms; sections that do not end."""
    found, depth = [], 0
    for sentence in re.split(r"\.\s", bare(text)):
        word = (re.findall(r"\w+", sentence) or [""])[0]
        depth += {"Section": 1, "End": -1}.get(word, 0)
        if re.fullmatch(r"Hypothes[ie]s|Variables?|Context", word) and not depth:
            found.append(sentence.strip())
    return [*found, *["End"] * abs(depth)]


@pytest.mark.parametrize("file", SOURCES, ids=lambda f: f.name)
def test_nothing_is_taken_for_granted(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert unfinished(text) == []
    assert outside(text) == []


def test_the_costs_of_the_examples_are_the_solver_s() -> None:
    from iosim import pebbling

    text = (FOLDER / "examples.v").read_text(encoding="utf-8")
    said = re.findall(r"computes (\d) \((\w+) .*cost \w+ == (\d+)", text)
    graphs = {
        "matrix_product": pebbling.matmul(2, 2, 2, sums="vertex"),
        "attention": pebbling.attention(2, 1, sums="vertex", softmax="free"),
    }
    assert {name for _, name, _ in said} == set(graphs)
    for M, name, cost in said:
        assert pebbling.optimum(graphs[name], int(M), partial=True).cost == int(cost)


def test_what_would_be_taken_for_granted_is_found() -> None:
    assert unfinished("Lemma x : 0 = 1.\nProof. Admitted.") == ["Admitted"]
    assert unfinished("(* Admitted (* no *) Axiom *) Axiom x : 0 = 1.") == ["Axiom"]
    assert outside("Section A.\nVariable n : nat.\nEnd A.\nHypothesis no : False.\n") == [
        "Hypothesis no : False"
    ]
    assert outside("Section A.\nVariable n : nat.\n") == ["End"]


def test_the_model_is_short_and_the_project_is_whole() -> None:
    for model in ("model.v", "classes.v"):
        assert len((FOLDER / model).read_text(encoding="utf-8").splitlines()) < 200
    listed = [x for x in (FOLDER / "_CoqProject").read_text().split() if x.endswith(".v")]
    assert sorted([*listed, "assumptions.v"]) == [f.name for f in SOURCES]


STATEMENTS = ("theorems", "theorems_classes", "theorems_sweeps")


def theorems() -> dict[str, str]:
    """Name → statement, of the files of statements."""
    files = (FOLDER / f"{name}.v" for name in STATEMENTS)
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    found = re.findall(r"^((?:Theorem|Corollary) (\w+).*?\.)\nProof", text, re.M | re.S)
    return {name: said for said, name in found}


def axioms(printed: str) -> set[str]:
    """The names that Coq prints: what a line begins with, with a module or without."""
    heads = ("Axioms:", "Closed under the global context")
    lines = [x for x in printed.splitlines() if x and x not in heads and not x[0].isspace()]
    return {x.split()[0] for x in lines}


def test_an_axiom_without_a_module_is_seen() -> None:
    assert axioms("Axioms:\nno : False\nModule.other\n  : nat\n") == {"no", "Module.other"}
    assert axioms("Axioms:\nf is assumed to be guarded.\n") == {"f"}


def test_what_every_theorem_rests_on_is_recorded() -> None:
    asked = re.findall(r"^Print Assumptions (\w+)\.", (FOLDER / "assumptions.v").read_text(), re.M)
    assert asked == list(theorems())
    recorded = (FOLDER / "assumptions.txt").read_text(encoding="utf-8")
    assert axioms(recorded) == REALS
    answers = re.findall(r"^(Closed under the global context|Axioms:)$", recorded, re.M)
    assert len(answers) == len(asked)


def blocks(page: str) -> list[str]:
    return re.findall(r"^```coq\n(.*?)```", page, re.M | re.S)


PAGES = {
    "attention_options": (
        ("attention_pairs_widths", "trees_pairs_widths"),
        ("every_class_widths",),
    ),
    "constant_tight": (
        ("attention_once", "attention_pairs"),
        ("attention_trees", "trees_pairs"),
        ("attention_every_class", "every_class_pairs"),
    ),
    "matmul_tight": (
        (
            "matrix_product_every_class",
            "product_every_class",
            "matrix_product_tight",
            "product_words",
        ),
    ),
    "rocq": (
        ("product_words", "matrix_product_tight", "matrix_product_irony"),
        (
            "attention_pairs_widths",
            "attention_pairs",
            "attention_heads",
            "attention_causal",
            "attention_once",
        ),
        ("product_possible", "attention_possible_widths", "attention_possible"),
        ("trees_pairs_widths", "trees_pairs", "attention_trees"),
        ("every_class_widths", "every_class_pairs", "attention_every_class"),
        ("product_every_class", "matrix_product_every_class"),
        ("class_sub", "once_in_class", "class_possible"),
        (
            "any_order_any_policy",
            "equal_sweeps",
            "lru_is_a_policy",
            "cyclic_order",
            "alternating_order",
            "handed_over",
            "growing_sets",
        ),
    ),
    "sweep_order": (
        ("any_order_any_policy", "equal_sweeps"),
        ("cyclic_order", "alternating_order"),
        ("handed_over", "growing_sets"),
    ),
}


@pytest.mark.parametrize("page", PAGES)
def test_the_page_prints_the_statements_of_the_file(page: str) -> None:
    printed = blocks((ROOT / "proofs" / f"{page}.md").read_text(encoding="utf-8"))
    assert printed == [
        "\n".join(f"{theorems()[name]}\n" for name in names) for names in PAGES[page]
    ]


def test_the_page_of_the_development_prints_every_statement() -> None:
    """Once each: those that the test above compares are all that there are."""
    printed = [name for names in PAGES["rocq"] for name in names]
    assert sorted(printed) == sorted(theorems())
    files = (bare((FOLDER / f"{x}.v").read_text("utf-8")) for x in STATEMENTS)
    assert re.findall(r"^(?:Theorem|Corollary) (\w+)", "".join(files), re.M) == list(theorems())


def test_the_page_of_the_development_names_every_file_theorem_and_step(rocq: ModuleType) -> None:
    page = (ROOT / "proofs" / "rocq.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([^`\n]+)`", page))
    assert {f.name for f in SOURCES} - {"assumptions.v"} <= named
    assert set(theorems()) <= named
    assert {s.name for s in steps(rocq)} <= named
    from iosim_proofs.rocq import building

    assert building.INSTALL in page


# ---------------------------------------------------------------- the twin

TWIN = (
    "schedules-accepted",
    "broken-rejected",
    "solver-replayed",
    "results-over-operands",
    "tiny-optimum",
    "simulations-accepted",
    "simulations-broken",
)


@pytest.mark.numbers
@pytest.mark.usefixtures("brief_annealing")
@pytest.mark.parametrize("name", TWIN)
def test_the_twin_holds(rocq: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from iosim_proofs.rocq import schedules

    monkeypatch.setattr(schedules, "TINY", (3,))
    (one,) = (s for s in steps(rocq) if s.name == name)
    assert run_step("rocq", one).detail is None


def without(twin: ModuleType, rule: str) -> Any:
    """The twin's `allowed`, lacking a rule."""
    real = twin.allowed

    def lacking(s: Any, op: Any, M: int, t: Any) -> bool:
        name, x = op
        if rule == "room":
            return bool(real(s, op, 10**9, t))
        if rule == "once" and name == "Do":
            return bool(real(type(s)(s.fast, s.slow, s.done - {x}), op, M, t))
        if rule == "finished" and name == "Do":
            first = {p for w in t.operands.get(x, ())[:2] for p in t.terms.get(w, ())}
            return bool(real(type(s)(s.fast, s.slow, s.done | first), op, M, t))
        if rule == "stored" and name == "Load":
            return x not in s.fast and len(s.fast) < M
        return bool(real(s, op, M, t))

    return lacking


@pytest.mark.parametrize("rule", ["room", "once", "finished"])
def test_a_model_that_lacks_a_rule_is_noticed(
    rocq: ModuleType, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from iosim_proofs.rocq import schedules, twin

    monkeypatch.setattr(twin, "allowed", without(twin, rule))
    result = run_step("rocq", schedules.broken_rejected)
    assert result.status == "failed"
    assert "is accepted" in str(result.detail)


def lacking(classes: ModuleType, rule: str) -> Any:
    """A memory of classes.v's twin that lacks a rule."""

    class Memory(classes.Memory):  # type: ignore[misc,name-defined]
        def is_complete(self, word: Any, values: Any) -> bool:
            if rule == "finished":
                return any(w == word for w, _ in values)
            return bool(super().is_complete(word, values))

        def place(self, value: Any, over: Any) -> bool:
            if rule == "room" and over is None:
                self.near.append(value)
                return True
            return bool(super().place(value, over))

        def go(self, move: Any) -> bool:
            name, *rest = move
            if rule == "stored" and name == "Read":
                return self.place(rest[0], None)
            if rule == "disjoint" and name == "Add" and set(rest[1]) & set(rest[2]):
                return self.place((rest[0], rest[1] + rest[2]), rest[3])
            if rule == "disjoint" and name == "Mul" and rest[0] in rest[1]:
                return True
            return bool(super().go(move))

    return Memory


@pytest.mark.parametrize("rule", ["room", "finished", "disjoint"])
def test_a_model_of_the_classes_that_lacks_a_rule_is_noticed(
    rocq: ModuleType, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from iosim_proofs.rocq import classes, simulated

    monkeypatch.setattr(classes, "Memory", lacking(classes, rule))
    result = run_step("rocq", simulated.simulations_broken)
    assert result.status == "failed"
    assert "is accepted" in str(result.detail)


def test_each_rule_of_the_classes_forbids_by_itself(rocq: ModuleType) -> None:
    from iosim_proofs.rocq import twin
    from iosim_proofs.rocq.classes import CLASSES, RECOMPUTE, SINGLE, TREES, Memory

    e0, e1, f0, s = ("E", 0, 0, 0), ("E", 0, 0, 1), ("F", 0, 0, 0), ("S", 0, 0)
    q0, k0, v0 = ((name, 0, 0) for name in "QKV")

    def allowed(
        move: Any, near: Any, kind: Any = TREES, M: int = 4, far: Any = (), past: Any = ()
    ) -> bool:
        m = Memory(kind, M, twin.attention([(0, 0)], 2), near=list(near), past=set(past))
        m.far |= set(far)
        return m.go(move)

    part, other, both = (s, (e0,)), (s, (e1,)), (s, (e1, e0))
    qk, score_v = ((q0, None), (k0, None)), (both, (v0, None))
    for kind in CLASSES:
        assert allowed(("Mul", e0, (), None), qk, kind, 3)
        assert allowed(("Mul", e0, (), None), qk, kind, 3, past=[e0]) == kind.again
        assert allowed(("Add", s, (e1,), (e0,), part), (part, other), kind) == kind.adds
    assert not allowed(("Mul", e0, (), None), qk, M=2)
    assert allowed(("Mul", e0, (), qk[0]), qk, M=2)  # over an operand
    assert not allowed(("Mul", e0, (), part), qk)
    assert not allowed(("Mul", e0, (), None), qk[:1])
    assert not allowed(("Mul", e0, (), None), qk[1:])
    assert not allowed(("Mul", ("E", 0, 1, 0), (), None), qk)
    assert allowed(("Mul", e0, (e1,), other), (*qk, other))
    assert not allowed(("Mul", e0, (e1,), qk[0]), qk)
    assert not allowed(("Mul", e0, (e0,), part), (*qk, part), RECOMPUTE)
    assert allowed(("Mul", f0, (), None), score_v)
    assert not allowed(("Mul", f0, (), None), (part, (v0, None)))
    assert not allowed(("Add", s, (e0,), (e1,), None), (part,))
    assert not allowed(("Add", s, (e0,), (e0,), None), (part, part))
    assert allowed(("Copy", part, None), (part,), SINGLE, 2)
    assert not allowed(("Copy", part, None), (part,), SINGLE, 1)
    assert not allowed(("Copy", other, None), (part,))
    assert allowed(("Read", part), (), far=[part])
    assert not allowed(("Read", part), ())
    for name in ("Write", "Free"):
        assert allowed((name, part), (part,))
        assert not allowed((name, part), (other,))


Q, K, V, S, O = (("Q", 0, 0), ("K", 0, 0), ("V", 0, 0), ("S", 0, 0), ("O", 0, 0))
FIRST, SECOND = ("E", 0, 0, 0), ("F", 0, 0, 0)
MADE = {FIRST, ("E", 0, 0, 1)}  # the score, d = 2
A, B, C, PRODUCT, OTHER = (
    ("A", 0, 0),
    ("B", 0, 0),
    ("C", 0, 0),
    ("Mul", 0, 0, 0),
    ("Mul", 0, 0, 1),
)
# fast, slow, done, M, an operation that is allowed; then what forbids it, one thing each.
RULES = (
    ({Q}, {K}, set(), 2, ("Load", K), {"slow": set(), "fast": {Q, K}, "M": 1}),
    ({Q}, set(), set(), 2, ("Store", Q), {"fast": {K}}),
    ({Q}, set(), set(), 2, ("Drop", Q), {"fast": {K}}),
    (
        {Q, K},
        set(),
        set(),
        3,
        ("Do", FIRST),
        {"M": 2, "fast": {K}, "fast ": {Q}, "done": {FIRST}, "done ": {("E", 0, 0, 1)}},
    ),
    ({Q, K, S}, set(), {("E", 0, 0, 1)}, 3, ("Do", FIRST), {"fast": {Q, K}, "done": MADE}),
    (
        {S, V},
        set(),
        MADE,
        3,
        ("Do", SECOND),
        {"M": 2, "fast": {S, K}, "fast ": {V}, "done": {FIRST}, "done ": {*MADE, SECOND}},
    ),
    ({S, V, O}, set(), {*MADE, ("F", 0, 1, 0)}, 3, ("Do", SECOND), {"fast": {S, V}}),
    (
        {Q, K},
        set(),
        set(),
        2,
        ("Over", (FIRST, K)),
        {
            "fast": {K},
            "fast ": {Q},
            "done": {FIRST},
            "done ": {("E", 0, 0, 1)},
            "fast  ": {Q, K, S},
            "op": ("Over", (FIRST, V)),
            "op ": ("Over", (FIRST, S)),
        },
    ),
    (
        {S, V},
        set(),
        MADE,
        2,
        ("Over", (SECOND, S)),
        {"fast": {S, K}, "done": {FIRST}, "done ": {*MADE, ("F", 0, 1, 0)}},
    ),
    (
        {A, B},
        set(),
        set(),
        3,
        ("Do", PRODUCT),
        {"M": 2, "fast": {A}, "fast ": {B}, "done": {PRODUCT}, "done ": {OTHER}},
    ),
    ({A, B, C}, set(), {OTHER}, 3, ("Do", PRODUCT), {"fast": {A, B}, "done": {OTHER, PRODUCT}}),
    ({A, B}, set(), set(), 2, ("Over", (PRODUCT, B)), {"done": {OTHER}, "fast": {A, C}}),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule[4][0]}-{len(rule[0])}-{rule[3]}")
def test_every_rule_forbids_by_itself(rocq: ModuleType, rule: Any) -> None:
    """One thing is changed, and what was allowed is refused: not for another reason."""
    from iosim_proofs.rocq import twin

    fast, slow, done, M, op, changes = rule
    right = {"fast": fast, "slow": slow, "done": done, "M": M, "op": op}
    task = twin.attention([(0, 0), (0, 1)], 2)
    if fast & {A, B}:
        task = twin.matrix_product(1, 1, 2)

    def allowed(fast: Any, slow: Any, done: Any, M: int, op: Any) -> bool:
        state = twin.State(set(fast), set(slow), set(done))
        return bool(twin.allowed(state, op, M, task))

    assert allowed(**right)
    for name, value in changes.items():
        assert not allowed(**{**right, name.strip(): value}), name


def test_a_value_that_is_out_of_date_cannot_be_loaded(rocq: ModuleType) -> None:
    from iosim_proofs.rocq import twin

    t = twin.attention([(0, 0)], 2)
    for op, left in ((("Do", FIRST), {Q, K, S}), (("Over", (FIRST, Q)), {K, S})):
        s = twin.State({Q, K, S}, {S}, {("E", 0, 0, 1)})
        twin.execute(s, op, t)
        assert S not in s.slow
        assert s.fast == left
        assert FIRST in s.done


def test_a_dropped_sum_cannot_be_loaded_again(rocq: ModuleType) -> None:
    from iosim_proofs.rocq import twin

    ops = [
        ("Load", ("Q", 0, 0)),
        ("Load", ("K", 0, 0)),
        ("Do", ("E", 0, 0, 0)),
        ("Drop", ("S", 0, 0)),
        ("Load", ("S", 0, 0)),
    ]
    t = twin.attention([(0, 0)], 1)
    assert twin.runs(ops[:-1], 3, t) is not None
    assert twin.runs(ops, 3, t) is None


@pytest.mark.parametrize("way", ["load", "store", "memory", "twice", "left out", "lost"])
def test_a_broken_product_is_refused_in_every_way(rocq: ModuleType, way: str) -> None:
    import random

    from iosim_proofs.rocq import schedules, twin

    rng = random.Random(0)
    own = [c for c in schedules.cases() if c.name == "matmul" and len(c.ops) > 9]
    assert len(own) > 15
    for case in own:
        assert case.computes()
        M, ops = schedules.broken(rng, case, way)
        assert (M, ops) != (case.M, list(case.ops))
        assert not twin.computes(ops, M, case.task)


def test_the_schedules_meet_masks_groups_and_splits(rocq: ModuleType) -> None:
    from iosim_proofs.rocq import schedules

    by: dict[str, set[int]] = {}
    for c in schedules.cases():
        by.setdefault(c.name, set()).add(len(c.task.outputs))
    for name in (
        "matmul",
        "decode",
        "split_kv",
        "grouped_rows",
        "small_tiles",
        "flash2_log",
        "flash2_parts",
    ):
        assert name in by
    masked = [p for p in schedules.PROBLEMS if getattr(p, "mask", None)]
    assert len(masked) == 3
    for problem in masked:  # its own closed form beside pairs one by one
        assert (
            len(schedules.list_pairs(problem)) * problem.heads == problem.pairs < problem.N**2 * 4
        )


@pytest.mark.numbers
def test_the_least_cost_notices_a_wrong_solver(
    rocq: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from iosim_proofs.rocq import schedules

    real = schedules.solved
    monkeypatch.setattr(schedules, "TINY", (3,))
    monkeypatch.setattr(schedules, "solved", lambda *at: (real(*at)[0] - 1, []))
    assert run_step("rocq", schedules.tiny_optimum).status == "failed"


def test_the_least_cost_with_results_over_operands_is_less(rocq: ModuleType) -> None:
    """By hand: 2 × 1 × 1 in two words loads B again; one product in two words moves three."""
    from iosim_proofs.rocq import searched, twin

    assert searched.least(twin.matrix_product(1, 1, 1), 2, over=True) == 3
    assert searched.least(twin.matrix_product(2, 1, 1), 2, over=True) == 5
    assert searched.least(twin.matrix_product(2, 1, 1), 3) == 5
    assert searched.least(twin.attention([(0, 0)], 1), 2, over=True) == 4
    assert searched.least(twin.attention([(0, 0)], 1), 2) is None


# ---------------------------------------------------------------- without Coq


def test_without_coq_its_steps_are_not_run_and_say_how(
    rocq: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from iosim_proofs.rocq import building

    monkeypatch.setattr(building.shutil, "which", lambda name: None)
    building._built.cache_clear()
    own = [s for s in steps(rocq) if s.name.startswith("coq-") or s.name == "model-mutants"]
    assert len(own) == 7
    try:
        results = [run_step("rocq", one) for one in own]
    finally:
        building._built.cache_clear()
    for result in results:
        assert (result.status, result.optional) == ("not run", True)
        assert result.detail == f"needs Coq: {building.INSTALL}"


def test_a_step_for_a_missing_program_leaves_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Coq would check is reported, and no failure; a missing solver is one, as before."""
    from click.testing import CliRunner

    from iosim.cli.bounding import prove

    def missing(what: Exception) -> Any:
        def fn() -> str:
            raise what

        return proof.Step("x", "proved", "x", fn)

    def exit_code(what: Exception) -> int:
        monkeypatch.setattr(proof, "steps", lambda module: (missing(what),))
        return CliRunner().invoke(prove, ["rocq", "--workers", "1"]).exit_code

    assert exit_code(proof.NotInstalled("Coq", "apt-get install coq")) == 0
    assert exit_code(ModuleNotFoundError("no z3", name="z3")) == 1


# ---------------------------------------------------------------- with Coq


@needs_coq
@pytest.mark.numbers
def test_coq_checks_it(rocq: ModuleType) -> None:
    from iosim_proofs.rocq import building

    own = [s for s in steps(rocq) if s.name.startswith("coq-") or s.name == "classes-agree"]
    assert len(own) == 7
    results = [run_step("rocq", one) for one in own]
    assert [(r.step, r.detail) for r in results if r.status != "passed"] == []
    # A larger constant is not provable by the same proof, and another answer is noticed.
    folder = building.built()
    text = (FOLDER / "theorems.v").read_text(encoding="utf-8")
    wrong = text.replace("-> 4 * size pairs * d ^ 2 <= cost", "-> 5 * size pairs * d ^ 2 <= cost")
    assert wrong != text
    (folder / "wrong.v").write_text(wrong, encoding="utf-8")
    with pytest.raises(AssertionError, match=r"wrong\.v"):
        building.coq(folder, "wrong.v")
    (folder / "axiom.v").write_text("Axiom no : False. Print Assumptions no.", encoding="utf-8")
    assert "no : False" in building.coq(folder, "axiom.v")


@needs_coq
@pytest.mark.numbers
def test_coq_notices_a_twin_that_differs(rocq: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from iosim_proofs.rocq import building, twin

    monkeypatch.setattr(twin, "allowed", without(twin, "once"))
    monkeypatch.setattr(building, "CASES", 200)
    result = run_step("rocq", building.coq_agrees)
    assert result.status == "failed"
    assert "agrees.v" in str(result.detail)


def test_every_mutant_is_a_change_of_the_model(rocq: ModuleType) -> None:
    from iosim_proofs.rocq import mutants

    real = (FOLDER / "model.v").read_text(encoding="utf-8")
    texts = {mutants.changed(old, new) for _, old, new in mutants.MUTANTS}
    assert len(texts | {real}) == len(mutants.MUTANTS) + 1
    assert len({name for name, _, _ in mutants.MUTANTS}) == len(mutants.MUTANTS)


@needs_coq
@pytest.mark.numbers
@pytest.mark.parametrize("name", ["a result over an operand that stays", "a product twice"])
def test_coq_and_the_twin_notice_a_mutant_of_the_model(rocq: ModuleType, name: str) -> None:
    from iosim_proofs.rocq import mutants

    (mutant,) = (m for m in mutants.MUTANTS if m[0] == name)
    assert mutants.noticed(*mutant[1:]) == ["proofs", "twin"]
    comment = ("free word or in the place of", "free word or the place of")
    assert mutants.noticed(*comment) == []  # nothing but a comment: nobody is to notice


@needs_coq
@pytest.mark.numbers
@pytest.mark.parametrize("rule", ["room", "finished", "disjoint"])
def test_coq_notices_a_twin_of_the_classes_that_differs(
    rocq: ModuleType, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from iosim_proofs.rocq import classes, simulated

    simulated.draw_executions()  # before anything is changed
    monkeypatch.setattr(classes, "Memory", lacking(classes, rule))
    monkeypatch.setattr(simulated, "CASES", 100)
    result = run_step("rocq", simulated.classes_agree)
    assert result.status == "failed"
    assert "classes_agree.v" in str(result.detail)


@needs_coq
@pytest.mark.numbers
def test_make_checks_all_from_nothing(tmp_path: Path) -> None:
    """With an answer that is not the recorded one, make fails."""
    for name in ("Makefile", "_CoqProject", "assumptions.txt", *(f.name for f in SOURCES)):
        shutil.copy(FOLDER / name, tmp_path)
    (tmp_path / "_CoqProject").write_text("-Q . iosim\nmodel.v\n")
    (tmp_path / "assumptions.v").write_text("Print Assumptions nat.\n")

    def make() -> int:
        return subprocess.run(["make", "-C", str(tmp_path)], capture_output=True).returncode

    assert make() != 0
    (tmp_path / "assumptions.txt").write_text("Closed under the global context\n")
    assert make() == 0


def test_statements_that_the_page_names_are_in_the_files() -> None:
    """In the table of `constant_tight.md`: a name is proved in some file, a file is there."""
    page = (ROOT / "proofs" / "constant_tight.md").read_text(encoding="utf-8")
    table = page.split("| statement | in `proofs/rocq` |\n|---|---|\n")[1].split("\n\n")[0]
    table = "\n".join(row.split("|")[2] for row in table.splitlines())
    files = {path.name: path.read_text() for path in (ROOT / "proofs" / "rocq").glob("*.v")}
    proved = r"^\s*(?:Theorem|Corollary|Lemma|Fact) {}\b"
    for name in re.findall(r"`([\w.]+)`", table):
        found = name in files or any(
            re.search(proved.format(name), text, re.M) for text in files.values()
        )
        assert found, name
