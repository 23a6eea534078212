"""Each face of Lemmas 6 and 7 is the largest somewhere, and shapes of segments come near it."""

from __future__ import annotations

from typing import Any

import numpy as np

from iosim.bounds.unified import caps
from iosim.report.proof import identity, require, step

from . import constants
from .search import most_work

# Class → face → M/d², S/d², and the multipliers: a0 (`recompute` only), m1, m2.
BINDING: dict[str, dict[str, tuple[float, ...]]] = {
    "once": {
        "inside": (23.42, 4.891, 0.1126, 1.751),
        "paid": (0.03826, 0.01591, 1.9, 0.3868),
        "free": (2.328, 0.5328, 0.5378, 0.0),
        "full": (0.01135, 0.04534, 0.0, 0.01337),
        "mixed": (5.513, 3.88, 0.0, 0.0),
    },
    "recompute": {
        "inside": (17.35, 3.842, 0.3375, 0.4006, 1.262),
        "A, paid": (0.003411, 0.0009234, 0.0, 0.2981, 0.0),
        "A, free": (0.5514, 0.1136, 0.6325, 0.353, 0.0),
        "A, full": (0.04157, 0.1662, 0.0, 0.0, 0.05129),
        "A, mixed": (1.547, 4.698, 0.5498, 0.0, 0.0),
        "B": (1.561, 6.168, 0.2584, 1.7416, 0.0),
        "C, paid": (0.003305, 0.001088, 1.701, 0.2989, 0.0),
        "C, free": (0.0445, 0.009529, 1.709, 0.1361, 0.0),
        "C, full": (0.005511, 0.02199, 1.982, 0.0, 0.0183),
        "C, mixed": (1.239, 0.9879, 1.935, 0.0, 0.0),
        "D, paid": (2.644, 5.246, 0.0, 1.732, 0.0),
        "D, free": (5.609, 1.246, 0.2833, 1.405, 0.0),
        "D, full": (3.414, 3.564, 0.1489, 1.215, 0.0),
        "D, mixed": (10.13, 2.655, 0.03136, 1.111, 0.0),
    },
}
# Faces that are ends of others, and so are never the only largest one.
ENDS = {"inner": "inside", "paid words": "A, paid"}


def faces(klass: str, point: tuple[float, ...]) -> dict[str, Any]:
    """The values of the faces at a point."""
    return caps.once_faces(*point) if klass == "once" else caps.recompute_faces(*point)


@step(
    "each-face",
    how="sampled",
    says="Lemmas 6 and 7: each face is the largest somewhere, and a search there finds its value",
)
def each_face() -> str:
    """So a face left out, or one with a smaller coefficient, would be noticed."""
    rng, least, count = np.random.default_rng(9), 1.0, 0
    for klass, points in BINDING.items():
        cap = caps.once_cap if klass == "once" else caps.recompute_cap
        for name, point in points.items():
            values = {face: float(value) for face, value in faces(klass, point).items()}
            rest = max(value for face, value in values.items() if face != name)
            largest = float(cap(*point))
            found = max(most_work(klass, point, rng, starts=300, rounds=400) for _ in range(5))
            ratio = found / largest
            require(ratio <= 1 + 1e-9, f"{klass}, {name}: the search finds {ratio} of the cap")
            require(ratio > constants.REACHED, f"{klass}, {name}: only {ratio} of it is found")
            require(found > rest, f"{klass}: {name} is not needed at {point}")
            least, count = min(least, ratio), count + 1
    return f"{count} faces, 5 × 300 starts each, seed 9: at least {least:.5f} of the face"


@step(
    "ends-of-faces",
    how="proved",
    says="Lemma 7: a₀T²/4 and m₂T are the right ends of `inside` and of `A, paid`",
)
def ends_of_faces() -> str:
    """They are kept in the list, as the proof meets them, and are never the only largest."""
    import sympy

    P, T, m2, a0 = sympy.symbols("P T m2 a0", positive=True)
    c = 2 - a0
    for klass, points in BINDING.items():
        known = set(faces(klass, next(iter(points.values())))) - set(ENDS)
        require(known == set(points), f"{klass}: faces {known}, points for {set(points)}")
    identity(((a0 - c) * P**2 + c * T * P / 2).subs(P, T / 2), a0 * T**2 / 4)
    identity((c * (T - P**2) * P / 2 + m2 * P**2).subs(P, sympy.sqrt(T)), m2 * T)
    return "all reals T > 0, a₀ and m₂"
