"""Reads inputs of attention or of its backward pass from a file; checks sizes before unpacking."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Mapping, Sequence

import numpy as np

from iosim.base.errors import InputError
from iosim.core.problem import Array, Attention, Attentions

# The most bytes of the arrays as float64 that are read from a file: 4 GiB.
LARGEST_INPUT = 2**32


def read_inputs(
    path: str | os.PathLike[str], kind: type[Attentions] = Attention
) -> tuple[Attentions, dict[str, Array]]:
    """Read Q, K and V from an .npz file: (N, d), (N_k, d) and (N_k, d_v), or all with heads before.

    For `AttentionBackward` also O and dO, (N, d_v), and L, (N,), with the heads of Q before.

    What differs between their shapes becomes options of the problem.  Shapes and dtypes are read
    first, and checked before anything is unpacked.  Raises InputError where the file is unreadable,
    an array is missing, of a shape that doesn't fit the others, too large, not real numbers, or
    holds NaN or infinity.
    """
    names = [t.name for t in kind.inputs]
    call = f"numpy.savez(path, {', '.join(f'{x}={x}' for x in names)})"
    advice = f"save it with {call}"
    try:
        with open(path, "rb") as file:
            if file.read(6) == b"\x93NUMPY":
                raise InputError(
                    f"{str(path)!r} is a single array: save all {_COUNTED[len(names)]} with {call}"
                )
        with zipfile.ZipFile(path) as archive:
            _check_headers(path, archive, names, advice)
        with np.load(path, allow_pickle=False) as arrays:
            hbm = {x: np.asarray(arrays[x], np.float64) for x in names}
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r} as .npz: {error.strerror or error}") from error
    except MemoryError as error:
        raise InputError(
            f"{str(path)!r} is too large for this memory: choose a smaller N"
        ) from error
    except Exception as error:  # a broken archive raises nearly anything, zipfile.BadZipFile too
        raise InputError(
            f"{str(path)!r} is not an .npz file ({type(error).__name__}): {advice}"
        ) from error
    for x, full in hbm.items():
        if bad := int(np.size(full) - np.count_nonzero(np.isfinite(full))):
            raise InputError(f"{x} holds {bad} values that are NaN or infinite: clean it first")
    if hbm["Q"].ndim == 2:
        hbm = {x: full[None] for x, full in hbm.items()}
    heads, N, d = hbm["Q"].shape
    kv_heads, N_k, d_v = hbm["V"].shape
    return kind(
        N,
        d,
        heads,
        N_k=None if N_k == N else N_k,
        d_v=None if d_v == d else d_v,
        kv_heads=None if kv_heads == heads else kv_heads,
    ), hbm


_COUNTED = {3: "three", 6: "six"}


def _check_headers(
    path: str | os.PathLike[str], archive: zipfile.ZipFile, names: Sequence[str], advice: str
) -> None:
    """Raise InputError for arrays that cannot be the inputs; reads a few bytes of each."""
    there = [name.removesuffix(".npy") for name in archive.namelist()]
    if missing := [x for x in names if x not in there]:
        raise InputError(
            f"{str(path)!r} has no array {', '.join(missing)} (it has "
            f"{', '.join(there) or 'none'}): {advice}"
        )
    shapes: dict[str, tuple[int, ...]] = {}
    for x in names:
        with archive.open(f"{x}.npy") as file:
            version = np.lib.format.read_magic(file)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }.get(version)
            if read is None:
                raise InputError(f"{x} has fields with names: give real numbers")
            shapes[x], _, dtype = read(file)
        if dtype.kind not in "iuf":
            raise InputError(f"{x} is of dtype {dtype}: give real numbers")
        if x not in "QKV":
            _check_beside(x, shapes)
            continue
        if len(shapes[x]) not in (2, 3) or 0 in shapes[x]:
            raise InputError(f"{x} has shape {shapes[x]}: give (N, d) or (heads, N, d)")
        # K is (N_k, d) and V (N_k, d_v), both with as many heads.
        like_q = x == "V" or shapes[x][-1] == shapes["Q"][-1]
        like_k = x != "V" or shapes[x][:-1] == shapes["K"][:-1]
        if not like_q or not like_k or len(shapes[x]) != len(shapes["Q"]):
            other = "Q" if like_k else "K"
            raise InputError(
                f"{x} has shape {shapes[x]} and {other} {shapes[other]}: give K of (N_k, d) and V "
                "of (N_k, d_v), with heads before if Q has them"
            )
    need = 8 * sum(map(math.prod, shapes.values()))
    if need > LARGEST_INPUT:
        every = f"{', '.join(names[:-1])} and {names[-1]} with Q of shape {shapes['Q']}"
        raise InputError(
            f"{str(path)!r} is too large: {every} take {need / 2**30:,.1f} GiB, more than "
            f"{LARGEST_INPUT / 2**30:g} GiB; choose a smaller N"
        )


def _check_beside(name: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise InputError where O, dO or L has not as many rows as Q, or other columns than V."""
    want = shapes["Q"][:-1] if name == "L" else (*shapes["Q"][:-1], shapes["V"][-1])
    if shapes[name] != want:
        each = "a number for each row of Q"
        if name != "L":
            each = "a row for each row of Q, as long as V's"
        raise InputError(
            f"{name} has shape {shapes[name]}, and with Q of {shapes['Q']} and V of {shapes['V']} "
            f"it has {want}: give {each}"
        )
