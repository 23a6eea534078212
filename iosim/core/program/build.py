"""The builder: traces an ordinary Python function, once, into a `Program`.

``for i in b.grid("N", B_r)`` runs its body a single time with a symbolic tile, so control flow
cannot depend on data; in exchange one trace serves every size and every backend.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn, cast

from iosim.base.errors import ProgramError, closest
from iosim.core.problem import Derived, Form, Problem, Tensor
from iosim.core.program.check import check
from iosim.core.program.declared import Declared
from iosim.core.program.handles import (
    Bound,
    Buffer,
    TileHandle,
    UnknownName,
    check_operands,
    named,
    unhandled,
)
from iosim.core.program.index import (
    Affine,
    At,
    Index,
    Indices,
    Number,
    Single,
    Span,
    Stack,
    Tile,
    Within,
    describe,
    dims,
    tiles_of,
    unstacked,
)
from iosim.core.program.ir import (
    Alloc,
    Free,
    Load,
    Loop,
    Marks,
    Node,
    Op,
    Param,
    Program,
    Ref,
    Store,
)
from iosim.core.program.ops import OPS


class Builder:
    """Records a schedule; every method appends one node (see `iosim.core.program.ir`).

    >>> import iosim
    >>> def rows(b):
    ...     for i in b.grid("n", *b.tile_sizes("n", "B")):
    ...         x = b.load("X", i)
    ...         b.store(x, "Y", i)
    ...         b.free(x)
    >>> len(iosim.build("rows", iosim.Copy, rows).body)
    1
    """

    def __init__(self, form: Form) -> None:
        self.form = form
        self._declared = Declared(form)
        self._steps: dict[Tile, str | None] = {}
        self._blocks: list[list[Node]] = [[]]
        self._scopes: list[dict[str, Buffer]] = [{}]
        self._open: list[Tile] = []
        self._made = 0  # buffers so far
        self._abandoned = False

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            methods = [x for x in vars(Builder) if not x.startswith("_")]
            raise UnknownName(
                f"the builder has no {name!r}: {closest(name, methods)}; operations are "
                f"b.op(name, *buffers), with one of {', '.join(OPS)}"
            )

    # -- declarations ---------------------------------------------------------------------

    def tile_sizes(self, axis: str, *names: str) -> tuple[str, ...]:
        """Declare tile sizes along an axis; returns their names."""
        return tuple(self._declared.declare(Param(name, self._axis(axis))) for name in names)

    def stationary(self, axis: str, name: str, less: str = "") -> str:
        """Declare a stationary part of an axis: its first positions stay resident, 0 up to all.

        Args:
            less: a limit of the problem, if that many last positions of the axis are never used.

        A larger part should never move more words; the tile search is fast where it doesn't.
        """
        return self._declared.declare(Param(name, self._axis(axis), 0, less))

    def scratch(self, name: str, *axes: str, wide: bool = False) -> None:
        """Declare an intermediate tensor in slow memory; `wide`: a statistic kept in fp32."""
        self._declared.add(Tensor(name, tuple(map(self._axis, axes)), wide))

    def split_axis(self, name: str, axis: str, step: str, letters: str = "") -> str:
        """Declare an axis with a position for each tile of a loop over `axis` by `step`.

        Its length, ⌈axis/step⌉, follows when the others are bound.  `number` gives the position
        of a tile, and scratch may have the axis.

        Args:
            letters: what tiles of that step are called, if not as others of the axis.
        """
        return self._declared.derive(Derived(name, self._axis(axis), step), letters)

    # -- loops ----------------------------------------------------------------------------

    def grid(
        self,
        axis: str,
        step: str | None = None,
        start: Bound = 0,
        stop: Bound | None = None,
        *,
        within: tuple[Bound, Bound] | None = None,
        where: tuple[str, Tile] | None = None,
    ) -> Iterator[Tile]:
        """Independent iterations: backends may run them in parallel.  Bounds are as for `span`.

        Args:
            step: a tile size; None for single positions, and the axis itself for one tile, whose
                edges are those of the part that the loop runs over.
            where: the name of a block mask and an open tile: only those iterations run whose pair
                of numbers, of that tile and their own, the mask marks.  It is given to `bind`.
        """
        return self._loop(self.span(axis, start, stop, within=within), step, True, where)

    def tiles(
        self,
        axis: str,
        step: str,
        start: Bound = 0,
        stop: Bound | None = None,
        *,
        within: tuple[Bound, Bound] | None = None,
        where: tuple[str, Tile] | None = None,
    ) -> Iterator[Tile]:
        """Iterations in order, over ``start <= p < stop`` (the whole axis by default).

        Bounds are as for `span`, steps and `where` as for `grid`.
        """
        if step is None:
            raise ProgramError(f"tiles over {axis} need a step: declare it with tile_sizes()")
        return self._loop(self.span(axis, start, stop, within=within), step, False, where)

    def points(self, axis: str) -> Iterator[Tile]:
        """Single positions of a whole axis, in order."""
        span = self.span(axis)
        return self._loop(span, None, False)

    def number(self, tile: Tile, axis: str | None = None) -> Number:
        """Which iteration of its loop a tile is, as a position on the axis that is made of them.

        Args:
            axis: a derived axis; needed where the tile's step makes several.
        """
        tile = self._open_tile("number of", tile)
        return Number(tile, self._declared.numbered(tile, self._steps[tile], axis))

    def within(self, tile: Tile, axis: str) -> Within:
        """A tile counted from its own start, on an axis that is as long as its step."""
        tile = self._open_tile("within", tile)
        return Within(tile, self._axis(axis))

    def at(self, buffer: Buffer, axis: str) -> At:
        """The position on an axis that a resident buffer of one word holds, which was loaded."""
        self._resident(buffer)
        if buffer.index:
            raise ProgramError(
                f"{buffer.name} has {len(buffer.index)} dimensions, and a position is one word: "
                "load single positions"
            )
        return At(buffer.name, self._axis(axis))

    def span(
        self,
        axis: str,
        start: Bound = 0,
        stop: Bound | None = None,
        *,
        within: tuple[Bound, Bound] | None = None,
    ) -> Span:
        """A part of an axis, to load or allocate.

        A bound is a whole number, a size, or affine in sizes and the edges of open tiles
        (``i.stop - 1``).  bind() checks that a fixed span lies inside its axis; one that names
        edges is cut at the ends of its axis, and where two bounds `within` are given, also at
        these; they name no edges.
        """
        what = f"a span of {self._axis(axis)}"
        end = axis if stop is None else stop
        if not (within is None or (isinstance(within, tuple) and len(within) == 2)):
            raise ProgramError(f"{what} is within {within!r}: give two bounds, (low, high)")
        cut = within and (self._bound(what, within[0]), self._bound(what, within[1]))
        return Span(axis, self._bound(what, start), self._bound(what, end), cut)

    def stack(self, *index: Single | str) -> Stack:
        """Indices of neighboring axes of a tensor as one dimension of a buffer.

        ``b.load("Q", g, b.stack("group", i), "d")`` is a matrix: below each other, for every
        position of the first index, the rows of the second.  Its extent is the product of theirs.
        """
        parts = unstacked(self._index(index, None))
        return Stack(cast("tuple[Single, ...]", parts))  # which refuses others

    def _loop(
        self, span: Span, step: str | None, parallel: bool, where: tuple[str, Tile] | None = None
    ) -> Iterator[Tile]:
        axis = span.axis
        if step is not None:
            self._declared.check_step(axis, step)
        marks = None if where is None else self._marks(where)
        taken = {t.var for t in self._open}
        free = (v for v in self._declared.letters_of(axis, step, len(taken)) if v not in taken)
        tile = Tile(next(free), axis, point=step is None, of=span.tile)
        self._open.append(tile)
        self._steps[tile] = step
        self._blocks.append([])
        self._scopes.append({})
        try:
            yield TileHandle(tile.var, axis, tile.point, tile.of)
        except GeneratorExit:
            # `break` or `return` in the body.  Raising here would be swallowed by the
            # interpreter, so remember it and let build() raise.
            self._abandoned = True
            return
        left = self._scopes.pop()
        if left:
            raise ProgramError(f"{', '.join(left)} not freed at the end of loop {tile}: free them")
        self._open.pop()
        body = tuple(self._blocks.pop())
        self._emit(Loop(tile, span, step, parallel, body, marks))

    def _marks(self, where: tuple[str, Tile]) -> Marks:
        if not (isinstance(where, tuple) and len(where) == 2):
            raise ProgramError(
                f"a loop runs where {describe(where)}: give the name of a block mask and an open "
                "tile, (name, tile)"
            )
        return Marks(
            named(where[0]), self._open_tile(f"a loop runs where {where[0]} and", where[1])
        )

    # -- nodes ----------------------------------------------------------------------------

    def load(self, tensor: str, *index: Index | str, name: str | None = None) -> Buffer:
        """Load ``tensor[index]`` into a new buffer (by default the tensor's name, lower case)."""
        where = self._index(index, tensor)
        buffer = self._new(name or tensor.lower(), where)
        self._emit(Load(buffer.name, tensor, where))
        return buffer

    def store(self, buffer: Buffer, tensor: str, *index: Index | str) -> None:
        """Store a buffer to ``tensor[index]``."""
        self._resident(buffer)
        where = self._index(index, tensor)
        if buffer.part is not None or dims(where) != buffer.index:
            raise ProgramError(f"store {buffer.name} → {tensor}: the shapes differ; index alike")
        self._emit(Store(buffer.name, tensor, where))

    def alloc(self, name: str, *index: Index | str) -> Buffer:
        """Reserve a buffer; its contents are undefined."""
        buffer = self._new(name, self._index(index, None))
        self._emit(Alloc(name, buffer.index))
        return buffer

    def zeros(self, name: str, *index: Index | str) -> Buffer:
        """Reserve a buffer and fill it with 0."""
        return self._filled("zero", self.alloc(name, *index))

    def lowest(self, name: str, *index: Index | str) -> Buffer:
        """Reserve a buffer and fill it with −inf."""
        return self._filled("lowest", self.alloc(name, *index))

    def low(self, name: str, *index: Index | str) -> Buffer:
        """Reserve a buffer and fill it with −10³⁰, below every score and finite."""
        return self._filled("low", self.alloc(name, *index))

    def _filled(self, op: str, buffer: Buffer) -> Buffer:
        self.op(op, buffer)
        return buffer

    def free(self, *buffers: Buffer) -> None:
        """Give the words of buffers back, in the scope that made them."""
        for buffer in buffers:
            self._resident(buffer)
            if buffer.name not in self._scopes[-1]:
                raise ProgramError(f"{buffer.name} belongs to an outer loop: free it there")
            del self._scopes[-1][buffer.name]
            self._emit(Free(buffer.name))

    def op(self, name: str, *operands: Buffer, **scalars: Bound) -> None:
        """Apply an operation of `OPS`; shapes are checked against its index letters.

        Scalars are what the operation's record names, and like bounds: ``a=i.start - j.start``.
        """
        for buffer in operands:
            self._resident(buffer)
            if buffer.part is not None and buffer.part not in self._open:
                raise ProgramError(
                    f"{buffer.name}[{buffer.part}] is used after loop {buffer.part} has ended: "
                    "move the use inside"
                )
        check_operands(name, operands)
        spec = OPS[name]
        if set(scalars) != set(spec.scalars):
            wanted = ", ".join(f"{x}=" for x in spec.scalars) or "none"
            got = ", ".join(f"{x}=" for x in scalars) or "none"
            raise ProgramError(f"{name} takes the scalars {wanted}, got {got}: give exactly those")
        values = tuple(self._bound(f"{name}'s {x}", scalars[x]) for x in spec.scalars)
        self._emit(Op(name, tuple(Ref(b.name, b.part) for b in operands), values))

    # -- helpers --------------------------------------------------------------------------

    def _bound(self, what: str, bound: Bound) -> Affine:
        """A bound as an affine expression of names that are known here."""
        value = self._declared.affine(what, bound)
        for edge in sorted(value.edges, key=str):
            if edge.tile not in self._open:
                raise ProgramError(f"{edge} is used outside loop {edge.tile}: move the use inside")
        return value

    def _axis(self, axis: str) -> str:
        self._check_whole()
        return self._declared.axis(axis)

    def _open_tile(self, what: str, tile: Tile) -> Tile:
        """A tile without its handle, if its loop is open."""
        plain = unhandled(tile)
        if not isinstance(plain, Tile) or plain not in self._open:
            raise ProgramError(f"{what} {describe(tile)}: give an open tile")
        return plain

    def _check_whole(self) -> None:
        """Refuse to go on after a loop that was left before its end."""
        if self._abandoned:
            raise ProgramError(
                "break, return or next() left a loop of the schedule: a loop's body is traced "
                "once, for all its tiles, and must run to its end"
            )

    def _emit(self, node: Node) -> None:
        self._check_whole()
        self._blocks[-1].append(node)

    def _index(self, index: tuple[Index | str, ...], tensor: str | None) -> Indices:
        for x in index:
            if not isinstance(x, (str, Span, Tile, Stack, Number, Within, At)):
                raise ProgramError(
                    f"{tensor or 'a buffer'} is indexed by {describe(x)}: give a tile, an axis, "
                    "or b.span(…)"
                )
        where = tuple(
            self.span(self._axis(x)) if isinstance(x, str) else unhandled(x) for x in index
        )
        if tensor is not None:
            self._declared.check_axes(tensor, tuple(x.axis for x in unstacked(where)))
        for x in unstacked(where):
            if gone := [tile for tile in tiles_of(x) if tile not in self._open]:
                raise ProgramError(f"tile {gone[0]} is used outside its loop: move the use inside")
            if isinstance(x, At) and not any(x.buffer in scope for scope in self._scopes):
                raise ProgramError(f"{x} is used after {x.buffer} was freed: load it again")
        return where

    def _new(self, name: str, where: Indices) -> Buffer:
        if any(named(name) in scope for scope in self._scopes):
            raise ProgramError(f"buffer {name!r} is already resident: free it or choose a name")
        self._made += 1
        buffer = Buffer(name, dims(where), serial=self._made)
        self._scopes[-1][name] = buffer
        return buffer

    def _resident(self, buffer: Buffer) -> None:
        self._check_whole()
        if not isinstance(buffer, Buffer):
            raise ProgramError(f"{describe(buffer)} is not a buffer: load or allocate one")
        there = [scope[buffer.name] for scope in self._scopes if buffer.name in scope]
        if not there or there[0].serial != buffer.serial:
            raise ProgramError(f"{buffer.name} is used after it was freed: load it again")

    def finish(self, name: str) -> Program:
        """Close the trace."""
        self._check_whole()
        if self._scopes[0]:
            raise ProgramError(f"{', '.join(self._scopes[0])} not freed at the end: free them")
        program = Program(
            name=name,
            problem=self.form.kind,
            params=tuple(self._declared.params.values()),
            tensors=tuple(self._declared.tensors.values()),
            body=tuple(self._blocks[0]),
            limits=self.form.limits,
            mask=self.form.mask,
            derived=tuple(self._declared.derived.values()),
        )
        check(program)
        return program


def build(name: str, problem: type[Problem] | Form, schedule: Callable[[Builder], None]) -> Program:
    """Trace `schedule` once, for a form of problems; a class stands for its plain form.

    Raises ProgramError for whatever is malformed.  What the program computes is not checked: one
    that ignores the form's mask is built, and its count is of all pairs.  To check it, run it:
    ``iosim.max_error(iosim.simulate(instance, machine, hbm).outputs, problem.reference(hbm))``.

    >>> import iosim
    >>> def rows(b):
    ...     for i in b.grid("n", *b.tile_sizes("n", "B")):
    ...         x = b.load("X", i)
    ...         b.store(x, "Y", i)
    ...         b.free(x)
    >>> program = build("rows", iosim.Copy, rows)
    >>> iosim.count(iosim.bind(program, {"n": 10}, {"B": 4})).total_words
    20
    """
    builder = Builder(problem if isinstance(problem, Form) else problem.plain_form())
    try:
        inspect.signature(schedule).bind(builder)
    except (TypeError, ValueError) as error:
        raise ProgramError(
            f"{describe(schedule)} cannot be traced ({error}): give a function of one argument, "
            "the builder"
        ) from None
    returned = cast("Callable[[Builder], object]", schedule)(builder)
    builder._check_whole()
    if returned is not None:
        raise ProgramError(
            f"{name} returned {describe(returned)}: a schedule is recorded by calls of its "
            "builder; leave return and yield out"
        )
    return builder.finish(name)
