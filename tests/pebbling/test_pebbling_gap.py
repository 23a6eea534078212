"""The committed optima of attention beside the bounds: they agree with the other table and rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from same_figure import figure_texts

from experiments import pebbling_gap
from experiments._pebbling_tables import write_table
from iosim.base.errors import InputError
from iosim.bounds import bound
from iosim.core.problem import Attention
from iosim.report.table import read_csv

pytestmark = pytest.mark.numbers

FOLDER = Path(__file__).parents[2] / "experiments" / "data" / "pebbling"
ROWS = read_csv(FOLDER / "gap.csv")
BOUNDS = list(ROWS[0])[list(ROWS[0]).index("moments") :]


def test_no_bound_is_above_an_optimum() -> None:
    optima, met = pebbling_gap.recorded(), 0
    for row in ROWS:
        assert row["proved_words"] <= row["optimum_words"]
        assert row["optimal"] == (row["proved_words"] == row["optimum_words"])
        for name in BOUNDS:
            assert row[name] is None or row[name] <= row["optimum_words"]
        known = optima.get((f"attention {row['instance']}", row["M_words"]))
        assert known is None or known == row["optimum_words"]
        met += known is not None
    assert met == 25


def test_what_the_page_says() -> None:
    above = [r for r in ROWS if r["constant-tight-once"] > r["compulsory"]]
    assert (len(above), len(ROWS)) == (5, 52)
    larger = []
    for row in ROWS:
        known = {x: row[x] for x in BOUNDS if x != "moments" and row[x] is not None}
        if max(known.values()) > row["constant-tight-once"]:
            larger.append(max(known, key=known.get))
            assert known[larger[-1]] <= 1.2 * row["constant-tight-once"]
    assert larger == ["stays", "stays"]
    under = [r for r in ROWS if r["instance"] == "N=4 d=1" and r["M_words"] > 3]
    assert {r[x] for r in under for x in ("moments", "constant-tight-once", "compulsory")} == {16}


def test_the_bounds_hold_for_the_game_and_are_drawn(tmp_path: Path) -> None:
    """None has words for row sums, which the game has not; the largest theorem is in the figure."""
    theorems = [name for name in BOUNDS if name != "moments"]
    assert not any(bound(name).row_sums for name in theorems)
    pebbling_gap.draw(ROWS, tmp_path / "gap")
    drawn = figure_texts((tmp_path / "gap.svg").read_text("utf-8"))
    here = [r for r in ROWS if r["instance"] == "N=4 d=1"]
    assert len(here) == 9
    for row in here:
        largest = max(row[name] or 0 for name in theorems)
        assert largest == max(row[name] or 0 for name in theorems if name in drawn)


@pytest.mark.parametrize("M", [4, 5, 6])
def test_a_row_comes_out_again(M: int) -> None:
    made = pebbling_gap.row(Attention(2, 1), M, seconds=4)
    (kept,) = (r for r in ROWS if (r["instance"], r["M_words"]) == ("N=2 d=1", M))
    for key in set(kept) - {"seconds", "proved_by"}:
        assert made.get(key) == kept[key], key


def test_the_title_follows_the_rows(tmp_path: Path) -> None:
    def draw_figure() -> str:
        pebbling_gap.main(["--draw", "--out", str(tmp_path)])
        return (tmp_path / "gap.svg").read_text("utf-8")

    shutil.copy(FOLDER / "gap.csv", tmp_path)
    before = draw_figure()
    assert "33 of 52 optima proved" in before
    assert "Upright lines, not proved: best lower bound to best schedule" in before
    text = (tmp_path / "gap.csv").read_text("utf-8")
    (tmp_path / "gap.csv").write_text(text.replace(",26,26,True,", ",27,26,False,"), "utf-8")
    assert "32 of 52 optima proved" in draw_figure()
    lines = text.splitlines(keepends=True)
    proved = [x for x in lines if ",True," in x]
    (tmp_path / "gap.csv").write_text("".join([lines[0], *proved]), "utf-8")
    after = draw_figure()
    assert "33 of 33 optima proved" in after
    assert "Upright lines" not in after


def test_rows_known_twice_are_merged() -> None:
    old = {"proved_words": 5, "optimum_words": 9, "proved_by": "search", "optimal": False}
    new = {"proved_words": 4, "optimum_words": 5, "proved_by": "moments", "optimal": False}
    both = pebbling_gap.merged(dict(new), dict(old))
    assert both == {"proved_words": 5, "optimum_words": 5, "proved_by": "search", "optimal": True}
    assert pebbling_gap.merged(dict(new), None) == new


def test_a_table_that_is_there_is_carried_on(tmp_path: Path) -> None:
    """The rows come out as they are committed; only the provenance is the new run's."""
    shutil.copy(FOLDER / "gap.csv", tmp_path)
    pebbling_gap.main(["--out", str(tmp_path)])
    assert (tmp_path / "gap.csv").read_bytes() == (FOLDER / "gap.csv").read_bytes()
    assert (tmp_path / "gap.png").exists()
    about, kept = (json.loads((x / "gap.json").read_text("utf-8")) for x in (tmp_path, FOLDER))
    assert about["command"] == f"python -m experiments.pebbling_gap --out {tmp_path}"
    assert [about[x] for x in ("rows", "proved")] == [kept[x] for x in ("rows", "proved")]


def test_a_table_whose_rows_end_badly_is_not_written(tmp_path: Path) -> None:
    def bad() -> Iterator[dict[str, Any]]:
        yield dict(ROWS[0])
        raise InputError("no more")

    def draw(rows: object, stem: Path) -> list[Path]:
        raise OSError("no figure")

    for rows in (bad(), iter([dict(ROWS[0])])):
        with pytest.raises(InputError, match=r"no more|cannot write"):
            write_table(tmp_path / "x", rows, "{instance}", {}, draw)
    assert not list(tmp_path.iterdir())
