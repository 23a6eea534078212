"""The wheel: proofs and experiments travel inside the package, and work from there."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from iosim.report import shipped
from iosim.report.proof import theorems
from iosim.report.reproduce import find

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    folder = tmp_path_factory.mktemp("wheel")
    return zipfile.ZipFile(next(builder.build(directory=str(folder), versions=["standard"])))


def test_nothing_but_the_package_is_installed(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"iosim"}
    assert len(tops) == 2


def test_proofs_and_experiments_are_inside(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    for theorem in theorems():
        assert f"iosim/proofs/{theorem}.md" in names
        assert names & {f"iosim/proofs/{theorem}.py", f"iosim/proofs/{theorem}/__init__.py"}
    for path in (ROOT / "proofs").rglob("*.py"):
        assert f"iosim/{path.relative_to(ROOT)}" in names
    for path in find([]):
        assert f"iosim/experiments/{path.name}" in names
        for table in (ROOT / "experiments" / "data" / path.stem).glob("*.csv"):
            assert f"iosim/{table.relative_to(ROOT)}" in names
    assert "iosim/experiments/data/pebbling/optima.csv" in names
    # The table of the README's figure, which the lab shows.
    assert [n for n in names if "/docs/" in n] == [f"iosim/{Path('docs', 'img', 'verify.csv')}"]
    # What nothing reads from there stays out: the paper's LaTeX, figures, and the runs of other
    # machines.
    assert (ROOT / "proofs" / "paper" / "main.tex").is_file()
    assert not {n for n in names if "/proofs/paper/" in n}
    assert not {n for n in names if n.endswith((".png", ".svg")) or "/h100/" in n}
    assert sum(info.compress_size for info in wheel.infolist()) < 3_400_000


def test_a_wheel_of_the_sdist_is_the_same(
    wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whoever builds from the source distribution gets what the source tree gives."""
    folder = tmp_path_factory.mktemp("sdist")
    builder = pytest.importorskip("hatchling.builders.sdist").SdistBuilder(str(ROOT))
    (archive,) = builder.build(directory=str(folder), versions=["standard"])
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    root = folder / Path(archive).name.removesuffix(".tar.gz")
    wheels = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(root))
    (built,) = wheels.build(directory=str(folder), versions=["standard"])
    there = {x.filename: x.CRC for x in zipfile.ZipFile(built).infolist()}
    assert there == {x.filename: x.CRC for x in wheel.infolist()}


def test_both_commands_work_from_a_wheel(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Unpacked beside nothing else, and run from an empty folder."""
    place, empty = tmp_path / "site", tmp_path / "empty"
    wheel.extractall(place)
    empty.mkdir()

    def python(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=empty,
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": str(place)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert str(place) in python("-c", "import iosim; print(iosim.__file__)")
    # One theorem in a single file, one with parts, and an experiment that reads recorded runs.
    assert "0 failed, 0 not run" in python("-m", "iosim", "prove", "saha_ye_small")
    assert "0 failed, 0 not run" in python("-m", "iosim", "prove", "compression")
    assert "as committed" in python("-m", "iosim", "reproduce", "e03")
    assert not list(empty.iterdir())


def test_a_folder_inside_the_package_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside an installed package may lie another `experiments`."""
    package = tmp_path / "iosim"
    (tmp_path / "proofs").mkdir()
    monkeypatch.setattr(shipped, "PACKAGE", package)
    assert shipped.shipped("proofs") == tmp_path / "proofs"
    (package / "proofs").mkdir(parents=True)
    assert shipped.shipped("proofs") == package / "proofs"
