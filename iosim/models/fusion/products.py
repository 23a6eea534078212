"""Kernels around contractions: the `matmul` schedule with what is before and after it.

Each contraction has a *batch*, a *left* and a *right* side, and a sum over k.  For each index of
the batch, left × right is cut in tiles of B_m × B_n, and k in steps of 1, as in the `matmul`
schedule.  Several contractions are one kernel in two ways: they have the same batch, left and
right axes, and their tiles are made one next to the other (gate and up before SwiGLU; a sum of
products); or they read one tensor as their left input, and their right sides lie one after the
other, as if n were the sum (Q, K and V).

- **Prologue.**  Element-wise operators that make an input make each of its tiles again whenever
  the schedule would load it, word by word.  What they read comes as often as that tile; what lacks
  the axes of k stays for the output tile.  If the input is read elsewhere, too, it is stored once.
- **Epilogue.**  Operators after a contraction run on each output tile when it is done, as in
  `rows`: word by word, or by whole rows of a tile that has the whole side (B_n = n).  What they
  read comes once for each output tile.  Sums over axes of the output are held whole, from the
  first tile to the last.

An operand that has only some axes of a side is loaded for each index of that side, unless each tile
has the whole side.  The tiles are
those that move the fewest words among all that fit: every B_m, with the largest B_n that fits with
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache

import numpy as np

from iosim.models.fusion.members import Axes, Illegal, Members, reduces
from iosim.models.fusion.rows import live
from iosim.models.fusion.strips import Sides, Strip, strips
from iosim.models.layers.traffic import Crossing
from iosim.models.operators import Operator

# Words as a sum of 1, B_m, B_n and B_m·B_n, each this many times.
Form = np.ndarray
ONE, LEFT, RIGHT, TILE = (np.array(x, dtype=np.int64) for x in np.eye(4, dtype=np.int64))
NONE: Form = np.zeros(4, dtype=np.int64)


def products(part: Members, M: int) -> Crossing:
    """The words that cross the boundary, with the best tiles.

    Raises Illegal where the operators are no such kernel, or nothing fits in M words.
    """
    return _Product(part, strips(part)).crossing(M)


@lru_cache(maxsize=64)
def _heights(m: int) -> np.ndarray:
    """The least height of tiles for each number of them that cut m rows, rising."""
    return np.unique(-(-m // np.arange(1, m + 1)))


class _Product:
    """Counts one kernel, for all tiles at once."""

    def __init__(self, part: Members, strips: tuple[Strip, ...]) -> None:
        self.part, self.strips = part, strips
        self.all = [s for strip in strips for s in strip.products]
        self.batch, self.left = self.all[0].batch, self.all[0].left
        self.ahead = {
            x: tuple(op for op in part.operators if op.name in part.find_ancestors([x]))
            for s in self.all
            for x in s.inputs
        }
        self._check_prologues()
        self.whole = self._whole_side()
        self._check_stored()

    # -- what is legal ------------------------------------------------------------------------

    def _check_prologues(self) -> None:
        part, seen = self.part, dict[str, str]()
        for s in self.all:
            for x, side in zip(s.inputs, (s.left, s.right), strict=True):
                within = self.batch | side | s.k
                for op in self.ahead[x]:
                    if part.row(op) or (reduces(op) and not op.kind.apart):
                        raise Illegal(f"{op.name} needs whole rows before {s.op.name} starts")
                    if not part.space[op.name] <= within:
                        raise Illegal(f"{op.name} has an axis that its input of {s.op.name} lacks")
                    if seen.setdefault(op.name, x) != x:
                        raise Illegal(f"{op.name} is before two inputs, {seen[op.name]} and {x}")
                    for t in op.writes:
                        self._check_read(t.name, x)
                        if t.name in part.stored and part.has[t.name] != within:
                            raise Illegal(f"{t.name} would be stored by each tile of {x}")

    def _check_read(self, made: str, x: str) -> None:
        """Nothing but the prologue of x, and contractions if it is x, reads what is made there."""
        inside = {op.name for op in self.ahead[x]}
        for r in self.part.graph.readers[made]:
            contracts = made == x and r in self.part.contractions
            if r.name in self.part.names and r.name not in inside and not contracts:
                raise Illegal(f"{r.name} reads {made}, which is there by tiles of {x} only")

    def _whole_side(self) -> str:
        """The side that a tile has whole, for rows of the epilogue: left, right or neither."""
        part, row = self.part, Axes()
        for strip in self.strips:
            for op in strip.behind:
                if not part.space[op.name] <= self.batch | self.left | strip.right:
                    raise Illegal(f"{op.name} has an axis that the output before it lacks")
                row |= part.row(op)
        if not row:
            return ""
        if row <= self.left:
            return "left"
        if row <= Axes().union(*(strip.right for strip in self.strips)):
            return "right"
        raise Illegal("rows of the epilogue run along more than one side of the output tile")

    def _check_stored(self) -> None:
        part = self.part
        for strip in self.strips:
            sides = {"batch": self.batch, "left": self.left, "right": strip.right}
            for op in strip.behind:
                if part.sums(op):
                    if part.space[op.name] != Axes().union(*sides.values()):
                        raise Illegal(f"{op.name} would add a word more than once")
                    continue
                for name in (t.name for t in op.writes if t.name in part.stored):
                    for side, axes in sides.items():
                        has = part.has[name] & axes
                        if has != axes and side != self.whole:
                            raise Illegal(f"{name} would be stored by each tile")

    # -- what is moved ------------------------------------------------------------------------

    def crossing(self, M: int) -> Crossing:
        part = self.part
        B_m, B_n = self._tiles(M)
        loads: dict[str, int] = {}
        for name, words in self._loads(np.array([B_m]), np.array([B_n])):
            loads[name] = loads.get(name, 0) + int(words[0])
        stores = {x: part.tensors[x].words for x in part.tensors if x in part.stored}
        return Crossing(loads, stores, f"matmul, B_m = {B_m}, B_n = {B_n}, B_k = 1")

    @cached_property
    def m(self) -> int:
        return self.part.words(self.left)

    @cached_property
    def n(self) -> int:
        return sum(self.part.words(strip.right) for strip in self.strips)

    def _loads(self, B_m: np.ndarray, B_n: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """Words of tensors from outside, for arrays of tiles."""
        part, batch = self.part, self.part.words(self.batch) * np.ones_like(B_m)
        across, down, start = -(-self.m // B_m), -(-self.n // B_n), 0
        done: set[str] = set()
        for strip in self.strips:
            n = part.words(strip.right)
            own = (start + n - 1) // B_n - start // B_n + 1
            start += n
            for s in strip.products:
                for x, left in zip(s.inputs, (True, False), strict=True):
                    if x in done:
                        continue
                    done.add(x)
                    side, size, trips, again = (
                        (s.left, self.m, across, down) if left else (s.right, n, own, across)
                    )
                    for name in self._from_outside(self.ahead[x]) if self.ahead[x] else [x]:
                        has = part.has[name]
                        k = part.words(s.k) if has & s.k or not s.k else 1
                        yield name, batch * again * k * (size if has & side else trips)
            for name in self._from_outside(strip.behind):
                has = part.has[name]
                rows = self._along("left", self.left, has, across)
                yield name, batch * rows * self._along("right", strip.right, has, own)

    def _along(self, side: str, axes: Axes, has: Axes, tiles: np.ndarray) -> np.ndarray | int:
        """How often along a side what an epilogue reads is loaded."""
        if not has & axes:
            return tiles
        return self.part.words(has & axes if side == self.whole else axes)

    def _from_outside(self, operators: tuple[Operator, ...]) -> list[str]:
        read = dict.fromkeys(t.name for op in operators for t in op.reads)
        return [x for x in read if x not in self.part.written_tensors]

    # -- what is held, and the tiles ----------------------------------------------------------

    def _tiles(self, M: int) -> tuple[int, int]:
        m, n = self.m, self.n
        B_m = _heights(m) if self.whole != "left" else np.array([m])
        best: tuple[int, int, int] | None = None
        for forms in self._occupancies():
            room = np.full(len(B_m), n)
            for one, by_m, by_n, by_tile in forms:
                left, each = M - one - by_m * B_m, by_n + by_tile * B_m
                most = np.where(each > 0, left // np.maximum(each, 1), n)
                room = np.minimum(room, np.where(left < 0, 0, most))
            fits = room >= (n if self.whole == "right" else 1)
            if not fits.any():
                continue
            tall, wide = B_m[fits], room[fits]
            words = sum((w for _, w in self._loads(tall, wide)), np.zeros(len(tall), np.int64))
            k = int(np.argmin(words))
            if best is None or words[k] < best[0]:
                best = int(words[k]), int(tall[k]), int(wide[k])
        if best is None:
            raise Illegal(f"no tile of its output fits in M = {M:,} words with what is beside it")
        return best[1], best[2]

    def _occupancies(self) -> Iterator[list[Form]]:
        """What is held at each step, for each order of the loops over an output tile."""
        part = self.part
        behind = [op for strip in self.strips for op in strip.behind]
        sums = sum(
            part.tensors[t.name].words
            for op in behind
            if part.sums(op)
            for t in op.writes
            if t.name in part.stored
        )
        always = sums * ONE + max(len(s.products) for s in self.strips) * TILE
        reading = list(self._reading())
        orders = {"left": ("right",), "right": ("left",), "": ("left", "right")}[self.whole]
        for outer in orders:
            running = [f for strip in self.strips for f in self._epilogue(strip, outer)]
            yield [always + form for form in (*reading, *running)]

    def _epilogue(self, strip: Strip, outer: str) -> list[Form]:
        """Pieces of the operators after, where a loop over one side of the tile is outermost."""
        part, gone = self.part, set(strip.outputs)
        gone |= {t.name for op in strip.behind if part.sums(op) for t in op.writes}
        sides = {"left": (self.left, LEFT), "right": (strip.right, RIGHT)}
        axes, _ = sides[outer]
        inner, size = sides["right" if outer == "left" else "left"]
        always, passing = NONE, dict[str, Form]()
        for name in dict.fromkeys(t.name for op in strip.behind for t in op.tensors):
            if name in gone:
                continue
            has = part.has[name]
            if self.whole:
                piece = part.words(has & inner) * ONE
                if has & axes or not axes:
                    passing[name] = piece
                else:
                    always = always + piece
            elif (has & axes or not axes) and (has & inner or not inner):
                passing[name] = ONE
            else:
                always = always + (ONE if has & axes or not has & inner else size)
        return [always + form for form in live(strip.behind, passing, passing.__getitem__)]

    def _reading(self) -> Iterator[Form]:
        """Tiles of the inputs of products that run in lockstep, as one after the other is made."""
        for lane in self._lanes():
            inputs = {
                x: (s, left) for s in lane for x, left in zip(s.inputs, (True, False), strict=True)
            }
            there = NONE
            for s, left in inputs.values():
                there = there + self._staying(s, left)
            columns = 0
            for x in sorted(inputs, key=lambda x: not self.ahead[x]):
                s, left = inputs[x]
                if left or not columns or len(self.strips) == 1:
                    there = there + (LEFT if left else RIGHT)
                    columns += not left
                yield there
                for form in self._prologue_forms(x, s, left):
                    yield there + form

    def _lanes(self) -> list[list[Sides]]:
        """Products that share an input run in lockstep; the others one after another."""
        lanes: list[list[Sides]] = []
        for s in self.all:
            mine = [lane for lane in lanes if any(set(s.inputs) & set(o.inputs) for o in lane)]
            lanes = [lane for lane in lanes if lane not in mine]
            lanes.append([*(o for lane in mine for o in lane), s])
        return lanes

    def _staying(self, s: Sides, left: bool) -> Form:
        """What a prologue reads that lacks the axes of k."""
        side, size = (s.left, LEFT) if left else (s.right, RIGHT)
        found = NONE
        for name in self._from_outside(self.ahead[s.inputs[not left]]):
            has = self.part.has[name]
            if not has & s.k and s.k:
                found = found + (size if has & side else ONE)
        return found

    def _prologue_forms(self, x: str, s: Sides, left: bool) -> list[Form]:
        """Pieces of a prologue, a word at a time."""
        side = s.left if left else s.right
        always, passing = NONE, dict[str, Form]()
        for name in dict.fromkeys(t.name for op in self.ahead[x] for t in op.tensors):
            has = self.part.has[name]
            if name == x or (name not in self.part.written_tensors and not has & s.k and s.k):
                continue
            if has & side or not side:
                passing[name] = ONE
            else:
                always = always + ONE
        return [always + form for form in live(self.ahead[x], passing, passing.__getitem__)]
