"""At which batch the products with weights reach the ridge: solved with the model itself.

The intensity of these products is their flop over the bytes of their kernels at L2↔DRAM, all of
them summed.  It rises with the batch, since weights are read once for all of it, until the rows of
a larger batch cut the output in one tile more: then it may fall a little.  So there may be several
batches at which the ridge is passed; one is found by bisection, after powers of two.

>>> from iosim.models.hardware import machine
>>> from iosim.models.layers.workload import workload
>>> from iosim.models.roofline.work import works_of
>>> h200 = machine("h200")
>>> def decode(batch):
...     step = workload("gpt2", "decode", batch=batch, N=512)
...     return works_of(step, h200, boundaries=["L2↔DRAM"])
>>> found = reached(decode, h200.ridge_for("fp16"))
>>> found.batch, found.before < found.ridge <= found.there
(324, True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from iosim.models.roofline.work import L2_DRAM, Work

# Larger batches are not tried.
MOST = 2**16


@dataclass(frozen=True)
class Ridge:
    """Where the products with weights pass the ridge.

    Attributes:
        ridge: FLOP per byte at L2↔DRAM, of the machine.
        batch: one that reaches it, where one less does not; None where no power of two up to `MOST`
            reaches it.
        there: FLOP per byte at that batch, or at `MOST`.
        before: FLOP per byte at one less; None where the batch is 1, or none.
    """

    ridge: float
    batch: int | None
    there: float
    before: float | None = None


def reached(works: Callable[[int], Iterable[Work]], ridge: float) -> Ridge:
    """A batch whose products with weights do `ridge` FLOP per byte, where one less does not.

    Args:
        works: the kernels at a batch.
        ridge: FLOP per byte at L2↔DRAM.
    """
    seen: dict[int, float] = {}

    def at(batch: int) -> float:
        if batch not in seen:
            seen[batch] = of_weights(works(batch))
        return seen[batch]

    high = 1
    while at(high) < ridge:
        if high == MOST:
            return Ridge(ridge, None, at(high))
        high = min(2 * high, MOST)
    low = high // 2  # 0, or below the ridge
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if at(middle) < ridge else (low, middle)
    return Ridge(ridge, high, at(high), at(low) if low else None)


def of_weights(works: Iterable[Work]) -> float:
    """FLOP per byte at L2↔DRAM of the kernels in which weights are multiplied."""
    mine = [w for w in works if w.products and w.roles[L2_DRAM].get("weight")]
    moved = sum(w.times * w.bytes[L2_DRAM] for w in mine)
    return sum(w.times * w.products for w in mine) / moved if moved else 0.0
