"""Every inequality of proofs/constant_tight.md and constant_tight_spills.md has a mutant that a
check kills: one table.

A mutant is a claim that is a little too strong, a face left out, or a wrong coefficient.  To add
one: a line in `MUTANTS`, and for the accounting's inequalities a name in `constants.STRONGER`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from iosim.bounds.unified import boxes, caps, pv_products
from iosim.report.proof import load_theorem, run_step, steps

pytestmark = pytest.mark.numbers

Plant = Callable[[ModuleType, pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutant:
    """What is planted, the steps that must fail, and what one of them must say."""

    name: str
    plant: Plant
    killed_by: tuple[str, ...]
    says: str = ""
    theorem: str = "constant_tight"


def stronger(name: str, by: float = 0.5) -> Plant:
    """Whole numbers: half a unit more is what the next whole number is."""
    return lambda module, patch: patch.setitem(module.constants.STRONGER, name, by)


def constant(name: str, value: Any) -> Plant:
    return lambda module, patch: patch.setattr(module.constants, name, value)


def result(owner: Any, name: str, spoil: Callable[[Any], Any]) -> Plant:
    """A function's result is spoilt; `owner` is a module, or the name of one of the proof's."""

    def plant(module: ModuleType, patch: pytest.MonkeyPatch) -> None:
        target = getattr(module, owner) if isinstance(owner, str) else owner
        original = getattr(target, name)
        patch.setattr(target, name, lambda *a, **k: spoil(original(*a, **k)))

    return plant


def without(face: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A face left out of the list."""
    return lambda faces: {name: value for name, value in faces.items() if name != face}


def smaller(face: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A face that is 2% too small."""
    return lambda faces: {
        name: value - 0.02 * np.abs(value) if name == face else value
        for name, value in faces.items()
    }


def ends_only(*numbers: Any) -> Any:
    """A cubic's maximum at the ends alone."""
    a3, a2, a1, lo, hi = numbers
    at = [((a3 * P + a2) * P + a1) * P for P in (lo, hi)]
    return np.where(lo <= hi, np.maximum(*at), -np.inf)


def ridge_ends(*numbers: Any) -> Any:
    """A mixed face's maximum at the ends alone."""
    k, a, b, e, lo, hi = numbers
    top = np.maximum(lo, hi)
    at = [k * u - a * u * u + (b / u + e) / u for u in (lo, top)]
    return np.where(lo <= hi, np.maximum(*at), -np.inf)


def replaced(owner: Any, name: str, by: Any) -> Plant:
    def plant(module: ModuleType, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(getattr(module, owner) if isinstance(owner, str) else owner, name, by)

    return plant


def charged(name: str) -> Plant:
    """ℓ with products counted one hundredth too dear: 1.01 for 1 at E."""

    def plant(module: ModuleType, patch: pytest.MonkeyPatch) -> None:
        original = getattr(module.faces, name)

        def spoilt() -> Any:
            ell, *rest = original()
            _, _, P, p, *_ = module.faces._symbols()
            return (ell + P * p / 100, *rest)

        patch.setattr(module.faces, name, spoilt)

    return plant


def at_face(klass: str, face: str, spoil: Callable[[dict[str, Any]], dict[str, Any]]) -> Plant:
    """The faces of a class are spoilt, and the check looks at the point of one of them."""

    def plant(module: ModuleType, patch: pytest.MonkeyPatch) -> None:
        binding = module.binding
        patch.setattr(binding, "BINDING", {klass: {face: binding.BINDING[klass][face]}})
        original = getattr(caps, f"{klass}_faces")
        patch.setattr(caps, f"{klass}_faces", lambda *a: spoil(original(*a)))

    return plant


SIMULATED = ("accounting-once", "accounting-recompute", "trees")
FACES = {"once": ["inside", "paid", "free", "full", "mixed"]}
FACES["recompute"] = [
    "inside",
    "B",
    *(f"{x}, {y}" for x in "ACD" for y in ("paid", "free", "full", "mixed")),
]

MUTANTS = [
    # Lemmas 1 to 5 and 8, on executions
    Mutant("events < Q", stronger("events"), SIMULATED, "events"),
    Mutant("Lemma 1: q + k + v + o + a < M + S", stronger("words"), SIMULATED, "words"),
    Mutant(
        "y < M − 1, and M − 2 where results have words",
        stronger("free starts"),
        SIMULATED,
        "free starts",
    ),
    Mutant("Lemma 2: d²C < qk", stronger("inner, Q and K"), SIMULATED, "inner, Q and K"),
    Mutant(
        "Lemma 2: d²C < ov",
        stronger("inner, O and V"),
        ("accounting-once", "trees"),
        "inner, O and V",
    ),
    *(
        Mutant(
            f"Lemma 3, {which}: {name}", stronger(f"{name}, {which}"), SIMULATED, f"{name}, {which}"
        )
        for which in ("first", "second")
        for name in ("all products of pairs", "Loomis and Whitney")
    ),
    Mutant("ΣE > Πd", stronger("every first product"), SIMULATED, "every first product"),
    Mutant("ΣF > Πd", stronger("every second product"), SIMULATED, "every second product"),
    Mutant("Σy < Σa", stronger("next visits"), SIMULATED, "next visits"),
    Mutant("d·Σ(y + C) < ΣE, or Πd", stronger("pairs once"), SIMULATED, "pairs once"),
    Mutant("K > M + S(n − 1) + 1", stronger("segments"), ("cutting",), "segments"),
    Mutant(
        "Lemma 5: lives may overlap",
        lambda module, patch: patch.setattr(module.accounting, "disjoint", lambda runs: True),
        ("two-runs",),
    ),
    # Lemma 3
    Mutant(
        "Lemma 3: 1.02·dpP",
        constant("SHARP", 1.02),
        ("one-column", "sharpened-loomis-whitney", "sharpened-loomis-whitney-larger"),
    ),
    Mutant("Lemma 3: columns together, 0.99", constant("TOGETHER", 0.99), ("columns-together",)),
    # Lemmas 6 and 7: ℓ, each face, peaks and ridges
    Mutant("Lemma 6: ℓ", charged("_once_charge"), ("once-affine", "once-faces")),
    Mutant("Lemma 7: ℓ", charged("_recompute_charge"), ("recompute-edges", "recompute-faces")),
    *(
        Mutant(
            f"{klass}: {kind} {face}",
            at_face(klass, face, change(face)),
            ("each-face",),
            f"{klass}, {face}: the search finds",
        )
        for klass, names in FACES.items()
        for face in names
        for kind, change in (("without", without), ("2% less", smaller))
    ),
    Mutant(
        "evaluator: a peak at its ends",
        replaced(caps, "_peak", ends_only),
        ("each-face",),
        "of the cap",
    ),
    Mutant(
        "evaluator: a ridge at its ends",
        replaced(caps, "_ridge", ridge_ends),
        ("each-face",),
        "of the cap",
    ),
    Mutant(
        "evaluator: caps 0.5% too small",
        result(caps, "recompute_faces", lambda f: {k: 0.995 * v for k, v in f.items()}),
        ("caps-against-search",),
        "of the cap",
    ),
    Mutant(
        "evaluator: segments 1% longer",
        result(pv_products, "second_cap", lambda c: 0.99 * c),
        ("second-shapes",),
        "of the cap",
    ),
    # Theorems 2 to 4, the remark on trees
    Mutant("Theorem 2: 4.01", constant("CONSTANT", 4.01), ("four-once", "four-recompute")),
    Mutant(
        "Theorem 2 with S = M from 2.4d², 4d² on",
        constant("FROM", {"once": Fraction(24, 10), "recompute": Fraction(4)}),
        ("four-once", "four-recompute"),
    ),
    Mutant("Theorem 2, one segment", constant("CONSTANT", 8.1), ("few-segments",)),
    Mutant("Theorem 3: 4.01", constant("CONSTANT", 4.01), ("small-memory",)),
    Mutant(
        "Theorem 4: a cap 1% smaller",
        constant("SECOND", 0.99),
        ("second-products", "recompute-trees"),
    ),
    Mutant("Remarks: 8%", constant("RECOMPUTING", 0.08), ("recomputation",)),
    Mutant("2.01J − 1 transfers", constant("STAY", 2.01), ("stays",)),
]


SPILLS = ("spills-once", "spills-trees")
KINDS = [
    "spilled, begun before",
    "spilled, begun, no second products",
    "spilled, whole",
    "unspilled, begun before",
    "Y",
    "W, inner",
    "W, staying",
]


def cheaper(place: int) -> Plant:
    """One of Lemma 5's conditions lacks a hundredth of what it must cover."""

    def plant(module: ModuleType, patch: pytest.MonkeyPatch) -> None:
        original = boxes.conditions

        def spoilt(weights: Any, prices: Any) -> list[Any]:
            found = original(weights, prices)
            return [cost + (k == place) * prices.theta / 100 for k, cost in enumerate(found)]

        patch.setattr(boxes, "conditions", spoilt)

    return plant


# Theorem 5: Lemmas 1 to 4 on executions, the conditions of Lemma 5, the caps of Lemma 6.
MUTANTS += [
    replace(mutant, theorem="constant_tight_spills")
    for mutant in (
        *(
            Mutant(
                f"spills: {name}, a half more",
                stronger(name),
                SPILLS[1:] if name == "words from before" else SPILLS,
                name,
            )
            for name in load_theorem("constant_tight_spills").constants.STRONGER
        ),
        Mutant("spills: 3 for a stay", constant("STAY", 3), SPILLS[:1]),
        Mutant("spills: S for a full segment", constant("SHORT", 0), SPILLS),
        Mutant("spills, Lemma 4: 1.3·dpA", constant("SHARP", 1.3), SPILLS),
        Mutant("spills, Lemma 4: 0.7·dpA", constant("SHARP", 0.7), ("spill-products",)),
        *(
            Mutant(
                f"spills, Lemma 5 without a condition: {kind}",
                constant("LEFT_OUT", place),
                ("spill-kinds",),
                "Lemma 5 says",
            )
            for place, kind in enumerate(KINDS)
        ),
        *(
            Mutant(
                f"spills, Lemma 5, a cheaper condition: {kind}", cheaper(place), ("spill-prices",)
            )
            for place, kind in enumerate(KINDS)
        ),
    )
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_check_kills_it(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("z3")
    module = load_theorem(mutant.theorem)
    mutant.plant(module, monkeypatch)
    results = {
        one.name: run_step(mutant.theorem, one)
        for one in steps(module)
        if one.name in mutant.killed_by
    }
    assert set(results) == set(mutant.killed_by)
    assert {name for name, one in results.items() if one.status != "failed"} == set()
    assert all(mutant.says in (one.detail or "") for one in results.values())


@pytest.mark.parametrize("theorem", ["constant_tight", "constant_tight_spills"])
def test_every_inequality_has_a_mutant(theorem: str) -> None:
    module = load_theorem(theorem)
    patched: dict[str, float] = {}
    for mutant in MUTANTS:
        if mutant.theorem != theorem:
            continue
        with pytest.MonkeyPatch.context() as patch:
            before = dict(module.constants.STRONGER)
            if mutant.killed_by != ("each-face",) and "evaluator" not in mutant.name:
                mutant.plant(module, patch)
            patched |= {k: v for k, v in module.constants.STRONGER.items() if v != before[k]}
    assert set(patched) == set(module.constants.STRONGER)


def test_every_face_has_a_mutant() -> None:
    module = load_theorem("constant_tight")
    points = {klass: set(names) for klass, names in module.binding.BINDING.items()}
    assert points == {klass: set(names) for klass, names in FACES.items()}
