"""The directive ``bounds``: every bound of the catalogue, with the theorem that it uses."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from iosim.bounds import BOUNDS, Bound


def _entry(bound: Bound) -> str:
    classes = ", ".join(f"`{klass.name}`" for klass in bound.classes)
    rows = [
        ("covers", bound.covers),
        ("applies", bound.validity),
        ("classes", classes if len(bound.classes) else "the count of one algorithm"),
        ("options", ", ".join(f"`{x}`" for x in bound.options) or "none"),
        ("source", _papers(bound.source)),
        ("theorem", _link(bound.theorem_link) or "elementary, or the paper's own"),
        ("with options", _link(bound.options_link)),
    ]
    table = [f"| {name} | {text.replace('|', '&#124;')} |" for name, text in rows if text]
    head = f"## {bound.name}\n\n{bound.strength}, {bound.kind}, of {bound.problem}\n"
    return "\n".join([head, "| | |", "|---|---|", *table, ""])


def _link(target: str | None) -> str:
    return f"[{target}](../../{target})" if target else ""


def _papers(text: str) -> str:
    return re.sub(r"arXiv (\d{4}\.\d{5})", r"[arXiv \1](https://arxiv.org/abs/\1)", text)


class Bounds(SphinxDirective):
    """One section for each bound."""

    def run(self) -> list[nodes.Node]:
        """The sections, from the catalogue."""
        text = "\n".join(_entry(bound) for bound in BOUNDS.values())
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("bounds", Bounds)
    return {"parallel_read_safe": True}
