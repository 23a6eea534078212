"""What a model keeps in DRAM: whether it fits.

Weights, the cache of keys and values, the optimizer's state and the gradients of weights are
counted; activations are not.

>>> from iosim.models.layers.workload import workload
>>> resident_bytes(workload("llama3-8b", "decode", batch=8, N=512))
{'weight': 16060522496, 'cache': 536870912}
>>> list(resident_bytes(workload("gpt2", "training", batch=8, N=512)))
['weight', 'state', 'gradient']
"""

from __future__ import annotations

from iosim.base.dtypes import word_bytes
from iosim.models.layers.graph import Graph
from iosim.models.layers.workload import Workload
from iosim.models.operators import Operand

KEPT = ("weight", "cache", "state", "gradient")


def resident_bytes(workload: Workload) -> dict[str, int]:
    """Bytes by role, of all layers; one device's."""
    found: dict[str, int] = {}
    seen: set[tuple[str, int]] = set()
    for part in workload.parts:
        for t in _stays(part.graph):
            # A step of the optimizer has the weights of its layer, and tied ones are one tensor.
            if (t.name, part.times) not in seen:
                seen.add((t.name, part.times))
                size = part.times * t.words * word_bytes(t.dtype or workload.dtype)
                found[t.role] = found.get(t.role, 0) + size
    return {role: found[role] for role in KEPT if role in found}


def _stays(graph: Graph) -> list[Operand]:
    """Tensors of a graph that are there before or after it."""
    inputs = {role: [t for t in graph.inputs if t.role == role] for role in KEPT}
    cache = inputs["cache"] or [t for t in graph.outputs if t.role == "cache"]
    # Gradients that come in are those of weights where there is a step of the optimizer.
    gradients = inputs["gradient"] if inputs["state"] else []
    return [*inputs["weight"], *cache, *inputs["state"], *gradients]
