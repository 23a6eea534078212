"""One text, compiled with numba where it is installed, and plain Python otherwise.

A loop is written once, over functions that it names and does not know: `with_names` puts them in
its globals.  `compiled` does the same with every function that it calls, and compiles all; LLVM
then puts the small ones in place.  What was compiled is kept on disk, under a name that holds a
digest of all texts it came from, so that an edited policy is compiled again.  numba is loaded when
something is first compiled; ``NUMBA_DISABLE_JIT=1`` is as if it were not installed.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from iosim.base.errors import InputError, install

Function = Callable[..., Any]

OPTIONS = {"nogil": True}
# A loop that makes no array counts no references to those that it is given: numba would do so at
# every call of a policy's functions, which takes several times as long as the replay.
BARE = OPTIONS | {"_nrt": False}
# What only compiled loops call: put in place, and never called from Python.
INNER = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

# Accesses that plain Python replays in the time that numba takes to load, or to compile.
SHORT = 200_000


def available() -> bool:
    """Whether numba is installed, and not told by the environment to leave the text as it is."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return False
    return importlib.util.find_spec("numba") is not None


def worth(accesses: int) -> bool:
    """Whether this many accesses go faster compiled, the loading of numba included."""
    return accesses > SHORT and available()


def with_names(function: Function, **names: Any) -> FunctionType:
    """A function of the same text, in whose text some global names mean something else.

    >>> def twice(x): return other(other(x))
    >>> with_names(twice, other=lambda x: x + 1)(0)
    2
    """
    assert isinstance(function, FunctionType)
    made = FunctionType(function.__code__, function.__globals__ | names, function.__name__)
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    made.__module__, made.__doc__ = function.__module__, function.__doc__
    made.__qualname__ = function.__qualname__
    return made


def built(function: Function, *, arrays: bool = False) -> Function:
    """A function compiled where it can be, or as it is.

    Args:
        arrays: whether it makes arrays, or functions that it calls do.
    """
    return compiled(function, arrays=arrays) if available() else function


def interruptible(function: Function, *given: Any, **named: Any) -> Any:
    """What a function returns, computed in a thread that an interrupt ends at once.

    A compiled loop doesn't look for interrupts, and one over a whole trace may take minutes.

    >>> interruptible(max, 3, 4)
    4
    """
    done: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(function(*given, **named))
        except BaseException as error:  # raised again below
            failed.append(error)

    beside = threading.Thread(target=run, daemon=True)
    beside.start()
    while beside.is_alive():
        beside.join(0.1)
    if failed:
        raise failed[0]
    return done[0]


@functools.cache
def compiled(function: Function, *, arrays: bool = False, **names: Any) -> Function:
    """A function compiled by numba, with all functions that it calls.

    Args:
        function: of a module; its text is in what numba knows.
        arrays: as `built` has it.
        names: functions and constants to put in place of its global names.

    Raises InputError where numba is not installed.
    """
    if not available():
        raise InputError(f"compiled loops need numba: {install('cache')}, or leave out fast")
    import numba

    made = with_names(function, **names)
    made.__qualname__ += f"_{_digest(made)}"
    for name, inner in _list_callees(made):
        made.__globals__[name] = _inner(inner, arrays)
    options = OPTIONS if arrays else BARE
    done: Function
    try:
        done = numba.njit(cache=True, **options)(made)
    except RuntimeError:  # nowhere to keep it
        done = numba.njit(**options)(made)
    return done


def popcount(word: Any) -> Any:
    """How many bits of an unsigned word are 1; one instruction when compiled."""
    return word.bit_count()


@functools.cache
def _inner(function: FunctionType, arrays: bool) -> Function:
    import numba

    if function is popcount:
        return _popcount()
    made = with_names(function)
    for name, inner in _list_callees(made):
        made.__globals__[name] = _inner(inner, arrays)
    options = INNER | (OPTIONS if arrays else BARE)
    done: Function = numba.njit(**options)(made)
    return done


def _popcount() -> Function:
    from numba import types
    from numba.extending import intrinsic

    def typed(typing_context: Any, word: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.ctpop(arguments[0])

        return types.int64(types.uint64), code

    found: Function = intrinsic(typed)
    return found


def _list_callees(function: FunctionType) -> list[tuple[str, FunctionType]]:
    """The functions among the globals that a function's text names."""
    found = ((name, function.__globals__.get(name)) for name in function.__code__.co_names)
    return [(name, x) for name, x in found if isinstance(x, FunctionType)]


def _digest(function: FunctionType) -> str:
    """A digest of a function's text, of the constants that it names, and of all it calls.

    Code depends on the order of fields, too: those of the named tuples that its module knows, which
    numba keeps by their names.
    """
    code = function.__code__
    named = {x: function.__globals__.get(x) for x in code.co_names}
    constants = {name: x for name, x in named.items() if isinstance(x, int | float)}
    inner = [_digest(f) for _, f in _list_callees(function)]
    known = function.__globals__.values()
    tuples = [x for x in known if isinstance(x, type) and hasattr(x, "_fields")]
    fields = [(str(x), x._fields) for x in tuples]
    whole = repr(
        (code.co_code, code.co_consts, code.co_names, constants, fields, inner, OPTIONS, BARE)
    )
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Backend:
    """Compiled loops over arrays, or plain ones over lists.

    Attributes:
        build: makes a loop of its text, and of functions and constants for names in it.
        number: makes a whole number one of 64 bits without a sign, which compiled loops are
            fastest with as places: numba checks no signs then.
        arrays: makes of arrays, also in tuples and named ones, what loops are fastest on.
    """

    build: Callable[..., Function]
    number: Callable[[int], Any]
    arrays: Callable[[Any], Any]

    def numbers(self, *given: int) -> tuple[Any, ...]:
        """Several of `number`."""
        return tuple(self.number(x) for x in given)


def _as_lists(arrays: Any) -> Any:
    return arrays.tolist() if isinstance(arrays, np.ndarray) else _each(_as_lists, arrays)


def _as_arrays(arrays: Any) -> Any:
    if isinstance(arrays, np.ndarray):
        # One kind of array, so that nothing is compiled twice.
        return np.require(arrays, requirements=["C", "W"])
    return _each(_as_arrays, arrays)


def _each(convert: Function, arrays: Any) -> Any:
    """A tuple of what each array becomes, with the names of its fields if it has any."""
    found = [convert(x) for x in arrays]
    return type(arrays)(*found) if hasattr(arrays, "_fields") else tuple(found)


COMPILED = Backend(compiled, np.uint64, _as_arrays)
PLAIN = Backend(with_names, int, _as_lists)
