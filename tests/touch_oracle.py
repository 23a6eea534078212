"""What a program references, word by word in plain loops: shares no code with `iosim.cache`.

It reads the records of a program's tree, and nothing that resolves them.
"""

from __future__ import annotations

from itertools import product

from iosim.core.program.index import At, Edge, Number, Span, Stack, Tile, Within
from iosim.core.program.ir import Alloc, Free, Load, Loop, Op, Store
from iosim.core.program.ops import OPS


def affine(x, env):
    found = x.const
    for name, by in x.terms:
        found += by * env[name]
    return found


def bounds(span, env):
    start, stop = affine(span.start, env), affine(span.stop, env)
    if any(isinstance(name, Edge) for end in (span.start, span.stop) for name, _ in end.terms):
        low, high = 0, env[span.axis]
        if span.within is not None:
            low = min(max(affine(span.within[0], env), 0), env[span.axis])
            high = max(low, min(affine(span.within[1], env), env[span.axis]))
        start = min(max(start, low), high)
        stop = max(start, min(stop, high))
    return start, stop


def parts(index):
    for x in index:
        yield from x.parts if isinstance(x, Stack) else (x,)


class Walker:
    """Words as ``(array, number of the unit in it, written)``, in `found`."""

    def __init__(self, instance, moves=False, layouts=None, unit="words", line=1, positions=None):
        self.instance, self.moves, self.unit, self.line = instance, moves, unit, line
        self.layouts, self.positions = layouts or {}, positions or {}
        self.env = dict(instance.values)
        self.shapes = {t.name: [self.env[a] for a in t.axes] for t in instance.program.tensors}
        self.masks = {name: mask.array.tolist() for name, mask in instance.masks}
        self.found, self.largest, self.buffers, self.first = [], {}, {}, {}
        self.body(instance.program.body)

    def body(self, body):
        for k, node in enumerate(body):
            if isinstance(node, Loop):
                self.loop(node)
            elif self.moves:
                self.move(node)
            else:
                self.node(node, body[k + 1 :])

    def loop(self, node):
        start, stop = bounds(node.span, self.env)
        step = 1 if node.step is None else self.env[node.step]
        at = start
        while at < stop:
            number = (at - start) // step
            row = self.first.get(node.marks.rows) if node.marks else None
            if node.marks is None or self.masks[node.marks.name][row][number]:
                self.env[Edge(node.tile, "start")] = at
                self.env[Edge(node.tile, "stop")] = min(at + step, stop)
                self.first[node.tile] = number
                self.body(node.body)
            at += step
        for end in ("start", "stop"):
            self.env.pop(Edge(node.tile, end), None)
        self.first.pop(node.tile, None)

    def where(self, x):
        """The positions of an index on its axis."""
        match x:
            case Tile():
                return range(self.env[Edge(x, "start")], self.env[Edge(x, "stop")])
            case Span():
                return range(*bounds(x, self.env))
            case Number():
                return [self.first[x.tile]]
            case Within():
                return range(len(self.where(x.tile)))
            case At():
                return [self.buffers[x.buffer]["position"]]

    def has_extent(self, x):
        return not isinstance(x, (Number, At)) and not (isinstance(x, Tile) and x.point)

    def tensor(self, name, index):
        """The words of a box of a tensor, in row-major order of the box."""
        return [("tensor", name, at) for at in product(*(self.where(x) for x in parts(index)))]

    def array(self, name, index):
        """Those of a local array, with positions counted from where its own index starts."""
        own = [self.where(x) for x in parts(index) if self.has_extent(x)]
        words = 1
        for one in own:
            words *= len(one)
        return own, words

    def touch(self, words, write):
        last = None
        for word in words:
            last = self.one(word, write, last)

    def one(self, word, write, last):
        unit = self.numbered(word)
        if self.unit == "words" or unit != last:
            self.found.append((*unit, write))
        return unit

    def numbered(self, word):
        kind, name, at = word[:3]
        shape = self.shapes[name] if kind == "tensor" else word[3]
        how = self.layouts.get(name, "row-major") if kind == "tensor" else "row-major"
        if len(shape) < 2:
            how = "row-major"
        outer = 0
        for k in range(len(shape) - 2):
            outer = outer * shape[k] + at[k]
        if not shape:
            number, row = 0, 0
        elif len(shape) == 1:
            number, row = at[0], 0
        elif how == "row-major":
            row = outer * shape[-2] + at[-2]
            number = row * shape[-1] + at[-1]
        elif how == "column-major":
            row = outer * shape[-1] + at[-1]
            number = row * shape[-2] + at[-2]
        else:
            a, b = how.a, how.b
            down, across = (shape[-2] + a - 1) // a, (shape[-1] + b - 1) // b
            block = (outer * down + at[-2] // a) * across + at[-1] // b
            number, row = block * a * b + (at[-2] % a) * b + at[-1] % b, None
        if self.unit == "rows":
            return kind, name, row
        return kind, name, number // (self.line if self.unit == "lines" else 1)

    def words(self, buffer, part=None):
        """The words that an operand names; and the extents of its dimensions."""
        here = self.buffers[buffer]
        index = list(here["dims"])
        ranges = [self.where(x) if not isinstance(x, Stack) else None for x in index]
        cut = None
        if part is not None:
            same = [k for k, x in enumerate(index) if x.axis == part.axis]
            # Of rows by keys that are one axis, the one whose tile the part's loop runs over.
            cut = next((k for k in same if index[k] == part.of), same[0])
            ranges[cut] = self.where(part)
        extents = []
        for x, r in zip(index, ranges, strict=True):
            if r is None:
                n = 1
                for y in x.parts:
                    n *= len(self.where(y))
                extents.append(n)
            else:
                extents.append(len(r))
        if here["is"] is not None:
            tensor, load = here["is"]
            if part is not None:
                old = index[cut]
                load = [part if x == old else x for x in parts(load)]
            return self.tensor(tensor, load), extents
        flat, whole = [], []
        for x, r in zip(index, ranges, strict=True):
            for y in parts([x]):
                own = self.where(y)
                flat.append([p - own[0] for p in (own if r is None else r)] if len(own) else [])
                whole.append(len(own))
        n = 1
        for y in whole:
            n *= y
        self.largest[buffer] = max(self.largest.get(buffer, 0), n)
        return [("array", buffer, at, whole) for at in product(*flat)], extents

    def move(self, node):
        if isinstance(node, Load):
            self.touch(self.tensor(node.tensor, node.index), False)
            self.position(node)
        elif isinstance(node, Store):
            self.touch(self.tensor(node.tensor, node.index), True)

    def position(self, node):
        words = self.tensor(node.tensor, node.index)
        here = self.buffers.setdefault(node.buffer, {})
        if node.tensor in self.positions and len(words) == 1:
            here["position"] = int(self.positions[node.tensor][words[0][2]])

    def node(self, node, after):
        match node:
            case Load():
                for x in parts(node.index):
                    if isinstance(x, At):
                        self.touch(self.words(x.buffer)[0], False)
                dims = [
                    x.tile if isinstance(x, Within) else x
                    for x in node.index
                    if isinstance(x, Stack) or self.has_extent(x)
                ]
                same = self.stays(node, after)
                self.buffers[node.buffer] = {
                    "dims": dims,
                    "is": (node.tensor, node.index) if same else None,
                }
                self.position(node)
                if not same:
                    self.touch(self.tensor(node.tensor, node.index), False)
                    self.touch(self.words(node.buffer)[0], True)
            case Store():
                self.touch(self.words(node.buffer)[0], False)
                self.touch(self.tensor(node.tensor, node.index), True)
            case Alloc():
                dims = [
                    x.tile if isinstance(x, Within) else x
                    for x in node.index
                    if isinstance(x, Stack) or self.has_extent(x)
                ]
                self.buffers[node.buffer] = {"dims": dims, "is": None}
            case Free():
                self.buffers.pop(node.buffer)
            case Op():
                self.op(node)

    def stays(self, node, after):
        def spoilt(body):
            for x in body:
                if isinstance(x, Free) and x.buffer == node.buffer and body is after:
                    return False
                if isinstance(x, Loop) and spoilt(x.body):
                    return True
                if isinstance(x, Store) and x.tensor == node.tensor:
                    return True
                if isinstance(x, Op):
                    for k in OPS[x.name].writes:
                        if x.operands[k].buffer == node.buffer:
                            return True
            return False

        return not spoilt(after)

    def op(self, node):
        spec = OPS[node.name]
        operands = [self.words(ref.buffer, ref.part) for ref in node.operands]
        for letters, (_, extents) in zip(spec.dims, operands, strict=True):
            for letter, n in zip(letters, extents, strict=False):
                if letter in spec.over and n == 0:
                    return
        for k in spec.reads:
            self.touch(operands[k][0], False)
        for k in spec.writes:
            self.touch(operands[k][0], True)
