"""FlashAttention's published HBM traffic (L2↔DRAM) beside the model and an H200's counters.

Dao et al. 2022, Figure 2, left, p. 6: N = 1024, d = 64, 16 heads, batch 64, forward and backward on
an A100.  Standard attention: 40.3 GB and 41.7 ms in arXiv 2205.14135v2 (23 June 2022, the last
there), of "GPT-2 medium"; 35.3 GB and 35.1 ms in the proceedings (NeurIPS 35, 2022, pp.
16344-16359), with a key-padding mask and without dropout.  FlashAttention: 4.4 GB in both, 7.3 and
11.7 ms.  Both were read in transcriptions; arXiv's v1 (27 May 2022) was not seen.

Formulas are those of schedules, forward and backward: registered ones, and of `iosim.gpu.libraries`
those that stand for PyTorch's kernels, cuDNN's, and FlashAttention's code of June 2022.  Each is
counted at SM↔L2, and at L2↔DRAM as if every kernel read and wrote once what it touches.  Recorded
counters are of an H200 (`iosim gpu paper`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from iosim.base.dtypes import word_bytes
from iosim.core.algorithms import algorithm
from iosim.core.counting.numbers import count
from iosim.core.problem import Attention, AttentionBackward
from iosim.core.program.walk import Instance, bind
from iosim.core.tiling.rules import choose_tiles
from iosim.core.units import bytes_of
from iosim.gpu.libraries import FIRST_TILES, StandardStep, first_step, once_bytes, standard_bytes
from iosim.gpu.reports import gpu_report
from iosim.models.hardware import machine
from iosim.report.plot import PALETTE, STYLE, WIDTH, pyplot, save
from iosim.report.table import read_csv

from . import DATA, Experiment, Rows, digits, run_main

PROBLEM = Attention(1024, 64, 16 * 64)
DTYPE, GB = "fp16", 1e9
M = machine("a100").sm_words(DTYPE)
RECORD = DATA / "gpu" / "h200" / "paper"
FORWARD, BOTH = "forward", "forward + backward"
PUBLISHED = (
    ("standard", 40.3, "arXiv v2, 41.7 ms"),
    ("standard_padded", 35.3, "NeurIPS proceedings, 35.1 ms"),
    ("fused_2022", 4.4, "arXiv v2, 7.3 ms; NeurIPS proceedings, 11.7 ms"),
)
# What a key-padding mask without dropout adds: a kernel over S; where it is filled in, not added,
# one over the gradient as well.
PADDED = (("mask added", {"masked": True}), ("mask filled in", {"masked": True, "filled": True}))
ONCE = "formula, kernels once"
# Of the code of 2022, how many heads an SM of an A100 can have at once, forward and backward.  Its
# shared memory, 164 KiB, has room for one block of the backward pass: K and V, 32 KiB each, four
# bytes of dQ for each of 8 warps, 32 KiB, and two tiles of scores, 8 KiB each.  A block of the
# forward pass takes 32 KiB for K and V in turn, 16 KiB for O and 2 KiB or more for Q.
RESIDENT = ((1, 1), (3, 1))
# Schedule, how its tiles are chosen, and the line of the figure it belongs to.
MODEL = (
    ("naive", "auto", "standard"),
    ("flash1", "paper", "fused"),
    ("flash1", "auto", "fused"),
    ("flash2", "auto", "fused"),
)


def tables() -> dict[str, Rows]:
    """Everything in GB (10⁹ bytes)."""
    rows: Rows = [_row(group, BOTH, "published, A100", gb, note) for group, gb, note in PUBLISHED]
    for name, how, group in MODEL:
        choice = choose_tiles(algorithm(name), PROBLEM, M, how)
        note = f"{name}, {how} tiles: {_format_tiles(choice.tiles)}"
        rows.append(
            _row(group, FORWARD, "iosim's formula", model_bytes(choice.instance) / GB, note)
        )
    compulsory = 4 * PROBLEM.heads * PROBLEM.N * PROBLEM.d * word_bytes(DTYPE) / GB
    rows.append(_row("fused", FORWARD, "compulsory", compulsory, "Q, K, V once in, O once out"))
    sizes = {"N": PROBLEM.N, "d": PROBLEM.d, "heads": PROBLEM.heads}
    for how, more in PADDED:
        gb = sum(standard_bytes(StandardStep(**sizes, **more), DTYPE).values()) / GB
        rows.append(_row("standard_padded", BOTH, ONCE, gb, f"PyTorch's kernels, {how}"))
    rows += _of_2022()
    for r in gpu_report("paper").table(RECORD).rows:
        name = r["implementation"].removeprefix("PyTorch ")
        if name.startswith("emitted"):
            group = "standard" if name == "emitted naive" else "fused"
            who = f"{name.removeprefix('emitted ')} emitted by iosim"
        else:
            group, who = name, f"PyTorch, {r['kernels']} kernels"
        rows.append(_row(group, r["passes"], "measured, H200", r["dram_gb"], who))
        if r["passes"] == BOTH:
            how = "cuDNN's kernels" if group == "fused" else "PyTorch's kernels"
            rows.append(_row(group, BOTH, ONCE, r["predicted_gb"], how))
    return {"hbm.csv": rows}


def _of_2022() -> Rows:
    """FlashAttention forward and backward: as printed, and as its code was."""
    # Algorithm 1, line 1, which Algorithm 4 repeats.
    tiles = algorithm("flash1").rules["paper"](PROBLEM, M)
    stored = replace(PROBLEM, statistics=True)
    after = AttentionBackward.from_forward(stored)
    forward, backward = (
        algorithm(x).program_for(p) for x, p in (("flash1", stored), ("flash1_backward", after))
    )
    printed = [
        bind(forward, stored.sizes, tiles),
        bind(backward, after.sizes, {**tiles, "B_dQ": 1, "B_dQd": 1}),
    ]
    gb = sum(map(model_bytes, printed)) / GB
    note = f"flash1 and flash1_backward, paper tiles: {_format_tiles(tiles)}"
    code = first_step(PROBLEM)
    every = [model_bytes(one) / GB for one in code]
    once = [sum(once_bytes(one, DTYPE).values()) / GB for one in code]
    rows = [
        _row("fused_2022", BOTH, "iosim's formula", gb, note),
        _row(
            "fused_2022",
            BOTH,
            "iosim's formula",
            sum(every),
            f"code of 2022, its tiles: {_format_tiles(FIRST_TILES)}",
        ),
        _row("fused_2022", BOTH, ONCE, sum(once), "code of 2022"),
    ]
    for resident in RESIDENT:
        kept = list(map(_resident_share, code, resident))
        gb = sum(x + (1 - f) * (y - x) for x, y, f in zip(once, every, kept, strict=True))
        note = f"code of 2022 behind an A100's L2, {resident[0]} and {resident[1]} heads an SM"
        rows.append(_row("fused_2022", BOTH, "behind L2, at best", gb, note))
    return rows


def _format_tiles(tiles: Mapping[str, int]) -> str:
    return " ".join(f"{k}={v}" for k, v in tiles.items())


def _resident_share(instance: Instance, resident: int) -> float:
    """The share of what a head sweeps that stays in its share of L2, if no choice is better.

    A sweep reads, and some of it writes, all rows of what is swept; a policy that knows what comes
    keeps the same words all the time.  One that evicts the least recently used keeps none, unless
    all fit.
    """
    a100 = machine("a100")
    assert a100.cache_bytes is not None
    swept = {"first": ("Q", "O32", "L"), "first_back": ("Q", "dO", "dQ32", "L", "D")}
    program, env = instance.program, instance.env
    head = sum(
        math.prod(env[x] for x in t.axes[1:]) * word_bytes(DTYPE, t.wide)
        for t in map(program.tensor, swept[program.name])
    )
    return min(1.0, a100.cache_bytes / a100.cores / resident / head)


def model_bytes(instance: Instance) -> int:
    """Bytes of a bound schedule in fp16; row statistics are fp32."""
    return sum(bytes_of(count(instance), instance.program.tensors, DTYPE).values())


def _row(group: str, passes: str, source: str, gb: float, note: str) -> dict[str, Any]:
    return {
        "attention": group,
        "passes": passes,
        "source": source,
        "hbm_gb": digits(gb, 4),
        "note": note,
    }


LINES = (
    ("standard", FORWARD, "standard attention,\nforward"),
    ("standard", BOTH, "standard attention,\nforward + backward"),
    ("standard_padded", BOTH, "the same with a padding mask,\nforward + backward"),
    ("standard_masked", BOTH, "the same with mask and dropout,\nforward + backward"),
    ("fused", FORWARD, "FlashAttention,\nforward"),
    ("fused_2022", BOTH, "FlashAttention of 2022,\nforward + backward"),
    ("fused", BOTH, "cuDNN's on an H200,\nforward + backward"),
)
MARKS = {
    ONCE: ("s", PALETTE[2], 11),
    "published, A100": ("D", PALETTE[1], 8),
    "iosim's formula": ("o", PALETTE[0], 8),
    "measured, H200": ("X", PALETTE[3], 7.5),
    "behind L2, at best": ("^", PALETTE[4], 8),
    "compulsory": ("|", PALETTE[6], 18),
}
# What the legend says where it is not the source alone.
BOUNDARY = {
    "iosim's formula": "formula, SM↔L2",
    ONCE: "formula, L2↔DRAM:\nkernels touch once",
    "behind L2, at best": "the code of 2022 behind\nan A100's L2, at best",
}


def draw(folder: Path, stem: Path) -> list[Path]:
    """Dots on a log axis, one line for each implementation and direction."""
    rows = read_csv(folder / "hbm.csv")
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(WIDTH, 6.4))
        for y, (group, passes, _) in enumerate(LINES):
            mine = [r for r in rows if (r["attention"], r["passes"]) == (group, passes)]
            for r in sorted(mine, key=lambda r: list(MARKS).index(r["source"])):
                axes.plot(r["hbm_gb"], -y, **_look(r["source"]))
            _label(axes, mine, -y)
        for source in MARKS:
            axes.plot([], [], **_look(source), label=BOUNDARY.get(source, source))
        axes.set_yticks([-y for y in range(len(LINES))], [text for *_, text in LINES])
        axes.set(
            xscale="log",
            ylim=(-len(LINES) + 0.4, 0.7),
            xlim=(0.3, 80),
            xlabel="bytes read + written (GB = 10⁹, fp16) at L2↔DRAM; formulas at SM↔L2",
        )
        figure.suptitle(
            f"{_describe(rows)}\nGPT-2 medium's attention: N = 1,024, d = 64, 16 heads, batch 64"
        )
        ticks = (0.5, 1, 2, 5, 10, 20, 50)
        axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=3, labelspacing=0.9)
        figure.tight_layout(rect=(0, 0.09, 1, 1))
        return save(figure, stem)


def _describe(rows: Rows) -> str:
    """What the figure shows: libraries' kernels beside counters, and beside what is published."""
    once = [r for r in rows if r["source"] == ONCE]
    counted = {r["attention"]: r["hbm_gb"] for r in once}
    off = [
        abs(counted[r["attention"]] / r["hbm_gb"] - 1)
        for r in rows
        if r["source"] == "measured, H200" and r["passes"] == BOTH
    ]
    (said,) = (
        r["hbm_gb"]
        for r in rows
        if (r["attention"], r["source"]) == ("standard", "published, A100")
    )
    near = min(once, key=lambda r: abs(r["hbm_gb"] - said))
    _, how = near["note"].split(", mask ")
    return (
        f"The libraries' kernels, counted, are within {max(off):.1%} of the counters;\n"
        f"{near['hbm_gb']:.1f} GB counted where the mask is {how}, {said:.1f} GB published"
    )


def _look(source: str) -> dict[str, Any]:
    mark, color, size = MARKS[source]
    face = "none" if mark == "s" else color
    return {
        "marker": mark,
        "linestyle": "none",
        "markersize": size,
        "markerfacecolor": face,
        "markeredgecolor": color if mark in "s|" else "black",
        "markeredgewidth": 1.6 if mark in "s|" else 0.8,
    }


def _label(axes: Any, rows: Rows, y: float) -> None:
    """Each number once, neighbors above and below by turns; formulas also with their schedule."""
    groups: list[Rows] = []
    for r in sorted(rows, key=lambda r: r["hbm_gb"]):
        if groups and r["hbm_gb"] < 1.03 * groups[-1][0]["hbm_gb"]:
            groups[-1].append(r)
        else:
            groups.append([r])
    ends = [(g[0]["hbm_gb"], g[-1]["hbm_gb"]) for g in groups]
    side = 1
    for k, (group, (first, last)) in enumerate(zip(groups, ends, strict=True)):
        before = first / ends[k - 1][1] if k else 9.0
        after = ends[k + 1][0] / last if k + 1 < len(ends) else 9.0
        side = -side if before < 1.3 else 1
        # Away from the neighbor that is nearer.
        to = "right" if after < 1.6 <= before else "left" if before < 1.6 <= after else "center"
        low, high = f"{first:.3g}", f"{last:.3g}"
        formulas = [r for r in group if (r["source"], r["passes"]) == ("iosim's formula", FORWARD)]
        names = [r["note"].partition(":")[0] for r in formulas]
        at = (first * last) ** 0.5
        axes.annotate(
            low if low == high else f"{low}–{high}",
            (at, y),
            ha=to,
            fontsize=8,
            xytext=({"right": 8, "left": -8, "center": 0}[to], 9 if side > 0 else -18),
            textcoords="offset points",
        )
        if names:
            own = names[0].replace(", auto tiles", "").replace(", ", ",\n")
            axes.annotate(
                own,
                (at, y),
                xytext=(0, -11),
                ha="center",
                va="top",
                textcoords="offset points",
                fontsize=8,
                color="dimgrey",
                linespacing=0.95,
            )


EXPERIMENT = Experiment("e03_published", tables, draw)

if __name__ == "__main__":
    run_main(EXPERIMENT.main)
