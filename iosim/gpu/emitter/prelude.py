"""What every emitted module begins with, and the frame of its kernels.

The constants are Triton's text: targets (`iosim.gpu.targets`) put those that a module needs in
front of its kernels, and `nest` writes a kernel's first line by `function`.  A helper there may be
written otherwise as long as it loads and counts the same words; its name is in the text of nests.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

HEADER = '''\
"""{name} with {sizes}.

Emitted by iosim from the program that it counts.
"""

import triton
import triton.language as tl
{timer}
LOG2E = tl.constexpr(1.4426950408889634)


{counting}

@triton.jit
def load_vector(at, ok, side: tl.constexpr):
    """Load a vector, each word by one thread: column 0 of a block that all the warps share."""
    columns: tl.constexpr = 1024 // side if side < 1024 else 1
    first = tl.arange(0, columns) == 0
    at = at[:, None] + tl.zeros([1, columns], tl.int32)
    return tl.sum(tl.load(at, mask=ok[:, None] & first[None, :], other=0.0), 1)
'''

# Words of a transfer, from the mask that it moves under.
UNMASKED = '''\
@triton.jit
def unmasked(ok, rows: tl.constexpr, columns: tl.constexpr):
    """Words that a masked transfer of a rows x columns block moves."""
    return tl.sum(tl.broadcast_to(ok, [rows, columns]).to(tl.int32)).to(tl.int64)
'''

# The same where masks follow a tile, from the mask of each index.  Of a mask over rows and columns
# a thread would hold whole columns, and Triton 3.6 leaves a row out of some: its vectorizer makes
# of x + 31 the subtraction of -31, which it says cannot wrap.
POSITIONS = '''\
@triton.jit
def positions(ok):
    """Positions that the mask of an index lets through."""
    return tl.sum(ok.to(tl.int32)).to(tl.int64)
'''

WORD = '''\
@triton.jit
def load_word(at):
    """Load one word, by one thread: a scalar is asked for by every warp, each a sector."""
    first = tl.arange(0, 1024) == 0
    return tl.sum(tl.load(at + tl.zeros([1024], tl.int32), mask=first, other=0), 0)
'''

TIMER = "from triton.language.extra.cuda import globaltimer\n"

ENDS = '''\
@triton.jit
def sector_end(at, ptr):
    """Where the last sector of a row ends, of which `at` words are wanted."""
    words: tl.constexpr = 256 // ptr.dtype.element_ty.primitive_bitwidth
    return (at + (words - 1)) // words * words
'''

GATE = '''\
@triton.jit
def wait_for_all(gate_ptr, arrivals):
    """Arrive, then wait until `arrivals` programs have; give up rather than hang."""
    tl.debug_barrier()
    tl.atomic_add(gate_ptr, 1)
    tries = tl.full([], 0, tl.int32)
    while (tl.atomic_add(gate_ptr, 0) < arrivals) & (tries < 4194304):
        tries += 1
    tl.debug_barrier()
'''

# For Hopper.  A number for each row has the layout ROWS; with a block, it gets that of its rows.
HOPPER = '''\
"""{name} with {sizes}.

Emitted by iosim from the program that it counts, for Hopper.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

# Triton 3.9 has other names for bulk copies than 3.6.
load_box = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
store_box = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global

LOG2E = gl.constexpr(1.4426950408889634)
{layouts}
ROWS = gl.constexpr(gl.SliceLayout(1, {first}.value))


@gluon.jit
def by_row(x, like):
    """A number for each row, beside the columns of a block."""
    return gl.expand_dims(gl.convert_layout(x, gl.SliceLayout(1, like.type.layout)), 1)


@gluon.jit
def row_max(x):
    """The largest of each row."""
    return gl.convert_layout(gl.max(x, 1), ROWS)


@gluon.jit
def row_sum(x):
    """The sum of each row."""
    return gl.convert_layout(gl.sum(x, 1), ROWS)


@gluon.jit
def columns(x):
    """The number of each column."""
    return gl.expand_dims(gl.arange(0, x.shape[1], gl.SliceLayout(0, x.type.layout)), 0)


@gluon.jit
def rows(x, first):
    """The number of each row, from `first` on."""
    return gl.expand_dims(first + gl.arange(0, x.shape[0], gl.SliceLayout(1, x.type.layout)), 1)
'''
MMA = "MMA_{columns} = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, {columns}, 16]))"


def function(
    name: str,
    pointers: Sequence[str],
    header: Collection[str],
    counters: Sequence[str],
    lines: Sequence[str],
) -> str:
    """A kernel's text: its header and lines, between counters that are made and stored."""
    row = f"words_ptr + tl.program_id(0) * {len(counters)}"
    return "\n".join(
        [
            "@triton.jit",
            f"def {name}({', '.join(pointers)}, words_ptr, COUNT: tl.constexpr):",
            *(f"    {line}" for line in header),
            "    if COUNT:",
            *(f"        {counter} = tl.full([], 0, tl.int64)" for counter in counters),
            *lines,
            "    if COUNT:",
            *(
                f"        tl.store({row}{f' + {k}' if k else ''}, {counter})"
                for k, counter in enumerate(counters)
            ),
            "",
        ]
    )
