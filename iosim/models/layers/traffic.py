"""Words that an operator moves across a boundary: exact where there is a schedule for it.

A boundary is known by the M of its fast side: what one SM holds at SM↔L2, what the chip holds at
L2↔DRAM.  Products of matrices are the `matmul` schedule with optimal tiles, attention and its
gradients a schedule of attention or of its backward pass, and all else a stream, which reads each
input once and writes each output once.

`iosim.models.fusion`, `iosim.models.roofline`, `iosim.gpu.layers.rows` and the lab ask it.  A kind
of operator says in `iosim.models.operators` which `problem` it solves; `SCHEDULES` has the
schedules that are tried, and other kinds are streams.  ``tests/models/test_roofline_words.py`` has
words by hand.

>>> from iosim.models.operators import operand, operator
>>> s = {"t": 4096, "i": 1024, "u": 4096}
>>> linear = operator("linear", "contraction", [operand("X", "t i", s), operand("W", "i u", s)],
...     [operand("Y", "t u", s)])
>>> sm = moved(linear, 116_736)
>>> sm.loads, sm.stores
({'X': 41943040, 'W': 62914560}, {'Y': 16777216})
>>> sm.how
'matmul, B_m = 274, B_n = 410, B_k = 6'
>>> moved(linear, 2**25).words == linear.words_in + linear.words_out
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from iosim.base.errors import CapacityError, InputError
from iosim.base.validate import check_size
from iosim.core.algorithms import algorithm
from iosim.core.counting.numbers import count
from iosim.core.problem import BlockSparse, MarkedTiles
from iosim.core.program.walk import bind
from iosim.core.tiling import optimal_tiles
from iosim.core.tiling.rules import choose_tiles
from iosim.models.operators import Operator
from iosim.models.operators.base import Solved
from iosim.report.sparsity import sparsity

# Of products, attention and its gradients as one operator, whose scores and their gradients are no
# tensors.  Where nobody chooses: the one that moves the fewest words.
SCHEDULES = {
    "matmul": ("matmul",),
    "attention": ("flash2", "grouped_rows"),
    "attention-backward": ("two_kernels", "flash2_backward", "flash1_backward"),
    "block-sparse": ("block_sparse",),
}


@dataclass(frozen=True)
class Crossing:
    """Words across one boundary.

    Attributes:
        loads, stores: by tensor; scratch of a schedule is called by its operator, too.
        how: the schedule and its tiles, or ``stream``.
        wide: scratch of statistics, whose words have 4 bytes at least.
        least: words that any schedule moves at least that makes each score once; of attention
            under a block mask, None of all else.
    """

    loads: Mapping[str, int]
    stores: Mapping[str, int]
    how: str
    wide: frozenset[str] = frozenset()
    least: int | None = None

    @property
    def words(self) -> int:
        """All of them."""
        return sum(self.loads.values()) + sum(self.stores.values())


def moved(op: Operator, M: int, schedule: str | None = None) -> Crossing:
    """The words of one operator, with a fast memory of M words.

    Args:
        op: the operator.
        M: words of fast memory at the boundary.
        schedule: the name of one for the operator's problem; by default the best of `SCHEDULES`.

    Raises InputError for a schedule where there is none, one that doesn't solve the problem, and an
    M in which nothing fits.
    """
    M = check_size("M", M)
    if op.kind.problem is None:
        if schedule is not None:
            raise InputError(f"{op.name} is a stream: it has no schedule to choose")
        return _stream(op, M)
    blocks = dict(op.settings).get("blocks")
    try:
        found = [
            (times, problem, _best(schedule, problem, M, blocks))
            for times, problem in op.kind.problem(op)
        ]
    except InputError as error:
        raise InputError(f"{op.name}: {error}") from None
    return _sum(op, found)


def _stream(op: Operator, M: int) -> Crossing:
    along = [t for t in op.reads if set(op.over) <= set(t.names)]
    row = math.prod(op.sizes[a] for a in op.over)
    twice = op.kind.again and row * len(along) > M
    loads = {
        x: n * (1 + (twice and any(t.name == x for t in along)))
        for x, (n, _) in op.words.items()
        if n
    }
    stores = {x: n for x, (_, n) in op.words.items() if n}
    return Crossing(loads, stores, "stream, rows read twice" if twice else "stream")


def _sum(op: Operator, solved: Sequence[tuple[int | Fraction, Solved, _ByTensor]]) -> Crossing:
    """Words of problems under the names of an operator's tensors; others cross once.

    Words of an output that no problem writes are 0: they are stored once.  Expected words are
    rounded to the nearest integer.
    """
    reads = op.reads if op.kind.inputs is None else op.kind.inputs(op)
    form = solved[0][1].form
    own = {
        x.name: t.name
        for tensors, known in ((reads, form.inputs), (op.writes, form.outputs))
        for t, x in zip(tensors, known, strict=False)
    }

    def under(by: str, others: Mapping[str, int | Fraction]) -> dict[str, int]:
        found = dict(others)
        for times, _, words in solved:
            for x, n in getattr(words, by).items():
                name = own.get(x, f"{op.name}: {x}")
                found[name] = found.get(name, 0) + times * n
        return {name: round(n) for name, n in found.items() if n}

    unwritten: dict[str, int | Fraction] = {t.name: t.words for t in op.writes}
    for times, problem, _ in solved:
        for x in form.outputs:
            unwritten[own[x.name]] -= times * math.prod(problem.sizes[a] for a in x.axes)
    wide = frozenset(f"{op.name}: {x}" for _, _, by in solved for x in by.wide)
    how = "; ".join(dict.fromkeys(by.how for _, _, by in solved))
    loads = under("loads", {t.name: t.words for t in reads[len(form.inputs) :]})
    return Crossing(loads, under("stores", unwritten), how, wide, solved[0][2].least)


@dataclass(frozen=True)
class _ByTensor:
    loads: Mapping[str, int]
    stores: Mapping[str, int]
    how: str
    wide: frozenset[str]
    least: int | None

    @property
    def words(self) -> int:
        return sum(self.loads.values()) + sum(self.stores.values())


def _best(schedule: str | None, problem: Solved, M: int, blocks: MarkedTiles | None) -> _ByTensor:
    if schedule is not None:
        return _by_tensor(schedule, problem, M, blocks)
    able = [x for x in SCHEDULES[problem.kind] if algorithm(x).supports(problem.form)]
    found: list[_ByTensor] = []
    too_small: list[CapacityError] = []
    for x in able:
        try:
            found.append(_by_tensor(x, problem, M, blocks))
        except CapacityError as error:
            too_small.append(error)
    if not found:
        raise too_small[0]
    return min(found, key=lambda by: by.words)


@lru_cache(maxsize=4096)
def _by_tensor(schedule: str, problem: Solved, M: int, blocks: MarkedTiles | None) -> _ByTensor:
    chosen, least = algorithm(schedule), None
    program = chosen.program_for(problem)
    if blocks is None:
        tiles = optimal_tiles(program, problem, M).tiles
        instance = bind(program, problem.sizes, tiles)
    else:
        assert isinstance(problem, BlockSparse)
        typed = ",".join(f"{name}={size}" for name, size in blocks.tiles.items())
        choice = choose_tiles(chosen, problem, M, typed, {"blocks": blocks.mask})
        instance, tiles = choice.instance, choice.tiles
        least = int(sparsity(problem, M, blocks.tiles, blocks.mask).bound)
    counts = count(instance)
    said = ", ".join([schedule, *(f"{k} = {v}" for k, v in tiles.items())])
    wide = frozenset(t.name for t in program.tensors if t.wide)
    return _ByTensor(counts.by_tensor("load"), counts.by_tensor("store"), said, wide, least)
