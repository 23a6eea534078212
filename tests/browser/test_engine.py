"""The page's engine against Python: equal counts, peaks, transfers, errors and tiles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import test_block_options
import test_blocks
import test_paged
from engine import Engine, build, speed
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import (
    Square,
    algorithms,
    attention_options,
    attention_programs,
    bound_programs,
    dependent_schedules,
    random_schedules,
    split_schedules,
    stacked_copies,
)

import iosim
from iosim.counting.closed import close
from iosim.counting.numbers import count_many, peak_many
from iosim.counting.poly import Sum
from iosim.errors import CapacityError, InputError, ProgramError
from iosim.lab.programs import program_data
from iosim.program.ir import Program
from iosim.tiling import optimal_tiles_many, smallest_capacity
from iosim.trace import transfers


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The engine, freshly built."""
    found = Engine(build(tmp_path_factory.mktemp("engine") / "cli.mjs"))
    yield found
    found.close()


Case = tuple[Program, dict[str, int], dict[str, int], dict[str, Any]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A registered schedule with any options and tiles, or a random program; with masks if any."""
    kind = draw(st.sampled_from(
        ["plain", "options", "options", "paged", "blocks", "marked", "random", "mixed", "split",
         "dependent", "dependent", "lanes", "stacked"]
    ))  # fmt: skip
    match kind:
        case "plain" | "options":
            strategy = bound_programs() if kind == "plain" else attention_programs()
            algorithm, problem, tiles = draw(strategy)
            return algorithm.program_for(problem), problem.sizes, tiles, {}
        case "paged":
            problem, tiles, _ = draw(test_paged.caches())
            return iosim.algorithm("paged").program_for(problem), problem.sizes, tiles, {}
        case "blocks":
            problem, tiles, mask = draw(test_block_options.cases())
            program = iosim.algorithm("block_sparse").program_for(problem)
            return program, problem.sizes, tiles, {"blocks": mask}
        case "marked":
            name, problem, tiles, masks = draw(test_blocks.cases())
            program = test_blocks.PROGRAMS[name]
            tiles = {p.name: tiles[p.name] for p in program.params}
            return program, problem.sizes, tiles, masks
        case "random" | "mixed":
            return (*draw(random_schedules(mixed=kind == "mixed")), {})
        case "split":
            return (*draw(split_schedules()), {})
        case "stacked":
            return (*draw(stacked_copies()), {})
        case _:
            return (*draw(dependent_schedules(lanes=kind == "lanes")), {})


def refusal(answer: dict[str, Any]) -> str:
    """What an answer that is an error says; without one the test fails."""
    assert "error" in answer, answer
    return str(answer["error"])


def same_refusal(answer: dict[str, Any], error: Exception) -> None:
    """Both say the same, but for what Python adds to be of help with names."""
    said = refusal(answer)
    assert str(error).startswith(said.removesuffix(": give them")), (said, str(error))


def words(counts: Any) -> dict[str, str]:
    """Counts as the engine says them."""
    return {f"{way} {tensor}": str(n) for (way, tensor), n in counts}


def same(answer: dict[str, Any], ask: Callable[[Any], Any], instance: Any) -> None:
    """An answer is what Python says of an instance, an error too."""
    try:
        python = ask(instance)
    except ProgramError as error:
        same_refusal(answer, error)
    else:
        assert answer["is"] == (str(python) if isinstance(python, int) else words(python))


def agree(engine: Engine, case: Case) -> None:
    """Counts, peak, transfers in order, and lines of the listing."""
    program, sizes, tiles, masks = case
    counted, peak, walked = engine.ask(
        program, "count", "peak", "walk", sizes=sizes, tiles=tiles, masks=masks
    )
    try:
        instance = iosim.bind(program, sizes, tiles, masks)
    except InputError as error:
        for answer in (counted, peak, walked):
            same_refusal(answer, error)
        return
    same(counted, iosim.count, instance)
    same(peak, iosim.peak, instance)
    moved = [[t.direction, t.tensor, [list(r) for r in t.ranges], t.words]
             for t in transfers(instance)]  # fmt: skip
    assert walked["is"]["transfers"] == moved
    assert walked["is"]["left"] == 0
    assert str(walked["is"]["peak"]) == peak.get("is", str(walked["is"]["peak"]))
    listing = program_data(program)["listing"]
    for line in walked["is"]["lines"]:
        kind, number = line.split()
        code = listing[int(number)]["code"].strip()
        starts = {"turn": r"grid|for", "op": r"\w+\("}.get(kind, kind)
        assert re.match(starts, code), (line, code)


@settings(max_examples=3000)
@given(cases())
def test_random_instances(engine: Engine, case: Any) -> None:
    try:
        close(case[0])
    except ProgramError:
        assume(False)
    agree(engine, case)


@st.composite
def followers(draw: st.DrawFn) -> Program:
    """Loops in a loop, all of which follow the outer tile: sums of roundings of several kinds."""
    kinds = [draw(st.sampled_from("nm")) for _ in range(3)]
    slopes, offsets = st.sampled_from([-2, -1, 1, 1, 2, 3]), st.integers(-4, 4)

    def bound(tile: Any, axis: str) -> Any:
        end = draw(st.sampled_from([tile.start, tile.stop])) * draw(slopes) + draw(offsets)
        return end + axis if draw(st.booleans()) else end

    def indices(b: Any, tiles: list[Any]) -> list[Any]:
        found = []
        for axis in "nm":
            mine = [t for t in tiles if t.axis == axis]
            found.append(draw(st.sampled_from([b.span(axis), *mine])))
        return found

    def nest(b: Any, tiles: list[Any], rest: list[str]) -> None:
        x = b.load("A", *indices(b, tiles), name=f"x{len(rest)}")
        if rest:
            axis, tile = rest[0], tiles[0]
            ends = draw(st.sampled_from([(0, 1), (1, 0), (1, 1)]))
            start, stop = (bound(tile, axis) if e else None for e in ends)
            for inner in b.tiles(axis, f"B{axis}{len(rest)}", start or 0, stop):
                nest(b, [*tiles, inner], rest[1:])
        b.free(x)

    def schedule(b: Any) -> None:
        for axis in "nm":
            b.tile_sizes(axis, *(f"B{axis}{k}" for k in range(3)))
        for tile in b.tiles(kinds[0], f"B{kinds[0]}0"):
            nest(b, [tile], kinds[1:])

    return iosim.build("followers", Square, schedule)


@st.composite
def large(draw: st.DrawFn) -> Case:
    """A schedule of attention with any options, or a random one whose spans follow tiles, at sizes
    that no walk can go through."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        program, sizes, _ = draw(dependent_schedules())
    elif kind == 1:
        program, sizes = draw(followers()), {"n": 1, "m": 1}
    else:
        algorithm = draw(algorithms("attention"))
        problem = draw(attention_options(7, algorithm.lacks, algorithm.needs))
        program, sizes = algorithm.program_for(problem), problem.sizes
    most = 2 ** draw(st.integers(3, 40))
    sizes = {x: draw(st.integers(1, most)) for x in sizes}
    tiles = {}
    for p in program.params:
        part = sizes[p.axis] // 2 ** draw(st.integers(0, 30))
        tiles[p.name] = draw(st.integers(p.least, max(1, part)))
    return program, sizes, tiles, {}


@settings(max_examples=1500)
@given(large())
def test_large_instances(engine: Engine, case: Any) -> None:
    program, sizes, tiles, _ = case
    try:
        instance = iosim.bind(program, sizes, tiles)
    except InputError as error:
        (answer,) = engine.ask(program, "count", sizes=sizes, tiles=tiles)
        same_refusal(answer, error)
        return
    assume(not walks(instance))
    counted, peak = engine.ask(program, "count", "peak", sizes=sizes, tiles=tiles)
    same(counted, iosim.count, instance)
    same(peak, iosim.peak, instance)


def walks(instance: Any) -> bool:
    """Whether a closed form goes through many tiles one by one: those of sums that are in sums."""
    closed = close(instance.program)
    atoms = {x for poly in closed.counts.values() for x in poly.atoms()}
    inner = [x for x in atoms if isinstance(x, Sum) and any(isinstance(y, Sum) for y in x.factors)]
    loops = [x.span.axis for x in inner]
    loops += [loop.span.axis for level in closed.peak for loop in level.over[:-1]]
    return any(instance.env[axis] > 200 for axis in loops)


@settings(max_examples=400)
@given(bound_programs(), st.data())
def test_what_cannot_be_bound(engine: Engine, case: Any, data: Any) -> None:
    """Names that are missing or unknown, and values that are no sizes."""
    algorithm, problem, tiles = case
    program, sizes = algorithm.program, problem.sizes
    for given_ in (sizes, tiles):
        for name in list(given_):
            match data.draw(st.sampled_from(["as it is"] * 6 + ["gone", "renamed", "wrong"])):
                case "gone":
                    del given_[name]
                case "renamed":
                    given_[name + "x"] = given_.pop(name)
                case "wrong":
                    wrong = [0, -1, 2**40, 2**40 + 1, 2.5, -0.5]
                    given_[name] = data.draw(st.sampled_from(wrong))
    (answer,) = engine.ask(program, "peak", sizes=sizes, tiles=tiles)
    try:
        instance = iosim.bind(program, sizes, tiles)
    except InputError as error:
        same_refusal(answer, error)
        return
    assert answer["is"] == str(iosim.peak(instance))


def test_masks_that_do_not_fit(engine: Engine) -> None:
    program = iosim.algorithm("block_sparse").program
    sizes, tiles = {"N": 6, "N_k": 6, "d": 2, "heads": 1}, {"B_r": 2, "B_c": 2}
    for mask in (np.ones((3, 2), bool), np.ones((2, 3), bool), None):
        masks = {} if mask is None else {"blocks": mask}
        (answer,) = engine.ask(program, "count", sizes=sizes, tiles=tiles, masks=masks)
        with pytest.raises(InputError) as found:
            iosim.bind(program, sizes, tiles, masks)
        same_refusal(answer, found.value)
    (answer,) = engine.ask(
        program, "count", sizes=sizes, tiles=tiles, masks={"block": np.ones((3, 3), bool)}
    )
    assert refusal(answer) == "block_sparse has no block mask 'block'"


FORMS: dict[str, dict[str, Any]] = {
    "plain": {}, "keys": {"N_k": 1}, "values": {"d_v": 1}, "groups": {"kv_heads": 1},
    "all": {"N_k": 1, "d_v": 1, "kv_heads": 1},
}  # fmt: skip


def searched() -> dict[str, Program]:
    """Every program that the page searches tiles for: registered schedules without masks."""
    found: dict[Program, str] = {}
    for algorithm in iosim.all_algorithms():
        if algorithm.problem.kind == "attention":
            for name, options in FORMS.items():
                problem = iosim.Attention(1, 1, **options)
                if algorithm.supports(problem):
                    found.setdefault(algorithm.program_for(problem), f"{algorithm.name}, {name}")
        elif program_data(algorithm.program)["plans"] is not None:
            found.setdefault(algorithm.program, algorithm.name)
    return {name: program for program, name in found.items()}


class Sizes:
    """Sizes as a problem has them."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes


SEARCHED = searched()


@pytest.mark.parametrize("name", SEARCHED)
def test_best_tiles(engine: Engine, name: str) -> None:
    """The tiles of `optimal_tiles`, which has the same answers as `optimal_tiles_many`."""
    program = SEARCHED[name]
    rng, n = np.random.default_rng(len(name)), 200
    assert program_data(program)["plans"] is not None
    largest = {"N": 4096, "N_k": 4096, "d": 256, "d_v": 256}
    sizes = {
        x: np.maximum(1, (largest.get(x, 4) ** rng.random(n) * 1.1).astype(np.int64))
        for x in program_data(program)["sizes"]
    }
    if "pages" in sizes:
        sizes["pages"] = sizes["page"] * 0 + 9
    M = (2.0 ** rng.uniform(0, 20, n)).astype(np.int64)
    tiles, fits = optimal_tiles_many(program, sizes, M)
    moved = sum(count_many(program, sizes | tiles).values())
    held = peak_many(program, sizes | tiles)
    for k in range(n):
        at = {x: int(v[k]) for x, v in sizes.items()}
        (answer,) = engine.ask(program, "best", sizes=at, M=int(M[k]))
        if fits[k]:
            chosen = {x: int(v[k]) for x, v in tiles.items()}
            assert answer["is"] == {"tiles": chosen, "words": str(moved[k]), "peak": str(held[k])}
        else:
            assert set(answer["is"]) == {"smallest"}
            if k < 60:
                least = smallest_capacity(program, Sizes(at))
                assert answer["is"]["smallest"] == least > M[k]
                again, enough = engine.ask(program, "smallest", "best", sizes=at, M=least)
                assert again["is"] == least
                assert int(enough["is"]["peak"]) <= least


@pytest.mark.parametrize("name", ["flash1", "flash2", "naive", "small_cache", "flash2_keep"])
def test_best_tiles_where_words_pass_53_bits(engine: Engine, name: str) -> None:
    program = iosim.algorithm(name).program
    for N, d, M in [(2**24 + 1, 64, 300), (2**24 - 1, 127, 2**20), (2**27 + 3, 64, 5000)]:
        problem = iosim.Attention(N, d, 64)
        found = iosim.optimal_tiles(program, problem, M)
        (answer,) = engine.ask(program, "best", sizes=problem.sizes, M=M)
        assert answer["is"]["tiles"] == found.tiles
        assert answer["is"]["words"] == str(found.total_words)


@settings(max_examples=150)
@given(random_schedules(), st.integers(1, 200))
def test_best_tiles_of_random_programs(engine: Engine, case: Any, M: int) -> None:
    """Programs whose words fall and rise with parameters in other ways than those of attention."""
    program, sizes, _ = case
    try:
        assume(program_data(program)["plans"] is not None)
    except ProgramError:
        assume(False)
    (answer,) = engine.ask(program, "best", sizes=sizes, M=M)
    if "smallest" in answer["is"]:
        with pytest.raises(CapacityError, match=f"at least {answer['is']['smallest']} words"):
            iosim.optimal_tiles(program, Sizes(sizes), M)
        return
    found = iosim.optimal_tiles(program, Sizes(sizes), M)
    assert answer["is"]["tiles"] == found.tiles
    assert answer["is"]["words"] == str(found.total_words)
    assert answer["is"]["peak"] == str(found.peak_words)


@pytest.mark.timed
def test_fast_enough(engine: Engine) -> None:
    """A frame is 33 ms and a slider is answered within 100; measured are fractions of these."""
    for M in (300, 2**14, 2**18):
        for row in speed(engine, 4096, 64, M):
            assert row["count"] + row["peak"] < 1, row
            assert row["bind"] < 2, row
            assert row["best"] < 50, row
            assert row["walk"] / row["events"] < 2e-3, row
