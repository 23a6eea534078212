"""`iosim plot` takes what a sweep exports, as CSV and as Parquet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import iosim
import iosim.bounds
from iosim.base.errors import InputError
from iosim.cli.commands import COMMANDS
from iosim.cli.registry import program
from iosim.report import figures, plot
from iosim.report.table import read_csv

ROOT = Path(__file__).parents[2]


def test_a_sweep_is_drawn_from_its_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    from iosim.sweep import Folder, Sweep, collect, export_csv, serial

    sweep = Sweep.of(schedule="flash2,naive", N="64", d="8,16", M="100:800:x2")
    folder = Folder.declare(tmp_path / "rows", sweep)
    collect(folder, serial())
    export_csv([folder.path], tmp_path / "rows.csv")
    from pyarrow import parquet

    parquet.write_table(folder.to_arrow(), tmp_path / "rows.parquet")
    drawn = []
    draw = figures.sweep

    def noted(rows: figures.Rows) -> object:
        figure = draw(rows)
        drawn.append({x.get_label(): list(x.get_ydata()) for x in figure.axes[0].lines})
        return figure

    monkeypatch.setattr(figures, "sweep", noted)
    for table in (tmp_path / "rows.csv", tmp_path / "rows.parquet"):
        made = plot.plot_table(table, tmp_path / "figure")
        assert [p.suffix for p in made] == [".png", ".svg"]
    folder.plot()
    from_csv, from_shard, from_folder = drawn
    assert "flash2, d = 8" in from_csv
    assert from_csv == from_shard == from_folder


def test_a_table_that_has_no_figure_is_told(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("algorithm,M_words\nflash2,3\n")
    with pytest.raises(InputError, match="those of a sweep"):
        plot.plot_table(table, tmp_path / "figure")
    broken = tmp_path / "t.parquet"
    broken.write_bytes(b"nothing")
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="as Parquet"):
        plot.plot_table(broken, tmp_path / "figure")
    table.write_text("algorithm,M_words,total_words,lower_bound_words\nflash2,3,many,4\n")
    with pytest.raises(InputError, match="are not numbers"):
        plot.plot_table(table, tmp_path / "figure")


def test_a_sweep_is_drawn_from_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figure has all shards' rows; one shard of several, and one that is missing, are noted."""
    pytest.importorskip("pyarrow")
    from test_cli import ok

    from iosim.sweep import Folder, Sweep, collect, serial

    place = tmp_path / "a.b"  # a dot begins no suffix
    folder = Folder.declare(
        place, Sweep.of(schedule="flash2,naive", N="64", d="8", M="100:800:x2", shard_rows=4)
    )
    collect(folder, serial())
    assert len(folder.shards()) == 2
    monkeypatch.chdir(tmp_path)
    drawn, notes = [], []
    draw = figures.sweep

    def noted(rows: figures.Rows) -> object:
        drawn.append(sorted((x["algorithm"], x["M_words"], x["total_words"]) for x in rows))
        return draw(rows)

    def plotted(*words: str) -> str:
        done = CliRunner().invoke(program(COMMANDS), ["plot", *words])
        assert done.exit_code == 0
        notes.append(done.stderr)
        return done.stdout

    monkeypatch.setattr(figures, "sweep", noted)
    assert plotted("a.b") == plotted("a.b/") == "wrote a.b.png\nwrote a.b.svg\n"
    monkeypatch.chdir(place)
    assert plotted(".") == f"wrote {place}.png\nwrote {place}.svg\n"
    monkeypatch.chdir(tmp_path)
    assert plotted("a.b", "--save", "else") == "wrote else.png\nwrote else.svg\n"
    every = sorted(
        (x["algorithm"], x["M_words"], x["total_words"]) for x in folder.to_arrow().to_pylist()
    )
    assert drawn == [every] * 4
    assert len(every) == 8
    assert notes == [""] * 4
    first, second = (str(x.relative_to(tmp_path)) for x in folder.shards())
    plotted(second, "--save", "else")
    assert notes[-1] == (
        f"iosim: note: {second} is one of 2 shards of a sweep, and the rows of the others are left "
        "out: iosim plot a.b draws all\n"
    )
    beside = f"a.b-{Path(second).stem}"
    assert plotted(second) == f"wrote {beside}.png\nwrote {beside}.svg\n"
    monkeypatch.chdir(place)
    assert plotted(f"rows/{Path(second).name}") == (
        f"wrote ../{beside}.png\nwrote ../{beside}.svg\n"
    )
    monkeypatch.chdir(tmp_path)
    assert not [x for x in place.rglob("*") if x.suffix in (".png", ".svg")]
    Path(first).unlink()
    plotted("a.b")
    assert notes[-1] == "iosim: note: 1 of 2 shards are missing: iosim collect a.b adds them\n"
    plotted(second, "--save", "else")
    assert notes[-1] == ""
    assert ok("plot", "a.b") == "wrote a.b.png\nwrote a.b.svg\n"
    refused = CliRunner().invoke(program(COMMANDS), ["plot", "."]).exception
    assert isinstance(refused, InputError)
    assert str(refused) == "'.' holds no sweep: give one that iosim sweep wrote"


def test_the_figure_of_the_first_page_is_of_its_sweep() -> None:
    """docs/img/start.csv, which the figure is drawn from, has the rows of the page's command."""
    pytest.importorskip("pyarrow")
    from iosim.sweep import Sweep

    page = (ROOT / "docs/start.md").read_text("utf-8")
    (command,) = re.findall(r"^\$ (iosim sweep .*) --out rows$", page, re.M)
    words = command.split()[2:]
    sweep = Sweep.of(
        **{k.removeprefix("--"): v for k, v in zip(words[::2], words[1::2], strict=True)}
    )
    rows = read_csv(ROOT / "docs/img/start.csv")
    assert len(rows) == sweep.points
    want = {
        (t.algorithm, t.M, dict(t.sizes)["N"], dict(t.sizes)["d"])
        for t in map(sweep.task, range(sweep.points))
    }
    assert want == {(x["algorithm"], x["M_words"], x["N"], x["d"]) for x in rows}
    for row in rows:
        problem = iosim.Attention(row["N"], row["d"])
        best = iosim.optimal_tiles(
            iosim.algorithm(row["algorithm"]).program, problem, row["M_words"]
        )
        assert row["total_words"] == best.total_words
        bound = iosim.bounds.best_lower_bound(problem, row["M_words"], row["lower_bound_class"])
        assert row["lower_bound_words"] == pytest.approx(bound.words)
