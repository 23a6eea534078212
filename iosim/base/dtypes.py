"""Types of numbers, by the bytes of a word."""

from __future__ import annotations

from iosim.base.errors import InputError, closest

WORD_BYTES: dict[str, int] = {"fp8": 1, "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8}
# Of what is not a number to compute with: ids of tokens, labels, masks.
OTHER_BYTES: dict[str, int] = {"bool": 1, "int8": 1, "int32": 4, "int64": 8}


def word_bytes(dtype: str, wide: bool = False) -> int:
    """Bytes of one word of `dtype`; statistics (`wide`) never have fewer than 4.

    >>> word_bytes("fp16"), word_bytes("fp16", wide=True)
    (2, 4)
    """
    known = WORD_BYTES | OTHER_BYTES
    if dtype not in known:
        raise InputError(f"unknown dtype {dtype!r}: {closest(dtype, known)}")
    return max(known[dtype], 4) if wide else known[dtype]
