"""Programs counted in all ways, one of which is a walk over positions that shares no code."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

import iosim
from iosim.base.dtypes import word_bytes
from iosim.core.program.index import Edge, Span, Tile, dims
from iosim.core.program.ir import Alloc, Free, Load, Loop, Store, nodes
from iosim.core.program.walk import walk
from iosim.core.trace import tally


def by_walking(
    program: Any, sizes: dict[str, int], tiles: dict[str, int], seen: Any = None, masks: Any = None
) -> tuple[Any, int]:
    """Words and peak from a walk that shares no code with iosim: position by position."""
    number: dict[Any, int] = {}
    env: dict[Any, int] = sizes | {
        p.name: min(tiles[p.name], sizes[p.axis]) for p in program.params
    }
    moved: Counter[Any] = Counter()
    held: dict[str, int] = {}
    peak = 0

    def value(affine: Any, at: dict[Any, int]) -> int:
        return affine.const + sum(c * at[name] for name, c in affine.terms)

    def positions(x: Any, at: dict[Any, int]) -> list[int]:
        if isinstance(x, Tile):
            return list(range(at[Edge(x, "start")], at[Edge(x, "stop")]))
        low, high = value(x.start, at), value(x.stop, at)
        first, last = (0, at[x.axis]) if x.within is None else (value(b, at) for b in x.within)
        return [p for p in range(at[x.axis]) if low <= p < high and first <= p < last]

    def run(body: Any, at: dict[Any, int]) -> None:
        nonlocal peak
        for node in body:
            if isinstance(node, Loop):
                rest = positions(node.span, at)
                by = 1 if node.step is None else at[node.step]
                count = 0
                while rest:
                    mine, rest = rest[:by], rest[by:]
                    number[node.tile], count = count, count + 1
                    marks = node.marks
                    if marks and not masks[marks.name][number[marks.rows]][number[node.tile]]:
                        continue
                    edges = {
                        Edge(node.tile, "start"): mine[0],
                        Edge(node.tile, "stop"): mine[-1] + 1,
                    }
                    run(node.body, at | edges)
            elif isinstance(node, Free):
                del held[node.buffer]
            elif isinstance(node, (Load, Store, Alloc)):
                words = 1
                for x in node.index:
                    words *= len(positions(x, at))
                if not isinstance(node, Alloc):
                    moved["load" if isinstance(node, Load) else "store", node.tensor] += words
                if not isinstance(node, Store):
                    held[node.buffer] = words
                    peak = max(peak, sum(held.values()))
                    if seen is not None:
                        seen(sum(held.values()), dict(held), at)

    run(program.body, env)
    return moved, peak


def agree(
    program: Any,
    sizes: dict[str, int],
    tiles: dict[str, int],
    formula: Any = None,
    masks: Any = None,
) -> tuple[Any, int]:
    """Words and peak, which are the same from the walk, the machine, its stream, and closed forms.

    What the machine computes is the same one iteration after the other and many at once.

    Args:
        formula: the program's, in sympy; without it, that way is left out.
        masks: its block masks.
    """
    moved, top = by_walking(program, sizes, tiles, masks=masks)
    instance = iosim.bind(program, sizes, tiles, masks)
    counts = iosim.count(instance)
    assert {k: v for k, v in counts if v} == {k: v for k, v in moved.items() if v}
    assert iosim.peak(instance) == top
    rng = np.random.default_rng(0)
    shapes = {t.name: [sizes[axis] for axis in t.axes] for t in program.tensors}
    hbm = {name: rng.integers(-3, 4, shape) * 1.0 for name, shape in shapes.items()}
    with np.errstate(all="ignore"):
        runs = [
            iosim.simulate(instance, iosim.Machine(max(1, top)), hbm, lanes=lanes)
            for lanes in (1, 17, 2**18)
        ]
    for run in runs:
        assert (run.counts, run.peak_words) == (counts, top)
        for name, one_by_one in runs[0].outputs.items():
            np.testing.assert_allclose(run.outputs[name], one_by_one, rtol=1e-9)
    assert tally(instance) == counts
    columns = instance.env if masks else sizes | tiles
    many = iosim.count_many(program, columns)
    assert {key: int(words) for key, words in many.items()} == dict(counts)
    assert int(iosim.peak_many(program, columns)) == top
    if formula is not None:
        assert formula.at(sizes, tiles, *([masks] if masks else [])) == (counts, top)
    return counts, top


def sectors(instance: Any, dtype: str) -> dict[Any, int]:
    """Bytes of the 32-byte sectors that every request touches: one for every row of a tile, and
    one for every 32 words of a vector, or of a row where spans follow a tile."""
    found: dict[Any, int] = {}
    moves = [n for n in nodes(instance.program.body) if isinstance(n, Load | Store)]
    vectors = {n.tensor for n in moves if len(dims(n.index)) == 1}
    loops = [n for n in nodes(instance.program.body) if isinstance(n, Loop)]
    spans = [n.span for n in loops] + [x for n in moves for x in n.index if isinstance(x, Span)]
    follows = any(span.edges for span in spans)
    for t in walk(instance):
        *rows, (start, stop) = t.ranges
        word = word_bytes(dtype, instance.program.tensor(t.tensor).wide)
        request = 32 if follows or t.tensor in vectors else stop
        touched = len({(p * word // 32, (p - start) // request) for p in range(start, stop)})
        key = (t.direction, t.tensor)
        found[key] = found.get(key, 0) + 32 * touched * math.prod(b - a for a, b in rows)
    return found
