"""The lecture kit: problems have solutions that pass, and wrong answers do not."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

KIT = Path(__file__).parent.parent / "docs" / "lecture"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"lecture_{name}", KIT / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_answers_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check = loaded("check")
    names = check.problems()
    assert list(names) == ["1a", "1b", "2a", "2b"]
    right = {x: one["answer"] if one["ask"] == "formula" else check.solution(one)
             for x, one in names.items()}  # fmt: skip
    file = tmp_path / "answers.toml"
    file.write_text("".join(f"{x} = {v!r}\n" for x, v in right.items()))
    assert check.main(str(file)) == 0
    file.write_text('1a = "N*d"\n1b = 7\n')
    assert check.main(str(file)) == 1
    said = capsys.readouterr().out.splitlines()[4:]
    assert all("not yet" in x for x in said[:2])
    assert all("no answer" in x for x in said[2:])


def test_there_are_twenty_slides_in_one_file() -> None:
    assert len(re.findall(r"^## \d+\.", (KIT / "slides.md").read_text(), re.M)) == 20
    pytest.importorskip("markdown_it")
    page = loaded("build").slides()
    assert page.count("<section>") == 21
    assert 'src="..' not in page
