"""Modules by the places that they had in version 0.1.0, for one version."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

from iosim.base.renamed import renamed

# What every wing uses of the old package of tables and figures.
_TABLES = {"rows", "html", "cells", "provenance"}


def find_moved(old: str, wings: Mapping[str, str]) -> ModuleSpec | None:
    """The module that was at an old place, without its ``iosim.``, or None; warns once.

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
    if name in _TABLES:
        place = f"base.{name}"
    elif wings[package] == "report":
        place = f"report.{name}".rstrip(".")
    else:
        place = f"{wings[package]}.{old}"
    try:
        module = import_module(f"iosim.{place}")
    except ModuleNotFoundError:
        return None
    renamed(f"iosim.{old}", module.__name__, level=4)  # at the import
    return ModuleSpec(f"iosim.{old}", _Moved(module), is_package=hasattr(module, "__path__"))


class _Moved(Loader):
    """A loader that gives a module which is loaded already."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec
