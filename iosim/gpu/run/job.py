"""Jobs: what a worker is asked to run, as plain data that travels as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from iosim.algorithms import ALGORITHMS, algorithm
from iosim.errors import CapacityError
from iosim.gpu.emitter.kernels import Emitted, InStep, Kernel, emit
from iosim.problem import Attention, Copy, MatMul
from iosim.program.walk import Instance, bind
from iosim.tiling import smallest_capacity as least_words
from iosim.tiling.gpu import gpu_tiles


@dataclass(frozen=True)
class Job:
    """One program at one size, with one choice of tiles.

    Attributes:
        M: the fast memory that the tiles were chosen for, in words; 0 if they were given.
        programs, every: in step (`iosim.gpu.emitter.kernels.InStep`) if `programs` is not 0.
        warps, stages: of the compiler; 0 means the defaults below.
        clock: let items note when they start and end.
    """

    algorithm: str
    sizes: dict[str, int]
    tiles: dict[str, int]
    dtype: str = "fp16"
    M: int = 0
    programs: int = 0
    every: int = 64
    warps: int = 0
    stages: int = 0
    clock: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def instance(self) -> Instance:
        """The bound program."""
        return bind(algorithm(self.algorithm).program, self.sizes, self.tiles)

    @property
    def problem(self) -> Any:
        """The problem that the program solves."""
        return algorithm(self.algorithm).problem(**self.sizes)

    def emitted(self) -> Emitted:
        """Its kernels."""
        in_step = InStep(self.programs, self.every) if self.programs else None
        return emit(self.instance, in_step, clock=self.clock)

    def options(self, kernel: Kernel) -> tuple[int, int]:
        """Warps and pipeline stages for a kernel.

        By default 4 warps for blocks of up to 4,096 elements, 8 up to 16,384 and 16 beyond, but
        never more threads than the smallest tile has elements, and 2 stages.
        """
        wanted = 4 if kernel.block <= 4096 else 8 if kernel.block <= 16384 else 16
        warps = self.warps or max(1, min(wanted, kernel.least // 32))
        return warps, self.stages or 2

    def as_dict(self) -> dict[str, Any]:
        """Plain data; `Job(**d)` comes back."""
        return asdict(self)


HEAD_SIZES = (64, 128, 256)
CAPACITIES = (8192, 16384, 32768, 65536)  # words; the last is 128 KiB of fp16
LENGTHS = (1024, 1000, 1001, 4096)  # whole tiles; ragged by sectors; ragged to the word; long


def sweep(
    names: tuple[str, ...] = tuple(ALGORITHMS),
    head_sizes: tuple[int, ...] = HEAD_SIZES,
    capacities: tuple[int, ...] = CAPACITIES,
    lengths: tuple[int, ...] = LENGTHS,
    dtypes: tuple[str, ...] = ("fp16",),
    heads: int = 2,
) -> list[Job]:
    """Every algorithm × d × M × N for which tiles fit; `small_cache` only for M < d²."""
    found: list[Job] = []
    for dtype in dtypes:
        for name in names:
            entry = algorithm(name)
            for d in head_sizes:
                for M in capacities:
                    if name == "small_cache" and d * d <= M:
                        continue  # the regime that it was published for
                    for N in lengths:
                        problem = problem_of(entry.problem, N, d, heads)
                        try:
                            tiles = gpu_tiles(entry.program, problem, M).tiles
                        except CapacityError:
                            continue
                        job = Job(name, problem.sizes, tiles, dtype, M)
                        if all(job.as_dict() | {"M": 0} != f.as_dict() | {"M": 0} for f in found):
                            found.append(job)
    return found


def problem_of(kind: type[Any], N: int, d: int, heads: int) -> Any:
    """A problem of the given kind: N × N × d for a product, N·d words for a copy."""
    if kind is MatMul:
        return MatMul(m=N, n=N, k=d)  # a score matrix
    if kind is Copy:
        return Copy(n=N * d)
    return Attention(N=N, d=d, heads=heads)


def smallest_capacity(names: tuple[str, ...], head_sizes: tuple[int, ...]) -> int:
    """The least M at which any of the algorithms has a tile."""
    found = []
    for name in names:
        entry = algorithm(name)
        problem = problem_of(entry.problem, 1024, min(head_sizes), 1)
        found.append(least_words(entry.program, problem, lattice="pow2"))
    return min(found)


def gate_job() -> Job:
    """The copy of known size that counters must get right before they are believed."""
    return Job("copy", {"n": 2**26}, {"B": 8192}, "fp16")


def dram_sweep() -> list[Job]:
    """flash2 where K and V outgrow L2: plain launches, then in step, over B_r and programs."""
    plain: list[tuple[int, int, int, int, int]] = [  # N, d, B_r, programs, stages
        (131072, 64, 128, 0, 2), (262144, 128, 128, 0, 2), (524288, 64, 128, 0, 2),
        (524288, 64, 64, 0, 2), (524288, 64, 32, 0, 2), (1048576, 64, 128, 0, 2),
        (1048576, 64, 64, 0, 1), (1048576, 64, 64, 0, 2), (1048576, 64, 64, 0, 3),
    ]  # fmt: skip
    in_step = [
        (262144, 128, 128, 132, 2), (524288, 64, 32, 264, 2), (524288, 64, 32, 528, 2),
        (524288, 64, 32, 660, 2), (524288, 64, 64, 132, 2), (524288, 64, 64, 264, 2),
        (524288, 64, 64, 396, 2), (524288, 64, 64, 528, 2), (524288, 64, 128, 132, 2),
        (524288, 64, 128, 264, 2), (1048576, 64, 64, 264, 2), (1048576, 64, 64, 528, 2),
        (1048576, 64, 128, 264, 2),
    ]  # fmt: skip
    return [
        Job(
            "flash2", {"N": N, "d": d, "heads": 1}, {"B_r": B_r, "B_c": 64},
            programs=programs, stages=stages, clock=True, extra={"least": 3},
        )
        for N, d, B_r, programs, stages in plain + in_step
    ]  # fmt: skip
