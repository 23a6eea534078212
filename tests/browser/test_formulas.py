"""Bounds as the page evaluates them: Python's words, at thousands of random problems."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine import asker
from sizes import draws

from iosim.bounds import BOUNDS
from iosim.core.problem import Attention, Form
from iosim.lab.data import slope
from iosim.lab.data.traced import Formulas

POINTS = 4000
MASKED = draws(3000, 600)


def formula_inputs(problem: Attention, M: int) -> dict[str, int]:
    """What the page puts into formulas, of a problem that is typed."""
    left, right = problem.window or (None, None)
    given = {
        "left": left is not None,
        "right": right is not None,
        "causal": problem.causal,
        "align": problem.align != "lower right",
    }
    return {
        "N": problem.N,
        "d": problem.d,
        "heads": problem.heads,
        "M": M,
        "N_k": problem.keys,
        "d_v": problem.values,
        "kv_heads": problem.groups,
        "sinks": problem.sinks,
        "left": left or 0,
        "right": right or 0,
        **{f"given {x}": int(given[x]) for x in slope.FLAGS},
    }


def masked(rng: random.Random) -> Attention:
    """Attention with any options."""

    def size(most: float, least: int = 1) -> int:
        return max(least, int(most ** rng.random()))

    longest = 2 ** rng.uniform(1, 20)
    given: dict[str, Any] = {"N": size(longest), "d": size(1024), "heads": size(32)}
    for name, most in (("N_k", longest), ("d_v", 1024), ("kv_heads", 32)):
        if rng.random() < 0.5:
            given[name] = size(most)
    given["heads"] *= given.get("kv_heads", 1)
    given["causal"] = rng.random() < 0.5
    given["window"] = rng.choice([(True, False), (False, True), (True, True), (False, False)])
    given["window"] = tuple(size(longest) - 1 if x else None for x in given["window"])
    given["sinks"] = rng.choice([0, size(longest)])
    given["align"] = rng.choice(["lower right", "upper left"])
    return Attention(**given)


def by_form(
    name: str, cases: list[tuple[Attention, int]]
) -> dict[Form, dict[tuple[Attention, int], float]]:
    """A bound's words for each problem and M; all problems of one form at once."""
    groups: dict[Form, list[tuple[Attention, int]]] = {}
    for problem, M in cases:
        groups.setdefault(problem.form, []).append((problem, M))
    found = {}
    for form, some in groups.items():
        sizes = {x: np.array([problem.sizes[x] for problem, _ in some]) for x in some[0][0].sizes}
        words = BOUNDS[name].curve(form, **sizes, M=np.array([M for _, M in some]))
        each = np.broadcast_to(words, len(some)).tolist()
        found[form] = dict(zip(some, each, strict=True))
    return found


def test_bounds_with_options_are_python_s(tmp_path: Path) -> None:
    """Under masks, with keys and heads of their own; what covers no options says so."""
    own, rng = slope.own_data(), random.Random(5)
    cases = [(masked(rng), max(1, int(2 ** rng.uniform(0, 26)))) for _ in range(MASKED)]
    covering = [name for name, told in own["bounds"].items() if told["options"]]
    places = [own["bounds"][name][x] for name in covering for x in ("applies", "words")]
    ask = asker(tmp_path / "formulas.mjs", "src/engine/formulas.cli.ts")
    (found,) = ask(
        [
            {
                "entries": own["entries"],
                "places": places,
                "points": [formula_inputs(*x) for x in cases],
            }
        ]
    )
    words = {name: by_form(name, cases) for name in covering}
    seen = dict.fromkeys(("causal", "window", "sinks", "align", "N_k", "d_v", "kv_heads"), 0)
    for (problem, M), values in zip(cases, found, strict=True):
        for option in problem.form.options:
            seen[option] += 1
        for name in own["bounds"]:
            bound = BOUNDS[name]
            covered = set(problem.form.options) <= set(own["bounds"][name]["options"])
            assert covered == bound.covers_form(problem.form), (problem, name)
        for k, name in enumerate(covering):
            assert values[2 * k] == 1
            want = words[name][problem.form][problem, M]
            assert values[2 * k + 1] == pytest.approx(want, rel=1e-14), (problem, M, name)
    assert min(seen.values()) > MASKED / 8, seen
    assert len(covering) == 14


def test_bounds_are_python_s(tmp_path: Path) -> None:
    own, form = slope.own_data(), Attention.plain_form()
    rng = np.random.default_rng(13)
    columns = {
        name: np.rint(2 ** rng.uniform(0, np.log2(most), POINTS)).astype(np.int64)
        for name, most in (("N", 2**20), ("d", 1024), ("heads", 1024), ("M", 2**30))
    }
    near = rng.random(POINTS) < 0.5  # M from d²/8 to 8d², where the bound bends
    bent = np.rint(columns["d"] ** 2 * 2 ** rng.uniform(-3, 3, POINTS)).astype(np.int64)
    columns["M"] = np.where(near, np.maximum(1, bent), columns["M"])
    sizes = {name: columns[name] for name in ("N", "d", "heads")}
    points = [
        formula_inputs(Attention(*(int(v[k]) for v in sizes.values())), int(columns["M"][k]))
        for k in range(POINTS)
    ]
    names = list(own["bounds"])
    places = [own["bounds"][name][x] for name in names for x in ("applies", "words")]
    ask = asker(tmp_path / "formulas.mjs", "src/engine/formulas.cli.ts")
    (found,) = ask([{"entries": own["entries"], "places": places, "points": points}])
    values = np.array(found, dtype=float)
    for k, name in enumerate(names):
        applies = BOUNDS[name].where(form, sizes, columns["M"])
        assert (values[:, 2 * k].astype(bool) == applies).all(), name
        words = BOUNDS[name].curve(form, **{x: v[applies] for x, v in columns.items()})
        mine = values[applies, 2 * k + 1]
        # A logarithm may differ in its last bits, and a last bit by the order of a product.
        # Where floats may be a word off, Python uses fractions, or rounds down.
        products = (columns["N"] ** 2.0 * columns["d"] * columns["heads"])[applies]
        few = (words < 2.0**48) & (products < 2.0**50)
        assert few.mean() > 0.4
        nearly = 1e-12 if name == "any-matmul-binary" else 1e-14
        np.testing.assert_allclose(mine[few], words[few], rtol=nearly)
        np.testing.assert_allclose(mine, words, rtol=1e-9, atol=1e-3)


def test_points_marks_and_the_largest_m(tmp_path: Path) -> None:
    own = slope.own_data()
    places = [*own["points"], *(x["M"] for x in own["marks"]), own["most"]]
    ask = asker(tmp_path / "formulas.mjs", "src/engine/formulas.cli.ts")
    sizes = [{"N": p.N, "d": p.d, "heads": 1, "M": 1} for p in slope.PRESETS]
    (found,) = ask([{"entries": own["entries"], "places": places, "points": sizes}])
    for p, values in zip(slope.PRESETS, found, strict=True):
        d2, Nd = p.d**2, p.N * p.d
        halves = [d2 // 4, d2 // 2, d2 - 1, d2, d2 + 1, 2 * d2, 4 * d2, Nd // 2, Nd, 2 * Nd]
        assert values == [*halves, d2, 4 * d2, Nd, 4 * Nd]


def test_every_sign_is_numpys(tmp_path: Path) -> None:
    """Of halves, signs and infinities, too."""
    table = Formulas()
    x, y = table.name("x"), table.name("y")
    made = [
        x + y,
        x - y,
        x * y,
        x / y,
        x // y,
        -x,
        x**2,
        x**3,
        np.minimum(x, y),
        np.maximum(x, y),
        np.sqrt(abs_ := np.abs(x)),
        np.log2(abs_ + 1),
        np.floor(x),
        np.ceil(x),
        np.rint(x),
        x < y,
        x <= y,
        x > y,
        x >= y,
        x == y,
        (x < 1) & (y < 1),
        (x < 1) | (y < 1),
        np.where(x < y, x, np.inf),
        np.where(x < y, -np.inf, y),
        np.clip(x, -1.0, 1.0),
        np.interp(x, [-1.0, 0.0, 2.0], [3.0, 5.0, -1.0]),
    ]
    values = [-2.5, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5, 3.0]
    points = [{"x": a, "y": b} for a in values for b in values if b]
    ask = asker(tmp_path / "formulas.mjs", "src/engine/formulas.cli.ts")
    places = [one.place for one in made]
    (found,) = ask([{"entries": table.entries, "places": places, "points": points}])
    for point, told in zip(points, found, strict=True):
        a, b = np.float64(point["x"]), np.float64(point["y"])
        want = [
            a + b,
            a - b,
            a * b,
            a / b,
            a // b,
            -a,
            a**2,
            a**3,
            min(a, b),
            max(a, b),
            np.sqrt(abs(a)),
            np.log2(abs(a) + 1),
            np.floor(a),
            np.ceil(a),
            np.rint(a),
            a < b,
            a <= b,
            a > b,
            a >= b,
            a == b,
            a < 1 and b < 1,
            a < 1 or b < 1,
            a if a < b else None,
            None if a < b else b,
            np.clip(a, -1, 1),
            np.interp(a, [-1, 0, 2], [3, 5, -1]),
        ]
        for one, right in zip(told, want, strict=True):
            # JSON has no infinity.
            assert one is right is None or one == pytest.approx(float(right), rel=1e-15, abs=0)
