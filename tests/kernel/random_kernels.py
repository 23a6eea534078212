"""Random Triton kernels as text: grids, orders of programs, loops, conditions and masks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from numpy.random import Generator

SIZES = ("N", "M", "W")
BLOCKS = (1, 2, 4, 8)
BOTH = "cdiv(N, A)*cdiv(M, B)"
# How a grid's text and the lines that read its ids may look; A and B are powers of 2.
GRIDS: list[tuple[str, list[str]]] = [
    ("cdiv(N, A)", ["p = tl.program_id(0)"]),
    ("cdiv(N, A)", ["p = tl.num_programs(0) - 1 - tl.program_id(0)"]),
    ("cdiv(N, A)", ["p = tl.cdiv(N, A) - 1 - tl.program_id(0)"]),
    ("N", ["p = tl.program_id(0)"]),
    ("3", ["p = tl.program_id(0)"]),
    ("2, cdiv(N, A)", ["p = tl.program_id(1)", "q = tl.program_id(0)"]),
    ("cdiv(N, A), cdiv(M, B)", ["p = tl.program_id(0)", "q = tl.program_id(1)"]),
    ("cdiv(N, A), M, W", ["p = tl.program_id(0)", "q = tl.program_id(1)", "r = tl.program_id(2)"]),
    (BOTH, ["i = tl.program_id(0)", "p, q = i // tl.cdiv(M, B), i % tl.cdiv(M, B)"]),
    (BOTH, ["i = tl.program_id(0)", "p, q = i % tl.cdiv(N, A), i // tl.cdiv(N, A)"]),
    ("M*N", ["i = tl.program_id(0)", "p, q = i % N, i // N"]),
    ("M*N*2", ["i = tl.program_id(0)", "r = i % 2", "p, q = (i // 2) % N, (i // 2) // N"]),
    (
        "cdiv(N, A)*cdiv(M, B)",
        [
            "i = tl.program_id(0)",
            "rows, columns = tl.cdiv(N, A), tl.cdiv(M, B)",
            "group = i // (2 * columns)",
            "height = tl.minimum(rows - group * 2, 2)",
            "p = group * 2 + i % (2 * columns) % height",
            "q = i % (2 * columns) // height",
        ],
    ),
    ("M", ["first = tl.program_id(0) * W", "for p in range(first, tl.minimum(first + W, N)):"]),
    ("cdiv(N, A)", ["p = tl.program_id(0) * W"]),
    ("2, M", ["p = tl.program_id(1) * W", "q = tl.program_id(0)"]),
    ("N", ["i = tl.program_id(0)", "p, q = i * W, (i + 1) * W"]),
    ("cdiv(N, A), W", ["p = tl.program_id(0) * M", "q = tl.program_id(1) * W"]),
    ("W", ["for p in range(tl.program_id(0), tl.cdiv(N, A), tl.num_programs(0)):"]),
    ("W", ["for p in range(tl.program_id(0), tl.cdiv(N, A), W):"]),
    ("min(W, cdiv(N, A))", ["for p in range(tl.program_id(0), tl.cdiv(N, A), W):"]),
    ("min(W, M)", ["for p in range(tl.program_id(0), N, W):"]),
    ("min(W, N)", ["for p in range(tl.program_id(0), N, N):"]),
    (
        "W",
        [
            "for i in range(tl.program_id(0), tl.cdiv(N, A) * tl.cdiv(M, B), W):",
            "    p, q = i // tl.cdiv(M, B), i % tl.cdiv(M, B)",
        ],
    ),
    (
        "W",
        [
            "first = tl.program_id(0)",
            "for e in range(first, N, tl.num_programs(0)):",
            "    for p in range(first, N, tl.num_programs(0)):",
        ],
    ),
]


@dataclass
class Writer:
    """The text of a kernel, line by line.

    Attributes:
        scalars: names of integers that are known here.
        carried: those that may be changed here.
    """

    rng: Generator
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    scalars: list[str] = field(default_factory=list)
    carried: list[str] = field(default_factory=list)
    names: int = 0
    left: int = 6
    loops: int = 0

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def write(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def small(self) -> int:
        return int(self.pick(0, 1, 2, 3, 5, 8, 16))

    def size(self) -> str:
        a, b = self.pick(*SIZES), self.pick(*SIZES)
        return str(
            self.pick(
                *[a] * 10,
                f"({a} - {b})",
                f"({a} + {self.small()})",
                f"({a} - {self.small()})",
                f"(2 * {a})",
                f"tl.cdiv({a}, {self.block()})",
                f"({a} // {self.block()})",
                f"({a} % {self.block()})",
                str(self.small()),
            )
        )

    def block(self) -> str:
        return str(self.pick("A", "B", "C", "2", "3"))

    def place(self) -> str:
        """A position that follows programs and loops."""
        v = self.pick(*self.scalars)
        return str(
            self.pick(
                *[v, f"{v} * {self.block()}", f"{v} * {self.block()} + {self.small()}"] * 4,
                f"{v} * {self.block()} - {self.small()}",
                f"({v} + 1) * {self.block()}",
                f"{v} - {self.small()}",
                f"({v} * A + {self.pick(*self.scalars)})",
                f"({self.pick(*SIZES)} - {v})",
                f"({v} * A) // B",
                f"tl.cdiv({v} * {self.block()} + {self.small()}, {self.block()})",
                f"({v} * A - {self.small()}) // B + {self.small()}",
                f"({v} + {self.small()}) // B * 2",
            )
        )

    def bound(self) -> str:
        a = self.pick(self.size(), self.place())
        b = self.pick(self.size(), self.place())
        return str(self.pick(a, a, a, f"tl.minimum({a}, {b})", f"tl.maximum({a}, {b})"))

    def compare(self, left: str, *others: str) -> str:
        return f"({left} {self.pick(*['<', '<=', '>', '>='] * 3, '==', '!=')} {self.pick(*others)})"

    def condition(self) -> str:
        one = self.compare(self.pick(self.place(), self.size()), self.size(), str(self.small()))
        two = self.compare(self.place(), self.size(), self.bound())
        return str(self.pick(one, one, two, f"{one} & {two}", f"({one}) == 0"))

    def refer(self) -> None:
        """One store."""
        pointer = self.pick("x", "y", "z")
        if self.pick(0, 0, 0, 1):
            self.write(f"tl.store({pointer}, 1.0)")
            return
        axes = self.pick(1, 1, 2)
        masks, lanes = [], []
        for axis in range(axes):
            block = self.pick("A", "B", "C")
            at = self.name("at")
            lane = f"tl.arange(0, {block})" + self.pick("", "", "", " * 2")
            place = self.pick(self.place(), f"{self.pick(*self.scalars)} * {block}")
            self.write(f"{at} = {place} {self.pick('+', '+', '+', '-')} {lane}")
            across = "" if axes == 1 else "[:, None]" if axis == 0 else "[None, :]"
            lanes.append(at + across)
            for _ in range(self.pick(0, 1, 1, 2)):
                masks.append(self.compare(at, *SIZES, self.bound()) + across)
        every = " & ".join(masks) or "True"
        if len(masks) < axes and masks:
            every += f" & ({' + '.join(lanes)} * 0 == 0)"
        mask = f", mask={every}" if masks else ""
        call = self.pick("tl.store", "tl.store", "tl.atomic_add")
        self.write(f"{call}({pointer} + {' + '.join(lanes)}, 1.0{mask})")

    def body(self) -> None:
        """Some statements, and one that refers to memory."""
        for _ in range(self.pick(1, 1, 2)):
            self.left -= 1
            if self.left > 0:
                self.pick(self.refer, self.loop, self.loop, self.branch, self.follow)()
        self.refer()

    def follow(self) -> None:
        """A scalar that follows from others."""
        name = self.name("s")
        self.write(f"{name} = {self.pick(self.place(), self.bound())}")
        self.scalars.append(name)

    def inside(self, *names: str) -> None:
        """An indented body, where names are known."""
        kept, carried, self.scalars = (
            self.scalars,
            list(self.carried),
            [*self.scalars, *names, *names],
        )
        self.depth += 1
        self.body()
        if self.carried and self.pick(0, 1):
            c = self.pick(*self.carried)
            self.write(f"{c} = {c} {self.pick('+', '+', '-')} {self.pick('1', '2', 'A', 'B')}")
        self.depth -= 1
        self.scalars, self.carried = kept, carried

    def loop(self) -> None:
        """A loop."""
        if self.loops == 2:
            return
        self.loops += 1
        if self.pick(0, 1):
            c = self.name("c")
            self.write(f"{c} = {self.pick('0', '0', '3', 'A', self.place())}")
            self.carried.append(c)
            self.scalars.append(c)
        low = self.pick("0", "0", "0", "3", self.place(), f"tl.maximum({self.place()}, 0)")
        step = self.pick("1", "A", "B", "C", "C", "3", "W")
        name = self.name("j")
        self.write(f"for {name} in range({low}, {self.bound()}, {step}):")
        self.inside(name)
        self.loops -= 1

    def branch(self) -> None:
        """A condition."""
        self.write(f"if {self.condition()}:")
        self.inside()
        if self.pick(0, 1):
            self.write("else:")
            self.inside()


def draw_kernel(rng: Generator) -> tuple[str, str, dict[str, int]]:
    """The text of a kernel, its grid, and its constants."""
    writer = Writer(rng)
    grid, opening = writer.pick(*GRIDS)
    inner = 1
    for line in opening:
        writer.write(line)
        if line.rstrip().endswith(":"):
            inner = (len(line) - len(line.lstrip())) // 4 + 2
    writer.depth = inner
    writer.scalars = [n for n in "pqr" if re.search(rf"\b{n}\b", " ".join(opening))]
    if writer.depth == 1 and writer.pick(0, 0, 0, 0, 1):
        writer.write(f"if {writer.condition()}:")
        writer.write("    return")
    writer.body()
    constants = ", ".join(f"{n}: tl.constexpr" for n in "ABC")
    head = f"@triton.jit\ndef kernel(x, y, z, N, M, W, {constants}):"
    text = "\n".join(["import triton", "import triton.language as tl", "", head, *writer.lines, ""])
    return text, grid, {n: writer.pick(*BLOCKS) for n in "ABC"}
