"""Places in the arrays of the search without recomputation, whose loops are one text, compiled
with numba or plain Python: `settling.py`, `bounding.py`, `expanding.py`, `thinning.py`.

A state is 3·W words of 64 bits: A, the operations that are done; R, the red values; D, the dirty
ones, red and not blue.  Its cost is the penalties so far (see `expand.py` for the normal form): an
eviction of a clean value costs its words, of a dirty one twice that.  Loads after an eviction are
paid at the eviction, so that a live value that is not red may be loaded for nothing.

All arrays are flat, so that lists may take their place; sets are uint64 and numbers int64, never
mixed in one expression, since numba would make floating point of it.
"""

from __future__ import annotations

# Places in `sizes`.  OPS: all operations; PLAIN: those before the flying ones.
WORDS, OPS, VALUES, M, UNIT, CHAINS, LONGEST, MAPS, BACK, PLAIN = range(10)
# Places in `control`.  SKIP: successors that a state left half-way has made.
LAYER, LIMIT, USED, ROOM, RECORDS, WORK, BUDGET, AT, COUNT, STATUS, MOST, KEPT, START, SKIP = range(
    14
)
# What `control[STATUS]` says.
GOING, DONE, FULL = 0, 1, 2
FURTHEST = 2000  # states of equal A that one is compared with
