"""Kernels of libraries in a report, beside what the model expects of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from test_cli import iosim_, ok
from unpacked import recorded

import iosim
from iosim.base.errors import InputError
from iosim.core.problem import Attention, AttentionBackward, MatMul
from iosim.core.program.walk import walk
from iosim.gpu.profiling.bulk import box_bytes, whole_bytes
from iosim.gpu.profiling.expected import expect, from_grid
from iosim.gpu.profiling.kernels import SM_L2, kernels
from iosim.gpu.profiling.known_kernels import KNOWN, assume_kernel, find_kernel
from iosim.gpu.profiling.launch import KernelLaunch
from iosim.gpu.profiling.reading import read
from iosim.gpu.run.job import Job

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "experiments" / "data" / "gpu" / "profile" / "h200"

FORWARD = [(d, causal) for d in (64, 128) for causal in (False, True)]


@pytest.fixture(scope="module")
def found():
    return kernels(read(REPORT))


def _expect_all(found, algorithm, problem, **more):
    every = (expect(k, algorithm, problem, **more) for k in found)
    return {x.title: x for x in every if x is not None}


@pytest.mark.parametrize(("d", "causal"), FORWARD)
def test_flash_attention_2_is_exact(found, d, causal):
    problem = Attention(4096, d, heads=8, causal=causal)
    one = _expect_all(found, "flash2", problem)["FlashAttention-2, forward"]
    assert one.tiles == {"B_r": 128, "B_c": 128 if d == 64 else 64}
    assert one.unexplained == 0
    read_, *_ = [row for row in one.rows if row.what == "reads, programs in lockstep"]
    assert abs(read_.unexplained) < 0.01 * read_.measured


@pytest.mark.parametrize(("d", "causal"), FORWARD)
def test_flash_attention_2_backward_is_exact(found, d, causal):
    """Its name tells how many warps ask for the same L and D."""
    problem = AttentionBackward(4096, d, 8, causal=causal)
    every = _expect_all(found, "flash2_backward", problem)
    mine = [x for title, x in every.items() if title.startswith("FlashAttention-2")]
    assert len(mine) == 3
    assert all(x.unexplained == 0 for x in mine)
    main = every["FlashAttention-2, backward"]
    (added,) = [row for row in main.rows if row.what.startswith("reductions")]
    pairs = 32 * 33 // 2 if causal else 32 * 32
    assert added.expected == pairs * 128 * d * 4 * 8
    # What is added to is read and written once, in fp32, beside dK and dV, and Q, K, V, dO, L, D.
    assert {
        row.what: row.expected for row in main.rows if "write" in row.what or "least" in row.what
    } == {
        "writes, unless they stay in L2": 8 * 4096 * d * (2 + 2 + 4),
        "reads if they drift, at least": 8 * 4096 * (d * (4 * 2 + 4) + 2 * 4),
    }


def test_cudnn_is_exact_on_its_own_path(found):
    forward = _expect_all(found, "flash2", Attention(4096, 64, 8))["cuDNN, forward"]
    assert forward.unexplained == 0
    assert forward.rows[0].what == "loads, bulk copies (K Q V)"
    back = _expect_all(found, "flash2_backward", AttentionBackward(4096, 128, 8))["cuDNN, backward"]
    assert back.unexplained == 0
    assert [row.expected for row in back.rows[:2]] == [2**23, 66 * 4096 * 128 * 2 * 8]


def test_cublas_is_exact_and_so_is_what_it_sends_to_several(found):
    one = _expect_all([k for k in found if "nvjet" in k.name], "matmul", MatMul(4096, 4096, 4096))[
        "cuBLAS, a product by bulk copies"
    ]
    assert one.unexplained == 0
    (multi,) = [row for row in one.rows if "multicast" in row.what]
    assert multi.expected == multi.measured == 2 * 4096**3 // 128


def test_kernels_of_triton_are_exact_with_tiles_from_their_grid(found):
    attention = [k for k in found if k.short == "attention_kernel"]
    for d, k in zip(
        (64, 128), sorted(attention, key=lambda k: k.values["asked_read"]), strict=True
    ):
        one = expect(k, "flash2", Attention(4096, d, 8), unknown=True)
        assert (one.tiles, one.unexplained) == ({"B_r": 128}, 0)
        assert expect(k, "flash2", Attention(4096, d, 8)) is None  # no name that is known
    (product,) = [k for k in found if k.short == "matmul_kernel"]
    problem = MatMul(4096, 4096, 4096)
    with pytest.raises(InputError, match=r"may be B_m=32,B_n=512; .*: give --tiles"):
        expect(product, "matmul", problem)
    one = expect(product, "matmul", problem, {"B_m": 128, "B_n": 128, "B_k": 64})
    assert one.unexplained == 0
    assert expect(product, "matmul", problem, {"B_m": 64, "B_n": 256, "B_k": 64}).unexplained > 0


def test_a_grid_does_not_tell_what_is_not_in_it(found):
    (k, *_) = [k for k in found if k.short == "attention_kernel"]
    family = assume_kernel("attention_kernel", "flash2")
    assert from_grid(k, family, Attention(4096, 64, 8, causal=True)) == {"B_r": 128}
    assert from_grid(k, family, Attention(4096, 64, 9)) is None
    alone = KernelLaunch(name="mine", grid=(8, 1, 1), block=(128, 1, 1))
    with pytest.raises(InputError, match="depend on B_c, and its grid tells no tile only"):
        from_grid(kernels([alone])[0], assume_kernel("mine", "flash1"), Attention(4096, 64, 8))


def _ragged(name, metrics):
    launch = KernelLaunch(name=name, grid=(132, 1, 1), block=(384, 1, 1), metrics=metrics)
    return kernels([launch])[0]


def test_ragged_boxes_are_whole_as_an_h200_counted_them():
    """cuDNN at N = 4,000, and a copy of 100,003 rows of 56 words by boxes of 128 × 64."""
    name = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x{}_4x1x1_cga"
    bulk = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum"
    one = expect(
        _ragged(name.format(128), {bulk: 545_259_520.0}), "flash2", Attention(4000, 128, 8)
    )
    loads = one.rows[0]
    assert (loads.expected, loads.unexplained) == (545_259_520, 0)
    assert loads.more == loads.expected - loads.model > 0
    copy = iosim.bind(
        iosim.algorithm("matmul").program,
        {"m": 100_003, "k": 56, "n": 16},
        {"B_m": 128, "B_k": 64, "B_n": 16},
    )
    # The tile of k is clipped to 56 words, so a box has 56: with 64, 782 · 16,384 bytes.
    boxes = box_bytes(copy, "fp16")["load", "A"]
    assert boxes == 782 * 128 * 56 * 2 + 100_003 * 32


LOADED = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
STORED = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
BULK_LOADED = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum"
BULK_STORED = "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum"


def _launches(*metrics):
    """Launches of Triton's attention, 32 blocks of 128 rows for each of 8 heads."""
    return [
        KernelLaunch(name="_attn_fwd", grid=(32, 8, 1), block=(128, 1, 1), metrics=dict(one))
        for one in metrics
    ]


def test_launches_that_moved_different_bytes_are_not_averaged():
    """A dense and a causal launch have one name and one grid, and here nearly equal times."""
    problem = Attention(4096, 64, heads=8)
    once, stored = 8 * 4096 * 64 * 2, 8 * 4096 * (64 * 2 + 4)
    tiles = {"B_r": 128, "B_c": 128}
    dense, causal = once * 65, once * 34  # Q, then K and V for 32 blocks, or 16.5 on average
    times = [{"gpu__time_duration.sum": t} for t in (100.0, 110.0)]
    loaded = [{LOADED: n / 32, STORED: stored / 32} for n in (dense, causal)]
    launches = _launches(*(a | b for a, b in zip(times, loaded, strict=True)))
    found = kernels(launches, apart=1)
    assert [k.launches for k in found] == [1, 1]
    every = [expect(k, "flash2", problem, tiles) for k in found]
    assert sorted(x.unexplained for x in every) == [0, dense - causal]
    masked = replace(problem, causal=True)
    every = [expect(k, "flash2", masked, tiles) for k in found]
    assert sorted(x.unexplained for x in every) == [0, dense - causal]


def test_launches_are_separate_from_a_byte_or_from_a_percent_on():
    sizes = (1000.0, 1000.0, 1001.0, 2000.0)
    launches = _launches(*({LOADED: n} for n in sizes))
    assert sorted(k.launches for k in kernels(launches)) == [1, 3]
    assert sorted(k.launches for k in kernels(launches, apart=1)) == [1, 1, 2]
    for path in (STORED, BULK_LOADED, BULK_STORED):
        assert len(kernels(_launches({path: 1.0}, {path: 2.0}))) == 2


def test_row_statistics_are_stored_by_the_ordinary_path_beside_bulk_copies():
    """Triton's attention through descriptors: Q, K, V and O by bulk copies, L by plain stores."""
    once, rows = 8 * 4096 * 64 * 2, 8 * 4096
    bulk = {BULK_LOADED: once * 65.0, BULK_STORED: float(once), STORED: rows * 4 / 32, LOADED: 0.0}
    (k,) = kernels(_launches(bulk))
    one = expect(k, "flash2", Attention(4096, 64, heads=8), {"B_r": 128, "B_c": 128})
    kinds = {row.what: row.expected for row in one.rows if row.boundary == SM_L2}
    assert kinds == {
        "loads, bulk copies (K Q V)": once * 65,
        "stores (L)": rows * 4,
        "stores, bulk copies (O)": once,
    }
    assert one.unexplained == 0
    # Loads by bulk copies and plain stores.
    (k,) = kernels(_launches({BULK_LOADED: once * 65.0, STORED: (once + rows * 4) / 32}))
    one = expect(k, "flash2", Attention(4096, 64, heads=8), {"B_r": 128, "B_c": 128})
    assert one.unexplained == 0


def _by_hand(instance, dtype_bytes, last):
    """Boxes one by one, from the walk over all transfers."""
    total = {}
    env = instance.env
    for t in walk(instance):
        if t.direction == "load":
            rows, columns = t.ranges[-2], t.ranges[-1]
            side = env["B_r"] if t.tensor == "Q" else env["B_c"]
            cut = (rows[1] - rows[0]) * 32 if (columns[1] * dtype_bytes) % 32 else 0
            total[t.tensor] = total.get(t.tensor, 0) + side * last * dtype_bytes + cut
    return total


@pytest.mark.parametrize(
    ("N", "d", "options"),
    [
        (70, 16, {}),
        (70, 24, {"causal": True}),
        (33, 40, {"N_k": 50, "window": (9, 5)}),
        (64, 32, {"kv_heads": 1}),
    ],
)
def test_boxes_are_those_of_a_walk(N, d, options):
    problem = Attention(N, d, heads=2, **options)
    program = iosim.algorithm("flash2").program_for(problem)
    instance = iosim.bind(program, problem.sizes, {"B_r": 32, "B_c": 16})
    found = {tensor: n for (_, tensor), n in box_bytes(instance, "fp16").items()}
    assert found == _by_hand(instance, 2, -(-d // 8) * 8)
    exact = whole_bytes(instance, "fp16", frozenset())
    words = iosim.count(instance).by_tensor("load")
    assert {tensor: n for (_, tensor), n in exact.items()} == {x: 2 * n for x, n in words.items()}


def test_flash_attention_3_is_known_by_its_template():
    """No counters were read of it: its path is cuDNN's, whose counters are above."""
    name = (
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
        "flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1>>, "
        "cute::tuple<cute::C<128>, cute::C<176>, cute::C<128>>, 128, cutlass::half_t>>>>"
    )
    kernel = find_kernel(name, "flash2", Attention(4096, 128, 8))
    assert kernel.title == "FlashAttention-3, forward"
    assert kernel.tiles(kernel.match_name(name)) == {"B_r": 128, "B_c": 176}
    assert find_kernel(name, "flash2", Attention(4096, 64, 8)) is None


def test_emitted_kernels_are_known_by_their_names():
    """A record of `iosim gpu validate`: naive's three kernels."""
    found = kernels(read(ROOT / "experiments" / "data" / "gpu" / "h200" / "paper"))
    mine = [k for k in found if k.short.startswith("naive")]
    titles = {
        expect(
            k,
            "naive",
            Attention(1024, 64, 1024),
            {
                "B_r1": 128,
                "B_c1": 128,
                "B_d1": 64,
                "W1": 64,
                "B_r2": 16,
                "B_c2": 1024,
                "W2": 0,
                "B_r3": 128,
                "B_c3": 128,
                "B_d3": 64,
            },
        ).title
        for k in mine
    }
    assert titles == {f"naive_{k}, as iosim emits it" for k in (1, 2, 3)}


def test_the_command(found):
    said = ("--schedule", "flash2", "--N", "4096", "--d", "64", "--heads", "8", "--causal")
    text = ok("profile", str(REPORT), *said)
    assert "unexplained at SM↔L2: 0 bytes of a launch" in text
    one, *_ = json.loads(ok("profile", str(REPORT), *said, "--json"))
    assert (one["title"], one["unexplained_bytes"]) == ("FlashAttention-2, forward", 0)
    searched = ok(
        "profile",
        str(REPORT),
        "--schedule",
        "matmul",
        "--m",
        "4096",
        "--n",
        "4096",
        "--k",
        "4096",
        "--kernel",
        "^matmul_kernel",
        "--tiles",
        "search",
    )
    assert "tiles as given" in searched
    for args, why in [
        (("--N", "8"), "--N is of --schedule"),
        (("--schedule", "flash9", "--N", "8", "--d", "8"), "did you mean 'flash"),
        ((*said[:4], "--d", "200"), "no kernel is known to be flash2 of N = 4,096, d = 200"),
        ((*said, "--dtype", "fp8"), "choose fp16, bf16, fp32"),
    ]:
        done = iosim_("profile", str(REPORT), *args)
        assert done.returncode == 2
        assert why in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_a_model_that_is_wrong_is_seen(found):
    """Each row breaks if what it stands for is left out."""
    back = KNOWN["flash-attention-2-backward"]
    (k,) = [
        k for k in found if "seqk" in k.name and back.takes(k.name, AttentionBackward(4096, 64, 8))
    ]
    good = expect(k, "flash2_backward", AttentionBackward(4096, 64, 8))
    assert good.unexplained == 0
    try:
        KNOWN["flash-attention-2-backward"] = replace(back, times={})
        assert expect(k, "flash2_backward", AttentionBackward(4096, 64, 8)).unexplained == 2**23
        KNOWN["flash-attention-2-backward"] = replace(back, adds=frozenset())
        assert expect(
            k, "flash2_backward", AttentionBackward(4096, 64, 8), {"B_r": 128, "B_c": 128}
        ).unexplained
    finally:
        KNOWN["flash-attention-2-backward"] = back
    assert isinstance(good.rows, tuple)
    assert {row.boundary for row in good.rows} == {SM_L2, "L2↔DRAM"}


def test_boxes_that_are_larger_than_a_tensor_are_whole(found):
    """A tile ends with an axis of 100 rows, the box of 128 rows that is asked for doesn't."""
    flash2 = iosim.algorithm("flash2").program
    tiles = {"B_r": 128, "B_c": 128}
    for N, blocks in ((5, 1), (100, 1), (130, 2)):
        instance = iosim.bind(flash2, {"N": N, "d": 64, "heads": 3}, tiles)
        boxes = box_bytes(instance, "fp16", tiles)
        assert boxes["load", "Q"] == 3 * blocks * 128 * 64 * 2
        assert boxes["load", "K"] == boxes["load", "V"] == 3 * blocks**2 * 128 * 64 * 2
        whole = whole_bytes(instance, "fp16", frozenset("N"), tiles)
        assert whole["load", "Q"] == boxes["load", "Q"]
    (kernel,) = (k for k in found if "fprop_wgmma_f16_knob_7_64x128x64" in k.name)
    row = next(
        x for x in expect(kernel, "flash2", Attention(100, 64, 8)).rows if "loads, bulk" in x.what
    )
    assert row.expected == 8 * 3 * 128 * 64 * 2


@pytest.mark.parametrize("name", ["validate-hopper", "validate-hopper-options"])
def test_emitted_kernels_for_hopper_are_exact(name):
    """Ragged lengths, masks and grouped heads: all that these records have, job by job."""
    folder = ROOT / "experiments" / "data" / "gpu" / "h200" / name
    jobs = [Job(**job) for job in json.loads(recorded(folder / "spec.json"))["jobs"]]
    launches = read(folder)
    assert len(launches) == len(jobs) > 4
    for job, launch in zip(jobs, launches, strict=True):
        (k,) = kernels([launch])
        one = expect(k, job.algorithm, job.problem, job.tiles, job.dtype)
        assert one.unexplained == 0, job
