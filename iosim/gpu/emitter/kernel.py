"""What an emitted kernel is, as values: its launch, its arguments, and what they describe.

A target (`iosim.gpu.targets`) gives a `Kernel` for each nest, which is read to launch it; the
text is beside it, in the module.  `Lockstep` is what a user asks of the emitter, `BulkBox` what one
bulk copy of Hopper's target moves.  Fields may be added with a default, and none renamed, since
emitted modules and their records are read again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from iosim.base.validate import check_size
from iosim.core.counts import Key


@dataclass(frozen=True, slots=True)
class Lockstep:
    """Keep `programs` resident programs within `every` column blocks of each other.

    Raises InputError unless both are integers from 1 on.

    >>> import iosim
    >>> from iosim.gpu import emit
    >>> flash2 = iosim.algorithm("flash2").program
    >>> instance = iosim.bind(flash2, {"N": 4096, "d": 64, "heads": 1}, {"B_r": 64, "B_c": 32})
    >>> emit(instance, Lockstep(programs=8)).kernels[0].lockstep
    True
    """

    programs: int
    every: int = 64

    def __post_init__(self) -> None:
        check_size("programs", self.programs)
        check_size("every", self.every)


@dataclass(frozen=True, slots=True)
class BulkBox:
    """What one bulk copy moves of a tensor: extents along its axes, filled with 0 beyond them.

    >>> BulkBox("K", (1, 128, 64)).words
    8192
    """

    tensor: str
    sides: tuple[int, ...]

    @property
    def words(self) -> int:
        """Words of a whole box."""
        return math.prod(self.sides)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One emitted kernel.

    Attributes:
        name: of the function in the emitted text.
        grid: program instances to launch.
        items: independent pieces of work; equal to `grid` unless in lockstep or persistent.
        tensors: the order of the pointer arguments.
        masks: block masks, whose pointers (int32, row by row) follow those of the tensors.
        keys: the columns of ``words_ptr``, in order.
        lockstep: whether a ``gate_ptr`` (int32, zeroed before every launch) follows the pointers.
        clock: whether a ``clock_ptr`` (int64, two per item) follows: start and end of each item.
        block: elements of the largest block value.
        least: elements of the smallest tile that is loaded: more threads than this would load
            some of it twice.
        operand: elements of the largest right operand of its matrix products of 64 rows or more.
        boxes: of a kernel for Hopper, what its arguments before ``words_ptr`` describe.
        stages: of such a kernel, the tiles of each streamed buffer that are in flight.

    >>> import iosim
    >>> from iosim.gpu import emit
    >>> copy = iosim.bind(iosim.algorithm("copy").program, {"n": 1000}, {"B": 128})
    >>> (kernel,) = emit(copy).kernels
    >>> kernel.grid, kernel.tensors
    (8, ('X', 'Y'))
    """

    name: str
    grid: int
    items: int
    tensors: tuple[str, ...]
    masks: tuple[str, ...]
    keys: tuple[Key, ...]
    lockstep: bool
    clock: bool
    block: int
    least: int
    operand: int = 0
    boxes: tuple[BulkBox, ...] = ()
    stages: int = 0
