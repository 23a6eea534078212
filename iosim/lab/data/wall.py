"""Data of the lab's view "The wall": operators of layers on each machine's roofline.

The view also shows each layer's graph, in which a reader fuses operators by clicking.  `data` is
what the page gets: `iosim.lab.data.DATA` names it, and the page and the widget call it.

`build_data` computes FLOP and bytes of every legal kernel of every layer, for every machine's
memory, in about ten seconds.  The page divides them by the machine's speeds; the least time is the
largest quotient, as in `iosim.models.roofline.roof`.  The result is stored in ``wall.json.gz`` next
to this file.

Changing this file: `MODELS` and `BATCHES` may change, within the size that
``tests/lab/test_lab_wall.py`` allows.  Keys and nesting of the JSON are typed in
``iosim/lab/front/src/views/wall/data.ts``: change both files together.  Numbers come from
`iosim.models`; add no formula here.  After any change here, or of layers, machines or fusion, run
``python -m iosim.lab.data.wall``; a test fails until then.
"""

from __future__ import annotations

import sys
from pathlib import Path

from iosim.lab.columns import Json
from iosim.lab.data import committed
from iosim.lab.data.fusing import SEARCHED, costs, structure
from iosim.models.fusion import FUSIONS
from iosim.models.hardware import MACHINES, Hardware
from iosim.models.hardware.record import format_number
from iosim.models.layers.architectures import layer
from iosim.models.layers.models import config
from iosim.models.roofline.roof import LAUNCH, LIMITS, MATRIX, VECTOR, Roof
from iosim.models.roofline.work import BOUNDARIES, L2_DRAM, SM_L2

MADE = Path(__file__).with_suffix(".json.gz")
# Model → how it is called, tokens of context, and its phases.
MODELS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "bert-large": ("BERT-large", 512, ("training", "prefill")),
    "gpt2": ("GPT-2", 1024, ("training", "prefill", "decode")),
    "llama3-8b": ("Llama 3 8B", 2048, ("training", "prefill", "decode")),
    "mixtral-8x7b": (
        "Mixtral 8×7B, a mixture: 2 of 8 experts read, the least",
        2048,
        ("training", "prefill", "decode"),
    ),
}
# Sequences at once, by phase.
BATCHES = {"training": (1, 8, 32), "prefill": (1, 8, 32), "decode": (1, 8, 64, 512)}
# Words are as long in both; a machine's peak is that of the first that it has.
SIXTEEN = ("fp16", "bf16")
# What a limit is the seconds of; a launch takes as long for every kernel.
_OF = {MATRIX: "products", VECTOR: "others", L2_DRAM: L2_DRAM, SM_L2: SM_L2}


def data() -> Json:
    """What the page gets: the content of ``wall.json.gz``, which `build_data` made."""
    return committed.read(MADE)


def build_data() -> Json:
    """Compute the view's data from `MODELS`, `BATCHES` and the registered machines; takes 10 s.

    Returns:
        A value for JSON.  ``graphs`` has an entry for each model and phase, ``layers`` one for each
        graph and batch (see `iosim.lab.data.fusing`).  ``memories`` lists, by boundary, the sizes
        of fast memory in words, ascending; ``memory`` of a machine is the index of its own size
        there, at SM↔L2 only if a source gives the bandwidth.
    """
    chips = sorted({m.chip_words(_dtype(m)) for m in MACHINES.values()})
    cores = sorted({m.sm_words(_dtype(m)) for m in MACHINES.values() if m.l2_bytes_per_s})
    memories = {L2_DRAM: chips, SM_L2: cores}
    graphs: list[Json] = []
    layers: list[Json] = []
    for model, (_, N, phases) in MODELS.items():
        for phase in phases:
            first = layer(model, phase, batch=1, N=N)
            graph = structure(first, chips[-1])
            for batch in BATCHES[phase]:
                one = layer(model, phase, batch=batch, N=N)
                layers.append(
                    {"graph": len(graphs), "batch": batch}
                    | costs(one, graph["legal"], chips, cores)
                )
            graphs.append({"model": model, "phase": phase, **graph})
    return {
        "boundaries": list(BOUNDARIES),
        "memories": memories,
        "machines": [machine_data(m, memories) for m in MACHINES.values()],
        "models": [
            {
                "name": model,
                "title": title,
                "N": N,
                "layers": config(model).layers,
                "source": config(model).source,
            }
            for model, (title, N, _) in MODELS.items()
        ],
        "fusions": {one.name: one.says for one in FUSIONS.values()}
        | {SEARCHED: f"{FUSIONS[SEARCHED].says}, without an online softmax"},
        "graphs": graphs,
        "layers": layers,
    }


def machine_data(machine: Hardware, memories: dict[str, list[int]]) -> Json:
    """What the page shows of one machine: limits, the ridge at L2↔DRAM, numbers with sources.

    A limit takes ``s`` seconds, or the kernel's amount ``of`` something divided by ``per_s``.

    Args:
        machine: a registered machine.
        memories: as in `build_data`; the machine's own sizes must be among them.

    >>> from iosim.models.hardware import machine
    >>> found = machine_data(machine("p100"), {"L2↔DRAM": [2097152], "SM↔L2": []})
    >>> [x["name"] for x in found["limits"]], f"{found['ridge']:.1f}", found["dtype"]
    (['matrix units', 'vector units', 'L2↔DRAM', 'launch'], '29.0', 'fp16')
    """
    roof, dtype = Roof.of(machine), _dtype(machine)
    speeds = {
        MATRIX: machine.peak(dtype),
        VECTOR: roof.vector_peak,
        **{at: boundary.bytes_per_s(machine) for at, boundary in BOUNDARIES.items()},
    }
    return {
        "name": machine.name,
        "title": machine.title,
        "year": machine.year,
        "core": machine.core,
        "cache": machine.cache,
        "dtype": dtype,
        "ridge": machine.ridge_for(dtype),
        "memory": {
            at: memories[at].index(BOUNDARIES[at].M(machine, dtype))
            for at in BOUNDARIES
            if speeds[at] is not None
        },
        "limits": [
            *(
                {"name": name, "bound": LIMITS[name], "of": _OF[name], "per_s": speed}
                for name, speed in speeds.items()
                if speed is not None
            ),
            {"name": LAUNCH, "bound": LIMITS[LAUNCH], "s": roof.launch_s},
        ],
        "numbers": [
            {"name": name, "said": format_number(value, unit), "source": source}
            for name, value, unit, source in machine.numbers()
        ],
        "unknown": roof.unknown(),
    }


def _dtype(machine: Hardware) -> str:
    """The first type of `SIXTEEN` for which the machine has a peak."""
    return next(x for x in SIXTEEN if x in machine.peaks)


if __name__ == "__main__":
    print(f"{MADE.name}: {committed.write(MADE, build_data()):,} bytes", file=sys.stderr)
