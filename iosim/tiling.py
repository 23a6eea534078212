"""I/O-optimal tile sizes: the least exact count under an exact peak of at most M words.

Three facts make the search exact and fast.  Nests share no tile parameter, so each is searched
alone.  Counts depend on a tile B only through ⌈n/B⌉, so only the smallest B for each value of it
matters: about 2√n candidates.  And a larger tile (or hold) never moves more words and never takes
fewer, so a box of candidates is bounded below by the count at its upper corner and is infeasible
when its lower corner is: branch and bound over boxes, all boxes of a level in one array
operation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from iosim.errors import CapacityError, InputError, closest
from iosim.problem import check_size
from iosim.program import evaluate
from iosim.program.closed import Nest, close
from iosim.program.ir import Loop, Param, Program, nodes
from iosim.program.walk import bind

Lattice = Literal["all", "pow2"]
Ints = NDArray[np.int64]


class Sized(Protocol):
    """Anything with sizes: a problem."""

    @property
    def sizes(self) -> dict[str, int]:
        """Axis name → extent."""
        ...


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tile sizes, the words they move and the words they hold."""

    tiles: dict[str, int]
    total_words: int
    peak_words: int


def optimal_tiles(
    program: Program,
    problem: Sized,
    M: int,
    *,
    lattice: Lattice = "all",
    fixed: Mapping[str, int] | None = None,
) -> Tiling:
    """The tiles that move the fewest words in a fast memory of M words.

    Words that the optimum leaves over go to the tiles on which the count doesn't depend.

    Args:
        lattice: ``"pow2"`` admits only powers of two of at least 16 (tiles) and all or nothing
            (holds), which is what a GPU's matrix units take.
        fixed: parameters that are given.

    Raises:
        CapacityError: no tiles fit; the message gives the smallest M that works.
        InputError: a fixed parameter is unknown or out of range.
    """
    check_size("M", M)
    fixed = dict(fixed or {})
    choices = {p.name: _choice(program, p, problem.sizes, lattice) for p in program.params}
    for name, value in fixed.items():
        if name not in choices:
            raise InputError(f"{program.name} has no tile size {name!r}: {closest(name, choices)}")
        param = next(p for p in program.params if p.name == name)
        value = min(check_size(name, value, least=param.least), problem.sizes[param.axis])
        choices[name] = _Choice(value, 1)
    least = smallest_capacity(program, problem, lattice=lattice, fixed=fixed)
    if least > M:
        what = " with these tiles" if fixed else " on this lattice" if lattice != "all" else ""
        raise CapacityError(
            f"{program.name} needs at least {least} words{what} and M is {M}: use M >= {least}"
        )
    tiles: dict[str, int] = {}
    for nest in close(program).nests:
        tiles |= _search(_Space(nest, choices, problem.sizes, M))
    instance = bind(program, problem.sizes, tiles)
    return Tiling(tiles, evaluate.count(instance).total_words, evaluate.peak(instance))


def smallest_capacity(
    program: Program,
    problem: Sized,
    *,
    lattice: Lattice = "all",
    fixed: Mapping[str, int] | None = None,
) -> int:
    """The least M for which any tiles fit."""
    tiles = {p.name: int(_choice(program, p, problem.sizes, lattice).at(0)) for p in program.params}
    return evaluate.peak(bind(program, problem.sizes, tiles | dict(fixed or {})))


@dataclass(frozen=True)
class _Choice:
    """The ascending values of one parameter: an array, or the integers from `first` on."""

    first: int
    count: int
    values: Ints | None = None

    def at(self, index: Any) -> Any:
        """Values at integer positions."""
        return self.first + index if self.values is None else self.values[index]


def _choice(program: Program, param: Param, sizes: Mapping[str, int], lattice: Lattice) -> _Choice:
    n = sizes[param.axis]
    if lattice not in ("all", "pow2"):
        raise InputError(f"unknown lattice {lattice!r}: known: all, pow2")
    if lattice == "pow2":
        top = max(16, 1 << (n - 1).bit_length())
        powers = 2 ** np.arange(4, top.bit_length(), dtype=np.int64)
        values = np.array([0, n]) if param.least == 0 else powers
        return _Choice(int(values[0]), len(values), values)
    loops = [x for x in nodes(program.body) if isinstance(x, Loop) and x.step == param.name]
    if param.least == 0 or not all(x.span.whole for x in loops):
        return _Choice(param.least, n + 1 - param.least)
    values = _distinct(n)
    return _Choice(1, len(values), values)


@functools.lru_cache(maxsize=64)
def _distinct(n: int) -> Ints:
    """The least B for every value of ⌈n/B⌉, ascending."""
    root = math.isqrt(n) + 1
    small = np.arange(1, root + 1)
    return np.unique(np.concatenate([small[small <= n], -(-n // small)]))


class _Space:
    """The parameters of one nest as positions on their choices, with vectorised cost and peak.

    `free` are the parameters that the count depends on; the others sit at their least value.
    """

    def __init__(
        self, nest: Nest, choices: Mapping[str, _Choice], sizes: Mapping[str, int], M: int
    ) -> None:
        mine = set().union(*(v.words.names() for v in nest.peak), nest.total.names())
        self.choices = {k: c for k, c in choices.items() if k in mine}
        used = nest.total.names()
        # The last one is found by bisection, so let it be the one with the most values.
        self.free = sorted((k for k in self.choices if k in used), key=lambda k: choices[k].count)
        self.spare = [k for k in self.choices if k not in used]
        self.base: dict[str, Any] = dict(sizes) | {k: c.at(0) for k, c in self.choices.items()}
        self.nest, self.M = nest, M
        # Counts beyond 64 bits are rare enough to be done in Python's integers.
        worst = evaluate.on_ints({k: int(v) for k, v in self.base.items()})
        big = max(int(nest.total.evaluate(worst)), 1) >= 2**61
        self.dtype: Any = object if big else np.int64

    def _env(self, at: Mapping[str, Any]) -> dict[str, Any]:
        return self.base | {
            k: np.asarray(self.choices[k].at(i)).astype(self.dtype) for k, i in at.items()
        }

    def cost(self, at: Mapping[str, Any]) -> Any:
        """Words moved, at positions on the choices."""
        return self.nest.total.evaluate(evaluate.on_arrays(self._env(at)))

    def fits(self, at: Mapping[str, Any]) -> Any:
        """Whether the peak is at most M."""
        return evaluate.largest(self.nest.peak, evaluate.on_arrays(self._env(at))) <= self.M

    def reach(self, name: str, at: Mapping[str, Any], shape: tuple[int, ...]) -> Ints:
        """The last position of `name` that fits beside the others (its first, if none does)."""
        low = np.zeros(shape, np.int64)
        high = np.full(shape, self.choices[name].count - 1)
        while np.any(low < high):
            middle = (low + high + 1) // 2
            good = np.broadcast_to(self.fits({**at, name: middle}), shape)
            low, high = np.where(good, middle, low), np.where(good, high, middle - 1)
        return low


_SPLIT = 8  # parts per side and level: fewer, larger array operations


def _search(space: _Space) -> dict[str, int]:
    """Branch and bound over all free parameters but the last, which is bisected."""
    best: dict[str, int] = {}
    if space.free:
        *outer, last = space.free
        low = {k: np.zeros(1, np.int64) for k in outer}
        high = {k: np.full(1, space.choices[k].count - 1) for k in outer}
        best_cost: int | None = None
        while True:
            low, high = _split(low, high)
            good = np.broadcast_to(space.fits(low), low[outer[0]].shape if outer else (1,))
            low, high = _take(low, good), _take(high, good)
            shape = (int(good.sum()),)
            top = space.reach(last, low, shape)
            found = np.broadcast_to(space.cost({**low, last: top}), shape)
            at = int(np.argmin(found))
            if best_cost is None or found[at] < best_cost:
                best_cost = int(found[at])
                best = {k: int(v[at]) for k, v in low.items()} | {last: int(top[at])}
            bound = np.broadcast_to(space.cost({**high, last: top}), shape)
            more = (bound < best_cost) & np.any(
                [high[k] > low[k] for k in outer] or [np.zeros(shape, bool)], axis=0
            )
            if not more.any():
                break
            low, high = _take(low, more), _take(high, more)
    # Words that are left go to the tiles that cost nothing: fewer, larger transfers.
    for name in space.spare:
        best[name] = int(space.reach(name, best, (1,))[0])
    return {k: int(space.choices[k].at(i)) for k, i in best.items()}


def _take(box: dict[str, Ints], keep: Any) -> dict[str, Ints]:
    return {k: v[keep] for k, v in box.items()}


def _split(low: dict[str, Ints], high: dict[str, Ints]) -> tuple[dict[str, Ints], dict[str, Ints]]:
    """Cut every box into up to `_SPLIT` parts along each side."""
    for name in low:
        cuts = [low[name] + (high[name] - low[name] + 1) * k // _SPLIT for k in range(_SPLIT + 1)]
        pieces_low = {k: np.tile(v, _SPLIT) for k, v in low.items()}
        pieces_high = {k: np.tile(v, _SPLIT) for k, v in high.items()}
        pieces_low[name] = np.concatenate(cuts[:-1])
        pieces_high[name] = np.concatenate(cuts[1:]) - 1
        keep = pieces_low[name] <= pieces_high[name]
        low, high = _take(pieces_low, keep), _take(pieces_high, keep)
    return low, high
