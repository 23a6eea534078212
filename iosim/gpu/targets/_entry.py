"""`Target`, the record of what kernels are emitted for: emission, needs, reports, fallbacks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iosim.base.errors import InputError, closest
from iosim.core.counts import Key

if TYPE_CHECKING:
    from iosim.core.program.walk import Instance
    from iosim.gpu.emitter.kernel import Lockstep
    from iosim.gpu.emitter.kernels import Emitted
    from iosim.gpu.run.job import Job

# Tiles, then warps and stages by name → a job that a benchmark may time.
Maker = Callable[..., "Job"]
THRESHOLD = 0.5  # of the fused kernel's speed, where a target asks for no more


@dataclass(frozen=True, slots=True)
class Installation:
    """What a target asks of where kernels run; what isn't known is empty.

    Attributes:
        device: the GPU's name.
        capability: its compute capability.
        triton: the version of Triton.

    >>> Installation("NVIDIA H200", (9, 0)).triton
    ''
    """

    device: str = ""
    capability: tuple[int, int] | None = None
    triton: str = ""


@dataclass(frozen=True, slots=True)
class Emission:
    """How a program is to be emitted.

    Attributes:
        lockstep: in lockstep, with how many programs.
        clock: items note when they start and end.
        stages: tiles of each streamed buffer that are in flight; 0: as the target likes.
        styles: of the target's `styles`.

    >>> Emission(stages=3).styles
    ()
    """

    lockstep: Lockstep | None = None
    clock: bool = False
    stages: int = 0
    styles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Target:
    """What kernels are emitted for.

    Attributes:
        name: the registry's key, as it is typed after ``--target``.
        title: one line.
        emit: a bound program → its kernels; raises EmitError for a schedule, or an option, that
            has no form.
        bytes: a bound program and a dtype → bytes that the hardware should count at SM↔L2.
        dtypes: words that it has a form for.
        major: the compute capability's first number, which the instructions are for; 0: any.
        triton: the least version of Triton.
        boundaries: further counters, in addition to those of all kernels.
        least_rows: where a schedule has no form, tiles are halved, to no fewer rows than this; 0:
            they are as they are.
        thresholds: the least part of the fused kernel's speed that `iosim gpu bench` asks from
            N = 4,096 on, by case and head dimension; ½ elsewhere.
        styled_cases: those of `thresholds` that kernels of its styles must meet, too.
        tried: what makes a job → the jobs that `iosim gpu bench` chooses among.
        styles: other ways to write its kernels, by name → what they do; the words are the same.
        queued: whether launches are timed behind a kernel that keeps the GPU busy, since the CPU
            takes longer to start one.

    >>> from iosim.gpu.targets import target
    >>> isinstance(target("triton"), Target), target("triton").thresholds["causal", 64]
    (True, 0.8)
    """

    name: str
    title: str
    emit: Callable[[Instance, Emission], Emitted]
    bytes: Callable[[Instance, str], Mapping[Key, int]]
    dtypes: tuple[str, ...]
    tried: Callable[[Maker], Iterable[Job]]
    major: int = 0
    triton: tuple[int, int] = (0, 0)
    boundaries: tuple[str, ...] = ()
    least_rows: int = 0
    thresholds: Mapping[tuple[str, int], float] = field(default_factory=dict)
    styled_cases: tuple[str, ...] = ()
    styles: Mapping[str, str] = field(default_factory=dict)
    queued: bool = False

    def threshold(self, case: str, d: int, style: str = "") -> float:
        """The part of the fused kernel's speed that a style must reach, "" for none.

        >>> from iosim.gpu.targets import target
        >>> hopper = target("hopper")
        >>> [hopper.threshold("causal", 64, style) for style in ("", "persistent")]
        [0.9, 0.5]
        """
        held = not style or case in self.styled_cases
        return self.thresholds.get((case, d), THRESHOLD) if held else THRESHOLD

    def styled(self, text: str) -> tuple[str, ...]:
        """Styles as they are typed, joined by commas; InputError for one that it hasn't.

        >>> from iosim.gpu.targets import target
        >>> target("hopper").styled("waits-first,persistent"), target("hopper").styled("")
        (('waits-first', 'persistent'), ())
        """
        found = tuple(dict.fromkeys(text.split(","))) if text else ()
        for name in found:
            if name not in self.styles:
                known = closest(name, self.styles) if self.styles else "it has none"
                raise InputError(f"unknown style {name!r} of target {self.name}: {known}")
        return found

    def missing(self, machine: Installation) -> str:
        """What a machine lacks, in a clause; "" where nothing is known to be missing.

        >>> from iosim.gpu.targets import target
        >>> target("hopper").missing(Installation("NVIDIA A100", (8, 0), "3.6.0"))
        'it needs a GPU of compute capability 9.x, and NVIDIA A100 has 8.0'
        >>> target("hopper").missing(Installation("NVIDIA H100", (9, 0), "3.5.1"))
        'it needs Triton 3.6 or later, and this is 3.5.1'
        >>> target("hopper").missing(Installation())
        ''
        """
        has = machine.capability
        if self.major and has and has[0] != self.major:
            return (
                f"it needs a GPU of compute capability {self.major}.x, and "
                f"{machine.device or 'this one'} has {has[0]}.{has[1]}"
            )
        if machine.triton and _numbers(machine.triton) < self.triton:
            least = ".".join(map(str, self.triton))
            return f"it needs Triton {least} or later, and this is {machine.triton}"
        return ""


def _numbers(version: str) -> tuple[int, ...]:
    """The first two numbers of a version, which may end in anything.

    >>> _numbers("3.10.0+git5e"), _numbers("3.6rc1")
    ((3, 10), (3, 6))
    """
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
