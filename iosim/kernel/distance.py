"""How far a kernel is from the least: the lower bound at its memory, and the nearest schedule.

``iosim kernel count --solves`` calls it.  A kind of problem is an entry of `_TILES`, beside
`iosim.kernel.roles.TENSORS`.  ``tests/kernel/test_distance.py`` compares with schedules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from iosim.base.errors import InputError
from iosim.bounds import BoundRow, bounds_for, exact_lower_bounds
from iosim.core.algorithms import Algorithm, all_algorithms
from iosim.core.counting.numbers import count
from iosim.core.problem import PROBLEMS
from iosim.core.problem.base import size_names
from iosim.core.program.walk import bind
from iosim.kernel.count import KernelCount
from iosim.kernel.roles import check_roles

# Kind → tensor → the tile parameters of its two axes; the last one of attention is d, all of it.
_TILES = {
    "attention": {"Q": ("B_r", "d"), "K": ("B_c", "d")},
    "matmul": {"A": ("B_m", "B_k"), "B": ("B_k", "B_n")},
}


@dataclass(frozen=True)
class KernelDistance:
    """A kernel compared with a lower bound and with a schedule.

    Attributes:
        problem: what the kernel solves.
        M: words of fast memory that the bound is for: tiles that are live in a program.
        words: that the kernel moves, of the problem's tensors.
        bound: the largest lower bound.
        schedule: the registered schedule with the same tiles whose words are nearest.
        tiles: its tiles.
        differences: (kind, tensor) → words that the kernel moves beyond the schedule's.
        others: (kind, argument) → words of arguments without a role.
        doubts: where the kernel's words and the problem's sizes don't agree.
    """

    problem: Any
    M: int
    words: int
    bound: BoundRow
    schedule: str
    tiles: dict[str, int]
    differences: dict[tuple[str, str], int]
    others: dict[tuple[str, str], int]
    doubts: list[str]

    def to_lines(self) -> Iterator[str]:
        """Sentences."""
        bound = self.bound.words or 0
        yield (
            f"the lower bound {self.bound.name} (class once) for M = {self.M:,} words, live in "
            f"a program: {bound:,.0f} words; the kernel moves {self.words:,}, "
            f"{self.words / bound:.3g} times as many"
        )
        tiles = ", ".join(f"{k} = {v}" for k, v in self.tiles.items())
        moved = [
            f"{kind}s {abs(n):,} words of {tensor} {'more' if n > 0 else 'fewer'}"
            for (kind, tensor), n in self.differences.items()
            if n
        ]
        said = "; ".join(moved) if moved else "the same words of every tensor"
        yield f"compared with {self.schedule} with {tiles}: {said}"
        for (kind, name), words in self.others.items():
            yield f"{kind}s {words:,} words of {name}, which has no role"
        yield from self.doubts

    def to_dict(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "problem": self.problem.as_dict,
            "M": self.M,
            "words": self.words,
            "lower_bound": self.bound.name,
            "lower_bound_words": self.bound.words,
            "schedule": self.schedule,
            "tiles": self.tiles,
            "more": {f"{kind} {tensor}": n for (kind, tensor), n in self.differences.items()},
        }


def measure_distance(
    found: KernelCount, roles: Mapping[str, str], sizes: Mapping[str, Any]
) -> KernelDistance:
    """Compare a kernel's count with bounds and schedules of the problem that it solves.

    Args:
        found: the count.
        roles: tensor → argument: Q, K, V, O of attention, or A, B, C of a product.
        sizes: of the problem, and its options.

    Raises:
        InputError: roles of no problem, a size that is missing or wrong, no schedule.
    """
    kind = check_roles(roles, [name for _, name in found.traffic])
    try:
        problem = PROBLEMS[kind](**sizes)
    except TypeError:
        needed, options = size_names(PROBLEMS[kind]), [o.name for o in PROBLEMS[kind].options()]
        raise InputError(
            f"--solves lacks a size, or has one too many: {kind} has {', '.join(needed)}"
            + (f", and may have {', '.join(options)}" if options else "")
        ) from None
    tensor_of = {argument: tensor for tensor, argument in roles.items()}
    moved = {
        (reference, tensor_of[name]): t.words
        for (reference, name), t in found.traffic.items()
        if name in tensor_of
    }
    tiles = _read_tiles(kind, found, roles, sizes)
    entry, own, words = _find_nearest(problem, tiles, moved)
    M = found.footprint.words
    return KernelDistance(
        problem,
        M,
        sum(moved.values()),
        _largest_bound(kind, problem, M),
        entry.name,
        own,
        {key: moved.get(key, 0) - words.get(key, 0) for key in {**words, **moved}},
        {
            (reference, name): t.words
            for (reference, name), t in found.traffic.items()
            if name not in tensor_of
        },
        list(_find_doubts(problem, found, tensor_of)),
    )


def _find_doubts(problem: Any, found: KernelCount, tensor_of: Mapping[str, str]) -> Iterator[str]:
    """Sentences on tensors of which the kernel refers to more or fewer words than there are."""
    sizes = {
        one.name: math.prod(problem.sizes[axis] for axis in one.axes)
        for one in (*problem.form.inputs, *problem.form.outputs)
    }
    for (kind, name), reuse in found.reuse.items():
        size = sizes.get(tensor_of.get(name, ""))
        if size is not None and reuse.distinct != size:
            yield (
                f"{kind}s {reuse.distinct:,} distinct words of {name}, but {tensor_of[name]} has "
                f"{size:,}: check --solves"
            )


def _read_tiles(
    kind: str, found: KernelCount, roles: Mapping[str, str], sizes: Mapping[str, Any]
) -> dict[str, int]:
    """The schedule's tile parameters by the tiles that the kernel loads."""
    out: dict[str, int] = {}
    for tensor, names in _TILES[kind].items():
        traffic = found.traffic.get(("load", roles[tensor]))
        shape = [n for n in traffic.tile if n > 1] if traffic else []
        if len(shape) != 2:
            raise InputError(
                f"{roles[tensor]} isn't loaded in tiles of two axes: it has no {names[0]}"
            )
        if names[1] == "d":
            d = sizes.get("d")
            out[names[0]] = shape[1] if shape[0] == d and shape[1] != d else shape[0]
        else:
            out |= dict(zip(names, shape, strict=True))
    return out


def _find_nearest(
    problem: Any, tiles: Mapping[str, int], moved: Mapping[tuple[str, str], int]
) -> tuple[Algorithm, dict[str, int], dict[tuple[str, str], int]]:
    """The schedule with these tiles whose words differ least, tensor by tensor."""
    best = None
    for entry in all_algorithms(problem.form):
        program = entry.program_for(problem)
        names = [p.name for p in program.params]
        if not set(names) <= set(tiles):
            continue
        own = {name: tiles[name] for name in names}
        counts = count(bind(program, problem.sizes, own))
        words = {
            (kind, tensor): n
            for kind in ("load", "store")
            for tensor, n in counts.by_tensor(kind).items()
            if n
        }
        far = sum(abs(moved.get(key, 0) - words.get(key, 0)) for key in {**words, **moved})
        if best is None or far < best[0]:
            best = far, entry, own, words
    if best is None:
        raise InputError(f"no schedule of {problem.form.kind} has only tiles {', '.join(tiles)}")
    return best[1:]


def _largest_bound(kind: str, problem: Any, M: int) -> BoundRow:
    rows = (
        exact_lower_bounds(problem, M)
        if kind == "attention"
        else [r for r in bounds_for(problem, M) if r.kind == "lower" and r.words]
    )
    return max(rows, key=lambda row: row.words or 0)
