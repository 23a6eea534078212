"""Every view in the page: it opens, fits three screens, and has names and colors for everyone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from screens import SCHEMES, SIZES, fits

from iosim.lab.data import DATA

FRONT = Path(__file__).parents[2] / "iosim" / "lab" / "front"


# The checker's time grows with a table's rows, and Hardware's first record has 381: it checks these
# once, and elsewhere 67 rows of the same columns.
FEW_ROWS = "h200/validate-backward"
FEW = {"hardware": f"?record={FEW_ROWS}"}


@pytest.fixture(scope="session")
def axe() -> str:
    """The checker of accessibility, which npm brought: beside the sources, or above them."""
    found = [x / "node_modules" / "axe-core" / "axe.min.js" for x in (FRONT, *FRONT.parents)]
    path = next((x for x in found if x.exists()), None)
    assert path, "axe-core is missing: run npm ci in iosim/lab/front"
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("view", DATA)
def test_every_view_opens(
    view: str, size: str, axe: str, open_view: Callable[..., Any], shot: Callable[..., None]
) -> None:
    """In light; then the screen turns dark, which the page follows."""
    page = open_view(view, *SIZES[size], hash="" if size != "phone" else FEW.get(view, ""))
    assert page.get_by_role("tab", selected=True).count() == 1
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        expect(page.locator(".iosim-lab")).to_have_attribute("data-theme", scheme)
        assert page.locator(".broken").count() == 0
        assert fits(page)
        page.wait_for_timeout(300)
        shot(page, f"{view}-{size}-{scheme}")
        if size != "large":
            page.evaluate(axe)
            assert violations(page) == []
        if view in FEW and size == "projector":
            page.get_by_role("combobox", name="Record", exact=True).select_option(FEW_ROWS)


# States of views that differ much from their beginning.
STATES = {
    "two schedules": ("watch", "?algo=small_cache&vs=flash2&N=512&d=64&M=1024&at=2000000"),
    "marked blocks": ("watch", "?algo=block_sparse"),
    "too small": ("watch", "?M=98"),
    "a window": ("slope", "?N=64&d=8&heads=2&kv_heads=1&mask=causal window&left=9&M=200"),
    "a drawing": ("pebbles", "?graph=own&edges=a c;b c;c d"),
    "a graph of one's own": ("pebbles", "?graph=own&edges=a c;b c;c d&M=3"),
    "fused": ("wall", "?model=gpt2&phase=decode&batch=64&gpu=b200&kernels=best"),
    "a gate": ("hardware", FEW["hardware"] + "&every=64&drift=100"),
}


@pytest.mark.parametrize("state", STATES)
def test_states_have_names_and_contrast(
    state: str, axe: str, open_view: Callable[..., Any], shot: Callable[..., None]
) -> None:
    view, link = STATES[state]
    for size, scheme in (("projector", "light"), ("phone", "dark")):
        page = open_view(view, *SIZES[size], scheme, hash=link)
        page.wait_for_timeout(500)
        assert fits(page)
        shot(page, f"{view}-{state.replace(' ', '-')}-{size}-{scheme}")
        page.evaluate(axe)
        assert violations(page) == []


@pytest.mark.parametrize("view", DATA)
def test_exercises_have_names_and_contrast(
    view: str, axe: str, open_view: Callable[..., Any], shot: Callable[..., None]
) -> None:
    """On three screens, light and dark, with the first exercise open and a hint shown."""
    for size, scheme in (("projector", "light"), ("phone", "dark"), ("large", "dark")):
        page = open_view(view, *SIZES[size], scheme, hash=FEW.get(view, ""))
        page.get_by_text("Predict, then reveal").click()
        page.get_by_role("button", name="Hint").first.click()
        page.wait_for_timeout(300)
        assert fits(page)
        if page.locator('[data-hides="view"]').count():
            # What is hidden leaves no empty room to scroll through.
            assert page.evaluate("document.documentElement.scrollHeight") <= SIZES[size][1] + 100
        shot(page, f"exercise-{view}-{size}-{scheme}")
        if size != "large":
            page.evaluate(axe)
            assert violations(page) == []


def violations(page: Any) -> list[str]:
    """What the checker finds: its rules for names, roles, contrast and keyboards."""
    found = page.evaluate("axe.run({resultTypes: ['violations']}).then((x) => x.violations)")
    return [f"{x['id']}: {x['help']}: {node['html'][:200]}" for x in found for node in x["nodes"]]


def test_the_checker_finds_what_has_no_name(axe: str, open_view: Callable[..., Any]) -> None:
    page = open_view("tiles")
    page.evaluate(
        "document.querySelector('.iosim-lab main').append(document.createElement('input'))"
    )
    page.evaluate(axe)
    assert any(x.startswith("label") for x in violations(page))
