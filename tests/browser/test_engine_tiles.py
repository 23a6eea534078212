"""The tiles of the page's search are those of `optimal_tiles`, to the word."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from engine import Engine
from hypothesis import assume, given
from hypothesis import strategies as st
from sizes import examples
from strategies import (
    Square,
    dependent_schedules,
    random_schedules,
    split_schedules,
)

import iosim
from iosim.base.errors import CapacityError, InputError, ProgramError
from iosim.core.counting.numbers import count_many, peak_many
from iosim.core.problem.family import Family
from iosim.core.program.block_masks import masks
from iosim.core.program.ir import Program
from iosim.core.tiling import optimal_tiles, optimal_tiles_many, smallest_capacity
from iosim.lab.data.watch import MASKS
from iosim.lab.programs import program_data

FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "keys": {"N_k": 1},
    "values": {"d_v": 1},
    "groups": {"kv_heads": 1},
    "all": {"N_k": 1, "d_v": 1, "kv_heads": 1},
}


def searched() -> dict[str, Program]:
    """Every program that the page searches tiles for: registered schedules without masks."""
    found: dict[Program, str] = {}
    for algorithm in iosim.all_algorithms():
        if algorithm.problem.kind == "attention":
            for name, options in FORMS.items():
                problem = iosim.Attention(1, 1, **options)
                if algorithm.supports(problem):
                    found.setdefault(algorithm.program_for(problem), f"{algorithm.name}, {name}")
        elif not masks(algorithm.program):
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
    largest = {"N": 4096, "N_k": 4096, "d": 256, "d_v": 256}
    sizes = {
        x: np.maximum(1, (largest.get(x, 4) ** rng.random(n) * 1.1).astype(np.int64))
        for x in program_data(program)["sizes"]
    }
    if "pages" in sizes:
        sizes["pages"] = sizes["page"] * 0 + 9
    M = (2.0 ** rng.uniform(0, 20, n)).astype(np.int64)
    assert same_tiles(engine, program, sizes, M, smallest=60) > n / 4


def same_tiles(
    engine: Engine, program: Program, sizes: dict[str, Any], M: Any, smallest: int
) -> int:
    """Tiles, words, and the peak at every point; how many fit.

    Args:
        smallest: at most so many times the least M that works, where nothing fits.
    """
    tiles, fits = optimal_tiles_many(program, sizes, M)
    moved = sum(count_many(program, sizes | tiles).values())
    held = peak_many(program, sizes | tiles)
    points = [{x: int(v[k]) for x, v in sizes.items()} for k in range(len(M))]
    asks = [{"do": "best", "sizes": at, "M": int(M[k])} for k, at in enumerate(points)]
    for k, answer in enumerate(engine.ask_all(program, asks)):
        at = points[k]
        told = (program.name, at, int(M[k]))
        if fits[k]:
            chosen = {x: int(v[k]) for x, v in tiles.items()}
            want = {"tiles": chosen, "words": str(moved[k]), "peak": str(held[k])}
            assert answer["is"] == want, told
            continue
        assert set(answer["is"]) == {"smallest"}, told
        if smallest:
            smallest -= 1
            least = smallest_capacity(program, Sizes(at))
            assert answer["is"]["smallest"] == least > M[k], told
            again, enough = engine.ask(program, "smallest", "best", sizes=at, M=least)
            assert again["is"] == least, told
            assert int(enough["is"]["peak"]) <= least, told
    return int(fits.sum())


MASKED = [
    (algorithm.name, mask)
    for algorithm in iosim.all_algorithms("attention")
    for mask, seen in MASKS.items()
    if seen
    and algorithm.supports(
        iosim.Attention(
            1,
            1,
            causal="causal" in seen,
            window=(1, 0) if "left" in seen else None,
            **dict.fromkeys(algorithm.needs, 1),
        )
    )
]
APART = ("N_k", "kv_heads", "d_v")


@pytest.mark.parametrize(("name", "mask"), MASKED)
def test_best_tiles_under_a_mask(engine: Engine, name: str, mask: str) -> None:
    """Every schedule under every mask of the page, with what is given apart, at ragged sizes."""
    algorithm, n = iosim.algorithm(name), 12
    rng, fits = np.random.default_rng(MASKED.index((name, mask))), 0
    subsets = itertools.chain.from_iterable(itertools.combinations(APART, k) for k in range(4))
    for apart in ({*x} for x in subsets if {*x} >= {*algorithm.needs}):

        def sizes(most: float) -> Any:
            return np.maximum(1, (most ** rng.random(n) * 1.1).astype(np.int64))

        columns = {"N": sizes(4096), "d": sizes(256), "heads": sizes(4)}
        columns |= {"N_k": sizes(4096), "d_v": sizes(256), "kv_heads": sizes(2)}
        columns = {x: v for x, v in columns.items() if x not in APART or x in apart}
        if "kv_heads" in apart:
            columns["heads"] *= columns["kv_heads"]
        columns |= {x: sizes(5000) - 1 for x in MASKS[mask] if x != "causal"}
        fixed = {"causal": True} if "causal" in MASKS[mask] else {}
        any_of = {x: int(v[0]) for x, v in columns.items()} | dict.fromkeys(apart, 1)
        family = Family.of(iosim.Attention, any_of, fixed)
        if algorithm.supports(family.form):
            M = (2.0 ** rng.uniform(0, 20, n)).astype(np.int64)
            program = algorithm.program_for(family.form)
            fits += same_tiles(engine, program, family.extents(columns), M, smallest=3)
    assert fits > n / 2


@pytest.mark.parametrize("name", ["flash1", "flash2", "naive", "small_cache", "flash2_keep"])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (10**6, 99)}], ids=str)
def test_best_tiles_where_words_pass_53_bits(
    engine: Engine, name: str, options: dict[str, Any]
) -> None:
    algorithm = iosim.algorithm(name)
    for N, d, M in [(2**24 + 1, 64, 300), (2**24 - 1, 127, 2**20), (2**27 + 3, 64, 5000)]:
        problem = iosim.Attention(N, d, 64, **options)
        if not algorithm.supports(problem):
            continue
        program = algorithm.program_for(problem)
        found = optimal_tiles(program, problem, M)
        (answer,) = engine.ask(program, "best", sizes=problem.sizes, M=M)
        assert answer["is"]["tiles"] == found.tiles
        assert answer["is"]["words"] == str(found.total_words)


def mostly_the_same(b: Any) -> None:
    """Words that no tile changes, and one in each pair of two loops' tiles."""
    b.tile_sizes("n", "C")
    b.tile_sizes("m", "B")
    for j in b.tiles("m", "B"):
        for i in b.points("n"):
            b.free(b.load("A", i, j, name="x"))
        for i in b.tiles("n", "C"):
            rows = b.alloc("rows", i)
            b.free(rows, b.load("A", b.span("n", 0, 1), b.span("m", 0, 1), name="y"))


def test_words_that_differ_by_less_than_floats_do(engine: Engine) -> None:
    """n·m + ⌈m/B⌉·⌈n/C⌉ words: in floating point 2^60 swallows what tiles change."""
    program = iosim.build("mostly_the_same", Square, mostly_the_same)
    for n, m, M in [(2**34, 2**26, 2**33), (2**33 + 1, 2**27 - 1, 2**25), (2**38, 2**30, 2**36)]:
        assert float(n * m) == float(n * m + 2)
        found = optimal_tiles(program, Sizes({"n": n, "m": m}), M)
        (answer,) = engine.ask(program, "best", sizes={"n": n, "m": m}, M=M)
        assert answer["is"]["tiles"] == found.tiles
        assert answer["is"]["words"] == str(found.total_words)


ANY = st.one_of(
    random_schedules(), random_schedules(mixed=True), dependent_schedules(), split_schedules()
)


@given(ANY, st.integers(1, 200))
@examples(6 / 5)
def test_best_tiles_of_random_programs(engine: Engine, case: Any, M: int) -> None:
    """Programs whose words fall and rise with parameters in other ways than those of attention."""
    program, sizes, _ = case
    try:
        program_data(program)
    except ProgramError:
        assume(False)
    (answer,) = engine.ask(program, "best", sizes=sizes, M=M)
    try:
        found = optimal_tiles(program, Sizes(sizes), M)
    except CapacityError as error:
        least = re.search(r"at least (\d+) words", str(error))
        assert least
        assert answer == {"is": {"smallest": int(least[1])}}
    except InputError:  # some part lies outside its axis, whatever the tiles are
        assert "has no valid tiling" in answer["error"]
    else:
        want = {"words": str(found.total_words), "peak": str(found.peak_words)}
        assert answer == {"is": {"tiles": found.tiles} | want}
