"""Problems: what is computed, with its axes, its tensors in slow memory, and a float64 reference.

A problem knows nothing of schedules; its sizes bind the axes of any program written for it.  All
wings that ask about a problem take one of these dataclasses, and commands derive their options from
the declared axes and options.  One file has one problem, with a line in `PROBLEMS`; `form`, `base`,
`heads`, `scores` and `visible_pairs` have what problems share.  Published models' attention is in
`MODELS` of this file.

Changing files here: names of axes, tensors and options are in schedules, JSON, sweeps' columns and
recorded data, and stay.  `reference` is what outputs are compared with, so keep it plain and in
float64.  The pairs that a mask leaves are counted here in closed form (`visible_pairs`); bounds use
them, so raise `iosim.base.revision.REVISION` if they change.  Import nothing of
`iosim.core.program`: an import contract refuses it.

>>> LIMITS, "sinks" in LIMITS_SAY
(('left', 'right'), True)
>>> sorted(PROBLEMS), "gpt2" in MODELS, WHOLE.most(3, 4)
(['attention', 'attention-backward', 'block-sparse', 'copy', 'matmul', 'paged'], True, 4)
>>> "float64" in str(Array), Attentions == Attention | AttentionBackward
(True, True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from iosim.base.errors import InputError, closest
from iosim.base.reading import read_toml
from iosim.core.problem.attention import Attention
from iosim.core.problem.backward import AttentionBackward
from iosim.core.problem.base import (
    WHOLE,
    Arithmetic,
    BaseProblem,
    Problem,
    as_array,
    in_shape,
    joined_shape,
    size_names,
)
from iosim.core.problem.blocks import BlockMask, BlockSparse, MarkedTiles
from iosim.core.problem.copy import Copy
from iosim.core.problem.family import Family
from iosim.core.problem.form import (
    LIMITS,
    LIMITS_SAY,
    Array,
    Axis,
    Derived,
    Form,
    Hbm,
    Mask,
    Option,
    Tensor,
    axis,
    check_positions,
    derive,
    option,
)
from iosim.core.problem.matmul import MatMul
from iosim.core.problem.paged import PagedAttention

__all__ = [
    "LIMITS",
    "LIMITS_SAY",
    "MODELS",
    "PROBLEMS",
    "WHOLE",
    "Arithmetic",
    "Array",
    "Attention",
    "AttentionBackward",
    "Attentions",
    "Axis",
    "BaseProblem",
    "BlockMask",
    "BlockSparse",
    "Copy",
    "Derived",
    "Family",
    "Form",
    "MarkedTiles",
    "Mask",
    "MatMul",
    "Option",
    "PagedAttention",
    "Problem",
    "Tensor",
    "as_array",
    "axis",
    "check_positions",
    "derive",
    "every_axis",
    "every_option",
    "in_shape",
    "joined_shape",
    "max_error",
    "model",
    "option",
    "size_names",
]

# Problems with the sizes and options of attention.
Attentions: TypeAlias = Attention | AttentionBackward

PROBLEMS: dict[str, type[Any]] = {
    p.kind: p for p in (Attention, AttentionBackward, MatMul, Copy, PagedAttention, BlockSparse)
}

# Name → the attention of one layer of a published model, and the source.
MODELS: dict[str, tuple[Attention, str]] = {
    name: (Attention(**one["attention"]), one["source"])
    for name, one in read_toml(Path(__file__).with_name("models.toml")).items()
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
            said = [] if before is None else before.says.split(", or ")
            says = ", or ".join(dict.fromkeys([*said, one.says]))
            found[one.name] = replace(one, says=says)
    return found


def every_option() -> dict[str, Option]:
    """All options of registered problems by name.

    >>> every_option()["kv_heads"].divides
    'heads'
    """
    return {one.name: one for problem in PROBLEMS.values() for one in problem.options()}


def model(name: str) -> Attention:
    """Return a named model's attention, options and all, or raise InputError with the nearest name.

    >>> model("llama3-8b")
    Attention(N=8192, d=128, heads=32, kv_heads=8, causal=True)
    """
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}: {closest(name, MODELS)}")
    return MODELS[name][0]


def max_error(got: Hbm, want: Hbm) -> float:
    """The largest ``|got − want| / max(1, max|want|)`` over all outputs.

    NaN counts as infinite, and so does a wrong shape.  Raises InputError unless both give arrays by
    name, and where an output is missing.

    >>> import numpy as np
    >>> max_error({"Y": np.array([1.0, 2.5])}, {"Y": np.array([1.0, 2.0])})
    0.25
    """
    for given in (got, want):
        if not isinstance(given, Mapping):
            raise InputError(
                f"max_error takes arrays by name, got {type(given).__name__}: give a "
                "dict, like run.outputs"
            )
    if missing := sorted(set(want) - set(got)):
        raise InputError(f"the first of two has no output {missing[0]}: give it")
    worst = 0.0
    for name, ref in want.items():
        if np.shape(got[name]) != ref.shape:
            return math.inf
        scale = max(1.0, float(np.max(np.abs(ref))))
        error = float(np.max(np.abs(np.asarray(got[name]) - ref))) / scale
        worst = max(worst, math.inf if math.isnan(error) else error)
    return worst
