"""Operators by hand: one small operator of each kind, its flop by a formula, its values by loops.

The formulas are sums over the steps of the mathematics, by the rule of
`iosim/models/operators/flop.py`; nothing here shares code with the operators.  A loop gets arrays
by the names of tensors, and gives those that are written.  Axes stand in unusual orders on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iosim.core.problem import MarkedTiles
from iosim.models.operators import Operator, operand, operator

Arrays = dict[str, Any]

S = {
    "b": 2,
    "j": 3,
    "k": 4,
    "i": 4,
    "u": 5,
    "h": 2,
    "r": 3,
    "p": 4,
    "d": 3,
    "e": 4,
    "s": 2,
    "m": 12,
    "v": 6,
    "t": 2,
}
B, J, K, I, U, H, R, P, D, V = (S[x] for x in "bjkiuhrpdv")
N = B * J * I


@dataclass(frozen=True)
class Case:
    """One operator.

    Attributes:
        kind: a key of `OPERATORS`.
        reads, writes: its tensors, as ``X: b j, Y: j``.
        flop: what it costs.
        loop: its values.
        of: names of inputs that have a gradient.
        below: of inputs that are numbers of rows, how many rows there are.
    """

    kind: str
    reads: str
    writes: str
    flop: int
    loop: Callable[[Arrays], Arrays]
    over: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    of: str = ""
    below: dict[str, int] = field(default_factory=dict)
    label: str = ""

    @property
    def operator(self) -> Operator:
        reads, writes = (
            [operand(*map(str.strip, t.split(":")), S) for t in side.split(",")]
            for side in (self.reads, self.writes)
        )
        return operator(self.kind, self.kind, reads, writes, self.over, **self.settings)

    def arrays(self, seed: int = 0) -> Arrays:
        rng = np.random.default_rng(seed)
        found: Arrays = {}
        for t in self.operator.reads:
            if t.name in self.below:
                found[t.name] = rng.integers(self.below[t.name], size=t.shape)
            elif t.name in ("rstd", "v", "lse", "pos"):
                found[t.name] = rng.uniform(0.5, 2, t.shape)
            else:
                found[t.name] = rng.standard_normal(t.shape)
        if "places" in found:
            found["places"] = rng.permutation(S["m"])
        if "numbers" in found:
            chosen = [rng.permutation(S["e"])[: S["s"]] for _ in range(B * J)]
            found["numbers"] = np.reshape(chosen, (B, J, S["s"]))
        return found


def at(*axes: str) -> Iterator[tuple[int, ...]]:
    """All positions on these axes."""
    yield from np.ndindex(*(S[a] for a in axes))


def filled(axes: str, value: Callable[..., float]) -> Any:
    """A tensor, word by word."""
    found = np.zeros([S[a] for a in axes.split()])
    for place in at(*axes.split()):
        found[place] = value(*place)
    return found


def wordwise(y: str, *names: str) -> Callable[[Callable[..., float]], Callable[[Arrays], Arrays]]:
    """A loop over words: the n-th of each input gives the n-th of the output."""

    def apply(f: Callable[..., float]) -> Callable[[Arrays], Arrays]:
        return lambda a: {
            y: np.reshape(
                [f(*map(float, xs)) for xs in zip(*(a[n].flat for n in names), strict=True)],
                a[names[0]].shape,
            )
        }

    return apply


def phi(x: float) -> float:
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def tanh_part(x: float) -> float:
    return math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def numeric(f: Callable[[float], float]) -> Callable[[float], float]:
    """The derivative, by a central difference of high order."""
    h = 1e-3
    return lambda x: (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def soft(row: Any) -> list[float]:
    top = max(row)
    total = sum(math.exp(x - top) for x in row)
    return [math.exp(x - top) / total for x in row]


# ---- rows, along i of X[b i j] -------------------------------------------------------------------


def softmax(a: Arrays) -> Arrays:
    return {"Y": filled("j i b", lambda j, i, b: soft(a["X"][b, :, j])[i])}


def softmax_back(a: Arrays) -> Arrays:
    """Row times the Jacobian of softmax: y_i (δ_ij − y_j)."""

    def value(b: int, i: int, j: int) -> float:
        y, dy = a["Y"][b, :, j], a["dY"][b, :, j]
        return sum(dy[x] * y[x] * ((x == i) - y[i]) for x in range(I))

    return {"dX": filled("b i j", value)}


def statistics(row: Any, epsilon: float = 1e-5) -> tuple[float, float]:
    mean = sum(row) / len(row)
    return mean, 1 / math.sqrt(sum((x - mean) ** 2 for x in row) / len(row) + epsilon)


def layer_norm(a: Arrays) -> Arrays:
    def value(j: int, i: int, b: int) -> float:
        mean, rstd = statistics(a["X"][b, :, j])
        return (a["X"][b, i, j] - mean) * rstd * a["G"][i] + a["C"][i]

    return {
        "Y": filled("j i b", value),
        "mean": filled("b j", lambda b, j: statistics(a["X"][b, :, j])[0]),
        "rstd": filled("b j", lambda b, j: statistics(a["X"][b, :, j])[1]),
    }


def layer_norm_dx(a: Arrays) -> Arrays:
    """By the chain rule for x, mean and 1/deviation, with any mean and deviation given."""

    def value(b: int, i: int, j: int) -> float:
        m, r = a["mean"][b, j], a["rstd"][b, j]
        x, dy = a["X"][b, :, j], a["dY"][b, :, j] * a["G"]
        unit = [(x[c] - m) * r for c in range(I)]
        return r * (dy[i] - sum(dy) / I - unit[i] * sum(dy * unit) / I)

    return {"dX": filled("b i j", value)}


def layer_norm_dw(a: Arrays) -> Arrays:
    def dg(i: int) -> float:
        return sum(
            a["dY"][b, i, j] * (a["X"][b, i, j] - a["mean"][b, j]) * a["rstd"][b, j]
            for b, j in at("b", "j")
        )

    def dc(i: int) -> float:
        return sum(a["dY"][b, i, j] for b, j in at("b", "j"))

    return {"dG": filled("i", dg), "dC": filled("i", dc)}


def root(row: Any) -> float:
    return 1 / math.sqrt(sum(x * x for x in row) / len(row) + 1e-5)


def rms_norm(a: Arrays) -> Arrays:
    return {
        "Y": filled("j i b", lambda j, i, b: a["X"][b, i, j] * root(a["X"][b, :, j]) * a["G"][i]),
        "rstd": filled("b j", lambda b, j: root(a["X"][b, :, j])),
    }


def rms_norm_dx(a: Arrays) -> Arrays:
    def value(b: int, i: int, j: int) -> float:
        r, x, dy = a["rstd"][b, j], a["X"][b, :, j], a["dY"][b, :, j] * a["G"]
        return r * (dy[i] - x[i] * r * r * sum(dy * x) / I)

    return {"dX": filled("b i j", value)}


def rms_norm_dw(a: Arrays) -> Arrays:
    return {
        "dG": filled(
            "i",
            lambda i: sum(
                a["dY"][b, i, j] * a["X"][b, i, j] * a["rstd"][b, j] for b, j in at("b", "j")
            ),
        )
    }


def cross_entropy(a: Arrays) -> Arrays:
    def lse(b: int, j: int) -> float:
        return math.log(sum(math.exp(x) for x in a["L"][b, :, j]))

    return {
        "loss": filled("b j", lambda b, j: lse(b, j) - a["L"][b, a["labels"][b, j], j]),
        "lse": filled("b j", lse),
    }


def cross_entropy_back(a: Arrays) -> Arrays:
    def value(b: int, v: int, j: int) -> float:
        right = v == a["labels"][b, j]
        return (math.exp(a["L"][b, v, j] - a["lse"][b, j]) - right) / (B * J)

    return {"dL": filled("b v j", value)}


# ---- words ---------------------------------------------------------------------------------------


def dropout(a: Arrays) -> Arrays:
    """Whatever the mask is, it is 0 or 4/3, and what comes out is x times it: see the test."""
    return {}


def causal(a: Arrays) -> Arrays:
    """Rows j and columns k of X[k b j], the last row at the last column."""
    return {"Y": filled("k b j", lambda k, b, j: a["X"][k, b, j] if k - j <= K - J else -np.inf)}


def causal_back(a: Arrays) -> Arrays:
    return {"dX": filled("k b j", lambda k, b, j: a["dY"][k, b, j] * (k - j <= K - J))}


# Tiles of two rows by three columns of J × K: rows 0 and 1 see columns 0 to 2, row 2 sees column 3.
MARKS = MarkedTiles.of([[True, False], [False, True]], B_r=2, B_c=3)


def marked(j: int, k: int) -> bool:
    return k < 3 if j < 2 else k == 3


def block_mask(a: Arrays) -> Arrays:
    return {"Y": filled("k b j", lambda k, b, j: a["X"][k, b, j] if marked(j, k) else -np.inf)}


def block_mask_back(a: Arrays) -> Arrays:
    return {"dX": filled("k b j", lambda k, b, j: a["dY"][k, b, j] * marked(j, k))}


def rope(sign: int, x: str, y: str) -> Callable[[Arrays], Arrays]:
    """Word c and word c + p/2 of X[p b j] are a point that is turned."""

    def value(a: Arrays, c: int, b: int, j: int) -> float:
        half = P // 2
        cos, sin = a["cos"][j, c % half], a["sin"][j, c % half] * sign
        one, two = a[x][c % half, b, j], a[x][c % half + half, b, j]
        return one * cos - two * sin if c < half else two * cos + one * sin

    return lambda a: {y: filled("p b j", lambda *place: value(a, *place))}


def adam(a: Arrays) -> Arrays:
    def moments(b: int, i: int) -> tuple[float, float]:
        g = a["g"][b, i]
        return 0.9 * a["m"][b, i] + 0.1 * g, 0.999 * a["v"][b, i] + 0.001 * g * g

    def weight(b: int, i: int) -> float:
        m, v = moments(b, i)
        m, v = m / (1 - 0.9**3), v / (1 - 0.999**3)
        return a["w"][b, i] - 0.1 * (m / (math.sqrt(v) + 1e-8) + 0.01 * a["w"][b, i])

    return {
        "w2": filled("b i", weight),
        "m2": filled("b i", lambda *x: moments(*x)[0]),
        "v2": filled("b i", lambda *x: moments(*x)[1]),
    }


# ---- look-ups and experts ------------------------------------------------------------------------


def embedding_back(a: Arrays) -> Arrays:
    found = np.zeros((V, I))
    for b, j, i in at("b", "j", "i"):
        found[a["ids"][b, j], i] += a["dY"][b, j, i]
    return {"dW": found}


def append(a: Arrays) -> Arrays:
    """Two new rows t behind the first two of four, k."""
    return {
        "Y": filled(
            "b k p", lambda b, k, p: a["cache"][b, k, p] if k < 2 else a["new"][b, p, k - 2]
        )
    }


def top_k(a: Arrays) -> Arrays:
    def number(b: int, j: int, s: int) -> int:
        return sorted(range(S["e"]), key=lambda e: -a["X"][b, j, e])[s]

    return {
        "Y": filled("b j s", lambda b, j, s: a["X"][b, j, number(b, j, s)]),
        "chosen": filled("b j s", number),
    }


def top_k_back(a: Arrays) -> Arrays:
    found = np.zeros((B, J, S["e"]))
    for b, j, s in at("b", "j", "s"):
        found[b, j, a["numbers"][b, j, s]] += a["dY"][b, j, s]
    return {"dX": found}


def by_expert(a: Arrays) -> Arrays:
    flat = [int(e) for e in a["numbers"].flat]
    order = [k for e in range(S["e"]) for k, x in enumerate(flat) if x == e]
    return {"places": np.array(order), "experts": np.array([flat[k] for k in order])}


def token(place: int) -> tuple[int, int]:
    """Of a place among all (b, j, s)."""
    return place // S["s"] // J, place // S["s"] % J


def gather(a: Arrays) -> Arrays:
    return {"R": filled("m i", lambda m, i: a["X"][(*token(a["places"][m]), i)])}


def gather_back(a: Arrays) -> Arrays:
    found = np.zeros((B, J, I))
    for m, i in at("m", "i"):
        found[(*token(a["places"][m]), i)] += a["dR"][m, i]
    return {"dX": found}


def expert_product(a: Arrays) -> Arrays:
    return {
        "Y": filled(
            "m u", lambda m, u: sum(a["X"][m, i] * a["W"][a["experts"][m], u, i] for i in range(I))
        )
    }


def expert_weights(a: Arrays) -> Arrays:
    return {
        "dW": filled(
            "e u i",
            lambda e, u, i: sum(
                a["dY"][m, u] * a["X"][m, i] for m in range(S["m"]) if a["experts"][m] == e
            ),
        )
    }


def gate(a: Arrays, m: int) -> float:
    return float(a["gates"].reshape(-1)[a["places"][m]])


def combine(a: Arrays) -> Arrays:
    found = np.zeros((B, J, I))
    for m, i in at("m", "i"):
        found[(*token(a["places"][m]), i)] += gate(a, m) * a["R"][m, i]
    return {"Y": found}


def combine_back(a: Arrays) -> Arrays:
    def dy(m: int, i: int) -> float:
        return float(a["dY"][(*token(a["places"][m]), i)])

    dgates = np.zeros(B * J * S["s"])
    for m in range(S["m"]):
        dgates[a["places"][m]] = sum(dy(m, i) * a["R"][m, i] for i in range(I))
    return {
        "dR": filled("m i", lambda m, i: gate(a, m) * dy(m, i)),
        "dgates": dgates.reshape(B, J, S["s"]),
    }


# ---- attention: Q[b h r j p], K[b h k p], V[b h k d] ---------------------------------------------


Sees = Callable[[int, int], bool]


def every(j: int, k: int) -> bool:
    return True


def earlier(j: int, k: int) -> bool:
    return k <= j + K - J


def weights(a: Arrays, b: int, h: int, r: int, j: int, *, sees: Sees) -> list[float]:
    """Of one row, 0 where it doesn't see."""
    seen = [k for k in range(K) if sees(j, k)]
    scores = [0.7 * sum(a["Q"][b, h, r, j, p] * a["K"][b, h, k, p] for p in range(P)) for k in seen]
    found = dict(zip(seen, soft(scores), strict=True)) if seen else {}
    return [found.get(k, 0.0) for k in range(K)]


def attention(sees: Sees) -> Callable[[Arrays], Arrays]:
    def value(a: Arrays, b: int, h: int, r: int, j: int, d: int) -> float:
        w = weights(a, b, h, r, j, sees=sees)
        return sum(w[k] * a["V"][b, h, k, d] for k in range(K))

    def lse(a: Arrays, b: int, h: int, r: int, j: int) -> float:
        w = weights(a, b, h, r, j, sees=sees)
        k = max(range(K), key=w.__getitem__)
        return 0.7 * sum(a["Q"][b, h, r, j] * a["K"][b, h, k]) - math.log(w[k]) if any(w) else 0.0

    return lambda a: {
        "O": filled("b h r j d", lambda *x: value(a, *x)),
        "lse": filled("b h r j", lambda *x: lse(a, *x)),
    }


def attention_back(a: Arrays) -> Arrays:
    """With the output's own row sums: D is given by O, whatever O is."""
    found = {
        "dQ": np.zeros(a["Q"].shape),
        "dK": np.zeros(a["K"].shape),
        "dV": np.zeros(a["V"].shape),
    }
    for b, h, r, j in at("b", "h", "r", "j"):
        w = weights(a, b, h, r, j, sees=every)
        dO, O = a["dO"][b, h, r, j], a["O"][b, h, r, j]
        for k in range(K):
            dw = sum(dO[d] * (a["V"][b, h, k, d]) for d in range(D)) - sum(dO * O)
            for d in range(D):
                found["dV"][b, h, k, d] += w[k] * dO[d]
            for p in range(P):
                found["dQ"][b, h, r, j, p] += 0.7 * w[k] * dw * a["K"][b, h, k, p]
                found["dK"][b, h, k, p] += 0.7 * w[k] * dw * a["Q"][b, h, r, j, p]
    return found


ROWS = B * J
ROW = "X: b i j"
QKV = "Q: b h r j p, K: b h k p, V: b h k d"
ALL = B * H * R * J * K  # pairs of a row and a column
SEEN = B * H * R * (2 + 3 + 4)  # of three rows, the last of which sees four columns

CASES = [
    Case(
        "contraction",
        "X: b i j, W: u i",
        "Y: j u b",
        2 * N * U,
        lambda a: {
            "Y": filled(
                "j u b", lambda j, u, b: sum(a["X"][b, i, j] * a["W"][u, i] for i in range(I))
            )
        },
        of="XW",
    ),
    Case("softmax", ROW, "Y: j i b", 4 * N, softmax, "i", of="X"),
    Case("softmax_back", "dY: b i j, Y: b i j", "dX: b i j", 4 * N, softmax_back, "i"),
    Case(
        "layer_norm",
        f"{ROW}, G: i, C: i",
        "Y: j i b, mean: b j, rstd: b j",
        7 * N + 5 * ROWS,
        layer_norm,
        "i",
        of="XGC",
    ),
    Case(
        "layer_norm_dx",
        "dY: b i j, X: b i j, G: i, mean: b j, rstd: b j",
        "dX: b i j",
        10 * N + 2 * ROWS,
        layer_norm_dx,
        "i",
    ),
    Case(
        "layer_norm_dw",
        "dY: b i j, X: b i j, mean: b j, rstd: b j",
        "dG: i, dC: i",
        5 * N,
        layer_norm_dw,
        "b j",
    ),
    Case(
        "rms_norm", f"{ROW}, G: i", "Y: j i b, rstd: b j", 4 * N + 4 * ROWS, rms_norm, "i", of="XG"
    ),
    Case(
        "rms_norm_dx",
        "dY: b i j, X: b i j, G: i, rstd: b j",
        "dX: b i j",
        7 * N + ROWS,
        rms_norm_dx,
        "i",
    ),
    Case("rms_norm_dw", "dY: b i j, X: b i j, rstd: b j", "dG: i", 3 * N, rms_norm_dw, "b j"),
    Case(
        "sum",
        ROW,
        "Y: j",
        N,
        lambda a: {"Y": filled("j", lambda j: sum(a["X"][b, i, j] for b, i in at("b", "i")))},
        "b i",
    ),
    Case(
        "cross_entropy",
        "L: b v j, labels: b j",
        "loss: b j, lse: b j",
        3 * ROWS * V + 3 * ROWS,
        cross_entropy,
        "v",
        of="L",
        below={"labels": V},
    ),
    Case(
        "cross_entropy_back",
        "L: b v j, labels: b j, lse: b j",
        "dL: b v j",
        4 * ROWS * V,
        cross_entropy_back,
        "v",
        below={"labels": V},
    ),
    Case("same", ROW, "Y: b i j", 0, wordwise("Y", "X")(lambda x: x), of="X"),
    Case("cast", ROW, "Y: b i j", 0, wordwise("Y", "X")(lambda x: x), of="X"),
    Case(
        "add",
        f"{ROW}, Z: j, T: b i j",
        "Y: j b i",
        2 * N,
        lambda a: {
            "Y": filled("j b i", lambda j, b, i: a["X"][b, i, j] + a["Z"][j] + a["T"][b, i, j])
        },
        of="XZT",
    ),
    Case(
        "bias",
        f"{ROW}, Z: i",
        "Y: b i j",
        N,
        lambda a: {"Y": filled("b i j", lambda b, i, j: a["X"][b, i, j] + a["Z"][i])},
        of="XZ",
    ),
    Case(
        "multiply",
        f"{ROW}, Z: i",
        "Y: b i j",
        N,
        lambda a: {"Y": filled("b i j", lambda b, i, j: a["X"][b, i, j] * a["Z"][i])},
        of="XZ",
    ),
    Case(
        "scale",
        ROW,
        "Y: b i j",
        N,
        wordwise("Y", "X")(lambda x: 0.3 * x),
        settings={"factor": 0.3},
        of="X",
    ),
    Case("relu", ROW, "Y: b i j", 0, wordwise("Y", "X")(lambda x: x if x > 0 else 0.0), of="X"),
    Case(
        "relu_back",
        "dY: b i j, X: b i j",
        "dX: b i j",
        0,
        wordwise("dX", "dY", "X")(lambda dy, x: dy if x > 0 else 0.0),
    ),
    Case("gelu", ROW, "Y: b i j", 5 * N, wordwise("Y", "X")(lambda x: x * phi(x)), of="X"),
    Case(
        "gelu_back",
        "dY: b i j, X: b i j",
        "dX: b i j",
        11 * N,
        wordwise("dX", "dY", "X")(lambda dy, x: dy * numeric(lambda t: t * phi(t))(x)),
    ),
    Case(
        "gelu_tanh",
        ROW,
        "Y: b i j",
        9 * N,
        wordwise("Y", "X")(lambda x: 0.5 * x * (1 + tanh_part(x))),
        of="X",
    ),
    Case(
        "gelu_tanh_back",
        "dY: b i j, X: b i j",
        "dX: b i j",
        18 * N,
        wordwise("dX", "dY", "X")(
            lambda dy, x: dy * numeric(lambda t: 0.5 * t * (1 + tanh_part(t)))(x)
        ),
    ),
    Case(
        "swiglu",
        f"{ROW}, Z: b i j",
        "Y: b i j",
        5 * N,
        wordwise("Y", "X", "Z")(lambda x, z: x * sigmoid(x) * z),
        of="XZ",
    ),
    Case(
        "swiglu_back",
        "dY: b i j, X: b i j, Z: b i j",
        "dX: b i j, dZ: b i j",
        11 * N,
        lambda a: {
            **wordwise("dX", "dY", "X", "Z")(
                lambda dy, x, z: dy * z * numeric(lambda t: t * sigmoid(t))(x)
            )(a),
            **wordwise("dZ", "dY", "X")(lambda dy, x: dy * x * sigmoid(x))(a),
        },
    ),
    Case("dropout", ROW, "Y: b i j, mask: b i j", N, dropout, settings={"p": 0.25}, of="X"),
    Case("causal", "X: k b j", "Y: k b j", 0, causal, "j k"),
    Case("causal_back", "dY: k b j", "dX: k b j", 0, causal_back, "j k"),
    Case("block_mask", "X: k b j", "Y: k b j", 0, block_mask, "j k", settings={"blocks": MARKS}),
    Case(
        "block_mask_back",
        "dY: k b j",
        "dX: k b j",
        0,
        block_mask_back,
        "j k",
        settings={"blocks": MARKS},
    ),
    Case(
        "rope",
        "X: p b j, cos: j p, sin: j p",
        "Y: p b j",
        3 * P * B * J,
        rope(1, "X", "Y"),
        "p",
        of="X",
    ),
    Case(
        "rope_back",
        "dY: p b j, cos: j p, sin: j p",
        "dX: p b j",
        3 * P * B * J,
        rope(-1, "dY", "dX"),
        "p",
    ),
    Case(
        "adam",
        "w: b i, g: b i, m: b i, v: b i",
        "w2: b i, m2: b i, v2: b i",
        (3 + 4 + 5 + 4) * B * I,
        adam,
        settings={"rate": 0.1, "decay": 0.01, "step": 3},
    ),
    Case(
        "embedding",
        "ids: b j, W: v i",
        "Y: b j i",
        0,
        lambda a: {"Y": filled("b j i", lambda b, j, i: a["W"][a["ids"][b, j], i])},
        of="W",
        below={"ids": V},
    ),
    Case("embedding_back", "dY: b j i, ids: b j", "dW: v i", N, embedding_back, below={"ids": V}),
    Case("append", "new: b p t, cache: b k p", "Y: b k p", 0, append, "k"),
    Case("top_k", "X: b j e", "Y: b j s, chosen: b j s", 0, top_k, "e", of="X"),
    Case("top_k_back", "dY: b j s, numbers: b j s", "dX: b j e", 0, top_k_back),
    Case("by_expert", "numbers: b j s", "places: m, experts: m", 0, by_expert),
    Case("gather", "X: b j i, places: m", "R: m i", 0, gather, of="X"),
    Case("gather_back", "dR: m i, places: m", "dX: b j i", S["m"] * I, gather_back),
    Case(
        "expert_product",
        "X: m i, W: e u i, experts: m",
        "Y: m u",
        2 * S["m"] * I * U,
        expert_product,
        of="XW",
        below={"experts": S["e"]},
    ),
    Case(
        "expert_weights",
        "dY: m u, X: m i, experts: m",
        "dW: e u i",
        2 * S["m"] * I * U,
        expert_weights,
        below={"experts": S["e"]},
    ),
    Case(
        "combine",
        "R: m i, places: m, gates: b j s",
        "Y: b j i",
        2 * S["m"] * I,
        combine,
        of="R gates",
    ),
    Case(
        "combine_back",
        "dY: b j i, R: m i, places: m, gates: b j s",
        "dR: m i, dgates: b j s",
        3 * S["m"] * I,
        combine_back,
    ),
    Case(
        "attention",
        QKV,
        "O: b h r j d, lse: b h r j",
        ALL * (2 * (P + D) + 1 + 4),
        attention(every),
        "j k",
        {"factor": 0.7},
        of="QKV",
    ),
    Case(
        "attention",
        QKV,
        "O: b h r j d, lse: b h r j",
        SEEN * (2 * (P + D) + 1 + 4),
        attention(earlier),
        "j k",
        {"factor": 0.7, "causal": True},
        of="QKV",
        label="causal attention",
    ),
    Case(
        "attention",
        QKV,
        "O: b h r j d, lse: b h r j",
        B * H * R * (3 + 3 + 1) * (2 * (P + D) + 1 + 4),
        attention(marked),
        "j k",
        {"factor": 0.7, "blocks": MARKS},
        label="block-sparse attention",
    ),
    Case(
        "attention",
        QKV,
        "O: b h r j d, lse: b h r j",
        B * H * R * (2 + 3) * (2 * (P + D) + 1 + 4),
        attention(lambda j, k: j < 2 and k < 3 and earlier(j, k)),
        "j k",
        {
            "factor": 0.7,
            "causal": True,
            "blocks": MarkedTiles.of([[True, False], [False, False]], B_r=2, B_c=3),
        },
        label="causal block-sparse attention with a row that sees nothing",
    ),
    Case(
        "attention_back",
        f"dO: b h r j d, {QKV}, O: b h r j d, lse: b h r j",
        "dQ: b h r j p, dK: b h k p, dV: b h k d",
        ALL * (2 * (3 * P + 2 * D) + 3 + 3) + 2 * B * H * R * J * D,
        attention_back,
        "j k",
        {"factor": 0.7},
    ),
    Case(
        "all_reduce",
        ROW,
        "Y: b i j",
        N * 3 // 4,
        wordwise("Y", "X")(lambda x: 4 * x),
        settings={"devices": 4},
    ),
]
