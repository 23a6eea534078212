"""Parts of an execution, and how often rows and columns are in one: see towards_nd.md."""

from . import (
    accounting,
    again,
    chain,
    constants,
    either,
    game,
    left_over,
    moments,
    numbers,
    schedules,
    stays,
    whole,
)

__all__ = [
    "PARTS",
    "accounting",
    "again",
    "chain",
    "constants",
    "either",
    "game",
    "left_over",
    "moments",
    "numbers",
    "schedules",
    "stays",
    "whole",
]

PARTS = (
    accounting,
    schedules,
    numbers,
    game,
    stays,
    either,
    moments,
    left_over,
    chain,
    again,
    whole,
)
