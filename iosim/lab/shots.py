"""The frames of a schedule's movie: what is resident, what moves, what has been moved.

`iosim.lab.export` calls it; moments come from `iosim.lab.steps`, and pictures are drawn by
`iosim.report.movie`.  ``tests/lab/test_export.py`` compares frames with their moments.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from iosim.base.errors import InputError
from iosim.base.rows import Values
from iosim.core.counting.numbers import count, peak
from iosim.core.counting.show import listing
from iosim.core.problem import Tensor
from iosim.core.program.walk import UNKNOWN, Instance, Transfer
from iosim.lab import steps
from iosim.lab.steps import Moment
from iosim.report.scene import Box, Frame, Panel, Scene

# Seconds that one step takes where a run is shown step by step, and that the last frame stays.
PER_STEP, STAYS = 0.3, 2.0
# A movie is no longer than this if nobody says how long.
SECONDS = 20.0
# A transfer of more boxes than this is shown as the box around them.
_MOST_BOXES = 64


@dataclass(frozen=True)
class Shot:
    """A frame, and for how many frames of the movie it stays."""

    frame: Frame
    frames: int


@dataclass(frozen=True)
class Length:
    """How many frames a movie has, and for how many its last picture stays."""

    frames: int
    stays: int


def length(instance: Instance, fps: int, seconds: float | None = None) -> Length:
    """The length of a movie; arguments as for `shots`."""
    if seconds is None:
        seconds = min(SECONDS, STAYS + PER_STEP * steps.size(instance).steps)
    frames = max(2, round(fps * seconds))
    return Length(frames, max(1, min(round(fps * STAYS), frames // 4)))


def shots(instance: Instance, fps: int, seconds: float | None = None) -> Iterator[Shot]:
    """The frames of a movie.

    Args:
        fps: frames of a second.
        seconds: how long it takes; by default as long as the steps need, at most `SECONDS`.

    Returns an iterator: a frame is made when it is requested.

    A run whose steps all fit is shown step by step.  Of a longer one moments are chosen by the
    words that have been moved: at the beginning every transfer, then more and more between two.
    The last frame has the totals, and stays.
    """
    panels = _matrices(instance)
    size = steps.size(instance)
    total = count(instance).total_words
    if size.transfers == 0:
        raise InputError(f"{instance.program.name} has no transfer here: there is nothing to show")
    long = length(instance, fps, seconds)
    frames = long.frames - long.stays
    if size.steps <= frames:
        moments = steps.every_step(instance)
        ends = [frames * (k + 1) // size.steps for k in range(size.steps)]
    else:
        moments = steps.sampled(instance, targets(total, size.transfers, frames, fps * PER_STEP))
        ends = list(range(1, frames + 1))
    begun, shown = 0, None
    for moment, end in zip(moments, ends, strict=True):
        shown = _frame(moment, panels)
        yield Shot(shown, end - begun)
        begun = end
    assert shown is not None
    final = dict(count(instance))
    yield Shot(
        Frame(line=shown.line, moved=None, trail=shown.trail, resident=(), counts=final, last=True),
        long.stays,
    )


def targets(total: int, transfers: int, frames: int, slow: float) -> Iterator[int]:
    """Words moved at each frame: a transfer takes `slow` frames first, and the last frame has all.

    The words rise evenly where this many transfers fit, and exponentially otherwise.

    >>> list(targets(100, 10, 5, 0.5))
    [20, 40, 60, 80, 100]
    >>> list(targets(1000, 1000, 8, 1.0))
    [2, 6, 14, 34, 79, 185, 431, 1000]
    """
    rate = _rate(frames / (slow * max(1, transfers)))
    for k in range(1, frames + 1):
        part = math.expm1(rate * k / frames) / math.expm1(rate) if rate else k / frames
        yield min(total, max(1, math.ceil(total * part)))


def _rate(first: float) -> float:
    """The a of (eᵃᵗ − 1)/(eᵃ − 1), whose slope at 0 is a/(eᵃ − 1) = `first`; 0 from 1 on."""
    low, high = 0.0, 700.0
    if first >= 1:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle / math.expm1(middle) > first else (low, middle)
    return low


def scene(instance: Instance, M: int | None = None, title: str = "") -> Scene:
    """What all frames share.

    Args:
        M: words of fast memory; by default the peak.
    """
    program = instance.program
    held = peak(instance)
    env, tiles = instance.env, [p.name for p in program.params]
    told = dict.fromkeys([*(x for t in program.tensors for x in t.axes), *env])
    sizes = ", ".join(f"{x} = {env[x]:,}" for x in told if x not in tiles)
    chosen = ", ".join(f"{x} = {env[x]:,}" for x in tiles)
    return Scene(
        title=f"{program.name}: {title}" if title else program.name,
        subtitle=f"{sizes}; {chosen}; M = {held if M is None else M:,} words",
        panels=tuple(m.panel for m in _matrices(instance).values()),
        listing=tuple(code for code, _ in listing(program)),
        M=held if M is None else M,
        peak=held,
        keys=program.keys(),
        total=count(instance).total_words,
    )


@dataclass(frozen=True)
class _Matrix:
    """A tensor as a matrix: all axes but the last are rows; a vector is a column."""

    panel: Panel
    extents: tuple[int, ...]

    def boxes(self, transfer: Transfer) -> tuple[Box, ...]:
        """What a transfer covers; a position that only the data tells may be any."""
        at = [
            (0, extent) if here == UNKNOWN else here
            for here, extent in zip(transfer.ranges, self.extents, strict=True)
        ]
        *rows, columns = at if len(at) > 1 and self.panel.columns > 1 else [*at, (0, 1)]
        *outer, inner = rows
        sizes = self.extents[: len(rows)]
        count = math.prod(stop - start for start, stop in outer)
        if count > _MOST_BOXES:
            first = _row([start for start, _ in rows], sizes)
            last = _row([stop - 1 for _, stop in rows], sizes)
            return ((first, last + 1, *columns),)
        found = []
        for places in itertools.product(*(range(*x) for x in outer)):
            start = _row([*places, inner[0]], sizes)
            found.append((start, start + inner[1] - inner[0], *columns))
        return tuple(found)


def _row(places: list[int], extents: tuple[int, ...]) -> int:
    """The number of a row, of its position on each axis."""
    number = 0
    for place, extent in zip(places, extents, strict=True):
        number = number * extent + place
    return number


def _matrices(instance: Instance) -> dict[str, _Matrix]:
    return {t.name: _matrix(t, instance.env) for t in instance.program.tensors}


def _matrix(tensor: Tensor, env: Mapping[str, int]) -> _Matrix:
    extents = tuple(env[axis] for axis in tensor.axes)
    # A vector for each head is a column, too: its rows are those of the other tensors.
    matrix = len([x for x in extents if x > 1]) > 1 and not tensor.wide
    rows, columns = (math.prod(extents[:-1]), extents[-1]) if matrix else (math.prod(extents), 1)
    names = [axis for axis in tensor.axes if env[axis] > 1] or list(tensor.axes[-1:])
    axes = f"{'·'.join(names[:-1])} × {names[-1]}" if matrix else "·".join(names)
    return _Matrix(Panel(tensor.name, rows, columns, axes), extents)


def _frame(moment: Moment, matrices: Values) -> Frame:
    def boxes(transfer: Transfer) -> tuple[Box, ...]:
        found: tuple[Box, ...] = matrices[transfer.tensor].boxes(transfer)
        return found

    moved = moment.transfer
    before = moment.trail[:-1] if moved is not None else moment.trail
    return Frame(
        line=moment.line,
        moved=None if moved is None else (moved.direction, moved.tensor, boxes(moved)),
        trail=tuple((x.tensor, boxes(x)) for x in before),
        resident=tuple(
            (
                x.name,
                x.words,
                *(("", ()) if x.origin is None else (x.origin.tensor, boxes(x.origin))),
            )
            for x in moment.buffers
        ),
        counts=moment.counts,
    )
