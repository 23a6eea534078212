"""The words of a kernel as formulas in its integer arguments, at any sizes.

``iosim kernel count`` and `iosim.kernel.sweep` call it.  ``tests/kernel/test_kernel_formulas.py``
compares with evaluations at many sizes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from iosim.base.display import Tabled
from iosim.base.errors import InputError, closest
from iosim.base.validate import LARGEST_SIZE
from iosim.core.counting.numbers import IntArray, count_many
from iosim.core.problem import as_array
from iosim.core.program.ir import Loop, Program
from iosim.core.program.space import leasts
from iosim.kernel.closing import NoClosedForm, close_kernel
from iosim.kernel.count import lower_call
from iosim.kernel.evaluate import Reference, evaluate
from iosim.kernel.ir import IrFunction
from iosim.kernel.launch import KernelCall, read_grid
from iosim.kernel.linear import NamedSizes
from iosim.kernel.nests import FAR
from iosim.kernel.words import WordCounter

if TYPE_CHECKING:
    from sympy import Expr

# Sizes at which an order that is learned is compared.
TRIES = 12


@dataclass(frozen=True)
class KernelFormula(Tabled):
    """The words that a kernel moves, as formulas in its integer arguments.

    Attributes:
        program: the kernel as a program; numbers are axes that are called by their digits.
        named: sizes of the program that follow from the arguments.

    >>> from iosim.kernel import derive_formula, describe_launch, load_kernel
    >>> attention = load_kernel("docs/examples/attention.py::attention")
    >>> constants = {"D": 64, "BR": 128, "BC": 64, "CAUSAL": False}
    >>> call = describe_launch(attention, "cdiv(N, BR), 8", {"N": 1000}, {}, constants)
    >>> formula = derive_formula(call)
    >>> formula.sizes, formula.words()["load", "K"]
    (['N'], 512*N*ceiling(N/128))
    >>> formula.count_many({"N": [1000, 4096, 10**6]})["load", "K"].tolist()
    [4096000, 67108864, 4000256000000]
    """

    program: Program
    named: NamedSizes

    html_by = "iosim.kernel.show:formula_to_html"
    table_by = "iosim.kernel.show:formula_to_table"

    @functools.cached_property
    def sizes(self) -> list[str]:
        """The arguments that the words depend on."""
        found, todo = set[str](), list(leasts(self.program))
        while todo:
            name = todo.pop()
            if name in self.named.made:
                todo += [str(n) for x in self.named.made[name][1] for n in x.names]
            elif not name.isdigit() and name != FAR:
                found.add(name)
        return sorted(found)

    def words(self) -> dict[tuple[str, str], Expr]:
        """(kind, argument) → words, as a sympy expression in `sizes`.

        Raises:
            ProgramError: words that no sum of these closes.
        """
        import sympy

        from iosim.core.counting.symbols import derive_words, sym

        symbols = self.named.values({n: sym(n) for n in self.sizes}, _symbolic_rules())
        known: dict[str, Any] = {n: int(n) for n in leasts(self.program) if n.isdigit()}
        words = derive_words(self.program, {**symbols, **known, FAR: sympy.oo})
        return {_to_kind(key): _simplify(x) for key, x in words.items()}

    def count_many(self, columns: Mapping[str, Any]) -> dict[tuple[str, str], IntArray]:
        """The words at many sizes at once.

        Args:
            columns: a number or an int64 array for each of `sizes`, which broadcast together.

        Returns:
            (kind, argument) → words, int64 arrays of the common shape.

        Raises:
            InputError: a size is missing, unknown, negative or too large.
        """
        names = leasts(self.program)
        known: dict[str, Any] = {n: int(n) for n in names if n.isdigit()}
        given = _check_sizes({n: names.get(n, 0) for n in self.sizes}, columns)
        every = self.named.values(given) | known
        if FAR in names:
            every[FAR] = _far(self.program, every)
        for name, x in every.items():
            if np.any(np.asarray(x) > LARGEST_SIZE):
                raise InputError(f"sizes of {', '.join(given)} that make {name} exceed 2**40")
        every = {n: x for n, x in every.items() if n in names}
        return {_to_kind(k): v for k, v in count_many(self.program, every).items()}


def _check_sizes(lows: Mapping[str, int], columns: object) -> dict[str, IntArray]:
    """Sizes as arrays of integers, which are at least `lows`."""
    names = sorted(lows)
    if not isinstance(columns, Mapping):
        raise InputError(f"a formula takes sizes by name, got {type(columns).__name__}")
    if missing := sorted(set(names) - set(columns)):
        raise InputError(f"the formula needs sizes of {', '.join(missing)}: give them")
    if unknown := sorted(set(columns) - set(names)):
        raise InputError(f"the formula has no size {unknown[0]!r}: {closest(unknown[0], names)}")
    out = {name: as_array(f"size {name}", columns[name]) for name in names}
    for name, x in out.items():
        whole = np.issubdtype(x.dtype, np.integer)
        if not whole or (x.size and not lows[name] <= x.min() <= x.max() <= LARGEST_SIZE):
            raise InputError(
                f"size {name} must hold integers in {lows[name]}..{LARGEST_SIZE} (2**40)"
            )
    try:
        np.broadcast_shapes(*(x.shape for x in out.values()))
    except ValueError:
        said = ", ".join(f"{name} {x.shape}" for name, x in out.items())
        raise InputError(f"sizes of shapes that don't fit together ({said})") from None
    return {name: x.astype(np.int64) for name, x in out.items()}


def derive_formula(launch: KernelCall, capability: int | None = None) -> KernelFormula:
    """The words of a launch's kernel as formulas in its integer arguments.

    Constants, and arguments that are 1, are numbers: other ones are another kernel.

    Args:
        launch: the kernel and its launch, with its grid as text.
        capability: of the GPU whose TTIR is read; an H100's, if none is given.

    Raises:
        NoClosedForm: a mask, a bound or the grid is no sum of sizes and positions.

    >>> from iosim.kernel import describe_launch, load_kernel
    >>> softmax = load_kernel("docs/examples/softmax.py::softmax")
    >>> call = describe_launch(softmax, "8", {"columns": 1000}, {}, {"BLOCK": 256})
    >>> derive_formula(call).words()["load", "x"]
    16*columns
    """
    functions = lower_call(launch, capability)
    closed = close_kernel(functions, launch)
    formula = KernelFormula(closed.program, closed.sizes)
    if closed.learned:
        _compare_learned(formula, functions, launch)
    return formula


def _compare_learned(
    formula: KernelFormula, functions: Mapping[str, IrFunction], launch: KernelCall
) -> None:
    """Compare an order that small sizes taught with what evaluating counts at other ones.

    Raises:
        NoClosedForm: they differ.
    """
    rng = np.random.default_rng(0)
    numbers = [n for n, x in launch.values.items() if type(x) is int and n not in launch.constants]
    largest = max([16, *(x for x in launch.constants.values() if type(x) is int and x <= 256)])
    for k in range(TRIES):
        # Rows and columns of 1 to 6 tiles; at some sizes all are equal.
        drawn = np.exp(rng.uniform(np.log(2), np.log(6 * largest), len(numbers))).astype(int)
        values = {
            n: int(drawn[0] if k % 4 == 3 else x) for n, x in zip(numbers, drawn, strict=True)
        }
        counter = WordCounter()
        every = {**launch.values, **values}
        try:
            grid = read_grid(launch.grid_text, {**every, **launch.constants})
            call = replace(launch.to_evaluate(), grid=grid, values=every)
            evaluate(functions, call, partial(_add, counter))
            words = formula.count_many({n: every[n] for n in formula.sizes})
        except InputError:
            continue
        counted = {key: t.words for key, t in counter.traffic.items() if t.words}
        if counted != {key: int(x) for key, x in words.items() if x}:
            given = ", ".join(f"{n}={x}" for n, x in values.items())
            raise NoClosedForm(f"{launch.source.name}: its order of tiles is another at {given}")


def _add(counter: WordCounter, found: list[Reference]) -> None:
    for reference in found:
        counter(reference)


def _symbolic_rules() -> dict[str, Callable[..., Any]]:
    """What each kind of size is as an expression."""
    import sympy

    return {
        "ceil": lambda x, by: sympy.ceiling(x[0] / sympy.Integer(by)),
        "floor": lambda x, by: sympy.floor(x[0] / sympy.Integer(by)),
        "mod": lambda x, by: sympy.Mod(x[0], by),
        "product": lambda x, by: sympy.Mul(*x),
        "min": lambda x, by: sympy.Min(*x),
    }


def _to_kind(key: tuple[str, str]) -> tuple[str, str]:
    way, tensor = key
    name, atomic, _ = tensor.partition(" atomic")
    return ("atomic" if atomic else way, name)


def _far(program: Program, columns: Mapping[str, Any]) -> Any:
    """An axis that is longer than where any span of it may end."""
    total: Any = sum(np.abs(np.asarray(x, np.int64)) for x in columns.values())
    factor = 1
    for node in program.nodes:
        if isinstance(node, Loop) and node.span.axis == FAR:
            bounds = node.span.start, node.span.stop
            factor *= 2 + sum(abs(c) for x in bounds for _, c in x.terms)
            total = total + sum(abs(x.const) for x in bounds)
    return total * factor


def _simplify(words: Expr) -> Expr:
    """Sums of one term as their term."""
    import sympy

    return words.replace(
        lambda x: isinstance(x, sympy.Sum) and x.limits[0][1] == x.limits[0][2],
        lambda x: x.doit(),
    )
