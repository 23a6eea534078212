"""What is run: layers of published models, at sizes, in variants.

`tasks`, `record` and the report `iosim.gpu.reports.layers` read it.  A new case is a line in
`CASES`; names of cases and variants are in records and stay.  ``tests/gpu/test_gpu_layers.py``
reads the records.

>>> case = LayerCase("bert-large", "training", 8, 512)
>>> case.graph(VARIANTS["fused"]).operators[0].name, case.name
('query', 'bert-large training')
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from iosim.base.errors import InputError, closest
from iosim.models.layers.architectures import check_request, layer
from iosim.models.layers.blocks import Ask
from iosim.models.layers.graph import Graph


@dataclass(frozen=True)
class Variant:
    """A way to run a layer in PyTorch.

    Attributes:
        name: the registry's key.
        says: what it is.
        compiled: whether `torch.compile` has it.
        attention: ``unfused`` writes attention out; ``fused`` is scaled_dot_product_attention.
    """

    name: str
    says: str
    compiled: bool
    attention: str


VARIANTS: dict[str, Variant] = {
    v.name: v
    for v in (
        Variant("eager", "an operator of PyTorch after another", False, "unfused"),
        Variant("compiled", "torch.compile, attention written out", True, "unfused"),
        Variant("fused", "eager, with scaled_dot_product_attention", False, "fused"),
        Variant(
            "compiled_fused", "torch.compile, with scaled_dot_product_attention", True, "fused"
        ),
    )
}


@dataclass(frozen=True)
class LayerCase:
    """One layer at one size.

    Attributes:
        model: a published configuration.
        phase: ``training`` is forward and backward, ``prefill`` forward, ``decode`` one new token
            of each sequence.
        batch: sequences.
        N: tokens of context.
        dtype: of a word.
    """

    model: str
    phase: str
    batch: int
    N: int
    dtype: str = "fp16"

    @property
    def name(self) -> str:
        """Model and phase."""
        return f"{self.model} {self.phase}"

    def ask(self, variant: Variant) -> Ask:
        """What to ask of `iosim.models.layers`; InputError for what it does not have."""
        return check_request(
            self.model,
            self.phase,
            self.batch,
            self.N,
            attention=variant.attention,
            dtype=self.dtype,
        )

    def graph(self, variant: Variant) -> Graph:
        """The layer's operators; InputError as `ask`."""
        return _graph(self, variant.attention)


@lru_cache(maxsize=64)
def _graph(case: LayerCase, attention: str) -> Graph:
    return layer(
        case.model, case.phase, batch=case.batch, N=case.N, attention=attention, dtype=case.dtype
    )


# In the order in which they are run, the most wanted first.  BERT's sizes are those of Ivanov et
# al. (arXiv 2007.00072).  Of one token's number and of weights no two have the same words, where it
# could be chosen: that tells gradients of activations from those of weights.
CASES: tuple[LayerCase, ...] = (
    LayerCase("bert-large", "training", 8, 512),
    LayerCase("llama3-8b", "decode", 64, 4096),
    LayerCase("llama3-8b", "prefill", 1, 4096),
    LayerCase("gpt2-medium", "training", 8, 1024),
    LayerCase("llama3-8b", "training", 4, 2048),
    LayerCase("gpt2-medium", "decode", 64, 1024),
    LayerCase("bert-large", "prefill", 8, 512),
    LayerCase("gpt2-medium", "prefill", 8, 1024),
)
MODELS = tuple(dict.fromkeys(case.model for case in CASES))
PHASES = tuple(dict.fromkeys(case.phase for case in CASES))
# To see that everything works.
QUICK: tuple[LayerCase, ...] = (
    LayerCase("bert-large", "training", 1, 128),
    LayerCase("gpt2-medium", "prefill", 1, 128),
    LayerCase("llama3-8b", "decode", 2, 256),
)


def chosen(models: tuple[str, ...], phases: tuple[str, ...], quick: bool) -> tuple[LayerCase, ...]:
    """The cases of some models in some phases, in order."""
    known = QUICK if quick else CASES
    return tuple(case for case in known if case.model in models and case.phase in phases)


def models(text: str) -> tuple[str, ...]:
    """Reads names of `MODELS`, or all; raises InputError for an unknown one."""
    return _named(text, MODELS, "model")


def phases(text: str) -> tuple[str, ...]:
    """Reads names of `PHASES`, or all; raises InputError for an unknown one."""
    return _named(text, PHASES, "phase")


def variants(text: str) -> tuple[str, ...]:
    """Reads names of `VARIANTS`, or all; raises InputError for an unknown one."""
    return _named(text, tuple(VARIANTS), "variant")


def _named(text: str, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    found = known if text == "all" else tuple(x.strip() for x in text.split(","))
    for name in found:
        if name not in known:
            raise InputError(f"unknown {what} {name!r} of this report: {closest(name, known)}")
    return found
