"""Progress: one line on stderr, written over, and nothing where that is no terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Seconds between two updates, and before the first one: what is quick shows nothing.
PAUSE = 0.2


@contextmanager
def watching() -> Iterator[Callable[[Callable[[float], str]], None]]:
    """A function that shows a line now and then; the line is removed at the end.

    It is given a function that makes the line from the seconds since the beginning, which is called
    only when the line is shown.
    """
    watched = sys.stderr.isatty()
    began = last = time.monotonic()
    wide = 0

    def show(line: Callable[[float], str]) -> None:
        nonlocal last, wide
        if not watched or (now := time.monotonic()) - last < PAUSE:
            return
        last = now
        # A line that wraps could not be written over.
        text = line(now - began)[: shutil.get_terminal_size().columns - 1]
        print("\r" + text.ljust(wide), end="", file=sys.stderr, flush=True)
        wide = len(text)

    try:
        yield show
    finally:
        if wide:
            print("\r" + " " * wide + "\r", end="", file=sys.stderr, flush=True)


def part_done(done: int, of: int, what: str) -> Callable[[float], str]:
    """The line ``3 of 7 points, 12 s, about 16 s left``."""

    def line(seconds: float) -> str:
        left = f", about {seconds * (of - done) / done:.0f} s left" if done else ""
        return f"{done:,} of {of:,} {what}, {seconds:.0f} s{left}"

    return line
