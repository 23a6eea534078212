"""A kernel's references in launch order, as a stream of lines that caches replay.

Programs start in the order of their numbers, so many at once.  Those that are resident together
run in lockstep: each operation refers to memory for one program after the other, then the next
operation does.  That is a model of time; the lines are exact.

``iosim kernel cache`` and `iosim.kernel.dram` call it.  ``tests/kernel/test_stream.py`` compares
with loops written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from iosim.base.errors import InputError
from iosim.base.progress import track
from iosim.cache import Accesses, Stream, of_arrays
from iosim.kernel.evaluate import CallValues, Reference, evaluate, evaluate_waves
from iosim.kernel.ir import IrFunction
from iosim.kernel.reuse import AddressTile, group_rows, separate_tile
from iosim.kernel.values import Array

# Accesses that a stream may have: they are kept as arrays.
MOST_ACCESSES = 2**26
# Each argument begins at a multiple of this, as memory that is allocated does.
ALIGN = 512


def to_stream(
    functions: Mapping[str, IrFunction], call: CallValues, resident: int = 1, line: int = 32
) -> Stream:
    """The lines that a launch refers to, in order; an access is a line.

    A program's tile refers to each of its lines once, however many words of it.  An atomic
    operation reads its lines and writes them.

    Args:
        functions: of the module, as `iosim.kernel.ir.parse_module` gives them.
        call: the grid and the arguments.
        resident: programs that run at once, in lockstep.
        line: bytes.

    Raises:
        InputError: no accesses, or more than `MOST_ACCESSES`.
        UnsupportedKernel: as `iosim.kernel.evaluate.evaluate`.
    """
    parts = [accesses for _, accesses in _walk(functions, call, resident, line)]
    address, write = (np.concatenate(x) for x in zip(*parts, strict=True))
    return of_arrays(address, write)


def to_streams(
    functions: Mapping[str, IrFunction], call: CallValues, resident: int = 1, line: int = 32
) -> list[Stream]:
    """The lines of each program by itself, in the order of programs; arguments as `to_stream`.

    Args:
        functions: of the module.
        call: the grid and the arguments.
        resident: programs that are evaluated together.
        line: bytes.
    """
    parts = list(_walk(functions, call, resident, line))
    who, address, write = (
        np.concatenate(x) for x in zip(*((n, *accesses) for n, accesses in parts), strict=True)
    )
    order = np.argsort(who, kind="stable")
    x, y, z = call.grid
    ends = np.cumsum(np.bincount(who, minlength=x * y * z))[:-1]
    both = (np.split(one[order], ends) for one in (address, write))
    return [of_arrays(*one) for one in zip(*both, strict=True)]


def _walk(
    functions: Mapping[str, IrFunction], call: CallValues, resident: int, line: int
) -> Iterator[tuple[Array, Accesses]]:
    """The lines of each reference, with the program of each; raises as `to_stream`."""
    starts = _place_arguments(functions, call, line)
    x, y, z = call.grid
    firsts = range(0, x * y * z, resident)
    programs = (np.arange(n, min(n + resident, x * y * z)) for n in track(firsts, "waves"))
    waves = ((n % x, n // x % y, n // (x * y)) for n in programs)
    total = 0
    for first, references in zip(firsts, evaluate_waves(functions, call, waves), strict=True):
        for reference in references:
            for who, part in _find_lines(reference, starts, line):
                total += len(part.address)
                if total > MOST_ACCESSES:
                    raise InputError(
                        f"the launch refers to more than {MOST_ACCESSES:,} lines of {line} bytes: "
                        "choose smaller sizes"
                    )
                yield first + who, part
    if not total:
        raise InputError("the launch refers to no memory, so there is nothing to replay")


def _place_arguments(
    functions: Mapping[str, IrFunction], call: CallValues, line: int
) -> dict[str, int]:
    """Where each argument begins, in bytes, so that no two share a line."""
    ends: dict[str, tuple[int, int]] = {}

    def observe(references: list[Reference]) -> None:
        for reference in references:
            arrays, width = reference.offsets.arrays, reference.width
            low = sum(int(x.min()) for x in arrays) * width
            high = (sum(int(x.max()) for x in arrays) + 1) * width
            before = ends.get(reference.argument, (0, 0))
            ends[reference.argument] = min(low, before[0]), max(high, before[1])

    evaluate(functions, call, observe)
    align = max(line, ALIGN)
    starts, at = {}, 0
    for name, (low, high) in ends.items():
        begin = at + -(low // align) * align
        starts[name] = begin
        at = -(-(begin + high) // align) * align
    return starts


def _find_lines(
    reference: Reference, starts: Mapping[str, int], line: int
) -> Iterator[tuple[Array, Accesses]]:
    """The lines of a reference, one program after the other, and the program of each."""
    base, shared, mixed = separate_tile(reference)
    programs, width = reference.grid[0], reference.width
    at = starts[reference.argument] + np.broadcast_to(base.reshape(-1), programs) * width
    active = np.broadcast_to(reference.active.reshape(-1), programs)
    own = [*mixed, *reference.masks]
    rows = [np.broadcast_to(x, (programs, *x.shape[1:])).reshape(programs, -1) for x in own]
    parts: list[tuple[Array, Array]] = []
    for first, members in group_rows([(at % line)[:, None], *rows]):
        tiles = [x[first].reshape(1, *a.shape[1:]) for x, a in zip(rows, own, strict=True)]
        tile = AddressTile(reference.tile, shared + tiles[: len(mixed)], tiles[len(mixed) :])
        own_lines = np.unique((tile.to_words() * width + at[first] % line) // line)
        parts.append((members, at[members, None] // line + own_lines))
    lines = np.full((programs, max(x.shape[1] for _, x in parts)), -1)
    for members, found in parts:
        lines[members, : found.shape[1]] = found
    kept = (lines >= 0) & active[:, None]
    who, found = np.nonzero(kept)[0], lines[kept]
    for write in {"load": (False,), "store": (True,), "atomic": (False, True)}[reference.kind]:
        yield who, Accesses(found, np.full(len(found), write))
