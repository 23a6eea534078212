"""Registries of import strings: listing the names imports nothing, taking one imports its file."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TypeVar

from iosim.errors import InputError, closest

T = TypeVar("T")


def registered(what: str, name: str, modules: Mapping[str, str], value: str, kind: type[T]) -> T:
    """What the module of a registry's entry defines.

    Args:
        what: what an entry is, as the message says it.
        name: a key of `modules`.
        modules: names → modules.
        value: the name that every such module gives its entry.
        kind: the class of the entries.

    Raises InputError, with the closest name, for a name that is none.

    >>> from iosim.algorithms import ALGORITHMS, Algorithm
    >>> registered("algorithm", "copy", ALGORITHMS, "ALGORITHM", Algorithm).name
    'copy'
    """
    if name not in modules:
        raise InputError(f"unknown {what} {name!r}: {closest(name, modules)}")
    found = getattr(importlib.import_module(modules[name]), value)
    assert isinstance(found, kind)
    return found
