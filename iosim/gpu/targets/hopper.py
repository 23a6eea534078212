"""Hopper's target: Gluon; one warp loads by bulk copies (TMA), and warpgroups compute."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from iosim.core.program.walk import Instance
from iosim.gpu.emitter.bulk import bulk_bytes
from iosim.gpu.emitter.hopper import HopperText
from iosim.gpu.emitter.kernels import Emitted, named_nests, title
from iosim.gpu.emitter.prelude import HOPPER, MMA
from iosim.gpu.emitter.warps import ROWS, Style
from iosim.gpu.errors import EmitError
from iosim.gpu.records.counters import BULK
from iosim.gpu.targets._entry import Emission, Maker, Target

if TYPE_CHECKING:
    from iosim.gpu.run.job import Job


def _emitted(instance: Instance, how: Emission) -> Emitted:
    if how.lockstep is not None or how.clock:
        raise EmitError("Hopper's target has no lockstep and no clock: emit it for the plain one")
    style = Style("waits-first" in how.styles, "persistent" in how.styles)
    bodies = named_nests(instance)
    texts = [HopperText(instance, name, body, how.stages, style) for name, body in bodies]
    columns = sorted({n for text in texts for n in text.columns})
    layouts = "\n".join(MMA.format(columns=n) for n in columns)
    head = HOPPER.format(**title(instance), layouts=layouts, first=f"MMA_{columns[0]}")
    source = "\n\n".join([head, *(text.text for text in texts)])
    return Emitted(instance, source, tuple(text.kernel for text in texts))


def _tried(make: Maker) -> Iterator[Job]:
    for B_r, B_c, stages in itertools.product((64, 128, 192), (64, 128), (2, 3)):
        job = make({"B_r": B_r, "B_c": B_c}, stages=stages)
        if job.emitted().kernels[0].stages == stages:  # shared memory holds them
            yield job


# The aims are 0.97 at d = 64, 1.0 at d = 128, and 0.9 under a causal mask (docs/gpu.md).
TARGET = Target(
    name="hopper",
    title="Gluon for Hopper: one warp loads by bulk copies, warpgroups compute",
    emit=_emitted,
    bytes=bulk_bytes,
    dtypes=("fp16", "bf16"),
    tried=_tried,
    major=9,  # the warpgroups' products are of compute capability 9.0 alone
    triton=(3, 6),
    boundaries=(BULK.name,),
    least_rows=ROWS,
    thresholds={
        ("dense", 64): 0.97,
        ("dense", 128): 1.0,
        ("causal", 64): 0.9,
        ("causal", 128): 0.9,
    },
    styled_cases=("dense",),  # under a mask items take different times, and styles are slower
    styles={
        "waits-first": "both products' tiles are waited for before either is issued",
        "persistent": "a program for each place on the chip, which takes item after item",
    },
    queued=True,
)
