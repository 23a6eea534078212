"""A CUDA device through torch: memory, launches, timing, and what the compiler used."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.base.rows import Row, Values
from iosim.core.problem import Attention
from iosim.core.program.walk import Instance
from iosim.gpu.emitter import layout
from iosim.gpu.emitter.kernels import Kernel
from iosim.gpu.errors import GpuError
from iosim.gpu.run.bulk import descriptors
from iosim.gpu.run.job import Job
from iosim.gpu.run.memory import TORCH_NAMES, dtype_of
from iosim.gpu.run.reference import check_of, hidden
from iosim.gpu.run.requirements import NO_DEVICE, NO_TORCH
from iosim.gpu.targets import Installation
from iosim.gpu.targets import target as find

# Bytes of a right operand in shared memory.  On an H200, with Triton 3.6, flash2 and split_kv with
# 512 columns of 128 words were wrong by 0.3 to 0.8, and right with 256 columns or 64 words.
WRONG_FROM = 131_072
LONG = 5.0  # seconds of a launch that is timed once


def torch_module() -> Any:
    """Import torch, or say what is missing."""
    try:
        import torch
    except ImportError:
        raise GpuError(NO_TORCH) from None
    if not torch.cuda.is_available():
        raise GpuError(NO_DEVICE)
    return torch


def time_between_events(torch: Any, go: Callable[[], Any], runs: int = 1, ahead: int = 0) -> float:
    """Seconds of a run, the mean of several that follow one another.

    Args:
        ahead: cycles for which the GPU is kept busy while they are queued.
    """
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if ahead:
        torch.cuda._sleep(ahead)
    start.record()
    for _ in range(runs):
        go()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop)) / 1000 / runs


@dataclass(frozen=True)
class Resources:
    """What the compiler really used, per program instance."""

    registers: int  # per thread
    spills: int
    shared_bytes: int
    warps: int
    stages: int

    def per_sm(self) -> int:
        """Program instances that fit on one SM of compute capability 9.0."""
        threads = 32 * self.warps
        registers = -(-self.registers // 8) * 8 * threads
        shared = -(-(self.shared_bytes + 1024) // 1024) * 1024
        return min(2048 // threads, 65536 // max(registers, 1), 228 * 1024 // shared, 32)


class Cuda:
    """A `Device` that is the current GPU."""

    def __init__(self, job: Job) -> None:
        self.torch, self.job = torch_module(), job
        self.check = check_of(job.problem)
        self.resources: dict[str, Resources] = {}
        self.dtypes = {name: getattr(self.torch, x) for name, x in TORCH_NAMES.items()}

    def copy_to_device(self, flat: NDArray[np.float32], dtype: str) -> Any:
        """Copy to the device, rounding to `dtype`."""
        return self.torch.from_numpy(flat).to("cuda").to(self.dtypes[dtype])

    def get(self, buffer: Any, dtype: str) -> NDArray[Any]:
        """Copy back, as float64 or int64."""
        wide = self.torch.int64 if dtype.startswith("int") else self.torch.float64
        found: NDArray[Any] = buffer.to(wide).cpu().numpy()
        return found

    def zeros(self, n: int, dtype: str) -> Any:
        """Zeros of an integer type."""
        return self.torch.zeros(n, dtype=self.dtypes[dtype], device="cuda")

    def boxes(self, kernel: Kernel, instance: Instance, memory: Values) -> list[Any]:
        """What describes the boxes of a kernel.  Raises GpuError where the hardware has no form."""
        cuda, target = self.torch.cuda, find(self.job.target)
        here = Installation(cuda.get_device_name(), tuple(cuda.get_device_capability()))
        if missing := target.missing(here):
            raise GpuError(f"{kernel.name}, target {target.name}: {missing}: take the plain target")
        return descriptors(kernel, instance, memory)

    def launch(self, kernel: Kernel, function: Any, pointers: list[Any], count: bool) -> None:
        """Launch; with fewer pipeline stages if shared memory runs out.

        Raises GpuError where even one stage is too much.
        """
        from triton.runtime.errors import OutOfResources, PTXASError

        if self.job.dtype != "fp32" and kernel.operand * 2 >= WRONG_FROM:
            raise GpuError(
                f"{kernel.name} has a product whose right operand takes {kernel.operand * 2:,} "
                "bytes, of which Triton 3.6 was seen to make a wrong one: choose smaller tiles"
            )
        warps, stages = self.job.options(kernel)
        seen = self.resources.get(kernel.name)
        fixed = [stages] if kernel.boxes else [seen.stages] if seen else []
        for depth in fixed or range(stages, 0, -1):
            options = {"COUNT": count, "num_warps": warps, "num_stages": depth}
            try:
                if kernel.lockstep:
                    pointers[len(kernel.tensors) + len(kernel.masks)].zero_()
                    self._check_resident(kernel, function, pointers, options)
                done = function[(kernel.grid,)](*pointers, **options)
            except (OutOfResources, PTXASError) as error:
                if depth > 1 and not fixed:
                    continue
                why = "registers" if isinstance(error, PTXASError) else str(error)
                raise GpuError(
                    f"{kernel.name} is too large for the chip ({why}): choose a smaller M, "
                    "smaller tiles or another dtype"
                ) from None
            if not count:
                self.resources[kernel.name] = _resources(done, warps, depth)
            return

    def _check_resident(
        self, kernel: Kernel, function: Any, pointers: list[Any], options: Row
    ) -> None:
        """A program that cannot be resident never arrives, and the others would wait for it."""
        compiled = function.warmup(*pointers, grid=(kernel.grid,), **options)
        compiled._init_handles()
        per_sm = _resources(compiled, options["num_warps"], options["num_stages"]).per_sm()
        sms = self.torch.cuda.get_device_properties(0).multi_processor_count
        if kernel.grid > per_sm * sms:
            raise GpuError(
                f"{kernel.grid} programs in lockstep and {per_sm} x {sms} = {per_sm * sms} are "
                "resident at once: ask for no more than that"
            )

    def tensors(self, seed: int = 0) -> Row:
        """The job's tensors, flat: random inputs (Q over √d), NaN everywhere else."""
        torch, instance = self.torch, self.job.instance
        generator = torch.Generator("cuda").manual_seed(seed)
        inputs = {t.name for t in self.job.problem.form.inputs}
        found = {}
        for t in instance.program.tensors:
            size, kind = layout.allocation(t, instance), self.dtypes[dtype_of(t, self.job.dtype)]
            if t.positions:
                extent = instance.env[t.positions]
                found[t.name] = torch.randint(
                    extent, (size,), generator=generator, dtype=kind, device="cuda"
                )
                continue
            found[t.name] = torch.full((size,), float("nan"), dtype=kind, device="cuda")
            if t.name in inputs:
                view = self.window(found[t.name], t.name)
                view.copy_(torch.randn(view.shape, generator=generator, device="cuda"))
                view.mul_(self.check.scale(t.name, self.job.sizes))
        windows = {name: self.window(found[name], name) for name in inputs}
        for name, words in self.check.follow(torch, self.job.problem, windows).items():
            windows[name].copy_(words.reshape(windows[name].shape))
        return found

    def window(self, flat: Any, name: str) -> Any:
        """A tensor without its padding, as a view."""
        tensor = self.job.instance.program.tensor(name)
        return flat.as_strided(
            layout.shape(tensor, self.job.instance), layout.strides(tensor, self.job.instance)
        )

    def error(self, memory: Row) -> float:
        """Largest |got − want| / max(1, max|want|) over outputs, against float64.

        Of long attention outputs 256 evenly spaced rows of every head are compared.
        """
        problem = self.job.problem
        form = problem.form
        x = {t.name: self.window(memory[t.name], t.name).double() for t in form.inputs}
        on_gpu = self.check.want
        elsewhere = {} if on_gpu else self.job.reference({n: v.cpu().numpy() for n, v in x.items()})
        worst = 0.0
        for t in form.outputs:
            got = self.window(memory[t.name], t.name)
            if on_gpu:
                got, want = on_gpu(self.torch, problem, x, got, t.name)
            else:
                want = self.torch.from_numpy(elsewhere[t.name]).to(got.device)
            scale = max(1.0, float(want.abs().max()))
            error = float((got.double() - want).abs().max()) / scale
            worst = max(worst, error if error == error else float("inf"))
        return worst

    def beside_fused(self, memory: Row) -> float:
        """Largest |emitted − fused| / max(1, max|fused|), of PyTorch's fused attention.

        It gets ``is_causal`` where that says the mask, a boolean mask where another is needed, and
        ``enable_gqa`` for grouped heads.  NaN for other problems than attention.
        """
        problem = self.job.problem
        if not isinstance(problem, Attention):
            return float("nan")
        q, k, v, got = (self.window(memory[x], x) for x in "QKVO")
        q, got = (x.reshape(1, problem.heads, problem.N, -1) for x in (q, got))
        seen = None
        causal = problem.limits == (None, 0) and problem.shift == 0
        if problem.mask and not causal:
            seen = ~hidden(self.torch, problem, self.torch.arange(problem.N, device=q.device))
        want = self.torch.nn.functional.scaled_dot_product_attention(
            q,
            k[None],
            v[None],
            attn_mask=seen,
            is_causal=causal,
            scale=1.0,
            enable_gqa=problem.groups < problem.heads,
        ).nan_to_num(0.0)
        scale = max(1.0, float(want.abs().max()))
        apart = (got.double() - want.double()).abs()
        if seen is not None:  # of a row that sees nothing PyTorch's kernels give what they like
            apart = apart[..., seen.any(-1), :]
        return float(apart.max() if apart.numel() else 0.0) / scale

    def median_time(self, go: Callable[[], Any], least: int = 5, seconds: float = 0.05) -> float:
        """Median seconds of a launch over at least `least` launches, after one to warm up.

        A launch of `LONG` seconds or more is its own median: one is enough.
        """
        first = self.time_launch(go)
        if first >= LONG:
            return first
        times: list[float] = []
        while len(times) < least or (sum(times) < seconds and len(times) < 100):
            times.append(self.time_launch(go))
        return statistics.median(times)

    def time_launch(self, go: Callable[[], Any]) -> float:
        """Seconds of one launch."""
        return time_between_events(self.torch, go)


def _resources(compiled: Any, warps: int, stages: int) -> Resources:
    return Resources(compiled.n_regs, compiled.n_spills, compiled.metadata.shared, warps, stages)
