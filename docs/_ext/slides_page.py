"""The lecture's slides as one file, beside the pages of the site, and a link to it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

LECTURE = Path(__file__).resolve().parent.parent / "lecture"
NAME = "show.html"


def _link(app: Any, doctree: Any) -> None:
    """Offer the file below the title of the page of slides."""
    from docutils import nodes

    page = Path(app.env.doc2path(app.env.docname))
    if app.builder.format != "html" or page != LECTURE / "slides.md":
        return
    line = nodes.paragraph("", "")
    line += nodes.reference("", "Show the slides", internal=False, refuri=NAME)
    line += nodes.Text(": one file, for a projector.")
    title = next(doctree.findall(nodes.title))
    title.parent.insert(title.parent.index(title) + 1, line)


def _write(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        spec = importlib.util.spec_from_file_location("slides", LECTURE / "build.py")
        assert spec is not None
        assert spec.loader is not None
        build = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build)
        found = Path(app.outdir, "docs", "lecture", NAME)
        found.write_text(build.slides(), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Link the slides from their page, and write them when all pages are built."""
    app.connect("doctree-read", _link)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
