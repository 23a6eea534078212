"""Programs that sweep the same words through L2 in lockstep, and read and write words of their own.

`iosim.gpu.reports.l2size` launches it in a worker: the module needs Triton.  All programs must be
resident at once; they give up waiting rather than hang.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Words of fp32 that a program loads at once, those of its own, and blocks between two barriers.
BLOCK, OWN_BLOCK, EVERY = 4096, 2048, 16
_BLOCK, _OWN_BLOCK, _EVERY = map(tl.constexpr, (BLOCK, OWN_BLOCK, EVERY))


@triton.jit  # type: ignore[untyped-decorator]
def sweep_words(tensors, gate_ptr, sizes, ALTERNATE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Sweep `blocks` blocks `sweeps` times, every second time backwards if ALTERNATE.

    Before each sweep, read `own_reads` and write `own_writes` blocks that no other program and no
    other sweep touches.
    """
    swept_ptr, own_ptr, written_ptr, sums_ptr = tensors
    sweeps, blocks, own_reads, own_writes = sizes
    program, programs = tl.program_id(0), tl.num_programs(0)
    words, own = tl.arange(0, _BLOCK), tl.arange(0, _OWN_BLOCK)
    total = tl.zeros([_BLOCK], tl.float32)
    arrivals = 0
    for sweep in range(sweeps):
        first = (sweep * programs + program).to(tl.int64)
        for k in range(own_reads):
            total += tl.sum(tl.load(own_ptr + (first * own_reads + k) * _OWN_BLOCK + own))
        for k in range(own_writes):
            at = (first * own_writes + k) * _OWN_BLOCK
            tl.store(written_ptr + at + own, tl.full([_OWN_BLOCK], 1.0, tl.float32))
        for j in range(blocks):
            backwards = (sweep % 2) * ALTERNATE
            at = j + backwards * (blocks - 1 - 2 * j)
            total += tl.load(swept_ptr + at.to(tl.int64) * _BLOCK + words)
            if (j + 1) % _EVERY == 0:
                arrivals += programs
                tl.atomic_add(gate_ptr, 1)
                tries = 0
                while (tl.atomic_add(gate_ptr, 0) < arrivals) & (tries < 4194304):
                    tries += 1
    tl.store(sums_ptr + program * _BLOCK + words, total)
