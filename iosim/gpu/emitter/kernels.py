"""The emitter: a bound program becomes the text of Triton kernels, one per top-level nest.

The chain of grid loops at the top of a nest becomes the launch grid; everything below it runs
inside the kernel, in the program's order.  A buffer is a block value whose sides are the powers
of two that hold its extents; ragged edges are masks.  The text is the same for fp16, bf16 and
fp32: loads keep the tensor's type, accumulators are fp32.

Every transfer also knows how to count itself: with ``COUNT`` a program instance adds up the
unmasked words that its own loads and stores move and leaves the sums in ``words_ptr``, one row
per instance.  Without it that code is not compiled at all.

A nest that sweeps columns in order can be emitted *in lockstep* (`Lockstep`): as many programs as
are resident at once walk all items wave by wave, and none passes a barrier before all have read the
same column blocks.
"""

from __future__ import annotations

import functools
import keyword
import math
import re
from dataclasses import dataclass

from iosim.core.program.ir import Program
from iosim.core.program.walk import Instance
from iosim.gpu.emitter.kernel import Kernel, Lockstep
from iosim.gpu.emitter.names import Names
from iosim.gpu.emitter.nests import Body, chain, nests
from iosim.gpu.errors import EmitError
from iosim.gpu.targets import PLAIN, Emission
from iosim.gpu.targets import target as find

__all__ = ["EmitError", "Emitted", "Kernel", "Lockstep", "emit"]


@dataclass(frozen=True, slots=True)
class Emitted:
    """The text of a module, and its kernels in launch order.

    >>> import iosim
    >>> copy = iosim.bind(iosim.algorithm("copy").program, {"n": 1000}, {"B": 128})
    >>> emitted = emit(copy)
    >>> [k.name for k in emitted.kernels], "import triton" in emitted.source
    (['copy'], True)
    """

    instance: Instance
    source: str
    kernels: tuple[Kernel, ...]


def emit(
    instance: Instance,
    lockstep: Lockstep | None = None,
    *,
    clock: bool = False,
    target: str = PLAIN,
    stages: int = 0,
    style: str = "",
) -> Emitted:
    """Compile a bound program to Triton source; with `clock`, items note when they start and end.

    Args:
        target: a name of `iosim.gpu.targets`: ``triton``, or ``hopper`` for a Gluon kernel with
            bulk copies and warps of two kinds.
        stages: on Hopper, the tiles of each streamed buffer that are in flight; 0: 2, or what fits.
        style: other ways to write the kernels, of the target's `styles`, joined by commas.

    Raises EmitError, naming the cause: an operation without a template, a buffer that is cut
    unevenly, a block that is too large, or a nest that cannot run in lockstep; for Hopper, a nest
    that is not of the form that warps can share.  InputError for an unknown target or style.

    >>> import iosim
    >>> flash2 = iosim.algorithm("flash2").program
    >>> instance = iosim.bind(flash2, {"N": 128, "d": 64, "heads": 2}, {"B_r": 64, "B_c": 32})
    >>> emit(instance).kernels[0].grid
    4
    """
    chosen = find(target)
    return chosen.emit(instance, Emission(lockstep, clock, stages, chosen.styled(style)))


def named_nests(instance: Instance) -> list[tuple[str, Body]]:
    """Each top-level nest of a program, with the name of its kernel."""
    bodies = nests(instance)
    stem = _name_kernel(instance.program)
    names = [stem] if len(bodies) == 1 else [f"{stem}_{k}" for k in range(1, len(bodies) + 1)]
    return list(zip(names, bodies, strict=True))


@dataclass(frozen=True, slots=True)
class KernelItems:
    """A kernel's name, and how many items its grid loops give it."""

    name: str
    items: int


def count_items(instance: Instance) -> tuple[KernelItems, ...]:
    """The kernels of a program in launch order, without their text.

    >>> import iosim
    >>> copy = iosim.bind(iosim.algorithm("copy").program, {"n": 1000}, {"B": 128})
    >>> count_items(copy)
    (KernelItems(name='copy', items=8),)
    """
    return tuple(
        KernelItems(name, grid_size(instance, body)) for name, body in named_nests(instance)
    )


def grid_size(instance: Instance, body: Body) -> int:
    """Iterations of the chain of grid loops at the top of a nest."""
    grid, _ = chain(body)
    return math.prod(
        -(-(stop - start) // (instance.env[loop.step] if loop.step else 1))
        for loop in grid
        for start, stop in [instance.span(loop.span)]
    )


def title(instance: Instance) -> dict[str, str]:
    """What a module's first line says."""
    sizes = ", ".join(f"{name} = {value}" for name, value in instance.values)
    return {"name": instance.program.name.replace("\\", "/").replace('"', "'"), "sizes": sizes}


@functools.lru_cache(1024)
def _name_kernel(program: Program) -> str:
    return Names(program, ()).of("kernel", _stem(program.name))


def _stem(name: str) -> str:
    """A program's name as an identifier."""
    found = re.sub(r"\W", "_", name)
    return found if found.isidentifier() and not keyword.iskeyword(found) else f"_{found}"
