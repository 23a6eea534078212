"""Models by their published configurations, as data, each with its source.

The option ``--model`` reads names and files here (`config`, `attention_of`); `architectures`,
`blocks`, `workload` and the lab's wall take a `Config`.  A published model is a table in
``published.toml`` and its attention a line of `iosim.core.problem.MODELS`; a family is also a name
in `FAMILIES`.

Changing this file: ``tests/models/test_layers.py`` compares each model's parameters with published
totals, and `CONFIGS` with `MODELS`, and `FAMILIES` with the families that have layers;
``tests/models/test_own_models.py`` compares with files of Hugging Face.  Every number has a source.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from iosim.base.errors import InputError, closest
from iosim.base.reading import read_toml
from iosim.base.rows import Values
from iosim.base.validate import check_size, whole_number
from iosim.core.problem import MODELS, Attention

FAMILIES = ("bert", "gpt2", "llama", "mixture")


def positive(what: str, size: object) -> int:
    """Return `size` as an int, or raise InputError unless it is an integer in [1, 2**40].

    >>> positive("batch", 8)
    8
    """
    number = whole_number(size)
    if number is None or number < 1:
        raise InputError(f"{what} = {size!r}: give an integer ≥ 1")
    return check_size(what, number)


@dataclass(frozen=True, kw_only=True)
class Config:
    """The sizes of a transformer.

    Attributes:
        name: what it is called.
        family: how its layers are built: one of `FAMILIES`.
        layers: how many of them.
        hidden: words of a token between layers.
        heads: of queries.
        feed_forward: words of a token inside the feed-forward network, or inside one expert.
        vocabulary: tokens that there are.
        positions: the longest context that it was trained for; no more can be embedded where the
            model has a table of positions, as bert and gpt2 do.
        kv_heads: heads of keys and values; by default as many as of queries.
        head_size: words of a head; by default hidden / heads.
        activation: of bert's layers: ``relu`` or ``gelu``.
        dropout: of bert and gpt2: the probability that a word is dropped in training.
        experts, active: of a mixture: how many there are, and how many a token goes to.
        source: where the numbers are published.
        assumed: sizes that a file leaves out, with their values, as people read them; no number
            of the model, and only models of files have any.

    Raises InputError for an unknown family, sizes that are not positive integers, and heads that
    don't divide.

    >>> Config(name="tiny", family="gpt2", layers=2, hidden=8, heads=2, feed_forward=32,
    ...     vocabulary=50, positions=16).head_size
    4
    """

    name: str
    family: str
    layers: int
    hidden: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    kv_heads: int = 0
    head_size: int = 0
    activation: str = "gelu"
    dropout: float = 0.0
    experts: int = 1
    active: int = 1
    source: str = "given by numbers"
    assumed: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            near = closest(self.family, FAMILIES)
            raise InputError(f"{self.name}: unknown family {self.family!r}: {near}")
        if not self.kv_heads:
            object.__setattr__(self, "kv_heads", self.heads)
        self._positive("heads", "hidden")
        if not self.head_size:
            if self.hidden % self.heads:
                raise InputError(
                    f"{self.name}: {self.heads} heads don't divide hidden = "
                    f"{self.hidden}: give head_size"
                )
            object.__setattr__(self, "head_size", self.hidden // self.heads)
        self._positive(
            "layers",
            "feed_forward",
            "vocabulary",
            "positions",
            "kv_heads",
            "head_size",
            "experts",
            "active",
        )
        if self.heads % self.kv_heads:
            raise InputError(
                f"{self.name}: kv_heads = {self.kv_heads} does not divide heads = "
                f"{self.heads}: give a divisor"
            )
        if self.active > self.experts:
            raise InputError(
                f"{self.name}: a token goes to {self.active} of {self.experts} "
                "experts: give active ≤ experts"
            )
        if self.activation not in ("relu", "gelu"):
            near = closest(self.activation, ("relu", "gelu"))
            raise InputError(f"{self.name}: unknown activation {self.activation!r}: {near}")
        if not 0 <= self.dropout < 1:
            raise InputError(f"{self.name}: dropout = {self.dropout} is not a probability below 1")
        if self.dropout and self.family not in ("bert", "gpt2"):
            raise InputError(f"{self.name}: {self.family} has no dropout: leave it out")

    def _positive(self, *names: str) -> None:
        for name in names:
            size = positive(f"{self.name}: {name}", getattr(self, name))
            object.__setattr__(self, name, size)

    @property
    def group(self) -> int:
        """Heads of queries that share one of keys and values."""
        return self.heads // self.kv_heads

    @property
    def attention(self) -> Attention:
        """The attention of one layer, one sequence of as many tokens as there are positions.

        >>> config("llama3-8b").attention
        Attention(N=8192, d=128, heads=32, kv_heads=8, causal=True)
        """
        shared = self.kv_heads if self.group > 1 else None
        return Attention(
            self.positions,
            self.head_size,
            self.heads,
            kv_heads=shared,
            causal=self.family != "bert",
        )


def _published(name: str, numbers: Values) -> Config:
    """A model whose attention is that of `iosim.core.problem.MODELS`."""
    attention, _ = MODELS[name]
    return Config(
        name=name,
        hidden=attention.heads * attention.d,
        heads=attention.heads,
        kv_heads=attention.groups,
        head_size=attention.d,
        positions=attention.N,
        **numbers,
    )


_NUMBERS = read_toml(Path(__file__).with_name("published.toml"))
CONFIGS: dict[str, Config] = {name: _published(name, known) for name, known in _NUMBERS.items()}


def config(name: str) -> Config:
    """A published configuration, or that of a file: ``.toml``, or a ``config.json``.

    Raises InputError for an unknown name, with the nearest, and as
    `iosim.models.layers.config_file` does.

    >>> config("llama3-8b").feed_forward
    14336
    """
    if not isinstance(name, str):
        raise InputError(f"a model is a name or a Config, got {name!r}: give one, like 'gpt2'")
    if name.endswith((".toml", ".json")):
        from iosim.models.layers.config_file import described

        return described(name)
    if name not in CONFIGS:
        near = closest(name, CONFIGS)
        raise InputError(f"unknown model {name!r}: {near}; or name a file, .toml or config.json")
    return CONFIGS[name]


def attention_of(name: str) -> tuple[Attention, str]:
    """A model's attention, and its source in words; of a file's model, its family and context.

    Raises InputError as `config` does.

    >>> attention_of("gpt2")[1]
    'Radford et al. 2019, 12 heads of 64, context 1024'
    """
    if name in MODELS:
        return MODELS[name]
    found = config(name)
    return found.attention, f"family {found.family}, context {found.positions}"
