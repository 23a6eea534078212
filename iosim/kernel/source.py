"""Find a kernel in a file, whatever else the file does when it is imported.

``iosim kernel`` and the tracer call `load_kernel`.  The file is run by `iosim.base.python_file`;
``tests/kernel/test_refused.py`` compares the messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from iosim.base.errors import InputError, closest
from iosim.base.python_file import run_statements
from iosim.kernel.compiler import is_gluon, load_triton


@dataclass(frozen=True)
class KernelSource:
    """A kernel, and what its decorators know of its constants.

    Attributes:
        function: what ``@triton.jit`` or ``@gluon.jit`` gave.
        configs: of ``@triton.autotune``: the constants of each, with ``num_warps`` and the like.
        heuristics: of ``@triton.heuristics``: name → function of all arguments.
        failures: names of the file that a failing statement would have given, and why it failed.

    >>> from iosim.kernel import load_kernel
    >>> load_kernel("docs/examples/softmax.py::softmax").constants
    ['BLOCK']
    """

    function: Any
    configs: tuple[dict[str, Any], ...] = ()
    heuristics: tuple[tuple[str, Any], ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The function's name."""
        return str(self.function.fn.__name__)

    @property
    def ir(self) -> str:
        """The IR that its words are counted in."""
        return "TTGIR" if is_gluon(self.function) else "TTIR"

    @property
    def arguments(self) -> list[str]:
        """Names of all arguments, constants too."""
        return list(self.function.arg_names)

    @property
    def constants(self) -> list[str]:
        """Names of the arguments that are ``tl.constexpr``."""
        return [p.name for p in self.function.params if p.is_constexpr]

    @property
    def defaults(self) -> dict[str, Any]:
        """Arguments that have a default, with it."""
        return {p.name: p.default for p in self.function.params if p.has_default}


def load_kernel(place: str) -> KernelSource:
    """The kernel of ``FILE::FUNCTION``.

    A statement of the file that fails, such as an import of a package that isn't there or a run on
    a GPU, is left out: the kernel is refused only if it needs what is missing.

    Raises:
        InputError: no such file or function, or the function is no kernel.

    >>> load_kernel("docs/examples/softmax.py::softmax").arguments
    ['y', 'x', 'columns', 'BLOCK']
    """
    file, separator, name = place.rpartition("::")
    if not separator:
        raise InputError(
            f"{place!r} doesn't name a kernel: write FILE::FUNCTION, like fused.py::attention"
        )
    load_triton()
    names, failures = run_statements(Path(file))
    if name not in names:
        kernels = [n for n, x in names.items() if is_kernel(x)]
        why = f" ({failures[name]})" if name in failures else ""
        if not kernels:
            raise InputError(f"{file} has no @triton.jit or @gluon.jit function{why}")
        raise InputError(f"{file} has no function {name!r}{why}: {closest(name, kernels)}")
    if not is_kernel(names[name]):
        raise InputError(f"{name} of {file} isn't a @triton.jit or @gluon.jit function")
    return replace(unwrap_kernel(names[name]), failures=failures)


def is_kernel(value: Any) -> bool:
    """Whether it is a jit function, or one that decorators wrap."""
    while hasattr(value, "fn") and not hasattr(value, "params"):
        value = value.fn
    return hasattr(value, "params")


def unwrap_kernel(value: Any) -> KernelSource:
    """The jit function inside of autotuners and heuristics, and what those know."""
    configs: tuple[dict[str, Any], ...] = ()
    heuristics: list[tuple[str, Any]] = []
    while True:
        if hasattr(value, "configs"):
            configs = tuple(c.all_kwargs() for c in value.configs)
        elif hasattr(value, "values") and hasattr(value, "fn") and isinstance(value.values, dict):
            heuristics += value.values.items()
        if hasattr(value, "params"):
            break
        value = value.fn
    return KernelSource(value, configs, tuple(heuristics))
