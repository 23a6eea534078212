"""Every view in the page: it opens, and looks right in three sizes and two schemes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from screens import SCHEMES, SIZES

from iosim.lab.data import DATA


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("view", DATA)
def test_every_view_opens(
    view: str, size: str, scheme: str, open_view: Callable[..., Any], shot: Callable[..., None]
) -> None:
    page = open_view(view, *SIZES[size], scheme)
    assert page.get_by_role("tab", selected=True).count() == 1
    assert page.locator(".broken").count() == 0
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= SIZES[size][0]
    shot(page, f"{view}-{size}-{scheme}")
