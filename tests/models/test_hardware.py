"""Machines: every number has a source, published ridges and ratios come out, files are read."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import click
import pytest
from test_cli import iosim_, ok

from iosim.base.errors import InputError
from iosim.cli import options as opt
from iosim.models.hardware import MACHINES, NO_SOURCE, Hardware, described, machine, of_driver
from iosim.models.operators import operand, operator

ROOT = Path(__file__).parents[2]
EVERY = [pytest.param(m, id=m.name) for m in MACHINES.values()]


@pytest.mark.parametrize("one", EVERY)
def test_every_number_has_a_source_of_its_own(one: Hardware) -> None:
    for what, value, _, source in one.numbers():
        assert (value is None) == (source == NO_SOURCE), what
        assert source.strip()
    assert set(one.sources) <= {what for what, *_ in one.numbers()}


@pytest.mark.parametrize("one", EVERY)
def test_records_read_back(one: Hardware) -> None:
    assert eval(repr(one)) == one
    assert hash(one) == hash(Hardware(**asdict(one)))


def test_what_a_core_holds_is_less_than_what_the_chip_holds() -> None:
    for one in MACHINES.values():
        if one.sram_bytes and one.cache_bytes:
            assert one.sm_words("fp32") == one.sram_bytes // 4 < one.chip_words("fp32")
            assert one.chip_words("bf16") == one.cache_bytes // 2
    assert machine("a100").sm_words("fp16") == 164 * 1024 // 2
    unknown = replace(machine("p100"), sram_bytes=None, cache_bytes=None, sources={})
    with pytest.raises(InputError, match="p100 has no sram_bytes: add sram_bytes to its file"):
        unknown.sm_words("fp32")
    with pytest.raises(InputError, match="p100 has no cache_bytes: add cache_bytes to its file"):
        unknown.chip_words("fp32")


# FLOP per byte at L2↔DRAM, fp16 (bf16 where there is no fp16, fp32 on the CPU).
RIDGES = {
    "p100": 29,
    "v100": 139,
    "a100": 201,
    "a100-80gb": 153,
    "h100": 295,
    "h200": 206,
    "b200": 292,
    "mi300x": 247,
    "tpu-v5p": 166,
    "epyc-9654": 16,
}


def test_ridges_are_the_published_ones() -> None:
    assert RIDGES.keys() == MACHINES.keys()
    for name, ridge in RIDGES.items():
        one = machine(name)
        dtype = next(
            x for x in ("fp16", "fp32" if name == "epyc-9654" else "bf16", "bf16") if x in one.peaks
        )
        assert round(one.ridge_for(dtype)) == ridge
        assert one.ridge_for(dtype) == one.peaks[dtype] / one.dram_bytes_per_s


def test_from_p100_to_h100() -> None:
    old, new = machine("p100"), machine("h100")
    assert round(new.peak("fp16") / old.peak("fp16"), 1) == 46.7
    assert new.capacity_bytes / old.capacity_bytes == 5
    assert round(new.dram_bytes_per_s / old.dram_bytes_per_s, 1) == 4.6


def test_dense_peaks() -> None:
    """A GPU with sparsity does twice this: the numbers that pages print by mistake."""
    assert machine("h200").peak("fp16") < 1000e12
    assert machine("b200").peak("fp8") == 2 * machine("b200").peak("fp16") == 4500e12
    assert machine("mi300x").peak("fp16") < 1310e12


def test_unknown_names_and_dtypes() -> None:
    with pytest.raises(InputError, match=r"'h10', and no FILE\.toml: did you mean 'h100'"):
        machine("h10")
    with pytest.raises(InputError, match="p100 has no peak for 'bf16': choose one of fp16, fp32"):
        machine("p100").peak("bf16")
    with pytest.raises(InputError, match="choose one of bf16, fp8"):
        machine("tpu-v5p").ridge_for("fp16")


def test_drivers_names() -> None:
    """A board is known by the name that its driver gives, and no other board by a part of it."""
    names = [x for m in MACHINES.values() for x in m.drivers]
    assert len(names) == len(set(names))
    for path in (ROOT / "experiments/data/gpu").glob("*/bench/provenance.json"):
        told = json.loads(path.read_text())
        found = of_driver(told["device"])
        assert found is not None
        assert found.name == path.parent.parent.name
        assert int(told["multiprocessors"]) == found.cores
        assert int(told["l2_bytes"]) == found.cache_bytes
    assert of_driver("NVIDIA H100 PCIe") is None
    assert of_driver("") is None


OWN = """
title = "Tomorrow"
cores = 100
sram_bytes = 262144
cache_bytes = 2e8
dram_bytes_per_s = 1e13
capacity_bytes = 288e9
link_bytes_per_s = 3.6e12

[peaks]
bf16 = 5e15

[sources]
capacity_bytes = "a slide"
"""


def write_machine(folder: Path, text: str = OWN) -> Path:
    path = folder / "tomorrow.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_machine_of_ones_own(tmp_path: Path) -> None:
    own = machine(write_machine(tmp_path))
    assert own == machine(str(write_machine(tmp_path))) == described(write_machine(tmp_path))
    assert (own.name, own.title, own.ridge_for("bf16")) == ("tomorrow", "Tomorrow", 500)
    assert (own.sm_words("bf16"), own.chip_words("bf16")) == (131072, 100_000_000)
    sources = {what: source for what, _, _, source in own.numbers()}
    assert sources["cores"] == sources["peak bf16"] == "tomorrow.toml"
    assert sources["capacity_bytes"] == "a slide"
    assert sources["l2_bytes_per_s"] == NO_SOURCE
    assert sources["launch_s"].startswith("assumption")
    free = machine(write_machine(tmp_path, "launch_s = 0\n" + OWN))
    assert (free.launch_s, free.source("launch_s")) == (0, "tomorrow.toml")


def toml_of(one: Hardware) -> str:
    """A machine as its file would say it; JSON's texts and numbers are TOML's, too."""
    flat, tables = [], []
    for key, value in asdict(one).items():
        if isinstance(value, dict):
            tables += [
                f"[{key}]",
                *(f"{json.dumps(k)} = {json.dumps(x)}" for k, x in value.items()),
            ]
        elif value is not None and (key != "launch_s" or key in one.sources):
            flat.append(f"{key} = {json.dumps(value)}")
    return "\n".join([*flat, *tables])


@pytest.mark.parametrize("one", EVERY)
def test_round_trip(one: Hardware, tmp_path: Path) -> None:
    """Every registered machine can be said in a file, and is the same then."""
    path = tmp_path / f"{one.name}.toml"
    path.write_text(toml_of(one), encoding="utf-8")
    assert machine(path) == one


BAD = {
    "dram_bytes_per_s is missing": ("dram_bytes_per_s = 1e13", ""),
    "cores, sram_bytes are missing": ("cores = 100\nsram_bytes = 262144", ""),
    "peaks is missing": ("[peaks]\nbf16 = 5e15", ""),
    "tomorrow has no peak": ("bf16 = 5e15", ""),
    "unknown key 'core_s': did you mean 'cores'": ("cores =", "core_s ="),
    "unknown dtype 'bf61' in peaks: did you mean 'bf16'": ("bf16 =", "bf61 ="),
    "unknown number 'capacity' in sources: did you mean 'capacity_bytes'": (
        'capacity_bytes = "a',
        'capacity = "a',
    ),
    "cores of tomorrow must be a number, got '100'": ("= 100", '= "100"'),
    "cores of tomorrow must be a number, got True": ("= 100", "= true"),
    "cores of tomorrow must be whole, got 0.5": ("= 100", "= 0.5"),
    "cores of tomorrow must be positive, got -3": ("= 100", "= -3"),
    "capacity_bytes of tomorrow must be a number, got nan": ("288e9", "nan"),
    "link_bytes_per_s of tomorrow must be positive, got 0": ("3.6e12", "0"),
    "peak bf16 of tomorrow must be a number, got inf": ("5e15", "inf"),
    "peaks must be a table, got 5": ("[peaks]\nbf16 = 5e15", "@"),
    "title must be text, got 3": ('"Tomorrow"', "3"),
    "sources must hold texts, got 3": ('"a slide"', "3"),
    "drivers must be a list of texts, got 'x'": ("cores", 'drivers = "x"\ncores'),
    "drivers must hold texts, got 1": ("cores", "drivers = [1]\ncores"),
    "bf16 has more than 100 digits": ("5e15", "1" + "0" * 400),
    "sources has price_usd, of which there is no number": ('capacity_bytes = "a', 'price_usd = "a'),
    "title is empty": ('"Tomorrow"', '" "'),
    "as TOML": ("cores =", "cores"),
}


@pytest.mark.parametrize("said", BAD)
def test_bad_files(said: str, tmp_path: Path) -> None:
    before, after = BAD[said]
    assert before in OWN
    text = OWN.replace(before, after, 1)
    if after == "@":
        text = "peaks = 5\n" + OWN.replace(before, "")
    with pytest.raises(InputError) as error:
        machine(write_machine(tmp_path, text))
    assert said in str(error.value)
    assert "tomorrow.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        machine(tmp_path / "no.toml")
    with pytest.raises(InputError, match="it is not a file"):
        machine(f"{tmp_path}/")
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="as TOML"):
        machine(tmp_path / "x.toml")


def test_the_example_of_the_page_is_a_machine(tmp_path: Path) -> None:
    page = (ROOT / "docs/machines.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.S)
    own = machine(write_machine(tmp_path, example))
    assert own.title == "Next year's GPU"
    assert {what for what, value, *_ in own.numbers() if value is None} == set()


@pytest.mark.parametrize("width", [40, 100, 400])
@pytest.mark.parametrize("name", ["h100", "tpu-v5p"])
def test_a_machine_is_printed_whole_at_any_width(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iosim.cli.options.width", lambda: width)
    text = ok("machines", name)
    words = text.split()
    for what, value, _, source in machine(name).numbers():
        assert set(what.split()) <= set(words)
        assert set(source.split()) <= set(words)
        assert value is not None or "no source" in " ".join(words)
    for dtype in machine(name).peaks:
        assert f"{machine(name).ridge_for(dtype):.1f}" in words


def test_the_list_has_every_machine_and_says_what_has_no_source() -> None:
    lines = {x.split()[0]: x for x in ok("machines").splitlines() if x.split()[0] in MACHINES}
    assert list(lines) == list(MACHINES)
    assert "138.9" in lines["v100"]
    assert "no source" in lines["h200"]
    assert "no source" not in lines["v100"]


def test_machines_in_json(tmp_path: Path) -> None:
    every = json.loads(ok("machines", "--json"))
    assert [x["name"] for x in every] == list(MACHINES)
    for told_, one in zip(every, MACHINES.values(), strict=True):
        assert told_["peaks"] == one.peaks
        assert told_["sources"].keys() == {what for what, *_ in one.numbers()}
        assert (
            told_["ridge_flop_per_byte"]["fp8"] == one.ridge_for("fp8")
            if "fp8" in one.peaks
            else "fp8" not in told_["ridge_flop_per_byte"]
        )
    own = json.loads(ok("machines", str(write_machine(tmp_path)), "--json"))
    assert (own["title"], own["sources"]["l2_bytes_per_s"]) == ("Tomorrow", NO_SOURCE)


def test_bad_machines_on_the_command_line(tmp_path: Path) -> None:
    for word in ("h10", "no.toml", str(write_machine(tmp_path, OWN.replace("= 100", "= -3")))):
        done = iosim_("machines", word)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1


def test_the_option_gives_a_machine(tmp_path: Path) -> None:
    @click.command()
    @opt.machine()
    def command(machine: Hardware | None) -> None:
        found.append(machine and machine.name)

    found: list[str | None] = []
    for words in ([], ["--machine", "a100"], ["--machine", str(write_machine(tmp_path))]):
        command.main(words, standalone_mode=False)
    assert found == [None, "a100", "tomorrow"]


def test_the_walls_operators_are_those_of_the_operators_package() -> None:
    """E07 counts a value by hand; the package by running the code of whole tensors."""
    from experiments.e07_wall import OPERATORS as by_hand

    sizes = {"t": 4096, "i": 1024, "u": 8}
    x, y, z = (operand(name, "t i", sizes) for name in "XYZ")
    rows, row = [operand(name, "t", sizes) for name in "mr"], [operand(n, "i", sizes) for n in "gb"]
    whole = {
        "residual add": operator("a", "add", [x, y], [z]),
        "dropout": operator("d", "dropout", [x], [y, z]),
        "softmax": operator("s", "softmax", [x], [y], over="i"),
        "layer norm": operator("n", "layer_norm", [x, *row], [y, *rows], over="i"),
        "GELU, tanh": operator("g", "gelu_tanh", [x], [y]),
    }
    small = {one.name: one for one in by_hand if one.words < 10}
    assert small.keys() == whole.keys()
    for name, op in whole.items():
        assert round(op.flop / x.words) == small[name].flop
        assert round((op.words_in + op.words_out) / x.words) == small[name].words
