"""Figures that notebooks show by themselves.  Imports matplotlib: import it where one is drawn."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any

from iosim.report.plot import STYLE, figure_rows, load_matplotlib

matplotlib = load_matplotlib()
from matplotlib.figure import Figure  # noqa: E402


class Drawing(Figure):
    """A matplotlib Figure that belongs to no window, and that a notebook shows once.

    pyplot would show its figures a second time at the end of a cell, and would need a backend.
    """

    def _repr_png_(self) -> bytes:
        data = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            self.savefig(data, format="png")
        return data.getvalue()


def drawing(**attributes: Any) -> tuple[Any, Any]:
    """A figure in iosim's style, and its axes.

    Args:
        attributes: of `matplotlib.figure.Figure`; `nrows`, `sharex` and `height_ratios` are
            those of its axes.
    """
    names = ("nrows", "sharex", "height_ratios")
    grid = {name: attributes.pop(name) for name in names if name in attributes}
    with matplotlib.rc_context(STYLE):
        figure = Drawing(**({"layout": "constrained"} | attributes))
        return figure, figure.subplots(**grid)


def styled(draw: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that draws rows in iosim's style; texts of rows are texts, whatever they hold."""

    @functools.wraps(draw)
    def call(rows: Any) -> Any:
        with matplotlib.rc_context(STYLE):
            return draw(figure_rows(rows))

    return call
