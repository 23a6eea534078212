"""A user's model, from a file: TOML with its numbers, or a ``config.json`` of Hugging Face.

The keys of TOML are the fields of `iosim.models.layers.models.Config`.  Of a ``config.json`` those
are read that name the same numbers in the library transformers; all others are left alone.

`iosim.models.layers.models.config` calls it for ``--model FILE``.  A new key is a field of `Config`
and, for a ``config.json``, an entry of `PUBLISHED`.  ``tests/models/test_own_models.py`` compares
with published models.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from pathlib import Path

from iosim.base.errors import InputError, closest
from iosim.base.reading import read_json, read_toml
from iosim.base.rows import Row
from iosim.models.layers.models import Config, positive

_LLAMA = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_size": "head_dim",
    "feed_forward": "intermediate_size",
    "vocabulary": "vocab_size",
    "positions": "max_position_embeddings",
}
# By model_type: the family, and the key of each number.
PUBLISHED: dict[str, tuple[str, Mapping[str, str]]] = {
    "bert": (
        "bert",
        {
            **{k: v for k, v in _LLAMA.items() if k not in ("kv_heads", "head_size")},
            "activation": "hidden_act",
            "dropout": "hidden_dropout_prob",
        },
    ),
    "gpt2": (
        "gpt2",
        {
            "layers": "n_layer",
            "hidden": "n_embd",
            "heads": "n_head",
            "feed_forward": "n_inner",
            "vocabulary": "vocab_size",
            "positions": "n_positions",
            "dropout": "resid_pdrop",
        },
    ),
    "llama": ("llama", _LLAMA),
    "mixtral": (
        "mixture",
        {**_LLAMA, "experts": "num_local_experts", "active": "num_experts_per_tok"},
    ),
}


def described(path: str | Path) -> Config:
    """The model of a file that ends in ``.toml`` or ``.json``.

    Raises InputError, with the file's name, where it can't be read, lacks a number, has an unknown
    key or a value that can't be, or is of a model_type that is not in `PUBLISHED`.
    """
    where = Path(path)
    told, theirs = _published(where) if where.suffix == ".json" else (_read_fields(where), {})
    try:
        needed = [f.name for f in fields(Config) if f.default is MISSING and f.name != "name"]
        if missing := [name for name in needed if name not in told]:
            said = ", ".join(f"{x} ({theirs[x]})" if x in theirs else x for x in missing)
            raise InputError(f"no value for {said}: give every one of them")
        for name in ("name", "family", "activation", "source"):
            if not isinstance(told.get(name, ""), str):
                raise InputError(f"{name} must be text, got {told[name]!r}")
        dropout = told.get("dropout", 0.0)
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)):
            raise InputError(f"dropout must be a number, got {dropout!r}")
        for name in ("kv_heads", "head_size"):  # which Config takes for not given where they are 0
            if name in told:
                positive(f"{theirs.get(name, name)}", told[name])
        found = Config(**{"name": where.stem, "source": where.name, **told})
        object.__setattr__(found, "assumed", _assumed(found, told.keys(), theirs))
        return found
    except InputError as error:
        raise InputError(f"{where.name}: {error}") from None


def _assumed(found: Config, told: Collection[str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    """Sizes with a default that the file could have given and didn't."""
    values = {
        "kv_heads": f"kv_heads = heads = {found.kv_heads:,}",
        "head_size": f"head_size = hidden / heads = {found.hidden:,} / {found.heads:,} = "
        f"{found.head_size:,}",
    }
    if found.family == "mixture":
        values |= {"experts": f"experts = {found.experts}", "active": f"active = {found.active}"}
    return tuple(
        text for x, text in values.items() if x not in told and (x in theirs or not theirs)
    )


def _read_fields(where: Path) -> Row:
    told, known = read_toml(where), [f.name for f in fields(Config)]
    for key in told:
        if key not in known:
            raise InputError(f"{where.name}: unknown key {key!r}: {closest(key, known)}")
    return told


def _published(where: Path) -> tuple[Row, Mapping[str, str]]:
    """What the file says, by our names; and the file's names for them."""
    read = read_json(where)
    kind = read.get("model_type") if isinstance(read, dict) else None
    if not isinstance(kind, str) or kind not in PUBLISHED:
        raise InputError(
            f"{where.name}: model_type is {kind!r}: it must be one of "
            f"{', '.join(PUBLISHED)}; write other models as TOML"
        )
    family, keys = PUBLISHED[kind]
    told = {ours: read[theirs] for ours, theirs in keys.items() if read.get(theirs) is not None}
    if kind == "gpt2" and "hidden" in told:
        wide = told["hidden"] if isinstance(told["hidden"], int) else 0
        told.setdefault("feed_forward", 4 * wide)
    return {"name": where.parent.name or where.stem, "family": family, **told}, keys
