"""What values show of themselves in notebooks: short reprs, whole HTML, tables, figures."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser

import iosim
from iosim import Attention, Counts, Machine, Tiling, algorithm, bind, count, simulate
from iosim.base import html
from iosim.base.display import Displayed, Tabled
from iosim.base.errors import InputError, IosimError, ProgramError
from iosim.base.rows import Table
from iosim.bounds import BoundRow
from iosim.core.counting import symbols
from iosim.kernel import count_kernel, derive_formula, describe_launch, load_kernel
from iosim.pebbling import Dag, Move, matmul, optimum
from iosim.report import figures, verify, views
from iosim.report import tightness as best

PROBLEM = Attention(N=10, d=2)
FLASH2 = algorithm("flash2")
INSTANCE = bind(FLASH2.program, PROBLEM.sizes, {"B_r": 4, "B_c": 3})
CAUSAL = Attention(N=1024, d=64, heads=2, causal=True)
SOFTMAX = "docs/examples/softmax.py::softmax"
VOID = {"br", "hr", "img", "meta", "link", "input"}


def values() -> dict[str, Any]:
    """One of each class that shows itself, and some with names that HTML must escape."""
    point = best.tightness(PROBLEM, 60)
    return {
        "Algorithm": FLASH2,
        "Program": FLASH2.program,
        "Instance": INSTANCE,
        "causal": bind(FLASH2.program_for(CAUSAL), CAUSAL.sizes, {"B_r": 64, "B_c": 16}),
        "Counts": count(INSTANCE),
        "Formula": symbols.count(FLASH2.program),
        "Tiling": iosim.optimal_tiles(FLASH2.program, PROBLEM, 60),
        "Run": simulate(INSTANCE, Machine(99), PROBLEM.random()),
        "Tightness": point,
        "Optimum": optimum(matmul(2, 2, 1), 4),
        "Dag": matmul(2, 2, 1),
        "Table": best.table([point]),
        "KernelCount": count_kernel(
            describe_launch(load_kernel(SOFTMAX), "8", {"columns": 64}, {}, {"BLOCK": 64})
        ),
        "formula of a kernel": derive_formula(
            describe_launch(load_kernel(SOFTMAX), "8", {"columns": 64}, {}, {"BLOCK": 64})
        ),
        "odd": Counts((("load", "<K & 'V'>"), 2**80)),
        "odd graph": optimum(Dag("<a> & b", {"<x>": (), "y&": ("<x>",)}), 2),
    }


VALUES = values()


class Read(HTMLParser):
    """The text of HTML, its tags, and a complaint where it is not well formed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def text_of(value: Any) -> str:
    return " ".join(Read(value._repr_html_()).text)


def numbers_of(value: Any) -> set[int]:
    """Every whole number of a value, sizes of arrays included; found without its HTML."""
    if isinstance(value, bool) or value is None or callable(value):
        return set()
    if isinstance(value, int):
        return {value}
    if isinstance(value, np.ndarray):
        return set(value.shape)
    if isinstance(value, dict):
        return set().union(*(numbers_of(v) for v in value.values()), set())
    if isinstance(value, (tuple, list)):
        return set().union(*(numbers_of(v) for v in value), set())
    if isinstance(value, Counts):
        totals = {value.load_words, value.store_words, value.total_words}
        return totals.union(*({words} for _, words in value))
    return set()


def test_broken_html_is_found() -> None:
    for text in ("<p>a", "<p>a</b></p>", "a</p>"):
        with pytest.raises(AssertionError):
            Read(text)


@pytest.mark.parametrize("name", VALUES)
def test_a_repr_is_one_short_line(name: str) -> None:
    text = repr(VALUES[name])
    assert "\n" not in text
    assert len(text) < 200
    assert "0x" not in text


@pytest.mark.parametrize("name", VALUES)
def test_html_is_well_formed_and_escaped(name: str) -> None:
    source = VALUES[name]._repr_html_()
    found = Read(source)
    assert found.tags[:2] == ["section", "h4"] or not getattr(VALUES[name], "title", "x")
    assert not {"script", "style", "img"} & set(found.tags)
    assert "color" not in source  # so it is legible on light and dark pages


@pytest.mark.parametrize("name", VALUES)
def test_html_has_every_number(name: str) -> None:
    value = VALUES[name]
    kinds = {
        "Instance": lambda v: numbers_of([[n for _, n in v.values], count(v), iosim.peak(v)]),
        "Run": lambda v: numbers_of([v.counts, v.peak_words, v.outputs]),
        "Tightness": lambda v: numbers_of([v.problem.as_dict, v.M, v.best.tiles, v.best.words]),
        "Optimum": lambda v: (
            numbers_of([v.M, v.cost, v.lower_bound, v.loads, v.stores, v.states])
            | set(range(1, len(v.schedule) + 1))
        ),
        "Table": lambda v: numbers_of([list(row.values()) for row in v]),
        "Counts": numbers_of,
        "Tiling": lambda v: numbers_of([v.tiles, v.total_words, v.peak_words]),
    }
    text = text_of(value)
    for number in kinds.get(type(value).__name__, lambda v: set())(value):
        assert re.search(rf"(?<![\d,]){number:,}(?![\d,]\d)", text), number


def test_html_has_every_word_of_a_bound_and_every_move() -> None:
    text = text_of(VALUES["Tightness"])
    rows: tuple[BoundRow, ...] = VALUES["Tightness"].bounds
    for row in rows:
        assert row.name in text
        assert repr(row.words) in text
    assert repr(VALUES["Tightness"].gap) in text
    text = text_of(VALUES["Optimum"])
    assert all(move.vertex in text for move in VALUES["Optimum"].schedule)


def test_names_are_escaped() -> None:
    source = VALUES["odd"]._repr_html_()
    assert "<K" not in source
    assert "<K & 'V'>" in text_of(VALUES["odd"])
    assert f"{2**80:,}" in source
    assert "<a>" not in VALUES["odd graph"]._repr_html_()
    assert "<a> & b" in text_of(VALUES["odd graph"])
    assert html.escaped(html.Markup("<b>")) == "<b>"


def test_listings_are_whole() -> None:
    program = FLASH2.program
    for value, listing in (
        (program, iosim.show(program)),
        (INSTANCE, iosim.show(program, INSTANCE)),
        (FLASH2, iosim.show(program)),
    ):
        assert listing.rstrip() in text_of(value)


def test_what_has_no_closed_form_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise ProgramError("no closed form")

    monkeypatch.setattr(views, "show", refuse)
    assert "no closed form" in text_of(FLASH2.program)
    monkeypatch.setattr(views.numbers, "count", refuse)
    assert "no closed form" in text_of(INSTANCE)


@pytest.mark.parametrize("name", ["Counts", "odd", "Tiling"])
def test_results_are_what_their_repr_says(name: str) -> None:
    value = VALUES[name]
    assert eval(repr(value), {"Counts": Counts, "Tiling": Tiling}) == value


def test_results_are_frozen_and_built_by_keyword() -> None:
    for name in ("Tiling", "Run", "Tightness", "Optimum"):
        value = VALUES[name]
        fields = dataclasses.fields(value)
        assert all(field.kw_only for field in fields)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, fields[0].name, None)
    move = Move("load", "a")
    assert eval(repr(move)) == move


def test_every_class_that_shows_itself_is_tested() -> None:
    def below(kind: type) -> set[type]:
        return {kind}.union(*(below(x) for x in kind.__subclasses__()))

    tested = {type(value) for value in VALUES.values()} | {Displayed, Tabled}
    # What a sweep gives is tested with sweeps, below.
    assert {x.__name__ for x in below(Displayed) if x.__module__.startswith("iosim")} - {
        x.__name__ for x in tested
    } <= {"Folder"}


@pytest.mark.numbers
def test_formulas_as_latex() -> None:
    """matplotlib sets every formula; what it doesn't know (cases) is looked at by its braces."""
    parser = MathTextParser("path")
    seen = 0
    forms = [*((a, a.plain_form) for a in iosim.all_algorithms()), (FLASH2, CAUSAL)]
    for entry, form in forms:
        found = symbols.count(entry.program_for(form))
        text = found._repr_latex_()
        assert text.startswith("$$\\begin{aligned}\n")
        assert text.endswith("\n\\end{aligned}$$")
        assert "MaxOver" not in text
        lines = text.splitlines()[1:-1]
        assert len(lines) == len(found.words) + 2
        for line in lines:
            assert line.count("{") == line.count("}")
            assert line.count("\\left") == line.count("\\right")
            if "cases" not in line:
                parser.parse(f"${line.replace('&', '').removesuffix(chr(92) * 2)}$")
                seen += 1
    assert seen > 50
    with pytest.raises(ValueError, match="Expected"):
        parser.parse("$\\frac{a}$")


def test_formulas_as_mathml() -> None:
    masked = symbols.count(FLASH2.program_for(CAUSAL))
    found = Read(masked._repr_html_())
    assert "math" in found.tags
    assert "max" in found.text
    assert "maxover" not in "".join(found.text).lower()
    assert found.text.count("max") == 2  # of the whole peak, and of one loop


ROWS = (
    {"name": "a", "words": 3, "gap": 1.5, "ok": True},
    {"name": "b", "words": 2**70, "gap": None, "ok": False, "more": -1},
)


def test_tables_go_to_arrow_and_back() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    found = Table(ROWS).to_arrow()
    assert found.column_names == ["name", "words", "gap", "ok", "more"]
    assert pyarrow.types.is_decimal(found.schema.field("words").type)
    back = [{k: int(v) if k == "words" else v for k, v in row.items()} for row in found.to_pylist()]
    assert back == [{**dict.fromkeys(found.column_names), **row} for row in ROWS]
    plain = count(INSTANCE).to_arrow()
    assert pyarrow.types.is_integer(plain.schema.field("load_words").type)
    assert plain.to_pylist() == list(count(INSTANCE).table())


def test_tables_go_to_pandas_and_back() -> None:
    pandas = pytest.importorskip("pandas")
    frame = Table(ROWS).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["words"].tolist() == [3, 2**70]
    for name in ("Counts", "Run", "Tightness", "Optimum", "Table"):
        value = VALUES[name]
        table = value if name == "Table" else value.table()
        frame = value.to_pandas()
        assert len(frame) == len(table) > 0
        for row, back in zip(table, frame.to_dict("records"), strict=True):
            assert {k: v for k, v in row.items() if v is not None} == {
                k: v for k, v in back.items() if k in row and row[k] is not None
            }


@pytest.mark.parametrize("name", ["pandas", "pyarrow"])
def test_a_missing_library_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., Any] = importlib.import_module

    def refuse_import(asked: str, *more: Any) -> Any:
        if asked == name:
            raise ModuleNotFoundError(f"No module named {asked!r}", name=asked)
        return real(asked, *more)

    monkeypatch.setattr(importlib, "import_module", refuse_import)
    with pytest.raises(IosimError, match=rf"{name} is missing: .* -m pip install {name}$"):
        {"pandas": Table(ROWS).to_pandas, "pyarrow": Table(ROWS).to_arrow}[name]()


def test_tables_are_sequences() -> None:
    table = Table(ROWS, "some")
    assert list(table) == list(ROWS)
    assert table[-1] == ROWS[1]
    assert table[:1] == Table(ROWS[:1], "some")
    with pytest.raises(InputError, match="no figure belongs to <Table some: 2 rows"):
        table.plot()


def labels(axes: Any) -> set[str]:
    return {text.get_text().strip() for text in axes.texts}


def test_figures_have_the_data_of_their_tables() -> None:
    counts = Counts.of({("load", "K"): 30, ("load", "Q"): 5, ("store", "Q"): 7})
    figure = counts.plot()
    assert isinstance(figure, Figure)
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    assert widths == [30, 5, 0, 7]
    assert [bar.get_x() for bar in figure.axes[0].patches] == [0, 0, 30, 5]
    assert labels(figure.axes[0]) == {"30", "12"}
    point = VALUES["Tightness"]
    axes = point.plot().axes[0]
    drawn = {line.get_ydata()[0]: line.get_xdata()[0] for line in axes.lines}
    words = {row.name: row.words for row in point.bounds if row.words}
    assert drawn == {point.best.algorithm: point.best.words, **words}
    found = VALUES["Optimum"]
    above, below = found.plot().axes
    rows = found.table()
    assert list(above.lines[0].get_ydata()) == [row["red_words"] for row in rows]
    assert max(row["red_words"] for row in rows) <= found.M
    assert below.dataLim.ymax == found.cost == found.loads + found.stores
    assert (rows[-1]["loads"], rows[-1]["stores"]) == (found.loads, found.stores)


def test_figures_of_points_and_runs() -> None:
    points = best.sweep(64, [8], [40, 100, 400])
    axes = best.table(points).plot().axes[0]
    assert list(axes.lines[0].get_ydata()) == [round(p.gap, 6) for p in points]
    table = verify.table(verify.verify(PROBLEM, sizes=[60, 90], workers=1))
    lines = {line.get_label(): line for line in table.plot().axes[0].lines}
    assert "largest lower bound, class once" in lines


def test_a_figure_is_shown_once_and_touches_no_backend() -> None:
    code = (
        "import matplotlib; matplotlib.use('svg')\n"
        "from iosim import Counts\n"
        "figure = Counts((('load', 'K'), 3)).plot()\n"
        "assert figure._repr_png_()[:4] == bytes([137, 80, 78, 71])\n"
        "import sys; assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert matplotlib.get_backend() == 'svg'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_sweeps_show_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    from iosim.sweep import Folder, Sweep, collect, serial

    monkeypatch.setattr(views, "SHOWN_ROWS", 4)
    sweep = Sweep.of(schedule="flash2,naive", N="64", d="8,16", M="100:800:x2")
    folder = Folder.declare(tmp_path / "rows", sweep)
    collect(folder, serial())
    assert repr(folder) == f"<Folder {str(tmp_path / 'rows')!r}: sweep>"
    arrow = folder.to_arrow()
    assert arrow.num_rows == sweep.points == len(folder.to_pandas())
    text = text_of(folder)
    assert f"{sweep.points} rows, here the first 4" in re.sub(r"\s+", " ", text)
    first = arrow.slice(0, 1).to_pylist()[0]
    assert f"{first['total_words']:,}" in text
    lines = {line.get_label(): line for line in folder.plot().axes[0].lines}
    flash = [
        row["total_words"]
        for row in arrow.to_pylist()
        if (row["algorithm"], row["d"]) == ("flash2", 8) and row["total_words"] is not None
    ]
    assert list(lines["flash2, d = 8"].get_ydata()) == flash
    assert sum(label == "largest lower bound, class once" for label in lines) == 1
    with pytest.raises(InputError, match="no rows that were counted"):
        figures.sweep([])


def test_the_core_stays_light() -> None:
    code = (
        "import iosim, sys; p = iosim.algorithm('flash2').program; repr(p)\n"
        "heavy = {'sympy', 'matplotlib', 'pyarrow', 'pandas', 'iosim.report.views'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


NOTEBOOK = Path(__file__).parents[2] / "docs/notebooks/tour.ipynb"
ASKED = {"text/html": "_repr_html_", "text/latex": "_repr_latex_"}


def cells() -> list[dict[str, Any]]:
    """The cells of code that run everywhere; the widget needs an extra."""
    told = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (told["nbformat"], told["nbformat_minor"]) == (4, 5)
    every = [x for x in told["cells"] if x["cell_type"] == "code"]
    return [x for x in every if "widget" not in x["metadata"].get("tags", ())]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell; the value of its last line."""
    *before, last = ast.parse(source).body
    assert isinstance(last, ast.Expr)
    exec(compile(ast.Module(before, []), "<cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


def output_of(number: int, value: Any) -> dict[str, Any]:
    """What a cell's value is in a notebook's file; of figures the text only."""
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    for kind, name in ASKED.items():
        told = getattr(value, name, lambda: None)()
        if told is not None:
            data[kind] = told.splitlines(keepends=True)
    return {
        "data": data,
        "execution_count": number,
        "metadata": {},
        "output_type": "execute_result",
    }


def test_the_notebook_runs_and_gives_what_it_shows(request: pytest.FixtureRequest) -> None:
    pytest.importorskip("pandas")
    names: dict[str, Any] = {}
    made = [
        [output_of(number, run_cell("".join(cell["source"]), names))]
        for number, cell in enumerate(cells(), 1)
    ]
    if request.config.getoption("--update-golden"):
        told = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
        mine = {cell["id"]: outputs for cell, outputs in zip(cells(), made, strict=True)}
        for cell in told["cells"]:
            if cell["id"] in mine:
                cell["outputs"] = mine[cell["id"]]
                cell["execution_count"] = mine[cell["id"]][0]["execution_count"]
        text = json.dumps(told, indent=1, ensure_ascii=False)
        NOTEBOOK.write_text(text + "\n", encoding="utf-8")
    for cell, outputs in zip(cells(), made, strict=True):
        assert cell["outputs"] == outputs, cell["id"]
    kinds = {kind for outputs in made for kind in outputs[0]["data"]}
    assert kinds == {"text/plain", *ASKED}
    assert names["iosim"].count(names["instance"]).plot()._repr_png_()


def test_a_notebook_shows_what_the_file_says() -> None:
    """IPython asks the same values in its own way."""
    shells = pytest.importorskip("IPython.core.interactiveshell")
    shell = shells.InteractiveShell()
    for cell in cells():
        done = shell.run_cell("".join(cell["source"]))
        done.raise_error()
        data, _ = shell.display_formatter.format(done.result)
        for kind, lines in cell["outputs"][0]["data"].items():
            if kind in ASKED:
                assert data[kind] == "".join(lines), (cell["id"], kind)
        if cell["id"] == "figure":
            assert data["image/png"]
