"""The figure of compared constants: its front by trying all pairs, and labels that don't meet."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from matplotlib.text import Annotation, Text

from iosim.base.rows import Table
from iosim.cli.commands import COMMANDS
from iosim.cli.registry import program

FRONT = "iosim.report.figures:front"


def invoke(*words: str) -> str:
    """What `iosim kernel tiles` prints."""
    done = CliRunner().invoke(program(COMMANDS), ["kernel", "tiles", *words])
    assert done.exit_code == 0, done.output
    return str(done.stdout)


def row(room: int, moved: int, mark: str) -> dict[str, Any]:
    """A choice of constants, with names that are long."""
    named = {"BLOCK_M": room, "BLOCK_N": moved, "num_stages": 3}
    return named | {"words": moved, "bytes": moved, "live_bytes": room, "front": mark}


def labels_of(figure: Any) -> list[Annotation]:
    """The labels of points."""
    return [x for x in figure.axes[0].texts if isinstance(x, Annotation)]


@pytest.mark.parametrize("seed", range(4))
def test_labels_of_a_front_meet_nothing(seed: int) -> None:
    """Points that are close together, or nearly at one height."""
    draw = random.Random(seed)
    n = draw.choice([1, 5, 20])
    rooms = sorted(draw.sample(range(1000, 1000 + 100 * n), n))
    moved = sorted(draw.sample(range(10**6, 10**6 + 1000 * n), n), reverse=True)
    rows = [row(x, y, "*") for x, y in zip(rooms, moved, strict=True)]
    rows += [row(x + 500, y + 500, "") for x, y in zip(rooms, moved, strict=True)]
    figure = Table(tuple(rows), "", FRONT).plot()
    figure.draw_without_rendering()
    (axes,) = figure.axes
    labels = labels_of(figure)
    assert [x.get_text() for x in labels] == [
        f"{x}, {y}, 3" for x, y in zip(rooms, moved, strict=True)
    ]
    texts = [Text.get_window_extent(x) for x in labels]  # without the lines that lead there
    for one, other in itertools.combinations(texts, 2):
        assert not one.overlaps(other)
    area = axes.get_window_extent()
    assert all(area.x0 < b.x0 and area.y0 < b.y0 for b in texts)
    for x, y in zip(rooms, moved, strict=True):
        at = axes.transData.transform((x / 1024, y))
        assert not any(b.contains(*at) for b in texts)


def test_choices_that_do_not_run_stand_apart() -> None:
    rows = (row(2048, 100, "*"), row(4096, 200, ""), row(8192, 50, "doesn't run"))
    (axes,) = Table(rows, "", FRONT).plot().axes
    drawn = {x.get_label(): x.get_xydata().tolist() for x in axes.lines}
    assert drawn["doesn't run"] == [[8, 50]]
    assert drawn["another choice is better"] == [[4, 200]]
    assert drawn["on the front"] == [[2, 100]]
    assert "model" in axes.get_ylabel()
    assert "fast memory" in axes.get_xlabel()
    nothing = Table(rows[2:], "", FRONT).plot().axes[0]
    assert nothing.get_title() == "No choice of constants runs"


def test_the_command_draws_the_front(tmp_path: Path) -> None:
    """Of all choices, those that no other one beats, each compared with each."""
    words = ["docs/examples/attention.py::attention", "--grid", "cdiv(N,BR)", "--arg", "N=256"]
    words += ["--const", "D=16,CAUSAL=True", "--vary", "BR=16,32,64", "--vary", "BC=16,32"]
    said = invoke(*words, "--save", str(tmp_path / "front"))
    made = [tmp_path / f"front.{x}" for x in ("png", "svg")]
    assert [f"wrote {p}" for p in made] == said.splitlines()[-2:]
    assert all(p.stat().st_size for p in made)
    names, *lines = [line.split() for line in said.splitlines()[:7]]
    rows = [dict(zip(names, line, strict=False)) for line in lines]
    points = [tuple(int(r[x].replace(",", "")) for x in ("bytes", "live_bytes")) for r in rows]
    for r, (moved, room) in zip(rows, points, strict=True):
        beaten = any(a <= moved and b <= room and (a, b) != (moved, room) for a, b in points)
        assert ("front" in r) is not beaten
    text = made[1].read_text()
    on_front = [r for r in rows if "front" in r]
    assert 1 < len(on_front) < 6
    assert all(f">{r['BR']}, {r['BC']}<" in text for r in on_front)
