"""The screens that views are looked at on."""

from typing import Any

SIZES = {"projector": (1280, 720), "large": (1920, 1080), "phone": (390, 844)}
SCHEMES = ("light", "dark")


def fits(page: Any) -> bool:
    """Whether nothing is wider than the screen."""
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    return bool(page.evaluate(wide))
