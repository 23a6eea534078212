"""The emitter: a bound program becomes the text of Triton kernels, one per top-level nest.

The chain of grid loops at the top of a nest becomes the launch grid; everything below it runs
inside the kernel, in the program's order.  A buffer is a block value whose sides are the powers
of two that hold its extents; ragged edges are masks.  The text is the same for fp16, bf16 and
fp32: loads keep the tensor's type, accumulators are fp32.

Every transfer also knows how to count itself: with ``COUNT`` a program instance adds up the
unmasked words that its own loads and stores move and leaves the sums in ``words_ptr``, one row
per instance.  Without it that code is not compiled at all.

A nest that sweeps columns in order can be emitted *in step* (`InStep`): as many programs as are
resident at once walk all items wave by wave, and none passes a gate before all have read the
same column blocks.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from iosim.counts import Key
from iosim.errors import IosimError
from iosim.gpu import layout
from iosim.gpu.prune import Body, chain, nests, touched
from iosim.program.ir import (
    Alloc,
    Free,
    Index,
    Load,
    Loop,
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

LEAST_SIDE = 16  # tl.dot takes powers of two from here on
LARGEST_BLOCK = 2**20  # elements: Triton's own limit


class EmitError(IosimError):
    """A program that has no GPU form as it stands."""


@dataclass(frozen=True, slots=True)
class InStep:
    """Keep `programs` resident programs within `every` column blocks of each other."""

    programs: int
    every: int = 64


@dataclass(frozen=True, slots=True)
class Kernel:
    """One emitted kernel.

    Attributes:
        name: of the function in the emitted text.
        grid: program instances to launch.
        items: independent pieces of work; equal to `grid` unless in step.
        tensors: the order of the pointer arguments.
        keys: the columns of ``words_ptr``, in order.
        in_step: whether a ``gate_ptr`` (int32, zeroed before every launch) follows the pointers.
        block: the largest number of elements in a block value, for choosing warps.
    """

    name: str
    grid: int
    items: int
    tensors: tuple[str, ...]
    keys: tuple[Key, ...]
    in_step: bool
    block: int


@dataclass(frozen=True, slots=True)
class Emitted:
    """The text of a module, and its kernels in launch order."""

    instance: Instance
    source: str
    kernels: tuple[Kernel, ...]


def side(extent: int) -> int:
    """The power of two, at least 16, that holds `extent`."""
    return max(LEAST_SIDE, 1 << (extent - 1).bit_length())


def emit(instance: Instance, in_step: InStep | None = None) -> Emitted:
    """Compile a bound program to Triton source.

    Raises EmitError, naming the cause: an operation without a template, a part of a held tile,
    a block that is too large, or a nest that cannot run in step.
    """
    bodies = nests(instance)
    stem = re.sub(r"\W", "_", instance.program.name)
    names = [stem] if len(bodies) == 1 else [f"{stem}_{k}" for k in range(1, len(bodies) + 1)]
    parts = [_Nest(instance, n, b, in_step) for n, b in zip(names, bodies, strict=True)]
    sizes = ", ".join(f"{name} = {value}" for name, value in instance.values)
    texts = [HEADER.format(name=instance.program.name, sizes=sizes)]
    if in_step:
        texts.append(GATE)
    texts += [part.text for part in parts]
    return Emitted(instance, "\n\n".join(texts), tuple(part.kernel for part in parts))


HEADER = '''\
"""{name} with {sizes}.  Emitted by iosim from the program that it counts."""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def unmasked(ok, rows: tl.constexpr, columns: tl.constexpr):
    """Words that a masked transfer of a rows x columns block moves."""
    return tl.sum(tl.broadcast_to(ok, [rows, columns]).to(tl.int32)).to(tl.int64)


@triton.jit
def load_vector(at, ok, side: tl.constexpr):
    """Load a vector, each word by one thread: column 0 of a block that all the warps share."""
    columns: tl.constexpr = 1024 // side if side < 1024 else 1
    first = tl.arange(0, columns) == 0
    at = at[:, None] + tl.zeros([1, columns], tl.int32)
    return tl.sum(tl.load(at, mask=ok[:, None] & first[None, :], other=0.0), 1)
'''

GATE = '''\
@triton.jit
def wait_for_all(gate_ptr, arrivals):
    """Arrive, then wait until `arrivals` programs have; give up rather than hang."""
    tl.debug_barrier()
    tl.atomic_add(gate_ptr, 1)
    tries = tl.full([], 0, tl.int32)
    while (tl.atomic_add(gate_ptr, 0) < arrivals) & (tries < 4194304):
        tries += 1
    tl.debug_barrier()
'''


@dataclass(frozen=True, slots=True)
class _Operand:
    """What a template may say about an operand: its name, and the shape of its block."""

    name: str
    shape: str

    def __str__(self) -> str:
        return self.name


class _Nest:
    """Emits one kernel.  State: the lines so far, and what each open tile and buffer is."""

    def __init__(self, instance: Instance, name: str, body: Body, in_step: InStep | None) -> None:
        self.instance, self.in_step = instance, in_step
        self.lines: list[tuple[int, str]] = []
        self.header: dict[str, str] = {}  # name → line: shared index vectors and masks
        self.depth = 1
        self.at: dict[Tile, str] = {}  # where a tile starts: a variable or a number
        self.loops: dict[Tile, Loop] = {}
        self.buffers: dict[str, tuple[Index, ...]] = {}
        self.loaded = {n.buffer for n in nodes(body) if isinstance(n, Load)}
        self.block = 1
        loads, stores = touched(body, Load), touched(body, Store)
        self.keys: tuple[Key, ...] = (
            *(("load", t) for t in sorted(loads)),
            *(("store", t) for t in sorted(stores)),
        )
        self.tensors = tuple(t.name for t in instance.program.tensors if t.name in loads | stores)
        grid, inside = chain(body)
        self.items = 1
        for loop in grid:
            self.items *= self._trips(loop)
        self._launch(grid, inside)
        programs = min(in_step.programs, self.items) if in_step else self.items
        self.kernel = Kernel(
            name, programs, self.items, self.tensors, self.keys, in_step is not None, self.block
        )
        self.text = self._module_text(name)

    # -- the frame ------------------------------------------------------------------------

    def _module_text(self, name: str) -> str:
        pointers = [f"{t}_ptr" for t in self.tensors]
        pointers += ["gate_ptr"] * (self.in_step is not None)
        head = [
            "@triton.jit",
            f"def {name}({', '.join(pointers)}, words_ptr, COUNT: tl.constexpr):",
        ]
        head += [f"    {line}" for line in self.header.values()]
        head += ["    if COUNT:"]
        head += [f"        {_counter(key)} = tl.full([], 0, tl.int64)" for key in self.keys]
        body = ["    " * depth + line for depth, line in self.lines]
        tail = ["    if COUNT:"]
        row = f"words_ptr + tl.program_id(0) * {len(self.keys)}"
        tail += [f"        tl.store({row} + {k}, {_counter(key)})"
                 for k, key in enumerate(self.keys)]  # fmt: skip
        return "\n".join([*head, *body, *tail]) + "\n"

    def _launch(self, grid: tuple[Loop, ...], inside: Body) -> None:
        """Turn the launch index into tiles: the innermost grid loop runs fastest."""
        if self.in_step is None:
            self._say("item = tl.program_id(0)")
        else:
            programs = min(self.in_step.programs, self.items)
            waves = -(-self.items // programs)
            self._say(f"for wave in range(0, {waves}):")
            self.depth += 1
            self._say(f"item = wave * {programs} + tl.program_id(0)")
            self._say(f"if item < {self.items}:")
            self.depth += 1
        below = self.items
        for loop in grid:
            trips = self._trips(loop)
            start, _ = self.instance.span(loop.span)
            below //= trips
            text = "item" if below == 1 else f"item // {below}"
            text += f" % {trips}" if trips * below < self.items else ""
            step = 1 if loop.step is None else self.instance.env[loop.step]
            text += f" * {step}" if step > 1 else ""
            text = f"{start} + {text}" if start else text
            if trips == 1:
                self._open(loop, str(start))
            else:
                var = self._var(loop.tile)
                self._say(f"{var} = {text}")
                self._open(loop, var)
        gated = next((n for n in inside if isinstance(n, Loop) and not n.parallel), None)
        if self.in_step and (gated is None or gated.step is None):
            raise EmitError(
                f"{self.instance.program.name} has a nest with no sequential loop right below its "
                "grid, so nothing to keep in step: emit it without in_step"
            )
        self._body(inside, gated if self.in_step else None)

    def _say(self, line: str) -> None:
        self.lines.append((self.depth, line))

    # -- nodes ----------------------------------------------------------------------------

    def _body(self, body: Body, gated: Loop | None = None) -> None:
        stored: set[str] = set()  # by other threads of this instance, maybe not visible yet
        for node in body:
            if touched((node,), Load) & stored:
                self._say("tl.debug_barrier()")
                stored.clear()
            if isinstance(node, Loop):
                self._loop(node, node is gated)
            elif isinstance(node, Load):
                self._load(node)
            elif isinstance(node, Store):
                self._store(node)
            elif isinstance(node, Op):
                self._op(node)
            elif isinstance(node, Alloc):
                self._buffer(node.buffer, node.index)
            else:
                assert isinstance(node, Free)
            stored |= touched((node,), Store)

    def _loop(self, loop: Loop, gated: bool) -> None:
        start, stop = self.instance.span(loop.span)
        step = 1 if loop.step is None else self.instance.env[loop.step]
        if self._trips(loop) == 1:
            self._open(loop, str(start))
            self._body(loop.body)
            return
        var = self._var(loop.tile)
        depth = self.depth
        if gated:
            assert self.in_step is not None
            sweep = self.in_step.every * step
            programs = min(self.in_step.programs, self.items)
            gates = -(-(stop - start) // sweep)
            self._say(f"for sweep in range(0, {gates}):")
            self.depth += 1
            self._say(f"here = tl.minimum({programs}, {self.items} - wave * {programs})")
            self._say(f"wait_for_all(gate_ptr, wave * {gates * programs} + (sweep + 1) * here)")
            first = f"{start} + sweep * {sweep}" if start else f"sweep * {sweep}"
            last = f"tl.minimum({first} + {sweep}, {stop})"
            self._say(f"for {var} in range({first}, {last}, {step}):")
        else:
            self._say(f"for {var} in range({start}, {stop}, {step}):")
        self.depth += 1
        self._open(loop, var)
        self._body(loop.body)
        if not loop.parallel and touched(loop.body, Load) & touched(loop.body, Store):
            self._say("tl.debug_barrier()  # the next iteration reads what this one stored")
        self.depth = depth

    def _open(self, loop: Loop, at: str) -> None:
        """Enter a loop whose tile starts at `at`; a ragged tile gets a mask."""
        self.at[loop.tile] = at
        self.loops[loop.tile] = loop
        if loop.step is None:
            return
        start, stop = self.instance.span(loop.span)
        step = self.instance.env[loop.step]
        block = side(min(step, stop - start))
        if self._masked(loop.tile):
            ok = f"{self._add(at, self._iota(block))} < {stop}"
            if block != step and self._trips(loop) > 1:
                ok = f"({self._iota(block)} < {step}) & ({ok})"
            self._say(f"{self._var(loop.tile)}_in = {ok}")

    def _load(self, node: Load) -> None:
        name = self._buffer(node.buffer, node.index)
        own = dims(node.index)
        at, ok = self._pointer(node), self._mask(own)
        if len(own) == 1:
            block = self._block(own[0])
            ok = ok or f"tl.full([{block}], True, tl.int1)"
            self._say(f"{name} = load_vector({at}, {ok}, {block})")
        elif not own:
            self._say(f"{name} = tl.load({at})")
        else:
            self._say(f"{name} = tl.load({at}{f', mask={ok}, other=0.0' if ok else ''})")
        self._count(("load", node.tensor), own)

    def _store(self, node: Store) -> None:
        own = dims(node.index)
        at, ok = self._pointer(node), self._mask(own)
        pointer = f"{node.tensor}_ptr"
        value = f"{self._name(node.buffer)}.to({pointer}.dtype.element_ty)"
        self._say(f"tl.store({at}, {value}{f', mask={ok}' if ok else ''})")
        self._count(("store", node.tensor), own)

    def _op(self, node: Op) -> None:
        spec = OPS[node.name]
        if spec.triton is None:
            raise EmitError(
                f"operation {node.name!r} has no Triton template: add one to its record in "
                "iosim.program.ops.OPS"
            )
        operands = {}
        for letter, ref in zip(
            inspect.signature(spec.numpy).parameters, node.operands, strict=True
        ):
            self._whole(ref)
            own = self.buffers[ref.buffer]
            name = self._name(ref.buffer)
            operands[letter] = _Operand(name, self._shape(own))
            if letter in spec.lowest and (edge := self._mask(own[-1:])):
                edge = f"{edge}[None, :]" if len(own) == 2 else edge
                wide = f"{name}.to(tl.float32)" if ref.buffer in self.loaded else name
                self._say(f'{name} = tl.where({edge}, {wide}, float("-inf"))')
        for line in spec.triton.format(**operands).splitlines():
            self._say(line)

    def _whole(self, ref: Ref) -> None:
        """A block value cannot be cut, so a part of a held buffer must be all of it."""
        if ref.part is None:
            return
        loop = self.loops[ref.part]
        base = next(x for x in self.buffers[ref.buffer] if x.axis == ref.part.axis)
        if not isinstance(base, Span) or list(layout.ranges(self.instance, loop)) != [
            self.instance.span(base)
        ]:
            raise EmitError(
                f"{ref} is a part of the held tile {ref.buffer}: on a GPU the loop {ref.part} "
                f"must cover it in one step; set {loop.step} to the hold, or the hold to 0"
            )

    # -- pieces of text -------------------------------------------------------------------

    def _count(self, key: Key, own: tuple[Index, ...]) -> None:
        sides = [self._block(x) for x in own]
        rows, columns = [*([1] * (2 - len(sides))), *sides]
        ok = self._mask(own)
        ok = f"{ok}[None, :]" if ok and len(own) == 1 else ok
        words = f"unmasked({ok}, {rows}, {columns})" if ok else str(rows * columns)
        self._say(f"if COUNT: {_counter(key)} += {words}")

    def _pointer(self, node: Load | Store) -> str:
        """``tensor_ptr + where the tile starts + offsets within it``."""
        tensor = self.instance.program.tensor(node.tensor)
        steps = layout.strides(tensor, self.instance)
        far = layout.allocation(tensor, self.instance) >= 2**31
        base = f"{node.tensor}_ptr"
        inner: list[str] = []
        own = dims(node.index)
        for x, stride in zip(node.index, steps, strict=True):
            at = self.at[x] if isinstance(x, Tile) else str(self.instance.span(x)[0])
            if at.isdigit():
                base = self._add(base, str(int(at) * stride))
            else:
                at = f"tl.cast({at}, tl.int64)" if far else at
                base = self._add(base, at if stride == 1 else f"{at} * {stride}")
            if x in own:
                last = x is node.index[-1]
                iota = self._iota(self._block(x), loose=last and self._extent_end(x) % 8 != 0)
                at = f"{iota}{'' if len(own) < 2 else '[None, :]' if inner else '[:, None]'}"
                inner.append(at if stride == 1 else f"{at} * {stride}")
        if not inner:
            return base
        return f"{base} + ({' + '.join(inner)})" if len(inner) > 1 else f"{base} + {inner[0]}"

    def _mask(self, own: tuple[Index, ...]) -> str:
        """The mask of a block, or an empty text where nothing is masked."""
        found = []
        for k, x in enumerate(own):
            if self._masked(x):
                ok = f"{self._var(x)}_in" if isinstance(x, Tile) else self._span_mask(x)
                found.append(f"{ok}{'' if len(own) < 2 else '[None, :]' if k else '[:, None]'}")
        return " & ".join(found)

    def _masked(self, x: Index) -> bool:
        if isinstance(x, Span):
            start, stop = self.instance.span(x)
            return self._block(x) != stop - start
        sizes = {b - a for a, b in _ends(self.instance, self.loops[x])}
        return sizes != {self._block(x)}

    def _span_mask(self, x: Span) -> str:
        start, stop = self.instance.span(x)
        name = f"{x.axis}_in" if x.whole else f"{x.axis}_{start}_{stop}_in"
        iota = self._iota(self._block(x))
        self.header.setdefault(name, f"{name} = {iota} < {stop - start}")
        return name

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

    def _extent_end(self, x: Index) -> int:
        if isinstance(x, Span):
            return self.instance.span(x)[1]
        return self.instance.span(self.loops[x].span)[1]

    def _block(self, x: Index) -> int:
        if isinstance(x, Span):
            start, stop = self.instance.span(x)
            return side(stop - start)
        loop = self.loops[x]
        start, stop = self.instance.span(loop.span)
        return side(min(stop - start, self.instance.env[str(loop.step)]))

    def _shape(self, own: tuple[Index, ...]) -> str:
        return f"[{', '.join(str(self._block(x)) for x in own)}]"

    def _buffer(self, buffer: str, index: tuple[Index, ...]) -> str:
        own = dims(index)
        size = 1
        for x in own:
            size *= self._block(x)
        if len(own) > 2 or size > LARGEST_BLOCK:
            raise EmitError(
                f"buffer {buffer} is a block of {size} words in {len(own)} dimensions, and a "
                f"kernel takes at most {LARGEST_BLOCK} in 2: choose smaller tiles or holds"
            )
        self.block = max(self.block, size)
        self.buffers[buffer] = own
        return self._name(buffer)

    def _name(self, buffer: str) -> str:
        taken = {self._var(t) for t in self.loops} | {"item", "wave", "sweep", "here", "tl"}
        return f"{buffer}_" if buffer in taken else buffer

    def _trips(self, loop: Loop) -> int:
        start, stop = self.instance.span(loop.span)
        step = 1 if loop.step is None else self.instance.env[loop.step]
        return -(-(stop - start) // step)

    @staticmethod
    def _var(tile: Tile) -> str:
        return tile.var

    @staticmethod
    def _add(left: str, right: str) -> str:
        return left if right == "0" else right if left == "0" else f"{left} + {right}"


def _counter(key: Key) -> str:
    return f"{'loaded' if key[0] == 'load' else 'stored'}_{key[1]}"


def _ends(instance: Instance, loop: Loop) -> list[tuple[int, int]]:
    """The first and the last tile of a loop: all the sizes that its tiles have."""
    start, stop = instance.span(loop.span)
    step = 1 if loop.step is None else instance.env[loop.step]
    last = start + (stop - start - 1) // step * step
    return [(start, min(start + step, stop)), (last, stop)]
