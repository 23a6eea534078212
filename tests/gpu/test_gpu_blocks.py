"""Kernels of loops under a block mask: outputs of the machine, counts of the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import walking
from test_blocks import scores_times_v, stream_rows

import iosim
from iosim.core.counting.numbers import count
from iosim.core.problem import BlockSparse
from iosim.core.program.block_masks import BlockMask, masks
from iosim.gpu import EmitError, Lockstep, emit, interpret
from iosim.gpu.emitter import layout
from iosim.gpu.reports import gpu_report
from iosim.gpu.reports.validate import TOLERANCE, validate_jobs
from iosim.gpu.run import patterns

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def stream_keys(b: Any) -> None:
    """A nest whose marked loop is a grid loop; parts of a held buffer; a nest after it."""
    B_r, B_c = b.tile_sizes("N", "B_r")[0], b.tile_sizes("N_k", "B_c")[0]
    (B_d,) = b.tile_sizes("d", "B_d")
    b.scratch("S", "heads", "N", "N_k")
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            for j in b.grid("N_k", B_c, where=("blocks", i)):
                s, held = b.zeros("s", i, j), b.load("Q", h, i, "d")
                for x in b.tiles("d", B_d):
                    k = b.load("K", h, j, x)
                    b.op("matmul_nt", s, held[x], k)
                    b.free(k)
                b.store(s, "S", h, i, j)
                b.free(s, held)
    scores_times_v(b, B_r, B_c)


def two_masks(b: Any) -> None:
    """A mask with a row for each row of Q; one over parts of a held buffer, unrolled."""
    B_r, B_c = b.tile_sizes("N", "B_r")[0], b.tile_sizes("N_k", "B_c")[0]
    (B_d,) = b.tile_sizes("d", "B_d")
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            held, o = b.load("Q", h, i, "d"), b.zeros("o", i, "d")
            for j in b.tiles("N_k", B_c):
                s, v = b.zeros("s", i, j), b.load("V", h, j, "d")
                for x in b.tiles("d", B_d, where=("parts", i)):
                    k = b.load("K", h, j, x)
                    b.op("matmul_nt", s, held[x], k)
                    b.free(k)
                b.op("matmul_nn", o, s, v)
                b.free(s, v)
            b.store(o, "O", h, i, "d")
            b.free(held, o)
        for i in b.grid("N"):
            for j in b.tiles("N_k", B_c, where=("fine", i)):
                b.free(b.load("K", h, j, "d"))


def causal(b: Any) -> None:
    """Scores hidden beside a block mask: the marked loop is split into portions."""
    B_r, B_c = b.tile_sizes("N", "B_r")[0], b.tile_sizes("N_k", "B_c")[0]
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            q, o = b.load("Q", h, i, "d"), b.zeros("o", i, "d")
            for j in b.tiles("N_k", B_c, where=("blocks", i)):
                k, s = b.load("K", h, j, "d"), b.zeros("s", i, j)
                b.op("matmul_nt", s, q, k)
                b.op("drop_after", s, a=i.start - j.start)
                b.op("matmul_nn", o, s, k)
                b.free(k, s)
            b.store(o, "O", h, i, "d")
            b.free(q, o)


def edges(b: Any) -> None:
    """Scores beyond a ragged edge are −inf, then 0 where the loop runs, then multiplied."""
    B_r, B_c = b.tile_sizes("N", "B_r")[0], b.tile_sizes("N_k", "B_c")[0]
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            q, o, s = b.load("Q", h, i, "d"), b.zeros("o", i, "d"), b.zeros("s", i, "N_k")
            m, l = b.lowest("m", i), b.zeros("l", i)
            k = b.load("K", h, "N_k", "d")
            b.op("matmul_nt", s, q, k)
            b.op("row_stats", m, l, s)
            for _ in b.tiles("N_k", B_c, where=("blocks", i)):
                b.op("matmul_nn", o, s, k)
            b.op("matmul_nn", o, s, k)
            b.store(o, "O", h, i, "d")
            b.free(q, o, s, m, l, k)


PROGRAMS = {"block_sparse": iosim.algorithm("block_sparse").program} | {
    f.__name__: iosim.build(f.__name__, BlockSparse, f)
    for f in (stream_keys, stream_rows, two_masks, causal, edges)
}

# Ragged along both axes; whole; a single tile each way; several heads in all but one.
CASES = {
    "ragged": ((70, 45, 24, 3), {"B_r": 32, "B_c": 16, "B_d": 16}),
    "odd": ((53, 61, 32, 2), {"B_r": 20, "B_c": 20, "B_d": 16}),
    "whole": ((64, 96, 16, 1), {"B_r": 16, "B_c": 32, "B_d": 16}),
    "one tile": ((20, 20, 32, 2), {"B_r": 64, "B_c": 64, "B_d": 32}),
}


def bound(name: str, case: str, share: float, seed: int = 0) -> Any:
    """An instance under random masks, with an empty row and an empty column where it has more."""
    (sizes, tiles), program = CASES[case], PROGRAMS[name]
    problem = BlockSparse(*sizes)
    tiles = {p.name: tiles[p.name] for p in program.params}
    env = problem.sizes | {
        p.name: min(tiles[p.name], problem.sizes[p.axis]) for p in program.params
    }
    rng = np.random.default_rng(seed)
    given = {}
    for mask, sides in masks(program).items():
        given[mask] = rng.random(tuple(side.count(env) for side in sides)) < share
        if share < 1 and min(given[mask].shape) > 1:
            given[mask][rng.integers(given[mask].shape[0])] = False
            given[mask][:, rng.integers(given[mask].shape[1])] = False
    return problem, iosim.bind(program, problem.sizes, tiles, given)


@pytest.mark.numbers
@pytest.mark.parametrize("share", [0, 0.6, 1])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_outputs_are_the_machines_and_counts_the_models(name, case, share):
    problem, instance = bound(name, case, share)
    hbm = problem.random(seed=1)
    run = iosim.simulate(instance, iosim.Machine(iosim.peak(instance)), hbm)
    outcome = interpret(emit(instance), hbm)
    np.testing.assert_allclose(outcome.outputs["O"], run.outputs["O"], rtol=2e-3, atol=2e-3)
    assert outcome.counts == run.counts == iosim.count(instance)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_block_sparse_in_narrow_types(seed, dtype):
    problem, instance = bound("block_sparse", list(CASES)[seed % 4], 0.5, seed)
    hbm = problem.random(seed=seed)
    run = iosim.simulate(instance, iosim.Machine(iosim.peak(instance)), hbm)
    outcome = interpret(emit(instance), hbm, dtype)
    assert iosim.max_error(outcome.outputs, run.outputs) < {"fp16": 8e-3, "bf16": 6e-2}[dtype]
    assert outcome.counts == iosim.count(instance)


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_sectors_against_a_walk_over_every_row(name, case, dtype):
    for share in (0, 0.5, 1):
        _, instance = bound(name, case, share)
        found = {key: n for key, n in layout.sector_bytes(instance, dtype).items() if n}
        assert found == {key: n for key, n in walking.sectors(instance, dtype).items() if n}


def test_what_the_text_asks_of_a_mask():
    _, instance = bound("block_sparse", "ragged", 0.5)
    (kernel,) = emit(instance).kernels
    assert (kernel.grid, kernel.tensors, kernel.masks) == (9, ("Q", "K", "V", "O"), ("blocks",))
    text = emit(instance).source
    assert "(Q_ptr, K_ptr, V_ptr, O_ptr, blocks_ptr, words_ptr, COUNT" in text
    assert text.count("if tl.load(blocks_ptr + (i // 32) * 3 + (j // 16)) != 0:") == 1
    first, second = emit(bound("stream_keys", "ragged", 0.5)[1]).kernels
    assert (first.grid, second.grid) == (9, 9)  # the marked grid loop is inside
    large = BlockMask((2**16, 2**16), b"")
    text = emit(replace(instance, masks=(("blocks", large),))).source
    assert "blocks_ptr + tl.cast((i // 32), tl.int64) * 65536 + tl.cast((j // 16), tl" in text
    split = emit(bound("causal", "ragged", 0.5)[1]).source
    assert split.count("for j in ") == split.count("if tl.load(blocks_ptr") == 2


def test_a_marked_loop_is_not_kept_in_step():
    _, instance = bound("block_sparse", "ragged", 0.5)
    with pytest.raises(EmitError, match="loop j runs where the block mask blocks marks: emit it"):
        emit(instance, Lockstep(1))
    with pytest.raises(EmitError, match="no sequential loop right below its grid"):
        emit(bound("stream_keys", "ragged", 0.5)[1], Lockstep(1))


def test_a_sweep_around_a_marked_loop_is_kept_in_step():
    problem, instance = bound("stream_rows", "ragged", 0.6)
    hbm = problem.random(seed=1)
    run = iosim.simulate(instance, iosim.Machine(iosim.peak(instance)), hbm)
    outcome = interpret(emit(instance, Lockstep(1, every=2)), hbm)
    np.testing.assert_allclose(outcome.outputs["O"], run.outputs["O"], rtol=2e-3, atol=2e-3)
    assert outcome.counts == run.counts


def test_patterns_of_blocks_by_hand():
    assert patterns.mask("below", 3, 6).astype(int).tolist() == [
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0],
        [1, 1, 1, 1, 1, 1],
    ]
    band = patterns.mask("band", 4, 8)
    assert np.argwhere(band[2]).ravel().tolist() == [0, 3, 4, 5]
    assert band[0].all()
    assert band[:, 0].all()
    drawn = patterns.mask("drawn", 40, 50)
    assert not drawn[0].any()
    assert abs(drawn[1:].mean() - 0.3) < 0.03
    with pytest.raises(iosim.InputError, match="unknown pattern 'bands': did you mean 'band'"):
        patterns.mask("bands", 2, 2)


@pytest.mark.parametrize("case", ["band", "tiles", "below"])
def test_jobs_of_patterns_are_right_and_say_what_their_masks_move(case):
    (job,) = validate_jobs(("block_sparse",), (16,), (2048,), (100,), cases=(case,))
    instance, inputs = job.instance, job.problem.random(3)
    rows, columns = (-(-100 // job.tiles[x]) for x in ("B_r", "B_c"))
    assert rows > 1
    assert columns > 2
    ((_, mask),) = instance.masks
    assert 0 < mask.numbers[0] < rows * columns
    found = interpret(job.emitted(), inputs, job.dtype)
    assert iosim.max_error({"O": found.outputs["O"]}, job.reference(inputs)) < TOLERANCE["fp16"]
    assert found.counts == count(instance)
    pairs = job.sizes["heads"] * rows * columns
    assert layout.mask_bytes(instance, [4]) == 32 * 4 * pairs
    assert (
        layout.mask_bytes(iosim.bind(iosim.algorithm("copy").program, {"n": 4}, {"B": 2}), []) == 0
    )


def test_cases_of_patterns_are_for_schedules_with_block_masks():
    report = gpu_report("validate")
    given = {o.name: o.parse(o.default) for o in report.options}
    with pytest.raises(iosim.InputError, match="flash2 run no case of band"):
        report.plan(given | {"schedule": ("flash2",), "case": ("band",)})
    both = validate_jobs(
        ("flash2", "block_sparse"), (64,), (16384,), (128,), cases=("dense", "band")
    )
    assert [(job.algorithm, job.pattern) for job in both] == [
        ("flash2", ""),
        ("block_sparse", "band"),
    ]
    assert both[1].as_dict()["pattern"] == "band"
