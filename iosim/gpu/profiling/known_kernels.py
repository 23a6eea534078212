"""Known kernels of libraries: which schedule each has, with which tiles, on which path.

`iosim.gpu.profiling.expected` looks kernels up here.  `KNOWN` has one `KnownKernel` for each
family.  Its pattern matches the kernel's name as a report writes it, and its groups are the tiles;
what a name doesn't say was read from counters (docs/gpu.md) or from the library's code.  Kernels
that `iosim.gpu.emit` makes are known by their own names.

``tests/gpu/test_profile_expected.py`` has a recorded kernel of each family.

>>> from iosim.core.problem import Attention
>>> name = "cudnn_generated_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1"
>>> kernel = find_kernel(name, "flash2", Attention(4096, 64, heads=8))
>>> kernel.title, kernel.tiles(kernel.match_name(name))
('cuDNN, forward', {'B_r': 128, 'B_c': 128})
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from iosim.core.counts import Key
from iosim.core.program.ir import Program
from iosim.core.program.walk import Instance
from iosim.gpu.emitter.bulk import bulk_bytes
from iosim.gpu.libraries import fused_program
from iosim.gpu.probes import probe
from iosim.gpu.profiling.bulk import box_bytes

Tiles = dict[str, int]


def _sides(**sides: int | str) -> Callable[[Mapping[str, str]], Tiles]:
    """Tile sizes by name: numbers, or groups of the pattern."""
    return lambda found: {name: int(found.get(str(x), x)) for name, x in sides.items()}


HEAD_STEP = 64  # kernels are made for numbers of columns no further apart


@dataclass(frozen=True, kw_only=True)
class KnownKernel:
    """A family of kernels.

    Attributes:
        title: what it is.
        pattern: of the kernel's name; the group ``d`` is the most columns of Q that it takes,
            ``causal`` 1 under such a mask.
        algorithm: the schedule that is requested: its name in the registry.
        traced: the problem → the program that the kernel is a nest of; None for the schedule's.
        nest: which one.
        tiles: the pattern's groups → tile sizes, by name; None where only the grid tells them.
        persistent: whether as many blocks are launched as run at once, whatever the sizes.
        bulk: tensors that bulk copies load, and store, the others taking the ordinary path; None
            where its counters tell.
        whole: axes along which ragged tiles are loaded whole on the ordinary path.
        adds: scratch that the program loads and stores, and the kernel adds to: reductions.
        times: tensor → the pattern's groups → how often each of its words is requested.
        boxes: the program, a dtype and its tiles → bytes of the boxes that bulk copies load.
        multicast: the pattern's groups → tensors of which one copy goes to several blocks.
        statistics: whether the kernel stores L in any case.
        source: where tiles and path come from.

    >>> sorted(KNOWN["cublas"].bulk)
    ['A', 'B', 'C']
    """

    title: str
    pattern: str
    algorithm: str = "flash2"
    traced: Callable[[Any], Program] | None = None
    nest: int = 0
    tiles: Callable[[Mapping[str, str]], Tiles] | None = None
    persistent: bool = False
    bulk: frozenset[str] | None = frozenset()
    whole: frozenset[str] = frozenset()
    adds: frozenset[str] = frozenset()
    times: Mapping[str, Callable[[Mapping[str, str]], int]] = field(default_factory=dict)
    boxes: Callable[[Instance, str, Mapping[str, int]], dict[Key, int]] = box_bytes
    multicast: Callable[[Mapping[str, str]], frozenset[str]] = lambda found: frozenset()
    statistics: bool = False
    source: str = "counters of an H200"

    def program(self, problem: Any) -> Program:
        """The program that the kernel is a nest of."""
        return (self.traced or probe(self.algorithm).program_for)(problem)

    def match_name(self, name: str) -> dict[str, str] | None:
        """What the pattern's groups say of a kernel's name; None for another kernel."""
        match = re.search(self.pattern, name)
        return None if match is None else match.groupdict()

    def takes(self, name: str, problem: Any) -> bool:
        """Whether a kernel of the name may solve a problem, as far as the name tells."""
        found = self.match_name(name) or {}
        spare = int(found["d"]) - problem.sizes["d"] if "d" in found else 0
        masked = found.get("causal") in ("1", "true")
        alike = "causal" not in found or masked == problem.causal
        return 0 <= spare < HEAD_STEP and alike

    def solves(self, problem: Any) -> Any:
        """The problem with L, where the kernel stores that in any case."""
        return replace(problem, statistics=True) if self.statistics else problem


def _repeats(found: Mapping[str, str]) -> int:
    """Warps that share rows of scores in FlashAttention-2's backward pass: each loads L and D."""
    return int(found["warps"]) // int(found["along"])


def _in_cluster(found: Mapping[str, str]) -> frozenset[str]:
    """Of a product: blocks side by side share rows of A, blocks below one another columns of B."""
    return frozenset("A" * (int(found["across"]) > 1) + "B" * (int(found["along"]) > 1))


def _padded(one: Instance, dtype: str, tiles: Mapping[str, int]) -> dict[Key, int]:
    """Boxes of an emitted kernel, whose rows begin at sectors."""
    return bulk_bytes(one, dtype)


_FORWARD, _BACKWARD = frozenset("QKVO"), frozenset({"Q", "K", "V", "dO", "dK", "dV"})
_BLOCKS, _SUMS = _sides(B_r="rows", B_c="columns"), frozenset({"dQ32"})
_READ = "counters of an H200"
_TRAITS = r"(?P<d>\d+), (?P<rows>\d+), (?P<columns>\d+), "
_MASK = r"[^>]*>>, \w+, (?P<causal>\w+)"
_FWD = rf"Flash_fwd_kernel_traits<{_TRAITS}{_MASK}"
_BWD = rf"Flash_bwd_kernel_traits<{_TRAITS}(?P<warps>\d+), (?P<along>\d+),"
_CUDNN = r"cudnn_generated_\w*sdpa_sm90_flash_{}_wgmma_\w*_64x{}x(?P<d>\d+)_{}"
_NVJET = (
    r"nvjet_\w+?_(?P<rows>\d+)x(?P<columns>\d+)_(?P<depth>\d+)x\d+_"
    r"(?P<along>\d+)x(?P<across>\d+)_"
)
_SHAPE = r"(?:cute::)?tuple<(?:cute::)?C<{}>, (?:cute::)?C<{}>, (?:cute::)?C<{}> ?>"
_FA3 = (
    r"FlashAttnFwdSm90<.*?"
    + _SHAPE.format(*[r"\d+"] * 3)
    + ", "
    + _SHAPE.format(*(rf"(?P<{x}>\d+)" for x in ("rows", "columns", "d")))
)

KNOWN: dict[str, KnownKernel] = {
    "flash-attention-2": KnownKernel(
        title="FlashAttention-2, forward",
        pattern=rf"flash_fwd_kernel<{_FWD}",
        tiles=_BLOCKS,
        statistics=True,
        source=f"the kernel's template arguments; {_READ}",
    ),
    "flash-attention-2-backward": KnownKernel(
        title="FlashAttention-2, backward",
        pattern=rf"flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<{_BWD}{_MASK}",
        algorithm="flash2_backward",
        traced=fused_program,
        nest=1,
        tiles=_BLOCKS,
        adds=_SUMS,
        times={"L": _repeats, "D": _repeats},
        source=f"the kernel's template arguments; {_READ}",
    ),
    "flash-attention-2-row-sums": KnownKernel(
        title="FlashAttention-2, row sums and zeros",
        pattern=rf"flash_bwd_dot_do_o_kernel<\d+, {_BWD}",
        algorithm="flash2_backward",
        traced=fused_program,
        tiles=_sides(B_rD="rows"),
        # A thread stores one word of D, and two requests share a sector.
        times={"D": lambda found: 2},
    ),
    "flash-attention-2-conversion": KnownKernel(
        title="FlashAttention-2, conversion of dQ",
        pattern=rf"flash_bwd_convert_dq_kernel<{_BWD}",
        algorithm="flash2_backward",
        traced=fused_program,
        nest=2,
        tiles=_sides(B_rQ="rows"),
    ),
    "flash-attention-3": KnownKernel(
        title="FlashAttention-3, forward",
        pattern=_FA3,
        tiles=_BLOCKS,
        persistent=True,
        bulk=_FORWARD,
        statistics=True,
        source="the kernel's template arguments; no counters were read of it",
    ),
    "cudnn": KnownKernel(
        title="cuDNN, forward",
        pattern=_CUDNN.format("fprop", r"(?P<columns>\d+)", "4x1x1"),
        tiles=_sides(B_r=128, B_c="columns"),
        persistent=True,
        bulk=_FORWARD,
        source=f"the kernel's name; {_READ}",
    ),
    "cudnn-backward": KnownKernel(
        title="cuDNN, backward",
        pattern=_CUDNN.format("bprop", "64", "1x4x1"),
        algorithm="flash2_backward",
        traced=fused_program,
        nest=1,
        tiles=_sides(B_r=64, B_c=128),
        persistent=True,
        bulk=_BACKWARD,
        adds=_SUMS,
    ),
    "cublas": KnownKernel(
        title="cuBLAS, a product by bulk copies",
        pattern=_NVJET,
        algorithm="matmul",
        tiles=_sides(B_m="rows", B_n="columns", B_k="depth"),
        persistent=True,
        bulk=frozenset("ABC"),
        multicast=_in_cluster,
        source=f"the kernel's name; {_READ}",
    ),
    "triton-attention": KnownKernel(
        title="attention of Triton's tutorial",
        pattern=r"^_attn_fwd",
        bulk=None,
        statistics=True,
        source="the tutorial's text",
    ),
    "triton-matmul": KnownKernel(
        title="a product of Triton's tutorial",
        pattern=r"^matmul_kernel$",
        algorithm="matmul",
        bulk=None,
        whole=frozenset("mn"),
        source="the tutorial's text, in which rows and columns beyond the edge wrap around",
    ),
}


def find_kernel(name: str, algorithm: str, problem: Any) -> KnownKernel | None:
    """The family of a kernel that has a schedule and may solve a problem; None for none."""
    for kernel in KNOWN.values():
        if kernel.algorithm == algorithm and kernel.match_name(name) is not None:
            return kernel if kernel.takes(name, problem) else None
    own = re.fullmatch(rf"{re.escape(algorithm)}(?:_(\d+))?", name)
    if own is None:
        return None
    title, nest = f"{name}, as iosim emits it", int(own[1] or 1) - 1
    return _unnamed(title, algorithm, "the schedule itself", nest=nest, boxes=_padded)


def assume_kernel(name: str, algorithm: str) -> KnownKernel:
    """A kernel that is not known, taken to be of a schedule."""
    return _unnamed(f"{name}, taken to be {algorithm}", algorithm, "as asked")


def _unnamed(title: str, algorithm: str, source: str, **more: Any) -> KnownKernel:
    """A kernel of a schedule, whose counters tell its path."""
    return KnownKernel(
        title=title, pattern="", algorithm=algorithm, bulk=None, source=source, **more
    )
