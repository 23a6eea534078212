"""The lab's page, as `iosim lab --save` writes it, beside the pages of the site."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from iosim.lab.page import page, payload


def _write(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        Path(app.outdir, "lab.html").write_text(page(payload()), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write it when all pages are built."""
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True}
