"""The lab in Chromium.  ``pytest`` alone does not collect this folder: it needs playwright.

IOSIM_SCREENSHOTS names a folder for the pictures that tests take; without it there are none.
IOSIM_MADE names an empty folder for what all views show: runs of one tree make it once.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from engine import Engine, build
from playwright.sync_api import Browser, Page, sync_playwright

from iosim.lab.page import as_json, payload
from iosim.lab.page import page as written

CHROMIUM = os.environ.get("IOSIM_CHROMIUM", "/usr/bin/chromium")


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The page's engine in node, freshly built."""
    found = Engine(build(tmp_path_factory.mktemp("engine") / "cli.mjs"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield found
        found.close()


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What all views show, made once for all workers of a run, or of runs that share IOSIM_MADE."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = Path(os.environ.get("IOSIM_MADE") or folder)
    path = folder / "everything.json"
    with (folder / "everything.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            path.write_text(as_json(payload()), encoding="utf-8")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="session")
def only(everything: dict[str, Any]) -> Callable[..., dict[str, Any]]:
    """As `payload` of some views."""

    def some(*views: str) -> dict[str, Any]:
        return everything | {"views": {view: everything["views"][view] for view in views}}

    return some


@pytest.fixture(scope="session")
def data(everything: dict[str, Any]) -> dict[str, Any]:
    """What the page shows."""
    return everything


@pytest.fixture(scope="session")
def lab_file(data: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page, freshly written."""
    path = tmp_path_factory.mktemp("lab") / "lab.html"
    path.write_text(written(data), encoding="utf-8")
    return path


@pytest.fixture
def open_file(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a file from the disk; the test fails where the console has an error or a warning.

    ``open_file(path, hash, width, height, scheme, **context)`` returns Playwright's page.  What
    ``allow``, a regular expression, finds in a message is no failure.
    """
    said: list[str] = []
    contexts = []

    def opened(
        path: Path,
        hash: str = "",
        width: int = 1280,
        height: int = 720,
        scheme: str = "light",
        allow: str = "$.",
        **more: Any,
    ) -> Page:
        def hear(text: str) -> None:
            if not re.search(allow, text):
                said.append(text)

        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            **({"reduced_motion": "no-preference"} | more),
        )
        contexts.append(context)
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.on("console", lambda x: hear(x.text) if x.type in ("error", "warning") else None)
        page.on("pageerror", lambda x: hear(str(x)))
        # Nothing is loaded but the file itself.
        page.on(
            "request",
            lambda x: (
                None if x.url.startswith(("file:", "data:", "blob:")) else hear(f"asks for {x.url}")
            ),
        )
        page.goto(path.as_uri() + hash)
        page.wait_for_selector(".iosim-lab")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []


@pytest.fixture
def open_view(open_file: Callable[..., Page], lab_file: Path) -> Callable[..., Page]:
    """Opens a view: ``open_view("watch", 1280, 720, "light")``, or with ``hash="?N=64"`` after it.

    Like `open_file`, of a page with the built-in data.
    """

    def opened(
        view: str,
        width: int = 1280,
        height: int = 720,
        scheme: str = "light",
        hash: str = "",
        **more: Any,
    ) -> Page:
        page = open_file(lab_file, f"#{view}{hash}", width, height, scheme, **more)
        page.wait_for_selector(f"[data-view={view}]")
        return page

    return opened


@pytest.fixture
def shot() -> Callable[[Page, str], None]:
    """Takes a picture of the whole page as NAME.png, where IOSIM_SCREENSHOTS names a folder."""

    def take(page: Page, name: str) -> None:
        if folder := os.environ.get("IOSIM_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    return take
