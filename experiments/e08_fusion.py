"""Fusion: k element-wise operators move 2n words instead of 2kn, and a layer moves half.

Words at L2↔DRAM, with M = what the chip of an H200 holds in words of 2 bytes.  A chain is k
element-wise operators on n words.  The layers are those of published models; each is put into
kernels by every fusion that it has, by the best one, by the best one whose kernels fit in an SM and
move no more at SM↔L2 than their operators alone, and by the best one without an online softmax.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iosim.models.fusion import FUSIONS, Absent, fused
from iosim.models.fusion.chain import chain
from iosim.models.hardware import machine
from iosim.models.layers.architectures import layer
from iosim.report.plot import PALETTE, STYLE, WIDTH, draw_legend, pyplot, save
from iosim.report.table import read_csv

from . import Experiment, Rows, digits, run_main

GPU, DTYPE = "h200", "fp16"
CHAIN, MOST = 2**22, 16
# Model, phase, batch, tokens of context.
LAYERS = (
    ("bert-large", "training", 8, 512),
    ("bert-large", "prefill", 8, 512),
    ("gpt2", "training", 8, 1024),
    ("gpt2", "prefill", 8, 1024),
    ("gpt2", "decode", 8, 1024),
    ("llama3-8b", "training", 1, 4096),
    ("llama3-8b", "prefill", 8, 512),
    ("llama3-8b", "decode", 8, 512),
)
# Name in the table → what the search may do, beside the fusions by name.
SEARCHES: dict[str, dict[str, bool]] = {
    "best, no online softmax": {"online": False},
    "best in an SM": {"sm": True},
    "best": {},
}
COLORS = {
    "none": "#7F7F7F",
    "inductor-cpu": PALETTE[4],
    "paper": PALETTE[1],
    "inductor-cuda": PALETTE[3],
    "best, no online softmax": PALETTE[2],
    "best in an SM": PALETTE[5],
    "best": PALETTE[0],
}
SAID = {
    "none": "none",
    "inductor-cpu": "Inductor (CPU), recorded",
    "paper": "Ivanov et al.",
    "inductor-cuda": "torch.compile on an H200, recorded",
    "best, no online softmax": "best, no online softmax",
    "best in an SM": "best, no more at SM↔L2",
    "best": "best",
}


def tables() -> dict[str, Rows]:
    """Chains of 1 to 16 operators; every layer with every fusion."""
    M = machine(GPU).chip_words(DTYPE)
    chains: Rows = []
    for k in range(1, MOST + 1):
        graph = chain(k, CHAIN)
        none, best = (fused(graph, how, M).words for how in ("none", "best"))
        chains.append({"k": k, "n": CHAIN, "words_none": none, "words_best": best})
    rows: Rows = []
    for model, phase, batch, N in LAYERS:
        graph = layer(model, phase, batch=batch, N=N, dtype=DTYPE)
        words: dict[str, tuple[int, int]] = {}
        for how in FUSIONS:
            if how != "best":
                try:
                    found = fused(graph, how, M)
                except Absent:
                    continue
                words[how] = len(found.groups), found.words
        for how, may in SEARCHES.items():
            found = fused(
                graph,
                "best",
                M,
                online_softmax=may.get("online", True),
                within=machine(GPU).sm_words(DTYPE) if "sm" in may else None,
            )
            words[how] = len(found.groups), found.words
        rows += [
            {
                "model": model,
                "phase": phase,
                "batch": batch,
                "N": N,
                "M_words": M,
                "operators": len(graph.operators),
                "fusion": how,
                "kernels": kernels,
                "words": total,
                "of_none": digits(total / words["none"][1], 4),
            }
            for how, (kernels, total) in words.items()
        ]
    return {"chains.csv": chains, "layers.csv": rows}


def draw(folder: Path, stem: Path) -> list[Path]:
    """Words of a chain against k; words of each layer, as a share of those without fusion."""
    chains, rows = read_csv(folder / "chains.csv"), read_csv(folder / "layers.csv")
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, (above, below) = plt.subplots(
            2, 1, figsize=(WIDTH, 8.4), height_ratios=(1, 2.2), layout="constrained"
        )
        _chains(above, chains)
        _layers(below, rows)
        return save(figure, stem)


def _chains(axes: Any, rows: Rows) -> None:
    k = [r["k"] for r in rows]
    for name, label in (("none", "one by one: 2kn"), ("best", "one kernel: 2n")):
        axes.plot(
            k, [r[f"words_{name}"] / 2**20 for r in rows], "o-", color=COLORS[name], label=label
        )
    axes.set(
        xlabel="element-wise operators k",
        ylabel="words at L2↔DRAM (Mi)",
        ylim=(0, None),
        title=f"One by one, {rows[-1]['k']} operators on n = {rows[0]['n'] >> 20} Mi words "
        f"move\n{rows[-1]['words_none'] / rows[-1]['words_best']:g} times the words "
        "of one kernel",
    )
    axes.set_xticks([1, 4, 8, 12, 16])
    draw_legend(axes)


def _layers(axes: Any, rows: Rows) -> None:
    names = list(dict.fromkeys((r["model"], r["phase"]) for r in rows))
    high = 0.8 / len(COLORS)
    for at, name in enumerate(names):
        mine = {r["fusion"]: r for r in rows if (r["model"], r["phase"]) == name}
        for n, (how, color) in enumerate(COLORS.items()):
            if how in mine:
                share = mine[how]["of_none"]
                axes.barh(
                    at + (n - (len(COLORS) - 1) / 2) * high,
                    share,
                    high,
                    color=color,
                    label=SAID[how] if at == 0 else None,
                )
    axes.set_yticks(range(len(names)), [" ".join(x) for x in names])
    axes.invert_yaxis()
    axes.set(
        xlabel="words at L2↔DRAM, of those without fusion", xlim=(0, 1.02), title=_describe(rows)
    )
    axes.grid(axis="y", visible=False)
    figure = axes.get_figure()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _describe(rows: Rows) -> str:
    """What the figure shows: which share of its words a layer moves by the best fusion."""
    best = [r for r in rows if r["fusion"] == "best"]
    some, rest = (
        [r["of_none"] for r in best if (r["phase"] == "decode") is decoding]
        for decoding in (False, True)
    )
    return (
        f"By the best fusion a layer moves {min(some):.0%} to {max(some):.0%} of its words, "
        f"in decoding {min(rest):.0%} to {max(rest):.0%}\n"
        "(M = last cache of an H200)"
    )


EXPERIMENT = Experiment("e08_fusion", tables, draw)

if __name__ == "__main__":
    run_main(EXPERIMENT.main)
