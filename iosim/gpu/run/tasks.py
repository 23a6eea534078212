"""What the worker does with jobs: measure them, and launch them where a profiler watches.

`measure` compiles everything in parallel, then checks, counts and times each job.  `profile`
launches each job once after a mark, for `ncu` to watch.
"""

from __future__ import annotations

import math
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from iosim.base.errors import IosimError
from iosim.base.rows import Row
from iosim.base.writing import replacing
from iosim.gpu.records.record import KernelUse, Measured, Profiled, as_plain
from iosim.gpu.run.bulk import descriptors
from iosim.gpu.run.cuda import Cuda, torch_module
from iosim.gpu.run.job import Job
from iosim.gpu.run.launch import load_kernels, prepare, sum_counters
from iosim.gpu.run.memory import TORCH_NAMES, dtype_of
from iosim.gpu.run.requirements import driver_version


def measure(asked: Row, out: Path) -> Row:
    """Check, count and time the jobs that are requested, one row each."""
    jobs = [Job(**job) for job in asked["jobs"]]
    compile_all(jobs)
    rows = [as_plain(_measure(job)) for job in jobs]
    return {"environment": environment(), "rows": rows}


def _measure(job: Job) -> Measured:
    device = Cuda(job)
    try:
        memory = device.tensors()
        emitted = job.emitted()
        words, worst, beside = None, math.nan, math.nan
        checked = not job.extra.get("time_only")
        if checked:
            counting = prepare(emitted, memory, device, count=True)
            for p in counting:
                p.go()
            words = {" ".join(k): n for k, n in sum_counters(emitted, counting, device)}
            for t in job.problem.form.outputs:
                memory[t.name].fill_(float("nan"))
        kernels = prepare(emitted, memory, device, count=False)
        for p in kernels:
            p.go()
        if checked:
            worst, beside = device.error(memory), device.beside_fused(memory)
        least = job.extra.get("least", 5)
        times = [device.median_time(p.go, least=least) for p in kernels]
    except Exception as error:  # one job's failure is its own row, not the others'
        device.torch.cuda.empty_cache()
        return Measured(failed=failure(error))
    uses = tuple(
        KernelUse(name=p.kernel.name, grid=p.kernel.grid, time_s=t, per_sm=r.per_sm(), **asdict(r))
        for p, t in zip(kernels, times, strict=True)
        for r in [device.resources[p.kernel.name]]
    )
    return Measured(words, worst, sum(times), uses, beside_fused=beside)


def failure(error: Exception) -> str:
    """What stopped one job, in one line that says what to do."""
    if type(error).__name__ == "OutOfMemoryError":
        return "out of device memory: choose a smaller N or fewer heads"
    if isinstance(error, IosimError):
        return str(error)
    return f"{type(error).__name__}: {error}".splitlines()[0]


def profile(asked: Row, out: Path) -> Row:
    """Launch every job once where the profiler sees it: mark, kernels, mark, kernels, …"""
    jobs = [Job(**job) for job in asked["jobs"]]
    return {"rows": [as_plain(_profile(at, job, out)) for at, job in enumerate(jobs)]}


def _profile(at: int, job: Job, out: Path) -> Profiled:
    device, clock = Cuda(job), ""
    try:
        memory = device.tensors()
        kernels = prepare(job.emitted(), memory, device, count=False)
        for p in kernels:
            p.go()  # whatever fails, fails before the mark
        device.torch.cuda.synchronize()
        watch(device.torch, [p.go for p in kernels])
        clocks = [p.clock.cpu().numpy() for p in kernels if p.clock is not None]
        if clocks:
            clock = f"{out.stem}.clock{at}.npz"
            ticks = clocks[0].reshape(-1, 2)
            with replacing(out.parent / clock) as (part,):
                np.savez_compressed(part, ns=(ticks - ticks.min()).astype(np.int64))
        del memory, kernels
    except Exception as error:  # one job's failure is its own row, not the others'
        return Profiled(at, failed=failure(error))
    finally:
        device.torch.cuda.empty_cache()
    return Profiled(at, clock)


def watch(torch: Any, launches: list[Any]) -> None:
    """Launch what the profiler is to see, after a mark."""
    torch.cuda.cudart().cudaProfilerStart()
    torch.cuda._sleep(1)  # shows as spin_kernel: the mark between jobs
    for go in launches:
        go()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def compile_all(jobs: list[Job]) -> None:
    """Fill Triton's disk cache in parallel; a kernel that fails here fails again, in its row."""
    processes = min(16, os.cpu_count() or 1)
    todo = [(job.as_dict(), k) for job in jobs for k in range(len(job.emitted().kernels))]
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        list(pool.map(_compile, todo, chunksize=1))


def _compile(task: tuple[Row, int]) -> None:
    import torch

    job = Job(**task[0])
    emitted = job.emitted()
    kernel = emitted.kernels[task[1]]
    function = load_kernels(emitted)[kernel.name]
    kinds = [dtype_of(job.instance.program.tensor(t), job.dtype) for t in kernel.tensors]
    args = [getattr(torch, TORCH_NAMES[kind]) for kind in kinds]
    if kernel.boxes:
        from triton.runtime.jit import MockTensor

        mock = {t: MockTensor(x) for t, x in zip(kernel.tensors, args, strict=True)}
        args = descriptors(kernel, job.instance, mock)
    args += [torch.int32] * len(kernel.masks)
    args += [torch.int32] * kernel.lockstep + [torch.int64] * kernel.clock + [torch.int64]
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
        "driver": driver_version(),
        "cuda": str(torch.version.cuda),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": sys.version.split()[0],
        "numpy": np.__version__,
    }
