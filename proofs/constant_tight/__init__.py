"""The constant-tight bound for attention, step by step: see constant_tight.md."""

from . import accounting, binding, columns, constants, faces, free, search, theorems

__all__ = ["PARTS", "constants"]

PARTS = (accounting, columns, faces, theorems, free, search, binding)
