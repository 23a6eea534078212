"""Tutorials: their pages, the notebooks that are made from them, their figures, their judges."""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from same_figure import same_figure
from test_site import extension

import iosim
from iosim.lab.exercises.judge import UNANSWERED, judge, judge_formula

tutorials = extension("tutorials")
PAGES = tutorials.pages()
FLASH2 = iosim.algorithm("flash2").program
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)


@pytest.mark.numbers
@each_page
def test_a_page_shows_the_figures_that_its_code_draws(page: Path, tmp_path: Path) -> None:
    """Its cells run in order, without the solutions."""
    made = tutorials.write_figures(tmp_path, [page])
    for figure in made:
        kept = tutorials.FIGURES / figure.name
        assert same_figure(kept.read_text("utf-8"), figure.read_text("utf-8")), (
            f"{kept} is not what {page} draws: run python docs/_ext/tutorials.py figures"
        )


def test_another_figure_is_found() -> None:
    kept = (tutorials.FIGURES / "words_of_versions.svg").read_text("utf-8")
    assert same_figure(kept, kept)
    assert not same_figure(kept, kept.replace(">words moved", ">bytes moved"))
    assert not same_figure(kept, re.sub(r"L(\d+)\.", "L1.", kept))


def test_no_figure_is_left_over() -> None:
    shown = {
        name for page in PAGES for name in re.findall(r"img/(\w+)\.svg", page.read_text("utf-8"))
    }
    assert shown == {p.stem for p in tutorials.FIGURES.iterdir()}


@each_page
def test_solutions_and_questions_come_together(page: Path) -> None:
    text = page.read_text("utf-8")
    folded = re.findall(
        r"^<details><summary>.*?</summary>\n\n.*?\n\n</details>\n", text, re.M | re.S
    )
    assert len(folded) == text.count("<details>") >= 3
    # What a judge is asked on the page is unanswered, and right in the solution.
    open_ = text
    for part in folded:
        open_ = open_.replace(part, "")
        for answer in re.findall(r">>> judge.*\n(?:\.\.\. .*\n)*(.*)", part):
            assert answer.startswith("'right"), part
    for answer in re.findall(r">>> judge.*\n(?:\.\.\. .*\n)*(.*)", open_):
        assert answer == repr(UNANSWERED), page
    assert open_.count(">>> judge") <= text.count(">>> judge") - open_.count(">>> judge")


@each_page
def test_a_notebook_of_jupyter_runs(page: Path) -> None:
    nbformat, nbclient = (pytest.importorskip(x) for x in ("nbformat", "nbclient"))
    pytest.importorskip("ipykernel")
    made = nbformat.reads(json.dumps(tutorials.notebook(page.read_text("utf-8"))), 4)
    nbformat.validate(made)
    client = nbclient.NotebookClient(made, resources={"metadata": {"path": str(tutorials.ROOT)}})
    client.execute()
    shown = [x for cell in made.cells if cell.cell_type == "code" for x in cell.outputs]
    drawn = [x for x in shown if "image/png" in x.get("data", {})]
    assert len(drawn) == page.read_text("utf-8").count("](img/")
    assert [x for x in shown if UNANSWERED in str(x)]


@pytest.fixture(scope="module", name="notebooks")
def _notebooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("marimo")
    folder = tmp_path_factory.mktemp("notebooks")
    tutorials.write_notebooks(folder)
    return folder


@each_page
def test_a_notebook_of_marimo_runs_as_a_script(page: Path, notebooks: Path) -> None:
    made = notebooks / f"{page.stem}.py"
    assert "<details>" not in made.read_text("utf-8")
    done = subprocess.run(
        [sys.executable, str(made)],
        capture_output=True,
        text=True,
        cwd=tutorials.ROOT,
        env=os.environ | {"PYTHONPATH": str(tutorials.ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((notebooks / f"{page.stem}.ipynb").read_text("utf-8"))["nbformat"] == 4


def test_a_page_becomes_cells() -> None:
    assert not doctest.testmod(tutorials).failed
    page = (
        "# T\n\n<!-- introductory -->\n\n```pycon\n>>> f = 1\n```\n\n![It](img/f.svg)\n\n"
        "See [that](../gpu.md#x) and [this](https://a.b/c.md).\n\n"
        "<details><summary>Solution</summary>\n\n```pycon\n>>> g = 2\n```\n\n</details>\n"
    )
    title, code, text = tutorials.cells(page)
    assert (title.text, code.text) == ("# T", "f = 1\nf")
    assert "(../gpu.html#x) and [this](https://a.b/c.md)" in text.text
    assert ">>> g = 2" in text.text
    made: Any = tutorials.notebook(page, marimo=True)["cells"][-1]
    assert "/// details | Solution\n" in made["source"]
    assert made["source"][-1] == "///"


def test_a_judge_tells_right_from_wrong() -> None:
    assert judge(None, 3) == UNANSWERED == judge_formula(None, FLASH2)
    assert judge(10, 11, tolerance=0.1) == "right" != judge(9, 11, tolerance=0.1)
    assert judge(-1, 3) == "not yet: -1 is too small"
    assert judge("compute", "compute") == "right" != judge(3, "compute")
    assert judge_formula("heads*(2*N*d + 2*N*d*ceil(N/B_r))", FLASH2).startswith("right")
    assert judge_formula("heads*(2*N*d + 2*N*d*N/B_r)", FLASH2).startswith("not yet")
    with pytest.raises(iosim.InputError, match="unknown name 'B_x'"):
        judge_formula("N*B_x", FLASH2)
    with pytest.raises(iosim.InputError, match="has no count 'load X'"):
        judge_formula("N", FLASH2, "load X")
