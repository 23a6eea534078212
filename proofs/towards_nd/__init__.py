"""Parts of an execution, and how often rows and columns are in one: see towards_nd.md."""

from . import accounting, constants, game, numbers, schedules

__all__ = ["PARTS", "accounting", "constants", "game", "numbers", "schedules"]

PARTS = (accounting, schedules, numbers, game)
