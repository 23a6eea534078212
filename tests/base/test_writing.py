"""What every command writes: whole or not at all, through links, with the old mode, into pipes."""

from __future__ import annotations

import ast
import contextlib
import os
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_cli import iosim_

import iosim
from iosim.lab.page import envelope

SMALL = ("flash2", "--N", "24", "--d", "4", "--M", "200")
PROFILED = str(Path("experiments/data/gpu/profile/layouts/raw-base.csv").absolute())
# A command that writes one file, by the file's name.
FILES = {
    "a.iosim": ("cache", *SMALL, "--save", "OUT"),
    "a.oracleGeneral": ("cache", *SMALL, "--save", "OUT"),
    "trace.csv": ("cache", *SMALL, "--save", "OUT"),
    "page.html": ("export", *SMALL, "--save", "OUT"),
    "movie.gif": ("export", "copy", "--n", "4", "--M", "4", "--save", "OUT"),
    "lab.html": ("lab", "--save", "OUT"),
    "lab.json": ("lab", "--save", "OUT"),
    "collected.csv": ("collect", "rows", "--csv", "OUT"),
    "combined.csv": ("combine", "rows", "--out", "both", "--csv", "OUT"),
    "swept.csv": (
        "sweep",
        "--schedule",
        "copy",
        "--n",
        "9",
        "--M",
        "4",
        "--out",
        "rows",
        "--workers",
        "1",
        "--csv",
        "OUT",
    ),
}
# One that writes several, into a folder or beside each other.
SEVERAL = {
    "plot": ("plot", "words.csv", "--save", "OUT"),
    "cache": ("cache", *SMALL, "--out", "OUT"),
    "tightness": ("tightness", "--N", "8", "--d", "2", "--M", "40", "--out", "OUT"),
    "roofline": (
        "roofline",
        "matmul",
        "--m",
        "64",
        "--n",
        "64",
        "--k",
        "64",
        "--machine",
        "h100",
        "--out",
        "OUT",
    ),
    "profile": ("profile", PROFILED, "--out", "OUT"),
}
TABLE = "kind,name,N,d,M_words,total_words\nformula,a,64,8,9,50\nformula,a,64,8,99,5\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a sweep and a table."""
    # The lab's data take seconds; here is as much text.
    monkeypatch.setattr("iosim.lab.page.payload", lambda **_: envelope({}) | {"x": "x" * 9000})
    assert not iosim_(*FILES["swept.csv"][:-2], cwd=tmp_path).returncode
    (tmp_path / "words.csv").write_text(TABLE)
    return tmp_path


def words(command: tuple[str, ...], out: str) -> tuple[str, ...]:
    return tuple(out if word == "OUT" else word for word in command)


def there(folder: Path) -> dict[str, bytes | None]:
    """Every file, beside those of sweeps."""
    own = ("rows", "both")
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.relative_to(folder).parts[0] not in own
    }


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Files can't grow beyond a size, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # imports aren't cut short
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = compiles


def refused(done: Any) -> None:
    assert done.returncode == 2, done
    lines = [x for x in done.stderr.splitlines() if not x.startswith("iosim: note: ")]
    assert len(lines) == 1, done
    assert "cannot write" in lines[0]


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_whole_or_as_it_was(name: str, folder: Path) -> None:
    command = FILES[name]
    (folder / "old").mkdir()
    (folder / "old" / name).write_text("as it was")
    (folder / "old" / name).chmod(0o600)
    (folder / name).symlink_to(f"old/{name}")
    before = there(folder)
    with largest_file(20):
        refused(iosim_(*words(command, name), cwd=folder))
    assert there(folder) == before
    done = iosim_(*words(command, name), cwd=folder)
    assert done.returncode == 0, done
    assert (folder / name).is_symlink()
    assert (folder / "old" / name).stat().st_mode & 0o777 == 0o600
    assert there(folder).keys() == before.keys()
    written = (folder / name).read_bytes()
    assert written != b"as it was"

    os.mkfifo(folder / f"pipe-{name}")
    read: list[bytes] = []
    reader = threading.Thread(
        target=lambda: read.append((folder / f"pipe-{name}").read_bytes()), daemon=True
    )
    reader.start()
    done = iosim_(*words(command, f"pipe-{name}"), cwd=folder)
    assert done.returncode == 0, done
    reader.join(10)
    assert (folder / f"pipe-{name}").is_fifo()
    assert read == [written]

    (folder / f"full-{name}").symlink_to("/dev/full")
    refused(iosim_(*words(command, f"full-{name}"), cwd=folder))


@pytest.mark.parametrize("name", SEVERAL)
def test_all_files_of_a_command_are_there_or_none(name: str, folder: Path) -> None:
    before = there(folder)
    with largest_file(600):  # the first file is whole, a later one is not
        refused(iosim_(*words(SEVERAL[name], "new/x" if name != "plot" else "x"), cwd=folder))
    assert there(folder) == before
    done = iosim_(*words(SEVERAL[name], "x"), cwd=folder)
    assert done.returncode == 0, done
    assert len(there(folder)) - len(before) >= 2


@pytest.mark.parametrize(
    "more",
    [
        ("--N", "64"),
        ("--schedule", "flash3"),
        ("--schedule", "flash2", "--N", "64"),
        ("--schedule", "flash2", "--N", "64", "--d", "8", "--tiles", "B_r=1,x"),
        ("--schedule", "flash2", "--N", "64", "--d", "8", "--dtype", "fp17"),
        ("--schedule", "flash2", "--N", "64", "--d", "8"),
        ("--kernel", "("),
        ("--kernel", "nosuch"),
    ],
)
def test_a_profile_refuses_its_arguments_before_it_writes(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    done = iosim_(*words(SEVERAL["profile"], str(tmp_path / "record")), *more)
    assert done.returncode == 2, done
    assert not (tmp_path / "record").exists()


def test_a_full_disk_kills_nothing(tmp_path: Path) -> None:
    """In a process of its own, since a signal would end this one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this process can mount no disk")
    try:
        for end in ("iosim", "oracleGeneral", "csv"):
            command = words(FILES["a.iosim"], str(disk / f"x.{end}"))
            command = tuple("96" if x == "24" else x for x in command)
            done = subprocess.run(
                [iosim_.__globals__["sys"].executable, "-m", "iosim", *command],
                capture_output=True,
                text=True,
            )
            refused(done)
            assert "No space left on device" in done.stderr
            assert not list(disk.iterdir())
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# Modules that open files for writing beside `iosim.base.writing`, and why none is one that a user
# names.
ELSEWHERE = {
    "cache/files/iosim_format.py": "the part that write_trace gives",
    "cache/files/oracle_general.py": "the part that write_trace gives",
    "cache/files/plain.py": "the part that write_trace gives",
    "cli/__init__.py": "os.devnull",
    "gpu/links/tasks.py": "a temporary folder",
    "gpu/run/tasks.py": "a part",
    "lab/data/committed.py": "a file of the project",
    "report/drawing.py": "bytes in memory",
    "report/encode.py": "the part that export gives",
    "report/plot.py": "parts",
    "report/table.py": "a part",
    "sweep/folder.py": "parts of a sweep, by iosim.sweep.files.write_in_place",
    "sweep/seal.py": "a part of a sweep",
    "base/writing.py": "the writer",
}
CALLS = {
    "write_text",
    "write_bytes",
    "savefig",
    "memmap",
    "tofile",
    "savez",
    "savez_compressed",
    "copyfile",
    "copy",
}


def writes(call: ast.Call) -> bool:
    """Whether a call writes a file by its name."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    name = name or (call.func.id if isinstance(call.func, ast.Name) else "")
    if name == "write_text" and isinstance(call.func, ast.Name):
        return False  # iosim.base.writing's
    if name in ("open", "fdopen"):
        modes = [*call.args, *(k.value for k in call.keywords)]
        texts = [x.value for x in modes if isinstance(x, ast.Constant) and isinstance(x.value, str)]
        return any(set(x) <= set("rwaxbt+") and set(x) & set("wax+") for x in texts)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if name == "copy":
        return isinstance(owner, ast.Name) and owner.id == "shutil"
    return name in CALLS


def test_there_is_one_writer() -> None:
    root = Path(iosim.__file__).parent
    found = set()
    for path in sorted(root.rglob("*.py")):
        calls = (x for x in ast.walk(ast.parse(path.read_text())) if isinstance(x, ast.Call))
        if any(map(writes, calls)):
            found.add(str(path.relative_to(root)))
    assert found == ELSEWHERE.keys()
