"""The screens that views are looked at on, and what is seen there."""

from typing import Any

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
