"""Models from files: TOML, and config.json as Hugging Face writes it."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from test_cli import iosim_, ok

from iosim.base.errors import InputError
from iosim.core.problem import MODELS
from iosim.models.layers.models import CONFIGS, Config, config

TINY = {
    "family": "llama",
    "layers": 2,
    "hidden": 64,
    "heads": 4,
    "kv_heads": 2,
    "feed_forward": 96,
    "vocabulary": 100,
    "positions": 128,
}
# As the library transformers writes them; what iosim doesn't need is among it.
LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "head_dim": None,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "rope_theta": 5e5,
}
GPT2 = {
    "model_type": "gpt2",
    "n_layer": 48,
    "n_embd": 1600,
    "n_head": 25,
    "n_inner": None,
    "vocab_size": 50257,
    "n_positions": 1024,
    "resid_pdrop": 0.1,
}
BERT = {
    "model_type": "bert",
    "num_hidden_layers": 24,
    "hidden_size": 1024,
    "hidden_act": "gelu",
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "hidden_dropout_prob": 0.1,
}
MIXTRAL = LLAMA | {
    "model_type": "mixtral",
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 32768,
}


def toml(numbers: dict[str, Any]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in numbers.items())


def test_toml_gives_every_number(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(toml(TINY))
    found = config(str(tmp_path / "tiny.toml"))
    assert found == Config(name="tiny", source="tiny.toml", **TINY)
    for one in CONFIGS.values():
        (tmp_path / "again.toml").write_text(toml(asdict(one)))
        assert config(str(tmp_path / "again.toml")) == one


@pytest.mark.parametrize(
    ("name", "written"),
    [("llama3-8b", LLAMA), ("gpt2-xl", GPT2), ("bert-large", BERT), ("mixtral-8x7b", MIXTRAL)],
)
def test_a_config_of_hugging_face_is_the_published_one(
    name: str, written: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / name).mkdir()
    path = tmp_path / name / "config.json"
    path.write_text(json.dumps(written))
    want = replace(CONFIGS[name], source="config.json")
    if name == "mixtral-8x7b":
        want = replace(want, positions=32768)
    assert config(str(path)) == want


@pytest.mark.parametrize("name", CONFIGS)
def test_a_file_says_attention_s_sizes_as_the_published_model_does(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(toml(asdict(CONFIGS[name])))
    assert config(str(path)).attention == MODELS[name][0]
    asked = ("count", "flash2", "--N", "100", "--M", "9999", "--json", "--model")
    assert ok(*asked, str(path)) == ok(*asked, name)


def test_commands_take_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(toml(TINY))
    words = ("--phase", "decode", "--batch", "2", "--N", "64", "--machine", "h100", "--json")
    found = json.loads(ok("roofline", "--model", str(path), *words))
    (query,) = (r for r in found["operators"] if r["name"] == "query")
    assert query["flop"] == 2 * 2 * 64 * 64 * 2  # two layers, two rows
    assert "tiny" in ok("fuse", "--model", str(path), "--phase", "prefill", "--N", "64")


BAD: list[tuple[str, str, str]] = [
    ("a.toml", "layers = ", "cannot read"),
    ("a.toml", toml(TINY | {"layer": 2}), "a.toml: unknown key 'layer': did you mean 'layers'"),
    ("a.toml", toml({k: v for k, v in TINY.items() if k != "heads"}), "no value for heads"),
    ("a.toml", toml(TINY | {"heads": "4"}), "heads = '4': give an integer"),
    ("a.toml", toml(TINY | {"kv_heads": 3}), "kv_heads = 3 does not divide heads = 4"),
    ("a.toml", toml(TINY | {"family": "lama"}), "unknown family 'lama': did you mean 'llama'"),
    ("a.toml", toml(TINY | {"family": 3}), "family must be text, got 3"),
    ("a.toml", toml(TINY | {"dropout": "much"}), "dropout must be a number, got 'much'"),
    ("a.json", "[1", "cannot read"),
    ("a.json", "[1]", "a.json: model_type is None"),
    ("a.json", json.dumps(LLAMA | {"model_type": "rwkv"}), "model_type is 'rwkv'"),
    ("a.json", json.dumps(LLAMA | {"hidden_size": None}), "no value for hidden (hidden_size)"),
    ("a.json", json.dumps(BERT | {"hidden_act": "silu"}), "unknown activation 'silu'"),
    ("a.json", json.dumps(GPT2 | {"n_embd": "wide"}), "hidden = 'wide'"),
]


@pytest.mark.parametrize(("name", "text", "says"), BAD)
def test_bad_files_are_one_line(name: str, text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=re.escape(says)) as caught:
        config(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    rest = ("--phase", "prefill", "--N", "8", "--machine", "h100")
    for name in ("no.toml", "no.json"):
        result = iosim_("roofline", "--model", str(tmp_path / name), *rest)
        assert result.returncode == 2
        assert "there is no such file" in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_what_a_file_leaves_out_is_said(tmp_path: Path) -> None:
    """hidden / heads is 46 here, which nobody's heads have."""
    wide = {x: n for x, n in TINY.items() if x != "kv_heads"} | {"hidden": 2944, "heads": 64}
    (tmp_path / "own.toml").write_text(toml(wide))
    (tmp_path / "config.json").write_text(
        json.dumps({x: n for x, n in LLAMA.items() if x != "num_key_value_heads"})
    )
    (tmp_path / "bert.json").write_text(json.dumps(BERT))
    calls = (
        ("count", "flash2", "--M", "64Ki"),
        ("roofline", "--phase", "prefill", "--N", "64", "--machine", "h100"),
        ("fuse", "--phase", "prefill", "--N", "64"),
    )
    for file, note in (
        ("own.toml", "kv_heads = heads = 64, head_size = hidden / heads = 2,944 / 64 = 46"),
        ("config.json", "kv_heads = heads = 32, head_size = hidden / heads = 4,096 / 32 = 128"),
        ("bert.json", ""),  # a BERT has no other
    ):
        for call in calls:
            done = iosim_(*call, "--model", file, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            assert (
                (f"{file} doesn't say {note}: if" in done.stderr)
                if note
                else ("doesn't say" not in done.stderr)
            )
