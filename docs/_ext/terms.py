"""The glossary's words, and whether introductory pages introduce them before they use them.

``python docs/_ext/terms.py`` checks the pages that say ``<!-- introductory -->``, in the order in
which docs/index.md lists them.  A page introduces a word where it prints it **bold** or links it
to the glossary; a word that an earlier page introduced is known.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
GLOSSARY = ROOT / "docs" / "glossary.md"
MARK = "<!-- introductory -->"


@dataclass(frozen=True)
class Term:
    """A word of the glossary, in all its spellings.

    Those in backticks are looked for in code; those in parentheses are ordinary words, too, and
    are looked for where a page prints them bold or in italics (`marked`).
    """

    name: str
    spellings: tuple[str, ...]

    @property
    def anchor(self) -> str:
        """Where it stands in the glossary.

        >>> Term("fast memory", ("fast memory",)).anchor
        'fast-memory'
        """
        return re.sub(r"\W+", "-", self.name.lower()).strip("-")


def terms(text: str) -> list[Term]:
    """The terms of a glossary in Markdown, in its order.

    >>> terms("| word | what |\\n|---|---|\\n| B_r, B_c | rows | |\\n")
    [Term(name='B_r', spellings=('B_r', 'B_c'))]
    """
    cells = re.findall(r"^\| (.+?) \|", text, re.M)[1:]
    names = [tuple(x.strip() for x in cell.split(",")) for cell in cells if set(cell) != {"-"}]
    return [Term(spelt[0], spelt) for spelt in names]


def pattern(known: Iterable[Term]) -> tuple[re.Pattern[str], Mapping[str, Term]]:
    """What finds the terms in a text, the longest first, and each found text's term.

    Words may be plural and begin with a capital; what has a capital or an underscore stands as
    it is.  Spellings in backticks are left to whoever knows what is code.
    """
    where: dict[str, Term] = {}
    for term in known:
        for word in term.spellings:
            if word.startswith(("`", "(")):
                continue
            where[word] = term
            if len(word) > 2 and word[0].islower():
                forms = {word} if word.endswith("s") else {word, word + "s"}
                where |= dict.fromkeys(forms, term) | {x[0].upper() + x[1:]: term for x in forms}
    words = "|".join(re.escape(x) for x in sorted(where, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])(?:{words})(?![A-Za-z0-9_])"), where


def marked(known: Iterable[Term]) -> list[Term]:
    """The spellings in parentheses, without them.

    >>> marked([Term("cache line", ("cache line", "(line)")), Term("M", ("M",))])
    [Term(name='cache line', spellings=('line',))]
    """
    found = [Term(t.name, tuple(w[1:-1] for w in t.spellings if w[0] == "(")) for t in known]
    return [t for t in found if t.spellings]


# What is no prose: fences, code, images, comments, targets of links, formulas.
_FENCE = re.compile(r"^```.*?^```", re.M | re.S)
_CODE = re.compile(r"`[^`\n]*`|!\[[^\]]*\]\([^)]*\)|<!--.*?-->|\$\$.*?\$\$|<[^>\n]*>", re.S)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)]*)\)")
_BOLD = re.compile(r"\*\*(.+?)\*\*", re.S)


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def unintroduced(page: str, known: list[Term], introduced: set[str]) -> list[tuple[int, str]]:
    """Lines and words of a page in Markdown that are used before they are introduced.

    Args:
        page: its text.
        known: the glossary.
        introduced: names of the terms that earlier pages introduced; this page's are added.

    >>> terms_ = [Term("tile", ("tile",))]
    >>> unintroduced("A tile is a part.", terms_, set())
    [(1, 'tile')]
    >>> unintroduced("A **tile** is a part. Tiles may be short.", terms_, set())
    []
    """
    text = _CODE.sub(_blank, _FENCE.sub(_blank, page))
    marked = [found.span() for found in _BOLD.finditer(text)]
    marked += [found.span(1) for found in _LINK.finditer(text) if "glossary.md#" in found[2]]
    # Targets are no prose, and texts of links are.
    text = _LINK.sub(lambda x: f" {x[1]}  {' ' * len(x[2])} ", text)
    finder, where = pattern(known)
    missing = []
    for found in finder.finditer(text):
        term = where[found[0]]
        if term.name in introduced:
            continue
        introduced.add(term.name)
        if not any(a <= found.start() and found.end() <= b for a, b in marked):
            missing.append((text.count("\n", 0, found.start()) + 1, found[0]))
    return missing


def introductory() -> list[Path]:
    """The marked pages, in the order of docs/index.md."""
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    entries = [
        re.sub(r".*<(.*)>", r"\1", line.strip())
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", index, re.M | re.S)
        for line in block.splitlines()
        if line.strip() and not line.startswith(":")
    ]
    pages = [(ROOT / "docs" / f"{entry}.md").resolve() for entry in entries]
    return [p for p in pages if MARK in p.read_text(encoding="utf-8").splitlines()]


def main() -> int:
    """Print every word that is used too early; 1 if there is one."""
    known = terms(GLOSSARY.read_text(encoding="utf-8"))
    introduced: set[str] = set()
    found = [
        f"{page.relative_to(ROOT)}:{line}: {word!r} is used before it is introduced: print it "
        "**bold** and say what it is, or link it to the glossary"
        for page in introductory()
        for line, word in unintroduced(page.read_text(encoding="utf-8"), known, introduced)
    ]
    print("\n".join(found) or "every word is introduced before it is used")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
