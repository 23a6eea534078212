"""What the columns of the reports of GPUs mean, and which of them are drawn against which.

A report (`iosim.gpu.reports`) says by its rows which columns there are, and which a terminal shows.
Only the lab has words, units and scatters for them, so that these are here, once for all reports.
A test finds every column of every record among them.
"""

from __future__ import annotations

from dataclasses import dataclass

SM_L2, L1_L2, L2_DRAM = "SM↔L2", "L1↔L2", "L2↔DRAM"


@dataclass(frozen=True)
class Column:
    """A column of a report.

    Attributes:
        says: what the number is, in a few words.
        unit: as it is written after the number; "" for none.
        boundary: where what it counts crosses; "" where it counts no traffic.
    """

    says: str
    unit: str = ""
    boundary: str = ""


@dataclass(frozen=True)
class Series:
    """Scatter of a scatter: the column across, the column up, what they are.

    Attributes:
        x, y: columns.
        says: in the legend.
        where: a column and the value that it has in rows that are drawn; None for all.
        bars: columns of the ends of a bar next to each point; None for none.
        plus: a column that is added to the one up; None for none.
    """

    x: str
    y: str
    says: str
    where: tuple[str, bool | str] | None = None
    bars: tuple[str, str] | None = None
    plus: str | None = None


@dataclass(frozen=True)
class Scatter:
    """A scatter: its title, what is across and up, and its series, at most three."""

    says: str
    across: str
    up: str
    unit: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Shown:
    """How a report is shown.

    Attributes:
        points: scatters; the first is shown first.
        skipped: jobs of a record that have no row, before the first that has; None where rows are
            not of jobs, so that they have no tensors.
    """

    points: tuple[Scatter, ...] = ()
    skipped: int | None = None


def _both(across: str, up: str, says: str, x: str, y: str) -> Scatter:
    """Loads and stores, in bytes."""
    series = tuple(Series(f"{x}_{way}", f"{y}_{way}", f"{way}s") for way in ("load", "store"))
    return Scatter(says, across, up, "bytes", series)


_WORDS = f"model: words × bytes per word, {SM_L2}"

SHOWN: dict[str, Shown] = {
    "validate": Shown(
        (
            _both(
                _WORDS,
                f"hardware counters, {SM_L2}",
                "Hardware counters against the model",
                "model",
                "sram",
            ),
            _both(
                _WORDS,
                f"counted inside the kernel, {SM_L2}",
                "The kernel's own count against the model",
                "model",
                "kernel",
            ),
            Scatter(
                "What L1 passed on to L2",
                _WORDS,
                f"hardware counters, {L1_L2}",
                "bytes",
                (Series("model_load", "l2_load", "loads"),),
            ),
            Scatter(
                "What L2 read from DRAM",
                _WORDS,
                f"hardware counters, {L2_DRAM}",
                "bytes",
                (Series("model_load", "dram_load", "loads"),),
            ),
        ),
        skipped=0,
    ),
    "l2size": Shown(
        (
            Scatter(
                "DRAM reads of sweeps against the law of their order",
                f"law, {L2_DRAM}",
                f"hardware counters, {L2_DRAM}",
                "bytes",
                (
                    Series("law_bytes", "read_bytes", "cyclic", ("order", "cyclic")),
                    Series("law_bytes", "read_bytes", "alternating", ("order", "alternating")),
                ),
            ),
        ),
    ),
    "dram": Shown(
        (
            Scatter(
                "DRAM reads against the wave model",
                f"wave model, {L2_DRAM}",
                f"hardware counters, {L2_DRAM}",
                "bytes",
                (
                    Series("predicted", "measured", "in lockstep", ("in_step", True)),
                    Series(
                        "predicted",
                        "measured",
                        "plain; bar: what the recorded drift explains",
                        ("in_step", False),
                        ("drift_least", "drift_most"),
                    ),
                ),
            ),
        ),
        skipped=1,
    ),
    "bench": Shown(
        (
            Scatter(
                "Speed against PyTorch's fused kernel",
                "PyTorch, fused",
                "emitted",
                "TFLOP/s",
                (Series("fused_tflops", "emitted_tflops", "emitted"),),
            ),
            Scatter(
                "Time against standard attention in PyTorch",
                "PyTorch, standard",
                "emitted",
                "s",
                (Series("standard_s", "emitted_s", "emitted"),),
            ),
        )
    ),
    "backward": Shown(
        (
            Scatter(
                "Backward passes against PyTorch's two",
                "PyTorch, fused",
                "emitted",
                "TFLOP/s",
                (
                    Series("flash_tflops", "emitted_tflops", "FlashAttention-2"),
                    Series("cudnn_tflops", "emitted_tflops", "cuDNN"),
                ),
            ),
        )
    ),
    "decode": Shown(
        (
            Scatter(
                "Compulsory bytes by time",
                "PyTorch, fused",
                "emitted",
                "GB/s",
                (Series("fused_gb_per_s", "emitted_gb_per_s", "emitted"),),
            ),
        )
    ),
    "paper": Shown(
        (
            Scatter(
                "DRAM bytes, read and written, against the model",
                f"model, {L2_DRAM}",
                f"hardware counters, {L2_DRAM}",
                "GB",
                (Series("predicted_gb", "dram_gb", "read and written"),),
            ),
        )
    ),
    "layers": Shown(
        (
            Scatter(
                "Time of a pass against the least by the roofline",
                "least time",
                "measured",
                "µs",
                (
                    Series("least_us", "wall_us", "pass"),
                    Series("least_us", "busy_us", "its kernels"),
                ),
            ),
            Scatter(
                "DRAM bytes, read and written, against the model's for the same fusion",
                f"model, {L2_DRAM}",
                f"hardware counters, {L2_DRAM}",
                "bytes",
                (
                    Series(
                        "dram_model_bytes",
                        "dram_load_bytes",
                        "read and written",
                        plus="dram_store_bytes",
                    ),
                ),
            ),
            Scatter(
                "Bytes at SM↔L2 against the model's for the same fusion",
                f"model, {SM_L2}",
                f"hardware counters, {SM_L2}",
                "bytes",
                (
                    Series(
                        "sm_l2_model_bytes",
                        "sm_l2_load_bytes",
                        "loads and stores",
                        plus="sm_l2_store_bytes",
                    ),
                ),
            ),
            Scatter(
                "Speed relative to eager",
                "model, the same fusion",
                "measured",
                "",
                (Series("model_speedup", "speedup", "compiled or fused"),),
            ),
        )
    ),
}

COLUMNS: dict[str, Column] = {
    "order": Column("order of the sweeps"),
    "sweeps": Column("sweeps"),
    "swept_bytes": Column("bytes of a sweep", "bytes", L2_DRAM),
    "own_read_bytes": Column(
        "bytes that the programs read of their own, a sweep", "bytes", L2_DRAM
    ),
    "own_written_bytes": Column("bytes that they write of their own, a sweep", "bytes", L2_DRAM),
    "law_bytes": Column("DRAM reads, by the law", "bytes", L2_DRAM),
    "read_bytes": Column("DRAM reads, counter", "bytes", L2_DRAM),
    "off_law": Column("counter / law − 1", "", L2_DRAM),
    "used_bytes": Column("bytes of L2 that a sweep can use", "bytes"),
    "of_half": Column("of half of L2"),
    "algorithm": Column("schedule"),
    "sizes": Column("sizes"),
    "dtype": Column("type of the tensors"),
    "M_words": Column("M that the tiles were chosen for", "words"),
    "tiles": Column("tiles"),
    "model_load": Column("loads by the model: words × bytes per word", "bytes", SM_L2),
    "kernel_load": Column("loads counted inside the kernel", "bytes", SM_L2),
    "sram_load": Column("loads by the hardware's counter", "bytes", SM_L2),
    "difference_load": Column("counter − model, loads", "bytes", SM_L2),
    "explained_load": Column("of these in partly filled sectors, by the model", "bytes", SM_L2),
    "mask_load": Column("sectors of a block mask, which the model doesn't have", "bytes", SM_L2),
    "dead_load": Column("loads that nothing reads, which hardware doesn't move", "bytes", SM_L2),
    "model_store": Column("stores by the model: words × bytes per word", "bytes", SM_L2),
    "kernel_store": Column("stores counted inside the kernel", "bytes", SM_L2),
    "sram_store": Column("stores by the hardware's counter", "bytes", SM_L2),
    "difference_store": Column("counter − model, stores", "bytes", SM_L2),
    "explained_store": Column("of these in partly filled sectors, by the model", "bytes", SM_L2),
    "unexplained": Column("bytes that nothing explains", "bytes", SM_L2),
    "l2_load": Column("loads that L1 passed on to L2, counter", "bytes", L1_L2),
    "dram_load": Column("read from DRAM, counter", "bytes", L2_DRAM),
    "dram_store": Column("written to DRAM, counter", "bytes", L2_DRAM),
    "error": Column("largest error, of the largest output"),
    "beside_fused": Column("largest difference to PyTorch's fused kernel, of the largest output"),
    "time_s": Column("time", "s"),
    "model_gb_per_s": Column("the model's bytes by time", "GB/s", SM_L2),
    "peak_bytes": Column("peak of fast memory, model", "bytes"),
    "shared_bytes": Column("shared memory that the compiler took", "bytes"),
    "register_bytes": Column("registers that the compiler took", "bytes"),
    "spills": Column("register spills"),
    "failed": Column("why it failed"),
    "good": Column("all thresholds met"),
    "stages": Column("pipeline stages of the compiler"),
    "in_step": Column("kept in lockstep by a barrier"),
    "programs": Column("programs resident at once"),
    "waves": Column("waves of programs"),
    "predicted": Column("DRAM reads, wave model", "bytes", L2_DRAM),
    "measured": Column("DRAM reads, counter", "bytes", L2_DRAM),
    "off": Column("counter / wave model − 1", "", L2_DRAM),
    "drift_least": Column("reads that the recorded drift explains, all of L2", "bytes", L2_DRAM),
    "drift_most": Column("reads that the recorded drift explains, half of L2", "bytes", L2_DRAM),
    "spread": Column("spread of programs that run at once, of the sweep"),
    "window": Column("what half of L2 holds, of the sweep"),
    "written": Column("DRAM writes, counter", "bytes", L2_DRAM),
    "of_plain": Column("time, of a plain launch's"),
    "sram_exact": Column("loads by counter equal the model's", "", SM_L2),
    "warps": Column("warps of a program"),
    "emitted_s": Column("emitted kernel, time", "s"),
    "fused_s": Column("PyTorch's fused kernel, time", "s"),
    "standard_s": Column("standard attention in PyTorch, time", "s"),
    "flash_s": Column("FlashAttention-2 in PyTorch, time", "s"),
    "cudnn_s": Column("cuDNN in PyTorch, time", "s"),
    "copy_s": Column("a copy of as many bytes, time", "s"),
    "emitted_tflops": Column("emitted kernel", "TFLOP/s"),
    "fused_tflops": Column("PyTorch's fused kernel", "TFLOP/s"),
    "standard_tflops": Column("standard attention in PyTorch", "TFLOP/s"),
    "flash_tflops": Column("FlashAttention-2 in PyTorch", "TFLOP/s"),
    "cudnn_tflops": Column("cuDNN in PyTorch", "TFLOP/s"),
    "of_fused": Column("emitted speed, of the fused kernel's"),
    "of_flash": Column("emitted speed, of FlashAttention-2's in PyTorch"),
    "of_cudnn": Column("emitted speed, of cuDNN's in PyTorch"),
    "of_copy": Column("emitted speed, of the copy's"),
    "of_hbm": Column("share of HBM's peak bandwidth", "", L2_DRAM),
    "difference": Column("largest difference to the fused kernel's output"),
    "launches": Column("launches timed"),
    "case": Column("case of attention"),
    "target": Column("target of the emitter"),
    "style": Column("style of the target"),
    "compulsory_bytes": Column("inputs and outputs once", "bytes", L2_DRAM),
    "emitted_gb_per_s": Column("emitted kernel, compulsory bytes by time", "GB/s", L2_DRAM),
    "fused_gb_per_s": Column("PyTorch's kernel, compulsory bytes by time", "GB/s", L2_DRAM),
    "copy_gb_per_s": Column("a copy, bytes by time", "GB/s", L2_DRAM),
    "implementation": Column("implementation"),
    "passes": Column("passes"),
    "predicted_gb": Column("DRAM bytes by hand-counted passes", "GB", L2_DRAM),
    "dram_read_gb": Column("read from DRAM, counter", "GB", L2_DRAM),
    "dram_written_gb": Column("written to DRAM, counter", "GB", L2_DRAM),
    "dram_gb": Column("read and written, counter", "GB", L2_DRAM),
    "published_gb": Column("published", "GB", L2_DRAM),
    "kernels": Column("kernels launched"),
    "model": Column("model"),
    "phase": Column("phase"),
    "batch": Column("sequences in a batch"),
    "variant": Column("how PyTorch ran it"),
    "wall_us": Column("a pass, measured", "µs"),
    "busy_us": Column("its kernels, measured", "µs"),
    "overhead_share": Column("share of a pass in which no kernel runs"),
    "model_kernels": Column("kernels of the same fusion, model"),
    "model_overhead_bound": Column("of these no longer than a launch, model"),
    "least_us": Column("least time by the roofline", "µs"),
    "of_least": Column("measured, of the least time"),
    "time_contraction": Column("share of time: products"),
    "time_normalisation": Column("share of time: normalization"),
    "time_elementwise": Column("share of time: element-wise"),
    "time_attention": Column("share of time: fused attention"),
    "time_copy": Column("share of time: copies"),
    "time_unknown": Column("share of time: unknown kernels"),
    "flop_contraction": Column("share of flop: products, model"),
    "flop_normalisation": Column("share of flop: normalization, model"),
    "flop_elementwise": Column("share of flop: element-wise, model"),
    "flop": Column("flop, model"),
    "tensor_flop": Column("flop of matrix units, counter"),
    "other_flop": Column("other flop, counter"),
    "dram_model_bytes": Column("read and written, model", "bytes", L2_DRAM),
    "dram_load_bytes": Column("read, counter", "bytes", L2_DRAM),
    "dram_store_bytes": Column("written, counter", "bytes", L2_DRAM),
    "sm_l2_model_bytes": Column("loads and stores, model", "bytes", SM_L2),
    "sm_l2_load_bytes": Column("loads, counter", "bytes", SM_L2),
    "sm_l2_store_bytes": Column("stores, counter", "bytes", SM_L2),
    "bulk_load_bytes": Column("of the loads by bulk copies", "bytes", SM_L2),
    "bulk_store_bytes": Column("of the stores by bulk copies", "bytes", SM_L2),
    "reduced_bytes": Column("reductions", "bytes", SM_L2),
    "counted": Column("kernels with counters"),
    "uncounted": Column("kernels that only the counters' run saw"),
    "absorbed": Column("operators that the compiler removed"),
    "beside_eager": Column("largest difference to the eager output"),
    "speedup": Column("speed relative to eager, measured"),
    "model_speedup": Column("speed relative to eager, model"),
}

# Loads and stores that belong together: what both are, the boundary, their columns.
PAIRS: tuple[tuple[str, str, str, str], ...] = (
    ("model: words × bytes per word", SM_L2, "model_load", "model_store"),
    ("counted inside the kernel", SM_L2, "kernel_load", "kernel_store"),
    ("hardware counter: sectors of the load-store units × 32", SM_L2, "sram_load", "sram_store"),
    ("counter − model", SM_L2, "difference_load", "difference_store"),
    ("of these in partly filled sectors", SM_L2, "explained_load", "explained_store"),
    ("hardware counter: what L1 passed on", L1_L2, "l2_load", "l2_store"),
    ("hardware counter", L2_DRAM, "dram_load", "dram_store"),
)
