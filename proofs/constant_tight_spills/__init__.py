"""Spilled and unspilled scores apart, step by step: see constant_tight_spills.md."""

from . import accounting, caps, constants, cutting

__all__ = ["PARTS", "constants", "cutting"]

PARTS = (accounting, caps)
