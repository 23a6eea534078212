"""The twin of model.v, the project's schedules, and the pebble solver's optima agree."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import iosim
from iosim import pebbling
from iosim.report.proof import require, step

from . import searched, translated, twin

PROBLEMS: tuple[Any, ...] = (
    *(
        iosim.Attention(N, d, heads=H)
        for N, d, H in ((2, 1, 1), (3, 1, 1), (2, 2, 1), (4, 2, 1), (3, 2, 2), (5, 3, 1))
    ),
    iosim.Attention(4, 1, causal=True),
    iosim.Attention(5, 2, window=(1, 0)),
    iosim.Attention(3, 1, d_v=2),
    iosim.Attention(3, 1, heads=2, kv_heads=1),
    iosim.Attention(3, 2, heads=4, kv_heads=2, causal=True),
    iosim.Attention(2, 1, heads=2, kv_heads=1, N_k=5),
    iosim.Attention(1, 2, heads=2, N_k=6),
    iosim.MatMul(1, 1, 1),
    iosim.MatMul(2, 2, 2),
    iosim.MatMul(3, 4, 2),
    iosim.MatMul(2, 3, 5),
)
MEMORIES = (3, 5, 8, 10, 14, 20, 30)
BREAKS = 4000
SEED = 19
TINY = (3, 4)  # M, where all states of the model are searched
SMALL = (((2, 2, 2), (3, 4)), ((2, 2, 1), (3, 4, 5)), ((3, 2, 2), (5,)))  # m, n, k, and M
SOLVED = ((2, 1, (3, 4, 5, 6)), (2, 2, (4, 5, 6, 7)), (3, 1, (4, 5, 6, 7, 8)))  # N, d, M


@dataclass(frozen=True)
class Case:
    """A schedule of the project for one problem and M, and the words that it should move."""

    name: str
    task: twin.Task
    M: int
    ops: tuple[twin.Op, ...]
    words: int

    def computes(self) -> bool:
        """Whether the model accepts it."""
        return twin.computes(self.ops, self.M, self.task)


def list_pairs(problem: Any) -> list[tuple[int, int]]:
    """The pairs of a row and a key of one head, one by one; not by the problem's own formulas."""
    left, right = problem.window or (None, None)
    right = 0 if problem.causal else right
    own = problem.keys - problem.N
    return [
        (i, j)
        for i in range(problem.N)
        for j in range(problem.keys)
        if (left is None or j >= i + own - left) and (right is None or j <= i + own + right)
    ]


def task_of(problem: Any) -> twin.Task:
    """A problem of iosim as a task of the model."""
    if isinstance(problem, iosim.MatMul):
        return twin.matrix_product(problem.m, problem.n, problem.k)
    share = problem.heads // (problem.kv_heads or problem.heads)
    pairs = [
        (h * problem.N + i, h // share * problem.keys + j)
        for h in range(problem.heads)
        for i, j in list_pairs(problem)
    ]
    require(len(pairs) == problem.pairs, f"{problem}: {len(pairs)} pairs, not {problem.pairs}")
    return twin.attention(pairs, problem.d, problem.d_v)


def count_words(name: str, problem: Any, instance: Any) -> int:
    """The words that iosim counts of the tensors that the model has.

    Without scores that a mask hides, which a tile that it cuts moves too, and without the zeros
    that FlashAttention-1 stores before it begins and loads with a row's first keys.
    """
    words = 0
    for t in iosim.transfers(instance):
        if t.tensor in ("S", "P"):
            (a, b), (c, d) = t.ranges[-2:]
            words += sum(a <= i < b and c <= j < d for i, j in list_pairs(problem))
        elif t.tensor in translated.LETTERS:
            words += t.words
    zeros = problem.heads * problem.N * (problem.d_v or problem.d) if name == "flash1" else 0
    return words - 2 * zeros


@functools.cache
def cases() -> tuple[Case, ...]:
    """Every schedule of a product or of attention, for every problem and M that it has tiles for.

    Splits of the keys are one split: the model has one accumulator for an entry of O.
    """
    found = []
    for problem in PROBLEMS:
        task = task_of(problem)
        for a in iosim.all_algorithms(problem.kind):
            if not a.supports(problem):
                continue
            program = a.program_for(problem)
            for M in MEMORIES:
                try:
                    tiles = dict(iosim.optimal_tiles(program, problem, M).tiles)
                except iosim.CapacityError:
                    continue
                if "B_s" in tiles:
                    tiles["B_s"] = problem.keys
                instance = iosim.bind(program, problem.sizes, tiles)
                ops = tuple(translated.schedule(instance, task))
                found.append(Case(a.name, task, M, ops, count_words(a.name, problem, instance)))
    return tuple(found)


def short(longest: int = 100) -> list[Case]:
    """Those of fewer operations."""
    return [c for c in cases() if len(c.ops) < longest]


@step(
    "schedules-accepted",
    how="exhaustive",
    says="the model accepts the project's schedules in M words, at the words that iosim counts",
)
def schedules_accepted() -> str:
    """Word by word, with the products where the schedule makes them."""
    for c in cases():
        what = f"{c.name} of {c.task.coq} at M={c.M}"
        require(c.computes(), f"{what} is not accepted")
        require(twin.cost(c.ops) == c.words, f"{what}: {twin.cost(c.ops)} words, not {c.words}")
    names = {c.name for c in cases()}
    all_of = {a.name for kind in ("attention", "matmul") for a in iosim.all_algorithms(kind)}
    require(names == all_of, f"no case of {sorted(all_of - names)}")
    return (
        f"{len(cases())} schedules: {len(names)} algorithms, {len(PROBLEMS)} problems, "
        f"M ≤ {max(MEMORIES)}"
    )


def most(case: Case) -> int:
    """The largest number of words in fast memory."""
    s, largest = twin.start(case.task), 0
    for op in case.ops:
        twin.execute(s, op, case.task)
        largest = max(largest, len(s.fast))
    return largest


WAYS = ("load", "store", "memory", "twice", "left out", "late", "lost")


def broken(rng: random.Random, case: Case, way: str = "") -> tuple[int, list[twin.Op]]:
    """M and operations that do not compute the task, broken in one of several ways."""
    ops, made = list(case.ops), case.task.operands
    places = {name: [k for k, op in enumerate(ops) if op[0] == name] for name in ("Load", "Do")}
    way = way or rng.choice(WAYS)
    if way == "load":
        del ops[rng.choice(places["Load"])]
    elif way == "store":
        word = rng.choice([w for name, w in ops if name == "Store" and w in case.task.outputs])
        ops = [op for op in ops if op != ("Store", word)]
    elif way == "memory":
        return most(case) - 1, ops
    elif way == "twice":
        at = rng.choice(places["Do"])
        ops.insert(at, ops[at])
    elif way == "late" and (used := [k for k in places["Do"] if ops[k][1][0] == "F"]):
        return late(rng, case, rng.choice(used))
    elif way == "lost" and (later := repeated_products(ops, made)):
        at, word = rng.choice(later)
        ops.insert(at, ("Drop", word))
    else:  # "left out", and where no sum is an operand or none has two products
        del ops[rng.choice(places["Do"])]
    return case.M, ops


def repeated_products(ops: Sequence[twin.Op], made: Any) -> list[tuple[int, twin.Word]]:
    """Products that an accumulator has after its first, by position: it can be dropped before."""
    sums = [(k, made[x][2]) for k, (name, x) in enumerate(ops) if name == "Do"]
    return [(k, w) for n, (k, w) in enumerate(sums) if any(v == w for _, v in sums[:n])]


def late(rng: random.Random, case: Case, used: int) -> tuple[int, list[twin.Op]]:
    """A product of the first kind right after its score was used; nothing else is wrong."""
    ops = list(case.ops)
    score = case.task.operands[ops[used][1]][0]
    mine = ("Do", rng.choice(sorted(case.task.terms[score])))
    ops.remove(mine)
    s = twin.start(case.task)
    for op in case.ops[: used + 1]:
        twin.execute(s, op, case.task)
    missing = [w for w in case.task.operands[mine[1]][:2] if w not in s.fast]
    ops[used:used] = [*(("Load", w) for w in missing), mine, *(("Drop", w) for w in missing)]
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
        require(not twin.computes(ops, M, case.task), f"a broken {case.name} is accepted")
    return f"{BREAKS} broken schedules, {len(WAYS)} ways, seed {SEED}"


def wandering(rng: random.Random, case: Case) -> list[twin.Op]:
    """A start of the schedule, then allowed operations at random, and seldom any operation."""
    s, made = twin.start(case.task), case.task.operands
    ops = list(case.ops[: rng.randrange(len(case.ops))])
    for op in ops:
        twin.execute(s, op, case.task)
    for _ in range(rng.randrange(12)):
        words = sorted({w for three in made.values() for w in three})
        others = [(p[0], p[1] + 1, *p[2:]) for p in made]
        every: dict[str, list[Any]] = dict.fromkeys(("Load", "Store", "Drop"), words)
        every |= {"Do": [*made, *others], "Over": [(p, w) for p in made for w in made[p]]}
        free = [
            (name, x)
            for name, xs in every.items()
            for x in xs
            if twin.allowed(s, (name, x), case.M, case.task)
        ]
        name = rng.choice(list(every))
        strange = rng.random() < 0.15 or not free
        op = (name, rng.choice(every[name])) if strange else rng.choice(free)
        ops.append(op)
        if not twin.allowed(s, op, case.M, case.task):
            break
        twin.execute(s, op, case.task)
    return ops


def over(case: Case) -> list[twin.Op]:
    """The schedule with results over operands wherever an operand dies with a first product."""
    ops, s = list(case.ops), twin.start(case.task)
    for k, (name, x) in enumerate(case.ops):
        if name == "Do" and case.task.operands[x][2] not in s.fast:
            rest = case.ops[k + 1 :]
            dying = [
                w
                for w in case.task.operands[x][:2]
                if next((op for op in rest if w in used(op, case.task)), None) == ("Drop", w)
            ]
            if dying:
                ops[k] = ("Over", (x, dying[0]))
                ops[ops.index(("Drop", dying[0]), k)] = ("-", None)
        twin.execute(s, (name, x), case.task)
    return [op for op in ops if op[0] != "-"]


def used(op: twin.Op, task: twin.Task) -> tuple[Any, ...]:
    """The words that an operation names."""
    return task.operands[op[1]] if op[0] == "Do" else (op[1],)


def solved(task: twin.Task, graph: Any, M: int) -> tuple[int, list[twin.Op]]:
    """The solver's optimum in the game that the bounds count, and its schedule in the model."""
    best = pebbling.optimum(graph, M, partial=True)
    require(best.optimal, f"no optimum for {graph.name} at M={M}")
    ops: list[twin.Op] = []
    for move in best.schedule:
        letter, numbers = move.vertex[0], move.vertex[2:-1].split(",")
        name = {"E": "S", "P": "C"}.get(letter, letter)  # where a sum has one product, it is this
        word = (name, int(numbers[0]), int(numbers[1]))
        if move.kind == "compute":
            (product,) = task.terms[word]
            ops.append(("Do", product))
        elif move.kind == "add":
            last = int(str(move.term).rstrip("]").replace("·", ",").rpartition(",")[2])
            if name == "O":
                last = int(str(move.term)[2:-1].split(",")[1])
            named = {"S": ("E", *word[1:], last), "O": ("F", word[1], last, word[2])}
            ops.append(("Do", named.get(name, ("Mul", *word[1:], last))))
        else:
            ops.append(({"load": "Load", "store": "Store", "delete": "Drop"}[move.kind], word))
    return best.cost or 0, ops


def instances() -> list[tuple[twin.Task, Any, tuple[int, ...]]]:
    """Small tasks, the solver's graphs of them, and memories."""
    found: list[tuple[twin.Task, Any, tuple[int, ...]]] = []
    for N, d, memories in SOLVED:
        graph = pebbling.attention(N, d, sums="vertex", softmax="free")
        found.append((twin.attention(twin.heads(1, N), d), graph, memories))
    for sizes, memories in SMALL:
        graph = pebbling.matmul(*sizes, sums="vertex")
        found.append((twin.matrix_product(*sizes), graph, memories))
    return found


@step(
    "solver-replayed",
    how="exhaustive",
    says="the model accepts the pebble solver's optimal schedules, at the solver's cost",
)
def solver_replayed() -> str:
    """The game of docs/pebbling.md in which sums take their terms one at a time."""
    count = 0
    for task, graph, memories in instances():
        for M in memories:
            cost, ops = solved(task, graph, M)
            require(twin.computes(ops, M, task), f"{graph.name} M={M} is not accepted")
            require(twin.cost(ops) == cost, f"{graph.name} M={M}: {twin.cost(ops)}, not {cost}")
            count += 1
    return f"{count} instances: attention, N ≤ 3, d ≤ 2, M ≤ 8, and products, mnk ≤ 12, M ≤ 5"


@step(
    "results-over-operands",
    how="exhaustive",
    says="the same with results over operands that die: same words; and M = 2 is enough for them",
)
def results_over_operands() -> str:
    """Every schedule that is short, and all states of the smallest tasks."""
    changed = 0
    for c in short():
        ops = over(c)
        require(twin.computes(ops, c.M, c.task), f"{c.name} of {c.task.coq} is not accepted")
        require(twin.cost(ops) == c.words, f"{c.name} of {c.task.coq}: {twin.cost(ops)} words")
        changed += ops != list(c.ops)
    for task in (twin.attention([(0, 0)], 1), twin.matrix_product(2, 1, 1)):
        apart, in_place = searched.least(task, 2), searched.least(task, 2, over=True)
        require(apart is None and in_place is not None, f"{task.coq}: {apart} and {in_place}")
    require(changed > 0, "no operand dies")
    return f"{len(short())} schedules, of which {changed} have such results"


@step(
    "tiny-optimum",
    how="exhaustive",
    says="the least cost without results over operands is the pebble solver's optimum",
)
def tiny_optimum() -> str:
    """A search over all states that shares no code with the solver, whose game has no `Over`."""
    for task, graph, _ in (instances()[0], instances()[len(SOLVED)]):
        for M in TINY:
            found, known = searched.least(task, M), solved(task, graph, M)[0]
            require(found == known, f"{graph.name} M={M}: {found}, the solver has {known}")
    in_place = searched.least(instances()[0][0], 3, over=True)
    require(in_place == 11, f"attention with results over operands: {in_place}, not 11")
    return f"attention, N = 2, d = 1, and the 2 × 2 × 2 product, M = {TINY}, all states"
