"""Templates: the addresses of one iteration, and what each open loop adds to them.

A template is made for the extents of open tiles and spans, and holds wherever these are the same;
where it starts is a sum over *variables* (`iosim.cache.address_map`).  Where words become units
late, it has an entry for each box (`iosim.cache.boxes`) and none for its words.

`of_program` and `trace_walk` call it.  ``tests/cache/test_cache_touches.py`` compares with a walker
that goes word by word.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from iosim.base.arrays import Bools, Ints
from iosim.cache.address_map import Env, Ground, Loops, Variable, extent, resolved, untouched
from iosim.cache.boxes import offsets
from iosim.cache.references import Piece, Position, Repeat, Straight, Touch
from iosim.core.program import space
from iosim.core.program.index import Tile

# Accesses of one template, and of all that are kept.
LIMIT = 2**16
KEPT = 2**22
# Words that become rows or lines at once: they are many times fewer.
WIDE = 2**21


@dataclass(frozen=True, eq=False)
class Template:
    """Accesses, up to where they start.

    Attributes:
        address: of each access, where all variables are 0; or the place of each box.
        piece: of each access, which part it belongs to; what follows has a number for each piece.
        slopes: what each variable adds to addresses.
        write: whether a piece is written.
        kind: of a piece, the number of its kind of boxes; −1 of accesses.
    """

    address: Ints
    piece: Ints
    slopes: Mapping[Variable, Ints]
    write: Bools
    kind: Ints
    _wide: dict[Variable, Ints | None] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many accesses there are, or boxes."""
        return self.address.size

    def slope(self, variable: Variable) -> Ints | None:
        """What a variable adds to each address; None where it adds nothing."""
        if variable not in self._wide:
            by = self.slopes.get(variable)
            self._wide[variable] = None if by is None or not by.any() else by[self.piece]
        return self._wide[variable]


EMPTY = Template(
    *(np.zeros(0, np.int64),) * 2,
    {},
    np.zeros(0, bool),
    np.zeros(0, np.int64),
)


class TooLarge(Exception):
    """A template would have more than `LIMIT` accesses."""


@dataclass
class Templates:
    """Makes templates, and keeps those that were used last."""

    ground: Ground
    kept: OrderedDict[Any, Template | None] = field(default_factory=OrderedDict)
    words: int = 0

    def of(self, whose: Straight | Repeat, env: Env, loops: Loops) -> Template | None:
        """The template of a block, or of one iteration; None where it would be too large.

        Args:
            whose: the block, or the loop of the iteration.
            env: name → number, with the edges of open tiles.
            loops: the loops of open tiles.
        """
        return self._find_template((), whose, env, loops, lambda: self._body(whose, env, loops))

    def parts(self, block: Straight, env: Env, loops: Loops) -> Iterator[Template]:
        """The templates of a block that is too large for one, in turn."""
        by = self.words_at_once // 2
        for n, touch in enumerate(block.body):
            for k, part in enumerate(touch.parts):
                one = Touch((part,), over=touch.over)
                for low in range(0, longest(one, env), by):
                    made = partial(self._some, one, env, loops, low, low + by)
                    found = self._find_template((n, k, low), block, env, loops, made)
                    assert found is not None
                    yield found

    @property
    def words_at_once(self) -> int:
        """Words that a template is made of, or that a box has."""
        return LIMIT if self.ground.unit == "words" or self.ground.late else WIDE

    def _find_template(
        self,
        which: tuple[int, ...],
        whose: Straight | Repeat,
        env: Env,
        loops: Loops,
        make: Callable[[], Template],
    ) -> Template | None:
        """What was made before for the same extents, or is now; None where it is too large."""
        key = (
            id(whose),
            which,
            *(extent(tile, env) for tile in loops),
            *(extent(span, env) for span in whose.spans),
        )
        if key in self.kept:
            self.kept.move_to_end(key)
            return self.kept[key]
        try:
            found: Template | None = make()
        except TooLarge:
            found = None
        self.kept[key] = found
        self.words += 64 if found is None else found.size + 64
        while self.words > KEPT and len(self.kept) > 1:
            _, old = self.kept.popitem(last=False)
            self.words -= 64 if old is None else old.size + 64
        return found

    def _body(self, whose: Straight | Repeat, env: Env, loops: Loops) -> Template:
        found: list[Template] = []
        size = 0
        for action in whose.body:
            match action:
                case Touch():
                    made = self._touch(action, env, loops)
                case Straight():
                    made = self._require_template(action, env, loops)
                case Repeat():
                    made = self._repeat(action, env, loops)
                case Position():
                    continue
            size += made.size
            if size > LIMIT:
                raise TooLarge
            found.append(made)
        return _joined(found)

    def _repeat(self, repeat: Repeat, env: Env, loops: Loops) -> Template:
        loop = repeat.loop
        start, stop = resolved(loop.span, env)
        step = space.step(loop, env)
        full, rest = divmod(stop - start, step)
        inner = {**loops, loop.tile: loop}
        found: list[Template] = []
        if full:
            at = space.inside(env, loop.tile, (start, start + step))
            one = self._require_template(repeat, at, inner)
            if one.size * full > LIMIT:
                raise TooLarge
            found.append(_closed(one, loop.tile, np.arange(full)))
        if rest:
            at = space.inside(env, loop.tile, (start + full * step, stop))
            found.append(
                _closed(self._require_template(repeat, at, inner), loop.tile, np.array([full]))
            )
        return _joined(found)

    def _require_template(self, whose: Straight | Repeat, env: Env, loops: Loops) -> Template:
        if (found := self.of(whose, env, loops)) is None:
            raise TooLarge
        return found

    def _touch(self, touch: Touch, env: Env, loops: Loops) -> Template:
        words = longest(touch, env)
        if words * (1 if self.ground.late else len(touch.parts)) > self.words_at_once:
            raise TooLarge
        return self._some(touch, env, loops, 0, words)

    def _some(self, touch: Touch, env: Env, loops: Loops, low: int, high: int) -> Template:
        """Of each part of a node, the words low ≤ k < high in row-major order."""
        if untouched(touch, env):
            return EMPTY
        return _joined([self._part(part, env, loops, low, high) for part in touch.parts])

    def _part(self, part: Piece, env: Env, loops: Loops, low: int, high: int) -> Template:
        """Words of one part."""
        ground = self.ground
        base, slopes = ground.located(part, env, loops)
        extents = tuple(extent(x, env) for x in part.index)
        high = max(low, min(high, math.prod(extents)))
        if ground.late and low == high:
            return EMPTY
        if ground.late:
            address, kind = np.array([base]), ground.kind(part, env, extents, low, high)
        else:
            address, kind = self._units(part, env, extents, low, high, base), None
        if ground.unit == "lines" and not ground.late:
            slopes = {x: slope // ground.line for x, slope in slopes.items()}
        return Template(
            address,
            np.zeros(address.size, np.int64),
            {x: np.array([slope]) for x, slope in slopes.items()},
            np.array([part.write]),
            np.array([-1 if kind is None else ground.kinds.number(kind)]),
        )

    def _units(
        self,
        part: Piece,
        env: Env,
        extents: tuple[int, ...],
        low: int,
        high: int,
        base: int,
    ) -> Ints:
        """The units of words of a part, neighbors in the same one as one."""
        merged = self.ground.unit != "words"
        before = 1 if merged and 0 < low < high else 0  # the word before tells what follows it
        number = np.arange(low - before, high)
        address = base + offsets(extents, self.ground.strides(part, env), number)
        if not merged:
            return address
        address //= self.ground.line
        keep = number == 0
        keep[1:] |= address[1:] != address[:-1]
        found: Ints = address[keep]
        return found


def longest(touch: Touch, env: Env) -> int:
    """The words of the largest part of a node."""
    return max((math.prod(extent(x, env) for x in part.index) for part in touch.parts), default=0)


def lines_of(base: int, extents: Sequence[int], strides: Sequence[int], line: int) -> int:
    """How many lines a box is: its words in row-major order, neighbors in one line as one."""
    words = math.prod(extents)
    found, last = 0, -1
    for low in range(0, words, 2**20):
        number = np.arange(low, min(low + 2**20, words))
        at = (base + offsets(extents, strides, number)) // line
        found += int(at[0] != last) + int(np.count_nonzero(at[1:] != at[:-1]))
        last = int(at[-1])
    return found


def _joined(parts: Sequence[Template]) -> Template:
    """One template after the other."""
    parts = [part for part in parts if part.size]
    if len(parts) < 2:
        return parts[0] if parts else EMPTY
    before = np.cumsum([0, *(part.write.size for part in parts)])
    slopes: dict[Variable, Ints] = {}
    for at, part in zip(before, parts, strict=False):
        for x, by in part.slopes.items():
            slopes.setdefault(x, np.zeros(before[-1], np.int64))[at : at + by.size] = by
    return Template(
        np.concatenate([part.address for part in parts]),
        np.concatenate([part.piece + at for at, part in zip(before, parts, strict=False)]),
        slopes,
        write=np.concatenate([part.write for part in parts]),
        kind=np.concatenate([part.kind for part in parts]),
    )


def _closed(one: Template, tile: Tile, numbers: Ints) -> Template:
    """A template for each number of a tile, one after the other."""
    slopes = {x: by for x, by in one.slopes.items() if x != tile}
    address, by = one.address, one.slope(tile)
    if by is None:
        address = np.tile(address, numbers.size)
    else:
        address = (address + numbers[:, None] * by).reshape(-1)
    return Template(address, np.tile(one.piece, numbers.size), slopes, one.write, one.kind)
