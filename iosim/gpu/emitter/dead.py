"""Dead loads: those whose block nothing reads, which a compiler leaves out of the machine's code.

A program that loads a tile and never uses it moves it all the same: the model counts it, and the
kernel counts it too, since its text says so.  But no result depends on it, so the compiler drops
the load, and the hardware moves less.  What is dropped is a fold over the program.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from iosim.core.program.index import At, Span, unstacked
from iosim.core.program.ir import Alloc, Free, Load, Loop, Node, Op, Program, Store, nodes
from iosim.core.program.ops import OPS
from iosim.core.program.walk import Instance
from iosim.gpu.emitter.nests import find_empty, prune

Body = tuple[Node, ...]
Resident = Mapping[str, int]  # a buffer's name → the number of its block


def live(instance: Instance) -> Instance:
    """The same without what nothing reads: a dead load makes its block, and moves no word.

    A block is read where it is stored, where it says what is loaded or stored, and by an operation
    that changes a block which is read.

    >>> import iosim
    >>> copy = iosim.bind(iosim.algorithm("copy").program, {"n": 10}, {"B": 4})
    >>> live(copy) is copy
    True
    """
    program = instance.program
    kept = _live(program, find_empty(program, instance.env))
    return instance if kept is program else replace(instance, program=kept)


@functools.lru_cache(1024)
def _live(program: Program, empty: frozenset[Span]) -> Program:
    """The program without dead loads where these spans are empty."""
    # What runs zero times reads nothing.
    body = prune(program.body, empty)
    uses = _Uses()
    uses.follow(body, {})
    dead = uses.dead()
    if not dead:
        return program
    return replace(program, body=_drop_dead_loads(body, dead, itertools.count()))


@dataclass
class _Uses:
    """What becomes of the blocks of a program, numbered in the order of its text.

    Attributes:
        loads: blocks that are loaded.
        read: blocks that are stored, or read by what changes no other.
        feeds: block → those that an operation computes from it.
        over: loaded blocks that are overwritten before anything reads them.
    """

    blocks: int = 0
    loads: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)
    feeds: dict[int, set[int]] = field(default_factory=dict)
    over: set[int] = field(default_factory=set)

    def follow(self, body: Body, outside: Resident) -> None:
        """Goes through a body; `outside` are the blocks that are resident around it."""
        found = dict(outside)
        fresh: set[int] = set()  # loaded in this body, and not touched yet
        for node in body:
            match node:
                case Loop():
                    fresh -= {found[x] for x in _named(node.body) if x in found}
                    self.follow(node.body, found)
                case Load() | Alloc():
                    if isinstance(node, Load):
                        self.loads.add(self.blocks)
                        fresh.add(self.blocks)
                        for x in _places(node, found):
                            self.feeds.setdefault(x, set()).add(self.blocks)
                            fresh.discard(x)
                    found[node.buffer] = self.blocks
                    self.blocks += 1
                case Store():
                    for x in (found[node.buffer], *_places(node, found)):
                        self.read.add(x)
                        fresh.discard(x)
                case Op():
                    self._op(node, found, fresh)
                case Free():
                    pass
                case _:
                    assert_never(node)

    def _op(self, node: Op, found: Resident, fresh: set[int]) -> None:
        spec = OPS[node.name]
        own = [found.get(ref.buffer) for ref in node.operands]  # no word, no block
        read = {own[k] for k in spec.reads} - {None}
        whole = {own[k] for k in spec.writes if node.operands[k].part is None} - {None}
        self.over |= {x for x in whole - read if x in fresh}
        fresh -= {x for x in own if x is not None}
        written = {x for k in spec.writes if (x := own[k]) is not None}
        for x in read:
            if x is not None:
                self.feeds.setdefault(x, set()).update(written)

    def dead(self) -> set[int]:
        """The loaded blocks that no result depends on."""
        needed, known = set(self.read), set[int]()
        while needed != known:
            known = set(needed)
            needed |= {x for x, to in self.feeds.items() if to & known}
        return self.over | self.loads - needed


def _places(node: Load | Store, found: Resident) -> list[int]:
    """The blocks of positions that say where it moves words."""
    return [found[x.buffer] for x in unstacked(node.index) if isinstance(x, At)]


def _named(body: Body) -> Iterator[str]:
    """The buffers that a body names, in operations and transfers."""
    for node in nodes(body):
        if isinstance(node, Op):
            yield from (ref.buffer for ref in node.operands)
        elif not isinstance(node, Loop):
            yield node.buffer
        if isinstance(node, (Load, Store)):
            yield from (x.buffer for x in unstacked(node.index) if isinstance(x, At))


def _drop_dead_loads(body: Body, dead: set[int], numbers: Iterator[int]) -> Body:
    """The body with room in place of each dead load; blocks are numbered as `_Uses` does."""
    found: list[Node] = []
    for node in body:
        if isinstance(node, Loop):
            found.append(replace(node, body=_drop_dead_loads(node.body, dead, numbers)))
        elif isinstance(node, (Load, Alloc)) and next(numbers) in dead:
            found.append(Alloc(node.buffer, node.index))
        else:
            found.append(node)
    return tuple(found)
