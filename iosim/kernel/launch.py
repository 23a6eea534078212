"""A kernel with everything that a launch gives it: grid, arguments, types, constants.

The command line, the tracer and the lab describe launches with it.
``tests/kernel/test_refused.py`` compares the messages.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from iosim.base.errors import InputError, closest
from iosim.kernel import guess
from iosim.kernel.evaluate import CallValues
from iosim.kernel.expression import calculate
from iosim.kernel.source import KernelSource

# Constants of a launch that the compiler takes, and the kernel doesn't see.
COMPILER_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
# A grid's axes have at most so many programs, and a launch that many in all.
MOST_PROGRAMS = 2**31 - 1
# Triton's names of the dtypes of NumPy and PyTorch.
DTYPES = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "bool": "i1",
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)},
}
_TYPES = {*DTYPES.values(), "fp8e4b8", "fp8e5b16", "fp8e4b15", "u1", "B"}


@dataclass
class KernelCall:
    """A kernel and its launch.

    Attributes:
        source: the kernel.
        grid: programs along each axis.
        types: of all arguments, as Triton writes them; ``constexpr`` for constants.
        constants: values of the constants.
        values: of numbers.
        divisible: arguments that are multiples of 16.
        options: of the compiler.
        data: arrays of tensors that steer the kernel.
        descriptors: shape and strides of tensors that come as descriptors.
        remarks: what was assumed, a sentence each.
        assumed: numbers that have no value; where nothing needs them, their type doesn't matter.
        grid_text: the grid as expressions of arguments and constants; "" where only numbers came.

    >>> from iosim.kernel import load_kernel
    >>> softmax = load_kernel("docs/examples/softmax.py::softmax")
    >>> describe_launch(softmax, "8", {"columns": 64}, {}, {"BLOCK": 64}).types
    {'y': '*fp32', 'x': '*fp32', 'columns': 'i32', 'BLOCK': 'constexpr'}
    """

    source: KernelSource
    grid: tuple[int, int, int]
    types: dict[str, str]
    constants: dict[str, Any]
    values: dict[str, Any]
    divisible: dict[str, int] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    descriptors: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    grid_text: str = ""

    def to_evaluate(self) -> CallValues:
        """What `iosim.kernel.evaluate` takes."""
        names = [n for n in self.source.arguments if self.types[n] != "constexpr"]
        return CallValues(self.grid, names, self.values, self.data, self.descriptors)


def describe_launch(
    source: KernelSource,
    grid: str,
    arguments: Mapping[str, Any],
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    data: Mapping[str, Any] | None = None,
    descriptors: Mapping[str, str] | None = None,
) -> KernelCall:
    """A launch from what a person types.

    Args:
        source: the kernel.
        grid: expressions of arguments and constants, separated by commas.
        arguments: values of numbers.
        types: of pointers and others, by name or by a pattern such as ``desc_*``.
        constants: values of ``tl.constexpr`` arguments, and of ``num_warps`` and the like.
        data: arrays of tensors that steer the kernel.
        descriptors: shape and strides of tensors that come as descriptors, like ``[M,K]:[K,1]``.

    Raises:
        InputError: a name that the kernel lacks, a value that is missing, a grid that isn't
            positive.

    >>> from iosim.kernel import load_kernel
    >>> softmax = load_kernel("docs/examples/softmax.py::softmax")
    >>> describe_launch(softmax, "rows", {"columns": 64}, {}, {"BLOCK": 64})
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: --grid 'rows' needs rows: known: BLOCK, columns
    """
    options = {k: v for k, v in constants.items() if k in COMPILER_OPTIONS}
    names = source.arguments
    constants = {k: v for k, v in constants.items() if k not in options or k in names}
    check_names(source, [*arguments, *constants, *(data or {}), *(descriptors or {})])
    kinds = _match_types(names, types, {*arguments, *constants})
    _add_data_types(kinds, data or {})
    remarks: list[str] = []
    chosen = dict(source.defaults)
    chosen.update({k: v for k, v in arguments.items() if k in source.constants})
    chosen.update(constants)
    numbers = {k for k, v in constants.items() if k not in source.constants and v is not None}
    arguments = {**{k: constants[k] for k in numbers}, **arguments}
    named = (set(source.constants) | constants.keys()) - numbers
    chosen = {k: v for k, v in chosen.items() if k in named}
    _complete_constants(source, chosen, dict(arguments), options, remarks)
    values = {k: v for k, v in {**source.defaults, **arguments}.items() if k not in chosen}
    guessed = [n for n in names if n not in chosen and n not in kinds]
    kinds |= {n: _guess_type(source, n, values) for n in guessed}
    if pointers := [n for n in guessed if kinds[n] == "*fp32"]:
        remarks.append(f"--type is *fp32 for {', '.join(pointers)}, since not given")
    if unknown := [n for n in guessed if kinds[n] != "*fp32" and values.get(n) is None]:
        remarks.append(f"--arg of {', '.join(unknown)} is not given: taken as not needed")
    shape = read_grid(grid, {**values, **chosen})
    call = KernelCall(source, shape, kinds, chosen, values, {}, options, dict(data or {}))
    call.descriptors = _read_descriptors(kinds, descriptors or {}, {**values, **chosen})
    call.remarks, call.grid_text = remarks, grid
    numbers = {n for n, kind in kinds.items() if "*" not in kind} - call.descriptors.keys()
    call.assumed = [n for n in numbers if n not in values]
    return specialize(call)


def _read_descriptors(
    kinds: Mapping[str, str], given: Mapping[str, str], names: Mapping[str, Any]
) -> dict[str, Any]:
    """Shape and strides of each descriptor; the last axis lies in a row where no strides are given.

    Raises:
        InputError: one is missing, is no descriptor, or has other axes than its tile.
    """
    out = {}
    for name, kind in kinds.items():
        if name in given and not kind.startswith("tensordesc<"):
            raise InputError(
                f'--desc {name} needs a type: --type "{name}=tensordesc<fp16[64,64]>" has its tile'
            )
        if not kind.startswith("tensordesc<"):
            continue
        if name not in given:
            raise InputError(f'{name} is a descriptor: give its shape, like --desc "{name}=[M,K]"')
        shape, *rest = (_read_list(x, names) for x in given[name].split(":"))
        strides = rest[0] if rest else [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        axes = kind.partition("]")[0].count(",") + 1
        if not len(shape) == len(strides) == axes:
            raise InputError(f"--desc {name}={given[name]} has other axes than {kind}")
        out[name] = (tuple(shape), tuple(strides))
    return out


def _read_list(text: str, names: Mapping[str, Any]) -> list[Any]:
    """The values of ``[M, 2*K]``."""
    inner = text.strip()
    if inner[:1] != "[" or inner[-1:] != "]":
        raise InputError(f"--desc: {text!r} isn't a shape: write it like [M,K] or [M,K]:[K,1]")
    return calculate("--desc", inner[1:-1], names)


def specialize(launch: KernelCall) -> KernelCall:
    """What Triton's launcher does: a 1 becomes a constant, multiples of 16 are known as such."""
    for parameter in launch.source.function.params:
        name = parameter.name
        if name in launch.constants:
            launch.types[name] = "constexpr"
            continue
        value, kind = launch.values.get(name), launch.types[name]
        if getattr(parameter, "do_not_specialize", False):
            continue
        if kind.startswith("*"):
            launch.divisible[name] = 16
        elif isinstance(value, int) and not isinstance(value, bool) and kind[0] in "iu":
            if value == 1:
                launch.types[name] = "constexpr"
                launch.constants[name] = 1
            elif value % 16 == 0:
                launch.divisible[name] = 16
    order = launch.source.arguments
    launch.types = {name: launch.types[name] for name in order}
    return launch


def check_names(source: KernelSource, given: Iterable[str]) -> None:
    """Refuse a name that is no argument of the kernel, with the closest ones.

    Raises:
        InputError: a name that isn't known.
    """
    for name in given:
        if name not in source.arguments:
            raise InputError(
                f"{source.name} has no argument {name!r}: {closest(name, source.arguments)}"
            )


def _complete_constants(
    source: KernelSource,
    chosen: dict[str, Any],
    arguments: dict[str, Any],
    options: dict[str, Any],
    remarks: list[str],
) -> None:
    """Fill in constants that the kernel's own decorators and text say, or refuse."""
    missing = [name for name in source.constants if name not in chosen]
    fitting = [
        c for c in source.configs if all(chosen[k] == v for k, v in c.items() if k in chosen)
    ]
    if missing and fitting and any(name in fitting[0] for name in missing):
        config = {k: v for k, v in fitting[0].items() if k not in chosen}
        chosen.update({k: v for k, v in config.items() if k in source.constants})
        for k, v in config.items():
            if k in COMPILER_OPTIONS and v is not None:
                options.setdefault(k, v)
        said = ", ".join(f"{k}={v}" for k, v in fitting[0].items() if k in source.constants)
        remarks.append(f"of {len(fitting)} autotune configs that fit, the first one: {said}")
    for name, function in source.heuristics:
        if name in source.constants and name not in chosen:
            try:
                chosen[name] = function({**arguments, **chosen})
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                raise InputError(
                    f"the heuristic of {name} can't be asked ({reason}): give --const {name}=…"
                ) from None
            remarks.append(f"{name}={chosen[name]} by the kernel's heuristic")
    missing = [name for name in source.constants if name not in chosen]
    switches = [name for name in missing if guess.is_switch(source.function, name)]
    if unknown := [name for name in missing if name not in switches]:
        example = ",".join([*(f"{n}={_example(n)}" for n in unknown)])
        why = source.failures.get(source.name)
        failed = f" (its decorator fails: {why})" if why else ""
        raise InputError(
            f"{source.name} needs values of {', '.join(unknown)}{failed}: give them, like "
            f"--const {example}"
        )
    chosen.update(dict.fromkeys(switches, False))
    if switches:
        remarks.append(f"off, since not given: {', '.join(switches)}")


def _example(name: str) -> int:
    """A value that such a constant often has."""
    upper = name.upper()
    if "STAGE" in upper or "GROUP" in upper:
        return 1
    return 64 if upper.startswith(("BLOCK", "BM", "BN", "BK", "HEAD", "D")) else 16


def _match_types(
    names: list[str], types: Mapping[str, str], valued: Collection[str]
) -> dict[str, str]:
    """Types by name: an exact name comes before a pattern, a value before one of pointers."""
    out: dict[str, str] = {}
    for pattern, kind in types.items():
        _check_type(pattern, kind)
        found = [n for n in names if fnmatch.fnmatchcase(n, pattern)]
        if not found:
            raise InputError(f"no argument is like {pattern!r}: {closest(pattern, names)}")
        for name in found:
            spared = name in types or (name in valued and kind.startswith("*"))
            if name == pattern or not spared:
                out[name] = kind
            if name == pattern and name in valued and kind.startswith("*"):
                raise InputError(
                    f"{name} has a value, but --type {name}={kind} is a pointer's: give one"
                )
    return out


def _check_type(name: str, kind: str) -> None:
    """Refuse what Triton has no name for, such as NumPy's names."""
    match = re.fullmatch(r"(?:\*k?)*(\w+)|tensordesc\w*<(\w+)\[.*", kind)
    one = match[1] or match[2] if match else kind
    if one in _TYPES or one == "constexpr":
        return
    raise InputError(
        f"--type {name}={kind}: Triton has no type {one!r}: "
        + (f"write {DTYPES[one]}" if one in DTYPES else closest(one, sorted(_TYPES)))
    )


def _add_data_types(kinds: dict[str, str], data: Mapping[str, Any]) -> None:
    """The types of arguments that have an array, and no type.

    Raises:
        InputError: a type of integers for an array of other numbers.
    """
    for name, array in data.items():
        own = DTYPES.get(str(array.dtype), "")
        kind = kinds.setdefault(name, f"*{own}") if own else kinds.get(name, "")
        if array.dtype.kind not in "iub" and kind.lstrip("*")[:1] in ("i", "u"):
            raise InputError(
                f"--data {name} has words of {array.dtype}, but --type {name}={kind}: save integers"
            )


def _guess_type(source: KernelSource, name: str, values: Mapping[str, Any]) -> str:
    """The type of an argument that has no ``--type``."""
    value = values.get(name)
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    if isinstance(value, float):
        return "fp32"
    return "*fp32" if guess.is_pointer(source.function, name) else "fp32"


def read_grid(text: str, names: Mapping[str, Any]) -> tuple[int, int, int]:
    """Programs along each axis, from expressions of arguments and constants.

    Raises:
        InputError: a name that isn't known, something that isn't an expression, a size that isn't
            positive.

    >>> read_grid("cdiv(N, BLOCK), 4", {"N": 100, "BLOCK": 64})
    (2, 4, 1)
    """
    return check_grid(calculate("--grid", text, names))


def check_grid(sizes: Iterable[Any]) -> tuple[int, int, int]:
    """The three sizes of a grid.

    Raises:
        InputError: more than three, or one that isn't a positive integer.
    """
    sizes = list(sizes)
    if not 1 <= len(sizes) <= 3:
        raise InputError(f"a grid has one to three axes, not {len(sizes)}")
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= MOST_PROGRAMS:
            raise InputError(f"the grid {', '.join(map(repr, sizes))}: give positive integers")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z
