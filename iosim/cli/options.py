"""What the commands share: options, problems from typed sizes, and printing."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from iosim.errors import InputError
from iosim.problem import PROBLEMS
from iosim.units import parse_int, parse_words

# Sizes are text here so that a bad one gives one line of ours instead of a page of usage.
Memory = Annotated[
    str | None,
    typer.Option(
        "--M",
        metavar="WORDS|SIZE",
        help="fast memory: words, 1Mi, or bytes like 96KiB with --dtype",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
Dtype = Annotated[
    str | None, typer.Option(help="fp16, bf16, fp32, …: reads M in bytes, and count prints bytes")
]
Algo = Annotated[str, typer.Argument(metavar="ALGO")]
N = Annotated[str | None, typer.Option("--N", metavar="INT", help="sequence length")]
D = Annotated[str | None, typer.Option("--d", metavar="INT", help="head dimension")]
Heads = Annotated[str | None, typer.Option("--heads", metavar="INT", help="batch × heads")]
Mm = Annotated[str | None, typer.Option("--m", metavar="INT", help="rows of C (matmul)")]
Nn = Annotated[str | None, typer.Option("--n", metavar="INT", help="columns of C, or a length")]
Kk = Annotated[str | None, typer.Option("--k", metavar="INT", help="inner size (matmul)")]


def problem_from(kind: str, given: Mapping[str, str | None]) -> Any:
    """A problem of one kind from typed sizes."""
    cls = PROBLEMS[kind]
    need = cls._names()
    sizes = {name: parse_int(name, text) for name, text in given.items() if text is not None}
    for name in sizes:
        if name not in need:
            raise InputError(f"{kind} has no size {name}: give {', '.join('--' + x for x in need)}")
    missing = [x for x in need if x not in sizes and x != "heads"]
    if missing:
        them = "it" if len(missing) == 1 else "them"
        raise InputError(f"{kind} needs {', '.join('--' + x for x in missing)}: give {them}")
    return cls(**sizes)


def words_from(M: str | None, dtype: str | None) -> int:
    """M in words, as typed; it is never optional."""
    if M is None:
        raise InputError("M is missing: give --M in words (24576) or bytes (96KiB with --dtype)")
    return parse_words("M", M, dtype)


def print_json(value: Any) -> None:
    """Print a value for scripts."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def remark(text: str) -> None:
    """Print a note on stderr, if there is one."""
    if text:
        typer.echo(f"iosim: note: {text}", err=True)


def _width() -> int:
    return 0 if sys.stdout.isatty() else 140


def print_table(columns: list[str], rows: list[list[str]]) -> None:
    """Print an aligned table; columns of numbers are aligned to the right."""
    from rich.console import Console
    from rich.table import Table

    out = Table(box=None, pad_edge=False, header_style="bold")
    for k, column in enumerate(columns):
        number = all(not row[k] or row[k][0] in "+-0123456789" for row in rows)
        last = k == len(columns) - 1  # only the last column wraps: no name is broken in two
        out.add_column(
            column, justify="right" if number else "left", overflow="fold", no_wrap=not last
        )
    for row in rows:
        out.add_row(*row)
    console = Console(width=_width() or None, highlight=False)
    with console.capture() as text:
        console.print(out)
    typer.echo("\n".join(line.rstrip() for line in text.get().splitlines()))
