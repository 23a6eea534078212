"""The notation of a listing that only some schedules need: masks, stacks, pages, splits.

`show` and the lab print it.  A new sign is a ``yield`` in `_edges`, `_indices` or
`_sizes`, and a row in `SIGNS` of ``tests/core/test_options.py``, which asks for each sign of every
form; few of them are in the listings of ``tests/golden``.
"""

from __future__ import annotations

from collections.abc import Iterator

from iosim.core.problem import LIMITS_SAY
from iosim.core.program.block_masks import NUMBERS
from iosim.core.program.index import (
    Affine,
    At,
    Index,
    Number,
    Single,
    Span,
    Stack,
    Within,
    unstacked,
)
from iosim.core.program.ir import Alloc, Load, Loop, Node, Op, Program, Store
from iosim.core.program.ops import OPS

Line = tuple[str, str]
_EDGE = {"start": "the first position of tile {}", "stop": "the position after the last of tile {}"}


def legend(program: Program, listing: str) -> list[Line]:
    """Signs and their meanings, of those that occur in a listing; none for a dense schedule.

    Of several symbols of a kind, the first one stands for all.

    >>> from iosim import algorithm, show
    >>> program = algorithm("paged").program
    >>> for sign, meaning in legend(program, show(program)):
    ...     print(sign, "-", meaning)
    group×i - rows of every position of group, below each other
    #j - the number of tile j in its loop, from 0
    @t - the position that the word t says
    0:|j| - tile j, counted from its own start
    blocks - ⌈N_k/page⌉, a position for each tile of N_k by page
    """
    found: dict[str, Line] = {}
    for kind, sign, meaning in (*_edges(program), *_indices(program), *_sizes(program)):
        if sign in listing:
            found.setdefault(kind, (sign, meaning))
    return list(found.values())


def _edges(program: Program) -> Iterator[tuple[str, str, str]]:
    """What follows outer tiles: bounds, numbers that operations take, lengths and sums."""
    every = [x for node in program.nodes for x in _affine(node)]
    for end in ("start", "stop"):
        for edge in (edge for x in every for edge in sorted(x.edges, key=str) if edge.end == end):
            yield end, str(edge), _EDGE[end].format(edge.tile)
    for node in program.nodes:
        if isinstance(node, Op) and OPS[node.name].placed:
            yield "element", "s[r, c]", "the score in row r and column c of its tiles, from 0"
        for span in _spans(node):
            if not span.edges:
                continue
            to = f"positions from {span.start} on, before {span.stop}"
            if span.within is None:
                yield "span", f"[{span}]", f"{to}; cut at the ends of {span.axis}"
            else:
                low, high = span.within
                yield "span", f"{span.start}:{span.stop}", to
                yield (
                    "within",
                    f"within {low}:{high}",
                    f"cut to {low}:{high}, not at the axis's ends",
                )
            yield "length", f"|{span}|", "how many positions that are"
    for node in program.nodes:
        if isinstance(node, Loop):
            tile = node.tile
            yield "sum", f"Σ_{tile}", f"the sum over all tiles {tile} of the product that follows"


def _affine(node: Node) -> list[Affine]:
    """Every bound, and every number that an operation takes."""
    scalars = node.scalars if isinstance(node, Op) else ()
    return [*(x for span in _spans(node) for x in span.bounds), *scalars]


def _spans(node: Node) -> list[Span]:
    match node:
        case Loop():
            return [node.span]
        case Load() | Store() | Alloc():
            return [x for x in unstacked(node.index) if isinstance(x, Span)]
        case _:
            return []


def _indices(program: Program) -> Iterator[tuple[str, str, str]]:
    """What a position on an axis may be other than a tile, a span or a point."""
    for node in program.nodes:
        for x in node.index if isinstance(node, (Load, Store, Alloc)) else ():
            yield from _index(x)
        if isinstance(node, Loop) and node.marks is not None:
            name = node.marks.name
            pair = f"{name}[{node.marks.rows}, {node.tile}]"
            yield "marks", f"where {pair}", "only the pairs of tiles that the block mask marks"
            says = (
                "all marked pairs",
                "those in its last row",
                "those in its last column",
                "1 if the last pair of all is marked",
            )
            for number, meaning in zip(NUMBERS, says, strict=True):
                yield number, f"{name}_{number}", meaning


def _index(x: Index) -> Iterator[tuple[str, str, str]]:
    match x:
        case Stack():
            first, *_ = x.parts
            yield "stack", str(x), f"rows of every position of {_name(first)}, below each other"
        case Number():
            yield "number", str(x), f"the number of tile {x.tile} in its loop, from 0"
        case At():
            yield "at", str(x), f"the position that the word {x.buffer} says"
        case Within():
            yield "own", str(x), f"tile {x.tile}, counted from its own start"


def _name(x: Single) -> str:
    return x.axis if isinstance(x, Span) else str(x)


def _sizes(program: Program) -> Iterator[tuple[str, str, str]]:
    """Sizes that are not axes of the problem, or follow from others."""
    for name in program.limits:
        if name in LIMITS_SAY:
            yield name, name, LIMITS_SAY[name]
    for x in program.derived:
        yield x.name, x.name, f"⌈{x.of}/{x.step}⌉, a position for each tile of {x.of} by {x.step}"
