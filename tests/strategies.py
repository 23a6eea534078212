"""Hypothesis strategies: one file, grown with each feature."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

import iosim
from iosim.core import problem as problem_module
from iosim.core.algorithms import Algorithm
from iosim.core.problem import BaseProblem, Tensor, size_names
from iosim.core.program.block_masks import masks
from iosim.core.program.handles import unhandled
from iosim.core.program.index import Affine

MOST_CELLS = 4000


@dataclass(frozen=True)
class Square(BaseProblem):
    """B = A, both (n, m): something to index."""

    n: int = problem_module.axis("rows", letters="ij")
    m: int = problem_module.axis("columns", letters="xy")

    kind: ClassVar[str] = "square"
    inputs: ClassVar[tuple[Tensor, ...]] = (Tensor("A", ("n", "m")),)
    outputs: ClassVar[tuple[Tensor, ...]] = (Tensor("B", ("n", "m")),)


def plain_algorithms(problem: str | None = None) -> list[Algorithm]:
    """The algorithms for problems without any option, over the sizes that the problem has.

    Those that take a block mask are apart (`test_blocks.py`).
    """
    return [
        a
        for a in iosim.all_algorithms(problem)
        if not (a.needs or masks(a.program))
        and set(a.problem.plain_form().sizes) == set(size_names(a.problem))
    ]


def few_tiles() -> list[Algorithm]:
    """Those of `plain_algorithms` of which all tiles can be tried together.

    Of the others, with 15 and more, each nest's are tried with the rest fixed (`test_tiling.py`).
    """
    return [a for a in plain_algorithms() if len(a.program.params) <= 10]


def algorithms(problem: str | None = None) -> st.SearchStrategy[Algorithm]:
    """Any registered algorithm."""
    return st.sampled_from(iosim.all_algorithms(problem))


@st.composite
def problems(draw: st.DrawFn, cls: type[Any], most: int = 11) -> Any:
    """A small problem; sizes are often ragged against any tile."""
    names = size_names(cls)
    return cls(**{n: draw(st.integers(1, 3 if n == "heads" else most), label=n) for n in names})


@st.composite
def bound_programs(draw: st.DrawFn, most: int = 11) -> tuple[Algorithm, Any, dict[str, int]]:
    """Any algorithm, with a small problem and any tiles, larger than the problem too."""
    algorithm = draw(st.sampled_from(plain_algorithms()))
    problem = draw(problems(algorithm.problem, most))
    tiles = {
        p.name: draw(st.integers(p.least, most + 2), label=p.name) for p in algorithm.program.params
    }
    return algorithm, problem, tiles


@st.composite
def searchable(draw: st.DrawFn) -> tuple[Algorithm, Any, int]:
    """An algorithm, a problem and an M for which all tiles can be tried one by one."""
    algorithm = draw(st.sampled_from(few_tiles()))
    problem = draw(problems(algorithm.problem, 8))
    cells = math.prod(problem.sizes[p.axis] + 1 - p.least for p in algorithm.program.params)
    if cells > MOST_CELLS:
        problem = draw(problems(algorithm.problem, 3))
    return algorithm, problem, draw(st.integers(1, 120), label="M")


@st.composite
def attention_options(
    draw: st.DrawFn, most: int = 7, without: tuple[str, ...] = (), needs: tuple[str, ...] = ()
) -> Any:
    """Small attention with any options: masks that hide rows or columns, limits beyond the ends.

    Args:
        most: the largest N and N_k.
        without: names of options that are left out.
        needs: names of options that are given.
    """
    limit = st.none() | st.integers(0, 1) | st.integers(0, most + 2)
    options = {
        "N_k": st.integers(1, most),
        "d_v": st.integers(1, 4),
        "kv_heads": st.integers(1, 2),
        "window": st.tuples(limit, limit),
        "causal": st.just(True),
        "sinks": st.integers(1, 2) | st.integers(1, most + 2),
        "align": st.just("upper left"),
    }
    N, d, group = (
        draw(st.integers(1, x), label=n) for n, x in (("N", most), ("d", 4), ("group", 3))
    )
    given: dict[str, Any] = {}
    for name, values in options.items():
        if name in needs or (name not in without and draw(st.booleans(), label=f"{name} given")):
            given[name] = draw(values, label=name)
    return iosim.Attention(N, d, group * given.get("kv_heads", 1), **given)


@st.composite
def attention_programs(draw: st.DrawFn, most: int = 7) -> tuple[Algorithm, Any, dict[str, int]]:
    """Any attention schedule, with options that it supports and any tiles, too large ones too."""
    algorithm = draw(algorithms("attention"))
    problem = draw(attention_options(most, algorithm.lacks, algorithm.needs))
    params = algorithm.program_for(problem).params
    tiles = {p.name: draw(st.integers(p.least, most + 2), label=p.name) for p in params}
    return algorithm, problem, tiles


@st.composite
def random_schedules(draw: st.DrawFn, mixed: bool = False) -> Any:
    """A random schedule: nested loops, parts of axes, buffers of any shape.

    It loads, reserves, stores and frees, and computes nothing: what it tests is counting.

    Args:
        mixed: parts also start and stop at a second hold, at tile sizes, at numbers and at what
            belongs to other axes, so that for some values, or for all, they don't lie inside.
    """
    axes = ("m", "n", "k")
    shapes = {"A": ("m", "k"), "B": ("k", "n"), "C": ("m", "n")}
    steps = {axis: [f"B{axis}{c}" for c in range(2)] for axis in axes}
    holds = {axis: f"W{axis}" for axis in axes}
    seed = draw(st.randoms(use_true_random=False))

    def draw_range(axis: str) -> tuple[str | int, str | int | None]:
        """Where a part of an axis starts and stops."""
        hold = holds[axis]
        usual: list[tuple[str | int, str | None]] = [(0, hold), (hold, None)]
        if not mixed or seed.random() < 0.3:
            return seed.choice(usual)
        own = [hold, f"V{axis}" if axis == "m" else hold, *steps[axis]]
        starts, stops = [0, *own], [None, *own]
        if seed.random() < 0.2:
            other = seed.choice([*holds.values(), *axes])
            starts, stops = [*starts, 1, 2, other], [*stops, 1, 3, other]
        return seed.choice(starts), seed.choice(stops)

    def index(b: Any, open_: list[Any], wanted: tuple[str, ...]) -> list[Any]:
        found: list[Any] = []
        for axis in wanted:
            tiles = [t for t in open_ if t.axis == axis and all(t is not x for x in found)]
            kind = seed.choice(["whole", "part", "part"] + ["tile"] * 4 * bool(tiles))
            found.append(
                seed.choice(tiles)
                if kind == "tile"
                else axis
                if kind == "whole"
                else b.span(axis, *draw_range(axis))
            )
        return found

    def block(b: Any, open_: list[Any], depth: int, names: list[int]) -> None:
        made: list[Any] = []
        for _ in range(seed.randint(1, 3)):
            names[0] += 1
            kind = seed.choice(["load", "alloc", "free", *["loop"] * 2 * (depth < 3)])
            if kind == "free" and made:
                b.free(made.pop(seed.randrange(len(made))))
            elif kind in ("load", "alloc", "free"):
                tensor = seed.choice("ABC")
                where = index(b, open_, shapes[tensor])
                if kind == "load":
                    made.append(b.load(tensor, *where, name=f"x{names[0]}"))
                else:
                    made.append(b.alloc(f"x{names[0]}", *where))
                    if seed.random() < 0.5:
                        b.store(made[-1], tensor, *where)
            else:
                axis = seed.choice(axes)
                part = (0, None) if seed.random() < 0.5 else draw_range(axis)
                for tile in b.tiles(axis, seed.choice(steps[axis]), *part):
                    block(b, [*open_, tile], depth + 1, names)
        seed.shuffle(made)
        b.free(*made)

    def schedule(b: Any) -> None:
        for axis in axes:
            b.tile_sizes(axis, *steps[axis])
            b.stationary(axis, holds[axis])
        if mixed:
            b.stationary("m", "Vm")
        for axis in axes[: seed.randint(0, 2)]:
            for tile in b.tiles(axis, seed.choice(steps[axis])):
                block(b, [tile], 1, [0])
        block(b, [], 0, [100])

    program = iosim.build("random", iosim.MatMul, schedule)
    sizes = {axis: draw(st.integers(1, 6), label=axis) for axis in axes}
    tiles = {p.name: draw(st.integers(p.least, 7), label=p.name) for p in program.params}
    return program, sizes, tiles


@st.composite
def dependent_schedules(draw: st.DrawFn, most: int = 9, lanes: bool = False) -> Any:
    """A random schedule whose inner loops and buffers are bounded by the edges of outer tiles.

    Loops are in order or grids.  It loads, reserves, masks, multiplies, stores and frees over
    square tensors; buffers of outer loops change where no grid loop comes between.  L is a limit: a
    size that is not an axis, and may be 0.

    Args:
        lanes: the outermost loops are grids of small tiles, whose buffers inner loops change.
    """
    seed = draw(st.randoms(use_true_random=False))
    steps = ["B0", "B1", "B2"]

    def bound(b: Any, open_: list[Any], extent: str) -> Any:
        """A number, the axis's end, or an edge of an open tile, perhaps shifted and stretched."""
        if not open_ or seed.random() < 0.25:
            return seed.choice([0, extent])
        edge = seed.choice(open_)
        edge = seed.choice([edge.start, edge.stop]) * seed.choice([1, 1, 1, 1, 2, -1])
        return edge + seed.choice([0, 0, 0, 1, -1, -3, extent, "W", "L"]) - seed.choice([0, 0, 2])

    def part(b: Any, open_: list[Any], axis: str) -> Any:
        tiles = [t for t in open_ if t.axis == axis]
        kind = seed.choice(["whole", "span", *["tile"] * 2 * bool(tiles)])
        if kind == "tile":
            return seed.choice(tiles)
        ends = [bound(b, open_, axis), bound(b, open_, axis)]
        return axis if kind == "whole" else span(b, axis, ends)

    def span(b: Any, axis: str, ends: list[Any]) -> Any:
        within = None
        if b.span(axis, *ends).edges and seed.random() < 0.5:
            within = tuple(
                seed.choice(["W", "L", 0, 1, 5, axis, Affine.of(axis) - "W"]) for _ in "lh"
            )
        return b.span(axis, *ends, within=within)

    def fixed(x: Any) -> bool:
        """Whether binding may find it outside its axis: a span of plain names."""
        return not isinstance(x, str) and not hasattr(x, "var") and not x.edges

    def op(b: Any, open_: list[Any], spans: list[Any], mine: list[Any], name: str) -> None:
        """Change one of the buffers that may change here."""
        x = seed.choice(mine)
        whole = {at.axis for at in x.index if hasattr(at, "whole") and at.whole}
        cuts = [t for t, span in spans if t.axis in whole or unhandled(span) in x.index]
        alike = [y for y in mine if y.index[1] == x.index[1] and y.index[0] != x.index[0]]
        if alike and seed.random() < 0.5:
            y = seed.choice(alike)
            s = b.zeros(f"s{name}", x.index[0], y.index[0])
            b.op("matmul_nt", s, x, y)
            b.op("mask_after", s, a=bound(b, open_, "n"))
            b.op("matmul_nn", x, s, y)
            b.free(s)
        elif cuts:
            b.op("mask_after", x[seed.choice(cuts)], a=bound(b, open_, "n"))
        else:
            b.op("mask_after", x, a=bound(b, open_, "m"))

    def block(
        b: Any,
        open_: list[Any],
        grids: list[Any],
        spans: list[Any],
        changes: list[Any],
        depth: int,
        names: list[int],
    ) -> None:
        made: list[Any] = []
        for _ in range(seed.randint(1, 3)):
            names[0] += 1
            mine = [*changes, *made]
            kind = seed.choice(["load", "alloc", "free", *["op"] * 2, *["loop"] * 3 * (depth < 3)])
            if kind == "free" and made:
                b.free(made.pop(seed.randrange(len(made))))
            elif kind == "op" and mine:
                op(b, open_, spans, mine, str(names[0]))
            elif kind in ("load", "alloc", "free", "op"):
                where = [part(b, open_, "n"), part(b, open_, "m")]
                where = ["nm"[k] if fixed(x) else x for k, x in enumerate(where)]
                if kind == "load":
                    made.append(b.load("A", *where, name=f"x{names[0]}"))
                else:
                    made.append(seed.choice([b.alloc, b.zeros])(f"x{names[0]}", *where))
                # Whatever grid loops store is indexed by their tiles.
                plain = list(map(unhandled, where))
                if seed.random() < 0.5 and all(unhandled(tile) in plain for tile in grids):
                    b.store(made[-1], "B", *where)
            else:
                axis = seed.choice("nm")
                ends = [bound(b, open_, axis), bound(b, open_, axis)]
                within = span(b, axis, ends).within
                if not b.span(axis, *ends).edges:
                    ends = [0, None]
                step = seed.choice([x for x in steps if x != "B2" or axis == "m"][:3])
                step = {"n": "Bn", "m": "Bm"}[axis] + step[1]
                grid = seed.random() < 0.4
                for tile in (b.grid if grid else b.tiles)(axis, step, *ends, within=within):
                    inner = [*open_, tile]
                    here = (tile, b.span(axis, *ends, within=within))
                    if grid:
                        block(b, inner, [*grids, tile], spans, [], depth + 1, names)
                    else:
                        block(b, inner, grids, [*spans, here], mine, depth + 1, names)
        for x in made:
            if seed.random() < 0.5 and all(unhandled(tile) in x.index for tile in grids):
                b.store(x, "B", *x.index)
        seed.shuffle(made)
        b.free(*made)

    def schedule(b: Any) -> None:
        b.tile_sizes("n", "Bn0", "Bn1", "Bn2")
        b.tile_sizes("m", "Bm0", "Bm1", "Bm2")
        b.stationary("n", "W")
        if not lanes:
            block(b, [], [], [], [], 0, [0])
            return
        for x in b.grid("m", "Bm0"):
            for i in b.grid("n", "Bn0"):
                held = [b.load("A", i, x), b.zeros("o", i, x), b.load("A", "n", x, name="whole")]
                axis = seed.choice("nm")
                ends = seed.choice([(0, i.stop), (i.start, axis), (i.start - 2, i.stop + 2)])
                for j in b.tiles(axis, f"B{axis}1", *ends):
                    here = (j, b.span(axis, *ends))
                    for _ in range(seed.randint(0, 2)):
                        op(b, [i, j], [here], held, "")
                    block(b, [i, j], [x, i], [here], held, 1, [0])
                for y in held[:2]:
                    b.store(y, "B", i, x)
                b.free(*held)

    program = iosim.build("random", replace(Square.plain_form(), limits=("L",)), schedule)
    sizes = {axis: draw(st.integers(3 if lanes else 1, most), label=axis) for axis in ("n", "m")}
    sizes["L"] = draw(st.integers(0, most), label="L")
    tiles = {p.name: draw(st.integers(p.least, most), label=p.name) for p in program.params}
    if lanes:
        tiles |= {name: draw(st.integers(1, 3), label=name) for name in ("Bn0", "Bn1", "Bm1")}
    return program, sizes, tiles


@dataclass(frozen=True)
class Cube(BaseProblem):
    """B = A, both (n, m, k): axes that can be stacked."""

    n: int = problem_module.axis("planes", letters="u")
    m: int = problem_module.axis("rows", letters="ij")
    k: int = problem_module.axis("columns", letters="x")

    kind: ClassVar[str] = "cube"
    inputs: ClassVar[tuple[Tensor, ...]] = (Tensor("A", ("n", "m", "k")),)
    outputs: ClassVar[tuple[Tensor, ...]] = (Tensor("B", ("n", "m", "k")),)

    def reference(self, hbm: Mapping[str, Any]) -> dict[str, Any]:
        """A itself."""
        return {"B": np.asarray(hbm["A"], np.float64)}


@st.composite
def stacked_copies(draw: st.DrawFn, most: int = 7) -> tuple[Any, dict[str, int], dict[str, int]]:
    """A copy in which each axis is tiled, whole, split in two or visited by point, and neighbors
    that have an extent may be stacked; a loop on m may follow a tile of n."""
    sizes = {x: draw(st.integers(1, most), label=x) for x in "nmk"}
    kinds = {x: draw(st.sampled_from(["tile", "grid", "whole", "point"]), label=x) for x in "nmk"}
    order = draw(st.permutations("nmk"))
    follows = draw(st.booleans()) and kinds["n"] != "whole" and kinds["m"] in ("tile", "grid")
    joins = draw(st.tuples(st.booleans(), st.booleans()))

    def indices(b: iosim.Builder, axes: str, found: dict[str, Any]) -> Any:
        if not axes:
            yield found
            return
        axis, rest = axes[0], axes[1:]
        if kinds[axis] == "whole":
            yield from indices(b, rest, found | {axis: b.span(axis)})
            return
        stops = [found["n"].stop, None] if axis == "m" and follows and "n" in found else [None]
        start: Any = 0
        for stop in stops:
            loop = {"tile": b.tiles, "grid": b.grid, "point": b.grid}[kinds[axis]]
            step = None if kinds[axis] == "point" else f"B_{axis}"
            for x in loop(axis, step, start, stop):
                yield from indices(b, rest, found | {axis: x})
            start = stop

    def schedule(b: iosim.Builder) -> None:
        for axis in "nmk":
            b.tile_sizes(axis, f"B_{axis}")
        for found in indices(b, "".join(order), {}):
            index: list[Any] = [found["n"]]
            for axis, join in zip("mk", joins, strict=True):
                thin = kinds[axis] == "point" or getattr(index[-1], "point", False)
                if join and not thin:
                    index.append(b.stack(index.pop(), found[axis]))
                else:
                    index.append(found[axis])
            a = b.load("A", *index)
            b.store(a, "B", *index)
            b.free(a)

    program = iosim.build("stacked", Cube, schedule)
    tiles = {p.name: draw(st.integers(1, most), label=p.name) for p in program.params}
    return program, sizes, tiles


@st.composite
def split_schedules(draw: st.DrawFn, most: int = 9) -> Any:
    """A random schedule with scratch over the tiles of loops, by number, by points and whole.

    Loops run over an axis, over all of an outer tile, or up to its end.  It computes nothing.
    """
    seed = draw(st.randoms(use_true_random=False))

    def index(b: Any, open_: list[tuple[Any, str | None]]) -> list[Any]:
        """Of the scratch T: a tile of n as a number, a point or all of them; then m."""
        numbers = [b.number(t) for t, step in open_ if step == "Bn"]
        points = [t for t, step in open_ if t.axis == "tiles"]
        columns = [t for t, _ in open_ if t.axis == "m"]
        return [seed.choice([*numbers * 3, *points * 2, "tiles"]), seed.choice([*columns * 2, "m"])]

    def block(b: Any, open_: list[tuple[Any, str | None]], depth: int, names: list[int]) -> None:
        made: list[Any] = []
        for _ in range(seed.randint(1, 3)):
            names[0] += 1
            kind = seed.choice(["load", "alloc", "free", *["loop"] * 3 * (depth < 3)])
            if kind == "free" and made:
                b.free(made.pop(seed.randrange(len(made))))
            elif kind in ("load", "free"):
                made.append(b.load("T", *index(b, open_), name=f"x{names[0]}"))
            elif kind == "alloc":
                where = index(b, open_)
                made.append(b.alloc(f"x{names[0]}", *where))
                if seed.random() < 0.6:
                    b.store(made[-1], "T", *where)
            elif seed.random() < 0.3:
                for tile in b.points("tiles"):
                    block(b, [*open_, (tile, None)], depth + 1, names)
            else:
                axis = seed.choice("nnm")
                outer = [t for t, step in open_ if t.axis == axis and step]
                ends = seed.choice(
                    [
                        (0, None),
                        *[(t.start, t.stop) for t in outer] * 2,
                        *[(0, t.stop) for t in outer],
                    ]
                )
                step = seed.choice([f"B{axis}", f"B{axis}", f"C{axis}"])
                for tile in b.tiles(axis, step, *ends):
                    block(b, [*open_, (tile, step)], depth + 1, names)
        seed.shuffle(made)
        b.free(*made)

    def schedule(b: Any) -> None:
        b.tile_sizes("n", "Bn", "Cn")
        b.tile_sizes("m", "Bm", "Cm")
        b.split_axis("tiles", "n", "Bn")
        b.scratch("T", "tiles", "m")
        x = b.zeros("x", "tiles", "m")
        b.store(x, "T", "tiles", "m")
        b.free(x)
        block(b, [], 0, [0])

    program = iosim.build("random", Square, schedule)
    sizes = {axis: draw(st.integers(1, most), label=axis) for axis in ("n", "m")}
    tiles = {p.name: draw(st.integers(p.least, most), label=p.name) for p in program.params}
    return program, sizes, tiles


@st.composite
def graphs(draw: st.DrawFn, most: int = 8) -> Any:
    """A random graph of operators, not in order: products, normalisations, sums, attention, views.

    An axis may have other sizes in other operators, and a tensor other axes where it is read.
    """
    from iosim.base.errors import InputError
    from iosim.models.layers.graph import Graph
    from iosim.models.operators import Operand, Operator, operand, operator

    seed = draw(st.randoms(use_true_random=False))
    made: list[Operator] = []
    tensors: list[Operand] = []

    def new(axes: tuple[tuple[str, int], ...], role: str = "activation") -> Operand:
        name = f"{seed.choice(['X', 'a tensor', 'γ', 'd«Y»'])} {len(tensors)}"
        dtype = seed.choice([None, None, "fp32", "bool"])
        tensors.append(operand(name, " ".join(a for a, _ in axes), dict(axes), role, dtype))
        return tensors[-1]

    def size() -> int:
        return seed.choice([1, 2, 3, 4, 2**20])

    def some() -> Operand:
        """A tensor with at least one axis, its axes as they are or called otherwise."""
        able = [t for t in tensors if t.axes]
        if not able or seed.random() < 0.3:
            names = seed.sample(["b", "j", "k", "i2", "é"], seed.randint(1, 3))
            return new(tuple((a, size()) for a in names), seed.choice(["input", "weight", "cache"]))
        t = seed.choice(able)
        if seed.random() < 0.3:
            return replace(t, axes=tuple((f"{a}'", n) for a, n in t.axes))
        return t

    for k in range(draw(st.integers(1, most), label="operators")):
        x = some()
        last, n = seed.choice(x.axes)
        name = f"{k} {seed.choice(['linear', 'é', 'a/b', 'x = y'])}"
        match seed.choice(["one", "sum", "row", "product", "norm", "drop", "scale", "attention"]):
            case "one":
                kind = seed.choice(["relu", "gelu", "gelu_tanh", "cast", "same"])
                op = operator(name, kind, [x], [new(x.axes)])
            case "sum":
                y = new(tuple(a for a in x.axes if seed.random() < 0.7), "weight")
                op = operator(name, seed.choice(["add", "bias", "multiply"]), [x, y], [new(x.axes)])
            case "row":
                op = operator(name, "softmax", [x], [new(x.axes)], last)
            case "product":
                w = new(((last, n), (f"o{k}", seed.choice([1, 5, 64]))), "weight")
                rest = tuple(a for a in x.axes if a[0] != last)
                op = operator(name, "contraction", [x, w], [new((*rest, w.axes[1]))])
            case "norm":
                row = tuple(a for a in x.axes if a[0] != last)
                weights = [new(((last, n),), "weight") for _ in "gb"]
                writes = [new(x.axes), new(row), new(row)]
                op = operator(
                    name,
                    "layer_norm",
                    [x, *weights],
                    writes,
                    last,
                    **seed.choice([{}, {"epsilon": 1e-6}, {"epsilon": 0}]),
                )
            case "drop":
                op = operator(
                    name,
                    "dropout",
                    [x],
                    [new(x.axes), new(x.axes)],
                    p=seed.random() * 0.9,
                    seed=seed.randint(0, 9),
                )
            case "scale":
                op = operator(name, "scale", [x], [new(x.axes)], factor=seed.choice([-2, 0.1]))
            case _:
                b, rows, columns, d = (("b", size()), ("j", size()), ("k", size()), ("p", size()))
                q, key, v = new((b, rows, d)), new((b, columns, d)), new((b, columns, ("e", 3)))
                settings = seed.choice(
                    [{}, {"causal": True, "factor": 0.125}, {"window": (4, None)}]
                )
                o = new((b, rows, ("e", 3)))
                op = operator(name, "attention", [q, key, v], [o], "j k", **settings)
        made.append(op)
    seed.shuffle(made)
    used = sorted({t.name for op in made for t in op.tensors})
    keeps = frozenset(seed.sample(used, min(2, len(used)))) if seed.random() < 0.5 else None
    dtype = seed.choice(["fp16", "fp32", "fp8"])
    graph = Graph(seed.choice(["a graph", "é"]), tuple(made), keeps, dtype)
    ends = [name for name in graph.writer if not graph.readers[name]]
    later = [t.name for t in graph.inputs if t.role == "input"][-1:]
    waits = tuple(zip(later, ends, strict=False)) if seed.random() < 0.3 else ()
    try:
        return replace(graph, waits=waits)
    except InputError:  # what it waits for is made from it
        return graph
