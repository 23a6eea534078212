"""Frames of a schedule's animation, drawn by matplotlib from plain numbers: nothing is counted.

Imports matplotlib: import it where a movie is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from iosim.report.plot import load_matplotlib
from iosim.report.scene import SIGNS, THEMES, Box, Frame, Panel, Scene

matplotlib = load_matplotlib()
from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: E402
from matplotlib.collections import PatchCollection  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.patches import Rectangle  # noqa: E402

WIDTH, HEIGHT, DPI = 1280, 720, 100
# Lines of a listing that are shown at once.
LINES = 27
# Characters of a line that fit.
_COLUMNS = 54

_STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.monospace": ["DejaVu Sans Mono"],
    "text.parse_math": False,
}
# How strong the color of a tile is: of what is resident, and along a trail.
_RESIDENT, _OLDEST, _NEWEST = 0.55, 0.08, 0.38
# Places of the parts: left, bottom, width, height, of the whole.
_SLOW = (0.03, 0.34, 0.56, 0.46)
_FAST = (0.03, 0.115, 0.56, 0.075)
_CODE = (0.62, 0.29, 0.36, 0.55)
_COUNTS = (0.62, 0.035, 0.36, 0.20)
_CLOCK = (0.0, 0.0, 1.0, 0.012)


class Screen:
    """A figure on which frames of a scene are drawn, one after the other.

    What stays is drawn once.  `counters` is the text of the counts, `resident` that of the fast
    memory.
    """

    def __init__(self, scene: Scene, theme: str = "light") -> None:
        self.scene, self.colors = scene, THEMES[theme]
        with matplotlib.rc_context(_STYLE):
            self.figure = Figure(
                figsize=(WIDTH / DPI, HEIGHT / DPI),
                dpi=DPI,
                facecolor=self.colors["background"],
            )
            self.canvas = _canvas(self.figure)
            self._moving: list[Any] = []
            self._heading()
            self.panels = self._slow()
            self._fast()
            self._code()
            self.counters = self._counts()
            self._clock()
            for artist in [*self._moving, *self.lines]:
                artist.set_animated(True)
            self.canvas.draw()
            self._blank = self._still = self.canvas.copy_from_bbox(self.figure.bbox)
            self._first = -1

    def draw(self, frame: Frame) -> Any:
        """The picture of a frame: an array of height, width, 4 bytes (red, green, blue, alpha)."""
        with matplotlib.rc_context(_STYLE):
            self._draw_code(frame)
            self._draw_slow(frame)
            self._draw_fast(frame)
            self._draw_counts(frame)
            self._draw_clock(frame)
            self.canvas.restore_region(self._still)
            for artist in self._moving:
                if artist.get_visible():
                    self.figure.draw_artist(artist)
            return self.canvas.buffer_rgba()

    def _color(self, name: str) -> str:
        first = name[:1].upper()
        return self.colors[first if first in SIGNS else "other"]

    def _axes(self, place: tuple[float, float, float, float]) -> Any:
        axes = self.figure.add_axes(place)
        axes.set_axis_off()
        return axes

    def _text(self, x: float, y: float, text: str, size: float, **more: Any) -> Any:
        more.setdefault("color", self.colors["text"])
        return self.figure.text(x, y, text, fontsize=size, **({"va": "bottom"} | more))

    def _fit(self, text: Any) -> None:
        """Make a text smaller until its line fits."""
        wide = text.get_window_extent(self.canvas.get_renderer()).width
        text.set_fontsize(text.get_fontsize() * min(1.0, 0.94 * WIDTH / wide))

    def _moves(self, artist: Any) -> Any:
        self._moving.append(artist)
        return artist

    def _heading(self) -> None:
        self._fit(self._text(0.03, 0.935, self.scene.title, 17, fontweight="bold"))
        self._fit(self._text(0.03, 0.89, self.scene.subtitle, 11.5, color=self.colors["muted"]))

    def _slow(self) -> dict[str, _Matrix]:
        left, bottom, width, height = _SLOW
        self._text(left, bottom + height + 0.055, "slow memory", 12, fontweight="bold", va="center")
        self.step = self._moves(
            self._text(left + width, bottom + height + 0.055, "", 12, ha="right", va="center")
        )
        panels = self.scene.panels
        widest = max(panel.columns for panel in panels)
        tallest = max(panel.rows for panel in panels)
        wide = [max(0.3, (panel.columns / widest) ** 0.5) for panel in panels]
        gap = 0.03
        room = width - gap * (len(panels) - 1)
        found, x = {}, left
        for panel, share in zip(panels, wide, strict=True):
            w = min(room * share / sum(wide), 0.2)
            h = height * max(0.08, (panel.rows / tallest) ** 0.5)
            place = (x, bottom + height - h, w, h)
            self._text(
                x,
                place[1] + h + 0.008,
                f"{panel.name}  ",
                12,
                fontweight="bold",
                color=self._color(panel.name),
            )
            told = f"{panel.axes}\n{panel.rows:,} × {panel.columns:,}"
            self._text(x, place[1] - 0.008, told, 9, color=self.colors["muted"], va="top")
            found[panel.name] = _Matrix(self, panel, place)
            x += w + gap
        self._legend(left, 0.262)
        return found

    def _legend(self, x: float, y: float) -> None:
        """What the shades of a matrix mean."""
        color = self.colors["other"]
        for says, strength, edge in (
            ("moves now", 1.0, self.colors["text"]),
            ("a copy is in fast memory", _RESIDENT, color),
            ("moved before, in the order of the line", _NEWEST, "none"),
        ):
            mark = Rectangle(
                (x, y),
                0.014,
                0.016,
                transform=self.figure.transFigure,
                facecolor=(color, strength),
                edgecolor=edge,
            )
            self.figure.add_artist(mark)
            text = self._text(x + 0.02, y, says, 9, color=self.colors["muted"])
            x += 0.05 + text.get_window_extent(self.canvas.get_renderer()).width / WIDTH

    def _draw_slow(self, frame: Frame) -> None:
        shown: dict[str, list[tuple[Box, ...]]] = {name: [] for name in self.panels}
        for tensor, boxes in frame.trail:
            shown[tensor].append(boxes)
        held: dict[str, list[Box]] = {name: [] for name in self.panels}
        for _, _, tensor, boxes in frame.resident:
            if tensor:
                held[tensor] += boxes
        way, moved, lit = frame.moved or ("", "", ())
        for name, matrix in self.panels.items():
            matrix.draw(shown[name], held[name], lit if name == moved else ())
        if frame.last:
            said, color = f"done: {self.scene.total:,} words moved", self.colors["text"]
        elif frame.moved is None:
            said, color = "", self.colors["text"]
        else:
            words = sum((b - a) * (d - c) for a, b, c, d in lit)
            arrow = "→ fast memory" if way == "load" else "← fast memory"
            unit = "word" if words == 1 else "words"
            said, color = f"{way} {moved} {arrow}: {words:,} {unit}", self._color(moved)
        self.step.set(text=said, color=color)

    def _fast(self) -> None:
        left, bottom, width, height = _FAST
        most = max(self.scene.M, self.scene.peak)
        self.bar = self._axes(_FAST)
        self.bar.set(xlim=(0, most), ylim=(0, 1))
        self.bar.add_patch(
            Rectangle(
                (0, 0),
                self.scene.M,
                1,
                facecolor=self.colors["panel"],
                edgecolor=self.colors["line"],
                clip_on=False,
            )
        )
        self._text(left, bottom + height + 0.03, "fast memory", 12, fontweight="bold")
        self.full = self._moves(
            self._text(left + width, bottom + height + 0.03, "", 12, ha="right")
        )
        self.bar.axvline(
            self.scene.peak,
            color=self.colors["wrong"],
            linewidth=1.4,
            linestyle=":",
            clip_on=False,
        )
        self.bar.text(
            self.scene.peak,
            1.04,
            f"peak {self.scene.peak:,}",
            fontsize=9,
            va="bottom",
            ha="right" if self.scene.peak > most / 8 else "left",
            color=self.colors["wrong"],
        )
        self.resident = self._moves(
            self._text(left, bottom - 0.02, "", 10.5, va="top", family="monospace", wrap=False)
        )
        self.slots = [self._moves(self.bar.add_patch(Rectangle((0, 0), 0, 1))) for _ in range(24)]
        self.names = [
            self._moves(
                self.bar.text(
                    0,
                    0.5,
                    "",
                    ha="center",
                    va="center",
                    fontsize=12,
                    fontweight="bold",
                    color=self.colors["background"],
                )
            )
            for _ in self.slots
        ]

    def _draw_fast(self, frame: Frame) -> None:
        most = max(self.scene.M, self.scene.peak)
        at = 0
        for k, (slot, label) in enumerate(zip(self.slots, self.names, strict=True)):
            there = k < len(frame.resident)
            slot.set_visible(there)
            label.set_visible(there)
            if there:
                name, words, tensor, _ = frame.resident[k]
                slot.set(
                    x=at,
                    width=words,
                    facecolor=self._color(tensor or name),
                    edgecolor=self.colors["background"],
                    linewidth=1.0,
                )
                label.set(x=at + words / 2, text=name)
                label.set_visible(words > most * 0.022 * len(name))
                at += words
        used = sum(words for _, words, _, _ in frame.resident)
        self.full.set_text(f"{used:,} of M = {self.scene.M:,} words")
        told = [f"{name} {words:,}" for name, words, _, _ in frame.resident]
        self.resident.set_text(_wrapped(told, 88) or "empty")

    def _code(self) -> None:
        left, bottom, _, height = _CODE
        self._text(left, bottom + height + 0.015, "schedule", 12, fontweight="bold", va="center")
        self.code = self._axes(_CODE)
        self.shown = min(LINES, len(self.scene.listing))
        self.code.set(xlim=(0, 1), ylim=(LINES, 0))
        self.here = self._moves(
            self.code.add_patch(
                Rectangle(
                    (-0.01, 0), 1.02, 1, facecolor=self.colors["accent"], alpha=0.28, clip_on=False
                )
            )
        )
        self.lines = [
            self.code.text(
                0, k + 0.5, "", family="monospace", va="center", color=self.colors["text"]
            )
            for k in range(self.shown)
        ]

    def _draw_code(self, frame: Frame) -> None:
        # The listing moves only where the line is out of sight, and is a part of what stays.
        first, last = self._first, len(self.scene.listing) - self.shown
        if first < 0 or not first <= frame.line < first + self.shown:
            first = self._first = max(0, min(last, frame.line - self.shown // 3))
            self.canvas.restore_region(self._blank)
            for k, text in enumerate(self.lines):
                line = _fitting(self.scene.listing[first + k])
                text.set(text=line, fontsize=min(10.0, 10.0 * _COLUMNS / max(1, len(line))))
                self.figure.draw_artist(text)
            self._still = self.canvas.copy_from_bbox(self.figure.bbox)
        self.here.set_y(frame.line - first)
        self.here.set_visible(not frame.last)

    def _counts(self) -> Any:
        left, bottom, _, height = _COUNTS
        self._text(left, bottom + height + 0.012, "words moved", 12, fontweight="bold")
        return self._moves(
            self._text(
                left, bottom + height, "", 11.5, va="top", family="monospace", linespacing=1.25
            )
        )

    def _draw_counts(self, frame: Frame) -> None:
        names = sorted({name for _, name in self.scene.keys})
        moved = [[frame.counts.get((way, x), 0) for way in ("load", "store")] for x in names]
        sums = [sum(column) for column in zip(*moved, strict=True)]
        rows = [["", "load", "store"]]
        rows += [
            [name, *(f"{n:,}" for n in row)]
            for name, row in zip([*names, "all"], [*moved, sums], strict=True)
        ]
        wide = max(len(f"{self.scene.total:,}"), 5)
        first = max(len(row[0]) for row in rows)
        lines = [f"{name:<{first}}  {a:>{wide}}  {b:>{wide}}" for name, a, b in rows]
        lines.append(f"{sum(sums):,} of {self.scene.total:,}")
        self.counters.set_text("\n".join(lines))
        _, _, width, height = _COUNTS
        room = 0.72 * HEIGHT * height / (1.25 * len(lines)), 1.2 * WIDTH * width / len(lines[0])
        self.counters.set_fontsize(min(11.5, *room))

    def _clock(self) -> None:
        self.clock = self._axes(_CLOCK)
        self.clock.set(xlim=(0, 1), ylim=(0, 1))
        self.clock.add_patch(Rectangle((0, 0), 1, 1, facecolor=self.colors["line"]))
        self.passed = self._moves(
            self.clock.add_patch(Rectangle((0, 0), 0, 1, facecolor=self.colors["accent"]))
        )

    def _draw_clock(self, frame: Frame) -> None:
        self.passed.set_width(sum(frame.counts.values()) / max(1, self.scene.total))


def _fitting(line: str) -> str:
    """A line of a listing; the remark on its mathematics is left out where it doesn't fit."""
    return line if len(line) <= _COLUMNS else line.split("  ▷ ")[0]


def _canvas(figure: Any) -> Any:
    return FigureCanvasAgg(figure)


class _Matrix:
    """A tensor in slow memory: what is resident is outlined, what moves is lit, with its trail."""

    def __init__(
        self, stage: Screen, panel: Panel, place: tuple[float, float, float, float]
    ) -> None:
        self.panel = panel
        self.axes = stage._axes(place)
        self.axes.set(xlim=(0, panel.columns), ylim=(panel.rows, 0))
        self.axes.add_patch(
            Rectangle(
                (0, 0),
                panel.columns,
                panel.rows,
                facecolor=stage.colors["panel"],
                edgecolor=stage.colors["line"],
                clip_on=False,
            )
        )
        self.color = stage._color(panel.name)
        # What is a fraction of a pixel is widened to one that can be seen.
        self.least = (
            4 * panel.columns / (place[2] * WIDTH),
            4 * panel.rows / (place[3] * HEIGHT),
        )
        self.faded = stage._moves(self.axes.add_collection(PatchCollection([])))
        self.held = stage._moves(self.axes.add_collection(PatchCollection([])))
        (self.path,) = self.axes.plot(
            [], [], color=stage.colors["text"], linewidth=1.1, alpha=0.6, marker=".", markersize=3
        )
        stage._moves(self.path)
        self.axes.set(xlim=(0, panel.columns), ylim=(panel.rows, 0))
        self.bright = stage.colors["text"]
        self.lit = stage._moves(self.axes.add_collection(PatchCollection([])))

    def draw(
        self, trail: Sequence[tuple[Box, ...]], held: Sequence[Box], lit: Sequence[Box]
    ) -> None:
        """Show a trail, oldest first, what is resident, and what moves now."""
        by = (_NEWEST - _OLDEST) / max(1, len(trail))
        strength = [_OLDEST + by * (k + 1) for k, boxes in enumerate(trail) for _ in boxes]
        self._set(self.faded, [box for boxes in trail for box in boxes], strength)
        self._set(self.held, held, [_RESIDENT] * len(held), self.color)
        self._set(self.lit, lit, [1.0] * len(lit), self.bright)
        centres = [_centre(boxes) for boxes in trail if boxes]
        self.path.set_data([x for x, _ in centres], [y for _, y in centres])

    def _set(
        self, patches: Any, boxes: Sequence[Box], alphas: Sequence[float], edge: str = "none"
    ) -> None:
        color = matplotlib.colors.to_rgba_array([(self.color, a) for a in alphas])
        patches.set_paths([self._rectangle(box) for box in boxes])
        patches.set_facecolor(color)
        patches.set_edgecolor(edge)
        patches.set_linewidth(1.0)

    def _rectangle(self, box: Box) -> Rectangle:
        top, bottom, left, right = box
        w, h = max(right - left, self.least[0]), max(bottom - top, self.least[1])
        x = min(left, self.panel.columns - w) if w <= self.panel.columns else 0
        y = min(top, self.panel.rows - h) if h <= self.panel.rows else 0
        return Rectangle((x, y), min(w, self.panel.columns), min(h, self.panel.rows))


def _centre(boxes: Sequence[Box]) -> tuple[float, float]:
    top, bottom, left, right = boxes[0]
    return (left + right) / 2, (top + bottom) / 2


def _wrapped(parts: Sequence[str], width: int) -> str:
    """Parts with commas, in lines no longer than a width where they fit."""
    lines = [""]
    for part in parts:
        joined = f"{lines[-1]}, {part}" if lines[-1] else part
        if len(joined) > width and lines[-1]:
            lines.append(part)
        else:
            lines[-1] = joined
    return ",\n".join(lines)
