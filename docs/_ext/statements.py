"""Theorems, lemmas and corollaries in the text of a page: what each is called, and its anchor."""

from __future__ import annotations

import re
from dataclasses import dataclass

_KINDS = "Theorem|Lemma|Proposition|Corollary"
# What a statement begins with in bold, and how a text refers to it.
NAMED = re.compile(rf"({_KINDS})(?:\s+(\d+|[A-Z])(′?))?")
# How a text refers to one of these by its number.
MENTION = re.compile(rf"\b({_KINDS})\s+(\d+|[A-Z])(′?)(?![\w′]|\.\d)")
_STATED = re.compile(
    rf"^\*\*((?:{_KINDS})\b[^*]*?)\.?\*\*|^#+ ((?:{_KINDS})(?: (?:\d+|[A-Z]))?)$", re.M
)
_HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.M)


@dataclass(frozen=True)
class Statement:
    """A theorem or what leads to one: its name as the page writes it, and its anchor."""

    name: str
    anchor: str


def anchor(name: str) -> str:
    """The anchor of a statement: its kind and its number.

    >>> anchor("Lemma 3 (Loomis–Whitney)"), anchor("Lemma 7′"), anchor("Corollary (cold start)")
    ('lemma-3', 'lemma-7-prime', 'corollary')
    """
    found = NAMED.match(name)
    if not found:
        raise ValueError(f"{name!r} is no statement: it begins with none of {_KINDS}")
    kind, number, prime = found.groups()
    return "-".join(filter(None, [kind.lower(), (number or "").lower(), prime and "prime"]))


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub and the site make it.

    >>> slug("7. The other exact bounds")
    '7-the-other-exact-bounds'
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def title(text: str) -> str:
    """The first heading of a page.

    >>> title("# A bound")
    'A bound'
    """
    return str(_HEADING.findall(text)[0])


def statements(text: str) -> list[Statement]:
    """The statements of a page in Markdown, in their order: in bold, or as headings of their own.

    >>> statements("**Lemma 1.** a ≤ b.\\n\\n**Corollary (cold start).** ...")[1].anchor
    'corollary'
    """
    return [
        Statement(name, anchor(name)) for pair in _STATED.findall(text) for name in pair if name
    ]


def anchors(text: str) -> list[str]:
    """Every anchor of a page in Markdown: of headings and of statements."""
    headings = [slug(x) for x in _HEADING.findall(text)]
    return headings + [x.anchor for x in statements(text) if x.anchor not in headings]
