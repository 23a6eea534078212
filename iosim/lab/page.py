"""The lab as one HTML file that needs neither a server nor a network.

``iosim lab``, `export` and `widget` call it.  A view's data is a file in `iosim.lab.data`.
``tests/lab/test_lab_page.py`` tests the file and limits its size.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from importlib import resources
from typing import Any

from iosim.base.errors import InputError
from iosim.base.memory import without_collection
from iosim.base.revision import __version__
from iosim.base.rows import Values
from iosim.core.algorithms import ALGORITHMS, algorithm
from iosim.kernel.launch import KernelCall
from iosim.lab.columns import Json
from iosim.lab.data import DATA
from iosim.lab.exercises import exercises as read_exercises
from iosim.lab.packed import compressed
from iosim.lab.programs import algorithm_data

FORMAT, VERSION = "iosim-lab", 1
# Characters of data from which they are packed: JSON of the compressed text, in base64.
PACKED_FROM = 1_000_000

# Where the bundle is, and what makes it.
STATIC = resources.files("iosim.lab") / "static"
BUILD = "run `npm ci && npm run build` in iosim/lab/front"


def payload(
    views: Sequence[str] | None = None,
    exercises: Values | None = None,
    tick: Callable[[int, int], object] = lambda done, of: None,
    schedules: Sequence[str] = (),
    launches: Sequence[KernelCall] = (),
) -> Json:
    """What the page shows, as one JSON value.

    Args:
        views: which views have data, by name; all of `DATA` if None.
        exercises: view → exercises; those of the project if None.
        tick: called as ``tick(done, of)`` before each view and each program is made.
        schedules: the user's own, ``FILE.py:FUNCTION``.
        launches: of the user's Triton kernels; Watch begins with the first of these, or else with
            the first of `schedules`.
    """
    chosen = DATA if views is None else {name: DATA[name] for name in views}
    if exercises is None:
        exercises = read_exercises()
    names = (*ALGORITHMS, *schedules)
    of = len(names) + len(chosen)

    def report_progress(names: Iterable[str], before: int) -> Iterator[str]:
        for done, name in enumerate(names, before):
            tick(done, of)
            yield name

    with without_collection():
        views_data = {  # first, since what Watch refuses is the user's to change
            name: _call_by_path(chosen[name], *([schedules, launches] if name == "watch" else []))
            for name in report_progress(chosen, 0)
        }
        first = len(views_data)
        programs = {name: algorithm_data(algorithm(name)) for name in report_progress(names, first)}
    return envelope(views_data, programs, exercises)


def envelope(
    views: Values,
    programs: Values | None = None,
    exercises: Values | None = None,
) -> Json:
    """Data of views with what the page checks before it shows them.

    >>> list(envelope({"watch": {}}))
    ['format', 'version', 'iosim', 'views', 'programs', 'exercises']
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "iosim": __version__,
        "views": dict(views),
        "programs": dict(programs or {}),
        "exercises": dict(exercises or {}),
    }


def _call_by_path(where: str, *given: Any) -> Any:
    module, _, function = where.partition(":")
    return getattr(importlib.import_module(module), function)(*given)


def page(data: Values, title: str = "iosim lab") -> str:
    """One HTML file with the bundle, its styles and the data in it, packed where they are large.

    Raises InputError where the bundle is not built.
    """
    text = as_json(data)
    return _PAGE.format(
        title=escape(title),
        version=__version__,
        css=static("lab.css"),
        js=static("lab.js"),
        data=text if len(text) < PACKED_FROM else f'"{compressed(text)}"',
    )


def static(name: str) -> str:
    """The text of a file of the bundle.  Raises InputError where it is not built."""
    try:
        return (STATIC / name).read_text(encoding="utf-8")
    except OSError:
        raise InputError(f"the lab's {name} is not built: {BUILD}") from None


def as_json(data: Values) -> str:
    """A value as JSON that may be inside a script of an HTML page.

    No ``<`` is in it, so no text can end the script; it is the same value to a reader of JSON.
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _UNSAFE.sub(lambda x: f"\\u{ord(x[0]):04x}", text)


# What ends a script or begins a comment in one, and half characters, which UTF-8 cannot write.
_UNSAFE = re.compile("[<\ud800-\udfff]")

# The policy refuses every address but those of what is in the file itself.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; \
media-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="iosim {version}">
<title>{title}</title>
<style>body {{ margin: 0 }}
{css}</style>
</head>
<body>
<div id="iosim-lab-page">
<p>The lab starts here. Where this text stays, the browser is older than 2022 or runs no
scripts.</p>
</div>
<script type="application/json" id="iosim-lab-data">{data}</script>
<script type="module">{js}</script>
</body>
</html>
"""
