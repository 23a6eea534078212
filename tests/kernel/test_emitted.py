"""Every emitted schedule, read back from its TTIR: words by tensor and FLOP are the schedule's.

Two ways to one number that share no code: the counts of a bound program in closed form, and its
kernels' IR, whose addresses and masks are evaluated.  ``pytest tests/kernel --slow`` draws 20 times
as many programs.

What the compiler changes:

- A load whose tile nothing reads is gone (`test_a_load_that_nothing_reads_is_gone`), and of two
  loads of the same tile with no store in between one stays.  No registered schedule has either.
- Where a ragged row would be moved word by word, the emitter reads it to the end of its last sector
  (``sector_end``).  Counts are compared with that rounding taken out of the text; with it, bytes
  lie between those of the words and those of the sectors.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import numpy as np
import pytest
import sizes
from hypothesis import given
from hypothesis import strategies as st
from test_gpu_blocks import CASES, PROGRAMS, bound
from test_gpu_hopper import CASES as ON_HOPPER
from test_gpu_hopper import STYLES
from test_gpu_masks import PROBLEMS, SUPPORTED, tiles_of

import iosim
from iosim.core.program import ops, values
from iosim.core.program.block_masks import masks
from iosim.core.units import bytes_of
from iosim.gpu import emit
from iosim.gpu.emitter import hopper, layout
from iosim.gpu.emitter.bulk import bulk_bytes
from iosim.gpu.reports._draw import drawn_jobs
from iosim.gpu.run.bulk import descriptors
from iosim.gpu.run.job import Job
from iosim.gpu.run.launch import load_kernels
from iosim.gpu.run.memory import TORCH_NAMES, dtype_of, pack
from iosim.kernel import KernelCount, trace

NAMES = tuple(a.name for a in iosim.all_algorithms())
ROUNDED = "return (at + (words - 1)) // words * words"


class Outline:
    """A tensor of which only the type is known."""

    def __init__(self, dtype: str) -> None:
        self.dtype = f"torch.{TORCH_NAMES[dtype]}"

    def data_ptr(self) -> int:
        """Where it would be."""
        return 0


def draw_positions(tensor: Any, instance: Any) -> Any:
    """A table of pages, as it lies in memory."""
    draw = np.random.default_rng(0)
    shape = layout.shape(tensor, instance)
    table = draw.integers(instance.env[tensor.positions], size=shape)
    return pack(tensor, instance, table)


def read_back(
    instance: Any, dtype: str = "fp32", rounded: bool = False
) -> tuple[Counter[tuple[str, str]], list[KernelCount]]:
    """Words by (direction, tensor) of all kernels of a program, from their TTIR, and their counts.

    Args:
        instance: the bound program.
        dtype: of its tensors.
        rounded: whether ragged rows are read to the end of a sector, as emitted.
    """
    emitted = emit(instance)
    if not rounded:
        text = emitted.source.replace(ROUNDED, "return at")
        assert ("sector_end" in text) == (text != emitted.source)
        emitted = dataclasses.replace(emitted, source=text)
    functions = load_kernels(emitted)
    tensors = {t.name: t for t in instance.program.tensors}
    marks = {name: mask.array.astype(np.int32).ravel() for name, mask in instance.masks}
    moved: Counter[tuple[str, str]] = Counter()
    counts = []
    for kernel in emitted.kernels:
        given = [
            draw_positions(tensors[t], instance)
            if tensors[t].positions
            else Outline(dtype_of(tensors[t], dtype))
            for t in kernel.tensors
        ]
        given += [marks[name] for name in kernel.masks]
        function = functions[kernel.name]
        count = trace(function)[kernel.grid,](*given, Outline("int64"), COUNT=False)
        names = dict(zip(function.arg_names, (*kernel.tensors, *kernel.masks), strict=False))
        for (kind, argument), traffic in count.traffic.items():
            if names[argument] not in marks:
                moved[kind, names[argument]] += traffic.words
        counts.append(count)
    return moved, counts


def check_words(instance: Any, dtype: str = "fp32") -> list[KernelCount]:
    """The words of each tensor, each way, are the schedule's own."""
    moved, counts = read_back(instance, dtype)
    assert moved == Counter(dict(iosim.count(instance)))
    return counts


def whole_instance(name: str, side: int) -> tuple[Any, Any]:
    """A problem and a program whose tiles of so many rows and columns are all whole."""
    algorithm = iosim.algorithm(name)
    cls = algorithm.problem
    if name == "paged":
        problem = cls(N_k=64, d=32, heads=2, kv_heads=1, page=32, batch=2, N=16)
    elif name in ("grouped_rows", "decode"):
        problem = cls(64 if name == "grouped_rows" else 16, 32, 4, N_k=64, kv_heads=2)
    elif "N_k" in algorithm.needs:
        problem = cls(64, 32, 2, N_k=64)
    else:
        problem = cls.beside_attention(64, 32, 2)
    program = algorithm.program_for(problem)
    tiles = {p.name: min(side, problem.sizes[p.axis]) if p.least else 0 for p in program.params}
    tiles |= {"B_s": 64} if name == "split_kv" else {}
    pattern = "band" if masks(program) else ""
    return problem, Job.of(name, problem, tiles, pattern=pattern).instance


@pytest.mark.numbers
@pytest.mark.parametrize("side", [16, 32])
@pytest.mark.parametrize("name", NAMES)
def test_whole_tiles(name, side, monkeypatch):
    """Words, FLOP of products as the strict machine multiplies them, and the footprint."""
    problem, instance = whole_instance(name, side)
    counts = check_words(instance)

    multiplied = 0

    def count_products(a: Any, b: Any, multiply: Any = values.dot) -> Any:
        nonlocal multiplied
        out = multiply(a, b)
        multiplied += 2 * out.size * a.shape[-1]
        return out

    monkeypatch.setattr(ops, "dot", count_products)
    monkeypatch.setattr(values, "dot", count_products)
    peak = iosim.peak(instance)
    iosim.simulate(instance, iosim.Machine(peak), problem.random())
    assert sum(c.work.products for c in counts) == multiplied
    assert multiplied or name == "copy"

    # Up to the block through which the emitter loads a vector, and statistics of rows that are
    # there twice, an old one and a new one: `iosim.kernel.footprint`.
    block = 1024 if "load_vector" in emit(instance).source else 0
    assert peak <= max(c.footprint.words for c in counts) <= peak + block + 4 * side


@pytest.mark.numbers
@pytest.mark.parametrize("style", ["", STYLES[-1]])
@pytest.mark.parametrize(("problem", "tiles"), ON_HOPPER)
def test_kernels_for_hopper(problem, tiles, style, monkeypatch):
    """Boxes of Gluon kernels: with what lies beyond the tensor, the bytes of bulk copies."""
    monkeypatch.setattr(hopper, "PROGRAMS", 2)
    algorithm = iosim.algorithm("flash2")
    instance = iosim.bind(algorithm.program_for(problem), problem.sizes, tiles)
    emitted = emit(instance, target="hopper", style=style)
    functions = load_kernels(emitted)
    outlines = {t.name: Outline("fp16") for t in instance.program.tensors}
    asked: Counter[tuple[str, str]] = Counter()
    stored: Counter[str] = Counter()
    for kernel in emitted.kernels:
        boxes = descriptors(kernel, instance, outlines)
        function = functions[kernel.name]
        count = trace(function)[kernel.grid,](*boxes, Outline("int64"), COUNT=False)
        names = dict(zip(function.arg_names, (box.tensor for box in kernel.boxes), strict=False))
        for (kind, argument), traffic in count.traffic.items():
            asked[kind, names[argument]] += (traffic.words + traffic.hidden) * traffic.width
            stored[names[argument]] += traffic.words if kind == "store" else 0
    loads = {key: n for key, n in asked.items() if key[0] == "load"}
    assert loads == {k: n for k, n in bulk_bytes(instance, "fp16").items() if k[0] == "load"}
    assert stored["O"] == iosim.count(instance)["store", "O"]


@pytest.mark.numbers
@pytest.mark.parametrize(("name", "case"), SUPPORTED)
def test_every_schedule_under_every_mask(name, case):
    algorithm, problem = iosim.algorithm(name), PROBLEMS[case]
    program = algorithm.program_for(problem)
    tiles = tiles_of(program, list(PROBLEMS).index(case) % 3)
    tiles |= {
        p: 64 for p in ("B_p", "B_k1", "B_v2") if p in tiles
    }  # parts of tiles, which no GPU cuts
    check_words(iosim.bind(program, problem.sizes, tiles), "fp16")


@pytest.mark.numbers
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "two_masks"])
def test_block_masks(name, case):
    """Masks come as data; no two programs have the same."""
    _, instance = bound(name, case, 0.6)
    check_words(instance)


def test_a_load_that_nothing_reads_is_gone():
    """`two_masks` frees the tiles of its last nest as it has loaded them: Triton loads none."""
    problem, instance = bound("two_masks", "whole", 0.6)
    moved, _ = read_back(instance)
    want = Counter(dict(iosim.count(instance)))
    (fine,) = (mask.array for name, mask in instance.masks if name == "fine")
    want["load", "K"] -= problem.heads * int(fine.sum()) * instance.env["B_c"] * problem.d
    assert moved == want


@pytest.mark.numbers
@sizes.examples(0.5)
@given(st.sampled_from([n for n in NAMES if n != "block_sparse"]), st.integers(1, 2**32))
def test_drawn_programs(name, seed):
    """Ragged sizes, options and types, drawn as ``iosim gpu validate --case 3`` draws them."""
    drawn = drawn_jobs((name,), seed, 3)
    job = min(drawn, key=lambda job: iosim.count(job.instance).total_words)  # the quickest
    check_words(job.instance, job.dtype)
    if "sector_end" in job.emitted().source:
        _, counts = read_back(job.instance, job.dtype, rounded=True)
        least = bytes_of(iosim.count(job.instance), job.instance.program.tensors, job.dtype)
        most = layout.sector_bytes(job.instance, job.dtype)
        assert sum(least.values()) <= sum(c.total_bytes for c in counts) <= sum(most.values())
