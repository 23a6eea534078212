"""The errors that iosim raises on purpose.

Each one is a single line that states both values and the next step, so that the command line can
print it as it is and exit with code 2.  Anything else that escapes is a bug.
"""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Iterable


class IosimError(Exception):
    """Base of every error that a user can cause and fix.

    >>> from iosim import algorithm
    >>> try:
    ...     algorithm("flash3")
    ... except IosimError as error:
    ...     print(error)
    unknown algorithm 'flash3': did you mean 'flash2'?
    """


class InputError(IosimError):
    """A size, name, file or option that makes no sense.

    >>> from iosim import Attention
    >>> Attention(N=0, d=64)
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: N = 0 is outside 1..1099511627776 (2**40): choose a size inside
    """


class ProgramError(IosimError):
    """A schedule that is malformed: a scope, an operand or an index is wrong.

    >>> import iosim
    >>> def twice(b):
    ...     (B,) = b.tile_sizes("n", "B")
    ...     for i in b.grid("n", B):
    ...         x = b.load("X", i)
    ...         b.free(x)
    ...         b.free(x)
    >>> iosim.build("twice", iosim.Copy, twice)
    Traceback (most recent call last):
        ...
    iosim.base.errors.ProgramError: x is used after it was freed: load it again
    """


class CapacityError(IosimError):
    """More words would be resident than the fast memory holds.

    >>> import iosim
    >>> flash2 = iosim.algorithm("flash2").program
    >>> iosim.optimal_tiles(flash2, iosim.Attention(1024, 64), M=100)
    Traceback (most recent call last):
        ...
    iosim.base.errors.CapacityError: flash2 needs at least 195 words and M is 100: use M >= 195
    """


class ResidencyError(IosimError):
    """An operation touches a buffer that is not in fast memory.

    >>> import iosim
    >>> from dataclasses import replace
    >>> copy = iosim.algorithm("copy").program
    >>> (loop,) = copy.body
    >>> load, store, free = loop.body
    >>> late = replace(copy, body=(replace(loop, body=(load, free, store)),))
    >>> instance = iosim.bind(late, {"n": 10}, {"B": 4})
    >>> iosim.simulate(instance, iosim.Machine(9), iosim.Copy(10).random())
    Traceback (most recent call last):
        ...
    iosim.base.errors.ResidencyError: store of x, which is not resident: load it first
    """


class LeakError(IosimError):
    """A buffer is still resident where its scope ends.

    >>> import iosim
    >>> from dataclasses import replace
    >>> copy = iosim.algorithm("copy").program
    >>> (loop,) = copy.body
    >>> leaky = replace(copy, body=(replace(loop, body=loop.body[:2]),))
    >>> instance = iosim.bind(leaky, {"n": 10}, {"B": 4})
    >>> iosim.simulate(instance, iosim.Machine(9), iosim.Copy(10).random())
    Traceback (most recent call last):
        ...
    iosim.base.errors.LeakError: x (4 words) still resident at the end of loop i: free them
    """


def install(extra: str) -> str:
    """The command that installs an extra for the very Python that is running."""
    return pip(f"iosim[{extra}]")


def pip(what: str) -> str:
    """The command that installs a package for the very Python that is running."""
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(what)}"


def closest(name: str, known: Iterable[str]) -> str:
    """Return a clause that names the nearest known name, or all of them if none is similar."""
    names = sorted(known)
    by_small = {known.lower(): known for known in names}
    near = difflib.get_close_matches(str(name).lower(), by_small, n=1, cutoff=0.5)
    return f"did you mean {by_small[near[0]]!r}?" if near else f"known: {', '.join(names)}"
