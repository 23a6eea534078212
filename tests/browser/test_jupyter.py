"""The widget in JupyterLab itself, which is large: .ci/lab makes an environment that has it.

By hand, in one with JupyterLab, pandas and what ``iosim[lab]`` needs, of this tree's iosim::

    IOSIM_JUPYTER=that/bin/jupyter-lab pytest tests/browser/test_jupyter.py

Without the variable, the tests run where JupyterLab is installed beside pytest, and are skipped
elsewhere.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import iosim

JUPYTER = Path(os.environ.get("IOSIM_JUPYTER") or Path(sys.executable).with_name("jupyter-lab"))
if not JUPYTER.is_file():
    pytest.skip(
        "no JupyterLab: pip install jupyterlab pandas 'iosim[lab]' in an environment, and run "
        "IOSIM_JUPYTER=that/bin/jupyter-lab pytest tests/browser/test_jupyter.py",
        allow_module_level=True,
    )

ROOT = Path(__file__).parents[2]
WATCH = """import iosim
problem = iosim.Attention(N=64, d=16)
program = iosim.algorithm("flash2").program
iosim.watch(iosim.bind(program, problem.sizes, {"B_r": 16, "B_c": 8}))"""
OWN = """import iosim
problem = iosim.Attention(N=64, d=16)
def rows(b):
    (B,) = b.tile_sizes("N", "B")
    for h in b.grid("heads"):
        for i in b.grid("N", B):
            q = b.load("Q", h, i, "d")
            b.store(q, "O", h, i, "d")
            b.free(q)
rows = iosim.build("rows", iosim.Attention, rows)
iosim.watch(iosim.bind(rows, problem.sizes, {"B": 16}))"""
MANY_TILES = """import iosim
problem = iosim.Attention(N=4096, d=64, causal=True)
program = iosim.algorithm("small_tiles").program_for(problem)
iosim.watch(iosim.bind(program, problem.sizes, iosim.optimal_tiles(program, problem, 500).tiles))"""
# The page thinks that its searches take a thousand times as long.
SLOW_PAGE = """const now = performance.now.bind(performance);
performance.now = () => 1000 * now();"""
LAB = """from iosim.lab.widget import lab
lab(["pebbles"])"""
VALUES = """from IPython.display import display
best = iosim.optimal_tiles(program, problem, 1000)
instance = iosim.bind(program, problem.sizes, best.tiles)
display(program, instance, best, iosim.count(instance),
        iosim.count(instance).plot(), iosim.count(instance).to_pandas())"""


def notebook(*cells: str) -> str:
    """A notebook of these cells."""
    made = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": f"c{k}",
            "metadata": {},
            "outputs": [],
            "source": source,
        }
        for k, source in enumerate(cells)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps(
        {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """JupyterLab's address, and the folder that it serves."""
    folder = tmp_path_factory.mktemp("notebooks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    programs = f"{JUPYTER.parent}{os.pathsep}{os.environ['PATH']}"
    home = tmp_path_factory.mktemp("home")
    env = {**os.environ, "PATH": programs, "HOME": str(home), "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(
        [
            str(JUPYTER),
            "--no-browser",
            "--allow-root",
            "--ServerApp.token=",
            f"--port={port}",
            "--ServerApp.password=",
            f"--ServerApp.root_dir={folder}",
            "--port-retries=0",
            "--expose-app-in-browser",
        ],
        cwd=folder,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{address}/api", timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        yield address, folder
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture
def run_cells(browser: Browser, served: tuple[str, Path]) -> Iterator[Callable[..., Page]]:
    """Opens a notebook and runs its cells; the console must stay without errors.

    The page has ``asked``: the texts that it sent to Python.
    """
    address, folder = served
    said: list[str] = []
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(60_000)

    def opened(name: str, *cells: str, script: str = "") -> Page:
        # A name of its own: at a second attempt JupyterLab would go on with the first one's kernel.
        name = f"{name}-{uuid.uuid4().hex[:8]}"
        (folder / f"{name}.ipynb").write_text(notebook(*cells), encoding="utf-8")
        page: Any = context.new_page()
        page.add_init_script(script)
        page.asked = []

        def sent(frame: Any) -> None:
            text = frame if isinstance(frame, str) else frame.decode("utf-8", "replace")
            page.asked.append(text)

        page.on("websocket", lambda socket: socket.on("framesent", sent))
        page.on("console", lambda x: said.append(x.text) if x.type == "error" else None)
        page.on("pageerror", lambda x: said.append(str(x)))
        page.goto(f"{address}/lab/tree/{name}.ipynb?reset")
        # Without a kernel yet, running would ask which one.
        page.wait_for_function(
            "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status"
            " === 'idle'"
        )
        page.evaluate("void jupyterapp.commands.execute('notebook:run-all-cells')")
        # The last cell that was run has its number.
        last = page.locator(".jp-CodeCell").nth(len(cells) - 1).locator(".jp-InputPrompt")
        expect(last).to_have_text(f"[{len(cells)}]:", timeout=60_000)
        return page

    yield opened
    context.close()
    assert said == []


def counters(page: Any) -> dict[str, int]:
    """Words so far by counter, as the widget's table shows them."""
    rows = page.locator(".counters tbody tr")
    cells = [row.locator("th, td").all_inner_texts() for row in rows.all()]
    return {row[0].strip(): int(row[1].replace(",", "")) for row in cells}


def count_words(program: Any, problem: Any, tiles: dict[str, int]) -> dict[str, int]:
    """The same of `iosim.count`."""
    found = iosim.count(iosim.bind(program, problem.sizes, tiles))
    words = {
        f"{way} {tensor}": n
        for way in ("load", "store")
        for tensor, n in found.by_tensor(way).items()
        if n
    }
    return words | {"all words": found.total_words}


def test_watch_in_a_cell(run_cells: Callable[..., Any]) -> None:
    page = run_cells("watch", WATCH)
    view = page.locator(".jp-OutputArea [data-view=watch]")
    expect(view).to_be_visible()
    assert set(counters(view).values()) == {0}
    view.get_by_role("button", name="Step forward").first.click()
    expect(view).to_contain_text("1 of ")
    # It plays, and stops.
    view.get_by_label("Speed").select_option(label="64 steps/s")
    view.get_by_role("button", name="Play").first.click()
    page.wait_for_timeout(500)
    view.get_by_role("button", name="Pause").first.click()
    program, problem = iosim.algorithm("flash2").program, iosim.Attention(64, 16)
    words = count_words(program, problem, {"B_r": 16, "B_c": 8})
    assert 0 < counters(view)["all words"] < words["all words"]
    view.get_by_role("button", name="To the end").first.click()
    assert counters(view) == words


def test_python_is_asked_for_tiles(run_cells: Callable[..., Any]) -> None:
    """Where the page's search takes long, Python's tiles come before."""
    page = run_cells("asked", MANY_TILES, script=SLOW_PAGE)
    view = page.locator(".jp-OutputArea [data-view=watch]")
    field = view.get_by_label("M, words", exact=True)
    field.fill("2000")
    field.press("Enter")
    view.locator(".tiling summary").click()
    view.get_by_role("button", name="Choose for the fewest words").click()
    problem = iosim.Attention(4096, 64, causal=True)
    program = iosim.algorithm("small_tiles").program_for(problem)
    best = iosim.optimal_tiles(program, problem, 2000)
    expect(view).to_contain_text("Tiles, fewest words")
    for name, size in best.tiles.items():
        expect(view).to_contain_text(f"{name} = {size:,}")
    view.get_by_role("button", name="To the end").first.click()
    assert counters(view) == count_words(program, problem, dict(best.tiles))
    assert any('"what":"tiles"' in text.replace(" ", "") for text in page.asked)


def test_a_program_of_one_s_own_in_a_cell(run_cells: Callable[..., Any]) -> None:
    page = run_cells("own", OWN)
    view = page.locator(".jp-OutputArea [data-view=watch]")
    expect(view).to_be_visible()
    view.get_by_role("button", name="To the end").first.click()
    assert counters(view)["all words"] == 2 * 64 * 16


def test_the_game_s_keys_leave_the_notebook_s_cells_alone(run_cells: Callable[..., Any]) -> None:
    """In JupyterLab D twice deletes a cell, A and B insert one, X cuts one."""
    page = run_cells("keys", LAB)
    board = page.locator("[data-view=pebbles] svg").first
    expect(board).to_be_visible()
    cells = page.locator(".jp-CodeCell").count()
    page.locator(".jp-InputPrompt").first.click()  # the notebook's own keys are on
    page.keyboard.press("b")
    cells += 1
    expect(page.locator(".jp-CodeCell")).to_have_count(cells)
    board.locator("[tabindex='0']").first.focus()
    for keys in ("l", "a", "b", "x", "dd"):
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_timeout(200)
        assert page.locator(".jp-CodeCell").count() == cells, keys
    expect(page.locator("[data-view=pebbles]")).to_contain_text("1 load")


def test_values_show_themselves(run_cells: Callable[..., Any]) -> None:
    page = run_cells("values", WATCH, VALUES)
    shown = page.locator(".jp-CodeCell").nth(1).locator(".jp-OutputArea-child")
    expect(shown).to_have_count(6)
    for k, text in enumerate(["load  k", "words", "B_r", "load_words", "", "load_words"]):
        expect(shown.nth(k)).to_contain_text(text)
    expect(shown.nth(4).locator("img")).to_have_count(1)
