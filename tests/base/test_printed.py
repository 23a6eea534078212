"""Nothing that a file or a command line holds reaches a terminal, an SVG or a page as a command."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from test_cli import iosim_

from iosim.cli.terminal import Printable, warnings_as_notes

# An escape sequence, marks of direction, C1 codes, a bell, a return, DEL, a line separator.
NASTY = "a\x1b[31m\u202eb\u2066\x9b2J\x07\r\x7f\u2028\u200f\x85z"
MACHINE = """name = {0}
title = {0}
cores = 4
sram_bytes = 512
cache_bytes = 1024
dram_bytes_per_s = 1e9
capacity_bytes = 1e9
[peaks]
fp32 = 1e9
fp16 = 1e9
"""
REPORT = '"Kernel Name","Block Size","Grid Size","dram__bytes_read.sum"\n"","","","byte"\n'
TOML = 'family = "llama"\nlayers = 2\nhidden = 8\nheads = 2\nfeed_forward = 16\n'


def files(folder: Path) -> None:
    """A file of every kind that people give, with odd text wherever it may be."""
    text = json.dumps(NASTY)
    (folder / "m.toml").write_text(
        MACHINE.format(text.replace("\\u007f", "\x7f").replace("\x7f", "\\u007f"))
    )
    rows = f'"{NASTY}","(1, 1, 1)","(1, 1, 1)","64"\n'.replace("\r", "")
    (folder / "r.csv").write_text(REPORT + rows, newline="")
    nodes = [{"id": NASTY}, {"id": "b"}]
    (folder / "g.json").write_text(
        json.dumps({"nodes": nodes, "edges": [{"source": NASTY, "target": "b"}]})
    )
    (folder / "e.txt").write_text("a\x1b[31m b\n")
    (folder / "model.toml").write_text(TOML + f"vocabulary = 5\npositions = 16\nname = {text}\n")
    (folder / "bad.toml").write_text(f"{text} = 1\n")
    (folder / "t.csv").write_text(f"kind,name,N,d,M_words,total_words\n{NASTY},x,1,1,x,1\n")


COMMANDS = [
    ("machines", "m.toml"),
    ("machines", "m.toml", "--json"),
    ("machines", NASTY),
    ("roofline", "matmul", "--m", "8", "--n", "8", "--k", "8", "--machine", "m.toml"),
    ("roofline", "matmul", "--m", "8", "--n", "8", "--k", "8", "--machine", "m.toml", "--json"),
    ("roofline", "matmul", "--m", "8", "--n", "8", "--k", "8", "--machine", "m.toml", "--out", "x"),
    ("roofline", "--model", "model.toml", "--phase", "prefill", "--N", "8", "--machine", "m.toml"),
    ("graph", "--model", "model.toml", "--phase", "prefill", "--N", "8"),
    ("count", "flash2", "--model", "model.toml", "--M", "200"),
    ("optimal", "g.json", "--M", "3"),
    ("optimal", "g.json", "--M", "3", "--show"),
    ("optimal", "g.json", "--M", "3", "--json"),
    ("optimal", "e.txt", "--M", "3", "--show"),
    ("optimal", NASTY, "--M", "3"),
    ("optimal", "g.json", "--M", "1"),
    ("profile", "r.csv"),
    ("profile", "r.csv", "--json"),
    ("profile", "r.csv", "--kernel", "no"),
    ("profile", "r.csv", "--machine", "m.toml"),
    ("profile", NASTY),
    ("profile", "bad.toml"),
    ("plot", "t.csv"),
    ("plot", NASTY),
    ("machines", "bad.toml"),
    ("count", NASTY),
    ("count", "flash2", "--N", NASTY),
    ("count", "flash2", f"--{NASTY}", "1"),
    (NASTY,),
    ("lab", "--save", f"{NASTY}.html/x"),
    ("cache", "--trace", f"{NASTY}.csv"),
    ("show", NASTY),
    ("query", f"SELECT '{NASTY}'", "rows"),
    ("query", NASTY, "rows"),
    ("query", f"SELECT '{NASTY}' AS \"{NASTY}\"", "rows", "--json"),
    ("sweep", "--schedule", "copy", "--n", "9", "--M", "4", "--out", f"{NASTY}", "--workers", "1"),
    ("verify", "--input", f"{NASTY}.npz"),
    ("gpu", "replay", NASTY),
    ("gpu", "emit", NASTY),
    ("cache", "flash2", "--N", "8", "--d", "2", "--M", "40", "--save", f"{NASTY}.csv"),
    ("fuse", "--graph", f"{NASTY}.toml"),
    ("devices", NASTY),
    ("step", NASTY),
    ("tiles", NASTY),
]


def is_plain(text: str) -> bool:
    return text.replace("\n", "").isprintable()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda x: " ".join(x).encode("ascii", "replace"))
def test_no_command_prints_what_a_terminal_obeys(command: tuple[str, ...], tmp_path: Path) -> None:
    files(tmp_path)
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
    if "query" in command:
        assert not iosim_(*made, cwd=tmp_path).returncode
    done = iosim_(*command, cwd=tmp_path)
    assert done.returncode in (0, 2), done
    assert is_plain(done.stdout), done.stdout
    assert is_plain(done.stderr), done.stderr
    if "--json" in command:
        assert NASTY.replace("\r", "") in repr_free(json.loads(done.stdout))
    for path in tmp_path.rglob("*.svg"):
        assert is_plain(path.read_text())


def repr_free(value: object) -> str:
    """All texts of a JSON value, as they are, without returns."""
    if isinstance(value, dict):
        return "".join(map(repr_free, [*value, *value.values()]))
    if isinstance(value, list):
        return "".join(map(repr_free, value))
    return str(value).replace("\r", "")


def test_as_a_process_with_any_encoding(tmp_path: Path) -> None:
    files(tmp_path)
    for encoding in ("utf-8", "ascii", "latin-1"):
        done = subprocess.run(
            [sys.executable, "-m", "iosim", "optimal", "g.json", "--M", "3", "--show"],
            capture_output=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": os.getcwd()},
        )
        assert done.returncode == 0
        assert is_plain(done.stdout.decode(encoding))


def test_nothing_goes_past_the_stream() -> None:
    out = io.StringIO()
    stream = Printable(out)
    assert not hasattr(stream, "buffer")
    print(NASTY, file=stream)
    assert is_plain(out.getvalue())
    assert out.getvalue().startswith("a\\x1b[31m\\u202eb")


def test_warnings_of_libraries_are_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with warnings_as_notes():
            np.log(np.zeros(1))
            warnings.warn_explicit("of a library", UserWarning, "/x/networkx/y.py", 1)
            own = str(Path(sys.modules["iosim"].__file__ or "").parent / "sweep" / "x.py")
            warnings.warn_explicit("of\x1b iosim", UserWarning, own, 1)
    assert capsys.readouterr().err == "iosim: note: of\\x1b iosim\n"
    (tmp_path / "g.graphml").write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="w" for="node" '
        'attr.name="words"/><graph edgedefault="directed"><node id="a"><data key="w">x</data>'
        '</node><node id="b"/><edge source="a" target="b"/></graph></graphml>'
    )
    with (tmp_path / "m.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "|b1", "fortran_order": False, "shape": (2**62, 2**62)}
        )
    for words in (
        ("optimal", "g.graphml", "--M", "3"),
        (
            "count",
            "block_sparse",
            "--N",
            "8",
            "--d",
            "2",
            "--N-k",
            "8",
            "--M",
            "99",
            "--mask",
            "blocks=m.npy",
        ),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "iosim", *words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.getcwd()},
        )
        assert done.returncode == 2, done
        assert re.fullmatch(r"iosim: [^\n]*\n", done.stderr), done.stderr
