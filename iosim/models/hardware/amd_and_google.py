"""Machines of AMD and Google: a GPU, a TPU, and a CPU."""

from __future__ import annotations

from iosim.models.hardware.record import GB, GIB, KIB, MIB, TERA, Hardware

_CDNA3 = "AMD, rocm.docs.amd.com, conceptual/gpu-arch/mi300"
_SPECS = "AMD, rocm.docs.amd.com, reference/gpu-arch-specs"
_V5P = "docs.cloud.google.com/tpu/docs/v5p"
_JAX = "github.com/jax-ml/jax, jax/_src/pallas/mosaic/tpu_info.py"
_GENOA = "xda-developers.com/amd-128-core-bergame-genoa-epyc-cpu"
_PIPES = (
    "derived: 96 cores × 2.4 GHz (base clock) × {flop} FLOP a clock, from two pipes of 256 bits "
    "for multiply-adds; AMD prints no peak, and cores that run faster have more"
)

MI300X = Hardware(
    name="mi300x",
    title="AMD Instinct MI300X",
    core="CU",
    cache="Infinity Cache",
    year=2023,
    cores=304,
    sram_bytes=64 * KIB,
    register_bytes=512 * KIB,
    cache_bytes=256 * MIB,
    peaks={
        "fp16": 1307.4 * TERA,
        "bf16": 1307.4 * TERA,
        "fp8": 2614.9 * TERA,
        "tf32": 653.7 * TERA,
        "fp32": 163.4 * TERA,
        "fp64": 163.4 * TERA,
    },
    dram_bytes_per_s=5300 * GB,
    capacity_bytes=192 * GB,
    link_bytes_per_s=896 * GB,
    caches={"L1, of one CU": 32 * KIB, "L2, of 8 dies": 32 * MIB},
    drivers=("AMD Instinct MI300X",),
    sources={
        **dict.fromkeys(("peak fp16", "peak bf16", "peak fp8", "dram_bytes_per_s"), _CDNA3),
        "peak tf32": f"{_CDNA3}; its table calls it vector, its text a matrix core's",
        "peak fp32": f"{_CDNA3}: both vector and matrix",
        "peak fp64": f"{_CDNA3}: matrix; 81.7 vector",
        "sram_bytes": f"{_SPECS}: LDS",
        "capacity_bytes": f"{_SPECS}, under GiB; data sheets print GB, as for every board here",
        "register_bytes": f"{_SPECS}: vector registers",
        "cache_bytes": f"{_SPECS}, L3; L2 has 17 TB/s to it (servethehome.com/"
        "amd-instinct-mi300x-gpu-and-mi300a-apus-launched-for-ai-era/3)",
        "link_bytes_per_s": "gpu.blog/gpus/instinct-mi300x-mi300x: 7 links of 128 GB/s, both "
        "directions",
        "year": "jaredwatkins.com/research/ai-accelerators/amd-instinct/mi300-series",
    },
).with_source(_SPECS)

TPU_V5P = Hardware(
    name="tpu-v5p",
    title="Google TPU v5p",
    core="TensorCore",
    cache="VMEM",
    year=2023,
    cores=2,
    sram_bytes=64 * MIB,
    cache_bytes=128 * MIB,
    peaks={"bf16": 459 * TERA, "fp8": 459 * TERA},
    dram_bytes_per_s=2765 * GB,
    capacity_bytes=95 * GIB,
    link_bytes_per_s=1200 * GB,
    sources={
        "peak fp8": f"{_V5P}; {_JAX} has none",
        "sram_bytes": f"{_JAX}: VMEM of one TensorCore",
        "cache_bytes": f"{_JAX}: VMEM of both TensorCores; no cache is between it and HBM",
        "dram_bytes_per_s": f"{_V5P}: 2575 GiB/s, on an earlier page 2765 GB/s, which is the same; "
        f"2460 in {_JAX}",
        "capacity_bytes": f"{_V5P}: 95 GiB; GB on an earlier page",
        "link_bytes_per_s": f"{_V5P}: inter-chip interconnect, both directions; 4,800 Gb/s on an "
        "earlier page, which is half of it",
        "year": "announced on 6 December 2023 (centerconsulting.com/ai-library/milestones/"
        "2023-tpu-v5p)",
    },
).with_source(_V5P)

EPYC_9654 = Hardware(
    name="epyc-9654",
    title="AMD EPYC 9654",
    core="core",
    cache="L3",
    year=2022,
    cores=96,
    sram_bytes=1 * MIB,
    cache_bytes=384 * MIB,
    peaks={"bf16": 96 * 2.4e9 * 64, "fp32": 96 * 2.4e9 * 32, "fp64": 96 * 2.4e9 * 16},
    dram_bytes_per_s=460.8 * GB,
    capacity_bytes=6000 * GB,
    price_usd=11_805,
    sources={
        "sram_bytes": f"{_GENOA}: the L2 of one core, 96 MB in all",
        "cache_bytes": f"{_GENOA}: 12 dies with 32 MB each, of which a core's own die is the near "
        "one",
        **{
            f"peak {dtype}": _PIPES.format(flop=n)
            for dtype, n in (("bf16", 64), ("fp32", 32), ("fp64", 16))
        },
        "dram_bytes_per_s": "12 channels of DDR5-4800 (tomshardware.com/uk/news/"
        "amd-confirms-12-ddr5-memory-channels-on-genoa)",
        "capacity_bytes": "what is put in, here 512 GB in each channel (tomshardware.com/uk/news/"
        "amd-confirms-12-ddr5-memory-channels-on-genoa)",
        "year": "10 November 2022 (en.wikichip.org/wiki/amd/cores/genoa)",
        "price_usd": "fanaticosdelhardware.com/amd-epyc-9654-superior-ryzen-threadripper-pro-"
        "5995wx-en-casi-un-30-en-passmark; clock, too",
    },
).with_source(_GENOA)
