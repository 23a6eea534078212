"""Programs that sweep the same words through L2 in lockstep, and read and write words of their own.

`iosim.gpu.reports.l2size` launches it in a worker: the module needs Triton.  All programs must be
resident at once; they give up waiting rather than hang.
"""

from __future__ import annotations

import triton
import triton.language as tl

BLOCK = 4096  # words of fp32 that a program loads at once
OWN_BLOCK = 2048  # of its own words
EVERY = 16  # blocks between two barriers


@triton.jit  # type: ignore[untyped-decorator]
def sweep_words(  # type: ignore[no-untyped-def]
    swept_ptr,
    own_ptr,
    written_ptr,
    out_ptr,
    gate_ptr,
    sweeps,
    blocks,
    own_reads,
    own_writes,
    ALTERNATE: tl.constexpr,
    BLOCK: tl.constexpr,
    OWN_BLOCK: tl.constexpr,
    EVERY: tl.constexpr,
):
    """Sweep `blocks` blocks `sweeps` times, every second time backwards if ALTERNATE.

    Before each sweep, read `own_reads` and write `own_writes` blocks that no other program and no
    other sweep touches.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    words, own = tl.arange(0, BLOCK), tl.arange(0, OWN_BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    arrivals = 0
    for sweep in range(sweeps):
        first = (sweep * programs + program).to(tl.int64)
        for k in range(own_reads):
            total += tl.sum(tl.load(own_ptr + (first * own_reads + k) * OWN_BLOCK + own))
        for k in range(own_writes):
            at = (first * own_writes + k) * OWN_BLOCK
            tl.store(written_ptr + at + own, tl.full([OWN_BLOCK], 1.0, tl.float32))
        for j in range(blocks):
            backwards = (sweep % 2) * ALTERNATE
            at = j + backwards * (blocks - 1 - 2 * j)
            total += tl.load(swept_ptr + at.to(tl.int64) * BLOCK + words)
            if (j + 1) % EVERY == 0:
                arrivals += programs
                tl.atomic_add(gate_ptr, 1)
                tries = 0
                while (tl.atomic_add(gate_ptr, 0) < arrivals) & (tries < 4194304):
                    tries += 1
    tl.store(out_ptr + program * BLOCK + words, total)
