"""One schedule's animation in a file of its own: a page with the lab's Watch view, or a movie.

``iosim export`` calls it.  A new format of file is added here and in `iosim.report.encode`.
``tests/lab/test_export.py`` tests pages, movies and messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from iosim.base.errors import InputError, closest
from iosim.base.writing import replacing, target, write_text
from iosim.core.program.walk import Instance
from iosim.lab.data.watch import data_of
from iosim.lab.page import envelope, page
from iosim.lab.shots import length, scene, shots
from iosim.report import encode
from iosim.report.scene import THEMES

# Frames of a second, if nobody says how many.
FPS = 12
_ENCODERS = {".gif": encode.gif, ".mp4": encode.mp4}
SUFFIXES = (".html", *_ENCODERS)


def export(
    instance: Instance,
    path: Path,
    *,
    M: int | None = None,
    title: str = "",
    fps: int = FPS,
    seconds: float | None = None,
    theme: str = "light",
    tick: Callable[[int, int], object] = lambda done, of: None,
) -> Path:
    """Write the animation of an instance, whole or not at all, in the format that the suffix says.

    Args:
        instance: what runs.
        path: the file; its suffix is one of `SUFFIXES`.
        M: words of fast memory; by default the most that the instance holds.
        title: one line about it.
        fps, seconds: of a movie, as for `iosim.lab.shots.shots`.
        theme: of a movie, a key of `iosim.report.scene.THEMES`.
        tick: called as ``tick(done, of)`` while the frames of a movie are written.

    Returns where it was written.  Raises InputError for another suffix, an unknown theme, and what
    cannot be written, and IosimError where no encoder is installed.
    """
    check_path(path)
    if path.suffix == ".html":
        told = envelope({"watch": data_of(instance, M)})
        text = page(told, f"{instance.program.name}: {title}" if title else instance.program.name)
        return write_text(path, text)
    if theme not in THEMES:
        raise InputError(f"unknown theme {theme!r}: {closest(theme, THEMES)}")
    if path.suffix == ".mp4":
        encode.find_ffmpeg()  # before anything is drawn
    pictures = _pictures(instance, M, title, fps, seconds, theme, tick)
    with replacing(path) as (part,):
        _ENCODERS[path.suffix](part, pictures, fps)
    return target(path)


def check_path(path: Path) -> None:
    """Raise InputError for an unknown suffix."""
    if path.suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise InputError(f"{str(path)!r} has no known suffix: name a file in {known}")


def _pictures(
    instance: Instance,
    M: int | None,
    title: str,
    fps: int,
    seconds: float | None,
    theme: str,
    tick: Callable[[int, int], object],
) -> Iterator[encode.Picture]:
    from iosim.report.movie import Screen

    stage = Screen(scene(instance, M, title), theme)
    done, of = 0, length(instance, fps, seconds).frames
    for shot in shots(instance, fps, seconds):
        yield stage.draw(shot.frame), shot.frames
        done += shot.frames
        tick(done, of)
