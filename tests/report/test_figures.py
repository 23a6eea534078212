"""Committed figures: drawn again, they are the same; their style; their titles follow their data.

The pages' own pictures are in test_pictures.py, those of the tutorials in test_tutorials.py.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text
from same_figure import same_figure
from test_pictures import HERE as IMG

from experiments import pebbling_gap
from iosim.gpu.reports import REPORTS, SavedReport, gpu_report
from iosim.gpu.reports._entry import ReportTable
from iosim.gpu.reports.figure import draw as draw_records
from iosim.report import reproduce
from iosim.report.plot import plot_table
from iosim.report.table import read_csv, write_csv

pytestmark = pytest.mark.numbers

ROOT = Path(__file__).parents[2]
DATA = ROOT / "experiments" / "data"
PAGE = 800  # pixels that a page gives to a figure
LEAST = 10  # pixels of its smallest text
MODULES = {path.stem: path for path in reproduce.find([])}
TABLES = ("verify", "tightness", "slope", "start", "backward/tightness")
NAMES = (*MODULES, *TABLES, "gpu", "pebbling")
# What an axis of words or bytes names: the boundary that they cross, or the memory that holds them.
PLACES = ("slow ↔ fast", "SM↔L2", "L2↔DRAM", "fast memory")


def recorded(folder: Path) -> Iterator[SavedReport]:
    """The tables of all records, which are those of a replay to the byte (test_gpu_records.py)."""
    for path in sorted(folder.glob("*/table.csv")):
        if (name := path.parent.name.split("-")[0]) in REPORTS:
            yield SavedReport(
                path.parent, gpu_report(name), ReportTable(read_csv(path), "", good=True)
            )


def drawn_again(name: str, folder: Path) -> dict[Path, Path]:
    """Draw figures by what draws the committed ones; committed stem → new stem."""
    if name == "gpu":
        draw_records(recorded(DATA / "gpu" / "h200"), folder / "figure")
        return {DATA / "gpu" / x: folder / x for x in ("figure", "figure-layers")}
    if name == "pebbling":
        pebbling_gap.draw(read_csv(DATA / "pebbling" / "gap.csv"), folder / "gap")
        return {DATA / "pebbling" / "gap": folder / "gap"}
    if name in TABLES:
        drawn = folder / Path(name).name
        plot_table(IMG / f"{name}.csv", drawn)
        return {IMG / name: drawn}
    reproduce.load(MODULES[name]).EXPERIMENT.draw(DATA / name, folder / name)
    return {DATA / name / name: folder / name}


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Experiments leave their figures open; many of them are a warning in another test."""
    yield
    plt.close("all")


@pytest.fixture(name="saved")
def _saved(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """Figures that are saved while a test runs, by the file's name; only SVGs are drawn."""
    found: dict[str, Figure] = {}
    save = Figure.savefig

    def noted(self: Figure, path: Any, *, format: str, **given: Any) -> None:
        if format == "svg":
            save(self, path, format=format, **given)
        else:
            path.touch()
        found[path.name] = self

    monkeypatch.setattr(Figure, "savefig", noted)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_committed_figure_is_drawn_again(
    name: str, tmp_path: Path, saved: dict[str, Figure]
) -> None:
    """Its lines, markers, colors and words; and the style of each figure."""
    drawn = drawn_again(name, tmp_path)
    figures = set(saved.values())
    assert len(figures) == (2 if name == "gpu" else 1)
    for figure in figures:
        assert not list(faults(figure))
    for kept, made in drawn.items():
        svg = [p.with_name(f"{p.name}.svg").read_text("utf-8") for p in (kept, made)]
        assert same_figure(*svg), f"{kept}.svg is not what is drawn now: draw it again"


def faults(figure: Figure) -> Iterator[str]:
    """What is wrong with the style of a figure."""
    figure.draw_without_rendering()
    wide = figure.get_tightbbox().width * 72
    for text in figure.findobj(Text):
        if text.get_text().strip() and text.get_visible():
            high = text.get_fontsize() * PAGE / wide
            if high < LEAST:
                yield f"{text.get_text()!r} is {high:.1f} pixels high"
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    for axes in panels:
        alone = len(panels) == 1 and figure.get_suptitle()
        # Residuals stand below what they are of.
        below = axes is not panels[0] and axes.get_shared_x_axes().joined(axes, panels[0])
        if not (axes.get_title() or alone or below):
            yield f"{axes} has no title"
        for label in (axes.get_xlabel(), axes.get_ylabel()):
            if re.search("words|bytes?", label) and not any(x in label for x in PLACES):
                yield f"{label!r} names no boundary"
    for legend in figure.findobj(Legend):
        box = legend.get_window_extent()
        for axes in panels:
            if box.shrunk(0.98, 0.98).overlaps(axes.get_window_extent()):
                yield f"the legend {[x.get_text() for x in legend.get_texts()]} is on the data"


def test_faults_are_found() -> None:
    """Small text, a legend on the data, no title, an axis without a boundary."""
    figure = Figure(figsize=(20, 5))
    axes, other = figure.subplots(1, 2)
    axes.plot([1, 2], label="a")
    axes.legend()
    axes.set(title="It", xlabel="words")
    told = " ".join(faults(figure))
    for fault in ("pixels high", "on the data", "has no title", "'words' names no boundary"):
        assert fault in told
    assert other.get_title() == ""


# What a figure could come to show instead: a pattern of its SVG, and what stands there then.
OTHERWISE = {
    "a word": (">capacity", ">size"),
    "where a word is": (r'(<text .*)x="\d+', r'\1x="9'),
    "the size of a word": ("font-size: 10px", "font-size: 9px"),
    "a line's color": ("stroke: #0072b2", "stroke: #d55e00"),
    "a marker's color": (r"(<g .*)fill: #\w+", r"\1fill: #123456"),
    "a line's width": ("stroke-width: 1.4", "stroke-width: 2"),
    "a line's dashes": (r"stroke-dasharray: \S+", "stroke-dasharray: 1,9"),
    "a point of a line": (r"L(\d+)\.", r"L1\1."),
    "a point too few": (r"L[\d. ]+z", "z"),
    "where a marker is": (r'(<use .*)y="\d+', r'\1y="9'),
    "a marker's shape": (r'(<use xlink:href="#m)\w+', r"\g<1>0123456789"),
    "a marker too few": (r"<use .*\n", ""),
    "what hides what": (r"(<path .*>)\n((?s:.*))(<path .*>)", r"\3\n\2\1"),
}


@pytest.mark.parametrize("change", OTHERWISE)
def test_another_figure_is_found(change: str) -> None:
    pattern, then = OTHERWISE[change]
    kept = (IMG / "slope.svg").read_text("utf-8")
    other = re.sub(pattern, then, kept, count=1)
    assert other != kept
    assert not same_figure(kept, other)


def test_a_rounding_is_no_other_figure() -> None:
    """Nor is another hash for a name of a shape, which a rounding makes."""
    kept = (IMG / "slope.svg").read_text("utf-8")
    (x,) = re.findall(r'<use .* x="(\d+\.\d+)"', kept)[:1]
    name = re.findall(r"#(m\w{10})", kept)[0]
    moved = kept.replace(f'x="{x}"', f'x="{float(x) + 0.01:.2f}"').replace(name, "m0123456789")
    assert moved.count("m0123456789") == kept.count(name) > 1
    assert same_figure(kept, moved)


def test_every_figure_is_drawn_by_a_test() -> None:
    """No figure lies in docs or experiments that no test draws."""
    known = {IMG / x for x in (*TABLES, "protocol", "two-memories")}
    known |= {DATA / "gpu" / x for x in ("figure", "figure-layers")}
    known |= {DATA / "pebbling" / "gap"} | {DATA / name / name for name in MODULES}
    found = {
        path.with_suffix("")
        for folder in ("docs", "experiments")
        for path in (ROOT / folder).rglob("*")
        if path.suffix == ".svg" and path.parent != ROOT / "docs" / "tutorials" / "img"
    }
    assert found == known


# Experiment → a table, a column, and another value of it: the title has to say something else.
CHANGED: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "e01_words": ("slopes", "fitted", lambda x: x / 2),
    "e02_gap": ("best", "gap", lambda x: x + 1),
    "e03_published": ("hbm", "hbm_gb", lambda x: x + 1),
    "e04_blocks": ("rule", "peak_without_min_words", lambda x: 2 * x),
    "e05_hardware": ("sm_l2", "unexplained_bytes", lambda x: x + 1),
    "e06_models": ("roofline", "limit", lambda x: "matrix units"),
    "e07_wall": ("machines", "bandwidth_over_p100", lambda x: 2 * x),
    "e08_fusion": ("layers", "of_none", lambda x: x / 2),
    "e09_data_movement": ("fused", "saved_percent", lambda x: x / 2),
    "e10_explicit_control": ("needs", "lru_capacity_over_M", lambda x: 2 * x),
    "e11_backward": ("best", "gap", lambda x: x + 1),
}


@pytest.mark.parametrize("name", MODULES)
def test_titles_say_what_the_tables_say(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = reproduce.load(MODULES[name])
    titles: list[list[str]] = []

    def noted(figure: Figure, stem: Path) -> list[Path]:
        titles.append([figure.get_suptitle(), *(axes.get_title() for axes in figure.axes)])
        return []

    monkeypatch.setattr(module, "save", noted)
    for table in (DATA / name).glob("*.csv"):
        shutil.copy(table, tmp_path)
    module.EXPERIMENT.draw(tmp_path, tmp_path / name)
    table, column, change = CHANGED[name]
    rows = read_csv(tmp_path / f"{table}.csv")
    write_csv(tmp_path / f"{table}.csv", [row | {column: change(row[column])} for row in rows])
    module.EXPERIMENT.draw(tmp_path, tmp_path / name)
    assert titles[0] != titles[1]
