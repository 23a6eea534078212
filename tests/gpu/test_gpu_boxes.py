"""What DRAM reads of launches that are followed box by box: sets of words, and loops by hand."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from test_cli import iosim_
from test_gpu_records import GPUS

from iosim.cache import tiles
from iosim.cache.of_program import items
from iosim.cache.shared import drifting, lockstep
from iosim.core.counting.numbers import count
from iosim.core.problem import Attention, BlockSparse, MatMul
from iosim.core.units import bytes_of
from iosim.gpu import l2, launch_trace
from iosim.gpu.dram_prediction import reads
from iosim.gpu.emitter.nests import nests
from iosim.gpu.records.counters import moved_at
from iosim.gpu.records.record import read_record
from iosim.gpu.run.job import Job
from iosim.models.hardware import MACHINES, machine

A = Attention
CASES = [
    (
        "naive",
        A(20, 6, heads=2),
        {
            "B_r1": 8,
            "B_c1": 4,
            "B_d1": 2,
            "W1": 3,
            "B_r2": 16,
            "B_c2": 4,
            "W2": 8,
            "B_r3": 4,
            "B_c3": 8,
            "B_d3": 4,
        },
    ),
    ("flash1", A(20, 6, heads=2), {"B_r": 8, "B_c": 6}),
    ("flash2", A(20, 6, heads=2), {"B_r": 8, "B_c": 6}),
    ("flash2", A(20, 6, heads=4, kv_heads=2, causal=True), {"B_r": 8, "B_c": 6}),
    ("flash2", A(20, 6, N_k=30, window=(7, 3)), {"B_r": 4, "B_c": 8}),
    ("flash2", A(20, 6, causal=True, window=(5, None), sinks=3), {"B_r": 4, "B_c": 8}),
    ("flash2_keep", A(20, 6), {"B_r": 8, "B_c": 6, "W": 5}),
    (
        "small_cache",
        A(20, 6),
        {"B_r1": 8, "B_c1": 4, "B_d1": 2, "W1": 2, "B_r2": 8, "B_c2": 4, "B_d2": 2},
    ),
    ("split_kv", A(3, 6, N_k=20, heads=4, kv_heads=2), {"B_r": 2, "B_c": 4, "B_s": 8}),
    ("matmul", MatMul(10, 7, 9), {"B_m": 4, "B_n": 3, "B_k": 2}),
]


@pytest.mark.parametrize(("name", "problem", "sizes"), CASES)
def test_sets_of_words(name, problem, sizes):
    """Word by word, item by item: touched, stored, and read before it was stored."""
    job = Job.of(name, problem, sizes)
    found = launch_trace.launches(job)
    instance = job.instance
    wide = {}
    wanted = []
    for launch in items(instance):
        touched, stored, first, loads = set(), set(), set(), 0
        for stream in launch:
            wide |= {
                address: region.name
                for region in stream.regions
                for address in range(region.start, region.stop)
            }
            own = set()
            for chunk in stream.chunks():
                for address, write in zip(*(x.tolist() for x in chunk), strict=True):
                    size = 4 if instance.program.tensor(wide[address]).wide else 2
                    loads += 0 if write else size
                    touched.add((address, size))
                    if write:
                        own.add(address)
                        stored.add((address, size))
                    elif address not in own:
                        first.add((address, size))
        if touched:
            wanted.append(
                (
                    len(launch),
                    *(sum(x for _, x in some) for some in (touched, stored, first)),
                    loads,
                )
            )
    got = [(x.items, x.touched, x.stored, x.footprint, x.loads) for x in found]
    assert got == wanted
    moved = bytes_of(count(instance), instance.program.tensors, job.dtype)
    assert sum(x.loads for x in found) == sum(n for (way, _), n in moved.items() if way == "load")


def lru(accesses, room):
    """Loads of equal tiles through a cache kept as a dict."""
    kept, misses = OrderedDict(), 0
    for tile, write in accesses:
        misses += tile not in kept and not write
        kept[tile] = None
        kept.move_to_end(tile)
        if len(kept) > room:
            kept.popitem(last=False)
    return misses


@pytest.mark.parametrize("programs", [1, 3, 5, 20])
def test_a_product_in_step_by_hand(programs):
    m, n, k, B = 5, 4, 6, 4
    every = [(i, j) for i in range(m) for j in range(n)]
    accesses = []
    for first in range(0, m * n, programs):
        wave = every[first : first + programs]
        for step in range(2 * k + 1):
            for i, j in wave:
                inner = step // 2
                accesses.append(
                    (("C", i, j), True)
                    if step == 2 * k
                    else (("B", inner, j), False)
                    if step % 2
                    else (("A", i, inner), False)
                )
    job = Job.of("matmul", MatMul(m * B, n * B, k * B), {"B_m": B, "B_n": B, "B_k": B})
    (launch,) = launch_trace.launches(job)
    curve = tiles.lru(launch.passes(lockstep(programs)))
    for room in (1, 2, 5, 9, 14, 30, 60, 100):
        assert curve.loads_at(room * B * B * 2) == lru(accesses, room) * B * B * 2


@pytest.mark.parametrize("programs", [1, 2, 3, 6])
def test_a_causal_mask_in_step_by_hand(programs):
    """The last rows take longest and come first; an item ends where its rows do."""
    rows, B = 6, 4
    accesses = []
    for first in range(0, rows, programs):
        wave = list(range(rows))[::-1][first : first + programs]
        for step in range(2 * rows + 2):
            for i in wave:
                last = 2 * (i + 1)
                if step == 0:
                    accesses.append((("Q", i), False))
                elif step <= last:
                    accesses.append((("V" if step % 2 == 0 else "K", (step - 1) // 2), False))
                elif step == last + 1:
                    accesses.append((("O", i), True))
    job = Job.of("flash2", Attention(rows * B, 8, causal=True), {"B_r": B, "B_c": B})
    (launch,) = launch_trace.launches(job)
    curve = tiles.lru(launch.passes(lockstep(programs)))
    for room in (1, 2, 3, 5, 8, 13, 30):
        assert curve.loads_at(room * B * 8 * 2) == lru(accesses, room) * B * 8 * 2


@pytest.mark.parametrize("programs", [1, 2, 3, 6])
@pytest.mark.parametrize("seed", range(4))
def test_a_block_mask_in_step_by_hand(programs, seed):
    """An item goes through the tiles that its row of the mask marks, and ends where they do."""
    rows, columns, B = 6, 5, 4
    blocks = np.random.default_rng(seed).random((rows, columns)) < 0.6
    accesses = []
    for first in range(0, rows, programs):
        wave = list(range(first, min(rows, first + programs)))
        marked = {i: np.flatnonzero(blocks[i]).tolist() for i in wave}
        for step in range(2 * columns + 2):
            for i in wave:
                last = 2 * len(marked[i])
                if step == 0:
                    accesses.append((("Q", i), False))
                elif step <= last:
                    tensor = "V" if step % 2 == 0 else "K"
                    accesses.append(((tensor, marked[i][(step - 1) // 2]), False))
                elif step == last + 1:
                    accesses.append((("O", i), True))
    problem = BlockSparse(rows * B, columns * B, 8)
    job = Job.of("block_sparse", problem, {"B_r": B, "B_c": B}, blocks={"blocks": blocks.tolist()})
    (launch,) = launch_trace.launches(job)
    curve = tiles.lru(launch.passes(lockstep(programs)))
    for room in (1, 2, 3, 5, 8, 13, 30):
        assert curve.loads_at(room * B * 8 * 2) == lru(accesses, room) * B * 8 * 2
    assert launch.loads == (rows + 2 * int(blocks.sum())) * B * 8 * 2


def test_a_mask_of_all_tiles_is_dense_attention():
    """Beyond what half of L2 holds, where the order of loads decides."""
    shape, size = {"B_r": 64, "B_c": 64}, replace(machine("h200"), cache_bytes=2**18)
    blocks = np.ones((32, 32), bool).tolist()
    masked = Job.of("block_sparse", BlockSparse(2048, 2048, 64), shape, blocks={"blocks": blocks})
    dense = Job.of("flash2", Attention(2048, 64), shape)
    for programs in (1, 5, 32):
        one, other = (reads(job, size, programs=programs) for job in (masked, dense))
        assert (one.lockstep, one.sm_l2, one.footprint, one.stores) == (
            other.lockstep,
            other.sm_l2,
            other.footprint,
            other.stores,
        )


@pytest.mark.parametrize("heads", [1, 3])
def test_sweeps_are_waves(heads):
    """Where items sweep the same, following the boxes gives what the closed form says."""
    job = Job("flash2", {"N": 128, "d": 8, "heads": heads}, {"B_r": 8, "B_c": 8})
    (launch,) = launch_trace.launches(job)
    assert l2.unlike_sweeps(job) == ""
    for programs in (1, 4, 7, 16):
        curve = tiles.lru(launch.passes(lockstep(programs)))
        own = 3 * programs * 8 * 8 * 2  # a step of K and V, and Q, of each program
        assert curve.loads_at(own) == l2.wave_bytes(job, programs)
        assert curve.loads_at(launch.touched) == launch.footprint
        assert launch.footprint == l2.footprint_bytes(job.instance, job.dtype)["load"]
        # Without a drift the next items begin when the last ones end.
        same = launch.passes(drifting(programs, 0))
        assert (same.tile == launch.passes(lockstep(programs)).tile).all()


DENSE = ("validate", "validate-dtypes")
OPTIONS = ("validate-options", "validate-options-odd")


def beyond(gpu, folder, some):
    """By how much DRAM read more than said, of each job: schedule, share, bytes."""
    record = read_record(GPUS / gpu / folder, ("sram", "dram"))
    chip, found = machine(gpu), []
    sms, size = record.device("multiprocessors"), record.device("l2_bytes")
    assert size == chip.cache_bytes
    for at, job in enumerate(record.jobs):
        if not (some(at) or (job.algorithm, job.sizes.get("N")) == ("naive", 4096)):
            continue
        measured = moved_at("dram", record.launches[at]).load_bytes
        said = least = most = 0
        for kernel, launch in zip(
            record.measured[at].kernels, launch_trace.launches(job), strict=True
        ):
            low = high = step = launch.footprint
            if launch.touched > size * l2.L2_SHARE:
                order = lockstep(kernel.per_sm * sms)
                step = tiles.lru(launch.passes(order)).loads_at(int(size * l2.L2_SHARE))
                high = launch.loads
            said, least, most = said + step, least + low, most + high
        assert 0.999 * least <= measured
        found.append((job.algorithm, measured / said - 1, measured - said))
    return found


@pytest.mark.numbers
@pytest.mark.parametrize("gpu", ["h200", "h100"])
@pytest.mark.parametrize("folder", DENSE)
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_recorded_runs_of_dense_schedules(gpu, folder, every):
    """Within 2%, or 64 KiB of what is small; flash1's two items, which run long, in 320 KiB."""
    found = beyond(gpu, folder, lambda at: at % every == 0)
    assert len(found) >= 100 // every
    for algorithm, share, more in found:
        room = 320 if algorithm == "flash1" else 64
        assert abs(share) <= 0.02 or 0 < more <= room * 1024, (algorithm, share, more)
    if folder == "validate":  # the second of two readings of S is not in L2 any more
        reread = [share for algorithm, share, _ in found if algorithm == "naive"]
        assert len(reread) >= 3
        assert max(map(abs, reread)) <= 0.02


@pytest.mark.numbers
@pytest.mark.parametrize("folder", OPTIONS)
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_recorded_runs_with_options(folder, every):
    """All of them fit into L2, and read up to 15% or 640 KiB more than what they touch."""
    for algorithm, share, more in beyond("h200", folder, lambda at: at % every == 0):
        assert abs(share) <= 0.02 or 0 < more <= 640 * 1024, (algorithm, share, more)
        assert share <= 0.16


# Machine, schedule, d → of each launch, resident on an SM, and reads over what is said.
LONG = {
    ("h200", "two_kernels", 64): [(2, 1.935), (1, 0.991), (2, 1.005)],
    ("h200", "two_kernels", 128): [(2, 1.901), (1, 1.002), (2, 1.003)],
    ("h200", "flash2_backward", 64): [(2, 1.921), (4, 0), (1, 1.001)],
    ("h200", "flash2_backward", 128): [(2, 1.898), (4, 0), (1, 1.001)],
    ("h100", "two_kernels", 64): [(2, 1.963), (1, 1.002), (2, 1.004)],
    ("h100", "two_kernels", 128): [(2, 1.96), (1, 1.002), (2, 1.002)],
    ("h100", "flash2_backward", 64): [(2, 1.96), (4, 0), (1, 1.002)],
    ("h100", "flash2_backward", 128): [(2, 1.962), (4, 0), (1, 1.001)],
}


@pytest.mark.numbers
@pytest.mark.parametrize(
    ("gpu", "name", "d", "followed"),
    [
        ("h200", "two_kernels", 64, (0, 2)),  # the launch between them takes as long as ten others
        ("h100", "two_kernels", 64, (0, 2)),
        *(pytest.param(*x, (0, 1, 2), marks=pytest.mark.slow) for x in LONG),
    ],
)
def test_recorded_backward_passes_beyond_l2(gpu, name, d, followed):
    """Launches with products within 1%; row sums, which take 32 bytes of a row, nearly twice."""
    record = read_record(GPUS / gpu / "validate-backward-long", ("sram", "dram"))
    (at,) = (k for k, x in enumerate(record.jobs) if (x.algorithm, x.sizes.get("d")) == (name, d))
    job, found = record.jobs[at], []
    if name == "two_kernels":  # as much is swept in fewer, larger tiles
        job = replace(job, tiles=job.tiles | {"B_c2": 64})
    sms, half = record.device("multiprocessors"), record.device("l2_bytes") // 2
    kernels = record.measured[at].kernels
    bodies = nests(job.instance)
    assert len(bodies) == len(kernels) == len(LONG[gpu, name, d])
    for k in followed:
        kernel, launch, own = (
            kernels[k],
            launch_trace.launch(job, bodies[k]),
            record.launches[at][k],
        )
        said = launch.footprint
        if launch.touched > half:
            said = tiles.lru(launch.passes(lockstep(kernel.per_sm * sms))).loads_at(half)
        reads = moved_at("dram", [own]).load_bytes
        assert launch.loads == moved_at("sram", [own]).load_bytes
        found.append((kernel.per_sm, round(reads / said, 3) if said else 0))
    assert found == [LONG[gpu, name, d][k] for k in followed]


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_whose_cache_has_a_size(name):
    chip = machine(name)
    problem = {"m": 4096, "n": 4096, "k": 1024}
    found = reads(Job("matmul", problem, {"B_m": 128, "B_n": 128, "B_k": 128}), chip)
    assert found.footprint <= found.least <= found.lockstep <= found.most <= found.sm_l2
    assert found.footprint == 2 * 2 * 4096 * 1024
    assert found.safe == (found.swept <= found.half)
    whole = reads(
        Job("matmul", problem, {"B_m": 128, "B_n": 128, "B_k": 128}), chip, drift=1000, seed=3
    )
    assert whole.footprint <= whole.least <= whole.most <= whole.sm_l2


def test_a_launch_that_reads_nothing_twice_cannot_drift():
    done = iosim_(
        "l2",
        "decode",
        "--N",
        "1",
        "--N-k",
        "16384",
        "--d",
        "128",
        "--heads",
        "64",
        "--machine",
        "h200",
    )
    assert "Drift does no harm, however large: nothing is read that was read before" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("naive", "--N", "4096", "--d", "64"), "reads in lockstep                  102,236,160"),
        (
            ("matmul", "--m", "8192", "--n", "8192", "--k", "4096"),
            "with L2 of 536,870,912 bytes or more no drift does harm",
        ),
        (
            ("flash2", "--N", "4096", "--d", "64", "--causal"),
            "Drift does no harm, however large: half of L2, 31,457,280 bytes, holds the "
            "2,097,152 bytes that a launch touches",
        ),
    ],
)
def test_the_command(words, said):
    done = iosim_("l2", *words, "--machine", "h200")
    assert done.returncode == 0
    assert said in done.stdout


def test_boxes_that_meet_in_part_are_cut():
    row, number, words = launch_trace._cut(np.array([[0, 4, 0, 3], [2, 6, 0, 3], [0, 6, 1, 2]]))
    area = {}
    for k, n in enumerate(number.tolist()):
        area.setdefault(int(row[k]), []).append(int(words[n]))
    assert {k: sum(x) for k, x in area.items()} == {0: 12, 1: 12, 2: 6}
    assert int(words.sum()) == 18
