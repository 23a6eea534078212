"""The schedules: one file each, and one line each in `ALGORITHMS`.

`algorithm` returns a registered `Algorithm` by name; ``iosim count NAME``, reports, sweeps, the lab
and the GPU emitter get their programs from it.  Files whose names begin with ``_`` have parts that
schedules share; `own_file` loads a user's ``FILE.py:FUNCTION``.  An entry of `ALGORITHMS` is an
import string, so that listing names imports nothing.  To add a schedule, start from `copy`
(docs/extending.md).

Changing files here: another loop means other counts, hence another oracle in ``tests/oracle.py``,
``masked_oracle.py`` or ``backward_oracle.py``, other golden listings and kernels in
``tests/golden``, and a higher `iosim.base.revision.REVISION`.
Names and aliases are in recorded data and stay.  `classes`, `attains` and `exponent` are claims
that tests check.  Schedules only use the builder: they import nothing of counting, machine or
tiling.

>>> "flash2" in ALGORITHMS, len(ALGORITHMS) == len(all_algorithms())
(True, True)
"""

from __future__ import annotations

from iosim.base.registry import canonical, registered
from iosim.core.algorithms._entry import Algorithm
from iosim.core.algorithms.own_file import load_schedule, names_file
from iosim.core.problem import Form

__all__ = ["ALGORITHMS", "Algorithm", "algorithm", "all_algorithms", "named"]

ALGORITHMS: dict[str, str] = {
    name: f"{__name__}.{name}"
    for name in (
        "naive",
        "flash1",
        "flash2",
        "small_cache",
        "flash2_chunked",
        "flash2_keep",
        "spill_rows",
        "flash2_log",
        "flash2_parts",
        "small_tiles",
        "grouped_rows",
        "decode",
        "split_kv",
        "paged",
        "block_sparse",
        "naive_backward",
        "flash1_backward",
        "flash2_backward",
        "two_kernels",
        "spill_gradient",
        "spill_weights",
        "small_backward",
        "matmul",
        "copy",
    )
}

# Other names in use, in lower case without hyphens and underscores.  FlashAttention without a
# number is FlashAttention-2, which libraries run today.
ALIASES: dict[str, str] = {
    alias: name
    for name, aliases in (
        ("naive", "standard standardattention unfused vanilla"),
        ("flash2", "flash flashattention fa flashattention2 fa2 flashattentionv2"),
        ("flash1", "flashattention1 fa1 flashattentionv1"),
        ("flash2_backward", "flashbackward flashattentionbackward fa2backward"),
        ("naive_backward", "standardbackward"),
        ("split_kv", "flashdecoding splitk"),
        ("paged", "pagedattention"),
        ("block_sparse", "blocksparseattention"),
        ("matmul", "gemm matrixproduct"),
    )
    for alias in aliases.split()
}


def named(name: str) -> str:
    """The registered name of an algorithm that has others; an unknown name is returned unchanged.

    >>> named("FlashAttention"), named("flash-2"), named("flash3")
    ('flash2', 'flash2', 'flash3')
    """
    return canonical(name, ALGORITHMS, ALIASES)


def algorithm(name: str) -> Algorithm:
    """Return a registered algorithm, also by another name in use (`ALIASES`).

    Raises InputError, with the closest name, for a name that is none.

    Args:
        name: of the registry, or ``FILE.py:FUNCTION`` for a user's schedule.

    >>> algorithm("flash2").title
    'FlashAttention-2: Q and O stationary, K and V streamed'
    >>> algorithm("standard").name
    'naive'
    >>> algorithm("flash3")
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: unknown algorithm 'flash3': did you mean 'flash2'?
    """
    if names_file(name):
        return load_schedule(name)
    return registered("algorithm", named(name), ALGORITHMS, "ALGORITHM", Algorithm)


def all_algorithms(problem: str | Form | None = None) -> tuple[Algorithm, ...]:
    """Return all algorithms, or those for one kind of problem, or for all problems of one form.

    >>> [a.name for a in all_algorithms("matmul")]
    ['matmul']
    """
    found = (algorithm(name) for name in ALGORITHMS)
    if isinstance(problem, Form):
        return tuple(a for a in found if a.supports(problem))
    return tuple(a for a in found if problem in (None, a.problem.kind))
