"""Progress on stderr: on a terminal one line, written over; elsewhere a line now and then."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Seconds between two updates, and before the first one, so that what is quick shows nothing.
PAUSE = 0.2
# The same where stderr is no terminal, but a file or a pipe, and nothing can be written over; and
# the least share of all seconds so far, so that a run of hours doesn't fill a log.
PAUSE_OF_LINES, SHARE = 10.0, 0.1


@contextmanager
def watching() -> Iterator[Callable[[Callable[[float], str]], None]]:
    """A function that shows a line now and then; on a terminal the line is removed at the end.

    It is given a function that makes the line from the seconds since the beginning, which is called
    only when the line is shown.
    """
    over = sys.stderr.isatty()
    began = last = time.monotonic()
    wide = 0

    def show(line: Callable[[float], str]) -> None:
        nonlocal last, wide
        now = time.monotonic()
        if now - last < (PAUSE if over else max(PAUSE_OF_LINES, SHARE * (now - began))):
            return
        last = now
        text = line(now - began)
        if not over:
            print(f"iosim: {text}", file=sys.stderr, flush=True)
            return
        # A line that wraps could not be written over.
        text = text[: shutil.get_terminal_size().columns - 1]
        print("\r" + text.ljust(wide), end="", file=sys.stderr, flush=True)
        wide = len(text)

    try:
        yield show
    finally:
        if wide:
            print("\r" + " " * wide + "\r", end="", file=sys.stderr, flush=True)


def part_done(done: int, of: int, what: str, before: int = 0) -> Callable[[float], str]:
    """The line ``3 of 7 points, 12 s, about 16 s left``; `before` were done when it began."""

    def line(seconds: float) -> str:
        here = done - before
        left = f", about {seconds * (of - done) / here:.0f} s left" if here else ""
        return f"{done:,} of {of:,} {what}, {seconds:.0f} s{left}"

    return line
