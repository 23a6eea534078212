"""The screens that views are looked at on, and what is seen there."""

from collections.abc import Callable, Iterable
from typing import Any

from playwright.sync_api import expect

SIZES = {"projector": (1280, 720), "large": (1920, 1080), "phone": (390, 844)}
SCHEMES = ("light", "dark")


def texts(rows: Any) -> list[list[str]]:
    """What stands in the cells of a table's rows, as one sees it; asked for at once."""
    found: list[list[str]] = rows.evaluate_all(
        "rows => rows.map((row) => [...row.querySelectorAll('td')].map((x) => x.innerText))"
    )
    return found


def fits(page: Any) -> bool:
    """Whether nothing is wider than the screen."""
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    return bool(page.evaluate(wide))


def refuses(
    page: Any,
    bad: Iterable[tuple[str, str, str]],
    shows: Callable[[Any], Any],
    within: str = "body",
) -> None:
    """Each bad input, of a field's label, what is typed and what is said, is said beside the field.

    The view goes on showing, by `shows(page)`, what it showed before.  The fields are in `within`.
    """
    before = shows(page)
    for label, typed, says in bad:
        field = page.locator(within).get_by_label(label, exact=True)
        was = field.input_value()
        field.fill(typed)
        assert field.get_attribute("aria-invalid") == "true", (label, typed)
        beside = page.locator(f"#{field.get_attribute('aria-describedby')}")
        assert says in beside.inner_text(), (label, typed)
        assert shows(page) == before, (label, typed)
        assert page.locator(".broken").count() == 0
        field.fill(was)
        expect(page.locator("[aria-invalid=true]")).to_have_count(0)
        assert shows(page) == before
