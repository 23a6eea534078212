"""Progress on stderr: on a terminal one line, written over; elsewhere a line now and then."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Seconds between two updates, and before the first one, so that what is quick shows nothing.
PAUSE = 0.2
# The same where stderr is not a terminal, but a file or a pipe, and nothing can be written over;
# and the least share of all seconds so far, so that a run of hours doesn't fill a log.
PAUSE_OF_LINES, SHARE = 10.0, 0.1


class Progress:
    """Shows a line now and then; on a terminal each one takes the place of the last."""

    def __init__(self) -> None:
        self.over = sys.stderr.isatty()
        self.began = self.last = time.monotonic()
        self.wide = 0

    def __call__(self, line: Callable[[float], str]) -> None:
        """Show a line if it is time: `line` makes it from the seconds since the beginning."""
        now = time.monotonic()
        pause = PAUSE if self.over else max(PAUSE_OF_LINES, SHARE * (now - self.began))
        if now - self.last < pause:
            return
        self.last = now
        text = line(now - self.began)
        if not self.over:
            print(f"iosim: {text}", file=sys.stderr, flush=True)
            return
        # A line that wraps could not be written over.
        text = text[: shutil.get_terminal_size().columns - 1]
        print("\r" + text.ljust(self.wide), end="", file=sys.stderr, flush=True)
        self.wide = len(text)

    def clear(self) -> None:
        """Remove the line from a terminal, before something else is printed there."""
        if self.wide:
            print("\r" + " " * self.wide + "\r", end="", file=sys.stderr, flush=True)
            self.wide = 0


@contextmanager
def watching() -> Iterator[Progress]:
    """A `Progress` whose line is removed at the end."""
    progress = Progress()
    try:
        yield progress
    finally:
        progress.clear()


class ProgressDisplay:
    """Listens to loops (`iosim.base.progress`), and shows each as a `Progress` of its own.

    A loop within another one is not shown: its place is the outer one's line.
    """

    def __init__(self) -> None:
        self.progress: Progress | None = None
        self.what, self.process = "", os.getpid()

    def show(self, done: int, of: int | None, what: str) -> None:
        """Show how far a loop is, if it is time; workers that were forked are silent."""
        if os.getpid() != self.process:
            return
        if self.progress is None:
            self.progress, self.what = Progress(), what
        if what == self.what:
            self.progress(so_many(done, what) if of is None else part_done(done, of, what))

    def wipe(self) -> None:
        """Remove the line, before something is printed in its place."""
        if self.progress is not None:
            self.progress.clear()

    def clear(self, what: str) -> None:
        """Remove a loop's line for good: it has ended."""
        if what == self.what:
            self.wipe()
            self.progress = None


def so_many(done: int, what: str) -> Callable[[float], str]:
    """The line ``1,200 sets, 12 s``, of a loop whose end nobody knows."""
    return lambda seconds: f"{done:,} {what}, {seconds:.0f} s"


def part_done(done: int, of: int, what: str, before: int = 0) -> Callable[[float], str]:
    """The line ``3 of 7 points, 12 s, about 16 s left``; `before` were done when it began."""

    def line(seconds: float) -> str:
        here = done - before
        left = f", about {seconds * (of - done) / here:.0f} s left" if here else ""
        return f"{done:,} of {of:,} {what}, {seconds:.0f} s{left}"

    return line
