"""The emitter without running anything: golden texts, what it refuses, the sector model."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
import walking
from strategies import plain_algorithms

import iosim
from iosim.core.program.ops import OPS
from iosim.core.tiling.gpu import gpu_tiles
from iosim.core.units import bytes_of
from iosim.gpu.emitter import layout
from iosim.gpu.emitter.kernels import EmitError, Lockstep, emit
from iosim.gpu.run.job import Job

GOLDEN = [
    ("copy", iosim.Copy(1000), {"B": 256}, None),
    ("matmul", iosim.MatMul(100, 96, 80), {"B_m": 64, "B_n": 32, "B_k": 16}, None),
    ("flash1", iosim.Attention(1001, 80, 2), {"B_r": 64, "B_c": 32}, None),
    ("flash2", iosim.Attention(1024, 64, 4), {"B_r": 64, "B_c": 32}, None),
    ("flash2_in_step", iosim.Attention(1024, 64), {"B_r": 64, "B_c": 32}, Lockstep(5, 8)),
    (
        "small_cache",
        iosim.Attention(1000, 128),
        {"B_r1": 64, "B_c1": 32, "B_d1": 128, "W1": 128, "B_r2": 32, "B_c2": 32, "B_d2": 64},
        None,
    ),
    ("flash2_chunked", iosim.Attention(1000, 80), {"B_d": 32, "B_r": 64, "B_c": 32}, None),
    (
        "grouped_rows",
        iosim.Attention(1001, 80, 8, kv_heads=2, causal=True),
        {"B_r": 16, "B_c": 32},
        None,
    ),
    ("decode", iosim.Attention(1, 128, 32, N_k=16384, kv_heads=8), {"B_c": 128}, None),
    (
        "spill_rows",
        iosim.Attention(1024, 128),
        {"B_r1": 64, "B_c1": 32, "B_d1": 64, "W1": 128, "B_d2": 64, "B_r2": 64, "B_c2": 32},
        None,
    ),
    (
        "naive",
        iosim.Attention(200, 64, 2),
        {
            "B_r1": 64,
            "B_c1": 32,
            "B_d1": 32,
            "W1": 0,
            "B_r2": 16,
            "B_c2": 32,
            "W2": 200,
            "B_r3": 64,
            "B_c3": 32,
            "B_d3": 64,
        },
        None,
    ),
]


def _bind(name, problem, tiles):
    return iosim.bind(iosim.algorithm(name).program_for(problem), problem.sizes, tiles)


@pytest.mark.parametrize(("name", "problem", "tiles", "lockstep"), GOLDEN, ids=lambda x: str(x)[:9])
def test_golden(golden, name, problem, tiles, lockstep):
    instance = _bind(name.removesuffix("_in_step"), problem, tiles)
    golden(f"gpu/{name}.txt", emit(instance, lockstep).source)


@pytest.mark.parametrize(
    "name", [a.name for a in plain_algorithms() if a.name not in [g[0] for g in GOLDEN]]
)
def test_golden_of_newer_algorithms(golden, name):
    """An algorithm that has no line above still has a golden kernel, with the tiles of an M."""
    entry = iosim.algorithm(name)
    problem = entry.problem.beside_attention(100, 64, 2)
    instance = _bind(name, problem, gpu_tiles(entry.program, problem, 32768).tiles)
    golden(f"gpu/{name}.txt", emit(instance).source)


def test_grid_loops_become_the_launch_grid():
    (kernel,) = emit(_bind("flash2", iosim.Attention(1000, 64, 3), {"B_r": 64, "B_c": 64})).kernels
    assert (kernel.grid, kernel.items) == (3 * 16, 3 * 16)
    (kernel,) = emit(_bind("flash1", iosim.Attention(1000, 64, 3), {"B_r": 64, "B_c": 64})).kernels
    assert kernel.grid == 3  # its grid over rows lies below a sequential loop
    text = emit(
        _bind("flash2", iosim.Attention(1024, 64), {"B_r": 64, "B_c": 64}), Lockstep(5)
    ).kernels
    assert (text[0].grid, text[0].items) == (5, 16)


def test_large_tensors_are_addressed_in_64_bits():
    tiles = {"B_r1": 64, "B_c1": 64, "B_d1": 64, "W1": 0, "B_r2": 64, "B_c2": 64, "B_d2": 64}
    assert (
        "tl.int64) * 65536 +"
        in emit(_bind("small_cache", iosim.Attention(2**16, 64), tiles)).source
    )
    small = emit(_bind("small_cache", iosim.Attention(2**12, 64), tiles)).source
    assert "tl.cast" not in small


def test_an_operation_without_a_template_is_named(monkeypatch):
    bare = dataclasses.replace(OPS["finish"], triton=None)
    monkeypatch.setitem(OPS, "finish", bare)
    with pytest.raises(EmitError, match="'finish' has no Triton template"):
        emit(_bind("flash2", iosim.Attention(64, 16), {"B_r": 16, "B_c": 16}))


def test_every_operation_has_a_template():
    assert [name for name, spec in OPS.items() if spec.triton is None] == []


def test_a_cut_buffer_becomes_blocks_and_its_loop_is_unrolled():
    tiles = {"B_d": 16, "B_r": 16, "B_c": 16}
    text = emit(_bind("flash2_chunked", iosim.Attention(64, 48), tiles)).source
    for k in range(3):
        assert f"q_{k} = tl.load(" in text
        assert f"o_{k} = o_{k} * _shrink[:, None]" in text
    assert "for x" not in text


def test_cuts_that_do_not_fit_are_refused():
    def uneven(b):
        (B,), W = b.tile_sizes("d", "B"), b.stationary("d", "W")
        (R,) = b.tile_sizes("N", "R")
        for h in b.grid("heads"):
            for i in b.grid("N", R):
                q = b.load("Q", h, i, "d")
                for x in b.tiles("d", B, 0, W):
                    b.op("zero", q[x])
                b.store(q, "O", h, i, "d")
                b.free(q)

    program = iosim.build("uneven", iosim.Attention, uneven)
    sizes = {"N": 32, "d": 32, "heads": 1}
    with pytest.raises(EmitError, match=r"q\[x\]: on a GPU the loop x must cut all of q"):
        emit(iosim.bind(program, sizes, {"B": 16, "W": 16, "R": 16}))

    def mixed(b):
        (B,), (R, C) = b.tile_sizes("d", "B"), b.tile_sizes("N", "R", "C")
        for h in b.grid("heads"):
            for i in b.grid("N", R):
                q, o = b.load("Q", h, i, "d"), b.zeros("o", i, "d")
                for j in b.tiles("N", C):
                    k, s = b.load("K", h, j, "d"), b.zeros("s", i, j)
                    b.op("matmul_nt", s, q, k)
                    for x in b.tiles("d", B):
                        b.op("matmul_nn", o[x], s, k[x])
                    b.free(k, s)
                b.store(o, "O", h, i, "d")
                b.free(q, o)

    program = iosim.build("mixed", iosim.Attention, mixed)
    with pytest.raises(EmitError, match="needs all of k at once"):
        emit(iosim.bind(program, sizes, {"B": 16, "R": 16, "C": 16}))


def test_too_large_a_block_and_a_nest_that_cannot_run_in_step():
    with pytest.raises(EmitError, match="choose smaller tiles"):
        emit(_bind("flash2", iosim.Attention(2**16, 64), {"B_r": 2**15, "B_c": 64}))
    with pytest.raises(EmitError, match="without lockstep"):
        emit(_bind("copy", iosim.Copy(64), {"B": 16}), Lockstep(4))


@pytest.mark.parametrize(("name", "problem", "tiles"), [g[:3] for g in GOLDEN if not g[3]])
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_sector_bytes_against_a_walk_over_every_row(name, problem, tiles, dtype):
    """The fold against brute force: the sectors that every row of every transfer touches."""
    instance = _bind(name, problem, tiles)
    assert layout.sector_bytes(instance, dtype) == walking.sectors(instance, dtype)


def test_whole_sectors_are_the_models_bytes():
    instance = _bind("flash2", iosim.Attention(1008, 64, 2), {"B_r": 64, "B_c": 32})
    model = bytes_of(iosim.count(instance), instance.program.tensors, "fp16")
    assert layout.sector_bytes(instance, "fp16") == model


def test_rows_are_padded_to_sectors():
    instance = _bind("naive", *GOLDEN[-1][1:3])
    by_name = {t.name: layout.strides(t, instance) for t in instance.program.tensors}
    assert by_name["S"] == (200 * 208, 208, 1)
    assert by_name["Q"] == (200 * 64, 64, 1)


def test_importing_iosim_and_emitting_need_neither_triton_nor_torch():
    code = (
        "import sys, iosim; from iosim.gpu.emitter.kernels import emit\n"
        "i = iosim.bind(iosim.algorithm('copy').program, {'n': 64}, {'B': 16})\n"
        "emit(i); assert not {'torch', 'triton'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_ragged_load_beside_whole_vectors_ends_with_a_sector():
    """The compiler gives both one layout; masked at the edge, the load would ask for its sectors
    again and again."""
    sizes = {"N": 1001, "d": 48, "heads": 1}
    tiles = {
        "B_r1": 64,
        "B_c1": 64,
        "B_d1": 48,
        "W1": 48,
        "B_r2": 16,
        "B_c2": 1024,
        "W2": 1001,
        "B_r3": 64,
        "B_c3": 64,
        "B_d3": 48,
    }
    beside = Job("naive", sizes, tiles).emitted().source
    assert "mask=(j + to_64 < sector_end(1001, P_ptr))[None, :] & i_in[:, None]" in beside
    assert "p = tl.where(i_in[:, None] & j_in[None, :], p, 0.0)" in beside
    apart = Job("naive", sizes, tiles | {"B_c3": 32}).emitted().source
    assert "mask=i_in[:, None] & j_in[None, :], other=0.0" in apart
    assert "p = tl.where" not in apart


def test_odd_rows_of_d_beside_whole_vectors_end_with_a_sector():
    """Found in a draw: with d = 54 beside d_v = 48, K moved 4 bytes at a time, and each sector was
    asked for 4 times."""
    problem = iosim.Attention(438, 54, 2, d_v=48)
    text = Job.of("flash2", problem, {"B_r": 128, "B_c": 64}).emitted().source
    for x, rows in (("K", "j_in"), ("Q", "i_in")):
        assert f"mask=(to_64 < sector_end(54, {x}_ptr))[None, :] & {rows}[:, None]" in text
        assert f"{x.lower()} = tl.where({rows}[:, None] & d_in[None, :], {x.lower()}, 0.0)" in text
    assert "mask=j_in[:, None] & d_v_in[None, :], other=0.0" in text  # V as ever
    alike = Job.of("flash2", iosim.Attention(438, 54, 2), {"B_r": 128, "B_c": 64}).emitted().source
    assert "sector_end" not in alike  # no tile of that shape moves as vectors


def test_a_branch_over_a_loaded_tile_makes_it_fp32_before():
    """Found in a draw: Triton refuses a block whose type a branch changes."""
    problem = iosim.Attention(643, 64, N_k=117, causal=True)
    tiles = {
        "B_r1": 64,
        "B_c1": 64,
        "B_d1": 64,
        "W1": 0,
        "B_r2": 16,
        "B_c2": 128,
        "W2": 117,
        "B_r3": 64,
        "B_c3": 64,
        "B_d3": 64,
    }
    lines = [x.strip() for x in Job.of("naive", problem, tiles).emitted().source.splitlines()]
    at = lines.index("if 0 < N_k_part_stop:")
    assert lines[at - 1] == "held = held.to(tl.float32)"


def test_the_compiler_does_not_know_where_a_single_tile_starts():
    """Found in a draw: it left out words that a mask hides from every row, so the hardware moved
    less than the program says."""
    problem = iosim.Attention(159, 64, causal=True, window=(124, 151))
    tiles = {
        "B_r1": 64,
        "B_c1": 64,
        "B_d1": 64,
        "W1": 64,
        "B_r2": 16,
        "B_c2": 256,
        "B_r3": 64,
        "B_c3": 64,
        "B_d3": 64,
    }
    text = Job.of("naive", problem, tiles, dtype="fp32").emitted().source
    softmax = text[text.index("def naive_2") : text.index("def naive_3")]
    loops = [x for x in softmax.splitlines() if x.strip().startswith("for j in")]
    assert len(loops) == 6
    assert all(" - (tl.num_programs(1) - 1), " in x for x in loops)
    assert "num_programs" not in text[text.index("def naive_3") :]  # tiles of 64 of 159 columns


def test_the_right_operand_of_a_tall_product_is_known():
    """Its bytes are what a GPU's run looks at before it launches (`iosim.gpu.run.cuda`)."""

    def operand(B_r: int, B_c: int, d: int = 128) -> int:
        job = Job("flash2", {"N": 1024, "d": d, "heads": 1}, {"B_r": B_r, "B_c": B_c})
        return job.emitted().kernels[0].operand

    assert operand(64, 512) == 512 * 128
    assert operand(64, 512, 64) == 512 * 64
    assert operand(128, 32) == 32 * 128
    assert operand(32, 512) == 0  # such a product reads registers
    copy = iosim.bind(iosim.algorithm("copy").program, {"n": 64}, {"B": 16})
    assert emit(copy).kernels[0].operand == 0
