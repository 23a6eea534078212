"""Words by link, words and FLOP by device, and the most words that a memory holds: exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.devices.program import Compute, Drop, Make, Send
from iosim.devices.walk import OnDevices


@dataclass(frozen=True)
class LinkCounts:
    """What a schedule moves between devices.

    Attributes:
        links: words by directed link (from, to), those without words left out.
        sent, received: words by device.
        flop: FLOP of matrix products by device.
        peak: the most words that each device holds at once: inputs, outputs, what is in between,
            and what arrives before it takes the place of what was passed on.
        owed: words by device that arrive as they are, or leave to be added to others: each word on
            a link is counted once, at one of its ends.

    >>> from iosim.devices import count_links, on_devices
    >>> from iosim import Attention
    >>> counts = count_links(on_devices("ring-attention", Attention(10, 2), P=4))
    >>> counts.total, counts.links[3, 0]
    (120, 28)
    """

    links: Mapping[tuple[int, int], int]
    sent: tuple[int, ...]
    received: tuple[int, ...]
    flop: tuple[int, ...]
    peak: tuple[int, ...]
    owed: tuple[int, ...]

    @property
    def total(self) -> int:
        """Words over all links, each counted once."""
        return sum(self.sent)

    @property
    def idle(self) -> tuple[int, ...]:
        """Devices that do nothing: no product, or, where no device has one, no transfer.

        >>> from iosim import Attention
        >>> from iosim.devices import count_links, on_devices
        >>> count_links(on_devices("ring-attention", Attention(2, 4), P=4)).idle
        (2, 3)
        """
        moved = [x + y for x, y in zip(self.sent, self.received, strict=True)]
        work = self.flop if any(self.flop) else moved
        return tuple(p for p, x in enumerate(work) if not x) if any(work) else ()

    @property
    def most(self) -> int:
        """Words that the busiest device sends or receives, whichever are more."""
        return max(map(max, zip(self.sent, self.received, strict=True)))


def count_links(instance: OnDevices) -> LinkCounts:
    """Count all that crosses a link.

    >>> from iosim.devices import on_devices
    >>> from iosim.devices.problems import Gather
    >>> count_links(on_devices("all-gather", Gather(12), P=4)).total
    36
    """
    P = instance.P
    # By how far the receiver is from the sender: words by sender.
    ways: dict[int, Any] = {}
    me = np.arange(P)
    sent, received, owed, flop = (np.full(P, 0, object) for _ in range(4))
    held = sum(
        (instance.words(x, 0) for x in instance.schedule.program.inputs), np.full(P, 0, object)
    )
    peak = held.copy()
    for step in instance.steps():
        leaving = np.full(P, 0, object)
        for node in step.nodes:
            match node:
                case Make():
                    held = held + instance.words(node.slab, step.t)
                case Drop():
                    held = held - instance.words(node.slab, step.t)
                case Compute():
                    flop = flop + instance.flop(node, step.t)
                case Send():
                    words, to = (
                        instance.words(node.source, step.t),
                        instance.targets(node.to, step.t),
                    )
                    words = np.where(to != me, words, 0)
                    got = np.full(P, 0, object)
                    np.add.at(got, to, words)
                    sent = sent + words
                    if node.add:
                        owed = owed + words
                    for by in {int(x) for x in (to - me) % P} - {0}:
                        ways[by] = ways.get(by, 0) + np.where((to - me) % P == by, words, 0)
                    received = received + got
                    if not node.add:
                        owed = owed + got
                    if node.passed:
                        # what arrives lies next to what is sent until the step ends
                        held, leaving = held + got, leaving + words
        peak, held = np.maximum(peak, held), held - leaving
    links = {
        (p, (p + by) % P): int(words)
        for by, each in ways.items()
        for p, words in enumerate(each)
        if words
    }
    return LinkCounts(
        dict(sorted(links.items())),
        _to_ints(sent),
        _to_ints(received),
        _to_ints(flop),
        _to_ints(peak),
        _to_ints(owed),
    )


def _to_ints(values: Any) -> tuple[int, ...]:
    return tuple(int(x) for x in values)
