"""Commands by import string: each is imported when it is run or asked for help, no sooner."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import click

from iosim.base.errors import InputError, closest
from iosim.base.renamed import format_renaming
from iosim.cli.commands import EXAMPLES, OLD
from iosim.cli.terminal import note

CODES = (
    "Exit codes: 0 done, 1 a check failed, 2 input that cannot be used, 70 a bug of iosim "
    "(IOSIM_DEBUG=1 shows where), 130 interrupted, 141 nobody reads the output."
)
# What a newcomer can paste.
TRY = f"Try it: iosim count {EXAMPLES['count']}"


class Lazy(click.Group):
    """A group whose commands are import strings with their line of help next to them.

    Its help lists them by section; `sections` has the names of each, and is empty for one section.
    """

    def __init__(
        self,
        name: str,
        entries: Mapping[str, tuple[str, Any]],
        help: str,
        sections: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(name, help=help, context_settings={"show_default": True})
        self.entries = entries
        self.sections = sections or {"Commands": tuple(entries)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order of the sections."""
        return [name for names in self.sections.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported."""
        old, cmd_name = cmd_name, OLD.get(cmd_name, cmd_name)
        if old != cmd_name:
            note(format_renaming(f"{ctx.command_path} {old}", f"{ctx.command_path} {cmd_name}"))
        if cmd_name not in self.entries:
            return None
        first, second = self.entries[cmd_name]
        if isinstance(second, Mapping):
            return Lazy(cmd_name, second, first)
        module, _, attribute = first.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; of a misspelled command, the closest one is named."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            near = closest(args[0], self.entries)
            guess = f": {near}" if near.startswith("did") else ""
            raise click.UsageError(f"No such command {args[0]!r}{guess}", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The help lines of the registry, whole, by section."""
        widest = max(map(len, self.entries))
        for title, names in self.sections.items():
            lines = [
                (name.ljust(widest), first if isinstance(second, Mapping) else second)
                for name in names
                for first, second in [self.entries[name]]
            ]
            with formatter.section(title):
                formatter.write_dl(lines)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without a command, a group prints its help."""
        return super().parse_args(ctx, args or ["--help"])


def version() -> str:
    """``iosim`` and its version."""
    import iosim

    return f"iosim {iosim.__version__}"


def _say_version(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(version())
        ctx.exit()


def program(
    entries: Mapping[str, tuple[str, Any]], sections: Mapping[str, Sequence[str]] | None = None
) -> Lazy:
    """The command ``iosim`` over the entries of a registry."""
    top = Lazy(
        "iosim",
        entries,
        f"The I/O of attention: written once, run, counted, bounded, proved, measured.\n\n{TRY}",
        sections,
    )
    top.epilog = CODES
    top.params.append(
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_say_version,
            help="Show the version and exit.",
        )
    )
    return top


def run(
    entries: Mapping[str, tuple[str, Any]],
    args: Sequence[str],
    sections: Mapping[str, Sequence[str]] | None = None,
) -> int:
    """Run what the arguments name; returns the exit code.

    Raises click.ClickException where the arguments are malformed, and whatever the command raises.
    The error has an example as its note where an argument is missing, or all of them.
    """
    top = program(entries, sections)
    try:
        with top.make_context("iosim", list(args)) as ctx:
            top.invoke(ctx)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (InputError, click.MissingParameter) as error:
        path = " ".join(args)
        if isinstance(error, click.MissingParameter) and error.ctx is not None:
            path = error.ctx.command_path.removeprefix("iosim ")
        if path in EXAMPLES:
            error.add_note(f"try: iosim {path} {EXAMPLES[path]}")
        raise
    except click.Abort:
        raise KeyboardInterrupt from None
    return 0
