"""Problems: what is to be computed, its axes, its tensors in HBM, and a float64 reference.

A problem knows nothing of schedules.  Its sizes bind the axes of any program written for it.  An
axis is declared once, as a field of its problem; the builder, the commands, sweeps and bounds read
names, defaults and words of help from there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from iosim.errors import InputError, closest

Array = NDArray[np.float64]

# A count of 2**62 words would overflow the vectorised engine; no memory comes near it.
LARGEST_SIZE = 2**40


def check_size(name: str, value: object, least: int = 1) -> int:
    """Return `value` as an int, or raise InputError unless it is an integer in [least, 2**40]."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{name} must be a whole number, got {value!r}: give an integer")
    if not least <= int(value) <= LARGEST_SIZE:
        raise InputError(
            f"{name} = {value} is outside {least}..{LARGEST_SIZE} (2**40): choose a size inside"
        )
    return int(value)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in HBM: its name, its axes, and whether it is a statistic kept in fp32."""

    name: str
    axes: tuple[str, ...]
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a problem.

    Attributes:
        name: of its size, and of the axis in a program.
        says: what it is, for help.
        letters: what tiles along it are called, in this order.
        default: its size where none is given; None: one must be given.
    """

    name: str
    says: str
    letters: str = ""
    default: int | None = None


def axis(says: str, letters: str = "", default: int | None = None) -> Any:
    """Declare a field of a problem as an axis; arguments as for `Axis`."""
    told = {"says": says, "letters": letters}
    return field(metadata=told) if default is None else field(default=default, metadata=told)


class Problem(Protocol):
    """What a program computes: axes, sizes, tensors, inputs and a float64 reference."""

    kind: ClassVar[str]
    inputs: ClassVar[tuple[Tensor, ...]]
    outputs: ClassVar[tuple[Tensor, ...]]

    @classmethod
    def axes(cls) -> tuple[Axis, ...]:
        """The axes, in the order in which people say them."""
        ...

    @property
    def sizes(self) -> dict[str, int]:
        """Axis name → extent."""
        ...

    @classmethod
    def beside_attention(cls, N: int, d: int, heads: int) -> Problem:
        """The instance to set beside attention of these sizes, in one table or sweep."""
        ...

    def random(self, seed: int = 0) -> dict[str, Array]:
        """Random inputs, float64."""
        ...

    def reference(self, hbm: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs, computed in float64 by the textbook formula."""
        ...


def size_names(problem: type[Problem] | type[BaseProblem]) -> tuple[str, ...]:
    """Names of a problem's sizes, in the order in which people say them."""
    return tuple(axis.name for axis in problem.axes())


class BaseProblem:
    """What problems share: a frozen dataclass whose fields are axes, with sizes checked once."""

    inputs: ClassVar[tuple[Tensor, ...]]

    def __post_init__(self) -> None:
        for name in size_names(type(self)):
            object.__setattr__(self, name, check_size(name, getattr(self, name)))

    @property
    def sizes(self) -> dict[str, int]:
        """Axis name → extent."""
        return {name: getattr(self, name) for name in size_names(type(self))}

    @classmethod
    def axes(cls) -> tuple[Axis, ...]:
        """The axes, in the order in which people say them.

        Raises InputError where a field is no axis.
        """
        found = fields(cls)  # type: ignore[arg-type]
        for f in found:
            if "says" not in f.metadata:
                raise InputError(
                    f"{cls.__name__}.{f.name} is no axis: declare it as "
                    f"{f.name}: int = axis('what it counts'), or as a ClassVar"
                )
        return tuple(
            Axis(f.name, default=None if f.default is MISSING else f.default, **f.metadata)
            for f in found
        )

    @classmethod
    def beside_attention(cls, N: int, d: int, heads: int) -> Any:
        """The instance to set beside attention of these sizes; InputError where there is none."""
        raise InputError(f"{cls.__name__} has no size to set beside attention: bind() it instead")

    def random(self, seed: int = 0) -> dict[str, Array]:
        """Standard normal inputs, float64."""
        rng = np.random.default_rng(seed)
        sizes = self.sizes
        return {t.name: rng.standard_normal([sizes[a] for a in t.axes]) for t in self.inputs}


@dataclass(frozen=True)
class Attention(BaseProblem):
    """O = softmax(QKᵀ)V for `heads` independent heads (batch × heads).

    Shapes: Q, K, V, O are (heads, N, d).  There is no 1/√d: whoever wants it scales Q, which
    moves no words.  Raises InputError for sizes that are not integers in 1..2**40.
    """

    N: int = axis("sequence length", letters="ij")
    d: int = axis("head dimension", letters="xy")
    heads: int = axis("batch × heads", letters="h", default=1)

    kind: ClassVar[str] = "attention"
    inputs: ClassVar[tuple[Tensor, ...]] = tuple(Tensor(x, ("heads", "N", "d")) for x in "QKV")
    outputs: ClassVar[tuple[Tensor, ...]] = (Tensor("O", ("heads", "N", "d")),)

    @classmethod
    def beside_attention(cls, N: int, d: int, heads: int) -> Attention:
        """Attention of these sizes."""
        return cls(N, d, heads)

    def reference(self, hbm: Mapping[str, Array]) -> dict[str, Array]:
        """The textbook formula in float64, a block of rows at a time to bound memory."""
        Q, K, V = (np.asarray(hbm[x], dtype=np.float64) for x in "QKV")
        O = np.empty_like(Q)
        rows = max(1, 2**22 // self.N)
        for h in range(self.heads):
            for i in range(0, self.N, rows):
                S = Q[h, i : i + rows] @ K[h].T
                P = np.exp(S - S.max(axis=1, keepdims=True))
                O[h, i : i + rows] = (P @ V[h]) / P.sum(axis=1, keepdims=True)
        return {"O": O}


@dataclass(frozen=True)
class MatMul(BaseProblem):
    """C = AB with A (m, k), B (k, n), C (m, n)."""

    m: int = axis("rows of C", letters="i")
    n: int = axis("columns of C", letters="ij")
    k: int = axis("inner size of a matrix product", letters="x")

    kind: ClassVar[str] = "matmul"
    inputs: ClassVar[tuple[Tensor, ...]] = (Tensor("A", ("m", "k")), Tensor("B", ("k", "n")))
    outputs: ClassVar[tuple[Tensor, ...]] = (Tensor("C", ("m", "n")),)

    @classmethod
    def beside_attention(cls, N: int, d: int, heads: int) -> MatMul:
        """The size of one head's score matrix: N × N × d."""
        return cls(m=N, n=N, k=d)

    def reference(self, hbm: Mapping[str, Array]) -> dict[str, Array]:
        """NumPy's product in float64."""
        return {"C": np.asarray(hbm["A"], np.float64) @ np.asarray(hbm["B"], np.float64)}


@dataclass(frozen=True)
class Copy(BaseProblem):
    """Y = X, vectors of n words: the smallest problem there is."""

    n: int = axis("length of a vector", letters="ij")

    kind: ClassVar[str] = "copy"
    inputs: ClassVar[tuple[Tensor, ...]] = (Tensor("X", ("n",)),)
    outputs: ClassVar[tuple[Tensor, ...]] = (Tensor("Y", ("n",)),)

    @classmethod
    def beside_attention(cls, N: int, d: int, heads: int) -> Copy:
        """As many words as one head of Q has: N·d."""
        return cls(n=N * d)

    def reference(self, hbm: Mapping[str, Array]) -> dict[str, Array]:
        """X itself."""
        return {"Y": np.asarray(hbm["X"], np.float64)}


PROBLEMS: dict[str, type[Any]] = {p.kind: p for p in (Attention, MatMul, Copy)}

# One head of each: (N, d, heads).  Sources: the models' published configurations.
MODELS: dict[str, tuple[Attention, str]] = {
    "gpt2": (Attention(1024, 64, 12), "Radford et al. 2019, 12 heads of 64, context 1024"),
    "gpt2-medium": (Attention(1024, 64, 16), "Radford et al. 2019, 16 heads of 64, context 1024"),
    "bert-large": (Attention(512, 64, 16), "Devlin et al. 2019, 16 heads of 64, context 512"),
    "llama3-8b": (Attention(8192, 128, 32), "Llama 3 2024, 32 query heads of 128, context 8192"),
    "llama3-70b": (Attention(8192, 128, 64), "Llama 3 2024, 64 query heads of 128, context 8192"),
}


def every_axis() -> dict[str, Axis]:
    """All axes of registered problems by name; those that share a name are one, with all help.

    >>> every_axis()["n"].says
    'columns of C, or length of a vector'
    """
    found: dict[str, Axis] = {}
    for problem in PROBLEMS.values():
        for one in problem.axes():
            before = found.get(one.name)
            says = one.says if before is None else f"{before.says}, or {one.says}"
            found[one.name] = replace(one, says=says)
    return found


WORD_BYTES: dict[str, int] = {
    "fp8": 1, "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8,
}  # fmt: skip


def model(name: str) -> Attention:
    """Return a named model's attention problem, or raise InputError with the nearest name."""
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}: {closest(name, MODELS)}")
    return MODELS[name][0]


def word_bytes(dtype: str, wide: bool = False) -> int:
    """Bytes of one word of `dtype`; statistics (`wide`) never have fewer than 4."""
    if dtype not in WORD_BYTES:
        raise InputError(f"unknown dtype {dtype!r}: {closest(dtype, WORD_BYTES)}")
    return max(WORD_BYTES[dtype], 4) if wide else WORD_BYTES[dtype]


def max_error(got: Mapping[str, Array], want: Mapping[str, Array]) -> float:
    """Largest |got − want| / max(1, max|want|) over all outputs.

    NaN counts as infinite, and so does a wrong shape.
    """
    worst = 0.0
    for name, ref in want.items():
        if np.shape(got[name]) != ref.shape:
            return math.inf
        scale = max(1.0, float(np.max(np.abs(ref))))
        error = float(np.max(np.abs(np.asarray(got[name]) - ref))) / scale
        worst = max(worst, math.inf if math.isnan(error) else error)
    return worst
