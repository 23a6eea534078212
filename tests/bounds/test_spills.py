"""Theorem 5, spilled and unspilled scores apart: its proof's steps, records, and planted errors."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from sizes import draws

from experiments import spill_records
from iosim.bounds import unified
from iosim.bounds.unified import boxes, lower_bound, lower_bound_many, spills
from iosim.report.proof import load_theorem, run, run_step, statement, steps

pytestmark = pytest.mark.numbers
NAME = "constant_tight_spills"
LARGE = 2**18


def fewer(share: int, records: int):
    module = load_theorem(NAME)
    for name in ("EXECUTIONS", "TREE_EXECUTIONS", "SHAPES"):
        setattr(module.constants, name, getattr(module.constants, name) // share)
    module.constants.RECORDS = records
    return module


@pytest.mark.parametrize(
    ("share", "records"), [(8, 20), pytest.param(1, 1, marks=pytest.mark.slow)]
)
def test_every_step_passes(share: int, records: int) -> None:
    pytest.importorskip("z3")
    module = fewer(share, records)
    results = run(module)
    assert [(r.step, r.detail) for r in results if r.status != "passed"] == []
    text = statement(NAME)
    assert [s.name for s in steps(module) if f"`{s.name}`" not in text] == []


TAMPERED = [
    # An execution without its loads; a lost segment; a pair that is called spilled but is not.
    ("once_items", lambda f: ([i for i in f[0] if i[1] != "load"], f[1]), "spills-once"),
    ("once_items", lambda f: ([i for i in f[0] if i[1] != "stay"], f[1]), "spills-once"),
    ("once_items", lambda f: (f[0], set()), "spills-once"),
    ("tree_items", lambda f: (f[0], set()), "spills-trees"),
    ("tree_items", lambda f: ([i for i in f[0] if i[:2] != (1, "")], f[1]), "spills-trees"),
    ("cut", lambda parts: parts[:1] + parts[2:], "spills-trees"),
]


@pytest.mark.parametrize(("name", "spoil", "noticing"), TAMPERED)
def test_the_proof_notices_tampering(monkeypatch, name: str, spoil, noticing: str) -> None:
    module = load_theorem(NAME)
    original = getattr(module.cutting, name)
    monkeypatch.setattr(module.cutting, name, lambda *a: spoil(original(*a)))
    (one,) = (s for s in steps(module) if s.name == noticing)
    assert run_step(NAME, one).status == "failed"


def test_a_cap_that_is_too_small_is_not_proved() -> None:
    for x, T, *weights, c in spills.RECORDS[:: 32 // draws(2, 1)]:
        assert boxes.holds(x, T, boxes.Weights(*weights), c)
        assert not boxes.holds(x, T, boxes.Weights(*weights), 0.98 * c)
    assert not boxes.holds(1.0, 3.0, boxes.Weights(2.5, 0.1, 0, 0), 10.0)
    assert not boxes.holds(3.0, 3.0, boxes.Weights(0.9, 0.1, 0, 0), 10.0)


def test_prices_that_do_not_meet_the_conditions_prove_nothing(monkeypatch) -> None:
    x, T, *weights, c = spills.RECORDS[-1]
    original = boxes._candidates

    def cheaper(*args):
        for prices in original(*args):
            yield prices._replace(theta=0.9 * prices.theta)

    monkeypatch.setattr(boxes, "_candidates", cheaper)
    monkeypatch.setattr(boxes, "_MOST", 2000)
    assert boxes.holds(x, T, boxes.Weights(*weights), c) == 0


def test_the_maximum_over_a_box_is_one() -> None:
    """`most` against Lemma 5's expression at many points of the box, written down once more."""
    shapes = load_theorem(NAME).shapes
    rng = random.Random(5)
    for _ in range(300):
        weights = shapes.random_weights(rng)
        shape = shapes.random_shape(1.0, 3.0, rng)
        prices = shapes.fitting_prices(shape, weights, rng)
        ends = [sorted(rng.uniform(0, 1.5) for _ in range(2)) for _ in range(3)]
        box = [tuple(np.array([z]) for z in pair) for pair in ends]
        most = float(boxes.most(1.0, 3.0, weights, prices, box)[0])
        t, g, s, k, theta, mu, *rest = map(float, prices)
        root = math.sqrt(theta * min(theta + mu, 2 * theta))
        p, h, f = np.meshgrid(*[np.linspace(*pair, 25) for pair in ends])
        at = shapes.bound(theta, mu, 1.0, 3.0, p, h, f, weights.e, t, g, s, k, *rest, root)
        assert at.max() <= most + 1e-9
        assert at.max() >= most - 0.01 * (abs(most) + 1)


def test_small_caps_are_noticed_by_shapes(monkeypatch) -> None:
    module = fewer(2, 2)
    smaller = tuple((*one[:-1], 0.85 * one[-1]) for one in spills.RECORDS)
    monkeypatch.setattr(spills, "RECORDS", smaller)
    (one,) = (s for s in steps(module) if s.name == "spill-shapes")
    assert run_step(NAME, one).status == "failed"


def test_records_are_in_order_and_none_is_beaten_by_the_next() -> None:
    at = [one[0] for one in spills.RECORDS]
    assert at == sorted(set(at))
    assert spill_records.falling(spills.RECORDS) == list(spills.RECORDS)


def test_a_record_is_made_again() -> None:
    x = spills.RECORDS[len(spills.RECORDS) // 2][0]
    made = spill_records.record(x)
    stored = spills.RECORDS[len(spills.RECORDS) // 2]
    assert made[:6] == pytest.approx(stored[:6], rel=1e-3, abs=1e-4)
    assert made[6] == pytest.approx(stored[6], rel=5e-3)


def test_words_follow_from_a_record_by_hand() -> None:
    """In plain Python, at each record and between them; the class `recompute` has none of it."""
    for N, d in ((LARGE, 64), (LARGE, 128), (700, 48)):
        for M in np.unique(np.geomspace(0.002 * d * d, 3 * d * d, 60).astype(int)).tolist():
            after = [one for one in spills.RECORDS if one[0] >= M / d**2]
            by_hand = 0.0
            if after:
                _, T, *_, c = after[0]
                count = 2 * N * N / (c * d * d)
                by_hand = (T * d * d - M - 2) * (count - 1) + M - 2 * N * d
            found = lower_bound(N, d, M)
            assert found >= by_hand * (1 - 1e-8)
            assert found == lower_bound(N, d, M, klass="trees")
            others = (unified.certificate(N, d, M, klass=k).words for k in ("once", "recompute"))
            assert found <= max(by_hand, *others, 4 * N * d, 4 * N * N * d * d / M) * (1 + 1e-8)


def test_it_is_the_larger_bound_around_d_squared() -> None:
    for d in (64, 128):
        for share in (0.1, 0.25, 0.5, 1.0, 1.4):
            M = math.floor(share * d * d)
            old = lower_bound_many(LARGE, d, M, apart=False)
            assert lower_bound(LARGE, d, M) > 1.015 * old
    # With d ≠ d_v it is that of the fewer columns.
    wider = lower_bound_many(LARGE, 64, np.array([4096]), d_v=np.array([64, 65, 66]))
    assert wider[0] == lower_bound(LARGE, 64, 4096)
    assert (np.diff(wider) >= 0).all()
