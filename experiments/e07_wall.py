"""The memory wall: arithmetic against bandwidth against capacity, from a P100 to a B200.

Bandwidth is that of L2↔DRAM, and a ridge is the dense peak of 16 bits over it, in FLOP per byte.
Tensor cores came with the V100; the P100's fp16 has none, so factors against it compare two kinds
of units, and fp32 without tensor cores stands beside them.

An operator's bytes at L2↔DRAM are what it can't do without: each input is read once and each
output written once, in words of 2 bytes.  A multiply-add is 2 FLOP; additions, products, divisions,
exponentials and tanh are 1 each; comparisons are none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iosim.models.hardware import MACHINES, NO_SOURCE, Hardware
from iosim.report.plot import MARKERS, PALETTE, STYLE, WIDTH, draw_legend, pyplot, save
from iosim.report.table import read_csv

from . import Experiment, Rows, digits, run_main

WORD = 2
# In the order of the figure: NVIDIA's generations, then the others.
GENERATIONS = ("p100", "v100", "a100", "a100-80gb", "h100", "h200", "b200")
NAMES = {
    "p100": "P100",
    "v100": "V100",
    "a100": "A100\n40 GB",
    "a100-80gb": "A100\n80 GB",
    "h100": "H100",
    "h200": "H200",
    "b200": "B200",
    "mi300x": "MI300X",
    "tpu-v5p": "TPU\nv5p",
    "epyc-9654": "EPYC\n9654",
}
# A hidden layer of 4,096 and a feed-forward layer of 14,336: Llama 3 8B.
HIDDEN, WIDE = 4096, 14336


@dataclass(frozen=True)
class Operator:
    """FLOP and words of one operator; of those on elements, of one element.

    Attributes:
        name: as the table and the figure call it.
        rule: what is counted, in words.
    """

    name: str
    flop: int
    words: int
    rule: str

    @property
    def intensity(self) -> float:
        """FLOP per byte between L2 and DRAM."""
        return self.flop / (self.words * WORD)


def _product(name: str, m: int, n: int, k: int) -> Operator:
    """C = AB with C of m × n: 2mnk FLOP, and A, B and C once."""
    return Operator(name, 2 * m * n * k, m * k + k * n + m * n, f"m = {m}, n = {n}, k = {k}")


OPERATORS = (
    Operator("residual add", 1, 3, "x + y: 1 FLOP; x, y, out"),
    Operator("dropout", 1, 3, "mask · x: 1 FLOP; x, mask, out"),
    Operator("softmax", 4, 2, "subtract, exp, sum, divide: 4 FLOP; in, out"),
    Operator(
        "layer norm", 7, 2, "sum, subtract, square, sum, divide, scale, shift: 7 FLOP; in, out"
    ),
    Operator("GELU, tanh", 9, 2, "x/2 · (1 + tanh(a(x + b·x·x·x))): 9 FLOP; in, out"),
    *(_product(f"decode, batch {b}", b, WIDE, HIDDEN) for b in (1, 8, 64)),
    _product("product 1024 × 1024 × 4096", 1024, 1024, 4096),
)


@dataclass(frozen=True)
class Price:
    """What a GB costs, or how many times as much as one of DDR5; None where no source says it."""

    memory: str
    when: str
    source: str
    usd: tuple[float, float] | None = None
    times_ddr5: tuple[float, float] | None = None


PRICES = (
    Price(
        "SRAM",
        "",
        f"{NO_SOURCE}: it is sold as a part of a chip; pages that print a price cite none",
    ),
    Price(
        "HBM", "", f"{NO_SOURCE} for dollars: estimates of HBM3e that cite nothing differ twofold"
    ),
    Price(
        "HBM",
        "May 2024",
        "TrendForce, press release of 6 May 2024: about five times DDR5",
        times_ddr5=(5, 5),
    ),
    Price(
        "HBM3e",
        "before 2026",
        "TrendForce, press release of 18 December 2025: four to five times server DDR5",
        times_ddr5=(4, 5),
    ),
    Price(
        "HBM3e",
        "end of 2026",
        "TrendForce, press release of 18 December 2025, a forecast: one to two times server DDR5",
        times_ddr5=(1, 2),
    ),
    Price(
        "DDR5, server",
        "2nd quarter of 2023",
        "TrendForce, forecast of April 2023: a module of "
        "32 GB at $80 to $90 (crn.pl; meterpreter.org/the-ddr5-server-memory-price-decline-will-"
        "narrow-in-2023q2)",
        usd=(80 / 32, 90 / 32),
    ),
    Price(
        "DDR4, server",
        "January 2017",
        "DRAMeXchange: a module of 16 GB at about $100 (digitimes.com/news/a20170112VL200.html)",
        usd=(100 / 16, 100 / 16),
    ),
)


def tables() -> dict[str, Rows]:
    """The machines, the operators at every machine, and what memory costs."""
    return {
        "machines.csv": [_machine(MACHINES[name]) for name in NAMES],
        "operators.csv": [_at(one, MACHINES[name]) for one in OPERATORS for name in NAMES],
        "prices.csv": [_price(one) for one in PRICES],
    }


def _sixteen(one: Hardware) -> str:
    return "fp16" if "fp16" in one.peaks else "bf16"


def ridge(one: Hardware) -> float:
    """FLOP of 16 bits per byte between L2 and DRAM."""
    return one.ridge_for(_sixteen(one))


def _machine(one: Hardware) -> dict[str, Any]:
    first, dtype = MACHINES["p100"], _sixteen(one)
    fp32 = one.peaks.get("fp32")
    batch = _batch_at(ridge(one))
    return {
        "machine": one.name,
        "year": one.year,
        "dtype": dtype,
        "peak_tflop_per_s": digits(one.peak(dtype) / 1e12),
        "fp32_tflop_per_s": NO_SOURCE if fp32 is None else digits(fp32 / 1e12),
        "dram_gb_per_s": digits(one.dram_bytes_per_s / 1e9),
        "capacity_gb": digits(one.capacity_bytes / 1e9),
        "ridge_flop_per_dram_byte": digits(ridge(one), 4),
        "decode_batch_at_ridge": batch,
        "peak_over_p100": digits(one.peak(dtype) / first.peak("fp16"), 4),
        "fp32_over_p100": NO_SOURCE if fp32 is None else digits(fp32 / first.peak("fp32"), 4),
        "bandwidth_over_p100": digits(one.dram_bytes_per_s / first.dram_bytes_per_s, 4),
        "capacity_over_p100": digits(one.capacity_bytes / first.capacity_bytes, 4),
        "ridge_over_p100": digits(ridge(one) / ridge(first), 4),
        "peak_source": one.source(f"peak {dtype}"),
        "dram_source": one.source("dram_bytes_per_s"),
        "capacity_source": one.source("capacity_bytes"),
    }


def _batch_at(ridge: float) -> int:
    """The least batch at which a decode step's product is not under the ridge.

    Its intensity is b·nk / (nk + b(n + k)), which grows with b.
    """
    n, k = WIDE, HIDDEN
    return math.ceil(ridge * n * k / (n * k - ridge * (n + k)))


def _at(one: Operator, machine: Hardware) -> dict[str, Any]:
    under = one.intensity < ridge(machine)
    return {
        "operator": one.name,
        "rule": one.rule,
        "flop": one.flop,
        "words": one.words,
        "flop_per_dram_byte": digits(one.intensity, 4),
        "machine": machine.name,
        "ridge_flop_per_dram_byte": digits(ridge(machine), 4),
        "limit": "L2↔DRAM" if under else "arithmetic",
        "of_peak": digits(min(1.0, one.intensity / ridge(machine)), 4),
    }


def _price(one: Price) -> dict[str, Any]:
    def interval(pair: tuple[float, float] | None, name: str) -> dict[str, Any]:
        low, high = pair or (NO_SOURCE, NO_SOURCE)
        return {f"least_{name}": low, f"most_{name}": high}

    return {
        "memory": one.memory,
        "when": one.when,
        **interval(one.usd, "usd_per_gb"),
        **interval(one.times_ddr5, "times_ddr5"),
        "source": one.source,
    }


def draw(folder: Path, stem: Path) -> list[Path]:
    """Growth since the P100; ridges, and the operators that are under them."""
    machines = {r["machine"]: r for r in read_csv(folder / "machines.csv")}
    operators = read_csv(folder / "operators.csv")
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, (above, below) = plt.subplots(
            2, 1, figsize=(WIDTH, 7.8), height_ratios=(1, 1.2), layout="constrained"
        )
        _growth(above, [machines[name] for name in GENERATIONS])
        _ridges(below, list(machines.values()), operators)
        return save(figure, stem)


GROWTH = {
    "peak_over_p100": "fp16 FLOP/s\n(tensor cores from V100 on)",
    "fp32_over_p100": "fp32 FLOP/s, no tensor cores",
    "capacity_over_p100": "DRAM capacity",
    "bandwidth_over_p100": "bandwidth of L2↔DRAM",
}


def _growth(axes: Any, rows: Rows) -> None:
    for k, (column, label) in enumerate(GROWTH.items()):
        axes.plot(
            [r[column] for r in rows],
            marker=MARKERS[k],
            color=PALETTE[k],
            markersize=6,
            label=label,
        )
    at = [r["machine"] for r in rows].index("h100")
    times = rows[at]["peak_over_p100"] / rows[at]["bandwidth_over_p100"]
    for column, high in (("peak_over_p100", True), ("bandwidth_over_p100", False)):
        axes.annotate(
            f"{rows[at][column]:.1f}×",
            (at, rows[at][column]),
            textcoords="offset points",
            xytext=(0, 8 if high else -16),
            ha="center",
            fontsize=9,
        )
    axes.set_xticks(range(len(rows)), [f"{NAMES[r['machine']]}\n{r['year']}" for r in rows])
    ticks = (1, 2, 5, 10, 20, 50, 100)
    axes.set(
        yscale="log",
        ylim=(0.8, 200),
        ylabel="times the P100 (log scale)",
        title=f"From the P100 to the H100 arithmetic grew\n"
        f"{times:.0f} times as much as the bandwidth of L2↔DRAM",
    )
    axes.set_yticks(ticks, [str(t) for t in ticks])
    axes.minorticks_off()
    draw_legend(axes)


def _ridges(axes: Any, machines: Rows, operators: Rows) -> None:
    values = [r["ridge_flop_per_dram_byte"] for r in machines]
    axes.bar(range(len(machines)), values, width=0.62, color=PALETTE[5], alpha=0.55, zorder=1)
    for x, value in enumerate(values):
        axes.annotate(
            f"{value:.0f}",
            (x, value),
            textcoords="offset points",
            xytext=(0, 3),
            ha="center",
            fontsize=9,
        )
    lines = _group_names(operators)
    for k, (names, value) in enumerate(lines):
        # A label moves away from one that would touch it.
        near = [
            x < value
            for _, x in lines[max(0, k - 1) : k + 2]
            if x != value and abs(math.log(x / value)) < math.log(1.5)
        ]
        axes.axhline(value, color=PALETTE[1], linewidth=1, zorder=2)
        axes.annotate(
            f"{names}: {value:.3g}",
            (1, value),
            xycoords=("axes fraction", "data"),
            xytext=(5, sum(4 if below else -4 for below in near)),
            va="center",
            textcoords="offset points",
            fontsize=9,
            color=PALETTE[1],
        )
    axes.set_xticks(range(len(machines)), [NAMES[r["machine"]] for r in machines])
    ticks = (0.1, 1, 10, 100, 1000)
    every = {r["operator"] for r in operators}
    free = {r["operator"] for r in operators if r["limit"] != "L2↔DRAM"}
    axes.set(
        yscale="log",
        ylim=(0.08, 1200),
        ylabel="FLOP per byte at L2↔DRAM",
        title=f"L2↔DRAM limits {len(every - free)} of {len(every)} operators "
        "on every machine\n"
        "(bars: ridges of 16 bits; lines: operators, limited where inside a bar)",
    )
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.grid(visible=False, axis="x")


def _group_names(operators: Rows) -> list[tuple[str, float]]:
    """Names of operators that share an intensity to 1%, with it."""
    seen: Mapping[str, float] = {r["operator"]: r["flop_per_dram_byte"] for r in operators}
    groups: list[tuple[list[str], float]] = []
    for name, value in sorted(seen.items(), key=lambda x: x[1]):
        if groups and value < 1.01 * groups[-1][1]:
            groups[-1][0].append(name)
        else:
            groups.append(([name], value))
    return [(", ".join(names), value) for names, value in groups]


EXPERIMENT = Experiment("e07_wall", tables, draw)

if __name__ == "__main__":
    run_main(EXPERIMENT.main)
