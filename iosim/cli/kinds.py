"""``--problem``: commands that take several kinds of problems."""

from __future__ import annotations

from collections.abc import Callable, Collection

import click

from iosim.cli.options import F
from iosim.errors import InputError, closest


def problem_kind(*kinds: str, default: str | None = None) -> Callable[[F], F]:
    """``--problem``, one of these kinds; checked by `known_kind`."""
    said = "" if default else "; left out: what the sizes say"
    return click.option(
        "--problem", "kind", default=default, metavar="KIND", show_default=bool(default),
        help=f"{', '.join(kinds)}{said}",
    )  # fmt: skip


def known_kind(kind: str, kinds: Collection[str]) -> str:
    """A kind of problem as typed.  Raises InputError for one that is none of these."""
    if kind not in kinds:
        raise InputError(f"problem {kind!r} can't be chosen here: {closest(kind, kinds)}")
    return kind
