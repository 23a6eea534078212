"""The command line: parses, calls, prints.  What it prints as JSON is meant for scripts."""

from __future__ import annotations

import importlib
import sys
from typing import NoReturn

import typer

from iosim.cli import bounding, counting, sweeping, verifying
from iosim.errors import IosimError

app = typer.Typer(
    name="iosim",
    help="The I/O of attention: written once, run, counted, bounded, proved, measured.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for part in (counting, bounding, verifying, sweeping):
    app.add_typer(part.app)

# Command groups that live with what they drive; each is imported only when it is asked for.
GROUPS = {"gpu": "iosim.gpu.cli:app"}


# Typer has carried click inside itself since 0.2x; its errors are found through what it exports.
_USAGE: type[Exception] = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
)


def main() -> NoReturn:
    """Entry point: one line on stderr and exit code 2 for whatever the user can mend."""
    try:
        if len(sys.argv) > 1 and sys.argv[1] in GROUPS:
            where, name = GROUPS[sys.argv[1]].split(":")
            app.add_typer(getattr(importlib.import_module(where), name), name=sys.argv[1])
        code = app(standalone_mode=False)
    except IosimError as error:
        typer.echo(f"iosim: {error}", err=True)
        sys.exit(2)
    except _USAGE as error:
        said = error.format_message().rstrip(".")  # type: ignore[attr-defined]
        typer.echo(f"iosim: {said} (see iosim --help)", err=True)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("iosim: interrupted", err=True)
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)
