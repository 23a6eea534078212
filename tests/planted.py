"""Errors that are planted in a proof's module, and which of its steps notice them."""

from __future__ import annotations

import inspect
import types
from collections.abc import Collection
from types import ModuleType

from iosim.report.proof import run_step, steps


def noticed(theorem: str, module: ModuleType, names: Collection[str]) -> set[str]:
    """Of a proof's steps with these names those that fail; each name is a step's."""
    own = [s for s in steps(module) if s.name in names]
    assert {s.name for s in own} == set(names)
    return {s.name for s in own if run_step(theorem, s).status == "failed"}


def set_wrong(module: ModuleType, constant: str, wrong: object) -> None:
    """Set one of a proof's constants to a number that it isn't."""
    assert getattr(module.constants, constant) != wrong
    setattr(module.constants, constant, wrong)


def rewritten(module: ModuleType, right: str, wrong: str) -> ModuleType:
    """A module with some of its text replaced."""
    text = inspect.getsource(module)
    assert right in text
    spoilt = types.ModuleType("spoilt")
    exec(text.replace(right, wrong), vars(spoilt))
    return spoilt
