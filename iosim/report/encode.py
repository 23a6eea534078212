"""Pictures to a movie: GIF by Pillow, MP4 by ffmpeg; each is written as soon as it is there."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from iosim.base.errors import InputError, IosimError, install

# A picture, height × width × 4 bytes, and for how many frames it stays.
Picture = tuple[Any, int]

# Colors of a picture in a GIF.
_COLORS = 128


def gif(path: Path, pictures: Iterable[Picture], fps: int) -> None:
    """Write a GIF that runs for ever."""
    from PIL import Image

    def images() -> Iterator[Any]:
        shown = 0
        for picture, frames in pictures:
            # Hundredths of a second, rounded so that no error adds up.
            begin, end = (round(100 * n / fps) for n in (shown, shown + frames))
            shown += frames
            image = Image.fromarray(np.ascontiguousarray(np.asarray(picture)[..., :3]))
            image = image.quantize(_COLORS, dither=Image.Dither.NONE)
            image.info["duration"] = 10 * max(1, end - begin)
            yield image

    made = images()
    first = next(made)
    with path.open("wb") as file:
        first.save(file, format="GIF", save_all=True, append_images=made, loop=0, optimize=False)


def mp4(path: Path, pictures: Iterable[Picture], fps: int) -> None:
    """Write an MP4 (H.264) that every browser and slide program plays.

    Raises InputError where ffmpeg refuses, with its last line.
    """
    encoder = find_ffmpeg()
    with tempfile.TemporaryFile() as told, contextlib.ExitStack() as stack:
        process: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(BrokenPipeError):  # it has ended then, and has said why
            for picture, frames in pictures:
                data = np.asarray(picture)
                if process is None:
                    process = _started(encoder, path, data.shape, fps, told)
                    stack.callback(_ended, process)
                assert process.stdin is not None
                raw = data[..., :3].tobytes()
                for _ in range(frames):
                    process.stdin.write(raw)
        if process is not None:
            process.communicate()
            if process.returncode != 0:
                told.seek(0)
                lines = told.read().decode(errors="replace").strip().splitlines()
                raise InputError(f"{encoder} fails: {lines[-1] if lines else 'it says nothing'}")


def _ended(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs, and what it reads from."""
    process.kill()
    with contextlib.suppress(BrokenPipeError):
        if process.stdin is not None:
            process.stdin.close()
    process.wait()


def _started(
    encoder: str, path: Path, shape: tuple[int, ...], fps: int, told: IO[bytes]
) -> subprocess.Popen[bytes]:
    height, width, _ = shape
    command = [
        encoder,
        "-y",
        "-loglevel",
        "error",
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        f"{width}x{height}",
        "-r",
        str(fps),
        "-i",
        "-",
        "-an",
        "-c:v",
        "libx264",
        "-pix_fmt",
        "yuv420p",
        "-crf",
        "20",
        "-movflags",
        "+faststart",
        "-f",
        "mp4",
        str(path),
    ]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=told,
        start_new_session=True,  # Ctrl-C is for iosim, which ends it
    )


def find_ffmpeg() -> str:
    """The ffmpeg on the PATH, or that of imageio-ffmpeg.

    Raises IosimError with the command that installs the latter, where there is neither.
    """
    if found := shutil.which("ffmpeg"):
        return found
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ModuleNotFoundError, RuntimeError):
        raise IosimError(
            "an MP4 needs ffmpeg, which is not on the PATH: write a .gif, install ffmpeg, or run "
            f"{install('movie')}"
        ) from None
