"""What the commands share: options, problems from typed sizes, and printing."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from iosim.errors import InputError
from iosim.problem import PROBLEMS
from iosim.units import parse_int, parse_words

F = TypeVar("F", bound=Callable[..., Any])
Sizes = Mapping[str, str]

# The sizes of all problems: name → help.  Sizes are text so that a bad one is one line of ours.
SIZES = {
    "N": "sequence length",
    "d": "head dimension",
    "heads": "batch × heads",
    "m": "rows of C (matmul)",
    "n": "columns of C, or a length",
    "k": "inner size (matmul)",
}


def sizes(*names: str, metavar: str = "INT", **other: str) -> Callable[[F], F]:
    """Options for these sizes, or for all; the command gets those that are given as ``sizes``.

    May be applied several times, with another help or metavar.

    Args:
        other: help that is not that of `SIZES`, by name.
    """
    chosen = names or tuple(SIZES)

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def call(**given: Any) -> None:
            typed = {name: given.pop(name) for name in chosen}
            found = {name: text for name, text in typed.items() if text is not None}
            command(sizes={**given.pop("sizes", {}), **found}, **given)

        decorated: Any = call
        for name in reversed(chosen):
            said = other.get(name, SIZES[name])
            decorated = click.option(f"--{name}", name, metavar=metavar, help=said)(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def memory(
    help: str = "fast memory: words, 1Mi, or bytes like 96KiB with --dtype",
    metavar: str = "WORDS|SIZE",
    default: str | None = None,
) -> Callable[[F], F]:
    """``--M``."""
    return click.option("--M", "M", metavar=metavar, help=help, default=default)


def path(name: str, help: str, **attributes: Any) -> Callable[[F], F]:
    """An option that is a path."""
    return click.option(name, type=click.Path(path_type=Path), help=help, **attributes)


def workers(help: str) -> Callable[[F], F]:
    """``--workers``, 0 by default."""
    return click.option("--workers", type=click.IntRange(min=0), default=0, help=help)


algo = click.argument("algo")
dtype = click.option(
    "--dtype", help="fp16, bf16, fp32, …: reads M in bytes, and count prints bytes"
)
as_json = click.option("--json", "as_json", is_flag=True, help="print JSON")


def problem_from(kind: str, given: Sizes) -> Any:
    """A problem of one kind from typed sizes."""
    cls = PROBLEMS[kind]
    need = cls._names()
    numbers = {name: parse_int(name, text) for name, text in given.items()}
    for name in numbers:
        if name not in need:
            raise InputError(f"{kind} has no size {name}: give {', '.join('--' + x for x in need)}")
    missing = [x for x in need if x not in numbers and x != "heads"]
    if missing:
        them = "it" if len(missing) == 1 else "them"
        raise InputError(f"{kind} needs {', '.join('--' + x for x in missing)}: give {them}")
    return cls(**numbers)


def words_from(M: str | None, dtype: str | None) -> int:
    """M in words, as typed; it is never optional."""
    if M is None:
        raise InputError("M is missing: give --M in words (24576) or bytes (96KiB with --dtype)")
    return parse_words("M", M, dtype)


def print_json(value: Any) -> None:
    """Print a value for scripts."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def remark(text: str) -> None:
    """Print a note on stderr, if there is one."""
    if text:
        click.echo(f"iosim: note: {text}", err=True)


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
    click.echo("\n".join(line.rstrip() for line in text.get().splitlines()))
