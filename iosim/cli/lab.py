"""The command ``iosim lab``: writes the lab's page, or opens it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from iosim.base.errors import InputError
from iosim.cli import options as opt
from iosim.cli.launching import launch_options, read_optional_launch
from iosim.cli.watching import part_done, watching
from iosim.core.algorithms.own_file import names_file

_SUFFIXES = (".html", ".htm", ".json")


@click.command()
@click.argument("kernel", required=False, metavar="[FILE::FUNCTION]")
@launch_options(required=False)
@opt.save(
    "the page, or its data alone as NAME.json; without it, a temporary page is opened",
    old=("-o", "--out"),
    type=opt.FILE,
)
@opt.path("--exercises", "a lecturer's exercises: a TOML file")
@opt.schedule("of your own, to watch: FILE.py:FUNCTION, or several", metavar="SCHEDULE,…")
@click.option("--open/--no-open", "show", default=None, help="open the page")
def lab(
    kernel: str | None,
    save: Path | None,
    exercises: Path | None,
    schedule: str | None,
    show: bool | None,
    **given: Any,
) -> None:
    """Write the lab as one HTML page that needs no server and no network, and open it.

    With a Triton kernel, FILE::FUNCTION, and its launch, Watch begins with it. With --save, --open
    opens the page, too.
    """
    from iosim.base.memory import without_collection
    from iosim.base.writing import write_text
    from iosim.lab.exercises import exercises as read_exercises
    from iosim.lab.page import as_json, page, payload

    suffix = save.suffix.lower() if save else ".html"
    if suffix not in _SUFFIXES:
        raise InputError(f"'{save}' is not a page: name a file in {', '.join(_SUFFIXES)}")
    if kernel and "::" not in kernel and names_file(kernel):
        raise InputError(f"{kernel} is a schedule's name: give --schedule {kernel}")
    schedules = schedule.split(",") if schedule else []
    for name in schedules:
        if not names_file(name):
            raise InputError(f"--schedule {name}: give FILE.py:FUNCTION; the lab has all others")
    call = read_optional_launch("FILE::FUNCTION", kernel, given)
    for said in call.remarks if call else ():
        opt.remark(said)
    with without_collection(), watching() as line:
        own = read_exercises(exercises)
        data = payload(
            exercises=own,
            tick=lambda done, of: line(part_done(done, of, "programs and views")),
            schedules=schedules,
            launches=[call] if call else [],
        )
        text = as_json(data) if suffix == ".json" else page(data)
    where = save or Path(tempfile.mkdtemp(prefix="iosim-lab-")) / "lab.html"
    write_text(where, text)
    click.echo(f"wrote {where}")
    if show is None:
        show = save is None
    if show:
        import webbrowser

        if not webbrowser.open(where.resolve().as_uri()):
            opt.remark(f"no browser was found: open {where} with one")
