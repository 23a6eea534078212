"""Why ⌈M/4d⌉, and why min with d: words and occupancy over the whole (B_r, B_c) plane.

GPT-2's head (N = 1024, d = 64) in M = 24,576 words (96 KiB of fp32), for FlashAttention's loop
order (K and V stay) and FlashAttention-2's (Q and O stay); then the peak of the paper's rule with
and without its min, against M/d².
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from iosim.bounds import best_lower_bound
from iosim.core.algorithms import algorithm
from iosim.core.counting.numbers import count, peak
from iosim.core.problem import Attention
from iosim.core.program.walk import bind
from iosim.core.tiling import optimal_tiles
from iosim.report.plot import MODEL, PALETTE, STYLE, WIDTH, WORDS, pyplot, save
from iosim.report.table import read_csv

from . import Experiment, Rows, digits, run_main, swept

PROBLEM, M = Attention(1024, 64), 24_576
# Tile sizes of FlashAttention-2 (Dao 2023, section 3.3: blocks of {64, 128} × {64, 128}).
FLASH2_BLOCKS = ((128, 128), (128, 64), (64, 128), (64, 64))


def tables() -> dict[str, Rows]:
    """The planes, the marked points, and the rule's peaks."""
    axis = sorted({round(2 ** (k / 6)) for k in range(61)})
    text = ",".join(map(str, axis))
    plane = swept(
        ("algorithm", "tile_B_r", "tile_B_c", "total_words", "peak_words"),
        schedule=("flash1", "flash2"),
        N=PROBLEM.N,
        d=PROBLEM.d,
        M=M,
        tiles=f"B_r={text},B_c={text}",
    )
    return {"plane.csv": plane, "marks.csv": marks(), "rule.csv": rule()}


def marks() -> Rows:
    """The paper's rule, FlashAttention-2's blocks and the optimum."""
    bound = best_lower_bound(PROBLEM, M).words
    found: Rows = []
    for name in ("flash1", "flash2"):
        program = algorithm(name).program
        tiles = {"FlashAttention's rule": algorithm("flash1").rules["paper"](PROBLEM, M)}
        tiles |= {f"FlashAttention-2's {r} × {c}": {"B_r": r, "B_c": c} for r, c in FLASH2_BLOCKS}
        tiles["optimum"] = optimal_tiles(program, PROBLEM, M).tiles
        for what, pair in tiles.items():
            instance = bind(program, PROBLEM.sizes, pair)
            words, held = count(instance).total_words, peak(instance)
            found.append(
                {
                    "algorithm": name,
                    "what": what,
                    **pair,
                    "total_words": words,
                    "peak_words": held,
                    "fits": held <= M,
                    "gap": digits(words / bound),
                }
            )
    return found


def rule() -> Rows:
    """What the paper's tiles hold, with B_r = min(⌈M/4d⌉, d) and with B_r = ⌈M/4d⌉."""
    program = algorithm("flash1").program
    problem = Attention(2**20, PROBLEM.d)
    found: Rows = []
    for k in range(-8, 25):
        here = round(problem.d**2 * 2 ** (k / 4))
        B_c = -(-here // (4 * problem.d))
        row: dict[str, Any] = {"d": problem.d, "M_words": here, "B_c": B_c}
        for column, B_r in (("with_min", min(B_c, problem.d)), ("without_min", B_c)):
            held = peak(bind(program, problem.sizes, {"B_r": B_r, "B_c": B_c}))
            row[f"peak_{column}_words"] = held
        found.append(row)
    return found


def draw(folder: Path, stem: Path) -> list[Path]:
    """Two planes and the rule."""
    plane, points = read_csv(folder / "plane.csv"), read_csv(folder / "marks.csv")
    plt = pyplot()
    with plt.rc_context(STYLE | {"axes.grid": False}):
        figure, named = plt.subplot_mosaic(
            [["flash1", "flash2"], ["rule", "rule"]],
            figsize=(WIDTH, 7.8),
            layout="constrained",
            height_ratios=(1.2, 1),
        )
        words = [r["total_words"] for r in plane]
        levels = np.geomspace(min(words) * 0.999, max(words) * 1.001, 25)
        for name, title in (("flash1", "FlashAttention"), ("flash2", "FlashAttention-2")):
            mine = [r for r in plane if r["algorithm"] == name]
            shown = _plane(named[name], mine, levels)
            _marks(named[name], [r for r in points if r["algorithm"] == name])
            named[name].set_title(f"{title}:\nwords depend on {_decides(mine)}")
        named["flash1"].set_ylabel("B_c, rows of K and V in a block")
        bar = figure.colorbar(shown, ax=named["flash2"], label=WORDS)
        ticks = [t for t in (1e6, 3e6, 1e7, 3e7, 1e8) if t < max(words)]
        bar.set_ticks(ticks, labels=[_power(t) for t in ticks])
        bar.ax.minorticks_off()
        _rule(named["rule"], read_csv(folder / "rule.csv"))
        shown = [named[x].get_legend_handles_labels() for x in ("flash1", "rule")]
        handles, labels = ([*a, *b] for a, b in zip(*shown, strict=True))
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        figure.suptitle(f"Tiles of one head, N = {PROBLEM.N:,}, d = {PROBLEM.d}, M = {M:,} words")
        return save(figure, stem)


def _decides(rows: Rows) -> str:
    """The tile sizes that words depend on."""
    words: dict[str, dict[Any, set[int]]] = {}
    for r in rows:
        for one in ("B_r", "B_c"):
            words.setdefault(one, {}).setdefault(r[f"tile_{one}"], set()).add(r["total_words"])
    alone = [one for one, at in words.items() if all(len(some) == 1 for some in at.values())]
    return f"{alone[0]} alone" if len(alone) == 1 else "B_r and B_c"


def _power(value: float) -> str:
    digit, _, power = f"{value:.0e}".partition("e+")
    return f"${'' if digit == '1' else digit + '·'}10^{int(power)}$"


def _plane(axes: Any, rows: Rows, levels: Any) -> Any:
    from matplotlib.colors import LogNorm

    axis = sorted({r["tile_B_r"] for r in rows})
    at = {b: k for k, b in enumerate(axis)}
    words, held = np.zeros((len(axis),) * 2), np.zeros((len(axis),) * 2)
    for r in rows:
        spot = at[r["tile_B_c"]], at[r["tile_B_r"]]
        words[spot], held[spot] = r["total_words"], r["peak_words"]
    shown = axes.contourf(axis, axis, words, levels=levels, norm=LogNorm(), cmap="cividis")
    axes.contourf(axis, axis, held, levels=[M, held.max()], colors="white", alpha=0.55)
    axes.contour(axis, axis, held, levels=[M], colors="white", linewidths=1.8)
    axes.text(330, 420, "does not fit", color="black", ha="center", fontsize=9)
    axes.set(xscale="log", yscale="log", xlabel="B_r, rows of Q and O in a block")
    return shown


def _marks(axes: Any, rows: Rows) -> None:
    styles = {"F": ("s", PALETTE[1]), "o": ("*", PALETTE[3])}
    seen = set()
    for r in rows:
        block = r["what"].startswith("FlashAttention-2")
        mark, color = ("o", PALETTE[5]) if block else styles[r["what"][0]]
        label = "FlashAttention-2's blocks" if block else r["what"]
        axes.plot(
            r["B_r"],
            r["B_c"],
            mark,
            color=color,
            markeredgecolor="black",
            markersize=13 if mark == "*" else 7,
            clip_on=False,
            zorder=5,
            label=None if label in seen else label,
        )
        seen.add(label)


def _rule(axes: Any, rows: Rows) -> None:
    x = [r["M_words"] / r["d"] ** 2 for r in rows]
    styles = (
        ("without_min", "^", "B_r = ⌈M/4d⌉", PALETTE[1]),
        ("with_min", "o", "B_r = min(⌈M/4d⌉, d), the paper's", PALETTE[0]),
    )
    for column, mark, label, color in styles:
        y = [r[f"peak_{column}_words"] / r["M_words"] for r in rows]
        axes.plot(x, y, color=color, marker=mark, label=label)
    axes.axhline(1, color="black", linewidth=1)
    axes.axvline(4, color="grey", linestyle=":", linewidth=1.2)
    axes.annotate(
        "M = 4d²",
        (4, 0.04),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        color="grey",
    )
    least, most = (
        max(r[f"peak_{column}_words"] / r["M_words"] for r in rows)
        for column in ("with_min", "without_min")
    )
    axes.set(
        xscale="log",
        xlabel=f"M / d², {MODEL}",
        ylabel="peak ÷ M, words in fast memory",
        ylim=(0, None),
        title=f"Without min(·, d) the rule needs up to {most:.1f} times M, with it "
        f"{least:.2f}\n(B_c = ⌈M/4d⌉, d = {rows[0]['d']})",
    )
    axes.grid(True)


EXPERIMENT = Experiment("e04_blocks", tables, draw)

if __name__ == "__main__":
    run_main(EXPERIMENT.main)
