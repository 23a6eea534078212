"""Ivanov et al.'s operators, counted: flop and words of BERT-large's encoder layer.

"Data Movement Is All You Need" (arXiv 2007.00072), B = 8, L = 512, I = 1024, H = 16, U = 4096,
forward and backward.  The layer is `iosim.models.layers.bert`, with their ReLU.  Their artifact,
spcl/substation, gives the rule by which flop are counted and the operators that are drawn as one;
what is printed in the paper was read where others show it (Stanford CS336, lecture 3, slide 16: the
shares and the tags).  Words are those in and out of an operator, each once: compulsory words at
whichever boundary.
"""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

from iosim.base.dtypes import word_bytes
from iosim.core.algorithms import algorithm
from iosim.core.counting.numbers import count
from iosim.core.problem import Attention
from iosim.core.program.walk import bind
from iosim.core.units import bytes_of
from iosim.gpu.reports import gpu_report
from iosim.models.fusion import PAPER, fused
from iosim.models.hardware import machine
from iosim.models.layers.bert import layer
from iosim.models.layers.blocks import Ask
from iosim.models.layers.graph import Graph
from iosim.models.layers.models import config
from iosim.models.operators import Operator, operand, operator
from iosim.report.plot import PALETTE, STYLE, WIDTH, draw_legend, pyplot, save
from iosim.report.table import read_csv

from . import DATA, Experiment, Rows, digits, run_main

DTYPE, SLIDE = "fp16", "Stanford CS336, lecture 3, slide 16"
CLASSES = ("contraction", "normalisation", "elementwise")

# Operators that the paper draws as one, by the names of `iosim.models.layers.bert`.  All others are
# rows of their own.  The class is the first member's, but for the two that are named by their
# softmax.
DRAWN: dict[str, tuple[str, ...]] = {
    "Q, K, V": ("query", "key", "value"),
    "input bias": ("query bias", "key bias", "value bias"),
    "scaled softmax": ("scale", "softmax", "attention dropout"),
    "scaled softmax dX": ("attention dropout dX", "softmax dX", "scale dX"),
    "Q, K, V dX": ("query dX", "key dX", "value dX"),
    "Q, K, V dW": ("query dWQ", "key dWK", "value dWV"),
    "input bias dW": ("query bias dBQ", "key bias dBK", "value bias dBV"),
}
SOFTMAX = ("scaled softmax", "scaled softmax dX")
# Multi-head attention, from the projections to the output's bias.
ATTENTION = (
    "query",
    "query bias",
    "key",
    "key bias",
    "value",
    "value bias",
    "scores",
    "scale",
    "softmax",
    "attention dropout",
    "weighted sum",
    "output",
    "output bias",
)
DROPPED = {"attention dropout", "output dropout", "activation dropout", "linear 2 dropout"}
# Share of flop and of a V100's time, as printed.
PRINTED = {"contraction": (99.80, 61.0), "normalisation": (0.17, 25.5), "elementwise": (0.03, 13.5)}
# Of the figure: flop as printed, in 10⁹ or 10⁶, and flop per word.
TAGS = (
    ("attention", "MHA", "43G", 43e9, 1e9, 153.0),
    ("feed-forward norm", "LayerNorm", "29M", 29e6, 1e6, 3.5),
    ("output dropout", "Dropout", "4M", 4e6, 1e6, 1 / 3),
    ("attention residual", "Add", "4M", 4e6, 1e6, 1 / 3),
)
PUBLISHED_SAVED = 22.91
# Flop per byte in fp16, as they are told.
TOLD = (
    ("layer norm", "about 5", 5.0),
    ("softmax", "about 3", 3.0),
    ("GELU", "about 1", 1.0),
    ("dropout", "below 1", 1.0),
)
M = 2**24  # of L2↔DRAM: rows and sums of all groups fit in any M from 2¹⁴ words on


def encoder(phase: str = "training") -> Graph:
    """The layer that the paper measures."""
    return layer(Ask(replace(config("bert-large"), activation="relu"), phase, batch=8, N=512))


def tables() -> dict[str, Rows]:
    """The operators, class shares, tags, fused groups, intensities and what is told of them."""
    graph = encoder()
    rows = paper_rows(graph)
    return {
        "operators.csv": rows,
        "classes.csv": _classes(graph, rows),
        "tags.csv": _tags(graph),
        "fused.csv": _fused(graph),
        "saved.csv": _saved(graph),
        "told.csv": _stated_intensities(),
        "faster.csv": _faster(),
        "mue.csv": _mue(),
    }


def paper_rows(graph: Graph) -> Rows:
    """One row for each operator as the paper draws it, forward first."""
    of = {name: row for row, names in DRAWN.items() for name in names}
    members: dict[str, list[Operator]] = {}
    for op in graph.operators:
        members.setdefault(of.get(op.name, op.name), []).append(op)
    forward = {op.name for op in encoder("prefill").operators} | DROPPED
    return [_row(graph, name, ops, ops[0].name in forward) for name, ops in members.items()]


def _row(graph: Graph, name: str, ops: list[Operator], forward: bool) -> dict[str, Any]:
    reads, writes = graph.part([op.name for op in ops])
    flop, words = sum(op.flop for op in ops), sum(reads.values()) + sum(writes.values())
    return {
        "operator": name,
        "pass": "forward" if forward else "backward",
        "class": "normalisation" if name in SOFTMAX else ops[0].klass,
        "flop": flop,
        "words_in": sum(reads.values()),
        "words_out": sum(writes.values()),
        "flop_per_word": digits(flop / words, 4),
        "members": ", ".join(op.name for op in ops),
    }


def _classes(graph: Graph, rows: Rows) -> Rows:
    fine = {k: sum(op.flop for op in graph.operators if op.klass == k) for k in CLASSES}
    drawn = {k: sum(r["flop"] for r in rows if r["class"] == k) for k in CLASSES}
    words = {
        k: sum(r["words_in"] + r["words_out"] for r in rows if r["class"] == k) for k in CLASSES
    }
    # A bias's gradient is a sum: of this class here, of that one elsewhere.
    sums = sum(op.flop for op in graph.operators if op.kind.name == "sum")
    moved = {"contraction": 0, "normalisation": -sums, "elementwise": sums}
    return [
        {
            "class": k,
            "share_of_flop_percent": digits(100 * drawn[k] / graph.flop, 4),
            "share_of_flop_each_operator_alone_percent": digits(100 * fine[k] / graph.flop, 4),
            "share_of_flop_sums_elementwise_percent": digits(
                100 * (drawn[k] + moved[k]) / graph.flop, 4
            ),
            "share_of_words_percent": digits(100 * words[k] / sum(words.values()), 4),
            "published_share_of_flop_percent": PRINTED[k][0],
            "published_share_of_time_v100_percent": PRINTED[k][1],
            "source": SLIDE,
        }
        for k in CLASSES
    ]


def _tags(graph: Graph) -> Rows:
    found = []
    for name, tag, printed, value, unit, ratio in TAGS:
        names = ATTENTION if name == "attention" else (name,)
        ops = [op for op in graph.operators if op.name in names]
        # The tag of attention is of its contractions; the words are of all that it is made of.
        flop = sum(op.flop for op in ops if name != "attention" or op.klass == "contraction")
        words = sum(
            r["words_in"] + r["words_out"]
            for r in paper_rows(graph)
            if set(r["members"].split(", ")) <= set(names)
        )
        found.append(
            {
                "tag": tag,
                "flop": flop,
                "words": words,
                "flop_per_word": digits(flop / words, 4),
                "published_flop": printed,
                "published_flop_per_word": digits(ratio, 4),
                "agree": round(flop / unit) == round(value / unit)
                and abs(flop / words / ratio - 1) < 0.01,
            }
        )
    return found


def _fused(graph: Graph) -> Rows:
    """Each of the paper's kernels: words before, after, and saved."""
    alone = {op.name: op.words_in + op.words_out for op in graph.operators}
    found = []
    for name, members in PAPER.items():
        reads, writes = graph.part(members)
        before = sum(alone[x] for x in members)
        after = sum(reads.values()) + sum(writes.values())
        found.append(
            {
                "kernel": name,
                "operators": ", ".join(members),
                "words_alone": before,
                "words_fused": after,
                "saved_percent": digits(100 * (1 - after / before), 4),
            }
        )
    return found


def _saved(graph: Graph) -> Rows:
    """What fusion saves of all words, by what is called unfused."""
    after = _words(graph, [each.names for each in fused(graph, "paper", M).groups])
    alone = sum(op.words_in + op.words_out for op in graph.operators)
    rows = sum(r["words_in"] + r["words_out"] for r in paper_rows(graph))
    return [
        {
            "unfused": name,
            "words_unfused": before,
            "words_fused": after,
            "saved_percent": digits(100 * (1 - after / before), 4),
            "published_percent": PUBLISHED_SAVED,
        }
        for name, before in (("each operator alone", alone), ("operators as drawn", rows))
    ]


def _words(graph: Graph, groups: Any) -> int:
    return sum(sum(part.values()) for names in groups for part in graph.part(names))


def _stated_intensities() -> Rows:
    """Intensities that are told of four operators beside those that the rule gives, per byte."""
    sizes = {"t": 4096, "i": 1024}
    x, y, mask = (operand(name, "t i", sizes) for name in ("X", "Y", "mask"))
    g, b = (operand(name, "i", sizes) for name in ("γ", "β"))
    kept = [operand(name, "t", sizes) for name in ("mean", "rstd")]
    ops = {
        "layer norm": operator("n", "layer_norm", [x, g, b], [y, *kept], over="i"),
        "softmax": operator("s", "softmax", [x], [y], over="i"),
        "GELU": operator("g", "gelu", [x], [y]),
        "dropout": operator("d", "dropout", [x], [y, mask]),
    }
    found = []
    for name, said, value in TOLD:
        op = ops[name]
        ratio = op.flop / ((op.words_in + op.words_out) * word_bytes(DTYPE))
        right = ratio < value if said.startswith("below") else abs(ratio / value - 1) < 0.25
        found.append(
            {
                "operator": name,
                "told_flop_per_byte": said,
                "flop_per_byte": digits(ratio, 4),
                "flop_per_word": digits(ratio * word_bytes(DTYPE), 4),
                "flop_per_value": digits(op.flop / x.words, 4),
                "holds": right,
            }
        )
    return found


def _faster() -> Rows:
    """FlashAttention is told to be 2 to 4 times faster: the recorded runs of an H200."""
    found = []
    for r in gpu_report("bench").table(DATA / "gpu" / "h200" / "bench").rows:
        if r["standard_s"] == r["standard_s"]:  # standard attention ran out of memory otherwise
            times = r["standard_s"] / r["fused_s"]
            found.append(
                {
                    "N": r["N"],
                    "d": r["d"],
                    "heads": r["heads"],
                    "standard_ms": digits(1e3 * r["standard_s"], 4),
                    "fused_ms": digits(1e3 * r["fused_s"], 4),
                    "times": digits(times, 3),
                    "told": "2 to 4",
                    "holds": 2 <= times <= 4,
                }
            )
    return found


def _mue() -> Rows:
    """Memory usage efficiency, (Q/D)·(B/B̂), of the recorded decoding on an H200.

    Q: compulsory bytes; D: bytes that the schedule moves at SM↔L2, its scratch included, of which
    L2 may hold some; B: D over the time; B̂: the bandwidth of HBM.  In the product D cancels, and it
    is of L2↔DRAM.  Introduced by Fuhrer et al., GMD 11:1665-1681, 2018
    (doi 10.5194/gmd-11-1665-2018), whose abstract names it; the formula is as others quote it.
    """
    speed = machine("h200").dram_bytes_per_s
    found = []
    for r in gpu_report("decode").table(DATA / "gpu" / "h200" / "decode").rows:
        given = {x: int(v) for x, v in (part.split("=") for part in r["sizes"].split())}
        batch, heads, kv_heads = (given.pop(x) for x in ("batch", "heads", "kv_heads"))
        problem = Attention(1, heads=batch * heads, kv_heads=batch * kv_heads, **given)
        program = algorithm(r["algorithm"]).program_for(problem)
        tiles = {x: int(v) for x, v in (part.split("=") for part in r["tiles"].split())}
        counts = count(bind(program, problem.sizes, tiles))
        moved = sum(bytes_of(counts, program.tensors, DTYPE).values())
        io, bandwidth = r["compulsory_bytes"] / moved, moved / r["emitted_s"] / speed
        found.append(
            {
                "schedule": r["algorithm"],
                "sizes": r["sizes"],
                "Q_bytes": r["compulsory_bytes"],
                "D_bytes": moved,
                "io_efficiency": digits(io, 5),
                "bandwidth_efficiency": digits(bandwidth, 4),
                "mue": digits(io * bandwidth, 4),
            }
        )
    return found


def draw(folder: Path, stem: Path) -> list[Path]:
    """Shares of flop, words and time by class; and the words of each fused kernel."""
    classes, kernels = read_csv(folder / "classes.csv"), read_csv(folder / "fused.csv")
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, (above, below) = plt.subplots(
            2, 1, figsize=(WIDTH, 8.8), height_ratios=(1, 1.4), layout="constrained"
        )
        _shares(above, classes)
        _kernels(below, kernels)
        figure.suptitle(
            "BERT-large's encoder layer, forward and backward: B = 8, L = 512, H = 16 heads"
        )
        return save(figure, stem)


def _shares(axes: Any, classes: Rows) -> None:
    bars = ("flop", "words in and out\n(SM↔L2, L2↔DRAM)", "time on a V100\n(published)")
    columns = (
        "share_of_flop_percent",
        "share_of_words_percent",
        "published_share_of_time_v100_percent",
    )
    below = [0.0] * len(bars)
    for k, row in enumerate(classes):
        values = [row[c] for c in columns]
        axes.bar(bars, values, bottom=below, color=PALETTE[k], label=row["class"], width=0.6)
        for x, (value, base) in enumerate(zip(values, below, strict=True)):
            if value > 4:
                axes.text(
                    x,
                    base + value / 2,
                    f"{value:.1f}%",
                    ha="center",
                    va="center",
                    color="white",
                    fontweight="bold",
                )
        below = [a + b for a, b in zip(below, values, strict=True)]
    small = [r for r in classes if r[columns[0]] <= 4]
    axes.text(
        0,
        101,
        "\n".join(f"{r['class']} {r[columns[0]]:.2g}%" for r in small[::-1]),
        ha="center",
        va="bottom",
        fontsize=8.5,
    )
    most = next(r for r in classes if r["class"] == "contraction")
    axes.set(
        title=f"Contractions have {most[columns[0]]:.1f}% of the flop, "
        f"{most[columns[1]]:.1f}% of the words",
        ylabel="share in %",
        xlim=(-0.6, 2.5),
        ylim=(0, 112),
        yticks=range(0, 101, 20),
    )
    draw_legend(axes)


def _kernels(axes: Any, kernels: Rows) -> None:
    rows = [r for r in kernels if r["saved_percent"] > 0][::-1]
    places = range(len(rows))
    axes.barh(
        places,
        [r["words_alone"] / 1e6 for r in rows],
        color="lightgrey",
        label="each operator alone",
    )
    axes.barh(
        places,
        [r["words_fused"] / 1e6 for r in rows],
        color=PALETTE[0],
        height=0.45,
        label="as one kernel",
    )
    for y, r in zip(places, rows, strict=True):
        axes.text(
            r["words_alone"] / 1e6, y, f"  −{r['saved_percent']:.0f}%", va="center", fontsize=8.5
        )
    axes.set_yticks(places, [_members(r) for r in rows], fontsize=8.5)
    axes.margins(x=0.12)
    axes.set_xlabel("10⁶ words in and out, the least at SM↔L2 and at L2↔DRAM")
    axes.set_title(
        f"The fused kernels of Ivanov et al. save up to "
        f"{max(r['saved_percent'] for r in rows):.0f}% of the words"
    )
    draw_legend(axes)


def _members(row: dict[str, Any]) -> str:
    """A kernel and its operators; lines break between operators only."""
    text = f"{row['kernel']}: {row['operators']}".replace(" ", "_").replace(",_", ", ")
    lines = textwrap.wrap(text, 46, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("_", " ")


EXPERIMENT = Experiment("e09_data_movement", tables, draw)

if __name__ == "__main__":
    run_main(EXPERIMENT.main)
