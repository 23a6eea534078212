"""A view's styles reach that view alone: all of them are nested under its class."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

VIEWS = Path(__file__).parents[2] / "iosim" / "lab" / "front" / "src" / "views"
SHEETS = sorted(VIEWS.glob("**/*.css"))


def loose(text: str, view: str) -> list[str]:
    """What of a style sheet is outside `.view-VIEW { … }`, or leaves it again."""
    found, depth, word = [], 0, ""
    for piece in re.split(r"([{}])", re.sub(r"/\*.*?\*/", "", text, flags=re.S)):
        if piece == "{":
            if depth == 0 and word != f".view-{view}":
                found.append(word)
            if re.match(r"@(keyframes|font-face|property|layer)|:root|:host", word):
                found.append(word)
            depth += 1
        elif piece == "}":
            depth -= 1
        else:
            # Of a rule's block, what is behind the last declaration.
            word = piece.rsplit(";", 1)[-1].strip()
            if depth == 0 and word.startswith("@import"):
                found.append(word)
    return found


@pytest.mark.parametrize("path", SHEETS, ids=lambda x: x.name)
def test_a_views_styles_are_under_its_class(path: Path) -> None:
    view = path.relative_to(VIEWS).parts[0]
    assert loose(path.read_text(encoding="utf-8"), view) == []


def test_every_view_has_a_sheet() -> None:
    assert {x.parent.name for x in SHEETS} == {x.parent.name for x in VIEWS.glob("*/index.tsx")}


@pytest.mark.parametrize(
    ("text", "outside"),
    [
        (".view-a { .x { y: 1 } }", []),
        ("/* .b { } */ .view-a { @container lab (x) { .x { y: 1; } } .z:hover { y: 2 } }", []),
        (".view-a { .x { y: 1 } } .b { y: 2 }", [".b"]),
        (".view-b { .x { y: 1 } }", [".view-b"]),
        (".view-a { } @media print { .b { y: 2 } }", ["@media print"]),
        (".iosim-lab .view-a { y: 2 }", [".iosim-lab .view-a"]),
        (".view-a { @keyframes turn { to { y: 2 } } }", ["@keyframes turn"]),
    ],
)
def test_what_is_outside_is_found(text: str, outside: list[str]) -> None:
    assert loose(text, "a") == outside
