"""Tiles as Triton block values: their power-of-two sides, masks, and addresses, as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from iosim.errors import IosimError
from iosim.gpu.emitter import layout
from iosim.program import space
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
        self._found: dict[tuple[object, ...], list[tuple[int, int]]] = {}

    def trips(self, loop: Loop) -> int:
        """Iterations of a loop; of one that follows an outer tile, the most."""
        return max(-(-(stop - start) // self.step(loop)) for start, stop in self._cases(loop))

    def step(self, loop: Loop) -> int:
        """Positions per iteration."""
        return space.step(loop, self.instance.env)

    def _cases(self, x: Span | Loop) -> list[tuple[int, int]]:
        """Where a span lies: once, or in every iteration of the loops that it follows."""
        loops = {**self.loops, x.tile: x} if isinstance(x, Loop) else self.loops
        span = x.span if isinstance(x, Loop) else x
        key = (span, *(id(loops[edge.tile]) for edge in sorted(span.edges, key=str)))
        if key not in self._found:
            found = set(space.cases(span, loops, self.instance.env))
            self._found[key] = sorted(found) or [(0, 0)]
        return self._found[key]

    def bounds(self, loop: Loop, say: Callable[[str], None]) -> tuple[str, str]:
        """The first position of a loop and the one after its last, as text."""
        if not loop.span.edges:
            first, last = self.instance.span(loop.span)
            return str(first), str(last)
        extent, var = self.instance.env[loop.span.axis], loop.tile.var
        say(f"{var}_start = min(max({self.number(loop.span.start)}, 0), {extent})")
        say(f"{var}_stop = min({self.number(loop.span.stop)}, {extent})")
        return f"{var}_start", f"{var}_stop"

    def open(
        self, loop: Loop, at: str, say: Callable[[str], None], stop: str | None = None
    ) -> None:
        """Enter a loop whose tile starts at `at`; a tile that may be ragged gets a mask.

        Args:
            stop: the position after the loop's last; by default it is a number.
        """
        tile = loop.tile
        self._at[tile] = at
        self.loops[tile] = loop
        if tile.point or not self._masked(tile):
            return
        last = str(self.instance.span(loop.span)[1]) if stop is None else stop
        iota, step = self._iota(self.side(tile)), self.step(loop)
        ok = f"{add(at, iota)} < {last}"
        if self.side(tile) != step and self.trips(loop) > 1:
            ok = f"({iota} < {step}) & ({ok})"
        say(f"{tile.var}_in = {ok}")

    def number(self, value: Affine) -> str:
        """An affine expression in the open tiles, as text."""
        found = str(value.const + sum(c * self.instance.env[name] for name, c in value.sizes))
        for edge in sorted(value.edges, key=str):
            loop, at = self.loops[edge.tile], self._at[edge.tile]
            if edge.end == "stop":
                fixed = not loop.span.edges
                last = self._cases(loop)[0][1] if fixed else f"{loop.tile.var}_stop"
                at = f"min({at} + {self.step(loop)}, {last})"
            moves = dict(value.terms)[edge]
            found += f" + {moves} * ({at})" if moves != 1 else f" + {at}"
        return f"({found})"

    def side(self, x: Index) -> int:
        """The side of the block that holds an index's positions."""
        match x:
            case Span():
                start, stop = self.instance.span(x)
                return side(stop - start)
            case Tile():
                longest = max(stop - start for start, stop in self._cases(self.loops[x]))
                return side(min(longest, self.step(self.loops[x])))
            case _:
                assert_never(x)

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
                ok = self._in(x)
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
            at = self._start(x)
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

    def _start(self, x: Index) -> str:
        """Where an index starts: a number or a variable."""
        match x:
            case Span():
                return str(self.instance.span(x)[0])
            case Tile():
                return self._at[x]
            case _:
                assert_never(x)

    def _in(self, x: Index) -> str:
        """The name of the mask along an index."""
        match x:
            case Span():
                return self._span_mask(x)
            case Tile():
                return f"{x.var}_in"
            case _:
                assert_never(x)

    def _masked(self, x: Index) -> bool:
        match x:
            case Span():
                start, stop = self.instance.span(x)
                return self.side(x) != stop - start
            case Tile():
                # Only the last tile of a loop can be shorter than the first.
                step, block = self.step(self.loops[x]), self.side(x)
                lengths = [stop - start for start, stop in self._cases(self.loops[x])]
                return any(n and (min(step, n) != block or n % step != 0) for n in lengths)
            case _:
                assert_never(x)

    def _span_mask(self, x: Span) -> str:
        start, stop = self.instance.span(x)
        name = f"{x.axis}_in" if x.whole else f"{x.axis}_{start}_{stop}_in"
        self.header.setdefault(name, f"{name} = {self._iota(self.side(x))} < {stop - start}")
        return name

    def _odd(self, x: Index) -> bool:
        """Whether a masked edge cuts a 16-byte vector of the narrowest type."""
        stops = (stop for _, stop in self._cases(x if isinstance(x, Span) else self.loops[x]))
        return self._masked(x) and any(stop % 8 for stop in stops)

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
