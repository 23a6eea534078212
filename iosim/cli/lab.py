"""lab."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from iosim.cli import options as opt


@click.command()
@click.option("-o", "--out", type=opt.FILE, help="the page to write; a temporary file if not given")
@click.option("--exercises", type=opt.PATH, help="a lecturer's exercises: a TOML file")
@click.option("--open/--no-open", "show", default=None, help="open it; without -o it is opened")
def lab(out: Path | None, exercises: Path | None, show: bool | None) -> None:
    """Write the lab as one HTML page that needs no server and no network, and open it."""
    from iosim.lab.page import page, payload
    from iosim.output.table import replacing

    text = page(payload())
    where = out or Path(tempfile.mkdtemp(prefix="iosim-lab-")) / "lab.html"
    with replacing(where) as (part,):
        part.write_text(text, encoding="utf-8")
    click.echo(f"wrote {where}")
    if show or (show is None and out is None):
        import webbrowser

        webbrowser.open(where.resolve().as_uri())
