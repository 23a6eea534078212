"""A nest as a Gluon kernel for Hopper: one warp loads by bulk copies, warpgroups compute.

The chain of grid loops at the top is the launch grid, as in `iosim.gpu.emitter.nest`.  Below it a
nest loads tiles that stay, streams tiles in loops over them, and stores.  The rows that it stores
are shared out to warpgroups, 64 each.  One warp walks the same loops and keeps a ring of tiles
full, for which no thread computes an address.  LoadWarp and stores are boxes: whole tiles, filled
with 0 beyond the tensor.
"""

from __future__ import annotations

import math

from iosim.core.counts import Key
from iosim.core.program.ir import Load, Store
from iosim.core.program.walk import Instance
from iosim.gpu.emitter.blocks import Blocks
from iosim.gpu.emitter.computing import RowWarps
from iosim.gpu.emitter.kernel import Kernel
from iosim.gpu.emitter.names import Names
from iosim.gpu.emitter.nests import Body, moved_keys, touched
from iosim.gpu.emitter.roles import LoadWarp
from iosim.gpu.emitter.warps import PLAIN, Style, read
from iosim.gpu.errors import EmitError

STAGES = 2
# Of a persistent kernel: one for each SM of an H100 or H200 SXM where two warpgroups or three
# compute, two where one does.  Any number is right.
PROGRAMS = 132
REGISTERS = {1: 240, 2: 240, 3: 160}  # of a thread that computes, by warpgroups
OWN = frozenset(
    {
        "gl",
        "gluon",
        "mbarrier",
        "tma",
        "fence_async_shared",
        "warpgroup_mma",
        "warpgroup_mma_wait",
        "ROWS",
        "by_row",
        "row_max",
        "row_sum",
        "columns",
        "rows",
        "first",
        "group",
        "slot",
        "phase",
        "before",
        "was",
        "turn",
        "visit",
        "out",
        "stage",
        "load_box",
        "store_box",
        "loads",
        "computes",
    }
)


class HopperText:
    """Emits one kernel: what the producer does, what a warpgroup does, and what starts them."""

    def __init__(
        self, instance: Instance, name: str, body: Body, stages: int = 0, style: Style = PLAIN
    ) -> None:
        self.instance, self.name = instance, name
        self.names = names = Names(instance.program, body, OWN)
        tiles = Blocks(instance, names)
        self.nest = nest = read(instance, body, tiles, stages or STAGES, style)
        self.tiles = tiles
        moved: tuple[Load | Store, ...] = (*nest.held, *nest.streamed, *nest.stores)
        self.boxes = tuple(dict.fromkeys(nest.box(node, tiles) for node in moved))
        for box in self.boxes:
            names.of(("box", box), f"{box.tensor}_box")
        loaded, stored = touched(body, Load), touched(body, Store)
        self.keys = moved_keys(body)
        self._check_keys(loaded & stored)
        self.rows = RowWarps(nest, names, Blocks(instance, names))
        self.loads = LoadWarp(nest, names, Blocks(instance, names))
        items = math.prod(tiles.where.trips(loop) for loop in nest.grid)
        self.kernel = Kernel(
            name=name,
            grid=self._programs(items),
            items=items,
            tensors=tuple(t.name for t in instance.program.tensors if t.name in loaded | stored),
            masks=(),
            keys=self.keys,
            lockstep=False,
            clock=False,
            block=max(box.words for box in self.boxes),
            least=min(box.words for box in self.boxes),
            boxes=self.boxes,
            stages=nest.stages,
        )
        self.text = "\n\n".join([self._loads(), self._rows(), self._kernel()])

    def _check_keys(self, both: set[str]) -> None:
        if both:
            raise EmitError(
                f"{self.instance.program.name} loads {min(both)}, which it stores itself, and "
                "bulk copies keep no order with stores: emit it for the plain target"
            )

    def _programs(self, items: int) -> int:
        if not self.nest.style.persistent:
            return items
        return min(items, PROGRAMS * (2 if self.nest.groups == 1 else 1))

    @property
    def columns(self) -> set[int]:
        """Columns of the values in registers, each with a layout."""
        return self.rows.columns

    def _shared(self) -> list[str]:
        """Arguments that both kinds of warps take."""
        names = self.names
        boxes = [names.of(("box", box), "") for box in self.boxes]
        loads = (*self.nest.held, *self.nest.streamed)
        at = [self.rows.at(n) for n in loads]
        at += [self.rows.staging(n)[0] for n in self.nest.stores if not self.rows.staging(n)[1]]
        full = [self.rows.full(n) for n in loads]
        free = [self.rows.free(n) for n in self.nest.given_back]
        return [*boxes, *at, *full, *free]

    def _function(self, name: str, more: list[str], lines: list[str], keys: list[Key]) -> str:
        arguments = ", ".join([*more, *self._shared(), "words_ptr", "COUNT: gl.constexpr"])
        counters = [self.names.counter(key) for key in keys]
        row = f"words_ptr + gl.program_id(0) * {len(self.keys)}"
        return "\n".join(
            [
                "@gluon.jit",
                f"def {self.name}_{name}({arguments}):",
                *(["    if COUNT:"] if keys else []),
                *(f"        {counter} = gl.to_tensor(0).to(gl.int64)" for counter in counters),
                *lines,
                *(["    if COUNT:"] if keys else []),
                *(
                    f"        gl.atomic_add({row} + {self.keys.index(key)}, {counter})"
                    for key, counter in zip(keys, counters, strict=True)
                ),
                "",
            ]
        )

    def _loads(self) -> str:
        keys = [key for key in self.keys if key[0] == "load"]
        return self._function("loads", [], self.loads.lines, keys)

    def _rows(self) -> str:
        keys = [key for key in self.keys if key[0] == "store"]
        lines = ["    first: gl.constexpr = 64 * group", *self.rows.lines]
        return self._function("computes", ["group: gl.constexpr"], lines, keys)

    def _kernel(self) -> str:
        nest, names = self.nest, self.names
        boxes = [names.of(("box", box), "") for box in self.boxes]
        lines = [
            "@gluon.jit",
            f"def {self.name}({', '.join(boxes)}, words_ptr, COUNT: gl.constexpr):",
        ]
        for node in (*nest.held, *nest.streamed):
            parts = nest.parts(node) * (nest.stages if node in nest.streamed else 1)
            lines.append(self._tiles(node, self.rows.at(node), parts))
        for store in nest.stores:
            at, borrowed = self.rows.staging(store)
            if not borrowed:
                lines.append(self._tiles(store, at, nest.groups))
        for node in nest.held:
            full = self.rows.full(node)
            lines += [self._barrier(full, "[1]"), f"    mbarrier.init({full}, 1)"]
            if node in nest.given_back:
                free = self.rows.free(node)
                lines += [self._barrier(free, "[1]"), f"    mbarrier.init({free}, {nest.groups})"]
        rings = [x for n in nest.streamed for x in (self.rows.full(n), self.rows.free(n))]
        lines += [self._barrier(ring, f"[{nest.stages}, 1]") for ring in rings]
        lines.append(f"    for stage in gl.static_range({nest.stages}):")
        for full, free in zip(rings[::2], rings[1::2], strict=True):
            lines.append(f"        mbarrier.init({full}.index(stage), 1)")
            lines.append(f"        mbarrier.init({free}.index(stage), {nest.groups})")
        lines.append("    fence_async_shared()")
        shared = ", ".join([*self._shared(), "words_ptr", "COUNT"])
        lines.append("    gl.warp_specialize([")
        for w in range(nest.groups):
            lines.append(f"        ({self.name}_computes, (gl.constexpr({w}), {shared})),")
        lines.append(f"        ({self.name}_loads, ({shared})),")
        warps = [4] * (nest.groups - 1) + [1]
        registers = [REGISTERS[nest.groups]] * (nest.groups - 1) + [24]
        lines += [f"    ], {warps}, {registers})", ""]
        return "\n".join(lines)

    def _tiles(self, node: Load | Store, at: str, parts: int) -> str:
        box = self.nest.box(node, self.tiles)
        name, sides = self.names.of(("box", box), ""), ", ".join(map(str, box.sides))
        shape = f"[{parts}, {sides}]"
        return f"    {at} = gl.allocate_shared_memory({name}.dtype, {shape}, {name}.layout)"

    def _barrier(self, name: str, shape: str) -> str:
        kind = f"gl.int64, {shape}, mbarrier.MBarrierLayout()"
        return f"    {name} = gl.allocate_shared_memory({kind})"
