"""The emitter: a bound program becomes the text of Triton kernels, one per top-level nest.

The chain of grid loops at the top of a nest becomes the launch grid; everything below it runs
inside the kernel, in the program's order.  A buffer is a block value whose sides are the powers
of two that hold its extents; ragged edges are masks.  The text is the same for fp16, bf16 and
fp32: loads keep the tensor's type, accumulators are fp32.

Every transfer also knows how to count itself: with ``COUNT`` a program instance adds up the
unmasked words that its own loads and stores move and leaves the sums in ``words_ptr``, one row
per instance.  Without it that code is not compiled at all.

A nest that sweeps columns in order can be emitted *in lockstep* (`Lockstep`): as many programs as
are resident at once walk all items wave by wave, and none passes a gate before all have read the
same column blocks.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass

from iosim.errors import InputError, closest
from iosim.gpu.emitter.hopper import HopperText
from iosim.gpu.emitter.kernel import Kernel, Lockstep
from iosim.gpu.emitter.names import Names
from iosim.gpu.emitter.nest import KernelText
from iosim.gpu.emitter.nests import nests
from iosim.gpu.emitter.prelude import (
    ENDS,
    GATE,
    HEADER,
    HOPPER,
    MMA,
    POSITIONS,
    TIMER,
    UNMASKED,
    WORD,
)
from iosim.gpu.errors import EmitError
from iosim.program.index import dims
from iosim.program.ir import Load, nodes
from iosim.program.space import named_tiles
from iosim.program.walk import Instance
from iosim.renamed import renamed

TARGETS = ("triton", "hopper")

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
    in_step: Lockstep | None = None,
    target: str = "triton",
    stages: int = 0,
) -> Emitted:
    """Compile a bound program to Triton source; with `clock`, items note when they start and end.

    Args:
        target: ``triton``, or ``hopper`` for a Gluon kernel with bulk copies and warps of two
            kinds.
        stages: on Hopper, the tiles of each streamed buffer that are in flight; 0: 2, or what fits.

    Raises EmitError, naming the cause: an operation without a template, a buffer that is cut
    unevenly, a block that is too large, or a nest that cannot run in lockstep; for Hopper, a nest
    that is not of the form that warps can share.  InputError for an unknown target.

    >>> import iosim
    >>> flash2 = iosim.algorithm("flash2").program
    >>> instance = iosim.bind(flash2, {"N": 128, "d": 64, "heads": 2}, {"B_r": 64, "B_c": 32})
    >>> emit(instance).kernels[0].grid
    4
    """
    if in_step is not None:
        renamed("emit(in_step=…)", "lockstep")
        lockstep = in_step
    if target not in TARGETS:
        raise InputError(f"unknown target {target!r}: {closest(target, TARGETS)}")
    if target == "hopper" and (lockstep is not None or clock):
        raise EmitError("Hopper's target has no lockstep and no clock: emit it for the plain one")
    bodies = nests(instance)
    stem = Names(instance.program, ()).of("kernel", _stem(instance.program.name))
    names = [stem] if len(bodies) == 1 else [f"{stem}_{k}" for k in range(1, len(bodies) + 1)]
    if target == "hopper":
        texts = [HopperText(instance, n, b, stages) for n, b in zip(names, bodies, strict=True)]
        return Emitted(instance, _hopper(instance, texts), tuple(text.kernel for text in texts))
    found = [
        KernelText(instance, n, b, lockstep, clock) for n, b in zip(names, bodies, strict=True)
    ]
    head = HEADER.format(
        **_title(instance),
        timer=TIMER if clock else "",
        counting=POSITIONS if named_tiles(instance.program) else UNMASKED,
    )
    loads = [n for body in bodies for n in nodes(body) if isinstance(n, Load)]
    word = any(not dims(n.index) for n in loads)
    kernels = [nest.text for nest in found]
    ends = any("sector_end(" in text for text in kernels)
    shared = [text for text, used in ((WORD, word), (ENDS, ends), (GATE, lockstep)) if used]
    parts = [head, *shared, *kernels]
    return Emitted(instance, "\n\n".join(parts), tuple(nest.kernel for nest in found))


def _hopper(instance: Instance, texts: list[HopperText]) -> str:
    columns = sorted({n for text in texts for n in text.columns})
    layouts = "\n".join(MMA.format(columns=n) for n in columns)
    head = HOPPER.format(**_title(instance), layouts=layouts, first=f"MMA_{columns[0]}")
    return "\n\n".join([head, *(text.text for text in texts)])


def _title(instance: Instance) -> dict[str, str]:
    """What a module's first line says."""
    sizes = ", ".join(f"{name} = {value}" for name, value in instance.values)
    return {"name": instance.program.name.replace("\\", "/").replace('"', "'"), "sizes": sizes}


def _stem(name: str) -> str:
    """A program's name as an identifier."""
    found = re.sub(r"\W", "_", name)
    return found if found.isidentifier() and not keyword.iskeyword(found) else f"_{found}"
