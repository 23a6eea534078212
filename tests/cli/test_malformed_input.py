"""Malformed values for every option: every outcome is a known exit code and at most one line."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from matplotlib.figure import Figure
from test_cli import entries, iosim_

from iosim.bounds import exact_lower_bounds
from iosim.lab.page import envelope

NASTY = (
    "",
    "0",
    "-1",
    "1.5",
    "nan",
    "1e9",
    "9" * 5000,
    "1" + "0" * 30,
    "x",
    "é√",
    "a\nb",
    "\udc80",
    ":",
    "1:9:x1",
    "9:1:x2",
    "1Ki:1Gi:+1",
    ",",
    "1,,2",
    "96KiB",
    "B_r=",
    "=3",
    "B_r=" + "9" * 5000,
    "/dev/null",
    "missing/x",
    "a" * 300,
    "٣",
    "{}",
    "ucx://x:1",
)
# Enough to get past what is missing; --N, --d, --M and the like are overridden one by one.
GOOD = {
    "schedule": "flash2",
    "N": "16",
    "d": "4",
    "M": "99",
    "what": "missing",
    "sql": "SELECT 1",
    "out": "out",
    "workers": "1",
}
BOUNDS = functools.cache(exact_lower_bounds)
# Not from here: those that need a GPU, or run for minutes.
LEFT_OUT = {"reproduce", "validate", "bench", "dram", "paper"}


def parameters() -> list[Any]:
    found = []
    for words, place, _ in entries():
        if words[-1] in LEFT_OUT:
            continue
        module, _, attribute = place.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        for p in command.params:
            if isinstance(p, click.Argument) or not p.is_flag:
                found.append(pytest.param(words, command, p, id=f"{words[-1]}-{p.name}"))
    return found


@pytest.mark.numbers
@pytest.mark.parametrize(("words", "command", "nasty"), parameters())
def test_every_option_takes_any_text(
    words: tuple[str, ...],
    command: click.Command,
    nasty: click.Parameter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if words == ("verify",):  # it is the input that is looked at
        monkeypatch.setattr("iosim.report.verify.verify", _stop)
    if words == ("tightness",):
        monkeypatch.setattr("iosim.report.tightness.sweep", _stop)
    if words == ("lab",):  # its data takes seconds, and no option changes how it is made
        monkeypatch.setattr("iosim.lab.page.payload", lambda **_: envelope({}))
    monkeypatch.setattr(Figure, "savefig", drawn_once())
    monkeypatch.setattr("iosim.report.slope.exact_lower_bounds", BOUNDS)  # of the same few M
    if nasty.name == "dask":
        monkeypatch.setattr("iosim.sweep.dask", _stop)
    for text in NASTY:
        typed = list(words)
        for p in command.params:
            value = text if p is nasty else GOOD.get(str(p.name))
            if isinstance(p, click.Argument):
                typed.append(value or "missing")
            elif p is nasty or (value is not None and not p.is_flag):
                typed += [p.opts[0], str(value)]
        done = iosim_(*typed, cwd=tmp_path)
        assert done.returncode in (0, 1, 2), (typed, done)
        assert "Traceback" not in done.stdout + done.stderr
        lines = [x for x in done.stderr.splitlines() if not x.startswith("iosim: note: ")]
        if done.returncode == 2:
            assert len(lines) == 1, (typed, done)
            assert lines[0].startswith("iosim: ")
            assert len(lines[0]) < 2500


def drawn_once() -> Callable[..., None]:
    """`Figure.savefig` that draws the first figure of a kind; the others are copies of that one."""
    save, drawn = Figure.savefig, dict[str, bytes]()

    def saved(self: Figure, path: Path, *, format: str, **given: Any) -> None:
        if format in drawn:
            path.write_bytes(drawn[format])
        else:
            save(self, path, format=format, **given)
            drawn[format] = path.read_bytes()

    return saved


def _stop(*_: Any, **__: Any) -> None:
    from iosim.base.errors import InputError

    raise InputError("stopped here")
