"""Where files are written: what can't be a file is refused beforehand; links are followed."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from test_cli import iosim_, ok

from iosim.base import writing
from iosim.base.errors import InputError
from iosim.report import plot, table

SWEEP = ("sweep", "--schedule", "copy", "--n", "9", "--M", "4", "--out", "rows", "--workers", "1")
ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def bad_targets(folder: Path) -> dict[str, str]:
    """Names that can't be written to, and what is said of each."""
    (folder / "folder").mkdir()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / "socket"))
    listening.close()
    (folder / "to_folder").symlink_to("folder")
    (folder / "round").symlink_to("round")
    return {
        "": "is empty",
        ".": "is a directory",
        "folder": "is a directory",
        "to_folder": "is a directory",
        "socket": "is a socket",
        "round": "symbolic links",
        "missing/a.csv": "No such file",
        "x" * 300: "File name too long",
    }


def test_what_can_be_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, said in bad_targets(tmp_path).items():
        before = sorted(tmp_path.iterdir())
        for ask in (writing.target, lambda x: table.write_csv(x, ROWS)):
            with pytest.raises(InputError, match=said) as error:
                ask(name)
            assert "\n" not in str(error.value)
        assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", ["sweep", "collect", "combine"])
def test_a_csv_is_checked_before_the_run(command: str, tmp_path: Path) -> None:
    ok(*SWEEP, cwd=tmp_path)
    words = {
        "sweep": (*SWEEP[:-4], "--out", "new"),
        "collect": ("collect", "rows"),
        "combine": ("combine", "rows", "--out", "new"),
    }[command]
    for name, said in (bad_targets(tmp_path) | {"rows/": "is a directory"}).items():
        done = iosim_(*words, "--csv", name, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
        assert not (tmp_path / "new").exists()


def test_a_csv_is_written_through_links(tmp_path: Path) -> None:
    real, link = tmp_path / "deep" / "real.csv", tmp_path / "link.csv"
    real.parent.mkdir()
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    assert table.write_csv(link, ROWS) == real
    assert link.is_symlink()
    assert real.read_text() == "a,b\n1,x\n2,y\n"
    assert real.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in real.parent.iterdir()] == ["real.csv"]
    said = ok(*SWEEP, "--csv", "link.csv", cwd=tmp_path)
    assert f"wrote {real}" in said
    assert link.is_symlink()
    assert real.read_text().startswith("algorithm,") or "algorithm" in real.read_text()
    dangling = tmp_path / "dangling.csv"
    dangling.symlink_to(tmp_path / "deep" / "new.csv")
    assert table.write_csv(dangling, ROWS).read_text() == "a,b\n1,x\n2,y\n"
    assert dangling.is_symlink()


def test_what_fails_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("old")

    class Stop(BaseException):
        pass

    def fail(error: BaseException) -> None:
        with writing.replacing(tmp_path / "a.csv", tmp_path / "b.csv") as parts:
            for part in parts:
                part.write_text("half")
            raise error

    for error in (Stop(), KeyboardInterrupt(), ValueError(), OSError(28, "No space left")):
        with pytest.raises(InputError if isinstance(error, OSError) else type(error)):
            fail(error)
        assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a.csv": "old"}


def test_an_interrupted_figure_leaves_the_old_one(tmp_path: Path, monkeypatch: Any) -> None:
    plt = plot.pyplot()
    made = plot.save(plt.figure(), tmp_path / "f")
    assert [p.name for p in made] == ["f.png", "f.svg"]
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    figure = plt.figure()
    figure.text(0.5, 0.5, "new")
    save = figure.savefig

    def interrupted(path: Any, format: str, **other: Any) -> None:
        save(path, format=format, **other)
        if format == "svg":
            Path(path).write_bytes(Path(path).read_bytes()[:99])
            raise KeyboardInterrupt

    monkeypatch.setattr(figure, "savefig", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plot.save(figure, tmp_path / "f")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    assert not plt.get_fignums()


def test_pictures_are_checked_beforehand(tmp_path: Path) -> None:
    header = "kind,name,N,d,M_words,total_words\n"
    (tmp_path / "t.csv").write_text(header + "formula,a,64,8,9,50\nformula,a,64,8,99,5\n")
    (tmp_path / "folder").mkdir()
    for words, said in (
        (("plot", "t.csv", "--save", ""), "--save is empty"),
        (("plot", "t.csv", "--save", "."), "'.' is a directory: name the figure in it"),
        (("plot", "t.csv", "--save", "folder"), "'folder' is a directory: name the figure in it"),
        (("plot", "t.csv", "--save", "gone/x"), "cannot write 'gone/x.png' (No such file"),
        (("plot", "."), "'.' holds no sweep: give one that iosim sweep wrote"),
        (("plot", ""), "the name of the table is empty"),
        (("plot", "folder"), "'folder' holds no sweep: give one that iosim sweep wrote"),
        (("optimal", "folder", "--M", "4"), "cannot read 'folder' (it is not a file): give a file"),
        (("optimal", "", "--M", "4"), "matmul, attention, attention-backward nor a file: give one"),
        (("gpu", "figure", ".", "."), "is a directory: name the figure|holds no record"),
        (("verify", "--out", ""), "--out is empty"),
        (("tightness", "--N", "64", "--d", "8", "--M", "99", "--out", ""), "--out is empty"),
    ):
        done = iosim_(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert any(x in done.stderr for x in said.split("|")), done.stderr
        assert done.stderr.count("\n") == 1
    assert {p.name for p in tmp_path.iterdir()} == {"t.csv", "folder"}
    (tmp_path / "t.png").symlink_to("folder/real.png")
    assert f"wrote {tmp_path / 'folder' / 'real.png'}" in ok("plot", "t.csv", cwd=tmp_path)
    assert (tmp_path / "t.png").is_symlink()


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "--N", "8", "--d", "2", "--M", "40"),
        ("tightness", "--N", "8", "--d", "2", "--M", "40"),
    ],
    ids=lambda x: x[0],
)
def test_names_in_a_directory_are_checked_before_the_run(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: Any
) -> None:
    from iosim.report import tightness, verify

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("it ran")

    monkeypatch.setattr(verify, "verify", never)
    monkeypatch.setattr(tightness, "sweep", never)
    for suffix in (".csv", ".png", ".svg"):
        path = tmp_path / f"{words[0]}{suffix}"
        path.mkdir()
        done = iosim_(*words, "--out", str(tmp_path))
        assert done.returncode == 2
        assert f"{str(path)!r} is a " in done.stderr
        path.rmdir()


def test_published_files_go_through_links_too(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.csv").symlink_to(tmp_path / "real.csv")

    def make(part: Path) -> list[Path]:
        return [table.write_csv(part / "a.csv", ROWS), table.write_csv(part / "b.csv", ROWS)]

    assert writing.publish(tmp_path / "out", make) == [
        tmp_path / "real.csv",
        tmp_path / "out/b.csv",
    ]
    assert (tmp_path / "out" / "a.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == (tmp_path / "out" / "b.csv").read_text()
