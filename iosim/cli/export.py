"""The command ``iosim export``: the animation of one schedule in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from iosim.base.errors import InputError
from iosim.cli import options as opt
from iosim.cli.renames import option
from iosim.cli.watching import part_done, watching
from iosim.core.algorithms import Algorithm, algorithm
from iosim.core.program.walk import Instance, bind
from iosim.core.tiling.rules import RULES, choose_tiles
from iosim.core.units import parse_tiles, tiles_like

# A longer or faster movie is treated as a typing error.
MOST_SECONDS, MOST_FPS = 600, 60


@click.command()
@opt.schedule_argument
@opt.save("page.html, movie.mp4 or movie.gif", old=("-o", "--out"), type=opt.FILE)
@opt.memory("as for count; the most that the tiles hold if not given")
@opt.sizes()
@opt.model
@opt.tile_sizes("as for count: auto (with --M), a rule, or B_r=64,B_c=64")
@opt.mask
@opt.dtype
@click.option(
    "--fps", type=opt.Integer(1, MOST_FPS), help="frames per second of a movie; 12 if not given"
)
@option(
    "--duration",
    old=("--seconds",),
    type=opt.Real(f"above 0 and up to {MOST_SECONDS}", lambda x: 0 < x <= MOST_SECONDS),
    help="seconds that a movie takes; at most 20 if not given",
)
@click.option("--theme", help="light or dark, of a movie; light if not given")
def export(
    schedule: str,
    save: Path | None,
    M: str | None,
    sizes: opt.Sizes,
    model: str | None,
    tiles: str | None,
    mask: str | None,
    dtype: str | None,
    fps: int | None,
    duration: float | None,
    theme: str | None,
) -> None:
    """Write one schedule's animation, for a slide or a blog: a page, an MP4 or a GIF."""
    if save is None:
        like = "flash2.html, flash2.mp4 or flash2.gif"
        raise InputError(f"--save is missing: name the file, like {like}")
    from iosim.lab import export as lab

    lab.check_path(save)
    movie = {
        name: value
        for name, value in (("fps", fps), ("duration", duration), ("theme", theme))
        if value is not None
    }
    if movie and save.suffix == ".html":
        raise InputError(f"--{next(iter(movie))} is for movies, and {str(save)!r} is a page")
    found = algorithm(schedule)
    words = None if M is None else opt.words_from(M, dtype)
    instance = _instance(
        found, opt.problem_from(found.problem.kind, sizes, model), words, tiles, mask
    )
    with watching() as show_line:
        made = lab.export(
            instance,
            save,
            M=words,
            title=found.title,
            theme=theme or "light",
            fps=fps or lab.FPS,
            seconds=duration,
            tick=lambda done, of: show_line(part_done(done, of, "frames")),
        )
    click.echo(f"wrote {made}")


def _instance(
    found: Algorithm, problem: Any, M: int | None, tiles: str | None, mask: str | None
) -> Instance:
    """The schedule with its tiles: those that are given, or chosen for M."""
    if M is not None:
        choice = choose_tiles(found, problem, M, tiles or "auto", opt.masks(mask))
        opt.remark(choice.remark)
        return choice.instance
    program = found.program_for(problem)
    names = [p.name for p in program.params]
    if tiles is None or tiles in (*RULES, *found.rules):
        raise InputError(f"M is missing: give --M (24576), or all tiles: {tiles_like(names)}")
    return bind(program, problem.sizes, parse_tiles(tiles, names), opt.masks(mask))
