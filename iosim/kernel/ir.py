"""Triton's IR as text, read into operations, blocks and regions.

Only the shape of the text is known here: results, a name, operands, attributes, types, regions.
What an operation means is in `iosim.kernel.semantics`.

Nearly all of this wing reads it.  ``tests/kernel/test_block_pointers.py`` has recorded IR.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_RESULTS = re.compile(r"^(%[\w$.#-]+(?::\d+)?(?:, *%[\w$.#-]+(?::\d+)?)*) = ")
_NAME = re.compile(r'^"?([a-z_]\w*(?:\.\w+)+)"?')
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_ALIAS = re.compile(r"^(#loc\d*) = (loc\(.*\))$")
_LOCATION = re.compile(r"#loc\d*")
_SIDE_BY_SIDE = re.compile(r"(?:default|partition\d+(\(.*\)) num_warps\(\d+\)) \{$")
_FILE = re.compile(r'loc\("([^"]*)":(\d+):(\d+)')
_ATTRIBUTE = re.compile(r"([\w.]+)\s*=\s*")
_OPENING, _CLOSING = "([{<", ")]}>"


@dataclass
class IrOperation:
    """One operation.

    Attributes:
        name: such as ``tt.load``.
        results: names of its results, each with its ``%``.
        operands: names of the values that it reads, in the order of the text.
        text: what is between the name and the types.
        attributes: those in braces, as text.
        types: the types after the last colon, in order.
        regions: of blocks that it runs.
        successors: the blocks that it branches to, with the values that it gives them.
        location: file and line of the source, or "".
    """

    name: str
    results: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    text: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    types: tuple[str, ...] = ()
    regions: list[IrRegion] = field(default_factory=list)
    successors: tuple[tuple[str, tuple[str, ...]], ...] = ()
    location: str = ""

    @property
    def result_type(self) -> str:
        """The type of its first result.

        >>> parse_operation("%4 = arith.cmpi slt, %2, %3 : tensor<64xi32>").result_type
        'tensor<64xi1>'
        """
        if self.name in ("arith.cmpi", "arith.cmpf"):
            shape = tile_shape(self.types[-1])
            return f"tensor<{''.join(f'{n}x' for n in shape)}i1>" if shape else "i1"
        if self.name == "tt.load":
            return pointee_tile(self.types[0])
        if self.name == "tt.addptr":
            return self.types[0]
        return self.types[-1] if self.types else ""


@dataclass
class IrBlock:
    """Operations that run one after the other, and the values that it gets on entry."""

    label: str
    arguments: tuple[str, ...]
    types: tuple[str, ...]
    operations: list[IrOperation] = field(default_factory=list)
    work: Any = None  # what `iosim.kernel.flop.block_work` found


@dataclass
class IrRegion:
    """Blocks; the first one is entered first."""

    blocks: list[IrBlock] = field(default_factory=list)

    @property
    def entry(self) -> IrBlock:
        """The first block."""
        return self.blocks[0]


@dataclass
class IrFunction:
    """One function: its name, its arguments with their types, and its body."""

    name: str
    public: bool
    arguments: tuple[str, ...]
    types: tuple[str, ...]
    body: IrRegion


@functools.cache
def tile_shape(type_: str) -> tuple[int, ...]:
    """The shape of a tensor's type; empty for a scalar.

    >>> tile_shape("tensor<64x32x!tt.ptr<f16>>"), tile_shape("i32")
    ((64, 32), ())
    """
    match = re.search(r"(?:tensor|memdesc|tensordesc)<((?:\d+x)+)", type_)
    if not match or not type_.lstrip("!").startswith(("tensor", "ttg.memdesc", "tt.tensordesc")):
        return ()
    return tuple(int(n) for n in match[1].split("x") if n)


@functools.cache
def element_type(type_: str) -> str:
    """The type of an element of a tile, or of a scalar; of a pointer, what it points to.

    >>> element_type("tensor<64x!tt.ptr<f16>>"), element_type("tensor<64xi1>"), element_type("i32")
    ('f16', 'i1', 'i32')
    """
    inner = re.sub(r"^!?\w*(?:\.\w+)?<(?:\w+<)?(?:\d+x)+", "", type_.split(", #")[0])
    pointer = re.search(r"ptr<(?:tensor<(?:\d+x)+)?([\w!.]+)", inner)
    return pointer[1] if pointer else re.sub(r"[>,].*$", "", inner).lstrip("<")


def pointee_tile(type_: str) -> str:
    """The type of what a load from a pointer's type gives.

    >>> pointee_tile("tensor<64x!tt.ptr<f16>>"), pointee_tile("!tt.ptr<f32>")
    ('tensor<64xf16>', 'f32')
    >>> pointee_tile("!tt.ptr<tensor<64x32xf16>>")
    'tensor<64x32xf16>'
    """
    shape = tile_shape(type_) or tuple(
        int(n) for n in (re.findall(r"ptr<tensor<((?:\d+x)+)", type_) or [""])[0].split("x") if n
    )
    element = element_type(type_)
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>" if shape else element


def descriptor_tile(type_: str) -> tuple[int, ...]:
    """The tile of a descriptor's or a block pointer's type.

    >>> descriptor_tile("<f16>, <32x16xf16>"), descriptor_tile("!tt.ptr<tensor<8x4xf16>>")
    ((32, 16), (8, 4))
    """
    if shape := tile_shape(type_):
        return shape
    match = re.search(r"<((?:\d+x)+)", type_)
    return tuple(int(n) for n in match[1].split("x") if n) if match else ()


def parse_module(text: str) -> dict[str, IrFunction]:
    """The functions of a module, by name.

    Raises:
        ValueError: for text that isn't Triton's IR.

    >>> text = "module {\\n tt.func public @f(%a: i32) {\\n tt.return loc(#loc)\\n }\\n}"
    >>> parse_module(text)["f"].arguments
    ('%a',)
    """
    reader = _Reader(text)
    for line in text.splitlines():
        reader.read(line.strip())
    if reader.open or not reader.functions:
        raise ValueError("this is no module of Triton's IR, or it is cut off")
    for function in reader.functions.values():
        _Renaming().rename(function.body, {})
        function.arguments = function.body.entry.arguments
    return reader.functions


class _Renaming:
    """Gives each value of a function a name of its own: regions side by side share names."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def define(self, name: str, scope: dict[str, str]) -> str:
        """A new value's name."""
        number = self.seen[name] = self.seen.get(name, -1) + 1
        scope[name] = f"{name}'{number}" if number else name
        return scope[name]

    def rename(self, region: IrRegion, outer: dict[str, str]) -> None:
        """Rename the values of a region, which sees those around it."""
        scope = dict(outer)
        for block in region.blocks:
            block.arguments = tuple(self.define(x, scope) for x in block.arguments)
        for block in region.blocks:
            for op in block.operations:
                op.operands = tuple(scope.get(x, x) for x in op.operands)
                op.successors = tuple(
                    (label, tuple(scope.get(x, x) for x in values))
                    for label, values in op.successors
                )
                # The first region of a while loop is seen by none of the others.
                for inner in op.regions:
                    self.rename(inner, scope)
                op.results = tuple(self.define(x, scope) for x in op.results)


class _Reader:
    """Reads a module line by line: a stack of the operations whose regions are open."""

    def __init__(self, text: str) -> None:
        aliases = (_ALIAS.match(line.strip()) for line in text.splitlines())
        self.lines: dict[str, str] = {a[1]: a[2] for a in aliases if a}
        self.functions: dict[str, IrFunction] = {}
        self.open: list[IrOperation | None] = []  # None: the module

    def read(self, line: str) -> None:
        """One line."""
        if not line or line.startswith(("#", "//", "module")):
            if line.startswith("module"):
                self.open.append(None)
        elif line.startswith("}"):
            self.close(line)
        elif line.startswith("^"):
            self.begin_block(line)
        elif match := _SIDE_BY_SIDE.match(line):
            self.begin_partition(match[1] or "()")
        else:
            self.add(line)

    def close(self, line: str) -> None:
        """The end of a region, and perhaps the start of the next one of the same operation."""
        operation = self.open[-1]
        if operation is not None:
            _end_block(operation.regions[-1].blocks[-1])
        if operation is not None and line.startswith(("} else {", "} do {", "}, {")):
            operation.regions.append(IrRegion([IrBlock("", (), ())]))
            return
        self.open.pop()
        if operation is None or operation.name == "tt.func":
            return
        rest, location = split_location(line[1:].lstrip(")"))
        if " : " in f" {rest}":
            operation.types = split_types(f" {rest}".split(" : ", 1)[1])
        operation.attributes |= read_attributes(rest)
        operation.location = self.resolve(location)

    def begin_partition(self, parameters: str) -> None:
        """A region of ``ttg.warp_specialize``, which stands below the operation itself."""
        around = self.open[-1]
        assert around is not None
        operation = around.regions[-1].blocks[-1].operations[-1]
        operation.regions.append(IrRegion([IrBlock("", *_read_parameters(parameters[1:-1]))]))
        self.open.append(operation)

    def begin_block(self, line: str) -> None:
        """A block's label, with the values that it is given."""
        head = split_location(line.split("//")[0])[0].rstrip().rstrip(":")
        label = re.match(r"\^\w+", head)
        operation = self.open[-1]
        if label is None or operation is None:
            raise ValueError(f"a block out of place: {line}")
        names, types = _read_parameters(head[label.end() :].strip()[1:-1])
        blocks = operation.regions[-1].blocks
        if len(blocks) == 1 and not blocks[0].label and not blocks[0].operations:
            blocks[0] = IrBlock(label[0], blocks[0].arguments + names, blocks[0].types + types)
        else:
            blocks.append(IrBlock(label[0], names, types))

    def add(self, line: str) -> None:
        """An operation; with an open region where the line ends with a brace."""
        opens = line.endswith("{")
        body, location = split_location(line[:-1] if opens else line)
        if body.startswith(("tt.func", "gluon.func", "llvm.func")):
            self.add_function(body, opens)
            return
        operation = parse_operation(body)
        operation.location = self.resolve(location)
        if not self.open or (parent := self.open[-1]) is None:
            raise ValueError(f"an operation outside of a function: {line}")
        parent.regions[-1].blocks[-1].operations.append(operation)
        if opens:
            operation.regions.append(IrRegion([IrBlock("", *_region_arguments(operation))]))
            self.open.append(operation)

    def add_function(self, head: str, opens: bool) -> None:
        """The head of a function."""
        match = re.search(r"@(\"[^\"]+\"|[\w$.]+)\(", head)
        if match is None or not opens:
            return
        end = _matching(head, match.end() - 1)
        names, types = _read_parameters(head[match.end() : end])
        name = match[1].strip('"')
        region = IrRegion([IrBlock("", names, types)])
        operation = IrOperation("tt.func", regions=[region])
        self.functions[name] = IrFunction(name, " public " in head, names, types, region)
        self.open.append(operation)

    def resolve(self, location: str) -> str:
        """File and line of a location; inside of Triton's own functions, of the call."""
        if match := _FILE.search(location):
            return f"{match[1]}:{match[2]}"
        places = [self.resolve(self.lines.get(x, "")) for x in _LOCATION.findall(location)]
        places = [x for x in places if x]
        return next(
            (x for x in places if "/triton/language/" not in x), places[0] if places else ""
        )


def parse_operation(line: str) -> IrOperation:
    """One operation from its line, without what its regions hold.

    >>> load = parse_operation("%x = tt.load %p, %m {isVolatile = false} : tensor<8x!tt.ptr<f16>>")
    >>> load.name, load.results, load.operands, load.types
    ('tt.load', ('%x',), ('%p', '%m'), ('tensor<8x!tt.ptr<f16>>',))
    """
    line = split_location(line)[0]
    results: tuple[str, ...] = ()
    if match := _RESULTS.match(line):
        results = tuple(_expand_results(match[1]))
        line = line[match.end() :]
    name = _NAME.match(line)
    if name is None:
        raise ValueError(f"no operation: {line}")
    rest = line[name.end() :]
    at = _last_colon(rest)
    text, types = (rest, "") if at is None else (rest[:at], rest[at + 3 :])
    if name[1].startswith("cf.") or name[1] == "scf.condition":
        text, types = rest, ""
    operands = tuple(_VALUE.findall(_without_braces(text)))
    return IrOperation(
        name[1],
        results,
        operands,
        text.strip(),
        read_attributes(rest),
        split_types(types),
        successors=tuple(_read_successors(text)) if name[1].startswith("cf.") else (),
    )


def split_location(line: str) -> tuple[str, str]:
    """A line without its locations, and the last of them.

    >>> split_location("tt.return loc(#loc3)")
    ('tt.return', 'loc(#loc3)')
    """
    last = ""
    while (start := line.find("loc(")) >= 0:
        end = _matching(line, start + 3)
        last = line[start : end + 1]
        line = f"{line[:start].rstrip()}{line[end + 1 :]}"
    return line.rstrip(), last


def split_types(text: str) -> tuple[str, ...]:
    """Types that commas, arrows and stars separate, brackets aside.

    >>> split_types("(tensor<8xf16>, i1) -> tensor<8xf16>")
    ('tensor<8xf16>', 'i1', 'tensor<8xf16>')
    """
    text = text.strip()
    parts, depth, begin, at = [], 0, 0, 0
    while at < len(text):
        if text.startswith("->", at):
            if depth == 0:
                parts.append(text[begin:at])
                begin = at + 2
            at += 2
            continue
        separator = next((s for s in (", ", " to ", " * ", ",") if text.startswith(s, at)), "")
        if depth == 0 and separator:
            parts.append(text[begin:at])
            begin = at = at + len(separator)
            continue
        depth += (text[at] in _OPENING) - (text[at] in _CLOSING)
        at += 1
    parts.append(text[begin:])
    out: list[str] = []
    for part in (p.strip() for p in parts):
        if part.startswith("(") and part.endswith(")"):
            out += split_types(part[1:-1])
        elif part:
            out.append(part)
    return tuple(out)


def read_attributes(text: str) -> dict[str, str]:
    """The attributes in the braces of an operation's text.

    >>> read_attributes("%0 {axis = 1 : i32, order = array<i32: 1, 0>} : i32")
    {'axis': '1 : i32', 'order': 'array<i32: 1, 0>'}
    """
    out: dict[str, str] = {}
    at = text.find("{")
    while at >= 0:
        end = _matching(text, at)
        for part in _split_top(text[at + 1 : end]):
            if match := _ATTRIBUTE.match(part):
                out[match[1]] = part[match.end() :].strip()
            elif part:
                out[part] = ""
        at = text.find("{", end + 1)
    return out


def walk(region: IrRegion) -> Iterator[IrOperation]:
    """All operations of a region, those of inner regions after their own."""
    for block in region.blocks:
        for operation in block.operations:
            yield operation
            for inner in operation.regions:
                yield from walk(inner)


def _region_arguments(operation: IrOperation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The values that the first region of a loop is given, which are in the loop's own line."""
    if operation.name == "scf.for":
        pairs = re.findall(r"(%[\w$.-]+) = (%[\w$.#-]+)", operation.text)
        names = tuple(name for name, _ in pairs)
        inner = set(names)
        operation.operands = tuple(x for x in operation.operands if x not in inner)
        return names, ("",) * len(names)
    if operation.name == "scf.while":
        pairs = re.findall(r"(%[\w$.-]+) = (%[\w$.#-]+)", operation.text)
        operation.operands = tuple(value for _, value in pairs)
        return tuple(name for name, _ in pairs), ("",) * len(pairs)
    return (), ()


def _end_block(block: IrBlock) -> None:
    """Add the end that Triton leaves out where a block gives no values."""
    last = block.operations[-1].name if block.operations else ""
    if not last.endswith(("yield", "return", ".condition")) and not last.startswith("cf."):
        block.operations.append(IrOperation("scf.yield"))


def _expand_results(text: str) -> Iterator[str]:
    """The names of results: ``%a:3`` is three."""
    for one in text.split(","):
        name, _, number = one.strip().partition(":")
        if number:
            yield from (f"{name}#{i}" for i in range(int(number)))
        else:
            yield name


def _read_successors(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The blocks that a branch goes to, with what it gives them."""
    for match in re.finditer(r"(\^\w+)(\()?", text):
        values: tuple[str, ...] = ()
        if match[2]:
            inner = text[match.end() : _matching(text, match.end() - 1)]
            values = tuple(_VALUE.findall(inner.split(" : ")[0]))
        yield match[1], values


def _read_parameters(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and types of ``%a: i32, %b: !tt.ptr<f16> {tt.divisibility = 16 : i32}``."""
    names, types = [], []
    for part in _split_top(split_location(text)[0]):
        name, _, type_ = part.partition(":")
        names.append(name.strip())
        types.append(type_.split("{")[0].strip())
    return tuple(names), tuple(types)


def _split_top(text: str) -> list[str]:
    """The parts between commas that are in no bracket."""
    parts, depth, begin = [], 0, 0
    for at, c in enumerate(text):
        if c == ">" and text[at - 1] == "-":
            continue
        depth += (c in _OPENING) - (c in _CLOSING)
        if c == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    parts.append(text[begin:].strip())
    return [part for part in parts if part]


def _matching(text: str, at: int) -> int:
    """Where the bracket at a position is closed."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] == ">" and text[i - 1] == "-":
            continue
        depth += (text[i] in _OPENING) - (text[i] in _CLOSING)
        if depth == 0:
            return i
    raise ValueError(f"a bracket that isn't closed: {text[at:]}")


def _last_colon(text: str) -> int | None:
    """Where the last `` : `` outside of brackets begins."""
    depth, found = 0, None
    for at, c in enumerate(text):
        if c == ">" and text[at - 1] == "-":
            continue
        if depth == 0 and text.startswith(" : ", at):
            found = at
        depth += (c in _OPENING) - (c in _CLOSING)
    return found


def _without_braces(text: str) -> str:
    """The text without what is in braces."""
    at = text.find("{")
    while at >= 0:
        end = _matching(text, at)
        text = text[:at] + text[end + 1 :]
        at = text.find("{")
    return text
