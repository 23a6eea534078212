"""Mathematics as MathML, which browsers draw themselves: nothing is fetched, nothing is run."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger


def wrong(latex: str, made: str) -> str | None:
    """Why MathML is not what the formula says, where the converter itself finds nothing to say.

    >>> wrong(r"\\frac{1", ""), wrong(r"\\nosuch", r"<mi>\\nosuch</mi>")
    ('a brace is open', 'unknown: \\\\nosuch')
    """
    bare = re.sub(r"\\[{}]", "", latex)
    if bare.count("{") != bare.count("}"):
        return "a brace is open"
    unknown = re.search(r"\\[A-Za-z]+", made)
    return f"unknown: {unknown[0]}" if unknown else None


def markup(latex: str, display: str) -> str:
    """MathML for a formula; a formula that cannot be read is a warning, which fails the build.

    >>> "<mfrac>" in markup(r"\\frac{1}{2}", "block")
    True
    """
    text = re.sub(r"\\tag\{(.*?)\}", r"\\qquad(\1)", latex.strip())
    try:
        made = convert(text, display=display)
        why = wrong(text, made)
    except Exception as error:
        made, why = "", type(error).__name__
    if why:
        getLogger(__name__).warning("formula %r cannot be read: %s", latex, why)
    return made


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(markup(node.astext(), "inline"))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{markup(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True}
