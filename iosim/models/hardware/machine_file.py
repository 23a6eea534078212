"""A machine, from a TOML file: a user's, or one in ``built_in``.

The keys are the fields of `Hardware`, in bytes, bytes per second, FLOP per second and seconds;
peaks and other caches are tables.  ``docs/machines.md`` has an example.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from iosim.base.errors import InputError, closest
from iosim.base.reading import read_toml
from iosim.base.rows import Values
from iosim.models.hardware.record import Hardware, required_fields

_TEXTS = ("name", "title", "core", "cache", "source")
_TABLES = ("peaks", "caches", "sources")


def described(path: str | Path) -> Hardware:
    """The machine of a file.

    A number without a source of its own has the file's ``source``, or else the file's name.

    Raises InputError where the file can't be read, lacks a number, or has an unknown key or a value
    that can't be.

    >>> import tempfile
    >>> words = "cores = 4", "sram_bytes = 512", "cache_bytes = 1024", "capacity_bytes = 1e9"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "small.toml")
    ...     rest = ("dram_bytes_per_s = 1e9", "[peaks]", "fp32 = 1e9")
    ...     _ = path.write_text(chr(10).join(words + rest))
    ...     described(path).cores
    4
    """
    told, where = read_toml(path), Path(path).name
    try:
        _check(told)
        source, sources = told.pop("source", where), told.pop("sources", {})
        name = told.get("name", Path(path).stem)
        texts = {"name": name, "title": name, "core": "core", "cache": "last cache"}
        if "launch_s" in told:
            sources = {"launch_s": source} | sources
        drivers = tuple(told.get("drivers", ()))
        own = Hardware(**texts | told | {"drivers": drivers, "sources": sources})
        return own.with_source(source)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _check(told: Values) -> None:
    """InputError for a key that is unknown or missing, and for a value of another kind."""
    known = [*(one.name for one in fields(Hardware)), "source"]
    for key, value in told.items():
        if key not in known:
            raise InputError(f"unknown key {key!r}: {closest(key, known)}")
        kind = str if key in _TEXTS else dict if key in _TABLES else list
        named = {str: "text", dict: "a table", list: "a list of texts"}[kind]
        if key in (*_TEXTS, *_TABLES, "drivers") and not isinstance(value, kind):
            raise InputError(f"{key} must be {named}, got {value!r}: fix it")
        if key in _TEXTS and not value.strip():
            raise InputError(f"{key} is empty: give a text, or leave it out")
    for key in ("drivers", "sources"):
        inside = told.get(key, ())
        for value in inside.values() if isinstance(inside, dict) else inside:
            if not isinstance(value, str):
                raise InputError(f"{key} must hold texts, got {value!r}: put it in quotes")
    if missing := [key for key in ("peaks", *required_fields()) if key not in told]:
        what, them = ("is", "it") if len(missing) == 1 else ("are", "them")
        raise InputError(f"{', '.join(missing)} {what} missing: every machine needs {them}")
