"""The figure: predicted against measured at both boundaries, and the law at DRAM."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from iosim.errors import InputError
from iosim.gpu.reports import REPORTS, SavedReport, gpu_report
from iosim.output.plot import pyplot, save


def draw(saved: Iterable[SavedReport], stem: Path) -> list[Path]:
    """Write ``stem.png`` and ``stem.svg``: the panels of all reports that have some.

    Raises InputError if a record of one of them is missing or the figure cannot be written.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for one in saved:
        rows.setdefault(one.report.name, []).extend(one.table.rows)
    reports = [report for report in map(gpu_report, REPORTS) if report.panels]
    if missing := [report.name for report in reports if report.name not in rows]:
        raise InputError(f"the figure needs the records {', '.join(missing)}: record them")
    panels = [(panel, rows[report.name]) for report in reports for panel in report.panels]
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {stem} ({error.strerror}): choose another") from error
    plt = pyplot()
    style: Any = {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "font.size": 9,
        "savefig.dpi": 150,
        "svg.hashsalt": "iosim",
    }
    with plt.rc_context(style):
        figure, axes = plt.subplots(1, len(panels), figsize=(4.5 * len(panels), 4.4))
        for at, (panel, own) in zip(axes, panels, strict=True):
            panel(at, own)
        figure.tight_layout()
        return save(figure, stem)
