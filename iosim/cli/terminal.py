"""Prints text without anything that a terminal obeys: names may come from untrusted files."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import iosim
from iosim.base.cells import printable

# Warnings that are printed.
SHOWN = (UserWarning, FutureWarning, DeprecationWarning)


class Printable:
    """A stream that escapes control characters and marks of direction in what is written.

    It has no `buffer`: nothing goes past it.  `before` is called before each write.
    """

    def __init__(self, stream: TextIO, before: Callable[[], None] = lambda: None) -> None:
        self._stream, self._before = stream, before

    def write(self, text: str) -> int:
        """Write a text; lines stay lines."""
        self._before()
        return self._stream.write(printable(text, keep="\n"))

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


def note(text: str) -> None:
    """Print a note on stderr, if there is one."""
    if text:
        print(f"iosim: note: {printable(text)}", file=sys.stderr)


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Warnings of iosim's own code are notes, of old names, too; libraries' are dropped."""
    package = os.path.dirname(iosim.__file__) + os.sep

    def show(message: Warning | str, category: type[Warning], filename: str, *_: Any) -> None:
        if filename.startswith(package) and issubclass(category, SHOWN):
            note(" ".join(str(message).split()))

    with warnings.catch_warnings():
        warnings.simplefilter("default", DeprecationWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield
