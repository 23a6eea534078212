"""Mathematics as MathML, which browsers draw themselves: nothing is fetched, nothing is run."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger


def markup(latex: str, display: str) -> str:
    """MathML for a formula; a formula that cannot be read is a warning, which fails the build.

    >>> "<mfrac>" in markup(r"\\frac{1}{2}", "block")
    True
    """
    text = re.sub(r"\\tag\{(.*?)\}", r"\\qquad(\1)", latex.strip())
    try:
        return convert(text, display=display)
    except Exception as error:
        getLogger(__name__).warning("formula %r cannot be read: %s", latex, error)
        return ""


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
