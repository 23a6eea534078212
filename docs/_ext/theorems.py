"""Statements get anchors, mentions of them and of pages' files become links.

A paragraph that begins with "**Lemma 3 (name).**" has the anchor ``lemma-3``.  In a proof, "Lemma
3" and "Lemma 4 of `matmul_tight.md`" lead there; on every page a link, or the file's name, does.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective
from statements import MENTION, NAMED, anchor, statements, title

_PAGE = re.compile(r"^([\w./-]+)\.md(?:#([\w-]+))?$")
_LINKED = (nodes.reference, nodes.literal_block, nodes.title)


class Statements(SphinxTransform):
    """Gives each statement of a proof its anchor, known to links from other pages."""

    default_priority = 500

    def apply(self, **kwargs: Any) -> None:
        """Mark the paragraphs that state something."""
        if not self.env.docname.startswith("proofs/"):
            return
        known = self.env.metadata[self.env.docname]
        slugs = dict(known.get("myst_slugs", {}))
        found: dict[str, str] = {}
        for paragraph in self.document.findall(nodes.paragraph):
            first = next((x for x in paragraph.children if x.astext()), None)
            if not isinstance(first, nodes.strong) or not NAMED.match(first.astext()):
                continue
            name = first.astext().rstrip(".")
            where = anchor(name)
            paragraph["ids"].append(where)
            paragraph["classes"].append("statement")
            mark = nodes.reference("", "¶", refid=where, classes=["headerlink"])
            paragraph.insert(paragraph.index(first) + 1, mark)
            slugs[where] = (paragraph.line or 0, where, name)
            found[where] = name
        known["myst_slugs"], known["statements"] = slugs, found


class Mentions(SphinxPostTransform):
    """Links what a text mentions: statements of proofs, and pages by their file's name."""

    default_priority = 700

    def run(self, **kwargs: Any) -> None:
        """Replace the mentions that no link holds."""
        for literal in list(self.document.findall(nodes.literal)):
            page, where = self._page(literal.astext())
            if page and not _within(literal, _LINKED):
                link = self._link(page, where)
                literal.replace_self(link)
                link += literal
        if self.env.docname.startswith("proofs/"):
            for text in list(self.document.findall(nodes.Text)):
                if not _within(text, (*_LINKED, nodes.literal, nodes.strong)):
                    self._statements(text)

    def _statements(self, text: nodes.Text) -> None:
        parts: list[nodes.Node] = []
        last, whole = 0, str(text)
        after = text.next_node(descend=False, siblings=True)
        for found in MENTION.finditer(whole):
            page = self.env.docname
            if re.fullmatch(r"\s+of\s+", whole[found.end() :]) and after is not None:
                page = self._page(after.astext())[0] or page
            where = anchor(found[0])
            if where not in self.env.metadata[page].get("statements", {}):
                continue
            parts.append(nodes.Text(whole[last : found.start()]))
            link = self._link(page, where)
            link += nodes.Text(found[0])
            parts.append(link)
            last = found.end()
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(whole[last:])])

    def _page(self, text: str) -> tuple[str | None, str]:
        found = _PAGE.match(text)
        if found:
            folder = posixpath.dirname(self.env.docname)
            for name in (posixpath.normpath(posixpath.join(folder, found[1])), found[1]):
                if name in self.env.found_docs and name != self.env.docname:
                    return name, found[2] or ""
        return None, ""

    def _link(self, page: str, where: str) -> nodes.reference:
        if page == self.env.docname:
            return nodes.reference("", "", internal=True, refid=where)
        uri = self.app.builder.get_relative_uri(self.env.docname, page)
        return nodes.reference("", "", internal=True, refuri=f"{uri}#{where}" if where else uri)


class Index(SphinxDirective):
    """All statements of some proofs, which stand in the directive's text by their files' names."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """A section for each proof."""
        lines = []
        for name in self.content:
            page = Path(self.env.srcdir, "proofs", f"{name}.md")
            self.env.note_dependency(str(page))
            text, link = page.read_text(encoding="utf-8"), f"../../proofs/{name}.md"
            lines += [f"## {title(text)}", "", f"[The proof]({link})", ""]
            lines += [f"- [{x.name}]({link}#{x.anchor})" for x in statements(text)] + [""]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def _within(node: nodes.Node, kinds: tuple[type, ...]) -> bool:
    up = node.parent
    while up is not None:
        if isinstance(up, kinds):
            return True
        up = up.parent
    return False


def setup(app: Sphinx) -> dict[str, bool]:
    """Register both transforms."""
    app.add_directive("statements", Index)
    app.add_transform(Statements)
    app.add_post_transform(Mentions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
