"""One operator, from its sizes.

The tensors of each kind are in one line: ``X: m n, G: n -> Y: m n; n`` reads X and G, writes Y,
and works along n.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iosim.base.errors import InputError, closest
from iosim.base.rows import Row
from iosim.core.problem import Attention, AttentionBackward, MarkedTiles
from iosim.models.layers.graph import Graph
from iosim.models.operators import operand, operator

# Of what is typed → the kind of operator and its tensors.
_STREAM = "X: m n -> Y: m n"
_TWO = "X: m n, Y: m n -> Z: m n"
_ROWS = f"{_STREAM}; n"
SINGLE: dict[str, tuple[str, str]] = {
    "matmul": ("contraction", "A: b m k, B: b k n -> C: b m n"),
    "softmax": ("softmax", _ROWS),
    "softmax_back": ("softmax_back", f"{_TWO}; n"),
    "layer_norm": ("layer_norm", "X: m n, G: n, B: n -> Y: m n; n"),
    "rms_norm": ("rms_norm", "X: m n, G: n -> Y: m n; n"),
    "sum": ("sum", "X: m n -> Y: m; n"),
    "cross_entropy": ("cross_entropy", "X: m n, labels: m -> loss: m; n"),
    **{
        kind: (kind, _STREAM)
        for kind in ("same", "cast", "scale", "relu", "gelu", "gelu_tanh", "all_reduce")
    },
    **{
        kind: (kind, _TWO)
        for kind in ("add", "multiply", "relu_back", "gelu_back", "gelu_tanh_back", "swiglu")
    },
    "bias": ("bias", "X: m n, B: n -> Y: m n"),
    "dropout": ("dropout", "X: m n -> Y: m n, mask: m n"),
    "rope": ("rope", "X: m n, cos: m n, sin: m n -> Y: m n; n"),
    "causal": ("causal", "X: m n -> Y: m n; m n"),
    "adam": ("adam", "W: m n, G: m n, M: m n, V: m n -> W2: m n, M2: m n, V2: m n"),
    "embedding": ("embedding", "ids: m, T: k n -> Y: m n"),
}
# Made by `attention`, from problems of these kinds.
ATTENTIONS = (Attention.kind, AttentionBackward.kind)
# A size that may be left out is 1.
_OPTIONAL = ("b", "m")
# Settings that are not a question of time or words.
_SET: dict[str, Row] = {"scale": {"factor": 0.5}}


def single(name: str, sizes: Mapping[str, int], dtype: str = "fp16", **settings: Any) -> Graph:
    """A graph of one operator.

    Args:
        name: a key of `SINGLE`.
        sizes: of the axes: m rows of n words, or m × k by k × n for a product; b products.
        dtype: of a word.
        settings: of the kind.

    Raises InputError for an unknown name, a size that is missing, and one that it doesn't have.

    >>> single("softmax", {"m": 4096, "n": 512}).operators[0].words
    {'X': (2097152, 0), 'Y': (0, 2097152)}
    """
    if name not in SINGLE:
        raise InputError(f"unknown operator {name!r}: {closest(name, (*SINGLE, *ATTENTIONS))}")
    kind, told = SINGLE[name]
    tensors, _, over = told.partition(";")
    reads, writes = (
        [part.strip().split(": ") for part in side.split(",")] for side in tensors.split("->")
    )
    axes = list(dict.fromkeys(a for _, named in (*reads, *writes) for a in named.split()))
    for axis in sizes:
        if axis not in axes:
            raise InputError(f"{name} has no size {axis}: it has {', '.join(axes)}")
    if missing := [a for a in axes if a not in sizes and a not in _OPTIONAL]:
        them = "it" if len(missing) == 1 else "them"
        raise InputError(f"{name} needs {', '.join(f'--{a}' for a in missing)}: give {them}")
    full = {a: sizes.get(a, 1) for a in axes}
    read, written = ([operand(t, a, full) for t, a in side] for side in (reads, writes))
    made = operator(name, kind, read, written, over=over.strip(), **_SET.get(name, {}), **settings)
    return Graph(name, (made,), dtype=dtype)


def attention(
    problem: Attention | AttentionBackward, dtype: str = "fp16", blocks: MarkedTiles | None = None
) -> Graph:
    """A graph of one attention, or of its gradients.

    Args:
        problem: the sizes and options.
        dtype: of a word.
        blocks: a block mask with its tiles.

    Raises InputError for options that the operator doesn't have, and a block mask of another shape.

    >>> attention(Attention(1024, 64, 16)).operators[0].words["K"]
    (1048576, 0)
    >>> attention(AttentionBackward(1024, 64, 16)).operators[0].words["dK"]
    (0, 1048576)
    """
    told = problem.as_dict
    for option in ("sinks", "align"):
        if told.get(option):
            raise InputError(f"the operator {problem.kind} has no option --{option}: leave it out")
    groups = problem.kv_heads or problem.heads
    sizes = {
        "g": groups,
        "r": problem.heads // groups,
        "j": problem.N,
        "k": problem.keys,
        "d": problem.d,
        "e": problem.values,
    }
    axes = {"Q": "g r j d", "K": "g k d", "V": "g k e", "O": "g r j e"}
    words = {x: operand(x, named, sizes) for x, named in axes.items()}
    lse = operand("L", "g r j", sizes, dtype="fp32")
    kind, reads, writes = "attention", [words[x] for x in "QKV"], [words["O"]]
    if isinstance(problem, AttentionBackward):
        reads = [words["O"].renamed("dO"), *words.values(), lse]
        kind, writes = "attention_back", [words[x].renamed(f"d{x}") for x in "QKV"]
    elif problem.statistics:
        writes.append(lse)
    settings: Row = {"causal": problem.causal, "window": problem.window}
    if blocks is not None:
        settings["blocks"] = blocks
    made = operator(problem.kind, kind, reads, writes, over="j k", **settings)
    return Graph(problem.kind, (made,), dtype=dtype)
