"""``iosim kernel``: Triton kernels that somebody else wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from iosim.base.errors import InputError
from iosim.cache import CacheFamily, count_words
from iosim.cli import options as opt
from iosim.cli.caching import policy
from iosim.cli.launching import launch_options, read_launch, read_pairs, read_value
from iosim.core.units import parse_range, parse_words
from iosim.kernel.closing import NoClosedForm
from iosim.kernel.compiler import CAPABILITIES, read_capability
from iosim.kernel.configs import rank_configs, vary_constants
from iosim.kernel.count import KernelCount, count_kernel, lower_call
from iosim.kernel.distance import measure_distance
from iosim.kernel.expression import calculate
from iosim.kernel.formula import derive_formula
from iosim.kernel.launch import KernelCall
from iosim.kernel.roles import find_roles
from iosim.kernel.show import COLUMNS, CROSSING, to_config_lines, to_config_table, to_lines, to_rows
from iosim.kernel.source import load_kernel
from iosim.kernel.stream import to_stream
from iosim.kernel.sweep import split_varied, sweep_kernel
from iosim.models.hardware import MACHINES, Hardware
from iosim.report.plot import figure_name, save_styled
from iosim.report.table import write_csv

F = TypeVar("F", bound=Callable[..., Any])


def _launch_options(command: F) -> F:
    """The kernel, the options of its launch, and the GPU."""
    says = "compile for a GPU, like h100 or sm_90, and print shared memory, registers and spills"
    decorated = launch_options(required=True)(click.option("--gpu", help=says)(command))
    return click.argument("kernel", metavar="FILE::FUNCTION")(decorated)


def _vary(**more: Any) -> Callable[[F], F]:
    """The option of what varies."""
    text = "values to compare, like BLOCK=64,128 or N=1024:65536:x2; several give all combinations"
    return click.option(
        "--vary", "varied", multiple=True, metavar="NAME=VALUE,…", help=text, **more
    )


@click.command()
@_launch_options
@click.option("--reuse/--no-reuse", default=True, help="count distinct words, too")
@click.option(
    "--solves",
    metavar="SIZE=EXPRESSION,…",
    help="sizes of the problem that the kernel solves, like N=N_CTX,d=HEAD_DIM,heads=Z*H,causal=1: "
    "compare with a lower bound and with the nearest schedule",
)
@click.option(
    "--roles",
    metavar="TENSOR=ARGUMENT,…",
    help="which argument is Q, K, V, O, or A, B, C; by default as the products say",
)
@click.option("--formulas", is_flag=True, help="print words as formulas of the arguments, too")
@opt.as_json
def count(
    kernel: str,
    gpu: str | None,
    reuse: bool,
    formulas: bool,
    solves: str | None,
    roles: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Count the words that a Triton kernel moves, argument by argument.

    From its TTIR, so no GPU is needed. Words that a mask or a bound hides are not counted.
    """
    capability = read_capability(gpu) if gpu else None
    launch = read_launch(load_kernel(kernel), **given)
    call = launch({})
    answer = count_kernel(call, capability, reuse)
    for remark in answer.remarks:
        opt.remark(remark)
    far = None
    if solves is not None:
        far = measure_distance(answer, read_roles(roles, call), read_sizes(solves, call))
    elif roles is not None:
        raise InputError("--roles needs sizes: give --solves, like --solves N=4096,d=64,heads=16")
    words = list_formulas(answer, call, capability) if formulas else []
    if as_json:
        more: dict[str, Any] = {"distance": far.to_dict()} if far else {}
        if formulas:
            more["formulas"] = [{"reference": k, "argument": n, "words": x} for k, n, x in words]
        opt.print_json(answer.to_dict() | more)
        return
    print_count(answer)
    for kind, name, text in words:
        click.echo(f"{kind} {name}: {text} words")
    for line in far.to_lines() if far else ():
        click.echo(line)


@click.command()
@_launch_options
@_vary()
@opt.machine(
    "forecast the bytes between its L2 and DRAM, too; compiles for it, or for --gpu", old=()
)
@opt.drift
@opt.save("a figure of bytes against what a program takes; a name without a suffix")
@opt.as_json
def tiles(
    kernel: str,
    gpu: str | None,
    varied: Sequence[str],
    machine: Hardware | None,
    drift: int | None,
    seed: int,
    save: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare the constants of a Triton kernel: the fewest bytes first.

    The choices are its own autotune list, or those that --vary gives. With --gpu, each is compiled,
    to say whether it fits and how many programs an SM has at once.
    """
    source = load_kernel(kernel)
    choices = vary_constants(source, read_varied(varied))
    forecast = machine is not None
    if drift is not None and not forecast:
        raise InputError("--drift needs a forecast at L2↔DRAM: give --machine, like --machine h200")
    if machine is not None and gpu is None:
        gpu = machine.name
        if gpu not in CAPABILITIES:
            raise InputError(f"which GPU {gpu} is isn't known: give --gpu as well, like sm_90")
    capability = read_capability(gpu) if gpu else None
    machine = machine or MACHINES.get((gpu or "").lower())
    describe = read_launch(source, **given)
    configs = rank_configs(choices, describe, machine, capability, forecast, drift, seed)
    table = to_config_table(configs)
    made = [] if save is None else save_styled(table.plot(), figure_name(save))
    if as_json:
        opt.print_json([config.to_dict() for config in configs])
        return
    opt.print_rows(table.rows)
    for line in to_config_lines(configs, opt.format_drift(drift, seed)):
        click.echo(line)
    for path in made:
        click.echo(f"wrote {path}")


def list_formulas(
    answer: KernelCount, call: KernelCall, capability: int | None
) -> list[tuple[str, str, str]]:
    """Reference, argument and formula; none, with the reason, for a kernel that has no formulas.

    Raises:
        AssertionError: a formula differs from the count by evaluation.
    """
    try:
        found = derive_formula(call, capability)
    except NoClosedForm as error:
        opt.remark(f"no formulas, only this count: {error}")
        return []
    words = found.count_many({name: call.values[name] for name in found.sizes})
    for (kind, name), n in words.items():
        counted = answer.words(kind).get(name, 0)
        assert int(n) == counted, f"the formula of {kind} {name} is {n} words, not {counted}"
    return [(kind, name, str(x)) for (kind, name), x in found.words().items()]


@click.command()
@_launch_options
@_vary(required=True)
@opt.path("--csv", "also write the rows as CSV", type=opt.FILE)
@opt.as_json
def sweep(
    kernel: str,
    gpu: str | None,
    varied: Sequence[str],
    csv: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Count the words of a Triton kernel at many sizes and with many constants.

    With its formulas, if it has them: a million sizes take about a second.
    """
    source = load_kernel(kernel)
    lattice = read_varied(varied, ranges=True)
    sizes, constants = split_varied(lattice, source.constants, source.arguments)
    describe = read_launch(source, **given)
    found = sweep_kernel(lambda n, c: describe(c, n), sizes, constants)
    for line in found.remarks:
        opt.remark(line)
    if csv is not None:
        write_csv(csv, found.table.rows)
    if as_json:
        opt.print_json(list(found.table.rows))
        return
    opt.print_rows(found.table.rows)


def read_roles(text: str | None, call: KernelCall) -> dict[str, str]:
    """``Q=q_ptr,…``, or roles as the products of the kernel say."""
    if text is not None:
        return dict(read_pairs("--roles", [text]))
    functions = lower_call(call)
    roles = find_roles(next(f for f in functions.values() if f.public))
    opt.remark("roles: " + ", ".join(f"{k} is {v}" for k, v in roles.items()))
    return roles


def read_sizes(text: str, call: KernelCall) -> dict[str, Any]:
    """``N=N_CTX,heads=Z*H`` as sizes of a problem."""
    names = {**call.values, **call.constants}
    pairs = read_pairs("--solves", [text])
    sizes = {k: calculate("--solves", v, names)[0] for k, v in pairs}
    return {k: bool(v) if k == "causal" else v for k, v in sizes.items()}


def read_varied(texts: Sequence[str], ranges: bool = False) -> dict[str, list[Any]]:
    """What varies, by name; see `read_values`.

    Raises:
        InputError: a name twice.

    >>> read_varied(["BLOCK=64,128", "GROUP=1"])
    {'BLOCK': [64, 128], 'GROUP': [1]}
    """
    found: dict[str, list[Any]] = {}
    for name, values in (read_values(x, ranges) for x in texts):
        if name in found:
            raise InputError(f"--vary {name} is given twice: give all of its values in one")
        found[name] = values
    return found


def read_values(text: str, ranges: bool = False) -> tuple[str, list[Any]]:
    """``NAME=1,2,3`` as a name and its values.

    Args:
        ranges: whether ranges, such as 64:1024:x2, are taken.

    Raises:
        InputError: without a name or a value.

    >>> read_values("BLOCK=64,128")
    ('BLOCK', [64, 128])
    >>> read_values("N=64:256:x2", ranges=True)
    ('N', [64, 128, 256])
    """
    name, _, values = text.partition("=")
    if not name.strip() or not values.strip():
        raise InputError(f"--vary {text!r} isn't NAME=VALUE,VALUE")
    if ranges and ":" in values:
        return name.strip(), parse_range(name.strip(), values)
    return name.strip(), [read_value(x.strip()) for x in values.split(",")]


def print_count(answer: KernelCount) -> None:
    """The table and the lines below it."""
    x, y, z = answer.grid
    click.echo(
        f"{answer.kernel}: {answer.programs:,} program{'s' * (answer.programs > 1)}, "
        f"{x:,} x {y:,} x {z:,}; words by its {answer.ir}"
    )
    opt.print_rows(to_rows(answer), COLUMNS + CROSSING * bool(answer.crossing))
    for line in to_lines(answer):
        click.echo(line)


@click.command()
@_launch_options
@click.option(
    "--bytes",
    "capacity",
    metavar="BYTES,…",
    help="bytes that the cache holds: 50MiB, or several; by default those of --machine",
)
@opt.machine("the cache that its cores share", old=())
@click.option("--line-bytes", "line", default="32", metavar="BYTES", help="bytes in a line")
@policy
@click.option(
    "--resident", type=opt.Integer(1), default=1, help="programs that run at once, in lockstep"
)
@opt.as_json
def cache(
    kernel: str,
    gpu: str | None,
    capacity: str | None,
    machine: Hardware | None,
    line: str,
    policy: str,
    resident: int,
    as_json: bool,
    **given: Any,
) -> None:
    """Replay a Triton kernel's references through a cache that its programs share.

    Programs start in the order of their numbers; those that are resident run in lockstep, which is
    a model of time. Bytes are between the cache and what is behind it.
    """
    if (capacity is None) == (machine is None):
        raise InputError("give --bytes, like --bytes 50MiB, or --machine, like --machine h200")
    if machine is not None and machine.cache_bytes is None:
        raise InputError(machine.lacks("cache_bytes"))
    capacity = capacity or str(machine and machine.cache_bytes)
    launch = read_launch(load_kernel(kernel), **given)({})
    functions = lower_call(launch, read_capability(gpu) if gpu else None)
    size = read_bytes("--line-bytes", line)
    stream = to_stream(functions, launch.to_evaluate(), resident, size)
    capacities = [read_bytes("--bytes", text) // size for text in capacity.split(",")]
    if min(capacities) < 1:
        raise InputError(f"--bytes {capacity}: a cache holds at least one line of {size:,} bytes")
    found = count_words(stream, CacheFamily(capacities=capacities, policy=policy))
    rows = [
        {
            "capacity": capacities[i] * size,
            "accesses": found.accesses * size,
            "reads": found.loads[i] * size,
            "writes": found.write_backs[i] * size if found.write_backs else None,
            "flush": found.flush[i] * size if found.flush else None,
        }
        for i in range(len(capacities))
    ]
    if as_json:
        opt.print_json({"kernel": launch.source.name, "line": size, "rows": rows})
        return
    click.echo(
        f"{launch.source.name}: {resident:,} program{'s' * (resident > 1)} at once, "
        f"lines of {size:,} bytes, policy {policy}; bytes"
    )
    opt.print_rows(rows)


def read_bytes(option: str, text: str) -> int:
    """A number of bytes, like 50MiB.

    Raises:
        InputError: no such number.

    >>> read_bytes("--capacity", "50MiB")
    52428800
    """
    return parse_words(option.lstrip("-"), text, "int8")
