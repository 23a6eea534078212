"""The strict two-level machine: run a schedule for real, and count what it moves.

Every operand must be resident, scratch memory starts as NaN, and holding more than M words
raises.  Iterations of a grid loop are independent (`iosim.program.check` proves it for each
program), so the machine runs many of them at once, each in a fast memory of its own: a buffer is
an array whose leading *lane* dimensions number the iterations.  Those that differ in a shape run
beside one another (`iosim.machine.ragged`).  `lanes=1` runs them one by one, with no lane
dimensions at all; it is what the batched run is tested against.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np

from iosim.counts import Counts, Direction
from iosim.display import Tabled
from iosim.errors import CapacityError, InputError, LeakError, ProgramError, ResidencyError
from iosim.machine import places, ragged
from iosim.machine.places import Array, Lanes, Start, State
from iosim.problem import check_positions, check_size, in_shape, joined_shape
from iosim.program import space
from iosim.program.block_masks import numbered_tiles
from iosim.program.check import check
from iosim.program.index import Index, Span, Tile, cut, cut_from, dims
from iosim.program.ir import Alloc, Free, Load, Loop, Node, Op, Ref, Store, nodes
from iosim.program.ops import OPS
from iosim.program.walk import Instance, check_instance

# How many words of one buffer are processed at once.
LANES = 2**18


@dataclass(frozen=True, slots=True)
class Machine:
    """A fast memory of M words beside a slow memory without limit; only transfers cost anything.

    >>> Machine(24_576).M
    24576
    """

    M: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "M", check_size("M", self.M))


@dataclass(frozen=True, kw_only=True)
class Run(Tabled):
    """The result of a simulation.

    Attributes:
        counts: words moved, by direction and tensor.
        peak_words: the largest number of words resident at once.
        outputs: every tensor that is not an input, float64, as it is in slow memory at the end.

    >>> import iosim
    >>> problem = iosim.Copy(n=6)
    >>> instance = iosim.bind(iosim.algorithm("copy").program, problem.sizes, {"B": 4})
    >>> run = simulate(instance, Machine(4), problem.random())
    >>> run.counts.total_words, run.peak_words, run.outputs["Y"].shape
    (12, 4, (6,))
    """

    counts: Counts
    peak_words: int
    outputs: dict[str, Array]
    html_by = "iosim.output.views:run"
    table_by = "iosim.output.views:run_table"

    def __repr__(self) -> str:
        made = ", ".join(f"{name} {array.shape}" for name, array in self.outputs.items())
        moved = self.counts.total_words
        return f"<Run: {moved:,} words moved, peak {self.peak_words:,} words, outputs {made}>"


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
        hbm: the inputs by name, float64, of the shapes that the program's tensors have.  Those of
            four axes or more may be given with the first two as one, which outputs then have, too:
            Q as (heads, N, d) where the program's is (kv_heads, group, N, d).
        lanes: how many words of one buffer may be processed at once (1: strictly in order).
        tick: called now and then with the words moved so far.

    Raises:
        InputError: an input is missing, has the wrong shape, or holds no positions where it should.
        CapacityError: a buffer does not fit beside what is resident.
        ResidencyError: a buffer is used that was freed, or never loaded.
        LeakError: a buffer is still resident where its scope ends.
        ProgramError: a grid loop's iterations are not independent.

    >>> import iosim
    >>> problem = iosim.Attention(N=16, d=4)
    >>> flash2 = iosim.algorithm("flash2").program
    >>> instance = iosim.bind(flash2, problem.sizes, {"B_r": 4, "B_c": 4})
    >>> hbm = problem.random()
    >>> run = simulate(instance, Machine(100), hbm)
    >>> run.counts.total_words, run.peak_words
    (640, 72)
    >>> iosim.max_error(run.outputs, problem.reference(hbm)) < 1e-12
    True
    """
    check_instance("simulate", instance)
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
    joined = False
    for tensor in program.tensors:
        shape = tuple(env[axis] for axis in tensor.axes)
        if tensor.name not in hbm:
            memory[tensor.name] = np.full(shape, np.nan)
            continue
        memory[tensor.name] = in_shape(tensor, hbm[tensor.name], shape)
        joined = joined or np.ndim(hbm[tensor.name]) < len(shape)
    for tensor in program.tensors:
        if tensor.positions:
            check_positions(tensor, memory[tensor.name], env[tensor.positions])
    words = dict.fromkeys(program.keys(), 0)
    state = State(
        instance,
        machine.M,
        lanes,
        memory,
        env,
        words,
        stored,
        named=space.named_tiles(program),
        masks=dict(instance.masks),
        numbered=numbered_tiles(program),
        tick=tick,
    )
    _body(state, program.body, "program")
    outputs = {
        x: a.reshape(joined_shape(a.shape)) if joined and program.tensor(x).joins else a
        for x, a in memory.items()
        if x in stored or x not in hbm
    }
    return Run(counts=Counts.of(state.words), peak_words=state.peak, outputs=outputs)


def _body(s: State, body: tuple[Node, ...], scope: str) -> None:
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
    start, stop = places.resolved(s, loop.span)
    step = space.step(loop, s.env)
    name = f"loop {loop.tile}"
    named = loop.tile in s.named
    alone = not loop.parallel or s.lanes == 1 or loop.tile in s.numbered
    if (
        alone
        or (named and s.ragged is not None)
        or not (isinstance(start, int) and isinstance(stop, int))
    ):
        for lanes, tiles in ragged.group_iterations(s, start, stop, step):
            with ragged.only(s, lanes):
                for at, extent, number in tiles:
                    if loop.marks is not None and not places.marked(s, loop.marks, number):
                        continue
                    s.where[loop.tile] = Lanes(at, 1, extent, number)
                    _alike(s, loop.body, name)
        s.where.pop(loop.tile, None)
        return
    s.batch.append(loop.tile)
    s.ragged = loop.tile if named else s.ragged
    outer = s.arrays
    for group in ragged.groups(s, loop, start, stop, step):
        s.where[loop.tile] = group
        # One more lane dimension, of length 1, for the buffers that iterations share.
        at = len(s.batch) - 1
        s.arrays = {k: np.expand_dims(a, at) for k, a in outer.items()}
        _alike(s, loop.body, name)
    s.arrays = outer
    s.where.pop(loop.tile, None)
    s.batch.pop()
    s.ragged = None if named else s.ragged


def _alike(s: State, body: tuple[Node, ...], scope: str) -> None:
    """Run a body for all lanes: at once, or those whose buffers have equal shapes."""
    if s.ragged is None:
        _body(s, body, scope)
        return
    for lanes in ragged.alike(s, body):
        with ragged.only(s, lanes):
            _body(s, body, scope)


def _reserve(s: State, buffer: str, index: tuple[Index, ...]) -> None:
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
    s.index[buffer] = dims(index)


def _free(s: State, node: Free) -> None:
    if node.buffer not in s.arrays:
        raise ResidencyError(f"free of {node.buffer}, which is not resident: load it first")
    del s.arrays[node.buffer]
    s.used -= s.size[node.buffer]


def _count(s: State, direction: Direction, node: Load | Store, words: int) -> None:
    lanes = 1
    for tile in s.batch:
        lanes *= s.where[tile].count
    s.words[direction, node.tensor] += lanes * words


def _load(s: State, node: Load) -> None:
    _reserve(s, node.buffer, node.index)
    _count(s, "load", node, s.size[node.buffer])
    s.arrays[node.buffer] = places.read(s, node)


def _store(s: State, node: Store) -> None:
    if node.buffer not in s.arrays:
        raise ResidencyError(f"store of {node.buffer}, which is not resident: load it first")
    if s.index[node.buffer] != dims(node.index):
        raise ProgramError(f"store of {node.buffer} to {node.tensor}: the shapes differ")
    _count(s, "store", node, places.words_of(s, node.index))
    places.write(s, node, s.arrays[node.buffer])


def _offset(s: State, ref: Ref) -> tuple[int, Start]:
    """The dimension along which a `Ref` is a part of its buffer, and where in it that starts."""
    assert ref.part is not None
    index = s.index[ref.buffer]
    at = cut_from(index, ref.part)
    base = index[at]
    assert isinstance(base, (Span, Tile))
    return at, places.starts(s, ref.part) - places.located(s, base)[0]


def _cut(s: State, ref: Ref) -> tuple[Any, ...]:
    """The slice of a buffer that a `Ref` with a part means."""
    at, offset = _offset(s, ref)
    first = places.one(offset)
    assert ref.part is not None
    assert isinstance(first, int)
    index = s.index[ref.buffer]
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
    parts = [r for r in node.operands if r.part is not None]
    if not parts or s.ragged is None:
        _apply(s, node)
        return
    for lanes in ragged.parted(s, [_offset(s, ref)[1] for ref in parts]):
        with ragged.only(s, lanes):
            _apply(s, node)


def _apply(s: State, node: Op) -> None:
    spec = OPS[node.name]
    cuts = [_cut(s, r) if r.part is not None else (...,) for r in node.operands]
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
