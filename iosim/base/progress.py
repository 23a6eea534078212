"""Progress of long loops: a loop reports how far it is, and a caller may listen.

The command line listens to every command (`iosim.cli.watching`).  Without a listener a report costs
a lookup.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Listener(Protocol):
    """What hears of loops."""

    def show(self, done: int, of: int | None, what: str) -> None:
        """A loop is so far: `done` of `of` things, or of a number that nobody knows."""

    def clear(self, what: str) -> None:
        """The loop over these has ended, or broke off."""


_LISTENER: ContextVar[Listener | None] = ContextVar("progress", default=None)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Let a listener hear of all loops in a block.

    >>> class Heard(list):
    ...     def show(self, done, of, what): self.append(f"{done} of {of} {what}")
    ...     def clear(self, what): self.append(f"no more {what}")
    >>> heard = Heard()
    >>> with listen(heard):
    ...     total = sum(track([3, 4], "numbers"))
    >>> total, heard
    (7, ['0 of 2 numbers', '1 of 2 numbers', 'no more numbers'])
    """
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def track(items: Collection[_T], what: str) -> Iterator[_T]:
    """The items, each reported before it is used; `what` names them, in the plural."""
    with count_done(len(items), what) as report:
        for done, item in enumerate(items):
            report(done)
            yield item


class ProgressReport:
    """Reports the number of things that a loop has done."""

    def __init__(self, of: int | None, what: str) -> None:
        self.of, self.what, self.listener = of, what, _LISTENER.get()

    def __call__(self, done: int) -> None:
        """This many are done."""
        if self.listener is not None:
            self.listener.show(done, self.of, self.what)


@contextmanager
def count_done(of: int | None, what: str) -> Iterator[ProgressReport]:
    """A block that reports how many things it has done, of a number or of an unknown one.

    >>> with count_done(None, "sets") as report:
    ...     report(12)
    """
    report = ProgressReport(of, what)
    try:
        yield report
    finally:
        if report.listener is not None:
            report.listener.clear(what)
