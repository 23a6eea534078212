"""Random programs for `iosim gpu validate`: shapes, options, types and tiles from a seed.

The same seed gives the same programs on any machine, and a longer draw begins with a shorter one.
Only `random.Random.random` is used: of Python's generator, that is what versions keep.

`validate` runs them.  Seeds are in records, so a change must draw the same programs from the same
seed (``tests/gpu/test_gpu_draw.py``).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from iosim.base.dtypes import word_bytes
from iosim.base.errors import CapacityError, InputError
from iosim.base.rows import Row
from iosim.core.algorithms._entry import Algorithm
from iosim.core.counting.numbers import peak
from iosim.core.problem import Option, size_names
from iosim.core.program.block_masks import masks
from iosim.core.program.walk import bind
from iosim.core.tiling.gpu import gpu_tiles
from iosim.gpu.emitter.kernels import emit
from iosim.gpu.errors import EmitError
from iosim.gpu.probes import probe
from iosim.gpu.run.job import Job
from iosim.gpu.run.memory import DTYPES

CAPACITY = (12_000, 65_536)  # words
LENGTH = (17, 3400)
HEAD = (16, 200)
USUAL_HEADS = (48, 64, 80, 96, 128)
FAST_BYTES = 131_072  # of one program: 64 Ki words of two bytes
MOST_SCORES = 3400**2  # of all heads
TRIES = 40


class Draw:
    """Numbers from a seed.

    >>> Draw(1).among("abcdef"), Draw(1).among("abcdef")
    ('a', 'a')
    """

    def __init__(self, seed: int) -> None:
        self._next = random.Random(seed).random

    def among(self, some: Sequence[Any]) -> Any:
        """One of several, each as likely."""
        return some[int(self._next() * len(some))]

    def between(self, least: int, most: int) -> int:
        """A whole number, ends included."""
        return least + int(self._next() * (most - least + 1))

    def length(self, least: int, most: int) -> int:
        """A whole number whose size in bits is as likely as any other's."""
        return int(least * (most / least) ** self._next())

    def happens(self, chance: float) -> bool:
        """True with a chance."""
        return self._next() < chance


def drawn_jobs(names: Sequence[str], seed: int, number: int) -> list[Job]:
    """This many programs of these schedules, drawn from a seed; all fit into the M that they have.

    Raises InputError where no schedule has a form without a block mask.

    >>> [job.algorithm for job in drawn_jobs(("copy", "matmul"), seed=1, number=2)]
    ['copy', 'copy']
    """
    known = [entry for entry in map(probe, names) if not masks(entry.program)]
    if not known:
        raise InputError(f"{', '.join(names)} need a block mask: draw of other schedules")
    draw = Draw(seed)
    found = (job for _ in itertools.count() if (job := _draw_program(draw, draw.among(known))))
    return list(itertools.islice(found, number))


def _draw_program(draw: Draw, entry: Algorithm) -> Job | None:
    """A program of a schedule; None where what was drawn is none, or doesn't fit."""
    problem = _problem(draw, entry)
    dtype = draw.among(DTYPES)
    least, most = CAPACITY
    M = draw.between(least, min(most, FAST_BYTES // word_bytes(dtype)))
    searched = draw.happens(0.5)
    if problem is None or not entry.supports(problem.form) or not entry.regime.holds(problem, M):
        return None
    tiles = _searched(entry, problem, M) if searched else _tiles(draw, entry, problem, M)
    if tiles is None:
        return None
    job = Job.of(entry.name, problem, tiles, dtype=dtype, M=M)
    try:
        emit(job.instance)
    except EmitError:
        return None
    return job


def _problem(draw: Draw, entry: Algorithm) -> Any:
    sizes = {name: _size(draw, name) for name in size_names(entry.problem)}
    own = [option for option in entry.problem.options() if option.name not in entry.lacks]
    plain = draw.happens(0.4)
    told: Row = {}
    for option in own:
        wanted = draw.happens(0.3) and not plain
        value = _value(draw, option, sizes)
        if wanted or option.name in entry.needs:
            told[option.name] = value
    few = draw.between(1, 16)
    if "N_k" in told and draw.happens(0.3):  # rows at the end of a cache
        sizes["N"] = few
    if "kv_heads" in told:  # a divisor
        sizes["heads"] = told["kv_heads"] * draw.between(1, 4)
    try:
        problem = entry.problem(**sizes, **told)
    except InputError:
        return None
    scores = sizes.get("N", 1) * told.get("N_k", sizes.get("N_k", sizes.get("N", 1)))
    return problem if scores * sizes.get("heads", 1) <= 2 * MOST_SCORES else None


def _size(draw: Draw, name: str) -> int:
    if name in ("d", "k"):
        usual, other = draw.among(USUAL_HEADS), draw.between(*HEAD)
        return usual if draw.happens(0.4) else other
    if name in ("heads", "b", "kv_heads"):
        return draw.between(1, 3)
    return draw.length(*LENGTH)


def _value(draw: Draw, option: Option, sizes: Mapping[str, int]) -> Any:
    """A value of an option, as its kind says what values are."""
    longest = max(sizes.values())
    match option.kind:
        case "flag":
            return True
        case "limits":
            left, right = draw.between(0, longest), draw.between(0, longest)
            return draw.among(((left, right), (left, None), (None, right)))
        case "count":
            return draw.between(1, 40)
        case "choice":
            return draw.among(option.choices)
        case _:
            return _size(draw, "d" if option.follows == "d" else option.name)


def _searched(entry: Algorithm, problem: Any, M: int) -> dict[str, int] | None:
    try:
        return dict(gpu_tiles(entry.program_for(problem), problem, M).tiles)
    except CapacityError:
        return None


def _tiles(draw: Draw, entry: Algorithm, problem: Any, M: int) -> dict[str, int] | None:
    """Powers of two from 16 on that fit into M; a stationary part is all of its axis or none."""
    program = entry.program_for(problem)
    for _ in range(TRIES):
        tiles = {}
        for param in program.params:
            extent = problem.sizes[param.axis]
            if param.least == 0:
                tiles[param.name] = extent if draw.happens(0.5) else 0
            else:
                tiles[param.name] = draw.among(list(_powers(extent)))
        if peak(bind(program, problem.sizes, tiles)) <= M:
            return tiles
    return None


def _powers(extent: int) -> Iterator[int]:
    """16, 32 and so on, up to the first that holds the axis."""
    side = 16
    yield side
    while side < extent:
        side *= 2
        yield side
