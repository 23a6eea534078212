"""What the commands share: options, problems from typed sizes, and printing."""

from __future__ import annotations

import functools
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar, assert_never

import click

from iosim.base.cells import cell, printable
from iosim.base.errors import InputError, closest
from iosim.base.reading import read_mask
from iosim.base.rows import Values
from iosim.base.validate import LARGEST_SIZE
from iosim.cli.layout import layout
from iosim.cli.renames import option
from iosim.cli.terminal import note
from iosim.core.algorithms import ALGORITHMS
from iosim.core.algorithms import named as algorithm_named
from iosim.core.problem import (
    MODELS,
    PROBLEMS,
    MarkedTiles,
    Option,
    every_axis,
    every_option,
    size_names,
)
from iosim.core.problem.scores import MaskedScores
from iosim.core.units import (
    parse_int,
    parse_option,
    parse_range,
    parse_real,
    parse_tiles,
    parse_words,
    tiles_like,
    typed_option,
)
from iosim.models.layers.models import attention_of, config

F = TypeVar("F", bound=Callable[..., Any])
Sizes = Mapping[str, str]

# The most processes that ``--workers`` takes; more are treated as a typing error.
MOST_WORKERS = 1024
# The width of a table where the output is not a terminal.
WIDTH = 140

# Problems with the sizes and options of attention.
ATTENTIONS = tuple(kind for kind, cls in PROBLEMS.items() if issubclass(cls, MaskedScores))
# The sizes of all problems: name → help.  Sizes are text, so that iosim itself refuses bad ones.
SIZES = {name: axis.says for name, axis in every_axis().items()}
SIZES["batch"] += "; without pages, they multiply the heads"
# What may be varied and left out, by name; where a problem has an axis of that name, it is a size.
OPTIONS = {name: one for name, one in every_option().items() if name not in SIZES}
# Sizes whose own name is an option of another meaning.
_SPELT = {"out": "--out-width"}


def sizes(*names: str, metavar: str = "INT", **other: str) -> Callable[[F], F]:
    """Options for these sizes, or for all sizes and all options of problems.

    The command gets those that are given as ``sizes``.  May be applied several times, with another
    help or metavar.

    Args:
        other: help that is not that of `SIZES`, by name.
    """
    chosen = {
        name: _sized(name, metavar, other.get(name) or SIZES[name]) for name in names or SIZES
    }
    if not names:
        chosen |= {name: _option(one, metavar) for name, one in OPTIONS.items()}
    return _gathering(chosen)


def problem_options(kind: str) -> Callable[[F], F]:
    """What problems of a kind may have, ``sizes`` too, for a command that names sizes itself."""
    return _gathering({o.name: _option(o) for o in PROBLEMS[kind].options()})


def spelt(name: str) -> tuple[str, ...]:
    """How the option of a size is written, ``--N-k``, and how it was written before."""
    now = _SPELT.get(name, f"--{name.replace('_', '-')}")
    return tuple(dict.fromkeys((now, f"--{name}")))


def _sized(name: str, metavar: str, says: str) -> Callable[[F], F]:
    now, *old = spelt(name)
    return option(now, name, old=old, metavar=metavar, help=says)


def _option(one: Option, metavar: str = "INT") -> Callable[[F], F]:
    """What is typed for an option of a problem."""
    first = spelt(one.name)[0]
    match one.kind:
        case "size" | "count":
            return _sized(one.name, metavar, one.says)
        case "flag":
            both = f"{first}/{first.replace('--', '--no-', 1)}"
            return click.option(both, one.name, default=None, help=one.says)
        case "limits":
            return _sized(one.name, "LEFT,RIGHT", f"{one.says}; empty for no limit")
        case "choice":
            words = "|".join(word.replace(" ", "-") for word in one.choices)
            return _sized(one.name, words, one.says)
        case _:
            assert_never(one.kind)


def _gathering(chosen: Mapping[str, Callable[[Any], Any]]) -> Callable[[F], F]:
    """A decorator that adds options and hands those that are given on in ``sizes``, as text."""

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def call(**given: Any) -> None:
            typed = {name: given.pop(name) for name in chosen}
            found = {name: value for name, value in typed.items() if value is not None}
            found |= {name: str(x).lower() for name, x in found.items() if isinstance(x, bool)}
            command(sizes={**given.pop("sizes", {}), **found}, **given)

        decorated: Any = call
        for add in reversed(list(chosen.values())):
            decorated = add(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def model_option(help: str) -> Callable[[F], F]:
    """``--model``."""
    return click.option("--model", metavar="NAME|FILE", help=f"model: {help}")


model = model_option(f"sizes and options of {', '.join(MODELS)}, a .toml or .json")

mask = click.option(
    "--mask", help="a block mask as a file of NumPy: blocks=FILE.npy, a boolean for each tile"
)


def masks(text: str | None) -> dict[str, Any]:
    """Block masks as typed, ``name=FILE``.  Raises InputError for a file that holds none."""
    if text is None:
        return {}
    name, _, path = text.partition("=")
    if not (name and path):
        raise InputError(f"--mask {text!r} names no file: give --mask blocks=FILE.npy")
    return {name: read_mask(path)}


def marked_tiles(mask: str | None, tiles: str | None) -> MarkedTiles | None:
    """The block mask of an attention operator as typed, with its tiles; None if there is none."""
    if mask is None:
        if tiles is not None:
            raise InputError("--tiles are those of a block mask: give --mask blocks=FILE.npy too")
        return None
    names = ("B_r", "B_c")
    sizes = {} if tiles is None else parse_tiles(tiles, names)
    if set(sizes) != {*names}:
        raise InputError(
            f"the tiles of a block mask are {' and '.join(names)}: {tiles_like(names)}"
        )
    ((name, marks),) = masks(mask).items()
    if name != "blocks":
        raise InputError(f"attention has no block mask {name!r}: {closest(name, ['blocks'])}")
    return MarkedTiles.of(marks, **sizes)


def format_blocks(blocks: MarkedTiles | None) -> str:
    """Of a title: the block mask, where there is one."""
    return "" if blocks is None else f", a block mask with {blocks}"


def least_words(name: str, words: Mapping[str, int]) -> str:
    """What to say of a kernel's lower bounds, by boundary."""
    at = " and ".join(f"{n:,} words at {boundary}" for boundary, n in words.items())
    return f"{name}: a schedule that makes each score once moves at least {at}"


def memory(
    help: str = "words, 1Mi, or bytes like 96KiB with --dtype",
    metavar: str = "WORDS|SIZE",
    default: str | None = None,
) -> Callable[[F], F]:
    """``--M``."""
    return click.option(
        "--M",
        "M",
        metavar=metavar,
        help=f"fast memory: {help}",
        default=default,
        callback=_refuse_machine,
    )


def _refuse_machine(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """The text of ``--M``.  Raises InputError for the name of a machine, and says what to give."""
    if not (text and text[0].isalpha()):
        return text
    from iosim.models.hardware import MACHINES

    if (found := MACHINES.get(text.lower())) is None:
        return text
    if any("--machine" in other.opts for other in ctx.command.params):
        instead = f"give --machine {found.name} in place of --M"
    else:
        held = f"--M {found.sm_words('fp16')}, one core's words of fp16"
        instead = f"give {held} (iosim machines {found.name} lists all memories)"
    raise InputError(f"M = {text!r} is a machine, not a size: {instead}")


def tile_sizes(help: str, default: str | None = None) -> Callable[[F], F]:
    """``--tiles``."""
    return click.option("--tiles", help=f"tile sizes: {help}", default=default)


mask_tiles = tile_sizes("of --mask, rows and keys, like B_r=64,B_c=64")


def schedule(help: str, metavar: str = "SCHEDULE", old: Sequence[str] = ()) -> Callable[[F], F]:
    """``--schedule``, one or several."""
    return option("--schedule", old=old, metavar=metavar, type=SCHEDULE, help=f"schedule: {help}")


class _AnyPath(click.ParamType[Path]):
    """A path that is not empty; files and directories are checked by who uses them."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not os.fspath(value):
            name = param.opts[0] if param else "path"
            what = name if name.startswith("-") else f"the name of the {name}"
            raise InputError(f"{what} is empty: name one")
        try:
            os.fspath(value).encode()
        except UnicodeEncodeError:  # Arrow and DuckDB take no other names
            raise InputError(f"{os.fspath(value)!r} is not UTF-8 text: use another name") from None
        return Path(value)


class _File(_AnyPath):
    """The path of a file to be written, checked before anything else is done."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        from iosim.base.writing import target

        found = super().convert(value, param, ctx)
        return target(os.fspath(value) if str(value).endswith(os.sep) else found)


PATH, FILE = _AnyPath(), _File()


class Integer(click.ParamType[int]):
    """A whole number as `iosim.core.units.parse_int` reads it, from `least` to `most`."""

    name = "INT"

    def __init__(self, least: int = 1, most: int = LARGEST_SIZE) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of a text."""
        if not isinstance(value, str):
            return int(value)
        name = param.opts[0].lstrip("-").replace("-", "_") if param else ""
        return parse_int(name, value, self.least, self.most)


class Real(click.ParamType[float]):
    """A number as `iosim.core.units.parse_real` reads it.

    Args:
        asks, holds: what it has to be, as the message says it, and whether it is that.
    """

    name = "NUMBER"

    def __init__(self, asks: str, holds: Callable[[float], bool]) -> None:
        self.asks, self.holds = asks, holds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number of a text."""
        if not isinstance(value, str):
            return value
        return parse_real(param.opts[0] if param else "", value, self.asks, self.holds)


# Of a time that may be none at all.
MICROSECONDS = Real("a finite number of µs, 0 or more", lambda x: 0 <= x < math.inf)


class _Graph(_AnyPath):
    """A graph with its groups, from a file in TOML or JSON: `iosim.models.layers.files.Written`."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from iosim.models.layers.files import load

        return load(super().convert(value, param, ctx)) if isinstance(value, str) else value


GRAPH = _Graph()


class _Machine(click.ParamType[Any]):
    """A registered machine, or the user's from a TOML file."""

    name = "NAME|FILE.toml"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from iosim.models.hardware import machine as find_machine

        return find_machine(value) if isinstance(value, str) else value


MACHINE = _Machine()


def machine(
    help: str = "a name of `iosim machines`, or a TOML file that describes one",
    old: Sequence[str] = ("--gpu",),
) -> Callable[[F], F]:
    """``--machine``; the command gets a `Hardware`, or None where nothing is typed."""
    return option("--machine", old=old, type=MACHINE, metavar=MACHINE.name, help=f"machine: {help}")


def drift(command: F) -> F:
    """``--drift`` and ``--seed``; the command gets per mille or None, and a number."""
    seed = click.option("--seed", type=Integer(0, 2**32 - 1), default=0, help="seed: of the drift")(
        command
    )
    return click.option(
        "--drift",
        type=Integer(0),
        metavar="PER_MILLE",
        help="most by which programs differ in speed, 0 to 1000; by default without limit",
    )(seed)


def format_drift(per_mille: int | None, seed: int) -> str:
    """Which drift a range is of.

    >>> format_drift(None, 0), format_drift(15, 3)
    ('if programs drift', 'if programs drift by 15 ‰, seed 3')
    """
    return "if programs drift" + ("" if per_mille is None else f" by {per_mille} ‰, seed {seed}")


def graph(
    help: str = "a graph of your own: a file in TOML or JSON", **attributes: Any
) -> Callable[[F], F]:
    """``--graph``; the command gets a `Written` as ``graph``, or None where nothing is typed."""
    return click.option("--graph", type=GRAPH, metavar=GRAPH.name, help=help, **attributes)


def path(name: str, help: str, **attributes: Any) -> Callable[[F], F]:
    """An option that is the path of a file."""
    chosen: dict[str, Any] = {"type": PATH, "metavar": "FILE", "help": help} | attributes
    return option(name, **chosen)


def out(help: str, **attributes: Any) -> Callable[[F], F]:
    """``--out``, a folder."""
    return path("--out", f"folder to write: {help}", metavar="DIR", **attributes)


def save(help: str, **attributes: Any) -> Callable[[F], F]:
    """``--save``, a file."""
    return path("--save", f"file to write: {help}", **attributes)


def workers(help: str) -> Callable[[F], F]:
    """``--workers``, 0 by default."""
    return click.option("--workers", type=Integer(0, MOST_WORKERS), default=0, help=help)


class Named(click.ParamType[str]):
    """The registered name of a schedule; which one was taken for another name is said on stderr."""

    name = "schedule"

    def __init__(self, named: Callable[[str], str]) -> None:
        self.named = named

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Of one name, or of each in a list."""
        names = [x.strip() for x in str(value).split(",")]
        found = list(map(self.named, names))
        for typed, taken in zip(names, found, strict=True):
            if typed != taken:
                remark(f"{typed} is {taken}")
        return ",".join(found)


def _backward_named(name: str) -> str:
    found = algorithm_named(f"{name}_backward")
    return found if found in ALGORITHMS else algorithm_named(name)


SCHEDULE, BACKWARD = Named(algorithm_named), Named(_backward_named)

schedule_argument = click.argument("schedule", type=SCHEDULE)


def dtype_option(help: str, default: str | None = None) -> Callable[[F], F]:
    """``--dtype``."""
    return click.option("--dtype", help=f"type of a word: {help}", default=default)


dtype = dtype_option(
    "fp16, bf16, fp32, …; needed where M is in bytes (96KiB), and count prints bytes, too"
)
experts = click.option(
    "--experts",
    metavar="least|expected|INT",
    help="experts that a mixture's layer reads: least (default), or expected by uniform routing",
)
as_json = click.option("--json", "as_json", is_flag=True, help="print JSON")


def problem_from(kind: str, given: Sizes, model: str | None = None) -> Any:
    """A problem of one kind from typed sizes and options, which take precedence over those of a
    model.

    What a model and a batch set is printed on stderr.
    """
    cls = PROBLEMS[kind]
    told = parsed(kind, batched(kind, of_model(model, kind, given)))
    told |= {
        x.name: told[x.follows] for x in cls.axes() if x.name not in told and x.follows in told
    }
    missing = [x.name for x in cls.axes() if x.name not in told and x.default is None]
    if missing:
        them = "it" if len(missing) == 1 else "them"
        raise InputError(f"{kind} needs {', '.join(spelt(x)[0] for x in missing)}: give {them}")
    return noted(cls(**told))


def check_options(given: Iterable[str], known: Collection[str], of: str) -> None:
    """Raise InputError for a given option that is none of those known."""
    for name in given:
        if name not in known:
            raise InputError(f"{spelt(name)[0]} does not apply to {of}: leave it out")


def experts_from(text: str) -> str | int:
    """A choice of `iosim.models.layers.routing` as it is typed."""
    return parse_int("experts", text) if text[:1].isdigit() else text


def noted(problem: Any) -> Any:
    """The problem; of options that change nothing, that is said on stderr."""
    for text in problem.idle:
        remark(text)
    return problem


def of_model(model: str | None, kind: str, given: Sizes) -> Sizes:
    """What is typed, with the other sizes and options of a model, which are printed on stderr.

    Raises InputError for an unknown model, and for a kind of problem with other sizes, or without
    an option that the model sets.
    """
    if model is None:
        return given
    found, source = attention_of(model)
    cls = PROBLEMS[kind]
    if size_names(type(found)) != size_names(cls) or not found.as_dict.keys() <= names_of(cls):
        own = [x for x in ("d", "heads", "kv_heads") if x in found.as_dict.keys() & names_of(cls)]
        more = " ".join(f"{spelt(x)[0]} {found.as_dict[x]}" for x in own)
        raise InputError(other_sizes(model, kind, more))
    remark(f"{model} is {format_problem(found)} ({source})")
    remark_assumed(model)
    options = {one.name: one for one in found.options()}
    typed = {
        name: typed_option(options[name], value) if name in options else str(value)
        for name, value in found.as_dict.items()
    }
    return {**typed, **_beside_typed(typed, given), **given}


def _beside_typed(own: Sizes, given: Sizes) -> Sizes:
    """Of a model's pairs of sizes of which one is typed, the other: said on stderr.

    Heads that are typed keep the model's ratio of heads to kv_heads.
    """
    for first, second in (("N", "N_k"), ("d", "d_v"), ("heads", "kv_heads")):
        if second in given and first not in given:
            remark(f"{second} = {given[second]}, and {first} = {own[first]} stays as in the model")
    if "heads" not in given or "kv_heads" in given or "kv_heads" not in own:
        return {}
    heads, ratio = parse_range("heads", given["heads"]), int(own["heads"]) // int(own["kv_heads"])
    if len(heads) > 1 or heads[0] % ratio:
        raise InputError(
            f"the model has {own['heads']} heads and {own['kv_heads']} kv_heads, {ratio} to one, "
            f"which doesn't fit heads = {given['heads']}: give --kv-heads as well"
        )
    found = str(heads[0] // ratio)
    remark(
        f"heads = {given['heads']}, so kv_heads = {found}: {ratio} heads share one, as in the "
        "model; --kv-heads changes that"
    )
    return {"kv_heads": found}


def other_sizes(model: str, kind: str, more: str) -> str:
    """What to say where a model's sizes are none of a problem's; `more` are options to give."""
    less = f"leave {model} out" + f", and give {more}" * bool(more)
    return f"--model gives the sizes of attention, not of {kind}: {less}"


def remark_assumed(model: str) -> None:
    """Print on stderr the sizes that a model's file leaves out, and what they are then."""
    if model not in MODELS and (assumed := config(model).assumed):
        remark(f"{model} doesn't say {', '.join(assumed)}: if that is wrong, give it in the file")


def batched(kind: str, given: Sizes) -> Sizes:
    """Sizes with `batch` times the heads, where the problem has heads and no batch of its own.

    To I/O, sequences that share nothing are as many heads.
    """
    names = names_of(PROBLEMS[kind])
    if "batch" not in given or "batch" in names or "heads" not in names:
        return given
    found = {name: text for name, text in given.items() if name != "batch"}
    batch, one = parse_int("batch", given["batch"]), {"heads": "1"} | found
    many = {x: parse_int(x, one[x]) for x in ("heads", "kv_heads") if x in one}
    remark(
        f"batch = {batch:,}: "
        + ", ".join(f"{x} = {batch:,} × {n:,} = {batch * n:,}" for x, n in many.items())
    )
    return found | {x: str(batch * n) for x, n in many.items()}


def parsed(kind: str, given: Sizes) -> dict[str, Any]:
    """Typed sizes and options as values.  Raises InputError where the problem has no such one."""
    cls = PROBLEMS[kind]
    need, options = size_names(cls), {one.name: one for one in cls.options()}
    told: dict[str, Any] = {}
    for name, text in given.items():
        if name in need:
            told[name] = parse_int(name, text)
        elif name in options:
            told[name] = parse_option(options[name], text)
        elif name in every_option():
            having = [k for k, p in PROBLEMS.items() if name in names_of(p)]
            raise InputError(
                f"{kind} has no option {spelt(name)[0]}, which is for {' and '.join(having)}: "
                "leave it out"
            )
        else:
            every = ", ".join(spelt(x)[0] for x in need)
            raise InputError(f"{kind} has no size {name}: give {every}")
    return told


def names_of(problem: type[Any]) -> set[str]:
    """The names of a problem's sizes and options."""
    return {*size_names(problem), *(one.name for one in problem.options())}


def format_problem(problem: Any) -> str:
    """A problem's sizes, and the options that are given, in words.

    >>> from iosim.core.problem import Attention
    >>> format_problem(Attention(4096, 64, 32, kv_heads=8, causal=True, window=(128, None)))
    'N = 4,096, d = 64, heads = 32, kv_heads = 8, causal, window = (128, no limit)'
    """

    def one(name: str, value: Any) -> str:
        if value is True:
            return name
        if isinstance(value, tuple):
            return f"{name} = ({', '.join('no limit' if x is None else cell(x) for x in value)})"
        return f"{name} = {cell(value)}"

    return ", ".join(one(name, value) for name, value in problem.as_dict.items())


def kind_of(given: Sizes) -> str:
    """The kind of problem that typed sizes are of: one with all of them, and none missing if any.

    Raises InputError where no problem has all of them.
    """
    if "page" not in given:  # a batch of attention is as many heads
        given = {name: text for name, text in given.items() if name != "batch"}
    names = {kind: names_of(cls) for kind, cls in PROBLEMS.items()}
    kinds = [kind for kind in PROBLEMS if given.keys() <= names[kind]]
    if not kinds:
        known = ", or ".join(
            f"{' '.join(spelt(x)[0] for x in size_names(cls))} ({kind})"
            for kind, cls in PROBLEMS.items()
        )
        raise InputError(f"sizes of two problems: give {known}")

    def complete(kind: str) -> bool:
        return all(x.default is not None or x.name in given for x in PROBLEMS[kind].axes())

    return next(filter(complete, kinds), kinds[0])


def words_from(M: str | None, dtype: str | None) -> int:
    """M in words, as typed; it is never optional."""
    return parse_words("M", _require_M(M), dtype)


def memories_from(M: str | None, dtype: str | None) -> list[int]:
    """`words_from` for a list of M, or a range."""
    return parse_range("M", _require_M(M), dtype)


def _require_M(M: str | None) -> str:
    if M is None:
        raise InputError("M is missing: give --M in words (24576) or bytes (96KiB with --dtype)")
    return M


def print_written(paths: Sequence[Path]) -> None:
    """Say which files were written, if any."""
    if paths:
        click.echo(f"wrote {', '.join(map(str, paths))}")


def print_json(value: Any) -> None:
    """Print a value for scripts."""
    click.echo(json_text(value))


def json_text(value: Any, indent: int | None = 2) -> str:
    """A value as JSON: what is neither finite nor a number is null, dates and the like are text."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    ascii_only = not encoding.lower().startswith("utf")
    plain = _finite(value)
    text = json.dumps(plain, indent=indent, ensure_ascii=ascii_only, default=_plain)
    if printable(text, keep="\n") != text:  # its own escapes, which read back
        text = json.dumps(plain, indent=indent, default=_plain)
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(x) for key, x in value.items()}
    return [_finite(x) for x in value] if isinstance(value, (list, tuple)) else value


def _plain(value: Any) -> Any:
    if isinstance(value, (Integral, Decimal)):
        return int(value) if value == int(value) else float(value)
    return str(value)


online_softmax = click.option(
    "--no-online-softmax",
    is_flag=True,
    help="scores, softmax and the product with V are never one kernel",
)


def remark(text: str) -> None:
    """Print a note on stderr, if there is one."""
    note(text)


def width() -> int:
    """Of the terminal that is printed to; 140 characters where it is none."""
    return shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table, aligned where it fits; no number and no name is ever cut or rounded."""
    click.echo(layout(columns, rows, width()))


def print_rows(rows: Sequence[Values], columns: Sequence[str] = ()) -> None:
    """Print rows with some of their columns, or all, and name those that are left out."""
    every = dict.fromkeys(name for row in rows for name in row)
    shown = columns or tuple(every)
    print_table(shown, [[row.get(name) for name in shown] for row in rows])
    if left_out := [name for name in every if name not in shown]:
        click.echo(f"columns left out: {', '.join(left_out)}")
