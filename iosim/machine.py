"""The strict two-level machine: run a schedule for real, and count what it moves.

Every operand must be resident, scratch memory starts as NaN, and holding more than M words
raises.  Iterations of a grid loop are independent (`iosim.program.check` proves it for each
program), so the machine runs many of them at once, each in a fast memory of its own: a buffer is
an array whose leading *lane* dimensions number the iterations.  `lanes=1` runs them one by one,
with no lane dimensions at all; it is what the batched run is tested against.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.counts import Counts, Direction, Key
from iosim.errors import CapacityError, InputError, LeakError, ProgramError, ResidencyError
from iosim.problem import check_size
from iosim.program import space
from iosim.program.check import check
from iosim.program.ir import (
    Alloc,
    Free,
    Index,
    Load,
    Loop,
    Node,
    Op,
    Ref,
    Span,
    Store,
    Tile,
    dims,
    nodes,
)
from iosim.program.ops import OPS
from iosim.program.walk import Instance

Array = NDArray[np.float64]


# How many words of one buffer are processed at once.
LANES = 2**18


@dataclass(frozen=True, slots=True)
class Machine:
    """A fast memory of M words in front of an unlimited HBM; only transfers cost anything."""

    M: int

    def __post_init__(self) -> None:
        check_size("M", self.M)


@dataclass(frozen=True)
class Run:
    """What a simulation saw.

    Attributes:
        counts: words moved, by direction and tensor.
        peak_words: the largest number of words resident at once.
        outputs: every tensor that is not an input, float64, as it stands in HBM at the end.
    """

    counts: Counts
    peak_words: int
    outputs: dict[str, Array]


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Where a group of iterations of one loop is: `count` tiles of `extent` from `start` on."""

    start: int
    count: int
    extent: int


@dataclass
class _State:
    instance: Instance
    M: int
    lanes: int
    hbm: dict[str, Array]
    env: dict[str, int]
    words: dict[Key, int]
    stored: set[str]
    where: dict[Tile, _Lanes] = field(default_factory=dict)
    batch: list[Tile] = field(default_factory=list)  # open loops that run as lanes
    arrays: dict[str, Array] = field(default_factory=dict)
    index: dict[str, tuple[Index, ...]] = field(default_factory=dict)
    size: dict[str, int] = field(default_factory=dict)
    spans: dict[Span, tuple[int, int]] = field(default_factory=dict)  # asked for all the time
    named: frozenset[Tile] = frozenset()  # tiles whose edges bound spans
    used: int = 0
    peak: int = 0
    tick: Callable[[int], object] | None = None


def simulate(
    instance: Instance,
    machine: Machine,
    hbm: Mapping[str, Array],
    *,
    lanes: int = LANES,
    tick: Callable[[int], object] | None = None,
) -> Run:
    """Run a bound program on real numbers.

    Args:
        instance: the program with its sizes and tiles.
        machine: the fast memory.
        hbm: the inputs by name, float64, of the shapes that the program's tensors have.
        lanes: how many words of one buffer may be processed at once (1: strictly in order).
        tick: called now and then with the words moved so far.

    Raises:
        InputError: an input is missing or has the wrong shape.
        CapacityError: a buffer does not fit beside what is resident.
        ResidencyError: a buffer is used that was freed, or never loaded.
        LeakError: a buffer is still resident where its scope ends.
        ProgramError: a grid loop's iterations are not independent.
    """
    if not isinstance(instance, Instance):
        raise InputError(
            f"simulate takes an instance, got {type(instance).__name__}: bind() it first"
        )
    if not isinstance(machine, Machine):
        raise InputError(f"simulate takes a machine, got {machine!r}: give Machine(M)")
    program = instance.program
    check(program)
    if check_size("lanes", lanes, least=0) == 0:
        raise InputError(f"lanes = {lanes} runs nothing: use 1 or more")
    stored = {n.tensor for n in nodes(program.body) if isinstance(n, Store)}
    loaded = {n.tensor for n in nodes(program.body) if isinstance(n, Load)}
    if missing := sorted(loaded - stored - set(hbm)):
        raise InputError(f"{program.name} needs {', '.join(missing)} in HBM: give the arrays")
    env = instance.env
    memory: dict[str, Array] = {}
    for tensor in program.tensors:
        shape = tuple(env[axis] for axis in tensor.axes)
        if tensor.name in hbm:
            memory[tensor.name] = _real(tensor.name, hbm[tensor.name])
            if memory[tensor.name].shape != shape:
                raise InputError(
                    f"{tensor.name} has shape {memory[tensor.name].shape}, the problem needs "
                    f"{shape}: reshape it or change the sizes"
                )
        else:
            memory[tensor.name] = np.full(shape, np.nan)
    words = dict.fromkeys(program.keys(), 0)
    state = _State(
        instance,
        machine.M,
        lanes,
        memory,
        env,
        words,
        stored,
        named=space.named_tiles(program),
        tick=tick,
    )
    _body(state, program.body, "program")
    outputs = {x: a for x, a in memory.items() if x in stored or x not in hbm}
    return Run(Counts.of(state.words), state.peak, outputs)


def _real(name: str, array: Any) -> Array:
    """A copy in float64.  Raises InputError for what would lose a part, or holds no numbers."""
    given = np.asarray(array)
    if given.dtype.kind not in "biuf":
        raise InputError(f"{name} is of dtype {given.dtype}: give real numbers")
    return given.astype(np.float64)


def _body(s: _State, body: tuple[Node, ...], scope: str) -> None:
    if s.tick is not None:
        s.tick(sum(s.words.values()))
    before = set(s.arrays)
    for node in body:
        if isinstance(node, Loop):
            _loop(s, node)
        elif isinstance(node, Op):
            _op(s, node)
        elif isinstance(node, Load):
            _reserve(s, node.buffer, node.index)
            _count(s, "load", node)
            # A tensor that is also stored may change while the buffer is resident: copy it.
            # Inputs are views, and read-only.
            view = _lane_view(s, node)
            view = view.copy() if node.tensor in s.stored else view.view()
            view.flags.writeable = False
            s.arrays[node.buffer] = view
        elif isinstance(node, Store):
            _store(s, node)
        elif isinstance(node, Alloc):
            _reserve(s, node.buffer, node.index)
            shape = [1] * len(s.batch) + [_extent(s, x) for x in dims(node.index)]
            s.arrays[node.buffer] = np.full(shape, np.nan)
        else:
            _free(s, node)
    if left := [name for name in s.arrays if name not in before]:
        held = sum(s.size[name] for name in left)
        raise LeakError(
            f"{', '.join(left)} ({held} words) still resident at the end of {scope}: free them"
        )


def _loop(s: _State, loop: Loop) -> None:
    start, stop = _span(s, loop.span)
    step = space.step(loop, s.env)
    name = f"loop {loop.tile}"
    # Lanes have buffers of one shape, so iterations that may differ run one after the other.
    if not loop.parallel or s.lanes == 1 or loop.tile in s.named:
        for at in range(start, stop, step):
            s.where[loop.tile] = _Lanes(at, 1, min(step, stop - at))
            _body(s, loop.body, name)
        return
    s.batch.append(loop.tile)
    outer = dict(s.arrays)
    for group in _groups(s, loop, start, stop, step):
        s.where[loop.tile] = group
        # One more lane dimension, of length 1, for the buffers that iterations share.
        at = len(s.batch) - 1
        s.arrays = {k: np.expand_dims(a, at) for k, a in outer.items()}
        _body(s, loop.body, name)
    s.arrays = outer
    s.batch.pop()


def _groups(s: _State, loop: Loop, start: int, stop: int, step: int) -> Iterator[_Lanes]:
    """Split a grid loop into groups of equal tiles, as many at once as `lanes` allows."""
    outside = 1
    for tile in s.batch[:-1]:
        outside *= s.where[tile].count
    widest = max((_widest(s, n, loop.tile, step) for n in loop.body), default=1)
    most = max(1, s.lanes // (outside * widest))
    full = (stop - start) // step
    for first in range(0, full, most):
        yield _Lanes(start + first * step, min(most, full - first), step)
    if start + full * step < stop:
        yield _Lanes(start + full * step, 1, stop - start - full * step)


def _widest(s: _State, node: Node, tile: Tile, step: int) -> int:
    """The words of the largest buffer that one iteration makes itself."""
    if isinstance(node, Loop):
        return max((_widest(s, n, tile, step) for n in node.body), default=1)
    if not isinstance(node, (Load, Alloc)):
        return 1
    words = 1
    for x in dims(node.index):
        if isinstance(x, Span):
            if any(edge.tile not in s.where for edge in x.edges):
                words *= s.env[x.axis]
                continue
            a, b = _span(s, x)
            words *= b - a
        elif x == tile:
            words *= step
        elif x in s.where:
            words *= s.where[x].extent
    return max(words, 1)


def _span(s: _State, span: Span) -> tuple[int, int]:
    if span.edges:
        env: dict[Any, int] = dict(s.env)
        for edge in span.edges:
            here = s.where[edge.tile]
            env = space.inside(env, edge.tile, (here.start, here.start + here.extent))
        return space.resolved(span, env)
    found = s.spans.get(span)
    if found is None:
        found = s.spans[span] = s.instance.span(span)
    return found


def _extent(s: _State, x: Index) -> int:
    if isinstance(x, Tile):
        return s.where[x].extent
    start, stop = _span(s, x)
    return stop - start


def _words(s: _State, index: tuple[Index, ...]) -> int:
    words = 1
    for x in dims(index):
        words *= _extent(s, x)
    return words


def _reserve(s: _State, buffer: str, index: tuple[Index, ...]) -> None:
    words = _words(s, index)
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
    s.index[buffer] = dims(index)


def _free(s: _State, node: Free) -> None:
    if node.buffer not in s.arrays:
        raise ResidencyError(f"free of {node.buffer}, which is not resident: load it first")
    del s.arrays[node.buffer]
    s.used -= s.size[node.buffer]


def _count(s: _State, direction: Direction, node: Load | Store) -> None:
    lanes = 1
    for tile in s.batch:
        lanes *= s.where[tile].count
    s.words[direction, node.tensor] += lanes * _words(s, node.index)


def _lane_view(s: _State, node: Load | Store) -> Array:
    """``tensor[index]`` as a view: a dimension per lane loop (1 where it isn't indexed), then the
    tile's own."""
    cut: list[slice] = []
    shape: list[int] = []
    lane_at: dict[Tile, int] = {}
    own: list[int] = []
    for x in node.index:
        if isinstance(x, Span):
            start, stop = _span(s, x)
            cut.append(slice(start, stop))
            own.append(len(shape))
            shape.append(stop - start)
            continue
        here = s.where[x]
        cut.append(slice(here.start, here.start + here.count * here.extent))
        if x in s.batch:
            lane_at[x] = len(shape)
            shape.append(here.count)
        if not x.point:
            own.append(len(shape))
            shape.append(here.extent)
        elif x not in s.batch:
            own.append(-1 - len(shape))  # a point of a sequential loop: dropped below
            shape.append(1)
    view = s.hbm[node.tensor][tuple(cut)].reshape(shape)
    drop = [-1 - k for k in own if k < 0]
    order = [lane_at[t] for t in s.batch if t in lane_at] + [k for k in own if k >= 0]
    view = view.transpose(order + drop)
    view = view.reshape(view.shape[: len(order)]) if drop else view
    # With the dots, a view of a single word is an array, too.
    return view[(*(slice(None) if t in lane_at else None for t in s.batch), ...)]


def _store(s: _State, node: Store) -> None:
    if node.buffer not in s.arrays:
        raise ResidencyError(f"store of {node.buffer}, which is not resident: load it first")
    if s.index[node.buffer] != dims(node.index):
        raise ProgramError(f"store of {node.buffer} to {node.tensor}: the shapes differ")
    _count(s, "store", node)
    view = _lane_view(s, node)
    view[...] = np.broadcast_to(s.arrays[node.buffer], np.broadcast_shapes(
        view.shape, s.arrays[node.buffer].shape
    ))  # fmt: skip


def _cut(s: _State, ref: Ref) -> tuple[Any, ...]:
    """The slice of a buffer that a `Ref` with a part means."""
    index = s.index[ref.buffer]
    at = next(k for k, x in enumerate(index) if ref.part and x.axis == ref.part.axis)
    assert ref.part is not None
    base = index[at]
    if not isinstance(base, Span):
        raise ProgramError(f"{ref}: a part must be cut from a fixed span")
    low, high = _span(s, base)
    here = s.where[ref.part]
    if not low <= here.start <= here.start + here.extent <= high:
        raise ResidencyError(
            f"{ref} is {ref.part.axis}[{here.start}:{here.start + here.extent}], and {ref.buffer} "
            f"holds {low}:{high}: load it first"
        )
    cut = slice(here.start - low, here.start - low + here.extent)
    return (..., *([slice(None)] * at), cut, *([slice(None)] * (len(index) - at - 1)))


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


def _op(s: _State, node: Op) -> None:
    spec = OPS[node.name]
    for ref in node.operands:
        if ref.buffer not in s.arrays:
            raise ResidencyError(f"{node.name} reads {ref.buffer}, which is not resident: load it")
    cuts = [_cut(s, r) if r.part is not None else (...,) for r in node.operands]
    values = [s.arrays[r.buffer][c] for r, c in zip(node.operands, cuts, strict=True)]
    extents = _extents(node, values, len(s.batch))
    if any(extents[letter] == 0 for letter in spec.over):
        return  # an empty hold: nothing to take in
    for position, new in zip(spec.writes, spec.numpy(*values), strict=True):
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
