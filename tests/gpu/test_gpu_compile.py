"""The emitted kernels compile for a real GPU, which Triton can do on a machine without one.

In a process of its own: the interpreter's tests import Triton in another mode.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from strategies import plain_algorithms

import iosim
from iosim.base.dtypes import word_bytes
from iosim.core.algorithms import ALGORITHMS
from iosim.core.problem import BlockSparse
from iosim.core.program.walk import walk
from iosim.gpu.emitter import layout
from iosim.gpu.reports._draw import drawn_jobs
from iosim.gpu.reports.validate import validate_jobs
from iosim.gpu.run.job import Job

SCRIPT = r"""
import json, re, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import triton
from triton.backends.compiler import GPUTarget
from iosim import bind
from iosim.gpu import emit
from iosim.gpu.run.job import Job
from iosim.core.algorithms import ALGORITHMS, algorithm
from iosim.gpu.run.launch import load_kernels
from iosim.gpu.run.memory import dtype_of

ALGORITHMS["causal"] = "causal"  # beside this file

# Unsigned subtractions of a negative constant that are said not to wrap: LLVM may then take what
# follows for impossible, and Triton 3.6 lost a row of a mask so.
def wrong_wraps(text):
    made = dict(re.findall(r"^\s*(%[\w.]+) = (.*)$", text, re.M))
    def negative(x, depth=8):
        x = made.get(x, x) if x.startswith("%") else x
        if re.search(r"i\d+ -\d", x):
            return True
        through = x.startswith(("insertelement", "shufflevector")) and depth
        return bool(through) and any(negative(y, depth - 1) for y in re.findall(r"%[\w.]+", x))
    subs = {name: x for name, x in made.items() if x.startswith("sub nuw")}
    return [name for name, x in subs.items() if negative(re.findall(r"%[\w.]+|i\d+ -\d+", x)[-1])]

# Operands in shared memory that have one place only, of products that may still run when the next
# load is written there.
def overwritten(text):
    single = set(re.findall(r"(%\w+) = ttg.local_alloc : \(\) -> !ttg.memdesc<1x", text))
    places = dict(re.findall(r"(%\w+) = ttg.memdesc_index (%\w+)\[", text))
    waits = re.findall(r"warp_group_dot_wait ([^{]*) {pendings = [1-9]", text)
    return [x for names in waits for x in re.findall(r"%\w+", names) if places.get(x) in single]

# Lines whose tile gives a thread more neighboring bytes than an instruction moves: each sector is
# asked for as many times.
def again(graph, text):
    layouts = r"(#blocked\d*) = #ttg.blocked<.sizePerThread = \[([\d, ]+)\]"
    each = {x: max(map(int, n.split(", "))) for x, n in re.findall(layouts, graph)}
    lines = dict(re.findall(r"^(#loc\d*) = loc\([^\n]*?:(\d+):\d+\)", graph, re.M))
    alias = dict(re.findall(r'^(#loc\d*) = loc\("[^"]*"\((#loc\d*)\)\)', graph, re.M))
    moved, line = {}, 0
    for x in text.splitlines():
        if at := re.match(r"\s*\.loc\s+\d+\s+(\d+)", x):
            line = at[1]
        if how := re.search(r"(?:ld|st)\.global(?:\.L1::\w+)?(?:\.v(\d))?\.b(\d+)", x):
            moved.setdefault(line, set()).add(int(how[1] or 1) * int(how[2]) // 8)
        elif how := re.search(r"cp\.async\.c[ag][.a-z]* .*?\], (\w+)", x):
            moved.setdefault(line, set()).add(int(how[1], 0))
    accesses = (r"(?:tt.load|tt.store|async_copy_global_to_local) [^\n]*?!tt.ptr<[a-z]+(\d+)>, "
                r"(#blocked\d*)>[^\n]*loc\((#loc\d*)\)")
    for bits, layout, at in re.findall(accesses, graph):
        line = lines.get(alias.get(at, at), 0)
        wide = min(16, each[layout] * int(bits) // 8)
        if max(moved.get(line, {wide})) < wide:
            yield int(line), wide, sorted(moved[line])

types = {"fp16": "*fp16", "bf16": "*bf16", "fp32": "*fp32", "int32": "*i32"}
for line in sys.stdin:
    told = json.loads(line)
    marked = {name: np.array(mask) for name, mask in told.pop("marked").items()}
    count = told.pop("count")
    job = Job(**told)
    if marked:  # a job has no masks
        program = algorithm(job.algorithm).program_for(job.problem)
        emitted = emit(bind(program, job.problem.sizes, job.tiles, marked))
    else:
        emitted, program = job.emitted(), job.instance.program
    functions = load_kernels(emitted)
    for kernel in emitted.kernels:
        signature = {f"{t}_ptr": types[dtype_of(program.tensor(t), job.dtype)]
                     for t in kernel.tensors}
        signature |= {f"{name}_ptr": "*i32" for name in kernel.masks}
        signature |= {"gate_ptr": "*i32"} if kernel.lockstep else {}
        signature |= {"clock_ptr": "*i64"} if kernel.clock else {}
        signature["words_ptr"] = "*i64"
        aligned = {(k,): [["tt.divisibility", 16]] for k in range(len(signature))}
        source = triton.compiler.ASTSource(
            functions[kernel.name], signature | {"COUNT": "constexpr"}, {"COUNT": count}, aligned)
        warps, stages = job.options(kernel)
        done = triton.compile(source, target=GPUTarget("cuda", 90, 32),
                              options={"num_warps": warps, "num_stages": stages})
        pattern = r"(?:ld|st)\.global[.a-z0-9]*|cp\.async\.c[ag][.a-z]*"
        moves = re.findall(pattern, done.asm["ptx"])
        accesses = (r"(load|store|async_copy_global_to_local) [^>]*?tensor<(\d+)x(\d+)x!tt.ptr"
                    r"<[a-z]+\d+>, (#blocked\d*)>")
        where = dict(re.findall(r"(#blocked\d*) = #ttg.blocked<{(.*)}>", done.asm["ttgir"]))
        found = [("store" if kind == "store" else "load", int(rows), int(columns), where[layout])
                 for kind, rows, columns, layout in re.findall(accesses, done.asm["ttgir"])]
        print(json.dumps([kernel.name, done.metadata.shared, sorted(set(moves)), found]))
        asked_again = sorted(again(done.asm["ttgir"], done.asm["ptx"]))
        # Beside a block mask's own loads the compiler names lines of others.
        assert kernel.masks or not asked_again, (kernel.name, asked_again)
        assert not wrong_wraps(re.sub(r", !dbg !\d+", "", done.asm["llir"])), kernel.name
        graph = done.asm["ttgir"]
        assert not overwritten(graph), kernel.name
        layouts = r"(#blocked\d*) = #ttg.blocked<.sizePerThread = \[([\d, ]+)\]"
        each = dict(re.findall(layouts, graph))
        loads = r"(?:tt.load|async_copy_global_to_local) .*?!tt.ptr<[a-z]+(\d+)>, (#blocked\d*)>"
        for bits, layout in re.findall(loads, graph):
            words = [int(x) for x in each[layout].split(", ")]
            assert max(words) * int(bits) <= 128, (kernel.name, bits, words)  # a sector, once
"""


def _compile(
    jobs: list[Job], marked: dict[str, list] | None = None, *, count: bool = False
) -> list[list]:
    more = {"marked": marked or {}, "count": count}
    lines = "\n".join(json.dumps(job.as_dict() | more) for job in jobs)
    compiled = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    compiled["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=lines, capture_output=True, text=True, env=compiled
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.numbers
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_every_algorithm_compiles_for_hopper_and_fits(dtype):
    jobs = validate_jobs(head_sizes=(64,), capacities=(16384,), lengths=(1024,), dtypes=(dtype,))
    small = ("small_cache", "small_backward", "small_tiles")
    jobs += validate_jobs(small, (256,), (16384,), (1024,), (dtype,))
    assert {job.algorithm for job in jobs} == {a.name for a in plain_algorithms()} | {"paged"}
    for name, shared, moves, _ in _compile(jobs):
        assert shared <= 227 * 1024, name
        # Whole tiles move in 16-byte vectors, statistics in words of their own: no narrower.
        assert {m for m in moves if m.startswith(("ld", "st"))} <= {
            "ld.global.v4.b32",
            "st.global.v4.b32",
            "ld.global.b32",
            "st.global.b32",
            "ld.global.v2.b32",
            "st.global.v2.b32",
        }, (name, moves)


@pytest.mark.numbers
def test_stacked_rows_compile_and_fit():
    names, cases = ("grouped_rows", "decode"), ("grouped", "decode", "chunk")
    for length in (1024, 1001):
        jobs = validate_jobs(names, (64,), (32768,), (length,), cases=cases)
        assert {job.algorithm for job in jobs} == set(names)
        assert len(jobs) == 5  # decode has no tile for `grouped`, which gives no N_k
        for name, shared, moves, _ in _compile(jobs):
            assert shared <= 227 * 1024, name
            # Only where the last tile of keys is short are rows of them moved word by word.
            assert "cp.async.cg.shared.global" in moves, (name, moves)


def test_a_load_that_nothing_reads_is_in_no_machine_code():
    """So the hardware moves less than the program says: what `live` takes away, and no more."""
    sizes, tiles = {"N": 1024, "d": 64, "heads": 2}, {"B_r": 64, "B_c": 64}
    jobs = [Job(name, sizes, tiles) for name in ("keys_twice", "flash2")]
    twice, once = ([x for x in found if x[0] == "load"] for *_, found in _compile(jobs))
    assert len(twice) == 3  # Q, K and V; the program's text loads K once more
    assert len(re.findall(r"= tl\.load", jobs[0].emitted().source)) == 4
    assert len(once) == 5  # K and V are loaded ahead of the loop, too


@pytest.mark.numbers
@pytest.mark.parametrize(("rows", "columns"), [(16, 256), (32, 64), (64, 64)])
def test_no_load_overwrites_what_a_product_still_reads(rows, columns):
    """Found in a sweep: dK and dV of 256 columns by 16 rows were wrong by a tenth on an H200."""
    tiles = {"B_rD": 64, "B_dD": 16, "B_r1": rows, "B_c1": columns, "B_r2": 64, "B_c2": 32}
    job = Job("two_kernels", {"N": 777, "d": 48, "heads": 1}, tiles)
    assert _compile([job])  # the script looks for such operands
    text = job.emitted().source
    assert text.count("num_stages=1") == (rows < 64)


@pytest.mark.numbers
@pytest.mark.parametrize(
    ("name", "sizes", "tiles", "dtype", "variant"),
    [
        ("flash2", (438, 54, 2), {"B_r": 128, "B_c": 64}, "fp16", {"d_v": 48}),
        ("flash2", (36, 115, 2), {"B_r": 16, "B_c": 64}, "fp32", {"d_v": 96, "N_k": 326}),
        (
            "flash1_backward",
            (174, 80, 3),
            {"B_dQ": 64, "B_dQd": 64, "B_r": 256, "B_c": 16},
            "fp16",
            {"d_v": 98},
        ),
        (
            "grouped_rows",
            (582, 64, 3),
            {"B_r": 128, "B_c": 16},
            "fp32",
            {"d_v": 55, "kv_heads": 3, "causal": True},
        ),
        (
            "spill_weights",
            (95, 96, 1),
            {
                "B_c1": 128,
                "B_c2": 128,
                "B_c3": 128,
                "B_c4": 128,
                "B_d1": 96,
                "B_d2": 64,
                "B_d3": 128,
                "B_d4": 128,
                "B_dD": 256,
                "B_r1": 128,
                "B_r2": 64,
                "B_r3": 128,
                "B_r4": 128,
                "B_rD": 128,
                "W1": 96,
            },
            "fp16",
            {"d_v": 189, "window": (66, None)},
        ),
    ],
)
def test_no_sector_is_asked_for_again(name, sizes, tiles, dtype, variant):
    """Draws on an H200 that moved 2 to 3 times the model's bytes; the script looks at layouts."""
    N, d, heads = sizes
    assert _compile([Job(name, {"N": N, "d": d, "heads": heads}, tiles, dtype, variant=variant)])


def test_drawn_programs_compile():
    """As they are drawn: odd sizes, options and tiles."""
    jobs = [j for j in drawn_jobs(tuple(ALGORITHMS), 5, 16) if j.emitted().kernels[0].block <= 2048]
    found = _compile(jobs[:3])
    assert len(found) == sum(len(job.emitted().kernels) for job in jobs[:3]) >= 3


def test_clocks_and_gates_compile_too():
    job = Job(
        "flash2",
        {"N": 4096, "d": 64, "heads": 1},
        {"B_r": 64, "B_c": 64},
        programs=16,
        every=48,
        clock=True,
    )
    ((name, _, moves, _),) = _compile([job])
    assert name == "flash2"
    assert "cp.async.cg.shared.global" in moves  # the sweep is still pipelined


@pytest.mark.numbers
@pytest.mark.parametrize("N", [1024, 1000])
def test_a_loop_that_follows_a_tile_compiles_too(N):
    job = Job("causal", {"N": N, "d": 64, "heads": 1}, {"B_r": 64, "B_c": 32})
    ((name, _, moves, _),) = _compile([job])
    assert name == "causal"
    # Where no tile of K and V is short, they move in 16-byte vectors, as in the dense kernels.
    assert "cp.async.cg.shared.global" in moves or N == 1000


def test_schedules_under_masks_compile_and_fit():
    """Loops in portions, blocks of the longest, and tiles of few sinks beside those of 64."""
    causal = iosim.Attention(1001, 64, causal=True)
    sinks = iosim.Attention(1024, 64, window=(100, 60), sinks=4)
    jobs = []
    for name, problem in (
        ("naive", causal),
        ("flash2", causal),
        ("flash2_keep", causal),
        ("flash1", sinks),
        ("small_cache", sinks),
    ):
        names = [p.name for p in iosim.algorithm(name).program_for(problem).params]
        tiles = {x: {"W": 100, "W1": 0, "W2": 128}.get(x, 64) for x in names}
        jobs.append(Job.of(name, problem, tiles))
    for name, shared, moves, _ in _compile(jobs):
        assert shared <= 227 * 1024, name
        streams = name != "naive_2"  # a softmax of rows has no products
        assert not streams or "cp.async.cg.shared.global" in moves, (name, moves)


def test_counts_under_a_mask_compile_without_arithmetic_that_wraps():
    """With Triton 3.6 a count of this kernel lacked a row of every tile that is masked."""
    problem = iosim.Attention(1001, 128, 2, causal=True)
    assert _compile([Job.of("flash2", problem, {"B_r": 32, "B_c": 32})], count=True)


def test_a_tile_that_is_loaded_twice_is_not_loaded_once():
    """Loops that run once become straight text, of which the compiler would merge equal loads."""
    options = {"N_k": 1024, "kv_heads": 2, "causal": True}
    tiles = {
        "B_r1": 16,
        "B_c1": 64,
        "B_d1": 128,
        "W1": 128,
        "B_r2": 16,
        "B_c2": 512,
        "W2": 0,
        "B_r3": 16,
        "B_c3": 64,
        "B_d3": 128,
    }
    jobs = [Job.of("naive", iosim.Attention(16, 128, 16, **options), tiles)]
    tiles |= {"B_r2": 64, "B_c2": 128}
    jobs.append(Job.of("naive", iosim.Attention(128, 128), tiles))
    found = [sum(x[0] == "load" for x in accesses) for *_, accesses in _compile(jobs)]
    assert found[1] == 4  # two tiles, in each of two passes
    assert found[4] == 2


@pytest.mark.numbers
@pytest.mark.parametrize(
    ("name", "dtype", "N", "d", "options", "B_r", "B_c"),
    [
        ("naive", "fp16", 200, 64, {"window": (37, 20)}, 64, 64),  # shaped as V's and as O's
        ("spill_rows", "fp16", 200, 64, {"window": (37, 20)}, 32, 64),  # as V's
        ("naive", "fp32", 200, 64, {"window": (50, 3)}, 64, 32),
        ("spill_rows", "fp16", 133, 32, {"window": (25, 0), "sinks": 3}, 32, 32),
        ("spill_rows", "fp32", 150, 64, {"window": (9, 40), "N_k": 181}, 16, 16),
        ("naive", "fp16", 200, 64, {"causal": True}, 64, 24),
    ],
)
def test_sectors_of_tiles_that_start_anywhere(name, dtype, N, d, options, B_r, B_c):
    """Every address of every request that the compiled kernels make, of scores and of weights."""
    problem = iosim.Attention(N, d, **options)
    program = iosim.algorithm(name).program_for(problem)
    tiles = {
        p.name: d if p.axis == "d" else B_r if "B_r" in p.name else B_c if "B_c" in p.name else 0
        for p in program.params
    }
    job = Job.of(name, problem, tiles, dtype=dtype)
    word, side = word_bytes(dtype), max(16, 1 << (B_c - 1).bit_length())
    lanes: dict[str, tuple[int, int]] = {}  # words of a thread, threads along a row
    for kernel, *_, accesses in _compile([job]):
        for kind, rows, columns, at in accesses:
            if (rows, columns) == (max(16, B_r), side):
                numbers = [int(x) for x in re.findall(r"\d+", at)]
                lanes.setdefault(f"{kind} {kernel}", (numbers[1], numbers[3]))
                assert lanes[f"{kind} {kernel}"] == (numbers[1], numbers[3])
    scores = {
        "naive": {
            "store S": "store naive_1",
            "load S": "load naive_2",
            "store P": "store naive_2",
            "load P": "load naive_3",
        },
        "spill_rows": {"store S": "store spill_rows_1", "load S": "load spill_rows_2"},
    }[name]
    instance, found = job.instance, {}
    for t in walk(instance):
        if (of := scores.get(f"{t.direction} {t.tensor}")) is None:
            continue
        *_, (top, bottom), (start, stop) = t.ranges
        each, threads = lanes[of]
        width = layout.strides(program.tensor(t.tensor), instance)[-2]
        for row in range(top, bottom):
            requests = {}
            for p in range(start, stop):
                # A thread moves one of its words at a time, since they aren't aligned.
                request = ((p - start) // (each * threads), (p - start) % each)
                requests.setdefault(request, set()).add((row * width + p) * word // layout.SECTOR)
            key = (t.direction, t.tensor)
            found[key] = found.get(key, 0) + layout.SECTOR * sum(map(len, requests.values()))
    sectors = layout.sector_bytes(instance, dtype)
    assert found == {key: n for key, n in sectors.items() if key[1] in "SP"}


def test_tiles_of_partial_results_move_a_vector_at_once():
    """The layout of a store of fp16 would give a thread two vectors of fp32, each of every sector;
    the script looks at the layouts."""
    jobs = validate_jobs(("split_kv",), (64,), (65536,), (1024,), cases=("cross", "chunk"))
    moves = [moves for name, _, moves, _ in _compile(jobs) if name == "split_kv_2"]
    assert len(moves) == 2
    assert all("ld.global.v4.b32" in found for found in moves)


@pytest.mark.numbers
@pytest.mark.parametrize("W", [5, 20])
def test_a_name_that_comes_back_with_another_shape_compiles(W):
    """Held rows make blocks of 16 or 32, the others of 64."""
    sizes = {"N": 300, "d": 64, "heads": 1}
    assert _compile([Job("flash2_keep", sizes, {"W": W, "B_r": 64, "B_c": 64})])


@pytest.mark.numbers
@pytest.mark.parametrize(
    ("N", "tiles", "options"),
    [
        (1024, (64, 64), {}),
        (1000, (64, 32), {}),
        (100, (128, 128), {}),
        (1000, (64, 64), {"kv_heads": 1, "d_v": 128, "causal": True}),
    ],
)
def test_a_loop_under_a_block_mask_compiles_and_fits(N, tiles, options):
    B_r, B_c = tiles
    problem = BlockSparse(N, N, 64, 2, **options)
    job = Job.of("block_sparse", problem, {"B_r": B_r, "B_c": B_c})
    mask = [[(i + j) % 3 == 0 for j in range(-(-N // B_c))] for i in range(-(-N // B_r))]
    ((name, shared, moves, _),) = _compile([job], {"blocks": mask})
    assert name == "block_sparse"
    assert shared <= 227 * 1024
    assert "ld.global.b32" in moves  # the mask's own words
    assert "ld.global.v4.b32" in moves
    assert not any(m.startswith("cp.async") for m in moves)  # K and V: not ahead of the condition
