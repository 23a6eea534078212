"""What Coq checks: all files from nothing, what the theorems rest on, schedules in the model."""

from __future__ import annotations

import atexit
import functools
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

from iosim.report.proof import NotInstalled, require, step

from . import schedules, twin

FOLDER = Path(__file__).parent
INSTALL = "apt-get install -y --no-install-recommends coq libcoq-mathcomp-ssreflect make"
CASES = 2000  # schedules that Coq itself executes
TOGETHER = 50  # of them, in one goal
SEED = 19
SECONDS = 900


def files() -> list[str]:
    """The files of the development, in the order in which they are checked."""
    lines = (FOLDER / "_CoqProject").read_text(encoding="utf-8").split()
    return [line for line in lines if line.endswith(".v")]


def coq(folder: Path, name: str) -> str:
    """What coqc prints for a file; AssertionError if it is rejected, NotInstalled without Coq."""
    if shutil.which("coqc") is None:
        raise NotInstalled("Coq", INSTALL)
    command = ["coqc", "-q", "-w", "none", "-Q", ".", "iosim", name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    if "mathcomp" in done.stderr and "annot find a physical path" in done.stderr:
        raise NotInstalled("mathcomp", INSTALL)
    why = " ".join(done.stderr.split())
    require(done.returncode == 0, f"coqc {name}: {why}")
    return done.stdout


@functools.cache
def _built() -> tuple[Path, Exception | None]:
    folder = Path(tempfile.mkdtemp(prefix="iosim-rocq-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        for name in (*files(), "assumptions.v"):
            shutil.copy(FOLDER / name, folder)
        for name in files():
            coq(folder, name)
    except Exception as error:
        return folder, error
    return folder, None


def built() -> Path:
    """A folder in which all files have been checked, once; the error if one is rejected."""
    folder, error = _built()
    if error is not None:
        raise error
    return folder


@functools.cache
def assumptions(folder: Path) -> dict[str, str]:
    """Theorem → what it rests on, as Coq prints it."""
    asked = [
        line.split()[-1].rstrip(".")
        for line in (folder / "assumptions.v").read_text(encoding="utf-8").splitlines()
        if line.startswith("Print Assumptions ")
    ]
    said = separated(coq(folder, "assumptions.v"))
    require(len(said) == len(asked), f"{len(said)} answers to {len(asked)} questions")
    return dict(zip(asked, said, strict=True))


def separated(printed: str) -> list[str]:
    """One answer for each question."""
    answers: list[str] = []
    for line in printed.splitlines():
        if line.startswith(("Closed", "Axioms")):
            answers.append(line)
        else:
            answers[-1] += f"\n{line}"
    return answers


def require_checked(theorems: set[str]) -> None:
    """Require that the theorems are checked, and rest on what assumptions.txt says."""
    folder = built()
    found = assumptions(folder)
    expected = separated((FOLDER / "assumptions.txt").read_text(encoding="utf-8"))
    for (name, said), recorded in zip(found.items(), expected, strict=True):
        require(said == recorded, f"{name} rests on {said!r}, recorded is {recorded!r}")
    require(theorems <= set(found), f"nothing is said of {sorted(theorems - set(found))}")


@step(
    "coq-matrix-product",
    how="proved",
    says="loads + stores ≥ 2mnk/√M − M (corollary): any trees of additions, products made again",
)
def coq_matrix_product() -> str:
    """product.v, product_classes.v; the statements over the natural numbers need no axiom."""
    require_checked(
        {
            "product_words",
            "matrix_product_tight",
            "matrix_product_irony",
            "product_possible",
            "product_every_class",
            "matrix_product_every_class",
        }
    )
    return "all m, n, k, M and schedules of model.v and classes.v, by Coq"


@step(
    "coq-sweeps",
    how="proved",
    says="Theorems 1 to 3 of sweep_order: any order of each sweep, any policy; LRU attains it",
)
def coq_sweeps() -> str:
    """sweeps.v; nothing but Coq."""
    require_checked(
        {
            "any_order_any_policy",
            "equal_sweeps",
            "lru_is_a_policy",
            "cyclic_order",
            "alternating_order",
            "handed_over",
            "growing_sets",
        }
    )
    return "all sets, cache sizes, orders and policies without prefetching, by Coq"


@step(
    "coq-attention-once",
    how="proved",
    says="Theorem 2, once: loads + stores ≥ 4HN²d²/M for M ≥ 5d²/2; any pairs and d_v",
)
def coq_attention_once() -> str:
    """once.v with segment_cap.v; Coq's axioms of the reals."""
    require_checked(
        {
            "attention_pairs_widths",
            "attention_pairs",
            "attention_heads",
            "attention_causal",
            "attention_once",
            "attention_possible_widths",
            "attention_possible",
        }
    )
    return "all H, N, d, d_v, M ≥ 5(d + d_v)²/8, sets of pairs and schedules of model.v, by Coq"


@step(
    "coq-attention-trees",
    how="proved",
    says="Theorem 2, trees: loads + stores ≥ 4HN²d²/M for M ≥ 5d²/2; any pairs and d_v",
)
def coq_attention_trees() -> str:
    """stays.v and trees.v with segment_cap.v; Coq's axioms of the reals."""
    require_checked(
        {
            "trees_pairs_widths",
            "trees_pairs",
            "attention_trees",
            "class_sub",
            "once_in_class",
            "class_possible",
        }
    )
    return "all H, N, d, d_v, M ≥ 5(d + d_v)²/8, sets of pairs and schedules of classes.v, by Coq"


@step(
    "coq-attention-classes",
    how="proved",
    says="Theorem 4, all four classes: loads + stores ≥ 4HN²d²/M for M ≥ 4d²; any pairs and d_v",
)
def coq_attention_classes() -> str:
    """stays.v and recompute.v; Coq's axioms of the reals."""
    require_checked({"every_class_widths", "every_class_pairs", "attention_every_class"})
    return "all H, N, d, d_v, M ≥ 2d(d + d_v), sets of pairs and schedules of classes.v, by Coq"


HEADER = """From mathcomp Require Import all_ssreflect.
From iosim Require Import model.
Definition says {word product : eqType} (t : task word product) M (ops : seq (op word product))
    (runs done : bool) (words : nat) : bool :=
  [&& isSome (run M t (start t) ops) == runs, computes M t ops == done & cost ops == words].
"""
# The operations on the words of attention begin with a, those of the matrix product with m.
TYPED = """Definition {0}Load w := @Load {0}word_eqType {0}product_eqType w.
Definition {0}Store w := @Store {0}word_eqType {0}product_eqType w.
Definition {0}Drop w := @Drop {0}word_eqType {0}product_eqType w.
Definition {0}Do p := @Do {0}word_eqType {0}product_eqType p.
Definition {0}Over p w := @Over {0}word_eqType {0}product_eqType p w.
"""


def draw_schedule(rng: random.Random, case: schedules.Case) -> tuple[int, list[twin.Op]]:
    """M and a schedule: the project's, one with results over operands, a broken or a random one."""
    way = rng.choice(("as it is", "over", "broken", "broken", "random", "random"))
    if way == "broken":
        return schedules.broken(rng, case)
    if way == "random":
        return case.M, schedules.wandering(rng, case)
    return case.M, schedules.over(case) if way == "over" else list(case.ops)


def agreement(folder: Path, cases: int, longest: int = 100) -> tuple[int, int]:
    """How many schedules compute, and how many are not allowed: the same in Coq and in the twin.

    They are made from the project's own of fewer than `longest` operations.  Raises AssertionError
    where Coq's `model.v` of a folder says something else of one of them.
    """
    rng = random.Random(SEED)
    base, claims, accepted, halted = schedules.short(longest), [], 0, 0
    for _ in range(cases):
        case = rng.choice(base)
        M, ops = draw_schedule(rng, case)
        done, runs = (f(ops, M, case.task) for f in (twin.computes, twin.runs))
        accepted, halted = accepted + bool(done), halted + (runs is None)
        said = f"{str(runs is not None).lower()} {str(done).lower()} {twin.cost(ops)}"
        task = case.task.coq
        claims.append(f"says ({task}) {M} {twin.term(ops, task[0])} {said}")
    lines = [HEADER, *(TYPED.format(letter) for letter in "am")]
    for k in range(0, cases, TOGETHER):
        lines += ["Goal [&& true, ", ",\n".join(claims[k : k + TOGETHER]), "& true]."]
        lines += ["Proof. vm_cast_no_check (erefl true). Qed."]
    (folder / "agrees.v").write_text("\n".join(lines), encoding="utf-8")
    coq(folder, "agrees.v")
    return accepted, halted


@step(
    "coq-agrees",
    how="sampled",
    says="Coq's model and its twin in Python say the same of a schedule: allowed, computes, cost",
)
def coq_agrees() -> str:
    """Schedules that compute, broken ones, and random ones, executed by Coq."""
    accepted, halted = agreement(built(), CASES)
    require(CASES // 5 < accepted < CASES and halted > CASES // 5, "the cases are too similar")
    return f"{CASES} schedules, {accepted} that compute, {halted} not allowed, seed {SEED}"
