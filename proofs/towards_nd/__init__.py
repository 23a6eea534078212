"""Parts of an execution, and how often rows and columns are in one: see towards_nd.md."""

from . import (
    accounting,
    chain,
    constants,
    either,
    full_memory,
    game,
    left_over,
    moments,
    numbers,
    reloaded_queries,
    schedules,
    stays,
)

__all__ = [
    "PARTS",
    "accounting",
    "chain",
    "constants",
    "either",
    "full_memory",
    "game",
    "left_over",
    "moments",
    "numbers",
    "reloaded_queries",
    "schedules",
    "stays",
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
    reloaded_queries,
    full_memory,
)
