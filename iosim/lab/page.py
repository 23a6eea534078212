"""The lab as one HTML file that needs neither a server nor a network."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

import iosim
from iosim.algorithms import ALGORITHMS, algorithm
from iosim.errors import InputError
from iosim.lab.data import DATA
from iosim.lab.programs import algorithm_data

FORMAT, VERSION = "iosim-lab", 1

# Where the bundle is, and what makes it.
STATIC = resources.files("iosim.lab") / "static"
BUILD = "run `npm ci && npm run build` in iosim/lab/front"


def payload(views: Sequence[str] | None = None) -> dict[str, Any]:
    """What the page shows, as one JSON value.

    Args:
        views: which views have data, by name; all of `DATA` if None.
    """
    chosen = DATA if views is None else {name: DATA[name] for name in views}
    return {
        "format": FORMAT, "version": VERSION, "iosim": iosim.__version__,
        "views": {name: _made(where) for name, where in chosen.items()},
        "programs": {name: algorithm_data(algorithm(name)) for name in ALGORITHMS},
        "exercises": {},
    }  # fmt: skip


def _made(where: str) -> Any:
    module, _, function = where.partition(":")
    return getattr(importlib.import_module(module), function)()


def page(data: Mapping[str, Any], title: str = "iosim lab") -> str:
    """One HTML file with the bundle, its styles and the data in it.

    Raises InputError where the bundle is not built.
    """
    return _PAGE.format(
        title=escape(title), css=static("lab.css"), js=static("lab.js"), data=as_json(data)
    )


def static(name: str) -> str:
    """The text of a file of the bundle.  Raises InputError where it is not built."""
    try:
        return (STATIC / name).read_text(encoding="utf-8")
    except OSError:
        raise InputError(f"the lab's {name} is not built: {BUILD}") from None


def as_json(data: Mapping[str, Any]) -> str:
    """A value as JSON that may stand inside a script of an HTML page: no ``<`` is in it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>body {{ margin: 0 }}
{css}</style>
</head>
<body>
<div id="iosim-lab-page"><noscript>The lab needs JavaScript.</noscript></div>
<script type="application/json" id="iosim-lab-data">{data}</script>
<script type="module">{js}</script>
</body>
</html>
"""
