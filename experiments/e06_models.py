"""Real models on real machines: bytes moved, arithmetic intensity and place on the roofline.

The attention of one layer, batch 1, forward, not causal, fp16: GPT-2, BERT-large, Llama-3 8B and
70B (every query head with keys and values of its own) on V100, A100, H100, H200 and B200.  M is an
SM's shared memory: each thread block alone.  The bytes at SM↔L2 are set beside the bandwidth
of L2↔DRAM, as if L2 served nothing; the compulsory traffic, where L2 serves all else, is the other
end.  A multiply-add is 2 FLOP; exponentials are not counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iosim.algorithms import algorithm
from iosim.counting.numbers import count
from iosim.hardware import MACHINES, Hardware
from iosim.output.plot import MARKERS, PALETTE, STYLE, pyplot, save
from iosim.output.table import read_csv
from iosim.problem import Attention, model, word_bytes
from iosim.tiling.rules import choose_tiles
from iosim.units import bytes_of

from . import COLOURS, SCHEDULES, Experiment, Rows, digits, whole

DTYPE = "fp16"
GPUS = {name: MACHINES[name] for name in ("v100", "a100", "h100", "h200", "b200")}
NAMES = {"gpt2": "GPT-2", "bert-large": "BERT-large", "llama3-8b": "Llama-3 8B",
         "llama3-70b": "Llama-3 70B"}  # fmt: skip
# Of the machines' numbers, those that are used here.
NUMBERS = (
    "cores", "sram_bytes", "register_bytes", "cache_bytes", "dram_bytes_per_s", f"peak {DTYPE}",
)  # fmt: skip
SHOWN = ("naive", "small_cache", "flash1", "flash2", "compulsory")


def tables() -> dict[str, Rows]:
    """Every model, machine and schedule; and the machines with their sources."""
    rows: Rows = []
    for machine in GPUS.values():
        for name in NAMES:
            sizes = model(name)
            problem = Attention(sizes.N, sizes.d, sizes.heads)
            for schedule in SHOWN:
                rows.append(
                    _row(machine, name, problem, schedule, _bytes(machine, problem, schedule))
                )
    machines = [
        {
            "gpu": g.name, "title": g.title, "year": g.year, "sms": g.cores,
            "sram_bytes_per_sm": g.sram_bytes, "register_bytes_per_sm": g.register_bytes,
            "l2_bytes": g.cache_bytes, "hbm_gb_per_s": digits(g.dram_bytes_per_s / 1e9),
            "peak_tflop_per_s": digits(g.peak(DTYPE) / 1e12),
            "ridge_flop_per_byte": digits(g.ridge_for(DTYPE), 4),
            "source": "; ".join(dict.fromkeys(g.source(x) for x in NUMBERS)),
        }
        for g in GPUS.values()
    ]  # fmt: skip
    return {"roofline.csv": rows, "machines.csv": machines}


def _bytes(machine: Hardware, problem: Attention, schedule: str) -> int:
    if schedule == "compulsory":
        return 4 * problem.heads * problem.N * problem.d * word_bytes(DTYPE)
    choice = choose_tiles(algorithm(schedule), problem, machine.sm_words(DTYPE))
    moved = bytes_of(count(choice.instance), choice.instance.program.tensors, DTYPE)
    return sum(moved.values())


def _row(
    machine: Hardware, name: str, problem: Attention, schedule: str, moved: int
) -> dict[str, Any]:
    flop = 4 * problem.heads * problem.N**2 * problem.d
    intensity = flop / moved
    reach = min(machine.peak(DTYPE), intensity * machine.dram_bytes_per_s)
    least_s = max(flop / machine.peak(DTYPE), moved / machine.dram_bytes_per_s)
    return {
        "gpu": machine.name, "model": name, **problem.sizes, "schedule": schedule,
        "M_words": machine.sm_words(DTYPE), "hbm_bytes": moved, "flop": flop,
        "intensity_flop_per_byte": digits(intensity),
        "attainable_tflop_per_s": digits(reach / 1e12),
        "of_peak": digits(reach / machine.peak(DTYPE), 4),
        "limit": "arithmetic" if intensity >= machine.ridge_for(DTYPE) else "HBM",
        "least_time_us": digits(least_s * 1e6),
    }  # fmt: skip


def draw(folder: Path, stem: Path) -> list[Path]:
    """A roofline for each machine, and the legend in the sixth place."""
    rows, machines = read_csv(folder / "roofline.csv"), read_csv(folder / "machines.csv")
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(2, 3, figsize=(13, 7.4), sharex=True, sharey=True)
        panels = list(grid.flat)
        for axes, machine in zip(panels, machines, strict=False):
            _roofline(axes, machine, [r for r in rows if r["gpu"] == machine["gpu"]])
        for axes in (*panels[3:5], panels[2]):
            axes.set_xlabel("arithmetic intensity (FLOP per byte at SM ↔ L2)")
        panels[2].tick_params(labelbottom=True)
        for axes in (panels[0], panels[3]):
            axes.set_ylabel("attainable TFLOP/s, fp16")
        _legend(panels[5])
        figure.suptitle(
            "Attention of one layer, M = shared memory of one SM, as if L2 served nothing"
        )
        figure.tight_layout()
        return save(figure, stem)


def _colour(schedule: str) -> str:
    return PALETTE[6] if schedule == "compulsory" else COLOURS[SCHEDULES.index(schedule)]


def _roofline(axes: Any, machine: dict[str, Any], rows: Rows) -> None:
    peak, speed = machine["peak_tflop_per_s"], machine["hbm_gb_per_s"] / 1e3
    ridge = machine["ridge_flop_per_byte"]
    axes.plot([4, ridge, 8192], [4 * speed, peak, peak], color="black", linewidth=1.1, zorder=1)
    axes.axvline(ridge, color="grey", linestyle=":", linewidth=1)
    for r in rows:
        k = list(NAMES).index(r["model"])
        hollow = r["schedule"] == "compulsory"
        axes.plot(
            r["intensity_flop_per_byte"], r["attainable_tflop_per_s"], MARKERS[k], markersize=7,
            color=_colour(r["schedule"]), alpha=0.85, zorder=3,
            markerfacecolor="none" if hollow else _colour(r["schedule"]),
        )  # fmt: skip
    axes.annotate(
        f"{ridge:.0f} FLOP/B", (ridge, 0.03), xycoords=("data", "axes fraction"), xytext=(4, 0),
        textcoords="offset points", color="grey", fontsize=8.5,
    )  # fmt: skip
    axes.set(xscale="log", yscale="log", ylim=(15, 3500), xlim=(16, 6500))
    title = f"{machine['title']}: {peak:,.0f} TFLOP/s, {speed * 1e3:,.0f} GB/s"
    axes.set_title(title, fontsize=10)


def _legend(axes: Any) -> None:
    axes.axis("off")
    for name in SHOWN:
        face = "none" if name == "compulsory" else _colour(name)
        axes.plot([], [], "o", color=_colour(name), markerfacecolor=face, markersize=8,
                  label="compulsory traffic only" if name == "compulsory" else name)  # fmt: skip
    for k, text in enumerate(NAMES.values()):
        axes.plot([], [], MARKERS[k], color="grey", markersize=8, label=text)
    axes.plot([], [], color="black", label="roofline: HBM bandwidth (L2 ↔ DRAM),\nthen peak")
    axes.legend(loc="center", fontsize=10, ncols=1)


EXPERIMENT = Experiment("e06_models", tables, draw)

if __name__ == "__main__":
    whole(EXPERIMENT.main)
