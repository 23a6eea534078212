"""No policy moves fewer words than the lower bounds, and what the theorem says of a cache.

A bound counts the loads and stores of any computation in fast memory of M words.  What a cache of
C words moves is one, where M is C and what **passes by**: words that the operation under way has
read, still needs, and the cache no longer holds, or never took in (`bypass`, and policies that let
a word go in the middle of an operation).  At most all words of one operation pass by; none do where
LRU has room for an operation.  Words count as stored where they are written back and then read
again, or are the result: writing back what nobody reads is not part of the computation, and a bound
says nothing of it.  So for every policy, with and without bypass, ::

    loads + write-backs + flush  ≥  loads + stores that count  ≥  bound(C + words that pass by)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples
from test_cache_replay import ALL_DRAWN, ORDERS, Order
from touch_oracle import Walker

import iosim
from iosim.bounds import best_lower_bound
from iosim.cache import POLICIES, Cache, Traffic, curve, replay, touches
from iosim.core.counting.numbers import peak
from iosim.core.program.ir import Op
from iosim.core.program.walk import Instance
from iosim.report.slope import largest_operation


class Steps(Walker):
    """The references, and how long each word that is read is needed.

    An operation needs what it reads until it ends; a copy needs a word until that is written.
    """

    def __init__(self, instance: Instance) -> None:
        self.until: list[int] = []
        self.widest = {True: 0, False: 0}  # distinct words of one operation; of one copy
        super().__init__(instance)

    def node(self, node: Any, after: Any) -> None:
        start = len(self.found)
        super().node(node, after)
        step = self.found[start:]
        reads = sum(not write for *_, write in step)
        operates = isinstance(node, Op)
        copies = not operates and 2 * reads == len(step)
        self.widest[operates] = max(self.widest[operates], len({x[:-1] for x in step}))
        for k in range(len(step)):
            self.until.append(start + (reads + k % reads if copies else len(step) - 1))


class Farthest(Order):
    """Belady's choice among words, and who leaves among equals: dead words, clean ones first."""

    def __init__(self, uses: dict[int, tuple[int, int]], dirty: dict[int, bool]) -> None:
        self.uses, self.dirty = uses, dirty

    def enter(self, line: int) -> None: ...

    def far(self, line: int, soiled: bool) -> tuple[int, int]:
        kind, at = self.uses[line]
        return (2, -soiled) if kind == 2 else (kind, at)

    def leave(self) -> int:
        return max(self.dirty, key=lambda x: self.far(x, self.dirty[x]))


@dataclass(frozen=True)
class Served:
    """What a cache moved; the words that count; the most words that passed by."""

    moved: Traffic
    counted: int
    passing: int


def served(steps: Steps, cache: Cache) -> Served:
    """One access after the other; shares no code with `iosim.cache`."""
    numbers: dict[Any, int] = {}
    line = [numbers.setdefault(word[:-1], len(numbers)) for word in steps.found]
    writes = [write for *_, write in steps.found]
    results = {n for (kind, name, _), n in numbers.items() if kind == "tensor" and name in "OC"}
    # The next access of the same word: 0 a read, 1 a write, 2 none.
    after: list[tuple[int, int]] = [(2, 0)] * len(line)
    seen: dict[int, tuple[int, int]] = {}
    for now in range(len(line) - 1, -1, -1):
        after[now] = seen.get(line[now], (2, 0))
        seen[line[now]] = (int(writes[now]), now)
    uses: dict[int, tuple[int, int]] = {}
    dirty: dict[int, bool] = {}
    opt = cache.policy == "opt"
    ALL_DRAWN.clear()
    order = Farthest(uses, dirty) if opt else ORDERS[cache.policy](cache.capacity, cache.seed)
    needed: dict[int, int] = {}  # a word that was read, and until when
    absent: set[int] = set()  # those of them that the cache has not
    misses = loads = back = counted = passing = 0

    def goes(x: int) -> int:
        kind, _ = uses[x]
        return int(kind == 0 or (kind == 2 and x in results))

    for now, (x, write) in enumerate(zip(line, writes, strict=True)):
        uses[x] = after[now]
        if not write:
            needed[x] = max(steps.until[now], needed.get(x, 0))
        if x in dirty:
            order.hit(x)
            dirty[x] |= write
        else:
            misses += 1
            loads += not write
            out: int | None = None
            if len(dirty) == cache.capacity:
                out = order.leave()
                if cache.bypass and (
                    after[now][0] == 2 or order.far(x, write) > order.far(out, dirty[out])
                ):
                    out = x
            if out != x:
                order.enter(x)
                absent.discard(x)
            if out is not None:
                soiled = write if out == x else dirty.pop(out)
                back += soiled
                counted += soiled and goes(out)
                absent.add(out)
            if out != x:
                dirty[x] = write
        absent = {y for y in absent if needed.get(y, -1) >= now}
        passing = max(passing, len(absent))
    flush = sum(dirty.values())
    counted += loads + sum(goes(x) for x, soiled in dirty.items() if soiled)
    moved = Traffic(accesses=len(line), misses=misses, loads=loads, write_backs=back, flush=flush)
    return Served(moved, counted, passing)


BoundOf = Callable[[Any, int], float]


def proved(problem: Any, M: int) -> float:
    return best_lower_bound(problem, M).words


def too_high(problem: Any, M: int) -> float:
    return 1.3 * proved(problem, M)


def compulsory(problem: Any) -> float:
    """The bound that stays where everything fits."""
    return proved(problem, 2**40)


def holds(instance: Instance, problem: Any, caches: list[Cache], low: BoundOf = proved) -> None:
    """The theorem above, for each cache; and the replay moves what the dumb cache moves."""
    steps, stream = Steps(instance), touches(instance)
    assert largest_operation(instance) == steps.widest[True]
    for cache in caches:
        found = served(steps, cache)
        assert replay(stream, cache) == found.moved
        assert found.counted <= found.moved.words
        assert found.passing <= max(steps.widest.values())
        if cache.policy == "lru" and cache.capacity >= steps.widest[True]:
            assert found.passing == 0
        least = low(problem, cache.capacity + found.passing)
        assert found.counted >= least, f"below the bound: {cache}"


def of_policy(policy: str, capacity: int) -> list[Cache]:
    """Both kinds of OPT; of a tree, as many ways as it can have."""
    if POLICIES[policy].binary:
        capacity = 2 ** (capacity.bit_length() - 1)
    kinds = (False, True) if policy == "opt" else (False,)
    return [Cache(capacity=capacity, policy=policy, bypass=kind) for kind in kinds]


@pytest.mark.numbers
@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data())
@examples(1 / 10)
def test_no_policy_moves_less_than_the_lower_bounds(policy: str, data: Any) -> None:
    """Any capacity: where an operation doesn't fit, the rest of it passes by."""
    name = data.draw(st.sampled_from(["flash1", "flash2", "small_cache", "naive", "matmul"]))
    if name == "matmul":
        problem: Any = iosim.MatMul(8, 7, 9)
    else:
        causal = name.startswith("flash") and data.draw(st.booleans())
        problem = iosim.Attention(N=12, d=data.draw(st.integers(1, 3)), causal=causal)
    program = iosim.algorithm(name).program_for(problem)
    tiles = {p.name: data.draw(st.integers(p.least, 7), p.name) for p in program.params}
    instance = iosim.bind(program, problem.sizes, tiles)
    most = min(peak(instance), 20)  # above that most bounds are the compulsory words
    capacities = data.draw(st.lists(st.integers(1, most), min_size=2, max_size=2))
    holds(instance, problem, [x for c in capacities for x in of_policy(policy, c)])


# Sizes at which the bounds are well above the compulsory words, and the schedule is near them.
NEAR = {
    "matmul": (iosim.MatMul(10, 40, 80), {"B_m": 10, "B_n": 10, "B_k": 1}, 120),
    "flash2": (iosim.Attention(N=48, d=8), {"B_r": 8, "B_c": 1}, 169),
}


def near(name: str) -> tuple[Instance, Any, int]:
    problem, tiles, capacity = NEAR[name]
    return iosim.bind(iosim.algorithm(name).program, problem.sizes, tiles), problem, capacity


@pytest.mark.numbers
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", NEAR)
def test_nor_where_the_bounds_are_near(name: str, policy: str) -> None:
    instance, problem, capacity = near(name)
    assert proved(problem, capacity) > 1.25 * compulsory(problem)
    holds(instance, problem, of_policy(policy, capacity))


@pytest.mark.numbers
@pytest.mark.parametrize("bypass", [None, False, True], ids=["lru", "opt", "opt with bypass"])
def test_a_bound_that_is_too_high_is_found_out(bypass: bool | None) -> None:
    """By a factor of 1.3."""
    instance, problem, capacity = near("matmul")
    cache = Cache(
        capacity=capacity, policy="lru" if bypass is None else "opt", bypass=bypass is True
    )
    with pytest.raises(AssertionError, match="below the bound"):
        holds(instance, problem, [cache], too_high)


@pytest.mark.numbers
@pytest.mark.parametrize(("low", "good"), [(proved, True), (too_high, False)])
def test_lru_at_every_capacity_that_holds_an_operation(low: BoundOf, good: bool) -> None:
    """Nothing passes by, so that the words that the curve tells are held to the bound at once."""
    problem = iosim.Attention(N=192, d=16)
    instance = iosim.bind(iosim.algorithm("flash2").program, problem.sizes, {"B_r": 15, "B_c": 1})
    found = curve(touches(instance))
    assert found.write_backs is not None
    assert found.flush is not None
    words = found.loads + found.write_backs + found.flush
    some = range(largest_operation(instance), 2 * peak(instance), 8)
    assert proved(problem, some[-1]) > 1.5 * compulsory(problem)
    assert all(words[found.step(c)] >= low(problem, c) for c in some) == good
