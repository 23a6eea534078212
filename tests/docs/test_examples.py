"""Every public name has an example in its docstring, which `test_docstrings_run` executes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

import iosim


def packages() -> list[ModuleType]:
    """What says in ``__all__`` what is public."""
    names = ["iosim", *(m.name for m in pkgutil.walk_packages(iosim.__path__, "iosim."))]
    found = []
    for name in names:
        if not name.endswith("__main__"):
            try:
                found.append(importlib.import_module(name))
            except ModuleNotFoundError:  # of an extra that is not installed
                continue
    return [module for module in found if "__all__" in vars(module)]


def without_example(module: ModuleType) -> list[str]:
    """Public names of a module that no example uses.

    A function or a class has it in its own docstring; a submodule in its own, or in those of what
    it defines; a value, which has none, in that of the module.
    """
    missing = []
    for name in module.__all__:
        value = getattr(module, name)
        own = inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)
        own = own or hasattr(value, "__wrapped__")
        text = (value.__doc__ if own else module.__doc__) or ""
        if inspect.ismodule(value):
            text = inspect.getsource(value)
        lines = [x for x in text.splitlines() if x.lstrip().startswith((">>>", "..."))]
        if not lines or (not own and not any(name in x for x in lines)):
            missing.append(name)
    return missing


@pytest.mark.parametrize("module", packages(), ids=lambda m: m.__name__)
def test_every_public_name_has_an_example(module: ModuleType) -> None:
    missing = without_example(module)
    assert not missing, f"{module.__name__}: no example in the docstring of {', '.join(missing)}"


def test_a_name_without_an_example_is_found() -> None:
    def bare() -> None:
        """Says nothing that runs."""

    module = ModuleType("made", "A package.\n\n>>> KNOWN\n1\n")
    vars(module).update(__all__=["KNOWN", "OTHER", "bare"], KNOWN=1, OTHER=2, bare=bare)
    assert without_example(module) == ["OTHER", "bare"]
