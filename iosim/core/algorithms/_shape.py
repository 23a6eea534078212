"""How the options of attention enter a schedule: heads, what rows see of the keys, and masks.

A schedule is written once.  It asks here which heads there are, which tiles of keys a block of
rows sees (or which rows see a tile of keys), and hides what else a tile holds; without
options these are the plain loops of dense attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from iosim.core.problem import Mask
from iosim.core.program.build import Builder
from iosim.core.program.handles import Bound, Buffer
from iosim.core.program.index import Affine, Index, Span, Stack, Tile


@dataclass(frozen=True)
class Head:
    """An open head: what indexes the heads of Q and O, and those of K and V."""

    q: tuple[Tile, ...]
    k: tuple[Tile, ...]

    def rows(self, i: Tile) -> Index:
        """What indexes the rows i of Q and O, and each buffer that has as many rows."""
        return i


@dataclass(frozen=True)
class Group(Head):
    """An open head of K and V with all heads of Q that share it, whose rows are stacked."""

    heads: Span

    def rows(self, i: Tile) -> Index:
        """Rows i of every head of the group, below each other."""
        return Stack((self.heads, i))


@dataclass(frozen=True)
class Keys:
    """An open tile of keys; `sink`: of the first columns, which no left limit hides."""

    tile: Tile
    sink: bool = False


def keys(b: Builder) -> str:
    """The axis of the rows of K and V: N, or N_k where it is given."""
    return b.form.tensor("K").axes[-2]


def values(b: Builder) -> str:
    """The axis of the columns of V and O: d, or d_v where it is given."""
    return b.form.tensor("V").axes[-1]


def of_heads(b: Builder) -> tuple[str, ...]:
    """The leading axes of Q and O, for scratch of each head."""
    return b.form.tensor("Q").axes[:-2]


def tile_sizes(b: Builder, B_r: str, B_c: str) -> tuple[str, str]:
    """Declare a tile size along the rows of Q and one along those of K.

    Where the first is called N, all rows are one tile, and nothing is declared for them.
    """
    rows = B_r if B_r == "N" else b.tile_sizes("N", B_r)[0]
    return rows, b.tile_sizes(keys(b), B_c)[0]


def heads(b: Builder) -> Iterator[Head]:
    """All heads of Q; where they come in groups, those of a group share a head of K and V."""
    if "group" not in of_heads(b):
        for h in b.grid("heads"):
            yield Head((h,), (h,))
        return
    for g in b.grid("kv_heads"):
        for u in b.grid("group"):
            yield Head((g, u), (g,))


def groups(b: Builder) -> Iterator[Head]:
    """All heads of K and V; a head of Q that shares its own with no other is one of `heads`."""
    if "group" not in of_heads(b):
        yield from heads(b)
        return
    for g in b.grid("kv_heads"):
        yield Group((g,), (g,), b.span("group"))


def key_heads(b: Builder) -> Iterator[tuple[Tile, ...]]:
    """All heads of K and V."""
    for g in b.grid("kv_heads" if "group" in of_heads(b) else "heads"):
        yield (g,)


def sharing(b: Builder, k: tuple[Tile, ...]) -> Iterator[Head]:
    """The heads of Q that share an open head of K and V, one after the other."""
    if "group" not in of_heads(b):
        yield Head(k, k)
        return
    for u in b.points("group"):
        yield Head((*k, u), k)


# -- the part of the score matrix that is seen ------------------------------------------------


def shift(mask: Mask) -> Affine:
    """The column that row 0 calls its own."""
    return Affine.of("N_k") - "N" if mask.shift else Affine()


def reach(mask: Mask) -> Affine:
    """How many columns after its own a row sees, where that is limited."""
    return Affine() if mask.right == "causal" else Affine.of("right")


def visible_columns(b: Builder, i: Tile) -> tuple[Bound, Bound | None]:
    """The columns that rows i see, as bounds; without sinks."""
    mask = b.form.mask
    if mask is None:
        return 0, None
    own = shift(mask)
    start: Bound = i.start + own - "left" if mask.left else 0
    return start, i.stop + own + reach(mask) if mask.right else None


def columns(
    b: Builder,
    i: Tile,
    B_c: str,
    within: tuple[Bound, Bound] | None = None,
    *,
    parallel: bool = False,
) -> Iterator[Keys]:
    """Tiles of the keys that rows i see, in order or as a grid.

    Args:
        within: only keys between these two.
    """
    loop = b.grid if parallel else b.tiles
    mask, axis = b.form.mask, keys(b)
    if mask is None:
        for j in loop(axis, B_c, *(within or ())):
            yield Keys(j)
        return
    start, stop = visible_columns(b, i)
    if mask.sinks:
        sinks: dict[str, Any] = {} if stop is None else {"within": (0, "sinks")}
        for j in loop(axis, B_c, 0, "sinks" if stop is None else stop, **sinks):
            yield Keys(j, sink=True)
        within = ("sinks", axis)
    cut: dict[str, Any] = {} if within is None else {"within": within}
    for j in loop(axis, B_c, start, stop, **cut):
        yield Keys(j)


def key_tiles(b: Builder, B_c: str, *, parallel: bool = False) -> Iterator[Keys]:
    """Tiles of all keys that some row sees, in order or as a grid."""
    loop = b.grid if parallel else b.tiles
    mask, axis = b.form.mask, keys(b)
    start, stop = Affine(), Affine.of(axis)
    if mask is not None and mask.sinks:
        start = Affine.of("sinks")
        for j in loop(axis, B_c, 0, start):
            yield Keys(j, sink=True)
    if mask is not None and "unseen" in b.form.limits:
        # Rows that are aligned at the lower right don't see some of the first keys.
        start, stop = (start + "unseen", stop) if mask.shift else (start, stop - "unseen")
    for j in loop(axis, B_c, start, stop):
        yield Keys(j)


def unseen_keys(b: Builder) -> tuple[Bound, Bound] | None:
    """The keys that no row sees, as bounds; None where there can be none."""
    mask, axis = b.form.mask, keys(b)
    if mask is None or "unseen" not in b.form.limits:
        return None
    if not mask.shift:
        return Affine.of(axis) - "unseen", axis
    first = Affine.of("sinks") if mask.sinks else Affine()
    return first, first + "unseen"


def rows(b: Builder, j: Keys, B_r: str, *, parallel: bool = True) -> Iterator[Tile]:
    """Tiles of the rows that see one of the keys j, as a grid or in order."""
    loop = b.grid if parallel else b.tiles
    mask = b.form.mask
    if mask is None:
        yield from loop("N", B_r)
        return
    own = shift(mask)
    start: Bound = j.tile.start - own - reach(mask) if mask.right else 0
    limited = mask.left and not j.sink
    yield from loop("N", B_r, start, j.tile.stop - own + "left" if limited else None)


def hide(b: Builder, s: Buffer, i: Tile, j: Keys, *, by: str = "mask") -> None:
    """Hide in a tile of scores what rows i don't see of the keys j.

    Args:
        by: ``mask``: scores become −inf; ``drop``: weights become 0.
    """
    mask = b.form.mask
    if mask is None:
        return
    own = i.start + shift(mask) - j.tile.start
    if mask.right:
        b.op(f"{by}_after", s, a=own + reach(mask))
    if mask.left and not j.sink:
        b.op(f"{by}_before", s, a=own - "left")


def hide_first(b: Builder, s: Buffer, i: Tile) -> None:
    """Hide what rows i don't see in scores that begin at the first key; nothing limits the left."""
    mask = b.form.mask
    if mask is not None and mask.right:
        b.op("mask_after", s, a=i.start + shift(mask) + reach(mask))


# -- rows that may see nothing ----------------------------------------------------------------


def unseen(b: Builder, i: Index) -> Buffer:
    """Row maxima before any score: finite under a mask, since a row may see nothing at all."""
    return b.lowest("m", i) if b.form.mask is None else b.low("m", i)


def safe(b: Builder, op: str) -> str:
    """The form of an operation that divides by row sums, 0 under a mask where a row saw nothing."""
    return op if b.form.mask is None else f"{op}_seen"
