"""Moments of a schedule that the page enters anywhere, against a walk in Python, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from engine import Engine, build
from hypothesis import assume, given
from hypothesis import strategies as st
from sizes import examples
from test_engine import Case, cases

import iosim
from iosim.base.errors import InputError, ProgramError
from iosim.core.program.index import Span, dims, unstacked
from iosim.core.program.ir import Alloc, Free, Load, Loop, Node, Op, Program, Store
from iosim.core.program.space import covered, inside, resolved, running
from iosim.core.trace import transfers
from iosim.lab.programs import program_data

# Instances with more steps are left to the closed forms.
MOST = 4000


@pytest.fixture(scope="session")
def timeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The view's timeline, freshly built."""
    path = tmp_path_factory.mktemp("timeline") / "cli.mjs"
    found = Engine(build(path, "src/views/watch/cli.ts"))
    yield found
    found.close()


@dataclass(frozen=True)
class Step:
    """One line of a listing that ran, and what is held after it."""

    line: int
    buffer: str
    words: int
    held: tuple[tuple[str, int], ...]
    moves: bool


@dataclass
class Walk:
    """All steps of an instance, one after the other; it shares no code with the page."""

    instance: Any
    found: list[Step] = field(default_factory=list)
    held: list[tuple[str, int]] = field(default_factory=list)

    def run(self) -> list[Step]:
        """The steps.  Listings tell nodes parents first, after a line for the program."""
        program = self.instance.program
        self._body(program.body, self.instance.env, _numbers(program))
        return self.found

    def _add(self, line: int, buffer: str = "", words: int = 0, *, moves: bool = False) -> None:
        self.found.append(Step(line, buffer, words, tuple(self.held), moves))

    def _body(self, body: tuple[Node, ...], env: Any, lines: dict[int, int]) -> None:
        for node in body:
            line = lines[id(node)]
            match node:
                case Loop():
                    marked = dict(self.instance.masks)
                    for at in running(node, env, self.instance.program, marked):
                        self._add(line)
                        self._body(node.body, inside(env, node.tile, at), lines)
                case Load() | Alloc() | Store():
                    words = _words(node.index, env)
                    if not isinstance(node, Store):
                        self.held.append((node.buffer, words))
                    self._add(line, node.buffer, words, moves=not isinstance(node, Alloc))
                case Free():
                    at = max(k for k, (name, _) in enumerate(self.held) if name == node.buffer)
                    _, words = self.held.pop(at)
                    self._add(line, node.buffer, words)
                case Op():
                    self._add(line)


def _numbers(program: Program) -> dict[int, int]:
    """Which line of the listing each node has."""
    found: dict[int, int] = {}

    def number(body: tuple[Node, ...]) -> None:
        for node in body:
            found[id(node)] = len(found) + 1
            if isinstance(node, Loop):
                number(node.body)

    number(program.body)
    return found


def _words(index: Any, env: Any) -> int:
    words = 1
    for x in unstacked(dims(index)):
        start, stop = resolved(x, env) if isinstance(x, Span) else covered(x, env)
        words *= stop - start
    return words


def agree(timeline: Engine, case: Case, chosen: list[float]) -> None:
    """Moments at some steps, what they find, and where a capacity is passed."""
    program, sizes, tiles, masks = case
    try:
        instance = iosim.bind(program, sizes, tiles, masks)
        told = program_data(program)
    except (InputError, ProgramError):
        assume(False)
    # Nodes of a tree may be shared; only what is printed once has one line.
    assume(len(told["listing"]) == 1 + len(_numbers(program)))
    steps = Walk(instance).run()
    assume(0 < len(steps) <= MOST)
    moved = list(transfers(instance))
    peak = max(sum(w for _, w in s.held) for s in steps)
    at = sorted({0, 1, len(steps), *(round(x * len(steps)) for x in chosen)})
    capacities = [max(1, x) for x in (peak, peak - 1, peak // 2)]
    (answer,) = timeline.ask(
        program, "moments", sizes=sizes, tiles=tiles, masks=masks, steps=at, capacities=capacities
    )
    found = answer["is"]
    assert (found["steps"], found["moved"]) == (len(steps), sum(t.words for t in moved))
    places = [k + 1 for k, s in enumerate(steps) if s.moves]
    total = [0]
    for s in steps:
        total.append(total[-1] + (s.words if s.moves else 0))
    for moment, k in zip(found["moments"], at, strict=True):
        done = sum(place <= k for place in places)
        said: dict[str, int] = dict.fromkeys(found["keys"], 0)
        for t in moved[:done]:
            said[f"{t.direction} {t.tensor}"] += t.words
        assert moment["step"] == k
        assert moment["words"] == list(said.values())
        assert moment["moved"] == total[k]
        assert moment["back"] == max(0, k - 1)
        assert moment["next"] == next((x for x in places if x > k), len(steps))
        assert moment["before"] == next((x for x in reversed(places) if x < k), 0)
        assert moment["turns"] == [
            next((x + 1 for x in range(k, len(steps)) if steps[x].line == line), len(steps))
            for line in found["loops"]
        ]
        # On the clock of words: the last moment with so many, and the first.
        assert moment["clock"] == max(x for x, n in enumerate(total) if n == total[k])
        assert moment["reached"] == min(x for x, n in enumerate(total) if n == total[k])
        if k == 0:
            assert (moment["last"], moment["held"]) == (None, [])
            continue
        step = steps[k - 1]
        assert moment["held"] == [list(x) for x in step.held]
        kind, line, buffer, tensor, ranges, words = moment["last"]
        assert (line, buffer, words) == (step.line, step.buffer, step.words)
        if step.moves:
            t = moved[done - 1]
            assert (kind, tensor, ranges) == (t.direction, t.tensor, [list(r) for r in t.ranges])
        for name, trail in moment["trails"].items():
            mine = [p for p in range(done) if moved[p].tensor == name]
            line = steps[places[mine[-1]] - 1].line if mine else -1
            same = [p for p in mine if steps[places[p] - 1].line == line]
            assert trail == [[list(r) for r in moved[p].ranges] for p in same[-4:]]
    for most, step in zip(capacities, found["overflows"], strict=True):
        over = (k + 1 for k, s in enumerate(steps) if sum(w for _, w in s.held) > most)
        assert step == next(over, 0)


@given(case=cases(), chosen=st.lists(st.floats(0, 1), max_size=6))
@examples(3 / 2)
def test_moments_are_those_of_a_walk(timeline: Engine, case: Case, chosen: list[float]) -> None:
    agree(timeline, case, chosen)


def test_a_moment_among_billions_of_steps(timeline: Engine) -> None:
    """Entered at once: counts of the end are those of the closed form."""
    problem = iosim.Attention(65_536, 128)
    program = iosim.algorithm("naive").program
    tiles = iosim.optimal_tiles(program, problem, 24_577).tiles
    (answer,) = timeline.ask(
        program, "moments", sizes=problem.sizes, tiles=tiles, steps=[2**34], capacities=[]
    )
    found = answer["is"]
    instance = iosim.bind(program, problem.sizes, tiles)
    assert found["moved"] == iosim.count(instance).total_words
    assert found["steps"] > 2**34 == found["moments"][0]["step"]
