"""Turns what ends a command early into one line and an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback

import click

from iosim.base.cells import printable
from iosim.base.errors import IosimError
from iosim.cli import BUG, INPUT, INTERRUPTED, NOBODY_READS

# Characters of a message; what is typed may be of any length.
MOST = 2000
# What the operating system says of an output that cannot be written.
_OUTPUT = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT, errno.EFBIG)


def explain(error: BaseException) -> tuple[int, str]:
    """The exit code and the line for an error; no line where the reader of the output is gone."""
    if os.environ.get("IOSIM_DEBUG", "") not in ("", "0"):
        traceback.print_exception(error)
    if isinstance(error, SystemExit):
        return (error.code if isinstance(error.code, int) else INPUT if error.code else 0), ""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    tried = "; ".join(("", *getattr(error, "__notes__", ())))
    if isinstance(error, IosimError):
        return INPUT, _line(str(error)) + tried
    if isinstance(error, click.ClickException):
        where = getattr(getattr(error, "ctx", None), "command_path", "iosim")
        return INPUT, f"{_line(_format_error(error)).rstrip('.')} (see {where} --help){tried}"
    if isinstance(error, MemoryError):
        return INPUT, _line(f"out of memory ({error}): choose smaller sizes")
    if isinstance(error, OSError) and error.filename is None:
        if error.errno == errno.EPIPE:
            _silence()
            return NOBODY_READS, ""
        if error.errno in _OUTPUT:
            _silence()
            return INPUT, f"cannot write the output ({error.strerror}): send it elsewhere"
    if isinstance(error, OSError):
        where = f"{os.fspath(error.filename)!r}" if error.filename else "the system"
        return INPUT, _line(f"{where}: {error.strerror or error}: fix it and try again")
    return BUG, (
        _line(f"this is a bug of iosim: {type(error).__name__}: {error}")
        + "; please report it with the command and what IOSIM_DEBUG=1 shows"
    )


def _format_error(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption):
        from iosim.cli.kinds import of_other_kinds
        from iosim.cli.renames import suggest_current

        error = suggest_current(error)
        return of_other_kinds(error) or error.format_message()
    message = error.format_message()
    parameters = getattr(getattr(error, "cmd", None), "params", ())
    if "extra argument" in message and any("--schedule" in one.opts for one in parameters):
        return f"{message.rstrip('.')}: schedules are given with --schedule"
    return message


def _line(text: str) -> str:
    text = printable(" ".join(text.split()))
    return text if len(text) <= MOST else f"{text[:MOST]} and so on"


def _silence() -> None:
    """Discard what is still buffered: at exit the interpreter would try to write it again."""
    with contextlib.suppress(OSError, ValueError):  # it may be not a real file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
