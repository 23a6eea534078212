"""Experiments: complete, drawn from their tables, and the committed numbers come out again."""

from __future__ import annotations

import doctest
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from fenced import FencedDocTests
from strategies import plain_algorithms
from test_cli import iosim_

import experiments
from iosim.bounds import best_lower_bound_many
from iosim.report import reproduce
from iosim.report.table import read_csv, write_csv

ROOT = Path(__file__).parents[2]
MODULES = reproduce.find([])
# Reproduced in every run; the others take seconds.  The command line's test does two more.
SHORT = ("e04_blocks", "e07_wall")


@pytest.mark.numbers
@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=[] if p.stem in SHORT else [pytest.mark.slow]) for p in MODULES],
    ids=lambda p: p.stem,
)
def test_committed_numbers_come_out_again(path: Path) -> None:
    result = reproduce.reproduce(path)
    assert result.same, result.verdict
    tables = (ROOT / "experiments" / "data" / path.stem).glob("*.csv")
    rows = sum(len(read_csv(table)) for table in tables)
    assert result.verdict == f"reproduced, {rows:,} rows as committed"


# Committed tables that hold lower bounds, and the sizes that have no column there.
BOUNDED = {
    "experiments/data/e01_words/words.csv": {},
    "experiments/data/e02_gap/gap.csv": {"N": 2**18},
    "experiments/data/e10_explicit_control/needs.csv": {"N": 256, "d": 32},
    "experiments/data/e10_explicit_control/slopes.csv": {"N": 256, "d": 32},
    "experiments/data/e11_backward/best.csv": {},
    "docs/img/tightness.csv": {},
    "docs/img/slope.csv": {"N": 1024, "d": 64},
    "docs/img/backward/tightness.csv": {},
}


def bounds_of_another_day(rows: list[dict[str, Any]], name: str, sizes: dict[str, int]) -> int:
    """How many lower bounds of a table are not those of today, to the digits that it has."""
    if "series" in rows[0]:  # of words against capacity
        mine = [r for r in rows if r["series"] == "bound"]
        rows = [r | {"M_words": r["capacity"], "lower_bound_words": r["words"]} for r in mine]
    rows = [r for r in rows if isinstance(r["lower_bound_words"], (int, float))]
    rows = [{"heads": 1, "class": "once"} | sizes | r for r in rows if r["lower_bound_words"] > 0]
    assert rows
    kind, off = "attention-backward" if "backward" in name else "attention", 0
    for klass in {r["class"] for r in rows}:
        own = [r for r in rows if r["class"] == klass]
        given = {x: np.array([r[x] for r in own]) for x in ("N", "d", "heads")}
        M, words = (np.array([r[x] for r in own]) for x in ("M_words", "lower_bound_words"))
        now, _ = best_lower_bound_many(kind, given, M, klass)
        off += int((abs(now - words) > 1e-5 * now).sum())
    return off


@pytest.mark.numbers
@pytest.mark.parametrize("name", BOUNDED)
def test_committed_bounds_are_those_of_today(name: str) -> None:
    """The tables are made again by slow tests alone; a larger bound shows here at once."""
    rows = read_csv(ROOT / name)
    assert not bounds_of_another_day(rows, name, BOUNDED[name])


def test_a_bound_of_another_day_is_found() -> None:
    name = "docs/img/tightness.csv"
    rows = read_csv(ROOT / name)
    rows[3]["lower_bound_words"] *= 0.999
    assert bounds_of_another_day(rows, name, {}) == 1


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_an_experiment_is_complete(path: Path) -> None:
    folder = ROOT / "experiments" / "data" / path.stem
    assert {".csv", ".svg", ".json"} <= {p.suffix for p in folder.iterdir()}
    told = json.loads((folder / "provenance.json").read_text())
    assert told["command"] == f"python -m experiments.{path.stem}"
    said = (ROOT / "docs" / "experiments.md").read_text()
    assert f"experiments/data/{path.stem}/{path.stem}.svg" in said
    assert f"iosim reproduce {path.stem.split('_')[0]}" in said


# What is not a result: images, links' targets, code, and numbers that are names or dates.
NOT_PROSE = re.compile(
    r"!\[.*?\]\(.*?\)|\]\([^)]*\)|`[^`]*`|(?:Figure|NeurIPS) \d+|\d+ June|\b20\d\d\b", re.S
)
NUMBER = re.compile(r"(?<![\w./-])\d[\d,]*(?:\.\d+)?(?![\w/])")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_numbers_in_the_text_are_shown_beneath_it(path: Path) -> None:
    """What docs/experiments.md says of an experiment, its doctests print from the tables."""
    said = (ROOT / "docs" / "experiments.md").read_text()
    (section,) = re.findall(rf"^### {path.stem[:3].upper()}:.*?(?=^###|\Z)", said, re.M | re.S)
    parts = FencedDocTests().parse(section)
    text = NOT_PROSE.sub("", "".join(p for p in parts if isinstance(p, str)))
    shown = "".join(p.want for p in parts if isinstance(p, doctest.Example))
    known = {float(x.replace(",", "")) for x in re.findall(r"\d[\d,]*(?:\.\d+)?", shown)}
    numbers = NUMBER.findall(text)
    assert numbers
    assert not [x for x in numbers if float(x.replace(",", "")) not in known]


@pytest.mark.slow
@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_figures_come_from_tables_alone(path: Path, tmp_path: Path) -> None:
    """The committed tables are all that a figure needs."""
    module = reproduce.load(path)
    folder = ROOT / "experiments" / "data" / path.stem
    for table in folder.glob("*.csv"):
        shutil.copy(table, tmp_path)
    made = module.EXPERIMENT.draw(tmp_path, tmp_path / path.stem)
    assert [p.suffix for p in made] == [".png", ".svg"]
    assert made[0].read_bytes()[1:4] == b"PNG"
    assert ElementTree.parse(made[1]).getroot().tag.endswith("svg")


def test_a_changed_number_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = reproduce.find(["e04"])
    folder = ROOT / "experiments" / "data" / path.stem
    rows = read_csv(folder / "marks.csv")
    rows[5]["total_words"] += 1
    write_csv(tmp_path / "marks.csv", rows)
    said = reproduce.difference(folder / "marks.csv", tmp_path / "marks.csv")
    assert said is not None
    assert "row 6, total_words" in said
    write_csv(tmp_path / "marks.csv", rows[:-1])
    assert "now 12" in str(reproduce.difference(folder / "marks.csv", tmp_path / "marks.csv"))
    assert "is missing" in str(reproduce.difference(folder / "marks.csv", tmp_path / "no.csv"))


@pytest.mark.numbers
def test_reproduce_from_the_command_line(tmp_path: Path) -> None:
    done = iosim_("reproduce", "e03", "e06_models", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^e0\d_\w+: reproduced, \d+ rows as committed", done.stdout, re.M)) == 2
    assert not list(tmp_path.iterdir())


def test_files_are_written_all_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An interrupt while the figure is drawn leaves what was there before, and nothing else."""
    monkeypatch.setattr(experiments, "DATA", tmp_path)
    stopped = True

    def draw(folder: Path, stem: Path) -> list[Path]:
        svg = stem.with_suffix(".svg")
        svg.write_text("<svg>")
        if stopped:
            raise KeyboardInterrupt
        svg.write_text("<svg/>")
        return [svg]

    one = experiments.Experiment("e99", lambda: {"a.csv": [{"x": 1}]}, draw)
    (tmp_path / "e99").mkdir()
    (tmp_path / "e99" / "a.csv").write_text("before")
    with pytest.raises(SystemExit) as end:
        experiments.run_main(one.main)
    assert end.value.code == 130
    assert capsys.readouterr().err == "experiments: interrupted, nothing was written\n"
    assert [p.name for p in (tmp_path / "e99").iterdir()] == ["a.csv"]
    assert (tmp_path / "e99" / "a.csv").read_text() == "before"
    stopped = False
    one.main()
    names = sorted(p.name for p in (tmp_path / "e99").iterdir())
    assert names == ["a.csv", "e99.svg", "provenance.json"]
    assert (tmp_path / "e99" / "e99.svg").read_text() == "<svg/>"
    assert read_csv(tmp_path / "e99" / "a.csv") == [{"x": 1}]


def test_searches_are_named_beside_the_experiments() -> None:
    """Every module of the folder is in its README, with the command that runs it."""
    text = (ROOT / "experiments" / "README.md").read_text()
    for path in (ROOT / "experiments").glob("[!_]*.py"):
        assert f"({path.name})" in text
        assert path in MODULES or f"python -m experiments.{path.stem}" in text


def test_nothing_in_the_package_imports_experiments() -> None:
    code = "import sys, iosim.cli, iosim.report.reproduce; assert 'experiments' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    for path in (ROOT / "iosim").rglob("*.py"):
        assert not re.search(r"^\s*(from|import) experiments", path.read_text(), re.M), path


def test_every_attention_schedule_is_in_the_experiments() -> None:
    from experiments.e02_gap import EVERY

    assert set(EVERY) == {a.name for a in plain_algorithms("attention")}


def test_the_wall_against_sums_by_hand() -> None:
    rows = read_csv(ROOT / "experiments/data/e07_wall/operators.csv")
    by_name = {r["operator"]: r for r in rows}
    for b in (1, 8, 64):  # activations, weights, results; fp16
        moved = 2 * (b * 4096 + 4096 * 14336 + b * 14336)
        told = by_name[f"decode, batch {b}"]["flop_per_dram_byte"]
        assert told == pytest.approx(2 * b * 4096 * 14336 / moved, rel=1e-3)
    assert by_name["residual add"]["flop_per_dram_byte"] == pytest.approx(1 / 6, rel=1e-3)
    for r in rows:
        inside = r["flop_per_dram_byte"] < r["ridge_flop_per_dram_byte"]
        assert r["limit"] == ("L2↔DRAM" if inside else "arithmetic")
    for r in read_csv(ROOT / "experiments/data/e07_wall/machines.csv"):
        ridge = 1000 * r["peak_tflop_per_s"] / r["dram_gb_per_s"]
        assert r["ridge_flop_per_dram_byte"] == pytest.approx(ridge, rel=1e-3)
        weights = 4096 * 14336
        reached = [b for b in range(1, 1000) if b * weights >= ridge * (weights + b * 18432)]
        assert r["decode_batch_at_ridge"] == reached[0]
        assert "no source" not in (r["peak_source"], r["dram_source"], r["capacity_source"])


def test_caches_beside_explicit_control() -> None:
    """A part of E10 comes out again, and what was proved holds in all of it."""
    (path,) = reproduce.find(["e10"])
    from iosim.cache import touches

    e10 = reproduce.load(path)
    kept = {x: read_csv(path.parent / "data" / path.stem / f"{x}.csv") for x in ("tiled", "needs")}
    best = {("flash2", 4096): e10._instance("flash2", 4096)}
    for name, rows in kept.items():
        part = [r for r in rows if (r["algorithm"], r["M_words"]) == ("flash2", 4096)]
        assert getattr(e10, name)(best) == part
    for layout in ("row-major", "column-major"):  # word by word, the lines' misses are the same
        words = touches(best["flash2", 4096], line_words=e10.LINE, layouts={"K": layout})
        rows = e10._replayed(words, (4096, 8192), e10.LINE, ("lru", "opt"))
        assert rows == [
            {x: r[x] for x in rows[0]}
            for r in kept["tiled"]
            if (r["algorithm"], r["M_words"], r["line_words"], r["K"])
            == ("flash2", 4096, e10.LINE, layout)
        ]
    explicit = {(r["algorithm"], r["M_words"]): r for r in kept["needs"]}
    assert len(explicit) == 9
    for r in explicit.values():
        assert r["lower_bound_words"] <= r["explicit_words"]
        assert r["largest_operation_words"] <= r["peak_words"] <= r["M_words"]
    some = [r for r in kept["tiled"] if r["policy"] == "opt" and r["line_words"] == 1]
    assert len(some) == 18
    for r in some:
        assert r["loads"] <= explicit[r["algorithm"], r["M_words"]]["explicit_loads"]


def test_the_largest_operation_by_hand() -> None:
    e10 = reproduce.load(*reproduce.find(["e10"]))
    instance = e10._instance("flash2", 4096)
    B_r, B_c, d = instance.env["B_r"], instance.env["B_c"], 32
    # online_softmax(o, m, l, s, v)
    assert e10.largest_operation(instance) == B_r * d + 2 * B_r + B_r * B_c + B_c * d
    # matmul_nt(s, held[x], k): a part of what is held
    assert e10.largest_operation(e10._instance("naive")) == 3


def test_the_leading_order_of_the_backward_pass_is_near_the_exact_counts() -> None:
    """Formulas of E11, beside counts that share nothing with them."""
    (path,) = reproduce.find(["e11"])
    words = reproduce.load(path).LEADING
    best = read_csv(ROOT / "experiments/data/e11_backward/best.csv")
    here = [r for r in best if (r["N"], r["d"]) == (2**20, 128)]
    assert {r["best_algorithm"] for r in here} == set(words)
    for r in here:
        exact = r["total_words"] / r["N"] ** 2
        assert 1 <= exact / words[r["best_algorithm"]](r["M_over_d2"]) < 1.07, r
