"""Targets, which are what kernels are emitted for: one file each, and one line each in `TARGETS`.

A `Target` (`_entry`) says how to emit a program, what a machine needs, and which counters and
thresholds reports use for it.  `iosim.gpu.emit`, ``iosim gpu emit``, jobs and reports choose one by
name; if the machine lacks something, `chosen` falls back to `PLAIN` and gives the reason.

Changing files here: the names ``triton`` and ``hopper`` are in records and stay.  The first entry
of `TARGETS` works for every schedule; the later ones are faster, and the last one that a machine
can run is chosen.  Reasons for a fallback are compared in ``tests/gpu/test_gpu_targets.py``.  A
target's text is in ``tests/golden/gpu``.  Speeds that documents claim hold for recorded runs only.

>>> list(TARGETS), PLAIN
(['triton', 'hopper'], 'triton')
>>> THRESHOLD  # of the fused kernel's speed, where a target asks for no more
0.5
"""

from __future__ import annotations

from iosim.base.errors import InputError, closest
from iosim.base.registry import registered
from iosim.gpu.targets._entry import THRESHOLD, Emission, Installation, Target

__all__ = [
    "PLAIN",
    "TARGETS",
    "THRESHOLD",
    "Emission",
    "Installation",
    "Target",
    "chosen",
    "target",
]

# The first is for every schedule and device; those after it are faster where they run.
TARGETS: dict[str, str] = {
    "triton": "iosim.gpu.targets.plain",
    "hopper": "iosim.gpu.targets.hopper",
}
PLAIN = next(iter(TARGETS))
AUTO = "auto"  # of a run: the last one that the machine has all for


def target(name: str) -> Target:
    """A registered target, or InputError with the closest name.

    >>> target("hopper").dtypes
    ('fp16', 'bf16')
    """
    return registered("target", name, TARGETS, "TARGET", Target)


def chosen(asked: str, machine: Installation) -> tuple[str, str]:
    """The target that runs on a machine, and why it is not the one that was requested, or "".

    Raises InputError for a name that is none.

    >>> chosen("hopper", Installation("NVIDIA H200", (9, 0), "3.6.0"))
    ('hopper', '')
    >>> chosen("hopper", Installation("NVIDIA A100", (8, 0), "3.6.0"))[0]
    'triton'
    >>> chosen("auto", Installation("NVIDIA H200", (9, 0), "3.6.0"))
    ('hopper', '')
    >>> chosen("auto", Installation())
    ('triton', '')
    """
    if asked == AUTO:
        return _best(machine), ""
    missing = target(asked).missing(machine)
    if not missing:
        return asked, ""
    return PLAIN, f"--target {asked}: {missing}; the plain target runs in its place"


def check_target(asked: str) -> str:
    """A target's name, or ``auto``; InputError for another."""
    if asked not in (AUTO, *TARGETS):
        raise InputError(f"unknown target {asked!r}: {closest(asked, (AUTO, *TARGETS))}")
    return asked


def _best(machine: Installation) -> str:
    """The last one that surely runs."""
    if machine.capability is None or not machine.triton:
        return PLAIN
    return next(x for x in reversed(TARGETS) if not target(x).missing(machine))
