"""Rows of `operators_by_hand` for functions of NumPy and moves of words."""

from __future__ import annotations

import math

from operators_by_hand import ROW, B, Case, I, J, K, N, S, at, filled, sigmoid, wordwise

ONE = {
    "negative": (1, lambda x: -x),
    "exp": (1, math.exp),
    "sin": (1, math.sin),
    "cos": (1, math.cos),
    "tanh": (1, math.tanh),
    "erf": (1, math.erf),
    "sigmoid": (4, sigmoid),
    "silu": (4, lambda x: x * sigmoid(x)),
}
POSITIVE = {
    "log": (1, math.log),
    "sqrt": (1, math.sqrt),
    "rsqrt": (2, lambda x: x**-0.5),
    "reciprocal": (1, lambda x: 1 / x),
}
TWO = {
    "subtract": (1, lambda x, z: x - z),
    "divide": (1, lambda x, z: x / z),
    "maximum": (0, max),
    "minimum": (0, min),
    "equal": (0, lambda x, z: x == z),
    "less_equal": (0, lambda x, z: x <= z),
    "logical_and": (0, lambda x, z: x != 0 and z != 0),
}

CASES = [
    *(Case(kind, ROW, "Y: b i j", n * N, wordwise("Y", "X")(f)) for kind, (n, f) in ONE.items()),
    *(
        Case(kind, "pos: b i j", "Y: b i j", n * N, wordwise("Y", "pos")(f))
        for kind, (n, f) in POSITIVE.items()
    ),
    *(
        Case(
            kind,
            f"{ROW}, Z: b i j",
            "Y: b i j",
            n * N,
            wordwise("Y", "X", "Z")(f),
            below={"X": 2, "Z": 2} if kind in ("equal", "logical_and") else {},
        )
        for kind, (n, f) in TWO.items()
    ),
    Case("logical_not", ROW, "Y: b i j", 0, wordwise("Y", "X")(lambda x: x == 0), below={"X": 2}),
    Case("shift", ROW, "Y: b i j", N, wordwise("Y", "X")(lambda x: x + 3), settings={"value": 3}),
    Case(
        "power",
        "pos: b i j",
        "Y: b i j",
        N,
        wordwise("Y", "pos")(lambda x: x**1.5),
        settings={"exponent": 1.5},
    ),
    Case(
        "where",
        f"mask: b i j, {ROW}, Z: b i j",
        "Y: b i j",
        0,
        wordwise("Y", "mask", "X", "Z")(lambda m, x, z: x if m else z),
        below={"mask": 2},
    ),
    Case(
        "masked",
        f"{ROW}, mask: b i j",
        "Y: b i j",
        0,
        wordwise("Y", "X", "mask")(lambda x, m: 9 if m else x),
        settings={"value": 9},
        below={"mask": 2},
    ),
    Case(
        "seen",
        f"{ROW}, mask: b i j",
        "Y: b i j",
        0,
        wordwise("Y", "X", "mask")(lambda x, m: x if m else 9),
        settings={"value": 9},
        below={"mask": 2},
    ),
    Case(
        "mean",
        ROW,
        "Y: j",
        N + J,
        lambda a: {
            "Y": filled("j", lambda j: sum(a["X"][b, i, j] for b, i in at("b", "i")) / (B * I))
        },
        "b i",
    ),
    Case(
        "max",
        ROW,
        "Y: j",
        0,
        lambda a: {"Y": filled("j", lambda j: max(a["X"][b, i, j] for b, i in at("b", "i")))},
        "b i",
    ),
    Case(
        "copy",
        ROW,
        "Y: j b i",
        0,
        lambda a: {"Y": filled("j b i", lambda j, b, i: a["X"][b, i, j])},
        of="X",
    ),
    Case(
        "repeat",
        "X: b j",
        "Y: j b k",
        0,
        lambda a: {"Y": filled("j b k", lambda j, b, k: a["X"][b, j])},
    ),
    Case(
        "concatenate",
        "X: b s, Z: b t",
        "Y: b k",
        0,
        lambda a: {
            "Y": filled("b k", lambda b, k: a["X"][b, k] if k < S["s"] else a["Z"][b, k - S["s"]])
        },
        "k",
    ),
    Case(
        "view",
        "X: m b",
        "Y: k b j",
        0,
        lambda a: {"Y": filled("k b j", lambda k, b, j: a["X"][k * J + j, b])},
        settings={"into": "k j b"},
    ),
]
# Kinds whose output may have axes that no input has.
LOOSE = {"repeat", "concatenate", "view"}
assert S["m"] == K * J
