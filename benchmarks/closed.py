"""How long LRU's closed form takes at N = 10⁶: `python benchmarks/closed.py`.

Times are milliseconds of the processor, since machines are shared, and the best of some runs
counts.  What a program references is known beforehand: it is kept from one instance to the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import thresholds

import iosim
from iosim.cache import closed

SIZE = thresholds.size(10**6, 1000)
# Thresholds, in milliseconds: for what is known once of an instance, and for each capacity then.
RULES, CAPACITY = 500, 2
CAPACITIES = [2**k for k in range(8, thresholds.size(24, 10))]


def cases() -> dict[str, iosim.Instance]:
    """The instances, by what a table calls them; tiles that divide the axes, and that don't."""
    attention, product = iosim.Attention(SIZE, 64), iosim.MatMul(m=SIZE, n=SIZE, k=SIZE)
    some: list[tuple[str, Any, dict[str, int]]] = [
        ("flash2", attention, {"B_r": 100, "B_c": 50}),
        ("flash2", attention, {"B_r": 128, "B_c": 64}),
        ("flash1", attention, {"B_r": 128, "B_c": 64}),
        ("flash2_keep", attention, {"B_r": 128, "B_c": 64, "W": 1000}),
        ("small_cache", attention, dict.fromkeys(("B_r1", "B_c1", "B_r2", "B_c2"), 96)),
        ("matmul", product, {"B_m": 100, "B_n": 100, "B_k": 10}),
        ("matmul", product, {"B_m": 96, "B_n": 96, "B_k": 7}),
    ]
    found = {}
    for name, problem, tiles in some:
        program = iosim.algorithm(name).program
        given = {p.name: p.least for p in program.params} | tiles
        at = " × ".join(map(str, tiles.values()))
        found[f"{name}, tiles {at}"] = iosim.bind(program, problem.sizes, given)
    return found


def best(run: Callable[[], Any], times: int = 7) -> float:
    """Milliseconds of the quickest of some runs."""
    took = []
    for _ in range(thresholds.rounds(times)):
        start = time.process_time()
        run()
        took.append(time.process_time() - start)
    return 1e3 * min(took)


def loads(rules: Sequence[closed.Reuse]) -> list[int]:
    """LRU's loads at all capacities."""
    return [closed.loads(rules, capacity) for capacity in CAPACITIES]


def main() -> None:
    """Print a table."""
    print(f"{'instance':36} {'accesses':>24} {'rules':>6} {'ms, rules':>10} {'ms, capacity':>13}")
    for name, instance in cases().items():
        rules = closed.reuse(instance)
        accesses = sum(rule.accesses for rule in rules)
        once = best(partial(closed.reuse, instance))
        each = best(partial(loads, rules)) / len(CAPACITIES)
        thresholds.at_most(f"{name}: rules", once, RULES, "ms")
        thresholds.at_most(f"{name}: a capacity", each, CAPACITY, "ms")
        print(f"{name:36} {accesses:24,} {len(rules):6} {once:10.1f} {each:13.3f}", flush=True)


if __name__ == "__main__":
    thresholds.script(__doc__, main)
