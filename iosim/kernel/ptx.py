"""PTX as blocks of instructions: what a compiled kernel tells each of its threads to do.

`iosim.kernel.threads` evaluates it.

`liveness`, `lanes` and `sectors` read it, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HEAD = re.compile(r"^(?:\.\w+ )*\.(entry|func)\s+(?:\((.*?)\)\s*)?([\w$.]+)\s*\(?$")
_LABEL = re.compile(r"^\s*([\w$.]+)$")
_GUARD = re.compile(r"@(!?)([%\w$.]+)\s+")
_LINE = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_REGISTER = re.compile(r"(?<![\w%$.])%?[A-Za-z_$][\w$]*")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
# The bits of a register by how its type ends.
_PREDICATE = ".pred"


@dataclass(frozen=True)
class PtxInstruction:
    """One instruction.

    Attributes:
        name: it, with its modifiers, such as ``ld.global.v4.b32``.
        operands: what it writes comes first; lists and addresses keep their brackets.
        guard: the predicate under which it runs; "" where it always does.
        negated: whether it runs where the guard is false.
        line: file and line of the source.
    """

    name: str
    operands: tuple[str, ...]
    guard: str = ""
    negated: bool = False
    line: str = ""


@dataclass
class PtxFunction:
    """A function: its blocks in order; each is left by a branch, or falls into the next one.

    Attributes:
        name: it.
        entry: whether it is the kernel.
        parameters: names of its parameters, with their types.
        blocks: its instructions.
        labels: name of a label → the block that begins there.
        widths: bits of registers, by their name without its number; 1 for a predicate.
        threads: of a program; 0 where the function isn't the kernel.
    """

    name: str
    entry: bool
    parameters: list[tuple[str, str]] = field(default_factory=list)
    blocks: list[list[PtxInstruction]] = field(default_factory=lambda: [[]])
    labels: dict[str, int] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)
    threads: int = 0

    def width(self, register: str) -> int:
        """Bits of a register.

        >>> PtxFunction("f", True, widths={"%rd": 64}).width("%rd12")
        64
        """
        return self.widths.get(register) or self.widths.get(register.rstrip("0123456789"), 32)


def parse_ptx(text: str) -> dict[str, PtxFunction]:
    """The functions of a module, by name.

    >>> found = parse_ptx('''
    ... .visible .entry f(
    ... 	.param .u64 f_param_0
    ... )
    ... .reqntid 128
    ... {
    ... 	.reg .b32 	%r<3>;
    ... 	mov.u32 	%r1, %tid.x;
    ... 	@%p1 st.global.b32 [ %rd1 + 0 ], { %r1 };
    ... 	ret;
    ... }''')
    >>> found["f"].threads, found["f"].blocks[0][1].operands
    (128, ('[ %rd1 + 0 ]', '{ %r1 }'))
    """
    reader = _Reader(dict(_FILE.findall(text)))
    for line in text.splitlines():
        reader.read(line.split("//")[0].strip())
    return reader.functions


class _Reader:
    """Reads lines: heads of functions, and in a body statement after statement."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files
        self.functions: dict[str, PtxFunction] = {}
        self.function: PtxFunction | None = None
        self.scopes: list[dict[str, str]] = []  # of each open brace: its own names → unique ones
        self.count = 0
        self.statement = self.place = ""

    def read(self, line: str) -> None:
        """One line without its comment."""
        if self.scopes:
            self.read_body(line)
        elif head := _HEAD.match(line):
            self.function = PtxFunction(head[3], head[1] == "entry")
        elif self.function is None:
            return
        elif line.startswith((")", ";")) and line.endswith(";"):
            self.function = None  # it is declared only
        elif line.startswith(".param"):
            words = line.rstrip(",").split()
            self.function.parameters.append((words[-1].split("[")[0], " ".join(words[1:-1])))
        elif line.startswith(".reqntid"):
            self.function.threads = int(re.findall(r"\d+", line)[0])
        elif line.startswith("{"):
            self.functions[self.function.name] = self.function
            self.scopes.append({})

    def read_body(self, line: str) -> None:
        """A line of a body: statements end with a semicolon, labels with a colon."""
        if match := _LINE.match(line):
            self.place = f"{self.files.get(match[1], '')}:{match[2]}"
            return
        for i, c in enumerate(line):
            empty = not self.statement.strip()
            if c == "{" and empty:
                self.open_scope()
            elif c == "}" and empty:
                self.scopes.pop()
                if not self.scopes:
                    self.function = None
                    return
            elif c == ";":
                self.add(self.statement.strip())
                self.statement = ""
            elif c == ":" and _LABEL.match(self.statement) and line[i + 1 : i + 2] != ":":
                self.begin_block(self.statement.strip())
                self.statement = ""
            else:
                self.statement += c
        self.statement += " "

    def open_scope(self) -> None:
        """An inner pair of braces, whose labels and registers are its own."""
        self.count += 1
        self.scopes.append({})

    def rename(self, name: str) -> str:
        """The name of a label or a register, unique in its function."""
        return next((s[name] for s in reversed(self.scopes) if name in s), name)

    def declare_name(self, name: str) -> str:
        """A name that the innermost braces declare."""
        if len(self.scopes) > 1:
            self.scopes[-1][name] = f"{name}@{self.count}"
        return self.rename(name)

    def begin_block(self, label: str) -> None:
        """A label."""
        assert self.function is not None
        name = self.rename(label)
        name = self.declare_name(label) if name == label else name
        self.function.labels[name] = len(self.function.blocks)
        self.function.blocks.append([])

    def add(self, text: str) -> None:
        """A statement."""
        function = self.function
        assert function is not None
        if text.startswith(".reg"):
            self.declare(text)
            return
        if not text or text.startswith("."):
            return
        guard, negated = "", False
        if match := _GUARD.match(text):
            guard, negated, text = self.rename(match[2]), bool(match[1]), text[match.end() :]
        name, *more = text.split(None, 1)
        rest = more[0] if more else ""
        if len(self.scopes) > 1:
            rest = _REGISTER.sub(lambda m: self.rename(m[0]), rest)
        one = PtxInstruction(name, split_operands(rest), guard, negated, self.place)
        function.blocks[-1].append(one)
        if name.split(".")[0] in ("bra", "ret", "exit", "trap"):
            function.blocks.append([])

    def declare(self, text: str) -> None:
        """Registers of a type."""
        assert self.function is not None
        _, type_, names = text.split(None, 2)
        bits = 1 if type_ == _PREDICATE else int(re.findall(r"\d+", type_)[0])
        for name in names.split(","):
            base = name.strip().split("<")[0]
            self.function.widths[base if "<" in name else self.declare_name(base)] = bits


def split_operands(text: str) -> tuple[str, ...]:
    """Operands between commas that are in no bracket.

    >>> split_operands("{%r1, %r2}, [%rd1+4], 0x10")
    ('{%r1, %r2}', '[%rd1+4]', '0x10')
    """
    parts, depth, begin = [], 0, 0
    for at, c in enumerate(text):
        depth += (c in "{[(") - (c in "}])")
        if c == "," and not depth:
            parts.append(text[begin:at])
            begin = at + 1
    parts.append(text[begin:])
    return tuple(part.strip() for part in parts if part.strip())


def list_registers(operand: str) -> list[str]:
    """The registers of an operand, or of a list of them; an address's register.

    >>> list_registers("{ %r1, %r2 }"), list_registers("[ %rd1 + 16 ]"), list_registers("0x10")
    (['%r1', '%r2'], ['%rd1'], [])
    """
    return re.findall(r"%[\w$.@]+|(?<![\w%$.])[A-Za-z_][\w$]*@\d+", operand)
