"""Launches of Triton kernels as typed: the options of every command that takes one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from iosim.base.errors import InputError
from iosim.base.reading import read_mask
from iosim.base.rows import Values
from iosim.kernel.launch import KernelCall, describe_launch
from iosim.kernel.source import KernelSource, load_kernel

F = TypeVar("F", bound=Callable[..., Any])

_LAUNCH = (
    click.option(
        "--arg",
        "arguments",
        multiple=True,
        metavar="NAME=NUMBER",
        help="numeric arguments",
    ),
    click.option(
        "--type",
        "types",
        multiple=True,
        metavar="NAME=TYPE",
        help='types of arguments, like x=*fp16 or "desc_*=*fp16"; pointers to fp32 by default',
    ),
    click.option(
        "--const",
        "constants",
        multiple=True,
        metavar="NAME=VALUE",
        help="values of tl.constexpr arguments, and num_warps, num_stages",
    ),
    click.option(
        "--data",
        multiple=True,
        metavar="NAME=FILE.npy",
        help="arrays whose words steer the kernel, like a page table",
    ),
    click.option(
        "--desc",
        "descriptors",
        multiple=True,
        metavar="NAME=SHAPE:STRIDES",
        help='tensors that come as descriptors, like "x=[M,K]" or "x=[M,K]:[K,1]"',
    ),
)


def launch_options(required: bool) -> Callable[[F], F]:
    """The options of a launch: its grid, arguments, types, constants and tensors.

    Args:
        required: whether a grid has to be given.
    """
    grid = click.option(
        "--grid", required=required, help='programs along each axis, like "cdiv(N, BLOCK), Z*H"'
    )

    def decorate(command: F) -> F:
        for one in reversed((grid, *_LAUNCH)):
            command = one(command)
        return command

    return decorate


def read_launch(
    source: KernelSource,
    grid: str,
    arguments: Sequence[str],
    types: Sequence[str],
    constants: Sequence[str],
    data: Sequence[str],
    descriptors: Sequence[str],
) -> Callable[..., KernelCall]:
    """A launch as typed, as a function of constants, and of sizes, that are not."""
    numbers = {n: read_number("--arg", n, text) for n, text in read_pairs("--arg", arguments)}
    kinds = dict(read_pairs("--type", types))
    own = {name: read_value(text) for name, text in read_pairs("--const", constants)}
    arrays = {name: read_mask(file, "an array") for name, file in read_pairs("--data", data)}
    tensors = dict(read_pairs("--desc", descriptors))

    def describe(more: Values, sizes: Mapping[str, int] | None = None) -> KernelCall:
        every = {**numbers, **(sizes or {})}
        return describe_launch(source, grid, every, kinds, {**own, **more}, arrays, tensors)

    return describe


def read_optional_launch(
    what: str, kernel: str | None, given: Mapping[str, Any]
) -> KernelCall | None:
    """The launch of a command that needs none.

    Args:
        what: how the command takes a kernel, like ``--expect FILE::FUNCTION``.
        kernel: FILE::FUNCTION, or None.
        given: the options of `launch_options`.

    Raises:
        InputError: options without a kernel, or a kernel without its grid.
    """
    if kernel is None:
        for one in click.get_current_context().command.params:
            if given.get(str(one.name)):
                raise InputError(f"{one.opts[0]} needs a kernel: give {what}")
        return None
    if given["grid"] is None:
        raise InputError(f'{what} needs --grid, like --grid "cdiv(N, BLOCK), 8"')
    return read_launch(load_kernel(kernel), **given)({})


def read_pairs(option: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """``A=1,B=2`` as pairs, also of several options.

    Raises:
        InputError: a part without ``=``.

    >>> read_pairs("--arg", ["A=1,B=2", "C=3"])
    [('A', '1'), ('B', '2'), ('C', '3')]
    >>> read_pairs("--type", ["d=tensordesc<fp16[64,32]>"])
    [('d', 'tensordesc<fp16[64,32]>')]
    """
    out = []
    for text in texts:
        for part in _split(text):
            name, separator, value = part.partition("=")
            if not separator or not name.strip() or not value.strip():
                raise InputError(f"{option} {part!r} isn't NAME=VALUE")
            out.append((name.strip(), value.strip()))
    return out


def _split(text: str) -> list[str]:
    """The parts between commas outside of brackets; a comma before no ``=`` is part of a value."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([<{") - (c in ")]>}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def read_number(option: str, name: str, text: str) -> int | float | bool:
    """An integer, a floating-point number, True or False.

    Raises:
        InputError: neither.
    """
    value = read_value(text)
    if isinstance(value, (int, float)):
        return value
    raise InputError(f"{option} {name}={text} isn't a number")


def read_value(text: str) -> Any:
    """A Python literal, or the text itself.

    >>> [read_value(x) for x in ("128", "True", "2**16", "fp16")]
    [128, True, 65536, 'fp16']
    """
    base, power, exponent = text.partition("**")
    if power and base.isdigit() and exponent.isdigit() and len(exponent) < 4:
        return int(base) ** int(exponent)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
