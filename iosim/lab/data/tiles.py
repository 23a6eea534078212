"""The plane of tile sizes: which schedules, what to begin with, and FlashAttention's rule.

Words, peaks and the optimum come from the programs' closed forms, which the page evaluates.
"""

from __future__ import annotations

from iosim.core.algorithms import algorithm
from iosim.core.problem import PROBLEMS, Attention
from iosim.lab.columns import Json

# What a field of the page takes at most: a plane has all distinct trip counts of both tiles.
LARGEST = 4096

# GPT-2's head in 96 KiB of fp32, as in experiment E04.
_HEAD = {"N": 1024, "d": 64, "heads": 1}
START = {"attention": _HEAD, "attention-backward": _HEAD, "matmul": {"m": 512, "n": 512, "k": 512}}
M = 24_576

# Schedules whose plane is shown, with the tiles on its two axes; others are held.
PLANES: dict[str, tuple[str, str]] = {
    "flash1": ("B_r", "B_c"),
    "flash2": ("B_r", "B_c"),
    "flash2_chunked": ("B_r", "B_c"),
    "flash2_keep": ("B_r", "B_c"),
    "flash1_backward": ("B_r", "B_c"),
    "flash2_backward": ("B_r", "B_c"),
    "matmul": ("B_n", "B_m"),
}

# FlashAttention-2's blocks (Dao 2023, section 3.3: {64, 128} × {64, 128}), as B_r, B_c.
BLOCKS = ((128, 128), (128, 64), (64, 128), (64, 64))

# An expression: a number, a name, or an operation with two of them; ("ceil", a, b) is ⌈a/b⌉.
Expression = int | str | tuple[str, "Expression", "Expression"]

_QUARTER: Expression = ("ceil", "M", ("times", 4, "d"))
# FlashAttention's rule, `iosim.core.algorithms.flash1.paper_tiles`, and the same without its min.
RULE: dict[str, Expression] = {"B_r": ("min", _QUARTER, "d"), "B_c": _QUARTER}
UNCAPPED: dict[str, Expression] = {"B_r": _QUARTER, "B_c": _QUARTER}


def data() -> Json:
    """What the view shows: planes, first sizes, the rule and published blocks."""
    return {
        "M": M,
        "largest": LARGEST,
        "planes": [_plane(name, *axes) for name, axes in PLANES.items()],
        "rule": {
            "name": "FlashAttention's rule",
            "says": "B_c = ⌈M/4d⌉, B_r = min(⌈M/4d⌉, d)",
            "source": "Dao et al. 2022, arXiv 2205.14135, Algorithm 1, line 1",
            "tiles": RULE,
            "uncapped": UNCAPPED,
        },
        "blocks": {
            "name": "FlashAttention-2",
            "source": "Dao 2023, arXiv 2307.08691, section 3.3",
            "tiles": [{"B_r": r, "B_c": c} for r, c in BLOCKS],
        },
    }


def _plane(name: str, x: str, y: str) -> Json:
    entry = algorithm(name)
    attention = entry.problem is Attention
    axes = PROBLEMS[entry.problem.kind].axes()
    says = {a.name: a.says for a in axes}
    return {
        "schedule": name,
        "title": entry.title,
        "x": x,
        "y": y,
        "held": [p.name for p in entry.program.params if p.name not in (x, y)],
        "sizes": [
            {"name": n, "value": v, "says": says[n]} for n, v in START[entry.problem.kind].items()
        ],
        "rule": attention,
        "blocks": attention,
    }
