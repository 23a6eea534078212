"""A sweep in stretches with a barrier before each, for programs that are kept in lockstep.

`iosim.gpu.emitter.nest` opens a sweep with the lines of `stretches`; how long these are may change,
and each program must meet as many barriers as every other.
"""

from __future__ import annotations

from iosim.core.program.ir import Loop
from iosim.gpu.emitter.blocks import add
from iosim.gpu.emitter.kernel import Lockstep
from iosim.gpu.emitter.places import Places
from iosim.gpu.emitter.unmasked import Portion
from iosim.gpu.errors import EmitError


def stretches(
    loop: Loop, lockstep: Lockstep, items: int, programs: int, where: Places
) -> tuple[list[str], list[Portion]]:
    """The lines of the loop over stretches, and the iterations of one.

    Raises EmitError for a loop that differs from program to program.
    """
    why = "follows an outer tile" if loop.span.edges else ""
    if loop.marks is not None:
        why = f"runs where the block mask {loop.marks.name} marks"
    if why:
        raise EmitError(f"loop {loop.tile} {why}: emit it without lockstep")
    (start, stop), step = where.instance.span(loop.span), where.step(loop)
    stretch = lockstep.every * step
    gates = -(-(stop - start) // stretch)
    first = add(str(start), f"sweep * {stretch}")
    last = f"{first} + {stretch}"
    if (stop - start) % stretch:
        last = f"min({last}, {stop})"
    return [
        f"for sweep in range(0, {gates}):",
        # In the last wave fewer programs have work, and only they arrive.
        f"    here = tl.minimum({programs}, {items} - wave * {programs})",
        f"    wait_for_all(gate_ptr, wave * {gates * programs} + (sweep + 1) * here)",
    ], [Portion(first, last)]
