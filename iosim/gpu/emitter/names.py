"""Names in a kernel's text: what a program calls its things, unless a kernel has that name already.

A program may call a buffer ``to_16`` or a tensor ``words``.  Who comes first keeps its name: the
kernel's own, then tensors, tiles, block masks and buffers; a later one gets ``_`` at its end.

Triton takes what is assigned before a loop and in it for one variable, of one shape and type.  So a
buffer that comes back with another shape, while the name is still known, gets another name.
"""

from __future__ import annotations

import builtins
import contextlib
import re
from collections.abc import Hashable, Iterable, Iterator

from iosim.core.counts import Key
from iosim.core.program.block_masks import masks
from iosim.core.program.index import Span, Tile
from iosim.core.program.ir import Loop, Node, Program, nodes
from iosim.core.program.ops import OPS

# What the emitted text says itself: its arguments, its helpers, and its launch.
_OWN = {
    "tl",
    "triton",
    "LOG2E",
    "COUNT",
    "unmasked",
    "positions",
    "load_vector",
    "load_word",
    "sector_end",
    "wait_for_all",
    "globaltimer",
    "words_ptr",
    "gate_ptr",
    "clock_ptr",
    "item",
    "wave",
    "sweep",
    "here",
}
_OF_TENSORS = {"ptr": "{}_ptr", "load": "loaded_{}", "store": "stored_{}"}
_OF_TILES = ("_start", "_stop", "_from", "_to")
_NUMBERED = re.compile(r"(to|single|four)_\d+")  # index vectors


class Names:
    """Assigns names in a kernel whose nodes are `body`, each to one thing.

    Args:
        own: names that the kernel's text uses in addition to the usual ones.
    """

    def __init__(
        self, program: Program, body: tuple[Node, ...], own: frozenset[str] = frozenset()
    ) -> None:
        self._taken = _OWN | own | set(dir(builtins))
        for spec in OPS.values():  # intermediate values of templates
            self._taken |= set(re.findall(r"^(_\w+) = ", spec.triton or "", re.MULTILINE))
        self._given: dict[Hashable, str] = {}
        self._now: dict[Hashable, str] = {}  # what was made last
        self._scopes: list[dict[str, object]] = [{}]  # name → shape, of what is made in each
        for tensor in program.tensors:
            for kind in _OF_TENSORS:
                self._tensor(kind, tensor.name)
        for node in nodes(body):
            if isinstance(node, Loop):
                self.var(node.tile)
        for name in masks(program):
            self.marks(name)

    def ptr(self, tensor: str) -> str:
        """The pointer to a tensor."""
        return self._tensor("ptr", tensor)

    def marks(self, mask: str) -> str:
        """The pointer to a block mask."""
        return self.of(("marks", mask), f"{mask}_ptr")

    def counter(self, key: Key) -> str:
        """The count of a tensor's words in one direction."""
        return self._tensor(*key)

    def _tensor(self, kind: str, tensor: str) -> str:
        return self.of((kind, tensor), _OF_TENSORS[kind].format(tensor))

    def var(self, tile: Tile) -> str:
        """Where a tile starts, in a loop; what else it has a name for begins with that."""
        return self.of(("tile", tile.var), tile.var, _OF_TILES)

    def mask(self, what: Hashable, wanted: str) -> str:
        """The mask along an index."""
        return self._last(("mask", what), f"{wanted}_in")

    def block(self, buffer: str, part: int | None = None) -> str:
        """The block that holds a buffer, or a part of one."""
        return self._last(("block", buffer, part), _block_name(buffer, part))

    def _last(self, key: Hashable, wanted: str) -> str:
        return self._now.get(key) or self.of(key, wanted)

    def make_mask(self, what: Hashable, wanted: str, shape: Hashable) -> str:
        """The mask along an index, where it is computed."""
        return self._make(("mask", what), f"{wanted}_in", shape)

    def make_block(self, buffer: str, part: int | None, shape: Hashable) -> str:
        """The block of a buffer, where it is made with a shape and a type."""
        return self._make(("block", buffer, part), _block_name(buffer, part), shape)

    def between(self, name: str, rows: str) -> str:
        """An intermediate value of a template, which has a number for each row."""
        self._given.setdefault(("between", name), name)
        return self._make(("between", name), name, rows)

    def _make(self, key: Hashable, wanted: str, shape: Hashable) -> str:
        name = self.of(key, wanted)
        if any(scope.get(name, shape) != shape for scope in self._scopes):
            name = self.of((key, shape), f"{name}_")
        self._scopes[-1][name] = shape
        self._now[key] = name
        return name

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """What is made inside is forgotten at the end: a loop, or a branch."""
        self._scopes.append({})
        yield
        self._scopes.pop()

    def span(self, span: Span) -> str:
        """A span that follows a tile; its ends and its mask begin with that."""
        return self.of(("span", span), f"{span.axis}_part", _OF_TILES)

    def of(self, key: Hashable, wanted: str, ends: Iterable[str] = ()) -> str:
        """The name of a thing: `wanted`, or the first free one with ``_`` at its end.

        Args:
            ends: the name with these added is taken as well: ``i`` and ``i_in``.
        """
        if key not in self._given:
            name = wanted
            while any(self._is_taken(name + end) for end in ("", *ends)):
                name += "_"
            self._given[key] = name
            self._taken |= {name + end for end in ("", *ends)}
        return self._given[key]

    def _is_taken(self, name: str) -> bool:
        return name in self._taken or _NUMBERED.fullmatch(name) is not None


def _block_name(buffer: str, part: int | None) -> str:
    return buffer if part is None else f"{buffer}_{part}"
