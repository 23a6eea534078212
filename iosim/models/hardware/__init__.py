"""Machines: what a core and the chip hold, and how fast memories, links and arithmetic are.

`machine` returns one by name, or from a user's TOML file (`machine_file`); ``--machine`` of
commands, `iosim.models.roofline`, the lab, the GPU's reports and `iosim.devices.timing` take it.  A
machine is a TOML file in ``built_in``; a new one is a file there and a name in `MACHINES`.  KiB
and MiB are binary, GB and TFLOP/s decimal.

Changing files here: each number has its own source, and `NO_SOURCE` says that none is known: never
fill one in by guess.  ``tests/models/test_hardware.py`` asks for a source of each, and compares
ridges with published ones.  After a change, run ``python -m iosim.lab.data.wall``; documents print
ridges and times, too.  Names and fields are in users' TOML files and stay.  Import no schedule
here.

>>> h100 = machine("h100")
>>> h100.sm_words("fp16"), round(h100.ridge_for("fp16"))
(116736, 295)

>>> sorted(MACHINES)[:3], NO_SOURCE
(['a100', 'a100-80gb', 'b200'], 'no source')
"""

from __future__ import annotations

import os
from pathlib import Path

from iosim.base.errors import InputError, closest
from iosim.models.hardware.machine_file import described
from iosim.models.hardware.record import NO_SOURCE, Hardware

__all__ = ["MACHINES", "NO_SOURCE", "Hardware", "described", "machine", "of_driver"]

_NAMES = (
    *("p100", "v100", "a100", "a100-80gb", "h100", "h200", "b200"),
    *("mi300x", "tpu-v5p", "epyc-9654"),
)
_FOLDER = Path(__file__).with_name("built_in")
MACHINES: dict[str, Hardware] = {name: described(_FOLDER / f"{name}.toml") for name in _NAMES}


def machine(text: str | os.PathLike[str]) -> Hardware:
    """A registered machine by its name, or one that a TOML file describes.

    Whatever ends in ``.toml``, or is a path with folders, is treated as a file.  Raises InputError
    for an unknown name, with the closest one, and as `described` does.

    >>> machine("a100-80gb").dram_bytes_per_s / 1e9
    2039.0
    """
    if not isinstance(text, (str, os.PathLike)):
        raise InputError(f"a machine is a name or a file, got {text!r}: give one, like 'h200'")
    name = str(text)
    if name in MACHINES:
        return MACHINES[name]
    if isinstance(text, Path) or name.endswith(".toml") or os.sep in name:
        return described(name)
    raise InputError(f"unknown machine {name!r}, and no FILE.toml: {closest(name, MACHINES)}")


def of_driver(device: str) -> Hardware | None:
    """The machine that a driver calls so, or None.

    >>> of_driver("NVIDIA A100-SXM4-80GB").name
    'a100-80gb'
    """
    return next((m for m in MACHINES.values() if device in m.drivers), None)
