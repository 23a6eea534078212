"""``--problem``: commands that take several kinds of problems, and options of the other kinds."""

from __future__ import annotations

from collections.abc import Callable, Collection

import click

from iosim.base.errors import InputError, closest
from iosim.cli.options import F, names_of, spelt
from iosim.core.problem import PROBLEMS


def problem_kind(*kinds: str, default: str | None = None) -> Callable[[F], F]:
    """``--problem``, one of these kinds; checked by `known_kind`."""
    said = "" if default else "; left out: what the sizes say"
    return click.option(
        "--problem",
        "kind",
        default=default,
        metavar="KIND",
        show_default=bool(default),
        help=f"kind of problem: {', '.join(kinds)}{said}",
    )


def known_kind(kind: str, kinds: Collection[str]) -> str:
    """A kind of problem as typed.  Raises InputError for one that is none of these."""
    if kind not in kinds:
        raise InputError(f"problem {kind!r} can't be chosen here: {closest(kind, kinds)}")
    return kind


def of_other_kinds(error: click.NoSuchOption) -> str | None:
    """What to say of an option of problems that the command doesn't take; None of any other.

    A command takes a kind of problem if it has all of its sizes and options.  A name that only
    looks like the option would be a wrong hint.
    """
    if error.ctx is None:
        return None
    names = {kind: names_of(cls) for kind, cls in PROBLEMS.items()}
    here = {param.name for param in error.ctx.command.params}
    taken = {kind for kind in names if names[kind] <= here}
    having = [
        kind for kind in names if any(error.option_name in spelt(name) for name in names[kind])
    ]
    if not taken or not having or taken & set(having):
        return None
    return (
        f"No such option {error.option_name!r}: it is for {' and '.join(having)}, which "
        f"{error.ctx.command_path} doesn't take"
    )
