"""Lower bounds on the words that cross between devices: one file for each argument.

`iosim.devices.report` shows the bounds of a problem next to a schedule's words.  A bound sees a
problem, P, M and where tensors are (`Setting`), and never a schedule.  A new bound is an entry in
the file of its argument, or a new file, and one line in `LINK_BOUNDS`.

Changing files here: too large a bound is **false**.  Its argument is in the file's docstring, and
must hold for any schedule that begins and ends with the tensors where `Setting` says.  An import
contract refuses schedules, programs and their counts.  ``tests/devices/test_devices.py`` compares
each bound with each schedule.

>>> [one.name for one in LINK_BOUNDS.values()][:2]
['sharded-rows', 'sharded-rows-backward']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iosim.devices.bounds._entry import LinkBound, Setting
from iosim.devices.bounds.attention import BACKWARD, FORWARD
from iosim.devices.bounds.products import DEPENDENT, INDEPENDENT
from iosim.devices.bounds.sums import GATHER, SUM

__all__ = ["LINK_BOUNDS", "BoundWords", "LinkBound", "Setting", "link_bounds"]

LINK_BOUNDS: dict[str, LinkBound] = {
    one.name: one for one in (FORWARD, BACKWARD, INDEPENDENT, DEPENDENT, SUM, GATHER)
}


@dataclass(frozen=True)
class BoundWords:
    """A bound in a setting: its words, or why it says nothing there.

    >>> from iosim.devices.problems import Gather
    >>> setting = Setting(Gather(10), 4, 100, {"X": "n", "Y": ""})
    >>> [(x.bound.name, int(x.words), x.outside) for x in link_bounds(setting)]
    [('gathered', 30, None)]
    """

    bound: LinkBound
    words: Any
    outside: str | None = None


def link_bounds(setting: Setting) -> list[BoundWords]:
    """All bounds on problems of the setting's kind.

    >>> from iosim.devices.problems import Gather
    >>> [int(x.words) for x in link_bounds(Setting(Gather(10), 4, 100, {"X": "n", "Y": ""}))]
    [30]
    """
    found = []
    for bound in LINK_BOUNDS.values():
        if setting.problem.kind in bound.kinds:
            why = bound.outside(setting)
            found.append(BoundWords(bound, 0 if why else bound.words(setting), why))
    return found
