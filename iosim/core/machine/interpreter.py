"""Run a tree of nodes in fast memory: what is resident, what fits, what each operation may use.

A loop runs in one of three ways (`_loop`): its iterations at once, as lanes; several of them as one
longer iteration; or one after the other, which is always right.  A longer iteration moves the words
of all that it stands for, and holds those of one.  What the machine refuses of one iteration it
refuses of a longer one, with the same words; where only some of them would be refused, since they
cut a part of a buffer that isn't resident, they run in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

import numpy as np

from iosim.base.errors import CapacityError, LeakError, ProgramError, ResidencyError
from iosim.core.counts import Direction
from iosim.core.machine import places, ragged
from iosim.core.machine.places import Array, Lanes, State
from iosim.core.program import space
from iosim.core.program.index import Indices, cut, dims
from iosim.core.program.ir import Alloc, Body, Free, Load, Loop, Op, Ref, Store
from iosim.core.program.iterations import find_cut_buffers, may_merge
from iosim.core.program.ops import OPS


def run_body(s: State, body: Body, scope: str) -> None:
    """Run nodes one after the other, in all lanes; what they leave resident is a leak.

    Args:
        scope: what they are the body of, for a message.
    """
    if s.tick is not None:
        s.tick(sum(s.words.values()))
    before = set(s.arrays)
    for node in body:
        match node:
            case Loop():
                _loop(s, node)
            case Op():
                _op(s, node)
            case Load():
                _load(s, node)
            case Store():
                _store(s, node)
            case Alloc():
                _reserve(s, node.buffer, node.index)
                shape = [1] * len(s.batch) + [places.extent(s, x) for x in dims(node.index)]
                s.arrays[node.buffer] = np.full(shape, np.nan)
            case Free():
                _free(s, node)
            case _:
                assert_never(node)
    if left := [name for name in s.arrays if name not in before]:
        held = sum(s.size[name] for name in left)
        raise LeakError(
            f"{', '.join(left)} ({held} words) still resident at the end of {scope}: free them"
        )


def _loop(s: State, loop: Loop) -> None:
    start, stop = places.bound_loop(s, loop)
    step = space.step(loop, s.env)
    # One iteration alone runs in order, and so do all where `lanes` or a block mask asks for it.
    at_once = s.lanes > 1 and loop.tile not in s.numbered
    if at_once and isinstance(start, int) and isinstance(stop, int) and stop - start > step:
        if loop.parallel and not (loop.tile in s.named and s.ragged is not None):
            _run_as_lanes(s, loop, ragged.groups(s, loop, start, stop, step))
            return
        if _can_merge(s, loop) and _holds_parts(s, loop, start, stop):
            _run_in_order(s, loop, ragged.merge_iterations(s, loop, start, stop, step))
            return
    for lanes, tiles in ragged.group_iterations(s, start, stop, step):
        with ragged.only(s, lanes):
            _run_in_order(s, loop, tiles)


def _can_merge(s: State, loop: Loop) -> bool:
    resident = {name: s.index[name] for name in s.arrays}
    before, found = s.merges.get(id(loop), (None, False))
    if before != resident:
        found = may_merge(loop, resident)
        s.merges[id(loop)] = resident, found
    return found


def _holds_parts(s: State, loop: Loop, start: int, stop: int) -> bool:
    """Whether each part that a loop cuts is inside of its buffer, at one place in all lanes."""
    s.where[loop.tile] = Lanes(start, 1, stop - start)
    parts = [
        (s.index[x], *places.locate_part(s, s.index[x], loop.tile)) for x in find_cut_buffers(loop)
    ]
    held = [(places.one(first), places.extent(s, index[at])) for index, at, first in parts]
    del s.where[loop.tile]
    return all(isinstance(first, int) and 0 <= first <= n - (stop - start) for first, n in held)


def _run_in_order(s: State, loop: Loop, tiles: Iterable[Lanes]) -> None:
    for here in tiles:
        if loop.marks is not None and not places.marked(s, loop.marks, here.number):
            continue
        s.where[loop.tile] = here
        s.merged *= here.merged
        _alike(s, loop.body, f"loop {loop.tile}")
        s.merged //= here.merged
    s.where.pop(loop.tile, None)


def _run_as_lanes(s: State, loop: Loop, groups: Iterable[Lanes]) -> None:
    named = loop.tile in s.named
    at = len(s.batch)
    s.batch.append(loop.tile)
    s.ragged = loop.tile if named else s.ragged
    outer = s.arrays
    for group in groups:
        s.where[loop.tile] = group
        # One more lane dimension, of length 1, for the buffers that iterations share.
        s.arrays = {k: np.expand_dims(a, at) for k, a in outer.items()}
        _alike(s, loop.body, f"loop {loop.tile}")
    s.arrays = outer
    s.where.pop(loop.tile, None)
    s.batch.pop()
    s.ragged = None if named else s.ragged


def _alike(s: State, body: Body, scope: str) -> None:
    """Run a body for all lanes: at once, or those whose buffers have equal shapes."""
    if s.ragged is None:
        run_body(s, body, scope)
        return
    for lanes in ragged.alike(s, body):
        with ragged.only(s, lanes):
            run_body(s, body, scope)


def _reserve(s: State, buffer: str, index: Indices) -> None:
    words = places.words_of(s, index)
    if buffer in s.arrays:
        raise ResidencyError(f"{buffer} is already resident ({s.size[buffer]} words): free it")
    if s.used + words > s.M:
        raise CapacityError(
            f"buffer {buffer} needs {words} words and {s.M - s.used} of M = {s.M} are free: "
            "choose smaller tiles or a larger M"
        )
    s.used += words
    s.peak = max(s.peak, s.used)
    s.size[buffer] = words
    s.index[buffer] = places.shape_of(s, index).dims


def _free(s: State, node: Free) -> None:
    if node.buffer not in s.arrays:
        raise ResidencyError(f"free of {node.buffer}, which is not resident: load it first")
    del s.arrays[node.buffer]
    s.used -= s.size[node.buffer]


def _count(s: State, direction: Direction, node: Load | Store, words: int) -> None:
    lanes = 1
    for tile in s.batch:
        lanes *= s.where[tile].count
    s.words[direction, node.tensor] += lanes * s.merged * words


def _load(s: State, node: Load) -> None:
    _reserve(s, node.buffer, node.index)
    _count(s, "load", node, s.size[node.buffer])
    s.arrays[node.buffer] = places.read(s, node)


def _store(s: State, node: Store) -> None:
    if node.buffer not in s.arrays:
        raise ResidencyError(f"store of {node.buffer}, which is not resident: load it first")
    if s.index[node.buffer] != places.shape_of(s, node.index).dims:
        raise ProgramError(f"store of {node.buffer} to {node.tensor}: the shapes differ")
    _count(s, "store", node, places.words_of(s, node.index))
    places.write(s, node, s.arrays[node.buffer])


def _cut(s: State, ref: Ref) -> tuple[Any, ...]:
    """The slice of a buffer that a `Ref` with a part means."""
    assert ref.part is not None
    index = s.index[ref.buffer]
    at, offset = places.locate_part(s, index, ref.part)
    first = places.one(offset)
    assert isinstance(first, int)
    extent, held = s.where[ref.part].extent, places.extent(s, index[at])
    if not 0 <= first <= first + extent <= held:
        start = int(np.min(places.starts(s, ref.part)))
        raise ResidencyError(
            f"{ref} is {ref.part.axis}[{start}:{start + extent}], and {ref.buffer} "
            f"holds {start - first}:{start - first + held}: load it first"
        )
    return (
        ...,
        *([slice(None)] * at),
        slice(first, first + extent),
        *([slice(None)] * (len(index) - at - 1)),
    )


def _meant(s: State, node: Op, values: Sequence[Array]) -> tuple[Array, ...]:
    """The new values of the operands that an operation writes."""
    spec = OPS[node.name]
    scalars = (places.value(s, x) for x in node.scalars)
    if not spec.placed:
        return spec.numpy(*values, *scalars)
    own = [cut(s.index[ref.buffer], ref.part) for ref in node.operands]
    placed = [places.by_place(s, x, value) for x, value in zip(own, values, strict=True)]
    found = zip(spec.writes, spec.numpy(*placed, *scalars), strict=True)
    return tuple(places.as_before(s, own[k], new) for k, new in found)


def _extents(node: Op, values: Sequence[Array], lanes: int) -> dict[str, int]:
    """The extent of every index letter; refuses what NumPy would broadcast: unequal ones."""
    extents: dict[str, int] = {}
    for letters, value in zip(OPS[node.name].dims, values, strict=True):
        if letters == "*":
            continue
        for letter, n in zip(letters, value.shape[lanes:], strict=True):
            if extents.setdefault(letter, n) != n:
                raise ProgramError(
                    f"{node.name}({', '.join(map(str, node.operands))}): dimension {letter!r} is "
                    f"{extents[letter]} and {n} words long: the extents must agree"
                )
    return extents


def _op(s: State, node: Op) -> None:
    for ref in node.operands:
        if ref.buffer not in s.arrays:
            raise ResidencyError(f"{node.name} reads {ref.buffer}, which is not resident: load it")
    parts = [(s.index[ref.buffer], ref.part) for ref in node.operands if ref.part is not None]
    if not parts or s.ragged is None:
        _apply(s, node)
        return
    for lanes in ragged.parted(s, [places.locate_part(s, *part)[1] for part in parts]):
        with ragged.only(s, lanes):
            _apply(s, node)


def _apply(s: State, node: Op) -> None:
    spec = OPS[node.name]
    cuts = [(...,) if r.part is None else _cut(s, r) for r in node.operands]
    values = [s.arrays[r.buffer][c] for r, c in zip(node.operands, cuts, strict=True)]
    extents = _extents(node, values, len(s.batch))
    if any(extents[letter] == 0 for letter in spec.over):
        return  # an empty stationary part: nothing to take in
    for position, new in zip(spec.writes, _meant(s, node, values), strict=True):
        ref, cut = node.operands[position], cuts[position]
        if ref.part is None:
            s.arrays[ref.buffer] = np.asarray(new)  # of single words NumPy makes scalars
            continue
        old = s.arrays[ref.buffer]
        wide = np.broadcast_shapes(old.shape[: len(s.batch)], new.shape[: len(s.batch)])
        if wide != old.shape[: len(s.batch)] or not old.flags.writeable:
            old = np.broadcast_to(old, wide + old.shape[len(s.batch) :]).copy()
        old[cut] = new
        s.arrays[ref.buffer] = old
