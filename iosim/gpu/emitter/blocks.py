"""Tiles as Triton block values: their power-of-two sides, masks, and addresses, as text.

Triton's blocks have sides that are powers of two, and a tile may have any: a tile of 5 rows is a
block of 8, and a mask hides 3.  Both targets (`nest`; `hopper` with `roles` and `computing`) write
loads and stores with `Blocks`.  How the text is written may change; which words it moves may not,
since the model counts them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from iosim.core.program.index import Dim, Index, Single, Span, Stack, Tile, dim_of, dims, unstacked
from iosim.core.program.ir import Alloc, Load, Loop, Store, nodes
from iosim.core.program.space import named_tiles
from iosim.core.program.walk import Instance
from iosim.gpu.emitter import layout
from iosim.gpu.emitter.names import Names
from iosim.gpu.emitter.places import Places, last_part
from iosim.gpu.errors import EmitError

LEAST_SIDE = 16  # tl.dot takes powers of two from here on
LARGEST_BLOCK = 2**20  # elements: Triton's own limit
VECTOR = 4  # words of fp32 that one thread moves at once


def side(extent: int) -> int:
    """The power of two, at least 16, that holds `extent`."""
    return max(LEAST_SIDE, 1 << (extent - 1).bit_length())


def add(left: str, right: str) -> str:
    """``left + right`` without zeros."""
    return left if right == "0" else right if left == "0" else f"{left} + {right}"


class Blocks:
    """What a kernel needs to say about the tiles that are open in it.

    Attributes:
        header: name → line, the index vectors and masks that all of the kernel shares.
        wide: whether the kernel loads tiles of a tensor that is fp32 in any case.
        where: where the tiles lie that are open.
        by_word, vectors: shapes of blocks of which some move word by word, or as whole vectors
            (`iosim.gpu.emitter.offset`).
    """

    def __init__(self, instance: Instance, names: Names | None = None, wide: bool = False) -> None:
        self.instance = instance
        self.header: dict[str, str] = {}
        self.wide = wide
        self._full: set[Tile] = set()  # open tiles that are known not to be short
        self.names = names or Names(instance.program, ())
        self.where = Places(instance, self.names)
        self.by_word: frozenset[str] = frozenset()
        self.vectors: frozenset[str] = frozenset()

    def place(self, own: tuple[Dim, ...], say: Callable[[str], None]) -> None:
        """Find where the spans of a new buffer lie, of those that follow a tile."""
        for x in unstacked(own):
            if not isinstance(x, Span) or not x.edges:
                continue
            name = self.where.say_span(x, say)
            if x in own and self._masked(x):
                ok = self._inside(x, self.side(x), self._iota(self.side(x)))
                say(f"{self.names.make_mask(x, name, self.side(x))} = {ok}")

    def open(
        self,
        loop: Loop,
        at: str,
        say: Callable[[str], None],
        stop: str | None = None,
        full: bool = False,
        loose: bool = False,
    ) -> None:
        """Enter a loop whose tile starts at `at`; a tile that may be ragged gets a mask.

        Args:
            stop: the position after the loop's last; by default it is a number.
            full: the tile is known not to be short here.
            loose: only the kernel knows where it ends, before `stop`.
        """
        tile = loop.tile
        self.where.enter(loop, at, stop, loose)
        (self._full.add if full else self._full.discard)(tile)
        if tile.point or tile in self._only_stacked or not self._masked(tile):
            return
        block = self.side(tile)
        name = self.names.make_mask(tile.var, self.names.var(tile), block)
        say(f"{name} = {self._inside(tile, block, self._iota(block))}")

    @functools.cached_property
    def _only_stacked(self) -> frozenset[Tile]:
        """Tiles that are parts of stacks and no dimension of their own: each has its own masks."""
        body = self.instance.program.body
        kinds = (Load, Store, Alloc)
        index = [x for node in nodes(body) if isinstance(node, kinds) for x in node.index]
        stacked = {p for x in index if isinstance(x, Stack) for p in x.parts}
        return frozenset(x for x in stacked - set(index) if isinstance(x, Tile))

    def short(self, loop: Loop) -> bool:
        """Whether the last tile of a loop may be short, and no other is masked."""
        self.where.loops[loop.tile] = loop
        self._full.discard(loop.tile)
        self.where.loose.discard(loop.tile)
        ragged = not loop.tile.point and self._masked(loop.tile)
        return ragged and self.side(loop.tile) == self.where.step(loop)

    def side(self, x: Dim) -> int:
        """The side of the block that holds an index's positions."""
        return math.prod(self._sides(x)) if isinstance(x, Stack) else side(self.where.longest(x))

    @functools.cached_property
    def follows(self) -> bool:
        """Whether the program has spans that follow a tile."""
        return bool(named_tiles(self.instance.program))

    def _sides(self, x: Stack) -> list[int]:
        """Of each part of a stack the power of two that holds it; their product is 16 or more."""
        found = [1 << max(0, self.where.longest(part) - 1).bit_length() for part in x.parts]
        found[0] = max(found[0], LEAST_SIDE // math.prod(found[1:]))
        return found

    def places(self, x: Dim, run: int = 0) -> list[tuple[Single, int, str]]:
        """The axes of a dimension: of each its index, its side, and its positions as text.

        Args:
            run: as for `_iota`.
        """
        iota = self._iota(self.side(x), run)
        if not isinstance(x, Stack):
            return [(x, self.side(x), iota)]
        sides = self._sides(x)
        found: list[tuple[Single, int, str]] = []
        for k, (part, n) in enumerate(zip(x.parts, sides, strict=True)):
            below = math.prod(sides[k + 1 :])
            text = iota if below == 1 else f"{iota} // {below}"
            text += f" % {n}" if k else ""
            found.append((part, n, f"({text})" if " " in text else text))
        return found

    def position(self, x: Dim) -> str:
        """Positions along the last axis of a dimension, from its start on, as text."""
        return self.places(x)[-1][-1]

    def shape(self, own: tuple[Dim, ...]) -> str:
        """The block's shape, as Python text."""
        return f"[{', '.join(str(self.side(x)) for x in own)}]"

    def size(self, buffer: str, own: tuple[Dim, ...]) -> int:
        """Elements of a buffer's block; raises EmitError if Triton has no such block."""
        size = 1
        for x in own:
            size *= self.side(x)
        if len(own) > 2 or size > LARGEST_BLOCK:
            raise EmitError(
                f"buffer {buffer} is a block of {size} words in {len(own)} dimensions, and a "
                f"kernel takes at most {LARGEST_BLOCK} in 2: choose smaller tiles or "
                "stationary parts"
            )
        return size

    def words(self, own: tuple[Dim, ...]) -> str:
        """The words of a block that are not masked."""
        sides = [self.side(x) for x in own]
        if self.follows:
            found = [f"positions({self._in(x)})" for x in own if self._masked(x)]
            whole = math.prod(n for x, n in zip(own, sides, strict=True) if not self._masked(x))
            return " * ".join([*found, str(whole)] if whole > 1 or not found else found)
        rows, columns = [*([1] * (2 - len(sides))), *sides]
        ok = self.mask(own)
        ok = f"{ok}[None, :]" if ok and len(own) == 1 else ok
        return f"unmasked({ok}, {rows}, {columns})" if ok else str(rows * columns)

    def mask(self, own: tuple[Dim, ...]) -> str:
        """The mask of a block, or an empty text where nothing is masked."""
        found = []
        for k, x in enumerate(own):
            if self._masked(x):
                ok = self._in(x)
                found.append(ok if len(own) < 2 else f"{ok}[{'None, :' if k else ':, None'}]")
        return " & ".join(found)

    def near(self, own: tuple[Dim, ...], ptr: str) -> str:
        """A mask of a load up to the end of a sector, where it follows a tile along its last axis
        or its edge is odd next to blocks of its shape that move as whole vectors.

        A mask that may end anywhere makes Triton move single words, and the hardware counts a
        sector for each; up to the words of a sector, of the type that `ptr` points to, it moves
        vectors.  Rows are padded, so that this stays inside; what lies beyond must be cleared.
        Empty where `mask` will do.
        """
        x = own[-1] if len(own) == 2 else None
        if not isinstance(x, Span | Tile) or not self._masked(x) or self._by_word(own):
            return ""
        odd = self.shape(own) in self.vectors and self.where.at_multiples(x, layout.PAD)
        if not (odd and self.odd(x)) and not (self.follows and isinstance(x, Tile)):
            return ""
        iota = self._iota(self.side(x))
        if isinstance(x, Span):
            ok = f"{iota} < sector_end({self.where.longest(x)}, {ptr})"
        else:
            step = self.where.step(self.where.loops[x])
            end, most = (f"sector_end({at}, {ptr})" for at in (self.where.last[x], step))
            ok = f"{add(self._aligned(x), iota)} < {end}"
            if self.side(x) != step:
                ok = f"({iota} < {most}) & ({ok})"
        rows = self.mask(own[:1])
        return f"({ok})[None, :]" + (f" & {rows}[:, None]" if rows else "")

    def offset(self, x: Dim) -> bool:
        """Whether a part of the last axis may start within a sector, in a program that has spans
        that follow a tile; in others such parts move as the compiler finds best."""
        return self.follows and not self.where.at_multiples(last_part(x), layout.PAD)

    def _by_word(self, own: tuple[Dim, ...]) -> bool:
        return len(own) == 2 and (self.offset(own[-1]) or self.shape(own) in self.by_word)

    def _aligned(self, x: Tile) -> str:
        """Where a tile starts, so that it shows to be at a sector, where all tiles of its loop are:
        the compiler cannot know that a loop which goes on after another begins there.
        """
        at, follows = self.where.at[x], bool(self.where.loops[x].span.edges)
        known = follows and self.where.at_multiples(x, layout.PAD)
        whole = f"{at} // {layout.PAD} * {layout.PAD}"  # a hint would be lost on a loop variable
        return whole if known and not at.isdigit() else at

    def pointer(self, node: Load | Store) -> str:
        """``tensor_ptr + where the tile starts + offsets within it``."""
        tensor = self.instance.program.tensor(node.tensor)
        far = layout.allocation(tensor, self.instance) >= 2**31
        base = self.names.ptr(node.tensor)
        inner: list[str] = []
        own = dims(node.index)
        steps = iter(layout.strides(tensor, self.instance))
        axis = 0
        near = isinstance(node, Load) and bool(self.near(own, base))
        for x in node.index:
            along = [next(steps) for _ in unstacked((x,))]
            for part, stride in zip(unstacked((x,)), along, strict=True):
                last = x is node.index[-1] and isinstance(part, Tile)
                at = self._aligned(part) if last else self.where.start(part)  # type: ignore[arg-type]
                if at.isdigit():
                    base = add(base, str(int(at) * stride))
                else:
                    at = f"tl.cast({at}, tl.int64)" if far else at
                    base = add(base, at if stride == 1 else f"{at} * {stride}")
            if (dim := dim_of(x)) is None:
                continue
            run = self._run(node, dim) if x is node.index[-1] and not near else 0
            for (_, block, iota), stride in zip(self.places(dim, run), along, strict=True):
                if block == 1:
                    continue
                # A step from head to head may be far, unlike those within a tile.
                iota = f"tl.cast({iota}, tl.int64)" if far and isinstance(dim, Stack) else iota
                at = iota if len(own) < 2 else f"{iota}[{'None, :' if axis else ':, None'}]"
                inner.append(at if stride == 1 else f"{at} * {stride}")
            axis += 1
        if not inner:
            return base
        return f"{base} + ({' + '.join(inner)})" if len(inner) > 1 else f"{base} + {inner[0]}"

    def _in(self, x: Dim) -> str:
        """The mask along an index."""
        if isinstance(x, Span):
            return self._span_mask(x)
        if isinstance(x, Tile):
            return self.names.mask(x.var, self.names.var(x))
        return self.names.mask(("stack", self._name(x)), self._name(x))

    def say_masks(self, own: tuple[Index, ...], say: Callable[[str], None]) -> None:
        """Compute the masks of stacks, which `mask` names, from tiles that are open."""
        for x in own:
            if isinstance(x, Stack) and self._masked(x):
                each = [self._inside(*at) for at in self.places(x) if self._cut(*at[:2])]
                ok = " & ".join(f"({ok})" for ok in each) if len(each) > 1 else each[0]
                wanted = self._name(x)
                say(f"{self.names.make_mask(('stack', wanted), wanted, self.side(x))} = {ok}")

    def _inside(self, x: Single, block: int, iota: str) -> str:
        """Which positions `iota` of a block belong to an index, as text."""
        if isinstance(x, Span):
            if not x.edges:
                return f"{iota} < {self.where.longest(x)}"
            start, stop = self.where.placed[x]
            return f"{add(start, iota)} < {stop}"
        step = self.where.step(self.where.loops[x])
        ok = f"{add(self.where.at[x], iota)} < {self.where.last[x]}"
        alone = block == step or self.where.trips(self.where.loops[x]) == 1
        return ok if alone else f"({iota} < {step}) & ({ok})"

    def _masked(self, x: Dim) -> bool:
        if isinstance(x, Stack):
            return any(map(self._cut, x.parts, self._sides(x)))
        return self._cut(x, self.side(x))

    def _cut(self, x: Single, block: int) -> bool:
        """Whether a block of this side has positions beyond an index."""
        if isinstance(x, Span):
            start, stop = self.where.cases(x)
            return bool((stop - start != block).any())
        step = self.where.step(self.where.loops[x])
        if x in self._full:
            return block != step
        if x in self.where.loose:
            return True
        # Only the last tile of a loop can be shorter than the first.
        start, stop = self.where.cases(self.where.loops[x])
        n = (stop - start)[stop > start]
        return bool(((np.minimum(step, n) != block) | (n > step) & (n % step != 0)).any())

    def _span_mask(self, x: Span) -> str:
        if x.edges:
            return self.names.mask(x, self.names.span(x))
        wanted, block = self._name(x), self.side(x)
        name = self.names.mask(("span", wanted), wanted)
        self.header.setdefault(name, f"{name} = {self._inside(x, block, self._iota(block))}")
        return name

    def _name(self, x: Dim) -> str:
        """What the mask of an index is called, without its ending."""
        if isinstance(x, Stack):
            return "_".join(map(self._name, x.parts))
        if isinstance(x, Tile):
            return x.var
        if x.edges:
            return self.names.span(x)
        start, stop = self.instance.span(x)
        return x.axis if x.is_entire_axis else f"{x.axis}_{start}_{stop}"

    def _run(self, node: Load | Store, x: Dim) -> int:
        """How many neighbors along its last dimension a transfer moves at once; see `_iota`.

        The compiler gives all accesses of one shape one layout, that of the widest.
        """
        own = dims(node.index)
        vector = isinstance(node, Load) and len(own) == 1 and not isinstance(x, Stack)
        if (vector and self.follows) or self.odd(x) or self._by_word(own):
            return 1  # whole vectors move as masked ones do
        beside = self.wide and len(own) == 2
        return VECTOR if beside and not self.instance.program.tensor(node.tensor).wide else 0

    def odd(self, x: Dim) -> bool:
        """Whether a masked edge of a dimension cuts a 16-byte vector of the narrowest type, or may
        do so for all that the compiler knows: it cannot see where an edge lies that follows a tile.
        """
        last = last_part(x)
        of = last if isinstance(last, Span) else self.where.loops[last]
        if isinstance(of, Loop) and of.tile in self.where.loose:
            return True
        follows = last is x and (of.span if isinstance(of, Loop) else of).edges
        cut = bool(follows) or bool((self.where.cases(of)[1] % 8 != 0).any())
        return self._masked(x) and cut

    def _iota(self, block: int, run: int = 0) -> str:
        """Positions in a block, as text.

        Args:
            run: how many neighbors the compiler may move at once; 0: as many as it can.
        """
        name = {0: "to", 1: "single", VECTOR: "four"}[run]
        # A vector load that crosses a ragged edge is split into single words, one request each;
        # knowing that nothing is aligned, the compiler lets neighbors read neighboring words.
        # Eight words of fp16 next to eight of fp32 make two requests of each sector of the latter.
        why = {0: "", 1: "  # ragged: word by word", VECTOR: "  # as many as fp32 has in a vector"}
        text = f"tl.arange(0, {block})"
        text = f"tl.multiple_of({text}, {run})" if run else text
        self.header.setdefault(f"{name}_{block}", f"{name}_{block} = {text}{why[run]}")
        return f"{name}_{block}"
