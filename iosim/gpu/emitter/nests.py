"""What is left of a bound program once everything empty is gone, and how its nests split.

A stationary part of W = 0 makes an empty buffer, and a loop over the rest of an axis that is wholly
stationary runs zero times: neither leaves a trace in a kernel.  An operation with an empty operand
stays, with
`NOTHING` in the operand's place, unless it sums over an empty extent or all that it writes is
empty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, assert_never

from iosim.core.counts import Key
from iosim.core.program.index import Affine, Dim, Edge, Span, Stack, Tile, cut, dims
from iosim.core.program.ir import Alloc, Free, Load, Loop, Node, Op, Program, Ref, Store, nodes
from iosim.core.program.ops import OPS
from iosim.core.program.space import Env, allowed, resolved, spans
from iosim.core.program.walk import Instance
from iosim.gpu.errors import EmitError

Body = tuple[Node, ...]
Shapes = Mapping[str, tuple[Dim, ...]]
Empty = Collection[Span]

NOTHING = Ref("")  # an operand without words


def nests(instance: Instance) -> tuple[Body, ...]:
    """The bodies of the kernels, one per top-level node, empties dropped.

    A buffer at the top level spans nests: then the whole program is one kernel.
    """
    program = instance.program
    if any(isinstance(n, Loop) and n.tile.of is not None for n in program.nodes):
        program = replace(program, body=undivided(instance, program.body, {}))
    return _nests(program, find_empty(program, instance.env))


@lru_cache(1024)
def _nests(program: Program, empty: frozenset[Span]) -> tuple[Body, ...]:
    body = prune(program.body, empty)
    if any(isinstance(n, (Load, Alloc)) for n in body):
        return (body,)
    moving = (Load, Store)
    return tuple((node,) for node in body if any(isinstance(n, moving) for n in nodes((node,))))


def one_kernel(instance: Instance, number: int) -> Instance:
    """The program of one of its kernels, numbered from 0 on.

    Raises EmitError where there are fewer.
    """
    bodies = nests(instance)
    if number >= len(bodies):
        raise EmitError(
            f"{instance.program.name} is {len(bodies)} kernels here, and number {number + 1} was "
            "asked for: check the sizes"
        )
    return replace(instance, program=replace(instance.program, body=bodies[number]))


def undivided(instance: Instance, body: Body, steps: Mapping[Tile, str | None]) -> Body:
    """The body without loops that take all of an outer tile in one step.

    A loop stays that cuts a buffer by its place in a span, as the outer tile does not.

    Args:
        steps: those of the loops around it.

    Raises EmitError where a buffer is cut by a loop over a tile that takes several: a block value
    cannot be cut.
    """
    found: list[Node] = []
    for node in body:
        if not isinstance(node, Loop):
            found.append(node)
            continue
        inside = undivided(instance, node.body, {**steps, node.tile: node.step})
        if (outer := node.tile.of) is None or node.marks is not None:
            found.append(replace(node, body=inside))
            continue
        own, all_ = (instance.env[x] if x else 1 for x in (node.step, steps[outer]))
        cut_by = {
            ref.buffer
            for n in nodes(inside)
            if isinstance(n, Op)
            for ref in n.operands
            if ref.part == node.tile
        }
        whole = {
            n.buffer
            for n in nodes(instance.program.body)
            if isinstance(n, (Load, Alloc)) and outer in n.index
        }
        if own >= all_ and cut_by <= whole:
            found.extend(substitute_tile(x, node.tile, outer) for x in inside)
            continue
        found.append(replace(node, body=inside))
        if own < all_ and cut_by & whole:
            raise EmitError(
                f"{node.step} = {own} cuts tiles of {steps[outer]} = {all_}, and on a GPU no block "
                f"is cut: give {node.step} = {all_} or more"
            )
    return tuple(found)


def substitute_tile(value: Any, old: Tile, new: Tile) -> Any:
    """A node or an index of a program with one tile in the place of another that equals it."""
    match value:
        case Tile():
            return new if value == old else value
        case Ref(buffer, part):
            return Ref(buffer) if part == old else value
        case Affine():
            terms = (Affine.of(substitute_tile(name, old, new)) * c for name, c in value.terms)
            return sum(terms, Affine(value.const))
        case tuple():
            return tuple(substitute_tile(x, old, new) for x in value)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return replace(
                value,
                **{
                    f.name: substitute_tile(getattr(value, f.name), old, new) for f in fields(value)
                },
            )
    return value


def prune(body: Body, empty: Empty, shapes: Shapes | None = None) -> Body:
    """Drop loops that run zero times, empty buffers, and operations that have nothing to do.

    Args:
        empty: the spans without positions.
        shapes: the indices of the buffers that are resident outside `body`.
    """
    # A name may come back with another shape once it is freed, so this is per scope.
    found = dict(shapes or {})
    kept: list[Node] = []
    for node in body:
        match node:
            case Loop():
                if node.span not in empty and (inside := prune(node.body, empty, found)):
                    kept.append(replace(node, body=inside))
            case Op():
                if (op := _pruned_op(node, found, empty)) is not None:
                    kept.append(op)
            case Load() | Alloc():
                found[node.buffer] = dims(node.index)
                if not _has_no_words(found[node.buffer], empty):
                    kept.append(node)
            case Store() | Free():
                if not _has_no_words(found[node.buffer], empty):
                    kept.append(node)
            case _:
                assert_never(node)
    return tuple(kept)


def _pruned_op(node: Op, shapes: Shapes, empty: Empty) -> Op | None:
    """The operation with `NOTHING` for its empty operands; None if it has nothing to do."""
    spec = OPS[node.name]
    own = [shape_of(ref, shapes) for ref in node.operands]
    blank = [_has_no_words(shape, empty) for shape in own]
    # The builder sees to it that equal letters are equal indices.
    letters = {
        x: at
        for names, shape in zip(spec.dims, own, strict=True)
        for x, at in zip(names, shape, strict=False)
    }
    if any(_is_gone(letters[x], empty) for x in spec.over):
        return None
    if all(blank[k] for k in spec.writes):
        return None
    pairs = zip(node.operands, blank, strict=True)
    return replace(node, operands=tuple(NOTHING if none else ref for ref, none in pairs))


def shape_of(ref: Ref, shapes: Shapes) -> tuple[Dim, ...]:
    """An operand's indices: where a tile cuts the buffer, the tile."""
    return cut(shapes[ref.buffer], ref.part)


def _has_no_words(own: tuple[Dim, ...], empty: Empty) -> bool:
    return any(_is_gone(x, empty) for x in own)


def _is_gone(x: Dim, empty: Empty) -> bool:
    match x:
        case Tile():
            return False  # loops without iterations are gone
        case Span():
            return x in empty
        case Stack():
            return _has_no_words(x.parts, empty)
        case _:
            assert_never(x)


def find_empty(program: Program, env: Env) -> frozenset[Span]:
    """The spans without positions, in all iterations of the tiles that they follow."""
    # What follows a tile may be empty at times; what it is cut to may always be.
    ends = ((x, allowed(x, env) if x.edges else resolved(x, env)) for x in spans(program))
    return frozenset(x for x, (start, stop) in ends if start == stop)


def chain(body: Body) -> tuple[tuple[Loop, ...], Body]:
    """The grid loops that hold nothing but one another, outermost first, and what they hold."""
    found: list[Loop] = []
    while len(body) == 1 and isinstance(loop := body[0], Loop) and loop.parallel:
        if loop.span.edges or loop.marks is not None:
            break  # its iterations are not the same for all items
        found.append(loop)
        body = loop.body
    return tuple(found), body


def walk_with_loops(
    body: Body, outer: tuple[Loop, ...] = ()
) -> Iterator[tuple[Node, tuple[Loop, ...]]]:
    """Every node of a tree, parents first, with the loops around it, outermost first."""
    for node in body:
        yield node, outer
        if isinstance(node, Loop):
            yield from walk_with_loops(node.body, (*outer, node))


def touched(body: Body, kind: type[Load] | type[Store]) -> set[str]:
    """The tensors that a body loads, or stores."""
    return {n.tensor for n in nodes(body) if isinstance(n, kind)}


def moved_keys(body: Body) -> tuple[Key, ...]:
    """What a body moves: its loads, then its stores, each by tensor."""
    loads, stores = (sorted(touched(body, kind)) for kind in (Load, Store))
    return *(("load", name) for name in loads), *(("store", name) for name in stores)


def wide_tiles(instance: Instance, body: Body) -> bool:
    """Whether a body loads tiles, not only vectors, of a tensor that is fp32 in any case."""
    found = (n for n in nodes(body) if isinstance(n, Load) and len(dims(n.index)) == 2)
    return any(instance.program.tensor(n.tensor).wide for n in found)


def find_masks(body: Body) -> set[str]:
    """The block masks that a body asks."""
    return {n.marks.name for n in nodes(body) if isinstance(n, Loop) and n.marks is not None}


def grows(loop: Loop) -> bool:
    """Whether loops inside become longer with where the loop's tile lies."""
    inside = (n.span.stop - n.span.start for n in nodes(loop.body) if isinstance(n, Loop))
    return any(
        sum(c for x, c in length.terms if isinstance(x, Edge) and x.tile == loop.tile) > 0
        for length in inside
    )
