"""The simulators of `trees` and `recompute-trees` that the proofs use, against classes.v's twin."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass
from typing import Any

from iosim.report.proof import require, step

from ..constant_tight import executions, free_executions, tree_executions
from . import building, classes, twin

EXECUTIONS = 400
BREAKS = 2000
CASES = 600  # schedules that Coq itself executes
TOGETHER = 20  # of them, in one goal
SEED = 20


@dataclass(frozen=True)
class Run:
    """A simulated execution as a schedule of classes.v, the words that the simulator counts."""

    kind: classes.Class
    H: int
    N: int
    d: int
    M: int
    moves: tuple[classes.Move, ...]
    words: int

    @functools.cached_property
    def task(self) -> twin.Task:
        """Attention of its heads."""
        return twin.attention(twin.heads(self.H, self.N), self.d)

    def attains(self, kind: classes.Class) -> bool:
        """Whether it is one of a class."""
        return classes.attains(kind, self.moves, self.M, self.task)


def _named(x: object) -> object:
    """A simulator's move, with the names of words that the twin has."""
    if not isinstance(x, tuple):
        return x
    if len(x) == 3 and x[0] in ("q", "k", "v", "s", "o"):
        return (x[0].upper(), *x[1:])
    return tuple(_named(y) for y in x)


@functools.cache
def draw_executions(count: int = EXECUTIONS) -> tuple[Run, ...]:
    """Random executions, of both simulators, alternating."""
    rng = random.Random(SEED)
    found = []
    for at in range(count):
        H = rng.choice([1, 1, 2])
        N, d = rng.randint(1, 4 if H == 1 else 2), rng.randint(1, 3)
        M, order = rng.randint(6, 24), executions.random_order(N, d, rng, H)
        if at % 2:
            log, _, moves = free_executions.run_free(order, M, rng)
            kind = classes.RECOMPUTE_TREES
        else:
            log, moves = tree_executions.run_trees(order, M, rng)
            kind = classes.TREES
        words = sum(what in ("load", "store") for what, _, _ in log)
        found.append(Run(kind, H, N, d, M, tuple(_named(m) for m in moves), words))  # type: ignore[misc]
    return tuple(found)


@step(
    "simulations-accepted",
    how="sampled",
    says="classes.v's twin accepts the proofs' simulated executions of trees and recompute-trees",
)
def simulations_accepted() -> str:
    """In the class that they are of, in M words, at the words that the simulator counts."""
    smaller = 0
    for run in draw_executions():
        what = f"{run.kind.name} at N={run.N} d={run.d} heads={run.H} M={run.M}"
        require(run.attains(run.kind), f"an execution of {what} is not accepted")
        require(classes.traffic(run.moves) == run.words, f"{what}: not {run.words} words")
        smaller += not any(
            run.attains(k)
            for k in classes.CLASSES
            if k is not run.kind and k is not classes.RECOMPUTE_TREES
        )
    require(smaller > EXECUTIONS // 4, f"only {smaller} are of no smaller class")
    return f"{EXECUTIONS} executions, {smaller} of them of no smaller class, seed {SEED}"


def most(run: Run) -> int:
    """The largest number of words in fast memory."""
    m, largest = classes.Memory(run.kind, run.M, run.task), 0
    for move in run.moves:
        m.go(move)
        largest = max(largest, len(m.near))
    return largest


def _without(x: Any, p: twin.Product) -> Any:
    """A move whose values lack a product among their terms."""
    return tuple(_without(y, p) for y in x if y != p) if isinstance(x, tuple) else x


def broken(rng: random.Random, run: Run) -> tuple[int, list[classes.Move]]:
    """M and moves that do not attain attention, in one of several ways."""
    moves = list(run.moves)
    places: dict[str, list[int]] = {}
    for at, move in enumerate(moves):
        places.setdefault(move[0], []).append(at)
    way = rng.choice(("read", "write", "memory", "twice", "left out", "unfinished", "overlap"))
    if way == "read":  # of an input, the first time
        del moves[places["Read"][0]]
    elif way == "write":  # of an output: no later copy of it is finished
        word = rng.choice([v[0] for name, v, *_ in moves if name == "Write" and v[0][0] == "O"])
        moves = [m for m in moves if not (m[0] == "Write" and m[1][0] == word)]
    elif way == "memory":
        return most(run) - 1, moves
    elif way == "twice":  # a term that the partial sum has
        at = rng.choice(places["Mul"])
        p, T, _ = moves[at][1:]
        value = (run.task.operands[p][2], (p, *T))
        moves.insert(at + 1, ("Mul", p, value[1], value))
    elif way == "left out":  # all times that a product is executed
        p = rng.choice([moves[at][1] for at in places["Mul"]])
        moves = [m for m in moves if not (m[0] == "Mul" and m[1] == p)]
    elif way == "unfinished":  # nothing is wrong but that the term is nowhere
        alone = {m[1] for m in moves if m[0] == "Mul" and not m[2]}
        later = [moves[at][1] for at in places["Mul"] if moves[at][1] not in alone]
        if not later:
            return broken(rng, run)
        p = rng.choice(later)
        moves = [_without(m, p) for m in moves if not (m[0] == "Mul" and m[1] == p)]
    else:  # a partial sum added to itself
        p, T, _ = moves[rng.choice(places["Mul"])][1:]
        at = next(k for k, m in enumerate(moves) if m[0] == "Mul" and m[1:3] == (p, T))
        word, terms = run.task.operands[p][2], (p, *T)
        moves.insert(at + 1, ("Add", word, terms, terms, (word, terms)))
    return run.M, moves


@step(
    "simulations-broken",
    how="sampled",
    says="it rejects them with a read, a write, a product or room left out, or a term twice",
)
def simulations_broken() -> str:
    """Seven ways to break an execution."""
    rng = random.Random(SEED)
    for _ in range(BREAKS):
        run = rng.choice(draw_executions())
        M, moves = broken(rng, run)
        accepted = classes.attains(run.kind, moves, M, run.task)
        require(not accepted, f"a broken execution of {run.kind.name} is accepted")
    return f"{BREAKS} broken executions, seed {SEED}"


HEADER = """From mathcomp Require Import all_ssreflect.
From iosim Require Import model classes.
Local Notation w := aword_eqType.
Local Notation p := aproduct_eqType.
Definition inp (x : w) : value w p := inl x.
Definition part (x : w) (T : seq p) : value w p := inr (x, T).
Definition mRead (v : value w p) : move w p := Read v.
Definition mWrite (v : value w p) : move w p := Write v.
Definition mFree (v : value w p) : move w p := Free v.
Definition mCopy (v : value w p) x : move w p := Copy v x.
Definition mMul (q : p) T x : move w p := Mul q T x.
Definition mAdd (u : w) T U x : move w p := Add u T U x.
Definition says c M t (ops : seq (move w p)) (goes done : bool) (words : nat) : bool :=
  [&& isSome (moves c M t (begin t) ops) == goes, attains c M t ops == done & traffic ops == words].
"""


def wandering(rng: random.Random, run: Run, kind: classes.Class) -> list[classes.Move]:
    """A start of the execution, then moves at random, most of them allowed."""
    m = classes.Memory(kind, run.M, run.task)
    moves = list(run.moves[: rng.randrange(len(run.moves))])
    for at, move in enumerate(moves):
        if not m.go(move):
            return moves[: at + 1]
    for _ in range(rng.randrange(8)):
        near = sorted(m.near, key=str)
        every: list[classes.Move] = [("Read", v) for v in sorted(m.far, key=str)]
        every += [(name, v) for name in ("Write", "Free") for v in near]
        for over in (None, *near[:3]):
            every += [("Copy", v, over) for v in near[:3]]
            every += [
                ("Add", v[0], v[1], u[1], over)
                for v in near
                for u in near
                if v[0] == u[0] and v[1] is not None and u[1] is not None
            ]
            for p in run.task.operands:
                every += [
                    ("Mul", p, T, over) for w, T in near if w == run.task.operands[p][2] and T
                ]
                every.append(("Mul", p, (), over))
        for _ in range(4):  # refused moves are tried again, so that not all end at once
            move = rng.choice(every)
            if m.go(move):
                moves.append(move)
                break
        else:
            return [*moves, move]
    return moves


@step(
    "classes-agree",
    how="sampled",
    says="classes.v, executed by Coq, and its twin say the same of a schedule in each class",
)
def classes_agree() -> str:
    """Simulated executions, broken ones and random ones, each in a class drawn at random."""
    rng = random.Random(SEED)
    short = [run for run in draw_executions() if len(run.moves) < 120]
    claims, accepted, halted = [], 0, 0
    for _ in range(CASES):
        run = rng.choice(short)
        M, moves = run.M, list(run.moves)
        kind = rng.choice((run.kind, rng.choice(classes.CLASSES)))
        way = rng.choice(("as it is", "broken", "random"))
        if way == "broken":
            M, moves = broken(rng, run)
        elif way == "random":
            moves = wandering(rng, run, kind)
        done = classes.attains(kind, moves, M, run.task)
        goes = classes.runs(kind, moves, M, run.task) is not None
        accepted += done
        halted += not goes
        said = f"{str(goes).lower()} {str(done).lower()} {classes.traffic(moves)}"
        where = f"{kind.name} {M} ({run.task.coq})"
        claims.append(f"says {where} {classes.term(moves)} {said}")
    folder = building.built()
    lines = [HEADER]
    for k in range(0, CASES, TOGETHER):
        lines += ["Goal [&& true, ", ",\n".join(claims[k : k + TOGETHER]), "& true]."]
        lines += ["Proof. vm_cast_no_check (erefl true). Qed."]
    (folder / "classes_agree.v").write_text("\n".join(lines), encoding="utf-8")
    building.coq(folder, "classes_agree.v")
    require(CASES // 5 < accepted < CASES and halted > CASES // 5, "the cases are too similar")
    return f"{CASES} schedules, {accepted} that attain, {halted} not allowed, seed {SEED}"
