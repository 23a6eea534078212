"""Parts of tiles: a loop over all of an outer tile cuts what has that tile as a dimension."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import iosim
from iosim.base.errors import ProgramError
from iosim.cache import Cache, replay, touches
from iosim.core.problem import AttentionBackward
from iosim.core.program.check import check
from iosim.core.program.index import Span, Tile
from iosim.core.program.ir import Loop
from iosim.core.tiling.gpu import gpu_tiles
from iosim.core.trace import tally
from iosim.gpu.emitter.kernels import emit
from iosim.gpu.errors import EmitError
from iosim.gpu.run.interpreter import interpret


def in_parts(b):
    """C = A·B in tiles, each doubled B_p rows and B_q columns at a time: C + C, C read again."""
    (B_m, B_p), (B_n, B_q) = b.tile_sizes("m", "B_m", "B_p"), b.tile_sizes("n", "B_n", "B_q")
    for i in b.grid("m", B_m):
        for j in b.grid("n", B_n):
            c, one = b.zeros("c", i, j), b.zeros("one", i)
            left, right = b.load("A", i, "k"), b.load("B", "k", j)
            b.op("matmul_nn", c, left, right)
            for y in b.tiles("m", B_p, i.start, i.stop):
                for x in b.tiles("n", B_q, j.start, j.stop):
                    b.op("matmul_nn", c[y], left[y], right)
                    b.free(b.load("B", "k", x, name="again"))
            b.store(c, "C", i, j)
            b.free(c, one, left, right)


@pytest.mark.parametrize(
    "tiles", [(3, 1, 4, 4), (3, 2, 4, 9), (4, 3, 3, 9), (7, 7, 9, 9), (5, 9, 2, 2)]
)
def test_a_part_of_a_tile_is_what_the_inner_tile_covers(tiles):
    program = iosim.build("in_parts", iosim.MatMul, in_parts)
    B_m, B_p, B_n, B_q = tiles
    problem = iosim.MatMul(m=7, n=9, k=3)
    instance = iosim.bind(program, problem.sizes, {"B_m": B_m, "B_p": B_p, "B_n": B_n, "B_q": B_q})
    hbm = problem.random(seed=2)
    run = iosim.simulate(instance, iosim.Machine(iosim.peak(instance)), hbm)
    # Each part is added once for each part of the columns.
    times = np.repeat([1 + -(-min(B_n, 9 - at) // B_q) for at in range(0, 9, B_n)], B_n)[:9]
    np.testing.assert_allclose(run.outputs["C"], hbm["A"] @ hbm["B"] * times, rtol=1e-12)
    assert run.counts == iosim.count(instance) == tally(instance)
    for lanes in (1, 4, 2**18):
        again = iosim.simulate(instance, iosim.Machine(iosim.peak(instance)), hbm, lanes=lanes)
        np.testing.assert_allclose(again.outputs["C"], run.outputs["C"], rtol=1e-12)


def test_both_dimensions_may_run_along_one_axis():
    """Scores of N rows and N columns: the tile says which of them is cut."""
    found = iosim.algorithm("small_backward")
    problem = AttentionBackward(11, 4)
    for own in range(1, 6):
        tiles = {p.name: 5 for p in found.program.params} | {"B_p3": own}
        instance = iosim.bind(found.program, problem.sizes, tiles)
        hbm = problem.random()
        run = iosim.simulate(instance, iosim.Machine(iosim.peak(instance)), hbm)
        want = problem.reference(hbm)
        assert iosim.max_error({x: run.outputs[x] for x in want}, want) < 1e-12


def test_caches_see_the_part_that_is_touched():
    """With room for all of it, each word that is read comes in once."""
    found = iosim.algorithm("small_backward")
    problem = AttentionBackward(6, 2)
    tiles = {p.name: 3 for p in found.program.params} | {"B_p3": 2}
    seen = touches(iosim.bind(found.program, problem.sizes, tiles))
    inputs = 5 * 12 + 6  # of 6 × 2 words, and L
    assert replay(seen, Cache(capacity=4096, policy="lru")).loads == inputs


def test_a_loop_that_is_not_over_all_of_the_tile_cuts_nothing():
    def half(b):
        B, C = b.tile_sizes("n", "B", "C")
        for i in b.grid("n", B):
            x = b.load("X", i)
            for j in b.tiles("n", C, i.start, i.stop - 1):
                b.op("zero", x[j])
            b.store(x, "Y", i)
            b.free(x)

    with pytest.raises(ProgramError, match=r"x\[j\]: i is a tile already.* over all of a tile"):
        iosim.build("half", iosim.Copy, half)


def test_a_tile_that_says_what_its_loop_is_not_is_refused():
    program = iosim.algorithm("copy").program
    (loop,) = program.body
    assert isinstance(loop, Loop)
    inner = Tile("j", "n", of=loop.tile)
    bad = dataclasses.replace(
        loop, body=(Loop(inner, Span("n", loop.tile.start, loop.tile.stop + 1), "B", False, ()),)
    )
    with pytest.raises(ProgramError, match="loop j does not run over all of tile i"):
        check(dataclasses.replace(program, body=(bad,)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_kernels_take_a_tile_whole_or_say_that_they_must():
    found = iosim.algorithm("small_backward")
    problem = AttentionBackward(40, 24, causal=True)
    program = found.program_for(problem)
    tiles = gpu_tiles(program, problem, 4096).tiles
    assert tiles["B_p3"] == 40
    inputs = problem.random(seed=3)
    for own in (tiles["B_r3"], 40):
        instance = iosim.bind(program, problem.sizes, tiles | {"B_p3": own})
        outcome = interpret(emit(instance), inputs)
        assert outcome.counts == iosim.count(instance)
        got = {t.name: outcome.outputs[t.name] for t in problem.outputs}
        assert iosim.max_error(got, problem.reference(inputs)) < 3e-6
    small = iosim.bind(program, problem.sizes, tiles | {"B_r3": 32, "B_p3": 16})
    with pytest.raises(EmitError, match=r"B_p3 = 16 cuts tiles of B_r3 = 32.*give B_p3 = 32"):
        emit(small)
