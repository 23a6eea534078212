"""Names in a kernel's text: what a program calls its things, unless a kernel has that name already.

A program may call a buffer ``to_16`` or a tensor ``words``.  Who comes first keeps its name: the
kernel's own, then tensors, then tiles, then buffers; a later one gets ``_`` at its end.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Hashable, Iterable

from iosim.program.ops import OPS

# What the emitted text says itself: its arguments, its helpers, and its launch.
_OWN = {
    "tl", "triton", "LOG2E", "COUNT", "unmasked", "load_vector", "wait_for_all", "globaltimer",
    "words_ptr", "gate_ptr", "clock_ptr", "item", "wave", "sweep", "here",
}  # fmt: skip
_NUMBERED = re.compile(r"(to|single)_\d+")  # index vectors


class Names:
    """Hands out names, each to one thing."""

    def __init__(self) -> None:
        self._taken = _OWN | set(dir(builtins))
        for spec in OPS.values():  # intermediate values of templates
            self._taken |= set(re.findall(r"^(_\w+) = ", spec.triton or "", re.MULTILINE))
        self._given: dict[Hashable, str] = {}

    def of(self, key: Hashable, wanted: str, ends: Iterable[str] = ()) -> str:
        """The name of a thing: `wanted`, or the first free one with ``_`` at its end.

        Args:
            ends: the name with these added is taken as well: ``i`` and ``i_in``.
        """
        if key not in self._given:
            name = wanted
            while any(self._known(name + end) for end in ("", *ends)):
                name += "_"
            self._given[key] = name
            self._taken |= {name + end for end in ("", *ends)}
        return self._given[key]

    def _known(self, name: str) -> bool:
        return name in self._taken or _NUMBERED.fullmatch(name) is not None
