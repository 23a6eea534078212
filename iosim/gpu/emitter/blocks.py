"""Tiles as Triton block values: their power-of-two sides, masks, and addresses, as text."""

from __future__ import annotations

from collections.abc import Callable

from iosim.errors import IosimError
from iosim.gpu.emitter import layout
from iosim.program.ir import Affine, Index, Load, Loop, Span, Store, Tile, dims
from iosim.program.walk import Instance

LEAST_SIDE = 16  # tl.dot takes powers of two from here on
LARGEST_BLOCK = 2**20  # elements: Triton's own limit


class EmitError(IosimError):
    """A program that has no GPU form as it stands."""


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
        loops: the loop of every tile that was opened.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.header: dict[str, str] = {}
        self.loops: dict[Tile, Loop] = {}
        self._at: dict[Tile, str] = {}  # where a tile starts: a variable or a number

    def trips(self, loop: Loop) -> int:
        """Iterations of a loop."""
        start, stop = self.instance.span(loop.span)
        return -(-(stop - start) // self.step(loop))

    def step(self, loop: Loop) -> int:
        """Positions per iteration."""
        return 1 if loop.step is None else self.instance.env[loop.step]

    def open(self, loop: Loop, at: str, say: Callable[[str], None]) -> None:
        """Enter a loop whose tile starts at `at`; a tile that may be ragged gets a mask."""
        tile = loop.tile
        self._at[tile] = at
        self.loops[tile] = loop
        if tile.point or not self._masked(tile):
            return
        _, stop = self.instance.span(loop.span)
        iota, step = self._iota(self.side(tile)), self.step(loop)
        ok = f"{add(at, iota)} < {stop}"
        if self.side(tile) != step and self.trips(loop) > 1:
            ok = f"({iota} < {step}) & ({ok})"
        say(f"{tile.var}_in = {ok}")

    def number(self, value: Affine) -> str:
        """An affine expression in the open tiles, as text."""
        found = str(value.const + sum(c * self.instance.env[name] for name, c in value.sizes))
        for edge in sorted(value.edges, key=str):
            loop, at = self.loops[edge.tile], self._at[edge.tile]
            if edge.end == "stop":
                _, stop = self.instance.span(loop.span)
                at = f"min({at} + {self.step(loop)}, {stop})"
            moves = dict(value.terms)[edge]
            found += f" + {moves} * ({at})" if moves != 1 else f" + {at}"
        return f"({found})"

    def side(self, x: Index) -> int:
        """The side of the block that holds an index's positions."""
        if isinstance(x, Span):
            start, stop = self.instance.span(x)
            return side(stop - start)
        start, stop = self.instance.span(self.loops[x].span)
        return side(min(stop - start, self.step(self.loops[x])))

    def shape(self, own: tuple[Index, ...]) -> str:
        """The block's shape, as Python text."""
        return f"[{', '.join(str(self.side(x)) for x in own)}]"

    def size(self, buffer: str, own: tuple[Index, ...]) -> int:
        """Elements of a buffer's block; raises EmitError if Triton has no such block."""
        size = 1
        for x in own:
            size *= self.side(x)
        if len(own) > 2 or size > LARGEST_BLOCK:
            raise EmitError(
                f"buffer {buffer} is a block of {size} words in {len(own)} dimensions, and a "
                f"kernel takes at most {LARGEST_BLOCK} in 2: choose smaller tiles or holds"
            )
        return size

    def mask(self, own: tuple[Index, ...]) -> str:
        """The mask of a block, or an empty text where nothing is masked."""
        found = []
        for k, x in enumerate(own):
            if self._masked(x):
                ok = f"{x.var}_in" if isinstance(x, Tile) else self._span_mask(x)
                found.append(ok if len(own) < 2 else f"{ok}[{'None, :' if k else ':, None'}]")
        return " & ".join(found)

    def pointer(self, node: Load | Store) -> str:
        """``tensor_ptr + where the tile starts + offsets within it``."""
        tensor = self.instance.program.tensor(node.tensor)
        far = layout.allocation(tensor, self.instance) >= 2**31
        base = f"{node.tensor}_ptr"
        inner: list[str] = []
        own = dims(node.index)
        steps = layout.strides(tensor, self.instance)
        for x, stride in zip(node.index, steps, strict=True):
            at = self._at[x] if isinstance(x, Tile) else str(self.instance.span(x)[0])
            if at.isdigit():
                base = add(base, str(int(at) * stride))
            else:
                at = f"tl.cast({at}, tl.int64)" if far else at
                base = add(base, at if stride == 1 else f"{at} * {stride}")
            if x in own:
                iota = self._iota(self.side(x), loose=x is node.index[-1] and self._odd(x))
                at = iota if len(own) < 2 else f"{iota}[{'None, :' if inner else ':, None'}]"
                inner.append(at if stride == 1 else f"{at} * {stride}")
        if not inner:
            return base
        return f"{base} + ({' + '.join(inner)})" if len(inner) > 1 else f"{base} + {inner[0]}"

    def _masked(self, x: Index) -> bool:
        if isinstance(x, Span):
            start, stop = self.instance.span(x)
            return self.side(x) != stop - start
        # Only the last tile of a loop can be shorter than the first.
        start, stop = self.instance.span(self.loops[x].span)
        step, block = self.step(self.loops[x]), self.side(x)
        return min(step, stop - start) != block or (stop - start) % step != 0

    def _span_mask(self, x: Span) -> str:
        start, stop = self.instance.span(x)
        name = f"{x.axis}_in" if x.whole else f"{x.axis}_{start}_{stop}_in"
        self.header.setdefault(name, f"{name} = {self._iota(self.side(x))} < {stop - start}")
        return name

    def _odd(self, x: Index) -> bool:
        """Whether a masked edge cuts a 16-byte vector of the narrowest type."""
        stop = self.instance.span(x if isinstance(x, Span) else self.loops[x].span)[1]
        return self._masked(x) and stop % 8 != 0

    def _iota(self, block: int, loose: bool = False) -> str:
        if not loose:
            self.header.setdefault(f"to_{block}", f"to_{block} = tl.arange(0, {block})")
            return f"to_{block}"
        # A vector load that crosses a ragged edge is split into single words, one request each;
        # told that nothing is aligned, the compiler lets neighbours read neighbouring words.
        self.header.setdefault(
            f"single_{block}",
            f"single_{block} = tl.multiple_of(tl.arange(0, {block}), 1)  # ragged: word by word",
        )
        return f"single_{block}"
