"""Attention under a static block mask: which tiles of scores are needed is an array.

``tests/core/test_block_options.py`` and ``tests/core/test_blocks.py`` count at any pattern.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from iosim.base.arrays import Bools, Ints
from iosim.base.errors import InputError
from iosim.base.rows import Values
from iosim.base.validate import check_size
from iosim.core.problem.base import WHOLE, Arithmetic, BaseProblem, as_array
from iosim.core.problem.form import (
    Array,
    Form,
    Hbm,
    Mask,
    Tensor,
    Tensors,
    axis,
    option,
)
from iosim.core.problem.heads import SharedHeads
from iosim.core.problem.scores import form_of
from iosim.core.problem.visible_pairs import Visible

CAUSAL = Mask(left=False, right="causal", sinks=False, shift=True)


@dataclass(frozen=True)
class BlockMask:
    """A block mask as an instance holds it: bits, row by row.

    >>> mask = BlockMask.of(np.eye(3, dtype=bool))
    >>> mask.shape, mask.marked(1, 1), mask.marked(1, 2), mask.row_sums.tolist()
    ((3, 3), True, False, [1, 1, 1])
    """

    shape: tuple[int, int]
    bits: bytes

    @classmethod
    def of(cls, array: Bools) -> BlockMask:
        """The mask of a boolean matrix."""
        return cls((array.shape[0], array.shape[1]), np.packbits(array).tobytes())

    @functools.cached_property
    def array(self) -> Bools:
        """The matrix, read-only."""
        flat = np.unpackbits(
            np.frombuffer(self.bits, np.uint8), count=self.shape[0] * self.shape[1]
        )
        found = flat.astype(bool).reshape(self.shape)
        found.flags.writeable = False
        return found

    @property
    def row_sums(self) -> Ints:
        """How many pairs of each row are marked."""
        found: Ints = self.array.sum(axis=1, dtype=np.int64)
        return found

    def marked(self, row: int, column: int) -> bool:
        """Whether a pair is marked."""
        return bool(self.array[row, column])

    @functools.cached_property
    def numbers(self) -> tuple[int, ...]:
        """Marked pairs: all, those in the last row, in the last column, and in both."""
        a = self.array
        return int(a.sum()), int(a[-1].sum()), int(a[:, -1].sum()), int(a[-1, -1])

    def first_pair(self, last_row: bool, last_column: bool) -> tuple[int, int]:
        """The first marked pair in the last row or above it, and in the last column or before."""
        rows = slice(-1, None) if last_row else slice(0, -1)
        columns = slice(-1, None) if last_column else slice(0, -1)
        row, column = np.argwhere(self.array[rows, columns])[0].tolist()
        return (
            row + (self.shape[0] - 1) * last_row,
            column + (self.shape[1] - 1) * last_column,
        )


@dataclass(frozen=True)
class MarkedTiles:
    """A block mask with the tiles of scores that it marks: B_r rows by B_c keys.

    >>> marks = MarkedTiles.of(np.eye(2, dtype=bool), B_r=64, B_c=32)
    >>> marks.tiles, str(marks)
    ({'B_r': 64, 'B_c': 32}, '2 of 2 × 2 tiles of 64 × 32')
    """

    mask: BlockMask
    B_r: int
    B_c: int

    @classmethod
    def of(cls, marks: Any, B_r: int, B_c: int) -> MarkedTiles:
        """Raises InputError for what is not a boolean matrix, and tiles that are not sizes."""
        array = as_array("the block mask", marks)
        if array.dtype != np.bool_ or array.ndim != 2:
            shape = " × ".join(map(str, array.shape)) or "a single word"
            raise InputError(
                f"the block mask is {shape} of dtype {array.dtype}: give a matrix of booleans, one "
                "for each tile"
            )
        return cls(BlockMask.of(array), check_size("B_r", B_r), check_size("B_c", B_c))

    @property
    def tiles(self) -> dict[str, int]:
        """As schedules name them."""
        return {"B_r": self.B_r, "B_c": self.B_c}

    def __str__(self) -> str:
        every = " × ".join(map("{:,}".format, self.mask.shape))
        return f"{self.mask.numbers[0]:,} of {every} tiles of {self.B_r:,} × {self.B_c:,}"


@dataclass(frozen=True, repr=False)
class BlockSparse(SharedHeads, BaseProblem):
    """O = softmax(QKᵀ)V over the scores that a block mask marks, the same for all heads.

    The mask belongs to the tiles and is given with them, when a schedule is bound.  Shapes: Q is
    (heads, N, d), K (kv_heads, N_k, d), V (kv_heads, N_k, d_v), O (heads, N, d_v), with d_v = d and
    kv_heads = heads where they are left out.  Heads come in groups as in `Attention`.  `causal`
    hides what is after a row's own column, i + N_k − N, in the tiles that are marked.  A row
    that sees nothing has an output of 0.

    Raises InputError for sizes that are not integers in 1..2**40, and kv_heads that does not divide
    heads.

    >>> BlockSparse(N=64, N_k=128, d=8).sizes
    {'N': 64, 'N_k': 128, 'd': 8, 'heads': 1}
    >>> BlockSparse(N=64, N_k=128, d=8, heads=6, kv_heads=2, d_v=4).sizes
    {'N': 64, 'd': 8, 'kv_heads': 2, 'group': 3, 'N_k': 128, 'd_v': 4}
    """

    N: int = axis("sequence length", letters="i")
    N_k: int = axis("keys", letters="j", follows="N")
    d: int = axis("head dimension", letters="xy")
    heads: int = axis("batch × heads", letters="h", default=1)
    d_v: int | None = option("head dimension of V and O (default: d)", "size", follows="d")
    kv_heads: int | None = option(
        "heads of K and V, a divisor of heads (default: heads)",
        "size",
        divides="heads",
        follows="heads",
    )
    causal: bool = option("a row sees no column after its own", "flag", default=False)

    kind: ClassVar[str] = "block-sparse"
    inputs: ClassVar[Tensors] = (
        Tensor("Q", ("heads", "N", "d")),
        Tensor("K", ("heads", "N_k", "d")),
        Tensor("V", ("heads", "N_k", "d")),
    )
    outputs: ClassVar[Tensors] = (Tensor("O", ("heads", "N", "d")),)

    @classmethod
    def beside_attention(cls, N: int, d: int, heads: int) -> BlockSparse:
        """Attention of these sizes."""
        return cls(N, N, d, heads)

    @property
    def form(self) -> Form:
        """What a program for this problem is traced for."""
        given = {x.name for x in self.options()} & self.as_dict.keys()
        if not given:
            return self.plain_form()
        mask = CAUSAL if self.causal else None
        return form_of(
            self.kind, True, "d_v" in given, "kv_heads" in given, mask, tuple(sorted(given))
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Name → extent, of all that a program of its form is bound to."""
        given = {
            "N": self.N,
            "N_k": self.N_k,
            "d": self.d,
            "heads": self.heads,
            "d_v": self.values,
            "kv_heads": self.groups,
        }
        return self.extents(self.form, given)

    @classmethod
    def follow(cls, form: Form, sizes: Values, by: Arithmetic = WHOLE) -> dict[str, Any]:
        """The heads of Q, and d_v."""
        heads = sizes["kv_heads"] * sizes["group"] if "group" in sizes else sizes["heads"]
        return {"heads": heads, "d_v": sizes.get("d_v", sizes["d"])}

    def reference(self, hbm: Hbm, seen: Bools | None = None) -> dict[str, Array]:
        """The textbook formula in float64, a row at a time.

        Q may be (heads, N, d), too, where a program's is (kv_heads, group, N, d); O has the same
        leading axes.

        Args:
            hbm: Q, K and V.
            seen: (N, N_k) booleans: which scores are needed (`scores`).

        Raises InputError where `seen` is missing, and for arrays of another shape.
        """
        shape = (self.N, self.N_k)
        if seen is None or np.shape(seen) != shape:
            got = "nothing" if seen is None else f"an array of shape {np.shape(seen)}"
            raise InputError(
                f"which scores are needed is an array of shape {shape}, got {got}: make it "
                "with scores(mask, B_r, B_c)"
            )
        Q, K, V = self.check_inputs(hbm).values()
        given = np.shape(hbm["Q"])
        Q = Q.reshape(self.heads, self.N, self.d)
        O = np.zeros((self.heads, self.N, self.values))
        for h, i in np.ndindex(self.heads, self.N):
            if seen[i].any():
                g = h * self.groups // self.heads
                S = K[g, seen[i]] @ Q[h, i]
                P = np.exp(S - S.max())
                O[h, i] = P @ V[g, seen[i]] / P.sum()
        return {"O": O.reshape(*given[:-1], self.values)}

    def scores(self, mask: Any, B_r: int, B_c: int) -> Bools:
        """A block mask of tiles of B_r rows and B_c keys, spread over single scores; those that
        `causal` hides are left out.

        Raises InputError for tiles that are not sizes, and a mask that is not booleans, one for
        each tile.

        >>> BlockSparse(3, 4, 1).scores([[True, False], [False, True]], 2, 2).astype(int)
        array([[1, 1, 0, 0],
               [1, 1, 0, 0],
               [0, 0, 1, 1]])
        """
        marks = self.check_mask(mask, B_r, B_c)
        rows, columns = min(B_r, self.N), min(B_c, self.N_k)
        wide = np.repeat(np.repeat(marks, rows, axis=0), columns, axis=1)
        found = wide[: self.N, : self.N_k]
        if self.causal:
            own = np.arange(self.N)[:, None] + self.N_k - self.N
            found = found & (np.arange(self.N_k) <= own)
        return found

    def check_mask(self, mask: Any, B_r: int, B_c: int) -> Bools:
        """A block mask of tiles of B_r rows and B_c keys, as an array.

        Raises InputError for tiles that are not sizes, and a mask that is not booleans, one for
        each tile.
        """
        rows, columns = check_size("B_r", B_r), check_size("B_c", B_c)
        marks = as_array("the mask", mask)
        shape = (-(-self.N // rows), -(-self.N_k // columns))
        if marks.dtype != np.bool_ or marks.shape != shape:
            raise InputError(
                f"the mask is an array of {marks.dtype} of shape {marks.shape}, and tiles of {B_r} "
                f"rows and {B_c} keys need booleans of shape {shape}: give one for each tile"
            )
        return marks

    def visible(self, marks: MarkedTiles) -> Visible:
        """Of one head: pairs of a row and a key that it sees, and the rows and keys of these pairs.

        Raises InputError for a mask of another shape than the tiles make.

        >>> BlockSparse(3, 4, 1).visible(MarkedTiles.of([[True, False], [False, True]], 2, 2))
        Visible(pairs=6, rows=3, columns=4)
        """
        B_r, B_c = marks.B_r, marks.B_c
        marked = self.check_mask(marks.mask.array, B_r, B_c)
        whole = np.int64 if (self.N + self.N_k) ** 2 < 2**62 else object
        i, j = (np.arange(0, n, B).astype(whole) for n, B in ((self.N, B_r), (self.N_k, B_c)))
        rows, columns = np.minimum(B_r, self.N - i), np.minimum(B_c, self.N_k - j)
        if not self.causal:
            some, every = marked.any(axis=1), marked.any(axis=0)
            of_marks = int(rows @ marked @ columns)
            return Visible(of_marks, int(rows[some].sum()), int(columns[every].sum()))
        # Of a tile, how many keys its first row sees, if there were keys without end either way.
        first = i[:, None] + self.N_k - self.N + 1 - j
        last = first + rows[:, None] - 1
        upto = _triangle(last) - _triangle(first - 1)
        beyond = _triangle(last - columns) - _triangle(first - 1 - columns)
        pairs = np.where(marked, upto - beyond, 0)
        # Later rows see more keys, and more rows see earlier keys.
        used = np.where(marked, np.clip(last, 0, rows[:, None]), 0).max(axis=1)
        keys = np.where(marked, np.clip(last, 0, columns), 0).max(axis=0)
        return Visible(int(pairs.sum()), int(used.sum()), int(keys.sum()))


def _triangle(n: Any) -> Any:
    """1 + 2 + … + n, and 0 below 1."""
    n = np.maximum(n, 0)
    return n * (n + 1) // 2
