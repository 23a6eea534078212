"""The page around the views: keys, links, files, what is broken, paper, and no motion."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from iosim.lab.data import DATA
from iosim.lab.page import as_json, envelope, page

Open = Callable[..., Any]
VIEWS = list(DATA)


def open_one(view: str) -> str:
    return f"[role=tabpanel][data-view={view}]"


def test_the_tabs_by_keyboard(open_view: Open) -> None:
    """One tab stop; arrows, Home and End go round; each tab opens its view and keeps the focus."""
    shown = open_view(VIEWS[0])
    for _ in range(5):
        shown.keyboard.press("Tab")
        if shown.evaluate("document.activeElement.getAttribute('role')") == "tab":
            break
    for view in [*VIEWS[1:], VIEWS[0], VIEWS[1]]:
        shown.keyboard.press("ArrowRight")
        expect(shown.locator(open_one(view))).to_be_visible()
        here = shown.evaluate("document.activeElement.getAttribute('aria-selected')")
        assert here == "true"
    for key, view in (("Home", VIEWS[0]), ("ArrowLeft", VIEWS[-1]), ("End", VIEWS[-1])):
        shown.keyboard.press(key)
        expect(shown.locator(open_one(view))).to_be_visible()


@pytest.mark.parametrize("view", VIEWS)
def test_tab_reaches_every_control(view: str, open_view: Open) -> None:
    """And comes out again: no control holds the focus.  Groups of one tab stop count as one."""
    shown = open_view(view)
    shown.wait_for_timeout(300)
    shown.evaluate("""() => {
        window.seen = new Set();
        addEventListener("focusin", (e) => window.seen.add(e.target));
    }""")
    left = shown.evaluate("""() => [...document.querySelectorAll(
        "a[href], button, input, select, textarea, summary, [tabindex]")].filter((x) =>
        x.tabIndex >= 0 && !x.disabled && x.checkVisibility()).length""")
    for _ in range(2 * left + 50):
        shown.keyboard.press("Tab")
        if shown.evaluate("document.activeElement === document.body"):
            break
    missed = shown.evaluate("""() => [...document.querySelectorAll(
        "button, input, select, summary")].filter((x) =>
            x.tabIndex >= 0 && !x.disabled && x.checkVisibility() && x.type !== "radio" &&
            !window.seen.has(x)).map((x) => x.outerHTML.slice(0, 200))""")
    assert missed == []


def test_shortcuts_are_off_before_the_next_frame(open_view: Open) -> None:
    """Also where a busy machine draws late: the key is pressed while nothing was drawn."""
    shown = open_view("hardware")
    shown.keyboard.press("?")
    help_ = shown.get_by_role("dialog", name="Help")
    help_.get_by_label("Shortcuts of a single key").evaluate("""async (box) => {
        const dialog = box.closest("dialog"), main = dialog.ownerDocument.body;
        box.click();
        for (let turn = 0; turn < 20; turn++) await Promise.resolve();
        dialog.close();
        main.dispatchEvent(new KeyboardEvent("keydown", { key: "1", bubbles: true }));
    }""")
    shown.evaluate("() => new Promise(requestAnimationFrame)")
    expect(shown.locator(open_one("hardware"))).to_be_visible()
    assert shown.locator(open_one("watch")).count() == 0


def test_keys_and_help(open_view: Open) -> None:
    shown = open_view("watch")
    for k, view in enumerate(VIEWS):
        shown.keyboard.press(str(k + 1))
        expect(shown.locator(open_one(view))).to_be_visible()
    help_ = shown.get_by_role("dialog", name="Help")
    shown.keyboard.press("?")
    expect(help_).to_be_visible()
    for view in VIEWS:
        title = shown.locator(f"[role=tab] >> nth={VIEWS.index(view)}").inner_text()
        expect(help_).to_contain_text(f"open {title}")
    # Without shortcuts, a digit does nothing; in a field it is typed.
    help_.get_by_label("Shortcuts of a single key").uncheck()
    shown.keyboard.press("Escape")
    expect(help_).to_be_hidden()
    shown.keyboard.press("1")
    expect(shown.locator(open_one(VIEWS[-1]))).to_be_visible()
    shown.get_by_role("button", name="Help").click()
    help_.get_by_label("Shortcuts of a single key").check()
    help_.get_by_role("button", name="Close").click()
    shown.keyboard.press("1")
    field = shown.get_by_label("N", exact=True)
    field.fill("")
    field.press_sequentially("25")
    assert field.input_value() == "25"
    expect(shown.locator(open_one("watch"))).to_be_visible()


def test_links_hold_the_view_and_its_state(open_view: Open) -> None:
    shown = open_view("watch", hash="?N=64&d=8")
    assert shown.title().startswith(shown.get_by_role("tab", selected=True).inner_text())
    shown.get_by_label("N", exact=True).fill("128")
    expect(shown).to_have_url(re.compile(r"#watch\?.*N=128"))
    shown.get_by_role("tab").nth(1).click()
    expect(shown).to_have_url(re.compile(f"#{VIEWS[1]}"))
    shown.get_by_role("tab").nth(0).click()
    assert shown.get_by_label("N", exact=True).input_value() == "128"
    shown.evaluate("location.hash = '#watch?N=32&d=8'")
    expect(shown.get_by_label("N", exact=True)).to_have_value("32")
    shown.evaluate("location.hash = '#nothing'")
    expect(shown.get_by_role("alert")).to_contain_text('The address names a view "nothing"')


# Listens before the page does, which is not told of a new address until `tell` is called.
HOLD = """
    window.tell = () => { window.told = true; dispatchEvent(new HashChangeEvent("hashchange")); };
    addEventListener("hashchange", (event) => window.told || event.stopImmediatePropagation());
"""
TYPE_THEN_GO = """async (box) => {
    box.value = "128";
    box.dispatchEvent(new Event("input", { bubbles: true }));
    location.hash = "#watch?N=32&d=8";
    await new Promise((done) => setTimeout(done, 800)); // the page would have written N=128
    return [box.isConnected, location.hash];
}"""


def test_an_address_is_kept_until_the_page_is_told_of_it(open_view: Open) -> None:
    shown = open_view("watch", hash="?N=64&d=8")
    shown.add_init_script(HOLD)
    shown.reload()
    field = shown.get_by_label("N", exact=True)
    assert field.evaluate(TYPE_THEN_GO) == [True, "#watch?N=32&d=8"]
    shown.evaluate("tell()")
    expect(field).to_have_value("32")


BROKEN = {
    "{": "is not JSON",
    "": "is not JSON",
    "[1, 2]": "a list, not an object",
    "null": "null, not an object",
    '{"type": "FeatureCollection"}': 'its "format" is nothing',
    '{"format": "iosim-lab", "version": 2}': "of version 2",
    '{"format": "iosim-lab", "version": 1, "views": []}': 'has [] where an object "views" belongs',
    as_json(envelope({})): "no view that this page can show",
}


@pytest.mark.parametrize("text", BROKEN)
def test_broken_data_is_said(text: str, open_file: Open, tmp_path: Path) -> None:
    path = tmp_path / "lab.html"
    hole = as_json(envelope({}))
    assert hole in page(envelope({}))
    path.write_text(page(envelope({})).replace(hole, text), encoding="utf-8")
    shown = open_file(path)
    expect(shown.get_by_role("alert")).to_contain_text(BROKEN[text])
    # It is no dead page: good data can be opened.
    expect(shown.get_by_role("button", name="Open data…")).to_be_visible()


def test_a_broken_view_leaves_the_others(
    open_file: Open, data: dict[str, Any], tmp_path: Path
) -> None:
    for bad in (5, {}, None):
        path = tmp_path / "lab.html"
        path.write_text(page(data | {"views": data["views"] | {"slope": bad}}), encoding="utf-8")
        shown = open_file(path, "#slope", allow=".")
        expect(shown.get_by_role("alert")).to_contain_text("stopped: ")
        expect(shown.get_by_role("button", name="Try again")).to_be_visible()
        shown.get_by_role("tab").first.click()
        expect(shown.locator(open_one("watch"))).to_be_visible()
        assert shown.get_by_role("alert").count() == 0


def test_what_fails_later_is_said(open_view: Open) -> None:
    shown = open_view("tiles", allow="spilt")
    for code in (
        "setTimeout(() => { throw new Error('spilt tea') })",
        "void Promise.reject(new Error('spilt ink'))",
    ):
        shown.evaluate(f"() => {{ {code} }}")
        expect(shown.get_by_role("alert")).to_contain_text("Something failed")
        shown.get_by_role("alert").get_by_role("button", name="Close").click()
        assert shown.get_by_role("alert").count() == 0
    expect(shown.locator(open_one("tiles"))).to_be_visible()


def test_files_are_opened(
    open_view: Open, data: dict[str, Any], lab_file: Path, tmp_path: Path
) -> None:
    """JSON or a page; what is neither is said, and what was shown stays."""
    one = data | {"views": {"slope": data["views"]["slope"]}}
    (tmp_path / "one.json").write_text(as_json(one))
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "foreign.json").write_text(json.dumps({"a": 1}))
    (tmp_path / "foreign.html").write_text("<p>tea</p>")
    shown = open_view("tiles")

    def choose(path: Path) -> None:
        with shown.expect_file_chooser() as chooser:
            shown.get_by_role("button", name="Open data…").click()
        chooser.value.set_files(path)

    for name, said in (
        ("bad.json", "bad.json is not JSON"),
        ("foreign.json", "foreign.json is JSON, but not data of the lab"),
        ("foreign.html", "foreign.html is a page, but not a page of the lab"),
    ):
        choose(tmp_path / name)
        expect(shown.get_by_role("alert")).to_contain_text(said)
        expect(shown.locator(open_one("tiles"))).to_be_visible()
    choose(tmp_path / "one.json")
    expect(shown.locator(open_one("slope"))).to_be_visible()
    assert shown.get_by_role("tab").count() == 1
    assert shown.get_by_role("alert").count() == 0
    # A page, dropped.
    shown.evaluate(
        """(text) => {
            const given = new DataTransfer();
            given.items.add(new File([text], "lab.html", { type: "text/html" }));
            for (const type of ["dragover", "drop"])
                document.querySelector(".iosim-lab").dispatchEvent(
                    new DragEvent(type, { dataTransfer: given, bubbles: true, cancelable: true }));
        }""",
        lab_file.read_text(encoding="utf-8"),
    )
    expect(shown.get_by_role("tab")).to_have_count(len(VIEWS))


def test_the_theme_is_chosen(open_view: Open) -> None:
    shown = open_view("tiles", scheme="dark")
    background = "getComputedStyle(document.querySelector('.iosim-lab')).backgroundColor"
    dark = shown.evaluate(background)
    shown.get_by_label("Theme").select_option("light")
    assert shown.evaluate(background) == "rgb(255, 255, 255)" != dark
    shown.get_by_label("Theme").select_option("dark")
    # Paper is light, and has no controls of the shell.
    shown.emulate_media(media="print")
    assert shown.evaluate(background) == "rgb(255, 255, 255)"
    expect(shown.get_by_role("tablist")).to_be_hidden()
    expect(shown.locator("main h2").first).to_be_visible()


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_moves_by_itself(view: str, open_view: Open) -> None:
    shown = open_view(view, reduced_motion="reduce")
    shown.wait_for_timeout(300)
    assert shown.evaluate("document.getAnimations().length") == 0


def test_without_motion_a_run_is_shown_once_a_second(open_view: Open) -> None:
    def rate(motion: str) -> float:
        """How often the text changes in a second, in a run of four steps a second."""
        shown = open_view("watch", reduced_motion=motion)
        shown.get_by_role("button", name="Play").click()
        seen, began = set(), time.monotonic()
        while time.monotonic() < began + 3:
            seen.add(shown.locator("main").inner_text())
        return (len(seen) - 1) / (time.monotonic() - began)

    assert rate("reduce") < 2.2 < rate("no-preference")
