"""The lecture kit: problems have solutions that pass, and wrong answers do not."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

KIT = Path(__file__).parents[2] / "docs" / "lecture"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"lecture_{name}", KIT / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.numbers
def test_answers_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = loaded("check")
    names = check.problems()
    assert list(names) == [f"{n}{letter}" for n in (1, 2) for letter in "abcdef"]
    right = {x: check.solution(one) for x, one in names.items()}
    file = tmp_path / "answers.toml"
    file.write_text("".join(f"{x} = {v!r}\n" for x, v in right.items()))
    assert check.main(str(file)) == 0
    monkeypatch.setattr(check, "problems", lambda: names)  # to read them takes half a second
    wrong = {
        x: f"2*({v})" if one["ask"] == "formula" else "naive" if isinstance(v, str) else 3 * v
        for (x, one), v in zip(names.items(), right.values(), strict=True)
    }
    capsys.readouterr()
    for x, v in wrong.items():
        file.write_text("".join(f"{k} = {(v if k == x else y)!r}\n" for k, y in right.items()))
        assert check.main(str(file)) == 1
        said = capsys.readouterr().out.splitlines()
        assert [line[:2] for line in said if "right" not in line] == [x]
    file.write_text("1b = 7\n")
    assert check.main(str(file)) == 1
    said = capsys.readouterr().out.splitlines()
    assert all("no answer" in line for line in said if not line.startswith("1b"))


def test_there_are_twenty_slides_in_one_file() -> None:
    assert len(re.findall(r"^## \d+\.", (KIT / "slides.md").read_text(), re.M)) == 20
    pytest.importorskip("markdown_it")
    page = loaded("build").slides()
    assert page.count("<section>") == 21
    assert 'src="..' not in page
