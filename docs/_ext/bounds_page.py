"""The directive ``bounds``: every bound of the catalogue, with the theorem that it uses."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import iosim.bounds
from iosim.bounds import BOUNDS, Bound


def modules() -> Iterator[tuple[ModuleType, list[Bound]]]:
    """The files of theorems, each with its bounds, in the catalogue's order."""
    order = list(BOUNDS)
    names = [m.name for m in pkgutil.iter_modules(iosim.bounds.__path__, "iosim.bounds.")]
    found = [
        (module, [x for x in vars(module).values() if isinstance(x, Bound)])
        for module in map(importlib.import_module, names)
    ]
    with_bounds = [(module, own) for module, own in found if own]
    yield from sorted(with_bounds, key=lambda x: min(order.index(b.name) for b in x[1]))


def _section(module: ModuleType, bounds: list[Bound]) -> str:
    title, _, text = inspect.cleandoc(module.__doc__ or "").partition("\n")
    return "\n".join([f"## {title.rstrip('.')}", text, "", *map(_entry, bounds)])


def _entry(bound: Bound) -> str:
    rows = [
        ("covers", bound.covers),
        ("applies", bound.validity),
        ("classes", ", ".join(f"`{x.name}`" for x in bound.classes) or "one algorithm's count"),
        ("options", ", ".join(f"`{x}`" for x in bound.options) or "none"),
        ("source", _papers(bound.source)),
        ("theorem", _link(bound.theorem_link) or "none here: see the source"),
        ("with options", _link(bound.options_link)),
        ("in Coq", bound.checked_by and f"`proofs/rocq`: {bound.checked_by}"),
    ]
    table = [f"| {name} | {text.replace('|', '&#124;')} |" for name, text in rows if text]
    head = f"### {bound.name}\n\n{bound.strength}, {bound.kind}, of {bound.problem}\n"
    return "\n".join([head, "| | |", "|---|---|", *table, ""])


def _link(target: str | None) -> str:
    return f"[{target}](../../{target})" if target else ""


def _papers(text: str) -> str:
    return re.sub(r"arXiv (\d{4}\.\d{5})", r"[arXiv \1](https://arxiv.org/abs/\1)", text)


class Bounds(SphinxDirective):
    """One section for each file of theorems, one below it for each bound."""

    def run(self) -> list[nodes.Node]:
        """The sections, from the catalogue."""
        text = "\n".join(_section(*found) for found in modules())
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("bounds", Bounds)
    return {"parallel_read_safe": True}
