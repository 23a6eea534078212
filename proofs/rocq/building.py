"""What Coq checks: every file from nothing, what the theorems rest on, and schedules in the model."""

from __future__ import annotations

import functools
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

from iosim.checks.proof import NotInstalled, require, step
from iosim_proofs.rocq import schedules, twin

FOLDER = Path(__file__).parent
INSTALL = "apt-get install -y --no-install-recommends coq libcoq-mathcomp-algebra"
CASES = 2000  # schedules that Coq itself executes
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
def built() -> tempfile.TemporaryDirectory[str]:
    """A folder in which all files have been checked; AssertionError if one is rejected."""
    folder = tempfile.TemporaryDirectory()
    for name in (*files(), "assumptions.v"):
        shutil.copy(FOLDER / name, folder.name)
    for name in files():
        coq(Path(folder.name), name)
    return folder


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


def rests(theorems: set[str]) -> None:
    """Require that the theorems are checked, and rest on what assumptions.txt says."""
    folder = Path(built().name)
    found = assumptions(folder)
    expected = separated((FOLDER / "assumptions.txt").read_text(encoding="utf-8"))
    for (name, said), recorded in zip(found.items(), expected, strict=True):
        require(said == recorded, f"{name} rests on {said!r}, recorded is {recorded!r}")
    require(theorems <= set(found), f"nothing is said of {sorted(theorems - set(found))}")


@step(
    "coq-matrix-product",
    how="proved",
    says="one accumulator per entry: loads + stores ≥ 2mnk/√M − M (Theorem 1 and its corollary)",
)
def coq_matrix_product() -> str:
    """product.v; the statement over the natural numbers needs no axiom."""
    rests({"product_words", "matrix_product_tight", "matrix_product_irony"})
    return "all m, n, k, M and schedules of model.v, by Coq"


@step(
    "coq-attention-once",
    how="proved",
    says="Theorem 2, once: loads + stores ≥ 4HN²d²/M for M ≥ 5d²/2, for any set of pairs alike",
)
def coq_attention_once() -> str:
    """once.v with segment_cap.v; Coq's axioms of the reals."""
    rests({"attention_pairs", "attention_heads", "attention_causal", "attention_once"})
    return "all H, N, d, M ≥ 5d²/2, sets of pairs and schedules of model.v, by Coq"


HEADER = """From mathcomp Require Import all_ssreflect.
From iosim Require Import model.
Definition verdict M pairs d (ops : seq (op aword_eqType aproduct_eqType)) :=
  let t := attention pairs d in
  (isSome (run M t (start t) ops), computes M t ops, cost ops).
"""


@step(
    "coq-agrees",
    how="sampled",
    says="the model in Coq and its twin in Python say the same of a schedule: allowed, computes, cost",
)
def coq_agrees() -> str:
    """Schedules that compute, broken ones, and random ones, executed by Coq."""
    rng = random.Random(SEED)
    lines, accepted, halted = [HEADER], 0, 0
    base = schedules.short()
    for _ in range(CASES):
        case = rng.choice(base)
        M, ops = case.M, list(case.ops)
        way = rng.choice(("as it is", "broken", "random"))
        if way == "broken":
            M, ops = schedules.broken(rng, case)
        elif way == "random":
            ops = schedules.wandering(rng, case)
        done = twin.computes(ops, M, case.pairs, case.d)
        runs = schedules.runs(ops, M, case.pairs, case.d)
        accepted += done
        halted += not runs
        pairs = f"(heads {case.H} {case.N})"
        said = f"({str(runs).lower()}, {str(done).lower()}, {twin.cost(ops)})"
        lines.append(
            f"Goal verdict {M} {pairs} {case.d} {twin.term(ops)} = {said}.\n"
            "Proof. by vm_compute. Qed."
        )
    folder = Path(built().name)
    (folder / "agrees.v").write_text("\n".join(lines), encoding="utf-8")
    coq(folder, "agrees.v")
    require(CASES // 5 < accepted < CASES and halted > CASES // 5, "the cases are too much alike")
    return f"{CASES} schedules, {accepted} that compute, {halted} not allowed, seed {SEED}"
