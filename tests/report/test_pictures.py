"""The pictures of the pages: drawn again, they are what is committed, and count what proofs do."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from proofs.compression import compress, vandermonde
from proofs.compression.programs import by_tiles

HERE = Path(__file__).parents[2] / "docs" / "img"


@pytest.fixture(scope="module", name="pictures")
def _pictures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", HERE / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_committed_pictures_are_drawn_again(pictures: ModuleType) -> None:
    for name, draw in pictures.PICTURES.items():
        assert (HERE / name).read_text(encoding="utf-8") == draw(), name


def test_the_messages_of_the_picture_are_those_that_alice_sends(pictures: ModuleType) -> None:
    N, d = pictures.N, pictures.D
    program = by_tiles(N, d, pictures.SIDE, pictures.SIDE)
    drawn = list(pictures.messages(program, pictures.M))
    Q = [[(i + 3 * p) % 13 for p in range(d)] for i in range(N)]
    sent = compress(program, Q, vandermonde(N, d, 13), 13)
    assert [(start + loads, len(entries)) for start, loads, entries in drawn] == sent
    assert len({pair for _, _, entries in drawn for pair in entries}) == N * N
