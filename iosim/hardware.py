"""Machines: what an SM holds, what the chip holds, how fast HBM (L2↔DRAM) and arithmetic are.

Every number is the vendor's own, or what the driver of such a board reports, with its source, for
the SXM form of each GPU; KiB and MiB are binary, GB and TFLOP/s decimal.  FLOP/s are dense (no
sparsity), fp16 or bf16 inputs with fp32 sums on the tensor cores.  Tables and pages are as public
transcriptions of the documents cite them; where two documents differ, `source` has both.

>>> h100 = gpu("h100")
>>> h100.sram_words("fp16"), round(h100.ridge)
(116736, 295)
"""

from __future__ import annotations

from dataclasses import dataclass

from iosim.errors import InputError, closest
from iosim.problem import word_bytes

KIB, MIB, GB, TERA = 2**10, 2**20, 10**9, 10**12


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    Attributes:
        name: the registry's key.
        title: as the vendor calls it.
        year: of its first shipment.
        sms: streaming multiprocessors that are enabled.
        sram_bytes: the largest part of an SM's L1 that can be shared memory.  CUDA keeps 1 KiB of
            it for each thread block, from the A100 on (the tuning guides, "Unified Shared
            Memory/L1/Texture Cache"); that is not taken off.
        register_bytes: the register file of an SM.
        l2_bytes: the L2 cache of the chip.
        hbm_bytes_per_s: peak bandwidth of HBM, between L2 and DRAM.
        flop_per_s: peak dense tensor-core arithmetic, fp16 or bf16 inputs.
        source: where each number is from.
    """

    name: str
    title: str
    year: int
    sms: int
    sram_bytes: int
    register_bytes: int
    l2_bytes: int
    hbm_bytes_per_s: float
    flop_per_s: float
    source: str

    def sram_words(self, dtype: str) -> int:
        """Words of `dtype` in an SM's shared memory: the M of one thread block."""
        return self.sram_bytes // word_bytes(dtype)

    @property
    def chip_bytes(self) -> int:
        """Shared memory of all SMs together."""
        return self.sms * self.sram_bytes

    @property
    def ridge(self) -> float:
        """FLOP per byte between L2 and DRAM above which arithmetic is the limit."""
        return self.flop_per_s / self.hbm_bytes_per_s


GPUS: dict[str, Gpu] = {
    g.name: g
    for g in (
        Gpu(
            name="v100", title="Tesla V100 SXM2 16 GB", year=2017, sms=80,
            sram_bytes=96 * KIB, register_bytes=256 * KIB, l2_bytes=6 * MIB,
            hbm_bytes_per_s=900 * GB, flop_per_s=125 * TERA,
            source="NVIDIA Tesla V100 GPU Architecture, WP-08608-001 v1.1 (2017) "
            "(80 SMs, up to 96 KB, 256 KB, 6144 KB, 900 GB/s, 125 TFLOPS); the same again, SXM2, "
            "in the A100 white paper, Table 4, pp. 36-37",
        ),
        Gpu(
            name="a100", title="A100 SXM4 40 GB", year=2020, sms=108,
            sram_bytes=164 * KIB, register_bytes=256 * KIB, l2_bytes=40 * MIB,
            hbm_bytes_per_s=1555 * GB, flop_per_s=312 * TERA,
            source="NVIDIA A100 Tensor Core GPU Architecture white paper (2020), Table 4, "
            "pp. 36-37 (SXM4, 108 SMs, up to 164 KB, 256 KB, 40960 KB, 1555 GB/s, 312 TFLOPS "
            "dense, 624 with sparsity); shared memory also "
            "docs.nvidia.com/cuda/ampere-tuning-guide",
        ),
        Gpu(
            name="h100", title="H100 SXM5 80 GB", year=2022, sms=132,
            sram_bytes=228 * KIB, register_bytes=256 * KIB, l2_bytes=50 * MIB,
            hbm_bytes_per_s=3350 * GB, flop_per_s=989.4 * TERA,
            source="NVIDIA H100 Tensor Core GPU Architecture white paper v1.04 (2023), Table 3, "
            "pp. 39-40 (SXM5, 132 SMs, up to 228 KB, 256 KB, 50 MB, 989.4 TFLOPS dense, 1978.9 "
            "with sparsity; 3352 GB/s); 3.35 TB/s from the H100 datasheet 2430615 (2024), p. 2; "
            "shared memory also docs.nvidia.com/cuda/hopper-tuning-guide",
        ),
        Gpu(
            name="h200", title="H200 SXM 141 GB", year=2024, sms=132,
            sram_bytes=228 * KIB, register_bytes=256 * KIB, l2_bytes=60 * MIB,
            hbm_bytes_per_s=4800 * GB, flop_per_s=989.4 * TERA,
            source="NVIDIA H200 datasheet 3512650 (2024), p. 4 (SXM, 4.8 TB/s; 1,979 TFLOPS with "
            "sparsity, as the H100, whose white paper has 989.4 dense, 228 KB and 256 KB for the "
            "same GH100 chip); 132 SMs and 60 MB of L2 as the driver reports them (recorded in "
            "experiments/data/gpu/h200): all the L2 of the chip (white paper, p. 18), of which an "
            "H100 has 50 MB; NVIDIA training slides print 50 MB for the H200, too",
        ),
        Gpu(
            name="b200", title="B200 SXM 180 GB", year=2024, sms=148,
            sram_bytes=228 * KIB, register_bytes=256 * KIB, l2_bytes=253 * MIB // 2,
            hbm_bytes_per_s=7700 * GB, flop_per_s=2250 * TERA,
            source="NVIDIA Blackwell datasheet 4204213 (2025), p. 8, one GPU of HGX B200 (180 GB, "
            "7.7 TB/s; 4.5 PFLOPS fp16 with sparsity, half of it dense); 7.7 TB/s also in the "
            "Blackwell architecture brief v2.1, Table 3, and 7.67 from bus and clock of a board "
            "(github.com/pytorch/ao/pull/4002), but 64 TB/s for 8 GPUs on the DGX B200 page; 148 "
            "SMs, 228 KB, 256 KB and 126.5 MB of L2 as that board's driver reports them; 228 KB, "
            "and 126 MB for GB200, also docs.nvidia.com/cuda/blackwell-tuning-guide",
        ),
    )
}  # fmt: skip


def gpu(name: str) -> Gpu:
    """A registered GPU, or InputError with the closest name."""
    if name not in GPUS:
        raise InputError(f"unknown GPU {name!r}: {closest(name, GPUS)}")
    return GPUS[name]
