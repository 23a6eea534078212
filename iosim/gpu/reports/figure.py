"""The figure: predicted against measured at both boundaries, and the law at DRAM."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from iosim.base.errors import InputError
from iosim.base.rows import Rows
from iosim.gpu.reports import REPORTS, SavedReport, gpu_report
from iosim.report.plot import STYLE, WIDTH, figure_rows, pyplot, save

_TALL = 3.5  # inches of a panel


def draw(saved: Iterable[SavedReport], stem: Path) -> list[Path]:
    """Write ``stem.png`` and ``stem.svg``: the panels of all reports that have some.

    Those of a report that is apart are a figure of their own, with its name after the stem, of all
    its records.

    Raises InputError if a record of one of them is missing or the figure cannot be written.
    """
    rows: dict[str, Rows] = {}
    for one in saved:
        rows.setdefault(one.report.name, []).extend(figure_rows(one.table.rows))
    with_panels = [report for report in map(gpu_report, REPORTS) if report.panels]
    reports = [report for report in with_panels if not report.apart]
    alone = [report for report in with_panels if report.apart and report.name in rows]
    if alone and not any(report.name in rows for report in reports):
        reports = []
    if missing := [report.name for report in reports if report.name not in rows]:
        raise InputError(f"the figure needs the records {', '.join(missing)}: record them")
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {stem} ({error.strerror}): choose another") from error
    plt = pyplot()
    with plt.rc_context(STYLE):
        written = []
        if panels := [(panel, rows[r.name]) for r in reports for panel in r.panels]:
            figure, axes = plt.subplots(len(panels), 1, figsize=(WIDTH, _TALL * len(panels)))
            for at, (panel, own) in zip(axes, panels, strict=True):
                panel(at, own)
            figure.tight_layout()
            written += save(figure, stem)
        for report in alone:
            figure, grid = plt.subplots(len(report.panels), 1, squeeze=False, layout="constrained")
            for at, draw_in in zip(grid.flat, report.panels, strict=True):
                draw_in(at, rows[report.name])
            # A bar of each row is legible.
            tall = [max(_TALL, 1.2 + 0.17 * len(at.get_yticks())) for at in grid.flat]
            grid[0, 0].get_gridspec().set_height_ratios(tall)
            figure.set_size_inches(WIDTH, sum(tall))
            written += save(figure, stem.with_name(f"{stem.name}-{report.name}"))
        return written
