"""Operators on the roofline: what the view shows."""

from __future__ import annotations

from typing import Any


def data() -> dict[str, Any]:
    """The view's part of the page's data, ready for JSON."""
    return {}
