"""The twin of model.v, the project's schedules, and the pebble solver's optima agree."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass

import iosim
from iosim import pebbling
from iosim.checks.proof import require, step

from . import translated, twin

NAMES = tuple(
    a.name for a in iosim.all_algorithms() if a.problem is iosim.Attention and not a.needs
)
SIZES = ((2, 1, 1), (3, 1, 1), (2, 2, 1), (4, 2, 1), (3, 2, 2), (5, 3, 1))  # N, d, heads
MEMORIES = (8, 10, 14, 20, 30)
BREAKS = 3000
SEED = 19
TINY = (3, 4)  # M, at N = 2, d = 1: a search over all states of the model
SOLVED = ((2, 1, (3, 4, 5, 6)), (2, 2, (4, 5, 6, 7)), (3, 1, (4, 5, 6, 7, 8)))  # N, d, M


@dataclass(frozen=True)
class Case:
    """A schedule of the project for one problem and M, and the words that it should move."""

    name: str
    H: int
    N: int
    d: int
    M: int
    ops: tuple[twin.Op, ...]
    words: int

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All pairs of its heads."""
        return twin.heads(self.H, self.N)


@functools.cache
def cases() -> tuple[Case, ...]:
    """Every schedule at every size and M that it has tiles for."""
    found = []
    for name in NAMES:
        program = iosim.algorithm(name).program
        for N, d, H in SIZES:
            problem = iosim.Attention(N=N, d=d, heads=H)
            for M in MEMORIES:
                try:
                    tiles = iosim.optimal_tiles(program, problem, M).tiles
                except iosim.CapacityError:
                    continue
                instance = iosim.bind(program, problem.sizes, tiles)
                ops = tuple(translated.schedule(instance))
                words = sum(
                    t.words for t in iosim.transfers(instance) if t.tensor in translated.COUNTED
                )
                # FlashAttention-1 stores zeros at first, and loads them when it begins a row.
                words -= 2 * H * N * d if name == "flash1" else 0
                found.append(Case(name, H, N, d, M, ops, words))
    return tuple(found)


def short() -> list[Case]:
    """The short ones among them."""
    return [c for c in cases() if len(c.ops) < 100]


@step(
    "schedules-accepted",
    how="exhaustive",
    says="the model accepts the project's schedules in M words, at the words that iosim counts",
)
def schedules_accepted() -> str:
    """Word by word, with the products where the schedule makes them."""
    for c in cases():
        what = f"{c.name} at N={c.N} d={c.d} heads={c.H} M={c.M}"
        require(twin.computes(c.ops, c.M, c.pairs, c.d), f"{what} is not accepted")
        require(twin.cost(c.ops) == c.words, f"{what}: {twin.cost(c.ops)} words, not {c.words}")
    require({c.name for c in cases()} == set(NAMES), "a schedule has no case")
    return f"{len(cases())} schedules: {len(NAMES)} algorithms, N ≤ 5, d ≤ 3, M ≤ {max(MEMORIES)}"


def runs(ops: Sequence[twin.Op], M: int, pairs: twin.Pairs, d: int) -> bool:
    """Whether every operation is allowed."""
    s, seen = twin.start(pairs, d), set(pairs)
    for op in ops:
        if not twin.allowed(s, op, M, seen, d):
            return False
        twin.execute(s, op)
    return True


def most(case: Case) -> int:
    """The largest number of words in fast memory."""
    s, largest = twin.start(case.pairs, case.d), 0
    for op in case.ops:
        twin.execute(s, op)
        largest = max(largest, len(s.fast))
    return largest


def broken(rng: random.Random, case: Case) -> tuple[int, list[twin.Op]]:
    """M and operations that do not compute attention, in one of several ways."""
    ops = list(case.ops)
    places = {name: [k for k, op in enumerate(ops) if op[0] == name] for name in ("Load", "Do")}
    way = rng.choice(("load", "store", "memory", "twice", "left out", "late", "lost"))
    if way == "load":
        del ops[rng.choice(places["Load"])]
    elif way == "store":
        word = rng.choice([op[1] for op in ops if op[0] == "Store" and op[1][0] == "O"])
        ops = [op for op in ops if op != ("Store", word)]
    elif way == "memory":
        return most(case) - 1, ops
    elif way == "twice":
        at = rng.choice(places["Do"])
        ops.insert(at, ops[at])
    elif way == "left out":
        del ops[rng.choice(places["Do"])]
    elif way == "late":
        return late(rng, case)
    else:  # an accumulator dropped before a further product, and not loaded
        sums = [(k, twin.operands(ops[k][1])[2]) for k in places["Do"]]
        later = [(k, w) for n, (k, w) in enumerate(sums) if any(v == w for _, v in sums[:n])]
        at, word = rng.choice(later)
        ops.insert(at, ("Drop", word))
    return case.M, ops


def late(rng: random.Random, case: Case) -> tuple[int, list[twin.Op]]:
    """A product of the first kind right after its score was used; nothing else is wrong."""
    ops = list(case.ops)
    used = rng.choice([k for k, (name, x) in enumerate(ops) if name == "Do" and x[0] == "F"])
    _, i, j, _ = ops[used][1]
    mine = ("Do", ("E", i, j, rng.randrange(case.d)))
    ops.remove(mine)
    s = twin.start(case.pairs, case.d)
    for op in case.ops[: used + 1]:
        twin.execute(s, op)
    missing = [w for w in twin.operands(mine[1])[:2] if w not in s.fast]
    ops[used:used] = [
        *(("Load", w) for w in missing), mine, *(("Drop", w) for w in missing)
    ]  # fmt: skip
    return case.M + 2, ops


@step(
    "broken-rejected",
    how="sampled",
    says="the model rejects them with a load, a store, a product or room left out, and the like",
)
def broken_rejected() -> str:
    """Seven ways to break a schedule."""
    rng = random.Random(SEED)
    for _ in range(BREAKS):
        case = rng.choice(cases())
        M, ops = broken(rng, case)
        require(not twin.computes(ops, M, case.pairs, case.d), f"a broken {case.name} is accepted")
    return f"{BREAKS} broken schedules, seed {SEED}"


def wandering(rng: random.Random, case: Case) -> list[twin.Op]:
    """A start of the schedule, then allowed operations at random, and seldom any operation."""
    s, seen = twin.start(case.pairs, case.d), set(case.pairs)
    ops = list(case.ops[: rng.randrange(len(case.ops))])
    for op in ops:
        twin.execute(s, op)
    for _ in range(rng.randrange(12)):
        words = sorted(s.slow | s.fast)
        every = [(name, w) for name in ("Load", "Store", "Drop") for w in words]
        every += [("Do", p) for p in twin.products(case.pairs, case.d)]
        free = [op for op in every if twin.allowed(s, op, case.M, seen, case.d)]
        strange = rng.random() < 0.05 or not free
        op = rng.choice(every if strange else free)
        ops.append(op)
        if not twin.allowed(s, op, case.M, seen, case.d):
            break
        twin.execute(s, op)
    return ops


def solved(N: int, d: int, M: int) -> tuple[int, list[twin.Op]]:
    """The solver's optimum in the game that the bounds count, and its schedule in the model."""
    best = pebbling.optimum(
        pebbling.attention(N, d, sums="vertex", softmax="free"), M, partial=True
    )
    require(best.optimal, f"no optimum for N={N} d={d} M={M}")
    ops: list[twin.Op] = []
    for move in best.schedule:
        name, i, j = move.vertex[0], *map(int, move.vertex[2:-1].split(","))
        word = ("S" if name == "E" else name, i, j)
        if move.kind == "compute":  # d = 1: a score is one product
            ops.append(("Do", ("E", i, j, 0)))
        elif move.kind == "add" and name == "E":
            ops.append(("Do", ("E", i, j, int(str(move.term).rpartition("·")[2]))))
        elif move.kind == "add":
            row, key, column = map(int, str(move.term)[2:-1].split(","))
            ops.append(("Do", ("F", row, key, column)))
        else:
            ops.append(({"load": "Load", "store": "Store", "delete": "Drop"}[move.kind], word))
    return best.cost or 0, ops


@step(
    "solver-replayed",
    how="exhaustive",
    says="the model accepts the pebble solver's optimal schedules, at the solver's cost",
)
def solver_replayed() -> str:
    """The game of docs/pebbling.md in which sums take their terms one at a time."""
    count = 0
    for N, d, memories in SOLVED:
        for M in memories:
            cost, ops = solved(N, d, M)
            require(
                twin.computes(ops, M, twin.heads(1, N), d), f"N={N} d={d} M={M} is not accepted"
            )
            require(twin.cost(ops) == cost, f"N={N} d={d} M={M}: {twin.cost(ops)}, not {cost}")
            count += 1
    return f"{count} instances, N ≤ 3, d ≤ 2, M ≤ 8"


def least(N: int, d: int, M: int) -> int:
    """The least cost of any schedule of the model: every state, by rising cost."""
    pairs = twin.heads(1, N)
    begin = twin.start(pairs, d)
    bit = {w: 1 << k for k, w in enumerate(sorted({x for p in twin.products(pairs, d)
                                                   for x in twin.operands(p)}))}  # fmt: skip
    every = twin.products(pairs, d)
    made = [[bit[w] for w in twin.operands(p)] for p in every]
    before = [
        sum(1 << q for q, o in enumerate(every) if p[0] == "F" and o[:3] == ("E", p[1], p[2]))
        for p in every
    ]
    same = [sum(1 << q for q, o in enumerate(made) if o[2] == m[2]) for m in made]
    slow = sum(bit[w] for w in begin.slow)
    outputs = sum(bit["O", i, c] for i in range(N) for c in range(d))
    words = list(bit.values())
    full = (1 << len(every)) - 1
    level, seen, cost = {(0, slow, 0)}, set(), 0
    while True:
        todo, costly = list(level), set()
        while todo:
            state = todo.pop()
            if state in seen:
                continue
            seen.add(state)
            fast, slow, done = state
            if done == full and slow & outputs == outputs:
                return cost
            room = fast.bit_count() < M
            for w in words:
                if fast & w:
                    todo.append((fast ^ w, slow, done))
                    if not slow & w:
                        costly.add((fast, slow | w, done))
                elif slow & w and room:
                    costly.add((fast | w, slow, done))
            for p, (left, right, total) in enumerate(made):
                if done >> p & 1 or not fast & left or not fast & right:
                    continue
                if before[p] & ~done or not (fast & total or (room and not same[p] & done)):
                    continue
                todo.append((fast | total, slow & ~total, done | 1 << p))
        level, cost = costly - seen, cost + 1


@step(
    "tiny-optimum",
    how="exhaustive",
    says="the least cost of any schedule of the model is the pebble solver's optimum",
)
def tiny_optimum() -> str:
    """A search over all states of the model that shares no code with the solver."""
    for M in TINY:
        found, known = least(2, 1, M), solved(2, 1, M)[0]
        require(found == known, f"N=2 d=1 M={M}: {found} in the model, the solver has {known}")
    return f"N = 2, d = 1, M = {min(TINY)} and {max(TINY)}, all states"
