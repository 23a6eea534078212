"""Passes of which a backward pass of attention can be made, each a nest of loops of its own.

A pass makes or reads tiles of P, dP and dS, stores some of them, and adds to some of dV, dQ and dK.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from iosim.core.algorithms._gradients import clear, clear_unseen, gradients, row_sums, weights
from iosim.core.algorithms._passes import key_products, row_products, stored_scores, tile_products
from iosim.core.algorithms._shape import (
    Head,
    Keys,
    columns,
    hide,
    key_heads,
    key_tiles,
    keys,
    of_heads,
    rows,
    sharing,
    tile_sizes,
)
from iosim.core.problem import Form
from iosim.core.program.build import Builder, build
from iosim.core.program.handles import Buffer
from iosim.core.program.index import Index, Tile
from iosim.core.program.ir import Program

SCORES, SUMS = ("P", "dP", "dS"), ("dV", "dQ", "dK")
# Each product: its tensor of rows and its tensor of keys; then the loops over columns, in order.
PRODUCTS = {
    "P": ("Q", "K"),
    "dP": ("dO", "V"),
    "dV": ("dO", "dV"),
    "dQ": ("dQ", "K"),
    "dK": ("Q", "dK"),
}
LOOPS = (("P",), ("dP", "dV"), ("dQ", "dK"))
ROWS, COLUMNS = ("Q", "dO", "dQ"), ("K", "V", "dK", "dV")
Does = tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[str]]


def _does(reads: str, makes: str, stores: str, sums: str) -> Does:
    return tuple(map(_names, (reads, makes, stores, sums)))  # type: ignore[return-value]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Single products in tiles, parts of tiles or whole rows, as the registered schedules have them.
TILES: dict[Does, Callable[[Builder, str], None]] = {
    _does("", "P", "P", ""): weights,
    _does("", "dP", "dP", ""): lambda b, n: tile_products(b, "dP", "dO", "V", n),
    _does("P", "dP dS", "dS", ""): gradients,
    _does("P", "", "", "dV"): lambda b, n: key_products(b, "dV", "P", "dO", n),
    _does("dS", "", "", "dQ"): lambda b, n: row_products(b, "dQ", "dS", "K", n),
    _does("dS", "", "", "dK"): lambda b, n: key_products(b, "dK", "dS", "Q", n),
}


@dataclass(frozen=True)
class Pass:
    """One pass over the pairs of a row and a key.

    Attributes:
        outside: the outer loop, ``rows`` or ``columns`` (of scores); ``tiles`` for a single
            product in tiles, as `iosim.core.algorithms._passes` has them.
        reads, makes, stores: of P, dP and dS, those that are loaded, that are made here, and of
            these, those that are stored.  S instead of P is read where the forward pass left it.
        sums: of dV, dQ and dK, those that it adds to, from nothing to the end.
        stays: tensors of the outer side of which a block stays over the inner loop; the others come
            in chunks of columns for every tile.
        whole: tensors of which whole lines stay while a tile is at work; two products use them.
    """

    outside: str
    reads: frozenset[str]
    makes: frozenset[str]
    stores: frozenset[str]
    sums: frozenset[str]
    stays: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()

    def __str__(self) -> str:
        parts = [
            f"{verb} {', '.join(x for x in names if x in found)}"
            for verb, names, found in (
                ("reads", ("S", *SCORES), self.reads),
                ("makes", (*SCORES, *SUMS), self.makes | self.sums),
                ("stores", SCORES, self.stores),
            )
            if found
        ]
        where = "in tiles" if self.outside == "tiles" else f"{self.outside} outside"
        if self.stays:
            where += f", {', '.join(sorted(self.stays))} stay"
        return f"{'; '.join(parts)} ({where})"

    @property
    def products(self) -> tuple[str, ...]:
        """The products of matrices that it makes, of the five."""
        return tuple(x for x in PRODUCTS if x in self.makes | self.sums)

    @property
    def does(self) -> Does:
        """What it does, however it is run."""
        return self.reads, self.makes, self.stores, self.sums

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors that it reads or adds to, scores apart."""
        return tuple(dict.fromkeys(t for x in self.products for t in PRODUCTS[x]))

    def schedule(self, b: Builder, n: str) -> None:
        """Trace it; names of tile sizes end with `n`."""
        if self.outside == "tiles":
            TILES[self.does](b, n)
        else:
            _Sweep(b, self, n).trace()


@functools.cache
def passes(*, left: bool = False, parts: bool = True) -> tuple[Pass, ...]:
    """All passes.

    Args:
        left: whether the forward pass left S.
        parts: also those in which not all tensors of the outer side stay.
    """
    found: dict[Pass, None] = {}
    for P, dP, dS in itertools.product(
        ("", "makes", "reads", "left"), *[("", "makes", "reads")] * 2
    ):
        if P == "left" and not left:
            continue
        how = {"P": P, "dP": dP, "dS": dS, "S": "reads" if P == "left" else ""}
        reads, makes = (frozenset(x for x in how if how[x] == y) for y in ("reads", "makes"))
        for sums, stores in itertools.product(_subsets(SUMS), _subsets(makes)):
            one = Pass("", reads, makes, stores, sums)
            if _sensible(one):
                found |= dict.fromkeys(_ways(one, parts))
    return tuple(found)


def _subsets(names: Collection[str]) -> list[frozenset[str]]:
    sizes = range(len(names) + 1)
    return [frozenset(x) for k in sizes for x in itertools.combinations(sorted(names), k)]


def _sensible(one: Pass) -> bool:
    """Whether everything is there that is used, and everything is used that is there."""
    has = one.reads | one.makes | ({"P"} if "S" in one.reads else frozenset())
    if "dS" in one.makes and not has >= {"P", "dP"}:
        return False
    used = set(one.stores)
    used |= {"P", "dP"} if "dS" in one.makes else set()
    used |= {"P"} if "dV" in one.sums else set()
    used |= {"dS"} if one.sums & {"dQ", "dK"} else set()
    gone = {"dP"} if "dS" in one.makes else set()  # dS is made in its place
    return used == has - {"S"} and not gone & one.stores


def _ways(one: Pass, parts: bool) -> Iterator[Pass]:
    """The ways to run a pass: what is outside, what stays, which lines are whole."""
    if one.does in TILES:
        yield replace(one, outside="tiles")
    for outside in ("rows", "columns"):
        outer = [t for t in one.tensors if (t in ROWS) == (outside == "rows")]
        for stays in _subsets(tuple(outer)) if parts else [frozenset(outer)]:
            twice = tuple(t for t in one.tensors if t not in stays and _twice(one, t))
            for whole in _subsets(twice):
                yield replace(one, outside=outside, stays=stays, whole=whole)


def _twice(one: Pass, tensor: str) -> bool:
    """Whether two of the loops over columns use a tensor."""
    used = [any(tensor in PRODUCTS[x] for x in loop if x in one.products) for loop in LOOPS]
    return sum(used) > 1


class _Sweep:
    """A pass with rows or columns outside, while it is traced."""

    def __init__(self, b: Builder, one: Pass, n: str):
        self.b, self.one, self.n = b, one, n
        self.at: dict[str, tuple[Index | str, ...]] = {}
        self.held: dict[str, Buffer] = {}
        self.streams = {
            k: [
                t
                for x in loop
                if x in one.products
                for t in PRODUCTS[x]
                if t not in one.stays | one.whole
            ]
            for k, loop in enumerate(LOOPS)
        }
        # Sums that move while other iterations do, so that these come in order.
        self.moving = [x for x in one.sums if x not in one.stays]

    def trace(self) -> None:
        b, one = self.b, self.one
        for x in self.moving:
            clear(b, x, n=self.n)
        B_r, B_c = tile_sizes(b, f"B_r{self.n}", f"B_c{self.n}")
        self.chunks = {
            k: b.tile_sizes(self._axis(k), f"B_d{self.n}{k}")[0]
            for k, found in self.streams.items()
            if found
        }
        for g in key_heads(b):
            if one.outside == "columns":
                for j in key_tiles(b, B_c, parallel=not self.moving):
                    self._open(None, g, None, j)
                    for h in sharing(b, g):
                        for i in rows(b, j, B_r, parallel=False):
                            self._tile(h, g, i, j)
                    self._close()
                continue
            for h in sharing(b, g):
                for i in (b.tiles if self.moving else b.grid)("N", B_r):
                    self._open(h, g, i, None)
                    for j in columns(b, i, B_c):
                        self._tile(h, g, i, j)
                    self._close()

    def _axis(self, loop: int) -> str:
        return self.b.form.tensor("V" if loop == 1 else "K").axes[-1]

    def _where(self, name: str, x: Index | str | None = None) -> tuple[Index | str, ...]:
        return (*self.at[name], self.b.form.tensor(name).axes[-1] if x is None else x)

    def _open(self, h: Head | None, g: tuple[Tile, ...], i: Tile | None, j: Keys | None) -> None:
        """A block of the outer side."""
        if h is not None and i is not None:
            self.at |= dict.fromkeys(ROWS, (*h.q, i))
            if "P" in self.one.makes or "S" in self.one.reads:
                self.held["L"] = self.b.load("L", *h.q, i)
            if "dS" in self.one.makes:
                self.held["D"] = self.b.load("D", *h.q, i, name="sums")
        if j is not None:
            self.at |= dict.fromkeys(COLUMNS, (*g, j.tile))
        for t in sorted(self.one.stays):
            where = self._where(t)
            self.held[t] = (
                self.b.zeros(t.lower(), *where[-2:]) if t in SUMS else self.b.load(t, *where)
            )

    def _close(self) -> None:
        for t in sorted(self.one.stays & set(SUMS)):
            self.b.store(self.held[t], t, *self._where(t))
        self.b.free(*self.held.values())
        self.held = {}

    def _tile(self, h: Head, g: tuple[Tile, ...], i: Tile, j: Keys) -> None:
        b, one = self.b, self.one
        outer = dict(self.held)
        self.at |= dict.fromkeys(ROWS, (*h.q, i)) | dict.fromkeys(COLUMNS, (*g, j.tile))
        for t in sorted(one.whole):
            self.held[t] = b.load(t, *self._where(t))
        tile: dict[str, Buffer] = {}
        self._weights(tile, h, i, j)
        if "dP" in one.reads:
            tile["dP"] = stored_scores(b, "dP", h, i, j, name="ds")
        elif "dP" in one.makes:
            tile["dP"] = b.zeros("ds", i, j.tile)
        self._products(1, tile)
        if "dP" in one.stores:
            b.store(tile["dP"], "dP", *h.q, i, j.tile)
        if "dS" in one.makes:
            in_memory = "D" in self.held
            sums = self.held["D"] if in_memory else b.load("D", *h.q, i, name="sums")
            b.op("softmax_gradient", tile["dP"], tile["P"], sums)
            if "D" not in self.held:
                b.free(sums)
            tile["dS"] = tile.pop("dP")
            if "dS" in one.stores:
                b.store(tile["dS"], "dS", *h.q, i, j.tile)
        if "P" in tile:
            b.free(tile.pop("P"))
        if "dP" in tile:
            b.free(tile.pop("dP"))
        if "dS" in one.reads:
            tile["dS"] = stored_scores(b, "dS", h, i, j)
        self._products(2, tile)
        b.free(*tile.values(), *(self.held[t] for t in sorted(one.whole)))
        self.held = outer

    def _weights(self, tile: dict[str, Buffer], h: Head, i: Tile, j: Keys) -> None:
        """P: made, read, or made of S that is read."""
        b, one = self.b, self.one
        if "P" in one.reads:
            tile["P"] = stored_scores(b, "P", h, i, j)
        if "P" in one.makes:
            tile["P"] = b.zeros("p", i, j.tile)
            self._products(0, tile)
        if "S" in one.reads:
            tile["P"] = b.load("S", *h.q, i, j.tile, name="p")
        if "P" in one.makes or "S" in one.reads:
            hide(b, tile["P"], i, j)
            l = self.held["L"] if "L" in self.held else b.load("L", *h.q, i)
            b.op("weights", tile["P"], l)
            if "L" not in self.held:
                b.free(l)
        if "P" in one.stores:
            b.store(tile["P"], "P", *h.q, i, j.tile)

    def _products(self, loop: int, tile: Mapping[str, Buffer]) -> None:
        """The products of one loop over columns: in chunks, where a tensor comes in chunks."""
        b, made = self.b, [x for x in LOOPS[loop] if x in self.one.products]
        if not made:
            return
        if loop not in self.chunks:
            self._multiply(made, tile, self.held)
            return
        for x in b.tiles(self._axis(loop), self.chunks[loop]):
            names = dict.fromkeys(t for y in made for t in PRODUCTS[y])
            got = {
                t: self.held[t][x] if t in self.held else b.load(t, *self._where(t, x))
                for t in names
            }
            self._multiply(made, tile, got)
            for t in names:
                if t not in self.held:
                    if t in SUMS:
                        b.store(got[t], t, *self._where(t, x))
                    b.free(got[t])

    def _multiply(
        self, made: list[str], tile: Mapping[str, Buffer], got: Mapping[str, Buffer]
    ) -> None:
        for x in made:
            row, column = (got[t] for t in PRODUCTS[x])
            if x in SCORES:
                self.b.op("matmul_nt", tile[x], row, column)
            elif x == "dQ":
                self.b.op("matmul_nn", row, tile["dS"], column)
            else:
                self.b.op("matmul_tn", column, tile["P" if x == "dV" else "dS"], row)


def program(chosen: Collection[Pass], form: Form) -> Program:
    """The whole schedule that runs these passes in order, after D = rowsum(dO ∘ O)."""

    def schedule(b: Builder) -> None:
        _scratch(b, *(x for one in chosen for x in (*one.reads, *one.stores)))
        row_sums(b)
        clear_unseen(b)
        for k, one in enumerate(chosen, start=1):
            one.schedule(b, str(k))

    return build("; ".join(map(str, chosen)), form, schedule)


@functools.cache
def alone(one: Pass, form: Form, n: str = "1") -> Program:
    """One pass by itself, whose words are what it adds to those of a whole schedule.

    Args:
        n: what the names of its tile sizes end with.
    """

    def schedule(b: Builder) -> None:
        b.scratch("D", *of_heads(b), "N", wide=True)
        _scratch(b, *one.reads, *one.stores)
        one.schedule(b, n)

    return build(str(one), form, schedule)


@functools.cache
def first_program(form: Form) -> Program:
    """What comes before every pass."""
    return program((), form)


def _scratch(b: Builder, *names: str) -> None:
    for name in dict.fromkeys(sorted(names)):
        b.scratch(name, *of_heads(b), "N", keys(b))
