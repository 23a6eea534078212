"""The one place that resolves the names of a program: axes, tile parameters, spans and loops.

`bind` asks for one instance, `iosim.core.counting.numbers` for columns of many.  Both ask here, so
that an instance and a row of a column are clipped and refused alike.  Whatever runs over tiles asks
`resolved` where a span lies and `tiles` what a loop's iterations cover.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from iosim.base.rows import Values
from iosim.core.problem import BlockMask
from iosim.core.program.block_masks import masks, numbers
from iosim.core.program.index import Indices, Span, Tile, dims, unstacked
from iosim.core.program.ir import Alloc, Load, Loop, Op, Program, Store


@functools.lru_cache(maxsize=256)
def axes(program: Program) -> tuple[str, ...]:
    """Every axis of the program's tensors and loops, sorted; without derived axes."""
    found = {axis for tensor in program.tensors for axis in tensor.axes}
    found |= {node.span.axis for node in program.nodes if isinstance(node, Loop)}
    found |= {x for derived in program.derived for x in (derived.of, derived.step)}
    found -= {derived.name for derived in program.derived}
    return tuple(sorted(found - {p.name for p in program.params}))


@functools.lru_cache(maxsize=256)
def leasts(program: Program) -> dict[str, int]:
    """The least value of every axis, limit, tile parameter and number of a block mask."""
    least = dict.fromkeys(axes(program), 1) | dict.fromkeys(program.limits, 0)
    least |= dict.fromkeys(numbers(program), 0)
    return least | {p.name: p.least for p in program.params}


@functools.lru_cache(maxsize=256)
def spans(program: Program) -> tuple[Span, ...]:
    """Every part of an axis that a program names, once each."""
    found: dict[Span, None] = {}
    for node in program.nodes:
        if isinstance(node, Loop):
            found[node.span] = None
        elif isinstance(node, (Load, Store, Alloc)):
            found |= dict.fromkeys(x for x in unstacked(node.index) if isinstance(x, Span))
    return tuple(s for s in found if not s.is_entire_axis)


@functools.lru_cache(maxsize=256)
def named_tiles(program: Program) -> frozenset[Tile]:
    """The tiles whose edges some span names: iterations of their loops may differ in shape."""
    return frozenset(edge.tile for span in spans(program) for edge in span.edges)


@functools.lru_cache(maxsize=256)
def ragged_tiles(program: Program) -> frozenset[Tile]:
    """The tiles whose edges bound anything but loops over all of them and parts of them.

    Iterations of other loops differ in shape only where their own tiles do: a loop over all of a
    tile is as long as the tile is, and its parts are at the same places in each.  Where a tile is
    one of these, so is each that it is inside of, since it starts where that does.
    """
    every = list(program.nodes)
    made = [(n.buffer, dims(n.index)) for n in every if isinstance(n, (Load, Alloc))]
    found: set[Tile] = set()
    for node in every:
        index: Indices = ()
        if isinstance(node, Loop) and node.tile.of is None:
            index = (node.span,)
        elif isinstance(node, (Load, Store, Alloc)):
            index = node.index
        elif isinstance(node, Op):
            cut = [(x.buffer, x.part.of) for x in node.operands if x.part and x.part.of]
            found.update(of for name, of in cut for x, own in made if x == name and of not in own)
        for span in (x for x in unstacked(index) if isinstance(x, Span)):
            found.update(edge.tile for edge in span.edges)
    outer = found
    while outer := {tile.of for tile in outer if tile.of is not None}:
        found |= outer
    return frozenset(found)


def fixed_spans(program: Program) -> tuple[Span, ...]:
    """Those of `spans` that name no edge of a tile, so that binding decides where they lie."""
    return tuple(s for s in spans(program) if not s.edges)


# Name → number; a `Name` is a string, or the edge of an open tile.
Env: TypeAlias = Mapping[Any, int]
Range: TypeAlias = tuple[int, int]


def resolved(span: Span, env: Env) -> Range:
    """The concrete ``(start, stop)`` of a span.

    Args:
        env: name → number; the edges of open tiles too (`inside`), where the span names them.
    """
    return placed(span, env, min, max)


def placed(
    span: Span,
    env: Mapping[Any, Any],
    smaller: Callable[[Any, Any], Any],
    larger: Callable[[Any, Any], Any],
) -> tuple[Any, Any]:
    """`resolved`, of numbers or arrays, of which `smaller` and `larger` give the ends of two."""
    start, stop = span.start.at(env), span.stop.at(env)
    if not span.edges:
        return start, stop
    low, high = allowed(span, env, smaller, larger)
    start = smaller(larger(start, low), high)
    return start, larger(start, smaller(stop, high))


def allowed(
    span: Span,
    env: Mapping[Any, Any],
    smaller: Callable[[Any, Any], Any] = min,
    larger: Callable[[Any, Any], Any] = max,
) -> tuple[Any, Any]:
    """Where a span that names edges may lie: in its axis, as far as that is `within`."""
    extent = env[span.axis]
    if span.within is None:
        return 0, extent
    low, high = (bound.at(env) for bound in span.within)
    low = smaller(larger(low, 0), extent)
    return low, larger(low, smaller(high, extent))


def step(loop: Loop, env: Env) -> int:
    """How far an iteration advances; a loop without a step visits single positions."""
    return 1 if loop.step is None else env[loop.step]


def trips(loop: Loop, env: Env) -> int:
    """How many iterations a loop has."""
    start, stop = resolved(loop.span, env)
    return -(-(stop - start) // step(loop, env))


def tiles(loop: Loop, env: Env) -> Iterator[Range]:
    """The range that each iteration of a loop covers; the last one may be short."""
    start, stop = resolved(loop.span, env)
    by = step(loop, env)
    for at in range(start, stop, by):
        yield at, min(at + by, stop)


def running(
    loop: Loop, env: Env, program: Program, marked: Mapping[str, BlockMask]
) -> Iterator[Range]:
    """`tiles` that run: all, or those that a block mask marks.

    Args:
        env: name → number, with the edges of open tiles.
        marked: the masks of an instance.
    """
    if loop.marks is None:
        yield from tiles(loop, env)
        return
    rows, _ = masks(program)[loop.marks.name]
    row = env[loop.marks.rows.edges[0]] // rows.by(env)
    for column, at in enumerate(tiles(loop, env)):
        if marked[loop.marks.name].marked(row, column):
            yield at


def cases(span: Span, loops: Mapping[Tile, Loop], env: Env) -> Iterator[Range]:
    """Where a span lies, in every iteration of the loops whose tiles it names.

    Args:
        loops: the loop of each of these tiles, and of the tiles that their spans name.
    """
    named = [tile for edge in span.edges if (tile := edge.tile) in loops]
    open_ = next((tile for tile in named if tile.edges[0] not in env), None)
    if open_ is None:
        yield resolved(span, env)
        return
    for start, stop in cases(loops[open_].span, loops, env):
        by = step(loops[open_], env)
        for at in range(start, stop, by):
            yield from cases(span, loops, inside(env, open_, (at, min(at + by, stop))))


def inside(env: Env, tile: Tile, at: Range) -> dict[Any, int]:
    """The environment inside an iteration of the loop of a tile."""
    start, stop = tile.edges
    return {**env, start: at[0], stop: at[1]}


def number(loop: Loop, env: Env) -> int:
    """Which iteration of its loop is open."""
    start, _ = resolved(loop.span, env)
    return (env[loop.tile.edges[0]] - start) // step(loop, env)


def covered(tile: Tile, env: Env) -> Range:
    """What an open tile covers."""
    start, stop = tile.edges
    return env[start], env[stop]


def clipped(program: Program, env: Values, smaller: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Tile parameters at most their axis.

    Args:
        env: name → number or array; parameters may be missing.
        smaller: the minimum of two of these.
    """
    return dict(env) | {
        p.name: smaller(env[p.name], p.most(env)) for p in program.params if p.name in env
    }


def misplaced(program: Program, env: Values, ever: Callable[[Any], Any]) -> Span | None:
    """The first fixed span that doesn't lie inside its axis, or None.

    Args:
        env: name → number or array; spans with a name that is missing are passed over.
        ever: whether a condition holds anywhere.
    """
    for span in fixed_spans(program):
        if {name for end in (span.start, span.stop) for name, _ in end.terms} <= env.keys():
            start, stop = span.start.at(env), span.stop.at(env)
            if ever((start < 0) | (start > stop) | (stop > env[span.axis])):
                return span
    return None
