"""Barriers in emitted kernels: what a load must see, and loads that must not become one."""

from __future__ import annotations

import numpy as np
import pytest

import iosim
from iosim.core.problem import BlockSparse
from iosim.gpu import emit, interpret

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def events(source: str, *tensors: str) -> str:
    """The accesses of tensors and the barriers of a text in order; ``S+`` is a store."""
    found = []
    for line in source.split("program_id(0)", 1)[1].splitlines():
        if "tl.debug_barrier()" in line:
            found.append("|")
        for t in tensors:
            if f"tl.store({t}_ptr" in line:
                found.append(f"{t}+")
            elif "= tl.load(" in line and f"{t}_ptr" in line:
                found.append(t)
    return " ".join(found)


def accesses(schedule, tiles, *tensors, problem=None, masks=None):
    """The accesses of a schedule, whose outputs and counts are the machine's."""
    problem = problem or iosim.Attention(32, 32)
    program = iosim.build("order", problem.form, schedule)
    instance = iosim.bind(program, problem.sizes, tiles, masks)
    hbm = problem.random()
    run = iosim.simulate(instance, iosim.Machine(10**6), hbm)
    outcome = interpret(emit(instance), hbm)
    np.testing.assert_allclose(outcome.outputs["O"], run.outputs["O"], rtol=1e-3, atol=1e-3)
    assert outcome.counts == run.counts == iosim.count(instance)
    return events(emit(instance).source, *tensors)


def added_in_memory(b, *, where=None, keys="N"):
    """Scores are added up in slow memory, a chunk of d at a time; the loop is unrolled."""
    (B_d,) = b.tile_sizes("d", "B_d")
    b.scratch("T", "heads", "N", keys)
    for h in b.grid("heads"):
        for i in b.grid("N", "N"):
            q, t = b.load("Q", h, i, "d"), b.zeros("t", i, keys)
            b.store(t, "T", h, i, keys)
            b.free(t)
            for x in b.tiles("d", B_d, **({"where": where(i)} if where else {})):
                t, k = b.load("T", h, i, keys), b.load("K", h, keys, x)
                b.op("matmul_nt", t, q[x], k)
                b.store(t, "T", h, i, keys)
                b.free(t, k)
            s, v, o = b.load("T", h, i, keys), b.load("V", h, keys, "d"), b.zeros("o", i, "d")
            b.op("matmul_nn", o, s, v)
            b.store(o, "O", h, i, "d")
            b.free(s, v, o, q)


def test_an_unrolled_iteration_waits_for_what_the_last_one_stored():
    assert accesses(added_in_memory, {"B_d": 16}, "T") == "T+ | T T+ | T T+ | T"


def test_a_barrier_of_an_iteration_that_may_not_run_is_none_for_the_next():
    """The mask may leave out the second chunk, and its barrier with it."""
    problem = BlockSparse(32, 32, 48)
    for marked in ([True, False, True], [True, True, True], [False, False, True]):
        found = accesses(
            lambda b: added_in_memory(b, where=lambda i: ("chunks", i), keys="N_k"),
            {"B_d": 16},
            "T",
            problem=problem,
            masks={"chunks": np.array([marked])},
        )
        assert found == "T+ | T T+ | T T+ | T T+ | T"


def twice(b, *, between=None):
    """K is loaded twice in one body, the same tile."""
    B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
    b.scratch("T", "heads", "N", "N")
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            q, o = b.load("Q", h, i, "d"), b.zeros("o", i, "d")
            for j in b.tiles("N", B_c):
                for k in range(2):
                    s = b.zeros("s", i, j)
                    b.op("matmul_nt", s, q, key := b.load("K", h, j, "d"))
                    if between == "store" and k == 0:
                        b.store(s, "T", h, i, j)
                    b.op("matmul_nn", o, s, key)
                    b.free(s, key)
            b.store(o, "O", h, i, "d")
            b.free(q, o)


def test_a_tile_that_is_loaded_twice_has_a_barrier_between():
    tiles = {"B_r": 16, "B_c": 16}
    assert accesses(twice, tiles, "K") == "K | K"
    assert accesses(lambda b: twice(b, between="store"), tiles, "K", "T") == "K T+ K"


def passes(b, *, second=0):
    """Two sweeps over K, the second of them from a position on."""
    B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            q, o = b.load("Q", h, i, "d"), b.zeros("o", i, "d")
            for start, stop in ((0, 16 if second else "N"), (second, "N")):
                for j in b.tiles("N", B_c, start, stop):
                    s, k = b.zeros("s", i, j), b.load("K", h, j, "d")
                    b.op("matmul_nt", s, q, k)
                    b.op("matmul_nn", o, s, k)
                    b.free(s, k)
            b.store(o, "O", h, i, "d")
            b.free(q, o)


def test_sweeps_of_one_tile_have_a_barrier_between_and_longer_ones_none():
    """Loads of two loops stay two, and so do those of other tiles."""
    assert accesses(passes, {"B_r": 16, "B_c": 32}, "K") == "K | K"
    assert accesses(passes, {"B_r": 16, "B_c": 16}, "K") == "K K"
    assert accesses(lambda b: passes(b, second=16), {"B_r": 16, "B_c": 16}, "K") == "K K"


@pytest.mark.parametrize(("rows", "barriers"), [(16, 1), (32, 0)])
def test_a_sweep_whose_ends_the_compiler_knows_may_become_straight_text(rows, barriers):
    """With one tile of rows, ends that follow it are numbers to the compiler."""
    problem = iosim.Attention(rows, 32, N_k=64, causal=True)
    algorithm = iosim.algorithm("naive")
    program = algorithm.program_for(problem)
    tiles = dict.fromkeys((p.name for p in program.params), 16) | {"W1": 32, "W2": 0}
    instance, hbm = iosim.bind(program, problem.sizes, tiles), problem.random()
    outcome = interpret(emit(instance), hbm)
    assert iosim.max_error({"O": outcome.outputs["O"]}, problem.reference(hbm)) < 3e-6
    softmax = emit(instance).source.split("def naive_2")[1].split("def naive_3")[0]
    assert events("program_id(0)" + softmax, "S").count("|") == barriers


def test_chunks_of_an_unrolled_loop_are_other_tiles():
    def schedule(b, again):
        (B_d,) = b.tile_sizes("d", "B_d")
        for h in b.grid("heads"):
            for i in b.grid("N", "N"):
                q, s, o = b.load("Q", h, i, "d"), b.zeros("s", i, "N"), b.zeros("o", i, "d")
                for x in b.tiles("d", B_d):
                    k = b.load("K", h, "N", x)
                    b.op("matmul_nt", s, q[x], k)
                    b.free(k)
                    if again:
                        v = b.load("V", h, "N", "d")
                        b.op("matmul_nn", o, s, v)
                        b.free(v)
                b.store(o, "O", h, i, "d")
                b.free(q, s, o)

    assert accesses(lambda b: schedule(b, False), {"B_d": 16}, "K", "V") == "K K"
    assert accesses(lambda b: schedule(b, True), {"B_d": 16}, "K", "V") == "K V K | V"


def add(b, o, name, h, i, keys):
    """O += (O Xᵀ)X for a tensor X, whose tile is all of it."""
    s, x = b.zeros("s", i, keys), b.load(name, h, keys, "d")
    b.op("matmul_nt", s, o, x)
    b.op("matmul_nn", o, s, x)
    b.free(s, x)


def read(b, names, *, store_in_loop=False, marked=False):
    """Reads whole tensors in this order; the last of them in a loop of one iteration."""
    (B,) = b.tile_sizes("d", "B")
    keys = b.form.tensor("K").axes[-2]
    b.scratch("T", "heads", "N", "d")
    for h in b.grid("heads"):
        for i in b.grid("N", "N"):
            o = b.zeros("o", i, "d")
            for name in names[:-1]:
                add(b, o, name, h, i, keys)
            for x in b.tiles("d", B, **({"where": ("some", i)} if marked else {})):
                if store_in_loop:
                    t = b.zeros("t", i, x)
                    b.store(t, "T", h, i, x)
                    b.free(t)
                add(b, o, names[-1], h, i, keys)
            b.store(o, "O", h, i, "d")
            b.free(o)


def test_what_is_before_a_barrier_or_a_store_is_not_merged_with_what_is_after():
    tiles = {"B": 32}
    assert accesses(lambda b: read(b, "KVKV"), tiles, "K", "V") == "K V | K V"
    assert accesses(lambda b: read(b, "KK", store_in_loop=True), tiles, "K", "T") == "K T+ K"


def test_what_a_mask_may_skip_is_not_merged_either():
    found = accesses(
        lambda b: read(b, "KK", marked=True),
        {"B": 32},
        "K",
        problem=BlockSparse(32, 32, 32),
        masks={"some": np.array([[True]])},
    )
    assert found == "K K"
