"""What any kernel is expected to move, compared with its counters.

A kernel that is known (`iosim.gpu.profiling.known_kernels`) is a nest of a schedule's program with
tiles of its own.  The words of the model become bytes on each path: sectors where load-store units
ask for them, whole boxes where bulk copies do, reductions where the kernel adds to memory.  What
DRAM has to deliver is forecast as `iosim l2` does.  The difference to the counters is what nothing
explains.

``iosim profile --schedule`` calls it (`iosim.cli.expecting`).  A new kernel is an entry of
`iosim.gpu.profiling.known_kernels.KNOWN`, a new kind of bytes a line in `_MEASURED` and a case of
`_moved`.

Changing this file: expected bytes are of the model and the path alone, never fitted to what was
measured.  ``tests/gpu/test_profile_expected.py`` wants library kernels of recorded reports to be
exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from iosim.base.dtypes import word_bytes
from iosim.base.errors import InputError, IosimError
from iosim.core.counting.numbers import count
from iosim.core.counts import Key
from iosim.core.program.index import Span, Tile, Within, unstacked
from iosim.core.program.ir import Alloc, Load, Loop, Node, Store, nodes
from iosim.core.program.walk import Instance, bind
from iosim.gpu.dram_prediction import reads
from iosim.gpu.emitter.kernels import grid_size
from iosim.gpu.emitter.layout import key_of, sector_bytes
from iosim.gpu.emitter.nests import Body, chain, one_kernel
from iosim.gpu.profiling.bulk import whole_bytes
from iosim.gpu.profiling.kernels import L2_DRAM, SM_L2, ProfiledKernel
from iosim.gpu.profiling.known_kernels import KNOWN, KnownKernel, Tiles, assume_kernel, find_kernel
from iosim.gpu.run.job import Job
from iosim.models.hardware import Hardware

SIDES = tuple(2**k for k in range(4, 10))  # of tiles that a grid may have, powers of two
USUAL = 64  # of a tile on which nothing depends


@dataclass(frozen=True, kw_only=True)
class ExpectedRow:
    """Bytes of one kind of a launch.

    Attributes:
        boundary: SM↔L2 or L2↔DRAM.
        what: which bytes.
        words: of the model; None where it has none.
        model: the same in bytes.
        more: what the path adds: partly filled sectors, whole boxes, words asked for again.
        expected: model and more together.
        measured: by the counters, of one launch on average; None where the report has none.
    """

    boundary: str
    what: str
    words: int | None = None
    model: int | None = None
    more: int | None = None
    expected: int | None
    measured: int | None

    @property
    def unexplained(self) -> int | None:
        """What was measured and is not expected."""
        if self.expected is None or self.measured is None:
            return None
        return self.measured - self.expected


@dataclass(frozen=True)
class Expected:
    """A kernel of a report compared with a schedule.

    Attributes:
        kernel: of the report.
        title: what it is.
        tiles: of the schedule.
        source: how tiles and paths are known.
        rows: what moves.
        remarks: what could not be forecast, and why.
    """

    kernel: ProfiledKernel
    title: str
    tiles: Mapping[str, int]
    source: str
    rows: tuple[ExpectedRow, ...]
    remarks: tuple[str, ...] = ()

    @property
    def unexplained(self) -> int:
        """Bytes at SM↔L2 that nothing explains, whichever way they are off."""
        rows = (row for row in self.rows if row.boundary == SM_L2)
        return sum(abs(row.unexplained or 0) for row in rows)


def expect(
    kernel: ProfiledKernel,
    algorithm: str,
    problem: Any,
    tiles: Mapping[str, int] | None = None,
    dtype: str = "fp16",
    machine: Hardware | None = None,
    *,
    unknown: bool = False,
) -> Expected | None:
    """A kernel compared with a schedule; None where it isn't known to be one of its, at these
    sizes.

    Args:
        kernel: of a report (`iosim.gpu.profiling.kernels.kernels`).
        algorithm: the schedule's name.
        problem: what it solves; its class is that of the schedule.
        tiles: tile sizes by name; without them the kernel's own, from its name or its grid.
        dtype: of the tensors.
        machine: for the forecast of DRAM; without it the one that the report names.
        unknown: whether a kernel that isn't known is taken to be one of the schedule.

    Raises InputError where the grid leaves tiles open that words depend on, and for tiles that the
    schedule hasn't.
    """
    family = find_kernel(kernel.name, algorithm, problem)
    if family is None:
        if not unknown or any(x.match_name(kernel.name) is not None for x in KNOWN.values()):
            return None
        family = assume_kernel(kernel.short, algorithm)
    problem = family.solves(problem)
    groups = family.match_name(kernel.name) or {}
    told, source = dict(tiles or {}), "tiles as given"
    if tiles is None and family.tiles is not None:
        told, source = family.tiles(groups), family.source
    elif tiles is None:
        found = from_grid(kernel, family, problem)
        if found is None:
            return None
        told, source = found, f"tiles from the grid; {family.source}"
    program = family.program(problem)
    chosen = {p.name: min(USUAL, problem.sizes[p.axis]) for p in program.params} | told
    one = one_kernel(bind(program, problem.sizes, chosen), family.nest)
    by_grid = not family.persistent and kernel.grid is not None
    if by_grid and tiles is None and _blocks(one, family) != math.prod(kernel.grid or ()):
        return None
    if family.bulk is None:
        names = _tensors_by_bulk_copies(kernel, one)
        family = replace(family, bulk=names)
        source += f"; {'bulk copies' if names else 'the ordinary path'}, by its counters"
    rows, remarks = [*_moved(kernel, family, one, dtype, groups, told)], list[str]()
    try:
        rows += _forecast(kernel, family, one, dtype, machine or kernel.machine)
    except IosimError as error:
        remarks.append(f"no forecast of DRAM: {error}")
    return Expected(kernel, family.title, told, source, tuple(rows), tuple(remarks))


def _tensors_by_bulk_copies(kernel: ProfiledKernel, one: Instance) -> frozenset[str]:
    """The tensors that a kernel moves by bulk copies, as far as its counters tell.

    Loads and stores each take the path that most of their bytes took.  A bulk copy moves a block of
    a matrix; a vector of row statistics, such as L, takes the ordinary path.
    """
    found = set[str]()
    for way, direction in ((Load, "read"), (Store, "write")):
        if (kernel.values[f"bulk_{direction}"] or 0) > (kernel.values[f"asked_{direction}"] or 0):
            moved = (n for n in nodes(one.program.body) if isinstance(n, way))
            found |= {n.tensor for n in moved if _dimensions(n) > 1}
    return frozenset(found)


def _dimensions(node: Load | Store) -> int:
    """The number of dimensions of the block that a transfer moves."""
    blocks = (x for x in unstacked(node.index) if isinstance(x, (Tile, Span, Within)))
    return sum(not (isinstance(x, Tile) and x.point) for x in blocks)


def _blocks(one: Instance, family: KnownKernel) -> int:
    """Blocks that a kernel's nest is launched with."""
    body = one.program.body
    return grid_size(one, _without(body, family.adds) if family.adds else body)


def from_grid(kernel: ProfiledKernel, family: KnownKernel, problem: Any) -> Tiles | None:
    """The tiles that give a launch its blocks; None where no powers of two do.

    Raises InputError where several tilings do, or where words depend on a tile that isn't in the
    grid.
    """
    if kernel.grid is None:
        return None
    blocks, program = math.prod(kernel.grid), family.program(problem)
    free = {p.name: problem.sizes[p.axis] for p in program.params}

    def bound(tiles: Mapping[str, int]) -> Instance:
        given = {name: min(USUAL, extent) for name, extent in free.items()}
        return one_kernel(bind(program, problem.sizes, {**given, **tiles}), family.nest)

    grid, inside = chain(bound({}).program.body)
    outer = [loop.step for loop in grid if loop.step is not None and loop.step in free]
    loops = [n for n in nodes(inside) if isinstance(n, Loop)]
    inner = [loop.step for loop in loops if loop.step is not None and loop.step in free]
    fits: dict[tuple[int, ...], Tiles] = {}
    for sides in itertools.product(SIDES, repeat=len(outer)):
        tiles = dict(zip(outer, sides, strict=True))
        one = bound(tiles)
        if _blocks(one, family) == blocks:
            fits.setdefault(tuple(one.env[x] for x in outer), tiles)
    if not fits:
        return None
    if len(fits) > 1:
        some = "; ".join(_format_tiles(tiles) for tiles in fits.values())
        raise InputError(f"{blocks} blocks of {kernel.short} may be {some}: give --tiles")
    (tiles,) = fits.values()
    for name in dict.fromkeys(x for x in inner if x not in outer):
        seen = {count(bound(tiles | {name: side})).total_words for side in SIDES}
        if len(seen) > 1:
            like = _format_tiles(tiles | {name: USUAL})
            raise InputError(
                f"words of {kernel.short} depend on {name}, and its grid tells "
                f"{_format_tiles(tiles) or 'no tile'} only: give --tiles {like} or the like"
            )
    return tiles


def _format_tiles(tiles: Mapping[str, int]) -> str:
    return ",".join(f"{name}={side}" for name, side in tiles.items())


@dataclass
class _Sum:
    """Words, their bytes, and the bytes of the path."""

    words: int = 0
    model: int = 0
    path: int = 0
    tensors: tuple[str, ...] = ()


def _moved(
    kernel: ProfiledKernel,
    family: KnownKernel,
    one: Instance,
    dtype: str,
    groups: Mapping[str, str],
    tiles: Mapping[str, int],
) -> Iterator[ExpectedRow]:
    """Loads, stores and reductions at SM↔L2, each path by itself."""
    words = dict(count(one).items)
    sectors = sector_bytes(one, dtype)
    boxes = family.boxes(one, dtype, tiles) if family.bulk else {}
    whole = whole_bytes(one, dtype, family.whole, tiles)
    sums: dict[str, _Sum] = {}
    for key in _keys(one):
        way, tensor = key
        bulk = tensor in (family.bulk or ())
        model = words[key] * word_bytes(dtype, one.program.tensor(tensor).wide)
        if tensor in family.adds:
            if way == "load":
                continue  # the hardware adds where the words lie
            kind, path = "reductions", model
        elif way == "store":
            kind, path = f"stores{', bulk copies' * bulk}", sectors[key]
        else:
            kind = f"loads{', bulk copies' * bulk}"
            path = boxes[key] if bulk else whole[key] if family.whole else sectors[key]
        path *= family.times[tensor](groups) if tensor in family.times else 1
        own = sums.setdefault(kind, _Sum())
        own.words += words[key]
        own.model += model
        own.path += path
        own.tensors += (tensor,)
    for kind, names in _MEASURED.items():
        own, seen = sums.get(kind, _Sum()), _measured(kernel, names)
        if not own.tensors and not seen:
            continue
        what = f"{kind} ({' '.join(sorted(own.tensors))})" if own.tensors else kind
        yield ExpectedRow(
            boundary=SM_L2,
            what=what,
            words=own.words,
            model=own.model,
            more=own.path - own.model,
            expected=own.path,
            measured=seen,
        )
        if kind == "loads, bulk copies" and own.tensors:
            yield from _multicast(kernel, boxes, family.multicast(groups))


def _multicast(
    kernel: ProfiledKernel, boxes: Mapping[Key, int], tensors: frozenset[str]
) -> Iterator[ExpectedRow]:
    """What one copy brings to several SMs: each of them counts it."""
    seen = _measured(kernel, ("multicast_read",))
    if tensors or seen:
        names = f" ({' '.join(sorted(tensors))})" if tensors else ""
        yield ExpectedRow(
            boundary=SM_L2,
            what=f"of these by multicast{names}",
            expected=sum(boxes["load", x] for x in tensors),
            measured=seen,
        )


# Kinds of transfers, and the quantities of a profile that are measured of each.
_MEASURED: dict[str, tuple[str, ...]] = {
    "loads": ("asked_read",),
    "loads, bulk copies": ("bulk_read",),
    "stores": ("asked_write",),
    "stores, bulk copies": ("bulk_write",),
    "reductions": ("reduced", "bulk_reduced"),
}


def _keys(one: Instance) -> list[Key]:
    """What a kernel moves, each way and tensor once."""
    moved = (n for n in nodes(one.program.body) if isinstance(n, (Load, Store)))
    return list(dict.fromkeys(map(key_of, moved)))


def _measured(kernel: ProfiledKernel, names: tuple[str, ...]) -> int | None:
    total = kernel.total(names)
    return None if total is None else round(total / kernel.launches)


class _OneKernel(Job):
    """A job whose program is given, for the models of DRAM."""

    def __init__(self, algorithm: str, given: Instance, dtype: str) -> None:
        super().__init__(algorithm, {}, {}, dtype)
        object.__setattr__(self, "instance", given)


def _without(body: Body, adds: frozenset[str], outermost: bool = True) -> Body:
    """The body without what it adds to, whose outer loops may then run in any order."""
    found: list[Node] = []
    for node in body:
        if isinstance(node, Loop):
            inside = _without(node.body, adds, outermost and len(body) == 1)
            parallel = node.parallel or (outermost and len(body) == 1)
            found.append(replace(node, body=inside, parallel=parallel))
        elif isinstance(node, Load) and node.tensor in adds:
            found.append(Alloc(node.buffer, node.index))
        elif not (isinstance(node, Store) and node.tensor in adds):
            found.append(node)
    return tuple(found)


def _forecast(
    kernel: ProfiledKernel,
    family: KnownKernel,
    one: Instance,
    dtype: str,
    machine: Hardware | None,
) -> Iterator[ExpectedRow]:
    """What DRAM delivers, with as many blocks at once as the report says.

    What a kernel adds to is read and written once: L2 adds.
    """
    if machine is None:
        raise InputError("the report names no machine that is known: give --machine")
    added = 0
    if any(way == "load" and tensor in family.adds for way, tensor in _keys(one)):
        body = _without(one.program.body, family.adds)
        for tensor in map(one.program.tensor, family.adds):
            added += math.prod(one.env[x] for x in tensor.axes) * word_bytes(dtype, tensor.wide)
        one = replace(one, program=replace(one.program, body=body))
    job = _OneKernel(family.algorithm, one, dtype)
    found = reads(job, machine, programs=_resident(kernel, machine))
    seen, stored = (_measured(kernel, (x,)) for x in ("dram_read", "dram_write"))
    for what, n, measured in (
        ("reads, programs in lockstep", found.lockstep + added, seen),
        ("reads if they drift, at least", found.least + added, None),
        ("reads if they drift, at most", found.most + added, None),
        ("writes, unless they stay in L2", found.stores + added, stored),
    ):
        yield ExpectedRow(
            boundary=L2_DRAM,
            what=what,
            expected=n,
            measured=measured,
        )


def _resident(kernel: ProfiledKernel, machine: Hardware) -> int | None:
    """Blocks that run at once; None where the report doesn't say what limits them."""
    limits = ("blocks_by_registers", "blocks_by_shared", "blocks_by_warps")
    known_limits = [x for x in (kernel.values.get(name) for name in limits) if x]
    blocks = math.prod(kernel.grid) if kernel.grid else None
    if not known_limits:
        return blocks if blocks is not None and blocks <= machine.cores else None
    at_once = int(min(known_limits)) * machine.cores
    return at_once if blocks is None else min(at_once, blocks)
