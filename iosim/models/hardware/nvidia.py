"""NVIDIA's GPUs, in their SXM form.

Every number is the vendor's own, or what the driver of such a board reports.  FLOP/s are dense:
many pages print what sparsity doubles.  On tensor cores inputs of 16 bits have sums in fp32.
Tables and pages are as public transcriptions of the documents cite them; where two documents
differ, the source has both.
"""

from __future__ import annotations

from typing import Any

from iosim.models.hardware.record import GB, KIB, MIB, TERA, Hardware

_P100 = (
    "NVIDIA's table of Tesla products, column Tesla P100, as techrival.com/nvidia-volta-tesla-v100-"
    "cards-detailed-150w-single-slot-300w-dual-slot-gv100-powered-pcie-accelerators prints it"
)
_GP100 = "teckknow.com/nvidia-unveils-tesla-p100-hpc-board-based-pascal-gpu-architecture"
_V100 = (
    "NVIDIA Tesla V100 GPU Architecture, WP-08608-001 v1.1 (2017); the same again, SXM2, in the "
    "A100 white paper, Table 4, pp. 36-37"
)
_A100 = "NVIDIA A100 Tensor Core GPU Architecture white paper (2020), Table 4, pp. 36-37, SXM4"
_A100_80 = "NVIDIA A100 datasheet 1758950 r4 (2021), SXM, of the 80 GB board"
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
    "in a clock times the clock of the full chip ({arithmetic}){measured}"
)
_BENCHES = "github.com/te42kyfo/gpu-benches at 1c36d50"
# What all have in common.
_GPU: dict[str, Any] = {"core": "SM", "cache": "L2", "register_bytes": 256 * KIB}
_L1 = "L1 with shared memory, of one SM"

P100 = Hardware(
    name="p100",
    title="Tesla P100 SXM2 16 GB",
    **_GPU,
    year=2016,
    cores=56,
    sram_bytes=64 * KIB,
    cache_bytes=4 * MIB,
    peaks={"fp16": 21.2 * TERA, "fp32": 10.6 * TERA, "fp64": 5.3 * TERA},
    dram_bytes_per_s=732 * GB,
    capacity_bytes=16 * GB,
    link_bytes_per_s=160 * GB,
    price_usd=129_000 / 8,
    drivers=("Tesla P100-SXM2-16GB",),
    sources={
        "peak fp16": f"{_GP100}; twice fp32: it has no tensor cores",
        "dram_bytes_per_s": "microway.com/hpc-tech-tips/nvidia-tesla-p100-nvlink-16gb-gpu-"
        "accelerator-pascal-gp100-sxm2-close; NVIDIA printed 720 when it was announced",
        "link_bytes_per_s": f"NVLink, 4 links: 80 GB/s a direction, 160 in both ({_GP100})",
        "year": "with the DGX-1, from June 2016 (tractica.omdia.com/automation-robotics/"
        "nvidia-releases-the-fastest-deep-learning-system-yet)",
        "price_usd": "an eighth of a DGX-1, $129,000 with all that is in it (tractica.omdia.com/"
        "automation-robotics/nvidia-releases-the-fastest-deep-learning-system-yet)",
    },
).with_source(_P100)

V100 = Hardware(
    name="v100",
    title="Tesla V100 SXM2 16 GB",
    **_GPU,
    year=2017,
    cores=80,
    sram_bytes=96 * KIB,
    cache_bytes=6 * MIB,
    peaks={"fp16": 125 * TERA, "fp32": 15.7 * TERA, "fp64": 7.8 * TERA},
    dram_bytes_per_s=900 * GB,
    capacity_bytes=16 * GB,
    link_bytes_per_s=300 * GB,
    l2_bytes_per_s=3133 * GB,
    caches={_L1: 128 * KIB},
    price_usd=149_000 / 8,
    drivers=("Tesla V100-SXM2-16GB",),
    sources={
        "peak fp16": f"{_V100}: tensor cores; 120 when it was announced, with a clock of 1.455 GHz",
        "peak fp32": f"{_V100}: 80 SMs × 64 units × 2 × 1.53 GHz; 15 when it was announced",
        "peak fp64": f"{_V100}: half of fp32; 7.5 when it was announced",
        "l2_bytes_per_s": _L2.format(
            arithmetic="2048 B × 1.53 GHz",
            measured=f"; 2450 GB/s were measured, {_BENCHES}, gpu-cache/v100.txt",
        ),
        "price_usd": "an eighth of a DGX-1 with V100, $149,000 with all that is in it "
        "(tweaktown.com/news/57488)",
    },
).with_source(_V100)

A100 = Hardware(
    name="a100",
    title="A100 SXM4 40 GB",
    **_GPU,
    year=2020,
    cores=108,
    sram_bytes=164 * KIB,
    cache_bytes=40 * MIB,
    peaks={
        "fp16": 312 * TERA,
        "bf16": 312 * TERA,
        "tf32": 156 * TERA,
        "fp32": 19.5 * TERA,
        "fp64": 19.5 * TERA,
    },
    dram_bytes_per_s=1555 * GB,
    capacity_bytes=40 * GB,
    link_bytes_per_s=600 * GB,
    l2_bytes_per_s=7219 * GB,
    caches={_L1: 192 * KIB},
    price_usd=199_000 / 8,
    drivers=("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"),
    sources={
        "sram_bytes": f"{_A100}; also docs.nvidia.com/cuda/ampere-tuning-guide",
        "peak fp64": f"{_A100}: tensor cores; 9.7 without",
        "l2_bytes_per_s": _L2.format(
            arithmetic="5120 B × 1.41 GHz",
            measured=f"; 5400 GB/s were measured, {_BENCHES}, gpu-l2-cache/a100_80.txt",
        ),
        "price_usd": "an eighth of a DGX A100, $199,000 with all that is in it "
        "(gadgetmix.com/nvidia-a100-gpu-with-ampere-architecture)",
    },
).with_source(_A100)

A100_80GB = Hardware(
    name="a100-80gb",
    title="A100 SXM4 80 GB",
    **_GPU,
    year=2020,
    cores=A100.cores,
    sram_bytes=A100.sram_bytes,
    cache_bytes=A100.cache_bytes,
    peaks=A100.peaks,
    caches=A100.caches,
    dram_bytes_per_s=2039 * GB,
    capacity_bytes=80 * GB,
    link_bytes_per_s=600 * GB,
    l2_bytes_per_s=A100.l2_bytes_per_s,
    launch_s=2.6e-6,
    drivers=("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
    sources={
        "sram_bytes": A100.sources["sram_bytes"],
        "peak fp64": A100.sources["peak fp64"],
        "l2_bytes_per_s": A100.sources["l2_bytes_per_s"],
        "dram_bytes_per_s": _A100_80,
        "capacity_bytes": _A100_80,
        "year": "November 2020, recalled and not read; between May 2020 and June 2021 by nvplay.ru/"
        "news/nvidia-a100-80-gb-pci-express",
        "launch_s": f"measured, {_BENCHES}, gpu-small-kernels/a100_80.txt: thousands of kernels of "
        "64 KiB, queued one after another, at 25 GB/s, which is 2.6 µs each with their own time; "
        "1.4 µs in a CUDA graph; a host that can't keep the queue filled takes longer",
    },
).with_source(_A100)

H100 = Hardware(
    name="h100",
    title="H100 SXM5 80 GB",
    **_GPU,
    year=2022,
    cores=132,
    sram_bytes=228 * KIB,
    cache_bytes=50 * MIB,
    peaks={
        "fp16": 989.4 * TERA,
        "bf16": 989.4 * TERA,
        "fp8": 1978.9 * TERA,
        "tf32": 494.7 * TERA,
        "fp32": 66.9 * TERA,
        "fp64": 66.9 * TERA,
    },
    dram_bytes_per_s=3350 * GB,
    capacity_bytes=80 * GB,
    link_bytes_per_s=900 * GB,
    l2_bytes_per_s=8986 * GB,
    caches={_L1: 256 * KIB},
    drivers=("NVIDIA H100 80GB HBM3",),
    sources={
        "sram_bytes": f"{_H100}; also docs.nvidia.com/cuda/hopper-tuning-guide",
        "peak fp64": f"{_H100}: tensor cores; 33.5 without",
        "dram_bytes_per_s": f"NVIDIA H100 datasheet 2430615 (2024), p. 2; 3352 in {_H100}",
        "l2_bytes_per_s": _L2.format(
            arithmetic="5120 B × 1.755 GHz, the bytes of an A100", measured=""
        ),
    },
).with_source(_H100)

H200 = Hardware(
    name="h200",
    title="H200 SXM 141 GB",
    **_GPU,
    year=2024,
    cores=132,
    sram_bytes=228 * KIB,
    cache_bytes=60 * MIB,
    peaks=H100.peaks,
    dram_bytes_per_s=4800 * GB,
    capacity_bytes=141 * GB,
    link_bytes_per_s=900 * GB,
    caches=H100.caches,
    drivers=("NVIDIA H200",),
    sources={
        **dict.fromkeys((f"peak {dtype}" for dtype in H100.peaks), _H200_FLOP),
        **dict.fromkeys(
            ("sram_bytes", "register_bytes", f"cache {_L1}"),
            f"{_H100}: the same GH100 chip",
        ),
        "cores": "as the driver reports it (recorded in experiments/data/gpu/h200)",
        "cache_bytes": "as the driver reports it (recorded in experiments/data/gpu/h200): all the "
        "L2 of the GH100 chip (H100 white paper, p. 18), of which an H100 has 50 MB; NVIDIA "
        "training slides print 50 MB for the H200, too",
    },
).with_source(_H200)

B200 = Hardware(
    name="b200",
    title="B200 SXM 180 GB",
    **_GPU,
    year=2024,
    cores=148,
    sram_bytes=228 * KIB,
    cache_bytes=253 * MIB // 2,
    peaks={
        "fp16": 2250 * TERA,
        "bf16": 2250 * TERA,
        "fp8": 4500 * TERA,
        "tf32": 1100 * TERA,
        "fp32": 75 * TERA,
        "fp64": 37 * TERA,
    },
    dram_bytes_per_s=7700 * GB,
    capacity_bytes=180 * GB,
    link_bytes_per_s=1800 * GB,
    caches={_L1: 256 * KIB},
    drivers=("NVIDIA B200",),
    sources={
        **dict.fromkeys(("peak fp16", "peak bf16", "peak fp8", "peak tf32"), _B200_HALF),
        **dict.fromkeys(("peak fp32", "peak fp64"), f"{_B200}; 80 and 40 in earlier tables"),
        f"cache {_L1}": ("chipsandcheese.com/p/nvidias-b200-keeping-the-cuda-juggernaut"),
        **dict.fromkeys(("cores", "register_bytes"), _B200_BOARD),
        "sram_bytes": f"{_B200_BOARD}; also docs.nvidia.com/cuda/blackwell-tuning-guide",
        "cache_bytes": f"{_B200_BOARD}; 126 MB for GB200 in docs.nvidia.com/cuda/"
        "blackwell-tuning-guide",
        "dram_bytes_per_s": f"{_B200}; 7.7 TB/s also in the Blackwell architecture brief v2.1, "
        "Table 3, and 7.67 from bus and clock of a board (github.com/pytorch/ao/pull/4002), but "
        "64 TB/s for 8 GPUs on the DGX B200 page",
    },
).with_source(_B200)
