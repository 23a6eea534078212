"""A training step: a forward schedule that stores L, then a backward schedule that reads it.

L, the log Σ exp of each row's scores, is a word a row: all that the backward pass needs of the row
statistics.  Both passes have the same M, and tiles of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from iosim.base.errors import InputError
from iosim.base.rows import Row, Rows
from iosim.base.validate import check_size
from iosim.core.algorithms import Algorithm, algorithm
from iosim.core.counting.numbers import count, peak
from iosim.core.counts import Counts
from iosim.core.machine import Machine, Run, simulate
from iosim.core.problem import Attention, AttentionBackward
from iosim.core.program.walk import Instance
from iosim.core.tiling.rules import choose_tiles
from iosim.core.units import bytes_of
from iosim.report.tightness import best_schedule


@dataclass(frozen=True)
class StepPass:
    """One pass of a step: a schedule with its tiles, and what it moves.

    Attributes:
        problem: what it solves.
        tiles: clipped to their axes.
        counts: words by direction and tensor.
        peak: the most words that are held at once.
        remark: what people should know of the tiles.
    """

    algorithm: Algorithm
    problem: Attention | AttentionBackward
    instance: Instance
    tiles: dict[str, int]
    counts: Counts
    peak: int
    remark: str = ""

    def as_dict(self) -> Row:
        """Its part of what ``iosim step --json`` prints."""
        return {
            "algorithm": self.algorithm.name,
            "tiles": self.tiles,
            "load_words": self.counts.load_words,
            "store_words": self.counts.store_words,
            "total_words": self.counts.total_words,
            "peak_words": self.peak,
            "by_tensor": {x: self.counts.by_tensor(x) for x in ("load", "store")},
        }

    def moved_bytes(self, dtype: str) -> int:
        """Bytes that it moves; row statistics have 4 each at least."""
        return sum(bytes_of(self.counts, self.instance.program.tensors, dtype).values())


@dataclass(frozen=True)
class TrainingStep:
    """A forward and a backward pass in the same M.

    >>> from iosim.core.problem import Attention
    >>> found = training_step(Attention(1024, 64), 24576, "flash2", "two_kernels")
    >>> found.forward.counts["store", "L"], found.backward.counts["load", "L"]
    (1024, 12288)
    >>> found.words == found.forward.counts.total_words + found.backward.counts.total_words
    True
    """

    M: int
    forward: StepPass
    backward: StepPass

    @property
    def passes(self) -> dict[str, StepPass]:
        """Both, by name."""
        return {"forward": self.forward, "backward": self.backward}

    @property
    def words(self) -> int:
        """Loads and stores of both."""
        return sum(one.counts.total_words for one in self.passes.values())

    def rows(self) -> Rows:
        """A row for each tensor, with its words by pass and direction, and the sums."""
        names = sorted({t for one in self.passes.values() for (_, t), _ in one.counts})
        found = []
        for name in (*names, "total"):
            words = {
                f"{which}_{way}_words": sum(
                    n
                    for (moved, tensor), n in one.counts
                    if moved == way and name in (tensor, "total")
                )
                for which, one in self.passes.items()
                for way in ("load", "store")
            }
            found.append({"tensor": name, **words, "words": sum(words.values())})
        return found


def training_step(
    problem: Attention,
    M: int,
    forward: str = "",
    backward: str = "",
    forward_tiles: str = "auto",
    backward_tiles: str = "auto",
) -> TrainingStep:
    """The words of a training step.

    Args:
        problem: the forward pass, of which L is stored whether `statistics` is given or not.
        M: words of fast memory, of both passes.
        forward, backward: names of schedules; left out, those that move the fewest words.
        forward_tiles, backward_tiles: as `iosim.core.tiling.rules.choose_tiles` reads them.

    Raises InputError for a schedule that solves another problem or lacks an option, CapacityError
    where tiles don't fit.

    >>> from iosim.core.problem import Attention
    >>> training_step(Attention(1024, 64), 24576).backward.algorithm.name
    'two_kernels'
    """
    M = check_size("M", M)
    if not isinstance(problem, Attention):
        raise InputError(f"a step is one of attention, got {problem!r}: give iosim.Attention")
    first = replace(problem, statistics=True)
    return TrainingStep(
        M,
        _pass(forward, first, M, forward_tiles),
        _pass(backward, AttentionBackward.from_forward(first), M, backward_tiles),
    )


def _pass(name: str, problem: Any, M: int, how: str) -> StepPass:
    found = algorithm(name or best_schedule(problem, M).algorithm)
    choice = choose_tiles(found, problem, M, how)
    counts, top = count(choice.instance), peak(choice.instance)
    return StepPass(found, problem, choice.instance, choice.tiles, counts, top, choice.remark)


def run_step(one: TrainingStep, seed: int = 0) -> tuple[Run, Run]:
    """Run both passes on the strict machine: the backward pass gets O and L of the forward pass.

    >>> from iosim import max_error
    >>> from iosim.core.problem import Attention
    >>> found = training_step(Attention(20, 4), 60, "flash2", "flash2_backward")
    >>> forward, backward = run_step(found)
    >>> problem = found.backward.problem
    >>> max_error(backward.outputs, problem.reference(problem.random())) < 1e-12
    True
    """
    random = one.backward.problem.random(seed)
    first = simulate(
        one.forward.instance, Machine(max(one.M, one.forward.peak)), {x: random[x] for x in "QKV"}
    )
    given = {x: first.outputs[x] for x in ("O", "L")}
    machine = Machine(max(one.M, one.backward.peak))
    return first, simulate(one.backward.instance, machine, random | given)
