"""Registries of import strings: listing the names imports nothing, taking one imports its file."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Mapping
from typing import TypeVar

from iosim.base.errors import InputError, closest

T = TypeVar("T")


def canonical(name: T, names: Collection[str], aliases: Mapping[str, str]) -> T | str:
    """The registered name that is meant: case, hyphens and underscores don't matter.

    Args:
        aliases: other names in use, in lower case without hyphens and underscores.

    An unknown name is returned unchanged.

    >>> canonical("Flash-Attention", ["flash2", "small_cache"], {"flashattention": "flash2"})
    'flash2'
    """
    if not isinstance(name, str) or name in names:
        return name
    plain = {_plain(x): x for x in names}
    return {**aliases, **plain}.get(_plain(name), name)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def registered(what: str, name: str, modules: Mapping[str, str], value: str, kind: type[T]) -> T:
    """What the module of a registry's entry defines.

    Args:
        what: what an entry is, as the message says it.
        name: a key of `modules`.
        modules: names → modules.
        value: the name that every such module gives its entry.
        kind: the class of the entries.

    Raises InputError for a name that is none, with the closest one, and where the module makes no
    such entry.

    >>> from iosim.core.algorithms import ALGORITHMS, Algorithm
    >>> registered("algorithm", "copy", ALGORITHMS, "ALGORITHM", Algorithm).name
    'copy'
    """
    if name not in modules:
        raise InputError(f"unknown {what} {name!r}: {closest(name, modules)}")
    path = modules[name]
    try:
        found = getattr(sys.modules.get(path) or importlib.import_module(path), value)
    except (AttributeError, TypeError) as error:  # an entry that somebody is writing
        raise InputError(f"{path} makes no {value}: {error}") from error
    assert isinstance(found, kind)
    return found
