"""The command line: parses, calls, prints.  What it prints as JSON is meant for scripts."""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn

import typer

from iosim.cli import bounding, counting, pebbling, sweeping, verifying
from iosim.errors import IosimError

app = typer.Typer(
    name="iosim",
    help="The I/O of attention: written once, run, counted, bounded, proved, measured.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for part in (counting, bounding, verifying, sweeping, pebbling):
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
        asked = sys.argv[1:2]
        for group, place in GROUPS.items():
            if asked in ([group], [], ["--help"]):
                where, name = place.split(":")
                app.add_typer(getattr(importlib.import_module(where), name), name=group)
        if sys.argv[1:] == ["--version"]:
            typer.echo(f"iosim {importlib.import_module('iosim').__version__}")
            sys.exit(0)
        code = app(standalone_mode=False)
        sys.stdout.flush()
        if code == 130:  # newer Typers report an interrupt as a code instead of raising
            raise KeyboardInterrupt
    except IosimError as error:
        typer.echo(f"iosim: {error}", err=True)
        sys.exit(2)
    except _USAGE as error:
        said = error.format_message().rstrip(".")  # type: ignore[attr-defined]
        typer.echo(f"iosim: {said} (see iosim --help)", err=True)
        sys.exit(2)
    except MemoryError as error:
        typer.echo(f"iosim: out of memory ({error}): choose smaller sizes", err=True)
        sys.exit(2)
    except OSError as error:
        typer.echo(
            f"iosim: cannot write the output ({error.strerror}): send it elsewhere", err=True
        )
        # The interpreter would try to flush it again, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("iosim: interrupted", err=True)
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)
