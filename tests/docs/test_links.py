"""Links to other sites: their form, and one way to write each; none is opened here."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "proofs").rglob("*.md"),
    *(ROOT / "proofs").rglob("*.py"),
    *(ROOT / "experiments").glob("*.md"),
    *(ROOT / "experiments").glob("*.py"),
    *(p for p in (ROOT / "iosim").rglob("*.py") if "node_modules" not in p.parts),
]
# A link ends before what closes a sentence or a link of Markdown.
_LINK = re.compile(r"https?://[^\s()<>\"'`|\]\\{}]+")
_WORDED = re.compile(r"\[([^\]]*)\]\((https?://[^)\s]+)\)")
_ARXIV = re.compile(r"https://arxiv\.org/abs/(\d{4}\.\d{5})(v\d+)?")
_DOI = re.compile(r"https://doi\.org/10\.\d{4,9}/[^\s/][^\s]*[^\s./]")
# Names of formats, which nobody opens.
_NAMESPACES = ("http://www.w3.org/",)


def links(text: str) -> list[str]:
    """The addresses in a text."""
    return [x.rstrip(".,;:") for x in _LINK.findall(text) if not x.startswith(_NAMESPACES)]


def normalize(link: str) -> str:
    """What two spellings of an address have in common."""
    return re.sub(r"^https?://(www\.)?|(v\d+)?(\.pdf)?/?$", "", link.lower()).replace(
        "/pdf/", "/abs/"
    )


def wrong(text: str) -> Iterator[str]:
    """What is wrong with the addresses and the numbers of papers in a text."""
    for link in links(text):
        if not link.startswith("https://"):
            yield f"{link}: not https"
        if "arxiv.org" in link.lower() and not _ARXIV.fullmatch(link):
            yield f"{link}: write https://arxiv.org/abs/NUMBER"
        if "doi.org" in link.lower() and not _DOI.fullmatch(link):
            yield f"{link}: write https://doi.org/10.…"
    for words, link in _WORDED.findall(text):
        said = re.search(r"\d{4}\.\d{5}|10\.\d{4,9}/\S+", words)
        if said and said[0] not in link:
            yield f"{words} leads to {link}"
    for word, between in re.findall(r"(?<![/.\w])(arxiv)([^\w]{1,3})\d{4}\.\d", text, re.I):
        if word != "arXiv" or not between.isspace():
            yield f"{word}{between}…: write arXiv NUMBER"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_addresses_have_their_form(path: Path) -> None:
    assert not list(wrong(path.read_text(encoding="utf-8")))


def test_one_address_is_written_in_one_way() -> None:
    spelt = defaultdict(set)
    for path in FILES:
        for link in links(path.read_text(encoding="utf-8")):
            spelt[normalize(link)].add(link)
    assert len(spelt) > 15
    assert not [ways for ways in spelt.values() if len(ways) > 1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("http://doi.org/10.1000/182", "not https"),
        ("https://arxiv.org/pdf/2402.07443.pdf", "write https://arxiv.org/abs/NUMBER"),
        ("https://arxiv.org/abs/240.07443", "write https://arxiv.org/abs/NUMBER"),
        ("https://dx.doi.org/10.1000/182", "write https://doi.org/10"),
        ("[arXiv 2402.07443](https://arxiv.org/abs/2402.07444)", "leads to"),
        ("arXiv:2402.07443", "write arXiv NUMBER"),
        ("Arxiv 2402.07443", "write arXiv NUMBER"),
    ],
)
def test_a_wrong_address_is_found(text: str, says: str) -> None:
    assert any(says in x for x in wrong(text))


def test_two_spellings_of_an_address_are_found() -> None:
    one, *others = "https://a.org/b", "http://a.org/b", "https://www.a.org/b/", "https://A.org/b"
    assert {normalize(x) for x in others} == {normalize(one)}
    assert normalize("https://arxiv.org/pdf/2402.07443v2") == normalize(
        "https://arxiv.org/abs/2402.07443"
    )
