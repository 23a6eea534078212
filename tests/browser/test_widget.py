"""The lab as a widget: the same bundle in a cell, with the traits of the real Python widget."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

import iosim
from iosim.lab import page as lab_page
from iosim.lab import widget
from iosim.lab.data import DATA

pytest.importorskip("anywidget")

# A notebook's cell, as anywidget makes it: the module from a blob, the styles in the page's head,
# a model with the widget's traits whose messages go to Python.
CELL = """<!doctype html><meta charset="utf-8"><title>cell</title>
<style>{css}</style><body {body}><h1>A notebook</h1><div id="cell"></div>
<script type="module">
const text = (x) => new TextDecoder().decode(Uint8Array.from(atob(x), (c) => c.charCodeAt(0)));
const url = URL.createObjectURL(new Blob([text("{esm}")], {{ type: "text/javascript" }}));
const heard = {{}};
const tell = (name, ...given) => (heard[name] ?? []).forEach((call) => call(...given));
const traits = {{ data: JSON.parse(text("{data}")) }};
window.model = {{
  get: (name) => traits[name],
  set: (name, value) => {{ traits[name] = value; tell("change:" + name); }},
  on: (name, call) => (heard[name] ??= []).push(call),
  off: (name, call) => {{ heard[name] = (heard[name] ?? []).filter((x) => x !== call); }},
  send: async (asked) => tell("msg:custom", await window.python(asked), []),
}};
window.gone = (await import(url)).default.render({{ model, el: document.getElementById("cell") }});
</script>"""


@pytest.fixture
def made_before(everything: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The widget takes what views show from what was made for all tests."""
    of = {where: everything["views"][view] for view, where in DATA.items()}
    monkeypatch.setattr(lab_page, "_call_by_path", lambda where, *given: of[where])


@pytest.fixture
def open_cell(open_file: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Opens a widget in a file that stands for a notebook."""

    def encoded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    def opened(shown: Any, body: str = "", **more: Any) -> Any:
        path = tmp_path / "cell.html"
        path.write_text(
            CELL.format(
                css=shown._css,
                esm=encoded(shown._esm),
                body=body,
                data=encoded(json.dumps(shown.get_state()["data"])),
            ),
            encoding="utf-8",
        )
        return open_file(path, **more)

    return opened


def instance() -> Any:
    sizes = iosim.Attention(64, 16).sizes
    return iosim.bind(iosim.algorithm("flash2").program, sizes, {"B_r": 16, "B_c": 8})


def watched() -> Any:
    return iosim.watch(instance())


@pytest.mark.usefixtures("made_before")
def test_every_view_in_a_cell(open_cell: Callable[..., Any], shot: Callable[..., None]) -> None:
    page = open_cell(widget.lab())
    address = page.url
    for k, view in enumerate(DATA):
        page.get_by_role("tab").nth(k).click()
        expect(page.locator(f"[role=tabpanel][data-view={view}]")).to_be_visible()
        assert page.locator(".broken").count() == 0
        page.wait_for_timeout(200)
        shot(page, f"{view}-widget")
    page.wait_for_timeout(400)
    assert page.url == address  # a cell leaves the notebook's address alone
    assert page.title() == "cell"


def test_one_schedule_in_a_cell(open_cell: Callable[..., Any]) -> None:
    page = open_cell(watched())
    expect(page.locator("[data-view=watch]")).to_be_visible()
    assert f"{iosim.count(instance()).total_words:,}" in page.locator("main").inner_text()
    # Keys are heard in the cell only: the notebook has its own.
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.get_by_label("Theme").focus()
    page.get_by_role("tab").first.focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    # A trait that changes in Python changes what is shown; a broken one is said.
    page.evaluate("model.set('data', {format: 'iosim-lab', version: 7})")
    expect(page.get_by_role("alert")).to_contain_text("The widget's data is of version 7")
    page.evaluate("gone()")
    assert page.locator("#cell").inner_html() == ""


def test_keys_in_a_cell_are_not_the_notebook_s(open_cell: Callable[..., Any]) -> None:
    """In JupyterLab B inserts a cell and X cuts one; Ctrl+S saves the notebook from anywhere."""
    page = open_cell(widget.lab(["pebbles"]))
    page.evaluate("window.heard = []; document.onkeydown = (e) => { heard.push(e.key); }; 0")
    for key in ("l", "a", "b", "x", "Escape", "Shift+Enter"):
        page.locator("[data-view=pebbles] svg [tabindex='0']").first.focus()
        page.keyboard.press(key)
    expect(page.locator("[data-view=pebbles]")).to_contain_text("1 load")
    assert page.evaluate("heard.filter((x) => x !== 'Shift')") == []
    page.keyboard.press("Control+s")
    assert page.evaluate("heard.at(-1)") == "s"


@pytest.mark.usefixtures("made_before")
def test_a_widget_s_repr_is_short() -> None:
    assert repr(watched()) == "<Lab watch>"
    assert repr(widget.lab(["slope", "tiles"])) == "<Lab slope, tiles>"


def test_a_cell_follows_the_notebook_s_theme(open_cell: Callable[..., Any]) -> None:
    for body, theme in (
        ('data-jp-theme-light="false"', "dark"),
        ('data-jp-theme-light="true"', "light"),
        ('class="dark"', "dark"),
    ):
        page = open_cell(watched(), body, scheme="light" if theme == "dark" else "dark")
        assert page.locator(".iosim-lab").get_attribute("data-theme") == theme


MARIMO = """import marimo
app = marimo.App()

@app.cell
def _():
    import iosim
    program = iosim.algorithm("flash2").program
    iosim.watch(iosim.bind(program, iosim.Attention(64, 16).sizes, {"B_r": 16, "B_c": 8}))
    return
"""


def test_in_marimo(browser: Browser, tmp_path: Path, shot: Callable[..., None]) -> None:
    """A real notebook, where marimo is installed."""
    pytest.importorskip("marimo")
    (tmp_path / "note.py").write_text(MARIMO)
    address = "http://127.0.0.1:27181"
    server = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "marimo",
            "run",
            str(tmp_path / "note.py"),
            "--headless",
            "--port",
            "27181",
            "--no-token",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(address, timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        page = browser.new_page()
        page.goto(address)
        expect(page.locator("[data-view=watch]")).to_be_visible(timeout=60_000)
        page.get_by_role("button", name="Step forward").first.click()
        assert page.locator(".broken").count() == 0
        shot(page, "watch-marimo")
        page.close()
    finally:
        server.terminate()
        server.wait(20)
