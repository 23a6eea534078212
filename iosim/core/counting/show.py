"""The pseudo-code printer: a program as a person would write it, with what each line moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from iosim.base.errors import InputError
from iosim.core.counting.closed import moved
from iosim.core.counting.integers import OnInts
from iosim.core.counting.legend import legend
from iosim.core.program.index import Indices, Single, Tile, dims, unstacked
from iosim.core.program.ir import Alloc, Body, Free, Load, Loop, Op, Program, Store
from iosim.core.program.ops import OPS
from iosim.core.program.walk import Instance, check_instance

# Of an operation's mathematics, what is shorter is next to it.
SHORT = 16
# Characters of code, next to which notes are aligned.
WIDEST = 58


def show(program: Program, instance: Instance | None = None) -> str:
    """Print a program; with an instance, also the words that each transfer moves in all.

    The note of each load and store says what one execution moves (``|i|`` is the extent of tile i),
    then what all its executions move together.  A legend explains notation that only some
    schedules have.  Raises InputError for what is not a program.

    >>> from iosim import algorithm
    >>> print(show(algorithm("copy").program), end="")
    copy(n; B)
      grid i in n by B:
        load  x ← X[i]  # |i| words, in all n
        store Y[i] ← x  # |i| words, in all n
        free  x
    """
    if not isinstance(program, Program):
        raise InputError(
            f"show takes a program, got {type(program).__name__}: give it first, as in "
            "show(program, instance)"
        )
    if instance is not None:
        check_instance("show", instance)
    lines = list(listing(program, instance))
    if instance is not None:
        sizes = ", ".join(f"{name} = {value:,}" for name, value in instance.values)
        lines.insert(1, (f"  with {sizes}", ""))
    text = in_columns(lines)
    if signs := legend(program, text):
        wide = max(len(sign) for sign, _ in signs)
        text += "notation\n" + "".join(f"  {sign:<{wide}}  {meaning}\n" for sign, meaning in signs)
    return text


def in_columns(lines: Sequence[tuple[str, str]]) -> str:
    """Lines of a listing as text: code, and next to it the notes, at least two spaces after it.

    The notes of longer code than `WIDEST` are not aligned.

    >>> in_columns([("free x", "# 4 words"), ("done", "")])
    'free x  # 4 words\\ndone\\n'
    """
    width = min(max((len(code) for code, note in lines if note), default=0), WIDEST)
    return "\n".join(f"{code:<{width}}  {note}".rstrip() for code, note in lines) + "\n"


def listing(program: Program, instance: Instance | None = None) -> Iterator[tuple[str, str]]:
    """The lines of `show`, each with its note: the program's own, then one for each node.

    >>> from iosim import algorithm
    >>> for code, note in listing(algorithm("copy").program):
    ...     print(f"{code:<20} {note}".rstrip())
    copy(n; B)
      grid i in n by B:
        load  x ← X[i]   # |i| words, in all n
        store Y[i] ← x   # |i| words, in all n
        free  x
    """
    params = ", ".join(p.name for p in program.params)
    axes = dict.fromkeys(axis for t in program.tensors for axis in t.axes)
    yield f"{program.name}({', '.join(axes)}; {params})", ""
    yield from _lines(program.body, 1, (), None if instance is None else instance.env)


def _lines(
    body: Body, depth: int, outer: tuple[Loop, ...], env: Mapping[str, int] | None
) -> Iterator[tuple[str, str]]:
    pad = "  " * depth
    for node in body:
        match node:
            case Loop():
                kind = "grid" if node.parallel else "for"
                over = (
                    node.span.axis if node.span.is_entire_axis else f"{node.span.axis}[{node.span}]"
                )
                step = "" if node.step is None else f" by {node.step}"
                marks = (
                    f" where {node.marks.name}[{node.marks.rows}, {node.tile}]"
                    if node.marks
                    else ""
                )
                yield f"{pad}{kind} {node.tile} in {over}{step}{marks}:", ""
                yield from _lines(node.body, depth + 1, (*outer, node), env)
            case Load():
                code = f"{pad}load  {node.buffer} ← {node.tensor}[{_list(node.index)}]"
                yield code, _moved(node, outer, env)
            case Store():
                code = f"{pad}store {node.tensor}[{_list(node.index)}] ← {node.buffer}"
                yield code, _moved(node, outer, env)
            case Alloc():
                yield f"{pad}alloc {node.buffer}[{_list(node.index)}]", ""
            case Free():
                yield f"{pad}free  {node.buffer}", ""
            case Op():
                yield f"{pad}{_op(node)}", ""
            case _:
                assert_never(node)


def _op(node: Op) -> str:
    spec = OPS[node.name]
    beside = spec.brief or (spec.says if len(spec.says) < SHORT else "")
    operands = ", ".join(map(str, node.operands))
    values = zip(spec.scalars, node.scalars, strict=True)
    operands += "".join(f", {x} = {v}" for x, v in values)
    return f"{node.name}({operands})" + (f"  ▷ {beside}" if beside else "")


def _list(index: Indices) -> str:
    return ", ".join(map(str, index))


def _moved(node: Load | Store, outer: tuple[Loop, ...], env: Mapping[str, int] | None) -> str:
    """What one execution moves, and all of them."""
    one = "·".join(map(_one, unstacked(dims(node.index))))
    total = moved(node, outer)
    every = str(total) if env is None else f"{int(total.evaluate(OnInts(env))):,}"
    return f"# {f'{one} words' if one else '1 word'}, in all {every}"


def _one(x: Single) -> str:
    """The extent of one index."""
    if isinstance(x, Tile) or x.edges:
        return f"|{x}|"
    return f"({x.length})" if " " in str(x.length) else str(x.length)
