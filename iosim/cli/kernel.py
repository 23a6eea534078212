"""``iosim kernel``: Triton kernels that somebody else wrote."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import click

from iosim.base.errors import InputError
from iosim.base.reading import read_mask
from iosim.cli import options as opt
from iosim.kernel.compiler import read_capability
from iosim.kernel.count import KernelCount, count_kernel
from iosim.kernel.launch import describe_launch
from iosim.kernel.show import COLUMNS, to_lines, to_rows
from iosim.kernel.source import load_kernel

EXAMPLE = (
    'iosim kernel count fused.py::attention --grid "cdiv(N, BLOCK_M), H" --arg N=4096,H=16 '
    '--type "*_ptr=*fp16" --const BLOCK_M=128,BLOCK_N=64'
)


@click.command()
@click.argument("kernel", metavar="FILE::FUNCTION")
@click.option("--grid", required=True, help='programs along each axis, like "cdiv(N, BLOCK), Z*H"')
@click.option("--arg", "arguments", multiple=True, metavar="NAME=NUMBER", help="values of numbers")
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="NAME=TYPE",
    help='types of arguments, like x=*fp16 or "desc_*=*fp16"; *fp32 for pointers, if not given',
)
@click.option(
    "--const",
    "constants",
    multiple=True,
    metavar="NAME=VALUE",
    help="values of tl.constexpr arguments, and num_warps, num_stages",
)
@click.option(
    "--data",
    multiple=True,
    metavar="NAME=FILE.npy",
    help="arrays whose words steer the kernel, like a page table",
)
@click.option(
    "--gpu", help="compile for a GPU, like h100 or sm_90: shared memory, registers, spills"
)
@click.option("--reuse/--no-reuse", default=True, help="count distinct words, too")
@opt.as_json
def count(
    kernel: str,
    grid: str,
    arguments: Sequence[str],
    types: Sequence[str],
    constants: Sequence[str],
    data: Sequence[str],
    gpu: str | None,
    reuse: bool,
    as_json: bool,
) -> None:
    """Count the words that a Triton kernel moves, argument by argument.

    From its TTIR, so no GPU is needed: what a mask or a bound leaves out is left out.
    """
    capability = read_capability(gpu) if gpu else None
    launch = describe_launch(
        load_kernel(kernel),
        grid,
        {name: read_number("--arg", name, text) for name, text in read_pairs("--arg", arguments)},
        dict(read_pairs("--type", types)),
        {name: read_value(text) for name, text in read_pairs("--const", constants)},
        {name: read_mask(file) for name, file in read_pairs("--data", data)},
    )
    answer = count_kernel(launch, capability, reuse)
    for remark in answer.remarks:
        opt.remark(remark)
    if as_json:
        opt.print_json(answer.to_dict())
    else:
        print_count(answer)


def print_count(answer: KernelCount) -> None:
    """The table and the lines below it."""
    x, y, z = answer.grid
    click.echo(
        f"{answer.kernel}: {answer.programs:,} programs, {x:,} x {y:,} x {z:,}; words by its TTIR"
    )
    opt.print_rows(to_rows(answer), COLUMNS)
    for line in to_lines(answer):
        click.echo(line)


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
                raise InputError(f"{option} {part!r} is no NAME=VALUE")
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
    raise InputError(f"{option} {name}={text} is no number")


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
