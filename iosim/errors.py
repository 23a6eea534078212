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
    """Base of every error that a user can cause and mend."""


class InputError(IosimError):
    """A size, name, file or option that makes no sense."""


class ProgramError(IosimError):
    """A schedule that is malformed: a scope, an operand or an index is wrong."""


class CapacityError(IosimError):
    """More words would be resident than the fast memory holds."""


class ResidencyError(IosimError):
    """An operation touches a buffer that is not in fast memory."""


class LeakError(IosimError):
    """A buffer is still resident where its scope ends."""


def install(extra: str) -> str:
    """The command that installs an extra for the very Python that is running."""
    return pip(f"iosim[{extra}]")


def pip(what: str) -> str:
    """The command that installs a package for the very Python that is running."""
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(what)}"


def closest(name: str, known: Iterable[str]) -> str:
    """Return a clause that names the nearest known name, or all of them where none is near."""
    names = sorted(known)
    by_small = {known.lower(): known for known in names}
    near = difflib.get_close_matches(str(name).lower(), by_small, n=1, cutoff=0.5)
    return f"did you mean {by_small[near[0]]!r}?" if near else f"known: {', '.join(names)}"
