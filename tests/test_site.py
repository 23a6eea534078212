"""The site: what its pages promise can be checked without building it."""

from __future__ import annotations

import doctest
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from iosim.bounds import BOUNDS

ROOT = Path(__file__).parent.parent
EXTENSIONS = ROOT / "docs" / "_ext"


@pytest.fixture(scope="module", name="statements")
def _statements() -> Iterator[ModuleType]:
    sys.path.insert(0, str(EXTENSIONS))
    yield importlib.import_module("statements")
    sys.path.remove(str(EXTENSIONS))


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


def test_a_bound_without_its_theorem_is_found(statements: ModuleType) -> None:
    assert not leads_nowhere("proofs/constant_tight.md#theorem-2", statements)
    assert leads_nowhere("proofs/constant_tight.md#theorem-9", statements)
    assert leads_nowhere("proofs/" + "nothing.md#theorem", statements)


def test_statements_of_a_proof_have_anchors_of_their_own(statements: ModuleType) -> None:
    for page in (ROOT / "proofs").glob("*.md"):
        found = statements.anchors(page.read_text(encoding="utf-8"))
        assert any(re.match("theorem|statements", x) for x in found), page.name
        assert len(set(found)) == len(found), page.name
    assert not doctest.testmod(statements).failed
