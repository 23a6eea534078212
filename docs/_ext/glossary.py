"""The glossary's words get anchors, and the first use of each on a page leads there."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform
from terms import GLOSSARY, Term, marked, pattern, terms

PAGE = "docs/glossary"
# Pages that list names rather than use words.
_LEFT_OUT = ("docs/reference/", "docs/glossary", "docs/index", "CHANGELOG")
_LEAVE = (nodes.reference, nodes.title, nodes.literal, nodes.literal_block, nodes.math, nodes.image)


class Anchors(SphinxTransform):
    """Gives each line of the glossary its anchor."""

    default_priority = 500

    def apply(self, **kwargs: Any) -> None:
        """Mark the rows of the glossary's table."""
        if self.env.docname != PAGE:
            return
        known = self.env.metadata[PAGE]
        slugs = dict(known.get("myst_slugs", {}))
        rows = [row for body in self.document.findall(nodes.tbody) for row in body.children]
        for row, term in zip(rows, terms(GLOSSARY.read_text(encoding="utf-8")), strict=True):
            row["ids"].append(term.anchor)
            slugs[term.anchor] = (row.line or 0, term.anchor, term.name)
        known["myst_slugs"] = slugs


class FirstUses(SphinxPostTransform):
    """Links the first use of each word on a page."""

    default_priority = 800

    def run(self, **kwargs: Any) -> None:
        """Walk over the page's texts in their order."""
        if self.env.docname.startswith(_LEFT_OUT) or self.app.builder.format != "html":
            return
        known = terms(GLOSSARY.read_text(encoding="utf-8"))
        self.finder, self.where = pattern(known)
        self.loose, self.loosely = pattern(marked(known))
        self.code = {word.strip("`"): t for t in known for word in t.spellings if word[0] == "`"}
        self.uri = self.app.builder.get_relative_uri(self.env.docname, PAGE)
        self.seen: set[str] = set()
        for text in list(self.document.findall(nodes.Text)):
            self._text(text)

    def _text(self, text: nodes.Text) -> None:
        up, above = text.parent, []
        while up is not None:
            above.append(up)
            up = up.parent
        link = next((x for x in above if isinstance(x, nodes.reference)), None)
        if link is not None:
            # A link to the glossary by hand is the first use.
            page, _, where = link.get("refuri", "").partition("#")
            if page == self.uri:
                self.seen.add(where)
                link["classes"].append("term")
            return
        literal = above[0] if isinstance(above[0], nodes.literal) else None
        if literal is not None and str(text) in self.code:
            self._code(literal, self.code[str(text)])
        elif not any(isinstance(x, _LEAVE) for x in above):
            strong = isinstance(above[0], (nodes.strong, nodes.emphasis))
            if strong and self.loose.fullmatch(str(text)):
                self._whole(text, self.loosely[str(text)])
            else:
                self._prose(text)

    def _code(self, literal: nodes.literal, term: Term) -> None:
        self._whole(literal, term)

    def _whole(self, node: nodes.Node, term: Term) -> None:
        if term.anchor not in self.seen:
            self.seen.add(term.anchor)
            link = self._link(term)
            node.parent.replace(node, link)
            link += node

    def _prose(self, text: nodes.Text) -> None:
        parts: list[nodes.Node] = []
        last, whole = 0, str(text)
        for found in self.finder.finditer(whole):
            term = self.where[found[0]]
            if term.anchor in self.seen:
                continue
            self.seen.add(term.anchor)
            link = self._link(term)
            link += nodes.Text(found[0])
            parts += [nodes.Text(whole[last : found.start()]), link]
            last = found.end()
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(whole[last:])])

    def _link(self, term: Term) -> nodes.reference:
        return nodes.reference(
            "", "", internal=True, refuri=f"{self.uri}#{term.anchor}", classes=["term"]
        )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register both transforms."""
    app.add_transform(Anchors)
    app.add_post_transform(FirstUses)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
