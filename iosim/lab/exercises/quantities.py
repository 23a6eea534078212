"""Numbers that exercises ask for: each is computed when the exercise is read.

An exercise names one in its table of values: ``before = {is = "words", program = "flash2",
N = 1024, d = 64, M = 16384}``.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from iosim import pebbling
from iosim.base.errors import InputError, closest
from iosim.base.rows import Values
from iosim.core.algorithms import algorithm
from iosim.core.counting.numbers import count as counted
from iosim.core.counting.numbers import peak
from iosim.core.program.walk import Instance, bind
from iosim.core.tiling import Tiling, optimal_tiles, smallest_capacity
from iosim.models.hardware import machine as known_machine
from iosim.pebbling import Dag
from iosim.pebbling import optimum as solved

Number = int | Fraction


def problem_of(program: str, sizes: Values) -> Any:
    """The problem of these sizes that a registered schedule solves.

    Raises InputError for names and values that are not its sizes.
    """
    found = algorithm(program).problem
    try:
        return found(**sizes)
    except TypeError:
        known = [axis.name for axis in found.axes()]
        raise InputError(
            f"{program} has the sizes {', '.join(known)}, got {', '.join(sizes) or 'none'}: "
            "give those"
        ) from None


def best(program: str, M: int, sizes: Values) -> Tiling:
    """The tiles of a registered schedule that move the fewest words."""
    problem = problem_of(program, sizes)
    return optimal_tiles(algorithm(program).program_for(problem), problem, M)


def bound(program: str, tiles: Values, sizes: Values) -> Instance:
    """A registered schedule with its sizes and tiles."""
    problem = problem_of(program, sizes)
    return bind(algorithm(program).program_for(problem), problem.sizes, tiles)


def amount(instance: Instance, key: str) -> int:
    """What a key names of an instance: ``total``, ``peak``, ``load K``, ``store O``.

    Raises InputError for another key.
    """
    if key == "peak":
        return peak(instance)
    counts = counted(instance)
    known = {f"{way} {tensor}": words for (way, tensor), words in counts}
    known |= {"total": counts.total_words}
    if key not in known:
        raise InputError(f"{instance.program.name} has no count {key!r}: {closest(key, known)}")
    return known[key]


def words(program: str, M: int, **sizes: Any) -> int:
    """The words that a schedule moves with its best tiles."""
    return best(program, M, sizes).total_words


def tile(program: str, name: str, M: int, **sizes: Any) -> int:
    """One of the best tiles."""
    tiles = best(program, M, sizes).tiles
    if name not in tiles:
        raise InputError(f"{program} has no tile size {name!r}: {closest(name, tiles)}")
    return tiles[name]


def smallest(program: str, **sizes: Any) -> int:
    """The least M for which any tiles fit."""
    problem = problem_of(program, sizes)
    return smallest_capacity(algorithm(program).program_for(problem), problem)


def count(program: str, key: str, tiles: Values, **sizes: Any) -> int:
    """Words of an instance, or its peak; keys as for `amount`."""
    return amount(bound(program, tiles, sizes), key)


def lru(trace: Sequence[str], room: int) -> int:
    """Misses where the block that was used longest ago makes room.

    >>> lru("abcabc", 2), opt("abcabc", 2)
    (6, 4)
    """
    held: list[str] = []
    missed = 0
    for block in trace:
        if block in held:
            held.remove(block)
        else:
            missed += 1
            del held[: max(0, len(held) - room + 1)]
        held.append(block)
    return missed


def opt(trace: Sequence[str], room: int) -> int:
    """Misses where the block whose next use is farthest away makes room: the fewest (Belady)."""
    uses: dict[str, list[int]] = {}
    for k, block in enumerate(trace):
        uses.setdefault(block, []).append(k)
    held: set[str] = set()
    missed = 0
    for k, block in enumerate(trace):

        def next_use(other: str, k: int = k) -> int:
            later = bisect.bisect_right(uses[other], k)
            return uses[other][later] if later < len(uses[other]) else len(trace)

        if block not in held:
            missed += 1
            if len(held) == room:
                held.remove(max(sorted(held), key=next_use))
            held.add(block)
    return missed


POLICIES: dict[str, Callable[[Sequence[str], int], int]] = {"lru": lru, "opt": opt}


def misses(policy: str, trace: str, room: int) -> int:
    """Accesses of a trace that miss; a trace is names of blocks with spaces between."""
    if policy not in POLICIES:
        raise InputError(f"unknown policy {policy!r}: {closest(policy, POLICIES)}")
    if not isinstance(room, int) or room < 1 or not trace.split():
        raise InputError(
            f"{room!r} blocks of room for the trace {trace!r}: give at least one of each"
        )
    return POLICIES[policy](trace.split(), room)


GRAPHS: dict[str, Callable[..., Dag]] = {
    "matmul": pebbling.matmul,
    "attention": pebbling.attention,
    "chain": pebbling.chain,
    "tree": pebbling.tree,
    "grid": pebbling.grid,
    "butterfly": pebbling.butterfly,
}


def pebbles(graph: str, M: int, **sizes: Any) -> int:
    """The fewest I/Os of a red-blue pebble game with M red pebbles, proved."""
    if graph not in GRAPHS:
        raise InputError(f"unknown graph {graph!r}: {closest(graph, GRAPHS)}")
    found = solved(GRAPHS[graph](**sizes), M)
    if found.cost is None or not found.optimal:
        raise InputError(f"no optimum of {graph} is proved at M = {M}: choose a smaller graph")
    return found.cost


def flops(machine: str, dtype: str) -> Fraction:
    """FLOP per second that a machine does at most."""
    told = known_machine(machine)
    if dtype not in told.peaks:
        raise InputError(f"{machine} has no peak for {dtype!r}: {closest(dtype, told.peaks)}")
    return Fraction(told.peaks[dtype])


def bandwidth(machine: str) -> Fraction:
    """Bytes per second at L2↔DRAM."""
    return Fraction(known_machine(machine).dram_bytes_per_s)


# What ``is`` may say in a value of an exercise.
QUANTITIES: dict[str, Callable[..., Number]] = {
    "words": words,
    "tile": tile,
    "smallest": smallest,
    "count": count,
    "misses": misses,
    "pebbles": pebbles,
    "flops": flops,
    "bandwidth": bandwidth,
}


def quantity(told: Any) -> Number:
    """A number by its table in a file.  Raises InputError for any other value."""
    if not isinstance(told, Mapping) or "is" not in told:
        raise InputError(f'a value is {told!r}: give a table like {{is = "words", …}}')
    args = dict(told)
    which = args.pop("is")
    if which not in QUANTITIES:
        raise InputError(f"unknown quantity {which!r}: {closest(str(which), QUANTITIES)}")
    try:
        return QUANTITIES[which](**args)
    except TypeError as error:
        why = str(error).removeprefix(f"{which}() ")
        raise InputError(f"the quantity {which}: {why}; give what it takes") from None
