"""What PyTorch's backward passes move at SM↔L2 and L2↔DRAM, compared with the model.

They are FlashAttention-2's loop order (columns outside), whose additions to dQ are the hardware's
reductions.  What the model says of that schedule with B_c = 128 is compared with their counters:
loads of Q, dO, K, V, L and D, reductions of dQ in fp32, stores of dK and dV.  `watch_passes` runs
in the worker; the rest only reads what it wrote.  `iosim.gpu.reports.backward` runs it, times
`fused_pass`, and writes `moved_rows` as ``moved.csv``.

Changing this file: groups of counters belong to runs by their order alone, so keep the order of
`BACKENDS`, which records don't name.  `WATCHED` is that of the committed records, too.  Fields of
`MovedRow` are columns that docs/gpu.md reads.  ``tests/gpu/test_gpu_backward.py`` checks `modeled`
by hand, and against the record.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iosim.base.dtypes import word_bytes
from iosim.base.reading import stored
from iosim.base.rows import Row, Values
from iosim.core.counting.numbers import count
from iosim.core.problem import AttentionBackward
from iosim.core.program.walk import bind
from iosim.gpu.emitter.nests import one_kernel
from iosim.gpu.errors import GpuError
from iosim.gpu.layers.launch_counters import STREAM_WORDS, Counted, read_counted
from iosim.gpu.libraries import FUSED_TILES, fused_program
from iosim.gpu.records.plain import read_json
from iosim.gpu.records.record import COUNTERS, PROFILED

# PyTorch's names of the two fused passes.
BACKENDS = {"FlashAttention-2": "FLASH_ATTENTION", "cuDNN": "CUDNN_ATTENTION"}
# N, d, heads of what the profiler watches: two of 8 heads, and the FlashAttention paper's GPT-2.
WATCHED = ((4096, 64, 8), (4096, 128, 8), (1024, 64, 1024))
WORD = word_bytes("fp16")


@contextmanager
def _only(torch: Any, backend: str) -> Iterator[None]:
    from torch.nn import attention

    with attention.sdpa_kernel(getattr(attention.SDPBackend, BACKENDS[backend])):
        yield


def fused_pass(torch: Any, backend: str, given: Values, causal: bool = False) -> Callable[[], Any]:
    """One of PyTorch's backward passes: gradients of Q, K and V, after one forward pass.

    Args:
        backend: a name of `BACKENDS`.
        given: Q, K, V and dO, (heads, N, d) each.
    """
    q, k, v = (given[x][None].detach().requires_grad_() for x in "QKV")
    with _only(torch, backend):
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0, is_causal=causal)
    do = given["dO"][None].contiguous()
    return functools.partial(torch.autograd.grad, o, (q, k, v), do, retain_graph=True)


def watch_passes(asked: Row, out: Path) -> Row:
    """Runs in the worker: what is of known size, then each backward pass, each after a mark."""
    from iosim.gpu.layers.tasks import stream
    from iosim.gpu.run.cuda import torch_module
    from iosim.gpu.run.tasks import watch

    torch = torch_module()
    gate = stream(torch)
    gate()
    torch.cuda.synchronize()
    watch(torch, [gate])
    del gate
    generator = torch.Generator("cuda").manual_seed(0)
    for (N, d, heads), backend in itertools.product(asked["watched"], BACKENDS):
        given = {
            x: torch.randn(heads, N, d, generator=generator, device="cuda").half()
            for x in ("Q", "K", "V", "dO")
        }
        given["Q"].mul_(d**-0.5)
        go = fused_pass(torch, backend, given)
        go()
        torch.cuda.synchronize()
        watch(torch, [go])
        del given, go
        torch.cuda.empty_cache()
    return {"watched": asked["watched"]}


@dataclass(frozen=True)
class Modeled:
    """Bytes that FlashAttention-2's loop order moves, dQ and the rows' L and D being fp32.

    Attributes:
        rows: loads of Q, dO, K and V.
        statistics: loads of L and D.
        reduced: what is added to dQ.
        stored: dK and dV.
    """

    rows: int
    statistics: int
    reduced: int
    stored: int


def modeled(N: int, d: int, heads: int) -> Modeled:
    """What the main kernel of `fused_backward` moves, which has blocks of 128 columns.

    >>> found = modeled(4096, 128, 8)
    >>> found.reduced == 32 * 4096 * 128 * 4 * 8, found.stored == 2 * 4096 * 128 * 2 * 8
    (True, True)
    """
    problem = AttentionBackward(N, d, heads)
    tiles = FUSED_TILES | {"B_rD": 1, "B_rQ": 1}
    words = count(one_kernel(bind(fused_program(problem), problem.sizes, tiles), 1))
    loads, stores = words.by_tensor("load"), words.by_tensor("store")
    wide = word_bytes("fp32")
    return Modeled(
        rows=sum(loads[x] for x in ("Q", "dO", "K", "V")) * WORD,
        statistics=(loads["L"] + loads["D"]) * wide,
        reduced=loads["dQ32"] * wide,
        stored=(stores["dK"] + stores["dV"]) * WORD,
    )


@dataclass(frozen=True)
class MovedRow:
    """One of PyTorch's backward passes, all its kernels.  Bytes at SM↔L2 if no name says otherwise.

    ``model_`` is what `modeled` says.  ``main_`` is the kernel with the most loads; the others
    make the row sums D, clear the fp32 dQ and convert it.  ``bulk_load`` is the part of the main
    kernel's loads that bulk copies bring; ``reduced`` is not part of ``store``.
    """

    implementation: str
    N: int
    d: int
    heads: int
    kernels: int
    model_rows: int
    bulk_load: int
    model_load: int  # rows and statistics
    main_load: int
    model_reduced: int
    reduced: int
    model_store: int
    main_store: int
    load: int
    store: int
    dram_load: int
    dram_store: int
    main: str


def moved_rows(folder: Path) -> list[MovedRow]:
    """What the profiler saw; () where it was not run.

    Raises GpuError for a record that is damaged, or whose gate is wrong.
    """
    report = folder / COUNTERS
    if not stored(report).exists():
        return []
    watched = read_json(folder / PROFILED, _ProfiledFile).watched
    gate, *groups = read_counted(report)
    runs = list(itertools.product(watched, BACKENDS))
    if len(groups) != len(runs):
        raise GpuError(
            f"{report} has {len(groups)} marks after the gate and {PROFILED} {len(runs)} runs: "
            "they are of different runs"
        )
    size = STREAM_WORDS * WORD
    seen = (_total(gate, "sm_l2_load"), _total(gate, "sm_l2_store"))
    if seen != (size, size):
        raise GpuError(
            f"{report}: the counters are wrong: x + 1 of {size} bytes showed {seen[0]} read and "
            f"{seen[1]} written; was another program running?"
        )
    return [_moved(name, *sizes, group) for (sizes, name), group in zip(runs, groups, strict=True)]


def _total(group: tuple[Counted, ...], what: str) -> int:
    return sum(getattr(kernel, what) or 0 for kernel in group)


def _moved(name: str, N: int, d: int, heads: int, group: tuple[Counted, ...]) -> MovedRow:
    main = max(group, key=lambda kernel: kernel.sm_l2_load or 0)
    model, alone = modeled(N, d, heads), (main,)
    return MovedRow(
        name,
        N,
        d,
        heads,
        len(group),
        model.rows,
        _total(alone, "bulk_load"),
        model.rows + model.statistics,
        _total(alone, "sm_l2_load"),
        model.reduced,
        _total(group, "reduced"),
        model.stored,
        _total(alone, "sm_l2_store") - _total(alone, "reduced"),
        _total(group, "sm_l2_load"),
        _total(group, "sm_l2_store") - _total(group, "reduced"),
        _total(group, "dram_load"),
        _total(group, "dram_store"),
        main.kernel,
    )


@dataclass(frozen=True)
class _ProfiledFile:
    watched: tuple[tuple[int, int, int], ...]
