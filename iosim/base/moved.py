"""Old places of modules: what version 0.1.0 had directly under ``iosim`` is found in its wing.

``iosim/__init__.py`` calls `find_moved` for a module that isn't there.  The old place warns once
(`iosim.base.renamed`) and works for one more version; then this file can go.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import CodeType, ModuleType

from iosim.base.renamed import format_renaming, renamed

# What every wing uses of the old package of tables and figures.
_TABLES = {"rows", "html", "cells", "provenance"}


def find_moved(old: str, wings: Mapping[str, str]) -> ModuleSpec:
    """What imports the module of an old place, given without its ``iosim.``, and then warns once.

    It is the loader that imports: Python holds a lock on all imports while it looks for a module,
    and a thread that is importing the same one would wait for that lock.

    Args:
        wings: the wing of each module and package that was directly under iosim.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     old = import_module("iosim." + "counts")
    >>> old.__name__
    'iosim.core.counts'
    """
    package, _, name = old.partition(".")
    if package == "output" and name in _TABLES:
        place = f"base.{name}"
    elif wings[package] == "report":
        place = f"report.{name}".rstrip(".")
    else:
        place = f"{wings[package]}.{old}"
    return ModuleSpec(f"iosim.{old}", _Moved(f"iosim.{place}"))


class _Moved(Loader):
    """A loader of a module by its new place."""

    def __init__(self, place: str) -> None:
        self.place = place

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.place)
        renamed(spec.name, module.__name__)  # at the import
        self.spec = module.__spec__
        return module

    def get_code(self, name: str) -> CodeType:
        """The code at the new place, which ``python -m`` runs: it is who is warned."""
        said = format_renaming(name, self.place)
        warnings.warn_explicit(said, DeprecationWarning, name, 1, module="__main__")
        code: CodeType = find_spec(self.place).loader.get_code(self.place)  # type: ignore
        return code

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec
