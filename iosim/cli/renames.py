"""Options that were renamed: the old spelling works for one version, and says the new one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from iosim.base.renamed import format_renaming
from iosim.cli.terminal import note

F = TypeVar("F", bound=Callable[..., Any])


def option(*spelling: str, old: Sequence[str] = (), **attributes: Any) -> Callable[[F], F]:
    """``click.option`` with spellings of before, which are in no help.

    Args:
        spelling: as for click; the first one is what is typed.
        old: what was typed before, each as ``--x``, ``-x`` or ``--x/--no-x``.
        attributes: of the option, and of its old spellings.

    >>> @click.command()
    ... @option("--machine", old=("--gpu",))
    ... def roofline(machine: str) -> None: ...
    >>> [(one.opts, one.name, one.hidden) for one in roofline.params]
    [(['--machine'], 'machine', False), (['--gpu'], 'machine_1', True)]
    """
    new = click.Option(list(spelling))

    def hand_over(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if ctx.get_parameter_source(str(param.name)) is click.core.ParameterSource.COMMANDLINE:
            off = value is False and bool(new.secondary_opts)
            was, now = (one.secondary_opts if off else one.opts for one in (param, new))
            note(format_renaming(was[0], now[0]))
            ctx.params[str(new.name)] = value
            # As if it were typed: of both spellings the last one counts, and no default does.
            ctx.set_parameter_source(str(new.name), click.core.ParameterSource.COMMANDLINE)

    def add(command: F) -> F:
        hidden = attributes | {"hidden": True, "expose_value": False, "callback": hand_over}
        for number, one in reversed(list(enumerate(old, 1))):
            command = click.option(one, f"{new.name}_{number}", **hidden)(command)
        return click.option(*spelling, **attributes)(command)

    return add


def suggest_current(error: click.NoSuchOption) -> click.NoSuchOption:
    """The error, without old spellings in what it suggests; ``-N`` suggests ``--N``."""
    params = error.ctx.command.params if error.ctx else []
    hidden = {x for one in params if getattr(one, "hidden", False) for x in one.opts}
    known = [x for x in error.possibilities or () if x not in hidden]
    if not error.option_name.startswith("--"):
        shown = {x for one in params for x in one.opts} - hidden
        known = sorted((x for x in shown if x.startswith(f"-{error.option_name}")), key=len)[:1]
    return click.NoSuchOption(error.option_name, possibilities=known, ctx=error.ctx)
