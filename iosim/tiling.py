"""I/O-optimal tile sizes: the least exact count under an exact peak of at most M words.

Nests that share no parameter are searched apart.  Counts depend on a tile B only through ⌈n/B⌉,
so only the smallest B for each value of it matters: about 2√n candidates.  Candidates form boxes,
and a box is bounded from below by interval arithmetic on the closed form, all boxes of a level in
one array operation: it is dropped when what it holds at least is more than M, or what it moves at
least is no less than the best found.

For most schedules two facts sharpen this, which signs of the closed form prove
(`iosim.program.signs`): a larger tile or hold never moves more words, so that the count at a box's
upper corner is the bound; and a larger tile never takes fewer, so that one tile can be bisected
instead of branched on.  (A larger hold W may take *fewer* words, since less is streamed beside it:
d − W < B.)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from iosim.errors import CapacityError, InputError, closest
from iosim.problem import LARGEST_SIZE, check_size
from iosim.program import evaluate
from iosim.program.closed import Nest, Poly, close
from iosim.program.ir import Loop, Param, Program, nodes
from iosim.program.signs import falls_with, rises_with
from iosim.program.walk import bind, spans

Lattice = Literal["all", "pow2"]
Ints = NDArray[np.int64]
Box = dict[str, Ints]
Shape = tuple[int, ...]


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
    kind = getattr(problem, "kind", program.problem)
    if kind != program.problem:
        raise InputError(f"{program.name} solves {program.problem}, not {kind}: choose another")
    fixed = dict(fixed or {})
    choices = _choices(program, problem, lattice, fixed)
    spaces = _spaces(program, choices, problem.sizes, M)
    # What no count and no peak depends on stays at its least.
    tiles = {name: int(choice.name_at(0)) for name, choice in choices.items()}
    for space in spaces:
        found = space.search()
        if found is None:
            least = max(s.least_peak() for s in spaces)
            what = " with these tiles" if fixed else " on this lattice" if lattice != "all" else ""
            raise CapacityError(
                f"{program.name} needs at least {least} words{what} and M is {M}: use M >= {least}"
            )
        tiles |= found
    instance = bind(program, problem.sizes, tiles)
    held = evaluate.peak(instance)
    assert held <= M, f"the search returned {tiles}, which hold {held} words of {M}"
    return Tiling(tiles, evaluate.count(instance).total_words, held)


def smallest_capacity(
    program: Program,
    problem: Sized,
    *,
    lattice: Lattice = "all",
    fixed: Mapping[str, int] | None = None,
) -> int:
    """The least M for which any tiles fit; arguments and errors as for `optimal_tiles`."""
    choices = _choices(program, problem, lattice, fixed or {})
    return max(s.least_peak() for s in _spaces(program, choices, problem.sizes, 1))


def _spaces(
    program: Program, choices: Mapping[str, _Choice], sizes: Mapping[str, int], M: int
) -> list[_Space]:
    groups = _groups(close(program).nests, choices)
    return [_Space(group, choices, sizes, M) for group in groups]


@dataclass(frozen=True)
class _Choice:
    """The ascending values of one parameter: an array, or the integers from `first` on."""

    first: int
    count: int
    hold: bool
    axis: str
    values: Ints | None = None
    limit: int = LARGEST_SIZE

    def at(self, index: Any) -> Any:
        """Values at integer positions, as they are used: clipped to the axis."""
        return np.minimum(self.name_at(index), self.limit)

    def name_at(self, index: Any) -> Any:
        """Values at integer positions, as they are called: 128 for a tile of 65 rows."""
        return self.first + index if self.values is None else self.values[index]


def _choices(
    program: Program, problem: Sized, lattice: Lattice, fixed: Mapping[str, int]
) -> dict[str, _Choice]:
    """The candidates of every parameter; one where it is fixed."""
    if lattice not in ("all", "pow2"):
        raise InputError(f"unknown lattice {lattice!r}: known: all, pow2")
    choices = {p.name: _choice(program, p, problem.sizes[p.axis], lattice) for p in program.params}
    for name, value in fixed.items():
        if name not in choices:
            raise InputError(f"{program.name} has no tile size {name!r}: {closest(name, choices)}")
        param = next(p for p in program.params if p.name == name)
        value = min(check_size(name, value, least=param.least), problem.sizes[param.axis])
        choices[name] = _Choice(value, 1, param.least == 0, param.axis)
    return choices


def _choice(program: Program, param: Param, n: int, lattice: Lattice) -> _Choice:
    hold = param.least == 0
    if lattice == "pow2":
        top = max(16, 1 << (n - 1).bit_length())
        powers = 2 ** np.arange(4, top.bit_length(), dtype=np.int64)
        values = np.array([0, n]) if hold else powers
        return _Choice(int(values[0]), len(values), hold, param.axis, values, limit=n)
    loops = [x for x in nodes(program.body) if isinstance(x, Loop) and x.step == param.name]
    bounds = {name for s in spans(program) for end in (s.start, s.stop) for name, _ in end.terms}
    if hold or param.name in bounds or not all(x.span.whole for x in loops):
        return _Choice(param.least, n + 1 - param.least, hold, param.axis)
    values = _distinct(n)
    return _Choice(1, len(values), hold, param.axis, values)


@functools.lru_cache(maxsize=64)
def _distinct(n: int) -> Ints:
    """The least B for every value of ⌈n/B⌉, ascending."""
    root = math.isqrt(n) + 1
    small = np.arange(1, root + 1)
    return np.unique(np.concatenate([small[small <= n], -(-n // small)]))


class _Space:
    """The parameters of some nests as positions on their choices, with vectorised cost and peak.

    `holds` and `steps` are the parameters to search; `spare` are tiles that the count doesn't
    depend on, which sit at their least value.
    """

    def __init__(
        self,
        nests: Sequence[Nest],
        choices: Mapping[str, _Choice],
        sizes: Mapping[str, int],
        M: int,
    ) -> None:
        self.total = sum((nest.total for nest in nests), Poly())
        self.levels = [level for nest in nests for level in nest.peak]
        self.choices = {k: choices[k] for k in choices if k in _names(nests)}
        self.base: dict[str, Any] = dict(sizes) | {k: c.at(0) for k, c in self.choices.items()}
        self.M = M
        holds = [k for k, c in self.choices.items() if c.hold]
        steps = [k for k, c in self.choices.items() if not c.hold]
        axis_of = {k: self.choices[k].axis for k in holds}
        rises = {k: all(rises_with(v.words, k, axis_of) for v in self.levels) for k in steps}
        self.spare = [k for k in steps if k not in self.total.names() and rises[k]]
        searched = sorted(
            (k for k in steps if k not in self.spare), key=lambda k: choices[k].count
        )  # fmt: skip
        falls = {k: falls_with(self.total, k, axis_of) for k in self.choices}
        self.falls = all(falls.values())
        # The tile with the most values is bisected, if more of it moves less and takes more.
        self.last = [k for k in searched[-1:] if rises[k] and falls[k]]
        self.holds = holds
        self.boxed = holds + [k for k in searched if k not in self.last]
        # Counts beyond 64 bits are rare enough to be done in Python's integers.
        worst = evaluate.on_ints({k: int(v) for k, v in self.base.items()})
        magnitude = Poly({m: abs(c) for m, c in self.total.terms.items()})
        self.dtype: Any = object if int(magnitude.evaluate(worst)) >= _INT64_SAFE else np.int64

    def _corners(self, names: list[str]) -> tuple[Box, Box]:
        """The box of all positions of some parameters."""
        last = {k: np.full(1, self.choices[k].count - 1) for k in names}
        return {k: np.zeros(1, np.int64) for k in names}, last

    def _env(self, at: Mapping[str, Any]) -> dict[str, Any]:
        return self.base | {
            k: np.asarray(self.choices[k].at(i)).astype(self.dtype) for k, i in at.items()
        }

    def _cost(self, at: Mapping[str, Any], shape: Shape) -> Any:
        """Words moved, at positions on the choices."""
        words = self.total.evaluate(evaluate.OnArrays(self._env(at)))
        return np.broadcast_to(np.asarray(words, self.dtype), shape)

    def _cheapest(self, low: Box, high: Box, shape: Shape) -> Any:
        """A bound from below on the words moved anywhere in a box."""
        if self.falls:
            return self._cost(high, shape)
        words = evaluate.least(self.total, self._env(low), self._env(high))
        return np.broadcast_to(np.asarray(words, self.dtype), shape)

    def _peak(
        self, at: Mapping[str, Any], shape: Shape, high: Mapping[str, Any] | None = None
    ) -> Any:
        """Words held; with `high`, what every point of the box from `at` to `high` holds."""
        env = self._env(at)
        corner = None if high is None else self._env(high)
        words = evaluate.largest(self.levels, evaluate.OnArrays(env, corner), corner)
        return np.broadcast_to(words, shape)

    def _reach(self, name: str, low: Mapping[str, Any], shape: Shape, high: Any = None) -> Ints:
        """The last position of the tile `name` that fits beside the others, or its first.

        With `high`, the last that may fit anywhere in the box.
        """
        first = np.zeros(shape, np.int64)
        end = np.full(shape, self.choices[name].count - 1)
        while np.any(first < end):
            middle = (first + end + 1) // 2
            corner = None if high is None else {**high, name: middle}
            good = self._peak({**low, name: middle}, shape, corner) <= self.M
            first, end = np.where(good, middle, first), np.where(good, end, middle - 1)
        return first

    def least_peak(self) -> int:
        """The fewest words that any tiles hold: what is bisected at its least, else searched."""
        best = [int(self._peak(self._corners(self.boxed)[0], (1,))[0])]

        def visit(low: Box, high: Box, shape: Shape) -> Any:
            best[0] = min(best[0], int(self._peak(low, shape).min()))
            return self._peak(low, shape, high) < best[0]

        _branch(*self._corners(self.boxed), visit)
        return best[0]

    def search(self) -> dict[str, int] | None:
        """The cheapest tiles that fit, or None: branch over boxes, bisect the last tile."""
        best: dict[str, int] = {}
        best_cost: list[int] = []

        def visit(low: Box, high: Box, shape: Shape) -> Any:
            point, corner = dict(low), dict(high)
            for name in self.last:
                point[name] = self._reach(name, low, shape)
                # Without holds a box holds least at its lower corner, where we have just been.
                corner[name] = self._reach(name, low, shape, high) if self.holds else point[name]
            fits = self._peak(point, shape) <= self.M
            if fits.any():
                found = self._cost(point, shape)
                at = int(np.argmin(np.where(fits, found, found.max() + 1)))
                if not best_cost or found[at] < best_cost[0]:
                    best_cost[:] = [int(found[at])]
                    best.update({k: int(v[at]) for k, v in point.items()})
            hopeful = self._peak(low, shape, high) <= self.M
            if best_cost:
                start = {**low, **{k: np.zeros(shape, np.int64) for k in self.last}}
                hopeful = hopeful & (self._cheapest(start, corner, shape) < best_cost[0])
            return hopeful

        _branch(*self._corners(self.boxed), visit)
        if not best_cost:
            return None
        # Words that are left go to the tiles that cost nothing: fewer, larger transfers.
        for name in self.spare:
            best[name] = int(self._reach(name, best, (1,))[0])
        return {k: int(self.choices[k].name_at(i)) for k, i in best.items()}


def _names(nests: Sequence[Nest]) -> set[str]:
    polys = [nest.total for nest in nests] + [v.words for nest in nests for v in nest.peak]
    return set().union(*(poly.names() for poly in polys))


def _groups(nests: Sequence[Nest], params: Collection[str]) -> list[list[Nest]]:
    """Nests that share a tile parameter are searched together."""
    groups: list[list[Nest]] = []
    for nest in nests:
        mine = _names([nest]) & set(params)
        kin = [g for g in groups if _names(g) & mine]
        groups = [g for g in groups if g not in kin] + [[n for g in kin for n in g] + [nest]]
    return groups


_INT64_SAFE = 2**61  # counts that may be larger are searched in Python's integers
_SPLIT = 16  # parts per side and level: fewer, larger array operations


def _branch(low: Box, high: Box, visit: Callable[[Box, Box, Shape], Any]) -> None:
    """Cut boxes into parts, and those that `visit` keeps again, until all are single points.

    `visit` gets the corners of all boxes of a level and returns which are worth cutting.
    """
    if not low:
        visit(low, high, (1,))
        return
    while True:
        low, high = _split(low, high)
        shape = next(iter(low.values())).shape
        more = visit(low, high, shape) & np.any([high[k] > low[k] for k in low], axis=0)
        if not more.any():
            return
        low, high = _take(low, more), _take(high, more)


def _take(box: Box, keep: Any) -> Box:
    return {k: v[keep] for k, v in box.items()}


def _split(low: Box, high: Box) -> tuple[Box, Box]:
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
