"""Libraries of the extra `sweep`, imported when used; one line says how to get a missing one."""

from __future__ import annotations

import importlib
from typing import Any

from iosim.base.errors import IosimError, pip


def need(name: str, package: str = "iosim[sweep]") -> Any:
    """Import a module, or raise IosimError with the command that installs its package."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise IosimError(f"sweeps need {error.name}: install it with {pip(package)}") from None


def pyarrow() -> Any:
    """The module pyarrow."""
    return need("pyarrow")


def parquet() -> Any:
    """The module pyarrow.parquet."""
    return need("pyarrow.parquet")


def duckdb() -> Any:
    """The module duckdb."""
    return need("duckdb")


def distributed() -> Any:
    """The module distributed (Dask)."""
    return need("distributed")
