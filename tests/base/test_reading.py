"""Files that people write: within limits of size, depth, digits and keys; one line for the rest."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import subprocess
import sys
import xml.dom.minidom
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from same_figure import figure_texts
from test_cli import iosim_
from test_limits import most_memory

import iosim
from iosim.base.errors import InputError, IosimError
from iosim.base.reading import MOST_BYTES, parse, read_bytes, read_json, stored
from iosim.cache import of_arrays
from iosim.cache.files import read_trace, write_trace
from iosim.gpu.profiling.reading import read as read_report
from iosim.gpu.records.plain import read_json as read_record
from iosim.lab.exercises import exercises
from iosim.models.hardware.machine_file import described as read_machine
from iosim.models.layers.config_file import described as read_model
from iosim.models.layers.files import load
from iosim.models.layers.models import Config
from iosim.pebbling.readers import from_file
from iosim.pebbling.readers.moves import moves_from
from iosim.report.table import read_csv
from iosim.sweep import Sweep

# Reader → what its files end in, and their language.
READERS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "machine": (read_machine, ".toml"),
    "exercises": (exercises, ".toml"),
    "model": (read_model, ".toml"),
    "sweep": (Sweep.from_toml, ".toml"),
    "graph": (load, ".toml"),
    "config": (read_model, ".json"),
    "graph in JSON": (load, ".json"),
    "node-link": (from_file, ".json"),
    "game": (moves_from, ".json"),
    "record": (lambda path: read_record(path, dict[str, Any]), ".json"),
}
BAD = {
    ".toml": {
        "parts": ".".join("a" * 100_000) + " = 1",
        "hex": "x = 0x" + "f" * 5000,
        "binary": "x = 0b" + "1" * 20_000,
        "digits": "x = " + "9" * 5000,
        "deep": "x = " + "[" * 200_000,
        "nested": "x = " + "[" * 150 + "]" * 150,
        "twice": "x = 1\nx = 2",
        "quoted parts": "[" + ".".join(["'a'", '"b"'] * 50) + "]",
    },
    ".json": {
        "digits": '{"x": ' + "9" * 5000 + "}",
        "more digits": '{"x": 1' + "0" * 400 + "}",
        "deep": "[" * 200_000,
        "nested": "[" * 150 + "]" * 150,
        "twice": '{"x": 1, "x": 1}',
        "cut": '{"x": 1',
    },
}


def one_line(read: Callable[..., object], *given: object) -> str:
    with pytest.raises(IosimError) as caught:
        read(*given)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    return text


@pytest.mark.parametrize(
    ("reader", "what"), [(r, what) for r, (_, end) in READERS.items() for what in BAD[end]]
)
def test_every_reader_has_the_same_limits(reader: str, what: str, tmp_path: Path) -> None:
    read, end = READERS[reader]
    path = tmp_path / f"x{end}"
    path.write_text(BAD[end][what])
    with most_memory() as most:
        text = one_line(read, path)
    assert most() < 2**25
    said = {
        "digits": "100 digits",
        "more digits": "100 digits",
        "hex": "100 digits",
        "binary": "100 digits",
        "deep": "nested deeper",
        "nested": "nested deeper",
        "parts": "parts, and keys may have 20",
    }
    assert said.get(what, "") in text


def test_a_packed_file_is_read_under_both_names(tmp_path: Path) -> None:
    path, packed = tmp_path / "x.json", tmp_path / "x.json.gz"
    packed.write_bytes(gzip.compress(b'{"x": 1}'))
    assert stored(path) == stored(packed) == packed
    assert read_json(path) == read_json(packed) == read_record(path, dict[str, int]) == {"x": 1}
    path.write_text('{"x": 2}')  # what lies there unpacked is newer
    assert stored(path) == path
    assert (read_json(path), read_json(packed)) == ({"x": 2}, {"x": 1})
    assert not stored(tmp_path / "y.json").exists()


def test_a_packed_table_is_read_and_drawn(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(TABLE.format("a").encode()))
    assert read_csv(tmp_path / "t.csv") == read_csv(tmp_path / "t.csv.gz")
    assert read_csv(tmp_path / "t.csv")[1]["total_words"] == 5
    (tmp_path / "t.csv.gz").write_bytes(b"kind,name\n")
    assert "as a table (gzip can't unpack it" in one_line(read_csv, tmp_path / "t.csv")


def test_a_packed_file_has_the_limits_of_a_plain_one(tmp_path: Path) -> None:
    """Of what is in it as well: 100 MiB of zeros are 100 KB packed."""
    path = tmp_path / "x.json"
    most = b'{"x": 1}' + b" " * (MOST_BYTES - 8)
    packed = tmp_path / "x.json.gz"
    packed.write_bytes(gzip.compress(most))
    assert read_json(path) == {"x": 1}
    for large in (most + b" ", bytes(100 * MOST_BYTES)):
        packed.write_bytes(gzip.compress(large))
        with most_memory() as used:
            assert "more than 1,048,576 bytes" in one_line(read_json, path)
        assert used() < 2**23
    packed.write_bytes(gzip.compress(bytes(9)) * 100_000)
    assert "more than 1,048,576 bytes" in one_line(read_json, path)


def test_a_damaged_packed_file_is_named(tmp_path: Path) -> None:
    path, whole = tmp_path / "x.json", gzip.compress(json.dumps(list(range(99))).encode())
    packed = tmp_path / "x.json.gz"
    told = set()
    for data in (
        *(whole[:k] for k in range(len(whole))),
        *(
            whole[:k] + bytes([whole[k] ^ 255]) + whole[k + 1 :]
            for k in (0, 1, 2, 50, len(whole) - 1)
        ),
        whole + b"x",
        whole * 2,
    ):
        packed.write_bytes(data)
        assert "gzip can't unpack it" in one_line(read_bytes, path)
        told.add(one_line(read_json, path))
    assert all(text.startswith(f"cannot read {str(path)!r} as JSON: gzip") for text in told)
    packed.unlink()
    packed.mkdir()
    assert "there is no such file" in one_line(read_bytes, path)
    assert "it is not a file" in one_line(read_bytes, packed)


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_takes_regular_files_of_some_size(reader: str, tmp_path: Path) -> None:
    read, end = READERS[reader]
    zeros = tmp_path / f"zeros{end}"
    zeros.symlink_to("/dev/zero")
    large = tmp_path / f"large{end}"
    with large.open("wb") as file:
        file.truncate(100 * MOST_BYTES)
    for path in (zeros, large):
        with most_memory() as most:
            one_line(read, path)
        assert most() < 300 * MOST_BYTES


def test_texts_with_dots_are_no_keys() -> None:
    for text in (
        "x = 'e.g. a.b.c. and so on. " + "Words. More of them. " * 200 + "'",
        "x = [" + "1.5, " * 50_000 + "]",
        "x = '" + "." * 100_000 + "'",
    ):
        assert "x" in parse(text, "TOML")
    assert parse("a . b.c = 1", "TOML") == {"a": {"b": {"c": 1}}}


LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": 50,
    "max_position_embeddings": 16,
}
TOML = """family = "llama"
layers = 2
hidden = 8
heads = 2
feed_forward = 16
vocabulary = 50
positions = 16
"""


@pytest.mark.parametrize("kind", [["llama"], {"a": 1}, 3, None])
def test_a_model_type_is_text(kind: object, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"model_type": kind}))
    assert "model_type is" in one_line(read_model, path)


@pytest.mark.parametrize("value", [0, False, "", -1, 2.0])
def test_zero_and_false_are_no_heads(value: object, tmp_path: Path) -> None:
    for key in ("num_key_value_heads", "head_dim"):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(LLAMA | {key: value}))
        assert key in one_line(read_model, path)
        path.write_text(json.dumps(LLAMA | {key: None}))  # as transformers writes what is not set
        assert read_model(path).kv_heads == 2
    for key in ("kv_heads", "head_size"):
        path = tmp_path / "own.toml"
        path.write_text(f"{TOML}{key} = {json.dumps(value)}\n")
        assert key in one_line(read_model, path)


def test_a_model_has_sizes_that_are_counted(tmp_path: Path) -> None:
    for layers in (2**40 + 1, 10**50):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(LLAMA | {"num_hidden_layers": layers}))
        assert "outside 1..1099511627776" in one_line(read_model, path)
    more = {"family": "llama", "hidden": 8, "heads": 2, "feed_forward": 16, "vocabulary": 50}
    with pytest.raises(InputError, match="over 100 digits"):
        Config(name="own", layers=10**5000, positions=16, **more)  # type: ignore[arg-type]


def test_addresses_of_many_digits(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("1\n" + "9" * 5000 + "\n")
    assert "line 2 says '9999" in one_line(read_trace, path)
    path.write_text("1\n" + "0" * 5000 + "7 \n")
    assert [x for part in read_trace(path).chunks() for x in part.address] == [1, 7]


HEADERS: dict[str, Any] = {
    "a list": [1],
    "a number": 3,
    "brackets": "[" * 200_000,
    "no list of regions": {"regions": 5},
    "regions of numbers": {"regions": [3]},
    "a float": {"address_bytes": 4.0},
    "addresses": {"addresses": 10**30},
    "a unit": {"unit": ["words"]},
    "a start": {"regions": [{"name": "Q", "start": "x", "words": 1}]},
    "a name": {"regions": [{"name": 3, "start": 0, "words": 1}]},
    "words": {"regions": [{"name": "Q", "start": 0, "words": 10**40}]},
    "scratch": {"regions": [{"name": "Q", "start": 0, "words": 1, "scratch": "no"}]},
    "digits": '{"addresses": ' + "9" * 5000 + "}",
}


@pytest.mark.parametrize("what", HEADERS)
def test_headers_of_traces(what: str, tmp_path: Path) -> None:
    import struct
    import zlib

    path = tmp_path / "x.iosim"
    write_trace(of_arrays([3, 1, 4]), path)
    raw, change = path.read_bytes(), HEADERS[what]
    (size,) = struct.unpack_from("<I", raw, 12)
    header = json.loads(raw[16 : 16 + size]) | change if isinstance(change, dict) else change
    told = (header if isinstance(header, str) else json.dumps(header)).encode()
    head = raw[:12] + struct.pack("<I", len(told)) + told
    path.write_bytes(head + struct.pack("<I", zlib.crc32(head)) + raw[20 + size :])
    assert "is damaged before record 0" in one_line(read_trace, path)


@pytest.mark.parametrize(
    "words",
    [
        ("profile", "/dev/zero"),
        ("plot", "/dev/zero"),
        (
            "count",
            "block_sparse",
            "--N",
            "8",
            "--d",
            "2",
            "--M",
            "99",
            "--mask",
            "blocks=/dev/zero",
        ),
    ],
)
def test_a_device_is_not_read(words: tuple[str, ...]) -> None:
    """It was read until memory ended; in a process of its own, which may not have much."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = 2**32 if hard == resource.RLIM_INFINITY else min(hard, 2**32)
    done = subprocess.run(
        [sys.executable, "-m", "iosim", *words],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, hard)),
    )
    assert done.returncode == 2
    assert re.search("it is not a file|it is a device", done.stderr)
    assert done.stderr.count("\n") == 1
    one_line(read_report, Path("/dev/zero"))


TABLE = "kind,name,N,d,M_words,total_words\nformula,{},64,8,9,50\nformula,b,64,8,99,5\n"


@pytest.mark.parametrize(
    "name", ["$", "a $x$", "$_^$ $", r"\$x$", "$\\frac{$", "a\x1b[31mb", "\x01", "\u202ea", "\x9b"]
)
def test_names_in_a_figure_are_texts(name: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE.format(name))
    done = iosim_("plot", "t.csv", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "t.svg").read_text()
    xml.dom.minidom.parseString(text)
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
    assert shown in figure_texts(text)


@pytest.mark.parametrize(("variable", "code"), [("SOURCE_DATE_EPOCH", 0), ("MPLBACKEND", 2)])
def test_the_environment_of_matplotlib(variable: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE.format("a"))
    done = subprocess.run(
        [sys.executable, "-m", "iosim", "plot", "t.csv"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={
            **os.environ,
            variable: "x",
            "PYTHONPATH": os.path.dirname(os.path.dirname(iosim.__file__)),
        },
    )
    assert done.returncode == code
    assert done.stderr.count("\n") == (code != 0)
    assert variable in done.stderr or not code


@pytest.mark.parametrize("value", ["DATE 'infinity'", "[TIMESTAMP '294000-01-01 00:00:00']"])
def test_dates_beyond_python(value: str, tmp_path: Path) -> None:
    made = (
        "sweep",
        "--schedule",
        "copy",
        "--n",
        "9",
        "--M",
        "4",
        "--out",
        "rows",
        "--workers",
        "1",
    )
    assert not iosim_(*made, cwd=tmp_path).returncode
    for more in ((), ("--json",)):
        done = iosim_("query", f"SELECT {value} AS x", "rows", *more, cwd=tmp_path)
        assert done.returncode == 2
        assert "cast it, like x::VARCHAR" in done.stderr
    assert (
        "infinity"
        in iosim_("query", "SELECT (DATE 'infinity')::VARCHAR", "rows", cwd=tmp_path).stdout
    )
