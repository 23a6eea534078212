"""Mutants of model.v: each rule changed a little, which a proof or the twin has to notice."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from iosim.report.proof import require, step

from . import building

# What is changed, the text of model.v, and what takes its place.
MUTANTS = (
    ("a load of what is not in slow memory", "w \\in slow s, w \\notin", "w \\notin"),
    ("a load of what is there", "w \\in slow s, w \\notin fast s &", "w \\in slow s &"),
    (
        "a load in M + 1 words",
        "w \\notin fast s & size (fast s) < M]",
        "w \\notin fast s & size (fast s) <= M]",
    ),
    (
        "a store of what is not there",
        "| Store w =>\n      if w \\in fast s",
        "| Store w =>\n      if true",
    ),
    (
        "a store that frees the word",
        "Some (State (fast s) (w :: slow s) (done s))",
        "Some (State (rem w (fast s)) (w :: slow s) (done s))",
    ),
    (
        "a drop of slow memory's copy, too",
        "Some (State (rem w (fast s)) (slow s) (done s))",
        "Some (State (rem w (fast s)) (rem w (slow s)) (done s))",
    ),
    ("other products", "[&& p \\in products t, p \\notin done s", "[&& p \\notin done s"),
    ("a product twice", "p \\in products t, p \\notin done s,", "p \\in products t,"),
    ("a left operand elsewhere", "left t p \\in fast s, finished", "finished"),
    ("a left operand that is not finished", "finished s (left t p),", ""),
    (
        "a right operand elsewhere",
        "finished s (left t p),\n      right t p \\in fast s & finished",
        "finished s (left t p) & finished",
    ),
    ("a sum restarted", "~~ started s w && (size (fast s) < M)", "(size (fast s) < M)"),
    ("a start in M + 1 words", "~~ started s w && (size (fast s) < M)", "~~ started s w"),
    ("a start where the sum is", "~~ started s w && (size (fast s) < M)", "false"),
    ("a sum out of date that stays", "(filter (predC1 (sum t p)) (slow s))", "(slow s)"),
    ("a product that is not noted", "(slow s)) (p :: done s)", "(slow s)) (done s)"),
    ("a result over any word", "x \\in [:: left t p; right t p], w", "w"),
    ("a result over an operand that stays", "w :: rem x (fast s)", "w :: fast s"),
    (
        "a result over an operand, restarted",
        "w \\notin fast s & ~~ started s w]",
        "w \\notin fast s & true]",
    ),
    ("a result that is there twice", "right t p], w \\notin fast s &", "right t p] &"),
    ("products left out", "all (mem (done s)) (products t) &&", ""),
    ("outputs left out", "&& all (mem (slow s)) (outputs t)", ""),
    ("stores for nothing", "Load _ | Store _ => true", "Load _ => true"),
    ("loads for nothing", "Load _ | Store _ => true", "Store _ => true"),
    ("inputs in fast memory", "State [::] (inputs t) [::]", "State (inputs t) (inputs t) [::]"),
    ("another operand", "match p with E i j c => K j c", "match p with E i j c => K i c"),
    ("another sum", "let: Mul i j l := p in C i j", "let: Mul i j l := p in C i l"),
    ("a shorter inner sum", "l <- iota 0 k];\n     left", "l <- iota 0 k.-1];\n     left"),
)
PROOFS = ("machine.v", "product.v", "possible.v")  # after segments.v; they take a second or two
CASES, LONGEST = 150, 40


def changed(old: str, new: str) -> str:
    """model.v with one place changed."""
    text = (building.FOLDER / "model.v").read_text(encoding="utf-8")
    require(text.count(old) == 1, f"{old!r} is in model.v {text.count(old)} times")
    return text.replace(old, new)


def noticed(old: str, new: str) -> list[str]:
    """Who notices the change: "proofs" and "twin"; or "no model", if it is none to Coq."""
    folder = Path(tempfile.mkdtemp(prefix="iosim-rocq-mutant-"))
    try:
        (folder / "model.v").write_text(changed(old, new), encoding="utf-8")
        for name in ("segments.v", *PROOFS):
            shutil.copy(building.FOLDER / name, folder)
        if not _accepted(folder, "model.v"):
            return ["no model"]
        found = (
            [] if all(_accepted(folder, name) for name in ("segments.v", *PROOFS)) else ["proofs"]
        )
        try:
            building.agreement(folder, CASES, LONGEST)
        except AssertionError:
            found.append("twin")
        return found
    finally:
        shutil.rmtree(folder)


def _accepted(folder: Path, name: str) -> bool:
    try:
        building.coq(folder, name)
    except AssertionError:
        return False
    return True


@step(
    "model-mutants",
    how="exhaustive",
    says="each rule of model.v, changed, makes a proof fail, or a schedule that the twin judges",
)
def model_mutants() -> str:
    """machine.v, product.v and possible.v, then schedules that Coq executes."""
    by = {name: noticed(old, new) for name, old, new in MUTANTS}
    missed = [name for name, who in by.items() if who in ([], ["no model"])]
    require(not missed, f"not noticed, or no model at all: {', '.join(missed)}")
    counts = [sum(who in found for found in by.values()) for who in ("proofs", "twin")]
    return f"{len(MUTANTS)} mutants, {counts[0]} of them noticed by proofs, {counts[1]} by the twin"
