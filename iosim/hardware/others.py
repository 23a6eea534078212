"""Machines of AMD and Google: a GPU, a TPU, and a CPU."""

from __future__ import annotations

from iosim.hardware.record import GB, GIB, KIB, MIB, TERA, Hardware

_CDNA3 = "rocm.docs.amd.com, conceptual/gpu-arch/mi300 (AMD CDNA 3)"
_V5P = "docs.cloud.google.com/tpu/docs/v5p"
_GENOA = "AMD, EPYC 9004 series, EPYC 9654"
_FMA = (
    "derived: 96 cores × 2.4 GHz (base clock) × {flop} FLOP a clock, from two 256-bit units for "
    "multiply-adds; AMD prints no peak"
)

MI300X = Hardware(
    name="mi300x", title="AMD Instinct MI300X", core="CU", cache="Infinity Cache", year=2023,
    cores=304, sram_bytes=64 * KIB, register_bytes=512 * KIB, cache_bytes=256 * MIB,
    peaks={"fp16": 1307.4 * TERA, "bf16": 1307.4 * TERA, "fp8": 2614.9 * TERA,
           "tf32": 653.7 * TERA, "fp32": 163.4 * TERA, "fp64": 163.4 * TERA},
    dram_bytes_per_s=5300 * GB, capacity_bytes=192 * GB, link_bytes_per_s=896 * GB,
    caches={"L2, of 8 dies": 32 * MIB}, drivers=("AMD Instinct MI300X",),
    sources=dict.fromkeys(
        ("cores", "sram_bytes", "register_bytes", "cache_bytes", "peak fp16", "peak bf16",
         "peak fp8", "peak tf32", "peak fp32", "peak fp64", "dram_bytes_per_s", "capacity_bytes",
         "link_bytes_per_s", "cache L2, of 8 dies", "year"), _CDNA3,
    ),
)  # fmt: skip

TPU_V5P = Hardware(
    name="tpu-v5p", title="Google TPU v5p", core="TensorCore", cache="VMEM", year=2023,
    cores=2, peaks={"bf16": 459 * TERA, "fp8": 459 * TERA},
    dram_bytes_per_s=2765 * GB, capacity_bytes=95 * GIB, link_bytes_per_s=1200 * GB,
    sources=dict.fromkeys(("cores", "peak bf16", "peak fp8"), _V5P) | {
        "dram_bytes_per_s": f"{_V5P}: 2575 GiB/s, on an earlier page 2765 GB/s, which is the same",
        "capacity_bytes": f"{_V5P}: 95 GiB; GB on an earlier page",
        "link_bytes_per_s": f"{_V5P}: inter-chip interconnect, both directions; 4,800 Gb/s on an "
        "earlier page, which is half of it",
        "year": "Google Cloud, announcement of 6 December 2023 (centerconsulting.com/ai-library/"
        "milestones/2023-tpu-v5p)",
    },
)  # fmt: skip

EPYC_9654 = Hardware(
    name="epyc-9654", title="AMD EPYC 9654", core="core", cache="L3", year=2022,
    cores=96, sram_bytes=1 * MIB, cache_bytes=384 * MIB,
    peaks={"bf16": 96 * 2.4e9 * 64, "fp32": 96 * 2.4e9 * 32, "fp64": 96 * 2.4e9 * 16},
    dram_bytes_per_s=460.8 * GB, capacity_bytes=6000 * GB,
    caches={"L1, of one core": 32 * KIB},
    sources={
        **dict.fromkeys(("cores", "sram_bytes", "cache_bytes", "cache L1, of one core", "year"),
                        _GENOA),
        **{f"peak {dtype}": _FMA.format(flop=n)
           for dtype, n in (("bf16", 64), ("fp32", 32), ("fp64", 16))},
        "dram_bytes_per_s": f"{_GENOA}: 12 channels of DDR5-4800",
        "capacity_bytes": f"{_GENOA}: the most that a socket takes, not what is installed",
    },
)  # fmt: skip
