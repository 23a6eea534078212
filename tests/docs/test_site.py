"""The site: what its pages promise can be checked without building it."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import iosim.bounds
from iosim.bounds import BOUNDS

ROOT = Path(__file__).parents[2]
EXTENSIONS = ROOT / "docs" / "_ext"


def extension(name: str) -> ModuleType:
    """A module of docs/_ext that needs no Sphinx."""
    spec = importlib.util.spec_from_file_location(name, EXTENSIONS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module", name="statements")
def _statements() -> ModuleType:
    return extension("statements")


@pytest.fixture(scope="module", name="terms")
def _terms() -> ModuleType:
    return extension("terms")


def leads_nowhere(link: str, statements: ModuleType) -> bool:
    """Whether a file of the repository, or the anchor in it, does not exist."""
    path, _, where = link.partition("#")
    page = ROOT / path
    return not page.is_file() or where not in statements.anchors(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", BOUNDS)
def test_a_bound_links_to_the_theorem_that_it_uses(name: str, statements: ModuleType) -> None:
    bound = BOUNDS[name]
    links = [x for x in (bound.theorem_link, bound.options_link) if x]
    assert bool(bound.proof) + bool(bound.options_proof) == len(links)
    assert not [x for x in links if leads_nowhere(x, statements)]
    # What has no proof here says why, or who proved it.
    assert links or re.search(r"^elementary|arXiv|Proposition", bound.source)


def test_the_docstring_of_a_bound_names_its_theorem() -> None:
    found = [
        importlib.import_module(m.name)
        for m in pkgutil.iter_modules(iosim.bounds.__path__, "iosim.bounds.")
    ]
    for name, bound in BOUNDS.items():
        (home,) = (m for m in found if any(x is bound for x in vars(m).values()))
        for link in filter(None, (bound.theorem_link, bound.options_link)):
            assert f"`{link}`" in (home.__doc__ or ""), name


def test_all_proofs_are_among_the_theorems(statements: ModuleType) -> None:
    text = (ROOT / "docs/reference/theorems.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"```\{statements\}\n(.*?)```", text, re.S)
    pages = {path.stem: path for path in (ROOT / "proofs").glob("*.md")}
    assert set(listed.split()) == set(pages)
    for page in pages.values():
        found = statements.statements(page.read_text(encoding="utf-8"))
        assert found, page.name
        # Every one has a number, but for a corollary that stands alone.
        assert not [x for x in found if not re.search(r" (\d|[A-Z]\b)|^Corollary", x.name)]


def test_a_bound_without_its_theorem_is_found(statements: ModuleType) -> None:
    assert not leads_nowhere("proofs/constant_tight.md#theorem-2", statements)
    assert leads_nowhere("proofs/constant_tight.md#theorem-9", statements)
    assert leads_nowhere("proofs/" + "nothing.md#theorem", statements)


def test_statements_of_a_proof_have_anchors_of_their_own(statements: ModuleType) -> None:
    for page in (ROOT / "proofs").glob("*.md"):
        found = statements.anchors(page.read_text(encoding="utf-8"))
        assert any(re.match(r"theorem-[\da]", x) for x in found), page.name
        assert len(set(found)) == len(found), page.name
    assert not doctest.testmod(statements).failed


def test_a_reader_meets_theorems_in_the_order_of_their_numbers(statements: ModuleType) -> None:
    for page in (ROOT / "proofs").glob("*.md"):
        names = [x.name for x in statements.statements(page.read_text(encoding="utf-8"))]
        numbers = [int(m[1]) for x in names if (m := re.match(r"Theorem (\d+)", x))]
        assert numbers == sorted(numbers), page.name


def test_introductory_pages_introduce_words_before_they_use_them(
    terms: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert terms.introductory()
    assert terms.main() == 0, capsys.readouterr().out
    assert not doctest.testmod(terms).failed


def test_a_word_that_is_used_too_early_is_found(terms: ModuleType) -> None:
    known = terms.terms(terms.GLOSSARY.read_text(encoding="utf-8"))
    introduced: set[str] = set()
    page = "# P\n\nFlashAttention has `M` in **SRAM**.\n\n```sh\nHBM\n```\n\nThe SRAM has tiles.\n"
    assert terms.unintroduced(page, known, introduced) == [(3, "FlashAttention"), (9, "tiles")]
    assert introduced == {"FlashAttention", "SRAM", "tile"}
    linked = "A [tile](glossary.md#tile), then a tile; d² is the square of [d](glossary.md#d)."
    assert terms.unintroduced(linked, known, set()) == [(1, "d")]
    # What an earlier page introduced is known.
    assert not terms.unintroduced("Tiles in SRAM.", known, introduced)


def test_the_glossary_has_one_line_a_word(terms: ModuleType) -> None:
    known = terms.terms(terms.GLOSSARY.read_text(encoding="utf-8"))
    spelt = [word for term in known for word in term.spellings]
    assert len(known) > 60
    assert len(set(spelt)) == len(spelt)
    assert len({term.anchor for term in known}) == len(known)
    for page in (ROOT / "docs").rglob("*.md"):
        linked = re.findall(r"glossary\.md#([\w-]+)", page.read_text(encoding="utf-8"))
        assert set(linked) <= {term.anchor for term in known}, page


def test_a_dead_link_of_the_built_site_is_found(tmp_path: Path) -> None:
    built = extension("built")
    (tmp_path / "a.html").write_text('<p id="here"><a href="b.html#there">b</a><a href="#here">')
    (tmp_path / "b.html").write_text('<a href="a.html#here"><img src="c.png"><a href="https://x">')
    assert built.dead(tmp_path) == ["a.html: b.html#there", "b.html: c.png"]
    (tmp_path / "b.html").write_text('<b id="there"><a href="a.html#here">')
    assert not built.dead(tmp_path)


def written_anchors(page: Path, statements: ModuleType, terms: ModuleType) -> set[str]:
    """What a link to a page may name: its headings, its statements, the glossary's words."""
    text = page.read_text(encoding="utf-8")
    words = {term.anchor for term in terms.terms(text)} if page == terms.GLOSSARY else set()
    return words | set(statements.anchors(text))


def test_links_lead_to_anchors_that_exist(statements: ModuleType, terms: ModuleType) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "proofs").glob("*.md")]
    dead = []
    for page in pages:
        links = re.findall(r"\]\(([\w./-]*\.md)#([^)]+)\)", page.read_text(encoding="utf-8"))
        for path, where in links:
            target = (page.parent / path).resolve()
            if where not in written_anchors(target, statements, terms):
                dead.append(f"{page.relative_to(ROOT)}: {path}#{where}")
    assert not dead
