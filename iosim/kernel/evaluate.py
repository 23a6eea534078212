"""Interprets a Triton kernel's IR for all programs at once, and reports what memory it refers to.

Only values that addresses, masks, loop bounds and conditions depend on are computed
(`iosim.kernel.slicing`); such values *steer* the kernel.  Loops run one iteration after the other
for all programs that are still in them; branches run for those that take them.

`evaluate` is called by `iosim.kernel.count` and `iosim.kernel.stream`; `evaluate_waves` by
`iosim.kernel.stream` and `iosim.kernel.findings`.  Both take a `CallValues`, which
`iosim.kernel.launch` makes, and report `Reference`s, which `iosim.kernel.words` and
`iosim.kernel.reuse` add up.

Changing this file: counts are exact or refused.  What isn't known must raise `UnsupportedKernel`
with its line; never guess.  An operation that refers to memory or runs regions is a method of
`_Part` and a line in `EFFECTS`, and `iosim.kernel.slicing.steering_operands` must return its
addresses and masks; any other operation is a line in `iosim.kernel.semantics.OPERATIONS`.  Add a
kernel that uses it to ``tests/kernel/corpus``, whose counts are compared with Triton's interpreter;
messages are tested in ``tests/kernel/test_refused.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile

import numpy as np

from iosim.base.errors import InputError
from iosim.kernel.flop import FloatOperations, block_work, operation_work
from iosim.kernel.ir import IrBlock, IrFunction, IrOperation, IrRegion, element_type, tile_shape
from iosim.kernel.semantics import (
    FLOATS,
    OPERATIONS,
    Meaning,
    array_of,
    is_float,
    keep_bits,
    type_width,
    wrap,
)
from iosim.kernel.slicing import (
    BOXES,
    Needed,
    box_operands,
    find_all_needed,
    find_callee,
    may_refer,
    product_condition,
    steering_operands,
)
from iosim.kernel.values import (
    GRID,
    MOST,
    Array,
    ArrayTooLarge,
    Descriptor,
    Pointer,
    SeparableTile,
    Value,
    along,
    check_size,
    choose,
    constant,
    lift,
    spread,
)

# Iterations of a loop whose end depends on its own values, before it counts as endless.
LONGEST = 10_000_000
_AXES = {"x": 0, "y": 1, "z": 2}


class UnsupportedKernel(InputError):
    """A kernel that can't be counted: the file, the line and the reason.

    >>> import numpy as np, triton, triton.language as tl, iosim.kernel
    >>> @triton.jit
    ... def gather(y, x, index):
    ...     i = tl.program_id(0)
    ...     tl.store(y + i, tl.load(x + tl.load(index + i)))
    >>> call = iosim.kernel.describe_launch(
    ...     iosim.kernel.source.unwrap_kernel(gather), "4", {}, {"index": "*i32"}, {})
    >>> iosim.kernel.count_kernel(call)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    iosim.kernel.evaluate.UnsupportedKernel: ...: the words of index steer the kernel: give them ...
    """


@dataclass(frozen=True)
class Reference:
    """The words that one operation loads, stores or changes, in all programs that execute it.

    Arrays have three axes for the grid, then one for each axis of the tile, and broadcast
    (`iosim.kernel.values`).

    Attributes:
        kind: ``load``, ``store`` or ``atomic``.
        argument: the tensor's name, which is the name of the kernel's argument.
        offsets: index of each element, in words from the tensor's first word; a sum of arrays.
        masks: Boolean arrays; an element counts where all of them are true.
        active: which programs execute the operation; only axes of the grid.
        tile: the shape of the tile; () for one word.
        width: bytes of a word.
        grid: how many programs are evaluated together, along each axis of the grid.
        operation: the IR's operation, with its line in the source.
    """

    kind: str
    argument: str
    offsets: SeparableTile
    masks: tuple[Array, ...]
    active: Array
    tile: tuple[int, ...]
    width: int
    grid: tuple[int, int, int]
    operation: IrOperation


@dataclass
class CallValues:
    """A launch: the grid and the values of the arguments.

    Attributes:
        grid: programs along each axis.
        names: arguments that are no ``tl.constexpr``, in order; the IR may name them otherwise.
        values: numbers and Booleans by name; pointers have none.
        data: contents of tensors that steer the kernel, by name, in the order of memory.
        descriptors: shape and strides of tensors that are passed as descriptors, by name.
    """

    grid: tuple[int, int, int]
    names: Sequence[str]
    values: Mapping[str, int | float] = field(default_factory=dict)
    data: Mapping[str, Array] = field(default_factory=dict)
    descriptors: Mapping[str, tuple[Sequence[int], Sequence[int]]] = field(default_factory=dict)


_Ids = tuple[Array, Array, Array]
Watch = Callable[[str, Array], None]


def evaluate(
    functions: Mapping[str, IrFunction],
    launch: CallValues,
    observe: Callable[[list[Reference]], None],
    watch: Watch | None = None,
) -> FloatOperations:
    """Report every reference of a launch, and count its floating-point operations.

    The grid is evaluated whole, or where arrays would be too large, in parts.

    Args:
        functions: the IR module's functions by name; the public one is the kernel.
        launch: the grid and the arguments.
        observe: is called once for each part of the grid, with the part's references.  If it
            raises `ArrayTooLarge`, it must have stored nothing: the part is halved, and both
            halves are evaluated.
        watch: called with each integer that is no tile: its name, and its values in the programs
            that compute it.

    Returns:
        The floating-point operations that all programs execute.

    Raises:
        UnsupportedKernel: an address, a mask or a bound depends on what isn't known.
    """
    kernel, needed = _analyze(functions)
    work = FloatOperations()
    todo = [((0, 0, 0), launch.grid)]
    while todo:
        origin, shape = todo.pop()
        if max(shape) > MOST:
            todo += halve_grid(origin, shape, kernel.name)
            continue
        seen: list[Reference] = []
        ids = open_grid(origin, shape)
        part = _Part(functions, needed, launch, ids, shape, seen.append)
        part.watch = watch
        try:
            done = part.run_kernel(kernel)
            observe(seen)
        except ArrayTooLarge:
            todo += halve_grid(origin, shape, kernel.name)
            continue
        work += done
    return work


def evaluate_waves(
    functions: Mapping[str, IrFunction],
    launch: CallValues,
    waves: Iterable[_Ids],
    operations: Mapping[str, Meaning] = OPERATIONS,
) -> Iterator[list[Reference]]:
    """Yield the references of each wave, that is of programs that run in lockstep.

    In a reference, the programs of a wave are along the first axis of the grid.

    Args:
        functions: the IR module's functions by name; the public one is the kernel.
        launch: the grid and the arguments.
        waves: for each wave, three arrays of equal length: x, y and z of its programs.
        operations: what operations do, if not as in `iosim.kernel.semantics.OPERATIONS`.

    Raises:
        UnsupportedKernel: as `evaluate`, and for a wave whose tiles are too large.
    """
    kernel, needed = _analyze(functions)
    for ids in waves:
        seen: list[Reference] = []
        columns = [x.reshape(-1, 1, 1) for x in ids]
        shape = (len(ids[0]), 1, 1)
        wave = _Part(
            functions, needed, launch, (columns[0], columns[1], columns[2]), shape, seen.append
        )
        wave.operations = operations
        try:
            wave.run_kernel(kernel)
        except ArrayTooLarge:
            raise UnsupportedKernel(
                f"{kernel.name}: the tiles of {shape[0]:,} programs have more than {MOST:,} "
                "elements: let fewer be resident"
            ) from None
        yield seen


def _analyze(functions: Mapping[str, IrFunction]) -> tuple[IrFunction, Needed]:
    """The kernel, and by function the values that steer it (`find_all_needed`)."""
    return next(f for f in functions.values() if f.public), find_all_needed(functions)


def open_grid(origin: tuple[int, int, int], shape: tuple[int, int, int]) -> _Ids:
    """Coordinates of the programs of a box, each along its own axis."""
    x, y, z = (
        np.arange(first, first + n, dtype=np.int64) for first, n in zip(origin, shape, strict=True)
    )
    return x.reshape(-1, 1, 1), y.reshape(1, -1, 1), z.reshape(1, 1, -1)


def halve_grid(
    origin: tuple[int, ...], shape: tuple[int, ...], name: str
) -> list[tuple[tuple[int, int, int], tuple[int, int, int]]]:
    """Both halves of a part, cut along its longest axis; the caller's stack pops the first half.

    Raises UnsupportedKernel for a part of one program.
    """
    axis = int(np.argmax(shape))
    if shape[axis] == 1:
        raise UnsupportedKernel(f"{name}: one program's tile has more than {MOST:,} elements")
    half = shape[axis] // 2
    out = []
    for begin, length in ((half, shape[axis] - half), (0, half)):
        first, lengths = list(origin), list(shape)
        first[axis] += begin
        lengths[axis] = length
        out.append(((first[0], first[1], first[2]), (lengths[0], lengths[1], lengths[2])))
    return out


class _Part:
    """The interpreter of one part of the grid, for all of its programs at once.

    `env` in its methods is name of a value in the IR → value, None where it isn't known; `active`
    is a mask of the programs that execute an operation.
    """

    def __init__(
        self,
        functions: Mapping[str, IrFunction],
        needed: Needed,
        launch: CallValues,
        ids: _Ids,
        shape: tuple[int, int, int],
        observe: Callable[[Reference], None],
    ) -> None:
        self.functions, self.needed_of = functions, needed
        self.launch, self.shape, self.observe = launch, shape, observe
        self.ids = ids
        self.work = FloatOperations()
        self.needed: set[str] = set()
        self.relevant: dict[tuple[int, int], list[IrOperation]] = {}  # by block and what is needed
        self.written: set[str] = set()
        self.read_data: set[str] = set()
        self.watch: Watch | None = None
        self.operations: Mapping[str, Meaning] = OPERATIONS

    def run_kernel(self, kernel: IrFunction) -> FloatOperations:
        """Run the kernel for the part's programs; its floating-point operations."""
        values: list[Value] = []
        for name in self.launch.names:
            type_ = kernel.types[len(values)]
            if name in self.launch.descriptors:
                values += self.describe(name, type_, kernel.types[len(values) + 1 :])
            else:
                values.append(self.argument(name, type_))
        given = dict(zip(kernel.arguments, values, strict=True))
        self.call(kernel, given, np.ones((1, 1, 1), bool))
        return self.work

    def describe(self, name: str, type_: str, after: Sequence[str]) -> list[Value]:
        """A descriptor that is an argument, as the compiler passes it: with shape and strides.

        For GPUs without a unit for descriptors it is a pointer, shape and strides twice, and
        switches between them that say how to pad and round.
        """
        shape, strides = self.launch.descriptors[name]
        lengths, steps = (tuple(map(constant, x)) for x in (shape, strides))
        rest = [*lengths, *steps]
        if "ptr<" not in type_:
            return [Descriptor(Pointer.to(name), lengths, steps, tile_shape(type_)), *rest]
        switches = takewhile("i1".__eq__, after[len(rest) :])
        return [Pointer.to(name), *rest, *(constant(False) for _ in switches), *rest]

    def argument(self, name: str, type_: str) -> Value:
        """An argument of the kernel, as a value; None where it isn't given."""
        if "tensordesc" in type_:
            raise UnsupportedKernel(f"the descriptor {name} has no shape")
        if "ptr<" in type_:
            return Pointer.to(name)
        if name not in self.launch.values:
            return None
        value = self.launch.values[name]
        if is_float(type_):
            return np.full((1,) * GRID, value, FLOATS.get(type_, np.float32))
        return constant(bool(value) if type_ == "i1" else int(value))

    def call(
        self, function: IrFunction, values: dict[str, Value], active: Array, returns: bool = False
    ) -> list[Value]:
        """Run a function; what it returns, where that is needed."""
        outer, self.needed = self.needed, self.needed_of[function.name, returns]
        try:
            return self.run(function.body, dict(values), active)
        finally:
            self.needed = outer

    def run(self, region: IrRegion, env: dict[str, Value], active: Array) -> list[Value]:
        """Run a region; the values that its last operation gives."""
        if len(region.blocks) == 1:
            end = self.run_block(region.entry, env, active)
            return [env.get(x) for x in end.operands]
        return self.run_branches(region, env, active)

    def run_block(self, block: IrBlock, env: dict[str, Value], active: Array) -> IrOperation:
        """Run the operations of a block except the last, its terminator, which is returned."""
        work = block_work(block)
        if work:
            self.work += work * self.count_programs(active)
        key = id(block), id(self.needed)
        if key not in self.relevant:
            self.relevant[key] = [x for x in block.operations[:-1] if self.matters(x)]
        for op in self.relevant[key]:
            self.execute(op, env, active)
        return block.operations[-1]

    def matters(self, op: IrOperation) -> bool:
        """Whether an operation must run: it has effects, or one of its results is needed."""
        return (
            op.name in EFFECTS
            or may_refer(op)
            or any(result in self.needed for result in op.results)
        )

    def count_programs(self, active: Array) -> int:
        """How many programs of the part a mask selects; its axes may be broadcast."""
        total = self.shape[0] * self.shape[1] * self.shape[2]
        return int(active.sum()) * (total // active.size)

    def execute(self, op: IrOperation, env: dict[str, Value], active: Array) -> None:
        """Run one operation that matters."""
        if op.name in EFFECTS:
            EFFECTS[op.name](self, op, env, active)
        elif op.name == "tt.get_program_id":
            env[op.results[0]] = SeparableTile((self.ids[_AXES[op.text.split()[0]]],))
        elif op.name == "tt.get_num_programs":
            env[op.results[0]] = constant(self.launch.grid[_AXES[op.text.split()[0]]])
        elif op.name in OPERATIONS:
            self.apply(op, env)
            if self.watch is not None:
                self.show_scalar(self.watch, op, env, active)
        elif may_refer(op):
            self.refuse(op, f"what {op.name} moves isn't known")
        else:
            self.refuse(op, f"an address or a bound depends on {op.name}")

    def apply(self, op: IrOperation, env: dict[str, Value]) -> None:
        """Run an operation that has results only, by its function in `OPERATIONS`."""
        values = [env.get(x) for x in op.operands]
        for name, value in zip(op.operands, values, strict=True):
            if value is None:
                self.refuse_missing(op, name)
        try:
            out = self.operations[op.name](op, *values)
        except NotImplementedError as error:
            self.refuse(op, f"an address or a bound depends on {error}")
        for result, value in zip(
            op.results, out if isinstance(out, tuple) else (out,), strict=True
        ):
            env[result] = value

    def show_scalar(
        self, watch: Watch, op: IrOperation, env: dict[str, Value], active: Array
    ) -> None:
        """Report an integer that is no tile, in the programs that compute it."""
        value = env[op.results[0]]
        if isinstance(value, SeparableTile) and not value.rank and not value.is_mask:
            live = np.broadcast_to(active, self.shape)
            watch(op.results[0], np.broadcast_to(value.dense(), self.shape)[live])

    def refuse(self, op: IrOperation, why: str) -> None:
        """Raise UnsupportedKernel with the line of the source and the reason."""
        raise UnsupportedKernel(f"{op.location or op.name}: {why}")

    def refuse_missing(self, op: IrOperation, name: str) -> None:
        """Raise UnsupportedKernel for a value that isn't known."""
        self.refuse(op, f"needs {name[1:]}, which isn't given: --arg {name[1:]}=…")

    def read(self, op: IrOperation, name: str, env: dict[str, Value]) -> Value:
        """The value of a name; raises UnsupportedKernel if it isn't known."""
        value = env.get(name)
        if value is None:
            self.refuse_missing(op, name)
        return value

    # Control flow.

    def run_for(self, op: IrOperation, env: dict[str, Value], active: Array) -> None:
        """``scf.for``."""
        low, high, step = (self.read(op, x, env).dense() for x in op.operands[:3])
        block = op.regions[0].entry
        trips = np.maximum(-((low - high) // np.maximum(step, 1)), 0)
        longest = np.broadcast_to(trips, np.broadcast_shapes(trips.shape, active.shape))
        live_trips = longest[np.broadcast_to(active, longest.shape)]
        most, least = (int(live_trips.max()), int(live_trips.min())) if live_trips.size else (0, 0)
        carried = [env.get(x) for x in op.operands[3:]]
        results = list(carried)
        for k in range(most):
            live = active if k < least else active & (k < trips)
            env[block.arguments[0]] = SeparableTile((low + k * step,))
            env.update(zip(block.arguments[1:], carried, strict=True))
            end = self.run_block(block, env, live)
            carried = [env.get(x) for x in end.operands]
            if k < least:
                results = carried
                continue
            for i, result in enumerate(op.results):
                if result in self.needed:
                    results[i] = choose(SeparableTile((live,)), carried[i], results[i])
        env.update(zip(op.results, results, strict=True))

    def run_if(self, op: IrOperation, env: dict[str, Value], active: Array) -> None:
        """``scf.if``."""
        condition = self.read(op, op.operands[0], env).dense()
        outcomes: list[list[Value] | None] = []
        for holds, region in zip((condition, ~condition), op.regions, strict=False):
            live = active & holds
            outcomes.append(self.run(region, env, live) if live.any() else None)
        if not op.results:
            return
        yes, no = outcomes
        for i, result in enumerate(op.results):
            if result in self.needed:
                if yes is None or no is None:
                    env[result] = (yes or no or [None] * len(op.results))[i]
                else:
                    env[result] = choose(SeparableTile((condition,)), yes[i], no[i])

    def run_while(self, op: IrOperation, env: dict[str, Value], active: Array) -> None:
        """``scf.while``."""
        before, after = (region.entry for region in op.regions)
        carried = [env.get(x) for x in op.operands]
        results: list[Value] = [None] * len(op.results)
        live = active
        for _ in range(LONGEST):
            env.update(zip(before.arguments, carried, strict=True))
            end = self.run_block(before, env, live)
            goes_on = self.read(op, end.operands[0], env).dense()
            passed = [env.get(x) for x in end.operands[1:]]
            ends = SeparableTile((live & ~goes_on,))
            for i, result in enumerate(op.results):
                if result in self.needed:
                    old = results[i]
                    results[i] = passed[i] if old is None else choose(ends, passed[i], old)
            live = live & goes_on
            if not live.any():
                env.update(zip(op.results, results, strict=True))
                return
            env.update(zip(after.arguments, passed, strict=True))
            end = self.run_block(after, env, live)
            carried = [env.get(x) for x in end.operands]
        self.refuse(op, f"a loop that doesn't end within {LONGEST:,} iterations")

    def run_specialize(self, op: IrOperation, env: dict[str, Value], active: Array) -> None:
        """``ttg.warp_specialize``: regions that run at once, each by warps of its own."""
        before, around = self.written, self.read_data
        written: list[set[str]] = []
        read: list[set[str]] = []
        for i, region in enumerate(op.regions):
            given = zip(region.entry.arguments, map(env.get, op.operands), strict=True)
            self.written, self.read_data = set(before), set()
            values = self.run(region, env | dict(given) if i else env, active)
            if i == 0:
                env.update(zip(op.results, values, strict=True))
            written.append(self.written - before)
            read.append(self.read_data)
        for i, names in enumerate(read):
            others = set().union(*(w for j, w in enumerate(written) if j != i))
            if both := sorted(names & others):
                self.refuse(op, f"{both[0]} steers some warps while others write it")
        self.written, self.read_data = before.union(*written), around.union(*read)

    def run_branches(self, region: IrRegion, env: dict[str, Value], active: Array) -> list[Value]:
        """Run blocks that branch forward only, as for an early return; each runs at most once.

        Returns what the region returns; a branch back is refused.
        """
        order = {block.label: i for i, block in enumerate(region.blocks)}
        pending: dict[int, tuple[Array, list[Value]]] = {0: (active, [])}
        out: list[Value] = []
        for i, block in enumerate(region.blocks):
            if i not in pending:
                continue
            live, given = pending.pop(i)
            if i:
                env.update(zip(block.arguments, given, strict=True))
            end = self.run_block(block, env, live)
            if end.name == "tt.return":
                values = [env.get(x) for x in end.operands]
                out = (
                    [choose(SeparableTile((live,)), *x) for x in zip(values, out, strict=True)]
                    if out
                    else values
                )
                continue
            for mask, (label, names) in zip(self.take(end, env, live), end.successors, strict=True):
                to = order[label]
                if to <= i:
                    self.refuse(end, "a loop made of branches")
                if mask.any():
                    values = [env.get(x) for x in names]
                    pending[to] = _merge(mask, values, pending.get(to))
        return out

    def take(self, end: IrOperation, env: dict[str, Value], live: Array) -> list[Array]:
        """For each successor of a block, the mask of programs that go there."""
        if end.name == "cf.br":
            return [live]
        if end.name != "cf.cond_br":
            self.refuse(end, f"{end.name} isn't known")
        holds = self.read(end, end.operands[0], env).dense()
        return [live & holds, live & ~holds]

    def run_call(self, op: IrOperation, env: dict[str, Value], active: Array) -> None:
        """``tt.call``."""
        callee = self.functions.get(find_callee(op))
        if callee is None:
            self.refuse(op, "calls a function that isn't there")
            return
        values = {n: env.get(x) for n, x in zip(callee.arguments, op.operands, strict=True)}
        returns = any(x in self.needed for x in op.results)
        env.update(zip(op.results, self.call(callee, values, active, returns), strict=True))

    # References.

    def load(self, op: IrOperation, env: dict[str, Value], active: Array) -> None:
        """``tt.load``: of pointers, or of a block pointer."""
        place = self.read(op, op.operands[0], env)
        if isinstance(place, Descriptor):
            self.load_tile(op, place, place.starts, active, env, _checked_axes(op))
            return
        mask = self.read(op, op.operands[1], env) if len(op.operands) > 1 else None
        tile = tile_shape(op.types[0])
        self.refer("load", op, place, _mask_arrays(mask), active, tile)
        if op.results[0] in self.needed:
            other = env.get(op.operands[2]) if len(op.operands) > 2 else None
            env[op.results[0]] = self.fetch(op, place, mask, other, active)

    def copy(self, op: IrOperation, env: dict[str, Value], active: Array) -> None:
        """``ttg.async_copy_global_to_local``: a load into shared memory."""
        place, *masks = (self.read(op, x, env) for x in steering_operands(op))
        hidden = masks[0].arrays if masks else ()
        self.refer("load", op, place, hidden, active, tile_shape(op.types[0]))

    def store(self, op: IrOperation, env: dict[str, Value], active: Array) -> None:
        """``tt.store``."""
        place = self.read(op, op.operands[0], env)
        if isinstance(place, Descriptor):
            masks, offsets = _tile_of(place, place.starts, _checked_axes(op))
            self.refer("store", op, offsets, masks, active, place.tile)
            return
        mask = self.read(op, op.operands[2], env) if len(op.operands) > 2 else None
        self.refer("store", op, place, _mask_arrays(mask), active, tile_shape(op.types[0]))

    def update(self, op: IrOperation, env: dict[str, Value], active: Array) -> None:
        """``tt.atomic_rmw`` and ``tt.atomic_cas``; refused if their results steer the kernel."""
        if any(result in self.needed for result in op.results):
            self.refuse(
                op, "what an atomic operation returns steers the kernel (a lock, or a queue)"
            )
        place = self.read(op, op.operands[0], env)
        masked = op.name == "tt.atomic_rmw" and len(op.operands) > 2
        mask = self.read(op, op.operands[2], env) if masked else None
        self.refer("atomic", op, place, _mask_arrays(mask), active, tile_shape(op.types[0]))

    def move_tile(self, op: IrOperation, env: dict[str, Value], active: Array) -> None:
        """An operation of `iosim.kernel.slicing.BOXES`."""
        name, places, conditions = box_operands(op)
        block, *starts = (self.read(op, x, env) for x in (name, *places))
        for condition in conditions:
            active = active & self.read(op, condition, env).dense()
        if op.name == "tt.descriptor_load":
            self.load_tile(op, block, starts, active, env)
            return
        masks, at = _tile_of(block, starts)
        self.refer(BOXES[op.name], op, at, masks, active, block.tile)

    def move_rows(self, op: IrOperation, env: dict[str, Value], active: Array) -> None:
        """``tt.descriptor_gather``, ``_scatter`` and the like: rows whose numbers are in a tile."""
        kind = "load" if op.name.endswith("gather") else "store"
        block, rows, column, *conditions = (self.read(op, x, env) for x in steering_operands(op))
        for condition in conditions:
            active = active & condition.dense()
        columns = block.tile[-1]
        y = SeparableTile((along(np.arange(columns), 1, 2),)).join(column.map(lambda x: lift(x, 2)))
        x = rows.map(lambda a: np.expand_dims(a, -1))
        n = tile_shape(next(t for t in op.types if "i32" in t and "tensor<" in t))[0]
        masks, places = _inside(block, (x, y))
        self.refer(kind, op, places, masks, active, (n, columns))

    def load_tile(
        self,
        op: IrOperation,
        block: Descriptor,
        starts: Sequence[SeparableTile],
        active: Array,
        env: dict[str, Value],
        checked: Sequence[int] | None = None,
    ) -> None:
        """Load a descriptor's tile; elements outside the tensor are masked.

        Args:
            starts: where the tile begins, along each axis of the tensor.
            checked: axes along which elements outside are masked; all if None.
        """
        masks, places = _tile_of(block, starts, checked)
        self.refer("load", op, places, masks, active, block.tile)
        if op.results[0] in self.needed:
            shape = tile_shape(op.result_type)
            out = array_of(
                self.fetch(op, places, SeparableTile(masks) if masks else None, None, active)
            )
            full = np.broadcast_to(out, out.shape[:GRID] + block.tile)
            env[op.results[0]] = wrap(full.reshape(full.shape[:GRID] + shape))

    def refer(
        self,
        kind: str,
        op: IrOperation,
        pointer: Pointer,
        masks: tuple[Array, ...],
        active: Array,
        tile: tuple[int, ...],
    ) -> None:
        """Report a `Reference` for each argument that the pointer may point to.

        Nothing else calls `self.observe`.
        """
        for place in pointer.places:
            live = active & place.when.dense() if place.when else active
            if not live.any():
                continue
            if kind != "load":
                self.written.add(place.argument)
            self.observe(
                Reference(
                    kind,
                    place.argument,
                    place.offset,
                    masks,
                    live,
                    tile,
                    type_width(op.types[0]),
                    self.shape,
                    op,
                )
            )

    def fetch(
        self,
        op: IrOperation,
        pointer: Pointer,
        mask: SeparableTile | None,
        other: Value,
        active: Array,
    ) -> Value:
        """The result of a load that steers the kernel, from `CallValues.data`.

        Raises UnsupportedKernel if the tensor isn't given, was written before, or is too short.
        """
        if len(pointer.places) > 1:
            self.refuse(op, "data that steers the kernel comes from several tensors")
        place = pointer.places[0]
        if place.argument not in self.launch.data:
            self.refuse(
                op,
                f"the words of {place.argument} steer the kernel: give them with "
                f"--data {place.argument}=FILE.npy",
            )
        if place.argument in self.written:
            self.refuse(op, f"{place.argument} steers the kernel, which has written it before")
        self.read_data.add(place.argument)
        data = np.asarray(self.launch.data[place.argument]).reshape(-1)
        offsets = place.offset.dense()
        live = np.broadcast_arrays(lift(active, offsets.ndim - GRID), offsets)[0]
        if mask is not None:
            live = live & mask.dense()
        wide = np.broadcast_to(offsets, live.shape)[live]
        if wide.size and (wide.min() < 0 or wide.max() >= data.size):
            wrong = wide[(wide < 0) | (wide >= data.size)][0]
            self.refuse(op, f"reads {place.argument}[{wrong}]: it has {data.size} words")
        out = data[np.clip(offsets, 0, max(data.size - 1, 0))]
        if mask is not None:
            default = array_of(other) if other is not None else np.zeros((), data.dtype)
            out = np.where(mask.dense(), out, default)
        if element_type(op.result_type) == "i1":
            return SeparableTile((out.astype(bool),))
        kind = FLOATS.get(element_type(op.result_type), np.float32)
        if is_float(op.result_type):
            return out.astype(kind)
        return keep_bits(op.result_type, SeparableTile((out.astype(np.int64),)))

    # Products and reductions.

    def multiply(self, op: IrOperation, env: dict[str, Value], active: Array) -> None:
        """``ttng.tc_gen5_mma``: a product, unless its condition is false."""
        condition = self.read(op, product_condition(op), env).dense()
        self.work += operation_work(op) * self.count_programs(active & condition)

    def fold(self, op: IrOperation, env: dict[str, Value], active: Array) -> None:
        """``tt.reduce`` and ``tt.scan``; skipped if no result is needed."""
        if not any(result in self.needed for result in op.results):
            return
        shape = tile_shape(op.types[0])
        axis = GRID + int(op.attributes["axis"].split(":")[0])
        arrays = [array_of(self.read(op, x, env)) for x in op.operands]
        tiles = list(np.broadcast_arrays(*(spread(x, shape) for x in arrays)))
        check_size(*tiles)
        backwards = op.attributes.get("reverse", "false").startswith("true")
        if op.name == "tt.scan":
            tiles = [np.flip(x, axis) if backwards else x for x in tiles]
            kept = [[np.take(x, [0], axis) for x in tiles]]
            for i in range(1, shape[axis - GRID]):
                kept.append(
                    self.combine(op, kept[-1], [np.take(x, [i], axis) for x in tiles], env, active)
                )
            joined = [np.concatenate(x, axis) for x in zip(*kept, strict=True)]
            outcomes = [np.flip(x, axis) if backwards else x for x in joined]
        else:
            # Neighbors first: the operation is associative, and a side is a power of two.
            while tiles[0].shape[axis] > 1:
                halves = (np.arange(i, tiles[0].shape[axis], 2) for i in (0, 1))
                even, odd = ([np.take(x, half, axis) for x in tiles] for half in halves)
                tiles = self.combine(op, even, odd, env, active)
            outcomes = [np.take(x, 0, axis) for x in tiles]
        env.update(zip(op.results, map(wrap, outcomes), strict=True))

    def combine(
        self,
        op: IrOperation,
        first: list[Array],
        second: list[Array],
        env: dict[str, Value],
        active: Array,
    ) -> list[Array]:
        """Apply the region of a reduction or a scan to two tiles, element by element."""
        block = op.regions[0].entry
        given = map(wrap, (*first, *second))
        inner = env | dict(zip(block.arguments, given, strict=True))
        for step in filter(self.matters, block.operations[:-1]):
            self.execute(step, inner, active)
        return [
            np.broadcast_to(array_of(inner[x]), y.shape)
            for x, y in zip(block.operations[-1].operands, first, strict=True)
        ]


def _merge(
    mask: Array, values: list[Value], before: tuple[Array, list[Value]] | None
) -> tuple[Array, list[Value]]:
    """The mask and arguments of a block, after programs of `mask` reach it with `values`.

    `before` is the mask and the arguments of programs that reached it earlier, or None.
    """
    if before is None:
        return mask, values
    chosen = [
        x if y is None else y if x is None else choose(SeparableTile((mask,)), x, y)
        for x, y in zip(values, before[1], strict=True)
    ]
    return mask | before[0], chosen


def _mask_arrays(mask: SeparableTile | None) -> tuple[Array, ...]:
    return () if mask is None else mask.arrays


def _checked_axes(op: IrOperation) -> tuple[int, ...]:
    """The axes along which a block pointer's tile is clipped."""
    text = op.attributes.get("boundaryCheck", "")
    return tuple(int(n) for n in re.findall(r"(?<![\w:])\d+", text.split(":")[-1]))


def _tile_of(
    block: Descriptor, starts: Sequence[SeparableTile], checked: Sequence[int] | None = None
) -> tuple[tuple[Array, ...], Pointer]:
    """The masks and the addresses of a descriptor's tile that begins at `starts`."""
    rank = len(block.tile)
    index = tuple(
        SeparableTile((along(np.arange(n), i, rank),)).join(start.map(lambda x: lift(x, rank)))
        for i, (n, start) in enumerate(zip(block.tile, starts, strict=True))
    )
    return _inside(block, index, checked)


def _inside(
    block: Descriptor, index: Sequence[SeparableTile], checked: Sequence[int] | None = None
) -> tuple[tuple[Array, ...], Pointer]:
    """The masks of elements inside the tensor, and the addresses of all elements.

    `index` has the elements' position along each axis; `checked` as for `load_tile`.
    """
    rank = len(index)
    masks: list[Array] = []
    places = block.pointer.map(lambda t: t.map(lambda x: lift(x, rank)))
    for i, (x, length, stride) in enumerate(zip(index, block.shape, block.strides, strict=True)):
        step = stride.map(lambda a: lift(a, rank))
        offset = x.times(step)
        places = places.map(partial(SeparableTile.join, other=offset))
        if checked is None or i in checked:
            at = x.dense()
            masks.append((at >= 0) & (at < lift(length.dense(), rank)))
    return tuple(masks), places


Effect = Callable[[_Part, IrOperation, "dict[str, Value]", Array], None]
# Operations that refer to memory or run regions.
EFFECTS: dict[str, Effect] = {
    "scf.for": _Part.run_for,
    "scf.if": _Part.run_if,
    "scf.while": _Part.run_while,
    "tt.call": _Part.run_call,
    "ttg.warp_specialize": _Part.run_specialize,
    "tt.load": _Part.load,
    "ttg.async_copy_global_to_local": _Part.copy,
    "tt.store": _Part.store,
    "tt.atomic_rmw": _Part.update,
    "tt.atomic_cas": _Part.update,
    **dict.fromkeys(BOXES, _Part.move_tile),
    "tt.descriptor_gather": _Part.move_rows,
    "tt.descriptor_scatter": _Part.move_rows,
    "ttng.async_tma_gather": _Part.move_rows,
    "ttng.async_tma_scatter": _Part.move_rows,
    "ttng.tc_gen5_mma": _Part.multiply,
    "tt.reduce": _Part.fold,
    "tt.scan": _Part.fold,
}
