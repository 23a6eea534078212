"""The process that runs jobs: ``python -m iosim.gpu.run.worker MODE SPEC.json OUT.json``.

``measure`` compiles everything in parallel, then checks, counts and times each job.  ``profile``
launches each job once after a mark, for `ncu` to watch.  ``torch`` does so for PyTorch's own
attention.  ``bench`` times the emitted flash2 beside it.  The worker needs NumPy, torch and
Triton, and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from iosim.errors import IosimError
from iosim.gpu.reports import baselines, bench
from iosim.gpu.run.cuda import Cuda, torch_module
from iosim.gpu.run.job import Job
from iosim.gpu.run.launch import counted, load, prepare


def measure(job: Job) -> dict[str, Any]:
    """Check, count and time one job; a failure is reported in its row, not raised."""
    device = Cuda(job)
    torch = device.torch
    try:
        memory = device.tensors()
        emitted = job.emitted()
        found: dict[str, Any] = {}
        if not job.extra.get("time_only"):
            counting = prepare(emitted, memory, device, count=True)
            for p in counting:
                p.go()
            found["words"] = {" ".join(k): n for k, n in counted(emitted, counting, device)}
            for t in job.problem.outputs:
                memory[t.name].fill_(float("nan"))
        kernels = prepare(emitted, memory, device, count=False)
        for p in kernels:
            p.go()
        if not job.extra.get("time_only"):
            found["error"] = device.error(memory)
        least = job.extra.get("least", 5)
        times = [device.median_time(p.go, least=least) for p in kernels]
    except Exception as error:  # one job's failure is its own row, not the others'
        torch.cuda.empty_cache()
        return {"failed": failure(error)}
    found["time_s"] = sum(times)
    found["kernels"] = [
        {"name": p.kernel.name, "grid": p.kernel.grid, "time_s": t, "per_sm": r.per_sm(),
         "registers": r.registers, "spills": r.spills, "shared_bytes": r.shared_bytes,
         "warps": r.warps, "stages": r.stages}
        for p, t in zip(kernels, times, strict=True)
        for r in [device.resources[p.kernel.name]]
    ]  # fmt: skip
    return found


def failure(error: Exception) -> str:
    """One line that says what to do."""
    if type(error).__name__ == "OutOfMemoryError":
        return "out of device memory: choose a smaller N or fewer heads"
    if isinstance(error, IosimError):
        return str(error)
    return f"{type(error).__name__}: {error}".splitlines()[0]


def profile(jobs: list[Job], out: Path) -> list[dict[str, Any]]:
    """Launch every job once where the profiler sees it: mark, kernels, mark, kernels, …"""
    torch = torch_module()
    rows: list[dict[str, Any]] = []
    for at, job in enumerate(jobs):
        device = Cuda(job)
        row: dict[str, Any] = {"job": at}
        try:
            memory = device.tensors()
            kernels = prepare(job.emitted(), memory, device, count=False)
            for p in kernels:
                p.go()  # whatever fails, fails before the mark
            torch.cuda.synchronize()
            _watch(torch, [p.go for p in kernels])
            clocks = [p.clock.cpu().numpy() for p in kernels if p.clock is not None]
            if clocks:
                row["clock"] = f"{out.stem}.clock{at}.npz"
                ticks = clocks[0].reshape(-1, 2)
                np.savez_compressed(
                    out.parent / row["clock"], ns=(ticks - ticks.min()).astype(np.int64)
                )
            del memory, kernels
        except Exception as error:  # one job's failure is its own row, not the others'
            row["failed"] = failure(error)
        rows.append(row)
        torch.cuda.empty_cache()
    return rows


def _watch(torch: Any, launches: list[Any]) -> None:
    torch.cuda.cudart().cudaProfilerStart()
    torch.cuda._sleep(1)  # shows as spin_kernel: the mark between jobs
    for go in launches:
        go()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def compile_all(jobs: list[Job], processes: int) -> None:
    """Fill Triton's disk cache in parallel; a kernel that fails here fails again, in its row."""
    todo = [(job.as_dict(), k) for job in jobs for k in range(len(job.emitted().kernels))]
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        list(pool.map(_compile, todo, chunksize=1))


def _compile(task: tuple[dict[str, Any], int]) -> None:
    import torch

    job = Job(**task[0])
    emitted = job.emitted()
    kernel = emitted.kernels[task[1]]
    function = load(emitted)[kernel.name]
    dtypes = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
    program = job.instance.program
    args = [torch.float32 if program.tensor(t).wide else dtypes[job.dtype] for t in kernel.tensors]
    args += [torch.int32] * kernel.in_step + [torch.int64] * kernel.clock + [torch.int64]
    warps, stages = job.options(kernel)
    for count in (False,) if job.extra.get("time_only") else (False, True):
        try:
            function.warmup(*args, COUNT=count, grid=(1,), num_warps=warps, num_stages=stages)
        except Exception as error:  # whatever it is, the job's own row will show it
            print(f"compile {kernel.name}: {type(error).__name__}", file=sys.stderr)


def environment() -> dict[str, str]:
    """The machine and the versions that numbers depend on."""
    import triton

    torch = torch_module()
    properties = torch.cuda.get_device_properties(0)
    return {
        "device": properties.name,
        "multiprocessors": str(properties.multi_processor_count),
        "l2_bytes": str(properties.L2_cache_size),
        "memory_bytes": str(properties.total_memory),
        "driver": _driver(),
        "cuda": str(torch.version.cuda),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": sys.version.split()[0],
        "numpy": np.__version__,
    }


def _driver() -> str:
    import subprocess

    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=30).stdout.strip()
    except OSError:
        return "unknown"


def main(mode: str, spec: str, out: str) -> None:
    """Run one mode; see the module's docstring."""
    asked = json.loads(Path(spec).read_text())
    rows: list[dict[str, Any]]
    result: dict[str, Any] = {}
    if mode == "torch":
        rows = [baselines.profile_one(asked, _watch)]
    elif mode == "bench":
        tried = [job for d in asked["head_sizes"] for job in bench.candidates(d, asked["M"])]
        compile_all(tried, min(16, os.cpu_count() or 1))
        rows = bench.compare(asked)
        result["environment"] = environment()
    else:
        jobs = [Job(**job) for job in asked["jobs"]]
        if mode == "measure":
            compile_all(jobs, min(16, os.cpu_count() or 1))
            rows = [measure(job) for job in jobs]
            result["environment"] = environment()
        else:
            rows = profile(jobs, Path(out))
    Path(out).write_text(json.dumps(result | {"rows": rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
