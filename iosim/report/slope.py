"""Words against capacity: a schedule at its best tiles, one program in caches, and the lower bound.

The curves fall as a ski slope does, and are known by that name.  A schedule may choose other tiles
for each capacity; the program in a cache stays as it is, and the cache decides what is kept.

An operation is atomic: it touches each word of its operands once, whatever its inner loops would
do.  So what a cache moves means something from the capacity on that holds the operands of the
largest operation, and is given from there on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from iosim.bounds import exact_lower_bounds
from iosim.cache import Cache, Stream, curve, replay_many, touches
from iosim.cache.address_map import extent
from iosim.core.algorithms import Algorithm
from iosim.core.program.index import Dim, cut, dims
from iosim.core.program.ir import Alloc, Load, Loop, Node, Op, Ref
from iosim.core.program.space import inside, resolved, step
from iosim.core.program.walk import Instance
from iosim.core.tiling import best_counts

Rows = list[dict[str, Any]]

# What ``iosim cache --out`` writes.
FILES = ("slope.csv", "slope.png", "slope.svg")
EACH = 4  # capacities from one power of two to the next; OPT is replayed at powers of two


def slope(
    found: Algorithm,
    problem: Any,
    instance: Instance,
    *,
    stream: Stream | None = None,
    tick: Callable[[int, int], None] = lambda done, of: None,
) -> Rows:
    """Words between fast memory, or a cache, and the memory behind it, in the model.

    Args:
        found: the schedule, which chooses its tiles for each capacity.
        problem: what it solves.
        instance: the program that caches run.
        stream: its references; none: `touches` of it.
        tick: called with how many of the four series are done.

    Returns:
        Rows with ``series`` (bound, explicit, lru, opt), ``capacity``, ``loads`` and ``words``,
        which are loads and stores; of a bound words alone.  Capacities are about `EACH` for
        each power of two, from a quarter of the largest operation up to where LRU moves least.

    >>> from iosim import Attention, algorithm, bind
    >>> flash2, problem = algorithm("flash2"), Attention(16, 4)
    >>> rows = slope(flash2, problem, bind(flash2.program, problem.sizes, {"B_r": 8, "B_c": 4}))
    >>> [row["words"] for row in rows if row["capacity"] == 128]
    [256.0, 384, 656, 592]
    """
    references = touches(instance) if stream is None else stream
    steps = curve(references)
    low = max(2, largest_operation(instance) // 4).bit_length() - 1
    high = max(low + 1, int(steps.capacities[-1]).bit_length())
    fine = sorted({round(2 ** (k / EACH)) for k in range(EACH * low, EACH * high + 1)})
    made = allocated(found, problem, fine)
    tick(2, 4)
    made += cached(instance, "lru", fine, references)
    tick(3, 4)
    made += cached(instance, "opt", fine[::EACH], references)
    tick(4, 4)
    order = ("bound", "explicit", "lru", "opt")
    return sorted(made, key=lambda row: order.index(row["series"]))


def allocated(found: Algorithm, problem: Any, capacities: Sequence[int]) -> Rows:
    """The largest lower bound of the schedule's class, and the schedule where any tiles fit."""
    made: Rows = []
    for M in capacities:
        rows = exact_lower_bounds(problem, M, found.classes[0])
        words = max((row.words or 0.0 for row in rows), default=0.0)
        made.append(_row("bound", M, "", words))
    best = best_counts(found.program_for(problem), problem, capacities)
    made += [_row("explicit", M, x.load_words, x.total_words) for M, x in best.items()]
    return made


def cached(
    instance: Instance, policy: str, capacities: Sequence[int], stream: Stream | None = None
) -> Rows:
    """What a fully associative cache of words moves: by LRU, or by OPT with bypass."""
    references = touches(instance) if stream is None else stream
    some = [c for c in capacities if c >= largest_operation(instance)]
    if policy == "opt":
        caches = [Cache(capacity=c, policy=policy, bypass=True) for c in some]
        moved = replay_many(references, caches)
        return [_row(policy, c, x.loads, x.words) for c, x in zip(some, moved, strict=True)]
    steps = curve(references, policy)
    assert steps.write_backs is not None
    assert steps.flush is not None
    words = steps.loads + steps.write_backs + steps.flush
    at = [(c, steps.step(c)) for c in some]
    return [_row(policy, c, int(steps.loads[k]), int(words[k])) for c, k in at]


def _row(series: str, capacity: int, loads: Any, words: Any) -> dict[str, Any]:
    return {"series": series, "capacity": capacity, "loads": loads, "words": words}


def largest_operation(instance: Instance) -> int:
    """The most words that one operation's operands are, each once; 0 without operations.

    Of each loop the first, the middle and the last iteration are looked at: a mask or a window cuts
    tiles short at either end.

    >>> from iosim import Attention, algorithm, bind
    >>> flash2 = algorithm("flash2").program  # q and k of d words, or o and v; s, m and l
    >>> largest_operation(bind(flash2, Attention(256, 32).sizes, {"B_r": 1, "B_c": 1}))
    67
    """
    return max(_operations(instance, instance.program.body, instance.env, {}), default=0)


def _operations(
    instance: Instance,
    body: Sequence[Node],
    env: Mapping[Any, Any],
    held: Mapping[str, tuple[Dim, ...]],
) -> Iterator[int]:
    """The words of the operations in three iterations of each loop."""
    resident = dict(held)
    for node in body:
        match node:
            case Loop():
                start, stop = resolved(node.span, env)
                at = range(start, stop, step(node, env))
                for k in {0, len(at) // 2, len(at) - 1} if at else ():
                    inner = inside(env, node.tile, (at[k], min(at[k] + at.step, stop)))
                    yield from _operations(instance, node.body, inner, resident)
            case Load() | Alloc():
                resident[node.buffer] = dims(node.index)
            case Op():
                yield sum(_words(ref, resident, env) for ref in dict.fromkeys(node.operands))


def _words(ref: Ref, held: Mapping[str, tuple[Dim, ...]], env: Mapping[Any, Any]) -> int:
    of: tuple[Any, ...] = cut(held[ref.buffer], ref.part)
    return math.prod(extent(x, env) for x in of)
