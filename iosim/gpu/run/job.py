"""`Job`: what the GPU's worker is asked to run, as plain data that travels as JSON.

Reports plan jobs, the worker runs them, and records are read with them
(``tests/gpu/test_gpu_records.py``).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.base.errors import InputError, closest
from iosim.base.rows import Row
from iosim.core.problem import size_names
from iosim.core.program.block_masks import masks
from iosim.core.program.ir import Program
from iosim.core.program.walk import Instance, bind
from iosim.gpu.emitter.kernels import EmitError, Emitted, Kernel, Lockstep, emit
from iosim.gpu.probes import probe
from iosim.gpu.run.patterns import mask
from iosim.gpu.targets import PLAIN, target


@dataclass(frozen=True)
class Job:
    """One program at one size, with one choice of tiles.

    Attributes:
        sizes: of the problem, as people say them.
        variant: its options that are given, as JSON data.
        M: the fast memory that the tiles were chosen for, in words; 0 if they were given.
        programs, every: in lockstep (`iosim.gpu.emitter.kernels.Lockstep`) if `programs` is not 0.
        warps, stages: of the compiler; 0 means the defaults below.
        clock: let items note when they start and end.
        extra: for the worker: ``time_only`` leaves out counts and the check of outputs, ``least``
            is how many launches are timed at least.
        target: of the emitter, one of `iosim.gpu.targets`.
        style: of the target's `styles`, joined by commas.
        pattern: of the program's block masks, of `iosim.gpu.run.patterns`; "" where it has none.
        blocks: in place of a pattern, block masks themselves: by name, rows of booleans.
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
    extra: Row = field(default_factory=dict)
    variant: Row = field(default_factory=dict)
    target: str = PLAIN
    style: str = ""
    pattern: str = ""
    blocks: Row = field(default_factory=dict)

    @classmethod
    def of(cls, algorithm: str, problem: Any, tiles: dict[str, int], **others: Any) -> Job:
        """The job of a problem; the other arguments are fields."""
        names = size_names(type(problem))
        told = problem.as_dict
        sizes = {name: told[name] for name in names}
        variant = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in told.items()
            if name not in names
        }
        return cls(algorithm, sizes, tiles, variant=variant, **others)

    @cached_property
    def instance(self) -> Instance:
        """The bound program."""
        return bind(self.program, self.problem.sizes, self.tiles, self.masks)

    @property
    def program(self) -> Program:
        """The schedule's program, of the problem's form."""
        return probe(self.algorithm).program_for(self.problem)

    @property
    def masks(self) -> dict[str, NDArray[np.bool_]]:
        """The blocks, or the pattern for each block mask of the program."""
        if not self.pattern:
            return {name: np.asarray(rows, bool) for name, rows in self.blocks.items()}
        env = {**self.problem.sizes, **self.tiles}
        return {
            name: mask(self.pattern, rows.count(env), columns.count(env))
            for name, (rows, columns) in masks(self.program).items()
        }

    def reference(self, inputs: dict[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
        """Outputs of the problem, by its own formula in NumPy."""
        problem = self.problem
        if not self.pattern:
            return dict(problem.reference(inputs))
        (marked,) = self.masks.values()
        seen = problem.scores(marked, self.tiles["B_r"], self.tiles["B_c"])
        return dict(problem.reference(inputs, seen))

    @cached_property
    def problem(self) -> Any:
        """The problem that the program solves."""
        made = probe(self.algorithm).problem
        known = {option.name for option in made.options()}
        if set(self.sizes) != set(size_names(made)):
            raise InputError(
                f"{self.algorithm} is over the sizes {', '.join(size_names(made))}, got "
                f"{', '.join(self.sizes) or 'none'}: give exactly those"
            )
        if unknown := sorted(set(self.variant) - known):
            raise InputError(
                f"{made.kind} has no option {unknown[0]!r}: {closest(unknown[0], known)}"
            )
        return made(**self.sizes, **self.variant)

    def emitted(self) -> Emitted:
        """Its kernels."""
        self.check_form()
        how: Row = {"target": self.target, "stages": self.stages, "style": self.style}
        return emit(self.instance, self.lockstep, clock=self.clock, **how)

    @property
    def lockstep(self) -> Lockstep | None:
        """How its programs keep in step; None where each runs by itself."""
        return Lockstep(self.programs, self.every) if self.programs else None

    def check_form(self) -> None:
        """Check what no target has kernels for, without making any.

        Raises EmitError for a dtype, and InputError for a style, that the target hasn't, and
        InputError for numbers of programs that can't be.
        """
        _ = self.lockstep
        chosen = target(self.target)
        chosen.styled(self.style)
        if self.dtype not in chosen.dtypes:
            raise EmitError(
                f"{self.dtype} has no form on {self.target}'s target: take "
                f"{', '.join(chosen.dtypes)}, or the plain one"
            )

    def options(self, kernel: Kernel) -> tuple[int, int]:
        """Warps and pipeline stages for a kernel.

        By default 4 warps for blocks of up to 4,096 elements, 8 up to 16,384 and 16 beyond, but
        never more threads than the smallest tile has elements, and 2 stages.  A kernel for Hopper
        has warps and stages of its own.
        """
        if kernel.boxes:
            return 4, kernel.stages
        wanted = 4 if kernel.block <= 4096 else 8 if kernel.block <= 16384 else 16
        warps = self.warps or max(1, min(wanted, kernel.least // 32))
        return warps, self.stages or 2

    def as_dict(self) -> Row:
        """Plain data; `Job(**d)` comes back."""
        return asdict(self)


def gate_job() -> Job:
    """The copy of known size, which the counters must get right for a record to be taken."""
    return Job("copy", {"n": 2**26}, {"B": 8192}, "fp16")
