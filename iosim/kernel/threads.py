"""Evaluates PTX for all threads of all programs at once, and reports what warps refer to.

A value is a tile of `iosim.kernel.values`, whose axes are the warps of a program and the lanes of a
warp.  As in `iosim.kernel.evaluate`, only registers that addresses, guards and branches depend on
are computed (`iosim.kernel.liveness`).  A pointer is an integer: the number of its argument, in its
upper bits, and bytes.

`iosim.kernel.sectors` counts what is reported.  What isn't known raises `UnsupportedKernel`.

``tests/kernel/test_counters.py`` compares with counters of an H200.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from iosim.kernel.evaluate import CallValues, UnsupportedKernel, halve_grid, open_grid
from iosim.kernel.lanes import MEANINGS, UnknownValue, bits_of
from iosim.kernel.liveness import (
    SHARED_MEMORY,
    classify,
    find_needed,
    find_unused,
    global_address,
    list_outputs,
)
from iosim.kernel.ptx import PtxFunction, PtxInstruction
from iosim.kernel.semantics import keep_bits
from iosim.kernel.values import (
    GRID,
    MOST,
    Array,
    ArrayTooLarge,
    SeparableTile,
    check_size,
    choose,
    constant,
    spread,
)

LANES = 32
ARGUMENT = 44  # bits of an address within an argument
_MIDDLE = 1 << (ARGUMENT - 1)  # the first byte of an argument, so that offsets may be negative
_UNKNOWN = 256  # a byte of shared memory that isn't known
# An answer that a program waits for is there.
_WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")
_SPECIAL = re.compile(r"%(n?tid|n?ctaid|laneid|warpid)(?:\.([xyz]))?")
_ADDRESS = re.compile(r"\[\s*([^\s+\]]+)\s*(?:\+\s*(-?\w+))?\s*\]")
_Env = dict[str, "SeparableTile | UnknownValue"]


@dataclass(frozen=True)
class WarpAccess:
    """What one instruction refers to, in all warps of all programs that execute it.

    Attributes:
        kind: ``load``, ``store`` or ``atomic``; ``descriptor`` where a warp writes one.
        addresses: of each lane's first byte; all of its bytes, at most 16, are in one sector.
        masks: a lane counts where all of them are true.
        grid: programs that are evaluated together, along each axis.
        warps: of a program.
        instruction: it.
        answered: whether an atomic operation gets an answer: it is ordered, or its result is used.
    """

    kind: str
    addresses: SeparableTile
    masks: SeparableTile
    grid: tuple[int, int, int]
    warps: int
    instruction: PtxInstruction
    answered: bool = False


def evaluate_threads(
    functions: Mapping[str, PtxFunction],
    launch: CallValues,
    observe: Callable[[list[WarpAccess]], None],
) -> None:
    """Report every access of a launch; ``observe`` as for `iosim.kernel.evaluate.evaluate`.

    Raises:
        UnsupportedKernel: an address, a guard or a branch depends on what isn't known.
    """
    kernel = next(f for f in functions.values() if f.entry)
    needed = {f.name: find_needed(f) for f in functions.values()}
    todo = [((0, 0, 0), launch.grid)]
    while todo:
        origin, shape = todo.pop()
        try:
            if max(shape) > MOST:
                raise ArrayTooLarge
            seen: list[WarpAccess] = []
            ids = open_grid(origin, shape)
            _Threads(functions, kernel, needed, launch, ids, shape, seen.append).run_kernel()
            observe(seen)
        except ArrayTooLarge:
            todo += halve_grid(origin, shape, kernel.name)


class _Threads:
    """The threads of one part of the grid."""

    def __init__(
        self,
        functions: Mapping[str, PtxFunction],
        kernel: PtxFunction,
        needed: Mapping[str, set[str]],
        launch: CallValues,
        ids: tuple[Array, Array, Array],
        shape: tuple[int, int, int],
        observe: Callable[[WarpAccess], None],
    ) -> None:
        self.functions, self.kernel, self.needed_of = functions, kernel, needed
        self.launch, self.shape, self.observe = launch, shape, observe
        self.warps = kernel.threads // LANES
        self.ids = [x.reshape((*x.shape, 1, 1)) for x in ids]
        self.arguments: list[str] = []  # by number
        self.written: set[str] = set()
        self.unused = set().union(*map(find_unused, functions.values()))
        self.shared = np.zeros((*shape, 0), np.int16)  # bytes, or `_UNKNOWN`
        self.function = kernel
        self.needed: set[str] = set()
        lanes = np.arange(kernel.threads).reshape(1, 1, 1, self.warps, LANES)
        self.special = {"tid": lanes, "laneid": lanes % LANES, "warpid": lanes // LANES}

    def run_kernel(self) -> None:
        """Run the kernel."""
        self.arguments = list(self.launch.names)
        given: list[SeparableTile | UnknownValue] = []
        for number, name in enumerate(self.arguments, 1):
            if name in self.launch.values:
                given.append(read_number(self.launch.values[name]))
            elif name in self.launch.descriptors:
                shape, strides = self.launch.descriptors[name]
                given += [UnknownValue(name), *(constant(int(x), 2) for x in (*shape, *strides))]
            else:
                given.append(constant((number << ARGUMENT) + _MIDDLE, 2))
        values = {name: x for (name, _), x in zip(self.kernel.parameters, given, strict=False)}
        self.call(self.kernel, values, SeparableTile((np.ones((1,) * 5, bool),)))

    def call(self, function: PtxFunction, parameters: _Env, active: SeparableTile) -> _Env:
        """Run a function; what it leaves in its registers and parameters."""
        before = self.function, self.needed
        self.function, self.needed = function, self.needed_of[function.name]
        env = dict(parameters)
        pending: dict[int, SeparableTile] = {0: active}
        for step in itertools.count():
            if not pending:
                break
            if step > MOST:
                raise UnsupportedKernel(f"{function.name}: a loop of its PTX doesn't end")
            at = min(pending)
            live = pending.pop(at)
            for to, mask in self.run_block(at, env, live):
                if to < len(function.blocks):
                    if to in pending:
                        mask = SeparableTile((_dense(mask) | _dense(pending[to]),))
                    pending[to] = mask
        self.function, self.needed = before
        return env

    def run_block(
        self, at: int, env: _Env, live: SeparableTile
    ) -> Iterator[tuple[int, SeparableTile]]:
        """Run a block; the blocks that come next, and which threads go there."""
        for one in self.function.blocks[at]:
            name = one.name.split(".")[0]
            if name in ("bra", "ret", "exit", "trap"):
                go, stay = self.take(one, env, live)
                if go is not None and name == "bra":
                    yield self.function.labels[one.operands[0]], go
                if stay is None:
                    return
                live = stay
            elif classify(one.name):
                self.refer(one, env, live)
            elif name == "call":
                self.enter(one, env, live)
            else:
                self.write_registers(one, env, live)
        yield at + 1, live

    def take(
        self, one: PtxInstruction, env: _Env, live: SeparableTile
    ) -> tuple[SeparableTile | None, SeparableTile | None]:
        """The threads that follow a branch, and those that don't; None where there are none."""
        if not one.guard:
            return live, None
        if isinstance(self.read(env, one.guard), UnknownValue) and one.guard not in self.needed:
            return live, None  # what it leaves out matters to nothing
        holds = self.require(one, env, one.guard).dense()
        holds = ~holds if one.negated else holds
        if holds.all():
            return live, None
        if not holds.any():
            return None, live
        go, stay = (live.join(SeparableTile((x,))) for x in (holds, ~holds))
        return (go if _any(go) else None), (stay if _any(stay) else None)

    def enter(self, one: PtxInstruction, env: _Env, live: SeparableTile) -> None:
        """A call."""
        called = next((x for x in one.operands if x in self.functions), None)
        if called is None:
            return  # a message, or a function of the GPU's own; its result isn't known
        function = self.functions[called]
        lists = [x for x in one.operands if x.startswith("(")]
        given = re.findall(r"\w+", lists[-1]) if lists and one.operands[-1] == lists[-1] else []
        inner = {
            name: env[x]
            for (name, _), x in zip(function.parameters, given, strict=True)
            if x in env
        }
        left = self.call(function, inner, live)
        if one.operands[0].startswith("(") and one.operands[0] != called:
            for name in re.findall(r"\w+", one.operands[0]):
                if "func_retval0" in left:
                    env[name] = left["func_retval0"]

    # References.

    def refer(self, one: PtxInstruction, env: _Env, live: SeparableTile) -> None:
        """An instruction that refers to global memory."""
        masks = self.guard(one, env, live)
        kind = classify(one.name)
        unused = id(one) in self.unused
        if masks is None or (kind == "load" and unused):
            return
        if kind == "descriptor":
            nowhere = constant(0, 2)
            self.observe(WarpAccess(kind, nowhere, masks, self.shape, self.warps, one))
            return
        place = self.address(one, env, global_address(one))
        if one.name.startswith("cp.") and len(one.operands) > 3:
            given = self.require(one, env, one.operands[3]).dense()
            masks = masks.join(SeparableTile((given > 0,)))
        if not _any(masks):
            return
        if kind != "load":
            self.written.add(self.argument(place, masks))
        relaxed = unused and "acq" not in one.name and "rel." not in one.name
        answered = one.name.startswith("atom") and not relaxed
        self.observe(WarpAccess(kind, place, masks, self.shape, self.warps, one, answered))
        outputs = list_outputs(one)
        if any(x in self.needed for x in outputs):
            loaded = self.fetch(one, place, masks, outputs) if kind == "load" else None
            for i, name in enumerate(outputs):
                why = UnknownValue("what an atomic operation returns")
                self.assign(env, name, loaded[i] if loaded else why, masks)

    def argument(self, place: SeparableTile, masks: SeparableTile) -> str:
        """The argument that an address is in."""
        first = sum(int(x.flat[0]) for x in place.arrays)
        return self.arguments[(first >> ARGUMENT) - 1] if first >> ARGUMENT else ""

    def fetch(
        self,
        one: PtxInstruction,
        place: SeparableTile,
        masks: SeparableTile,
        outputs: list[str],
    ) -> list[SeparableTile | UnknownValue]:
        """What a load gives that steers the kernel."""
        name = self.argument(place, masks)
        if name not in self.launch.data:
            return [UnknownValue(f"the words of {name}")] * len(outputs)
        if name in self.written:
            return [UnknownValue(f"{name}, which the kernel has written before")] * len(outputs)
        data = np.ascontiguousarray(self.launch.data[name]).reshape(-1).view(np.uint8)
        start = (place.dense() & ((1 << ARGUMENT) - 1)) - _MIDDLE
        return self.gather(one, data, start, outputs, masks)

    def gather(
        self,
        one: PtxInstruction,
        data: Array,
        start: Array,
        outputs: list[str],
        masks: SeparableTile,
    ) -> list[SeparableTile | UnknownValue]:
        """Integers of the bytes that an instruction reads; ``data`` has one row, or many."""
        out: list[SeparableTile | UnknownValue] = []
        for name, cells in zip(outputs, list_cells(one, start, len(outputs)), strict=True):
            total = np.zeros((1,) * (GRID + 2), np.int64)
            for j, cell in enumerate(cells):
                if not data.size:
                    return [UnknownValue("words that aren't there")] * len(outputs)
                byte = np.clip(cell, 0, data.shape[-1] - 1)
                if data.ndim == 1:
                    found = data[byte]
                else:
                    wide = np.broadcast_to(byte, data.shape[:GRID] + byte.shape[GRID:])
                    flat = wide.reshape(*data.shape[:GRID], -1)
                    found = np.take_along_axis(data, flat, -1).reshape(wide.shape)
                if ((found == _UNKNOWN) & masks.dense()).any():
                    return [UnknownValue("what is in shared memory")] * len(outputs)
                total = total | (found.astype(np.int64) << (8 * j))
            if one.name.split(".")[-1].startswith("s"):
                half = 1 << (8 * len(cells) - 1)
                total = ((total + half) & (2 * half - 1)) - half
            out.append(_keep(SeparableTile((total,)), self.function.width(name)))
        return out

    def address(self, one: PtxInstruction, env: _Env, text: str) -> SeparableTile:
        """The value of an address."""
        match = _ADDRESS.match(text)
        if match is None:
            raise self.refuse(one, f"the address {text}")
        base = self.require(one, env, match[1])
        return base.join(constant(int(match[2], 0), 2)) if match[2] else base

    # Registers.

    def guard(self, one: PtxInstruction, env: _Env, live: SeparableTile) -> SeparableTile | None:
        """The threads that execute an instruction; None where there are none."""
        if not one.guard:
            return live
        holds = self.require(one, env, one.guard)
        if one.negated:
            holds = SeparableTile((~holds.dense(),))
        out = live.join(holds)
        return out if _any(out) else None

    def write_registers(self, one: PtxInstruction, env: _Env, live: SeparableTile) -> None:
        """An instruction that writes registers, if they are needed; or shared memory."""
        if one.name.startswith("st.param"):
            match = _ADDRESS.match(one.operands[0])
            assert match is not None
            env[match[1]] = self.read(env, one.operands[1])
            return
        if one.name.startswith(("st.shared", "stmatrix")):
            if SHARED_MEMORY in self.needed:
                self.store_shared(one, env, live)
            return
        outputs = list_outputs(one)
        if not any(x in self.needed for x in outputs):
            return
        masks = self.guard(one, env, live)
        if masks is None:
            return
        for name, value in zip(outputs, self.result(one, env, outputs, masks), strict=False):
            if isinstance(value, SeparableTile):
                value = _keep(value, self.function.width(name))
            self.assign(env, name, value, masks)

    def result(
        self, one: PtxInstruction, env: _Env, outputs: list[str], masks: SeparableTile
    ) -> list[SeparableTile | UnknownValue]:
        """What an instruction computes."""
        if one.name.startswith("ld.param"):
            match = _ADDRESS.match(one.operands[1])
            assert match is not None
            return [env.get(match[1], UnknownValue(f"the parameter {match[1]}"))]
        if one.name.startswith(("ld.shared", "ldmatrix")):
            place = self.address(one, env, one.operands[1]).dense()
            return self.gather(one, self.shared, place, outputs, masks)
        if one.name.startswith(_WAITS):
            return [constant(True, 2)]
        meaning = MEANINGS.get(one.name.split(".")[0])
        read = [self.read_list(env, x) for x in one.operands[1:]]
        given = [[x for x in values if isinstance(x, SeparableTile)] for values in read]
        if any(len(x) < len(y) for x, y in zip(given, read, strict=True)):
            return [next(x for v in read for x in v if isinstance(x, UnknownValue))] * len(outputs)
        widths = [self.function.width(x) for x in outputs]
        found = meaning(one, given, widths) if meaning else None
        return [UnknownValue(one.name)] * len(outputs) if found is None else [*found]

    def store_shared(self, one: PtxInstruction, env: _Env, live: SeparableTile) -> None:
        """A store to shared memory, byte by byte."""
        masks = self.guard(one, env, live)
        if masks is None:
            return
        values = self.read_list(env, one.operands[1])
        start = self.address(one, env, one.operands[0]).dense()
        live_lanes = self.spread(masks)
        for value, cells in zip(values, list_cells(one, start, len(values)), strict=True):
            known = isinstance(value, SeparableTile)
            numbers = self.spread(value if isinstance(value, SeparableTile) else constant(0, 2))
            for j, cell in enumerate(cells):
                where = self.spread(SeparableTile((cell,)))
                table = self.reserve_shared(int(where[live_lanes].max(initial=0)))
                rows = np.broadcast_to(np.arange(len(table)).reshape(-1, 1), where.shape)
                bytes_ = numbers >> (8 * j) & 255 if known else np.full_like(numbers, _UNKNOWN)
                table[rows[live_lanes], where[live_lanes]] = bytes_[live_lanes]

    def reserve_shared(self, last: int) -> Array:
        """Shared memory with room for a byte, a row for each program."""
        have = self.shared.shape[-1]
        if last >= have:
            more = np.full((*self.shape, (last | 4095) + 1 - have), _UNKNOWN, np.int16)
            check_size(np.empty((*self.shape, have + more.shape[-1]), np.void))
            self.shared = np.concatenate([self.shared, more], -1)
        return self.shared.reshape(-1, self.shared.shape[-1])

    def spread(self, value: SeparableTile) -> Array:
        """A row for each program, with an element for each thread."""
        whole = spread(value.dense(), (self.warps, LANES))
        full = np.broadcast_to(whole, self.shape + whole.shape[GRID:])
        check_size(full)
        return full.reshape(-1, self.warps * LANES)

    def assign(
        self,
        env: _Env,
        name: str,
        value: SeparableTile | UnknownValue,
        masks: SeparableTile,
    ) -> None:
        """Write a register in some of the threads."""
        old = env.get(name)
        if old is not None and not all(x.all() for x in masks.arrays):
            if isinstance(old, UnknownValue):
                value = old
            elif isinstance(value, SeparableTile):
                value = choose(masks, value, old)
        env[name] = value

    def require(self, one: PtxInstruction, env: _Env, text: str) -> SeparableTile:
        """An operand that has to be known.

        Raises:
            UnsupportedKernel: it isn't.
        """
        value = self.read(env, text)
        if isinstance(value, UnknownValue):
            raise self.refuse(one, value.why)
        return value

    def refuse(self, one: PtxInstruction, why: str) -> UnsupportedKernel:
        """The error that an address depends on what isn't known."""
        return UnsupportedKernel(f"{one.line}: in its PTX, {one.name} depends on {why}")

    def read_list(self, env: _Env, text: str) -> list[SeparableTile | UnknownValue]:
        """The values of an operand, which may be a list."""
        if text.startswith("{"):
            return [self.read(env, x) for x in text.strip("{} ").replace(",", " ").split()]
        return [self.read(env, text)]

    def read(self, env: _Env, text: str) -> SeparableTile | UnknownValue:
        """The value of an operand."""
        if text in env:
            return env[text]
        if match := _SPECIAL.fullmatch(text):
            return self.read_special(match[1], "xyz".index(match[2] or "x"))
        try:
            if text[:2] in ("0f", "0F", "0d", "0D"):
                return constant(int(text[2:], 16), 2)
            number = int(text, 0)
            return constant(number - (1 << 64) if number >= 1 << 63 else number, 2)
        except ValueError:
            pass
        if not text.startswith("%") and "smem" in text:
            return constant(0, 2)
        return UnknownValue(text)

    def read_special(self, name: str, axis: int) -> SeparableTile | UnknownValue:
        """A register that the hardware fills."""
        if name == "ctaid":
            return SeparableTile((self.ids[axis],))
        if name == "nctaid":
            return constant(self.launch.grid[axis], 2)
        if axis:
            return constant(0 if name == "tid" else 1, 2)
        if name == "ntid":
            return constant(self.kernel.threads, 2)
        return SeparableTile((self.special[name],))


def list_cells(one: PtxInstruction, start: Array, count: int) -> list[list[Array]]:
    """For each register that moves, the addresses of its bytes, lowest first.

    ``ldmatrix`` and ``stmatrix`` move matrices of 8 rows of 16 bytes: lane 8m + r has the address
    of row r of matrix m.
    """
    if "matrix" not in one.name:
        size = bits_of(one.name) // 8
        return [[start + i * size + j for j in range(size)] for i in range(count)]
    whole = np.broadcast_to(start, (*start.shape[:-1], LANES))
    lane = np.arange(LANES)
    out = []
    for m in range(count):
        if ".trans" in one.name:
            halves = [whole[..., 8 * m + 2 * (lane % 4) + j] + 2 * (lane // 4) for j in range(2)]
        else:
            halves = [whole[..., 8 * m + lane // 4] + 4 * (lane % 4) + 2 * j for j in range(2)]
        out.append([half + j for half in halves for j in range(2)])
    return out


def read_number(value: float) -> SeparableTile:
    """An argument that is a number; a floating-point number by its bits."""
    if isinstance(value, bool) or not isinstance(value, float):
        return constant(int(value), 2)
    return constant(int(np.float32(value).view(np.int32)), 2)


def _keep(value: SeparableTile, bits: int) -> SeparableTile:
    """A value as a register of so many bits has it: signed."""
    if bits == 1:
        return value if value.is_mask else SeparableTile((value.dense() != 0,))
    if value.is_mask:
        return SeparableTile((value.dense().astype(np.int64),))
    out: SeparableTile = keep_bits(f"i{bits}", value)
    return out


def _dense(mask: SeparableTile) -> Array:
    return mask.dense()


def _any(masks: SeparableTile) -> bool:
    """Whether a product of masks is true anywhere."""
    if not all(x.any() for x in masks.arrays):
        return False
    return len(masks.arrays) == 1 or bool(masks.dense().any())
