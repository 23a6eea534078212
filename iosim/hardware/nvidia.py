"""NVIDIA's GPUs, in their SXM form.

Every number is the vendor's own, or what the driver of such a board reports.  FLOP/s are dense:
many pages print what sparsity doubles.  On tensor cores inputs of 16 bits have sums in fp32.
Tables and pages are as public transcriptions of the documents cite them; where two documents
differ, the source has both.
"""

from __future__ import annotations

from iosim.hardware.record import GB, KIB, MIB, TERA, Hardware

_P100 = "NVIDIA A100 white paper (2020), Table 4, pp. 36-37, column Tesla P100"
_V100 = (
    "NVIDIA Tesla V100 GPU Architecture, WP-08608-001 v1.1 (2017); the same again, SXM2, in the "
    "A100 white paper, Table 4, pp. 36-37"
)
_A100 = "NVIDIA A100 Tensor Core GPU Architecture white paper (2020), Table 4, pp. 36-37, SXM4"
_A100_80 = "NVIDIA A100 80 GB datasheet (2021), SXM; the chip is that of the 40 GB board"
_H100 = (
    "NVIDIA H100 Tensor Core GPU Architecture white paper v1.04 (2023), Table 3, pp. 39-40, SXM5"
)
_H200 = "NVIDIA H200 datasheet 3512650 (2024), p. 4, SXM"
_H200_FLOP = f"{_H200}, with sparsity twice this, as the H100; digits of {_H100}"
_B200 = "NVIDIA Blackwell datasheet 4204213 (2025), p. 8, one GPU of HGX B200"
_B200_HALF = f"{_B200}: printed with sparsity, half of it dense"
_B200_BOARD = "as the driver of a board reports it (github.com/pytorch/ao/pull/4002)"
_L2 = (
    "pmc.ncbi.nlm.nih.gov/articles/PMC10448217, Table 3: no measurement, but bytes that L2 reads "
    "in a clock times the clock ({arithmetic})"
)
_CORE = ("cores", "sram_bytes", "register_bytes")

P100 = Hardware(
    name="p100", title="Tesla P100 SXM2 16 GB", core="SM", cache="L2", year=2016,
    cores=56, sram_bytes=64 * KIB, register_bytes=256 * KIB, cache_bytes=4 * MIB,
    peaks={"fp16": 21.2 * TERA, "fp32": 10.6 * TERA, "fp64": 5.3 * TERA},
    dram_bytes_per_s=732 * GB, capacity_bytes=16 * GB, link_bytes_per_s=160 * GB,
    drivers=("Tesla P100-SXM2-16GB",),
    sources=dict.fromkeys(
        (*_CORE, "cache_bytes", "peak fp16", "peak fp32", "peak fp64", "capacity_bytes", "year"),
        f"{_P100}; it has no tensor cores",
    ) | {
        "dram_bytes_per_s": "NVIDIA Tesla P100 datasheet (2016): 732 GB/s; 720 in the A100 white "
        "paper, Table 4",
        "link_bytes_per_s": "NVLink, 4 links: 80 GB/s a direction, 160 in both "
        "(teckknow.com/nvidia-unveils-tesla-p100-hpc-board-based-pascal-gpu-architecture)",
    },
)  # fmt: skip

V100 = Hardware(
    name="v100", title="Tesla V100 SXM2 16 GB", core="SM", cache="L2", year=2017,
    cores=80, sram_bytes=96 * KIB, register_bytes=256 * KIB, cache_bytes=6 * MIB,
    peaks={"fp16": 125 * TERA, "fp32": 15.7 * TERA, "fp64": 7.8 * TERA},
    dram_bytes_per_s=900 * GB, capacity_bytes=16 * GB, link_bytes_per_s=300 * GB,
    l2_bytes_per_s=3133 * GB, caches={"L1 with shared memory, of one SM": 128 * KIB},
    drivers=("Tesla V100-SXM2-16GB",),
    sources=dict.fromkeys(
        (*_CORE, "cache_bytes", "peak fp16", "peak fp32", "peak fp64", "capacity_bytes", "year",
         "dram_bytes_per_s", "link_bytes_per_s", "cache L1 with shared memory, of one SM"), _V100,
    ) | {"l2_bytes_per_s": _L2.format(arithmetic="2048 B × 1.53 GHz")},
)  # fmt: skip

A100 = Hardware(
    name="a100", title="A100 SXM4 40 GB", core="SM", cache="L2", year=2020,
    cores=108, sram_bytes=164 * KIB, register_bytes=256 * KIB, cache_bytes=40 * MIB,
    peaks={"fp16": 312 * TERA, "bf16": 312 * TERA, "tf32": 156 * TERA, "fp32": 19.5 * TERA,
           "fp64": 19.5 * TERA},
    dram_bytes_per_s=1555 * GB, capacity_bytes=40 * GB, link_bytes_per_s=600 * GB,
    l2_bytes_per_s=7219 * GB, caches={"L1 with shared memory, of one SM": 192 * KIB},
    drivers=("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"),
    sources=dict.fromkeys(
        ("cores", "register_bytes", "cache_bytes", "peak fp16", "peak bf16", "peak tf32",
         "peak fp32", "capacity_bytes", "year", "dram_bytes_per_s", "link_bytes_per_s",
         "cache L1 with shared memory, of one SM"), _A100,
    ) | {
        "sram_bytes": f"{_A100}; also docs.nvidia.com/cuda/ampere-tuning-guide",
        "peak fp64": f"{_A100}: tensor cores; 9.7 without",
        "l2_bytes_per_s": _L2.format(arithmetic="5120 B × 1.41 GHz"),
    },
)  # fmt: skip

A100_80GB = Hardware(
    name="a100-80gb", title="A100 SXM4 80 GB", core="SM", cache="L2", year=2020,
    cores=A100.cores, sram_bytes=A100.sram_bytes, register_bytes=A100.register_bytes,
    cache_bytes=A100.cache_bytes, peaks=A100.peaks, caches=A100.caches,
    dram_bytes_per_s=2039 * GB, capacity_bytes=80 * GB, link_bytes_per_s=600 * GB,
    l2_bytes_per_s=A100.l2_bytes_per_s, drivers=("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
    sources={**A100.sources, "dram_bytes_per_s": _A100_80, "capacity_bytes": _A100_80,
             "year": "NVIDIA, press release of 16 November 2020"},
)  # fmt: skip

H100 = Hardware(
    name="h100", title="H100 SXM5 80 GB", core="SM", cache="L2", year=2022,
    cores=132, sram_bytes=228 * KIB, register_bytes=256 * KIB, cache_bytes=50 * MIB,
    peaks={"fp16": 989.4 * TERA, "bf16": 989.4 * TERA, "fp8": 1978.9 * TERA, "tf32": 494.7 * TERA,
           "fp32": 66.9 * TERA, "fp64": 66.9 * TERA},
    dram_bytes_per_s=3350 * GB, capacity_bytes=80 * GB, link_bytes_per_s=900 * GB,
    l2_bytes_per_s=8986 * GB, caches={"L1 with shared memory, of one SM": 256 * KIB},
    drivers=("NVIDIA H100 80GB HBM3",),
    sources=dict.fromkeys(
        ("cores", "register_bytes", "cache_bytes", "peak fp16", "peak bf16", "peak fp8",
         "peak tf32", "peak fp32", "capacity_bytes", "year", "link_bytes_per_s",
         "cache L1 with shared memory, of one SM"), _H100,
    ) | {
        "sram_bytes": f"{_H100}; also docs.nvidia.com/cuda/hopper-tuning-guide",
        "peak fp64": f"{_H100}: tensor cores; 33.5 without",
        "dram_bytes_per_s": f"NVIDIA H100 datasheet 2430615 (2024), p. 2; 3352 in {_H100}",
        "l2_bytes_per_s": _L2.format(arithmetic="5120 B × 1.755 GHz, of the A100's bytes"),
    },
)  # fmt: skip

H200 = Hardware(
    name="h200", title="H200 SXM 141 GB", core="SM", cache="L2", year=2024,
    cores=132, sram_bytes=228 * KIB, register_bytes=256 * KIB, cache_bytes=60 * MIB,
    peaks=H100.peaks,
    dram_bytes_per_s=4800 * GB, capacity_bytes=141 * GB, link_bytes_per_s=900 * GB,
    caches=H100.caches, drivers=("NVIDIA H200",),
    sources={
        **dict.fromkeys((f"peak {dtype}" for dtype in H100.peaks), _H200_FLOP),
        **dict.fromkeys(
            ("dram_bytes_per_s", "capacity_bytes", "link_bytes_per_s", "year"), _H200),
        **dict.fromkeys(
            ("sram_bytes", "register_bytes", "cache L1 with shared memory, of one SM"),
            f"{_H100}: the same GH100 chip"),
        "cores": "as the driver reports it (recorded in experiments/data/gpu/h200)",
        "cache_bytes": "as the driver reports it (recorded in experiments/data/gpu/h200): all the "
        "L2 of the GH100 chip (H100 white paper, p. 18), of which an H100 has 50 MB; NVIDIA "
        "training slides print 50 MB for the H200, too",
    },
)  # fmt: skip

B200 = Hardware(
    name="b200", title="B200 SXM 180 GB", core="SM", cache="L2", year=2024,
    cores=148, sram_bytes=228 * KIB, register_bytes=256 * KIB, cache_bytes=253 * MIB // 2,
    peaks={"fp16": 2250 * TERA, "bf16": 2250 * TERA, "fp8": 4500 * TERA},
    dram_bytes_per_s=7700 * GB, capacity_bytes=180 * GB, link_bytes_per_s=1800 * GB,
    drivers=("NVIDIA B200",),
    sources={
        **dict.fromkeys(("peak fp16", "peak bf16", "peak fp8"), _B200_HALF),
        **dict.fromkeys(("capacity_bytes", "link_bytes_per_s", "year"), _B200),
        **dict.fromkeys(("cores", "register_bytes"), _B200_BOARD),
        "sram_bytes": f"{_B200_BOARD}; also docs.nvidia.com/cuda/blackwell-tuning-guide",
        "cache_bytes": f"{_B200_BOARD}; 126 MB for GB200 in docs.nvidia.com/cuda/"
        "blackwell-tuning-guide",
        "dram_bytes_per_s": f"{_B200}; 7.7 TB/s also in the Blackwell architecture brief v2.1, "
        "Table 3, and 7.67 from bus and clock of a board (github.com/pytorch/ao/pull/4002), but "
        "64 TB/s for 8 GPUs on the DGX B200 page",
    },
)  # fmt: skip
