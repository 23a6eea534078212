"""What every emitted module begins with."""

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
# a thread would hold whole columns, and Triton 3.6 leaves a row out of some: its vectoriser makes
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
