"""The plain target: Triton, for any GPU that it compiles for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from iosim.core.program.index import dims
from iosim.core.program.ir import Load, nodes
from iosim.core.program.space import named_tiles
from iosim.core.program.walk import Instance
from iosim.gpu.emitter.kernels import Emitted, named_nests, title
from iosim.gpu.emitter.layout import sector_bytes
from iosim.gpu.emitter.nest import KernelText
from iosim.gpu.emitter.prelude import ENDS, GATE, HEADER, POSITIONS, TIMER, UNMASKED, WORD
from iosim.gpu.targets._entry import Emission, Maker, Target

if TYPE_CHECKING:
    from iosim.gpu.run.job import Job


def _emitted(instance: Instance, how: Emission) -> Emitted:
    bodies = named_nests(instance)
    found = [KernelText(instance, name, body, how.lockstep, how.clock) for name, body in bodies]
    head = HEADER.format(
        **title(instance),
        timer=TIMER if how.clock else "",
        counting=POSITIONS if named_tiles(instance.program) else UNMASKED,
    )
    loads = [n for _, body in bodies for n in nodes(body) if isinstance(n, Load)]
    word = any(not dims(n.index) for n in loads)
    kernels = [nest.text for nest in found]
    ends = any("sector_end(" in text for text in kernels)
    shared = [text for text, used in ((WORD, word), (ENDS, ends), (GATE, how.lockstep)) if used]
    parts = [head, *shared, *kernels]
    return Emitted(instance, "\n\n".join(parts), tuple(nest.kernel for nest in found))


def _tried(make: Maker) -> Iterator[Job]:
    for B_r, B_c in itertools.product((16, 32, 64, 128), (16, 32, 64, 128)):
        for warps, stages in itertools.product((4, 8), (2, 3, 4)):
            yield make({"B_r": B_r, "B_c": B_c}, warps=warps, stages=stages)


TARGET = Target(
    name="triton",
    title="Triton, for any GPU",
    emit=_emitted,
    bytes=sector_bytes,
    dtypes=("fp16", "bf16", "fp32"),
    tried=_tried,
    thresholds={("causal", 64): 0.8, ("causal", 128): 0.65},
)
