"""Parts of an execution, and how often rows and columns are in one: see towards_nd.md."""

from . import accounting, constants, game, numbers

__all__ = ["PARTS", "accounting", "constants", "game", "numbers"]

PARTS = (accounting, numbers, game)
