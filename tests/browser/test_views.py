"""Every view in the page: it opens, fits three screens, and has names and colours for everyone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from screens import SCHEMES, SIZES, fits

from iosim.lab.data import DATA

FRONT = Path(__file__).parents[2] / "iosim" / "lab" / "front"


@pytest.fixture(scope="session")
def axe() -> str:
    """The checker of accessibility, which npm brought: beside the sources, or above them."""
    found = [x / "node_modules" / "axe-core" / "axe.min.js" for x in (FRONT, *FRONT.parents)]
    path = next((x for x in found if x.exists()), None)
    assert path, "axe-core is missing: run npm ci in iosim/lab/front"
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("view", DATA)
def test_every_view_opens(
    view: str, size: str, scheme: str, axe: str, open_view: Callable[..., Any],
    shot: Callable[..., None],
) -> None:  # fmt: skip
    page = open_view(view, *SIZES[size], scheme)
    assert page.get_by_role("tab", selected=True).count() == 1
    assert page.locator(".broken").count() == 0
    assert fits(page)
    page.wait_for_timeout(300)
    shot(page, f"{view}-{size}-{scheme}")
    if size != "large":
        page.evaluate(axe)
        assert violations(page) == []


def violations(page: Any) -> list[str]:
    """What the checker finds: its rules for names, roles, contrast and keyboards."""
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{x['id']}: {x['help']}: {node['html'][:200]}" for x in found for node in x["nodes"]]


def test_the_checker_finds_what_has_no_name(axe: str, open_view: Callable[..., Any]) -> None:
    page = open_view("tiles")
    page.evaluate(
        "document.querySelector('.iosim-lab main').append(document.createElement('input'))"
    )
    page.evaluate(axe)
    assert any(x.startswith("label") for x in violations(page))
