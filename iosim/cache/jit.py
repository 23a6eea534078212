"""Compiled where numba is installed, and the same text in plain Python where it is not.

Modules with inner loops import `jit` and are themselves imported when they are first used: numba
is heavy, and optional.  ``NUMBA_DISABLE_JIT=1`` runs the text itself, as numba knows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

try:
    import numba
    from numba import types
    from numba.extending import intrinsic

    COMPILED = not numba.config.DISABLE_JIT
except ModuleNotFoundError:
    COMPILED = False

if COMPILED:

    def jit(function: F) -> F:
        """The function, compiled when it is first called; kept on disk from then on."""
        compiled: F = numba.njit(cache=True, nogil=True)(function)
        return compiled

    @intrinsic  # type: ignore[untyped-decorator]
    def popcount(typing_context: Any, word: Any) -> Any:
        """How many bits of an unsigned word are 1."""

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.ctpop(arguments[0])

        return types.int64(types.uint64), code

else:

    def jit(function: F) -> F:
        """The function as it is."""
        return function

    def popcount(word: Any) -> Any:
        """How many bits of an unsigned word are 1."""
        return int(word).bit_count()
