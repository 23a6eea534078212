"""`iosim plot` takes what a sweep exports, as CSV and as Parquet."""

from __future__ import annotations

from pathlib import Path

import pytest

from iosim.errors import InputError
from iosim.output import figures, plot


def test_a_sweep_is_drawn_from_its_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    from iosim.sweep import Folder, Sweep, collect, export_csv, serial

    sweep = Sweep.of(algo="flash2,naive", N="64", d="8,16", M="100:800:x2")
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
    with pytest.raises(InputError, match="are no numbers"):
        plot.plot_table(table, tmp_path / "figure")
